"""Checks whether the host ports a pod requests are free on each node (NodePorts of kube-scheduler).

A port is taken by protocol, number and address. The address 0.0.0.0, or none, covers all addresses, so it
conflicts with any other. Two different addresses do not conflict.
"""

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int32s
from podium.schedulerplugin.filters.counter import DomainCounter, Domains
from podium.schedulerplugin.filters.counters import DomainCounters, PerShape, TermCounters
from podium.schedulerplugin.shapes import HostPort, Shape
from podium.schedulerplugin.snapshot import Snapshot

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a manifest's value; nothing is bound here


class HostPortsFilter:
    """The filter on one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._row_numbers: Int32s = np.zeros(0, np.int32)
        own = Domains(self._rows, lambda: len(snapshot.alive))
        self._taken: TermCounters[HostPort] = TermCounters(
            snapshot,
            keys=lambda shape: shape.ports,
            domains=lambda _: own,
            marks=lambda port: [(port.protocol, port.port)],
        )
        self._plans = PerShape(self._taken, self._conflicts)

    @property
    def counters(self) -> DomainCounters[HostPort]:
        """The counters of the ports that pods hold."""
        return self._taken

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows where no pod holds a port that a pod of the shape requests."""
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
                return "node(s) didn't have free ports for the requested pod ports"
        return None

    def _conflicts(self, shape: Shape) -> list[DomainCounter]:
        """Return the counters of the pods that hold a port in conflict with a port of the shape."""
        return [
            counter
            for wanted in shape.ports
            for held, counter in self._taken.candidates([(wanted.protocol, wanted.port)])
            if clash(wanted, held)
        ]

    def _rows(self) -> Int32s:
        """Return every row as a domain of its own."""
        if len(self._row_numbers) != len(self._snapshot.alive):
            self._row_numbers = np.arange(len(self._snapshot.alive), dtype=np.int32)
        return self._row_numbers


def clash(first: HostPort, second: HostPort) -> bool:
    """Return whether two pods on a node cannot have these ports."""
    same = (first.protocol, first.port) == (second.protocol, second.port)
    return same and (first.ip == second.ip or EVERY_ADDRESS in (first.ip, second.ip))
