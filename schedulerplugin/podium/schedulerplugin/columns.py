"""What nodes say of themselves, as integers by row: one column a label key, one of sets of taints.

Selectors, affinity and spread compare the labels of thousands of nodes at once, but always of few keys. So a
column is made when its key is first asked for, and kept in step with the nodes from then on; the texts become
small integers that never change their meaning while the process lives.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from podium.api.schedulable import Taint
from podium.schedulerplugin.arrays import Int32s, grown

# A node without the label. A table by value id that ends with one entry more answers for these too.
ABSENT_VALUE = -1

_NO_LABELS: Mapping[str, str] = {}


class Columns:
    """Labels and taints of nodes by row; arrays are as long as the snapshot's, and replaced when they grow.

    `taints` holds positions in `taint_sets`, whose first is the empty one; a set keeps the order of its node.
    """

    def __init__(self) -> None:
        self.taints: Int32s = np.zeros(0, np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._set_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._labels: list[Mapping[str, str]] = []
        self._columns: dict[str, Int32s] = {}
        self._values: dict[str, dict[str, int]] = {}

    def column(self, key: str) -> Int32s:
        """Give the id of a label's value on every row, ABSENT_VALUE where the label or the node is not."""
        column = self._columns.get(key)
        if column is None:
            values = self._values[key] = {}
            column = self._columns[key] = np.full(len(self.taints), ABSENT_VALUE, np.int32)
            for row, labels in enumerate(self._labels):
                value = labels.get(key)
                if value is not None:
                    column[row] = values.setdefault(value, len(values))
        return column

    def values(self, key: str) -> Mapping[str, int]:
        """Give the ids of a label's values, dense from 0 in the order they were first seen."""
        self.column(key)
        return self._values[key]

    def grow(self, size: int) -> None:
        """Make room for nodes up to a row."""
        self.taints = grown(self.taints, size)
        self._labels += [_NO_LABELS] * (size - len(self._labels))
        for key, column in self._columns.items():
            self._columns[key] = grown(column, size, ABSENT_VALUE)

    def put(self, row: int, labels: Mapping[str, str] | None, taints: Sequence[Taint] | None) -> bool:
        """Set what the node on a row says; say whether that is anything new."""
        labels = labels or _NO_LABELS
        taint_set = tuple(taints or ())
        set_id = self._set_ids.get(taint_set)
        if set_id is None:
            set_id = self._set_ids[taint_set] = len(self.taint_sets)
            self.taint_sets.append(taint_set)
        before = self._labels[row]
        if before == labels and self.taints.item(row) == set_id:
            return False
        self.taints[row] = set_id
        self._labels[row] = labels
        for key, column in self._columns.items():
            value = labels.get(key)
            if value != before.get(key):
                values = self._values[key]
                column[row] = ABSENT_VALUE if value is None else values.setdefault(value, len(values))
        return True
