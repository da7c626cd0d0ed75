"""Places the few pods of a group for which filters search different things, in every order of their kinds.

Each pod gets the first things that suit it, so an earlier pod may take those of a later one. The orders are
tried one after the other, with a bounded number of steps.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, permutations

import numpy as np

from podium.planner.arrays import Floats, Rows
from podium.planner.deadline import Deadline
from podium.planner.placement import Placer
from podium.planner.shapes import Shape

# The most pods that are tried on every node, the most kinds whose orders are tried, and the most steps.
_PODS, _KINDS, _STEPS = 8, 3, 256


def ordered_attempts(
    placer: Placer, rows: Sequence[int], needed: int, deadline: Deadline
) -> Iterator[Callable[[], dict[int, int]]]:
    """Yield more ways to place pods that need different things; each assumes what it places."""
    shape_at = placer.snapshot.shape_at
    searching = [node_filter for node_filter in placer.chain.dynamic if node_filter.SEARCHES]
    searched = any(search.concerns(shape_at(row)) for search in searching for row in rows)
    if not searched or len(_kinds(placer, rows)) < 2:
        return

    def amount(row: int) -> int:
        return sum(search.sought(shape_at(row))[0] for search in searching)

    # The pods that need the least are placed if not all are needed.
    chosen = sorted(rows, key=amount)[:needed]
    largest_first = sorted(chosen, key=lambda row: -amount(row))
    yield partial(placer.place_many, largest_first, enough=needed, deadline=deadline)
    if needed <= _PODS:
        yield partial(_searched, placer, largest_first)


def _kinds(placer: Placer, rows: Sequence[int]) -> list[list[int]]:
    """Return the pods by kind; pods of one kind need equal things and room."""
    kinds: dict[object, list[int]] = {}
    searching = [node_filter for node_filter in placer.chain.dynamic if node_filter.SEARCHES]
    for row in rows:
        shape = placer.snapshot.shape_at(row)
        sought = tuple(search.sought(shape) for search in searching)
        kinds.setdefault((sought, shape.requests), []).append(row)
    return list(kinds.values())


def _searched(placer: Placer, rows: Sequence[int]) -> dict[int, int]:
    """Place and assume pods in the first order of their kinds in which all find a node."""
    snapshot, left = placer.snapshot, _STEPS
    kinds = _kinds(placer, rows)
    orders = permutations(kinds) if len(kinds) <= _KINDS else iter([tuple(kinds)])
    for order in orders:
        search = NodeSearch(placer, list(chain.from_iterable(order)), left)
        with snapshot.trial():
            placed = search.placed()
        if placed is not None:
            for row, node in placed.items():
                snapshot.assume(row, node)
            return placed
        left -= search.steps
        if left <= 0:
            break
    return {}


# Places a few pods by trying each on every node that takes it, so that no order of placement is in the way.
#
# Packing large pods first fails on some clusters that have a placement. Pods of 5, 4 and 3 cpus, two of each,
# fill two nodes of 12 cpus only as one of each. For a few pods all placements are tried, the tightest node
# first. The number of steps is bounded, because the placements multiply with each pod.


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
        placed: dict[int, int] = {}
        return placed if self._place(0, placed) else None

    def _place(self, at: int, placed: dict[int, int]) -> bool:
        """Place the pods from a position on; return whether all of them found a node."""
        if at == len(self._rows):
            return True
        row, snapshot = self._rows[at], self._snapshot
        for node in self._nodes(at, placed).tolist():
            if self.steps == self._most:
                return False
            self.steps += 1
            with snapshot.trial():
                snapshot.assume(row, node)
                placed[row] = node
                if self._place(at + 1, placed):
                    return True
                del placed[row]
        return False

    def _nodes(self, at: int, placed: dict[int, int]) -> Rows:
        """Return the nodes that take a pod now, the tightest first.

        Of equal pods each is on no earlier node than the one before, so that no placement is tried twice.
        """
        snapshot = self._snapshot
        shape = snapshot.shape_at(self._rows[at])
        nodes = np.flatnonzero(self._placer.chain.feasible(shape))
        before = self._rows[at - 1] if at else None
        if before is not None and snapshot.shape_at(before) is shape:
            nodes = nodes[self._rank[nodes] >= self._rank[placed[before]]]
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
