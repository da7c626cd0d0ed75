"""Limits how many units may be evicted in a minute: the last check, after all others let a preemption pass.

A wrong class on a large group, or a bug, must not empty a cluster before a person looks. So the limit holds
for any minute, whatever came before. A bucket that refills while nothing happens (`podium.kube.backoff.Rate`,
which protects API servers) would let twice as many go within one minute.

The evictions of a process that was killed are known only as far as they had been recorded. But that process
kept to the limit. So if nothing is evicted for a minute after it, the limit holds, however often a process is
killed.

A plan is carried out whole or not at all. A plan with more units than the limit waits for an empty window, so
it is never starved. It then uses as many minutes of quota as its units need.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

_MINUTE: Final = 60.0


class EvictionRate:
    """The times of evictions in seconds of one clock; limits are units a minute, at least 1, or None."""

    def __init__(self) -> None:
        """Start with no evictions."""
        # The time from which each unit counts, in order. The units of a plan beyond its limit count from
        # later minutes.
        self._times: list[float] = []
        # The time until which any limit counts as reached.
        self._closed = -math.inf

    def wait(self, limit: int | None, units: int, now: float) -> float:
        """Return the seconds until a plan of that many units may be carried out, 0 for now."""
        if limit is None:
            return 0.0
        over = self._over(now)
        excess = len(self._times) - over + min(units, limit) - limit
        free = self._closed if excess <= 0 else max(self._closed, self._times[over + excess - 1] + _MINUTE)
        # The sums of fractions are not exact.
        return round(free - now, 6) if free > now else 0.0

    def left(self, limit: int, now: float) -> int:
        """Return how many units, one by one, may be evicted now."""
        return 0 if self.closed(now) else max(0, limit - len(self._times) + self._over(now))

    def take(self, limit: int | None, units: int, now: float) -> list[float]:
        """Record a plan of that many units that is carried out; return when each counts from."""
        at_once = units if limit is None else limit
        del self._times[: self._over(now)]
        times = [now + _MINUTE * (unit // at_once) for unit in range(units)]
        self.restore(times)
        return times

    def withdraw(self, times: Iterable[float]) -> list[float]:
        """Remove recorded times, and return those of them that were still known."""
        known = []
        for time in times:
            at = bisect_left(self._times, time)
            if self._times[at : at + 1] == [time]:
                known.append(self._times.pop(at))
        return known

    def restore(self, times: Sequence[float]) -> None:
        """Record the times of units, in order."""
        later = not self._times or not times or times[0] >= self._times[-1]
        self._times += times
        # Without a limit there are thousands of times, and all come at the end.
        if not later:
            self._times.sort()

    def close(self, now: float) -> None:
        """Count any limit as reached for a minute, because earlier evictions are unknown."""
        self._closed = now + _MINUTE

    def closed(self, now: float) -> bool:
        """Return whether any limit counts as reached."""
        return now < self._closed

    def _over(self, now: float) -> int:
        """Return how many of the times no longer count."""
        return bisect_right(self._times, now, key=lambda time: time + _MINUTE)
