"""How many units may be evicted in a minute: the last brake, for when everything else let a preemption pass.

A wrong class on a large group, or a bug, must not empty a cluster before somebody looks. So the limit is one
of any minute, whatever came before: a bucket that fills up while nothing happens (`podium.kube.backoff.Rate`,
which API servers are spared by) would let twice as many go within one.

A plan is carried out whole or not at all. One of more units than the limit goes when nothing else counts,
so that it is never starved, and then counts for as many minutes as its units need.
"""

from collections.abc import Iterable
from typing import Final

_MINUTE: Final = 60.0


class EvictionRate:
    """When units were evicted, in seconds of one clock; limits are units a minute, from 1, None for none."""

    def __init__(self) -> None:
        """Nothing was evicted."""
        # When each unit counts from, in order; what a plan had beyond its limit counts from later minutes.
        self._times: list[float] = []

    def wait(self, limit: int | None, units: int, now: float) -> float:
        """Give the seconds until a plan of so many units may be carried out, 0 for now."""
        if limit is None:
            return 0.0
        counting = [time for time in self._times if time + _MINUTE > now]
        excess = len(counting) + min(units, limit) - limit
        # The sums of fractions are not exact.
        return 0.0 if excess <= 0 else round(counting[excess - 1] + _MINUTE - now, 6)

    def take(self, limit: int | None, units: int, now: float) -> None:
        """Note a plan of so many units that is carried out."""
        at_once = units if limit is None else limit
        self.restore(now + _MINUTE * (unit // at_once) for unit in range(units))
        self._times = [time for time in self._times if time + _MINUTE > now]

    def restore(self, times: Iterable[float]) -> None:
        """Note when units were evicted before this process had its say."""
        self._times = sorted([*self._times, *times])
