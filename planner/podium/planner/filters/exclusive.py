"""Checks whether other pods use what a pod would use alone, such as host ports.

Each such thing has a counter of the pods that use it. Host ports are taken on one node, so a domain is a
node. The removal of pods can only free such things, and preemption may free them.

Source: NodePorts of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

import numpy as np

from podium.planner.arrays import Bools
from podium.planner.filters.counter import DomainCounter, node_rows
from podium.planner.filters.counters import PerShape, TermCounters
from podium.planner.framework import NodeFilter
from podium.planner.shapes import HostPort, Shape
from podium.planner.snapshot import Snapshot

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a manifest's value; nothing is bound here
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


class HostPortsFilter(ExclusiveUseFilter[HostPort]):
    """The nodes where the host ports of the pod are free.

    A port is taken by protocol, number and address. The address 0.0.0.0, or none, covers all addresses.
    """

    REASON = "node(s) didn't have free ports for the requested pod ports"

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(ExclusiveCounters(snapshot, _ports, _mark, ports_clash), _ports)


def ports_clash(first: HostPort, second: HostPort) -> bool:
    """Return whether two pods on a node cannot have these ports."""
    same = (first.protocol, first.port) == (second.protocol, second.port)
    return same and (first.ip == second.ip or EVERY_ADDRESS in (first.ip, second.ip))


def exclusive(shape: Shape) -> bool:
    """Return whether a pod of a shape would use something alone."""
    return bool(shape.ports) or any(need.used_alone for need in shape.needs)


def in_conflict(first: Shape, second: Shape, *, on_node: bool) -> bool:
    """Return whether pods of two shapes cannot have what they need, on one node or anywhere."""
    if on_node and any(ports_clash(port, held) for port in first.ports for held in second.ports):
        return True
    return any(
        need.excludes(other, on_node=on_node) for need, other in zip(first.needs, second.needs, strict=True)
    )


def _ports(shape: Shape) -> Sequence[HostPort]:
    return shape.ports


def _mark(port: HostPort) -> Hashable:
    return port.protocol, port.port
