"""Kubernetes 1.38: CompositePodGroup in v1beta1 too, preemptionPolicy without a gate, and stricter groups.

Source: kubernetes/kubernetes v1.38.0-beta.0 (pkg/features, pkg/apis/scheduling, pkg/registry/scheduling).
"""

import msgspec

from podium.minors.minor import (
    COMPOSITE,
    GROUP_POLICY,
    TOPOLOGY,
    FeatureGate,
    GateStage,
    GroupApi,
    ServedKind,
)
from podium.minors.v1_37 import V1_37

_V1BETA1 = GroupApi(version="v1beta1", one_policy=True, strict_modes=True, beta_rules=True)
_KEPT = {name: gate for name, gate in V1_37.gates.items() if name != GROUP_POLICY}
V1_38 = msgspec.structs.replace(
    V1_37,
    number=38,
    release="1.38.0-beta.0",
    kinds={**V1_37.kinds, "CompositePodGroup": ServedKind(("v1beta1", "v1alpha3"), "v1beta1")},
    apis={"v1beta1": _V1BETA1, "v1alpha3": msgspec.structs.replace(_V1BETA1, version="v1alpha3")},
    gates=_KEPT
    | {
        TOPOLOGY: V1_37.gates[TOPOLOGY]._replace(stage=GateStage.BETA),
        COMPOSITE: V1_37.gates[COMPOSITE]._replace(stage=GateStage.BETA),
        "DRAPartitionableDevices": FeatureGate(GateStage.GA, on=True, locked=True),
        "DRAConsumableCapacity": FeatureGate(GateStage.GA, on=True),
        "DRAFractionalCapacityRange": FeatureGate(GateStage.GA, on=True, needs=("DRAConsumableCapacity",)),
        "DRADeviceBindingConditions": FeatureGate(GateStage.GA, on=True, locked=True),
        "DRADeviceTaints": FeatureGate(GateStage.GA, on=True, locked=True),
        "DRADeviceTaintRules": FeatureGate(GateStage.GA, on=True, locked=True, needs=("DRADeviceTaints",)),
        "SchedulerPreQueueingHints": FeatureGate(GateStage.BETA, on=True),
    },
    removed_gates=(
        "AggregatedDiscoveryRemoveBetaType",
        "AllowOverwriteTerminationGracePeriodSeconds",
        "CRDValidationRatcheting",
        "CustomResourceFieldSelectors",
        "DisableAllocatorDualWrite",
        "DynamicResourceAllocation",
        "ExecProbeTimeout",
        "InPlacePodVerticalScaling",
        "JobManagedBy",
        "KubeletTracing",
        "MatchLabelKeysInPodAffinity",
        "MultiCIDRServiceAllocator",
        "NFTablesProxyMode",
        "NodeSwap",
        GROUP_POLICY,
        "PodSchedulingReadiness",
        "PreferSameTrafficDistribution",
        "RecoverVolumeExpansionFailure",
        "SeparateTaintEvictionController",
        "ServiceAccountTokenJTI",
        "ServiceAccountTokenNodeBinding",
        "ServiceAccountTokenNodeBindingValidation",
        "ServiceAccountTokenPodNodeInfo",
        "SupplementalGroupsPolicy",
        "SystemdWatchdog",
        "WinDSR",
        "WinOverlay",
        "WindowsHostNetwork",
    ),
    composite_finalizer=True,
    plain_class_errors=True,
    exclusive_job_scheduling=True,
    groups_of_owned_jobs=True,
    lists_gated_fields=True,
    declared_fields=True,
    paired_annotations=True,
    empty_selectors=True,
    named_domains=True,
    compared_trees=True,
)
