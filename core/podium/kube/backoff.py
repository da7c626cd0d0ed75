"""Delays between requests to an API server, and the failures that are normal: backoff, rate, tolerance.

When an API server restarts, every replica of every component loses its watches at the same moment. Without
jitter, all of them would reconnect at the same moment too.
"""

from collections import deque
from collections.abc import Callable

_FIRST_SECONDS = 0.2
_LAST_SECONDS = 30.0


class Backoff:
    """A delay of 0.2 s that doubles up to 30 s. Each delay is shortened at random by up to a half."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random` returns a number from 0 up to 1."""
        self._random = random
        self._seconds = _FIRST_SECONDS

    def next(self) -> float:
        """Return the seconds to wait now, and double the next delay."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, _LAST_SECONDS)
        return seconds * (1 - self._random() / 2)

    def reset(self) -> None:
        """Return to the first delay, after a success."""
        self._seconds = _FIRST_SECONDS


class Rate:
    """A rate limit: a burst of requests, then one request per interval."""

    def __init__(self, burst: int, seconds: float) -> None:
        """Allow `burst` requests at once after an idle time of `burst` times `seconds`."""
        self._seconds = seconds
        self._slack = burst * seconds
        # The time when the whole burst is available again.
        self._rested = float("-inf")

    def wait(self, now: float) -> float:
        """Return the seconds until the next request is allowed, or 0.

        The result is rounded, because sums of fractions are not exact.
        """
        return max(0.0, round(max(self._rested, now) + self._seconds - self._slack - now, 6))

    def record(self, now: float) -> None:
        """Record one request."""
        self._rested = max(self._rested, now) + self._seconds


class Tolerance:
    """Failures that are normal now and then; more than `times` of them within `seconds` are not.

    A new custom resource answers 429 until its storage is initialized, and a changed one ends its watches.
    """

    def __init__(self, times: int, seconds: float) -> None:
        self._seconds = seconds
        self._last: deque[float] = deque(maxlen=times + 1)

    def covers(self, now: float) -> bool:
        """Record a failure, and return whether it is still normal."""
        self._last.append(now)
        return len(self._last) < (self._last.maxlen or 0) or now - self._last[0] > self._seconds
