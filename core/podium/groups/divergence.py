"""Compare the priority of a group with its members': the one comparison that four callers share.

Upstream compares integers only: 1.36 silently uses the group's, 1.37 refuses the whole group. The condition
PodsNotMatchingPriority of the first drafts of KEP-5710 was never built. The audit, admission, the reconciler
that sets this condition and the scheduler that reads it must agree. They therefore all use this comparison.

The scheduler also reads the condition. A True from any writer withholds preemption, a False grants nothing
(`doubt`). A status is late and may be forged, so it can only make the scheduler more careful.

Members are pods of the group's namespace that reference the group and are not finished. A nil integer is 0, a
nil preemptionPolicy is PreemptLowerPriority. A terminating member is listed, but alone it makes no group
divergent: it is leaving.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import msgspec

from podium.api.core import PODIUM_SCHEDULER, Pod, PriorityClass
from podium.api.groups import PodGroup
from podium.api.priority import PREEMPT_LOWER_PRIORITY, effective_policy
from podium.text import count, listed, some

# The condition that the reconciler sets on groups, and its reason for a group that stores no integer.
PODS_NOT_MATCHING_PRIORITY = "PodsNotMatchingPriority"
GROUP_UNRESOLVED = "GroupUnresolved"

V = TypeVar("V", int, str)


class DivergenceCause(StrEnum):
    """The reason why a pod and its group have different priorities, from the data stored in both."""

    # The same class name, but another integer.
    CLASS_RECREATED = "class-recreated"
    # One side has the default class; the other was created when there was no default.
    DEFAULT_CHANGED = "default-changed"
    # The two sides name different classes.
    OTHER_CLASS = "other-class"
    # A class is named, but its integer was never stored.
    UNRESOLVED = "unresolved"
    # The pod was resolved before its group was created.
    POD_OLDER = "pod-older"


class Differing(msgspec.Struct, Generic[V], frozen=True):
    """The members that share one unexpected value; names in order."""

    value: V
    live: tuple[str, ...]
    terminating: tuple[str, ...] = ()


class Axis(msgspec.Struct, Generic[V], frozen=True):
    """A property that members must share, and the members with another value, largest value first."""

    expected: V
    differing: tuple[Differing[V], ...] = ()

    @property
    def divergent(self) -> bool:
        """Return whether a member that is not leaving differs."""
        return any(difference.live for difference in self.differing)

    @property
    def live(self) -> int:
        """Return the number of members that differ and are not leaving."""
        return sum(len(difference.live) for difference in self.differing)


class Explanation(msgspec.Struct, frozen=True, order=True):
    """A cause, the pods' class that it concerns (empty for none), and the live pods it explains, sorted."""

    cause: DivergenceCause
    class_name: str
    pods: tuple[str, ...]


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the comparison for one group; `causes` explain the priority axis only.

    `schedulers` are the schedulerNames of the members that are not leaving, in order, if members differ in
    anything. Each scheduler decides the consequence.
    """

    members: int
    priority: Axis[int]
    policy: Axis[str]
    causes: tuple[Explanation, ...] = ()
    schedulers: tuple[str, ...] = ()


def measure_divergence(
    group: PodGroup | None,
    members: Iterable[Pod],
    classes: Mapping[str, PriorityClass] | None = None,
) -> Divergence:
    """Compare members with their group; finished pods are ignored.

    Without a group (an inferred group) the most common integer among the members is expected, and the larger
    of two equally common ones. A group has no preemptionPolicy if it was created while the gate
    PodGroupPreemptionPolicy was off. Its members must then agree among themselves, as in kube-scheduler 1.37.
    `classes` (None: not read) only help to explain.
    """
    present = [pod for pod in members if not pod.finished]
    priorities = [pod.spec.priority or 0 for pod in present]
    policies = [effective_policy(pod.spec.preemptionPolicy) for pod in present]
    priority = _axis(present, priorities, None if group is None else group.priority or 0, 0)
    policy = _axis(
        present, policies, None if group is None else group.preemption_policy, PREEMPT_LOWER_PRIORITY
    )
    causes = _explain(group, present, classes or {}) if group is not None and priority.divergent else ()
    schedulers: set[str] = set()
    if priority.divergent or policy.divergent:
        schedulers = {pod.scheduler for pod in present if pod.metadata.deletionTimestamp is None}
    return Divergence(
        members=len(present),
        priority=priority,
        policy=policy,
        causes=causes,
        schedulers=tuple(sorted(schedulers)),
    )


def unresolved(group: PodGroup) -> bool:
    """Return whether a group names a PriorityClass but stores no integer."""
    return bool(group.priority_class_name) and group.priority is None


def reported(group: PodGroup) -> str:
    """Return the status of the condition: True, False, Unknown (of an unresolved group), or empty."""
    for condition in group.conditions:
        if condition.type == PODS_NOT_MATCHING_PRIORITY:
            known = condition.status in {"True", "False"} or (
                condition.status == "Unknown" and condition.reason == GROUP_UNRESOLVED
            )
            return (condition.status or "") if known else ""
    return ""


def doubt(group: PodGroup, divergence: Divergence) -> str:
    """Return why the priority of a group is in doubt, or an empty text.

    The stored pods and group come first, then the condition, from any writer and for any observed generation.
    """
    if divergence.priority.divergent:
        return "not all of its pods have its priority"
    if unresolved(group):
        return "its PriorityClass was never resolved to a priority"
    status = reported(group)
    return f"its condition {PODS_NOT_MATCHING_PRIORITY} is {status}" if status in {"True", "Unknown"} else ""


def disagreement(group: PodGroup, divergence: Divergence) -> str:
    """Return the status of the condition if it contradicts the stored pods and group, else empty."""
    status = reported(group)
    own = divergence.priority.divergent or unresolved(group)
    return status if status and own is (status == "False") else ""


def sentence(divergence: Divergence, shown: int | None = None) -> str:
    """Return a sentence on the differing pods, for a condition or a finding.

    For example: `2 of 8 pods do not have priority 1000: 0 (a, b)`. Of more than `shown` values the most
    common are listed, and the others counted.
    """
    return _sentence(divergence.priority, divergence.members, "priority", shown)


def policy_sentence(divergence: Divergence, shown: int | None = None) -> str:
    """Return a sentence on the pods with another preemptionPolicy, in the same form."""
    return _sentence(divergence.policy, divergence.members, "preemptionPolicy", shown)


def _axis(present: list[Pod], values: list[V], expected: V | None, unset: V) -> Axis[V]:
    """Return one axis; `values` are the members' in the same order. Without members nothing differs."""
    if expected is None:
        expected = _most_common(present, values) if len(set(values)) > 1 else next(iter(values), unset)
    if values.count(expected) == len(values):
        return Axis(expected)
    live: dict[V, list[str]] = {}
    leaving: dict[V, list[str]] = {}
    for pod, value in zip(present, values, strict=True):
        if value != expected:
            side = live if pod.metadata.deletionTimestamp is None else leaving
            side.setdefault(value, []).append(pod.metadata.name or "")
    differing = []
    others: list[V] = sorted(live.keys() | leaving.keys(), reverse=True)
    for other in others:
        names = tuple(sorted(live.get(other, ()))), tuple(sorted(leaving.get(other, ())))
        differing.append(Differing(other, *names))
    return Axis(expected, tuple(differing))


def _most_common(present: list[Pod], values: list[V]) -> V:
    staying = [
        value for pod, value in zip(present, values, strict=True) if pod.metadata.deletionTimestamp is None
    ]
    counts = Counter(staying or values)
    most = max(counts.values())
    return max(value for value, number in counts.items() if number == most)


def _sentence(axis: Axis[V], members: int, subject: str, shown: int | None) -> str:
    ranked = sorted(axis.differing, key=lambda difference: -len(difference.live))[:shown]
    live_values = {difference.value for difference in ranked if difference.live}
    values = "; ".join(
        f"{difference.value} ({some(difference.live)})"
        for difference in axis.differing
        if difference.value in live_values
    )
    rest = axis.live - sum(len(difference.live) for difference in ranked)
    others = f"; {count(rest, 'pod')} with other values" if rest else ""
    leaving = sum(len(difference.terminating) for difference in axis.differing)
    also = f"; {leaving} more, terminating" if leaving else ""
    do = "does" if axis.live == 1 else "do"
    divergent = f"{axis.live} of {count(members, 'pod')} {do} not have {subject} {axis.expected}"
    return f"{divergent}: {values}{others}{also}"


def _explain(
    group: PodGroup, present: list[Pod], classes: Mapping[str, PriorityClass]
) -> tuple[Explanation, ...]:
    expected = group.priority or 0
    created = group.metadata.creationTimestamp or ""
    pods_by_cause: dict[tuple[DivergenceCause, str], list[str]] = {}
    for pod in present:
        if (pod.spec.priority or 0) == expected or pod.metadata.deletionTimestamp is not None:
            continue
        name = pod.metadata.name or ""
        class_name = pod.spec.priorityClassName or ""
        cause = _cause(group, pod, class_name, classes)
        if cause is not None:
            pods_by_cause.setdefault((cause, class_name), []).append(name)
        if (pod.metadata.creationTimestamp or created) < created:
            pods_by_cause.setdefault((DivergenceCause.POD_OLDER, class_name), []).append(name)
    return tuple(sorted(Explanation(*which, tuple(sorted(names))) for which, names in pods_by_cause.items()))


def _cause(
    group: PodGroup, pod: Pod, class_name: str, classes: Mapping[str, PriorityClass]
) -> DivergenceCause | None:
    if (class_name and pod.spec.priority is None) or (group.priority_class_name and group.priority is None):
        return DivergenceCause.UNRESOLVED
    if class_name == group.priority_class_name:
        return DivergenceCause.CLASS_RECREATED if class_name else None
    if class_name and group.priority_class_name:
        return DivergenceCause.OTHER_CLASS
    # A side without a class was created when there was no default. The side that has the present default is
    # therefore the later one.
    named = classes.get(class_name or group.priority_class_name)
    return (
        DivergenceCause.DEFAULT_CHANGED
        if named is not None and named.globalDefault
        else DivergenceCause.OTHER_CLASS
    )


class ServerInfo(NamedTuple):
    """The Kubernetes version as a minor number to compare and as a text to show: 37 and `1.37`."""

    minor: int
    version: str


# A consequence that depends on a scheduler setting, which neither the reconciler nor the audit can read.
BY_DIVERGENCE_POLICY = (
    "Podium's scheduler follows its divergencePolicy: with NoPreemption, the default, the "
    "group does not preempt."
)


def not_counting(finished: int) -> str:
    """Return how many pods of a gang have finished, which no scheduler counts toward minCount."""
    return (
        f"{count(finished, 'pod')} {'has ended and does' if finished == 1 else 'have ended and do'} not count"
    )


def because(group: PodGroup, explanation: Explanation, divergence: Divergence) -> str:
    """Return a sentence on one cause of a divergence in priority, with the names of the classes."""
    theirs, ours = explanation.class_name, group.priority_class_name
    names, single = some(explanation.pods), len(explanation.pods) == 1
    all_of_them = len(explanation.pods) == divergence.priority.live
    pods = ("the pod" if single else "they") if all_of_them else names
    were = "was" if single else "were"
    match explanation.cause:
        case DivergenceCause.CLASS_RECREATED:
            return f"PriorityClass {theirs} had another value when {pods} {were} created than for the group."
        case DivergenceCause.DEFAULT_CHANGED if theirs:
            return f"PriorityClass {theirs} became the default after the group was created without a class."
        case DivergenceCause.DEFAULT_CHANGED:
            return f"PriorityClass {ours} became the default after {pods} {were} created without a class."
        case DivergenceCause.OTHER_CLASS:
            subject = "Their class" if all_of_them and not single else f"The class of {pods}"
            return f"{subject}: {theirs or 'none'}; the group's: {ours or 'none'}."
        case DivergenceCause.UNRESOLVED:
            return "The group or its pods name a class but store no priority."
        case DivergenceCause.POD_OLDER:
            return f"Older than the group: {'all of them' if all_of_them and not single else names}."


def consequence(group: PodGroup, divergence: Divergence, server: ServerInfo) -> str:
    """Return a sentence on what its schedulers do with a group whose members have another priority.

    The source is KEP-5710 and, from 1.37 on, kube-scheduler's validatePodGroup. Every scheduler except
    Podium's is treated as kube-scheduler, because a profile may have any name.
    """
    others = _others(divergence)
    if not others:
        return BY_DIVERGENCE_POLICY
    if not group.native:
        read = "reads" if len(others) == 1 else "read"
        return f"{listed(others)} {read} no group of Podium: each pod uses its own priority."
    if is_refused(group, divergence, server.minor):
        return f"Kubernetes {server.version} does not schedule the group."
    if server.minor <= 35:
        return f"Kubernetes {server.version} reads no PodGroup: each pod uses its own priority."
    return f"Kubernetes 1.36 silently uses the group's {group.priority or 0}."


def policy_consequence(group: PodGroup, divergence: Divergence, server: ServerInfo) -> str:
    """Return a sentence on what its schedulers do with a group whose members' preemption policies differ."""
    others = _others(divergence)
    if others and (not group.native or server.minor <= 35):
        return "Each pod uses its own preemptionPolicy."
    if is_refused(group, divergence, server.minor):
        return f"Kubernetes {server.version} does not schedule the group."
    return "One member with Never prevents the whole group from preempting."


def is_refused(group: PodGroup, divergence: Divergence, minor: int) -> bool:
    """Return whether Kubernetes 1.`minor` refuses to schedule a group because of its divergence."""
    return group.native and minor >= 37 and bool(_others(divergence))


def _others(divergence: Divergence) -> list[str]:
    """Return the schedulerNames of the members of a divergent group, without Podium's scheduler."""
    return [scheduler for scheduler in divergence.schedulers if scheduler != PODIUM_SCHEDULER]
