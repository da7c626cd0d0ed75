"""What nodes have, and what their pods take, added up: one contiguous array a resource, in exact integers.

Beside the resources two sums serve scores (requests with kube-scheduler's defaults), and one, the strain,
says how near a node is to sums that 64 bits cannot hold. Only a hand-made dump gets there; the sums then wrap
and unwrap again on the way back, and the node is closed in between.
"""

from collections.abc import Iterable

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int32s, Int64s, Rows, grown

# What a pod takes from its node: (index of the sum, amount), no amount being zero.
Needs = tuple[tuple[int, int], ...]

_SCORED_CPU, _SCORED_MEMORY, _STRAIN, _FIRST_RESOURCE = range(4)
# Strain counts in units of 2**40: pods of less than that leave none, and a node's sums stay under 2**63 while
# its strain is under the limit (2**62 of strain, and less than 2**40 more from each of up to 2**22 pods).
_STRAIN_BITS = 40
_STRAIN_LIMIT = 2**22


class Sums:
    """Sums by node row, and by pod row what each is made of; arrays are replaced when they grow.

    `resource` gives the position of a resource in `resources`, and that of its arrays in `allocatable` and
    `used` (by node) and `requests` (by pod). `scored` are milli cpu and bytes of memory by node.
    """

    def __init__(self) -> None:
        self.resources: list[str] = []
        self.resource: dict[str, int] = {}
        self.allocatable: list[Int64s] = []
        self._by_node: list[Int64s] = [np.zeros(0, np.int64) for _ in range(_FIRST_RESOURCE)]
        self._by_pod: list[Int64s] = [np.zeros(0, np.int64) for _ in range(_FIRST_RESOURCE)]
        self._share_out()

    @property
    def closed(self) -> Bools:
        """The nodes where what the pods take is not known, or adds up to more than can be counted."""
        return self._by_node[_STRAIN] >= _STRAIN_LIMIT

    def closed_at(self, node_row: int) -> bool:
        """Say whether one node is among `closed`."""
        return self._by_node[_STRAIN].item(node_row) >= _STRAIN_LIMIT

    def needs(self, requests: Iterable[tuple[str, int]], scored: tuple[int, int], *, readable: bool) -> Needs:
        """Give what pods with these requests take; of one with an unreadable request nobody knows."""
        amounts = [(_FIRST_RESOURCE + self.add_resource(name), amount) for name, amount in requests]
        most = max((amount for _, amount in amounts), default=0)
        strain = most >> _STRAIN_BITS if readable else _STRAIN_LIMIT
        amounts += (_SCORED_CPU, scored[0]), (_SCORED_MEMORY, scored[1]), (_STRAIN, strain)
        return tuple((index, amount) for index, amount in amounts if amount)

    def add(self, needs: Needs, node_row: int, sign: int) -> None:
        """Add what one pod takes (sign 1), or take it back (-1)."""
        views = self._views
        for index, amount in needs:
            view = views[index]
            total = view[node_row] + sign * amount
            try:
                view[node_row] = total
            except ValueError:
                view[node_row] = (total + 2**63) % 2**64 - 2**63

    def add_many(self, pod_rows: Rows, node_rows: Int32s, sign: int) -> None:
        """Add what many pods take, each on its node."""
        add = np.add.at if sign > 0 else np.subtract.at
        nodes = node_rows.astype(np.intp)
        for by_node, by_pod in zip(self._by_node, self._by_pod, strict=True):
            amounts = by_pod.take(pod_rows)
            if amounts.any():
                add(by_node, nodes, amounts)

    def note(self, pod_row: int, before: Needs, after: Needs) -> None:
        """Note what a pod will take, which takes nothing at the moment."""
        for index, _ in before:
            self._by_pod[index][pod_row] = 0
        for index, amount in after:
            self._by_pod[index][pod_row] = amount

    def add_resource(self, name: str) -> int:
        """Give the position of a resource, which from now on has arrays."""
        position = self.resource.get(name)
        if position is None:
            position = self.resource[name] = len(self.resources)
            self.resources.append(name)
            self.allocatable.append(np.zeros(len(self._by_node[0]), np.int64))
            for arrays in (self._by_node, self._by_pod):
                arrays.append(np.zeros(len(arrays[0]), np.int64))
            self._share_out()
        return position

    def grow_nodes(self, size: int) -> None:
        """Make room for nodes up to a row."""
        self.allocatable = [grown(array, size) for array in self.allocatable]
        self._by_node = [grown(array, size) for array in self._by_node]
        self._share_out()

    def grow_pods(self, size: int) -> None:
        """Make room for pods up to a row."""
        self._by_pod = [grown(array, size) for array in self._by_pod]
        self._share_out()

    def _share_out(self) -> None:
        self.used = self._by_node[_FIRST_RESOURCE:]
        self.requests = self._by_pod[_FIRST_RESOURCE:]
        self.scored = (self._by_node[_SCORED_CPU], self._by_node[_SCORED_MEMORY])
        # A view reads and writes one integer several times as fast as the array does.
        self._views = [array.data for array in self._by_node]
