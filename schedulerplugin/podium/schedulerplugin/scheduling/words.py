"""Builds the messages about why an entry waits, in kube-scheduler's form, which people and tools look for.

`0/N nodes are available: ...` says what refuses the entry without preemption. `preemption: ...` says what the
search for victims found. Pods of other tenants are counted, never named.
"""

from podium.schedulerplugin.preemption.decision import Decision
from podium.schedulerplugin.preemption.outcome import Outcome
from podium.schedulerplugin.scheduling.effects import Evict
from podium.wording import count

# kube-scheduler's words.
_NO_VICTIMS = "No preemption victims found for incoming preemptor."


def refusal(decision: Decision) -> str:
    """Return why an entry does not fit and, if preemption was considered, why preemption does not help."""
    now = "" if decision.refusals is None else decision.refusals.message
    if decision.outcome is Outcome.NOT_ELIGIBLE:
        return " ".join(part for part in (now, f"preemption: {decision.why}") if part)
    if decision.even_so is not None:
        even_so = decision.even_so.message
        return f"{now} preemption: {even_so if even_so != now else _NO_VICTIMS}"
    return now


def awaiting(decision: Decision) -> str:
    """Return the message of an entry that only waits for pods that are terminating already."""
    now = "" if decision.refusals is None else decision.refusals.message
    number = len(decision.awaited)
    return (
        f"{now} preemption: waiting for {count(number, 'pod')} that {'is' if number == 1 else 'are'} leaving"
    )


def victims(evict: Evict) -> str:
    """Return the number of victims, in words."""
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
    """Return the sentence for a gang that holds room until a time."""
    return f"This gang holds room as it comes free, until {until} (gangHoldSeconds)."


def behind(until: str) -> str:
    """Return the sentence for an entry that may not use the room that a gang holds until a time."""
    return f"A waiting gang holds some of the free room until {until}."


def not_for_held_room(until: str) -> str:
    """Return why no pod is evicted for an entry that would fit without the room that a gang holds."""
    return f"no pod goes, for the room is free and a waiting gang holds it until {until}"
