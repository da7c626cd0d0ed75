"""Walk JSON of any size without decoding it: find the end of a value, and the position of a field.

A dump is one value of hundreds of megabytes, or many values in sequence. msgspec decodes exactly one value
and reports where further data starts. This is sufficient to find the end of a value at the speed of its
scanner (about 1 GB/s). Everything else here builds on it.
"""

import re

import msgspec

from podium import jsontext
from podium.api.fieldpath import Path

_SKIP = jsontext.Decoder(msgspec.Raw)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE = re.compile(r" \(byte (\d+)\)")
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


class JsonError(Exception):
    """A problem in a JSON text, and its byte offset."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset


def skip_space(text: memoryview, offset: int) -> int:
    """Return the offset of the next byte that is not white space, or the end."""
    match = _SPACE.match(text, offset)
    assert match is not None
    return match.end()


def end_of_value(text: memoryview, offset: int) -> int:
    """Return the offset after the value at `offset` and white space, or the end of the text."""
    try:
        _SKIP.decode(text[offset:])
    except msgspec.DecodeError as error:
        return offset + trailing(error, text, offset)
    return len(text)


def _byte(text: memoryview, offset: int) -> bytes:
    """Return one byte, or none at the end."""
    return bytes(text[offset : offset + 1])


def trailing(error: msgspec.DecodeError, text: memoryview, offset: int) -> int:
    """Return the offset, relative to `offset`, at which msgspec found data after the value.

    Raises JsonError for any other error.
    """
    match = _TRAILING.search(str(error))
    if match is None:
        raise json_error(error, text, offset) from None
    # msgspec reports the byte after the first trailing one; a test verifies it.
    return int(match[1]) - 1


def json_error(error: msgspec.DecodeError, text: memoryview, offset: int) -> JsonError:
    """Return an error of msgspec on the text from `offset` as a short problem with its place."""
    message = str(error)
    if isinstance(error, jsontext.DepthError):
        return JsonError(message, offset)
    if message == "Input data was truncated":
        return JsonError("the JSON is truncated", len(text))
    match = _BYTE.search(message)
    problem = _BYTE.sub("", message).removeprefix("JSON is malformed: ")
    return JsonError(f"malformed JSON: {problem}", offset + int(match[1]) if match else offset)


class Walk:
    """Finds fields in one text; caches the positions of list elements for the next call."""

    def __init__(self, text: memoryview) -> None:
        self._text = text
        self._elements: dict[int, list[int]] = {}

    def find(self, offset: int, path: Path) -> int:
        """Return the offset of the field at `path` in the value at `offset`, or of its deepest existing part.

        The position of a member of an object is that of its key.
        """
        value = place = skip_space(self._text, offset)
        for step in path:
            below = self._member(value, step) if isinstance(step, str) else self._element(value, step)
            if below is None:
                break
            place, value = below
        return place

    def _member(self, offset: int, name: str) -> tuple[int, int] | None:
        text = self._text
        if _byte(text, offset) != b"{":
            return None
        at = skip_space(text, offset + 1)
        while (key := _STRING.match(text, at)) is not None:
            value = skip_space(text, skip_space(text, key.end()) + 1)
            if jsontext.parse(key[0], str) == name:
                return at, value
            after = end_of_value(text, value)
            if _byte(text, after) != b",":
                return None
            at = skip_space(text, after + 1)
        return None

    def _element(self, offset: int, index: int) -> tuple[int, int] | None:
        text = self._text
        if _byte(text, offset) != b"[":
            return None
        known = self._elements.setdefault(offset, [])
        if not known:
            first = skip_space(text, offset + 1)
            if _byte(text, first) == b"]":
                return None
            known.append(first)
        while len(known) <= index:
            after = end_of_value(text, known[-1])
            if _byte(text, after) != b",":
                return None
            known.append(skip_space(text, after + 1))
        return known[index], known[index]
