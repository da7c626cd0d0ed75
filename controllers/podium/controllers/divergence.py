"""When a group's conditions are written: a flip at once, what only reads differently when it has settled.

A gang of a thousand pods that starts changes its message a thousand times, and each write costs the API
server one to etcd and every watcher an event. What somebody waits for or is paged by is the status, so that
is never held back; a message follows when the group has been quiet for a moment, is not written often, and
is not put off for ever where a group never settles.

All our conditions go into one apply, for an apply takes away what it leaves out. A condition's time is when
its status changed, whatever else did, so what says `for: 5m` can be believed.
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from podium.api.groups import PodGroup
from podium.api.meta import Condition, timed
from podium.controllers.actions import ApplyConditions, Decision
from podium.controllers.conditions import OURS, PRIORITY, Judged
from podium.note import Note

# Seconds in which nothing may have changed for a group to have settled.
QUIET = 2.0
# Seconds between two writes of one group that only reword it.
APART = 10.0
# Seconds after which it is reworded though it never settles.
LONGEST = 60.0


class Write(StrEnum):
    """Which groups have conditions of ours: those that diverge or once did, or all."""

    DIVERGENT = "divergent"
    ALWAYS = "always"


class Times(NamedTuple):
    """Seconds since the group, its members or their classes last changed, and since we wrote its conditions.

    `since_write` is infinite where this process never did.
    """

    quiet: float
    since_write: float


def decide(
    group: PodGroup, judged: tuple[Judged, ...], times: Times, write: Write, now: datetime
) -> Decision:
    """Say what to write of a group's conditions, if anything, or when to look again.

    A condition that the group has is kept true even where it would not be set anew; one that is ours and was
    not judged (its axis is off) is taken away. `now` is aware. A group being deleted is left alone.
    """
    if group.metadata.deletionTimestamp is not None:
        return Decision()
    stored = _ours(group)
    wanted = {
        each.condition.type: each.condition
        for each in judged
        if each.condition.type in stored or each.condition.status != "False" or write is Write.ALWAYS
    }
    if wanted.keys() == stored.keys() and all(_same(stored[kind], wanted[kind]) for kind in wanted):
        return Decision()
    flipped = any(
        kind not in stored or stored[kind].status != condition.status for kind, condition in wanted.items()
    )
    wait = min(max(QUIET - times.quiet, APART - times.since_write), LONGEST - times.since_write)
    if not flipped and wait > 0:
        return Decision(again=wait)
    conditions = tuple(timed(condition, stored.get(kind), now) for kind, condition in wanted.items())
    return Decision((_apply(group, conditions),))


def flips(before: PodGroup | None, after: PodGroup) -> tuple[Note, ...]:
    """Tell what changed of our conditions between two stored states, one note a flip.

    Without `before` nothing is told: that is what a first list brings, and it flipped in somebody's past. A
    group of the same name and another UID is one that had no conditions.
    """
    if before is None:
        return ()
    had = _ours(before) if before.metadata.uid == after.metadata.uid else {}
    return tuple(
        _note(after, condition)
        for kind, condition in _ours(after).items()
        # That all is well is news only where it was not.
        if condition.status != (had[kind].status if kind in had else "False")
    )


def _ours(group: PodGroup) -> dict[str | None, Condition]:
    return {condition.type: condition for condition in group.conditions if condition.type in OURS}


def _same(stored: Condition, wanted: Condition) -> bool:
    return (stored.status, stored.reason, stored.message, stored.observedGeneration) == (
        wanted.status,
        wanted.reason,
        wanted.message,
        wanted.observedGeneration,
    )


def _apply(group: PodGroup, conditions: tuple[Condition, ...]) -> ApplyConditions:
    metadata = group.metadata
    return ApplyConditions(group.ref, metadata.uid or "", metadata.resourceVersion or "", conditions)


def _note(group: PodGroup, condition: Condition) -> Note:
    well = condition.status == "False"
    kind: Literal["Normal", "Warning"] = "Normal" if well else "Warning"
    if condition.status == "Unknown":
        reason = condition.reason or ""
    elif condition.type == PRIORITY:
        reason = "PodsMatchPriority" if well else PRIORITY
    else:
        reason = "PodsMatchPreemptionPolicy" if well else condition.type or ""
    uid = group.metadata.uid or ""
    flip = (uid, condition.type or "", condition.status or "", condition.lastTransitionTime or "")
    return Note(
        regarding=group.ref,
        uid=uid,
        resource_version=group.metadata.resourceVersion or "",
        type=kind,
        reason=reason,
        action="ComparePods",
        text=condition.message or "",
        token="/".join(flip),
    )
