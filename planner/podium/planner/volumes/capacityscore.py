"""Scores nodes by how much of their storage a pod's claims would take (StorageCapacityScoring).

The gate is off by default in kube-scheduler 1.36, and on in 1.37. For each storage class the utilization is
the requested bytes in percent of the capacity: of the volumes that would be bound, or else of the segments
that would be provisioned in. A shape turns a utilization into points, and a node's score is their mean over
classes. By default most free space is best.

Source: Score of the VolumeBinding plugin and its scorer.go, BuildBrokenLinearFunction of the plugins.
"""

from collections.abc import Iterable

import numpy as np

from podium.planner.arrays import Bools, Int64s

# Points (0 to 100) by utilization (0 to 100 percent), in ascending order of utilization.
CapacityShape = tuple[tuple[int, int], ...]
MOST_FREE: CapacityShape = ((0, 100), (100, 0))

# Amounts are at most this many bytes, so that a hundred times as many stay within 64 bits.
_MOST = 2**56


class StorageDemand:
    """Bytes of one storage class by class of nodes: requested, and of which capacity."""

    def __init__(self, size: int) -> None:
        self.counts: Bools = np.zeros(size, np.bool_)
        self.requested: Int64s = np.zeros(size, np.int64)
        self.capacity: Int64s = np.zeros(size, np.int64)

    def bind(self, here: Bools, requested: int, volumes: Int64s) -> None:
        """Add a claim that is bound `here` to volumes of these sizes."""
        self.capacity = np.minimum(self.capacity + np.where(here, volumes, 0), _MOST)
        self._request(here, requested)

    def provision(self, here: Bools, requested: int, segments: Int64s) -> None:
        """Add a claim that is provisioned `here` in segments of these capacities, which are not summed."""
        self.capacity = np.where(here, np.minimum(segments, _MOST), self.capacity)
        self._request(here, requested)

    def _request(self, here: Bools, requested: int) -> None:
        self.counts |= here
        added = np.where(here, min(requested, _MOST), 0)
        self.requested = np.minimum(self.requested + added, _MOST)


def capacity_scores(demands: Iterable[StorageDemand], shape: CapacityShape, size: int) -> Int64s:
    """Return the score of each of `size` classes of nodes, 0 to 100 for a shape in that range."""
    points, classes = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for each in demands:
        full = (each.capacity == 0) | (each.requested > each.capacity)
        used = np.where(full, 100, each.requested * 100 // np.maximum(each.capacity, 1))
        points += np.where(each.counts, _on_shape(used, shape), 0)
        classes += each.counts
    # Halves are rounded away from zero.
    return np.floor(points / np.maximum(classes, 1) + 0.5).astype(np.int64)


def _on_shape(used: Int64s, shape: CapacityShape) -> Int64s:
    """Return the points of utilizations on a broken line."""
    table = np.array([_points(percent, shape) for percent in range(101)], np.int64)
    return table[used]


def _points(used: int, shape: CapacityShape) -> int:
    before = shape[0]
    for percent, points in shape:
        if used <= percent:
            if percent == before[0]:
                return points
            # Go divides towards zero.
            rise = (points - before[1]) * (used - before[0])
            return before[1] + abs(rise) // (percent - before[0]) * (1 if rise >= 0 else -1)
        before = percent, points
    return before[1]
