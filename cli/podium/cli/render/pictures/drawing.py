"""A picture as values: boxes with a meaning, labels and spots with a title, in pixels or per cent.

The modules of this package lay pictures out as these values, and `svg` is the only one that writes markup. A
style is a meaning, such as free or preempted. The style sheet gives it a colour, and its letter is in the
picture, so that no meaning depends on colour alone.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

# The width of a drawing in pixels: it fits a window of 400 pixels, and three fit side by side in one of 1280.
WIDTH = 320
# Maximum length of a name in a drawing, in characters; object names have up to 253.
NAME = 40
# The narrowest box with a letter.
_LETTER = 10


class Style(StrEnum):
    """The meaning of a box; BAND_1 has the highest priority."""

    BAND_1 = "a"
    BAND_2 = "b"
    BAND_3 = "c"
    BAND_4 = "d"
    BAND_5 = "e"
    PREEMPTED = "preempted"
    PLACED = "placed"
    TERMINATING = "terminating"
    FREE = "free"
    CORDONED = "cordoned"
    EVENT = "event"
    LINE = "line"


LETTERS = {
    Style.BAND_1: "A",
    Style.BAND_2: "B",
    Style.BAND_3: "C",
    Style.BAND_4: "D",
    Style.BAND_5: "E",
    Style.TERMINATING: "T",
    Style.CORDONED: "x",
    Style.PLACED: "+",
    Style.PREEMPTED: "\N{MINUS SIGN}",
}


class Rectangle(NamedTuple):
    """A rectangle without a meaning."""

    x: float
    y: float
    width: float
    height: float


class Box(NamedTuple):
    """A rectangle with a meaning; `letter` is drawn at its start."""

    style: Style
    x: float
    y: float
    width: float
    height: float
    letter: str = ""


class Spot(NamedTuple):
    """A place with a title, which a browser shows under the pointer."""

    title: str
    x: float
    y: float
    width: float
    height: float


class Anchor(StrEnum):
    """The part of a label that is at its place."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


class Label(NamedTuple):
    """A text at the baseline `y`; a `muted` one is secondary."""

    words: str
    x: float
    y: float
    anchor: Anchor = Anchor.START
    muted: bool = False


class Drawing(NamedTuple):
    """A picture with the words for readers who do not see it.

    `height` and all vertical measures are in pixels. Horizontal ones are too, or, if `stretched`, per cent of
    the width of the page.
    """

    title: str
    description: str
    height: float
    boxes: Sequence[Box]
    spots: Sequence[Spot] = ()
    labels: Sequence[Label] = ()
    stretched: bool = False


class Panel(NamedTuple):
    """A drawing with a heading and a note above it."""

    heading: str
    note: str
    drawing: Drawing


Parts = tuple[tuple[Style, int], ...]


def short(name: str, limit: int = NAME) -> str:
    """Return a name of at most `limit` characters; of a long one the end, because names differ there."""
    return name if len(name) <= limit else f"\N{HORIZONTAL ELLIPSIS}{name[1 - limit :]}"


def filled(parts: Iterable[tuple[Style, int]], capacity: int, rest: Style = Style.FREE) -> Parts:
    """Return the parts that fit into a capacity, in order, and the rest of it; neighbours of a style are one.

    The requests on a node may exceed its capacity, as after a device has failed.
    """
    merged: list[tuple[Style, int]] = []
    left = capacity
    for style, amount in (*parts, (rest, capacity)):
        taken = min(amount, left)
        left -= taken
        if taken and merged and merged[-1][0] is style:
            merged[-1] = style, merged[-1][1] + taken
        elif taken:
            merged.append((style, taken))
    return tuple(merged)


def bar(parts: Parts, place: Rectangle) -> Iterable[Box]:
    """Yield the parts of a whole as boxes side by side, by share of the width."""
    whole = sum(amount for _, amount in parts)
    start = 0
    for style, amount in parts:
        left, right = (round(place.width * at / whole, 1) for at in (start, start + amount))
        start += amount
        gap = 1 if right - left > 2 else 0
        letter = LETTERS.get(style, "") if right - left >= _LETTER else ""
        yield Box(style, place.x + left, place.y, round(right - left - gap, 1), place.height, letter)


def cells(parts: Parts, first: Rectangle, columns: int) -> Iterable[Box]:
    """Yield a cell for each unit, in rows of `columns`, from `first` on; a part begins with its letter."""
    at = 0
    for style, amount in parts:
        for number in range(amount):
            row, column = divmod(at, columns)
            x, y = first.x + column * first.width, first.y + row * first.height
            letter = LETTERS.get(style, "") if number == 0 else ""
            yield Box(style, x, y, first.width - 1, first.height - 1, letter)
            at += 1
