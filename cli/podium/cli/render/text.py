"""Lines for a terminal: columns that fit a width, wrapped paragraphs, and four styles if colour is on.

Rich lays out 10,000 rows in five seconds; this module needs a tenth of a second, because it has no markup and
measures no fonts. A layout without a width (`None`) wraps nothing: every row is one line that grep can find.

Names and annotations come from outside and may contain any character, so a layout escapes every text.
"""

import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from podium.text import visible

T = TypeVar("T")

_STYLES = {"bold": "1", "error": "1;31", "warning": "33", "info": "36", "dim": "2"}
_GAP = "  "
_NARROWEST = 8


class Layout:
    """Collects the lines of a report; `width` is in columns, None for lines of any length.

    A layout with a width cuts long lists. `headers` says whether columns have headers.
    """

    def __init__(self, *, width: int | None, colour: bool, headers: bool = True) -> None:
        self.width = width
        self.headers = headers
        self.colour = colour
        self.lines: list[str] = []

    def text(self) -> str:
        """Return everything written so far, with a newline at the end."""
        return "\n".join(self.lines) + "\n"

    def style(self, text: str, style: str) -> str:
        """Return a text, escaped, in a style if colour is on."""
        text = visible(text)
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour else text

    def paragraph(self, text: str, *, indent: str = "", hang: str = "", style: str = "") -> None:
        """Write a text, wrapped; `hang` is added to the indent of the lines after the first."""
        for line in self._wrap(visible(text), indent, indent + hang):
            self.lines.append(self.style(line, style) if style else line)

    def heading(self, text: str) -> None:
        """Start a section."""
        self.lines.append("")
        self.lines.append(self.style(text.upper(), "bold"))

    def columns(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Collection[int] = (),
        indent: str = "",
    ) -> None:
        """Write rows under a header, the columns in `right` aligned to the right; long cells wrap."""
        shown = [[visible(cell) for cell in row] for row in ((header, *rows) if self.headers else rows)]
        cells = list(zip(*shown, strict=True))
        widths = [max(map(len, column)) for column in cells]
        room = None if self.width is None else self.width - len(indent) - len(_GAP) * (len(widths) - 1)
        if room is not None and sum(widths) > room:
            # A broken name cannot be copied, so words are broken only if there is no other way, or if one
            # would take more than half of the width.
            words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in cells]
            _narrow(widths, [max(_NARROWEST, min(longest, room // 2)) for longest in words], room)
            _narrow(widths, [_NARROWEST] * len(widths), room)
        for number, row in enumerate(shown):
            for line in self._row(row, widths, right):
                full = indent + line
                self.lines.append(self.style(full, "dim") if self.headers and number == 0 else full)

    def listing(
        self,
        title: str,
        header: Sequence[str],
        items: Sequence[T],
        row: Callable[[T], Sequence[str | int]],
        *,
        limit: int | None = None,
        right: Collection[int] = (),
        indent: str = "",
    ) -> None:
        """Write a section with a row for each of the first items; nothing if there are none.

        Integers have separators; their columns, and those in `right`, are right-aligned.
        """
        if not items:
            return
        self.heading(title)
        rows = [row(item) for item in self.first(items, limit)]
        right = {*right, *(number for number, cell in enumerate(rows[0]) if isinstance(cell, int))}
        cells = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in values] for values in rows]
        self.columns(header, cells, right=right, indent=indent)
        self.cut(items, limit)

    def first(self, items: Sequence[T], limit: int | None) -> Sequence[T]:
        """Return the items that fit the limit; a layout without a width has no limit."""
        return items if self.width is None else items[:limit]

    def cut(self, items: Sequence[object], limit: int | None) -> None:
        """Write how many items `first` leaves out, if any."""
        if rest := len(items) - len(self.first(items, limit)):
            self.paragraph(f"... and {rest:,} more (-o wide shows all)", indent="  ", style="dim")

    def _row(self, row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> list[str]:
        if all(len(cell) <= width for cell, width in zip(row, widths, strict=True)):
            return [_line(row, widths, right)]
        cells = [
            textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
            for cell, width in zip(row, widths, strict=True)
        ]
        height = max(map(len, cells))
        padded = [cell + [""] * (height - len(cell)) for cell in cells]
        return [_line(parts, widths, right) for parts in zip(*padded, strict=True)]

    def _wrap(self, text: str, first: str, rest: str) -> list[str]:
        if self.width is None or len(first) + len(text) <= self.width:
            return [first + text]
        return textwrap.wrap(
            text, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )


def _line(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    cells = [
        cell.rjust(width) if number in right else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return _GAP.join(cells).rstrip()


def _narrow(widths: list[int], least: Sequence[int], room: int) -> None:
    """Reduce the widest columns, in place, until all fit the room or none is wider than its least."""
    while sum(widths) > room:
        wide = [number for number, width in enumerate(widths) if width > least[number]]
        if not wide:
            return
        widest = max(wide, key=widths.__getitem__)
        narrower = [widths[number] for number in wide if widths[number] < widths[widest]]
        floor = max([least[widest], *narrower])
        widths[widest] -= min(max(widths[widest] - floor, 1), sum(widths) - room)
