"""Carries out what plugins write before a bind: write, wait beside the queue, then bind the pods.

The pods of one decision are assumed on their nodes, and what its writes take is kept from others. Then the
writes are carried out, and the decision waits until every write has taken effect, while other entries are
tried. Only then are its pods bound, so a gang starts with all that it needs or not at all.

Each step may fail: a write is refused, a controller gives up, a pod or its node goes, an object becomes what
the node cannot use, a preemptor of higher priority takes the room, or the time is over. Then the pods of the
decision are forgotten at once, and what was written is undone as far as nothing depends on it. Once that is
seen, the entry is tried again. It goes where it can use what is bound by then, and if a controller gave up,
it avoids that node for some minutes.

A new leader has no such state. It finds what was written, and decides with it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import NamedTuple

from podium.api.core import SCHEDULER_ERROR
from podium.planner.indexes import discard
from podium.planner.liveplugin import ObjectKey, PluginWrite, PreBindWrite
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Effect,
    Key,
    Moment,
    PodRef,
    PreBind,
    ReportPending,
    UndoPreBind,
)
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.text import listed

# For so long a withdrawal may take to be seen; then the entry is tried in any case.
_SEEN_SECONDS = 10.0
# After an error the decision is looked at again when it changes, or after so long.
_AGAIN_SECONDS = 60.0


class PreBindPhase(Enum):
    """The steps of a decision with writes before its binds."""

    WRITING = "the writes are under way"
    WAITING = "the writes have to take effect"
    RELEASING = "what was written is being withdrawn"
    SETTLING = "the withdrawal has to be seen"


class PendingBind:
    """The pods of one decision, and the writes before their binds."""

    __slots__ = ("bind", "left", "phase", "plan", "priority", "seen", "until", "why")

    def __init__(self, bind: Bind, plan: Sequence[PluginWrite], priority: int, until: float) -> None:
        self.bind = bind
        self.plan = plan
        self.priority = priority
        # The end of the current step, whatever happens, in seconds of the steady clock.
        self.until = until
        self.phase = PreBindPhase.WRITING
        # The objects whose writes have not taken effect.
        self.left = {planned.write.awaited for planned in plan}
        # The objects that were known since.
        self.seen: set[ObjectKey] = set()
        # Why it failed, empty if it did not.
        self.why = ""

    @property
    def writes(self) -> tuple[PreBindWrite, ...]:
        """The writes."""
        return tuple(planned.write for planned in self.plan)


class ObjectChanges(NamedTuple):
    """The changes since the last look: objects of plugins, those whose controllers gave up, and entries."""

    objects: Collection[ObjectKey] = ()
    given_up: Collection[ObjectKey] = ()
    keys: Collection[Key] = ()


class PreBinds:
    """The decisions that wait for their writes; the shell answers with `written` and `released`."""

    def __init__(
        self,
        engine: LiveEngine,
        entries: EntryPods,
        undone: Callable[[Bind], None],
        live: Callable[[], LiveSettings],
    ) -> None:
        """`undone` is called with each bind whose pods are not bound after all."""
        self._engine = engine
        self._entries = entries
        self._undone = undone
        self._live = live
        self._last = 0
        # By number, the oldest first.
        self._open: dict[int, PendingBind] = {}
        self._of_object: dict[ObjectKey, set[int]] = {}
        self._of_key: dict[Key, set[int]] = {}
        # Those to look at without a change, and those in SETTLING.
        self._touched: set[int] = set()
        self._settling: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def start(self, bind: Bind, priority: int, moment: Moment) -> Effect | None:
        """Begin for pods that are assumed already; return their bind if nothing has to be written first.

        None if a pod does not get what it needs beside those of the others; the pods are forgotten.
        """
        engine = self._engine
        plan: dict[ObjectKey, PluginWrite] = {}
        rows = list(self._entries.rows(pod for pod, _ in bind.pods))
        for plugin in engine.snapshot.plugins:
            for row in rows:
                writes = plugin.pre_bind(row)
                if writes is None:
                    self._undone(bind)
                    return None
                for write in writes:
                    before = plan.get(write.awaited)
                    merged = write if before is None else before.write.merged(write)
                    plan[write.awaited] = PluginWrite(plugin, merged)
        if not plan:
            return bind
        engine.yield_room((pod for pod, _ in bind.pods), priority)
        until = moment.seconds + self._live().bind_timeout_seconds
        pending = self._add(bind, tuple(plan.values()), priority, until)
        return PreBind(bind.key, self._last, pending.writes)

    def _add(self, bind: Bind, plan: Sequence[PluginWrite], priority: int, until: float) -> PendingBind:
        """Add a decision under the next number, and keep what its writes take."""
        self._engine.reserve(plan)
        self._last += 1
        pending = self._open[self._last] = PendingBind(bind, plan, priority, until)
        self._of_key.setdefault(bind.key, set()).add(self._last)
        for planned in plan:
            self._of_object.setdefault(planned.write.awaited, set()).add(self._last)
        return pending

    def stranded(self, rows: Collection[int]) -> tuple[PluginWrite, ...]:
        """Return earlier writes to undo for pods (rows) that found no node that can use them."""
        return tuple(
            PluginWrite(plugin, write)
            for plugin in self._engine.snapshot.plugins
            for write in plugin.stranded(rows)
            if write.awaited not in self._of_object
        )

    def release_stranded(self, key: Key, stranded: Sequence[PluginWrite], moment: Moment) -> UndoPreBind:
        """Undo earlier writes of an entry."""
        pending = self._add(Bind(key, ()), stranded, 0, moment.seconds + _SEEN_SECONDS)
        pending.why, pending.phase = "no node can use it", PreBindPhase.RELEASING
        return UndoPreBind(key, self._last, pending.writes)

    def written(self, number: int, why: str) -> None:
        """Record that the writes of a decision ended; `why` one of them failed is empty if none did."""
        pending = self._open[number]
        pending.phase = PreBindPhase.WAITING
        if why:
            self._stop(number, why)
        self._touched.add(number)

    def released(self, number: int, moment: Moment) -> None:
        """Record that the withdrawal of a decision's writes ended, even if not all of them were withdrawn."""
        pending = self._open[number]
        pending.phase, pending.until = PreBindPhase.SETTLING, moment.seconds + _SEEN_SECONDS
        self._settling.add(number)
        self._touched.add(number)

    def stop_below(self, priority: int, nodes: Iterable[int]) -> None:
        """Stop the decisions of lower priority with a pod on one of some nodes (rows)."""
        if not self._engine.yields(priority):
            return
        names = {self._engine.snapshot.node_name(row) for row in nodes}
        for number, pending in self._open.items():
            if pending.priority < priority and any(node in names for _, node in pending.bind.pods):
                self._stop(number, "a node was taken by pods of higher priority")

    def has_work(self, now: float) -> bool:
        """Return whether `advance` would do something without a change."""
        due = self.due()
        return bool(self._touched) or (due is not None and due <= now)

    def due(self) -> float | None:
        """Return the end of the step that ends first; None if none has an end."""
        # All wait equally long.
        first = next((pending.until for pending in self._open.values() if not pending.why), None)
        settling = (self._open[number].until for number in self._settling)
        return min(chain(settling, () if first is None else (first,)), default=None)

    def advance(self, changes: ObjectChanges, effects: list[Effect], moment: Moment) -> None:
        """Look at the decisions that changed, or whose time is over; add what is to be done next.

        An error concerns one of them, which is looked at again later; the others come next.
        """
        entire, self._touched = self._touched, set()
        for key in changes.keys:
            entire |= self._of_key.get(key, set())
        entire.update(self._overdue(moment.seconds))
        by_object = (self._of_object.get(changed, set()) for changed in (*changes.objects, *changes.given_up))
        left = sorted(entire.union(*by_object) & self._open.keys(), reverse=True)
        while left:
            number = left.pop()
            pending = self._open[number]
            try:
                if not pending.why:
                    why = self._write_obstacle(pending, changes.given_up)
                    # A look at all pods for each of a thousand objects would take seconds.
                    if not why and (number in entire or not pending.left):
                        why = self._pods_obstacle(pending, moment.seconds)
                    if why:
                        self._stop(number, why, changes.given_up, moment.seconds)
                effects += self._proceed(number, moment.seconds)
            except BaseException:
                pending.until = moment.seconds + _AGAIN_SECONDS
                self._touched.update(left)
                raise

    def _overdue(self, now: float) -> Iterator[int]:
        due = self.due()
        if due is not None and due <= now:
            for number, pending in self._open.items():
                if pending.until <= now and (not pending.why or number in self._settling):
                    yield number

    def _proceed(self, number: int, now: float) -> list[Effect]:
        """Begin the next step of a decision if it may begin; return its effects."""
        pending = self._open[number]
        bind = pending.bind
        if pending.phase is PreBindPhase.WAITING and not pending.why and not pending.left:
            self._end(number)
            return [bind]
        if pending.phase is PreBindPhase.WAITING and pending.why:
            # A write may be stored that is not seen yet.
            written = tuple(self._withdrawn(number))
            pending.phase = PreBindPhase.RELEASING
            return [UndoPreBind(bind.key, number, written)]
        if pending.phase is not PreBindPhase.SETTLING:
            return []
        leaving = self._withdrawn(number)
        if pending.until > now and any(write.is_stored(self._engine.view) for write in leaving):
            return []
        self._end(number)
        self._undone(bind)
        pods = tuple(pod for pod, _ in bind.pods if self._entries.row(pod) is not None)
        message = f"binding {pending.writes[0].NOUN}s failed: {pending.why}"
        return [ReportPending(bind.key, pods, SCHEDULER_ERROR, message)] if pods else []

    def _write_obstacle(self, pending: PendingBind, given_up: Collection[ObjectKey]) -> str:
        """Return why a write of a decision cannot take effect; empty if all may."""
        for write in pending.writes:
            key, known = write.awaited, write.cached(self._engine.view)
            if obstacle := write.obstacle(known, seen=key in pending.seen):
                return obstacle
            if known is not None:
                pending.seen.add(key)
            done = write.is_done(known)
            (pending.left.discard if done else pending.left.add)(key)
            if not done and key in given_up and write.gave_up:
                return write.gave_up
        return ""

    def _pods_obstacle(self, pending: PendingBind, now: float) -> str:
        """Return why the pods of a decision cannot be bound to their nodes; empty if they may be."""
        why = next(filter(None, (self._lost(pod, node) for pod, node in pending.bind.pods)), "")
        if why or pending.until > now:
            return why
        limit = f"within {self._live().bind_timeout_seconds:g} s"
        if pending.left:
            return f"not bound {limit}: {listed(sorted(key.name for key in pending.left))}"
        # Another leader may have written the same before, so it takes effect while a write hangs.
        return f"a write did not end {limit}" if pending.phase is PreBindPhase.WRITING else ""

    def _lost(self, pod: PodRef, node: str) -> str:
        """Return why a pod cannot have its node any more; empty if it can."""
        snapshot = self._engine.snapshot
        row, node_row = self._entries.row(pod), snapshot.row.get(node)
        if row is None:
            return f"pod {pod.name} is gone"
        if node_row is None or snapshot.node.item(row) != node_row:
            return f"node {node} is gone"
        shape = snapshot.shape_at(row)
        if shape.refused:
            passing = any(shape.refused in plugin.PASSING for plugin in snapshot.plugins)
            return "" if passing else shape.refused
        why = self._engine.unreached(shape, node_row)
        return f"node {node} does not suit pod {pod.name} any more: {why}" if why else ""

    def _stop(self, number: int, why: str, given_up: Collection[ObjectKey] = (), now: float = 0.0) -> None:
        """Forget the pods of a decision that failed, so that others can have their room."""
        pending, engine = self._open[number], self._engine
        if pending.why:
            return
        pending.why = why
        self._touched.add(number)
        engine.keep_room(pod for pod, _ in pending.bind.pods)
        nodes = {write.avoided for write in pending.writes if write.awaited in given_up}
        for pod, node in pending.bind.pods:
            row, node_row = self._entries.row(pod), engine.snapshot.row.get(node)
            if row is not None and node in nodes:
                engine.avoid_node(row, node, now)
            if row is not None and node_row == engine.snapshot.node.item(row):
                engine.forget_pod(row)

    def _end(self, number: int) -> None:
        """Delete a decision; its plan is not held any more."""
        pending = self._open.pop(number)
        self._settling.discard(number)
        discard(self._of_key, pending.bind.key, number)
        for write in pending.writes:
            discard(self._of_object, write.awaited, number)
        self._engine.keep_room(pod for pod, _ in pending.bind.pods)
        self._engine.unreserve(pending.plan)

    def _withdrawn(self, number: int) -> Iterator[PreBindWrite]:
        """Yield the writes of a decision that are to be undone."""
        pending = self._open[number]
        # A node that came back has its pods again until they are undone.
        own = set(self._entries.rows(pod for pod, _ in pending.bind.pods))
        for plugin, write in pending.plan:
            others = self._of_object[write.awaited] - {number}
            shared = any(not self._open[other].why for other in others)
            withdrawn = plugin.withdrawn(write, write.cached(self._engine.view), own, shared=shared)
            if withdrawn is not None:
                yield withdrawn
