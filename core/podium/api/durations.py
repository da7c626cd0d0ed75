"""Durations as Go programs read and write them: in annotations, and in the requests of API servers."""

import re
from collections.abc import Mapping
from types import MappingProxyType

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_UNITS: Mapping[str, float] = MappingProxyType(
    {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
)
_PART = re.compile(f"{_NUMBER}({'|'.join(sorted(_UNITS, key=len, reverse=True))})", re.ASCII)
_DURATION = re.compile(f"(?:{_PART.pattern})+", re.ASCII)


def seconds(duration: str) -> float | None:
    """Return the seconds of a non-negative Go duration (`3s`, `1m30s`, `1.5s`), or None for other texts."""
    if not _DURATION.fullmatch(duration):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(duration))
