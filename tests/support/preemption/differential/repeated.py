"""Leaves out the cases that a live scheduler answers differently from run to run.

An answer may depend on the order of Go's maps, and on the node where the trial before ended. So pods with
anti-affinity may be spared in one run and not in the next, and a group may be bound only after a preemption
without victims. Only an answer that stays the same is compared with ours.
"""

from collections.abc import Callable, Sequence

from tests.support.preemption.differential.compare import Compared, compared
from tests.support.preemption.differential.recording import Recording

# The number of repeated runs of a scheduler whose answer differs from ours.
_AGAIN = 4


def lasting(ask: Callable[[Sequence[int]], Recording], indices: Sequence[int]) -> list[Compared]:
    """Compare the answers with ours, but for those that differ and change when they are asked for again."""
    found = dict(zip(indices, _compared(ask(indices)), strict=True))
    wrong = {index: each for index, each in found.items() if each.differs}
    for _ in range(_AGAIN):
        if wrong:
            again = _compared(ask([*wrong]))
            pairs = zip(wrong.items(), again, strict=True)
            wrong = {index: each for (index, each), one in pairs if one.server == each.server}
    return [each for index, each in found.items() if not each.differs or index in wrong]


def _compared(recorded: Recording) -> list[Compared]:
    return [compared(recorded.header, one) for one in recorded.cases]
