"""Decisions on lone pods are kept while nothing changes: ten thousand equal pods that wait are one question.

A backlog that does not fit is tried again after every change that might help, pod by pod, and pods of one
template get the same answer but for who asked. What else a decision depends on (the cluster, what the
scheduler has decided itself, the second) empties the memory when it changes. That there is no room stays so
as long as room is only taken, which is all that a burst of preemptions does before its first victim is gone.
"""

from collections.abc import Mapping

from podium.schedulerplugin.preemption.decision import Decision
from podium.schedulerplugin.preemption.target import Wanted

# What of a lone pod decides: the id of its shape, its priority, and why it may not preempt.
Kind = tuple[int, int, str]


class Memo:
    """The decisions since the last change, by kind of pod; pods that hold a node are not among them."""

    def __init__(self) -> None:
        self._second = 0
        self._known: dict[Kind, Decision] = {}
        # Who does not fit as things are, and whether nothing but room decides that.
        self._waiting: dict[Kind, bool] = {}

    def forget(self) -> None:
        """Forget all: something changed that decisions depend on."""
        if self._waiting or self._known:
            self._known, self._waiting = {}, {}

    def forget_plans(self) -> None:
        """Forget what was decided, but not who has no room: none became free."""
        if self._known:
            self._known = {}
            self._waiting = {kind: True for kind, by_room in self._waiting.items() if by_room}

    def waits(self, kind: Kind) -> bool:
        """Say whether it is known that pods of a kind do not fit as things are, whatever the time."""
        return kind in self._waiting

    def recall(self, kind: Kind, found: Wanted, second: int) -> Decision | None:
        """Give what was decided for a pod of the kind in that second, as if for this one."""
        known = self._known.get(kind) if second == self._second else None
        if known is None:
            return None
        chosen = known.chosen
        if chosen is not None:
            chosen = chosen._replace(found=chosen.found._replace(placed=_of(found, chosen.found.placed)))
        return known._replace(wanted=found, placed=_of(found, known.placed), chosen=chosen)

    def keep(self, kind: Kind, decision: Decision, second: int, *, by_room: bool) -> None:
        """Keep what was decided for a pod that does not fit as things are.

        `by_room` says that only what other pods request is in such pods' way.
        """
        if second != self._second:
            self._second, self._known = second, {}
        self._known[kind] = decision
        self._waiting[kind] = by_room


def _of(found: Wanted, placed: Mapping[int, int]) -> dict[int, int]:
    return dict(zip(found.rows, placed.values(), strict=bool(placed)))
