"""The plugin NodeResourcesFit: whether a pod's requests fit on each node beside its pods.

The check is one subtraction and one comparison for each resource, over all nodes at once and in exact
integers. A shape names only the resources it requests, so others may be overcommitted on a node. A resource
without arrays is one that no node offers, or one too many, and a pod that requests it fits nowhere. The
refusal names each resource that is short. If one request is larger than the whole node, no preemption helps.
kube-scheduler calls that unresolvable, except for the number of pods.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np

from podium.api.podrequests import PODS
from podium.api.schedulable import Schedulable
from podium.planner.arrays import MOST_RESOURCES, Bools, Int64s, Rows
from podium.planner.framework import ChainContext, NodeFilter, Plugin, RoomFilter
from podium.planner.shapes import PodNeed, Shape, ShapeContext
from podium.planner.snapshot import Snapshot
from podium.text import some


class ResourcesFilter(RoomFilter):
    """The filter on one snapshot; it caches nothing, because every placement changes its answers."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows with room for one more pod of a shape."""
        resource, allocatable, used = self._room()
        fits = self._snapshot.alive.copy()
        for name, amount in shape.requests:
            at = resource.get(name)
            if at is None:
                return np.zeros_like(fits)
            fits &= allocatable[at] - used[at] >= amount
        return fits

    def possible(self, shape: Shape) -> Bools:
        """Return the node rows that are large enough when empty; on others no preemption helps."""
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

    def possible_at(self, shape: Shape, row: int) -> bool:
        """Return whether one node row is in `possible`."""
        resource, allocatable, _ = self._room()
        return all(
            name == PODS or (name in resource and allocatable[resource[name]].item(row) >= amount)
            for name, amount in shape.requests
        )

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return which requests are larger than each of some empty `nodes` (rows); empty if a node is enough.

        At most NAMED requests are looked at.
        """
        resource, allocatable, _ = self._room()
        if not nodes.any() or (nodes & self.possible(shape)).any():
            return ""
        asked = [(name, amount) for name, amount in shape.requests if name != PODS][:NAMED]
        most = {
            name: int(allocatable[resource[name]][nodes].max(initial=0)) if name in resource else 0
            for name, _ in asked
        }
        short = [name for name, amount in asked if most[name] < amount]
        nowhere = [name for name in short if not most[name]]
        if nowhere:
            return f"{some(nowhere)}: no node that suits the pod has any"
        subject = some(short) or "its requests together"
        return f"{subject}: no node that suits the pod has enough, even without other pods"

    def fits_at(self, shape: Shape) -> Callable[[int], bool]:
        """Return a function that checks the room of one row; valid until a new node or resource comes."""
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
        """Return whether a node row that fits a shape still would with more pods (rows) there."""
        resource, allocatable, used = self._room()
        for name, amount in shape.requests:
            at = resource[name]
            requested = self._snapshot.requests[at]
            left = allocatable[at].item(row) - used[at].item(row) - amount
            if left < sum(requested.item(pod) for pod in pods):
                return False
        return True

    def spare(self, shape: Shape, rows: Rows) -> Int64s:
        """Return how many pods of a shape have room on each of these rows, all of which have room for one."""
        resource, allocatable, used = self._room()
        spare = np.full(len(rows), 2**62, np.int64)
        for name, amount in shape.requests:
            at = resource[name]
            spare = np.minimum(spare, (allocatable[at][rows] - used[at][rows]) // amount)
        return spare

    def refused_by_reason(self, shape: Shape, rows: Bools) -> dict[str, Bools]:
        """Return the rows that are short of each resource, by kube-scheduler's words for it.

        Of the resources that no node offers the first NAMED have words of their own, the others one text.
        """
        resource, allocatable, used = self._room()
        short = {
            _words(name): rows & (allocatable[resource[name]] - used[resource[name]] < amount)
            for name, amount in shape.requests
            if name in resource
        }
        named, others = self._nowhere(shape)
        return {**short, **dict.fromkeys([*named, *others], rows)}

    def reasons(self, shape: Shape, row: int) -> tuple[str, ...]:
        """Return the resources a node row lacks for a shape, in kube-scheduler's words; empty if it fits."""
        resource, allocatable, used = self._room()
        named, others = self._nowhere(shape)
        short = [
            name
            for name, amount in shape.requests
            if name in resource
            and allocatable[resource[name]].item(row) - used[resource[name]].item(row) < amount
        ]
        return (*map(_words, _ordered(short)), *named, *others)

    def _nowhere(self, shape: Shape) -> tuple[list[str], list[str]]:
        """Return words for the first NAMED resources of a shape that have no arrays, and for the others."""
        resource, is_offered = self._snapshot.resource, self._snapshot.is_offered
        missing = _ordered([name for name, _ in shape.requests if name not in resource])
        others = len(missing) - NAMED
        named = [_NOT_COUNTED.format(name) if is_offered(name) else _words(name) for name in missing[:NAMED]]
        return named, [f"Insufficient {others} other resources"] if others > 0 else []

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return the reasons of one node row as one line, or None if a pod of the shape fits."""
        return ", ".join(self.reasons(shape, row)) or None

    def _room(self) -> tuple[Mapping[str, int], Mapping[int, Int64s], Mapping[int, Int64s]]:
        snapshot = self._snapshot
        return snapshot.resource, snapshot.allocatable, snapshot.used


class NodeResourcesPlugin(Plugin):
    """The filter on the requests of pods.

    They are in each shape, and their sums are arrays of the snapshot: every pod has some, and preemption is
    about them. So this plugin adds no need, and no planner does without it.
    """

    def __init__(self, at: int, snapshot: Snapshot) -> None:  # noqa: ARG002 - it adds no need
        self._snapshot = snapshot

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> PodNeed:  # noqa: ARG002 - as above
        """Return no need."""
        return _NO_NEED

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:  # noqa: ARG002 - the same in all
        """Return NodeResourcesFit."""
        return (ResourcesFilter(self._snapshot),)


_NO_NEED = PodNeed()
# The order of kube-scheduler's own checks; extended resources follow by name.
_FIRST = {PODS: 0, "cpu": 1, "memory": 2, "ephemeral-storage": 3}


# A pod may request tens of thousands of resources that no node offers: as many as fit into an object of the
# API server. A refusal names this many; a pod without bad intent requests fewer.
NAMED = 32
_NOT_COUNTED = f"{{}} is not counted (more than {MOST_RESOURCES} resources)"


def _words(name: str) -> str:
    return "Too many pods" if name == PODS else f"Insufficient {name}"


def _ordered(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (_FIRST.get(name, len(_FIRST)), name))
