"""The conditions that report whether a group's members match the group, as they should be now.

The first drafts of the KEP had PodsNotMatchingPriority, and upstream never built it. There, the only reason
why a gang does not start is one pod's name in a scheduler's event. Here the group itself has the reason, and
keeps it current. `podium.groups.divergence` judges, and the texts are the audit's. This module only chooses
status and reason, and limits the message, because an API server refuses a message that is too long.

A message depends only on stored objects, not on the order of reads or the time. The message of a matching
group has no numbers, so a change of its pods causes no write.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from podium.api.core import Pod, PriorityClass
from podium.api.groups import PodGroup
from podium.api.meta import Condition
from podium.groups.divergence import (
    BY_DIVERGENCE_POLICY,
    GROUP_UNRESOLVED,
    PODS_NOT_MATCHING_PRIORITY,
    Axis,
    Divergence,
    DivergenceCause,
    ServerInfo,
    because,
    consequence,
    measure_divergence,
    policy_consequence,
    policy_sentence,
    sentence,
    unresolved,
)
from podium.rules.conditions import MAX_MESSAGE
from podium.text import count, cut, some

PRIORITY = PODS_NOT_MATCHING_PRIORITY
POLICY = "PodsNotMatchingPreemptionPolicy"
# Every condition type that Podium sets and removes.
OURS = (PRIORITY, POLICY)

PRIORITY_MISMATCH = "PriorityMismatch"
PRIORITIES_MATCH = "PrioritiesMatch"
POLICY_MISMATCH = "PreemptionPolicyMismatch"
POLICIES_MATCH = "PreemptionPoliciesMatch"
NO_MEMBERS = "NoMembers"

# The maximum number of values and causes. With three names each, the message is readable and far below the
# API's limit.
_SHOWN = 5

_UNEXPLAINED = "unexplained"
_PREEMPTION_POLICY = "preemption-policy"


class Judged(msgspec.Struct, frozen=True):
    """A condition as it should be, without its lastTransitionTime.

    `cause` is a Cause, `preemption-policy`, or `unexplained` if integers differ and neither side names a
    class; empty if nothing differs. `pods` is the number of differing members that are not terminating.
    """

    condition: Condition
    cause: str = ""
    pods: int = 0


def judged(
    group: PodGroup,
    members: Iterable[Pod],
    classes: Mapping[str, PriorityClass],
    server: ServerInfo,
    *,
    policy: bool,
) -> tuple[Judged, ...]:
    """Return the conditions of a group by its unfinished pods: for priority and, if `policy`, for policy.

    A group that names a class without a stored integer is Unknown whatever its members have. Elsewhere an
    absent integer means 0, which no user chose here.
    """
    divergence = measure_divergence(group, members, classes)
    priority = _priority(group, divergence, server)
    return (priority, _policy_condition(group, divergence, server)) if policy else (priority,)


def _priority(group: PodGroup, divergence: Divergence, server: ServerInfo) -> Judged:
    if unresolved(group):
        unknown = _condition(group, PRIORITY, "Unknown", GROUP_UNRESOLVED, _unresolved(group))
        return Judged(unknown, DivergenceCause.UNRESOLVED)
    axis = divergence.priority
    if not axis.divergent:
        return _agreed(group, PRIORITY, PRIORITIES_MATCH, divergence.members, axis)
    follows = consequence(group, divergence, server)
    parts = f"{sentence(divergence, _SHOWN)}.", follows, *_causes(group, divergence), *_leaving(axis)
    condition = _condition(group, PRIORITY, "True", PRIORITY_MISMATCH, " ".join(parts))
    return Judged(condition, _main_cause(divergence), axis.live)


def _policy_condition(group: PodGroup, divergence: Divergence, server: ServerInfo) -> Judged:
    axis = divergence.policy
    if not axis.divergent:
        return _agreed(group, POLICY, POLICIES_MATCH, divergence.members, axis)
    follows = policy_consequence(group, divergence, server)
    parts = f"{policy_sentence(divergence, _SHOWN)}.", follows, *_leaving(axis)
    condition = _condition(group, POLICY, "True", POLICY_MISMATCH, " ".join(parts))
    return Judged(condition, _PREEMPTION_POLICY, axis.live)


def _agreed(group: PodGroup, kind: str, reason: str, members: int, axis: Axis[int] | Axis[str]) -> Judged:
    if not members:
        message = "No unfinished pod references the group."
        return Judged(_condition(group, kind, "False", NO_MEMBERS, message))
    leaving = _leaving(axis)
    subject = "All pods that are not terminating" if leaving else "All pods"
    field = "priority" if kind == PRIORITY else "preemptionPolicy"
    message = " ".join((f"{subject} have {field} {axis.expected}.", *leaving))
    return Judged(_condition(group, kind, "False", reason, message))


def _condition(group: PodGroup, kind: str, status: str, reason: str, message: str) -> Condition:
    # Native groups have no generation, so their conditions must not have an observedGeneration.
    generation = group.metadata.generation
    return Condition(kind, status, reason, cut(message, MAX_MESSAGE), observedGeneration=generation)


def _unresolved(group: PodGroup) -> str:
    missing = "the API server's Priority plugin is off" if group.native else "Podium's webhook is not running"
    counts = "Until then Kubernetes uses priority 0. " if group.native else ""
    return (
        f"The group names PriorityClass {group.priority_class_name}, but its priority was never resolved "
        f"from it. The cause is a group created while {missing}. Delete the group and create it again: the "
        f"priority cannot be set later. {counts}{BY_DIVERGENCE_POLICY}"
    )


def _causes(group: PodGroup, divergence: Divergence) -> list[str]:
    """Return sentences about the causes of most pods, in the audit's order, and the number of others."""
    ranked = sorted(divergence.causes, key=lambda cause: -len(cause.pods))
    parts = [because(group, cause, divergence) for cause in sorted(ranked[:_SHOWN])]
    rest = len(ranked) - len(parts)
    return [*parts, f"And {count(rest, 'more cause')}."] if rest else parts


def _leaving(axis: Axis[int] | Axis[str]) -> tuple[str, ...]:
    names = [name for differing in axis.differing for name in differing.terminating]
    return (f"Terminating and different: {some(names)}.",) if names else ()


def _main_cause(divergence: Divergence) -> str:
    """Return the cause to count a group under: that of most pods; age only if there is no other cause."""
    pods: Counter[DivergenceCause] = Counter()
    for cause in divergence.causes:
        pods[cause.cause] += len(cause.pods)
    if not pods:
        return _UNEXPLAINED
    return max(pods, key=lambda cause: (cause is not DivergenceCause.POD_OLDER, pods[cause]))
