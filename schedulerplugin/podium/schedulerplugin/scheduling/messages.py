"""Builds all that the scheduler says to users: conditions, messages and events, in kube-scheduler's form.

Tools read the conditions: autoscalers read PodScheduled, the Job controller reads DisruptionTarget. So types
and reasons are those of Kubernetes (core/v1; scheduling v1alpha2 and v1beta1). Where kube-scheduler writes no
condition, this scheduler writes none: a pod that is gated before it is queued keeps what the API server
wrote. A group's conditions are always given all together, because a server-side apply that leaves out a
condition removes it.

A message is `0/N nodes are available: ...` (what refuses the entry without preemption) and `preemption: ...`
(the result of the search for victims). Reasons that no preemption changes come first, such as a label that no
node has. Pods of other tenants are counted, never named.

One event reports a preemption for each unit, where kube-scheduler writes one for each victim. A condition or
an event names the preemptor by its UID, as kube-scheduler does, because its readers need not know anything of
the preemptor's namespace. In the preemptor's own namespace its name follows the UID. The same event has the
same token in every process and every time.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from podium.api.core import POD_SCHEDULED
from podium.api.events import CANNOT_EVICT, NOT_EVICTED, PREEMPTED, EventDraft
from podium.api.findings import ObjectRef
from podium.api.groups import (
    COMPOSITE_INITIALLY_SCHEDULED,
    GROUP_SCHEDULED,
    INITIALLY_SCHEDULED,
    NATIVE_GROUP,
    PodGroup,
)
from podium.api.membership import GroupKey
from podium.api.meta import Condition, ObjectMeta, timed
from podium.api.schedulable import Schedulable
from podium.api.times import written_at
from podium.cluster.reader import Child, ClusterReader
from podium.groups.topology import not_preferred, straddling
from podium.groups.trees import group_at
from podium.planner.deadline import DecisionTimeoutError, UnansweredDecisionError
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.inflight import BY_SCHEDULER, DISRUPTION_TARGET
from podium.planner.preemption.outcome import Outcome
from podium.rules.conditions import MAX_MESSAGE
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Preemptor, RefusedVictim, Unit
from podium.text import accelerator_time, count, cut

SCHEDULED = "Scheduled"
# The condition of a group whose members do not run in one topology domain, and its reasons: the domain is
# required, or only preferred.
STRADDLES, REQUIRED, PREFERRED = "MembersInSeveralDomains", "TopologyConstraint", "PreferredTopology"


class Attempt(NamedTuple):
    """The reason and message of a group's condition; an attempt's `reason` is one of the first three."""

    reason: str
    message: str


def same_condition(stored: Condition | None, condition: Condition) -> bool:
    """Return whether a stored condition says what is wanted; upstream rewrites it for no other reason."""
    return stored is not None and (stored.status, stored.reason, stored.message) == (
        condition.status,
        condition.reason,
        condition.message,
    )


def unscheduled_condition(reason: str, message: str, pod: Schedulable, now: datetime) -> Condition:
    """Return the condition PodScheduled False for a stored pod, with the reason why it waits."""
    return _of_pod(Condition(POD_SCHEDULED, "False", reason, message), pod, now)


def target_condition(scheduler: str, preemptor: Preemptor, pod: Schedulable, now: datetime) -> Condition:
    """Return the condition DisruptionTarget True of a victim; `scheduler` is our schedulerName."""
    message = target_message(scheduler, preemptor, pod.metadata.namespace or "")
    return _of_pod(Condition(DISRUPTION_TARGET, "True", BY_SCHEDULER, message), pod, now)


def withdrawn_condition(pod: Schedulable, now: datetime) -> Condition:
    """Return the condition DisruptionTarget False of a pod that was a victim and stays."""
    message = "The preemption was given up before this pod was deleted."
    return _of_pod(Condition(DISRUPTION_TARGET, "False", BY_SCHEDULER, message), pod, now)


def target_message(scheduler: str, preemptor: Preemptor, namespace: str) -> str:
    """Return kube-scheduler's message for a victim of a namespace, with the preemptor's UID."""
    uid, name = preemptor.uid, _name_in(namespace, preemptor)
    return f"{scheduler}: preempting to accommodate a higher priority {preemptor.kind} (UID {uid}){name}"


def _name_in(namespace: str, preemptor: Preemptor) -> str:
    """Return the preemptor's name after a comma, empty if the namespace is not its own."""
    return f", {namespace}/{preemptor.name}" if namespace == preemptor.namespace else ""


def group_conditions(
    group: Child,
    stored: Iterable[Condition],
    now: datetime,
    *,
    attempt: Attempt | None = None,
    target: str | None = None,
    spread: Attempt | None = None,
) -> tuple[Condition, ...]:
    """Return all conditions of ours that a group shall have; `stored` are those that it has.

    Without an `attempt` or a `target` (a message; empty ends the old one), the stored condition stays. A
    group that was scheduled once stays scheduled, whatever happens to its pods. A group that is scheduled
    again is no target any more. `spread` is the reason and message if members run in several domains.
    """
    kind = _initially(group)
    had = {condition.type: condition for condition in stored}
    scheduled, targeted = had.get(kind), had.get(DISRUPTION_TARGET)
    if attempt is not None and (scheduled is None or scheduled.status != "True"):
        status = "True" if attempt.reason == SCHEDULED else "False"
        scheduled = _settled(Condition(kind, status, *attempt), group.metadata, scheduled, now)
    if target:
        draft = Condition(DISRUPTION_TARGET, "True", BY_SCHEDULER, target)
        targeted = _settled(draft, group.metadata, targeted, now)
    elif target is not None or (attempt is not None and attempt.reason == SCHEDULED):
        targeted = None
    straddles = None
    if spread is not None:
        draft = Condition(STRADDLES, "True", *spread)
        straddles = _settled(draft, group.metadata, had.get(STRADDLES), now)
    return tuple(condition for condition in (scheduled, targeted, straddles) if condition is not None)


def spread_over_domains(view: ClusterReader, group: PodGroup, bound: Mapping[str, str]) -> Attempt | None:
    """Return why the members of a group count as in several domains, None if they do not.

    `bound` are the nodes of members, by name, that the view may not show yet.
    """
    for reason, message in (
        (REQUIRED, straddling(view, group, bound)),
        (PREFERRED, not_preferred(view, group, bound)),
    ):
        if message:
            return Attempt(reason, message)
    return None


def ours(group: Child) -> tuple[Condition, ...]:
    """Return the conditions of a group that this scheduler owns."""
    kinds = (_initially(group), DISRUPTION_TARGET, STRADDLES)
    return tuple(condition for condition in group.conditions if condition.type in kinds)


def group_of(view: ClusterReader, unit: Unit) -> Child | None:
    """Return the group of a unit, None if the unit is a pod or the group is gone."""
    if unit.kind == "Pod":
        return None
    for native in (True, False):
        composite = unit.kind == "CompositePodGroup"
        group = group_at(view, GroupKey(native, unit.namespace, unit.name, composite))
        if group is not None and group.metadata.uid == unit.uid:
            return group
    return None


def _initially(group: Child) -> str:
    if not isinstance(group, PodGroup):
        return COMPOSITE_INITIALLY_SCHEDULED
    return GROUP_SCHEDULED if group.ref.apiVersion == f"{NATIVE_GROUP}/v1alpha2" else INITIALLY_SCHEDULED


def _of_pod(condition: Condition, pod: Schedulable, now: datetime) -> Condition:
    stored = pod.status.condition(condition.type or "") if pod.status is not None else None
    return _settled(condition, pod.metadata, stored, now)


def _settled(condition: Condition, meta: ObjectMeta, stored: Condition | None, now: datetime) -> Condition:
    """Return a condition as it is written. Native groups have no generation to observe."""
    message = cut(condition.message or "", MAX_MESSAGE)
    settled = msgspec.structs.replace(condition, message=message, observedGeneration=meta.generation)
    return timed(settled, stored, now)


def refusal(decision: Decision) -> str:
    """Return why an entry does not fit and, if preemption was considered, why preemption does not help."""
    now = "" if decision.refusals is None else decision.refusals.message
    if decision.outcome in (Outcome.NOT_ELIGIBLE, Outcome.NOT_JUDGED):
        return f"{now} preemption: {decision.why}".lstrip()
    return now if decision.obstacles is None else f"{now} {decision.obstacles.condition}"


def awaiting(decision: Decision) -> str:
    """Return the message of an entry that waits for pods that are terminating, or whose end is known."""
    now = "" if decision.refusals is None else decision.refusals.message
    number = len(decision.awaited)
    if decision.room_at:
        ends = f"room at {written_at(decision.room_at)}, by the end of {count(number, 'pod')}"
        return f"{now} preemption: waiting for {ends}, before anything is evicted"
    return (
        f"{now} preemption: waiting for {count(number, 'pod')} that {'is' if number == 1 else 'are'} leaving"
    )


def victim_count(evict: Evict) -> str:
    """Return the number of victims, in words."""
    groups = sum(unit.kind != "Pod" for unit in evict.units)
    pods = count(len(evict.victims), "pod")
    return pods if not groups else f"{pods}, {count(groups, 'whole group')} among them,"


def timed_out(error: DecisionTimeoutError, budget: float) -> str:
    """Return the message of an entry whose decision ended by an error; its time budget is in seconds."""
    why = (
        f"no decision: {error}"
        if isinstance(error, UnansweredDecisionError)
        else f"no decision within {budget:g} s (decisionTimeoutSeconds): too many combinations of nodes, "
        "victims and constraints"
    )
    return f"{why}; the scheduler tries again after all other pods"


def holding(until: str) -> str:
    """Return the sentence for a gang that holds room until a time."""
    return f"This gang holds room as it comes free, until {until} (gangHoldSeconds)."


def behind(until: str) -> str:
    """Return the sentence for an entry that may not use the room that a gang holds until a time."""
    return f"A waiting gang holds some of the free room until {until}."


def not_for_held_room(until: str) -> str:
    """Return why no pod is evicted for an entry that would fit without the room that a gang holds."""
    return f"no pod is evicted: the room is free, and a waiting gang holds it until {until}"


FAILED: Final = "FailedScheduling"


def scheduled_event(pod: PodRef, node: str) -> EventDraft:
    """Return the event of a pod that was bound."""
    text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
    return _event(pod, "Normal", SCHEDULED, "Binding", text)


def failed_event(pod: PodRef, message: str) -> EventDraft:
    """Return the event of a pod that found no place."""
    return _event(pod, "Warning", FAILED, "Scheduling", message)


def preempted_events(view: ClusterReader, evict: Evict) -> list[EventDraft]:
    """Return one event of a preemption for each unit: about the group if the view has it, else its pod."""
    preemptor = evict.preemptor
    gone = f"{count(len(evict.victims), 'pod')} in {count(len(evict.units), 'unit')}"
    lost = f", {accelerator_time(evict.work)} lost" if evict.work else ""
    text = f"Preempted by {preemptor.kind} {preemptor.uid} on node {evict.domain}, {gone}{lost}"
    drafts = []
    for unit in evict.units:
        named = f"{text}{_name_in(unit.namespace, preemptor)}"
        note = _event(unit.pods[0], "Normal", PREEMPTED, "Preempting", named)
        # A leader that resumes the plan counts only the remaining victims.
        note = msgspec.structs.replace(note, token=f"{unit.uid}/{PREEMPTED}/{preemptor.uid}")
        group = group_of(view, unit)
        drafts.append(
            note if group is None else msgspec.structs.replace(note, regarding=group.ref, uid=unit.uid)
        )
    return drafts


def refused_event(refused: RefusedVictim) -> EventDraft:
    """Return the event of a pod that the API server does not let the scheduler delete."""
    text = f"{CANNOT_EVICT}{refused.why}"
    return _event(refused.pod, "Warning", NOT_EVICTED, "Preempting", text[:1].upper() + text[1:])


def _event(
    pod: PodRef, kind: Literal["Normal", "Warning"], reason: str, action: str, text: str
) -> EventDraft:
    return EventDraft(
        regarding=ObjectRef("v1", "Pod", pod.namespace, pod.name),
        uid=pod.uid,
        resource_version="",
        type=kind,
        reason=reason,
        action=action,
        text=text,
        token=f"{pod.uid}/{reason}/{text}",
    )
