"""The wording of counts and lists of names, shared by conditions, findings and reports.

Also the escapes of characters that terminals, browsers, parsers and runners of CI obey.
"""

import re
from collections.abc import Iterable, Sequence

# Readers need a few names to recognise the case, and the total for its size.
SHOWN = 3
ELLIPSIS = "…"
# Control characters (terminal escapes), characters that change the direction of text or break lines, and
# those that XML forbids. Also one character of each command to a runner of CI: `::error ...::`, `##vso[...]`.
_ACTIVE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
    # A name with only hexadecimal digits is part of an IPv6 address.
    "|:(?=:[A-Za-z-]{0,20}[G-Zg-z-][A-Za-z-]{0,20}(?: |::))"
    r"|#(?=#[A-Za-z]{0,20}\[)"
)


def visible(text: str) -> str:
    r"""Return a text with an escape for each invisible or active character: `\x1b`, `\u202e`."""
    return _ACTIVE.sub(_escape, text) if _ACTIVE.search(text) else text


def json_visible(text: str) -> str:
    r"""Return a JSON document of the same value with `\u` and four digits for each active character.

    Line breaks between its lines stay.
    """
    return _ACTIVE.sub(_json_escape, text) if _ACTIVE.search(text.replace("\n", "")) else text


def visible_lines(text: str) -> str:
    """Return a text of several lines with escapes as in `visible`, but with its line breaks."""
    return "\n".join(map(visible, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escape(match: re.Match[str]) -> str:
    return match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}"


def count(number: int, noun: str) -> str:
    """Return a count with its noun: `1 group`, `1,312 groups`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def accelerator_time(seconds: int) -> str:
    """Return an amount of work: `12.5 accelerator-hours`, in seconds if it is less than 0.1 hours."""
    if seconds < 360:
        return count(seconds, "accelerator-second")
    return f"{seconds / 3600:,.1f} accelerator-hours"


def listed(parts: Sequence[str]) -> str:
    """Return the parts joined as in a sentence: `a`, `a and b`, `a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def some(names: Iterable[str], shown: int = SHOWN) -> str:
    """Return the first few names in order, and the number of the others: `a, b, c and 4 more`."""
    ordered = sorted(names)
    if len(ordered) <= shown:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:shown])} and {len(ordered) - shown:,} more"


def cut(text: str, limit: int) -> str:
    """Return at most `limit` bytes of UTF-8, cut between characters; a cut text ends in an ellipsis."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    room = limit - len(ELLIPSIS.encode())
    return encoded[:room].decode(errors="ignore") + ELLIPSIS if room > 0 else ""


def one_line(text: str) -> str:
    """Return a message of another program as one line."""
    return " ".join(text.split())


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names by their numbers: `node-2` before `node-10`."""
    runs = re.findall(r"([0-9]{1,18})|([^0-9]+)", name)
    return [(int(number), "") if number else (-1, words) for number, words in runs]
