"""The kinds of array that all decisions are made on, and how one grows."""

from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
# Row numbers, as numpy takes them for an index.
Rows = npt.NDArray[np.intp]


def grown(array: npt.NDArray[Any], size: int, fill: int = 0) -> npt.NDArray[Any]:
    """Give a longer copy of an array, the new entries filled."""
    # Zeros that nothing writes take no memory.
    longer = np.full(size, fill, array.dtype) if fill else np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer
