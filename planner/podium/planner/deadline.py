"""The time budget of a decision, checked by every loop of the planner whose length depends on the cluster.

A decision is tried on a snapshot that other work waits for. An entry of the queue can make that take very
long, because it chooses the size of its group and the constraints of its pods. So the caller sets a deadline,
and the planner aborts then. Everything that was tried is undone, as at the end of any trial.
"""

import math
from collections.abc import Callable


class DecisionTimeoutError(Exception):
    """A decision took longer than its deadline allows; the engine is as it was before.

    It is no PodiumError: those say that there is nothing to decide, and are handled as such.
    """


class UnansweredDecisionError(DecisionTimeoutError):
    """A decision ended before its deadline, because a selector takes too long; the text names it."""


class Deadline:
    """The moment by which a decision must be made: `seconds` from now by a monotonic `clock`."""

    __slots__ = ("_clock", "_end", "_half", "seconds")

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        """Start the time budget."""
        self.seconds = seconds
        self._clock = clock
        began = clock()
        self._half, self._end = began + seconds / 2, began + seconds

    @property
    def is_half_spent(self) -> bool:
        """Whether a search that has a plan should improve it no more."""
        return self._clock() >= self._half

    def enforce(self) -> None:
        """Raise DecisionTimeoutError if the deadline has passed."""
        if self._clock() >= self._end:
            raise DecisionTimeoutError(f"no decision within {self.seconds:g} s")


# The deadline of a command that waits for its answer without a limit.
NEVER = Deadline(lambda: 0.0, math.inf)
