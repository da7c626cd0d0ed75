"""The scheduler as a machine without clock, network or tasks: changes go in, what is to be done comes out.

It hears of every change in the cluster, and of the end of everything that it had done; `step` looks at one
entry of the queue (or at a run of lone pods that are alike in rank) and gives effects as values. What was
decided counts from that moment on, long before the API server shows it: a pod to be bound stands on its node,
a nomination holds its room, a victim is leaving. So the next decision never has to wait for a write, and a
write that fails takes back exactly what it stood for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from podium.api.membership import GroupKey
from podium.api.times import seconds
from podium.errors import PodiumError
from podium.schedulerplugin.deadline import Deadline, DecisionTimeoutError
from podium.schedulerplugin.preemption.decision import Decision
from podium.schedulerplugin.preemption.outcome import Outcome
from podium.schedulerplugin.preemption.target import Refused, Wanted
from podium.schedulerplugin.preemption.terminating import LATE_SECONDS
from podium.schedulerplugin.rejections import rejected_for
from podium.schedulerplugin.scheduling import recovery, words
from podium.schedulerplugin.scheduling.binds import Binds
from podium.schedulerplugin.scheduling.changes import Changes
from podium.schedulerplugin.scheduling.conditions import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.schedulerplugin.scheduling.effects import (
    Disagreed,
    Effect,
    Evict,
    Held,
    Key,
    Moment,
    Planned,
    PodRef,
    Rejected,
    Report,
    TimedOut,
)
from podium.schedulerplugin.scheduling.entries import Entries
from podium.schedulerplugin.scheduling.gang_hold import GangHold, HoldEnd
from podium.schedulerplugin.scheduling.hints import Hints
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.plans import (
    eviction,
    outranked,
    placements,
    pod_ref,
    ref_at,
    waiting,
)
from podium.schedulerplugin.scheduling.queue import Pool, Queue
from podium.schedulerplugin.scheduling.reservations import Reservations
from podium.schedulerplugin.scheduling.restraint import Restraint, Why, expiry, overdue
from podium.schedulerplugin.scheduling.settings import LiveSettings
from podium.schedulerplugin.scheduling.underway import UnderWay
from podium.view import Name

# Lone pods that are placed at once: enough that what is worked out once for all of them costs nothing each.
_RUN = 256
# Preemptors that follow one like them without a look at all nodes; changes and answers wait meanwhile.
_ALIKE = 15


class Scheduler:
    """Schedules the pods of one schedulerName; give `apply` to State.observe after the engine's."""

    def __init__(
        self,
        engine: LiveEngine,
        live: Callable[[], LiveSettings],
        restraint: Restraint,
        *,
        clock: Callable[[], float],
    ) -> None:
        """`clock` is the monotonic clock, in seconds, by which decisions have a deadline."""
        self.engine = engine
        self._clock = clock
        self._hints = Hints()
        self.queue = Queue(self._hints)
        self._live = live
        self._restraint = restraint
        self.name = live().scheduler_name
        self.entries = Entries(engine, self.name)
        self._changes = Changes(engine, self._hints, self.entries, waits=self.queue.__contains__)
        self.apply = self._changes.apply
        self._reservations = Reservations(engine, self._changes, self.entries)
        self.binds = Binds(engine, self.entries, changes=self._changes, reservations=self._reservations)
        self._preempting = UnderWay(
            engine, self.entries, changes=self._changes, hints=self._hints, reservations=self._reservations
        )
        self.gang_hold = GangHold(engine, self.entries, self._reservations, live)
        # Which plan was held back last, by the UIDs of its victims, and why.
        self._held: dict[Key, tuple[frozenset[str], Why]] = {}
        # The groups whose condition disagrees with their pods, each with its status.
        self._disputed: dict[Key, str] = {}
        # How many lone pods are tried at once.
        self._length = _RUN
        # What the last step tried, and what it had decided so far; who was tried when a bug showed.
        self.tried: list[Key] = []
        self._decided: list[Effect] = []
        self._alone: set[Key] = set()

    def begin(self, moment: Moment, suspects: Collection[Key] = ()) -> list[Effect]:
        """Take up all that waits, a first list having been read; end what an earlier process had begun.

        `suspects` are the entries that the earlier process decided for when it lost its lease. Each of them
        is tried alone, after all others, and a preemption that was begun for it is not resumed.
        """
        effects: list[Effect] = []
        self.tried, self._decided = [], effects
        preemptors: dict[str, Key] = {}
        groups = self.engine.view.groups
        for key, pod in self.entries.waiting():
            group = groups.get(key) if isinstance(key, GroupKey) else None
            preemptors[(pod if group is None else group).metadata.uid or ""] = key
            self._changes.touched.add(key)
        self._settle(effects, moment)
        self._alone.update(suspects)
        for key in suspects:
            self.queue.demote(key)
        for each in recovery.begun(self.engine, self.name, seconds(moment.now)):
            found, evict = preemptors.get(each.preemptor), None
            if found not in self._alone and found is not None and self.queue.pool_of(found) is Pool.ACTIVE:
                evict = self._resumed(found, each.rows, moment)
            effects.append(each.withdrawn(self.engine) if evict is None else evict)
        return effects

    @property
    def binding(self) -> Mapping[Name, str]:
        """The pods whose binds are under way, each with its node."""
        return self._changes.binding

    def has_work(self, now: float) -> bool:
        """Say whether a step would do something."""
        changes = self._changes
        return (
            bool(changes.touched or changes.gated or changes.rejected or self._hints.news)
            or self.gang_hold.over(now)
            or self.queue.first(now) is not None
        )

    def step(self, moment: Moment) -> list[Effect]:
        """Look at what changed, and schedule what is first in the queue."""
        effects: list[Effect] = []
        self.tried, self._decided = [], effects
        self.engine.snapshot.reveal()
        now = moment.seconds
        if self.gang_hold.over(now):
            self._changes.touched.add(self.gang_hold.time_out(now))
        self._settle(effects, moment)
        self._listen(now)
        first = self.queue.pop(now)
        self.tried = [] if first is None else [first]
        if first is None:
            return effects
        began = self._clock()
        try:
            self._try(first, effects, moment)
        except DecisionTimeoutError:
            self._time_out(effects, moment)
        finally:
            self.queue.charge(self.tried, self._clock() - began, now)
        return effects

    def _try(self, first: Key, effects: list[Effect], moment: Moment) -> None:
        """Schedule one entry that was taken from the queue, and perhaps others like it with it."""
        now = moment.seconds
        if first in self._preempting:
            # Whatever woke it: it is looked at when that has ended, and may have heard of help before.
            self.queue.gate(first, now, self._preempting.waiting(first))
            self.queue.wake((first,), now)
        elif isinstance(first, GroupKey):
            self._cycle(first, effects, moment)
        elif not self.entries.reserved(first):
            self._run(first, effects, moment)
        elif (node := self.engine.as_reserved(first)) is not None:
            # A better place may be taken, but need not be looked for.
            self._bind(first, {self.engine.snapshot.pod_row[first]: node}, effects, moment)
        else:
            self._cycle(first, effects, moment)

    def deadline(self) -> Deadline:
        """Start the time budget of a decision."""
        return Deadline(self._clock, self._live().decision_seconds)

    def _time_out(self, effects: list[Effect], moment: Moment) -> None:
        """Have an entry whose decision exceeded the time budget wait behind all others.

        If several were tried together, fewer are next time: one that is slow by itself is found so.
        """
        if len(self.tried) > 1:
            self._length = len(self.tried) // 2
            for key in self.tried:
                self.queue.give_back(key)
            return
        (key,), budget = self.tried, self._live().decision_seconds
        self._alone.add(key)
        self.gang_hold.end(key, moment.seconds)
        self.queue.back_off(key, moment.seconds)
        self.queue.demote(key)
        pods = tuple(ref_at(self.engine, row) for row in self.entries.waiting_rows(key))
        effects.append(TimedOut(key, budget))
        effects.append(Report(key, pods, SCHEDULER_ERROR, words.timed_out(budget)))

    def _listen(self, now: float) -> None:
        """Have those tried that something happened for; preemptors under way hear of it at the end.

        A gang that holds room takes what came free before any entry hears of it.
        """
        holder = self.gang_hold.holder
        if holder is not None and (nodes := self._hints.changed_nodes()):
            self.tried = [holder]
            if self.gang_hold.grow(nodes, self.deadline()):
                self.queue.activate(holder, first=True)
        ready, helped = self._hints.helped(self.engine)
        for key in ready:
            if key in self._preempting:
                helped.append(key)
            else:
                self.queue.activate(key)
        self.queue.wake(helped, now)

    def due(self, now: float) -> float | None:
        """Say when a step would do something though nothing changes; None for never."""
        times = [at for at in (self.queue.due(now), self.gang_hold.due()) if at is not None]
        return max(now, min(times)) if times else None

    def switched(self) -> None:
        """Have all that found no place looked at: what was not allowed may be now, and the contrary."""
        for key in self.queue.keys(Pool.UNSCHEDULABLE):
            self.queue.activate(key)

    def stumbled(self, moment: Moment) -> list[Effect]:
        """Have what the last step failed on wait for a while; give what it had decided before, which counts.

        Of several that were tried at once one is to blame, so each is tried alone from now on.
        """
        self._alone.update(self.tried)
        for key in self.tried:
            self.gang_hold.end(key, moment.seconds)
            if len(self.tried) > 1:
                self.queue.give_back(key)
            elif key not in self._preempting:
                self.queue.back_off(key, moment.seconds)
        return self._decided

    def look_again(self, key: Key, moment: Moment) -> None:
        """Look at an entry again after a bug in what the scheduler was told of it.

        A preemption of it counts as ended, with all its victims still leaving: it may have been carried out.
        """
        self._changes.touched.add(key)
        if key in self._preempting:
            self._preempting.end(key)
            self.queue.open(key)
            self.queue.back_off(key, moment.seconds)

    def preempted(
        self, key: Key, deleted: Iterable[PodRef], why: str, moment: Moment, *, unsure: bool = False
    ) -> list[Report]:
        """Note that a preemption ended; `why` it failed, empty where all victims were told to go.

        Of those that were not `deleted` some may be going, if that is `unsure`. Whatever came of it, the
        preemptor is looked at again: when its victims have gone, or after a while.
        """
        now = moment.seconds
        self._listen(now)
        evict = self._preempting.end(key)
        if not why:
            awaited = frozenset(pod.uid for pod in evict.victims if self.entries.row(pod) is not None)
            if awaited:
                members = self.entries.preemptors(evict)
                hopes = waiting(self.engine, members, evict.preemptor.priority, awaited=awaited)
                # Victims that hang are counted on for minutes only; the next look says until when.
                self.queue.park(key, hopes, now, now + LATE_SECONDS)
            else:
                self.queue.open(key)
            return []
        gone = tuple(deleted)
        self._restraint.gave_up(key, now, deleted=bool(gone))
        self._preempting.take_back(evict, gone, unsure=unsure)
        self.queue.back_off(key, now)
        message = f"{evict.message} preemption: {why}"
        return [Report(key, tuple(pod for pod, _ in evict.nominations), UNSCHEDULABLE, message)]

    def objection(self, key: Key, moment: Moment) -> str:
        """Say why a preemption under way shall not go on, empty if it shall: before the first delete."""
        return self._preempting.objection(key, self._live().mode, moment)

    def _run(self, first: Name, effects: list[Effect], moment: Moment) -> None:
        """Place lone pods of one priority one after the other, as long as they fit; the next is looked at."""
        if self.engine.waits(first):
            # One that is like it found no place a moment ago; nobody need be taken along.
            self._cycle(first, effects, moment)
            return
        queue, now = self.queue, moment.seconds
        run = [first]
        priority = self.entries.priority(first)
        while len(run) < self._length and first not in self._alone:
            key = queue.first(now)
            if key is None or isinstance(key, GroupKey) or self.entries.priority(key) != priority:
                break
            if self.entries.reserved(key) or key in self._alone or key in self._preempting:
                break
            queue.pop(now)
            run.append(key)
        self.tried = list[Key](run)
        placed = self.engine.place_lone(run, deadline=self.deadline())
        # Where there is no room any more, who is taken along is looked at for nothing.
        self._length = min(2 * len(run), _RUN) if len(placed) == len(run) else 1
        pods = self.engine.snapshot.pod_row
        for key, node in placed.items():
            self._bind(key, {pods[key]: node}, effects, moment)
        left = run[len(placed) :]
        for key in left[1:]:
            queue.give_back(key)
        if left:
            self.tried = [left[0]]
            self._cycle(left[0], effects, moment)

    def _cycle(self, key: Key, effects: list[Effect], moment: Moment) -> None:
        """Decide for one entry, and have done what was decided."""
        deadline = self.deadline()
        try:
            unsure = self._preempting.unsure(key)
            begun = self.engine.resume(key, unsure, moment.now, deadline=deadline) if unsure else None
            decision = begun or self.engine.decide(key, moment.now, deadline=deadline)
        except PodiumError:
            # None of it waits any more; what is left of it is seen by the next look at what changed.
            self._changes.touched.add(key)
            self.queue.drop(key)
            return
        if decision.wanted is None:
            self._gate(key, Refused(decision.why), effects, moment)
        elif decision.outcome is Outcome.FITS:
            self._bind(key, decision.placed, effects, moment)
        elif decision.outcome is not Outcome.FITS_AFTER_PREEMPTION:
            self._refuse(key, decision, decision.wanted, effects, moment)
        elif decision.chosen is None:
            self._await(key, decision, decision.wanted, effects, moment)
        elif begun is not None:
            self._preempt(key, decision, decision.wanted, effects, moment, again=True)
        elif self._preempt(key, decision, decision.wanted, effects, moment):
            self._preempt_alike(decision, effects, moment)

    def _preempt_alike(self, decision: Decision, effects: list[Effect], moment: Moment) -> None:
        """Preempt for those that are next and like who just did: what was found for all nodes holds still."""
        deadline = self.deadline()
        for _ in range(_ALIKE):
            key = self.queue.first(moment.seconds)
            if key is None or isinstance(key, GroupKey) or key in self._alone or key in self._preempting:
                return
            if self._preempting.unsure(key):
                return
            try:
                found = self.engine.decide_next(decision, key, moment.now, deadline=deadline)
            except DecisionTimeoutError:
                # The key is in the queue still, and has a deadline of its own when it is popped.
                return
            if found is None or found.wanted is None:
                return
            self.queue.pop(moment.seconds)
            self.tried = [key]
            if not self._preempt(key, found, found.wanted, effects, moment):
                return
            decision = found

    def _bind(self, key: Key, placed: dict[int, int], effects: list[Effect], moment: Moment) -> None:
        """Count pods on their nodes, and have them bound; who is left over is looked at again."""
        self.gang_hold.end(key, moment.seconds, HoldEnd.SCHEDULED)
        self.gang_hold.give_way(self.engine.priority_of(next(iter(placed))), placed.values())
        bind = self.binds.begin(key, placed)
        self._forget(key, moment.seconds)
        if isinstance(key, GroupKey):
            self._changes.touched.add(key)
        effects.append(bind)

    def _await(
        self, key: Key, decision: Decision, wanted: Wanted, effects: list[Effect], moment: Moment
    ) -> None:
        """Reserve nodes for who needs nothing but that leaving pods go."""
        pods = placements(self.engine, decision)
        self.gang_hold.end(key, moment.seconds)
        self._reservations.outrank(
            ref_at(self.engine, row) for row in outranked(self.engine, wanted, decision)
        )
        self._reservations.give(wanted.rows, pods)
        uids = self.engine.snapshot.uids
        awaited = frozenset(uids[row] for row in decision.awaited)
        hopes = waiting(self.engine, wanted.rows, wanted.priority, awaited=awaited)
        self.queue.park(key, hopes, moment.seconds, overdue(self.engine, decision, moment))
        self._report(key, wanted, words.awaiting(decision), effects, pods)

    def _preempt(
        self,
        key: Key,
        decision: Decision,
        wanted: Wanted,
        effects: list[Effect],
        moment: Moment,
        *,
        again: bool = False,
    ) -> bool:
        """Carry a preemption out, or say why it has to wait; say whether it is carried out."""
        message = words.refusal(decision)
        if not again and self.gang_hold.blocks(wanted, self.deadline()):
            self._reservations.end(wanted.rows)
            self._park(key, wanted, moment, self.gang_hold.due())
            why = words.not_for_held_room(self.gang_hold.until(wanted.priority))
            self._report(key, wanted, f"{message} preemption: {why}", effects)
            return False
        evict = eviction(self.engine, key, decision, seconds(moment.now), message)._replace(again=again)
        hold = self._restraint.hold(self.engine, evict, wanted, moment)
        if hold is not None:
            told = self._hold_room(key, wanted, moment, may=hold.kind in (Why.OFF, Why.OBSERVED))
            self._park(key, wanted, moment, hold.until)
            self._report(key, wanted, f"{message} preemption: {hold.why}{told}", effects)
            victims = frozenset(pod.uid for pod in evict.victims)
            if self._held.get(key) != (victims, hold.kind):
                self._held[key] = victims, hold.kind
                if hold.kind is Why.OBSERVED:
                    effects.append(Planned(evict))
                elif hold.kind in (Why.RATE, Why.CIRCLE):
                    effects.append(Held(evict, circle=hold.kind is Why.CIRCLE))
            return False
        # What a gang held there was never written, so no write takes it back.
        self.gang_hold.give_way(wanted.priority, decision.placed.values())
        cleared = (ref_at(self.engine, row) for row in outranked(self.engine, wanted, decision))
        evict = evict._replace(cleared=tuple(cleared))
        self._carry_out(evict, wanted, moment)
        effects.append(evict)
        return True

    def _resumed(self, key: Key, victims: Collection[int], moment: Moment) -> Evict | None:
        """Go on with the eviction of these pods (rows), which was begun, if it would be carried out today."""
        try:
            decision = self.engine.resume(key, victims, moment.now, deadline=self.deadline())
        except DecisionTimeoutError:
            return None
        if decision is None or decision.wanted is None:
            return None
        message = words.refusal(decision)
        evict = eviction(self.engine, key, decision, seconds(moment.now), message)._replace(resumed=True)
        if self._restraint.hold(self.engine, evict, decision.wanted, moment) is not None:
            return None
        self._carry_out(evict, decision.wanted, moment)
        return evict

    def _carry_out(self, evict: Evict, wanted: Wanted, moment: Moment) -> None:
        """Count a preemption as done, and hold the preemptor back while it is under way."""
        self._restraint.took(self.engine, evict, wanted, moment)
        self.gang_hold.end(evict.key, moment.seconds)
        self._preempting.begin(evict, wanted.rows)
        self._held.pop(evict.key, None)
        self.queue.gate(evict.key, moment.seconds, self._preempting.waiting(evict.key))

    def _refuse(
        self, key: Key, decision: Decision, wanted: Wanted, effects: list[Effect], moment: Moment
    ) -> None:
        """Have an entry wait until something changes that could help it."""
        told = self._hold_room(key, wanted, moment)
        self._restraint.failed(self.engine, key, wanted, moment)
        self._park(key, wanted, moment, expiry(self.engine, wanted, moment))
        self._report(key, wanted, words.refusal(decision) + told, effects)

    def _hold_room(self, key: Key, wanted: Wanted, moment: Moment, *, may: bool = True) -> str:
        """Let a gang that was refused hold room if it `may`; no other entry keeps a reservation.

        Return what the message says of the hold that counts for the entry.
        """
        if may and self.gang_hold.refused(key, wanted, moment, self.deadline()):
            return f" {words.holding(self.gang_hold.until(wanted.priority))}"
        self.gang_hold.end(key, moment.seconds)
        self._reservations.end(wanted.rows)
        until = self.gang_hold.until(wanted.priority)
        return f" {words.behind(until)}" if until else ""

    def _park(self, key: Key, wanted: Wanted, moment: Moment, until: float | None) -> None:
        """Have an entry wait for what could help it; the room that it holds is not what it waits for."""
        hopes = waiting(self.engine, wanted.rows, wanted.priority, may_preempt=not wanted.barred)
        self.queue.park(key, hopes._replace(reserved=()), moment.seconds, until)

    def _report(
        self,
        key: Key,
        wanted: Wanted,
        message: str,
        effects: list[Effect],
        nominated: tuple[tuple[PodRef, str], ...] = (),
    ) -> None:
        pods = tuple(ref_at(self.engine, row) for row in wanted.rows)
        effects.append(Report(key, pods, UNSCHEDULABLE, message, nominated))

    def _settle(self, effects: list[Effect], moment: Moment) -> None:
        """Look at the entries of which something changed: do they wait, may they be scheduled, how high."""
        changes = self._changes
        touched, changes.touched = changes.touched, set()
        if changes.gated:
            changes.gated = False
            touched.update(self.queue.keys(Pool.GATED))
        for pod in changes.rejected:
            self.engine.avoid(pod, moment.seconds)
            effects.append(Rejected(pod_ref(pod), rejected_for(pod)))
        changes.rejected.clear()
        self.engine.placer.rejections.settle(moment.seconds)
        try:
            while touched:
                self._look_at(touched.pop(), effects, moment)
        finally:
            # A bug is about one of them.
            changes.touched |= touched

    def _look_at(self, key: Key, effects: list[Effect], moment: Moment) -> None:
        """Put an entry of which something changed where it belongs."""
        if key in self._preempting:
            self._preempting.touch(key)
            return
        found, now = self.entries.wanted(key), moment.seconds
        self._note_dispute(key, found, effects)
        if found is None:
            self._forget(key, now)
            self.binds.forget(key)
        elif isinstance(found, Refused):
            pods = (pod for pod in self.entries.pods(key) if self.entries.waits(pod))
            priority = max((pod.spec.priority or 0 for pod in pods), default=0)
            self.queue.put(key, priority, self.entries.since(key))
            self._gate(key, found, effects, moment)
        else:
            if isinstance(key, GroupKey):
                # A member that is being deleted needs no node.
                self._reservations.end(set(self.entries.waiting_rows(key)).difference(found.rows))
            self.queue.put(key, found.priority, self.entries.since(key))
            if self._changes.unanswered(found.rows):
                # Bound anew, it could be on either node, and should the first come back, count on neither.
                self.queue.gate(key, now)
                return
            self.queue.open(key)
            self.queue.wake((key,), now)
            failures = self.binds.again(key)
            if failures == 1:
                self.queue.activate(key, first=True)
            elif failures:
                self.queue.back_off(key, now, failures)

    def _note_dispute(self, key: Key, found: Wanted | Refused | None, effects: list[Effect]) -> None:
        """Report once that the condition of a group and its pods disagree, until that changes."""
        disputed = found.disputed if found is not None else ""
        if disputed and self._disputed.get(key) != disputed:
            effects.append(Disagreed(key, disputed))
        if disputed:
            self._disputed[key] = disputed
        else:
            self._disputed.pop(key, None)

    def _gate(self, key: Key, refused: Refused, effects: list[Effect], moment: Moment) -> None:
        """Hold an entry back that cannot be scheduled as it is, wherever there is room."""
        pods = [pod for pod in self.entries.pods(key) if self.entries.waits(pod)]
        self.gang_hold.end(key, moment.seconds)
        self._reservations.end(self.entries.waiting_rows(key))
        self.queue.gate(key, moment.seconds)
        # Of its gates a pod is told by the API server.
        told = tuple(pod_ref(pod) for pod in pods if not pod.spec.schedulingGates)
        if told:
            effects.append(Report(key, told, UNSCHEDULABLE, refused.why, gated=True))

    def _forget(self, key: Key, now: float) -> None:
        """Let go of an entry of which nothing waits any more."""
        self.queue.drop(key)
        self.gang_hold.forget(key, now)
        self._restraint.done(key)
        self._held.pop(key, None)
        self._preempting.forget(key)
        self._alone.discard(key)
