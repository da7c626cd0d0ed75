"""Kubernetes 1.36: PodGroups and Workloads in v1alpha2.

Source: kubernetes/kubernetes v1.36.3 (pkg/features, pkg/apis/scheduling, pkg/registry/scheduling).
"""

from podium.minors.minor import (
    CLAIMS,
    TOPOLOGY,
    USER_MAXIMUM,
    WORKLOAD_API,
    FeatureGate,
    GateStage,
    GroupApi,
    Minor,
    ServedKind,
)

_SERVED = ServedKind(("v1alpha2",), "v1alpha2")
V1_36 = Minor(
    number=36,
    release="1.36.3",
    kinds={"PodGroup": _SERVED, "Workload": _SERVED},
    apis={"v1alpha2": GroupApi(version="v1alpha2", older=True, maximum=USER_MAXIMUM)},
    workload_gates=(WORKLOAD_API, "GangScheduling", "WorkloadAwarePreemption"),
    gates={
        WORKLOAD_API: FeatureGate(GateStage.ALPHA),
        "GangScheduling": FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
        "WorkloadAwarePreemption": FeatureGate(GateStage.ALPHA, needs=("GangScheduling",)),
        TOPOLOGY: FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
        CLAIMS: FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
        "WorkloadWithJob": FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
        "DRAPartitionableDevices": FeatureGate(GateStage.BETA, on=True),
        "DRAConsumableCapacity": FeatureGate(GateStage.BETA, on=True),
        "DRADeviceBindingConditions": FeatureGate(GateStage.BETA, on=True),
        "DRADeviceTaints": FeatureGate(GateStage.BETA, on=True),
        "DRADeviceTaintRules": FeatureGate(GateStage.BETA, needs=("DRADeviceTaints",)),
        "VolumeLimitScaling": FeatureGate(GateStage.ALPHA),
        "StorageCapacityScoring": FeatureGate(GateStage.ALPHA),
    },
    removed_gates=(
        "CSIMigrationPortworx",
        "HonorPVReclaimPolicy",
        "InPlacePodVerticalScalingAllocatedStatus",
        "InTreePluginPortworxUnregister",
        "MemoryManager",
        "ServiceTrafficDistribution",
        "StructuredAuthorizationConfiguration",
        "TopologyAwareHints",
        "WatchFromStorageWithoutResourceVersion",
    ),
    template_needed=True,
    free_updates=True,
)
