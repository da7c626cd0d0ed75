"""Hold free room for one gang that waits, so that smaller pods of its priority cannot starve it.

A gang that needs ten nodes is not placed when one node comes free: the next small pod takes that node. So the
gang reserves free room, as nominations in memory, until all of it fits or `gangHoldSeconds` have passed.

Four rules bound what this costs others:

- An entry of higher priority does not count nominations of lower priority, so no hold delays it.
- One gang holds at a time, or two gangs could hold half of the room each until both holds end.
- After a hold no gang holds for as long as it lasted. A gang whose hold ran out pauses longer each time.
- A gang that would not fit on empty nodes never holds.

A new leader starts without a hold. Other schedulers do not see it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from enum import StrEnum
from itertools import islice

import numpy as np

from podium.api.groups import PodGroup
from podium.api.times import written
from podium.planner.arrays import Bools
from podium.planner.deadline import Deadline, DecisionTimeoutError
from podium.planner.preemption.target import PlacementTarget
from podium.planner.semantics import Semantics
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.scheduling.binds import Reservations
from podium.schedulerplugin.scheduling.decisioneffects import placements, ref_at
from podium.schedulerplugin.scheduling.effects import Key, Moment, PodRef
from podium.schedulerplugin.scheduling.entry import Entries
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

# A gang that fails again and again pauses for at most 2 ** 5 times the length of a hold.
_MOST_DOUBLINGS = 5


class HoldEnd(StrEnum):
    """Why a hold ended, as the metric `gang_holds_total` counts it."""

    # The gang has nodes for all its pods. Some of them may wait for terminating pods.
    SCHEDULED = "scheduled"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"


class GangHold:
    """The room that one gang holds; the methods change the reservations of its pods."""

    def __init__(
        self,
        engine: LiveEngine,
        entry_pods: EntryPods,
        reservations: Reservations,
        entries: Entries,
        live: Callable[[], LiveSettings],
    ) -> None:
        """Hold nothing."""
        self.ended: Counter[HoldEnd] = Counter()
        self.holder: Key | None = None
        self._engine = engine
        self._entry_pods = entry_pods
        self._reservations = reservations
        self._entries = entries
        self._live = live
        self._began: Moment | None = None
        # Before this time (seconds) no hold begins.
        self._rest = float("-inf")
        self._pods: tuple[PodRef, ...] = ()
        self._needed = 0
        self._priority = 0

    def over(self, now: float) -> bool:
        """Return whether there is a hold and its time has passed."""
        due = self.due()
        return due is not None and due <= now

    def due(self) -> float | None:
        """Return when the hold ends, in seconds of the steady clock; None without a hold."""
        return None if self._began is None else self._began.seconds + self._live().gang_hold_seconds

    def until(self, priority: int) -> str:
        """Return the end of the hold if entries of this priority count it, as RFC 3339; else empty."""
        if self._began is None or priority > self._priority:
            return ""
        return written(self._began.now + timedelta(seconds=self._live().gang_hold_seconds))

    def hold_after_refusal(
        self, key: Key, target: PlacementTarget, moment: Moment, deadline: Deadline
    ) -> bool:
        """Let a gang that found no place hold room, or hold on; return whether it holds."""
        if not self._may_hold(target):
            self.release_for(key, moment.seconds)
        elif key == self.holder or self._may_begin(key, target, moment.seconds, deadline):
            self._start_hold(key, target, moment)
            self._reserve(None, deadline)
        return key == self.holder

    def grow(self, nodes: Collection[int], deadline: Deadline) -> bool:
        """Hold what became free on these nodes (rows), and release the room that others took there.

        Return whether the gang holds room for all that it needs only now.
        """
        within = np.zeros(len(self._engine.snapshot.alive), np.bool_)
        within[list(nodes)] = True
        before, held = self._reserve(within, deadline)
        return before < self._needed <= held

    def give_way(self, priority: int, nodes: Iterable[int]) -> None:
        """Release room on nodes (rows) that an entry of this priority takes, if that is higher."""
        if self.holder is None or priority <= self._priority:
            return
        nominated = (row for node in set(nodes) for row in self._engine.nominated_on(node))
        self._reservations.cancel(
            [row for row in nominated if self._entry_pods.keys((row,)) == {self.holder}]
        )

    def blocks(self, target: PlacementTarget, deadline: Deadline) -> bool:
        """Return whether an entry would fit now if nothing were held."""
        if self.holder is None or target.priority > self._priority:
            return False
        return self._engine.fits_beside(target, self._rows(), deadline)

    def comes_first(self, target: PlacementTarget) -> bool:
        """Return whether room that terminating pods will free is for the gang, not for this entry.

        An entry that has a reservation keeps it: it may have evicted the pods that terminate.
        """
        if self.holder is None or target.priority > self._priority:
            return False
        nomination, rows = self._engine.nomination, self._rows()
        incomplete = sum(bool(nomination(row)) for row in rows) < self._needed
        return incomplete and not any(row in rows or nomination(row) for row in target.rows)

    def time_out(self, now: float) -> Key:
        """End the hold, for its time has passed; return the gang."""
        key = self.holder
        assert key is not None, "there is a hold"
        self._end_hold(now, HoldEnd.TIMED_OUT)
        self._pause(key, now)
        return key

    def release_for(self, key: Key, now: float, why: HoldEnd = HoldEnd.WITHDRAWN) -> None:
        """End the hold if it is that of an entry; this comes before other reservations for it."""
        if key == self.holder:
            self._end_hold(now, why)

    def _may_hold(self, target: PlacementTarget) -> bool:
        """Return whether an entry is of the kind that may hold room.

        Its pods must not count as more than the entry, or entries of higher priority would count the hold.
        """
        engine, group = self._engine, target.group
        return (
            self._live().gang_hold_seconds > 0
            and engine.settings.semantics is Semantics.KEP
            and isinstance(group, PodGroup)
            and group.min_count is not None
            # The room that comes free may be in another domain than the next.
            and not (group.topology or target.slices)
            and target.needed > 1
            and all(engine.priority_of(row) <= target.priority for row in target.rows)
        )

    def _may_begin(self, key: Key, target: PlacementTarget, now: float, deadline: Deadline) -> bool:
        """Return whether a gang may hold room from now on, perhaps in place of one of lower priority."""
        _, pause = self._entries[key].hold_failures or (0, now)
        if now < max(self._rest, pause):
            return False
        if self.holder is not None and target.priority <= self._priority:
            return False
        try:
            placed = self._engine.room_for(target.rows, target.priority, emptied=True, deadline=deadline)
        except DecisionTimeoutError:
            placed = {}
        if len(placed) < target.needed:
            self._pause(key, now)
        return len(placed) >= target.needed

    def _start_hold(self, key: Key, target: PlacementTarget, moment: Moment) -> None:
        """Note what a gang needs; a gang that takes the place of another has the rest of its time."""
        if self.holder is not None and key != self.holder:
            self.ended[HoldEnd.WITHDRAWN] += 1
            self._reservations.cancel(self._rows())
        self.holder = key
        self._began = self._began or moment
        self._pods = tuple(ref_at(self._engine, row) for row in target.rows)
        self._needed, self._priority = target.needed, target.priority

    def _reserve(self, within: Bools | None, deadline: Deadline) -> tuple[int, int]:
        """Reserve what is free on some nodes, or on all; return for how many pods room was held, and is."""
        engine, rows = self._engine, self._rows()
        nodes = {row: engine.snapshot.row.get(engine.nomination(row)) for row in rows}
        held = [(row, node) for row, node in nodes.items() if node is not None]
        stay = {row for row, node in held if within is not None and not within[node]}
        missing, again = self._needed - len(stay), [row for row in rows if row not in stay]
        if missing <= 0:
            return len(held), len(held)
        try:
            room = engine.room_for(again, self._priority, within=within, deadline=deadline)
        except DecisionTimeoutError:
            return len(held), len(held)
        placed = placements(engine, dict(islice(room.items(), missing)))
        self._reservations.give(again, placed)
        return len(held), len(stay) + len(placed)

    def _rows(self) -> list[int]:
        """Return the rows of the gang's pods that still wait, in the order in which they are placed."""
        node = self._engine.snapshot.node
        return [row for row in self._entry_pods.rows(self._pods) if node.item(row) < 0]

    def _end_hold(self, now: float, why: HoldEnd) -> None:
        assert self._began is not None, "there is a hold"
        rows, self._rest = self._rows(), now + (now - self._began.seconds)
        self.holder, self._began, self._pods = None, None, ()
        self.ended[why] += 1
        self._reservations.cancel(rows)

    def _pause(self, key: Key, now: float) -> None:
        """Keep a gang from holding for a while: its hold ran out, or it would not fit on empty nodes."""
        entry = self._entries[key]
        before, _ = entry.hold_failures or (0, now)
        failures = min(before + 1, _MOST_DOUBLINGS)
        entry.hold_failures = failures, now + self._live().gang_hold_seconds * 2.0**failures
