"""What a divergence comes from and what it leads to, in words: the audit's findings and the condition agree.

A judgement says who differs. Whoever reads it must also learn why, for the integers alone do not tell, and
what is made of it: kube-scheduler changed that from one minor to the next, and Podium's scheduler, which may
place native groups too, follows the KEP.
"""

from typing import NamedTuple

from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import PodGroup
from podium.divergence import Cause, Divergence, Explanation
from podium.wording import listed, some


class Server(NamedTuple):
    """The Kubernetes that is spoken of, as a number to compare and as a text to show: 37 and `1.37`."""

    minor: int
    version: str


# A setting of the scheduler, which neither the reconciler nor the audit can read.
BY_DIVERGENCE_POLICY = (
    "Podium's scheduler goes by its divergencePolicy: "
    "NoPreemption, the default, gives the group free room only."
)


def because(group: PodGroup, explanation: Explanation, divergence: Divergence) -> str:
    """Say one cause of a divergence in priority, by the classes' names."""
    theirs, ours = explanation.class_name, group.priority_class_name
    names, one = some(explanation.pods), len(explanation.pods) == 1
    all_of_them = len(explanation.pods) == divergence.priority.live
    who = ("the pod" if one else "they") if all_of_them else names
    were = "was" if one else "were"
    match explanation.cause:
        case Cause.CLASS_RECREATED:
            return f"PriorityClass {theirs} had another value when {who} {were} made than for the group."
        case Cause.DEFAULT_CHANGED if theirs:
            return f"PriorityClass {theirs} became the default after the group was made without a class."
        case Cause.DEFAULT_CHANGED:
            return f"PriorityClass {ours} became the default after {who} {were} made without a class."
        case Cause.OTHER_CLASS:
            whose = "Their class" if all_of_them and not one else f"The class of {who}"
            return f"{whose}: {theirs or 'none'}; the group's: {ours or 'none'}."
        case Cause.UNRESOLVED:
            return "A class is named but no integer stored, in the group or in its pods."
        case Cause.POD_OLDER:
            return f"Older than the group: {'all of them' if all_of_them and not one else names}."


def consequence(group: PodGroup, divergence: Divergence, server: Server) -> str:
    """Say what its schedulers do with a group whose members have another priority.

    By KEP-5710 and, from 1.37 on, kube-scheduler's validatePodGroup. Whoever is not Podium's scheduler is
    taken for kube-scheduler, under whatever name a profile of it has.
    """
    others = _others(divergence)
    if not others:
        return BY_DIVERGENCE_POLICY
    if not group.native:
        read = "reads" if len(others) == 1 else "read"
        return f"{listed(others)} {read} no group of Podium's: each pod's own integer counts."
    if refused(group, divergence, server.minor):
        return f"Kubernetes {server.version} does not schedule the group."
    if server.minor <= 35:
        return f"Kubernetes {server.version} reads no PodGroup: each pod's own integer counts."
    return f"Kubernetes 1.36 silently lets the group's {group.priority or 0} win."


def policy_consequence(group: PodGroup, divergence: Divergence, server: Server) -> str:
    """Say what its schedulers do with a group whose members have different preemption policies."""
    others = _others(divergence)
    if others and (not group.native or server.minor <= 35):
        return "Each pod preempts by its own preemptionPolicy."
    if refused(group, divergence, server.minor):
        return f"Kubernetes {server.version} does not schedule the group."
    return "One member with Never keeps the whole group from preempting."


def refused(group: PodGroup, divergence: Divergence, minor: int) -> bool:
    """Whether Kubernetes 1.`minor` does not schedule a group for what its members do not share."""
    return group.native and minor >= 37 and bool(_others(divergence))


def _others(divergence: Divergence) -> list[str]:
    """Give whom the members of a divided group ask to place them, beside Podium's scheduler."""
    return [each for each in divergence.schedulers if each != PODIUM_SCHEDULER]
