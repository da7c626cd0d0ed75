"""Limits log lines whose number a client decides: so many of a kind in a period, the others counted."""

from collections.abc import Callable


class Seldom:
    """Says which lines to write; `clock` is in seconds. Kinds come from a closed set."""

    def __init__(self, lines: int, period: float, clock: Callable[[], float]) -> None:
        self._lines = lines
        self._period = period
        self._clock = clock
        # By kind: when the period began, lines written in it, and lines left out since the last one written.
        self._kinds: dict[str, tuple[float, int, int]] = {}

    def take(self, kind: str) -> int | None:
        """Give how many lines were left out before this one; None if this one is to be left out as well."""
        now = self._clock()
        began, written, left_out = self._kinds.get(kind, (now, 0, 0))
        if now - began >= self._period:
            began, written = now, 0
        if written >= self._lines:
            self._kinds[kind] = (began, written, left_out + 1)
            return None
        self._kinds[kind] = (began, written + 1, 0)
        return left_out
