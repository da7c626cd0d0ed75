"""Whether a pod's requests fit beside what stands on each node (NodeResourcesFit of kube-scheduler).

One subtraction and one comparison a resource, over all nodes at once and in exact integers. A shape names
only what it takes, so what it does not take fits a node in debt too; a resource that a node never named is
one it has none of. The refusal names each resource that is short. Where one request is larger than the whole
node no preemption helps: kube-scheduler calls that unresolvable, but never does for the number of pods.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.requests import PODS
from podium.schedulerplugin.shapes import Shape
from podium.schedulerplugin.snapshot import Snapshot


class Resources:
    """The filter on one snapshot; it keeps nothing, for every placement changes its answers."""

    PLUGIN = "NodeResourcesFit"
    RESOLVABLE = True

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def mask(self, shape: Shape) -> Bools:
        """Give the node rows with room for one more pod of a shape."""
        resource, allocatable, used = self._room()
        fits = self._snapshot.alive.copy()
        for name, amount in shape.requests:
            at = resource.get(name)
            if at is None:
                return np.zeros_like(fits)
            fits &= allocatable[at] - used[at] >= amount
        return fits

    def resolvable(self, shape: Shape) -> Bools:
        """Give the node rows that are large enough, were they empty; elsewhere no preemption helps."""
        resource, allocatable, _ = self._room()
        large = self._snapshot.alive.copy()
        for name, amount in shape.requests:
            if name == PODS:
                continue
            at = resource.get(name)
            if at is None:
                return np.zeros_like(large)
            large &= allocatable[at] >= amount
        return large

    def resolvable_at(self, shape: Shape, row: int) -> bool:
        """Say whether one node row is among `resolvable`."""
        resource, allocatable, _ = self._room()
        return all(
            name == PODS or (name in resource and allocatable[resource[name]].item(row) >= amount)
            for name, amount in shape.requests
        )

    def fits_at(self, shape: Shape) -> Callable[[int], bool]:
        """Give what says of one row whether it has the room; good until a new node or resource comes."""
        resource, allocatable, used = self._room()
        if any(name not in resource for name, _ in shape.requests):
            return lambda _: False
        asked = [
            (allocatable[resource[name]].data, used[resource[name]].data, amount)
            for name, amount in shape.requests
        ]

        def fits(row: int) -> bool:
            for has, takes, amount in asked:  # noqa: SIM110 # a generator costs twice as much
                if has[row] - takes[row] < amount:
                    return False
            return True

        return fits

    def fits_beside(self, shape: Shape, row: int, pods: Collection[int]) -> bool:
        """Say whether a node row that fits a shape would with more pods (rows) there."""
        resource, allocatable, used = self._room()
        for name, amount in shape.requests:
            at = resource[name]
            requested = self._snapshot.requests[at]
            left = allocatable[at].item(row) - used[at].item(row) - amount
            if left < sum(requested.item(pod) for pod in pods):
                return False
        return True

    def spare(self, shape: Shape, rows: Rows) -> Int64s:
        """Give how many pods of a shape have room on each of these rows, all of which have some."""
        resource, allocatable, used = self._room()
        spare = np.full(len(rows), 2**62, np.int64)
        for name, amount in shape.requests:
            at = resource[name]
            spare = np.minimum(spare, (allocatable[at][rows] - used[at][rows]) // amount)
        return spare

    def short(self, shape: Shape) -> dict[str, Bools]:
        """Give the node rows that are short of each resource, by kube-scheduler's words for it."""
        resource, allocatable, used = self._room()
        rows = {}
        for name, amount in shape.requests:
            at = resource.get(name)
            nothing = np.zeros(len(self._snapshot.alive), np.int64)
            free = nothing if at is None else allocatable[at] - used[at]
            rows[_words(name)] = free < amount
        return rows

    def reasons(self, shape: Shape, row: int) -> tuple[str, ...]:
        """Give what is short on one node row for a shape, in kube-scheduler's words; empty where it fits."""
        resource, allocatable, used = self._room()
        short = []
        for name, amount in shape.requests:
            at = resource.get(name)
            if at is None or allocatable[at].item(row) - used[at].item(row) < amount:
                short.append(name)
        return tuple(_words(name) for name in _ordered(short))

    def why(self, shape: Shape, row: int) -> str | None:
        """Give the reasons of one node row as one line, or None where a pod of the shape fits."""
        return ", ".join(self.reasons(shape, row)) or None

    def _room(self) -> tuple[Mapping[str, int], list[Int64s], list[Int64s]]:
        snapshot = self._snapshot
        return snapshot.resource, snapshot.allocatable, snapshot.used


# The order of kube-scheduler's own checks; extended resources follow by name.
_FIRST = {PODS: 0, "cpu": 1, "memory": 2, "ephemeral-storage": 3}


def _words(name: str) -> str:
    return "Too many pods" if name == PODS else f"Insufficient {name}"


def _ordered(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (_FIRST.get(name, len(_FIRST)), name))
