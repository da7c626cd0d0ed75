"""Reduces each object to what the scheduler reads, so that a large cluster fits in one process's memory.

Most of tens of thousands of pods are copies of a few. Yet each is read as a document of its own, with the
same texts again: containers, constraints, labels and owners. Equal parts are kept once. Fields that no
decision reads are not kept at all: nearly all annotations, most conditions, volumes that may be mounted
anywhere. A cache of the last few thousand parts finds nearly all equal ones, because lists come sorted by
name. Of storage there may be a claim, a volume and an attachment for each pod, so the same holds for it.
Parts are shared, so nothing that is kept may be changed.
"""

from collections.abc import Iterable

import msgspec

from podium.api.core import MIRROR
from podium.api.groups import CompositeGroup, PodGroup
from podium.api.meta import Condition, ObjectMeta
from podium.api.podkinds.kind import PodOwner
from podium.api.schedulable import Schedulable, SchedulableNode, SchedulableSpec, SchedulableStatus
from podium.api.storage import (
    BETA_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    MIGRATED_PLUGINS,
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from podium.cluster.state import Devices, Readable, Storage
from podium.groups.topology import (
    PREFERRED_TOPOLOGY,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    SPREAD_SET,
    SPREAD_TOPOLOGY,
)
from podium.planner.preemption.grouptarget import PREEMPT_FOR_ALL
from podium.planner.preemption.units import PREEMPTION_CLASS, SHRINK
from podium.planner.progress import CHECKPOINT
from podium.schedulerplugin.live.devicetransforms import Sharing, transform_devices
from podium.schedulerplugin.scheduling.evictionlimits import DELAY_ANNOTATION

# The number of kinds of pods whose parts are cached, and the number of cached texts, such as node names.
_KINDS, _TEXTS = 2**12, 2**14
# The annotations of a group that are read. Values are cut to _LONGEST_VALUE characters: the name of a label
# has 317 at most, and a tenant may write 256 KiB.
_OF_GROUPS = (
    CHECKPOINT,
    DELAY_ANNOTATION,
    PREEMPT_FOR_ALL,
    PREEMPTION_CLASS,
    PREFERRED_TOPOLOGY,
    SHRINK,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    SPREAD_SET,
    SPREAD_TOPOLOGY,
)
_LONGEST_VALUE = 1_024
# The annotations of each kind of storage that are read, and whether its labels are.
_OF_STORAGE: dict[type[Storage], tuple[tuple[str, ...], bool]] = {
    PersistentVolumeClaim: ((BIND_COMPLETED, SELECTED_NODE, BOUND_BY_CONTROLLER, BETA_CLASS), False),
    PersistentVolume: ((BOUND_BY_CONTROLLER, BETA_CLASS), True),
    CSINode: ((MIGRATED_PLUGINS,), False),
    **dict.fromkeys((StorageClass, CSIDriver, CSIStorageCapacity, VolumeAttachment), ((), False)),
}
_POD = Schedulable()
_CACHE = Sharing(_KINDS, _TEXTS)
_shared, _shared_text, _parted = _CACHE.part, _CACHE.share_text, _CACHE.fields
_CLASSES = ("storageClassName", "volumeMode", "volumeAttributesClassName")
# The conditions that are read: for tolerations, for victims, for resizes.
_CONDITIONS = ("PodScheduled", "DisruptionTarget", "PodResizePending")


def transform(obj: Readable) -> Readable:
    """Return what is kept of an object that was just read. The object itself is changed."""
    match obj:
        case Schedulable():
            # A watch sends both with each pod; one text of each serves for all.
            obj.apiVersion, obj.kind = _POD.apiVersion, _POD.kind
            _metadata(obj.metadata)
            obj.spec = _spec(obj.spec)
            if obj.status is not None:
                _status(obj.status)
        case SchedulableNode():
            obj.metadata.annotations = None
            if obj.status is not None:
                obj.status.conditions = None
        case PodGroup() | CompositeGroup():
            obj.metadata.annotations = _annotations(obj.metadata, _OF_GROUPS)
        case PodOwner():
            # Only its existence matters.
            return PodOwner(ref=obj.ref, metadata=obj.metadata.identity(), templates={})
        case _ if isinstance(obj, Storage):
            _storage(obj)
        case _ if isinstance(obj, Devices):
            transform_devices(obj)
        case _:
            pass
    return obj


def _metadata(metadata: ObjectMeta) -> None:
    metadata.annotations = _annotations(metadata, (CHECKPOINT, MIRROR))
    metadata.generateName = None
    metadata.namespace = _shared_text(metadata.namespace)
    metadata.creationTimestamp = _shared_text(metadata.creationTimestamp)
    metadata.labels = _shared(metadata.labels)
    metadata.ownerReferences = _shared(metadata.ownerReferences)
    metadata.finalizers = _shared(metadata.finalizers)


def _storage(obj: Storage) -> None:
    """Keep the identity and what is read of the metadata, and share the parts that many objects have."""
    names, labels = _OF_STORAGE[type(obj)]
    kept = obj.metadata.identity()
    kept.namespace = _shared_text(kept.namespace)
    kept.annotations = _shared(_annotations(obj.metadata, names))
    kept.labels = _shared(obj.metadata.labels) if labels else None
    match obj:
        case PersistentVolumeClaim():
            # An ephemeral claim must belong to its pod.
            kept.ownerReferences = obj.metadata.ownerReferences
            obj.spec = _parted(obj.spec, ("accessModes", "selector", "resources"), _CLASSES)
            obj.status = _shared(obj.status)
        case PersistentVolume():
            obj.spec = _parted(obj.spec, ("capacity", "accessModes", "nodeAffinity"), _CLASSES)
            obj.status = _shared(obj.status)
            if obj.spec is not None:
                obj.spec.csi = _parted(obj.spec.csi, (), ("driver",))
                obj.spec.claimRef = _parted(obj.spec.claimRef, (), ("namespace",))
        case CSINode():
            obj.spec = _shared(obj.spec)
        case CSIStorageCapacity():
            obj.storageClassName = _shared_text(obj.storageClassName)
        case VolumeAttachment():
            obj.spec = _parted(obj.spec, (), ("attacher", "nodeName"))
        case _:
            pass
    obj.metadata = kept


def _annotations(metadata: ObjectMeta, names: Iterable[str]) -> dict[str, str] | None:
    """Return the annotations in `names`, with their values cut to _LONGEST_VALUE."""
    annotations = metadata.annotations or {}
    return {name: annotations[name][:_LONGEST_VALUE] for name in names if name in annotations} or None


def _spec(spec: SchedulableSpec) -> SchedulableSpec:
    """Return a spec that shares everything but the node with the other copies of the pod."""
    node, spec.nodeName = spec.nodeName, None
    # A volume with only the service account token has a name that is generated for each pod.
    spec.volumes = [volume for volume in spec.volumes or () if volume.places] or None
    shared = _shared(spec)
    return shared if node is None else msgspec.structs.replace(shared, nodeName=_shared_text(node))


def _status(status: SchedulableStatus) -> None:
    status.phase = _shared_text(status.phase)
    status.startTime = _shared_text(status.startTime)
    status.nominatedNodeName = _shared_text(status.nominatedNodeName)
    kept = [_condition(condition) for condition in status.conditions or () if condition.type in _CONDITIONS]
    status.conditions = _shared(kept) if kept else None
    status.containerStatuses = _shared(status.containerStatuses)
    status.initContainerStatuses = _shared(status.initContainerStatuses)
    status.allocatedResources = _shared(status.allocatedResources)
    status.resources = _shared(status.resources)


def _condition(condition: Condition) -> Condition:
    """Share the long texts of a condition, and return it."""
    condition.message = _shared_text(condition.message)
    condition.lastTransitionTime = _shared_text(condition.lastTransitionTime)
    return condition
