"""The common parts of all pages of `podium ui`: navigation, source of the numbers, links, long lists.

Every page is a function of values, and every text from outside goes through `text` or `link`.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qs, urlencode

from podium.answers.accounts.model import RunState
from podium.cli.render.html import text, whole
from podium.cli.render.why_words import ago
from podium.planner.preemption.outcome import UnitVerdict

T = TypeVar("T")

PAGES = {
    "/": "Overview",
    "/divergences": "Divergences",
    "/history": "History",
    "/whatif": "What if",
    "/threats": "Threats",
}
# Pages with a form, whose input a refresh would discard.
_FORMS = frozenset(("/whatif", "/threats"))
# The seconds after which a page can load itself again.
REFRESH = ("10", "60")
# Maximum length of a list on a page; docs/ui.md states these numbers.
ROWS = 100
# No form or link of these pages has more fields, or a higher page number.
_FIELDS, _LAST_PAGE = 20, 1_000_000

_BARE = "<nav><b>Podium</b></nav>"
_BADGES = {
    RunState.WAITING: "error",
    RunState.LEAVING: "warning",
    RunState.STARTING: "warning",
    RunState.RUNNING: "good",
}


class PageContext(NamedTuple):
    """The source of a page: the input, its time (RFC 3339), its age in seconds, Podium's version.

    `live` means a cluster, which can be read again. `unknown` lists the kinds that were not read, each with
    the reason.
    """

    source: str
    read_at: str
    age: int
    version: str
    live: bool
    unknown: Sequence[str] = ()


class Here(NamedTuple):
    """The location of a page: its path and the fields of its query."""

    path: str
    query: Mapping[str, str]

    def link(self, words: str, /, **changes: str) -> str:
        """Return a link to this page with other fields."""
        return link(words, self.path, **{**self.query, **changes})


class Slice(NamedTuple):
    """The displayed page of a list, the number of pages, and its first entry; counted from 1."""

    number: int
    pages: int
    start: int


def fields(query: str) -> dict[str, str]:
    """Return the fields of a query or a form: the last value of each. Raises ValueError for too many."""
    parsed = parse_qs(query, keep_blank_values=True, errors="replace", max_num_fields=_FIELDS)
    return {name: values[-1] for name, values in parsed.items()}


def page(title: str, here: Here, around: PageContext, header: str, sections: Sequence[str]) -> str:
    """Return a whole page; `title` is text, `header` and `sections` are markup."""
    footer = (
        f"Made by podium {text(around.version)} from {text(around.source)}, read at {text(around.read_at)}.\n"
        "Nothing is written to a cluster. Long lists are cut."
    )
    top = f"<header>\n{header}\n{_caution(around)}</header>"
    return whole(f"{title} - Podium", top, sections, footer, navigation=_navigation(here, around))


def problem(message: str, here: Here, around: PageContext) -> str:
    """Return an error page that says what is wrong, where and what to do, with links to look further."""
    name = here.query.get("name", "").rpartition("/")[2]
    lists = [link(f"Search {what} for {name}", "/", what=what, search=name) for what in ("groups", "pods")]
    onward = " ".join([link("Overview", "/"), *(lists if name else ())])
    header = f'<h1 class="blocked long">{text(_sentence(message))}</h1>\n<p class="pager">{onward}</p>'
    return page("Error", here, around, header, [])


def refusal(status: int, message: str, fix: str) -> str:
    """Return the page for a refused request: what is wrong, and what to do."""
    content = f'<h1 class="blocked long">{text(_sentence(message))}</h1>\n<p>{text(_sentence(fix))}</p>'
    # A refused browser could not open the overview either.
    onward = f"\n<p>{link('Overview', '/')}</p>" if status != 403 else ""
    return _bare(str(status), content + onward)


def entry() -> str:
    """Return the page that a link opens, for a moment."""
    return _bare("Welcome", f"<h1>Signed in.</h1>\n<p>{link('Continue', '/')}</p>")


def _bare(title: str, header: str) -> str:
    return whole(f"{title} - Podium", f"<header>{header}</header>", [], "podium ui", navigation=_BARE)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '?')) else '.'}"


def link(words: str, path: str, /, **query: str) -> str:
    """Return a link to a page of `podium ui`; both words and fields may come from outside."""
    return f'<a href="{escape(address(path, **query))}">{text(words)}</a>'


def address(path: str, /, **query: str) -> str:
    """Return the address of a page; fields without a value are left out."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def object_link(kind: str, namespace: str, name: str) -> str:
    """Return a link to the page of a pod or group, by its name."""
    path = "/group" if kind != "Pod" else "/pod"
    return link(f"{namespace}/{name}", path, name=f"{namespace}/{name}")


def unit_link(unit: UnitVerdict) -> str:
    """Return a link to the page of a unit of preemption."""
    return object_link(unit.kind, unit.namespace, unit.name)


def badge(state: RunState) -> str:
    """Return a badge for a state."""
    return f'<span class="badge {_BADGES.get(state, "plain")}">{state.lower()}</span>'


def sliced(items: Sequence[T], asked: str, limit: int = ROWS) -> tuple[Sequence[T], Slice]:
    """Return one page of a list; an invalid or too large number selects the nearest page."""
    pages = max(1, -(-len(items) // limit))
    number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < len(str(_LAST_PAGE)) else 1
    number = min(max(number, 1), pages)
    start = (number - 1) * limit
    return items[start : start + limit], Slice(number, pages, start)


def pager(here: Here, cut: Slice, shown: int, total: int) -> str:
    """Return the displayed range of a list with links to its neighbours; empty if the list is whole."""
    if cut.pages == 1:
        return ""
    steps = [("first", 1), ("previous", cut.number - 1), ("next", cut.number + 1), ("last", cut.pages)]
    links = [here.link(name, page=str(to)) for name, to in steps if 1 <= to <= cut.pages and to != cut.number]
    shown_range = f"{cut.start + 1:,} to {cut.start + shown:,} of {total:,}"
    return f'<p class="pager"><span>{shown_range}</span> {" ".join(links)}</p>'


def select(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str) -> str:
    """Return a list to choose from, each option with its value and its words."""
    written = "".join(
        f'<option value="{text(value)}"{" selected" if value == chosen else ""}>{text(words)}</option>'
        for value, words in options
    )
    return f'<label>{label} <select name="{name}">{written}</select></label>'


def named_input(label: str, name: str, value: str, offered: Sequence[str], *, wrong: bool) -> str:
    """Return a field for a NAMESPACE/NAME with suggestions; a `wrong` value has its message at #error."""
    described = ' aria-describedby="error"' if wrong else ""
    names = "".join(f'<option value="{text(suggestion)}"></option>' for suggestion in offered)
    known = label.split(maxsplit=1)[0].lower()
    return (
        f'<label>{label} <input name="{name}" list="{known}" placeholder="namespace/name" autocomplete="off" '
        f'value="{escape(value)}"{described}></label>\n<datalist id="{known}">{names}</datalist>'
    )


def complaint(error: str) -> str:
    """Return the message on a wrong value of a form; empty without an error."""
    return f'<p class="complaint" id="error" role="alert">{text(error)}</p>' if error else ""


def _navigation(here: Here, around: PageContext) -> str:
    mark = ' aria-current="page"'
    parts = [
        f'<a href="{path}"{mark if path == here.path else ""}>{name}</a>' for path, name in PAGES.items()
    ]
    when = f"read {ago(max(0, around.age))}" if around.live else "from a file"
    reread = here.link("reload", again="1")
    return (
        f'<nav aria-label="Pages"><b>Podium</b> {" ".join(parts)}'
        f'<span class="age">{when}, {reread}{_switch(here, live=around.live)}</span></nav>'
    )


def refresh(here: Here, *, live: bool) -> str:
    """Return the seconds after which a page loads itself again; empty for never."""
    seconds = here.query.get("refresh", "")
    return seconds if seconds in REFRESH and live and here.path not in _FORMS else ""


def _switch(here: Here, *, live: bool) -> str:
    """Return the choice of how often a page loads itself again; empty where that never happens."""
    if not live or here.path in _FORMS:
        return ""
    now = refresh(here, live=live)
    choices = [("off", ""), *((f"{seconds} s", seconds) for seconds in REFRESH)]
    parts = [
        f"<b>{words}</b>" if value == now else here.link(words, refresh=value) for words, value in choices
    ]
    return f". Refresh: {' '.join(parts)}"


def _caution(around: PageContext) -> str:
    if not around.unknown:
        return ""
    return f'<p class="caution">Not read and left out: {text("; ".join(around.unknown))}.</p>\n'
