"""Limit log lines whose number a client controls: a few of each kind in a period, the others counted.

Otherwise a client could fill the disk with logs.
"""

from collections.abc import Callable

# The lines of one kind that a process writes in a minute.
LINES_A_MINUTE = 10


class Seldom:
    """Decides which lines to write; `clock` is in seconds. Kinds must be a closed set."""

    def __init__(self, lines: int, period: float, clock: Callable[[], float]) -> None:
        self._lines = lines
        self._period = period
        self._clock = clock
        # By kind: the start of the period, the lines written in it, and the lines dropped since the last
        # written one.
        self._kinds: dict[str, tuple[float, int, int]] = {}

    def admit_line(self, kind: str) -> int | None:
        """Return the number of lines dropped before this one; None if this one must be dropped too."""
        now = self._clock()
        began, written, left_out = self._kinds.get(kind, (now, 0, 0))
        if now - began >= self._period:
            began, written = now, 0
        if written >= self._lines:
            self._kinds[kind] = (began, written, left_out + 1)
            return None
        self._kinds[kind] = (began, written + 1, 0)
        return left_out
