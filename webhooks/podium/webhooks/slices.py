"""Iterate over the elements of a large JSON array as slices of its bytes.

msgspec decodes all elements of an array at once, which for an array of millions of `{}` needs twenty times
its size. Here an element needs no memory until it is requested.
"""

import re
from collections.abc import Iterator

# Matches up to the next bracket outside of strings. Possessive, so there is no backtracking.
_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{\[]|[}\]])', re.DOTALL)
_OPEN = frozenset(b"{[")


class LongError(ValueError):
    """An element that exceeds the maximum length."""


def slices(array: memoryview, longest: int) -> Iterator[memoryview]:
    """Yield the objects and arrays in a valid JSON array; strings and numbers are skipped.

    Raises LongError, and stops reading, at an element of more than `longest` bytes.
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
