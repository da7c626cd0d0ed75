"""Checks whether other pods use what a pod would use alone: host ports, disks, claims of one pod.

Each such thing has a counter of the pods that use it. Host ports and disks are taken on one node, so a domain
is a node. A claim of access mode ReadWriteOncePod is taken in the whole cluster, so all nodes are one domain.
The removal of pods can only free such things, and preemption may free them.

Source: NodePorts and VolumeRestrictions of kube-scheduler 1.36 and 1.37.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from podium.planner.arrays import Bools
from podium.planner.filters.counter import DomainCounter, node_rows
from podium.planner.filters.counters import PerShape, TermCounters
from podium.planner.filters.nodefilter import NodeFilter
from podium.planner.shapes import HostPort, Shape
from podium.planner.snapshot import Snapshot
from podium.planner.volumes.claims import Disk, same_disk

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a manifest's value; nothing is bound here


class UsedClaim(NamedTuple):
    """A claim that may have one pod only."""

    namespace: str
    name: str


Thing = HostPort | Disk | UsedClaim


class ExclusiveCounters(TermCounters[Thing]):
    """The counters of all such things; one instance serves all filters, because each observes every move."""

    def __init__(self, snapshot: Snapshot) -> None:
        node = node_rows(snapshot)
        super().__init__(snapshot, keys=_things, domains=lambda _: node, marks=lambda thing: [_mark(thing)])


class ExclusiveUseFilter(NodeFilter):
    """The nodes where no pod uses a thing that a pod of the shape would use alone."""

    REASON: ClassVar[str]

    def __init__(self, taken: ExclusiveCounters) -> None:
        self.counters = (taken,)
        self._snapshot = taken.snapshot
        self._taken = taken
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
        return [
            counter
            for thing in self._wanted(shape)
            for held, counter in self._taken.candidates([_mark(thing)])
            if _in_conflict(thing, held)
        ]

    @abstractmethod
    def _wanted(self, shape: Shape) -> Sequence[Thing]:
        """Return the things that a pod of the shape would use alone."""


class HostPortsFilter(ExclusiveUseFilter):
    """The nodes where the host ports of the pod are free.

    A port is taken by protocol, number and address. The address 0.0.0.0, or none, covers all addresses.
    """

    REASON = "node(s) didn't have free ports for the requested pod ports"

    def _wanted(self, shape: Shape) -> Sequence[Thing]:
        return shape.ports


class DisksFilter(ExclusiveUseFilter):
    """The nodes where no pod uses a disk of the pod, or all pods only read it."""

    REASON = "node(s) had no available disk"

    def _wanted(self, shape: Shape) -> Sequence[Thing]:
        return shape.disks


class ExclusiveClaimsFilter(ExclusiveUseFilter):
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

    def _wanted(self, shape: Shape) -> Sequence[Thing]:
        return used_claims(shape)


def used_claims(shape: Shape) -> list[UsedClaim]:
    """Return the claims of a shape that may have one pod only."""
    return [UsedClaim(shape.namespace, claim) for claim in shape.exclusive_claims]


def conflict_on_node(first: Shape, second: Shape) -> bool:
    """Return whether pods of two shapes cannot be on one node because of their host ports or disks."""
    return any(_in_conflict(thing, held) for thing in _on_node(first) for held in _on_node(second))


def _in_conflict(first: Thing, second: Thing) -> bool:
    """Return whether two pods cannot use these things, on one node or, for claims, in the cluster."""
    match first, second:
        case HostPort(), HostPort():
            return _clash(first, second)
        case Disk(), Disk():
            return same_disk(first, second)
        case _:
            return first == second


def _clash(first: HostPort, second: HostPort) -> bool:
    """Return whether two pods on a node cannot have these ports."""
    same = (first.protocol, first.port) == (second.protocol, second.port)
    return same and (first.ip == second.ip or EVERY_ADDRESS in (first.ip, second.ip))


def _things(shape: Shape) -> tuple[Thing, ...]:
    return (*_on_node(shape), *used_claims(shape))


def _on_node(shape: Shape) -> tuple[Thing, ...]:
    return (*shape.ports, *shape.disks)


def _mark(thing: Thing) -> Hashable:
    """Return a mark that things in conflict share."""
    match thing:
        case HostPort():
            return HostPort, thing.protocol, thing.port
        case Disk():
            return Disk, thing.kind, thing.name
        case UsedClaim():
            return UsedClaim, thing
