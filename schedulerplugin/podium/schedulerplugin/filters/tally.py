"""Counts the pods of one question by topology domain, sparsely and in step with the moves passed to it.

A cluster asks thousands of questions (every Deployment has a selector of its own), and most concern few
nodes. A plan moves a hundred thousand pods at a time and then reads one or two answers. So bulk moves are
only noted, and added before the answer is read.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Int32s, Int64s
from podium.schedulerplugin.snapshot import Snapshot

# A tally keeps an array by domain if one of this many domains holds pods, so memory stays in proportion.
_SPARSE = 64
# The most notes that are kept by a tally that is not read.
_NOTES = 16


class Domains(NamedTuple):
    """The domains of a tally: the domain of every node row now (-1 is none), and the number of ids."""

    column: Callable[[], Int32s]
    size: Callable[[], int]


def topology(snapshot: Snapshot, key: str) -> Domains:
    """Return the domains of a topology key: nodes with the same value of that label."""
    return Domains(lambda: snapshot.columns.column(key), lambda: snapshot.columns.values(key).size)


class Tally:
    """The pods that one question counts, by node row and by domain; some nodes are in no domain."""

    # A pod can bring ten thousand terms, each of which has a tally.
    __slots__ = (
        *("domains", "terminating", "rows", "counts", "total"),
        *("_noted", "_at", "_array", "_size", "_revision"),
    )

    def __init__(self, domains: Domains, *, terminating: bool = True) -> None:
        """Count in these domains; `terminating` says whether pods that are being deleted count as well."""
        self.domains = domains
        self.terminating = terminating
        self.rows: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.total = 0
        self._noted: list[tuple[Int64s, Int64s]] = []
        self._at: dict[int, int] = {}
        self._array: Int32s | None = None
        self._size = 1
        self._revision = -1

    def note(self, rows: Int64s, numbers: Int64s) -> None:
        """Note moves of pods on node rows, to be added before the next read."""
        self._noted.append((rows, numbers))
        if len(self._noted) >= _NOTES:
            self.work_in()

    def work_in(self) -> None:
        """Add the noted moves to the counts."""
        noted, self._noted = self._noted, []
        for rows, numbers in noted:
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

    def settle(self, revision: int) -> None:
        """Add noted moves, and follow domain changes of nodes up to a revision; call it before every read."""
        if self._noted:
            self.work_in()
        if revision == self._revision:
            return
        self._revision = revision
        if self.domains.size() >= self._size:
            # A higher power of two, so that all tallies of a key have one length, and new nodes need few new
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
