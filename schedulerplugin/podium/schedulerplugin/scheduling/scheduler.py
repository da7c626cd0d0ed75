"""The scheduler as a state machine without clock, network or tasks: changes come in, effects come out.

It observes every change in the cluster, and is called when an effect was carried out. `step` wakes the
entries that the changes may help, tries the first entry of the queue, and returns effects as values. A
decision counts at once, long before the API server shows it: an assumed pod stands on its node, a nomination
holds its room, a victim is terminating. So the next decision never waits for a write. A write that fails
takes back exactly its own decision.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from podium.api.core import UNSCHEDULABLE
from podium.api.membership import GroupKey
from podium.api.times import seconds
from podium.cluster.reader import Name
from podium.groups.trees import group_at
from podium.planner.deadline import DecisionTimeoutError
from podium.planner.preemption.inflight import LATE_SECONDS
from podium.planner.preemption.target import PlacementTarget, Unplaceable
from podium.planner.rejections import rejected_for
from podium.schedulerplugin.scheduling.cycle import SchedulingCycle
from podium.schedulerplugin.scheduling.effects import (
    Disagreed,
    Effect,
    Key,
    Moment,
    PodRef,
    RefusedVictim,
    Rejected,
    ReportPending,
    pod_ref,
)
from podium.schedulerplugin.scheduling.entry import Entries, Entry, EntryPhase, refuse
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.eventhandlers import Changes
from podium.schedulerplugin.scheduling.evictionlimits import EvictionLimits
from podium.schedulerplugin.scheduling.holds import Holds
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.prebinds import ObjectChanges
from podium.schedulerplugin.scheduling.preemptions import Preemptions, begun
from podium.schedulerplugin.scheduling.queue import Queue
from podium.schedulerplugin.scheduling.queueinghints import Hints
from podium.schedulerplugin.scheduling.verdicts import waiting


class Scheduler:
    """Schedules the pods of one schedulerName; give `apply` to State.observe after the engine's."""

    def __init__(
        self, engine: LiveEngine, limits: EvictionLimits, *, illegal: Callable[[str], None] = refuse
    ) -> None:
        """`illegal` is called if an entry changes its phase in a way that is a bug."""
        self.engine = engine
        self.name = limits.live().scheduler_name
        self._hints = hints = Hints()
        self.queue = Queue(hints, Entries(illegal))
        self.entries = EntryPods(engine, self.name, self.queue)
        self._changes = Changes(engine, hints, self.entries, waits=self.queue.__contains__)
        self.apply = self._changes.apply
        self.holds = Holds(engine, self.entries, self._changes, limits.live)
        self._limits = limits
        self._preemptions = Preemptions(engine, self.entries, self.holds, changes=self._changes, hints=hints)
        self._cycle = SchedulingCycle(engine, self.entries, self.holds, limits)
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
        for key, pod in self.entries.waiting():
            group = group_at(self.engine.view, key) if isinstance(key, GroupKey) else None
            preemptors[(pod if group is None else group).metadata.uid or ""] = key
            self._changes.touched.add(key)
        self._settle(effects, moment)
        self._cycle.isolate(interrupted)
        for key in interrupted:
            self.queue.demote(key, self._limits.live().decision_seconds, moment.seconds)
        for preemption in begun(self.engine, self.name, seconds(moment.now)):
            preemptor = preemptors.get(preemption.preemptor)
            entry = None if preemptor is None else self.entries.records.get(preemptor)
            verdict = None
            if entry is not None and entry.phase is EntryPhase.ACTIVE and not entry.alone:
                verdict = self._cycle.deciding.resume(entry.key, preemption.rows, moment)
            if verdict is None:
                effects.append(preemption.withdrawn(self.engine))
            else:
                self._cycle.apply(verdict, effects, moment)
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
            or bool(self.holds.prebinds and changes.objects)
            or self.holds.prebinds.has_work(now)
            or self.holds.over(now)
            or self.queue.first(now) is not None
        )

    def step(self, moment: Moment) -> list[Effect]:
        """Look at the entries that changed, then schedule the first one in the queue; return the effects."""
        effects: list[Effect] = []
        self._cycle.tried, self._decided = [], effects
        self.engine.catch_up()
        now = moment.seconds
        if self.holds.over(now):
            self._changes.touched.add(self.holds.time_out(now))
        self._settle(effects, moment)
        self._listen(now)
        first = self.queue.pop(now)
        self._cycle.tried = [] if first is None else [first]
        if first is None:
            return effects
        began = self._limits.clock()
        try:
            self._cycle.attempt(first, effects, moment)
        except DecisionTimeoutError as error:
            self._cycle.time_out(error, effects, moment)
        finally:
            self.queue.charge(self._cycle.tried, self._limits.clock() - began, now)
        # An entry without a decision is looked at again.
        retrying = EntryPhase.RETRYING
        self._changes.touched.update(key for key in self._cycle.tried if self.queue.phase_of(key) is retrying)
        return effects

    def _listen(self, now: float) -> None:
        """Wake the entries that the changes since the last look may help.

        A gang that holds room takes what came free before any other entry is woken.
        """
        holder = self.holds.holder
        if holder is not None and (nodes := self._hints.changed_nodes()):
            self._cycle.tried = [holder]
            if self.holds.grow(nodes, self._limits.deadline()):
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
        ends = self.queue.due(now), self.holds.due(), self.holds.prebinds.due()
        times = [at for at in ends if at is not None]
        return max(now, min(times)) if times else None

    def switched(self) -> None:
        """Try all unschedulable entries after a change of the settings, which may allow a preemption."""
        for key in self.queue.keys(EntryPhase.UNSCHEDULABLE):
            self.queue.activate(key)

    def on_error(self, moment: Moment) -> list[Effect]:
        """Back off the entries that a step failed on; return the effects that preceded the error."""
        self._cycle.on_error(self._decided, moment)
        return self._decided

    def look_again(self, key: Key, moment: Moment) -> None:
        """Look at an entry again after an error in a call about it.

        A preemption in flight counts as ended, and its victims as terminating: it may have been carried out.
        """
        self._changes.touched.add(key)
        if key in self._preemptions:
            self.entries.records[key].preemption = None
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
            awaited = frozenset(pod.uid for pod in evict.victims if self.entries.row(pod) is not None)
            if awaited:
                members = self.entries.rows(pod for pod, _ in evict.nominations)
                node_row = self.engine.snapshot.row
                nodes = {row: node_row.get(self.engine.nomination(row)) for row in members}
                reserved = {row: node for row, node in nodes.items() if node is not None}
                priority = evict.preemptor.priority
                waits_for = waiting(self.engine, members, priority, reserved, awaited=awaited)
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
        self._limits.gave_up(self.entries.records[key], now, deleted=in_vain, blamed=bool(final))
        if final and not gone:
            self._limits.refund(self.entries.records[key])
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
        return self._preemptions.objection(key, self._limits.live().mode, moment)

    def _settle(self, effects: list[Effect], moment: Moment) -> None:
        """Look at the entries that changed: whether they wait, may be scheduled, and their priority."""
        changes = self._changes
        changes.catch_up()
        touched, changes.touched = changes.touched, set()
        objects, changes.objects = changes.objects, set()
        given_up, changes.given_up = changes.given_up, set()
        try:
            self.holds.prebinds.advance(ObjectChanges(objects, given_up, touched), effects, moment)
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
        target, now = self.entries.wanted(key), moment.seconds
        if target is None:
            self._cycle.forget(key, now)
            if (entry := self.entries.records.get(key)) is not None:
                entry.disputed = ""
        elif isinstance(target, Unplaceable):
            pods = (pod for pod in self.entries.pods(key) if self.entries.waits(pod))
            priority = max((pod.spec.priority or 0 for pod in pods), default=0)
            self.queue.enqueue(key, priority, self.entries.since(key))
            self._note_dispute(self.entries.records[key], target, effects)
            self._cycle.apply(self._cycle.deciding.gate(key, target), effects, moment)
        else:
            if isinstance(key, GroupKey):
                # A member that is being deleted needs no node.
                self.holds.cancel(set(self.entries.waiting_rows(key)).difference(target.rows))
            self.queue.enqueue(key, target.priority, self.entries.since(key))
            self._note_dispute(self.entries.records[key], target, effects)
            if self._changes.unanswered(target.rows):
                # The bind in flight may still succeed, so a second one could end on either node.
                self.queue.gate(key, now)
                return
            self.queue.open(key)
            self.queue.wake((key,), now)
            failures = self.holds.retries(key)
            if failures == 1:
                self.queue.activate(key, first=True)
            elif failures:
                self.queue.back_off(key, now, failures)
                # Pods that are evicted for pods that cannot be bound are evicted in vain.
                self._limits.gave_up(self.entries.records[key], now, deleted=True)

    def _note_dispute(
        self, entry: Entry, target: PlacementTarget | Unplaceable, effects: list[Effect]
    ) -> None:
        """Report once that the condition of a group and its pods disagree, until that changes."""
        if target.disputed and entry.disputed != target.disputed:
            effects.append(Disagreed(entry.key, target.disputed))
        entry.disputed = target.disputed
