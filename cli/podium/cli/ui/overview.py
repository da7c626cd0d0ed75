"""The first page: the numbers of groups and pods that wait, run or leave by priority, and a list of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape

from podium.answers.accounts import pending, reservations
from podium.answers.accounts.model import RunState, Wait
from podium.cli.render.html import section, table, text, tiles
from podium.cli.render.pictures.clustermap import ClusterMap
from podium.cli.render.pictures.sections import map_section
from podium.cli.render.words import amounts
from podium.cli.ui.census import STATES, Census, CensusRow, PriorityLevel
from podium.cli.ui.page_parts import Here, PageContext, badge, object_link, page, pager, select, sliced
from podium.planner.preemption.target import Blocker
from podium.text import count, cut, listed

# Maximum number of priorities on the page; docs/ui.md states the number.
LEVELS = 50
# Maximum number of namespaces in the filter.
_OFFERED = 500
# Maximum length of a scheduler's message in a row, in bytes; the object's page has all of it.
_WORDS = 140

GROUPS, PODS = "groups", "pods"
PREEMPTED, DIVERGING = "preempted", "diverging"
_CHOICES = (*(state.lower() for state in STATES), PREEMPTED, DIVERGING)

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


def overview(
    census: Census,
    drawn: ClusterMap | None,
    here: Here,
    around: PageContext,
    why: Callable[[CensusRow], Wait | None],
) -> str:
    """Return the page; `why` returns why a row waits, and is called only for displayed rows."""
    rows = chosen(census, here.query)
    shown, position = sliced(rows, here.query.get("page", ""))
    header = f'<p class="eyebrow">{text(around.source)}</p>\n<h1>{_headline(census)}</h1>\n{_numbers(census)}'
    title = "Groups" if _what(census, here.query) == GROUPS else "Pods in no group"
    caption = f"{len(rows):,}, the highest priority first"
    body = "\n".join(
        [
            _filter(census, here),
            table(caption, _HEADER, shown, lambda row: _row(row, why(row)), numbers=(2,), kind="rows"),
            "" if rows else '<p class="cut">No match.</p>',
            pager(here, position, len(shown), len(rows)),
        ]
    )
    sections = [map_section(drawn), _levels(census.levels), section("rows", title, body)]
    return page("Overview", here, around, header, sections)


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
    states = Counter(row.state for row in groups)
    held = sum(sum(level.held.values()) for level in census.levels)
    return tiles(
        [
            ("", "group", "", len(groups)),
            ("error", "group", "waiting", states[RunState.WAITING]),
            ("warning", "group", "preempted", sum(row.preempted for row in groups)),
            ("error", "group", "diverging", sum(row.differing > 0 for row in groups)),
            ("", "pod", "in no group", len(census.rows) - len(groups)),
            ("info", "accelerator", "held", held),
        ]
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


_HEADER = ("Name", "State", "Priority", "Pods", "Accelerators held")


def _row(row: CensusRow, why: Wait | None) -> tuple[str, ...]:
    marks = [badge(row.state)]
    if row.preempted:
        marks.append('<span class="badge warning">preempted</span>')
    if row.differing:
        marks.append(f'<span class="badge error">diverging: {row.differing:,}</span>')
    if not row.exists:
        marks.append('<span class="badge error">missing</span>')
    reason = ""
    if why is not None:
        message = cut(why.message, _WORDS)
        reason = (
            f'<p>{_IN_A_WORD.get(why.cause, text(why.cause))} <span class="note">{text(message)}</span></p>'
        )
    link = object_link("PodGroup" if row.is_group else "Pod", row.namespace, row.name)
    priority = f'{row.priority} <span class="note">{text(row.class_name)}</span>'
    return link, " ".join(marks) + reason, priority, _pods_cell(row), text(", ".join(amounts(row.held)))


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
