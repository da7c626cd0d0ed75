"""Counts the pods of one question by topology domain, and stores an integer for each shape.

A cluster asks thousands of questions (every Deployment has a selector of its own), and most concern few
nodes. So a counter is sparse. A plan moves a hundred thousand pods at a time and then reads one or two
answers. So bulk moves are only noted, and added before the answer is read.

Whether a counter counts a pod depends on its shape. That is a small integer for each shape, looked up for a
hundred thousand pods in one step. Ids of shapes are not reused, and a cluster of Jobs has millions of shapes
in a month. An array by id would grow with every shape that ever existed. So ids below a base are looked up in
a sorted list of the shapes that still exist.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from podium.planner.arrays import Int32s, Int64s, grown
from podium.planner.snapshot import Snapshot

Int8s = npt.NDArray[np.int8]

# The most ids stored above the base (besides twice the number of shapes) before the base moves up.
_DENSE = 2**12


class ShapeIntegers:
    """Integers by shape id, 0 for a shape that has none. `shapes` are the ids of the shapes that exist."""

    def __init__(self, shapes: Collection[int]) -> None:
        self._shapes = shapes
        self._base = 0
        # The integers from the base on, by id.
        self._dense: Int8s = np.zeros(0, np.int8)
        # The ids below the base in order, and their integers.
        self._ids: Int32s = np.zeros(0, np.int32)
        self._values: Int8s = np.zeros(0, np.int8)

    @property
    def stored(self) -> int:
        """The number of stored integers."""
        return len(self._dense) + len(self._ids)

    def get(self, shape_ids: Int32s) -> Int8s:
        """Return the integers of shapes that exist."""
        at = shape_ids - self._base
        top = int(at.max(initial=-1))
        if top >= len(self._dense):
            self._reach(top + self._base)
            at = shape_ids - self._base
        if not len(self._ids):
            return self._dense[at]
        integers: Int8s = np.zeros(len(at), np.int8)
        dense = at >= 0
        integers[dense] = self._dense[at[dense]]
        integers[~dense] = self._values[np.searchsorted(self._ids, shape_ids[~dense])]
        return integers

    def set(self, shape_id: int, value: int) -> None:
        """Store the integer of a shape that exists."""
        if shape_id - self._base >= len(self._dense):
            self._reach(shape_id)
        if shape_id >= self._base:
            self._dense[shape_id - self._base] = value
        else:
            self._values[np.searchsorted(self._ids, shape_id)] = value

    def clear(self) -> None:
        """Set all integers to 0."""
        self._dense[:] = 0
        self._values[:] = 0

    def _reach(self, shape_id: int) -> None:
        """Grow the array for a shape; forget deleted shapes if there are many."""
        if shape_id - self._base >= _DENSE + 2 * len(self._shapes):
            ids = np.array(sorted(earlier for earlier in self._shapes if earlier < shape_id), np.int32)
            known = ids < self._base + len(self._dense)
            values = np.zeros(len(ids), np.int8)
            values[known] = self.get(ids[known])
            self._ids, self._values, self._base, self._dense = ids, values, shape_id, np.zeros(0, np.int8)
        if shape_id - self._base >= len(self._dense):
            self._dense = grown(self._dense, max(_DENSE, 2 * (shape_id - self._base + 1)))


# A counter keeps an array by domain if one of this many domains holds pods, so memory stays in proportion.
_SPARSE = 64
# The most notes that are kept by a counter that is not read.
_MAX_DEFERRED = 16


class Domains(NamedTuple):
    """The domains of a counter: the domain of every node row now (-1 is none), and the number of ids."""

    column: Callable[[], Int32s]
    size: Callable[[], int]


def topology(snapshot: Snapshot, key: str) -> Domains:
    """Return the domains of a topology key: nodes with the same value of that label."""
    return Domains(lambda: snapshot.columns.column(key), lambda: snapshot.columns.values(key).size)


def node_domains(snapshot: Snapshot) -> Domains:
    """Return every node row as a domain of its own."""
    rows: Int32s = np.zeros(0, np.int32)

    def column() -> Int32s:
        nonlocal rows
        if len(rows) != len(snapshot.alive):
            rows = np.arange(len(snapshot.alive), dtype=np.int32)
        return rows

    return Domains(column, lambda: len(snapshot.alive))


class DomainCounter:
    """The pods that one question counts, by node row and by domain; some nodes are in no domain."""

    # A pod can bring ten thousand terms, each of which has a counter.
    __slots__ = (
        *("domains", "terminating", "rows", "counts", "total"),
        *("_deferred", "_at", "_array", "_size", "_revision"),
    )

    def __init__(self, domains: Domains, *, terminating: bool = True) -> None:
        """Count in these domains; `terminating` says whether pods that are being deleted count as well."""
        self.domains = domains
        self.terminating = terminating
        self.rows: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.total = 0
        self._deferred: list[tuple[Int64s, Int64s]] = []
        self._at: dict[int, int] = {}
        self._array: Int32s | None = None
        self._size = 1
        self._revision = -1

    def defer(self, rows: Int64s, numbers: Int64s) -> None:
        """Note moves of pods on node rows, to be added before the next read."""
        self._deferred.append((rows, numbers))
        if len(self._deferred) >= _MAX_DEFERRED:
            self.apply_deferred()

    def apply_deferred(self) -> None:
        """Add the noted moves to the counts."""
        deferred, self._deferred = self._deferred, []
        for rows, numbers in deferred:
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
                self.add(row, number)

    def add(self, row: int, number: int) -> None:
        """Add `number` (may be negative) to the pods of a node row."""
        domain = self._at.get(row)
        if domain is None:
            domain = self._at[row] = self.domains.column().item(row)
        count = self.rows.get(row, 0) + number
        if count:
            self.rows[row] = count
        else:
            del self.rows[row], self._at[row]
        if domain >= 0:
            self._shift(domain, number)

    def refresh(self, revision: int) -> None:
        """Add noted moves, and follow domain changes of nodes up to a revision; call it before every read."""
        if self._deferred:
            self.apply_deferred()
        if revision == self._revision:
            return
        self._revision = revision
        if self.domains.size() >= self._size:
            # A higher power of two, so that all counters of a key have one length, and new nodes need few new
            # arrays.
            self._size = 1 << self.domains.size().bit_length()
            self._array = None
        column = self.domains.column()
        for row, before in self._at.items():
            now = column.item(row)
            if now != before:
                self._at[row] = now
                if before >= 0:
                    self._shift(before, -self.rows[row])
                if now >= 0:
                    self._shift(now, self.rows[row])

    def by_domain_without(self, less: Mapping[int, int]) -> Int32s:
        """Return `by_domain` with `less` subtracted by domain."""
        if not less:
            return self.by_domain()
        array = self.by_domain().copy()
        array[list(less)] -= np.array(list(less.values()), np.int32)
        return array

    def by_domain(self) -> Int32s:
        """Return the pods by domain id, read only; the last entry, which the domain -1 finds, is 0."""
        if self._array is not None:
            return self._array
        array = np.zeros(self._size, np.int32)
        if self.counts:
            array[list(self.counts)] = list(self.counts.values())
        if len(self.counts) * _SPARSE >= self._size:
            self._array = array
        return array

    def _shift(self, domain: int, number: int) -> None:
        count = self.counts.get(domain, 0) + number
        if count:
            self.counts[domain] = count
        else:
            del self.counts[domain]
        self.total += number
        if self._array is not None:
            if domain < self._size - 1:
                self._array[domain] = count
            else:
                self._array = None
