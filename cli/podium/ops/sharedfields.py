"""The fields and keys of shared objects by what happens to them: names, texts, label keys, drivers, amounts.

A field in none of the tables of types and fields is treated by its name.
"""

from podium.api.core import ClaimedAmount, SchedulingGate, TopologySpreadConstraint
from podium.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    AllocatedConfiguration,
    AllocatedDevice,
    CapacityRequirements,
    ClaimConfiguration,
    CounterConsumption,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceConstraint,
    DeviceCounter,
    DeviceStatus,
    DeviceTaint,
    DeviceToleration,
    OpaqueConfiguration,
    ResourceSliceSpec,
)
from podium.api.foreigngroups import FOREIGN_KINDS
from podium.api.groups import (
    COMPOSITE_INITIALLY_SCHEDULED,
    GROUP_LABEL,
    GROUP_SCHEDULED,
    INITIALLY_SCHEDULED,
)
from podium.api.meta import LabelSelectorRequirement, ObjectMeta
from podium.api.podkinds.jobset import JOBSET_INDEX, RoleScheduling
from podium.api.podkinds.table import NAMING_LABELS
from podium.api.podkinds.workloads import TEMPLATE_HASH
from podium.api.priority import TOLERATION_PREFIXES
from podium.api.saving import KEYS as SAVING
from podium.api.saving import LONGEST_WAIT, LONGEST_WAIT_FOR_ROOM, PREEMPTION_DELAY, SAVE_REQUESTED
from podium.api.schedulable import (
    PodAffinityTerm,
    Taint,
    Toleration,
)
from podium.api.selectors import NodeSelectorRequirement
from podium.api.storage import (
    BETA_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DEFAULT_CLASS,
    MIGRATED_PLUGINS,
    SELECTED_NODE,
    CSINodeDriver,
    CSISource,
    RBDImage,
    StorageClass,
    TopologySelectorLabelRequirement,
    VolumeAttachmentSpec,
)
from podium.api.v1alpha2 import TopologyConstraint
from podium.groups import autogroups, inferred


def words_of(text: str) -> frozenset[str]:
    """Return the words of a table as a set."""
    return frozenset(text.split())


# Labels and annotations whose values are names of objects, or an index among them.
NAMING_KEYS = frozenset(
    (
        GROUP_LABEL,
        *(key for kind in FOREIGN_KINDS for key in kind.keys),
        *NAMING_LABELS,
        inferred.KUEUE_GROUP,
        inferred.KUEUE_ROLE,
        inferred.KUEUE_WORKLOAD,
        inferred.YUNIKORN_APP,
        inferred.YUNIKORN_APP_OLD,
        inferred.YUNIKORN_TASKS,
    )
)
# Annotations of claims and volumes of which only the presence matters.
MARKS = frozenset((BIND_COMPLETED, BOUND_BY_CONTROLLER))
# Annotations of claims, volumes and CSINodes that plans read.
STORAGE_KEYS = MARKS | {BETA_CLASS, SELECTED_NODE, MIGRATED_PLUGINS}
# Annotations of claims and storage classes whose values are read.
FLAGS = frozenset((EXTENDED_RESOURCE_CLAIM, *DEFAULT_CLASS))
# Annotations about saving work, whose values are durations and times.
SAVING_KEYS = frozenset((*SAVING, SAVE_REQUESTED))
# Annotations of preemptors and their classes, whose values are durations.
WAIT_KEYS = frozenset((LONGEST_WAIT, PREEMPTION_DELAY, LONGEST_WAIT_FOR_ROOM))
# Keys, or prefixes of keys, whose values are numbers, digests and Podium's own words.
PLAIN_KEYS = (
    inferred.KUEUE_ROLE_HASH,
    TEMPLATE_HASH,
    *TOLERATION_PREFIXES,
    autogroups.AUTO_LABEL,
    autogroups.TREE_LABEL,
    autogroups.DISRUPTION_LABEL,
    autogroups.NAMESPACE_LABEL,
    autogroups.SCHEDULER_LABEL,
    JOBSET_INDEX,
)
CLASS_FIELD = "priorityClassName"
NAME_FIELDS = words_of("""
    name namespace uid nodeName podGroupName workloadName podGroupTemplateName templateName
    parentCompositePodGroupName resourceClaimName resourceClaimTemplateName schedulerName claimName volumeName
    nominatedNodeName component reportingComponent podGroup podGroupReplicaKey storageClassName
    volumeAttributesClassName persistentVolumeName volumeHandle pdName diskURI volumeID iqn pool image
    deviceClassName device shareID counterSet containerName requestName
""")
# Texts and, of devices, the drivers' own parameters: nothing reads them.
FREE_TEXT_FIELDS = frozenset(("description", "message", "parameters"))
# Conditions in which schedulers and kubelets report why a pod or group waits, or was evicted.
TELLING = frozenset(
    (
        *("PodScheduled", "DisruptionTarget"),
        *(GROUP_SCHEDULED, INITIALLY_SCHEDULED, COMPOSITE_INITIALLY_SCHEDULED),
    )
)
PLAIN_FIELDS = words_of("""
    apiVersion apiGroup kind resourceVersion creationTimestamp deletionTimestamp lastTransitionTime
    preemptionPolicy restartPolicy startupPolicy startupPolicyOrder disruptionMode phase kubeletVersion
    minAvailable maxUnavailable operator type status reason requests limits overhead allocatable
    allocatedResources resources quantity basic protocol effect whenUnsatisfiable nodeAffinityPolicy
    nodeTaintsPolicy accessModes startTime firstTimestamp lastTimestamp lastObservedTime eventTime time
    mode result accelerators saving
    action bindMountOptions declaredFeatures terminalState capacity maximumVolumeSize volumeMode
    volumeBindingMode allocationMode resource source allocationTimestamp version versions skipNodeOperations
    bindingConditions bindingFailureConditions extendedResourceName default validValues min max step counters
""")
# Fields whose value is a label key (or is spelled like one), and fields whose value is a label value.
KEY_FIELDS = (
    (SchedulingGate, "name"),
    (TopologyConstraint, "key"),
    (LabelSelectorRequirement, "key"),
    (NodeSelectorRequirement, "key"),
    (Toleration, "key"),
    (Taint, "key"),
    (PodAffinityTerm, "topologyKey"),
    (TopologySpreadConstraint, "topologyKey"),
    (TopologySelectorLabelRequirement, "key"),
    (DeviceTaint, "key"),
    (DeviceToleration, "key"),
)
KEYS_FIELDS = (
    (ObjectMeta, "finalizers"),
    (PodAffinityTerm, "matchLabelKeys"),
    (PodAffinityTerm, "mismatchLabelKeys"),
    (TopologySpreadConstraint, "matchLabelKeys"),
)
VALUE_FIELDS = (
    (Toleration, "value"),
    (Taint, "value"),
    (DeviceToleration, "value"),
    (DeviceTaint, "value"),
)
VALUES_FIELDS = (
    (LabelSelectorRequirement, "values"),
    (NodeSelectorRequirement, "values"),
    (TopologySelectorLabelRequirement, "values"),
)
NAMES_FIELDS = (
    (PodAffinityTerm, "namespaces"),
    (RBDImage, "monitors"),
    (RoleScheduling, "targetReplicatedJobs"),
    (CounterConsumption, "compatibilityGroups"),
)
DRIVER_FIELDS = (
    (CSISource, "driver"),
    (StorageClass, "provisioner"),
    (CSINodeDriver, "name"),
    (VolumeAttachmentSpec, "attacher"),
)
# The strings of devices that a selector may read: drivers and values of attributes.
WORD_FIELDS = (
    (ResourceSliceSpec, "driver"),
    (OpaqueConfiguration, "driver"),
    (AllocatedDevice, "driver"),
    (DeviceStatus, "driver"),
    (DeviceAttribute, "string"),
)
# Names of attributes and capacities, perhaps with the domain of a driver: as a value, and as keys.
QUALIFIED_FIELDS = ((DeviceConstraint, "matchAttribute"), (DeviceConstraint, "distinctAttribute"))
BY_QUALIFIED_FIELDS = (
    (Device, "attributes"),
    (Device, "capacity"),
    (CapacityRequirements, "requests"),
    (AllocatedDevice, "consumedCapacity"),
)
# Requests of a claim, as `request` or `request/subrequest`.
REQUESTS_FIELDS = (
    (DeviceConstraint, "requests"),
    (ClaimConfiguration, "requests"),
    (AllocatedConfiguration, "requests"),
)
# Amounts, and names of resources as in the keys of requests.
AMOUNT_FIELDS = ((ClaimedAmount, "name"), (DeviceCapacity, "value"), (DeviceCounter, "value"))
