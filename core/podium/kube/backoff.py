"""How long to leave a server alone: after a failure ever longer, and after a burst for a while.

Every replica of every component loses its watches at the same moment when an API server restarts; without
jitter they would all come back at the same moment too.
"""

from collections.abc import Callable

_FIRST_SECONDS = 0.2
_LAST_SECONDS = 30.0


class Backoff:
    """Waits of 0.2 s, doubled up to 30 s, each shortened at random by up to a half."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random` gives numbers from 0 up to 1."""
        self._random = random
        self._seconds = _FIRST_SECONDS

    def next(self) -> float:
        """Give the seconds to wait now."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, _LAST_SECONDS)
        return seconds * (1 - self._random() / 2)

    def reset(self) -> None:
        """Begin anew: all is well."""
        self._seconds = _FIRST_SECONDS


class Rate:
    """Some at once, then one in so many seconds."""

    def __init__(self, burst: int, seconds: float) -> None:
        """`burst` may go at once after a rest of `burst` times `seconds`."""
        self._seconds = seconds
        self._slack = burst * seconds
        # When all of the burst may be had again.
        self._rested = float("-inf")

    def wait(self, now: float) -> float:
        """Give the seconds until one more may go, 0 for now; sums of fractions are not exact."""
        return max(0.0, round(max(self._rested, now) + self._seconds - self._slack - now, 6))

    def take(self, now: float) -> None:
        """Let one go."""
        self._rested = max(self._rested, now) + self._seconds
