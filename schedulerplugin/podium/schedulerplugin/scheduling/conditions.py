"""What a scheduler says in the status of pods and groups, in the words and shapes of kube-scheduler.

Tools read these conditions: autoscalers PodScheduled, the Job controller DisruptionTarget. So their types and
reasons are upstream's (core/v1; scheduling v1alpha2 and v1beta1), and where upstream says nothing, nothing is
said: a pod that is gated before it is queued keeps what the API server wrote.

A group's conditions are given all together, for one server-side apply that leaves out a condition takes it
away.
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
# Not the cluster's want of room, but something that cannot be judged.
SCHEDULER_ERROR = "SchedulerError"


class Attempt(NamedTuple):
    """How an attempt at a group ended: `reason` is one of the three above."""

    reason: str
    message: str


def same(stored: Condition | None, wanted: Condition) -> bool:
    """Say whether a stored condition says what is wanted; upstream rewrites it for nothing else."""
    return stored is not None and (stored.status, stored.reason, stored.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )


def unscheduled(reason: str, message: str, pod: Schedulable, now: datetime) -> Condition:
    """Say of a pod as it is stored why it waits."""
    return _of_pod(Condition(POD_SCHEDULED, "False", reason, message), pod, now)


def doomed(scheduler: str, preemptor: Preemptor, pod: Schedulable, now: datetime) -> Condition:
    """Say of a victim that it goes: `scheduler` is our schedulerName."""
    message = target_message(scheduler, preemptor)
    return _of_pod(Condition(DISRUPTION_TARGET, "True", BY_SCHEDULER, message), pod, now)


def spared(pod: Schedulable, now: datetime) -> Condition:
    """Say of a pod that was to go that it stays after all."""
    message = "The preemption was given up before this pod was deleted."
    return _of_pod(Condition(DISRUPTION_TARGET, "False", BY_SCHEDULER, message), pod, now)


def target_message(scheduler: str, preemptor: Preemptor) -> str:
    """Give kube-scheduler's words and the preemptor's UID; whose it is, a victim's owner need not know."""
    return f"{scheduler}: preempting to accommodate a higher priority {preemptor.kind} (UID {preemptor.uid})"


def group_conditions(
    group: PodGroup,
    stored: Iterable[Condition],
    now: datetime,
    *,
    attempt: Attempt | None = None,
    target: str | None = None,
) -> tuple[Condition, ...]:
    """Give all conditions of ours that a group shall have, where `stored` are those that it has.

    Without an `attempt` or a `target` (a message, or empty for one that is over) what is stored of it stays.
    A group that was scheduled once stays so, whatever becomes of its pods; one that is scheduled anew is no
    target any more.
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
    """Give the conditions of a group that are this scheduler's to say."""
    kinds = (_initially(group), DISRUPTION_TARGET)
    return tuple(condition for condition in group.conditions if condition.type in kinds)


def group_of(view: View, unit: Unit) -> PodGroup | None:
    """Find the group that a unit is, if it is one, and is still there."""
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
    """Give a condition as it is written; native groups have no generation that it could have seen."""
    message = cut(wanted.message or "", MAX_MESSAGE)
    settled = msgspec.structs.replace(wanted, message=message, observedGeneration=meta.generation)
    return timed(settled, stored, now)
