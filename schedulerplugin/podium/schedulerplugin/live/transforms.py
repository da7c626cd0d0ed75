"""Reduces each object to what the scheduler reads, so that a large cluster fits in one process's memory.

Most of tens of thousands of pods are copies of a few. Yet each is read as a document of its own, with the
same texts again: containers, constraints, labels and owners. Equal parts are kept once. Fields that no
decision reads are not kept at all: nearly all annotations, most conditions, volumes that may be mounted
anywhere. A cache of the last few thousand parts finds nearly all equal ones, because lists come sorted by
name. Plugins reduce the objects of their kinds.
"""

import msgspec

from podium.api.core import MIRROR
from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, PodGroup
from podium.api.meta import Condition, ObjectMeta
from podium.api.podkinds.kind import PodOwner
from podium.api.saving import KEYS as SAVING
from podium.api.saving import LONGEST_WAIT_FOR_ROOM, PREEMPTION_DELAY, SAVE_REQUESTED
from podium.api.schedulable import Schedulable, SchedulableNode, SchedulableSpec, SchedulableStatus
from podium.cluster.state import Readable
from podium.groups.topology import (
    PREFERRED_TOPOLOGY,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    SPREAD_SET,
    SPREAD_TOPOLOGY,
)
from podium.planner.plugins import PLUGINS
from podium.planner.preemption.grouptarget import PREEMPT_FOR_ALL
from podium.planner.preemption.units import PREEMPTION_CLASS, SHRINK
from podium.planner.sharing import Sharing, read_annotations

# The number of kinds of pods whose parts are cached, and the number of cached texts, such as node names.
_KINDS, _TEXTS = 2**12, 2**14
# The annotations of a group that are read.
_OF_GROUPS = (
    *SAVING,
    PREEMPTION_DELAY,
    LONGEST_WAIT_FOR_ROOM,
    PREEMPT_FOR_ALL,
    PREEMPTION_CLASS,
    PREFERRED_TOPOLOGY,
    SHRINK,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    SPREAD_SET,
    SPREAD_TOPOLOGY,
)
_POD = Schedulable()
# All owners share its empty dicts: 0.3 KB of each.
_OWNER = PodOwner(ref=ObjectRef("", "", "", ""), metadata=ObjectMeta(), templates={})
_CACHE = Sharing(_KINDS, _TEXTS)
_shared, _shared_text = _CACHE.part, _CACHE.share_text
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
            obj.metadata.annotations = read_annotations(obj.metadata, _OF_GROUPS)
        case PodOwner():
            # Only its existence matters, and the deadline of a Job.
            kept = {"ref": obj.ref, "metadata": obj.metadata.identity(), "deadline": obj.deadline}
            return msgspec.structs.replace(_OWNER, **kept)
        case _:
            for plugin in PLUGINS:
                if plugin.transform(obj):
                    break
    return obj


def _metadata(metadata: ObjectMeta) -> None:
    metadata.annotations = read_annotations(metadata, (*SAVING, SAVE_REQUESTED, MIRROR))
    metadata.generateName = None
    metadata.namespace = _shared_text(metadata.namespace)
    metadata.creationTimestamp = _shared_text(metadata.creationTimestamp)
    metadata.labels = _shared(metadata.labels)
    metadata.ownerReferences = _shared(metadata.ownerReferences)
    metadata.finalizers = _shared(metadata.finalizers)


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
