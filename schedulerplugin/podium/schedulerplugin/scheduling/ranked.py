"""Keys in an order that changes all the time: a heap in which what was superseded stays until it is met.

A key of the queue changes its rank several times for each time that it is tried. To take its old rank out of
the heap would cost more than to skip it later, as long as such leftovers do not pile up.
"""

import heapq
from typing import Any

from podium.schedulerplugin.scheduling.effects import Key

# Superseded entries that a heap may hold for each one that counts.
_SLACK = 2

Rank = tuple[Any, ...]


class Ranked:
    """Keys by rank, the lowest first; ranks are put and replaced at will, and differ from each other."""

    def __init__(self) -> None:
        self._ranks: dict[Key, Rank] = {}
        # Of every key its rank, and some that were superseded.
        self._heap: list[tuple[Rank, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._ranks

    def put(self, key: Key, rank: Rank) -> None:
        """Give a key a rank, instead of the one that it has."""
        self._ranks[key] = rank
        if len(self._heap) > _SLACK * len(self._ranks) + _SLACK:
            self._heap = [(rank, key) for key, rank in self._ranks.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (rank, key))

    def drop(self, key: Key) -> None:
        """Let go of a key, if it is there."""
        self._ranks.pop(key, None)

    def first(self) -> tuple[Rank, Key] | None:
        """Give the key of the lowest rank, None if there is none."""
        while self._heap:
            rank, key = self._heap[0]
            if self._ranks.get(key) is rank:
                return rank, key
            heapq.heappop(self._heap)
        return None
