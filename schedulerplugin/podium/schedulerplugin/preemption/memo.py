"""Keeps decisions on lone pods while nothing changes: ten thousand equal waiting pods need one decision.

A backlog that does not fit is tried again after every change that might help, pod by pod. Pods of one
template get the same answer, apart from the preemptor's name. A change of anything else that a decision
depends on (the cluster, the scheduler's own decisions, the second) empties the memory. A lack of room lasts
as long as room is only taken. A burst of preemptions does nothing else before its first victim is gone.
"""

from collections.abc import Mapping

from podium.schedulerplugin.preemption.decision import Decision
from podium.schedulerplugin.preemption.target import Wanted

# The facts of a lone pod that decide: the id of its shape, its priority, and why it may not preempt.
Kind = tuple[int, int, str]


class Memo:
    """The decisions since the last change, by kind of pod; pods with a reserved node are not among them."""

    def __init__(self) -> None:
        self._second = 0
        self._known: dict[Kind, Decision] = {}
        # The kinds that do not fit without preemption, and whether only room decides that.
        self._waiting: dict[Kind, bool] = {}

    def forget(self) -> None:
        """Forget everything, because something changed that decisions depend on."""
        if self._waiting or self._known:
            self._known, self._waiting = {}, {}

    def forget_plans(self) -> None:
        """Forget the decisions, but keep the kinds without room: no room became free."""
        if self._known:
            self._known = {}
            self._waiting = {kind: True for kind, by_room in self._waiting.items() if by_room}

    def waits(self, kind: Kind) -> bool:
        """Return whether pods of a kind are known not to fit without preemption, at any time."""
        return kind in self._waiting

    def recall(self, kind: Kind, found: Wanted, second: int) -> Decision | None:
        """Return the decision for a pod of the kind in that second, adapted to this pod."""
        known = self._known.get(kind) if second == self._second else None
        if known is None:
            return None
        chosen = known.chosen
        if chosen is not None:
            chosen = chosen._replace(found=chosen.found._replace(placed=_of(found, chosen.found.placed)))
        return known._replace(wanted=found, placed=_of(found, known.placed), chosen=chosen)

    def keep(self, kind: Kind, decision: Decision, second: int, *, by_room: bool) -> None:
        """Keep the decision for a pod that does not fit without preemption.

        `by_room` says that only the requests of other pods block such pods.
        """
        if second != self._second:
            self._second, self._known = second, {}
        self._known[kind] = decision
        self._waiting[kind] = by_room


def _of(found: Wanted, placed: Mapping[int, int]) -> dict[int, int]:
    return dict(zip(found.rows, placed.values(), strict=bool(placed)))
