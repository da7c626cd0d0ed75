"""Runs sequences of requests on a real API server and on the model, and compares answers and watches."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from tests.support.apiserver.generator import DEFINITION, SENT, Step, TestedKind
from tests.support.servers import Server
from tests.support.waiting import comes

from podium.minors.minor import Minor
from podium.simulation.apiserver.messages import ApiRequest
from podium.simulation.apiserver.patching import merge_patch
from podium.simulation.apiserver.server import ApiServer, Handling
from podium.simulation.apiserver.storage import Watch

_END = "end"
_PLACE = re.compile(r"\{(uid|version|stale) ([^}]*)\}")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_VERSION = re.compile(r"(?<=\()\d+(?=\))")


class Answer(NamedTuple):
    """The code and the decoded body of an answer."""

    code: int
    body: Any


class RealSide:
    """A real API server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def ask(self, step: Step) -> Answer:
        """Send a request."""
        path = f"{step.path}?{urlencode(step.query)}" if step.query else step.path
        return Answer(*self._server.request(step.method, path, step.body, step.content_type))

    def events(self, paths: Sequence[tuple[str, str]], since: str) -> list[list[Any]]:
        """Return the events of watches since a version, each up to the object END."""
        with ThreadPoolExecutor(len(paths)) as pool:
            return list(pool.map(lambda path: self._events(path[0], path[1], since), paths))

    def _events(self, path: str, end: str, since: str) -> list[Any]:
        lines = []
        with closing(self._server.access.client()) as client:
            query = urlencode({"watch": "1", "resourceVersion": since, "timeoutSeconds": "60"})
            client._connection.request("GET", f"{path}?{query}", headers=dict(client._headers))
            response = client._connection.getresponse()
            for line in response:
                event = msgspec.json.decode(line)
                if event["object"].get("metadata", {}).get("name") == end:
                    break
                lines.append(event)
        return lines


class ModelSide:
    """The model; its UIDs have the form of real ones."""

    def __init__(self, minor: Minor, seed: int) -> None:
        random = Random(seed)
        self.server = ApiServer(
            minor, lambda: datetime.now(UTC), lambda: _uid(random), lambda: f"{random.randrange(16**5):05x}"
        )

    def ask(self, step: Step) -> Answer:
        """Send a request."""
        body = b"" if step.body is None else msgspec.json.encode(step.body)
        response = self.server.answer(ApiRequest(step.method, step.path, step.query, body, step.content_type))
        return Answer(response.code, msgspec.json.decode(response.body))

    def events(self, paths: Sequence[tuple[str, str]], since: str) -> list[list[Any]]:
        """Return the events of watches since a version, each up to the object END."""
        return [list(self._events(path, end, since)) for path, end in paths]

    def _events(self, path: str, end: str, since: str) -> Iterable[Any]:
        handling = self.server.handle(ApiRequest("GET", path, {"watch": "1", "resourceVersion": since}))
        for line in watch_of(handling).take(10**9):
            event = msgspec.json.decode(line)
            if event["object"].get("metadata", {}).get("name") == end:
                return
            yield event


def watch_of(handling: Handling) -> Watch:
    """Return the watch that a request begins."""
    try:
        next(handling)
    except StopIteration as done:
        watch: Watch = done.value
        return watch
    raise AssertionError("a watch calls no webhook")


def _uid(random: Random) -> str:
    text = f"{random.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class AcceptedDifference(NamedTuple):
    """A difference that the model may have, and the reason."""

    reason: str
    allows: Callable[[Any, Any], bool]


def _has_more_faults(real: Any, model: Any) -> bool:
    """Return whether the server reports the model's fault, and others."""
    if not isinstance(real, dict) or real.get("reason") != "Invalid" or model.get("reason") != "Invalid":
        return False
    return model["message"].partition(" is invalid: ")[2].strip("[]") in real["message"]


DIFFERENCES = (
    AcceptedDifference(
        "The model stops at the first fault of an object, because no decision reads further ones.",
        _has_more_faults,
    ),
)
# Texts that differ, and what both sides show instead.
TEXTS = {
    # Go prints the comparison of two objects. The prefix of a key depends on the cache that noticed the UID.
    r"(pod updates may not change fields other than [^\n]*)\n(?s:.*?)(?=, metadata\.|\]?\Z)": r"\1",
    "Key: /registry/": "Key: /",
}


Side = RealSide | ModelSide


class Story(NamedTuple):
    """A sequence with the normalised answers of one side, and its namespace there."""

    steps: Sequence[Step]
    namespace: str
    answers: list[Answer]


def prepare(side: Side) -> None:
    """Create what all sequences need: a namespace for objects that end watches, the custom resource."""
    for path, body in (
        ("/api/v1/namespaces", {"metadata": {"name": _END}}),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
        *(
            ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
            for name, value in (("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000))
        ),
    ):
        code, answer = side.ask(Step("POST", path, body=body))
        assert code in (201, 409), answer
    things = Step("GET", "/apis/example.dev/v1/namespaces/end/things")
    comes(lambda: side.ask(things).code == 200)


def told(side: Side, steps: Sequence[Step], number: int) -> Story:
    """Run a sequence in a new namespace."""
    namespace = f"seq-{number}"
    code, answer = side.ask(Step("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}}))
    assert code == 201, answer
    seen: dict[str, list[Any]] = defaultdict(list)
    answers = []
    for step in steps:
        answer = side.ask(_resolved(step, namespace, seen))
        answers.append(answer)
        metadata = answer.body.get("metadata", {}) if isinstance(answer.body, dict) else {}
        if "dryRun" in step.query and answer.code == 201:
            metadata.pop("resourceVersion", None)
        elif "dryRun" not in step.query and "uid" in metadata:
            plural = next(
                part for part in step.path.split("/")[::-1] if part.endswith("s") and part != "status"
            )
            seen[f"{plural}/{metadata['name']}"].append(answer.body)
    return Story(steps, namespace, answers)


def _resolved(step: Step, namespace: str, seen: Mapping[str, list[Any]]) -> Step:
    """Return a request as one side sends it."""

    def filled(text: str) -> str:
        return _PLACE.sub(lambda match: _known(seen, match[1], match[2]), text.replace("{ns}", namespace))

    def resolved(value: Any) -> Any:
        match value:
            case dict() if SENT in value:
                place = value[SENT]
                known = seen.get(place.replace("{ns}", namespace))
                base = known[-1] if known else resolved(value["unseen"])
                return merge_patch(base, resolved(value["change"]))
            case dict():
                return {name: resolved(part) for name, part in value.items()}
            case list():
                return [resolved(item) for item in value]
            case str():
                return filled(value)
            case _:
                return value

    return step._replace(path=filled(step.path), body=resolved(step.body))


def _known(seen: Mapping[str, list[Any]], what: str, place: str) -> str:
    objects = seen.get(place)
    if not objects:
        return "33333333-3333-3333-3333-333333333333" if what == "uid" else "1"
    metadata = objects[0 if what == "stale" else -1]["metadata"]
    value: str = metadata["uid" if what == "uid" else "resourceVersion"]
    return value


class _Names:
    """The names of UIDs and versions in order, so that two sides can be compared."""

    def __init__(self, values: Iterable[Any], namespace: str) -> None:
        self._namespace = namespace
        self._uids: dict[str, str] = {}
        versions: set[str] = set()
        for value in values:
            self._collect(value, versions)
        self._versions = {version: f"v{rank}" for rank, version in enumerate(sorted(versions, key=int))}

    def _collect(self, value: Any, versions: set[str]) -> None:
        if isinstance(value, dict):
            metadata = value.get("metadata")
            if isinstance(metadata, dict) and "uid" in metadata:
                if metadata.get("resourceVersion"):
                    versions.add(metadata["resourceVersion"])
                self._uids.setdefault(metadata["uid"], f"uid{len(self._uids)}")
            for part in value.values():
                self._collect(part, versions)
        elif isinstance(value, list):
            for item in value:
                self._collect(item, versions)

    def normal(self, value: Any) -> Any:
        """Return a value without what differs between any two servers."""
        match value:
            case {"kind": "Status", **rest}:
                return {
                    name: self.normal(rest[name]) for name in ("message", "reason", "code") if name in rest
                }
            case dict():
                return self._object(value)
            case list():
                return [self.normal(item) for item in value]
            case str():
                return self._text(value)
            case _:
                return value

    def _object(self, value: dict[str, Any]) -> Any:
        normal = {self._text(name): self.normal(part) for name, part in value.items() if part is not None}
        if "items" in value:
            normal["metadata"] = {name: "" for name, part in value["metadata"].items() if part}
            # Typed lists leave out what all their items share.
            for item in normal["items"]:
                item.pop("apiVersion", None)
                item.pop("kind", None)
        if "resourceVersion" in value:
            normal["resourceVersion"] = self._versions.get(value["resourceVersion"], "")
        if "managedFields" in value:
            normal["managedFields"].sort(key=lambda entry: str(sorted(entry.items())))
        return normal

    def _text(self, text: str) -> str:
        for pattern, shown in TEXTS.items():
            text = re.sub(pattern, shown, text)
        text = _TIME.sub("TIME", text.replace(self._namespace, "NS"))
        text = _UID.sub(lambda match: self._uids.get(match[0], match[0]), text)
        return _VERSION.sub(lambda match: self._versions.get(match[0], match[0]), text)


Histories = Mapping[str, list[Any]]


def normal(story: Story, events: Sequence[Any]) -> list[Any]:
    """Return the answers of a story, and its events, without what differs between any two servers."""
    names = _Names(
        [*(answer.body for answer in story.answers), *(event["object"] for event in events)], story.namespace
    )
    answers = [(answer.code, names.normal(answer.body)) for answer in story.answers]
    return [*answers, [(event["type"], names.normal(event["object"])) for event in events]]


def shrunk(
    sides: tuple[RealSide, ModelSide],
    steps: Sequence[Step],
    kinds: Sequence[TestedKind],
    number: Callable[[], int],
) -> str:
    """Return the story of a sequence that differs, without the requests that the difference does not need."""
    story = ""
    index = 0
    while index < len(steps):
        fewer = [*steps[:index], *steps[index + 1 :]]
        if fewer and (found := compare(sides, [fewer], kinds, number)):
            steps, story = fewer, found[0][1]
        else:
            index += 1
    if not story:
        found = compare(sides, [steps], kinds, number)
        story = (
            found[0][1] if found else "the difference does not appear again: " + "\n".join(map(str, steps))
        )
    return story


def compare(
    sides: tuple[RealSide, ModelSide],
    sequences: Sequence[Sequence[Step]],
    kinds: Sequence[TestedKind],
    number: Callable[[], int],
) -> list[tuple[int, str]]:
    """Run sequences on both sides. Return the index of each that differs, and how."""
    normals: list[list[list[Any]]] = []
    numbers = [number() for _ in sequences]
    batch = number()
    for side in sides:
        code, begun = side.ask(
            Step("POST", "/api/v1/namespaces", body={"metadata": {"name": f"begin-{batch}"}})
        )
        assert code == 201, begun
        stories = [told(side, steps, one) for steps, one in zip(sequences, numbers, strict=True)]
        events = _histories(side, kinds, batch, begun["metadata"]["resourceVersion"])
        normals.append([normal(story, _of(story, events)) for story in stories])
    found = []
    for index, (real, model) in enumerate(zip(*normals, strict=True)):
        if not all(map(alike, real, model)):
            found.append((index, _difference(sequences[index], real, model)))
    return found


def _histories(side: Side, kinds: Sequence[TestedKind], batch: int, since: str) -> list[Any]:
    paths = []
    for kind in kinds:
        name = f"{_END}-{batch}"
        body: Any = {**kind.created[0], **kind.head(name)}
        code, answer = side.ask(Step("POST", kind.parent.replace("{ns}", _END), body=body))
        assert code == 201, answer
        paths.append((kind.parent.replace("/namespaces/{ns}", ""), name))
    return [event for events in side.events(paths, since) for event in events]


def _of(story: Story, events: Iterable[Any]) -> list[Any]:
    """Return the events about the objects of a sequence."""
    chosen = []
    for event in events:
        metadata = event["object"]["metadata"]
        if metadata.get("namespace", metadata["name"].rpartition("-")[0]) == story.namespace:
            chosen.append(event)
    return chosen


def alike(real: Any, model: Any) -> bool:
    """Return whether two answers are the same, except for a listed difference."""
    if real == model:
        return True
    if isinstance(real, tuple) and real[0] == model[0]:
        return any(row.allows(real[1], model[1]) for row in DIFFERENCES)
    return False


def _difference(steps: Sequence[Step], real: list[Any], model: list[Any]) -> str:
    for index, (first, second) in enumerate(zip(real, model, strict=True)):
        if not alike(first, second):
            shown = [str(step) for step in steps[: index + 1]]
            return "\n".join((*shown, *_changes(first, second, ""), *_summary(real, model)))
    raise AssertionError("no difference")


def _summary(real: list[Any], model: list[Any]) -> Iterable[str]:
    """Yield the events of both sides in short."""
    for name, side in (("server", real), ("model ", model)):
        events = [
            (event, body["kind"], body["metadata"]["name"], body["metadata"]["resourceVersion"])
            for event, body in side[-1]
        ]
        yield f"  events of the {name}: {events}"


def _changes(real: Any, model: Any, path: str) -> Iterable[str]:
    """Yield a line for each part that differs."""
    if isinstance(real, dict) and isinstance(model, dict):
        for name in sorted({*real, *model}):
            yield from _changes(real.get(name), model.get(name), f"{path}.{name}")
    elif isinstance(real, list | tuple) and isinstance(model, list | tuple) and len(real) == len(model):
        for index, parts in enumerate(zip(real, model, strict=True)):
            yield from _changes(*parts, f"{path}[{index}]")
    elif real != model:
        yield f"  {path or 'answer'}:\n    server {real}\n    model  {model}"
