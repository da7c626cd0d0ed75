"""How counts, lists of names and words of others are said, alike in a condition, a finding and a report."""

from collections.abc import Iterable, Sequence

# A reader who must act needs a few names to recognise the case, and the count for its size.
SHOWN = 3
ELLIPSIS = "…"


def count(number: int, noun: str) -> str:
    """Say how many: `1 group`, `1,312 groups`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def work(seconds: int) -> str:
    """Say how much work: `12.5 accelerator-hours`, in seconds where it is less than 0.1 hours."""
    if seconds < 360:
        return count(seconds, "accelerator-second")
    return f"{seconds / 3600:,.1f} accelerator-hours"


def listed(parts: Sequence[str]) -> str:
    """Join as a sentence does: `a`, `a and b`, `a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def some(names: Iterable[str], shown: int = SHOWN) -> str:
    """Name the first few in order, and count the rest: `a, b, c and 4 more`."""
    ordered = sorted(names)
    if len(ordered) <= shown:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:shown])} and {len(ordered) - shown:,} more"


def cut(text: str, limit: int) -> str:
    """Shorten to at most `limit` bytes of UTF-8, between characters; what was cut ends in an ellipsis."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    room = limit - len(ELLIPSIS.encode())
    return encoded[:room].decode(errors="ignore") + ELLIPSIS if room > 0 else ""


def one_line(text: str) -> str:
    """Bring somebody else's words into one line."""
    return " ".join(text.split())
