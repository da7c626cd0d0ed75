"""`podium why` on a terminal: a summary, then priority, waiting, evictions, and what is not known."""

from collections.abc import Sequence
from datetime import datetime

from podium.cli.render.text import Layout
from podium.cli.render.why_words import departure_line, prospect_line, source_line, values, when
from podium.cli.render.words import visible
from podium.why.account import Account, Counted, Gain, Prospect, State, Wait

# Maximum lengths of the lists in the table; docs/why.md states these numbers.
DEPARTURES = 5
GAINS = 5  # Preemptions for the object.

_STYLES = {State.WAITING: "error", State.LEAVING: "warning", State.GONE: "warning", State.RUNNING: "bold"}
_INDENT = "  "


def why_table(account: Account, now: datetime | None, layout: Layout) -> str:
    """Return the account in the layout's width; for a live cluster times also have their age."""
    layout.paragraph(visible(account.summary), style=_STYLES.get(account.state, "bold"))
    if account.object.about:
        layout.paragraph(visible(f"{'; '.join(account.object.about)}."))
    if account.settings:
        layout.paragraph(visible(account.settings), style="dim")
    if account.priority is not None:
        _priority(layout, account.priority)
    _waiting(layout, account.waiting, now)
    if account.prospect is not None:
        _prospect(layout, account.prospect, account)
    _departures(layout, account, now)
    _gains(layout, account.gains, now)
    if account.unknown:
        layout.heading("Not known")
        for line in account.unknown:
            layout.paragraph(visible(line), indent=_INDENT, hang=_INDENT, style="dim")
    return layout.text()


def _priority(layout: Layout, counted: Counted) -> None:
    layout.heading("Priority")
    _say(layout, f"{values(counted)}: {counted.rule}.")
    _say(layout, f"Its own: {counted.source}.")
    for problem in counted.problems:
        _say(layout, problem, style="warning")
    _fix(layout, counted.fix)


def _waiting(layout: Layout, waiting: Sequence[Wait], now: datetime | None) -> None:
    if not waiting:
        return
    layout.heading("Why it waits")
    for wait in waiting:
        since = f" (since {when(wait.since, now)})" if wait.since else ""
        _say(layout, f"{wait.message}{since}")
        _fix(layout, wait.fix)


def _prospect(layout: Layout, prospect: Prospect, account: Account) -> None:
    layout.heading("What it would take")
    _say(layout, prospect_line(prospect))
    for reason in prospect.nodeReasons:
        layout.paragraph(visible(f"refused by {reason}"), indent=_INDENT * 2, hang=_INDENT)
    kind = "group" if account.object.kind == "PodGroup" else "pod"
    whom = f"podium whatif --{kind} {account.object.namespace}/{account.object.name}"
    _fix(layout, f"{whom} names who would go, who is spared, and what each node refuses")


def _departures(layout: Layout, account: Account, now: datetime | None) -> None:
    departures = account.departures
    if not departures:
        return
    layout.heading("Who made it go, newest first")
    told = set()
    for each in departures[:DEPARTURES]:
        _say(layout, departure_line(each, account, now))
        layout.paragraph(visible(source_line(each)), indent=_INDENT * 2, hang=_INDENT, style="dim")
        if each.by not in told:
            _fix(layout, each.fix)
        told.add(each.by)
    _cut(layout, len(departures), DEPARTURES)


def _gains(layout: Layout, gains: Sequence[Gain], now: datetime | None) -> None:
    if not gains:
        return
    layout.heading("What was preempted for it, newest first")
    rows = [
        (
            visible(when(each.time, now)),
            each.mode,
            each.result,
            f"{each.units:,}",
            f"{each.pods:,}",
            visible(each.message),
        )
        for each in gains[:GAINS]
    ]
    layout.columns(("TIME", "MODE", "RESULT", "UNITS", "PODS", "WHY"), rows, right=(3, 4), indent=_INDENT)
    _cut(layout, len(gains), GAINS)


def _say(layout: Layout, text: str, style: str = "") -> None:
    layout.paragraph(visible(text), indent=_INDENT, hang=_INDENT, style=style)


def _fix(layout: Layout, fix: str) -> None:
    if fix:
        layout.paragraph(visible(f"to do: {fix}"), indent=_INDENT * 2, hang=_INDENT)


def _cut(layout: Layout, total: int, limit: int) -> None:
    if total > limit:
        layout.paragraph(f"... and {total - limit:,} more (-o json has all)", indent=_INDENT, style="dim")
