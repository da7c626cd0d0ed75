"""The elements of a large JSON array as slices of its bytes, one after another.

msgspec decodes an array to all its elements at once, which for an array of millions of `{}` is twenty times
the array. Here an element costs nothing until it is asked for.
"""

import re
from collections.abc import Iterator

# Up to the next bracket that is not within a text. Possessive, so nothing is tried twice.
_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{\[]|[}\]])', re.DOTALL)
_OPEN = frozenset(b"{[")


class LongError(ValueError):
    """An element that is longer than any may be."""


def slices(array: memoryview, longest: int) -> Iterator[memoryview]:
    """Give the objects and arrays that are elements of a valid JSON array; texts and numbers are left out.

    Raises LongError, without reading on, for an element of more than `longest` bytes.
    """
    depth = start = 0
    for found in _BRACKET.finditer(array):
        end = found.end()
        if depth > 1 and end - start > longest:
            raise LongError(f"more than {longest} bytes")
        if array[end - 1] in _OPEN:
            if depth == 1:
                start = end - 1
            depth += 1
        else:
            depth -= 1
            if depth == 1:
                yield array[start:end]
