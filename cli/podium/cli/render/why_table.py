"""`podium why` on a terminal: a summary, then priority, waiting, evictions, and what is not known."""

from collections.abc import Sequence
from datetime import datetime

from podium.answers.accounts.model import Account, Counted, Gain, Prospect, RunState, Wait
from podium.cli.render.text import Layout
from podium.cli.render.why_words import departure_line, gain_reason, prospect_line, source_line, values, when

# Maximum lengths of the lists in the table; docs/why.md states these numbers.
DEPARTURES = 5
GAINS = 5  # Preemptions for the object.

_STYLES = {
    RunState.WAITING: "error",
    RunState.LEAVING: "warning",
    RunState.GONE: "warning",
    RunState.STARTING: "bold",
    RunState.RUNNING: "bold",
}
_INDENT = "  "


def why_table(account: Account, now: datetime | None, layout: Layout) -> str:
    """Return the account in the layout's width; for a live cluster times also have their age."""
    layout.paragraph(account.summary, style=_STYLES.get(account.state, "bold"))
    if account.object.about:
        layout.paragraph(f"{'; '.join(account.object.about)}.")
    if account.settings:
        layout.paragraph(account.settings, style="dim")
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
            layout.paragraph(line, indent=_INDENT, hang=_INDENT, style="dim")
    return layout.text()


def _priority(layout: Layout, counted: Counted) -> None:
    layout.heading("Priority")
    _add_line(layout, f"{values(counted)}: {counted.rule}.")
    _add_line(layout, f"Its own: {counted.source}.")
    for problem in counted.problems:
        _add_line(layout, problem, style="warning")
    _fix(layout, counted.fix)


def _waiting(layout: Layout, waiting: Sequence[Wait], now: datetime | None) -> None:
    if not waiting:
        return
    layout.heading("Why it waits")
    for wait in waiting:
        since = f" (since {when(wait.since, now)})" if wait.since else ""
        _add_line(layout, f"{wait.message}{since}")
        _fix(layout, wait.fix)


def _prospect(layout: Layout, prospect: Prospect, account: Account) -> None:
    layout.heading("What would make room")
    _add_line(layout, prospect_line(prospect))
    for reason in prospect.nodeReasons:
        layout.paragraph(f"refused by {reason}", indent=_INDENT * 2, hang=_INDENT)
    if prospect.outcome == "Fits":
        return
    kind = "group" if account.object.kind != "Pod" else "pod"
    command = f"podium whatif --{kind} {account.object.namespace}/{account.object.name}"
    units = "the victims, the spared units, and " if prospect.pods else ""
    _fix(layout, f"{command} lists {units}the reasons by node")


def _departures(layout: Layout, account: Account, now: datetime | None) -> None:
    departures = account.departures
    if not departures:
        return
    layout.heading("Evictions, newest first")
    shown = set()
    for departure in departures[:DEPARTURES]:
        _add_line(layout, departure_line(departure, account, now))
        layout.paragraph(source_line(departure), indent=_INDENT * 2, hang=_INDENT, style="dim")
        if departure.by not in shown:
            _fix(layout, departure.fix)
        shown.add(departure.by)
    layout.cut(departures, DEPARTURES)


def _gains(layout: Layout, gains: Sequence[Gain], now: datetime | None) -> None:
    def row(gain: Gain) -> tuple[str | int, ...]:
        return when(gain.time, now), gain.mode, gain.result, gain.units, gain.pods, gain_reason(gain)

    header = ("TIME", "MODE", "RESULT", "UNITS", "PODS", "WHY")
    title = "Preemptions for it, newest first"
    layout.listing(title, header, gains, row, limit=GAINS, indent=_INDENT)


def _add_line(layout: Layout, text: str, style: str = "") -> None:
    layout.paragraph(text, indent=_INDENT, hang=_INDENT, style=style)


def _fix(layout: Layout, fix: str) -> None:
    if fix:
        layout.paragraph(f"to do: {fix}", indent=_INDENT * 2, hang=_INDENT)
