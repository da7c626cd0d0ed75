"""The claims and disks of a pod that no second pod may use.

A claim of access mode ReadWriteOncePod has one pod in the whole cluster. An old disk that a pod names without
a claim has one pod on a node, unless all its pods only read it. Disks of AWS have one pod on a node in any
case. A pod that uses one of these is a limit on others like a host port, and preemption can free it.

Source: VolumeRestrictions of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from podium.api.claims import claims_of_pod
from podium.api.schedulable import Schedulable, Volume
from podium.planner.arrays import Bools, Int32s
from podium.planner.filters.counters import ExclusiveCounters, ExclusiveUseFilter
from podium.planner.plugins.volumes.index import Volumes
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

_ONE_POD = "ReadWriteOncePod"


class Disk(NamedTuple):
    """A disk that a pod names itself; two with a monitor (of a Ceph cluster) in common are in one cluster."""

    kind: str
    name: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()


class UsedClaim(NamedTuple):
    """A claim that may have one pod only."""

    namespace: str
    name: str


def exclusive_claims(pod: Schedulable, known: Volumes) -> tuple[UsedClaim, ...]:
    """Return the claims of a pod that may have one pod only; an ephemeral claim has one anyway."""
    names = {mounted.name for mounted in claims_of_pod(pod) if not mounted.ephemeral}
    used = (UsedClaim(pod.metadata.namespace or "", name) for name in names)
    claims = {claim: known.claims.get(claim) for claim in used}
    return tuple(
        sorted(
            key
            for key, claim in claims.items()
            if claim is not None and claim.spec is not None and _ONE_POD in (claim.spec.accessModes or ())
        )
    )


def disks_of(pod: Schedulable) -> tuple[Disk, ...]:
    """Return the disks of a pod that other pods of its node may be kept from."""
    disks = {disk for volume in pod.spec.volumes or () if (disk := _disk(volume)) is not None}
    return tuple(sorted(disks))


def same_disk(first: Disk, second: Disk) -> bool:
    """Return whether two pods on a node cannot have these disks."""
    if (first.kind, first.name) != (second.kind, second.name) or (first.read_only and second.read_only):
        return False
    return first.kind != "rbd" or not set(first.monitors).isdisjoint(second.monitors)


def _disk(volume: Volume) -> Disk | None:
    """Return the disk of a volume; where the API server fills in the pool of an image, so does this."""
    if volume.gcePersistentDisk is not None:
        gce = volume.gcePersistentDisk
        return Disk("gcePersistentDisk", gce.pdName or "", bool(gce.readOnly))
    if volume.awsElasticBlockStore is not None:
        return Disk("awsElasticBlockStore", volume.awsElasticBlockStore.volumeID or "")
    if volume.iscsi is not None:
        return Disk("iscsi", volume.iscsi.iqn or "", bool(volume.iscsi.readOnly))
    if volume.rbd is not None:
        rbd = volume.rbd
        monitors = tuple(sorted(set(rbd.monitors or ())))
        return Disk("rbd", f"{rbd.pool or 'rbd'}/{rbd.image or ''}", bool(rbd.readOnly), monitors)
    return None


Used = Disk | UsedClaim


def used_counters(snapshot: Snapshot, used: Callable[[Shape], Sequence[Used]]) -> ExclusiveCounters[Used]:
    """Return the counters of disks and of claims of one pod, which both filters share."""
    return ExclusiveCounters(snapshot, used, _mark, _in_conflict)


class DisksFilter(ExclusiveUseFilter[Used]):
    """The nodes where no pod uses a disk of the pod, or all pods only read it."""

    REASON = "node(s) had no available disk"


class ExclusiveClaimsFilter(ExclusiveUseFilter[Used]):
    """All nodes if no pod uses a ReadWriteOncePod claim of the pod, no node otherwise."""

    REASON = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod"
    )

    def mask(self, shape: Shape) -> Bools:
        """Return all node rows or none."""
        return np.full(len(self._snapshot.alive), self.reason(shape, 0) is None)

    def reason(self, shape: Shape, row: int) -> str | None:  # noqa: ARG002 - it is the same for every row
        """Return kube-scheduler's reason against every node row, or None."""
        for counter in self._plans.get(shape):
            counter.refresh(self._snapshot.node_revision)
            if counter.rows:
                return self.REASON
        return None

    def _shared_nodes(self) -> Int32s:
        return np.zeros(len(self._snapshot.alive), np.int32)


def _in_conflict(first: Used, second: Used) -> bool:
    """Return whether two pods cannot use these, on one node or, for claims, in the cluster."""
    if isinstance(first, Disk) and isinstance(second, Disk):
        return same_disk(first, second)
    return first == second


def _mark(used: Used) -> Hashable:
    """Return a mark that disks in conflict share."""
    return (used.kind, used.name) if isinstance(used, Disk) else used
