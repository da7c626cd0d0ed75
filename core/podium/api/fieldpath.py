"""Field paths in their written form, and as steps: `spec.templates[0].labels[a.b/c]`."""

import re
from typing import Any

Path = tuple[str | int, ...]

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[([^\]]*)\]")


def parse_path(field: str) -> Path:
    """Return the steps of a path: names and keys as text, positions in lists as numbers."""
    return tuple(int(index) if index else name or key for name, index, key in _STEP.findall(field))


def at(document: Any, steps: Path) -> Any:
    """Return the value at a path, which must exist."""
    for step in steps:
        document = document[step]
    return document
