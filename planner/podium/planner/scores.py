"""Scores the nodes that passed the filters for a pod, as kube-scheduler's default profile, and breaks ties.

Every score is 0 to 100 for each node, in upstream's own arithmetic (whole numbers where it has them). So on
equal clusters both choose alike. Scores of allocation depend on the node alone and change with every
placement, so a caller that keeps them computes the changed rows again. Plugins score what pods prefer.

One score is Podium's own: accelerators are packed, whatever the strategy for cpu and memory. If they are
spread, no whole node is left for a gang, and no other pod can use the gaps.

Ties between equal nodes are broken by an order of each pod that is the same in every process. By name alone
all pods would begin with the same node. So would the next pod of a Job whose last pod failed on that node.
The order is a hash of the pod's UID and the node's name; Python's own hash() differs from process to process.
"""

import zlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from podium.api.podrequests import is_accelerator
from podium.api.schedulable import Schedulable
from podium.planner.arrays import Int64s, Rows
from podium.planner.filters.nodes import NodeCache
from podium.planner.framework import MAX_SCORE
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

# The weight of each kind in the sum (kube-scheduler's default profile).
ALLOCATED_WEIGHT = 1
BALANCED_WEIGHT = 1
# The resources in the allocation score, in the order of Shape.scored and Snapshot.scored.
SCORED_RESOURCES = ("cpu", "memory")


class Strategy(StrEnum):
    """Whether an emptier node is better (pods spread) or a fuller one (nodes are freed)."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"


class Weights(NamedTuple):
    """The weights of resources: cpu and memory in their mean, each accelerator in the sum of all kinds.

    `named` are weights of single accelerators, which take precedence over `accelerators`.
    """

    cpu: int = 1
    memory: int = 1
    accelerators: int = 0
    named: tuple[tuple[str, int], ...] = ()

    def weight(self, accelerator: str) -> int:
        """Return the weight of an accelerator."""
        return dict(self.named).get(accelerator, self.accelerators)


# The weights of kube-scheduler.
UPSTREAM = Weights()


class Scores:
    """The scores of one snapshot; rows are those of nodes that passed every filter for the shape."""

    def __init__(
        self,
        snapshot: Snapshot,
        strategy: Strategy = Strategy.LEAST_ALLOCATED,
        weights: Weights = UPSTREAM,
    ) -> None:
        self._snapshot = snapshot
        self._strategy = strategy
        self._weights = weights

    def allocation(self, shape: Shape, rows: Rows, copies: Int64s | int = 0) -> Int64s:
        """Return the weighted part that depends on the room of each node alone, whatever the choice.

        It counts `copies` of the pod as already there.
        """
        allocated, balanced = self.allocated(shape, rows, copies), self.balanced(shape, rows, copies)
        points = allocated * ALLOCATED_WEIGHT + balanced * BALANCED_WEIGHT
        accelerators = self._accelerators(shape)
        return points + self._packed(accelerators, rows, copies) if accelerators else points

    def allocation_at(self, shape: Shape) -> Callable[[int], int]:
        """Return a function that computes `allocation` of one row; valid until an object is applied.

        A placement changes one row, for which plain numbers are many times as fast as arrays.
        """
        snapshot, requests = self._snapshot, dict(shape.requests)
        emptier = self._strategy is Strategy.LEAST_ALLOCATED
        scored_resources = [
            (
                *(snapshot.allocatable[at].data, weight, scored.data, extra),
                *(snapshot.used[at].data, requests.get(name, 0)),
            )
            for name, weight, scored, extra in zip(
                SCORED_RESOURCES, self._weights[:2], snapshot.scored, shape.scored, strict=True
            )
            if (at := snapshot.resource.get(name)) is not None
        ]
        balances = any(name in requests for name in SCORED_RESOURCES)
        accelerators = [
            (snapshot.allocatable[at].data, snapshot.used[at].data, amount, weight)
            for at, amount, weight in self._accelerators(shape)
        ]

        def score(row: int) -> int:
            points = weights = packed = 0
            before: list[float] = []
            after: list[float] = []
            for room, weight, scored, extra, used, requested in scored_resources:
                capacity = room[row]
                if not capacity:
                    continue
                free = capacity - scored[row] - extra
                free = free if free > 0 else 0  # noqa: FURB136 # max() costs more than all else on the line
                points += (free if emptier else capacity - free) * MAX_SCORE // capacity * weight
                weights += weight
                held = used[row]
                before.append(held / capacity)
                after.append((held + requested) / capacity)
            for room, used, amount, weight in accelerators:
                held = used[row]
                share = min(held + amount, room[row]) * MAX_SCORE // (room[row] or 1)
                packed += (share + (MAX_SCORE if held else 0)) // 2 * weight
            packed = packed // len(accelerators) if accelerators else 0
            allocated = (points // weights if weights else 0) * ALLOCATED_WEIGHT + packed
            if not balances:
                return allocated
            balanced = MAX_SCORE // 2 + (MAX_SCORE // 2 + _evenness_at(after) - _evenness_at(before)) // 2
            return allocated + balanced * BALANCED_WEIGHT

        return score

    def allocated(self, shape: Shape, rows: Rows, copies: Int64s | int = 0) -> Int64s:
        """Return how empty, or how full, each node would be (NodeResourcesFit).

        A container without a cpu or memory request counts with 100m or 200Mi here, because otherwise all pods
        without requests would go to one node. A resource the node does not have is left out of its mean.
        """
        snapshot = self._snapshot
        points = np.zeros(len(rows), np.int64)
        weights = np.zeros(len(rows), np.int64)
        scored_resources = zip(
            SCORED_RESOURCES, self._weights[:2], shape.scored, snapshot.scored, strict=True
        )
        for name, weight, extra, scored in scored_resources:
            capacity = self._capacity(name, rows)
            free = np.maximum(capacity - scored[rows] - (copies + 1) * extra, 0)
            amount = free if self._strategy is Strategy.LEAST_ALLOCATED else capacity - free
            points += _percent(amount, capacity) * weight
            weights += (capacity > 0) * weight
        return points // np.maximum(weights, 1)

    def balanced(self, shape: Shape, rows: Rows, copies: Int64s | int = 0) -> Int64s:
        """Return how much more even each node's use of cpu and memory gets (NodeResourcesBalancedAllocation).

        75 leaves the balance as it is. A pod that requests neither gets 0 everywhere.
        """
        requests = dict(shape.requests)
        requested = [requests.get(name, 0) for name in SCORED_RESOURCES]
        if not any(requested):
            return np.zeros(len(rows), np.int64)
        capacities = [self._capacity(name, rows) for name in SCORED_RESOURCES]
        used = [
            self._used(name, rows) + copies * more
            for name, more in zip(SCORED_RESOURCES, requested, strict=True)
        ]
        before = _evenness(used, capacities)
        after = _evenness([have + more for have, more in zip(used, requested, strict=True)], capacities)
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2

    def _accelerators(self, shape: Shape) -> list[tuple[int, int, int]]:
        """Return the accelerators that a pod requests: position, amount, weight."""
        resource = self._snapshot.resource
        return [
            (resource[name], amount, weight)
            for name, amount in shape.requests
            if is_accelerator(name) and name in resource and (weight := self._weights.weight(name))
        ]

    def _packed(self, accelerators: list[tuple[int, int, int]], rows: Rows, copies: Int64s | int) -> Int64s:
        """Return the weighted score for using up the accelerators of each node.

        Half of it is for a node with some in use already, so that whole nodes stay free.
        """
        points = np.zeros(len(rows), np.int64)
        for at, amount, weight in accelerators:
            held, capacity = (
                self._snapshot.used[at][rows] + copies * amount,
                self._snapshot.allocatable[at][rows],
            )
            share = _percent(np.minimum(held + amount, capacity), capacity)
            points += (share + (held > 0) * MAX_SCORE) // 2 * weight
        return points // max(len(accelerators), 1)

    def _capacity(self, name: str, rows: Rows) -> Int64s:
        return self._amounts(self._snapshot.allocatable, name, rows)

    def _used(self, name: str, rows: Rows) -> Int64s:
        return self._amounts(self._snapshot.used, name, rows)

    def _amounts(self, arrays: Mapping[int, Int64s], name: str, rows: Rows) -> Int64s:
        at = self._snapshot.resource.get(name)
        return np.zeros(len(rows), np.int64) if at is None else arrays[at][rows]


def _percent(amount: Int64s, whole: Int64s) -> Int64s:
    """Return the whole percentage, 0 of nothing.

    Amounts are at most requests.LARGEST, so the product fits in 64 bits.
    """
    return amount * MAX_SCORE // np.maximum(whole, 1)


def _evenness(used: list[Int64s], capacities: list[Int64s]) -> Int64s:
    """Return MAX_SCORE less the standard deviation of the two used parts; 100 for a node without both."""
    first, second = (
        np.minimum(have / np.maximum(room, 1), 1.0) for have, room in zip(used, capacities, strict=True)
    )
    # In place: fewer arrays at one time mean less memory traffic.
    first -= second
    np.abs(first, out=first)
    first /= 2
    first *= (capacities[0] > 0) & (capacities[1] > 0)
    np.subtract(1, first, out=first)
    first *= MAX_SCORE
    return first.astype(np.int64)


def _evenness_at(parts: list[float]) -> int:
    if len(parts) < len(SCORED_RESOURCES):
        return MAX_SCORE
    first, second = parts
    if first > 1 or second > 1:
        first, second = min(first, 1.0), min(second, 1.0)
    return int((1 - abs((first - second) / 2)) * MAX_SCORE)


Marks = npt.NDArray[np.uint64]

# The finalizer of MurmurHash3: every bit of the input changes every bit of the output.
_SHIFT = np.uint64(33)
_FACTORS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


class Ties:
    """The orders of the nodes of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._kept = NodeCache[Marks](snapshot)

    def first(self, pod_row: int, rows: Rows) -> int:
        """Return the place of the first of some node rows in a pod's order."""
        return int(self._numbers(pod_row, rows).argmin())

    def order(self, pod_row: int, rows: Rows) -> Rows:
        """Return the places of node rows in a pod's order."""
        return np.argsort(self._numbers(pod_row, rows), kind="stable")

    def _numbers(self, pod_row: int, rows: Rows) -> Marks:
        marks = self._kept.get("nodes", self._marks)[rows]
        pod = self._snapshot.pods[pod_row]
        numbers = marks | np.uint64((_mark(_identity(pod)) if pod is not None else 0) << 32)
        for factor in _FACTORS:
            numbers ^= numbers >> _SHIFT
            numbers *= factor
        numbers ^= numbers >> _SHIFT
        return numbers

    def _marks(self) -> Marks:
        return np.array([_mark(name or "") for name in self._snapshot.names], np.uint64)


def _identity(pod: Schedulable) -> str:
    metadata = pod.metadata
    return metadata.uid or f"{metadata.namespace}/{metadata.name}"


def _mark(text: str) -> int:
    return zlib.crc32(text.encode())
