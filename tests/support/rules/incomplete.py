"""Objects that each lack one required field, and the answers of API servers to them.

The schema that a server publishes has the required fields. The server enforces most of them, with messages of
its own. `python -m tests.support.rules.incomplete` records its answers in
tests/conformance/recorded/required.json (`make record`).
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.support.filters import podschema
from tests.support.filters.podschema import Definitions, reference_of
from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.releases import BUILDABLE

RECORDED = podschema.RECORDED.with_name("required.json")
# By definition and field: the server's message for its absence, empty if it counts as an empty object.
Answers = dict[str, dict[str, str]]

# Fields that the schema does not require and the server does, so that only the field in question is absent.
_ADDED: Mapping[str, Mapping[str, Any]] = {
    "Container": {"image": "b"},
    "EphemeralContainer": {"image": "b"},
    "PodSpec": {"restartPolicy": "Never"},
}


class Incomplete(NamedTuple):
    """A spec without a required field: the field's definition, name and path, and the spec that has it."""

    definition: str
    field: str
    path: str
    spec: dict[str, Any]
    complete: dict[str, Any]


def read() -> dict[str, Answers]:
    """Return the recording, by minor of Kubernetes."""
    recorded: dict[str, Answers] = json.loads(RECORDED.read_bytes())
    return recorded


def answers(server: Server) -> Answers:
    """Return a server's message for the absence of each required field that it does not accept."""
    found: dict[str, dict[str, str]] = {}
    definitions = podschema.definitions_of(server)
    for api, roots in podschema.ROOTS.items():
        for root in roots:
            for case in incomplete(definitions, root):
                kind = root.rpartition(".")[2].removesuffix("Spec")
                known = _causes(server, api, kind, case.complete)
                new = [cause for cause in _causes(server, api, kind, case.spec) if cause not in known]
                about = [cause for cause in new if _concerns(*cause, case.path)]
                if about:
                    field, message = about[0]
                    inside = field.startswith(f"{case.path}.")
                    found.setdefault(case.definition, {}).setdefault(case.field, "" if inside else message)
    return {name: dict(sorted(fields.items())) for name, fields in sorted(found.items())}


def _concerns(field: str, message: str, path: str) -> bool:
    """Return whether a cause is the absence at a path, and not its consequence elsewhere in the object."""
    return field.split(".")[:2] == path.split(".")[:2] and not message.startswith("Invalid value: {")


def _causes(server: Server, api: str, kind: str, spec: dict[str, Any]) -> list[tuple[str, str]]:
    version = api.removeprefix("apis/").removeprefix("api/")
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    path = f"/{api}/namespaces/default/{kind.lower()}s?dryRun=All"
    _, status = server.request("POST", path, document)
    causes = status.get("details", {}).get("causes", [])
    return [(cause["field"], cause["message"]) for cause in causes]


def incomplete(definitions: Definitions, root: str) -> Iterator[Incomplete]:
    """Yield one case for each required field of each definition that is reachable from a root."""
    seen = {root}
    queue: deque[tuple[str, tuple[tuple[str, bool], ...]]] = deque([(root, ())])
    while queue:
        name, steps = queue.popleft()
        for field in definitions[name].get("required", ()):
            whole = _minimal(definitions, name)
            part = {key: value for key, value in whole.items() if key != field}
            path = "".join(f".{step}[0]" if many else f".{step}" for step, many in steps)
            yield Incomplete(
                name.rpartition(".")[2],
                field,
                f"spec{path}.{field}",
                _placed(definitions, root, steps, part),
                _placed(definitions, root, steps, whole),
            )
        for field, schema in definitions[name].get("properties", {}).items():
            to = reference_of(schema)
            if to not in seen and "properties" in definitions.get(to, {}):
                seen.add(to)
                queue.append((to, (*steps, (field, schema.get("type") == "array"))))


def _placed(
    definitions: Definitions, root: str, steps: tuple[tuple[str, bool], ...], value: dict[str, Any]
) -> dict[str, Any]:
    """Return a minimal value of the root with another value at the end of the steps."""
    if not steps:
        return value
    (field, many), *rest = steps
    inner = _placed(definitions, reference_of(definitions[root]["properties"][field]), tuple(rest), value)
    return {**_minimal(definitions, root), field: [inner] if many else inner}


def _minimal(definitions: Definitions, name: str) -> dict[str, Any]:
    """Return a value of a definition with its required fields only."""
    properties = definitions[name].get("properties", {})
    made = {field: _value(definitions, properties[field]) for field in definitions[name].get("required", ())}
    return {**made, **_ADDED.get(name.rpartition(".")[2], {})}


def _value(definitions: Definitions, schema: Mapping[str, Any]) -> Any:
    to = reference_of(schema)
    if schema.get("type") == "array":
        items = schema["items"]
        return [_minimal(definitions, to) if to in definitions else _value(definitions, items)]
    if to in definitions:
        return _minimal(definitions, to) if "properties" in definitions[to] else "1"
    return {"integer": 1, "boolean": True, "string": "x"}.get(schema.get("type", ""), {})


def main() -> None:
    """Record each minor."""
    found = {}
    for release in BUILDABLE.values():
        with exclusive(release) as server:
            found[release.minor] = answers(server)
    podschema.write_recorded(RECORDED, found)


if __name__ == "__main__":
    main()
