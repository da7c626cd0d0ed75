"""Limits of a search, counted instead of a time, so that equal searches end equally."""

import math

from podium.schedulerplugin.deadline import Deadline
from podium.schedulerplugin.devices.errors import AllocationError

TOO_LONG = "timed out trying to allocate devices"


class SearchLimits(Deadline):
    """The steps and the effort of selectors that a search may take."""

    __slots__ = ("effort", "steps")

    def __init__(self, steps: int, effort: int) -> None:
        super().__init__(lambda: 0.0, math.inf)
        # The steps and the effort that are left.
        self.steps = steps
        self.effort = effort

    def enforce(self) -> None:
        """Count a step. Raises AllocationError if there were too many."""
        self.steps -= 1
        if self.steps < 0:
            raise AllocationError(TOO_LONG)

    def spend(self, effort: int) -> None:
        """Count the effort of a selector. Raises AllocationError if nothing was left for it."""
        if self.effort <= 0:
            raise AllocationError(TOO_LONG)
        self.effort -= effort
