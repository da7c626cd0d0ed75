"""The frame of every HTML page: it loads nothing and needs no script, whether on disk, in mail or on paper.

A page that `podium ui` serves is the same with a navigation, links and forms, all to its own server.

The style beside this module, and the script of a page that has one, are inline. The page's content security
policy allows these texts (by hash) and nothing else. If a hostile name passed the escaping, it could neither
run nor load anything. Long lists are cut and say so.
"""

import base64
import functools
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

from podium.cli.render.words import visible

_STYLE = Path(__file__).with_name("page.css")
# The style that only a page with a navigation has.
_SERVED_STYLE = Path(__file__).with_name("served.css")


def whole(
    title: str,
    header: str,
    sections: Sequence[str],
    footer: str,
    *,
    script: str = "",
    navigation: str = "",
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
            f'{meta}"{escape(policy(script=script, served=bool(navigation)))}">',
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


def policy(*, script: str = "", served: bool = False) -> str:
    """Return the content security policy of a page: its own style and script, and no external content."""
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    # A browser asks a server for an icon, so a served page has an empty one.
    to_self = "img-src data:; form-action 'self'" if served else "form-action 'none'"
    return (
        f"default-src 'none'; style-src '{_hash(_style(served=served))}'; {scripts}base-uri 'none'; {to_self}"
    )


def section(name: str, title: str, body: str) -> str:
    """Return a part of a page under a heading; `name` is its anchor."""
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>\n{body}\n</section>'


def table(caption: str, head: str, rows: Sequence[str], total: int, limit: int, *, kind: str = "") -> str:
    """Return a table in a box that scrolls if the window is too narrow; an empty text for no rows."""
    if not rows:
        return ""
    return (
        f'<div class="scroll {kind}" tabindex="0" role="group" aria-label="{caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table>"
        f"{first_of(total, limit)}</div>"
    )


def tiles(numbers: Sequence[tuple[str, str, str, int]]) -> str:
    """Return tiles for the key numbers: each has a style, a noun, the text after that, and the number."""
    return "\n".join(
        [
            '<dl class="tiles">',
            *(
                f'<div class="tile {kind if number else "none"}">'
                f"<dt>{noun if number == 1 else noun + 's'} {rest}</dt><dd>{number:,}</dd></div>"
                for kind, noun, rest, number in numbers
            ),
            "</dl>",
        ]
    )


def first_of(total: int, limit: int) -> str:
    """Return a note that a list was cut, or an empty text if it is complete."""
    return f'<p class="cut">First {limit:,} of {total:,}.</p>' if total > limit else ""


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
