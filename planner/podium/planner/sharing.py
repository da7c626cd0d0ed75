"""Shares equal parts of the objects in a cache, so that thousands of copies are kept once.

Each reader has caches of its own: parts of one kind of objects must not push out those of another. Parts are
shared, so nothing that is kept may be changed.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from podium.api.meta import ObjectMeta

_T = TypeVar("_T")
_Text = TypeVar("_Text", bound=str | None)

# JSON has integers of any size, where MessagePack has 64 bits; both take the same time.
_ENCODER = msgspec.json.Encoder()
# Longer parts (bytes) and texts (characters) are not shared: a cache would hold gigabytes of deleted objects.
LONGEST = 2**14
# The value of an annotation is cut to so many characters: the name of a label has 317 at most, and a tenant
# may write 256 KiB.
_LONGEST_VALUE = 1_024


class Sharing:
    """The caches of one reader, for so many parts and texts."""

    def __init__(self, parts: int, texts: int) -> None:
        # A list for the name of a type and the encoded part: empty, or with the first part of that kind.
        self.first_part = lru_cache(parts)(_new_list)
        self.first_text = lru_cache(texts)(_same_text)

    def part(self, part: _T) -> _T:
        """Return the first of all parts that are equal to this one."""
        if part is None:
            return part
        mark = _ENCODER.encode(part)
        if len(mark) > LONGEST:
            return part
        first = self.first_part(type(part).__name__, mark)
        if not first:
            first.append(part)
        shared: _T = first[0]
        return shared

    def share_text(self, text: _Text) -> _Text:
        """Return the first of all texts that are equal to this one."""
        if text is None or len(text) > LONGEST:
            return text
        first: _Text = self.first_text(text)
        return first

    def fields(self, whole: _T, parts: Iterable[str] = (), texts: Iterable[str] = ()) -> _T:
        """Share the parts and texts of a Struct by the names of its fields, and return it."""
        if whole is not None:
            for part in parts:
                setattr(whole, part, self.part(getattr(whole, part)))
            for text in texts:
                setattr(whole, text, self.share_text(getattr(whole, text)))
        return whole


def _new_list(kind: str, mark: bytes) -> list[Any]:  # noqa: ARG001 - the arguments are the cache key
    return []


def _same_text(text: Any) -> Any:
    return text


def read_annotations(metadata: ObjectMeta, names: Iterable[str]) -> dict[str, str] | None:
    """Return the annotations in `names`, each cut to the length of the longest value that is read."""
    annotations = metadata.annotations or {}
    return {name: annotations[name][:_LONGEST_VALUE] for name in names if name in annotations} or None
