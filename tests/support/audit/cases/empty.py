"""Cases for the rules about empty selectors and empty labels."""

from typing import Any

import msgspec
from tests.support.audit.builders import NS, node, owner, pod, pod_group
from tests.support.audit.cases.case import Table, case
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
CASES = Table()
CASES.add(
    BUDGET,
    ("PodDisruptionBudget team-a/keep", "spec.selector"),
    case(
        "an empty selector",
        [*PODS, budget(EMPTY)],
        "Kubernetes 1.38 (beta) counts 2 live pods of the namespace on it, and Kubernetes 1.37 does",
        kubernetes="1.38",
    ),
    case(
        "a selector of pods without a label",
        [*PODS, budget(UNLABELLED)],
        "counts 1 live pod without labels on it",
        kubernetes="1.38",
    ),
    case("the same, and no pod is without labels", [PODS[0], budget(UNLABELLED)], kubernetes="1.38"),
    case("a selector", [*PODS, budget(APP)], kubernetes="1.38"),
    case("no selector", [*PODS, budget(None)], kubernetes="1.38"),
    case("1.37 passes over an empty selector", [*PODS, budget(EMPTY)]),
)
CASES.add(
    SPREAD,
    ("Deployment team-a/web", f"spec.template.spec.{FIELD}"),
    case(
        "a template and its pods",
        [template(), *(spread(f"web-{at}", owner=("apps/v1", "Deployment", "web")) for at in range(2))],
        "So new pods of it can wait where 1.37 places them. It has 2 live pods.",
        kubernetes="1.38",
    ),
    case(
        "pods of an owner that was not read, and a lone one",
        [spread("train-0"), spread("lone", owner=None), spread("done", owner=None, phase="Failed")],
        ("Pod team-a/lone", f"spec.{FIELD}", "It has 1 live pod."),
        ("Job team-a/train", "", "counts all pods of the namespace, and Kubernetes 1.37 counts none."),
        kubernetes="1.38",
    ),
    case(
        "constraints that count what they counted",
        [
            spread("some", constraint(APP)),
            spread("none", constraint(None)),
            spread("preferred", constraint(whenUnsatisfiable="ScheduleAnyway")),
            template(constraint(matchLabelKeys=["pod-template-hash"])),
        ],
        kubernetes="1.38",
    ),
    case("1.37 counts none", [template(), spread("lone", owner=None)]),
)
CASES.add(
    VALUE,
    ("Node n1", f"metadata.labels[{RACK}]"),
    case(
        "two nodes without a value",
        [racked("n1", ""), racked("n2", ""), racked("n3", "a"), pod_group(topology=RACK)],
        f"the label {RACK} has no value on 2 nodes: n1, n2. Kubernetes 1.38 (beta) places no pod of",
        kubernetes="1.38",
    ),
    case("1.37 has a domain without a name", [racked("n", ""), pod_group(topology=RACK)]),
    case(
        "no native group uses the label",
        [racked("n", ""), pod_group(topology=RACK, podium=True), pod_group("other")],
        kubernetes="1.38",
    ),
    case("a node without the label", [node("n"), pod_group(topology=RACK)], kubernetes="1.38"),
)
