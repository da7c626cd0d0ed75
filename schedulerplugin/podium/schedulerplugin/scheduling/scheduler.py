"""The scheduler as a state machine without clock, network or tasks: changes come in, effects come out.

It observes every change in the cluster, and is called when an effect was carried out. `step` wakes the
entries that the changes may help, tries the first entry of the queue, and returns effects as values. A
decision counts at once, long before the API server shows it: an assumed pod stands on its node, a nomination
holds its room, a victim is terminating. So the next decision never waits for a write. A write that fails
takes back exactly its own decision.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from podium.api.membership import GroupKey
from podium.api.times import seconds
from podium.cluster.reader import Name
from podium.groups.trees import group_at
from podium.planner.deadline import Deadline, DecisionTimeoutError
from podium.planner.preemption.inflight import LATE_SECONDS
from podium.planner.preemption.target import PlacementTarget, Unplaceable
from podium.planner.rejections import rejected_for
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.scheduling.binds import Binds, Reservations
from podium.schedulerplugin.scheduling.claimbinds import ClaimBinds, ClaimChanges
from podium.schedulerplugin.scheduling.cycle import SchedulingCycle
from podium.schedulerplugin.scheduling.decisioneffects import (
    pod_ref,
    waiting,
)
from podium.schedulerplugin.scheduling.effects import (
    Disagreed,
    Effect,
    Key,
    Moment,
    PodRef,
    RefusedVictim,
    Rejected,
    ReportPending,
)
from podium.schedulerplugin.scheduling.entry import Entries, Entry, EntryPhase, refuse
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.eventhandlers import Changes
from podium.schedulerplugin.scheduling.evictionlimits import Restraint
from podium.schedulerplugin.scheduling.gang_hold import GangHold
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.messages import UNSCHEDULABLE
from podium.schedulerplugin.scheduling.preemptions import Preemptions, begun
from podium.schedulerplugin.scheduling.queue import Queue
from podium.schedulerplugin.scheduling.queueinghints import Hints


class Scheduler:
    """Schedules the pods of one schedulerName; give `apply` to State.observe after the engine's."""

    def __init__(
        self,
        engine: LiveEngine,
        live: Callable[[], LiveSettings],
        restraint: Restraint,
        *,
        clock: Callable[[], float],
        illegal: Callable[[str], None] = refuse,
    ) -> None:
        """`clock` is the monotonic clock, in seconds, by which decisions have a deadline.

        `illegal` is called if an entry changes its phase in a way that is a bug.
        """
        self.engine = engine
        self._clock = clock
        self._hints = Hints()
        self._entries = Entries(illegal)
        self.queue = Queue(self._hints, self._entries)
        self._live = live
        self._restraint = restraint
        self.name = live().scheduler_name
        self.entry_pods = EntryPods(engine, self.name)
        self._changes = Changes(engine, self._hints, self.entry_pods, waits=self.queue.__contains__)
        self.apply = self._changes.apply
        self._reservations = Reservations(engine, self._changes, self.entry_pods)
        self.binds = Binds(
            engine, self.entry_pods, changes=self._changes, reservations=self._reservations, queue=self.queue
        )
        self.claim_binds = ClaimBinds(engine, self.entry_pods, self.binds, live)
        self._preemptions = Preemptions(
            engine,
            self.entry_pods,
            changes=self._changes,
            hints=self._hints,
            reservations=self._reservations,
            queue=self.queue,
        )
        self.gang_hold = GangHold(engine, self.entry_pods, self._reservations, self._entries, live)
        self._cycle = SchedulingCycle(
            engine,
            live,
            self._deadline,
            queue=self.queue,
            entry_pods=self.entry_pods,
            changes=self._changes,
            reservations=self._reservations,
            binds=self.binds,
            claim_binds=self.claim_binds,
            preemptions=self._preemptions,
            gang_hold=self.gang_hold,
            restraint=restraint,
        )
        # The effects of the current step so far.
        self._decided: list[Effect] = []

    def initialize(self, moment: Moment, interrupted: Collection[Key] = ()) -> list[Effect]:
        """Queue all entries that wait at the start; resume or withdraw preemptions of earlier leaders.

        `interrupted` are the entries that the previous leader was deciding for when it lost its lease. Each
        of them is tried alone, after all others, and a preemption that was begun for it is not resumed.
        """
        effects: list[Effect] = []
        self._cycle.tried, self._decided = [], effects
        preemptors: dict[str, Key] = {}
        for key, pod in self.entry_pods.waiting():
            group = group_at(self.engine.view, key) if isinstance(key, GroupKey) else None
            preemptors[(pod if group is None else group).metadata.uid or ""] = key
            self._changes.touched.add(key)
        self._settle(effects, moment)
        self._cycle.isolate(interrupted)
        for key in interrupted:
            self.queue.demote(key, self._live().decision_seconds, moment.seconds)
        for preemption in begun(self.engine, self.name, seconds(moment.now)):
            preemptor, evict = preemptors.get(preemption.preemptor), None
            entry = None if preemptor is None else self._entries.get(preemptor)
            if (
                preemptor is not None
                and entry is not None
                and entry.phase is EntryPhase.ACTIVE
                and not entry.alone
            ):
                evict = self._cycle.resume(preemptor, preemption.rows, moment)
            effects.append(preemption.withdrawn(self.engine) if evict is None else evict)
        return effects

    @property
    def tried(self) -> list[Key]:
        """The entries that the current step tries; after an error, those that it tried last."""
        return self._cycle.tried

    @property
    def binding(self) -> Mapping[Name, str]:
        """The pods whose binds are in flight, each with its node."""
        return self._changes.binding

    def has_work(self, now: float) -> bool:
        """Return whether a step would do something."""
        changes = self._changes
        return (
            bool(changes.touched or changes.gated or changes.rejected or self._hints.changed)
            or changes.unsettled
            or bool(self.claim_binds and (changes.claims or changes.given_up))
            or self.claim_binds.has_work(now)
            or self.gang_hold.over(now)
            or self.queue.first(now) is not None
        )

    def step(self, moment: Moment) -> list[Effect]:
        """Look at the entries that changed, then schedule the first one in the queue; return the effects."""
        effects: list[Effect] = []
        self._cycle.tried, self._decided = [], effects
        self.engine.catch_up()
        now = moment.seconds
        if self.gang_hold.over(now):
            self._changes.touched.add(self.gang_hold.time_out(now))
        self._settle(effects, moment)
        self._listen(now)
        first = self.queue.pop(now)
        self._cycle.tried = [] if first is None else [first]
        if first is None:
            return effects
        began = self._clock()
        try:
            self._cycle.attempt(first, effects, moment)
        except DecisionTimeoutError as error:
            self._cycle.time_out(error, effects, moment)
        finally:
            self.queue.charge(self._cycle.tried, self._clock() - began, now)
        return effects

    def _deadline(self) -> Deadline:
        """Start the time budget of a decision."""
        return Deadline(self._clock, self._live().decision_seconds)

    def _listen(self, now: float) -> None:
        """Wake the entries that the changes since the last look may help.

        A gang that holds room takes what came free before any other entry is woken.
        """
        holder = self.gang_hold.holder
        if holder is not None and (nodes := self._hints.changed_nodes()):
            self._cycle.tried = [holder]
            if self.gang_hold.grow(nodes, self._deadline()):
                self.queue.activate(holder, first=True)
        ready, helped = self._hints.helped(self.engine)
        for key in ready:
            if key in self._preemptions:
                helped.append(key)
            else:
                self.queue.activate(key)
        self.queue.wake(helped, now)

    def due(self, now: float) -> float | None:
        """Return when a step would do something without a change, in seconds; None for never."""
        ends = self.queue.due(now), self.gang_hold.due(), self.claim_binds.due()
        times = [at for at in ends if at is not None]
        return max(now, min(times)) if times else None

    def switched(self) -> None:
        """Try all unschedulable entries after a change of the settings, which may allow a preemption."""
        for key in self.queue.keys(EntryPhase.UNSCHEDULABLE):
            self.queue.activate(key)

    def on_error(self, moment: Moment) -> list[Effect]:
        """Back off the entries that a step failed on; return the effects that preceded the error.

        If several were tried at once, one of them caused the error, so each is tried alone from now on.
        """
        self._cycle.isolate(self._cycle.tried)
        for key in self._cycle.tried:
            self.gang_hold.release_for(key, moment.seconds)
            if len(self._cycle.tried) > 1:
                self.queue.give_back(key)
            elif key not in self._preemptions:
                self.queue.back_off(key, moment.seconds)
        return self._decided

    def look_again(self, key: Key, moment: Moment) -> None:
        """Look at an entry again after an error in a call about it.

        A preemption in flight counts as ended, and its victims as terminating: it may have been carried out.
        """
        self._changes.touched.add(key)
        if key in self._preemptions:
            self.queue.entries[key].preemption = None
            self.queue.back_off(key, moment.seconds)

    def preempted(
        self,
        key: Key,
        deleted: Iterable[PodRef],
        why: str,
        moment: Moment,
        *,
        unsure: bool = False,
        refused: Sequence[RefusedVictim] = (),
    ) -> list[ReportPending | RefusedVictim]:
        """Record that a preemption ended; `why` it failed is empty if all victims were deleted.

        If `unsure`, victims that are not in `deleted` may be terminating too. In every case the preemptor is
        tried again: when its victims are gone, or after a backoff, or at once without the `refused` victims.
        Any answer about a victim is final the second time.
        """
        now = moment.seconds
        self._listen(now)
        evict = self._preemptions.finish(key)
        if not why:
            awaited = frozenset(pod.uid for pod in evict.victims if self.entry_pods.row(pod) is not None)
            if awaited:
                members = self.entry_pods.preemptors(evict)
                waits_for = waiting(self.engine, members, evict.preemptor.priority, awaited=awaited)
                # Victims that do not terminate count for some minutes; the next attempt computes the end.
                self.queue.park(key, waits_for, now, now + LATE_SECONDS)
            else:
                self.queue.open(key)
            return []
        gone = tuple(deleted)
        knows = self.engine.intents.failed_evictions.knows
        final = [victim._replace(final=True) for victim in refused if victim.final or knows(victim.pod.uid)]
        doubted = {victim.pod.namespace for victim in final}
        in_vain = any(pod.namespace not in doubted for pod in gone)
        self._restraint.gave_up(self._entries[key], now, deleted=in_vain, blamed=bool(final))
        if final and not gone:
            self._restraint.refund(self._entries[key])
        self._preemptions.take_back(evict, gone, refused, seconds(moment.now), unsure=unsure)
        if final:
            self.queue.open(key)
        else:
            self.queue.back_off(key, now)
        message = f"{evict.message} preemption: {why}"
        report = ReportPending(key, tuple(pod for pod, _ in evict.nominations), UNSCHEDULABLE, message)
        return [*final, report]

    def objection(self, key: Key, moment: Moment) -> str:
        """Return why a preemption in flight must stop before its first delete; empty if it may go on."""
        self._changes.catch_up()
        return self._preemptions.objection(key, self._live().mode, moment)

    def _settle(self, effects: list[Effect], moment: Moment) -> None:
        """Look at the entries that changed: whether they wait, may be scheduled, and their priority."""
        changes = self._changes
        changes.catch_up()
        touched, changes.touched = changes.touched, set()
        claims, changes.claims = changes.claims, set()
        given_up, changes.given_up = changes.given_up, set()
        try:
            self.claim_binds.advance(ClaimChanges(claims, given_up, touched), effects, moment)
        finally:
            changes.touched |= touched
        touched, changes.touched = changes.touched, set()
        if changes.gated:
            changes.gated = False
            touched.update(self.queue.keys(EntryPhase.GATED, EntryPhase.PREEMPTING))
        for pod in changes.rejected:
            self.engine.avoid(pod, moment.seconds)
            effects.append(Rejected(pod_ref(pod), rejected_for(pod)))
        changes.rejected.clear()
        self.engine.placer.rejections.expire(moment.seconds)
        try:
            while touched:
                self._look_at(touched.pop(), effects, moment)
        finally:
            # An error concerns one of them.
            changes.touched |= touched

    def _look_at(self, key: Key, effects: list[Effect], moment: Moment) -> None:
        """Queue, hold back or forget an entry that changed."""
        if key in self._preemptions:
            self._preemptions.touch(key)
            return
        target, now = self.entry_pods.wanted(key), moment.seconds
        if target is None:
            self._cycle.forget_entry(key, now)
            if (entry := self._entries.get(key)) is not None:
                entry.disputed = ""
        elif isinstance(target, Unplaceable):
            pods = (pod for pod in self.entry_pods.pods(key) if self.entry_pods.waits(pod))
            priority = max((pod.spec.priority or 0 for pod in pods), default=0)
            self.queue.enqueue(key, priority, self.entry_pods.since(key))
            self._note_dispute(self._entries[key], target, effects)
            self._cycle.gate(key, target, effects, moment)
        else:
            if isinstance(key, GroupKey):
                # A member that is being deleted needs no node.
                self._reservations.cancel(set(self.entry_pods.waiting_rows(key)).difference(target.rows))
            self.queue.enqueue(key, target.priority, self.entry_pods.since(key))
            self._note_dispute(self._entries[key], target, effects)
            if self._changes.unanswered(target.rows):
                # The bind in flight may still succeed, so a second one could end on either node.
                self.queue.gate(key, now)
                return
            self.queue.open(key)
            self.queue.wake((key,), now)
            failures = self.binds.retries(key)
            if failures == 1:
                self.queue.activate(key, first=True)
            elif failures:
                self.queue.back_off(key, now, failures)
                # Pods that are evicted for pods that cannot be bound are evicted in vain.
                self._restraint.gave_up(self._entries[key], now, deleted=True)

    def _note_dispute(
        self, entry: Entry, target: PlacementTarget | Unplaceable, effects: list[Effect]
    ) -> None:
        """Report once that the condition of a group and its pods disagree, until that changes."""
        if target.disputed and entry.disputed != target.disputed:
            effects.append(Disagreed(entry.key, target.disputed))
        entry.disputed = target.disputed
