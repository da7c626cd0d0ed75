"""Disruptions that budgets have granted and do not show yet.

Who is evicted charges its PodDisruptionBudgets, but their statuses say so only when the disruption controller
has seen the pod go and has written. Victims go and room comes free before that, and whoever plans then would
be granted the same disruption once more. So what we take ourselves is counted from the moment it is decided,
until a budget is written after the pod was seen to go.
"""

from collections.abc import Iterable

from podium.view import Name

# A pod that did not count as healthy leaves its budgets as they are: nothing is written when it goes.
_SECONDS = 10


class Spending:
    """What victims of ours charge, by the names of budgets and the UIDs of pods; `revision` grows with it."""

    def __init__(self) -> None:
        self.revision = 0
        self._of: dict[Name, set[str]] = {}
        self._budgets: dict[str, set[Name]] = {}
        # Who was seen to go, and who has gone: since which second, once somebody has asked (None: not yet).
        self._going: set[str] = set()
        self._gone: dict[str, int | None] = {}

    def charge(self, uid: str, budgets: Iterable[Name]) -> None:
        """Count a pod that has to go."""
        for name in budgets:
            self.revision += 1
            self._of.setdefault(name, set()).add(uid)
            self._budgets.setdefault(uid, set()).add(name)

    def going(self, uid: str) -> None:
        """Note that a pod was seen being deleted."""
        if uid in self._budgets:
            self._going.add(uid)

    def gone(self, uid: str) -> None:
        """Note that a pod was seen to be gone."""
        if uid in self._budgets:
            self._going.add(uid)
            self._gone.setdefault(uid, None)

    def release(self, uid: str) -> None:
        """Count a pod no more: it stays, or nobody will ever say that it went."""
        for name in tuple(self._budgets.get(uid, ())):
            self._forget(uid, name)

    def written(self, budget: Name) -> None:
        """Note that a budget was written: it knows of all that were seen to go before."""
        for uid in self._going & self._of.get(budget, set()):
            self._forget(uid, budget)

    def taken(self, budget: Name) -> int:
        """Give how many disruptions of a budget are not in its status."""
        return len(self._of.get(budget, ()))

    def settle(self, second: int) -> None:
        """Wait no longer for budgets that nobody writes."""
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
