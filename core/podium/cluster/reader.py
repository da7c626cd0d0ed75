"""The read-only protocol through which rules and reports read the cluster, so pure code needs no index."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from podium.api.claims import ClaimingPod
from podium.api.core import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from podium.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from podium.api.findings import ObjectRef
from podium.api.foreigngroups import ForeignGroup, ForeignKey, KueueWorkload, foreign_key
from podium.api.groups import CompositeGroup, PodGroup, Workload
from podium.api.membership import GroupKey, membership
from podium.api.podclaims import entry_claims, reserved_devices
from podium.api.podkinds.kind import PodOwner
from podium.api.podrequests import devices
from podium.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

Name = tuple[str, str]  # namespace, name
Target = Name | GroupKey  # a pod, or a group
WorkloadName = tuple[str, str, str]  # kind, namespace, name of the controller of pods or a group, if any
Child = PodGroup | CompositeGroup  # of a composite group


class ClusterReader(Protocol):
    """A read-only cluster; a reader does not await while reading, so the data it sees is consistent."""

    @property
    def revision(self) -> int:
        """Return a number that grows with every change."""

    @property
    def native_served(self) -> bool:
        """Return whether the API server stores Pod.spec.schedulingGroup."""

    @property
    def unread(self) -> Mapping[str, str]:
        """Return the kinds that could not be read, each with the reason."""

    @property
    def untrusted(self) -> frozenset[WorkloadName]:
        """Return the workloads that declared in vain to save their work (`podium.history.trust`)."""

    @property
    def classes(self) -> Mapping[str, PriorityClass]:
        """Return PriorityClasses by name."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Return Nodes by name."""

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        """Return Namespaces by name."""

    @property
    def pods(self) -> Mapping[Name, Pod]:
        """Return Pods by namespace and name."""

    @property
    def groups(self) -> Mapping[GroupKey, PodGroup]:
        """Return PodGroups by key."""

    @property
    def composites(self) -> Mapping[GroupKey, CompositeGroup]:
        """Return CompositePodGroups by key."""

    @property
    def children(self) -> Mapping[GroupKey, Mapping[GroupKey, Child]]:
        """Return the children, by key, of every CompositePodGroup that is named as a parent."""

    @property
    def workloads(self) -> Mapping[GroupKey, Workload]:
        """Return Workloads by key."""

    @property
    def budgets(self) -> Mapping[Name, PodDisruptionBudget]:
        """Return PodDisruptionBudgets by namespace and name."""

    @property
    def claims(self) -> Mapping[Name, PersistentVolumeClaim]:
        """Return PersistentVolumeClaims by namespace and name; read for audits and scheduling."""

    @property
    def volumes(self) -> Mapping[str, PersistentVolume]:
        """Return PersistentVolumes by name; read for audits and scheduling."""

    @property
    def storage_classes(self) -> Mapping[str, StorageClass]:
        """Return StorageClasses by name; read for scheduling only."""

    @property
    def csi_nodes(self) -> Mapping[str, CSINode]:
        """Return CSINodes by the name of their node; read for scheduling only."""

    @property
    def csi_drivers(self) -> Mapping[str, CSIDriver]:
        """Return CSIDrivers by name; read for scheduling only."""

    @property
    def storage_capacities(self) -> Mapping[Name, CSIStorageCapacity]:
        """Return CSIStorageCapacities by namespace and name; read for scheduling only."""

    @property
    def attachments(self) -> Mapping[str, VolumeAttachment]:
        """Return VolumeAttachments by name; read for scheduling only."""

    @property
    def resource_claims(self) -> Mapping[Name, ResourceClaim]:
        """Return ResourceClaims by namespace and name; read for audits and scheduling."""

    @property
    def claim_templates(self) -> Mapping[Name, ResourceClaimTemplate]:
        """Return ResourceClaimTemplates by namespace and name; read for audits and plans only."""

    @property
    def device_classes(self) -> Mapping[str, DeviceClass]:
        """Return DeviceClasses by name; read for audits and scheduling."""

    @property
    def resource_slices(self) -> Mapping[str, ResourceSlice]:
        """Return ResourceSlices by name; read for audits and scheduling."""

    @property
    def kueue_workloads(self) -> Mapping[Name, KueueWorkload]:
        """Return Kueue's own Workloads by namespace and name."""

    @property
    def foreign_groups(self) -> Mapping[ForeignKey, ForeignGroup]:
        """Return the PodGroups of other projects by key; read for audits and reports only."""

    @property
    def owners(self) -> Mapping[ObjectRef, PodOwner]:
        """Return the owners of pods, by identity."""

    def members(self, key: GroupKey) -> Mapping[str, Pod]:
        """Return the pods, by name, that reference a group: all of them, including finished pods."""

    def referenced_groups(self) -> Mapping[GroupKey, Mapping[str, Pod]]:
        """Return the members of every group that a pod references, whether the group exists or not."""


def name_in(target: Target) -> Name:
    """Return namespace and name of a pod or a group."""
    return target.qualified if isinstance(target, GroupKey) else target


def name_of(pod: Pod) -> Name:
    """Return namespace and name of a pod."""
    return pod.metadata.namespace or "", pod.metadata.name or ""


def group_of(view: ClusterReader, pod: Pod) -> PodGroup | None:
    """Return the group of a pod, or None if the pod is in no group or the group does not exist."""
    key = membership(pod, native_served=view.native_served)
    return None if key is None else view.groups.get(key)


def foreign_keys(view: ClusterReader) -> list[ForeignKey]:
    """Return the groups of other projects in order, including groups that only pods name."""
    return sorted({*view.foreign_groups, *filter(None, map(foreign_key, view.pods.values()))})


def held_devices(pods: Iterable[object], view: ClusterReader) -> dict[str, int]:
    """Return how many devices pods hold, by resource (`nvidia.com/gpu`) or driver (`gpu.nvidia.com`).

    A claim that several of the pods share counts once.
    """
    given = list(pods)
    held = Counter(devices(given))
    for drivers in _drivers_by_claim(given, view).values():
        held.update(drivers)
    return dict(held)


def _drivers_by_claim(pods: Iterable[object], view: ClusterReader) -> dict[Name, list[str]]:
    """Return the claims that are reserved for pods, each with the drivers of its devices."""
    drivers: dict[Name, list[str]] = {}
    for pod in pods:
        if not isinstance(pod, ClaimingPod) or not pod.spec.resourceClaims:
            continue
        key = membership(pod, native_served=True)
        group = view.groups.get(key) if key is not None and key.native else None
        for entry in entry_claims(pod, group):
            name = pod.metadata.namespace or "", entry.name or ""
            claim = view.resource_claims.get(name)
            held = reserved_devices(claim, entry.consumer) if claim is not None else []
            if held:
                drivers[name] = [device.driver for device in held]
    return drivers
