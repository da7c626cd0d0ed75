"""Runs a scenario on a real API server and records every answer.

The Priority and PodGroupWorkloadExists plugins of a server read caches that lag behind writes. After each
write that they depend on, the driver sends dry runs until an answer shows that the cache is current.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from tests.support.admission.edits import drop, edited
from tests.support.admission.generator import Change, Create, Delete, Kind, Replace, Scenario, scenario
from tests.support.admission.recording import (
    CURRENT,
    UID,
    Exchange,
    Header,
    Op,
    Recorded,
    Recording,
    canonical,
)
from tests.support.admission.scene import DIALECTS, GROUP, Document
from tests.support.waiting import PATIENCE_SECONDS, comes

from podium.api.reads import FOLLOWED


class Requests(Protocol):
    """The interface to a server that the driver needs."""

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request; return the code and the decoded answer."""


class _Held(NamedTuple):
    """An object that exists."""

    stored: Document  # canonical
    version: str
    uid: str
    sent: Document


class UnexpectedAnswerError(Exception):
    """The server refused an object that the driver itself needs."""


def record(
    server: Requests,
    minor: str,
    seed: int,
    operations: int,
    *,
    workload_api: bool = True,
    gates: Sequence[str] = (),
) -> Recording:
    """Run scenarios of a seed until the given number of operations can be compared."""
    start = header(server, minor, seed, workload_api=workload_api, gates=gates)
    scenarios: list[Recorded] = []
    count = 0
    while count < operations:
        script = scenario(seed, len(scenarios), minor, workload_api=workload_api, trees=bool(gates))
        scenarios.append(run(server, script))
        count += scenarios[-1].compared
    return Recording(header=start, scenarios=scenarios)


def header(
    server: Requests, minor: str, seed: int, *, workload_api: bool, gates: Sequence[str] = ()
) -> Header:
    """Return a server's version and its objects before the first scenario; it may have no default class."""
    version = _must(server, "GET", "/version")["gitVersion"].removeprefix("v")
    classes = [
        canonical({**item, "apiVersion": f"{GROUP}/v1", "kind": "PriorityClass"})
        for item in _must(server, "GET", f"/apis/{GROUP}/v1/priorityclasses")["items"]
    ]
    assert not [item for item in classes if item.get("globalDefault")], (
        "a PriorityClass is the default already"
    )
    return Header(
        minor=minor,
        version=version,
        seed=seed,
        workload_api=workload_api,
        gates=list(gates),
        classes=classes,
    )


def run(server: Requests, scenario: Scenario) -> Recorded:
    """Run one script in a new namespace, which is left behind."""
    session = _Session(server, scenario)
    session.open()
    try:
        for step in scenario.steps:
            match step:
                case Create():
                    session.create(step)
                case Replace():
                    session.replace(step)
                case Change():
                    session.change(step)
                case Delete():
                    session.delete(step)
    finally:
        session.close()
    return Recorded(namespace=scenario.namespace, exchanges=session.exchanges)


class _Session:
    def __init__(self, server: Requests, scenario: Scenario) -> None:
        self.server = server
        self.minor = scenario.minor
        self.namespace = scenario.namespace
        self.held: dict[tuple[str, str], _Held] = {}
        self.exchanges: list[Exchange] = []

    def open(self) -> None:
        body = {"metadata": {"name": self.namespace}}
        _must(self.server, "POST", "/api/v1/namespaces", body)

    def close(self) -> None:
        """Remove the PriorityClasses, the only objects that another scenario could see."""
        classes = {key: held for key, held in self.held.items() if key[0] == Kind.CLASS}
        for held in classes.values():
            path = _path(held.stored)
            free = edited(held.stored, [drop("metadata/finalizers")])
            if free != held.stored:
                _must(self.server, "PUT", path, free)
            # An object that was being deleted is removed with its last finalizer.
            self.server.request("DELETE", path)
        self.held.clear()
        for _, name in classes:
            self.settle_class(name)

    def create(self, step: Create) -> None:
        document = step.document
        code, answer = self.server.request("POST", _collection(document), document)
        exchange = self.note(Op.CREATE, document, code, answer)
        if exchange.stored is not None:
            self.hold(exchange.stored, answer, document)
            self.settle(exchange.stored)

    def replace(self, step: Replace) -> None:
        code, answer = self.server.request("PUT", _path(step.document), step.document)
        self.note(Op.UPDATE, step.document, code, answer)

    def change(self, step: Change) -> None:
        held = self.pick(step.kind, step.pick)
        if held is None:
            return
        base = held.stored if step.base == "stored" else held.sent
        # An object that was sent without a name has one now.
        base = edited(base, ())
        base["metadata"]["name"] = held.stored["metadata"]["name"]
        base["metadata"].pop("resourceVersion", None)
        document = edited(base, step.edits)
        sent = edited(document, ())
        if step.version:
            document["metadata"]["resourceVersion"] = step.version
            sent["metadata"]["resourceVersion"] = held.version if step.version == CURRENT else step.version
        path = _path(document) + (f"/{step.subresource}" if step.subresource else "")
        code, answer = self.server.request("PUT", path, sent)
        if code >= 300:
            answer["message"] = answer["message"].replace(held.uid, UID)
        exchange = self.note(Op.STATUS if step.subresource else Op.UPDATE, document, code, answer)
        if exchange.stored is not None:
            if exchange.gone:
                del self.held[step.kind, document["metadata"]["name"]]
            else:
                self.hold(exchange.stored, answer, document)
            self.settle(exchange.stored)

    def delete(self, step: Delete) -> None:
        held = self.pick(step.kind, step.pick)
        if held is None or "deletionTimestamp" in held.stored["metadata"]:
            return
        path = _path(held.stored)
        _must(self.server, "DELETE", path, {"gracePeriodSeconds": 0})
        code, answer = self.server.request("GET", path)
        left = canonical(answer) if code == 200 else None
        if left is not None:
            self.hold(left, answer, held.sent)
        else:
            del self.held[step.kind, held.stored["metadata"]["name"]]
        self.exchanges.append(Exchange(op=Op.DELETE, object=_identity(held.stored), code=200, stored=left))
        self.settle(held.stored)

    def note(self, op: Op, document: Document, code: int, answer: Any) -> Exchange:
        """Record one answer."""
        if code < 300:
            stored = canonical(answer)
            metadata = stored["metadata"]
            gone = "deletionTimestamp" in metadata and not metadata.get("finalizers")
            exchange = Exchange(op=op, object=document, code=code, stored=stored, gone=gone)
        else:
            exchange = Exchange(
                op=op, object=document, code=code, reason=answer.get("reason", ""), message=answer["message"]
            )
        self.exchanges.append(exchange)
        return exchange

    def hold(self, stored: Document, answer: Document, sent: Document) -> None:
        key, metadata = (stored["kind"], stored["metadata"]["name"]), answer["metadata"]
        self.held[key] = _Held(stored, metadata["resourceVersion"], metadata["uid"], sent)

    def pick(self, kind: Kind, ordinal: int | str) -> _Held | None:
        if isinstance(ordinal, str):
            return self.held.get((kind, ordinal))
        existing = [held for key, held in self.held.items() if key[0] == kind]
        return existing[ordinal % len(existing)] if existing else None

    def settle(self, written: Document) -> None:
        """Wait until the plugins see a write they depend on."""
        name = written["metadata"]["name"]
        if written["kind"] == Kind.CLASS:
            self.settle_class(name)
        elif written["kind"] == Kind.WORKLOAD and self.minor == "1.36":
            self.settle_workload(name)

    def settle_class(self, name: str) -> None:
        """Wait until pods with this class and without a class get the priorities of the stored classes."""
        classes = [held.stored for key, held in self.held.items() if key[0] == Kind.CLASS]
        named = next((item for item in classes if item["metadata"]["name"] == name), None)
        default = next((item for item in classes if item.get("globalDefault")), None)

        def seen() -> bool:
            code, answer = self.probe_pod({"priorityClassName": name})
            if named is None:
                return code == 403
            return code == 201 and _resolution(answer["spec"]) == _class_resolution(named)

        def default_seen() -> bool:
            _, answer = self.probe_pod({})
            expected = ("", 0, "PreemptLowerPriority") if default is None else _class_resolution(default)
            return _resolution(answer["spec"]) == expected

        _until(seen, f"PriorityClass {name} in the Priority plugin's cache")
        _until(default_seen, "the default PriorityClass in the Priority plugin's cache")

    def probe_pod(self, fields: Document) -> tuple[int, Any]:
        spec = {"containers": [{"name": "main", "image": "example.com/probe"}], **fields}
        body = {"metadata": {"name": "probe"}, "spec": spec}
        return self.server.request("POST", f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All", body)

    def settle_workload(self, name: str) -> None:
        """Wait until a reference to a deleted Workload is refused.

        An unknown Workload is always read from etcd.
        """
        held = self.held.get((Kind.WORKLOAD, name))
        if held is not None and "deletionTimestamp" not in held.stored["metadata"]:
            return
        expected = f'Workload "{name}" ' + ("not found" if held is None else "is being deleted")
        version = DIALECTS[self.minor].versions[0]
        ref = {"workload": {"workloadName": name, "podGroupTemplateName": "t0"}}
        spec = {"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": ref}
        body = {"metadata": {"name": "probe"}, "spec": spec}
        path = f"/apis/{GROUP}/{version}/namespaces/{self.namespace}/podgroups?dryRun=All"

        def seen() -> bool:
            code, answer = self.server.request("POST", path, body)
            return code == 403 and expected in answer["message"]

        _until(seen, f"{expected} in the PodGroupWorkloadExists plugin's cache")


def _resolution(spec: Document) -> tuple[str, int, str]:
    return spec.get("priorityClassName", ""), spec["priority"], spec["preemptionPolicy"]


def _class_resolution(item: Document) -> tuple[str, int, str]:
    return item["metadata"]["name"], item["value"], item["preemptionPolicy"]


def _until(condition: Callable[[], bool], what: str) -> None:
    if not comes(condition):
        raise UnexpectedAnswerError(f"waited {PATIENCE_SECONDS:.0f} s for {what}")


def _must(server: Requests, method: str, path: str, body: Any = None) -> Any:
    code, answer = server.request(method, path, body)
    if code >= 300:
        raise UnexpectedAnswerError(f"{method} {path}: {code} {answer}")
    return answer


def _collection(document: Document) -> str:
    api_version = document["apiVersion"]
    plural = FOLLOWED[api_version, document["kind"]].plural
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    namespace = document["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _identity(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key in ("namespace", "name")}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}


def _path(document: Document) -> str:
    return f"{_collection(document)}/{document['metadata']['name']}"
