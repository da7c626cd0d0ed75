"""The array types on which all decisions are made, and how an array grows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
# Row numbers, in the type that numpy uses for an index.
Rows = npt.NDArray[np.intp]


def grown(array: npt.NDArray[Any], size: int, fill: int = 0) -> npt.NDArray[Any]:
    """Return a longer copy of an array, with the new entries filled."""
    # Zeros that are never written take no memory.
    longer = np.full(size, fill, array.dtype) if fill else np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def by_id(ids: Int32s, amounts: Mapping[int, int]) -> Int64s:
    """Return the amount for each id of an array, 0 for an id that has none."""
    if not amounts:
        return np.zeros(len(ids), np.int64)
    known = np.array(sorted(amounts), np.int64)
    values = np.array([amounts[each] for each in known.tolist()], np.int64)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, values[at], 0)
