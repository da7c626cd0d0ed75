"""The cluster as one index, fed object by object from a dump or from informers.

A dump only ever adds; informers also replace and remove, and an API may appear or go while they run. There is
one mutable State and many readers, each through the read-only protocol `podium.view.View`.
`revision` grows with every change. A kind that could not be read is in `unread` (with why): absence of
objects is never taken as proof that none exist.
"""

from collections.abc import Mapping

from podium.api.core import Node, Pod, PodDisruptionBudget, PriorityClass
from podium.api.foreign import KueueWorkload, Owner
from podium.api.groups import NATIVE_GROUP, PodGroup, Workload
from podium.api.membership import GroupKey, membership
from podium.findings import ObjectRef
from podium.view import Name

Readable = Pod | Node | PriorityClass | PodDisruptionBudget | PodGroup | Workload | KueueWorkload | Owner


class State:
    """The one index; `native_served` says whether the API server stores Pod.spec.schedulingGroup.

    It is set by `serve_native` alone, for membership depends on it.
    """

    def __init__(self, *, native_served: bool, unread: Mapping[str, str] | None = None) -> None:
        self.revision = 0
        self.native_served = native_served
        self.unread: dict[str, str] = dict(unread or {})
        self.classes: dict[str, PriorityClass] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Name, Pod] = {}
        self.groups: dict[GroupKey, PodGroup] = {}
        self.workloads: dict[GroupKey, Workload] = {}
        self.budgets: dict[Name, PodDisruptionBudget] = {}
        self.kueue_workloads: dict[Name, KueueWorkload] = {}
        self.owners: dict[ObjectRef, Owner] = {}
        self._members: dict[GroupKey, dict[str, Pod]] = {}

    def members(self, key: GroupKey) -> Mapping[str, Pod]:
        """Give the pods, by name, that reference a group; all of them, finished ones too."""
        return self._members.get(key, {})

    def referenced_groups(self) -> Mapping[GroupKey, Mapping[str, Pod]]:
        """Give the members of every group that a pod references, whether the group exists or not."""
        return self._members

    def apply(self, obj: Readable) -> None:
        """Add an object, or replace the one of the same identity."""
        self.revision += 1
        match obj:
            case Pod():
                self._apply_pod(obj)
            case PodGroup():
                self.groups[_group_key(obj)] = obj
            case Workload():
                self.workloads[_group_key(obj)] = obj
            case Node():
                self.nodes[obj.metadata.name or ""] = obj
            case PriorityClass():
                self.classes[obj.metadata.name or ""] = obj
            case PodDisruptionBudget():
                self.budgets[obj.metadata.namespace or "", obj.metadata.name or ""] = obj
            case KueueWorkload():
                self.kueue_workloads[obj.metadata.namespace or "", obj.metadata.name or ""] = obj
            case Owner():
                self.owners[obj.ref] = obj

    def remove(self, obj: Readable) -> None:
        """Take out the object of the same identity; one that is not there changes nothing."""
        name = (obj.metadata.namespace or "", obj.metadata.name or "")
        removed: object
        match obj:
            case Pod():
                removed = pod = self.pods.pop(name, None)
                key = None if pod is None else membership(pod, native_served=self.native_served)
                if key is not None:
                    self._leave(key, name[1])
            case PodGroup():
                removed = self.groups.pop(_group_key(obj), None)
            case Workload():
                removed = self.workloads.pop(_group_key(obj), None)
            case Node():
                removed = self.nodes.pop(name[1], None)
            case PriorityClass():
                removed = self.classes.pop(name[1], None)
            case PodDisruptionBudget():
                removed = self.budgets.pop(name, None)
            case KueueWorkload():
                removed = self.kueue_workloads.pop(name, None)
            case Owner():
                removed = self.owners.pop(obj.ref, None)
        if removed is not None:
            self.revision += 1

    def serve_native(self, served: bool) -> None:
        """Note whether the API server stores the native field now; every pod's group is told anew."""
        if served == self.native_served:
            return
        self.revision += 1
        self.native_served = served
        self._members.clear()
        for pod in self.pods.values():
            self._apply_pod(pod)

    def note_unread(self, unread: Mapping[str, str]) -> None:
        """Note which kinds cannot be read now, each with why."""
        if unread != self.unread:
            self.revision += 1
            self.unread = dict(unread)

    def _apply_pod(self, pod: Pod) -> None:
        name = (pod.metadata.namespace or "", pod.metadata.name or "")
        old = self.pods.get(name)
        key = membership(pod, native_served=self.native_served)
        if old is not None:
            old_key = membership(old, native_served=self.native_served)
            if old_key is not None and old_key != key:
                self._leave(old_key, name[1])
        self.pods[name] = pod
        if key is not None:
            self._members.setdefault(key, {})[name[1]] = pod

    def _leave(self, key: GroupKey, name: str) -> None:
        members = self._members[key]
        del members[name]
        if not members:
            del self._members[key]


def _group_key(obj: PodGroup | Workload) -> GroupKey:
    native = obj.native if isinstance(obj, PodGroup) else obj.ref.group == NATIVE_GROUP
    return GroupKey(native, obj.ref.namespace, obj.ref.name)
