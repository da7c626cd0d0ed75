"""Functions of strings.

Source: cel-go ext/strings.go.
"""

from kubecel.effort import COPIED, MADE, READ, SEARCHED, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.goquote import GO_ESCAPES
from kubecel.gotext import verb_v

# Python's search for a short part is linear. That for a long part is linear in a text of this length, if it
# is three times as long as the part. In a shorter text it compares the part at every place.
_SHORT_PART, _LONG_TEXT = 100, 30_000
# The effort of a call that makes a text or a list of texts, beside its size.
_CALL = 4
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


def _searched(text: str, substr: str) -> str:
    """Count a search, and return the text, longer if Python's search for it would not be linear."""
    length = len(text)
    if len(substr) >= _SHORT_PART:
        length = max(_LONG_TEXT, length) + 3 * len(substr)
    if length > SEARCHED:
        meter.spend(length // SEARCHED)
    return text.ljust(length, "\0")


def _index(text: str, substr: str, start: int = 0) -> int:
    """Return the first place of a substring, from a start, or -1."""
    place = _searched(text, substr).find(substr, start)
    return place if place <= len(text) - len(substr) else -1


def _parts(text: str, separator: str, count: int) -> list[str]:
    """Return the parts between the first long separators, all of them if the count is negative."""
    longer = _searched(text, separator)
    meter.spend(len(text) // len(separator))
    parts: list[str] = []
    start = 0
    while len(parts) != count and 0 <= (place := longer.find(separator, start)) <= len(text) - len(separator):
        parts.append(text[start:place])
        start = place + len(separator)
    return [*parts, text[start:]]


def contains(text: object, substr: object) -> bool:
    """Return whether a text contains another."""
    whole, inner = _text_pair(text, substr)
    return _index(whole, inner) >= 0


def starts_with(text: object, prefix: object) -> bool:
    """Return whether a text starts with another."""
    whole, start = _text_pair(text, prefix)
    meter.spend(len(start) // COPIED)
    return whole.startswith(start)


def ends_with(text: object, suffix: object) -> bool:
    """Return whether a text ends with another."""
    whole, end = _text_pair(text, suffix)
    meter.spend(len(end) // COPIED)
    return whole.endswith(end)


def char_at(text: str, index: int) -> str:
    """Return the character at an index; at the end it is empty."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of_37(text: str, substr: str, offset: int = 0) -> int:
    """Return the first index of a text at or after an offset, or -1."""
    if offset < 0:
        raise _out_of_range(offset)
    if not substr:
        return min(offset, len(text))
    return _index(text, substr, offset)


def index_of_36(text: str, substr: str, offset: int = 0) -> int:
    """Return the first index as 1.36 does: an empty text is at any offset."""
    return offset if not substr else index_of_37(text, substr, offset)


def last_index_of_37(text: str, substr: str, offset: int | None = None) -> int:
    """Return the last index of a text at or before an offset, or -1."""
    if offset is not None and offset < 0:
        raise _out_of_range(offset)
    if not substr:
        return len(text) if offset is None else min(offset, len(text))
    if offset is not None and offset >= len(text):
        return -1
    end = len(text) if offset is None else min(offset + len(substr), len(text))
    # Python's search from the end is quadratic, so the texts are reversed.
    meter.spend((len(text) + len(substr)) // SEARCHED)
    place = _index(text[:end][::-1], substr[::-1])
    return place if place < 0 else end - place - len(substr)


def last_index_of_36(text: str, substr: str, offset: int | None = None) -> int:
    """Return the last index as 1.36 does: an empty text is at any offset."""
    return offset if not substr and offset is not None else last_index_of_37(text, substr, offset)


def _copied(text: str) -> None:
    # As bytes, and back.
    meter.make_text(len(text))
    meter.make_text(len(text))


def lower_ascii(text: str) -> str:
    """Return a text with lower ASCII letters."""
    _copied(text)
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def upper_ascii(text: str) -> str:
    """Return a text with upper ASCII letters."""
    _copied(text)
    return text.encode("utf-8", "surrogatepass").upper().decode("utf-8", "surrogatepass")


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """Return a text with another replaced, at most `count` times unless it is negative."""
    if len(old) >= _SHORT_PART:
        return join([*_parts(text, old, count)], new)
    _searched(text, old)
    times = (text.count(old) if old else len(text) + 1) if count else 0
    times = min(times, count) if count > 0 else times
    meter.spend(_CALL + times // MADE)
    meter.make_text(len(text) + times * max(0, len(new) - len(old)))
    return text.replace(old, new, count)


def split(text: str, separator: str, count: int = -1) -> list[object]:
    """Return the parts between separators, at most `count` unless it is negative."""
    if count == 0:
        return []
    if not separator:
        meter.make_objects(len(text))
        if count < 0 or count > len(text):
            return list(text)
        return [*text[: count - 1], text[count - 1 :]]
    count = count - 1 if count > 0 else -1
    if len(separator) >= _SHORT_PART:
        return list(_parts(text, separator, count))
    meter.spend(_CALL)
    meter.make_objects(_searched(text, separator).count(separator) + 1)
    return list(text.split(separator, count))


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the characters between two indices."""
    if end is not None and start > end:
        raise SelectorRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    length = (len(text) if end is None else end) - start
    meter.make_text(length)
    meter.spend(length // SEARCHED // 4)
    return text[start:end]


def trim(text: str) -> str:
    """Return a text without white space around it."""
    meter.make_text(len(text))
    return text.strip(_SPACE)


def quote(text: str) -> str:
    """Return a text in quotes, with escapes."""
    meter.make_text(2 * len(text))
    meter.spend(len(text) // READ // 5)
    text = text.replace("\\", GO_ESCAPES[ord("\\")])
    for code, escape in GO_ESCAPES.items():
        if chr(code) != "\\":
            text = text.replace(chr(code), escape)
    return f'"{text}"'


def join(parts: list[object], separator: str = "") -> str:
    """Return the parts with a separator between them."""
    meter.spend(_CALL + len(parts) // MADE)
    total = len(separator) * max(0, len(parts) - 1)
    for part in parts:
        if not isinstance(part, str):
            raise SelectorRuntimeError(f"join: invalid input: {verb_v(part)}")
        total += len(part)
    meter.make_text(total)
    return separator.join(parts)  # type: ignore[arg-type]
