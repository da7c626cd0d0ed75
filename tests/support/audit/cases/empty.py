"""Cases for the rules about empty selectors and empty labels."""

from typing import Any

import msgspec
from tests.support.audit.builders import NS, node, owner, pod, pod_group
from tests.support.audit.cases.case import Case
from tests.support.audit.cases.topology import RACK, racked

from podium.api.core import (
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodTemplate,
    TopologySpreadConstraint,
)
from podium.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from podium.api.podkinds.kind import PodOwner
from podium.cluster.state import Readable

BUDGET, SPREAD, VALUE = "budget-selects-all", "spread-selects-all", "topology-value-empty"
FIELD = "topologySpreadConstraints[0].labelSelector"
EMPTY, APP = LabelSelector(), LabelSelector(matchLabels={"app": "a"})
UNLABELLED = LabelSelector(matchExpressions=[LabelSelectorRequirement("app", "DoesNotExist")])


def budget(selector: LabelSelector | None) -> PodDisruptionBudget:
    """Make the budget keep."""
    spec = PodDisruptionBudgetSpec(selector=selector)
    return PodDisruptionBudget(metadata=ObjectMeta(name="keep", namespace=NS), spec=spec)


def constraint(selector: LabelSelector | None = EMPTY, **fields: Any) -> TopologySpreadConstraint:
    """Make a required spread constraint over racks."""
    fields = {"whenUnsatisfiable": "DoNotSchedule", **fields}
    return TopologySpreadConstraint(maxSkew=1, topologyKey=RACK, labelSelector=selector, **fields)


def spread(name: str, *constraints: TopologySpreadConstraint, **fields: Any) -> Pod:
    """Make a pod with spread constraints."""
    made = pod(name, **fields)
    made.spec.topologySpreadConstraints = list(constraints or (constraint(),))
    return made


def template(*constraints: TopologySpreadConstraint) -> PodOwner:
    """Make a Deployment with spread constraints."""
    made = owner("Deployment", "web", api_version="apps/v1")
    ((path, old),) = made.templates.items()
    assert old.spec is not None
    spec = msgspec.structs.replace(old.spec, topologySpreadConstraints=list(constraints or (constraint(),)))
    return msgspec.structs.replace(made, templates={path: PodTemplate(spec=spec)})


# The pods of a namespace, one of them with labels, and one elsewhere.
PODS: list[Readable] = [
    *(pod("a", labels={"app": "a"}), pod("bare"), pod("done", phase="Succeeded")),
    pod("elsewhere", namespace="team-b"),
]
CASES = [
    Case(
        "an empty selector",
        BUDGET,
        [*PODS, budget(EMPTY)],
        [
            (
                "PodDisruptionBudget team-a/keep",
                "spec.selector",
                "Kubernetes 1.38 (beta) counts 2 live pods of the namespace on it, and Kubernetes 1.37 does",
            )
        ],
        "1.38",
    ),
    Case(
        "a selector of pods without a label",
        BUDGET,
        [*PODS, budget(UNLABELLED)],
        [("PodDisruptionBudget team-a/keep", "spec.selector", "counts 1 live pod without labels on it")],
        "1.38",
    ),
    Case("the same, and no pod is without labels", BUDGET, [PODS[0], budget(UNLABELLED)], [], "1.38"),
    Case("a selector", BUDGET, [*PODS, budget(APP)], [], "1.38"),
    Case("no selector", BUDGET, [*PODS, budget(None)], [], "1.38"),
    Case("1.37 passes over an empty selector", BUDGET, [*PODS, budget(EMPTY)]),
    Case(
        "a template and its pods",
        SPREAD,
        [template(), *(spread(f"web-{at}", owner=("apps/v1", "Deployment", "web")) for at in range(2))],
        [
            (
                "Deployment team-a/web",
                f"spec.template.spec.{FIELD}",
                "So new pods of it can wait where 1.37 places them. It has 2 live pods.",
            )
        ],
        "1.38",
    ),
    Case(
        "pods of an owner that was not read, and a lone one",
        SPREAD,
        [spread("train-0"), spread("lone", owner=None), spread("done", owner=None, phase="Failed")],
        [
            ("Pod team-a/lone", f"spec.{FIELD}", "It has 1 live pod."),
            ("Job team-a/train", "", "counts all pods of the namespace, and Kubernetes 1.37 counts none."),
        ],
        "1.38",
    ),
    Case(
        "constraints that count what they counted",
        SPREAD,
        [
            spread("some", constraint(APP)),
            spread("none", constraint(None)),
            spread("preferred", constraint(whenUnsatisfiable="ScheduleAnyway")),
            template(constraint(matchLabelKeys=["pod-template-hash"])),
        ],
        [],
        "1.38",
    ),
    Case("1.37 counts none", SPREAD, [template(), spread("lone", owner=None)]),
    Case(
        "two nodes without a value",
        VALUE,
        [racked("n1", ""), racked("n2", ""), racked("n3", "a"), pod_group(topology=RACK)],
        [
            (
                "Node n1",
                f"metadata.labels[{RACK}]",
                f"the label {RACK} has no value on 2 nodes: n1, n2. Kubernetes 1.38 (beta) places no pod of",
            )
        ],
        "1.38",
    ),
    Case("1.37 has a domain without a name", VALUE, [racked("n", ""), pod_group(topology=RACK)]),
    Case(
        "no native group uses the label",
        VALUE,
        [racked("n", ""), pod_group(topology=RACK, podium=True), pod_group("other")],
        [],
        "1.38",
    ),
    Case("a node without the label", VALUE, [node("n"), pod_group(topology=RACK)], [], "1.38"),
]
