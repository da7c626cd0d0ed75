"""The type that reads each served kind: the one table for decoding, dumping and discovery."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from podium.api import core, foreigngroups, v1alpha1, v1alpha2, v1beta1
from podium.api.convert import VERSIONS
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.podkinds.table import LISTED_KINDS, OWNER_KINDS


class Kind(StrEnum):
    """The kinds that Podium reads, by one name for all groups and versions."""

    POD = "Pod"
    NODE = "Node"
    PRIORITY_CLASS = "PriorityClass"
    BUDGET = "PodDisruptionBudget"
    POD_GROUP = "PodGroup"
    WORKLOAD = "Workload"
    COMPOSITE_GROUP = "CompositePodGroup"
    KUEUE_WORKLOAD = "KueueWorkload"
    FOREIGN_GROUP = "ForeignPodGroup"
    OWNER = "Owner"
    JOB = "Job"
    NAMESPACE = "Namespace"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    STORAGE_CAPACITY = "CSIStorageCapacity"
    ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    CLAIM_TEMPLATE = "ResourceClaimTemplate"
    DEVICE_CLASS = "DeviceClass"
    RESOURCE_SLICE = "ResourceSlice"
    PREEMPTION_RECORD = "PreemptionRecord"
    EVENT = "Event"


class Read(NamedTuple):
    """The read of one served kind: its Struct, and the function from the Struct to the neutral form."""

    kind: Kind
    type: type[msgspec.Struct]
    plural: str
    neutral: Callable[[Any], Any]


Reads = Mapping[tuple[str, str], Read]

# The native version of CompositePodGroup that 1.37 and 1.38 serve behind a gate, and Podium's.
COMPOSITE_VERSION = f"{NATIVE_GROUP}/v1alpha3"
PODIUM_COMPOSITE = f"{PODIUM_GROUP}/v1beta1"


def same(value: Any) -> Any:
    """Return a value that is in neutral form already."""
    return value


_OLDEST = Read(Kind.WORKLOAD, v1alpha1.WorkloadV1Alpha1, "workloads", v1alpha1.neutral_workload)
_OLDER = {
    "PodGroup": Read(Kind.POD_GROUP, v1alpha2.PodGroupV1Alpha2, "podgroups", v1alpha2.neutral_group),
    "Workload": Read(Kind.WORKLOAD, v1alpha2.WorkloadV1Alpha2, "workloads", v1alpha2.neutral_workload),
}
_NEWER = {
    "PodGroup": Read(Kind.POD_GROUP, v1beta1.PodGroupV1Beta1, "podgroups", v1beta1.neutral_group),
    "Workload": Read(Kind.WORKLOAD, v1beta1.WorkloadV1Beta1, "workloads", v1beta1.neutral_workload),
    "CompositePodGroup": Read(
        Kind.COMPOSITE_GROUP, v1beta1.CompositePodGroup, "compositepodgroups", v1beta1.neutral_composite
    ),
}
# The reads of PodGroups, Workloads and composite groups in every version.
GROUP_READS: Reads = {
    (v1alpha1.API_VERSION, "Workload"): _OLDEST,
    **{
        (api_version, kind): read
        for api_version, version in VERSIONS.items()
        for kind, read in (_NEWER if version.newer else _OLDER).items()
    },
}
# By (apiVersion, kind) as in objects.
READS: Reads = {
    ("v1", "Pod"): Read(Kind.POD, core.Pod, "pods", same),
    ("v1", "Node"): Read(Kind.NODE, core.Node, "nodes", same),
    ("scheduling.k8s.io/v1", "PriorityClass"): Read(
        Kind.PRIORITY_CLASS, core.PriorityClass, "priorityclasses", same
    ),
    ("policy/v1", "PodDisruptionBudget"): Read(
        Kind.BUDGET, core.PodDisruptionBudget, "poddisruptionbudgets", same
    ),
    **GROUP_READS,
    **{
        (version, "Workload"): Read(Kind.KUEUE_WORKLOAD, foreigngroups.KueueWorkload, "workloads", same)
        for version in ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2")
    },
    **{key: Read(Kind.OWNER, row.type, row.plural, row.type.neutral) for key, row in LISTED_KINDS.items()},
}
# The reads of manifests, which have further owners.
MANIFEST_READS: Reads = {
    **READS,
    **{key: Read(Kind.OWNER, row.type, row.plural, row.type.neutral) for key, row in OWNER_KINDS.items()},
}
# The PodGroups of other projects, for audits and reports: no process decides by them.
FOREIGN_READS: Reads = {
    (api_version, "PodGroup"): Read(Kind.FOREIGN_GROUP, foreigngroups.ForeignGroup, "podgroups", same)
    for foreign_kind in foreigngroups.FOREIGN_KINDS
    for api_version in foreign_kind.api_versions
}
# Further kinds that a process may watch.
FOLLOWED: Reads = {
    **READS,
    ("v1", "Namespace"): Read(Kind.NAMESPACE, core.Namespace, "namespaces", same),
}
