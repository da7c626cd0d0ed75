"""The audit's rules in one table: the function of each rule, and the kinds it depends on."""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from enum import StrEnum
from typing import NamedTuple

from podium.api.reads import Kind
from podium.rules.audit import (
    classes,
    divergent,
    gangs,
    groups,
    members,
    neighbours,
    templates,
    tolerations,
)
from podium.rules.audit.survey import Found, Survey
from podium.rules.rule import Rule


class Part(StrEnum):
    """A part of a cluster, if not all of it was read."""

    NAMESPACE = "one namespace"
    SELECTION = "what a label selector matches"


class Check(NamedTuple):
    """A rule and its function.

    The rule does not run without the kinds in `rule.needs`; it also uses the kinds in `also` if they were
    read. It does not run if only a part in `misled_by` was read, because it draws conclusions from missing
    objects.
    """

    rule: Rule
    run: Callable[[Survey], Iterator[Found]]
    also: frozenset[Kind] = frozenset()
    misled_by: frozenset[Part] = frozenset()


_GROUPS = frozenset({Kind.POD_GROUP})
_WORKLOADS = frozenset({Kind.WORKLOAD})
_SELECTION = frozenset({Part.SELECTION})
_ANY_PART = frozenset(Part)

CHECKS: tuple[Check, ...] = (
    Check(divergent.POD_PRIORITY_DIFFERS, divergent.pod_priority_differs),
    Check(members.SCHEDULER_NAME_MIXED, members.scheduler_name_mixed),
    Check(members.SCHEDULER_IGNORES_GROUP, members.scheduler_ignores_group),
    Check(groups.GROUP_MISSING, groups.group_missing, misled_by=_SELECTION),
    Check(groups.GROUP_TERMINATING, groups.group_terminating),
    Check(classes.CLASS_MISSING, classes.class_missing, _GROUPS),
    Check(classes.CLASS_VALUE_CHANGED, classes.class_value_changed, _GROUPS),
    Check(groups.TEMPLATE_PRIORITIES_DIFFER, groups.template_priorities_differ),
    Check(groups.V1ALPHA2_REMOVED, groups.v1alpha2_removed, _WORKLOADS),
    Check(gangs.GANG_TOO_LARGE, gangs.gang_too_large),
    Check(divergent.PREEMPTION_POLICY_DIFFERS, divergent.preemption_policy_differs),
    Check(members.POD_OLDER_THAN_GROUP, members.pod_older_than_group),
    Check(members.MEMBERSHIP_CONFLICT, members.membership_conflict),
    Check(gangs.GANG_TOO_FEW_PODS, gangs.gang_too_few_pods, misled_by=_SELECTION),
    Check(groups.GROUP_UNLIKE_TEMPLATE, groups.group_unlike_template),
    Check(groups.BASIC_WITH_GROUP_DISRUPTION, groups.basic_with_group_disruption, _WORKLOADS),
    Check(groups.SYSTEM_CLASS_ON_GROUP, groups.system_class_on_group, _WORKLOADS),
    Check(classes.DEFAULT_CLASS_DUPLICATE, classes.default_class_duplicate),
    Check(classes.DEFAULT_CLASS_MISSING, classes.default_class_missing),
    Check(tolerations.TOLERATION_UNREADABLE, tolerations.toleration_unreadable),
    Check(tolerations.TOLERATION_WITHOUT_EFFECT, tolerations.toleration_without_effect),
    Check(tolerations.TOLERATION_CONTRADICTS, tolerations.toleration_prefix),
    Check(templates.TEMPLATE_CLASS_MISSING, templates.template_class_missing, _WORKLOADS),
    Check(templates.TEMPLATE_PRIORITY_WRITTEN, templates.template_priority_written),
    Check(neighbours.KUEUE_PRIORITY_DIFFERS, neighbours.kueue_priority_differs),
    Check(neighbours.INFERRED_PRIORITY_DIFFERS, neighbours.inferred_priority_differs),
    Check(classes.CLASS_UNUSED, classes.class_unused, _GROUPS | _WORKLOADS, misled_by=_ANY_PART),
    Check(classes.TOP_CLASS_SHARE, classes.top_class_share, misled_by=_ANY_PART),
    Check(neighbours.BARE_POD_VICTIMS, neighbours.bare_pod_victims),
)

RULES: tuple[Rule, ...] = tuple(check.rule for check in CHECKS)


def unknown_rule(name: str) -> str:
    """Return a message that there is no such rule, with the closest name; empty if the rule exists."""
    known = [rule.id for rule in RULES]
    if name in known:
        return ""
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]}?" if close else "docs/rules.md has them all."
    return f"there is no rule {name!r}. {hint}"


_INTRODUCTION = """\
A rule has one severity, unless a configuration gives it another (docs/ci.md). A rule does not run where a
kind it needs could not be read, and the report then says so: an absent or forbidden kind is never taken for
an empty one. Live pods are those that have neither succeeded nor failed; a nil integer is 0.

The report speaks for one Kubernetes minor: the one named with `--kubernetes`, else the API server's, else
that of the newest kubelet (a control plane is never older than its kubelets).

It opens with what will not be scheduled on that minor. From 1.36 on that is a native group that does not
exist, is a gang too large for the cluster, or is torn between schedulers; from 1.37 on also one whose pods
differ from it in priority or disagree in preemptionPolicy. Podium's own groups count when they are missing or
too large. A group counts with all its live pods and their devices (resources whose name has a domain,
such as `nvidia.com/gpu`), those that run today too: they run until they are evicted or start again.

Where no PodGroup was read, groups are inferred from the labels and owners of Job, JobSet, LeaderWorkerSet (by
replica), TrainJob, the training operator's jobs, Kueue pod groups, coscheduling and Volcano, and marked
`source: inferred`. The integer that most pods have is then the expected one."""


def markdown() -> str:
    """Return docs/rules.md; a test keeps the file equal to it."""
    lines = [
        "# What `podium audit` checks",
        "",
        "Made from the rule table by `python -m podium.rules.audit.table`; edit the rules, not this file.",
        "",
        _INTRODUCTION,
        "",
        "| Rule | Severity | Finds |",
        "|---|---|---|",
        *(f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.title} |" for rule in RULES),
    ]
    for check in CHECKS:
        rule = check.rule
        needs = ", ".join(sorted(rule.needs))
        also = f"; also looks at {', '.join(sorted(check.also))}" if check.also else ""
        parts = " or ".join(sorted(check.misled_by))
        part = f" Not run where only {parts} was read." if parts else ""
        lines += [
            "",
            f"## {rule.id}",
            "",
            f"{rule.title} ({rule.severity}).",
            "",
            rule.why,
            "",
            f"Needs: {needs}{also}.{part}",
            "",
            f"Source: {rule.source}.",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201 - the entry point that writes the page
