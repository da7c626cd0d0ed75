"""A small integer for each shape, looked up for a hundred thousand pods in one step.

Ids of shapes are not reused, and a cluster of Jobs has millions of shapes in a month. An array by id would
grow with every shape that ever existed. So ids below a base are looked up in a sorted list of the shapes that
still exist.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from podium.schedulerplugin.arrays import Int32s, grown

Int8s = npt.NDArray[np.int8]

# The most ids stored above the base (besides twice the number of shapes) before the base moves up.
_DENSE = 2**12


class ByShape:
    """Integers by shape id, 0 for a shape that has none. `shapes` are the ids of the shapes that exist."""

    def __init__(self, shapes: Collection[int]) -> None:
        self._shapes = shapes
        self._base = 0
        # The integers from the base on, by id.
        self._dense: Int8s = np.zeros(0, np.int8)
        # The ids below the base in order, and their integers.
        self._ids: Int32s = np.zeros(0, np.int32)
        self._values: Int8s = np.zeros(0, np.int8)

    @property
    def stored(self) -> int:
        """The number of stored integers."""
        return len(self._dense) + len(self._ids)

    def get(self, shape_ids: Int32s) -> Int8s:
        """Return the integers of shapes that exist."""
        at = shape_ids - self._base
        top = int(at.max(initial=-1))
        if top >= len(self._dense):
            self._reach(top + self._base)
            at = shape_ids - self._base
        if not len(self._ids):
            return self._dense[at]
        found: Int8s = np.zeros(len(at), np.int8)
        dense = at >= 0
        found[dense] = self._dense[at[dense]]
        found[~dense] = self._values[np.searchsorted(self._ids, shape_ids[~dense])]
        return found

    def set(self, shape_id: int, value: int) -> None:
        """Store the integer of a shape that exists."""
        if shape_id - self._base >= len(self._dense):
            self._reach(shape_id)
        if shape_id >= self._base:
            self._dense[shape_id - self._base] = value
        else:
            self._values[np.searchsorted(self._ids, shape_id)] = value

    def clear(self) -> None:
        """Set all integers to 0."""
        self._dense[:] = 0
        self._values[:] = 0

    def _reach(self, shape_id: int) -> None:
        """Grow the array for a shape; forget deleted shapes if there are many."""
        if shape_id - self._base >= _DENSE + 2 * len(self._shapes):
            ids = np.array(sorted(each for each in self._shapes if each < shape_id), np.int32)
            known = ids < self._base + len(self._dense)
            values = np.zeros(len(ids), np.int8)
            values[known] = self.get(ids[known])
            self._ids, self._values, self._base, self._dense = ids, values, shape_id, np.zeros(0, np.int8)
        if shape_id - self._base >= len(self._dense):
            self._dense = grown(self._dense, max(_DENSE, 2 * (shape_id - self._base + 1)))
