"""Tries the entries that the queue gives: `verdicts` decides, and `apply` carries the verdict out.

`attempt` is the start of the path. A decision returns one value, and `apply` is the only function that
changes the queue, the holds and the limits for it. Lone pods that fit are placed in runs, and lone pods like
the last preemptor preempt without a look at all nodes. Their verdicts are the same values.
"""

from collections.abc import Iterable

from podium.api.membership import GroupKey
from podium.cluster.reader import Name
from podium.planner.deadline import DecisionTimeoutError
from podium.schedulerplugin.scheduling.effects import Bind, Effect, Key, Moment, TimedOut
from podium.schedulerplugin.scheduling.entry import EntryPhase
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.evictionlimits import EvictionLimits
from podium.schedulerplugin.scheduling.holds import HoldEnd, Holds
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.verdicts import Await, Deciding, Fail, Gate, Preempt, Refuse, Verdict

# The most lone pods that are placed at once; the cost of what is computed once for all of them is small then.
_RUN = 256
# The most preemptors that follow a like one without a look at all nodes; changes and answers wait meanwhile.
_ALIKE = 15


class SchedulingCycle:
    """Tries entries; the arguments `effects` collect what is to be carried out."""

    def __init__(self, engine: LiveEngine, entries: EntryPods, holds: Holds, limits: EvictionLimits) -> None:
        self.deciding = Deciding(engine, entries, holds, limits)
        self._engine = engine
        self._entries = entries
        self._holds = holds
        self._limits = limits
        # The number of lone pods that are tried at once.
        self._length = _RUN
        # The entries that the current step tries; after an error, those that it tried last.
        self.tried: list[Key] = []

    def attempt(self, first: Key, effects: list[Effect], moment: Moment) -> None:
        """Schedule one entry that was popped, and perhaps others like it with it."""
        left = first if isinstance(first, GroupKey) else self._place_run(first, effects, moment)
        if left is None:
            return
        verdict = self.deciding.decide(left, moment)
        self.apply(verdict, effects, moment)
        if isinstance(verdict, Preempt) and not verdict.evict.again:
            self._preempt_alike(verdict, effects, moment)

    def _place_run(self, first: Name, effects: list[Effect], moment: Moment) -> Name | None:
        """Place lone pods of one priority one after the other; return the first that does not fit."""
        entries, queue, now = self._entries, self._entries.queue, moment.seconds
        if entries.reserved(first) or self._engine.waits(first):
            # It has a node, or a pod like it found no place a moment ago. Others need not be tried with it.
            return first
        run = [first]
        priority = entries.priority(first)
        while len(run) < self._length and not entries.records[first].alone:
            key = queue.first(now)
            if key is None or isinstance(key, GroupKey) or entries.priority(key) != priority:
                break
            if entries.reserved(key) or entries.records[key].alone:
                break
            queue.pop(now)
            run.append(key)
        self.tried = list[Key](run)
        binds = self.deciding.decide_run(run)
        # If there is no room, the attempts at the others are useless.
        self._length = min(2 * len(run), _RUN) if len(binds) == len(run) else 1
        for bind in binds:
            self.apply(bind, effects, moment)
        left = run[len(binds) :]
        for key in left[1:]:
            queue.give_back(key)
        if not left:
            return None
        self.tried = [left[0]]
        return left[0]

    def _preempt_alike(self, verdict: Preempt, effects: list[Effect], moment: Moment) -> None:
        """Preempt for the next lone pods like the last preemptor, and reuse the results for all nodes."""
        queue, deadline = self._entries.queue, self._limits.deadline()
        for _ in range(_ALIKE):
            key = queue.first(moment.seconds)
            if key is None or isinstance(key, GroupKey) or self._entries.records[key].alone:
                return
            alike = self.deciding.decide_alike(verdict, key, moment, deadline)
            if alike is None:
                return
            queue.pop(moment.seconds)
            self.tried = [key]
            self.apply(alike, effects, moment)
            if not isinstance(alike, Preempt):
                return
            verdict = alike

    def time_out(self, error: DecisionTimeoutError, effects: list[Effect], moment: Moment) -> None:
        """Let an entry whose decision exceeded the time budget wait behind all others.

        If several were tried together, fewer are tried next time, until the slow one is tried alone.
        """
        if len(self.tried) > 1:
            self._length = len(self.tried) // 2
            self._give_back()
        else:
            self.apply(self.deciding.timed_out(self.tried[0], error), effects, moment)

    def on_error(self, effects: list[Effect], moment: Moment) -> None:
        """Back off the entry that a step failed on.

        If several were tried at once, one of them caused the error, so each is tried alone from now on.
        """
        if len(self.tried) > 1:
            self.isolate(self.tried)
            self._give_back()
        else:
            for key in self.tried:
                self.apply(Fail(key), effects, moment)

    def isolate(self, keys: Iterable[Key]) -> None:
        """Try each of these entries alone from now on."""
        for key in keys:
            if key in self._entries.queue:
                self._entries.records[key].alone = True

    def forget(self, key: Key, now: float) -> None:
        """Forget an entry of which no pod waits any more."""
        self._entries.queue.remove(key)
        self._holds.release(key, now)
        self._limits.done(key)

    def apply(self, verdict: Verdict, effects: list[Effect], moment: Moment) -> None:
        """Change the queue, the holds and the limits as a verdict says, and add what is to be carried out."""
        queue, records, holds, now = self._entries.queue, self._entries.records, self._holds, moment.seconds
        match verdict:
            case Bind(key, pods):
                snapshot = self._engine.snapshot
                priority = self._engine.priority_of(snapshot.pod_row[pods[0][0].key])
                holds.release(key, now, why=HoldEnd.SCHEDULED)
                holds.give_way(priority, [snapshot.row[node] for _, node in pods])
                records[key].binding += len(pods)
                self.forget(key, now)
                holds.bind(verdict, priority, effects, moment)
            case Await(report, rows, cleared, waits_for, until):
                entry = records[report.key]
                entry.no_room_since = verdict.no_room_since or entry.no_room_since
                holds.release(report.key, now, why=HoldEnd.SCHEDULED)
                # Its nodes are not free yet, so pods that wait there for their binds keep them.
                holds.give_way(waits_for.priority, (), cleared)
                holds.reserve(rows, report.nominated)
                queue.park(report.key, waits_for, now, until)
                effects.append(report)
            case Preempt(evict, decision, target, waits_for, no_room_since):
                entry = records[evict.key]
                entry.no_room_since = no_room_since
                holds.give_way(target.priority, decision.placed.values(), evict.cleared)
                self._limits.took(self._engine, entry, evict, target, now)
                holds.release(evict.key, now)
                holds.reserve(target.rows, evict.nominations)
                holds.vacate(evict.victims)
                queue.preempt(evict, waits_for, now)
                effects.append(evict)
            case Refuse(report, rows, waits_for, until):
                entry = records[report.key]
                entry.no_room_since = verdict.no_room_since or entry.no_room_since
                if verdict.stranded:
                    effects.append(holds.prebinds.release_stranded(report.key, verdict.stranded, moment))
                holds.hold(report.key, rows, verdict.gang, moment)
                queue.park(report.key, waits_for, now, until)
                effects.append(report)
                if verdict.limited is not None:
                    effects += self._limits.hold_back(entry, *verdict.limited)
            case Gate(report, rows, stranded):
                holds.release(report.key, now, rows)
                if stranded:
                    effects.append(holds.prebinds.release_stranded(report.key, stranded, moment))
                queue.gate(report.key, now)
                if report.pods:
                    effects.append(report)
            case Fail(key, gone=True):
                queue.fail(key)
            case Fail(key, report, budget):
                self.isolate((key,))
                holds.release(key, now)
                if queue.phase_of(key) is not EntryPhase.PREEMPTING:
                    queue.back_off(key, now)
                if report is not None:
                    queue.demote(key, budget, now)
                    effects += (TimedOut(key, budget), report)

    def _give_back(self) -> None:
        """Put the entries of a run back in their places."""
        for key in self.tried:
            self._entries.queue.give_back(key)
