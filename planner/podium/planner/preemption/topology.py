"""Forms the topology domains of a constrained group: the nodes that share the value of one label.

A group with a topology constraint runs in one domain (a rack, a zone) as a whole. Domains are formed by the
labels of the nodes at the moment of the decision. Nodes without the label belong to no domain, and neither do
those where its value is empty, as kube-scheduler 1.38 has it. Members that run already bind the others to
their domain.

All sums are by domain, so that one pass over the nodes serves every domain.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows, summed
from podium.planner.snapshot import Snapshot


class Domain(NamedTuple):
    """The nodes for a preemptor: one node (its row), those of a topology domain (a mask), or all nodes.

    `name` is that of the node, the value of the topology label, or words for the cluster.
    """

    name: str
    node: int | None = None
    nodes: Bools | None = None


CLUSTER = Domain("the cluster")


class Topology:
    """The domains of node labels (`keys`) as the nodes are now, by number from 0 to below `size`.

    The nodes of a domain have the same value of every label. A number may belong to no node any more. `of` is
    the number of the domain of each node row, -1 for none. `numbers` are by name, in the order of names.
    """

    def __init__(
        self, snapshot: Snapshot, keys: tuple[str, ...], within: Bools | None = None, *, empty: bool = False
    ) -> None:
        """Nodes that are not `within` belong to no domain; None for no limit.

        `empty` says that the empty value is a domain.
        """
        self.keys = keys
        *outer, last = keys
        self.of, names = _by_value(snapshot, last, empty=empty)
        self.size = snapshot.columns.values(last).size
        for key in outer:
            names, self.of = _crossed(_by_value(snapshot, key, empty=empty), names, self.of)
            self.size = len(names)
        if within is not None:
            self.of = np.where(within, self.of, -1).astype(np.int32)
        self.numbers = {name: number for number, name in sorted(names.items(), key=lambda pair: pair[1])}
        self._names = names
        self.nodes = self.sums(np.ones(len(self.of), np.int64), np.arange(len(self.of)))

    def name(self, number: int) -> str:
        """Return the value of the label in a domain."""
        return self._names[number]

    def domain(self, number: int) -> Domain:
        """Return a domain by its number."""
        return Domain(self._names[number], nodes=self.of == number)

    def sums(self, amounts: Int64s, rows: Rows) -> Int64s:
        """Return the sums, by domain, of amounts that belong to node rows."""
        return summed(amounts, self.of[rows], self.size)

    def counts(self, nodes: Rows) -> Counter[int]:
        """Return how many of these node rows are in each domain, -1 for none."""
        return Counter(self.of[nodes].tolist())


def _by_value(snapshot: Snapshot, key: str, *, empty: bool) -> tuple[Int32s, dict[int, str]]:
    """Return the domains of a label: the number of each node row, and the names by number."""
    column = snapshot.columns.column(key)
    names = {number: name for name, number in snapshot.columns.values(key).of.items()}
    unnamed = snapshot.columns.values(key).of.get("")
    if not empty and unnamed is not None:
        del names[unnamed]
        column = np.where(column == unnamed, -1, column).astype(np.int32)
    return column, names


def _crossed(
    outer: tuple[Int32s, dict[int, str]], names: dict[int, str], of: Int32s
) -> tuple[dict[int, str], Int32s]:
    """Return the domains of one label more: their names by number, and the number of each node row."""
    column, wider = outer
    inside = (of >= 0) & (column >= 0)
    pairs, numbers = np.unique(column[inside].astype(np.int64) * 2**32 + of[inside], return_inverse=True)
    crossed = np.full(len(of), -1, np.int32)
    crossed[inside] = numbers
    named = {at: f"{wider[pair // 2**32]}/{names[pair % 2**32]}" for at, pair in enumerate(pairs.tolist())}
    return named, crossed
