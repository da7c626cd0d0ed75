"""Shares equal parts of objects, so that thousands of copies are kept once.

Each reader has caches of its own: parts of one kind of objects must not push out those of another.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")

# JSON has integers of any size, where MessagePack has 64 bits; both take the same time.
_ENCODER = msgspec.json.Encoder()
# Longer parts (bytes) and texts (characters) are not shared: a cache would hold gigabytes of deleted objects.
LONGEST = 2**14

# Returns a list for the name of a type and the encoded part: empty, or with the first part of that kind.
FirstEqual = Callable[[str, bytes], list[Any]]


def share(part: _T, first_equal: FirstEqual) -> _T:
    """Return the first of all parts that are equal to this one."""
    if part is None:
        return part
    mark = _ENCODER.encode(part)
    if len(mark) > LONGEST:
        return part
    first = first_equal(type(part).__name__, mark)
    if not first:
        first.append(part)
    found: _T = first[0]
    return found
