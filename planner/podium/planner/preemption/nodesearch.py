"""Places a few pods by trying each on every node that takes it, so that no order of placement is in the way.

Packing large pods first fails on some clusters that have a placement. Pods of 5, 4 and 3 cpus, two of each,
fill two nodes of 12 cpus only as one of each. For a few pods all placements are tried, the tightest node
first. The number of steps is bounded, because the placements multiply with each pod.
"""

from collections.abc import Sequence

import numpy as np

from podium.planner.arrays import Floats, Rows
from podium.planner.placement import Placer
from podium.planner.shapes import Shape


class NodeSearch:
    """The search for pods (rows), the first ones first; equal pods should be together. Call it in a trial."""

    def __init__(self, placer: Placer, rows: Sequence[int], most: int) -> None:
        """`most` is the largest number of steps; a step places one pod on one node."""
        self._placer = placer
        self._snapshot = placer.snapshot
        self._rows = rows
        self._most = most
        self.steps = 0
        order = placer.chain.by_name()
        # The position of each node row in the order of names.
        self._rank = np.zeros(len(self._snapshot.alive), np.intp)
        self._rank[order] = np.arange(len(order))

    def placed(self) -> dict[int, int] | None:
        """Return the node rows of all pods; None if no placement was found in so many steps."""
        self._placer.announce(self._rows)
        found: dict[int, int] = {}
        return found if self._place(0, found) else None

    def _place(self, at: int, found: dict[int, int]) -> bool:
        """Place the pods from a position on; return whether all of them found a node."""
        if at == len(self._rows):
            return True
        row, snapshot = self._rows[at], self._snapshot
        for node in self._nodes(at, found).tolist():
            if self.steps == self._most:
                return False
            self.steps += 1
            with snapshot.trial():
                snapshot.assume(row, node)
                found[row] = node
                if self._place(at + 1, found):
                    return True
                del found[row]
        return False

    def _nodes(self, at: int, found: dict[int, int]) -> Rows:
        """Return the nodes that take a pod now, the tightest first.

        Of equal pods each is on no earlier node than the one before, so that no placement is tried twice.
        """
        snapshot = self._snapshot
        shape = snapshot.shape_at(self._rows[at])
        nodes = np.flatnonzero(self._placer.chain.feasible(shape))
        before = self._rows[at - 1] if at else None
        if before is not None and snapshot.shape_at(before) is shape:
            nodes = nodes[self._rank[nodes] >= self._rank[found[before]]]
        return nodes[np.lexsort((self._rank[nodes], self._left(shape, nodes)))]

    def _left(self, shape: Shape, nodes: Rows) -> Floats:
        """Return how much room a pod leaves on nodes, as a sum of parts of the room that nodes have."""
        snapshot = self._snapshot
        left = np.zeros(len(nodes))
        for name, amount in shape.requests:
            at = snapshot.resource.get(name)
            if at is not None and amount:
                room, used = snapshot.allocatable[at][nodes], snapshot.used[at][nodes]
                left += (room - used - amount) / np.maximum(room, 1)
        return left
