"""Kubernetes 1.35: Workloads of v1alpha1 without PodGroups, which Podium reads and does not judge."""

from podium.minors.minor import WORKLOAD_API, FeatureGate, GateStage, Minor, ServedKind

V1_35 = Minor(
    number=35,
    release="1.35.0",
    kinds={"Workload": ServedKind(("v1alpha1",), "v1alpha1")},
    workload_gates=(WORKLOAD_API, "GangScheduling"),
    gates={
        WORKLOAD_API: FeatureGate(GateStage.ALPHA),
        "GangScheduling": FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
    },
)
