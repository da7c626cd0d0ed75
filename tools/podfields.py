"""Write core/podium/rules/podfields.py: the fields of the specs of pods and of the kinds that create them.

The schema of each supported server, and its answers to objects without a required field, are in
tests/conformance/recorded (`make record`).
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "conformance" / "recorded" / "podspec.json"
REQUIRED = RECORDED.with_name("required.json")
MODULE = ROOT / "core" / "podium" / "rules" / "podfields.py"

# The schema leaves them out, because controllers may set them. The server refuses their absence.
VALIDATED = {f"{kind}.image": "Required value" for kind in ("Container", "EphemeralContainer")}
# Types that Go holds by value: if absent, they count as empty objects, whose own fields are required.
BY_VALUE = ("JobSpec", "JobTemplateSpec", "PodSpec", "PodTemplateSpec")

_HEAD = '''"""The fields of the specs of pods and of the kinds that create them, by type.

`make podfields` generates it. Each minor has what its predecessor has.
"""

# Type to fields, by the first supported minor that has them. A field is `name`, or `name:Type` if it has
# fields of its own.
FIELDS: dict[int, dict[str, str]] = {
'''
_REQUIRED_HEAD = """
# `Type.field` of required fields to the server's words on their absence, by the first supported minor that
# says them. Without words an absent field counts as an empty object.
REQUIRED: dict[int, dict[str, str]] = {
"""


def text() -> str:
    """Return the source of the module."""
    recorded = json.loads(RECORDED.read_bytes())
    lines, known = [_HEAD], dict[str, list[str]]()
    for version, schema in sorted(recorded.items()):
        lines.append(f"    {version.split('.')[1]}: {{\n")
        for name, fields in sorted(schema.items()):
            words = [f"{field}:{to}" if to else field for field, to in sorted(fields.items())]
            new = [word for word in words if word not in known.get(name, ())]
            if new:
                lines.append(_entry(name, new))
            known[name] = words
        lines.append("    },\n")
    return "".join([*lines, "}\n", *_required(recorded)])


def _required(schemas: dict[str, dict[str, dict[str, str]]]) -> list[str]:
    lines, known = [_REQUIRED_HEAD], dict[str, str]()
    for version, answers in sorted(json.loads(REQUIRED.read_bytes()).items()):
        words = {
            f"{name}.{field}": said for name, fields in answers.items() for field, said in fields.items()
        }
        words |= VALIDATED
        for name, fields in schemas[version].items():
            words |= {f"{name}.{field}": "" for field, to in fields.items() if to in BY_VALUE}
        lines.append(f"    {version.split('.')[1]}: {{\n")
        lines += [_said(name, said) for name, said in sorted(words.items()) if known.get(name) != said]
        lines.append("    },\n")
        known |= words
    return [*lines, "}\n"]


def _said(name: str, said: str) -> str:
    line = f'        "{name}": {_quoted(said)},\n'
    if len(line) <= 111:
        return line
    cut = len(said) if len(said) <= 94 else said.rindex(" ", 0, 90) + 1
    rows = "".join(f"            {_quoted(part)}\n" for part in (said[:cut], said[cut:]) if part)
    return f'        "{name}": (\n{rows}        ),\n'


def _quoted(text: str) -> str:
    """Return a literal with the quotes that ruff format chooses."""
    if "'" not in text and '"' in text:
        return f"'{text}'"
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def _entry(name: str, words: list[str]) -> str:
    whole = f'        "{name}": "{" ".join(words)}",\n'
    if len(whole) <= 110:
        return whole
    rows, row = [], ""
    for word in words:
        if len(row) + len(word) > 94:
            rows.append(row)
            row = ""
        row += f"{word} "
    body = "".join(f'            "{each}"\n' for each in [*rows, row.rstrip()])
    return f'        "{name}": (\n{body}        ),\n'


if __name__ == "__main__":
    MODULE.write_text(text(), "utf-8")
