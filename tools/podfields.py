"""Write core/podium/rules/podfields.json: the fields of the specs of pods and of the kinds that create them.

The schema of each supported server, and its answers to objects without a required field, are in
tests/conformance/recorded (`make record`). `podium.rules.clientchecks` reads the table.
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "conformance" / "recorded" / "podspec.json"
REQUIRED = RECORDED.with_name("required.json")
TABLE = ROOT / "core" / "podium" / "rules" / "podfields.json"

# The schema leaves them out, because controllers may set them. The server refuses their absence.
VALIDATED = {f"{kind}.image": "Required value" for kind in ("Container", "EphemeralContainer")}
# Types that Go holds by value: if absent, they count as empty objects, whose own fields are required.
BY_VALUE = ("JobSpec", "JobTemplateSpec", "PodSpec", "PodTemplateSpec")


def text() -> str:
    """Return the table; each minor has only the entries that its predecessor does not have."""
    schemas = json.loads(RECORDED.read_bytes())
    answers = json.loads(REQUIRED.read_bytes())
    fields, known = dict[str, dict[str, str]](), dict[str, list[str]]()
    for version, schema in sorted(schemas.items()):
        new = fields[version.split(".")[1]] = dict[str, str]()
        for name, types in sorted(schema.items()):
            words = [f"{field}:{to}" if to else field for field, to in sorted(types.items())]
            added = [word for word in words if word not in known.get(name, ())]
            if added:
                new[name] = " ".join(added)
            known[name] = words
    required, messages = dict[str, dict[str, str]](), dict[str, str]()
    for version, answered in sorted(answers.items()):
        messages_by_field = _required(schemas[version], answered)
        required[version.split(".")[1]] = {
            name: message
            for name, message in sorted(messages_by_field.items())
            if messages.get(name) != message
        }
        messages |= messages_by_field
    return json.dumps({"fields": fields, "required": required}, indent=1, ensure_ascii=False) + "\n"


def _required(schema: dict[str, dict[str, str]], answered: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the message on the absence of each required field; empty if it counts as an empty object."""
    messages = {
        f"{name}.{field}": message for name, fields in answered.items() for field, message in fields.items()
    }
    messages |= VALIDATED
    for name, fields in schema.items():
        messages |= {f"{name}.{field}": "" for field, to in fields.items() if to in BY_VALUE}
    return messages


if __name__ == "__main__":
    TABLE.write_text(text(), "utf-8")
