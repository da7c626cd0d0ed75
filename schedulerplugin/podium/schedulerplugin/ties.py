"""Breaks ties between equal nodes by an order of each pod that is the same in every process.

By name alone all pods would begin with the same node. So would the next pod of a Job whose last pod failed on
that node. The order is a hash of the pod's UID and the node's name; Python's own hash() differs from process
to process.
"""

import zlib

import numpy as np
import numpy.typing as npt

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.arrays import Rows
from podium.schedulerplugin.filters.nodes import Kept
from podium.schedulerplugin.snapshot import Snapshot

Marks = npt.NDArray[np.uint64]

# The finalizer of MurmurHash3: every bit of the input changes every bit of the output.
_SHIFT = np.uint64(33)
_FACTORS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


class Ties:
    """The orders of the nodes of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._kept = Kept[Marks](snapshot)

    def first(self, pod_row: int, rows: Rows) -> int:
        """Return the place of the first of some node rows in a pod's order."""
        return int(self._numbers(pod_row, rows).argmin())

    def order(self, pod_row: int, rows: Rows) -> Rows:
        """Return the places of node rows in a pod's order."""
        return np.argsort(self._numbers(pod_row, rows), kind="stable")

    def _numbers(self, pod_row: int, rows: Rows) -> Marks:
        marks = self._kept.get("nodes", self._marks)[rows]
        pod = self._snapshot.pods[pod_row]
        numbers = marks | np.uint64((_mark(_identity(pod)) if pod is not None else 0) << 32)
        for factor in _FACTORS:
            numbers ^= numbers >> _SHIFT
            numbers *= factor
        numbers ^= numbers >> _SHIFT
        return numbers

    def _marks(self) -> Marks:
        return np.array([_mark(name or "") for name in self._snapshot.names], np.uint64)


def _identity(pod: Schedulable) -> str:
    metadata = pod.metadata
    return metadata.uid or f"{metadata.namespace}/{metadata.name}"


def _mark(text: str) -> int:
    return zlib.crc32(text.encode())
