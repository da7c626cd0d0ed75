"""Amounts that nodes offer and sums that their pods take: one contiguous array for each resource.

A resource has arrays only while a node offers it. Pods can name any number of resources that no node offers.
Such a pod fits nowhere, and its amounts decide nothing, so they are not stored. Two more sums are for scores
(requests with kube-scheduler's defaults).

Sums are exact. A sum above `MOST` reads as `MOST`, so 64-bit arithmetic on it cannot wrap into free room. Its
exact value is then kept aside, so the sum is right again when the pods are gone.
"""

from collections.abc import Iterable, Mapping
from itertools import count

import numpy as np

from podium.schedulerplugin.arrays import Int32s, Int64s, Rows, grown

# The amounts that a pod takes from its node: (position of the sum, amount), without zeros.
Needs = tuple[tuple[int, int], ...]

# The largest sum that is stored. Readers subtract it from what a node offers (up to 2**52) and add amounts of
# pods (up to 2**52 each). A thousand of them still stay within 64 bits.
MOST = 2**62

# The positions of the two sums that serve scores, as in Shape.scored, and the first of a resource.
SCORED = _SCORED_CPU, _SCORED_MEMORY = 0, 1
_FIRST_RESOURCE = len(SCORED)


class Sums:
    """Sums by node row, and by pod row the amounts that they consist of. Growth replaces arrays.

    `resource` gives the position of a resource in `allocatable` and `used` (by node) and in `requests` (by
    pod). A position is not reused. `layout` grows when an array comes, goes or is replaced. `scored` are
    milli cpu and bytes of memory by node.
    """

    def __init__(self) -> None:
        self.layout = 0
        self.resource: dict[str, int] = {}
        self.allocatable: dict[int, Int64s] = {}
        self.used: dict[int, Int64s] = {}
        self.requests: dict[int, Int64s] = {}
        # A view reads and writes one integer several times as fast as the array does.
        self._views: dict[int, memoryview] = {}
        # The number of nodes that offer the resource of each position.
        self._offers: dict[int, int] = {}
        # The exact value of each sum past MOST, by (position of the sum, node row).
        self._beyond: dict[tuple[int, int], int] = {}
        self._nodes = self._pods = 0
        self._positions = count(_FIRST_RESOURCE)
        for index in SCORED:
            self._make_room(index)

    @property
    def scored(self) -> tuple[Int64s, Int64s]:
        """Milli cpu and bytes of memory on each node as scores count them."""
        return self.used[_SCORED_CPU], self.used[_SCORED_MEMORY]

    def needs(self, requests: Iterable[tuple[str, int]], scored: tuple[int, int]) -> Needs:
        """Return the amounts that a pod with these requests takes of the resources that a node offers now."""
        resource = self.resource
        amounts = [(resource[name], amount) for name, amount in requests if name in resource]
        amounts += (_SCORED_CPU, scored[0]), (_SCORED_MEMORY, scored[1])
        return tuple((index, amount) for index, amount in amounts if amount)

    def add(self, needs: Needs, node_row: int, sign: int) -> None:
        """Add the amounts of one pod (sign 1), or subtract them (-1)."""
        views, beyond = self._views, self._beyond
        for index, amount in needs:
            view = views[index]
            total = view[node_row] + sign * amount
            if total > MOST or beyond:
                self._add_exactly(index, node_row, sign * amount)
            else:
                view[node_row] = total

    def add_many(self, pod_rows: Rows, node_rows: Int32s, sign: int) -> None:
        """Add or subtract the amounts of many pods, each on its node."""
        nodes = node_rows.astype(np.intp)
        for index, by_pod in self.requests.items():
            self._add_all(index, by_pod.take(pod_rows), nodes, sign)

    def note(self, pod_row: int, before: Needs, after: Needs) -> None:
        """Store the amounts of a pod that counts on no node at the moment."""
        for index, _ in before:
            self.requests[index][pod_row] = 0
        for index, amount in after:
            self.requests[index][pod_row] = amount

    def offer(self, node_row: int, amounts: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """Set what a node offers, every amount above zero; return the new and the removed resources.

        A new resource has empty arrays (see `fill`). A removed one has none: compute its pods' needs again.
        """
        came = [name for name in amounts if name not in self.resource]
        for name in came:
            at = self.resource[name] = next(self._positions)
            self._offers[at] = 0
            self.allocatable[at] = np.zeros(self._nodes, np.int64)
            self._make_room(at)
        went = []
        for name, at in self.resource.items():
            array, amount = self.allocatable[at], amounts.get(name, 0)
            self._offers[at] += bool(amount) - bool(array.item(node_row))
            array[node_row] = amount
            if not self._offers[at]:
                went.append(name)
        for name in went:
            self._drop(self.resource.pop(name))
        return came, went

    def fill(self, name: str, amounts: Int64s, node: Int32s) -> None:
        """Set the pods' requests for a new resource, by row; `node` is where each pod counts."""
        at = self.resource[name]
        self.requests[at][:] = amounts
        rows = np.flatnonzero((amounts > 0) & (node >= 0))
        self._add_all(at, amounts[rows], node[rows].astype(np.intp), 1)

    def grow_nodes(self, size: int) -> None:
        """Make room for nodes up to a row."""
        self._nodes = size
        self.layout += 1
        for arrays in (self.allocatable, self.used):
            arrays.update({at: grown(array, size) for at, array in arrays.items()})
        self._views = {at: array.data for at, array in self.used.items()}

    def grow_pods(self, size: int) -> None:
        """Make room for pods up to a row."""
        self._pods = size
        self.layout += 1
        self.requests.update({at: grown(array, size) for at, array in self.requests.items()})

    def _add_all(self, index: int, amounts: Int64s, nodes: Rows, sign: int) -> None:
        most = int(amounts.max(initial=0))
        if not most:
            return
        by_node = self.used[index]
        may_pass = sign > 0 and int(by_node.max(initial=0)) + most * len(amounts) > MOST
        if may_pass or self._beyond:
            for row, amount in zip(nodes.tolist(), amounts.tolist(), strict=True):
                self._add_exactly(index, row, sign * amount)
        else:
            (np.add if sign > 0 else np.subtract).at(by_node, nodes, amounts)

    def _add_exactly(self, index: int, node_row: int, amount: int) -> None:
        key, view = (index, node_row), self._views[index]
        total = self._beyond.pop(key, view[node_row]) + amount
        if total > MOST:
            self._beyond[key] = total
        view[node_row] = min(total, MOST)

    def _make_room(self, index: int) -> None:
        """Create the arrays of a sum."""
        self.layout += 1
        self.used[index] = np.zeros(self._nodes, np.int64)
        self.requests[index] = np.zeros(self._pods, np.int64)
        self._views[index] = self.used[index].data

    def _drop(self, at: int) -> None:
        """Drop the arrays of a resource that no node offers any more."""
        self.layout += 1
        for by_position in (self.allocatable, self.used, self.requests, self._views, self._offers):
            del by_position[at]
        for key in [key for key in self._beyond if key[0] == at]:
            del self._beyond[key]
