"""The effective priority of a pod or group: which value is in force, by which rule, and where it comes from.

A pod in a group has two priorities, its own and the group's, and each release of Kubernetes uses them
differently (docs/differences.md, "Rules by release"). The engine applies the same rules to its rows,
and a property test keeps the two in agreement. Class names only explain.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from podium.answers.accounts.model import Counted
from podium.api.core import Pod, PriorityClass
from podium.api.groups import PodGroup
from podium.api.priority import SYSTEM_CLASSES, newer_default, resolve
from podium.groups.divergence import (
    Divergence,
    ServerInfo,
    because,
    consequence,
    doubt,
    policy_consequence,
    policy_sentence,
    sentence,
)
from podium.planner.preemption.units import preemption_priority_of
from podium.planner.settings import DivergencePolicy, Settings

# Maximum number of different priorities in a sentence on divergence.
_VALUES = 3


class JudgedGroup(NamedTuple):
    """The queried group, or the group of the queried pod, and how its members compare with it.

    `fix` is the audit's; empty if no member differs.
    """

    group: PodGroup
    divergence: Divergence
    fix: str = ""


class PriorityRules(NamedTuple):
    """The rules in force: the engine's settings, the server, and the PriorityClasses (None: not read)."""

    settings: Settings
    server: ServerInfo
    classes: Mapping[str, PriorityClass] | None


def of_pod(pod: Pod, judged: JudgedGroup | str, rules: PriorityRules) -> Counted:
    """Return the effective priority of a pod; `judged` is its group, or the reason why there is none."""
    return _counted(pod.spec.priority, pod.spec.priorityClassName or "", judged, rules)


def of_group(judged: JudgedGroup, rules: PriorityRules) -> Counted:
    """Return the effective priority of a group."""
    return _counted(judged.group.priority, judged.group.priority_class_name, judged, rules)


def counts(
    own: int, judged: JudgedGroup | None, settings: Settings, classes: Mapping[str, PriorityClass]
) -> tuple[int, int]:
    """Return the effective priority of a pod with priority `own`: when placed, and as a victim of a pod."""
    rules = settings.semantics.rules
    if judged is None or not rules.groups:
        return own, own
    placed = judged.group.priority or 0
    if rules.tolerations:
        return placed, preemption_priority_of(judged.group, settings, classes)
    return placed, placed if rules.pod_victims.member_priority else own


def _counted(own: int | None, name: str, group: JudgedGroup | str, rules: PriorityRules) -> Counted:
    judged = None if isinstance(group, str) else group
    placed, victim = counts(own or 0, judged, rules.settings, rules.classes or {})
    problems = tuple(_problems(judged, rules)) if judged is not None else ()
    return Counted(
        placed=placed,
        victim=victim,
        own=own or 0,
        className=name,
        rule=group if isinstance(group, str) else _rule(group, rules.settings),
        source=_source(own, name, rules.classes),
        problems=problems,
        fix="" if isinstance(group, str) else group.fix,
    )


def _rule(judged: JudgedGroup, settings: Settings) -> str:
    rules = settings.semantics.rules
    withheld = settings.divergence is DivergencePolicy.NO_PREEMPTION and rules.groups
    if withheld and (why := doubt(judged.group, judged.divergence)):
        return (
            f"the group's priority counts, but under divergencePolicy NoPreemption it preempts no pod: {why}"
        )
    if not rules.groups:
        return f"no scheduler here reads groups: {rules.priorities}"
    name = rules.scheduler if rules.release else "KEP-5710, as Podium's scheduler implements it"
    return f"{name}: {rules.priorities}"


def _source(own: int | None, name: str, classes: Mapping[str, PriorityClass] | None) -> str:
    """Return a sentence on the source of a stored priority, from the classes as they are now."""
    if name and own is None:
        return f"PriorityClass {name} is named, but no priority was ever stored: it counts as 0"
    if not name:
        if own:
            return f"{own} was set without a PriorityClass"
        default = newer_default(classes or {}, name, 0)
        later = f"; {default.metadata.name} became the default later" if default is not None else ""
        return f"no PriorityClass: 0{later}"
    origin = f"{own} from PriorityClass {name}"
    if classes is None:
        return origin
    current = resolve(classes, name)
    if current is None:
        return f"{origin}, which no longer exists"
    if current.value != own:
        return f"{origin}, which was recreated since and now has {current.value}; the stored value counts"
    stored = classes.get(name)
    if stored is not None and stored.globalDefault:
        return f"{origin}, the cluster's default"
    return f"{origin}, a built-in class" if name in SYSTEM_CLASSES else origin


def _problems(judged: JudgedGroup, rules: PriorityRules) -> Iterator[str]:
    """Yield sentences on divergence: which members differ, why, and the consequence.

    The sentences are those of the audit and of the condition.
    """
    group, divergence, _ = judged
    # `_rule` states the effect on Podium's scheduler, and schedulers without groups are not affected.
    theirs = rules.settings.semantics.rules.release
    if divergence.priority.divergent:
        yield f"{sentence(divergence, _VALUES)}."
        for cause in divergence.causes:
            yield because(group, cause, divergence)
        if theirs:
            yield consequence(group, divergence, rules.server)
    if divergence.policy.divergent:
        yield f"{policy_sentence(divergence, _VALUES)}."
        yield policy_consequence(group, divergence, rules.server)
