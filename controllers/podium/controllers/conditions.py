"""The conditions that say whether a group's members carry what the group carries, as they should be now.

The KEP's first drafts had PodsNotMatchingPriority and upstream never built it: there, who wonders why a gang
does not start finds one pod's name in a scheduler's event. Here the group itself says it, and goes on saying
what is true. The judgement is `podium.divergence`'s, the words are the audit's; this module only chooses
status and reason, and bounds what a message tells, for an API server refuses one that is too long.

A message depends on what is stored and on nothing else, not on the order of reading and not on the time, and
one that says that all is well has no numbers: a group whose pods come and go is not written again for it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from podium.api.core import Pod, PriorityClass
from podium.api.groups import PodGroup
from podium.api.meta import Condition
from podium.divergence import (
    GROUP_UNRESOLVED,
    PODS_NOT_MATCHING_PRIORITY,
    Axis,
    Cause,
    Divergence,
    judge,
    policy_sentence,
    sentence,
    unresolved,
)
from podium.explain import BY_DIVERGENCE_POLICY, Server, because, consequence, policy_consequence
from podium.rules.podgroup import MAX_MESSAGE
from podium.wording import count, cut, some

PRIORITY = PODS_NOT_MATCHING_PRIORITY
POLICY = "PodsNotMatchingPreemptionPolicy"
# Every condition type that is ours to set and to take away.
OURS = (PRIORITY, POLICY)

PRIORITY_MISMATCH = "PriorityMismatch"
PRIORITIES_MATCH = "PrioritiesMatch"
POLICY_MISMATCH = "PreemptionPolicyMismatch"
POLICIES_MATCH = "PreemptionPoliciesMatch"
NO_MEMBERS = "NoMembers"

# Of values and of causes; with three names each this stays readable, and far below the API's limit.
_SHOWN = 5

_UNEXPLAINED = "unexplained"
_PREEMPTION_POLICY = "preemption-policy"


class Judged(msgspec.Struct, frozen=True):
    """A condition as it should be, without its lastTransitionTime.

    `cause` is a Cause, `preemption-policy`, or `unexplained` where integers differ and no class is named on
    either side; empty where nothing is wrong. `pods` is how many members differ and are not leaving.
    """

    condition: Condition
    cause: str = ""
    pods: int = 0


def judged(
    group: PodGroup,
    members: Iterable[Pod],
    classes: Mapping[str, PriorityClass],
    server: Server,
    *,
    policy: bool,
) -> tuple[Judged, ...]:
    """Judge a group by its pods (finished ones are passed over): on priority and, if asked, on policy.

    A group that names a class but stores no integer is Unknown whatever its members have: 0, which an absent
    integer means elsewhere, is not what anybody asked for.
    """
    divergence = judge(group, members, classes)
    priority = _priority(group, divergence, server)
    return (priority, _policy(group, divergence, server)) if policy else (priority,)


def _priority(group: PodGroup, divergence: Divergence, server: Server) -> Judged:
    if unresolved(group):
        unknown = _condition(group, PRIORITY, "Unknown", GROUP_UNRESOLVED, _unresolved(group))
        return Judged(unknown, Cause.UNRESOLVED)
    axis = divergence.priority
    if not axis.divergent:
        return _agreed(group, PRIORITY, PRIORITIES_MATCH, divergence.members, axis)
    follows = consequence(group, divergence, server)
    told = f"{sentence(divergence, _SHOWN)}.", follows, *_causes(group, divergence), *_leaving(axis)
    condition = _condition(group, PRIORITY, "True", PRIORITY_MISMATCH, " ".join(told))
    return Judged(condition, _main_cause(divergence), axis.live)


def _policy(group: PodGroup, divergence: Divergence, server: Server) -> Judged:
    axis = divergence.policy
    if not axis.divergent:
        return _agreed(group, POLICY, POLICIES_MATCH, divergence.members, axis)
    follows = policy_consequence(group, divergence, server)
    told = f"{policy_sentence(divergence, _SHOWN)}.", follows, *_leaving(axis)
    condition = _condition(group, POLICY, "True", POLICY_MISMATCH, " ".join(told))
    return Judged(condition, _PREEMPTION_POLICY, axis.live)


def _agreed(group: PodGroup, kind: str, reason: str, members: int, axis: Axis[int] | Axis[str]) -> Judged:
    if not members:
        message = "No pod that has not finished references the group."
        return Judged(_condition(group, kind, "False", NO_MEMBERS, message))
    leaving = _leaving(axis)
    who = "All pods that stay" if leaving else "All pods"
    what = "priority" if kind == PRIORITY else "preemptionPolicy"
    message = " ".join((f"{who} have {what} {axis.expected}.", *leaving))
    return Judged(_condition(group, kind, "False", reason, message))


def _condition(group: PodGroup, kind: str, status: str, reason: str, message: str) -> Condition:
    # Native groups have no generation; a condition must not claim to have seen one.
    generation = group.metadata.generation
    return Condition(kind, status, reason, cut(message, MAX_MESSAGE), observedGeneration=generation)


def _unresolved(group: PodGroup) -> str:
    missing = "the API server's Priority plugin is off" if group.native else "Podium's webhook is not there"
    counts = "Until then Kubernetes takes its priority for 0. " if group.native else ""
    return (
        f"The group names PriorityClass {group.priority_class_name}, but its priority was never resolved "
        f"from it, as when a group is made while {missing}. It cannot be set later: delete the group and "
        f"make it again. {counts}{BY_DIVERGENCE_POLICY}"
    )


def _causes(group: PodGroup, divergence: Divergence) -> list[str]:
    """Say the causes that explain most pods, in the order that the audit has, and how many more there are."""
    ranked = sorted(divergence.causes, key=lambda each: -len(each.pods))
    told = [because(group, each, divergence) for each in sorted(ranked[:_SHOWN])]
    rest = len(ranked) - len(told)
    return [*told, f"And {count(rest, 'more cause')}."] if rest else told


def _leaving(axis: Axis[int] | Axis[str]) -> tuple[str, ...]:
    names = [name for each in axis.differing for name in each.terminating]
    return (f"Terminating and different: {some(names)}.",) if names else ()


def _main_cause(divergence: Divergence) -> str:
    """Choose the cause that a group counts under: that of most pods; age only where nothing else is known."""
    pods: Counter[Cause] = Counter()
    for each in divergence.causes:
        pods[each.cause] += len(each.pods)
    if not pods:
        return _UNEXPLAINED
    return max(pods, key=lambda cause: (cause is not Cause.POD_OLDER, pods[cause]))
