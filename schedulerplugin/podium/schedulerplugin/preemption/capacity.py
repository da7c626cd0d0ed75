"""Counts how many pods of a preemptor have room while units leave and return.

A search asks this most often. A placement answers it exactly and takes milliseconds. Here only the resources
of the nodes that suit the preemptor count. Pods with equal requests are one kind. For one kind the answer is
a sum over nodes, which one unit changes by a few terms. Several kinds are packed, the largest pods first and
on the tightest nodes.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple, Protocol

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s

# Up to this many kinds are packed in every order; of more kinds, only the largest come first.
_ALL_ORDERS = 3

# The resources of one pod of a unit on one node: the position of the node, and the amount of each resource.
Held = tuple[int, tuple[int, ...]]


class Kind(NamedTuple):
    """`number` pods with the same requests (`amounts`), on `nodes` (a mask over the positions).

    One node may hold `most` of them.
    """

    amounts: tuple[int, ...]
    number: int
    nodes: Bools
    most: int


class Capacity(Protocol):
    """The room for a preemptor while units leave and return.

    `step` is roughly what an answer costs. `unlimited` says that more pods than are wanted are counted.
    """

    step: int
    unlimited: bool

    def leave(self, pods: Sequence[Held]) -> None:
        """Free the room of these pods."""

    def come(self, pods: Sequence[Held]) -> None:
        """Take the room of these pods again."""

    def pods(self) -> int:
        """Return how many pods of the preemptor have room."""


def capacity(free: list[Int64s], kinds: list[Kind]) -> Capacity:
    """Return the capacity of nodes with so much `free` of each resource, by position."""
    return OneKind(free, kinds[0]) if len(kinds) == 1 else SeveralKinds(free, kinds)


class OneKind:
    """The capacity for pods that are alike: exact where nothing but resources and nodes decide."""

    step = 1
    unlimited = True

    def __init__(self, free: list[Int64s], kind: Kind) -> None:
        self._most = kind.most
        asked = [at for at, amount in enumerate(kind.amounts) if amount]
        self._asked = [(at, kind.amounts[at]) for at in asked]
        self._open = kind.nodes.tolist()
        self._free = [list(each) for each in zip(*(one.tolist() for one in free), strict=True)]
        self._slots = [self._count(node) for node in range(len(self._free))]
        self._pods = sum(self._slots)

    def leave(self, pods: Sequence[Held]) -> None:
        """Free the room of these pods."""
        for node, amounts in pods:
            left = self._free[node]
            for at, amount in enumerate(amounts):
                left[at] += amount
            self._changed(node)

    def come(self, pods: Sequence[Held]) -> None:
        """Take the room of these pods again."""
        for node, amounts in pods:
            left = self._free[node]
            for at, amount in enumerate(amounts):
                left[at] -= amount
            self._changed(node)

    def pods(self) -> int:
        """Return how many pods of the preemptor have room."""
        return self._pods

    def _changed(self, node: int) -> None:
        slots = self._count(node)
        self._pods += slots - self._slots[node]
        self._slots[node] = slots

    def _count(self, node: int) -> int:
        if not self._open[node]:
            return 0
        slots, left = self._most, self._free[node]
        for at, amount in self._asked:
            fit = left[at] // amount
            slots = min(slots, fit)
        return max(slots, 0)


class SeveralKinds:
    """The capacity for pods of several kinds: how many a packing finds room for."""

    step = 5
    unlimited = False

    def __init__(self, free: list[Int64s], kinds: list[Kind]) -> None:
        self._free = np.array(free, np.int64).reshape(len(free), len(kinds[0].nodes))
        self._kinds = kinds
        self._wanted = sum(kind.number for kind in kinds)
        self._orders = list(_orders(kinds, self._free.max(axis=1, initial=1)))

    def leave(self, pods: Sequence[Held]) -> None:
        """Free the room of these pods."""
        for node, amounts in pods:
            self._free[:, node] += amounts

    def come(self, pods: Sequence[Held]) -> None:
        """Take the room of these pods again."""
        for node, amounts in pods:
            self._free[:, node] -= amounts

    def pods(self) -> int:
        """Return how many pods of the preemptor have room."""
        alone = sum(min(int(slots(self._free, kind).sum()), kind.number) for kind in self._kinds)
        if alone < self._wanted:
            return alone
        best = 0
        for order in self._orders:
            best = max(best, sum(int(taken.sum()) for _, taken in packed(self._free, order)))
            if best == self._wanted:
                break
        return best

    def packing(self) -> list[tuple[Kind, Int64s]]:
        """Return how many pods of each kind go to each node, in the order that places the most."""
        found = [list(packed(self._free, order)) for order in self._orders]
        return max(found, key=lambda each: sum(int(taken.sum()) for _, taken in each))


def slots(free: Sequence[Int64s] | Int64s, kind: Kind) -> Int64s:
    """Return how many pods of a kind, and no others, have room on each node."""
    most = np.where(kind.nodes, kind.most, 0)
    for left, amount in zip(free, kind.amounts, strict=True):
        if amount:
            most = np.minimum(most, left // amount)
    return np.maximum(most, 0)


def packed(free: Int64s, order: Sequence[Kind]) -> Iterator[tuple[Kind, Int64s]]:
    """Yield how many pods of each kind go to each node, kind by kind, on the tightest nodes first."""
    left = free.copy()
    for at, kind in enumerate(order):
        most = slots(left, kind)
        # Among equally tight nodes, first those of least use to the kinds to come.
        later = sum((slots(left, each) for each in order[at + 1 :]), np.zeros_like(most))
        tightest = np.lexsort((later, np.where(most > 0, most, np.iinfo(np.int64).max)))
        before = np.cumsum(most[tightest]) - most[tightest]
        taken = np.zeros(len(most), np.int64)
        taken[tightest] = np.clip(kind.number - before, 0, most[tightest])
        left -= np.multiply.outer(np.array(kind.amounts, np.int64), taken)
        yield kind, taken


def _orders(kinds: list[Kind], largest: Int64s) -> Iterator[list[Kind]]:
    """Yield the orders in which kinds are packed: the largest first, then others while there are few."""

    def share(kind: Kind) -> float:
        parts = zip(kind.amounts, largest.tolist(), strict=True)
        return max((amount / max(int(most), 1) for amount, most in parts), default=0.0)

    largest_first = sorted(kinds, key=share, reverse=True)
    yield largest_first
    if len(kinds) <= _ALL_ORDERS:
        for order in permutations(largest_first):
            if any(one is not other for one, other in zip(order, largest_first, strict=True)):
                yield list(order)
