"""Write core/podium/rules/podfields.py: the names of all fields of a pod's spec, from the recorded schema.

The schema of each supported server is in tests/conformance/recorded/podspec.json (`make record`).
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "conformance" / "recorded" / "podspec.json"
MODULE = ROOT / "core" / "podium" / "rules" / "podfields.py"

_HEAD = '''"""The names of all fields of a pod's spec, by type. `make podfields` generates it.

A field is `name`, or `name:Type` if it has fields of its own. Each minor has what its predecessor has.
"""

# Type to fields, by the first supported minor that has them.
FIELDS: dict[int, dict[str, str]] = {
'''


def text() -> str:
    """Return the module."""
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
    return "".join([*lines, "}\n"])


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
