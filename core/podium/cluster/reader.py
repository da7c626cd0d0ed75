"""The read-only interface through which rules and reports read the cluster, so pure code needs no index."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping

from podium.api import storage
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

Name = tuple[str, str]  # namespace, name
Target = Name | GroupKey  # a pod, or a group
WorkloadName = tuple[str, str, str]  # kind, namespace, name of the controller of pods or a group, if any
Child = PodGroup | CompositeGroup  # of a composite group


class ClusterReader(ABC):
    """A read-only cluster; a reader does not await while reading, so the data it sees is consistent.

    Objects are by name, or by namespace and name.
    """

    revision: int
    """A number that grows with every change."""
    native_served: bool
    """Whether the API server stores Pod.spec.schedulingGroup."""
    unread: Mapping[str, str]
    """The kinds that could not be read, each with the reason."""
    untrusted: frozenset[WorkloadName]
    """The workloads that declared in vain to save their work (`podium.history.trust`)."""
    classes: Mapping[str, PriorityClass]
    nodes: Mapping[str, Node]
    namespaces: Mapping[str, Namespace]
    pods: Mapping[Name, Pod]
    groups: Mapping[GroupKey, PodGroup]
    composites: Mapping[GroupKey, CompositeGroup]
    children: Mapping[GroupKey, Mapping[GroupKey, Child]]
    """The children of every CompositePodGroup that is named as a parent."""
    workloads: Mapping[GroupKey, Workload]
    budgets: Mapping[Name, PodDisruptionBudget]
    # Read for audits and scheduling; templates for audits and plans.
    claims: Mapping[Name, storage.PersistentVolumeClaim]
    volumes: Mapping[str, storage.PersistentVolume]
    resource_claims: Mapping[Name, ResourceClaim]
    claim_templates: Mapping[Name, ResourceClaimTemplate]
    device_classes: Mapping[str, DeviceClass]
    resource_slices: Mapping[str, ResourceSlice]
    # Read for scheduling only.
    storage_classes: Mapping[str, storage.StorageClass]
    csi_nodes: Mapping[str, storage.CSINode]
    csi_drivers: Mapping[str, storage.CSIDriver]
    storage_capacities: Mapping[Name, storage.CSIStorageCapacity]
    attachments: Mapping[str, storage.VolumeAttachment]
    # Read for audits and reports only.
    kueue_workloads: Mapping[Name, KueueWorkload]
    foreign_groups: Mapping[ForeignKey, ForeignGroup]
    owners: Mapping[ObjectRef, PodOwner]

    @abstractmethod
    def members(self, key: GroupKey) -> Mapping[str, Pod]:
        """Return the pods, by name, that reference a group: all of them, including finished pods."""

    @abstractmethod
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
