"""Counts the pods of a preemptor that have room while units leave and return, and packs pods that differ.

A search asks for the room most often. A placement answers it exactly and takes milliseconds. Here only the
resources of the nodes that suit the preemptor count. Pods with equal requests are one kind. For one kind the
answer is a sum over nodes, which one unit changes by a few terms. Several kinds are packed, the largest pods
first and on the tightest nodes.

Packing also places pods. They are placed in the order of their priority, age and name, each on the node with
the best score. A group whose members differ may find no place in that order, and one in another order: a
small member takes the only empty node. Then its members are packed, and every filter checks the result.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations
from operator import add
from typing import NamedTuple, Protocol

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows, summed
from podium.planner.deadline import Deadline
from podium.planner.filters.chain import Chain
from podium.planner.framework import FULL, DomainLimit
from podium.planner.reprieve import PodsByShape
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

    `step` is roughly what the last answer cost. `unlimited` says that more pods than are wanted are counted.
    """

    step: int
    unlimited: bool

    def remove(self, pods: Sequence[PodUsage]) -> None:
        """Free the room of these pods."""

    def restore(self, pods: Sequence[PodUsage]) -> None:
        """Take the room of these pods again."""

    def pod_count(self) -> int:
        """Return how many pods of the preemptor have room."""


def capacity(free: list[Int64s], pods: "PodKinds") -> PodCapacity:
    """Return the capacity of nodes with so much `free` of each resource, by position.

    For pods of several kinds it does not count slices and limits.
    """
    if len(pods.kinds) > 1:
        return MixedCapacity(free, pods.kinds)
    (kind,) = pods.kinds
    if not pods.limits and pods.slices is None:
        return OneKindCapacity(free, kind)
    return LimitedCapacity(free, kind, pods.limits, pods.slices)


class OneKindCapacity:
    """The capacity for pods that are alike: exact where nothing but resources and nodes decide."""

    step = 1
    unlimited = True

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
        more = self._count(node) - self._slots[node]
        if more:
            self._slots[node] += more
            self._add(node, more)

    def _add(self, node: int, more: int) -> None:  # noqa: ARG002 - each node counts alone
        self._pods += more

    def _count(self, node: int) -> int:
        if not self._open[node]:
            return 0
        slots, left = self._most, self._free[node]
        for at, amount in self._asked:
            fit = left[at] // amount
            slots = min(slots, fit)
        return max(0, slots)


class LimitedCapacity(OneKindCapacity):
    """The room for equal pods of which domains take a limited number, or only whole slices.

    If there are several limits, each counts alone, so the answer is a bound.
    """

    step = 2

    def __init__(
        self,
        free: list[Int64s],
        kind: PodKind,
        limits: Sequence[DomainLimit],
        slices: "SliceDomains | None" = None,
    ) -> None:
        super().__init__(free, kind)
        self._counts: list[_PodsInDomains | _PodsInSlices] = [
            _PodsInDomains(limit, self._slots) for limit in limits
        ]
        if slices is not None:
            self._counts.append(_PodsInSlices(slices, self._slots))

    def pod_count(self) -> int:
        """Return how many pods of the preemptor have room."""
        return min(count.pods for count in self._counts)

    def _add(self, node: int, more: int) -> None:
        for count in self._counts:
            count.add(node, more)


class _PodsInSlices:
    """Counts equal pods in slices: whole slices by domain, and the last slice if it is smaller."""

    def __init__(self, slices: "SliceDomains", slots: Sequence[int]) -> None:
        self._size = slices.size
        self._domain_of: list[int] = slices.of.tolist()
        self._rooms: list[int] = slices.by_domain(np.array(slots, np.int64)).tolist()

    @property
    def pods(self) -> int:
        """The number of pods that have room in slices (see `SliceDomains.in_slices`)."""
        whole = sum(room // self._size for room in self._rooms) * self._size
        return whole + max((room % self._size for room in self._rooms), default=0)

    def add(self, node: int, more: int) -> None:
        """Count more, or fewer, places on a node."""
        number = self._domain_of[node]
        if number >= 0:
            self._rooms[number] += more


class _PodsInDomains:
    """Counts the `pods` that a limit allows, in a few steps for each node that changes."""

    def __init__(self, limit: DomainLimit, slots: Sequence[int]) -> None:
        self._limit = limit
        self._domain_of: list[int] = limit.domains.tolist()
        self._rooms = [0] * len(limit.held)
        for domain, room in zip(self._domain_of, slots, strict=True):
            self._rooms[domain] += room
        # The number of domains by the pods that they could hold, so that the least is found without a search.
        self._holding = Counter(map(add, limit.held, self._rooms)) if limit.even else Counter[int]()
        self._recount()

    def add(self, node: int, more: int) -> None:
        """Count more, or fewer, places on a node."""
        domain = self._domain_of[node]
        held, before = self._limit.held[domain], self._rooms[domain]
        after = self._rooms[domain] = before + more
        if self._limit.even:
            holding = self._holding
            holding[held + after] += 1
            holding[held + before] -= 1
            if not holding[held + before]:
                del holding[held + before]
            if held + after < self._least or self._least not in holding:
                self._recount()
                return
        self.pods += self._within(after, held) - self._within(before, held)

    def _recount(self) -> None:
        self._least = min(self._holding, default=0)
        self._most = self._least + self._limit.level
        self.pods = sum(map(self._within, self._rooms, self._limit.held))

    def _within(self, room: int, held: int) -> int:
        """Return how many of the places in a domain the limit allows."""
        return max(0, min(room, self._most - held))


# The effort of packing few nodes, and the numbers of nodes, times orders, that are few and many.
_PACKING, _FEW_NODES, _MANY_NODES = 20, 2_048, 2_048


# Orders nodes without room last.
_NO_ROOM = np.iinfo(np.int64).max


class MixedCapacity:
    """The capacity for pods of several kinds: how many a packing finds room for."""

    unlimited = False

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
        tightest = np.lexsort((later, np.where(most > 0, most, _NO_ROOM)))
        most = most[tightest]
        taken = np.zeros(len(most), np.int64)
        taken[tightest] = np.maximum(np.minimum(kind.number - (np.cumsum(most) - most), most), 0)
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
    are not placed in slices. `limits` are those of pods of one kind, by position.
    """

    rows: list[list[int]]
    kinds: list[PodKind]
    nodes: Rows
    resources: list[int]
    slices: SliceDomains | None = None
    limits: tuple[DomainLimit, ...] = ()

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
    return any(_of_nodes(domains) for domains in _kept_apart(chain, shape))


def limits_of(chain: Chain, shape: Shape) -> Iterator[DomainLimit]:
    """Yield the limits on pods of one shape in each domain, except that of one pod a host."""
    yield from chain.limits(shape)
    for domains in _kept_apart(chain, shape):
        if not _of_nodes(domains):
            # A node in no domain takes any number.
            yield DomainLimit(domains, [*([0] * (int(domains.max(initial=-1)) + 1)), -FULL], 1)


def _kept_apart(chain: Chain, shape: Shape) -> Iterator[Int32s]:
    """Yield the domains, by node row, of which each takes one pod of a shape."""
    if not chain.resources_only(shape):
        one = PodsByShape({0: shape}, np.zeros(1, np.int32))
        for exclusion in chain.exclusions({0: shape}, one):
            if len(exclusion.pods):
                yield exclusion.domains


def _of_nodes(domains: Int32s) -> bool:
    """Return whether each domain is one node."""
    return bool(np.bincount(domains[domains >= 0]).max(initial=0) <= 1)
