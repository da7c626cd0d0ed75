"""Hand-made plans for the renderers: with victims, without victims, without a place, and a large one."""

from collections.abc import Sequence

import msgspec

from podium.answers.whatifreport import Basis, WhatIf
from podium.api.findings import Finding, ObjectRef, Severity
from podium.planner.preemption.outcome import (
    HarmLevel,
    NodeReason,
    Outcome,
    Placed,
    Plan,
    PlanHarm,
    UnitPod,
    UnitVerdict,
    WorkloadPlan,
)
from podium.planner.semantics import Semantics


def group(name: str, pods: int, *, namespace: str = "team-b", violates: bool = False) -> UnitVerdict:
    """Return a group of priority 100 whose pods are on nodes of their own."""
    members = tuple(UnitPod(f"{name}-{each}", f"node-{each}") for each in range(pods))
    return UnitVerdict(
        kind="PodGroup",
        namespace=namespace,
        name=name,
        priority=100,
        pods=members,
        violatesBudget=violates,
        reason="the least important that makes room for 4 pods",
    )


def single(
    name: str,
    node: str,
    *,
    namespace: str = "team-b",
    priority: int = 0,
    reason: str = "its room is not needed",
) -> UnitVerdict:
    """Make a lone pod."""
    return UnitVerdict(
        kind="Pod",
        namespace=namespace,
        name=name,
        priority=priority,
        pods=(UnitPod(name, node),),
        violatesBudget=False,
        reason=reason,
    )


def costly(hostile: str = "sweep") -> WhatIf:
    """Return the report of a gang that preempts a gang and a pod, one of which has a given name."""
    plan = Plan(
        semantics=Semantics.KEP,
        outcome=Outcome.FITS_AFTER_PREEMPTION,
        message="4 pods find room once 2 units of priority 100 or lower are gone.",
        minimalPriority=100,
        harm=PlanHarm(4, (HarmLevel(100, 1, 4), HarmLevel(0, 1, 1)), 45_000),
        placements=tuple(Placed(f"team-a/train-{each}", f"node-{each}") for each in range(4)),
        victims=(group(hostile, 4, violates=True), single("lone", "node-0")),
        spared=(single("kept", "node-1", priority=50), single("far", "node-9")),
        nodes=(NodeReason("Insufficient nvidia.com/gpu", 12, ("node-10", "node-11", "node-12")),),
        findings=(
            Finding(
                rule="class-missing",
                severity=Severity.WARNING,
                object=ObjectRef("v1", "Pod", "team-b", hostile),
                field="spec.priorityClassName",
                message="its PriorityClass gold does not exist, so its preemption toleration is unknown",
                fix="make the class again, or the pod without it",
            ),
        ),
    )
    return report(plan, {"nvidia.com/gpu": 32, "google.com/tpu": 1})


def several() -> WhatIf:
    """Return the report of a Job that preempts and a Deployment that does not fit."""
    first = costly()
    plan = msgspec.structs.replace(first.plan, outcome=Outcome.DOES_NOT_FIT)
    rows = (
        ("Job", "train", 1000, 4, 4, Outcome.FITS_AFTER_PREEMPTION, "4 of 4 pods fit", first.plan.harm),
        ("Deployment", "web", 100, 3, 0, Outcome.DOES_NOT_FIT, "0/3 nodes are available.", None),
    )
    workloads = tuple(
        WorkloadPlan(
            kind=kind,
            namespace="team-a",
            name=name,
            priority=priority,
            pods=pods,
            placed=placed,
            outcome=outcome,
            message=message,
            harm=harm,
        )
        for kind, name, priority, pods, placed, outcome, message, harm in rows
    )
    return first._replace(plan=plan, preemptor="2 workloads", workloads=workloads)


def fits() -> WhatIf:
    """Make the report of a pod that fits without preemption."""
    plan = Plan(
        semantics=Semantics.V1_37,
        outcome=Outcome.FITS,
        message="There is free room for it.",
        placements=(Placed("team-a/solo", "node-3"),),
    )
    return report(plan, preemptor="Pod team-a/solo")


def hopeless(unknown: Sequence[str] = ("PodDisruptionBudget: not in the input",)) -> WhatIf:
    """Make the report of a gang that no preemption helps."""
    plan = Plan(
        semantics=Semantics.PODS,
        outcome=Outcome.DOES_NOT_FIT,
        message="0/3 nodes are available: 3 Insufficient cpu; no pod has a lower priority.",
        nodes=(NodeReason("Insufficient cpu", 3, ("a", "b", "c")),),
    )
    return report(plan, unknown=unknown)


def large(units: int) -> WhatIf:
    """Return the report of a plan with many victims, as many spared pods, on as many nodes."""
    plan = Plan(
        semantics=Semantics.KEP,
        outcome=Outcome.FITS_AFTER_PREEMPTION,
        message="It needs much.",
        minimalPriority=0,
        harm=PlanHarm(0, (HarmLevel(0, units, units),), 0),
        placements=tuple(Placed(f"team-a/train-{each}", f"node-{each}") for each in range(units)),
        victims=tuple(single(f"victim-{each}", f"node-{each}") for each in range(units)),
        spared=tuple(single(f"spared-{each}", f"node-{each}") for each in range(units)),
        nodes=tuple(NodeReason(f"reason {each}", 1, (f"node-{each}",)) for each in range(units)),
    )
    return report(plan)


def report(
    plan: Plan,
    accelerators: dict[str, int] | None = None,
    *,
    preemptor: str = "PodGroup team-a/train",
    unknown: Sequence[str] = (),
) -> WhatIf:
    """Make the plan's cluster."""
    return WhatIf(plan, preemptor, accelerators or {}, basis(plan.semantics, unknown))


def basis(semantics: Semantics = Semantics.KEP, unknown: Sequence[str] = ()) -> Basis:
    """Make the facts that an answer depends on."""
    return Basis(
        semantics,
        rules_why="set by --semantics",
        now="2026-11-21T10:13:19Z",
        now_why="the newest time in the input",
        input="cluster.json.gz",
        unknown=unknown,
    )
