"""Decode JSON of any origin with one limit of nesting, so that every interpreter gives the same answer.

API servers store up to 10,000 levels, in metadata.managedFields of any object for example. msgspec stops at a
limit of the interpreter: the recursion limit of Python 3.11, a number of C calls in 3.12 and 3.13, the size
of the stack in 3.14. So nothing here depends on where msgspec stops:

- What a type does not name is skipped, however deep it is nested.
- Values whose depth no type limits (`Any`, a Struct within itself) have at most MAX_DEPTH levels. A decoder
  leaves deeper values out (0 is in their place), or refuses the text.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import msgspec
from msgspec import inspect

T = TypeVar("T")
Text = bytes | bytearray | memoryview | msgspec.Raw

# Deeper than any field of any read (a test compares them). Python code may walk such a value with several
# frames a level.
MAX_DEPTH = 200
TOO_DEEP = f"nested too deeply (more than {MAX_DEPTH} levels)"
# The levels that msgspec gets after it refused a text: MAX_DEPTH in the envelope of an object (16 Lists).
_SKIPPED_DEPTH = MAX_DEPTH + 50

_CHUNK = 64 << 10
_ESCAPED_BACKSLASH, _ESCAPED_QUOTE = rb"\\", rb"\""
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NEITHER_QUOTE_NOR_BRACKET = bytes(set(range(256)) - set(b'"[]{}'))
# The change of the level at a byte: none at a quote, 255 is -1, and all other bytes are no step.
_NO_STEP = 2
_STEP_OF = {ord('"'): 0, ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}
_STEPS = bytes(_STEP_OF.get(byte, _NO_STEP) for byte in range(256))
_STRING = re.compile(rb'"[^"]*"?')
_SPACE = b" \t\r\n"
# The text of msgspec, with the byte after the first trailing one.
_TRAILING = "JSON is malformed: trailing characters (byte "


class DepthError(msgspec.DecodeError):
    """A text that is nested too deeply to be decoded."""

    def __init__(self) -> None:
        super().__init__(TOO_DEEP)


class Decoder(Generic[T]):
    """Decodes JSON texts to a type. With `refuses`, values that are too deep for it are a DepthError."""

    @overload
    def __init__(self: "Decoder[T]", type: type[T], *, refuses: bool = ...) -> None: ...
    @overload
    def __init__(self: "Decoder[Any]", type: Any, *, refuses: bool = ...) -> None: ...
    def __init__(self, type: Any, *, refuses: bool = False) -> None:  # noqa: A002
        self._decode: Callable[[Text], T] = msgspec.json.Decoder(type).decode
        self._limited = _is_limited(inspect.type_info(type))
        self._refuses = refuses

    def decode(self, text: Text) -> T:
        """Return the decoded value. Raises msgspec.DecodeError, and UnicodeDecodeError."""
        if not self._limited:
            shallow = cut(text)
            if self._refuses and shallow is not text:
                raise DepthError
            text = shallow
        try:
            return self._decode(text)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, RecursionError) as error:
            # Only a whole value has trailing characters behind it.
            view = memoryview(text)
            if str(error).startswith(_TRAILING) or not _may_be_deep(view):
                raise
            first, end = _shallow(view, _SKIPPED_DEPTH)
            if first is None:
                raise
        return self._decode_shallow(first, view[end:])

    def _decode_shallow(self, text: bytearray, rest: memoryview) -> T:
        """Return the decoded value of a text without its deepest values; `rest` are the bytes behind it."""
        try:
            value = self._decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            if str(error).startswith(_TRAILING):
                raise
            raise DepthError from None
        if more := bytes(rest).lstrip(_SPACE):
            raise msgspec.DecodeError(f"{_TRAILING}{len(text) + len(rest) - len(more) + 1})")
        return value


@functools.cache
def decoder(type: Any, *, refuses: bool = False) -> Decoder[Any]:  # noqa: A002
    """Return the decoder of a type, which is made once."""
    return Decoder(type, refuses=refuses)


@overload
def parse(text: Text, type: type[T], *, refuses: bool = ...) -> T: ...
@overload
def parse(text: Text, type: Any, *, refuses: bool = ...) -> Any: ...
def parse(text: Text, type: Any, *, refuses: bool = False) -> Any:  # noqa: A002
    """Return the decoded value of a text, as a Decoder does."""
    return decoder(type, refuses=refuses).decode(text)


def cut(text: Text) -> Text:
    """Return the text of a value with 0 for what is nested too deeply; the same text if nothing is.

    All else stays in its place, line breaks too. The steps are linear and in C, because the text may be
    anybody's.
    """
    view = memoryview(text)
    if not _may_be_deep(view):
        return text
    shallow, end = _shallow(view, MAX_DEPTH)
    return text if shallow is None else shallow + view[end:]


def _may_be_deep(view: memoryview) -> bool:
    """Return False for a short text that is not nested too deeply, several times faster than `_shallow`."""
    if not MAX_DEPTH < len(view) <= _CHUNK:
        return len(view) > _CHUNK
    text = bytes(view)
    if b"\\" in text:
        text = text.replace(_ESCAPED_BACKSLASH, b"").replace(_ESCAPED_QUOTE, b"")
    marks = text.translate(_BRACKETS, _NEITHER_QUOTE_NOR_BRACKET)
    if marks.count(b"[") <= MAX_DEPTH:
        return False
    marks = _STRING.sub(b"", marks.replace(b'""', b""))
    for _ in range(MAX_DEPTH):
        # Each round removes the innermost level.
        outer = marks.replace(b"[]", b"")
        if len(outer) == len(marks):
            break
        marks = outer
    return bool(marks)


def _shallow(view: memoryview, levels: int) -> tuple[bytearray | None, int]:
    """Return the first value of a text with 0 for what is nested deeper, and the end of what was looked at.

    The value is None if nothing is nested deeper. At most a chunk is looked at after the value.
    """
    import numpy as np  # noqa: PLC0415 - slow to import, and rarely needed

    shallow: bytearray | None = None
    level = start = 0
    inside = escapes = whole = False
    while start < len(view) and not whole:
        chunk = bytes(view[start : start + _CHUNK])
        if escapes:
            chunk = b"." + chunk[1:]
        # Without escapes, every remaining quote begins or ends a string.
        chunk = chunk.replace(_ESCAPED_BACKSLASH, b"..").replace(_ESCAPED_QUOTE, b"..")
        escapes = chunk.endswith(b"\\")
        step = np.frombuffer(chunk.translate(_STEPS), np.int8)
        places = np.flatnonzero(step != _NO_STEP)
        step = step[places]
        strings = np.logical_xor.accumulate(step == 0) ^ inside
        inside = bool(strings[-1]) if len(strings) else inside
        step, places = step[~strings], places[~strings]
        levels_at = level + np.cumsum(step, dtype=np.int32)
        begins = places[(step > 0) & (levels_at == levels + 1)]
        if level > levels or len(begins):
            # At the closing bracket of a value, the level is already that of the enclosing value.
            ends = places[(step < 0) & (levels_at == levels)]
            turns = np.zeros(len(chunk) + 1, np.int8)
            turns[0] = level > levels
            turns[begins + 1] += 1
            turns[ends + 1] -= 1
            flat = np.frombuffer(view, np.uint8, len(chunk), start).copy()
            flat[(np.cumsum(turns[:-1], dtype=np.int8) > 0) & (flat != ord("\n"))] = ord(" ")
            flat[begins] = ord("0")
            shallow = bytearray(view[:start]) if shallow is None else shallow
            shallow += flat.tobytes()
        elif shallow is not None:
            shallow += view[start : start + len(chunk)]
        if len(step):
            level = int(levels_at[-1])
            whole = bool(np.any((step < 0) & (levels_at <= 0)))
        start += len(chunk)
    return shallow, start


def _is_limited(kind: inspect.Type, within: tuple[inspect.Type, ...] = ()) -> bool:
    """Return whether a type limits the depth of its values; a Struct within itself does not."""
    # `object` is a CustomType.
    if isinstance(kind, inspect.AnyType | inspect.CustomType) or any(kind is outer for outer in within):
        return False
    inner = [field.type for field in getattr(kind, "fields", ())]
    inner += [*getattr(kind, "types", ()), *getattr(kind, "item_types", ())]
    inner += [getattr(kind, name) for name in ("item_type", "value_type") if hasattr(kind, name)]
    return all(_is_limited(member, (*within, kind)) for member in inner)
