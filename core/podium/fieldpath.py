"""Field paths as people write them, cut into steps: `spec.templates[0].labels[a.b/c]`."""

import re
from typing import Any

Path = tuple[str | int, ...]

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[([^\]]*)\]")


def parse_path(field: str) -> Path:
    """Cut a path into its steps: names and keys as text, positions in lists as numbers."""
    return tuple(int(index) if index else name or key for name, index, key in _STEP.findall(field))


def at(document: Any, steps: Path) -> Any:
    """Give what stands at a path; it must be there."""
    for step in steps:
        document = document[step]
    return document
