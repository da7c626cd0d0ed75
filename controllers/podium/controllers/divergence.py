"""Decide when to write a group's conditions: a status change at once, a new message when the group is quiet.

A gang of a thousand pods changes its message a thousand times while it starts. Each write costs the API
server one write to etcd, and every watcher an event. Users and alerts wait for the status, so a status change
is never delayed. A new message is written rarely: after a moment without a change of the group, or after a
minute if the group keeps changing.

All of Podium's conditions are in one apply, because an apply removes the fields that it omits.
lastTransitionTime changes only with the status, so an alert with `for: 5m` is reliable.
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from podium.api.events import EventDraft
from podium.api.groups import PodGroup
from podium.api.meta import Condition, timed
from podium.controllers.actions import ApplyConditions, Reconciliation
from podium.controllers.conditions import OURS, PRIORITY, Judged

# The seconds without a change after which a group is quiet.
QUIET = 2.0
# The minimum seconds between two writes of one group that change only a message.
APART = 10.0
# The seconds after which a message is written although the group is not quiet.
LONGEST = 60.0


class Write(StrEnum):
    """The groups that get our conditions: those that are or were divergent, or all."""

    DIVERGENT = "divergent"
    ALWAYS = "always"


class Times(NamedTuple):
    """The seconds since the last change of the group, its members or classes, and since our last write.

    `since_write` is infinite if this process never wrote the group's conditions.
    """

    quiet: float
    since_write: float


def decide(
    group: PodGroup, judged: tuple[Judged, ...], times: Times, write: Write, now: datetime
) -> Reconciliation:
    """Return the conditions to write, or when to decide again.

    A condition that the group has is kept current even if it would not be added. A condition of Podium's that
    was not judged (its axis is off) is removed. `now` is timezone-aware. A group being deleted is not
    changed.
    """
    if group.metadata.deletionTimestamp is not None:
        return Reconciliation()
    stored = _ours(group)
    by_type = {
        judgement.condition.type: judgement.condition
        for judgement in judged
        if judgement.condition.type in stored
        or judgement.condition.status != "False"
        or write is Write.ALWAYS
    }
    if by_type.keys() == stored.keys() and all(_same(stored[kind], by_type[kind]) for kind in by_type):
        return Reconciliation()
    flipped = any(
        kind not in stored or stored[kind].status != condition.status for kind, condition in by_type.items()
    )
    wait = min(max(QUIET - times.quiet, APART - times.since_write), LONGEST - times.since_write)
    if not flipped and wait > 0:
        return Reconciliation(again=wait)
    conditions = tuple(timed(condition, stored.get(kind), now) for kind, condition in by_type.items())
    return Reconciliation((_apply(group, conditions),))


def removal(group: PodGroup) -> Reconciliation:
    """Return the action that removes our conditions from a group, which would become outdated."""
    return Reconciliation((_apply(group, ()),)) if _ours(group) else Reconciliation()


def flips(before: PodGroup | None, after: PodGroup) -> tuple[EventDraft, ...]:
    """Return a note for each status change of our conditions between two stored states.

    Without `before` there is none: the first list contains changes of the past. A group with the same name
    and another UID counts as a group without conditions before.
    """
    if before is None:
        return ()
    had = _ours(before) if before.metadata.uid == after.metadata.uid else {}
    return tuple(
        _event(after, condition)
        for kind, condition in _ours(after).items()
        # A False is reported only after another status.
        if condition.status != (had[kind].status if kind in had else "False")
    )


def _ours(group: PodGroup) -> dict[str | None, Condition]:
    return {condition.type: condition for condition in group.conditions if condition.type in OURS}


def _same(stored: Condition, condition: Condition) -> bool:
    return (stored.status, stored.reason, stored.message, stored.observedGeneration) == (
        condition.status,
        condition.reason,
        condition.message,
        condition.observedGeneration,
    )


def _apply(group: PodGroup, conditions: tuple[Condition, ...]) -> ApplyConditions:
    metadata = group.metadata
    return ApplyConditions(group.ref, metadata.uid or "", metadata.resourceVersion or "", conditions)


def _event(group: PodGroup, condition: Condition) -> EventDraft:
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
    return EventDraft(
        regarding=group.ref,
        uid=uid,
        resource_version=group.metadata.resourceVersion or "",
        type=kind,
        reason=reason,
        action="ComparePods",
        text=condition.message or "",
        token="/".join(flip),
    )
