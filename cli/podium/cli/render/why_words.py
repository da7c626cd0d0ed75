"""The sentences of `podium why`, shared by the table and the page of `podium ui`.

Names and messages in them come from outside, so a format escapes these sentences.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from podium.answers.accounts.model import Account, Counted, Departure, Gain, Of, Prospect
from podium.api.meta import instant
from podium.api.records import Saving
from podium.cli.render.words import saving_parts
from podium.text import accelerator_time, count, listed, some

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
