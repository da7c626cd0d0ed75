"""The fields of a pod's spec, as the API servers of two minors describe them.

`python -m tests.support.filters.podschema` writes tests/conformance/recorded/podspec.json (`make record`).
"""

import json
from pathlib import Path
from typing import Any

from tests.support.servers import Server, exclusive

from podium.controlplane.releases import RELEASES

RECORDED = Path(__file__).parents[2] / "conformance" / "recorded" / "podspec.json"
SPEC = "PodSpec"

# By definition and field: the definition of the field's type or of its items, empty for plain values.
Schema = dict[str, dict[str, str]]


def read() -> dict[str, Schema]:
    """Return what was recorded, by version of Kubernetes."""
    recorded: dict[str, Schema] = json.loads(RECORDED.read_bytes())
    return recorded


def described(server: Server) -> Schema:
    """Return a server's schema of pods."""
    code, document = server.request("GET", "/openapi/v3/api/v1")
    assert code == 200, document
    definitions = document["components"]["schemas"]
    schema: Schema = {}
    open_names = [f"io.k8s.api.core.v1.{SPEC}"]
    while open_names:
        name = open_names.pop()
        fields = {key: _reference(field) for key, field in definitions[name].get("properties", {}).items()}
        known = {key: to for key, to in fields.items() if "properties" in definitions.get(to, {})}
        if _short(name) not in schema:
            schema[_short(name)] = {key: _short(known.get(key, "")) for key in sorted(fields)}
            open_names += known.values()
    return dict(sorted(schema.items()))


def _reference(field: dict[str, Any]) -> str:
    """Return the definition that a field, its items or its values refer to; empty for none."""
    more = field.get("additionalProperties")
    parts = [field, field.get("items", {}), more if isinstance(more, dict) else {}]
    found = [each["$ref"] for part in parts for each in (part, *part.get("allOf", ())) if "$ref" in each]
    return str(found[0]).rpartition("/")[2] if found else ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def main() -> None:
    """Record both minors."""
    found = {}
    for release in RELEASES.values():
        with exclusive(release) as server:
            found[release.version] = described(server)
    lines = [
        f"{json.dumps(version)}: {{\n"
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in schema.items())
        + "\n}"
        for version, schema in found.items()
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
