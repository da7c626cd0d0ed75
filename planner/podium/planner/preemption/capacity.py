"""Counts the pods of a preemptor that have room while units leave and return, and packs pods that differ.

A search asks for the room most often. A placement answers it exactly and takes milliseconds. Here only the
resources of the nodes that suit the preemptor count. Pods with equal requests are one kind. For one kind the
answer is a sum over nodes, which one unit changes by a few terms. Several kinds are packed, the largest pods
first and on the tightest nodes.

Packing also places pods. They are placed in the order of their priority, age and name, each on the node with
the best score. A group whose members differ may find no place in that order, and one in another order: a
small member takes the only empty node. Then its members are packed, and every filter checks the result.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple, Protocol

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows, summed
from podium.planner.deadline import Deadline
from podium.planner.filters.chain import Chain
from podium.planner.filters.counters import in_conflict
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

# Up to this many kinds are packed in every order; of more kinds, only the largest come first.
_ALL_ORDERS = 3

# The resources of one pod of a unit on one node: the position of the node, and the amount of each resource.
PodUsage = tuple[int, tuple[int, ...]]


class PodKind(NamedTuple):
    """`number` pods with the same requests (`amounts`), on `nodes` (a mask over the positions).

    One node may hold `most` of them.
    """

    amounts: tuple[int, ...]
    number: int
    nodes: Bools
    most: int


class PodCapacity(Protocol):
    """The room for a preemptor while units leave and return.

    `step` is roughly what the last answer cost. `unlimited` says that more pods than are wanted are counted,
    and `additive` that each node counts alone. `areas` return the area of a node whose room counts together.
    """

    step: int
    unlimited: bool
    additive: bool
    areas: tuple[Callable[[int], int], ...]

    def remove(self, pods: Sequence[PodUsage]) -> None:
        """Free the room of these pods."""

    def restore(self, pods: Sequence[PodUsage]) -> None:
        """Take the room of these pods again."""

    def pod_count(self) -> int:
        """Return how many pods of the preemptor have room."""


def capacity(free: list[Int64s], pods: "PodKinds") -> PodCapacity:
    """Return the capacity of nodes with so much `free` of each resource, by position.

    For pods of several kinds it does not count slices.
    """
    if len(pods.kinds) > 1:
        return MixedCapacity(free, pods.kinds)
    (kind,) = pods.kinds
    return OneKindCapacity(free, kind) if pods.slices is None else SlicedCapacity(free, kind, pods.slices)


class OneKindCapacity:
    """The capacity for pods that are alike: exact where nothing but resources and nodes decide."""

    step = 1
    unlimited = additive = True
    areas: tuple[Callable[[int], int], ...] = (int,)

    def __init__(self, free: list[Int64s], kind: PodKind) -> None:
        self._most = kind.most
        asked = [at for at, amount in enumerate(kind.amounts) if amount]
        self._asked = [(at, kind.amounts[at]) for at in asked]
        self._open = kind.nodes.tolist()
        self._free = [list(amounts) for amounts in zip(*(column.tolist() for column in free), strict=True)]
        self._slots = [self._count(node) for node in range(len(self._free))]
        self._pods = sum(self._slots)

    def remove(self, pods: Sequence[PodUsage]) -> None:
        """Free the room of these pods."""
        for node, amounts in pods:
            left = self._free[node]
            for at, amount in enumerate(amounts):
                left[at] += amount
            self._changed(node)

    def restore(self, pods: Sequence[PodUsage]) -> None:
        """Take the room of these pods again."""
        for node, amounts in pods:
            left = self._free[node]
            for at, amount in enumerate(amounts):
                left[at] -= amount
            self._changed(node)

    def pod_count(self) -> int:
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


class SlicedCapacity(OneKindCapacity):
    """The room for equal pods in slices: whole slices by domain, and the last slice if it is smaller."""

    additive = False

    def __init__(self, free: list[Int64s], kind: PodKind, slices: "SliceDomains") -> None:
        super().__init__(free, kind)
        self._size = slices.size
        self._domain_of: list[int] = slices.of.tolist()
        self.areas = (int, self._domain_of.__getitem__)
        self._rooms: list[int] = slices.by_domain(np.array(self._slots, np.int64)).tolist()

    def pod_count(self) -> int:
        """Return how many pods of the preemptor have room in slices (see `SliceDomains.in_slices`)."""
        whole = sum(room // self._size for room in self._rooms) * self._size
        return whole + max((room % self._size for room in self._rooms), default=0)

    def _changed(self, node: int) -> None:
        before = self._slots[node]
        super()._changed(node)
        number = self._domain_of[node]
        if number >= 0:
            self._rooms[number] += self._slots[node] - before


# The effort of packing few nodes, and the numbers of nodes, times orders, that are few and many.
_PACKING, _FEW_NODES, _MANY_NODES = 5, 512, 2_048


class MixedCapacity:
    """The capacity for pods of several kinds: how many a packing finds room for."""

    unlimited = additive = False
    areas: tuple[Callable[[int], int], ...] = (int,)

    def __init__(self, free: list[Int64s], kinds: list[PodKind]) -> None:
        self._free = np.array(free, np.int64).reshape(len(free), len(kinds[0].nodes))
        self._kinds = kinds
        self._wanted = sum(kind.number for kind in kinds)
        self._orders = list(_orders(kinds, self._free.max(axis=1, initial=1)))
        # The largest first is nearly always the best order, and a search asks thousands of times.
        few = self._free.shape[1] * len(self._orders) <= _MANY_NODES
        self._counted = self._orders if few else self._orders[:1]
        # Up to some hundred nodes, numpy's calls take most of the time.
        self.step = _PACKING * max(1, self._free.shape[1] * len(self._counted) // _FEW_NODES)

    def remove(self, pods: Sequence[PodUsage]) -> None:
        """Free the room of these pods."""
        for node, amounts in pods:
            self._free[:, node] += amounts

    def restore(self, pods: Sequence[PodUsage]) -> None:
        """Take the room of these pods again."""
        for node, amounts in pods:
            self._free[:, node] -= amounts

    def pod_count(self) -> int:
        """Return how many pods of the preemptor have room."""
        places = [slots(self._free, kind) for kind in self._kinds]
        alone = sum(
            min(int(there.sum()), kind.number) for there, kind in zip(places, self._kinds, strict=True)
        )
        if alone < self._wanted:
            return alone
        # Most nodes have room for no pod while most units stay.
        open_ = np.logical_or.reduce([there > 0 for there in places])
        free = self._free[:, open_]
        best = 0
        for order in self._counted:
            there = [kind._replace(nodes=kind.nodes[open_]) for kind in order]
            best = max(best, sum(int(taken.sum()) for _, taken in packed(free, there)))
            if best == self._wanted:
                break
        return best

    def packing(self) -> list[tuple[PodKind, Int64s]]:
        """Return how many pods of each kind go to each node, in the order that places the most."""
        packings = [list(packed(self._free, order)) for order in self._orders]
        return max(packings, key=lambda packing: sum(int(taken.sum()) for _, taken in packing))


def slots(free: Sequence[Int64s] | Int64s, kind: PodKind) -> Int64s:
    """Return how many pods of a kind, and no others, have room on each node."""
    most = np.where(kind.nodes, kind.most, 0)
    for left, amount in zip(free, kind.amounts, strict=True):
        if amount:
            most = np.minimum(most, left // amount)
    return np.maximum(most, 0)


def packed(free: Int64s, order: Sequence[PodKind]) -> Iterator[tuple[PodKind, Int64s]]:
    """Yield how many pods of each kind go to each node, kind by kind, on the tightest nodes first."""
    left = free.copy()
    for at, kind in enumerate(order):
        most = slots(left, kind)
        # Among equally tight nodes, first those of least use to the kinds to come.
        later = sum((slots(left, coming) for coming in order[at + 1 :]), np.zeros_like(most))
        tightest = np.lexsort((later, np.where(most > 0, most, np.iinfo(np.int64).max)))
        before = np.cumsum(most[tightest]) - most[tightest]
        taken = np.zeros(len(most), np.int64)
        taken[tightest] = np.clip(kind.number - before, 0, most[tightest])
        left -= np.multiply.outer(np.array(kind.amounts, np.int64), taken)
        yield kind, taken


def _orders(kinds: list[PodKind], largest: Int64s) -> Iterator[list[PodKind]]:
    """Yield the orders in which kinds are packed: the largest first, then others while there are few."""

    def share(kind: PodKind) -> float:
        parts = zip(kind.amounts, largest.tolist(), strict=True)
        return max((amount / max(int(most), 1) for amount, most in parts), default=0.0)

    largest_first = sorted(kinds, key=share, reverse=True)
    yield largest_first
    if len(kinds) <= _ALL_ORDERS:
        for order in permutations(largest_first):
            if any(first is not second for first, second in zip(order, largest_first, strict=True)):
                yield list(order)


# If a preemptor has more kinds of pods, they are not packed: time grows with the kinds, which a tenant
# chooses.
MOST_KINDS = 32
_HOST = "kubernetes.io/hostname"


class SliceDomains(NamedTuple):
    """The size of the slices that pods are placed in, and the domain of each node position, -1 for none."""

    size: int
    of: Int32s

    def in_slices(self, places: Int64s) -> int:
        """Return how many pods have room in slices, with so many places on each node.

        These are whole slices, and a last one that may be smaller.
        """
        rooms = self.by_domain(places)
        return int((rooms // self.size).sum()) * self.size + int((rooms % self.size).max(initial=0))

    def by_domain(self, places: Int64s) -> Int64s:
        """Return the places in each domain."""
        return summed(places, self.of, int(self.of.max(initial=-1)) + 1)


class PodKinds(NamedTuple):
    """The pods to place by kind: `rows` of each, and the `kinds` over the positions of `nodes` (node rows).

    `resources` are the positions of the resources that any of them requests. `slices` is None for pods that
    are not placed in slices.
    """

    rows: list[list[int]]
    kinds: list[PodKind]
    nodes: Rows
    resources: list[int]
    slices: SliceDomains | None = None

    def free(self, snapshot: Snapshot) -> list[Int64s]:
        """Return the free room of each resource by node, without preemption."""
        return [snapshot.allocatable[at][self.nodes] - snapshot.used[at][self.nodes] for at in self.resources]


def asked(chain: Chain, shape: Shape) -> Shape:
    """Return the part of a shape that decides where it fits; volumes that differ in name are alike."""
    alike = shape._replace(needs=tuple(need.alike for need in shape.needs))
    return alike._replace(labels=(), scored=(0, 0)) if chain.resources_only(shape) else alike


def kinds_of(chain: Chain, rows: Sequence[int], needed: int, within: Bools | None) -> PodKinds | None:
    """Return the kinds of the `needed` pods with the least requests, first of equals; None for too many."""
    snapshot = chain.snapshot
    by_shape: dict[Shape, list[int]] = {}
    for row in _smallest(snapshot, rows, needed):
        shape = snapshot.shape_at(row)
        by_shape.setdefault(asked(chain, shape), []).append(row)
    if len(by_shape) > MOST_KINDS:
        return None
    masks = [chain.static(snapshot.shape_at(alike[0])) for alike in by_shape.values()]
    if within is not None:
        masks = [mask & within for mask in masks]
    # By name, because a search takes the first of equal nodes.
    order = chain.by_name()
    nodes = order[np.logical_or.reduce(masks)[order]]
    # A pod that requests a resource that no node offers suits no node.
    names = sorted({name for shape in by_shape for name, _ in shape.requests if name in snapshot.resource})
    kinds = [
        PodKind(
            tuple(dict(shape.requests).get(name, 0) for name in names),
            len(rows_of_shape),
            mask[nodes],
            1 if _alone(chain, shape) else len(rows_of_shape),
        )
        for (shape, rows_of_shape), mask in zip(by_shape.items(), masks, strict=True)
    ]
    return PodKinds(list(by_shape.values()), kinds, nodes, [snapshot.resource[name] for name in names])


def place_packed(chain: Chain, rows: Sequence[int], needed: int, deadline: Deadline) -> dict[int, int]:
    """Pack pods of several kinds, and assume those that every filter accepts; return node rows by pod row."""
    pods = kinds_of(chain, rows, needed, None)
    placed: dict[int, int] = {}
    if pods is None or len(pods.kinds) < 2:
        return placed
    snapshot = chain.snapshot
    left = {id(kind): list(rows_of_kind) for kind, rows_of_kind in zip(pods.kinds, pods.rows, strict=True)}
    for kind, taken in MixedCapacity(pods.free(snapshot), pods.kinds).packing():
        for at in np.repeat(pods.nodes, taken).tolist():
            deadline.enforce()
            row = left[id(kind)].pop(0)
            if chain.fits(snapshot.shape_at(row), at):
                snapshot.assume(row, at)
                placed[row] = at
    return placed


def _smallest(snapshot: Snapshot, rows: Sequence[int], needed: int) -> Sequence[int]:
    if needed >= len(rows):
        return rows
    most = {name: int(snapshot.allocatable[at].max(initial=1)) for name, at in snapshot.resource.items()}

    def share(row: int) -> float:
        shape = snapshot.shape_at(row)
        return max((amount / max(most.get(name, 1), 1) for name, amount in shape.requests), default=0.0)

    return sorted(rows, key=share)[:needed]


def _alone(chain: Chain, shape: Shape) -> bool:
    """Return whether pods of a shape exclude each other from one host."""
    if in_conflict(shape, shape, on_node=True):
        return True
    return any(node_filter.alone(shape) for node_filter in chain.dynamic)
