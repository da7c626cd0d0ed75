"""A picture as values: boxes with a meaning, labels and spots with a title, in pixels or per cent.

The modules of this package lay pictures out as these values, and only `svg` writes markup: inline, without
script. A picture is an image to assistive technology, with a title and a description. A style is a meaning,
such as free or preempted. The style sheet gives it a colour, and its letter is in the picture, so that no
meaning depends on colour alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from podium.cli.render.html import text

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


class LegendEntry(NamedTuple):
    """A style that a picture has, and its meaning in words."""

    style: Style
    words: str


def svg(drawing: Drawing) -> str:
    """Return a drawing as an element."""
    height = f"{drawing.height:g}"
    size = f'width="100%" height="{height}"'
    if not drawing.stretched:
        size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    written = _stretched(drawing.boxes) if drawing.stretched else _paths(drawing.boxes)
    unit = "%" if drawing.stretched else ""
    return "".join(
        [
            f'<svg class="picture" role="img" focusable="false" {size}>',
            f"<title>{text(drawing.title)}</title><desc>{text(drawing.description)}</desc>",
            *written,
            *(_label(label, unit) for label in drawing.labels),
            *(_spot(spot, unit) for spot in drawing.spots),
            "</svg>",
        ]
    )


def legend(entries: Iterable[LegendEntry]) -> str:
    """Return the meanings of the styles, each with its colour and letter."""
    return f'<ul class="legend">{"".join(map(_entry, entries))}</ul>'


def panel_grid(drawn: Sequence[Panel]) -> str:
    """Return panels side by side, as many as fit."""
    return f'<div class="panels">{"".join(map(_panel, drawn))}</div>'


def _panel(panel: Panel) -> str:
    heading = f'<h3>{text(panel.heading)}</h3> <span class="note">{text(panel.note)}</span>'
    return f'<div class="panel"><p>{heading}</p>{svg(panel.drawing)}</div>'


def _entry(entry: LegendEntry) -> str:
    box = Box(entry.style, 0, 0, 16, 16, LETTERS.get(entry.style, ""))
    swatch = f'<svg class="picture" width="16" height="16" aria-hidden="true">{"".join(_paths([box]))}</svg>'
    return f"<li>{swatch} {text(entry.words)}</li>"


def _paths(boxes: Iterable[Box]) -> Iterable[str]:
    """Yield one path for all boxes of a style, and one text for their letters."""
    by_style: dict[Style, list[Box]] = defaultdict(list)
    for box in boxes:
        by_style[box.style].append(box)
    for style, same in by_style.items():
        outline = "".join(f"M{box.x:g} {box.y:g}h{box.width:g}v{box.height:g}H{box.x:g}z" for box in same)
        yield f'<path class="{style}" d="{outline}"/>'
        if lettered := [box for box in same if box.letter]:
            across = " ".join(f"{box.x + 1.5:g}" for box in lettered)
            down = " ".join(f"{box.y + box.height - 2:g}" for box in lettered)
            letters = text("".join(box.letter for box in lettered))
            yield f'<text class="on-{style}" x="{across}" y="{down}">{letters}</text>'


def _stretched(boxes: Iterable[Box]) -> Iterable[str]:
    for box in boxes:
        place = f'x="{box.x:g}%" y="{box.y:g}" width="{box.width:g}%" height="{box.height:g}"'
        yield f'<rect class="{box.style}" {place}/>'


def _label(label: Label, unit: str) -> str:
    kind = ' class="muted"' if label.muted else ""
    place = f'x="{label.x:g}{unit}" y="{label.y:g}" text-anchor="{label.anchor}"'
    return f"<text{kind} {place}>{text(label.words)}</text>"


def _spot(spot: Spot, unit: str) -> str:
    place = f'x="{spot.x:g}{unit}" y="{spot.y:g}" width="{spot.width:g}{unit}" height="{spot.height:g}"'
    return f'<rect class="spot" {place}><title>{text(spot.title)}</title></rect>'
