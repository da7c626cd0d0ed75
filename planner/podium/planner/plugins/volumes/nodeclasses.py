"""Groups nodes by the labels that storage names, so that one answer serves every node of a group.

Volumes, storage classes and capacities choose nodes by few label keys. Nodes with equal values of these keys
are one class of nodes. With zones there are three classes, with host names there is one for each node.
Everything about a pod's claims is computed for classes, then looked up for node rows.

Local volumes have one term each, and each term matches one class. A scan of all classes for each term would
take seconds. So the classes of a label's values are indexed, and a term looks only at the classes of its
rarest value.

Fields of nodes, such as metadata.name, are not compared. kube-scheduler compares storage with labels alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from podium.api.selectors import NodeRequirement, Requirement
from podium.api.storage import Alternatives
from podium.planner.arrays import Bools, Columns, Int32s, Rows

EVERYWHERE: Alternatives = (NodeRequirement(),)

# The most groupings of nodes for which one list of items is indexed at a time.
_GROUPINGS = 4


class NodeLabels(Protocol):
    """The labels of nodes by row, as a Snapshot has them."""

    @property
    def columns(self) -> Columns:
        """The columns of labels."""

    @property
    def alive(self) -> Bools:
        """The rows that have a node."""

    @property
    def row(self) -> Mapping[str, int]:
        """The rows of nodes by name."""

    @property
    def node_revision(self) -> int:
        """A number that grows when a node came, went or changed its labels."""


class _ValueIndex(NamedTuple):
    """The classes in the order of a label's value; those of the value `id` begin at `starts[id]`."""

    order: Rows
    starts: Rows


class NodeClasses:
    """The classes of nodes by some label keys; valid while they are `current`.

    `of_row` is the class of each node row, below `size`. Rows without a node have the class of nodes without
    labels.
    """

    def __init__(self, nodes: NodeLabels, keys: Iterable[str]) -> None:
        columns = nodes.columns
        named = sorted(keys)
        codes = np.zeros(len(nodes.alive), np.int64)
        for key in named:
            # Numbered again after each key: the product of the sizes of many labels exceeds 64 bits.
            codes = codes * (columns.values(key).size + 1) + columns.column(key) + 1
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        _, examples, of_row = np.unique(codes, return_index=True, return_inverse=True)
        self.of_row: Rows = of_row.astype(np.intp)
        self.size = len(examples)
        self._every: Rows = np.arange(self.size)
        self._columns: dict[str, Int32s] = {key: columns.column(key)[examples] for key in named}
        self._ids = {key: dict(columns.values(key).of) for key in named}
        self._labels = {
            key: {at: {key: value} for value, at in ids.items()} for key, ids in self._ids.items()
        }
        self._rows = {key: columns.column(key).copy() for key in named}
        self._indexes: dict[str, _ValueIndex] = {}

    def current(self, nodes: NodeLabels) -> bool:
        """Return whether every node still has the values by which it was classed."""
        columns = nodes.columns
        return len(nodes.alive) == len(self.of_row) and all(
            np.array_equal(columns.column(key), rows) and columns.values(key).of == self._ids[key]
            for key, rows in self._rows.items()
        )

    def matching(self, alternatives: Alternatives) -> Rows:
        """Return the classes of nodes that meet one of the terms, in order."""
        classes = [self._meeting(term) for term in alternatives]
        if len(classes) == 1:
            return classes[0]
        return np.unique(np.concatenate(classes)) if classes else self._every[:0]

    def satisfying(self, alternatives: Alternatives) -> Bools:
        """Return by class whether its nodes meet one of the terms."""
        passes = np.zeros(self.size, np.bool_)
        passes[self.matching(alternatives)] = True
        return passes

    def _meeting(self, term: NodeRequirement) -> Rows:
        having = [
            (self._having(expression), expression)
            for expression in term.expressions
            if expression.operator == "In"
        ]
        classes, used = min(having, key=_rarity, default=(self._every, None))
        for expression in term.expressions:
            if expression is not used:
                classes = classes[self._meets(expression, self._columns[expression.key][classes])]
        return classes

    def _having(self, requirement: Requirement) -> Rows:
        """Return the classes whose label has one of the values, in order."""
        key = requirement.key
        index = self._indexes.get(key)
        if index is None:
            column = self._columns[key]
            order = np.argsort(column, kind="stable")
            starts = np.searchsorted(column[order], np.arange(column.max(initial=-1) + 2))
            index = self._indexes[key] = _ValueIndex(order, starts)
        of = self._ids[key]
        ids = [of[value] for value in requirement.values if value in of]
        parts = [index.order[index.starts[at] : index.starts[at + 1]] for at in ids]
        if len(parts) == 1:
            return parts[0]
        return np.sort(np.concatenate(parts)) if parts else self._every[:0]

    def _meets(self, requirement: Requirement, column: Int32s) -> Bools:
        """Return which values of a column, as ids, meet a requirement."""
        labels, ids = self._labels[requirement.key], column.tolist()
        # A node without the label has an id that no value has.
        meeting = {at for at in set(ids) if requirement.matches(labels.get(at, {}))}
        return np.fromiter((at in meeting for at in ids), np.bool_, len(ids))


def _rarity(having: tuple[Rows, Requirement]) -> int:
    return len(having[0])


def _accepting(at: Rows) -> Bools:
    return np.zeros(len(at), np.bool_)


class _ReachedClasses(NamedTuple):
    """Pairs of a class and a distinct set of terms that it meets, in the order of classes.

    `starts` are the positions where a class begins, `present` the class at each.
    """

    classes: Rows
    terms: Rows
    starts: Rows
    present: Rows


class ReachableItems:
    """Items in order of preference, each with the terms of which a node must meet one to reach it.

    An item's position is its number in the order; `absent`, the number of items, is no item.
    """

    def __init__(self, reach: Sequence[Alternatives]) -> None:
        ids: dict[Alternatives, int] = {}
        numbers = [ids.setdefault(alternatives, len(ids)) for alternatives in reach]
        self.absent = len(reach)
        self.keys = frozenset(key for alternatives in ids for key in keys_of(alternatives))
        self._terms_of: Rows = np.array(numbers, np.intp)
        self._distinct = tuple(ids)
        self._kept: dict[NodeClasses, _ReachedClasses] = {}

    def first(
        self,
        classes: NodeClasses,
        eligible: Bools,
        refuses: Callable[[Rows], Bools] = _accepting,
        most: int = 0,
    ) -> Rows:
        """Return by class the position of its first eligible item, or `absent`.

        `refuses` returns by class whether the item of the given position is refused there after all; it
        refuses at most `most` items of a class.
        """
        reach = self._reached(classes)
        offered = self._leading(eligible, most + 1)[reach.terms]
        positions = self._smallest(reach, offered, classes.size)
        for _ in range(most):
            again = refuses(positions) & (positions < self.absent)
            if not again.any():
                break
            later = np.where(offered > positions[reach.classes][:, None], offered, self.absent)
            positions = np.where(again, self._smallest(reach, later, classes.size), positions)
        return positions

    def _leading(self, eligible: Bools, count: int) -> Rows:
        """Return the positions of the first eligible items of each distinct set of terms."""
        leading = np.full((len(self._distinct), count), self.absent, np.intp)
        positions = np.flatnonzero(eligible)
        if count == 1:
            # Of several values for one place the last is kept: the smallest.
            leading[self._terms_of[positions][::-1], 0] = positions[::-1]
            return leading
        order = np.argsort(self._terms_of[positions], kind="stable")
        positions = positions[order]
        terms = self._terms_of[positions]
        rank = np.arange(len(terms)) - np.searchsorted(terms, terms)
        kept = rank < count
        leading[terms[kept], rank[kept]] = positions[kept]
        return leading

    def _smallest(self, reach: _ReachedClasses, offered: Rows, size: int) -> Rows:
        """Return by class the smallest position offered to it."""
        positions = np.full(size, self.absent, np.intp)
        if len(reach.starts):
            positions[reach.present] = np.minimum.reduceat(offered.min(axis=1), reach.starts)
        return positions

    def _reached(self, classes: NodeClasses) -> _ReachedClasses:
        reach = self._kept.get(classes)
        if reach is None:
            if len(self._kept) == _GROUPINGS:
                del self._kept[next(iter(self._kept))]
            reach = self._kept[classes] = self._computed(classes)
        return reach

    def _computed(self, classes: NodeClasses) -> _ReachedClasses:
        reached = [classes.matching(alternatives) for alternatives in self._distinct]
        together = np.concatenate(reached) if reached else np.zeros(0, np.intp)
        terms = np.repeat(np.arange(len(reached)), [len(meeting) for meeting in reached])
        order = np.argsort(together, kind="stable")
        together, terms = together[order], terms[order]
        starts = np.flatnonzero(np.diff(together, prepend=-1))
        return _ReachedClasses(together, terms, starts, together[starts])


def keys_of(alternatives: Alternatives) -> frozenset[str]:
    """Return the label keys that terms name."""
    return frozenset(expression.key for term in alternatives for expression in term.expressions)
