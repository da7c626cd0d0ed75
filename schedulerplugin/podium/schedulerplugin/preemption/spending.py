"""Counts disruptions that budgets have granted and do not show yet.

An evicted pod is charged to its PodDisruptionBudgets, but their statuses show it late: the disruption
controller has to see the pod terminate, and write. Victims terminate and room becomes free before that, and
the next plan would be granted the same disruption once more. So our own evictions are counted from their
decision on, until a budget is written after the pod was seen to terminate.
"""

from collections.abc import Iterable

from podium.view import Name

# A pod that did not count as healthy leaves its budgets unchanged: nothing is written when it terminates.
_SECONDS = 10


class Spending:
    """The charges of our victims, by names of budgets and UIDs of pods; `revision` grows with each change."""

    def __init__(self) -> None:
        self.revision = 0
        self._of: dict[Name, set[str]] = {}
        self._budgets: dict[str, set[Name]] = {}
        # Pods seen to terminate, and pods seen to be gone with the second of the next `settle` (None: not
        # yet).
        self._going: set[str] = set()
        self._gone: dict[str, int | None] = {}

    def charge(self, uid: str, budgets: Iterable[Name]) -> None:
        """Count a pod that is to be evicted."""
        for name in budgets:
            self.revision += 1
            self._of.setdefault(name, set()).add(uid)
            self._budgets.setdefault(uid, set()).add(name)

    def going(self, uid: str) -> None:
        """Record that a pod was seen being deleted."""
        if uid in self._budgets:
            self._going.add(uid)

    def gone(self, uid: str) -> None:
        """Record that a pod was seen to be gone."""
        if uid in self._budgets:
            self._going.add(uid)
            self._gone.setdefault(uid, None)

    def release(self, uid: str) -> None:
        """Count a pod no more: it stays, or no budget will show its eviction."""
        for name in tuple(self._budgets.get(uid, ())):
            self._forget(uid, name)

    def written(self, budget: Name) -> None:
        """Record that a budget was written: it includes all pods seen to terminate before."""
        for uid in self._going & self._of.get(budget, set()):
            self._forget(uid, budget)

    def taken(self, budget: Name) -> int:
        """Return how many disruptions of a budget are not in its status."""
        return len(self._of.get(budget, ()))

    def settle(self, second: int) -> None:
        """Stop waiting for budgets that are not written within _SECONDS."""
        for uid, since in tuple(self._gone.items()):
            if since is None:
                self._gone[uid] = second
            elif not 0 <= second - since < _SECONDS:
                self.release(uid)

    def _forget(self, uid: str, budget: Name) -> None:
        self.revision += 1
        self._of[budget].discard(uid)
        if not self._of[budget]:
            del self._of[budget]
        self._budgets[uid].discard(budget)
        if not self._budgets[uid]:
            del self._budgets[uid]
            self._going.discard(uid)
            self._gone.pop(uid, None)
