"""How many units may be evicted in a minute: the last brake, for when everything else let a preemption pass.

A wrong class on a large group, or a bug, must not empty a cluster before somebody looks. So the limit is one
of any minute, whatever came before: a bucket that fills up while nothing happens (`podium.kube.backoff.Rate`,
which API servers are spared by) would let twice as many go within one.

What a process evicted that was killed is known only as far as it had been written down. But it kept to the
limit; so if nothing goes for a minute after it, the limit holds, however often one is killed.

A plan is carried out whole or not at all. One of more units than the limit goes when nothing else counts,
so that it is never starved, and then counts for as many minutes as its units need.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

_MINUTE: Final = 60.0


class EvictionRate:
    """When units were evicted, in seconds of one clock; limits are units a minute, from 1, None for none."""

    def __init__(self) -> None:
        """Nothing was evicted."""
        # When each unit counts from, in order; what a plan had beyond its limit counts from later minutes.
        self._times: list[float] = []
        # Until when no limit leaves room for anybody.
        self._closed = -math.inf

    def wait(self, limit: int | None, units: int, now: float) -> float:
        """Give the seconds until a plan of so many units may be carried out, 0 for now."""
        if limit is None:
            return 0.0
        over = self._over(now)
        excess = len(self._times) - over + min(units, limit) - limit
        free = self._closed if excess <= 0 else max(self._closed, self._times[over + excess - 1] + _MINUTE)
        # The sums of fractions are not exact.
        return round(free - now, 6) if free > now else 0.0

    def left(self, limit: int, now: float) -> int:
        """Give how many units, one by one, may be evicted now."""
        return 0 if self.closed(now) else max(0, limit - len(self._times) + self._over(now))

    def take(self, limit: int | None, units: int, now: float) -> list[float]:
        """Note a plan of so many units that is carried out; give when each counts from."""
        at_once = units if limit is None else limit
        del self._times[: self._over(now)]
        times = [now + _MINUTE * (unit // at_once) for unit in range(units)]
        self.restore(times)
        return times

    def withdraw(self, times: Iterable[float]) -> list[float]:
        """Take back what was noted, and give what of that is known still."""
        known = []
        for time in times:
            at = bisect_left(self._times, time)
            if self._times[at : at + 1] == [time]:
                known.append(self._times.pop(at))
        return known

    def restore(self, times: Sequence[float]) -> None:
        """Note when units were evicted before this process had its say, in order."""
        later = not self._times or not times or times[0] >= self._times[-1]
        self._times += times
        # Without a limit there are thousands, and all come at the end.
        if not later:
            self._times.sort()

    def close(self, now: float) -> None:
        """Count any limit as reached now, for nobody knows how many units went before."""
        self._closed = now + _MINUTE

    def closed(self, now: float) -> bool:
        """Say whether any limit counts as reached."""
        return now < self._closed

    def _over(self, now: float) -> int:
        """Give how many of the times count no more."""
        return bisect_right(self._times, now, key=lambda time: time + _MINUTE)
