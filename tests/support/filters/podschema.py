"""The fields of the specs of pods and of the kinds that create them, as API servers describe them.

`python -m tests.support.filters.podschema` writes tests/conformance/recorded/podspec.json (`make record`).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.releases import BUILDABLE

RECORDED = Path(__file__).parents[2] / "conformance" / "recorded" / "podspec.json"
SPEC = "PodSpec"
# The specs from which definitions are followed, by API.
ROOTS = {
    "api/v1": ("io.k8s.api.core.v1.PodSpec",),
    "apis/apps/v1": tuple(
        f"io.k8s.api.apps.v1.{kind}Spec" for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
    ),
    "apis/batch/v1": ("io.k8s.api.batch.v1.JobSpec", "io.k8s.api.batch.v1.CronJobSpec"),
}

# By definition and field: the definition of the field's type or of its items, empty for plain values.
Schema = dict[str, dict[str, str]]
# As in the OpenAPI documents of a server, by full name.
Definitions = dict[str, dict[str, Any]]


def read() -> dict[str, Schema]:
    """Return what was recorded, by minor of Kubernetes."""
    recorded: dict[str, Schema] = json.loads(RECORDED.read_bytes())
    return recorded


def definitions_of(server: Server) -> Definitions:
    """Return a server's definitions of all kinds in the APIs of the roots."""
    found: Definitions = {}
    for api in ROOTS:
        code, document = server.request("GET", f"/openapi/v3/{api}")
        assert code == 200, document
        found |= document["components"]["schemas"]
    return found


def described(definitions: Definitions) -> Schema:
    """Return the fields of the roots and of all definitions within them."""
    schema: Schema = {}
    open_names = [name for names in ROOTS.values() for name in names]
    while open_names:
        name = open_names.pop()
        fields = {key: reference_of(field) for key, field in definitions[name].get("properties", {}).items()}
        known = {key: to for key, to in fields.items() if "properties" in definitions.get(to, {})}
        if _short(name) not in schema:
            schema[_short(name)] = {key: _short(known.get(key, "")) for key in sorted(fields)}
            open_names += known.values()
    return dict(sorted(schema.items()))


def reference_of(field: Mapping[str, Any]) -> str:
    """Return the definition that a field, its items or its values refer to; empty for none."""
    more = field.get("additionalProperties")
    parts = [field, field.get("items", {}), more if isinstance(more, dict) else {}]
    found = [each["$ref"] for part in parts for each in (part, *part.get("allOf", ())) if "$ref" in each]
    return str(found[0]).rpartition("/")[2] if found else ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def main() -> None:
    """Record each minor."""
    found = {}
    for release in BUILDABLE.values():
        with exclusive(release) as server:
            found[release.minor] = described(definitions_of(server))
    write_recorded(RECORDED, found)


def write_recorded(path: Path, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write values by minor and definition, a line for each definition."""
    lines = [
        f"{json.dumps(minor)}: {{\n"
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in definitions.items())
        + "\n}"
        for minor, definitions in found.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
