"""Forms the topology domains of a constrained group: the nodes that share the value of one label.

A group with a topology constraint runs in one domain (a rack, a zone) as a whole. Domains are formed by the
labels of the nodes at the moment of the decision. Nodes without the label belong to no domain. Members that
run already bind the others to their domain.

All sums are by domain, so that one pass over the nodes serves every domain.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.snapshot import Snapshot


class Domain(NamedTuple):
    """The nodes for a preemptor: one node (its row), those of a topology domain (a mask), or all nodes.

    `name` is that of the node, the value of the topology label, or words for the cluster.
    """

    name: str
    node: int | None = None
    nodes: Bools | None = None


CLUSTER = Domain("the cluster")


class Topology:
    """The domains of one node label (`key`) as the nodes are now, by number from 0 to below `size`.

    A number may belong to no node any more. `of` is the number of the domain of each node row, -1 for none.
    """

    def __init__(self, snapshot: Snapshot, key: str) -> None:
        self.key = key
        self.of = snapshot.columns.column(key)
        values = snapshot.columns.values(key)
        self.size = values.size
        self.numbers = dict(sorted(values.of.items()))
        self._names = {number: name for name, number in self.numbers.items()}
        self.nodes = self.sums(np.ones(len(self.of), np.int64), np.arange(len(self.of)))

    def name(self, number: int) -> str:
        """Return the value of the label in a domain."""
        return self._names[number]

    def domain(self, number: int) -> Domain:
        """Return a domain by its number."""
        return Domain(self._names[number], nodes=self.of == number)

    def sums(self, amounts: Int64s, rows: Rows) -> Int64s:
        """Return the sums, by domain, of amounts that belong to node rows."""
        total = np.zeros(self.size, np.int64)
        numbers = self.of[rows]
        inside = numbers >= 0
        np.add.at(total, numbers[inside], amounts[inside])
        return total

    def counts(self, nodes: Rows) -> Counter[int]:
        """Return how many of these node rows are in each domain, -1 for none."""
        return Counter(self.of[nodes].tolist())
