"""Keys in an order that changes all the time: a heap in which superseded ranks stay until they are reached.

A key of the queue changes its rank several times for each attempt. Removing its old rank from the heap would
cost more than skipping it later, as long as superseded ranks do not pile up.
"""

import heapq
from typing import Any

from podium.schedulerplugin.scheduling.effects import Key

# Superseded entries that a heap may hold for each current one.
_SLACK = 2

Rank = tuple[Any, ...]


class Ranked:
    """Keys by rank, the lowest first; ranks can be set and replaced, and differ from each other."""

    def __init__(self) -> None:
        self._ranks: dict[Key, Rank] = {}
        # The rank of every key, and some superseded ranks.
        self._heap: list[tuple[Rank, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._ranks

    def put(self, key: Key, rank: Rank) -> None:
        """Set the rank of a key, and replace the old one."""
        self._ranks[key] = rank
        if len(self._heap) > _SLACK * len(self._ranks) + _SLACK:
            self._heap = [(rank, key) for key, rank in self._ranks.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (rank, key))

    def drop(self, key: Key) -> None:
        """Remove a key, if it is there."""
        self._ranks.pop(key, None)

    def first(self) -> tuple[Rank, Key] | None:
        """Return the key of the lowest rank and that rank, None if there is none."""
        while self._heap:
            rank, key = self._heap[0]
            if self._ranks.get(key) is rank:
                return rank, key
            heapq.heappop(self._heap)
        return None
