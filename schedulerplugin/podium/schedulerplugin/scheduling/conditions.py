"""Builds the conditions of pods and groups, in the words and shapes of kube-scheduler.

Tools read these conditions: autoscalers read PodScheduled, the Job controller reads DisruptionTarget. So
types and reasons are upstream's (core/v1; scheduling v1alpha2 and v1beta1). Where upstream writes no
condition, this scheduler writes none: a pod that is gated before it is queued keeps what the API server
wrote.

A group's conditions are always given all together, because a server-side apply that leaves out a condition
removes it.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from podium.api.groups import GROUP_SCHEDULED, INITIALLY_SCHEDULED, NATIVE_GROUP, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import Condition, ObjectMeta, timed
from podium.api.schedulable import Schedulable
from podium.rules.podgroup import MAX_MESSAGE
from podium.schedulerplugin.preemption.intents import BY_SCHEDULER, DISRUPTION_TARGET
from podium.schedulerplugin.scheduling.effects import Preemptor, Unit
from podium.view import View
from podium.wording import cut

POD_SCHEDULED = "PodScheduled"

SCHEDULED = "Scheduled"
UNSCHEDULABLE = "Unschedulable"
# Not a lack of room: something cannot be evaluated.
SCHEDULER_ERROR = "SchedulerError"


class Attempt(NamedTuple):
    """The result of an attempt at a group: `reason` is one of the three above."""

    reason: str
    message: str


def same(stored: Condition | None, wanted: Condition) -> bool:
    """Return whether a stored condition says what is wanted; upstream rewrites it for no other reason."""
    return stored is not None and (stored.status, stored.reason, stored.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )


def unscheduled(reason: str, message: str, pod: Schedulable, now: datetime) -> Condition:
    """Return the condition PodScheduled False for a stored pod, with the reason why it waits."""
    return _of_pod(Condition(POD_SCHEDULED, "False", reason, message), pod, now)


def doomed(scheduler: str, preemptor: Preemptor, pod: Schedulable, now: datetime) -> Condition:
    """Return the condition DisruptionTarget True of a victim; `scheduler` is our schedulerName."""
    message = target_message(scheduler, preemptor)
    return _of_pod(Condition(DISRUPTION_TARGET, "True", BY_SCHEDULER, message), pod, now)


def spared(pod: Schedulable, now: datetime) -> Condition:
    """Return the condition DisruptionTarget False of a pod that was a victim and stays."""
    message = "The preemption was given up before this pod was deleted."
    return _of_pod(Condition(DISRUPTION_TARGET, "False", BY_SCHEDULER, message), pod, now)


def target_message(scheduler: str, preemptor: Preemptor) -> str:
    """Return kube-scheduler's message with the preemptor's UID.

    A victim's owner need not know whose preemptor it is.
    """
    return f"{scheduler}: preempting to accommodate a higher priority {preemptor.kind} (UID {preemptor.uid})"


def group_conditions(
    group: PodGroup,
    stored: Iterable[Condition],
    now: datetime,
    *,
    attempt: Attempt | None = None,
    target: str | None = None,
) -> tuple[Condition, ...]:
    """Return all conditions of ours that a group shall have; `stored` are those that it has.

    Without an `attempt` or a `target` (a message; empty ends the old one), the stored condition stays. A
    group that was scheduled once stays scheduled, whatever happens to its pods. A group that is scheduled
    again is no target any more.
    """
    kind = _initially(group)
    had = {condition.type: condition for condition in stored}
    scheduled, targeted = had.get(kind), had.get(DISRUPTION_TARGET)
    if attempt is not None and (scheduled is None or scheduled.status != "True"):
        status = "True" if attempt.reason == SCHEDULED else "False"
        scheduled = _settled(Condition(kind, status, *attempt), group.metadata, scheduled, now)
    if target:
        wanted = Condition(DISRUPTION_TARGET, "True", BY_SCHEDULER, target)
        targeted = _settled(wanted, group.metadata, targeted, now)
    elif target is not None or (attempt is not None and attempt.reason == SCHEDULED):
        targeted = None
    return tuple(condition for condition in (scheduled, targeted) if condition is not None)


def ours(group: PodGroup) -> tuple[Condition, ...]:
    """Return the conditions of a group that this scheduler owns."""
    kinds = (_initially(group), DISRUPTION_TARGET)
    return tuple(condition for condition in group.conditions if condition.type in kinds)


def group_of(view: View, unit: Unit) -> PodGroup | None:
    """Return the group of a unit, None if the unit is a pod or the group is gone."""
    if unit.kind != "PodGroup":
        return None
    for native in (True, False):
        group = view.groups.get(GroupKey(native, unit.namespace, unit.name))
        if group is not None and group.metadata.uid == unit.uid:
            return group
    return None


def _initially(group: PodGroup) -> str:
    return GROUP_SCHEDULED if group.ref.apiVersion == f"{NATIVE_GROUP}/v1alpha2" else INITIALLY_SCHEDULED


def _of_pod(wanted: Condition, pod: Schedulable, now: datetime) -> Condition:
    stored = pod.status.condition(wanted.type or "") if pod.status is not None else None
    return _settled(wanted, pod.metadata, stored, now)


def _settled(wanted: Condition, meta: ObjectMeta, stored: Condition | None, now: datetime) -> Condition:
    """Return a condition as it is written. Native groups have no generation to observe."""
    message = cut(wanted.message or "", MAX_MESSAGE)
    settled = msgspec.structs.replace(wanted, message=message, observedGeneration=meta.generation)
    return timed(settled, stored, now)
