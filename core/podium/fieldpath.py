"""Field paths as people write them, cut into steps: `spec.templates[0].labels[a.b/c]`."""

import re

Path = tuple[str | int, ...]

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[([^\]]*)\]")


def parse_path(field: str) -> Path:
    """Cut a path into its steps: names and keys as text, positions in lists as numbers."""
    return tuple(int(index) if index else name or key for name, index, key in _STEP.findall(field))
