"""Limits of a search, counted instead of a time, so that equal searches end equally."""

import math

from podium.planner.deadline import Deadline
from podium.planner.devices.errors import AllocationError

TOO_LONG = "timed out trying to allocate devices"
# The most characters of a selector in an error.
_SHOWN = 160


class SearchLimits(Deadline):
    """The steps and the effort of selectors that a search may take."""

    __slots__ = ("_too_long", "effort", "steps")

    def __init__(self, steps: int, effort: int) -> None:
        super().__init__(lambda: 0.0, math.inf)
        # The steps and the effort that are left.
        self.steps = steps
        self.effort = effort
        self._too_long = TOO_LONG

    def enforce(self) -> None:
        """Count a step. Raises AllocationError if there were too many."""
        self.steps -= 1
        if self.steps < 0:
            raise AllocationError(TOO_LONG)

    def spend(self, effort: int, expression: str = "") -> None:
        """Count the effort of a selector. Raises AllocationError if nothing was left for it."""
        if self.effort <= 0:
            raise AllocationError(self._too_long)
        self.effort -= effort
        if self.effort <= 0:
            self._too_long = f"{TOO_LONG} (selector {' '.join(expression.split())[:_SHOWN]} takes too long)"
