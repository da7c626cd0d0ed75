"""How long to leave a server alone after a failure: ever longer, and never in step with others.

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
