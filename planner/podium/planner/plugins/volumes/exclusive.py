"""The disks and claims that a pod uses alone: old disks on one node, ReadWriteOncePod claims in the cluster.

Source: VolumeRestrictions of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from podium.planner.arrays import Bools
from podium.planner.filters.exclusive import ExclusiveCounters, ExclusiveUseFilter
from podium.planner.plugins.volumes.claims import Disk, UsedClaim, same_disk
from podium.planner.plugins.volumes.needs import NeedsOf
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

Used = Disk | UsedClaim


def used_volumes(snapshot: Snapshot, needs: NeedsOf) -> ExclusiveCounters[Used]:
    """Return the counters of disks and of claims of one pod; both filters share them."""

    def used(shape: Shape) -> Sequence[Used]:
        need = needs(shape)
        return (*need.disks, *need.exclusive_claims)

    return ExclusiveCounters(snapshot, used, _mark, _in_conflict)


class DisksFilter(ExclusiveUseFilter[Used]):
    """The nodes where no pod uses a disk of the pod, or all pods only read it."""

    REASON = "node(s) had no available disk"

    def __init__(self, taken: ExclusiveCounters[Used], needs: NeedsOf) -> None:
        super().__init__(taken)
        self._needs = needs

    def _wanted(self, shape: Shape) -> Sequence[Disk]:
        return self._needs(shape).disks


class ExclusiveClaimsFilter(ExclusiveUseFilter[Used]):
    """All nodes if no pod uses a ReadWriteOncePod claim of the pod, no node otherwise."""

    REASON = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod"
    )

    def __init__(self, taken: ExclusiveCounters[Used], needs: NeedsOf) -> None:
        super().__init__(taken)
        self._needs = needs

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

    def _wanted(self, shape: Shape) -> Sequence[UsedClaim]:
        return self._needs(shape).exclusive_claims


def _in_conflict(first: Used, second: Used) -> bool:
    """Return whether two pods cannot use these, on one node or, for claims, in the cluster."""
    if isinstance(first, Disk) and isinstance(second, Disk):
        return same_disk(first, second)
    return first == second


def _mark(used: Used) -> Hashable:
    """Return a mark that disks in conflict share."""
    return (used.kind, used.name) if isinstance(used, Disk) else used
