"""Arrays of which pod counts on which node and the room left, and moves on them that can be undone.

A scheduler counts some pods elsewhere than the API server does. A pod just bound counts on its node before
the server shows it. In a trial, a victim is gone and a candidate is on a node. So each pod has two places,
`home` (in the server) and `node` (where it counts), and every change is one kind of move. A move is undone by
the opposite move, so a trial needs a list of moves and no copy.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Needs, ResourceSums, Rows, grown

# The place of a pod that counts on no node.
PENDING = -1  # on none yet
UNKNOWN_NODE = -2  # on an unknown node
REMOVED = -3  # taken away in a trial
NO_POD = -4  # the row is free
NO_SHAPE = -1

# For so few moves, and so few sums, arrays are no faster.
_FEW = 8
_SOME = 64

# Called with (pod row, shape id, node row, 1 or -1) for each pod that begins or ceases to count on a node.
Counted = Callable[[int, int, int, int], None]
# The same for many pods at once: the first three are arrays of one length.
CountedMany = Callable[[Rows, Int32s, Int32s, int], None]
# Called with (shape id before, shape id now, pods that count on a node) when a selector splits a shape. Pods
# that count nowhere are not in the number.
Reshaped = Callable[[int, int, int], None]
# Called with the row of a node that came, went, or changed its labels, taints or unschedulable mark.
NodeChanged = Callable[[int], None]


class Trial:
    """A block whose moves are undone at its end, unless they are kept; see Overlay.trial."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self.kept = False
        self.undo = undo

    def commit(self) -> None:
        """Keep the moves: permanently, or until the trial around this one ends."""
        self.kept = True


class Overlay:
    """Arrays by node row (`alive`, `allocatable`, `used`, `scored`) and by pod row (`node`, `home`, `shape`).

    Arrays are longer than needed: `alive` says which node rows are in use, and `home` is NO_POD on free pod
    rows. They are replaced when they grow. Read them from here each time, and never keep one over an event.
    `allocatable`, `used` and `requests` hold one array for each resource, by its position (`resource`);
    `requests` is by pod row.
    """

    def __init__(self) -> None:
        self.alive: Bools = np.zeros(0, np.bool_)
        self.node: Int32s = np.zeros(0, np.int32)
        self.home: Int32s = np.zeros(0, np.int32)
        self.shape: Int32s = np.zeros(0, np.int32)
        self._sums = ResourceSums()
        self._needs: dict[int, Needs] = {}
        # The pods whose node or home is the row, so it does not change when thousands are removed and put
        # back.
        self._on: list[set[int]] = []
        self._log: list[tuple[Callable[[Any, Any], None], Any, Any]] | None = None
        # Whether moves are undone now.
        self.undoing = False
        self._counted: list[Counted] = []
        self._counted_many: list[CountedMany] = []
        self._node_changed: list[NodeChanged] = []

    @property
    def is_trying(self) -> bool:
        """Return whether a trial is open; while its moves are undone it is not."""
        return self._log is not None

    @property
    def resource(self) -> Mapping[str, int]:
        """The positions of the resources that some node offers; a position is not reused."""
        return self._sums.resource

    @property
    def layout(self) -> int:
        """Grows when a resource is added or removed, and when an array of amounts is replaced."""
        return self._sums.layout

    @property
    def allocatable(self) -> Mapping[int, Int64s]:
        """The amounts that each node has, by position of the resource."""
        return self._sums.allocatable

    @property
    def used(self) -> Mapping[int, Int64s]:
        """The sums that the pods on each node request, by position of the resource."""
        return self._sums.used

    @property
    def scored(self) -> tuple[Int64s, Int64s]:
        """Milli cpu and bytes of memory on each node as scores count them."""
        return self._sums.scored

    @property
    def requests(self) -> Mapping[int, Int64s]:
        """The amounts that each pod requests, by position of the resource."""
        return self._sums.requests

    def pods_on(self, node_row: int) -> Rows:
        """Return the rows of the pods that count on a node now, in no particular order."""
        on = self._on[node_row]
        rows = np.fromiter(on, np.intp, len(on))
        here: Rows = rows[self.node[rows] == node_row]
        return here

    def pods_on_all(self, node_rows: Rows) -> Rows:
        """Return the rows of the pods that count on any of some nodes now, in no particular order."""
        on = self._on
        rows = np.fromiter(chain.from_iterable(on[node] for node in node_rows.tolist()), np.intp)
        asked = np.zeros(len(self.alive), np.bool_)
        asked[node_rows] = True
        at = self.node[rows]
        here: Rows = rows[(at >= 0) & asked[at]]
        return np.unique(here)

    def observe(
        self, counted: Counted, node_changed: NodeChanged | None = None, many: CountedMany | None = None
    ) -> None:
        """Register callbacks for every change of a pod's node; current pods are read from the arrays.

        A pod is reported with its row as it is while it counts: -1 before its fields change, +1 after. A node
        that is removed is reported after its pods left, a new one before its pods count. Without `many`,
        `counted` is called for each pod of a bulk move.
        """
        self._counted.append(counted)
        self._counted_many.append(many or _one_by_one(counted))
        if node_changed is not None:
            self.observe_nodes(node_changed)

    def observe_nodes(self, node_changed: NodeChanged) -> None:
        """Register a callback for every change of a node, as `observe` does."""
        self._node_changed.append(node_changed)

    def assume(self, pod_row: int, node_row: int) -> None:
        """Count a pod on a node that is not its node in the server."""
        self._move(pod_row, node_row)

    def remove(self, pod_row: int) -> None:
        """Count a pod nowhere, as if it had been deleted."""
        self._move(pod_row, REMOVED)

    def forget_pod(self, pod_row: int) -> None:
        """Count a pod again where the server has it."""
        self._move(pod_row, self.home.item(pod_row))

    def assume_many(self, pod_rows: Rows, node_rows: Int32s) -> None:
        """Count different pods each on a node, as `assume` does one by one, at a fraction of the cost."""
        self._move_many(pod_rows, node_rows)

    def remove_many(self, pod_rows: Rows) -> None:
        """Count different pods nowhere; a hundred thousand cost milliseconds."""
        self._move_many(pod_rows, np.full(len(pod_rows), REMOVED, np.int32))

    def forget_many(self, pod_rows: Rows) -> None:
        """Count different pods again where the server has them."""
        self._move_many(pod_rows, self.home[pod_rows])

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Undo the moves made in this block at its end, or when `undo` is called.

        Trials nest. No object may be applied while one is open.
        """
        outer = self._log
        log = self._log = [] if outer is None else outer
        trial = Trial(partial(self._undo, len(log)))
        try:
            yield trial
        except BaseException:
            trial.kept = False
            raise
        finally:
            if not trial.kept:
                trial.undo()
            self._log = outer

    def _undo(self, mark: int) -> None:
        log = self._log
        assert log is not None, "the trial has ended"
        moves = log[mark:]
        del log[mark:]
        self._log, outer, self.undoing = None, self.undoing, True
        for move, rows, before in reversed(moves):
            move(rows, before)
        self._log, self.undoing = log, outer

    def _move(self, pod_row: int, to: int) -> None:
        before = self.node.item(pod_row)
        if before >= 0:
            self._count(pod_row, before, -1)
            if self.home.item(pod_row) != before:
                self._on[before].discard(pod_row)
        self.node[pod_row] = to
        if to >= 0:
            self._on[to].add(pod_row)
            self._count(pod_row, to, 1)
        if self._log is not None:
            self._log.append((self._move, pod_row, before))

    def _move_many(self, pod_rows: Rows, to: Int32s) -> None:
        if len(pod_rows) <= _FEW:
            for pod_row, node_row in zip(pod_rows.tolist(), to.tolist(), strict=True):
                self._move(pod_row, node_row)
            return
        before = self.node[pod_rows]
        home = self.home[pod_rows]
        placed = before >= 0
        self._count_many(pod_rows[placed], before[placed], -1)
        away = placed & (before != home)
        for pod_row, node_row in zip(pod_rows[away].tolist(), before[away].tolist(), strict=True):
            self._on[node_row].discard(pod_row)
        self.node[pod_rows] = to
        placed = to >= 0
        away = placed & (to != home)
        for pod_row, node_row in zip(pod_rows[away].tolist(), to[away].tolist(), strict=True):
            self._on[node_row].add(pod_row)
        self._count_many(pod_rows[placed], to[placed], 1)
        if self._log is not None:
            self._log.append((self._move_many, pod_rows, before))

    def _count(self, pod_row: int, node_row: int, sign: int) -> None:
        shape_id = self.shape.item(pod_row)
        self._sums.add(self._needs[shape_id], node_row, sign)
        for counted in self._counted:
            counted(pod_row, shape_id, node_row, sign)

    def _count_many(self, pod_rows: Rows, node_rows: Int32s, sign: int) -> None:
        shape_ids = self.shape[pod_rows]
        if len(pod_rows) <= _SOME:
            for shape_id, node_row in zip(shape_ids.tolist(), node_rows.tolist(), strict=True):
                self._sums.add(self._needs[shape_id], node_row, sign)
        else:
            self._sums.add_many(pod_rows, node_rows, sign)
        for many in self._counted_many:
            many(pod_rows, shape_ids, node_rows, sign)

    def _grow_nodes(self, size: int) -> None:
        self.alive = grown(self.alive, size)
        self._sums.grow_nodes(size)
        self._on += [set() for _ in range(size - len(self._on))]

    def _grow_pods(self, size: int) -> None:
        self.node = grown(self.node, size, NO_POD)
        self.home = grown(self.home, size, NO_POD)
        self.shape = grown(self.shape, size, NO_SHAPE)
        self._sums.grow_pods(size)


def _one_by_one(counted: Counted) -> CountedMany:
    def many(pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, sign: int) -> None:
        for move in zip(pod_rows.tolist(), shape_ids.tolist(), node_rows.tolist(), strict=True):
            counted(*move, sign)

    return many
