"""Functions of strings.

Source: cel-go ext/strings.go.
"""

from podium.cel.nodes import SelectorRuntimeError
from podium.cel.shown import verb_v
from podium.cel.values import bounded_items, bounded_text
from podium.text import GO_ESCAPES

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# The characters that Go's strings.TrimSpace removes.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
    "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def _out_of_range(index: int) -> SelectorRuntimeError:
    return SelectorRuntimeError(f"index out of range: {index}")


def _text_pair(first: object, second: object) -> tuple[str, str]:
    if not isinstance(first, str) or not isinstance(second, str):
        raise SelectorRuntimeError("no such overload")
    return first, second


def contains(text: object, part: object) -> bool:
    """Return whether a text contains another."""
    whole, inner = _text_pair(text, part)
    return inner in whole


def starts_with(text: object, part: object) -> bool:
    """Return whether a text starts with another."""
    whole, start = _text_pair(text, part)
    return whole.startswith(start)


def ends_with(text: object, part: object) -> bool:
    """Return whether a text ends with another."""
    whole, end = _text_pair(text, part)
    return whole.endswith(end)


def char_at(text: str, index: int) -> str:
    """Return the character at an index; at the end it is empty."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of_37(text: str, part: str, offset: int = 0) -> int:
    """Return the first index of a text at or after an offset, or -1."""
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


def index_of_36(text: str, part: str, offset: int = 0) -> int:
    """Return the first index as 1.36 does: an empty text is at any offset."""
    return offset if not part else index_of_37(text, part, offset)


def last_index_of_37(text: str, part: str, offset: int | None = None) -> int:
    """Return the last index of a text at or before an offset, or -1."""
    if offset is None:
        return len(text) if not part else text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def last_index_of_36(text: str, part: str, offset: int | None = None) -> int:
    """Return the last index as 1.36 does: an empty text is at any offset."""
    return offset if not part and offset is not None else last_index_of_37(text, part, offset)


def lower_ascii(text: str) -> str:
    """Return a text with lower ASCII letters."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """Return a text with upper ASCII letters."""
    return text.translate(_UPPER)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """Return a text with another replaced, at most `count` times unless it is negative."""
    times = (text.count(old) if old else len(text) + 1) if count else 0
    bounded_text(len(text) + (min(times, count) if count > 0 else times) * max(0, len(new) - len(old)))
    return text.replace(old, new, count)


def split(text: str, separator: str, count: int = -1) -> list[object]:
    """Return the parts between separators, at most `count` unless it is negative."""
    if count == 0:
        return []
    if not separator:
        bounded_items(len(text))
        if count < 0 or count > len(text):
            return list(text)
        return [*text[: count - 1], text[count - 1 :]]
    return list(text.split(separator, count - 1 if count > 0 else -1))


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the characters between two indices."""
    if end is not None and start > end:
        raise SelectorRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def trim(text: str) -> str:
    """Return a text without white space around it."""
    return text.strip(_SPACE)


def quote(text: str) -> str:
    """Return a text in quotes, with escapes."""
    return f'"{text.translate(GO_ESCAPES)}"'


def join(parts: list[object], separator: str = "") -> str:
    """Return the parts with a separator between them."""
    total = len(separator) * max(0, len(parts) - 1)
    for part in parts:
        if not isinstance(part, str):
            raise SelectorRuntimeError(f"join: invalid input: {verb_v(part)}")
        total += len(part)
    bounded_text(total)
    return separator.join(parts)  # type: ignore[arg-type]
