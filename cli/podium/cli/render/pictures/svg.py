"""Writes pictures as inline SVG without script: the only module that knows markup and its escaping.

Colours are classes of the page's style sheet, so a picture follows its light or dark mode. A picture is an
image to assistive technology, with a title and a description. All text goes through `text`, as on the rest of
the page.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from podium.cli.render.html import text
from podium.cli.render.pictures.drawing import LETTERS, WIDTH, Box, Drawing, Label, Panel, Spot, Style


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
