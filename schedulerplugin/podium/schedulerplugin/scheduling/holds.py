"""Holds room for entries: reserved nodes, the room that a gang waits for, and pods that are being bound.

Room is held before the API server shows it. A reservation keeps a node for one pod, and out of reach of all
others of no higher priority. A pod is assumed on its node from the decision on, until its bind ends. If
something is written first (`prebinds`), it holds the node while it waits for that.

- `reserve` and `bind` hold room for an entry, and `hold` does so for a gang that was refused.
- `give_way` takes room from entries of lower priority. It is the only place where a hold loses to another.
- `release` ends what is held for an entry.

Every entry that could use the room is notified when a reservation ends. An entry that loses its node to a
higher priority is looked at again. If the API server rejects a bind, the node is reserved for the pod
instead. The pod is then tried first, because its group may be waiting for this pod alone. An entry whose
binds fail repeatedly is tried less and less often.

A gang that needs ten nodes is not placed when one node comes free: the next small pod takes that node. So the
gang reserves free room, as nominations in memory, until all of it fits or `gangHoldSeconds` have passed. Four
rules bound what this costs others:

- An entry of higher priority does not count nominations of lower priority, so no hold delays it.
- One gang holds at a time, or two gangs could hold half of the room each until both holds end.
- After a hold no gang holds for as long as it lasted. A gang whose hold ran out pauses longer each time.
- A gang that would not fit on empty nodes never holds.

A new leader starts without a gang's hold. Other schedulers do not see it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import numpy as np

from podium.api.groups import PodGroup
from podium.api.membership import GroupKey
from podium.api.times import written
from podium.cluster.reader import Name
from podium.planner.arrays import Bools
from podium.planner.deadline import Deadline, DecisionTimeoutError
from podium.planner.liveplugin import PluginWrite
from podium.planner.overlay import PENDING
from podium.planner.preemption.target import PlacementTarget
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Effect,
    Key,
    Moment,
    Placements,
    PodRef,
    placements,
    ref_at,
)
from podium.schedulerplugin.scheduling.entry import Entry, EntryEvent, EntryPhase
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.eventhandlers import Changes
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.prebinds import PreBinds

# A gang that fails again and again pauses for at most 2 ** 5 times the length of a hold.
_MOST_DOUBLINGS = 5


class HoldEnd(StrEnum):
    """Why a gang's hold ended, as the metric `gang_holds_total` counts it."""

    # The gang has nodes for all its pods. Some of them may wait for terminating pods.
    SCHEDULED = "scheduled"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"


class GangRoom(NamedTuple):
    """The room that a refused gang is to hold; `until` is the end of the hold, as RFC 3339.

    `placed` is what is free now, None if there was no time to compute it.
    """

    needed: int
    priority: int
    placed: Placements | None
    until: str


class GangPause(NamedTuple):
    """How often in a row the holds of a gang failed, and before which time it begins no other."""

    failures: int
    until: float


class Holds:
    """The room that is held for the entries of one scheduler; other code writes status.nominatedNodeName."""

    def __init__(
        self, engine: LiveEngine, entries: EntryPods, changes: Changes, live: Callable[[], LiveSettings]
    ) -> None:
        """Hold nothing."""
        self.prebinds = PreBinds(engine, entries, self._undone, live)
        # The gang that holds room, and how often holds ended, by the reason.
        self.holder: Key | None = None
        self.ended: Counter[HoldEnd] = Counter()
        self._engine = engine
        self._entries = entries
        self._changes = changes
        self._live = live
        self._began: Moment | None = None
        # Before this time (seconds) no gang begins to hold.
        self._rest = float("-inf")
        self._pods: tuple[PodRef, ...] = ()
        self._needed = 0
        self._priority = 0

    def give_way(self, priority: int, nodes: Collection[int], cleared: Sequence[PodRef] = ()) -> None:
        """Take room from entries of lower priority that hold it, and have no pod there yet.

        On `nodes` (rows) the reservations of a gang end, and decisions stop that wait for their writes. The
        reservations of `cleared` pods end, and their entries are looked at again.
        """
        if self.holder is not None:
            nominated = (row for node in set(nodes) for row in self._engine.nominated_on(node))
            self.cancel([row for row in nominated if self.yields(row, priority)])
        self.prebinds.stop_below(priority, nodes)
        for row in self._entries.rows(cleared) if cleared else ():
            self._exchange(ref_at(self._engine, row).key, self._engine.nomination(row), "")
            self._changes.touched.update(self._entries.keys((row,)))

    def release(
        self, key: Key, now: float, rows: Sequence[int] = (), why: HoldEnd = HoldEnd.WITHDRAWN
    ) -> None:
        """End a gang's hold if it is that of the entry, and the reservations of some of its rows."""
        if key == self.holder:
            self._end_hold(now, why)
        if rows:
            self.cancel(rows)

    def reserve(self, rows: Iterable[int], nominations: Placements) -> None:
        """Reserve nodes for pods of an entry, and end any other reservation of its rows."""
        reserved = {pod.key: node for pod, node in nominations}
        for row in rows:
            pod = ref_at(self._engine, row)
            node, held = reserved.get(pod.key, ""), self._engine.nomination(row)
            if held != node:
                self._exchange(pod.key, held, node)

    def cancel(self, rows: Iterable[int]) -> None:
        """End the reservations of some rows."""
        self.reserve(rows, ())

    def vacate(self, victims: Iterable[PodRef]) -> None:
        """Count victims of a preemption as terminating: their room is the preemptor's."""
        rows = self._entries.rows(victims)
        self._engine.mark_for_deletion(rows)
        self._changes.marked(rows)

    def _exchange(self, pod: Name, held: str, node: str) -> None:
        """Replace the node reserved for a pod; either may be empty."""
        self._changes.count_on(pod, held)
        self._engine.nominate(pod, node)
        self._changes.count_on(pod, node)

    # Pods that are being bound.

    def bind(self, bind: Bind, priority: int, effects: list[Effect], moment: Moment) -> None:
        """Assume pods on their nodes, and add what is carried out first: writes before the bind, or the bind.

        That is nothing if a pod does not get what it needs after all.
        """
        engine, changes = self._engine, self._changes
        rows, node_row = self._entries.rows(pod for pod, _ in bind.pods), engine.snapshot.row
        placed = dict(zip(rows, (node_row[node] for _, node in bind.pods), strict=True))
        for node in set(placed.values()):
            overtaken = (row for row in engine.nominated_on(node) if row not in placed)
            changes.touched.update(self._entries.keys(overtaken))
        for row, node in placed.items():
            engine.assume(row, node)
        for pod, name in bind.pods:
            changes.bind_sent(pod.key, name)
        if isinstance(bind.key, GroupKey):
            # More of its pods may wait.
            changes.touched.add(bind.key)
        begun = self.prebinds.start(bind, priority, moment)
        if begun is not None:
            effects.append(begun)

    def bind_done(self, key: Key) -> None:
        """Record that a pod of an entry was bound."""
        entry = self._entries.records[key]
        entry.binding -= 1
        entry.bind_failures = 0
        entry.eviction_failures = None
        self._answered(entry)

    def bind_failed(self, key: Key, pod: PodRef, node: str, *, settled: bool) -> None:
        """Record that a bind failed; `settled` means that no retry is needed (the pod is gone or bound).

        The pod was assumed on its node until now. From now on the node is reserved for it, and it is tried
        first.
        """
        entry = self._entries.records[key]
        entry.binding -= 1
        if not self._forget_pod(pod, node):
            # The pod is gone, or its node was deleted meanwhile and the pod is assumed on another.
            pass
        elif settled:
            # The watch will deliver the pod's new state. A retry before that would fail again.
            entry.bind_failures = 0
            self.cancel(self._entries.rows((pod,)))
            self._changes.count_on(pod.key, "")
        else:
            self._engine.nominate(pod.key, node)
            self._retry(entry)
        self._answered(entry)

    def retries(self, key: Key) -> int:
        """Return how many binds of an entry failed in a row, 0 if none failed since the last call."""
        entry = self._entries.records[key]
        retry, entry.retry = entry.retry, False
        # Another of its pods may have been bound since, which resets the count.
        return max(1, entry.bind_failures) if retry else 0

    def stranded(self, rows: Collection[int]) -> tuple[PluginWrite, ...]:
        """Return earlier writes to undo, because no node can use them for their pods (rows).

        There are none while a bind in flight may still succeed.
        """
        stranded = self.prebinds.stranded(rows)
        return () if stranded and self._changes.unanswered(rows) else stranded

    def _undone(self, bind: Bind) -> None:
        """Record that pods are not bound after all, and that nothing keeps them on their nodes."""
        entry = self._entries.records[bind.key]
        entry.binding -= len(bind.pods)
        for pod, node in bind.pods:
            if self._forget_pod(pod, node):
                self.cancel(self._entries.rows((pod,)))
                self._changes.count_on(pod.key, "")
        self._retry(entry)
        self._answered(entry)

    def _retry(self, entry: Entry) -> None:
        """Let an entry be tried again, less often with each failure in a row."""
        self._changes.touched.add(entry.key)
        entry.bind_failures += 1
        entry.retry = True
        if entry.phase is EntryPhase.BINDING:
            self._entries.records.move(entry, EntryEvent.FAIL)

    def _answered(self, entry: Entry) -> None:
        """Delete the record of an entry without waiting pods after its last bind."""
        if not entry.binding and entry.phase is EntryPhase.BINDING:
            self._entries.records.move(entry, EntryEvent.DROP)

    def _forget_pod(self, pod: PodRef, node: str) -> bool:
        """Count a pod on its node no more; return False if it did not count there any longer."""
        row, snapshot = self._entries.row(pod), self._engine.snapshot
        if row is None:
            return False
        self._changes.bind_failed(pod.key, node)
        if snapshot.node.item(row) not in (PENDING, snapshot.row.get(node)):
            return False
        self._engine.forget_pod(row)
        return True

    # The room that one gang waits for.

    def gang_room(
        self, key: Key, target: PlacementTarget, moment: Moment, deadline: Deadline
    ) -> GangRoom | GangPause | None:
        """Return the room that an entry that found no place may hold, or hold on; None if it may not.

        A gang that would not fit on empty nodes is to pause.
        """
        live, group = self._live(), target.group
        if (
            live.gang_hold_seconds <= 0
            or not self._engine.settings.semantics.rules.holds_room
            or not isinstance(group, PodGroup)
            or group.min_count is None
            # The room that comes free may be in another domain than the next.
            or group.topology
            or target.slices
            or target.needed <= 1
            # Entries of higher priority than the gang would count the hold of such a pod.
            or any(self._engine.priority_of(row) > target.priority for row in target.rows)
        ):
            return None
        if key != self.holder:
            _, paused = self._entries.records[key].hold_failures or (0, moment.seconds)
            if moment.seconds < max(self._rest, paused) or self.counts(target.priority):
                return None
            if not self._fits_emptied(target, deadline):
                return self._pause(key, moment.seconds)
        # A gang that takes the place of another has the rest of its time.
        placed = self._place_gang(target.rows, target.needed, target.priority, None, deadline)
        return GangRoom(target.needed, target.priority, placed, self._ends(self._began or moment))

    def hold(self, key: Key, rows: Sequence[int], room: GangRoom | GangPause | None, moment: Moment) -> None:
        """Let a refused gang hold room, or hold on; no other entry keeps a reservation of its rows."""
        if not isinstance(room, GangRoom):
            self.release(key, moment.seconds, rows)
            if room is not None:
                self._entries.records[key].hold_failures = room
            return
        if self.holder is not None and key != self.holder:
            self.ended[HoldEnd.WITHDRAWN] += 1
            self.cancel(self._gang_rows())
        self.holder = key
        self._began = self._began or moment
        self._pods = tuple(ref_at(self._engine, row) for row in rows)
        self._needed, self._priority = room.needed, room.priority
        if room.placed is not None:
            self.reserve(rows, room.placed)

    def grow(self, nodes: Collection[int], deadline: Deadline) -> bool:
        """Hold what became free on these nodes (rows), and release the room that others took there.

        Return whether the gang holds room for all that it needs only now.
        """
        engine, rows = self._engine, self._gang_rows()
        within = np.zeros(len(engine.snapshot.alive), np.bool_)
        within[list(nodes)] = True
        reserved = {row: engine.snapshot.row.get(engine.nomination(row)) for row in rows}
        held = [row for row, node in reserved.items() if node is not None]
        stay = {row for row, node in reserved.items() if node is not None and not within[node]}
        missing, again = self._needed - len(stay), [row for row in rows if row not in stay]
        if missing <= 0:
            return False
        placed = self._place_gang(again, missing, self._priority, within, deadline)
        if placed is None:
            return False
        self.reserve(again, placed)
        return len(held) < self._needed <= len(stay) + len(placed)

    def over(self, now: float) -> bool:
        """Return whether a gang holds room and its time has passed."""
        due = self.due()
        return due is not None and due <= now

    def due(self) -> float | None:
        """Return when the gang's hold ends, in seconds of the steady clock; None without a hold."""
        return None if self._began is None else self._began.seconds + self._live().gang_hold_seconds

    def until(self, priority: int) -> str:
        """Return the end of the gang's hold if entries of this priority count it, as RFC 3339; else empty."""
        return self._ends(self._began) if self._began is not None and self.counts(priority) else ""

    def counts(self, priority: int) -> bool:
        """Return whether a gang holds room that entries of this priority must leave to it."""
        return self.holder is not None and priority <= self._priority

    def yields(self, row: int, priority: int) -> bool:
        """Return whether a pod (row) is one of a gang that gives way to an entry of this priority."""
        return priority > self._priority and self._entries.keys((row,)) == {self.holder}

    def blocks(self, target: PlacementTarget, deadline: Deadline) -> bool:
        """Return whether an entry would fit now if the gang held nothing."""
        if not self.counts(target.priority):
            return False
        return self._engine.fits_beside(target, self._gang_rows(), deadline)

    def comes_first(self, target: PlacementTarget) -> bool:
        """Return whether room that terminating pods will free is for the gang, not for this entry.

        An entry that has a reservation keeps it: it may have evicted the pods that terminate.
        """
        if not self.counts(target.priority):
            return False
        nomination, rows = self._engine.nomination, self._gang_rows()
        incomplete = sum(bool(nomination(row)) for row in rows) < self._needed
        return incomplete and not any(row in rows or nomination(row) for row in target.rows)

    def time_out(self, now: float) -> Key:
        """End the gang's hold, for its time has passed; return the gang."""
        key = self.holder
        assert key is not None, "a gang holds room"
        self._end_hold(now, HoldEnd.TIMED_OUT)
        self._entries.records[key].hold_failures = self._pause(key, now)
        return key

    def _fits_emptied(self, target: PlacementTarget, deadline: Deadline) -> bool:
        try:
            placed = self._engine.room_for(target.rows, target.priority, emptied=True, deadline=deadline)
        except DecisionTimeoutError:
            return False
        return len(placed) >= target.needed

    def _place_gang(
        self, rows: Sequence[int], most: int, priority: int, within: Bools | None, deadline: Deadline
    ) -> Placements | None:
        """Return where at most so many pods (rows) fit, on some nodes or on all; None after the deadline."""
        try:
            room = self._engine.room_for(rows, priority, within=within, deadline=deadline)
        except DecisionTimeoutError:
            return None
        return placements(self._engine, dict(islice(room.items(), most)))

    def _gang_rows(self) -> list[int]:
        """Return the rows of the gang's pods that still wait, in the order in which they are placed."""
        node = self._engine.snapshot.node
        return [row for row in self._entries.rows(self._pods) if node.item(row) < 0]

    def _end_hold(self, now: float, why: HoldEnd) -> None:
        assert self._began is not None, "a gang holds room"
        rows, self._rest = self._gang_rows(), now + (now - self._began.seconds)
        self.holder, self._began, self._pods = None, None, ()
        self.ended[why] += 1
        self.cancel(rows)

    def _ends(self, began: Moment) -> str:
        return written(began.now + timedelta(seconds=self._live().gang_hold_seconds))

    def _pause(self, key: Key, now: float) -> GangPause:
        """Return how long a gang holds nothing: its hold ran out, or it would not fit on empty nodes."""
        before, _ = self._entries.records[key].hold_failures or (0, now)
        failures = min(before + 1, _MOST_DOUBLINGS)
        return GangPause(failures, now + self._live().gang_hold_seconds * 2.0**failures)
