"""What rules and reports may see of the cluster: a read-only protocol, so pure code never names the index."""

from collections.abc import Mapping
from typing import Protocol

from podium.api.core import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from podium.api.foreign import KueueWorkload, Owner
from podium.api.groups import PodGroup, Workload
from podium.api.membership import GroupKey, membership
from podium.api.schedulable import PersistentVolume, PersistentVolumeClaim
from podium.findings import ObjectRef

Name = tuple[str, str]  # namespace, name


class View(Protocol):
    """The cluster, to be read; a reader finishes without awaiting, so what it sees is consistent."""

    @property
    def revision(self) -> int:
        """Grow with every change."""

    @property
    def native_served(self) -> bool:
        """Say whether the API server stores Pod.spec.schedulingGroup."""

    @property
    def unread(self) -> Mapping[str, str]:
        """Name the kinds that could not be read, each with why."""

    @property
    def classes(self) -> Mapping[str, PriorityClass]:
        """PriorityClasses by name."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        """Namespaces by name."""

    @property
    def pods(self) -> Mapping[Name, Pod]:
        """Pods by namespace and name."""

    @property
    def groups(self) -> Mapping[GroupKey, PodGroup]:
        """PodGroups by key."""

    @property
    def workloads(self) -> Mapping[GroupKey, Workload]:
        """Workloads by key."""

    @property
    def budgets(self) -> Mapping[Name, PodDisruptionBudget]:
        """PodDisruptionBudgets by namespace and name."""

    @property
    def claims(self) -> Mapping[Name, PersistentVolumeClaim]:
        """PersistentVolumeClaims by namespace and name; read for scheduling only."""

    @property
    def volumes(self) -> Mapping[str, PersistentVolume]:
        """PersistentVolumes by name; read for scheduling only."""

    @property
    def kueue_workloads(self) -> Mapping[Name, KueueWorkload]:
        """Kueue's own Workloads by namespace and name."""

    @property
    def owners(self) -> Mapping[ObjectRef, Owner]:
        """What makes pods, by identity."""

    def members(self, key: GroupKey) -> Mapping[str, Pod]:
        """Give the pods, by name, that reference a group; all of them, finished ones too."""

    def referenced_groups(self) -> Mapping[GroupKey, Mapping[str, Pod]]:
        """Give the members of every group that a pod references, whether it exists or not."""


def group_of(view: View, pod: Pod) -> PodGroup | None:
    """Give the group that a pod is a member of, None for a pod in none, or of one that does not exist."""
    key = membership(pod, native_served=view.native_served)
    return None if key is None else view.groups.get(key)
