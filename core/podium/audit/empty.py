"""Rules about empty selectors and empty labels, which kube-scheduler reads differently from 1.38 on."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from podium.api.core import PodSpec
from podium.api.findings import ObjectRef, Severity
from podium.api.meta import LabelSelector
from podium.api.minors import group_minor
from podium.api.reads import Kind
from podium.api.selectors import selector_of
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import Child
from podium.groups.planned import planned_pods
from podium.rules.rule import Rule
from podium.text import count, some

_BEFORE = "Kubernetes 1.37"
BUDGET_SELECTS_ALL = Rule(
    id="budget-selects-all",
    severity=Severity.INFO,
    title="A PodDisruptionBudget selects pods that older schedulers did not count",
    why="Up to 1.37, kube-scheduler passes over a budget with an empty selector, and over pods without "
    "labels, when it chooses victims. From 1.38 on it counts them, as the eviction API always did. Then it "
    "prefers other victims. Checked for 1.38 and later.",
    source="kube-scheduler 1.38.0-beta.0 (FilterVictimsWithPDBViolation)",
    needs=frozenset({Kind.BUDGET, Kind.POD}),
)
SPREAD_SELECTS_ALL = Rule(
    id="spread-selects-all",
    severity=Severity.WARNING,
    title="A topology spread constraint has an empty selector",
    why="Up to 1.37, `labelSelector: {}` counts no pod, so the constraint never holds a pod back. From 1.38 "
    "on it counts all pods of the namespace, so pods that fit on 1.37 can wait. An absent selector counts "
    "none in both. Constraints with whenUnsatisfiable DoNotSchedule are checked, for 1.38 and later.",
    source="kube-scheduler 1.38.0-beta.0 (PodTopologySpread, countPodsMatchSelector)",
    needs=frozenset({Kind.POD}),
)
TOPOLOGY_VALUE_EMPTY = Rule(
    id="topology-value-empty",
    severity=Severity.WARNING,
    title="Nodes have the topology label of a group, without a value",
    why="Up to 1.37, such nodes are a domain of their own. From 1.38 on they belong to none: the group is "
    "not placed there, and not at all while a member runs there. Checked for 1.38 and later.",
    source="kube-scheduler 1.38.0-beta.0 (TopologyPlacement)",
    needs=frozenset({Kind.POD_GROUP, Kind.NODE}),
)


def budget_selects_all(survey: Survey) -> Iterator[AuditFinding]:
    """Find budgets that count more pods in preemption than before: all of them, or those without labels."""
    if not group_minor(survey.minor).empty_selectors:
        return
    for (namespace, name), budget in survey.view.budgets.items():
        selector = selector_of(budget.spec.selector if budget.spec is not None else None, {})
        if selector is None or not selector.matches({}):
            continue
        number = (survey.unlabelled if selector.requirements else survey.live)[namespace]
        if selector.requirements and not number:
            continue
        added = (
            f"{count(number, 'live pod')} {'without labels' if selector.requirements else 'of the namespace'}"
        )
        message = (
            f"in preemption, Kubernetes {survey.kubernetes} counts {added} on it, and {_BEFORE} does not. "
            "The eviction API counts them in both."
        )
        fix = "name the labels of the pods that the budget protects in spec.selector, or keep it as it is"
        ref = ObjectRef(budget.apiVersion, budget.kind, namespace, name)
        yield AuditFinding(BUDGET_SELECTS_ALL.finding(ref, "spec.selector", message, fix), fix)


class _SpreadPods(NamedTuple):
    """The constraint of a workload with an empty selector: its field, and the live pods that have one."""

    field: str
    pods: int


def spread_selects_all(survey: Survey) -> Iterator[AuditFinding]:
    """Find pods and templates with a required spread constraint whose selector is empty, by owner."""
    if not group_minor(survey.minor).empty_selectors:
        return
    owners: dict[ObjectRef, _SpreadPods] = {}
    for planned in planned_pods(survey.view.owners):
        field = _empty_spread(planned.spec_path, planned.spec)
        if field:
            owners.setdefault(planned.owner.ref, _SpreadPods(field, 0))
    for pod in survey.spreading:
        field = _empty_spread("spec", pod.spec)
        if field:
            bare = ObjectRef(pod.apiVersion, pod.kind, pod.metadata.namespace or "", pod.metadata.name or "")
            owner = survey.owner(pod)
            known = owners.setdefault(owner or bare, _SpreadPods(field if owner is None else "", 0))
            owners[owner or bare] = known._replace(pods=known.pods + 1)
    fix = "name the labels of the workload's pods in labelSelector, or remove it to count none, as 1.37 does"
    for ref, spread in owners.items():
        message = (
            f"Kubernetes {survey.kubernetes} counts all pods of the namespace, and {_BEFORE} counts none. "
            f"So new pods of it can wait where 1.37 places them. It has {count(spread.pods, 'live pod')}."
        )
        yield AuditFinding(SPREAD_SELECTS_ALL.finding(ref, spread.field, message, fix), fix)


def topology_value_empty(survey: Survey) -> Iterator[AuditFinding]:
    """Find topology labels of groups that nodes have without a value, each with its nodes."""
    if not group_minor(survey.minor).named_domains:
        return
    view = survey.view
    groups: list[Child] = [*view.groups.values(), *view.composites.values()]
    named = Counter(group.topology for group in groups if group.topology and group.native)
    for key, number in sorted(named.items()):
        names = sorted(
            name for name, node in view.nodes.items() if (node.metadata.labels or {}).get(key) == ""
        )
        if not names:
            continue
        message = (
            f"the label {key} has no value on {count(len(names), 'node')}: {some(names)}. Kubernetes "
            f"{survey.kubernetes} places no pod of the {count(number, 'group')} with this label there."
        )
        fix = f"give the label a value: kubectl label node --overwrite {' '.join(names)} {key}=VALUE"
        ref = ObjectRef("v1", "Node", "", names[0])
        yield AuditFinding(TOPOLOGY_VALUE_EMPTY.finding(ref, f"metadata.labels[{key}]", message, fix), fix)


def _empty_spread(path: str, spec: PodSpec) -> str:
    """Return the field of the first constraint that an empty selector makes stricter, empty for none."""
    for index, constraint in enumerate(spec.topologySpreadConstraints or ()):
        # The API server adds the labels of matchLabelKeys to the selector.
        required = constraint.whenUnsatisfiable == "DoNotSchedule" and not constraint.matchLabelKeys
        if required and _is_empty(constraint.labelSelector):
            return f"{path}.topologySpreadConstraints[{index}].labelSelector"
    return ""


def _is_empty(selector: LabelSelector | None) -> bool:
    return selector is not None and not selector.matchLabels and not selector.matchExpressions
