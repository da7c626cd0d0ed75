"""Labels, taints and features of nodes, as integers by row: one column for each label key, and for each set.

Selectors, affinity and spread compare the labels of thousands of nodes at once, but only for few keys. So a
column is created when its key is first requested, and only if a node has the key. Pods can name any number of
other keys at no cost. Ids of values and of taint sets are counted by their users. So an autoscaler that
writes a new taint value every few seconds does not make the tables grow.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from podium.api.schedulable import Taint
from podium.schedulerplugin.arrays import Int32s, grown

# A node without the label. A table by value id with one additional last entry covers these too.
ABSENT_VALUE = -1

_NO_LABELS: Mapping[str, str] = {}
_NO_TAINTS: tuple[Taint, ...] = ()
_NO_FEATURES: frozenset[str] = frozenset()

T = TypeVar("T", bound=Hashable)


class Ids(Generic[T]):
    """Small integers for the values that rows have now: an id is free again when no row has its value.

    Ids are below `size`, which is at most the largest number of values that rows had at one time.
    """

    def __init__(self) -> None:
        self.of: dict[T, int] = {}
        self._users: list[int] = []
        self._free: list[int] = []

    @property
    def size(self) -> int:
        """The largest id plus one."""
        return len(self._users)

    def take(self, value: T) -> int:
        """Return the id of a value, and count one row more with it."""
        found = self.of.get(value)
        if found is None:
            if not self._free:
                self._free.append(len(self._users))
                self._users.append(0)
            found = self.of[value] = self._free.pop()
        self._users[found] += 1
        return found

    def drop(self, value: T) -> None:
        """Count one row less with a value."""
        found = self.of[value]
        self._users[found] -= 1
        if not self._users[found]:
            del self.of[value]
            self._free.append(found)


class _Column:
    """The values of one label key by row."""

    def __init__(self, size: int) -> None:
        self.ids: Ids[str] = Ids()
        self.rows: Int32s = np.full(size, ABSENT_VALUE, np.int32)

    def put(self, row: int, before: str | None, value: str | None) -> None:
        # The new id is taken first, so a value whose only row keeps it also keeps its id.
        self.rows[row] = ABSENT_VALUE if value is None else self.ids.take(value)
        if before is not None:
            self.ids.drop(before)


class Sets(Generic[T]):
    """A set for each row: `of`, and as ids in `rows`, assigned by `ids`.

    A row without a node has no items.
    """

    def __init__(self, empty: T) -> None:
        self.ids: Ids[T] = Ids()
        self.rows: Int32s = np.zeros(0, np.int32)
        self.of: list[T] = []
        self._empty = empty

    def grow(self, size: int) -> None:
        """Make room for nodes up to a row."""
        new = [self.ids.take(self._empty) for _ in range(size - len(self.of))]
        self.rows = np.concatenate([self.rows, np.array(new, np.int32)])
        self.of += [self._empty] * len(new)

    def put(self, row: int, value: T) -> bool:
        """Set the value of a row; return whether it is new."""
        before = self.of[row]
        if value == before:
            return False
        self.of[row] = value
        self.rows[row] = self.ids.take(value)
        self.ids.drop(before)
        return True


class Columns:
    """Labels, `taints` and `features` of nodes by row; arrays are as long as the snapshot's.

    Arrays are replaced when they grow. A set of taints keeps the order of its node. The meaning of an id may
    change when a node changes.
    """

    def __init__(self) -> None:
        # Grows when a label key comes to the nodes, or goes.
        self.key_revision = 0
        self.taints = Sets(_NO_TAINTS)
        # The features that a pod may require (see `features`).
        self.features = Sets(_NO_FEATURES)
        self._labels: list[Mapping[str, str]] = []
        # The number of nodes with each label key.
        self._nodes_with: Counter[str] = Counter()
        self._columns: dict[str, _Column] = {}
        self._nowhere = _Column(0)

    def column(self, key: str) -> Int32s:
        """Return the id of a label's value on every row, ABSENT_VALUE without the label or the node."""
        return self._of(key).rows

    def values(self, key: str) -> Ids[str]:
        """Return the ids of a label's values."""
        return self._of(key).ids

    @property
    def keys(self) -> Collection[str]:
        """The keys that have a column."""
        return self._columns.keys()

    def has(self, key: str) -> bool:
        """Return whether a node has a label key."""
        return key in self._nodes_with

    def grow(self, size: int) -> None:
        """Make room for nodes up to a row."""
        self.taints.grow(size)
        self.features.grow(size)
        self._labels += [_NO_LABELS] * (size - len(self._labels))
        for column in (*self._columns.values(), self._nowhere):
            column.rows = grown(column.rows, size, ABSENT_VALUE)
        self._nowhere.rows.flags.writeable = False

    def put(
        self,
        row: int,
        labels: Mapping[str, str] | None,
        taints: Sequence[Taint] | None,
        features: frozenset[str] = _NO_FEATURES,
    ) -> bool:
        """Set the fields of the node on a row; return whether any is new."""
        labels = labels or _NO_LABELS
        labels_before, self._labels[row] = self._labels[row], labels
        new = [
            labels_before != labels,
            self.taints.put(row, tuple(taints or ())),
            self.features.put(row, features),
        ]
        for key in labels_before.keys() | labels.keys() if new[0] else ():
            before, value = labels_before.get(key), labels.get(key)
            if before != value:
                self._relabel(row, key, before, value)
        return any(new)

    def _relabel(self, row: int, key: str, before: str | None, value: str | None) -> None:
        column = self._columns.get(key)
        if column is not None:
            column.put(row, before, value)
        nodes = self._nodes_with[key]
        self._nodes_with[key] += (value is not None) - (before is not None)
        self.key_revision += bool(nodes) != bool(self._nodes_with[key])
        if not self._nodes_with[key]:
            del self._nodes_with[key]
            self._columns.pop(key, None)

    def _of(self, key: str) -> _Column:
        column = self._columns.get(key)
        if column is not None:
            return column
        if key not in self._nodes_with:
            return self._nowhere
        column = self._columns[key] = _Column(len(self._labels))
        for row, labels in enumerate(self._labels):
            column.put(row, None, labels.get(key))
        return column
