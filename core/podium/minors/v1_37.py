"""Kubernetes 1.37: the API in v1beta1 and v1alpha3, and CompositePodGroup in v1alpha3.

Source: kubernetes/kubernetes v1.37.2 (pkg/features, pkg/apis/scheduling, pkg/registry/scheduling).
"""

import msgspec

from podium.minors.minor import (
    CLAIMS,
    COMPOSITE,
    GROUP_POLICY,
    TOPOLOGY,
    USER_MAXIMUM,
    WORKLOAD_API,
    FeatureGate,
    GateStage,
    GroupApi,
    Minor,
    ServedKind,
)

_SERVED = ServedKind(("v1beta1", "v1alpha3"), "v1beta1")
_V1BETA1 = GroupApi(
    version="v1beta1",
    policy_gate=GROUP_POLICY,
    policy_default=True,
    maximum=USER_MAXIMUM,
    fixed_composite_policy=True,
)
V1_37 = Minor(
    number=37,
    release="1.37.2",
    kinds={
        "PodGroup": _SERVED,
        "Workload": _SERVED,
        "CompositePodGroup": ServedKind(("v1alpha3",), "v1alpha3"),
    },
    apis={
        "v1beta1": _V1BETA1,
        "v1alpha3": msgspec.structs.replace(_V1BETA1, version="v1alpha3"),
    },
    workload_gates=(WORKLOAD_API,),
    gates={
        WORKLOAD_API: FeatureGate(GateStage.BETA),
        TOPOLOGY: FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
        CLAIMS: FeatureGate(GateStage.BETA, needs=(WORKLOAD_API,)),
        GROUP_POLICY: FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
        COMPOSITE: FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API, TOPOLOGY)),
        "WorkloadWithJob": FeatureGate(GateStage.ALPHA, needs=(WORKLOAD_API,)),
        "EvictionRequestAPI": FeatureGate(GateStage.ALPHA),
        "DRAPartitionableDevices": FeatureGate(GateStage.BETA, on=True),
        "DRAConsumableCapacity": FeatureGate(GateStage.BETA, on=True),
        "DRAFractionalCapacityRange": FeatureGate(GateStage.BETA, on=True, needs=("DRAConsumableCapacity",)),
        "DRADeviceBindingConditions": FeatureGate(GateStage.BETA, on=True),
        "DRADeviceTaints": FeatureGate(GateStage.GA, on=True),
        "DRADeviceTaintRules": FeatureGate(GateStage.GA, on=True, needs=("DRADeviceTaints",)),
        "VolumeLimitScaling": FeatureGate(GateStage.BETA, on=True),
        "StorageCapacityScoring": FeatureGate(GateStage.BETA, on=True),
        "SchedulerPreQueueingHints": FeatureGate(GateStage.ALPHA),
    },
    removed_gates=(
        "APIServerTracing",
        "AnonymousAuthConfigurableEndpoints",
        "AnyVolumeDataSource",
        "AuthorizeNodeWithSelectors",
        "AuthorizeWithSelectors",
        "BtreeWatchCache",
        "ConsistentListFromCache",
        "GangScheduling",
        "JobBackoffLimitPerIndex",
        "JobPodReplacementPolicy",
        "JobSuccessPolicy",
        "LogarithmicScaleDown",
        "OrderedNamespaceDeletion",
        "PodLifecycleSleepAction",
        "PodLifecycleSleepActionAllowZero",
        "PreventStaticPodAPIReferences",
        "RelaxedDNSSearchValidation",
        "ResilientWatchCacheInitialization",
        "RetryGenerateName",
        "SchedulerQueueingHints",
        "SidecarContainers",
        "StreamingCollectionEncodingToJSON",
        "StreamingCollectionEncodingToProtobuf",
        "StructuredAuthenticationConfiguration",
        "WorkloadAwarePreemption",
    ),
    precise_errors=True,
    responders=True,
    job_scheduling=True,
)
