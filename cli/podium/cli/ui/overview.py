"""The first page: groups and pods that wait or diverge, then the whole cluster by priority; and its lists."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape

from podium.answers.accounts import pending, reservations
from podium.answers.accounts.model import RunState, Wait
from podium.cli.render.html import Cell, first_of, section, table, text, tiles
from podium.cli.render.pictures.clustermap import ClusterMap
from podium.cli.render.pictures.sections import map_section
from podium.cli.render.why_words import when
from podium.cli.render.words import amounts
from podium.cli.ui.census import STATES, Census, CensusRow, PriorityLevel
from podium.cli.ui.page_parts import (
    Here,
    PageContext,
    address,
    badge,
    link,
    object_link,
    page,
    pager,
    select,
    sliced,
)
from podium.planner.preemption.target import Blocker
from podium.text import count, cut, listed

# Maximum number of priorities on the page; docs/ui.md states the number.
LEVELS = 50
# Maximum number of groups and pods that need attention on the overview; docs/ui.md states the number.
ATTENTION = 20
# Maximum number of namespaces in the filter.
_OFFERED = 500
# Maximum length of a scheduler's message in a row, in bytes; the object's page has all of it.
_WORDS = 140

GROUPS, PODS = "groups", "pods"
PREEMPTED, DIVERGING = "preempted", "diverging"
_CHOICES = (*(state.lower() for state in STATES), PREEMPTED, DIVERGING)
_COLUMNS = ("Name", "State", "Since", "Priority", "Pods", "Accelerators held")
# The fields that select rows.
_FIELDS = frozenset(("what", "namespace", "state", "search", "page"))

# The reason for waiting, in a word.
_IN_A_WORD: Mapping[str, str] = {
    Blocker.GROUP_MISSING: "its group is missing",
    Blocker.LEAVING: "being deleted",
    Blocker.GATED: "gated",
    Blocker.TOO_FEW: "too few pods",
    Blocker.NOT_JUDGED: "not supported",
    Blocker.SEVERAL_SCHEDULERS: "several schedulers",
    Blocker.DIVERGENT: "diverging",
    pending.SCHEDULER_SAYS: "does not fit",
    pending.NOT_TRIED: "not tried",
    reservations.RESERVED_NODE: "victims are terminating",
    reservations.VICTIM_OVERDUE: "a victim is overdue",
    reservations.STALE_NOMINATION: "stale nomination",
    reservations.ROOM_KEPT: "room is kept for another",
    reservations.NODE_SELECTED: "kept on a full node",
    pending.NO_PREEMPTION: "may not preempt",
    pending.NOT_READ: "not known",
}


def chosen(census: Census, query: Mapping[str, str]) -> list[CensusRow]:
    """Return the rows that a query selects, in order; invalid values of the query are ignored."""
    groups = _what(census, query) == GROUPS
    namespace, state = query.get("namespace", ""), query.get("state", "")
    words = query.get("search", "").lower().split()
    return [
        row
        for row in census.rows
        if row.is_group == groups
        and (not namespace or row.namespace == namespace)
        and (state not in _CHOICES or _is(row, state))
        and all(word in f"{row.namespace}/{row.name} {row.class_name}".lower() for word in words)
    ]


def overview(  # noqa: PLR0917 - the content, and its frame
    census: Census,
    drawn: ClusterMap | None,
    here: Here,
    around: PageContext,
    why: Callable[[CensusRow], Wait | None],
    now: datetime | None,
) -> str:
    """Return the page: what needs attention and the map, or the rows that a query selects.

    `why` returns why a row waits, and is called only for displayed rows. `now` is None for files.
    """
    header = f'<p class="eyebrow">{text(around.source)}</p>\n<h1>{_headline(census)}</h1>\n{_numbers(census)}'
    if here.query.keys() & _FIELDS:
        sections = [_rows(census, here, why, now)]
    else:
        search = section("search", "Search", _filter(census, here))
        sections = [_attention(census, why, now), search, _levels(census.levels), map_section(drawn)]
    return page("Overview", here, around, header, sections)


def _attention(census: Census, why: Callable[[CensusRow], Wait | None], now: datetime | None) -> str:
    """Return the rows that wait or diverge, groups first; empty if there are none."""
    rows = [row for row in census.rows if row.state is RunState.WAITING or row.differing]
    rows.sort(key=lambda row: not row.is_group)
    caption = "Groups first, the highest priority first"
    # Waiting pods hold no accelerators.
    body = _table(caption, rows[:ATTENTION], why, now, _COLUMNS[:-1])
    if len(rows) > ATTENTION:
        links = ((GROUPS, "waiting"), (GROUPS, DIVERGING), (PODS, "waiting"))
        rest = ", ".join(link(f"{what} {state}", "/", what=what, state=state) for what, state in links)
        body += f"{first_of(len(rows), ATTENTION)}<p>All: {rest}.</p>"
    return section("attention", "Waiting or diverging", body)


def _rows(census: Census, here: Here, why: Callable[[CensusRow], Wait | None], now: datetime | None) -> str:
    rows = chosen(census, here.query)
    shown, position = sliced(rows, here.query.get("page", ""))
    body = "\n".join(
        [
            _filter(census, here),
            _table(f"{len(rows):,}, the highest priority first", shown, why, now),
            "" if rows else '<p class="cut">No match.</p>',
            pager(here, position, len(shown), len(rows)),
        ]
    )
    return section("rows", "Groups" if _what(census, here.query) == GROUPS else "Pods in no group", body)


def _headline(census: Census) -> str:
    """Return the most important sentence."""
    waiting_ = [row for row in census.rows if row.state is RunState.WAITING]
    groups = sum(row.is_group for row in waiting_)
    parts = [count(groups, "group")] if groups else []
    if lone := len(waiting_) - groups:
        parts.append(count(lone, "pod") + (" in no group" if groups else ""))
    if not parts:
        return "No group or pod waits."
    return f"{listed(parts)} {'waits' if groups + lone == 1 else 'wait'}."


def _numbers(census: Census) -> str:
    groups = [row for row in census.rows if row.is_group]
    pods = [row for row in census.rows if not row.is_group]
    held = sum(sum(level.held.values()) for level in census.levels)

    def waiting(rows: Sequence[CensusRow]) -> int:
        return sum(row.state is RunState.WAITING for row in rows)

    return tiles(
        [
            ("error", "group", "waiting", waiting(groups)),
            ("error", "group", "diverging", sum(row.differing > 0 for row in groups)),
            ("warning", "group", "preempted", sum(row.preempted for row in groups)),
            ("error", "pod", "in no group, waiting", waiting(pods)),
            ("", "group", "", len(groups)),
            ("", "pod", "in no group", len(pods)),
            ("info", "accelerator", "held", held),
        ],
        [
            address("/", what=GROUPS, state="waiting"),
            address("/", what=GROUPS, state=DIVERGING),
            address("/", what=GROUPS, state=PREEMPTED),
            address("/", what=PODS, state="waiting"),
            address("/", what=GROUPS),
            address("/", what=PODS),
        ],
    )


def _levels(levels: Sequence[PriorityLevel]) -> str:
    def row(level: PriorityLevel) -> tuple[str, ...]:
        classes, held = text(", ".join(level.classes)) or "none", text(", ".join(amounts(level.held)))
        return str(level.priority), classes, _states(level.groups), _states(level.pods), held

    header = ("Priority", "Class", "Groups", "Pods in no group", "Accelerators held")
    body = table("Highest priority first", header, levels, row, limit=LEVELS, numbers=(0,), kind="rows")
    return section("levels", "By priority", body)


def _states(numbers: Mapping[RunState, int]) -> str:
    return ", ".join(f"{numbers[state]:,} {state.lower()}" for state in STATES if numbers.get(state))


def _table(
    caption: str,
    rows: Sequence[CensusRow],
    why: Callable[[CensusRow], Wait | None],
    now: datetime | None,
    columns: Sequence[str] = _COLUMNS,
) -> str:
    def row(row: CensusRow) -> Sequence[Cell | str]:
        return _row(row, why(row), now)[: len(columns)]

    return table(caption, columns, rows, row, numbers=(3,), kind="rows")


def _row(row: CensusRow, why: Wait | None, now: datetime | None) -> tuple[Cell | str, ...]:
    marks = [badge(row.state)]
    if row.preempted:
        marks.append('<span class="badge warning">preempted</span>')
    if row.differing:
        marks.append(f'<span class="badge error">diverging: {row.differing:,}</span>')
    if not row.exists:
        marks.append('<span class="badge error">missing</span>')
    reason = since = ""
    if why is not None:
        since = when(why.since, now) if why.since else ""
        message = cut(why.message, _WORDS)
        reason = (
            f'<p>{_IN_A_WORD.get(why.cause, text(why.cause))} <span class="note">{text(message)}</span></p>'
        )
    name = object_link("PodGroup" if row.is_group else "Pod", row.namespace, row.name)
    priority = f'{row.priority} <span class="note">{text(row.class_name)}</span>'
    state, time = " ".join(marks) + reason, Cell(text(since), ' class="time"')
    return name, state, time, priority, _pods_cell(row), text(", ".join(amounts(row.held)))


def _pods_cell(row: CensusRow) -> str:
    least = f' <span class="note">minCount {row.min_count:,}</span>' if row.min_count is not None else ""
    return f"{_states(row.pods) or 'none'}{least}" if row.is_group else ""


def _what(census: Census, query: Mapping[str, str]) -> str:
    """Return the type of the listed objects: as requested, else groups if there are any."""
    asked = query.get("what", "")
    if asked in (GROUPS, PODS):
        return asked
    return GROUPS if any(row.is_group for row in census.rows) else PODS


def _is(row: CensusRow, state: str) -> bool:
    if state == PREEMPTED:
        return row.preempted
    if state == DIVERGING:
        return row.differing > 0
    return row.state.lower() == state


def _filter(census: Census, here: Here) -> str:
    query = here.query
    namespaces = sorted({row.namespace for row in census.rows})[:_OFFERED]
    asked = query.get("namespace", "")
    if asked and asked not in namespaces:
        namespaces.append(asked)
    kinds = [(GROUPS, "groups"), (PODS, "pods in no group")]
    where = [("", "all"), *((namespace, namespace) for namespace in namespaces)]
    states = [("", "all"), *((state, state) for state in _CHOICES)]
    return (
        '<form class="ask" method="get" action="/">'
        f"{select('what', 'List', kinds, _what(census, query))}"
        f"{select('namespace', 'Namespace', where, asked)}"
        f"{select('state', 'State', states, query.get('state', ''))}"
        f'<label>Name or class <input type="search" name="search" value="{escape(query.get("search", ""))}">'
        "</label><button>Show</button></form>"
    )
