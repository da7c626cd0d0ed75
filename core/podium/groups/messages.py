"""The causes and consequences of a divergence, worded alike in the audit and in the condition.

A comparison says which pods differ. Readers also need the cause, which the integers alone do not show, and
the consequence. kube-scheduler changed the consequence from one minor to the next; Podium's scheduler, which
may also place native groups, follows the KEP.
"""

from typing import NamedTuple

from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import PodGroup
from podium.groups.divergence import Divergence, DivergenceCause, Explanation
from podium.text import count, listed, some


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
