"""Decides for one entry, and acts on the decision.

`attempt` is the start of the path. A decision has one of these outcomes:

- It fits: its pods are assumed on their nodes and bound (`_bind`).
- It fits after a preemption: if no limit holds the preemption back, it begins (`_preempt`, `_carry_out`).
- It fits once terminating pods are gone: nodes are reserved for it (`_await`).
- It does not fit: it waits for a change that may help it (`_refuse`).
- It must not be scheduled: it is held back (`gate`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from podium.api.core import SCHEDULER_ERROR
from podium.api.membership import GroupKey
from podium.api.times import seconds
from podium.cluster.reader import Name
from podium.errors import PodiumError
from podium.planner.deadline import Deadline, DecisionTimeoutError
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.scheduling import messages
from podium.schedulerplugin.scheduling.binds import Binds, Reservations
from podium.schedulerplugin.scheduling.claimbinds import ClaimBinds
from podium.schedulerplugin.scheduling.decisioneffects import (
    eviction,
    outranked,
    placements,
    pod_ref,
    ref_at,
    waiting,
)
from podium.schedulerplugin.scheduling.effects import (
    Effect,
    Evict,
    Held,
    Key,
    Moment,
    Planned,
    PodRef,
    ReportPending,
    TimedOut,
)
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.eventhandlers import Changes
from podium.schedulerplugin.scheduling.evictionlimits import Restraint, Why, expiry, note_no_room, overdue
from podium.schedulerplugin.scheduling.gang_hold import GangHold, HoldEnd
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.messages import UNSCHEDULABLE
from podium.schedulerplugin.scheduling.preemptions import Preemptions
from podium.schedulerplugin.scheduling.queue import Queue

# The most lone pods that are placed at once; the cost of what is computed once for all of them is small then.
_RUN = 256
# The most preemptors that follow a like one without a look at all nodes; changes and answers wait meanwhile.
_ALIKE = 15


class SchedulingCycle:
    """Tries the entries that the queue gives; the arguments `effects` collect what is to be carried out."""

    def __init__(
        self,
        engine: LiveEngine,
        live: Callable[[], LiveSettings],
        deadline: Callable[[], Deadline],
        *,
        queue: Queue,
        entry_pods: EntryPods,
        changes: Changes,
        reservations: Reservations,
        binds: Binds,
        claim_binds: ClaimBinds,
        preemptions: Preemptions,
        gang_hold: GangHold,
        restraint: Restraint,
    ) -> None:
        """`deadline` starts the time budget of a decision."""
        self._engine = engine
        self._live = live
        self._deadline = deadline
        self._queue = queue
        self._entries = queue.entries
        self._entry_pods = entry_pods
        self._changes = changes
        self._reservations = reservations
        self._binds = binds
        self._claim_binds = claim_binds
        self._preemptions = preemptions
        self._gang_hold = gang_hold
        self._restraint = restraint
        # The number of lone pods that are tried at once.
        self._length = _RUN
        # The entries that the current step tries; after an error, those that it tried last.
        self.tried: list[Key] = []

    def attempt(self, first: Key, effects: list[Effect], moment: Moment) -> None:
        """Schedule one entry that was popped, and perhaps others like it with it."""
        if isinstance(first, GroupKey):
            self._decide(first, effects, moment)
        elif not self._entry_pods.reserved(first):
            self._place_run(first, effects, moment)
        elif (node := self._engine.as_reserved(first)) is not None:
            # A better place may be taken, but need not be looked for.
            self._bind(first, {self._engine.snapshot.pod_row[first]: node}, effects, moment)
        else:
            self._decide(first, effects, moment)

    def _place_run(self, first: Name, effects: list[Effect], moment: Moment) -> None:
        """Place lone pods of one priority one after the other, while they fit; decide for the next one."""
        if self._engine.waits(first):
            # A pod like it found no place a moment ago, so others need not be tried with it.
            self._decide(first, effects, moment)
            return
        queue, now = self._queue, moment.seconds
        run = [first]
        priority = self._entry_pods.priority(first)
        while len(run) < self._length and not self._entries[first].alone:
            key = queue.first(now)
            if key is None or isinstance(key, GroupKey) or self._entry_pods.priority(key) != priority:
                break
            if self._entry_pods.reserved(key) or self._entries[key].alone:
                break
            queue.pop(now)
            run.append(key)
        self.tried = list[Key](run)
        placed = self._engine.place_lone(run, deadline=self._deadline())
        # If there is no room, the attempts at the others are useless.
        self._length = min(2 * len(run), _RUN) if len(placed) == len(run) else 1
        pods = self._engine.snapshot.pod_row
        for key, node in placed.items():
            self._bind(key, {pods[key]: node}, effects, moment)
        left = run[len(placed) :]
        for key in left[1:]:
            queue.give_back(key)
        if left:
            self.tried = [left[0]]
            self._decide(left[0], effects, moment)

    def _decide(self, key: Key, effects: list[Effect], moment: Moment) -> None:
        """Decide for one entry, and act on the decision."""
        deadline = self._deadline()
        try:
            unsure = self._preemptions.unsure(key)
            begun = self._engine.resume(key, unsure, moment.now, deadline=deadline) if unsure else None
            decision = begun or self._engine.decide(key, moment.now, deadline=deadline)
        except PodiumError:
            # None of its pods waits any more, or its group is gone.
            self._changes.touched.add(key)
            self._queue.fail(key)
            return
        if decision.target is None:
            cause = Blocker.NOT_JUDGED if decision.outcome is Outcome.NOT_JUDGED else None
            self.gate(key, Unplaceable(decision.why, cause), effects, moment)
        elif decision.outcome is Outcome.FITS:
            self._bind(key, decision.placed, effects, moment)
        elif released := self._claim_binds.release_stranded(key, decision.target.rows, moment):
            effects.append(released)
            self._refuse(key, decision, decision.target, effects, moment)
        elif decision.outcome is not Outcome.FITS_AFTER_PREEMPTION:
            self._refuse(key, decision, decision.target, effects, moment)
        elif decision.chosen is None:
            self._await(key, decision, decision.target, effects, moment)
        elif begun is not None:
            self._preempt(key, decision, decision.target, effects, moment, again=True)
        elif self._preempt(key, decision, decision.target, effects, moment):
            self._preempt_alike(decision, effects, moment)

    def _preempt_alike(self, decision: Decision, effects: list[Effect], moment: Moment) -> None:
        """Preempt for the next lone pods like the last preemptor, and reuse the results for all nodes."""
        deadline = self._deadline()
        for _ in range(_ALIKE):
            key = self._queue.first(moment.seconds)
            if key is None or isinstance(key, GroupKey) or self._entries[key].alone:
                return
            if self._preemptions.unsure(key):
                return
            try:
                next_decision = self._engine.decide_next(decision, key, moment.now, deadline=deadline)
            except DecisionTimeoutError:
                # The key is in the queue still, and has a deadline of its own when it is popped.
                return
            if next_decision is None or next_decision.target is None:
                return
            self._queue.pop(moment.seconds)
            self.tried = [key]
            if not self._preempt(key, next_decision, next_decision.target, effects, moment):
                return
            decision = next_decision

    def _bind(self, key: Key, placed: dict[int, int], effects: list[Effect], moment: Moment) -> None:
        """Assume pods on their nodes, and have them bound; the rest of a group is looked at again."""
        self._gang_hold.release_for(key, moment.seconds, HoldEnd.SCHEDULED)
        self._give_way(self._engine.priority_of(next(iter(placed))), placed)
        priority = self._engine.priority_of(next(iter(placed)))
        bind = self._binds.assume(key, placed)
        self.forget_entry(key, moment.seconds)
        if isinstance(key, GroupKey):
            self._changes.touched.add(key)
        begun = self._claim_binds.start(bind, priority, moment)
        if begun is not None:
            effects.append(begun)

    def _give_way(self, priority: int, placed: Mapping[int, int]) -> None:
        """Take room on nodes (rows) from those of lower priority that hold it, and have no pod there yet."""
        self._gang_hold.give_way(priority, placed.values())
        self._claim_binds.give_way(priority, placed.values())

    def _await(
        self, key: Key, decision: Decision, target: PlacementTarget, effects: list[Effect], moment: Moment
    ) -> None:
        """Reserve nodes for an entry that fits once pods are gone that are terminating already."""
        if self._gang_hold.comes_first(target):
            self._park(key, target, moment, overdue(self._engine, decision, moment))
            why = messages.behind(self._gang_hold.until(target.priority))
            self._report(key, target, f"{messages.refusal(decision)} {why}", effects)
            return
        pods = placements(self._engine, decision.placed)
        self._gang_hold.release_for(key, moment.seconds, HoldEnd.SCHEDULED)
        self._reservations.outrank(
            ref_at(self._engine, row) for row in outranked(self._engine, target, decision)
        )
        self._reservations.give(target.rows, pods)
        uids = self._engine.snapshot.uids
        awaited = frozenset(uids[row] for row in decision.awaited)
        waits_for = waiting(self._engine, target.rows, target.priority, awaited=awaited)
        self._queue.park(key, waits_for, moment.seconds, overdue(self._engine, decision, moment))
        self._report(key, target, messages.awaiting(decision), effects, pods)

    def _preempt(
        self,
        key: Key,
        decision: Decision,
        target: PlacementTarget,
        effects: list[Effect],
        moment: Moment,
        *,
        again: bool = False,
    ) -> bool:
        """Begin a preemption, or report why it has to wait; return whether it began."""
        message = messages.refusal(decision)
        if not again and self._gang_hold.blocks(target, self._deadline()):
            self._reservations.cancel(target.rows)
            self._park(key, target, moment, self._gang_hold.due())
            why = messages.not_for_held_room(self._gang_hold.until(target.priority))
            self._report(key, target, f"{message} preemption: {why}", effects)
            return False
        evict = self._eviction(key, decision, moment)._replace(again=again)
        entry = self._entries[key]
        hold = self._restraint.hold(self._engine, entry, evict, target, moment)
        if hold is not None:
            held = self._hold_room(key, target, moment, may=hold.kind in (Why.OFF, Why.OBSERVED))
            self._park(key, target, moment, hold.until)
            self._report(key, target, f"{message} preemption: {hold.why}{held}", effects)
            victims = frozenset(pod.uid for pod in evict.victims)
            if entry.held_back != (victims, hold.kind):
                entry.held_back = victims, hold.kind
                if hold.kind is Why.OBSERVED:
                    effects.append(Planned(evict))
                elif hold.kind in (Why.RATE, Why.CIRCLE):
                    effects.append(Held(evict, circle=hold.kind is Why.CIRCLE))
            return False
        # The room that a gang held there was never written, so no write has to end it.
        self._give_way(target.priority, decision.placed)
        cleared = (ref_at(self._engine, row) for row in outranked(self._engine, target, decision))
        evict = evict._replace(cleared=tuple(cleared))
        self._carry_out(evict, target, moment)
        effects.append(evict)
        return True

    def resume(self, key: Key, victims: Collection[int], moment: Moment) -> Evict | None:
        """Resume a preemption of these pods (rows) by an earlier process, if it may still be carried out."""
        try:
            decision = self._engine.resume(key, victims, moment.now, deadline=self._deadline())
        except DecisionTimeoutError:
            return None
        if decision is None or decision.target is None:
            return None
        evict = self._eviction(key, decision, moment)._replace(resumed=True)
        hold = self._restraint.hold(self._engine, self._entries[key], evict, decision.target, moment)
        if hold is not None:
            return None
        self._carry_out(evict, decision.target, moment)
        return evict

    def _eviction(self, key: Key, decision: Decision, moment: Moment) -> Evict:
        """Return the preemption of a decision."""
        message = messages.refusal(decision)
        evict = eviction(self._engine, key, decision, seconds(moment.now), message)
        failures = self._engine.intents.failed_evictions
        refused = tuple(pod for pod in evict.victims if failures.knows(pod.uid))
        others = (pod for pod in evict.victims if not failures.knows(pod.uid))
        doubted = tuple(pod for pod in others if failures.doubts(pod.namespace))
        return evict._replace(refused=refused, doubted=doubted)

    def _carry_out(self, evict: Evict, target: PlacementTarget, moment: Moment) -> None:
        """Count a preemption as done, and hold the preemptor back while it is in flight."""
        entry = self._entries[evict.key]
        self._restraint.took(self._engine, entry, evict, target, moment)
        self._gang_hold.release_for(evict.key, moment.seconds)
        entry.held_back = None
        self._preemptions.start(evict, target.rows, moment.seconds)

    def _refuse(
        self, key: Key, decision: Decision, target: PlacementTarget, effects: list[Effect], moment: Moment
    ) -> None:
        """Let an entry that found no place wait for a change that could help it."""
        held = self._hold_room(key, target, moment)
        note_no_room(self._engine, self._entries[key], target, moment)
        self._park(key, target, moment, expiry(self._engine, target, moment))
        self._report(key, target, messages.refusal(decision) + held, effects)

    def _hold_room(self, key: Key, target: PlacementTarget, moment: Moment, *, may: bool = True) -> str:
        """Let a gang that was refused hold room if it `may`; no other entry keeps a reservation.

        Return a sentence about the hold that counts for the entry; empty for none.
        """
        if may and self._gang_hold.hold_after_refusal(key, target, moment, self._deadline()):
            return f" {messages.holding(self._gang_hold.until(target.priority))}"
        self._gang_hold.release_for(key, moment.seconds)
        self._reservations.cancel(target.rows)
        until = self._gang_hold.until(target.priority)
        return f" {messages.behind(until)}" if until else ""

    def _park(self, key: Key, target: PlacementTarget, moment: Moment, until: float | None) -> None:
        """Let an entry wait for changes that could help it, but not for room on nodes that it holds."""
        waits_for = waiting(
            self._engine, target.rows, target.priority, may_preempt=not target.preemption_barred
        )
        self._queue.park(key, waits_for._replace(reserved=()), moment.seconds, until)

    def _report(
        self,
        key: Key,
        target: PlacementTarget,
        message: str,
        effects: list[Effect],
        nominated: tuple[tuple[PodRef, str], ...] = (),
    ) -> None:
        pods = tuple(ref_at(self._engine, row) for row in target.rows)
        effects.append(ReportPending(key, pods, UNSCHEDULABLE, message, nominated))

    def gate(self, key: Key, refused: Unplaceable, effects: list[Effect], moment: Moment) -> None:
        """Hold back an entry that must not be scheduled as it is, wherever there is room.

        Its pods may have been allocated devices before, such as those of a gang that is incomplete now.
        """
        pods = [pod for pod in self._entry_pods.pods(key) if self._entry_pods.waits(pod)]
        rows = self._entry_pods.waiting_rows(key)
        self._gang_hold.release_for(key, moment.seconds)
        self._reservations.cancel(rows)
        # A bind in flight may still succeed, and an object that is unread may show that all is well.
        if refused.cause is not Blocker.NOT_JUDGED and not self._changes.unanswered(rows):
            released = self._claim_binds.release_stranded(key, rows, moment)
            if released is not None:
                effects.append(released)
        self._queue.gate(key, moment.seconds)
        # The API server itself writes the condition of a pod with scheduling gates.
        ungated = tuple(pod_ref(pod) for pod in pods if not pod.spec.schedulingGates)
        if ungated:
            effects.append(ReportPending(key, ungated, UNSCHEDULABLE, refused.why, gated=True))

    def forget_entry(self, key: Key, now: float) -> None:
        """Forget an entry of which no pod waits any more."""
        self._queue.remove(key)
        self._gang_hold.release_for(key, now)
        self._restraint.done(key)

    def time_out(self, error: DecisionTimeoutError, effects: list[Effect], moment: Moment) -> None:
        """Let an entry whose decision exceeded the time budget wait behind all others.

        If several were tried together, fewer are tried next time, until the slow one is tried alone.
        """
        if len(self.tried) > 1:
            self._length = len(self.tried) // 2
            for key in self.tried:
                self._queue.give_back(key)
            return
        (key,), budget = self.tried, self._live().decision_seconds
        self.isolate(self.tried)
        self._gang_hold.release_for(key, moment.seconds)
        self._queue.back_off(key, moment.seconds)
        self._queue.demote(key, budget, moment.seconds)
        pods = tuple(ref_at(self._engine, row) for row in self._entry_pods.waiting_rows(key))
        effects.append(TimedOut(key, budget))
        effects.append(ReportPending(key, pods, SCHEDULER_ERROR, messages.timed_out(error, budget)))

    def isolate(self, keys: Iterable[Key]) -> None:
        """Try each of these entries alone from now on."""
        for key in keys:
            if key in self._queue:
                self._entries[key].alone = True
