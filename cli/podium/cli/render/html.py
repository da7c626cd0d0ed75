"""The frame of every HTML page: it loads nothing and needs no script, whether on disk, in mail or on paper.

A page that `podium ui` serves is the same with a navigation, links and forms, all to its own server.

The style beside this module, and the script of a page that has one, are inline. The page's content security
policy allows these texts (by hash) and nothing else. If a hostile name passed the escaping, it could neither
run nor load anything. Long lists are cut.
"""

import base64
import functools
import hashlib
import re
from collections.abc import Callable, Collection, Sequence
from html import escape
from itertools import chain, repeat
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from podium.api.findings import Finding
from podium.text import visible

T = TypeVar("T")
# The windows in which a part of a page is only its heading, until a click opens it.
Fold = Literal["never", "narrow", "always"]

# Maximum length of a folded list before its reader opens it; docs/ui.md and docs/whatif.md state it.
FIRST = 20
# The kinds of tables whose cells are below each other on a narrow screen, each with the name of its column.
_STACKED = ("rows", "units")
# A command in a fix begins the text or follows a separator. It ends at a semicolon, which is never in a name
# without quotes.
_COMMAND = re.compile(
    r"""(?:^|(?<=; )|(?<=: )|(?<=; then ))(?:kubectl|podium convert) (?:'[^']*'|"[^"]*"|[^;'"])+"""
)

# The mark of a command that names only some of its objects.
_CUT = " ... ("

_STYLE = Path(__file__).with_name("page.css")
# The style that only a page with a navigation has.
_SERVED_STYLE = Path(__file__).with_name("served.css")


def whole(
    title: str, header: str, sections: Sequence[str], footer: str, *, script: str = "", navigation: str = ""
) -> str:
    """Return a page; `title` is text, the rest is markup, and empty sections are left out.

    A page with a `navigation` is served: its policy allows forms to its own server.
    """
    meta = '<meta http-equiv="Content-Security-Policy" content='
    style = _style(served=bool(navigation))
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'{meta}"{escape(content_security_policy(script=script, served=bool(navigation)))}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<meta name="referrer" content="{"same-origin" if navigation else "no-referrer"}">',
            *(['<link rel="icon" href="data:,">'] if navigation else []),
            f"<title>{text(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            *([navigation] if navigation else []),
            header,
            "<main>",
            *filter(None, sections),
            "</main>",
            "<footer>",
            footer,
            "</footer>",
            *([f"<script>{script}</script>"] if script else []),
            "</body>",
            "</html>",
            "",
        ]
    )


def content_security_policy(*, script: str = "", served: bool = False) -> str:
    """Return the content security policy of a page: its own style and script, and no external content."""
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    # A browser asks a server for an icon, so a served page has an empty one.
    to_self = "img-src data:; form-action 'self'" if served else "form-action 'none'"
    return (
        f"default-src 'none'; style-src '{_hash(_style(served=served))}'; {scripts}base-uri 'none'; {to_self}"
    )


def section(name: str, title: str, body: str, fold: Fold = "never") -> str:
    """Return a part of a page under a heading; an empty text for an empty body. `name` is its anchor.

    A click on the heading of a folded part opens it.
    """
    if not body:
        return ""
    heading = f'<h2 id="{name}">{title}</h2>'
    if fold != "never":
        body = f'<details class="more {fold}"><summary>{heading}</summary>\n{body}</details>'
    else:
        body = f"{heading}\n{body}"
    return f'<section aria-labelledby="{name}">{body}\n</section>'


class Cell(NamedTuple):
    """A cell of a table with attributes of its element."""

    markup: str
    attributes: str


def table(
    caption: str,
    header: Sequence[str],
    items: Sequence[T],
    row: Callable[[T], Sequence[str | int | Cell]],
    *,
    limit: int | None = None,
    numbers: Collection[int] = (),
    kind: str = "",
    named: bool = True,
) -> str:
    """Return a table with a row for each of the first items; an empty text if there are none.

    A `row` is markup. Integers have separators; their columns, and those in `numbers`, are right-aligned. If
    `named`, the first cell is the row's header, unless it is a number. The table is in a box that scrolls if
    the window is too narrow; cells of the kinds `rows` and `units` are then below each other instead.
    """
    if not items:
        return ""
    rows = [row(item) for item in items[:limit]]
    numbers = {*numbers, *(at for at, cell in enumerate(rows[0]) if isinstance(cell, int))}
    ranks = [' class="number"' if at in numbers else "" for at in range(len(header))]
    head = "".join(f'<th scope="col"{rank}>{name}</th>' for name, rank in zip(header, ranks, strict=True))

    def written(cell: str | int | Cell, at: int) -> str:
        markup, attributes = cell if isinstance(cell, Cell) else (cell, ranks[at])
        if kind.startswith(_STACKED):
            attributes += f' data-label="{header[at]}"'
        start, end = ('th scope="row"', "th") if named and at == 0 and not ranks[0] else ("td", "td")
        return f"<{start}{attributes}>{f'{markup:,}' if isinstance(markup, int) else markup}</{end}>"

    body = (f"<tr>{''.join(written(cell, at) for at, cell in enumerate(cells))}</tr>" for cells in rows)
    return (
        f'<div class="scroll {kind}" tabindex="0" role="group" aria-label="{caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n"
        + "\n".join(body)
        + "\n</tbody></table>"
        f"{first_of(len(items), limit)}</div>"
    )


def finding_item(finding: Finding) -> str:
    """Return a finding as an item of a list."""
    field = f" <code>{text(finding.field)}</code>" if finding.field else ""
    return (
        f'<li class="finding" data-severity="{finding.severity}">'
        f'<p class="object">{text(str(finding.object))}{field}</p>'
        f'<p>{text(finding.message)}</p><p class="fix"><b>Fix:</b> {fix_markup(finding.fix)}</p></li>'
    )


def fix_markup(fix: str) -> str:
    """Return a fix with its commands in a fixed-width font; one click selects a whole command.

    A command that names only some of its objects is text, because it does not run.
    """
    written, start = [], 0
    for command in _COMMAND.finditer(fix):
        if _CUT not in command[0]:
            words = text(command[0])
            written += [text(fix[start : command.start()]), f'<code class="command">{words}</code>']
            start = command.end()
    return "".join([*written, text(fix[start:])])


def tiles(numbers: Sequence[tuple[str, str, str, int]], targets: Sequence[str] = ()) -> str:
    """Return tiles for the key numbers: each has a style, a noun, the text after that, and the number.

    `targets` are the addresses that they link to, empty for none.
    """

    def tile(number: tuple[str, str, str, int], target: str) -> str:
        kind, noun, rest, value = number
        words = f"{noun if value == 1 else noun + 's'} {rest}"
        label = f'<a href="{escape(target)}">{words}</a>' if target else words
        return f'<div class="tile {kind if value else "none"}"><dt>{label}</dt><dd>{value:,}</dd></div>'

    return "\n".join(['<dl class="tiles">', *map(tile, numbers, chain(targets, repeat(""))), "</dl>"])


def folded(items: Sequence[T], draw: Callable[[Sequence[T]], str], limit: int, first: int = FIRST) -> str:
    """Return the first items, and those up to `limit` behind a line that opens them; `draw` writes some."""
    rest = items[first:limit]
    if not rest:
        return draw(items)
    summary = f"<summary>Show {len(rest):,} more</summary>"
    more = f'<details class="more">{summary}\n{draw(rest)}{first_of(len(items), limit)}</details>'
    return f"{draw(items[:first])}\n{more}"


def first_of(total: int, limit: int | None) -> str:
    """Return a note that a list was cut, or an empty text if it is complete."""
    return f'<p class="cut">First {limit:,} of {total:,}.</p>' if limit is not None and total > limit else ""


def text(words: str) -> str:
    """Return a text from outside escaped, so that it is only text on the page."""
    return escape(visible(words))


@functools.cache
def _style(*, served: bool) -> str:
    style = _STYLE.read_text("utf-8")
    return style + _SERVED_STYLE.read_text("utf-8") if served else style


@functools.lru_cache(maxsize=8)
def _hash(words: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(words.encode()).digest()).decode()}"
