"""The audit's rules in one table: the function of each rule, and the kinds it depends on."""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from enum import StrEnum
from typing import NamedTuple

from podium.api.reads import Kind
from podium.audit import classes, devices, empty, gangs, gated, groups, members, neighbours, planned, trees
from podium.audit.survey import AuditFinding, Survey
from podium.rules import podiumrules
from podium.rules.lastwave import GANG_LAST_WAVE
from podium.rules.rule import Rule
from podium.rules.tolerations import TOLERATION_CONTRADICTS, TOLERATION_UNREADABLE


class Part(StrEnum):
    """A part of a cluster, if not all of it was read."""

    NAMESPACE = "one namespace"
    SELECTION = "what a label selector matches"


class AuditCheck(NamedTuple):
    """A rule and its function.

    The rule does not run without the kinds in `rule.needs`; it also uses the kinds in `also` if they were
    read. It does not run if only a part in `misled_by` was read, because it draws conclusions from missing
    objects.
    """

    rule: Rule
    run: Callable[[Survey], Iterator[AuditFinding]]
    also: frozenset[Kind] = frozenset()
    misled_by: frozenset[Part] = frozenset()


_GROUPS = frozenset({Kind.POD_GROUP})
_WORKLOADS = frozenset({Kind.WORKLOAD})
_CLASSES = frozenset({Kind.PRIORITY_CLASS})
_TEMPLATES = frozenset({Kind.CLAIM_TEMPLATE})
_SELECTION = frozenset({Part.SELECTION})
_ANY_PART = frozenset(Part)

CHECKS: tuple[AuditCheck, ...] = (
    AuditCheck(members.POD_PRIORITY_DIFFERS, members.pod_priority_differs),
    AuditCheck(members.SCHEDULER_NAME_MIXED, members.scheduler_name_mixed),
    AuditCheck(members.SCHEDULER_IGNORES_GROUP, members.scheduler_ignores_group),
    AuditCheck(groups.GROUP_MISSING, groups.group_missing, misled_by=_SELECTION),
    AuditCheck(groups.GROUP_TERMINATING, groups.group_terminating),
    AuditCheck(classes.CLASS_MISSING, classes.class_missing, _GROUPS),
    AuditCheck(classes.DEFAULT_CLASS_SYSTEM, classes.default_class_system),
    AuditCheck(classes.CLASS_VALUE_CHANGED, classes.class_value_changed, _GROUPS),
    AuditCheck(groups.TEMPLATE_PRIORITIES_DIFFER, groups.template_priorities_differ),
    AuditCheck(trees.COMPOSITE_PARENT_MISSING, trees.composite_parent_missing, misled_by=_ANY_PART),
    AuditCheck(trees.COMPOSITE_CYCLE, trees.composite_cycle),
    AuditCheck(trees.COMPOSITE_TOO_DEEP, trees.composite_too_deep),
    AuditCheck(trees.COMPOSITE_PRIORITIES_DIFFER, trees.composite_priorities_differ),
    AuditCheck(trees.COMPOSITE_CHILD_POLICY, trees.composite_child_policy),
    AuditCheck(trees.COMPOSITE_GROUPS_UNLIKE, trees.composite_groups_unlike, frozenset({Kind.POD})),
    AuditCheck(gated.JOB_DELEGATION_INCOMPLETE, gated.job_delegation_incomplete),
    AuditCheck(groups.V1ALPHA2_REMOVED, groups.v1alpha2_removed, _WORKLOADS),
    AuditCheck(groups.V1ALPHA1_REMOVED, groups.v1alpha1_removed),
    AuditCheck(gangs.GANG_TOO_LARGE, gangs.gang_too_large),
    AuditCheck(gangs.GANG_PINNED, gangs.gang_pinned),
    AuditCheck(gangs.GANG_SHARES_EXCLUSIVE_CLAIM, gangs.gang_shares_exclusive_claim),
    AuditCheck(gangs.GANG_EXCEEDS_CLAIM, gangs.gang_exceeds_claim),
    AuditCheck(devices.DEVICE_CLASS_MISSING, devices.device_class_missing, _TEMPLATES, _SELECTION),
    AuditCheck(
        devices.CLAIM_UNSATISFIABLE,
        devices.claim_unsatisfiable,
        _TEMPLATES | {Kind.POD, Kind.POD_GROUP},
        misled_by=_SELECTION,
    ),
    AuditCheck(gangs.TOPOLOGY_KEY_MISSING, gangs.topology_key_missing),
    AuditCheck(gangs.GANG_LARGER_THAN_DOMAIN, gangs.gang_larger_than_domain),
    AuditCheck(planned.TEMPLATE_PRIORITY_DIFFERS, planned.template_priority_differs, _CLASSES),
    AuditCheck(planned.TEMPLATE_SCHEDULER_MIXED, planned.template_scheduler_mixed),
    AuditCheck(planned.TEMPLATE_GROUP_MISSING, planned.template_group_missing, misled_by=_SELECTION),
    AuditCheck(planned.TEMPLATE_TOO_FEW_PODS, planned.template_too_few_pods, misled_by=_SELECTION),
    AuditCheck(podiumrules.SAVE_DECLARATION_WRONG, members.save_declaration, _GROUPS),
    AuditCheck(planned.GROUP_UNREAD, planned.group_unread, misled_by=_SELECTION),
    AuditCheck(members.PREEMPTION_POLICY_DIFFERS, members.preemption_policy_differs),
    AuditCheck(members.POD_OLDER_THAN_GROUP, members.pod_older_than_group),
    AuditCheck(podiumrules.MEMBERSHIP_CONFLICT, members.membership_conflict),
    AuditCheck(members.SAVING_NOT_TRUSTED, members.saving_not_trusted, _GROUPS),
    AuditCheck(gangs.GANG_TOO_FEW_PODS, gangs.gang_too_few_pods, _GROUPS, misled_by=_SELECTION),
    AuditCheck(GANG_LAST_WAVE, gangs.gang_last_wave, _GROUPS | _WORKLOADS | {Kind.POD}, _SELECTION),
    AuditCheck(empty.SPREAD_SELECTS_ALL, empty.spread_selects_all, frozenset({Kind.OWNER})),
    AuditCheck(empty.TOPOLOGY_VALUE_EMPTY, empty.topology_value_empty, frozenset({Kind.COMPOSITE_GROUP})),
    AuditCheck(gangs.GROUP_STRADDLES_DOMAINS, gangs.group_straddles_domains),
    AuditCheck(podiumrules.GROUP_UNLIKE_TEMPLATE, groups.group_unlike_template),
    AuditCheck(podiumrules.BASIC_WITH_GROUP_DISRUPTION, groups.basic_with_group_disruption, _WORKLOADS),
    AuditCheck(groups.TEMPLATE_POLICIES_DIFFER, groups.template_policies_differ),
    AuditCheck(groups.POLICY_UNLIKE_CLASS, groups.policy_unlike_class, _WORKLOADS | {Kind.COMPOSITE_GROUP}),
    AuditCheck(podiumrules.SYSTEM_CLASS_ON_GROUP, groups.system_class_on_group, _WORKLOADS),
    AuditCheck(gated.JOB_SCHEDULING_GATED, gated.job_scheduling_gated),
    AuditCheck(gated.JOB_GANG_BY_SHAPE, gated.job_gang_by_shape, frozenset({Kind.OWNER})),
    AuditCheck(gated.COMPOSITE_GROUP_GATED, gated.composite_group_gated),
    AuditCheck(gated.COMPOSITE_KIND_GATED, gated.composite_kind_gated),
    AuditCheck(gated.COMPOSITE_TEMPLATE_GATED, gated.composite_template_gated),
    AuditCheck(trees.COMPOSITE_TOO_FEW_CHILDREN, trees.composite_too_few_children, misled_by=_SELECTION),
    AuditCheck(podiumrules.CHILDREN_EVICTED_SINGLY, trees.composite_child_mode),
    AuditCheck(gated.WORKLOAD_REF_DROPPED, gated.workload_ref_dropped, frozenset({Kind.POD, Kind.OWNER})),
    AuditCheck(classes.DEFAULT_CLASS_DUPLICATE, classes.default_class_duplicate),
    AuditCheck(classes.DEFAULT_CLASS_NEWER, classes.default_class_newer, frozenset({Kind.OWNER})),
    AuditCheck(classes.DEFAULT_CLASS_MISSING, classes.default_class_missing),
    AuditCheck(TOLERATION_UNREADABLE, classes.toleration_unreadable),
    AuditCheck(classes.TOLERATION_WITHOUT_EFFECT, classes.toleration_without_effect),
    AuditCheck(TOLERATION_CONTRADICTS, classes.toleration_prefix),
    AuditCheck(podiumrules.TEMPLATE_CLASS_MISSING, planned.template_class_missing, _WORKLOADS),
    AuditCheck(podiumrules.TEMPLATE_PRIORITY_UNRESOLVED, planned.template_priority_unresolved, _CLASSES),
    AuditCheck(planned.TEMPLATE_PRIORITY_WRITTEN, planned.template_priority_written),
    AuditCheck(
        devices.SELECTOR_UNMATCHED,
        devices.selector_unmatched,
        _TEMPLATES | {Kind.RESOURCE_CLAIM},
        misled_by=_SELECTION,
    ),
    AuditCheck(planned.TEMPLATE_SCHEDULER_UNKNOWN, planned.template_scheduler_unknown),
    AuditCheck(planned.OWNER_PRIORITIES_DIFFER, planned.owner_priorities_differ, _CLASSES),
    AuditCheck(neighbours.KUEUE_PRIORITY_DIFFERS, neighbours.kueue_priority_differs),
    AuditCheck(neighbours.INFERRED_PRIORITY_DIFFERS, neighbours.inferred_priority_differs),
    AuditCheck(classes.CLASS_UNUSED, classes.class_unused, _GROUPS | _WORKLOADS, misled_by=_ANY_PART),
    AuditCheck(classes.TOP_CLASS_SHARE, classes.top_class_share, misled_by=_ANY_PART),
    AuditCheck(empty.BUDGET_SELECTS_ALL, empty.budget_selects_all),
    AuditCheck(neighbours.BARE_POD_VICTIMS, neighbours.bare_pod_victims),
)

RULES: tuple[Rule, ...] = tuple(check.rule for check in CHECKS)


def unknown_rule(name: str) -> str:
    """Return a message that there is no such rule, with the closest name; empty if the rule exists."""
    known = [rule.id for rule in RULES]
    if name in known:
        return ""
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]}?" if close else "docs/rules.md lists all rules."
    return f"rule {name!r} does not exist. {hint}"
