"""Checks whether other pods use what a pod would use alone, such as host ports.

Each such thing has a counter of the pods that use it by node. The removal of pods can only free such things,
and preemption may free them.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

import numpy as np

from podium.planner.arrays import Bools
from podium.planner.filters.counter import DomainCounter, node_rows
from podium.planner.filters.counters import PerShape, TermCounters
from podium.planner.framework import NodeFilter
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

Thing = TypeVar("Thing", bound=Hashable)


class ExclusiveCounters(TermCounters[Thing]):
    """The counters of such things by node; one instance may serve several filters."""

    def __init__(
        self,
        snapshot: Snapshot,
        things: Callable[[Shape], Sequence[Thing]],
        mark: Callable[[Thing], Hashable],
        conflict: Callable[[Thing, Thing], bool],
    ) -> None:
        """`mark` returns what things in `conflict` share."""
        node = node_rows(snapshot)
        self.mark = mark
        self.conflict = conflict
        super().__init__(snapshot, keys=things, domains=lambda _: node, marks=lambda thing: [mark(thing)])


class ExclusiveUseFilter(NodeFilter, Generic[Thing]):
    """The nodes where no pod uses a thing that a pod of the shape would use alone."""

    REASON: ClassVar[str]

    def __init__(self, taken: ExclusiveCounters[Thing], wanted: Callable[[Shape], Sequence[Thing]]) -> None:
        """`wanted` returns the things that a pod of a shape would use alone."""
        self.counters = (taken,)
        self._snapshot = taken.snapshot
        self._taken = taken
        self._wanted = wanted
        self._plans = PerShape(taken, self._conflicts)

    def concerns(self, shape: Shape) -> bool:
        """Return whether a pod of a shape would use something alone."""
        return bool(self._wanted(shape))

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape."""
        height = len(self._snapshot.alive)
        free = np.ones(height, np.bool_)
        for counter in self._plans.get(shape):
            counter.refresh(self._snapshot.node_revision)
            free &= counter.by_domain()[:height] == 0
        return free

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        for counter in self._plans.get(shape):
            counter.refresh(self._snapshot.node_revision)
            if row in counter.rows:
                return self.REASON
        return None

    def _conflicts(self, shape: Shape) -> list[DomainCounter]:
        """Return the counters of the pods that use a thing in conflict with one of the shape."""
        taken = self._taken
        return [
            counter
            for thing in self._wanted(shape)
            for held, counter in taken.candidates([taken.mark(thing)])
            if taken.conflict(thing, held)
        ]


def exclusive(shape: Shape) -> bool:
    """Return whether a pod of a shape would use something alone."""
    return any(need.exclusive for need in shape.needs)


def in_conflict(first: Shape, second: Shape, *, on_node: bool) -> bool:
    """Return whether pods of two shapes cannot have what they need, on one node or anywhere."""
    return any(
        need.excludes(other, on_node=on_node) for need, other in zip(first.needs, second.needs, strict=True)
    )
