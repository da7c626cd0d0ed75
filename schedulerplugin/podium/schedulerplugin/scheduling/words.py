"""Why an entry waits, in sentences: kube-scheduler's form, for people and tools look for it.

`0/N nodes are available: ...` says what refuses it as things are, `preemption: ...` what came of looking for
room that others have. Pods of other tenants are counted, never named.
"""

from podium.schedulerplugin.preemption.decision import Decision
from podium.schedulerplugin.preemption.outcome import Outcome
from podium.schedulerplugin.scheduling.effects import Evict
from podium.wording import count

# kube-scheduler's words.
_NO_VICTIMS = "No preemption victims found for incoming preemptor."


def refusal(decision: Decision) -> str:
    """Say why an entry does not fit as things are, and why preemption is of no use, if that was looked at."""
    now = "" if decision.refusals is None else decision.refusals.message
    if decision.outcome is Outcome.NOT_ELIGIBLE:
        return " ".join(part for part in (now, f"preemption: {decision.why}") if part)
    if decision.even_so is not None:
        even_so = decision.even_so.message
        return f"{now} preemption: {even_so if even_so != now else _NO_VICTIMS}"
    return now


def awaiting(decision: Decision) -> str:
    """Say what an entry waits for that needs nothing but that some pods go which are leaving already."""
    now = "" if decision.refusals is None else decision.refusals.message
    number = len(decision.awaited)
    return (
        f"{now} preemption: waiting for {count(number, 'pod')} that {'is' if number == 1 else 'are'} leaving"
    )


def victims(evict: Evict) -> str:
    """Say who would go, in numbers."""
    groups = sum(unit.kind == "PodGroup" for unit in evict.units)
    pods = count(len(evict.victims), "pod")
    return pods if not groups else f"{pods}, {count(groups, 'whole group')} among them,"


def timed_out(budget: float) -> str:
    """Return the message of an entry whose decision exceeded the time budget, in seconds."""
    return (
        f"no decision within {budget:g} s (decisionTimeoutSeconds): too many combinations of nodes, victims "
        "and constraints; the scheduler tries again after all other pods"
    )


def holding(until: str) -> str:
    """Return the sentence for a gang that holds room until that time."""
    return f"This gang holds room as it comes free, until {until} (gangHoldSeconds)."


def behind(until: str) -> str:
    """Return the sentence for an entry that may not use the room that a gang holds until that time."""
    return f"A waiting gang holds some of the free room until {until}."


def not_for_held_room(until: str) -> str:
    """Return why no pod goes for an entry that would fit but for the room that a gang holds."""
    return f"no pod goes, for the room is free and a waiting gang holds it until {until}"
