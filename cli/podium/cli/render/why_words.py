"""`podium why` in words: the sentences that its table shares with the page of `podium ui`, and the table.

Names and messages in the sentences come from outside, so a format escapes them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from podium.answers.accounts.model import (
    Account,
    Counted,
    Departure,
    Gain,
    Of,
    Prospect,
    RunState,
    Wait,
)
from podium.api.meta import instant
from podium.api.records import Saving
from podium.cli.render.text import Layout
from podium.cli.render.words import saving_parts
from podium.text import accelerator_time, count, listed, some

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
_RELATIONS = {
    Of.ITSELF: "",
    Of.GROUP: "its group: ",
    Of.EARLIER: "an earlier object of this name: ",
    Of.WORKLOAD: "other pods of its workload: ",
}
_SAVING: Mapping[str, str] = {
    Saving.SAVED: "; it was asked to save its work, and did",
    Saving.FAILED: "; it was asked to save its work, and did not in its time",
}
_OUTCOMES = {
    "Fits": "It fits without preemption",
    "FitsAfterPreemption": "It fits after preemption",
    "DoesNotFit": "It does not fit, even with preemption",
    "NotEligible": "It may not preempt",
    "NotJudged": "It cannot be judged",
}


def values(counted: Counted) -> str:
    """Return the effective priority, or both if they differ."""
    if counted.victim == counted.placed:
        return str(counted.placed)
    return f"{counted.placed} when it is placed, {counted.victim} as a victim"


def prospect_line(prospect: Prospect) -> str:
    """Return the result of a plan for the object in one sentence."""
    outcome = _OUTCOMES.get(prospect.outcome, prospect.outcome)
    return f"{outcome}: {prospect.message.rstrip('.')} (semantics {prospect.semantics})."


def departure_line(departure: Departure, account: Account, now: datetime | None) -> str:
    """Return a sentence on an eviction: time, actor, pods and preemptor; for a live cluster also the age."""
    time = when(departure.time, now) if departure.time else "at an unknown time"
    which = _which(departure, account)
    saving = _SAVING.get(departure.saving, "")
    return f"{time}: {_RELATIONS[departure.of]}{departure.words}{_preemptor_words(departure)}{which}{saving}"


def gain_reason(gain: Gain) -> str:
    """Return why a preemption was planned for the object, and what became of the work of its victims."""
    lost = [f"{accelerator_time(gain.workLost)} of work lost"] if gain.workLost else []
    parts = [*lost, *saving_parts(gain.workSaved, gain.asked, gain.saved, gain.waitedMilliseconds)]
    return f"{gain.message} ({', '.join(parts)})" if parts else gain.message


def source_line(departure: Departure) -> str:
    """Return the sources of this information, with their messages."""
    return f"source: {listed(departure.told)}{f': {departure.message}' if departure.message else ''}"


def when(time: str, now: datetime | None) -> str:
    """Return a time of an object, and its age; `now` is None for the past of a file."""
    if now is None:
        return time
    try:
        passed = int((now - instant(time)).total_seconds())
    except msgspec.ValidationError:
        return time
    return time if passed < 0 else f"{time}, {ago(passed)}"


def ago(seconds: int) -> str:
    """Return an age in its largest unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def _preemptor_words(departure: Departure) -> str:
    preemptor = departure.preemptor
    if preemptor is None:
        return ""
    notes = [] if preemptor.priority is None else [f"priority {preemptor.priority}"]
    if not preemptor.name:
        notes.append("name unknown or not readable")
    details = f" ({'; '.join(notes)})" if notes else ""
    return f" for {preemptor}{details}"


def _which(departure: Departure, account: Account) -> str:
    named = departure.pods and departure.pods != (account.object.name,)
    pods = f": {count(len(departure.pods), 'pod')} ({some(departure.pods)})" if named else ""
    return f"{pods}{f', on node {departure.node}' if departure.node else ''}"


def why_table(account: Account, now: datetime | None, layout: Layout) -> str:
    """Return the account in the layout's width: a summary, then priority, waiting and evictions.

    For a live cluster times also have their age.
    """
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
