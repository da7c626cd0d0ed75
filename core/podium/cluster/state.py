"""The cluster as one index, fed object by object from a dump or from informers.

A dump only adds objects; informers also replace and remove them, and an API may appear or disappear while
they run. There is one mutable ClusterState and many readers, each through the read-only interface
`podium.cluster.reader.ClusterReader`. `revision` grows with every change, and observers are called with each
changed object. A kind that could not be read is in `unread`, with the reason: missing objects never prove
that none exist.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from podium.api import storage
from podium.api.core import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from podium.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from podium.api.foreigngroups import ForeignGroup, KueueWorkload
from podium.api.groups import NATIVE_GROUP, CompositeGroup, PodGroup, Workload
from podium.api.membership import GroupKey, key_of, membership, parent_key
from podium.api.podkinds.kind import PodOwner
from podium.cluster.reader import Child, ClusterReader, Name, WorkloadName

Core = Pod | Node | Namespace | PriorityClass | PodDisruptionBudget
CSI = storage.CSINode | storage.CSIDriver | storage.CSIStorageCapacity | storage.VolumeAttachment
Storage = storage.PersistentVolumeClaim | storage.PersistentVolume | storage.StorageClass | CSI
Devices = ResourceClaim | ResourceClaimTemplate | DeviceClass | ResourceSlice
Readable = (
    Core | Storage | Devices | PodGroup | CompositeGroup | Workload | KueueWorkload | ForeignGroup | PodOwner
)
Observer = Callable[[Readable | None, Readable | None], object]
# Receives the exception of an observer, and the object of the change.
Failed = Callable[[Exception, Readable], None]


def _name(obj: Readable) -> str:
    return obj.metadata.name or ""


def _qualified(obj: Readable) -> Name:
    return obj.metadata.namespace or "", obj.metadata.name or ""


def _workload_key(workload: Workload) -> GroupKey:
    return GroupKey(workload.ref.group == NATIVE_GROUP, workload.ref.namespace, workload.ref.name)


# The index of each type of object, by the field of ClusterReader, and the function of an object's key in it.
_INDEXES: Mapping[type, tuple[str, Callable[[Any], Hashable]]] = {
    Pod: ("pods", _qualified),
    Node: ("nodes", _name),
    Namespace: ("namespaces", _name),
    PriorityClass: ("classes", _name),
    PodDisruptionBudget: ("budgets", _qualified),
    PodGroup: ("groups", key_of),
    CompositeGroup: ("composites", key_of),
    Workload: ("workloads", _workload_key),
    KueueWorkload: ("kueue_workloads", _qualified),
    ForeignGroup: ("foreign_groups", lambda group: group.group_key),
    PodOwner: ("owners", lambda owner: owner.ref),
    storage.PersistentVolumeClaim: ("claims", _qualified),
    storage.PersistentVolume: ("volumes", _name),
    storage.StorageClass: ("storage_classes", _name),
    storage.CSINode: ("csi_nodes", _name),
    storage.CSIDriver: ("csi_drivers", _name),
    storage.CSIStorageCapacity: ("storage_capacities", _qualified),
    storage.VolumeAttachment: ("attachments", _name),
    ResourceClaim: ("resource_claims", _qualified),
    ResourceClaimTemplate: ("claim_templates", _qualified),
    DeviceClass: ("device_classes", _name),
    ResourceSlice: ("resource_slices", _name),
}


@functools.cache
def _index_of(kind: type) -> tuple[str, Callable[[Any], Hashable]]:
    """Return the row of a type; the reads of some kinds are subclasses of others."""
    return next(_INDEXES[base] for base in kind.__mro__ if base in _INDEXES)


class ClusterState(ClusterReader):
    """The one index; `native_served` says whether the API server stores Pod.spec.schedulingGroup.

    Only `serve_native` sets it, because membership depends on it.
    """

    def __init__(
        self,
        *,
        native_served: bool,
        unread: Mapping[str, str] | None = None,
        failed: Failed | None = None,
        clock: Callable[[], float] = float,
    ) -> None:
        """Create an empty index.

        `failed` receives the exceptions of observers; without it the change raises them. `clock` is the
        processor time in seconds, by which `longest_callback` is measured.
        """
        self._failed = failed
        self._clock = clock
        # The time that the observers took for one change, the longest so far.
        self.longest_callback = 0.0
        self.revision = 0
        self.native_served = native_served
        self.unread: dict[str, str] = dict(unread or {})
        self.untrusted = frozenset()
        for index, _ in _INDEXES.values():
            setattr(self, index, {})
        self.children: dict[GroupKey, dict[GroupKey, Child]] = {}
        self._members: dict[GroupKey, dict[str, Pod]] = {}
        self._observers: list[Observer] = []

    def members(self, key: GroupKey) -> Mapping[str, Pod]:
        """Return the pods, by name, that reference a group: all of them, including finished pods."""
        return self._members.get(key, {})

    def referenced_groups(self) -> Mapping[GroupKey, Mapping[str, Pod]]:
        """Return the members of every group that a pod references, whether the group exists or not."""
        return self._members

    def observe(self, observer: Observer) -> None:
        """Call an observer with (before, after) for every change of an object, after readers see it.

        `before` is None for a new object, `after` None for a removed object. If the native field starts or
        stops counting, the observer gets (pod, pod) for each pod whose group may change. Observers are called
        inside the change: they are cheap and never change the state. An exception of an observer does not
        keep others from being called.
        """
        self._observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """Stop calling an observer."""
        self._observers.remove(observer)

    def holds(self, obj: Readable) -> bool:
        """Return whether there is an object of the same identity."""
        index, key = self._place(obj)
        return key in index

    def apply(self, obj: Readable) -> None:
        """Add an object, or replace the one of the same identity."""
        self.revision += 1
        index, key = self._place(obj)
        before = index.get(key)
        index[key] = obj
        if isinstance(obj, Pod):
            self._join(before, obj)
        elif isinstance(obj, PodGroup | CompositeGroup):
            self._move_child(before, obj)
        self._tell(before, obj)

    def remove(self, obj: Readable) -> None:
        """Remove the object of the same identity; if there is none, nothing changes."""
        index, key = self._place(obj)
        before = index.pop(key, None)
        if before is None:
            return
        self.revision += 1
        if isinstance(before, Pod):
            self._leave(before)
        elif isinstance(before, PodGroup | CompositeGroup):
            self._move_child(before, None)
        self._tell(before, None)

    def copy(self) -> "ClusterState":
        """Return another state with the same objects and no observers."""
        copy = ClusterState(native_served=self.native_served, unread=self.unread)
        copy.untrusted = self.untrusted
        for index, _ in _INDEXES.values():
            for item in getattr(self, index).values():
                copy.apply(item)
        return copy

    def serve_native(self, served: bool) -> None:
        """Set whether the API server stores the native field now; observers get every pod again."""
        if served == self.native_served:
            return
        self.revision += 1
        self.native_served = served
        self._members.clear()
        for pod in self.pods.values():
            self._join(None, pod)
        for pod in self.pods.values():
            self._tell(pod, pod)

    def note_unread(self, unread: Mapping[str, str]) -> None:
        """Set the kinds that cannot be read now, each with the reason."""
        if unread != self.unread:
            self.revision += 1
            self.unread = dict(unread)

    def note_untrusted(self, untrusted: frozenset[WorkloadName], pods: Iterable[Pod] = ()) -> None:
        """Set the workloads that are not believed; observers get the `pods` of those that changed again."""
        if untrusted != self.untrusted:
            self.revision += 1
            self.untrusted = untrusted
        for pod in pods:
            self._tell(pod, pod)

    def _place(self, obj: Readable) -> tuple[dict[Any, Any], Hashable]:
        """Return the index for an object, and its key in that index."""
        index, key = _index_of(type(obj))
        return getattr(self, index), key(obj)

    def _tell(self, before: Readable | None, after: Readable | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        began = self._clock()
        for observer in self._observers:
            try:
                observer(before, after)
            except Exception as error:
                if self._failed is None:
                    raise
                self._failed(error, obj)
        self.longest_callback = max(self.longest_callback, self._clock() - began)

    def _join(self, before: Pod | None, pod: Pod) -> None:
        """Add a pod to its group, and remove it from its previous group if that differs."""
        key = membership(pod, native_served=self.native_served)
        if before is not None and membership(before, native_served=self.native_served) != key:
            self._leave(before)
        if key is not None:
            self._members.setdefault(key, {})[pod.metadata.name or ""] = pod

    def _move_child(self, before: Child | None, after: Child | None) -> None:
        """Record a group below its parent, and below its previous parent no more."""
        left = parent_key(before) if before is not None else None
        if before is not None and left is not None:
            children = self.children[left]
            del children[key_of(before)]
            if not children:
                del self.children[left]
        joined = parent_key(after) if after is not None else None
        if after is not None and joined is not None:
            self.children.setdefault(joined, {})[key_of(after)] = after

    def _leave(self, pod: Pod) -> None:
        key = membership(pod, native_served=self.native_served)
        if key is None:
            return
        members = self._members[key]
        del members[pod.metadata.name or ""]
        if not members:
            del self._members[key]
