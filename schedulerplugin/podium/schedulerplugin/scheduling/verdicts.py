"""Decides for one entry: `Deciding` returns a verdict, which is all that is to be done, and changes nothing.

- `Bind`: it fits. Its pods are assumed on their nodes and bound.
- `Await`: it fits once pods are gone that are terminating, or end in time. Nodes are reserved for it.
- `Preempt`: it fits after a preemption that no limit holds back.
- `Refuse`: it does not fit, or its preemption has to wait. It waits for a change that may help it.
- `Gate`: it must not be scheduled as it is, wherever there is room.
- `Fail`: there is no decision, because of an error or of the time.

`SchedulingCycle.apply` carries a verdict out. A decision consists of rows of the snapshot, which may be
another pod's later, while an eviction takes minutes. So all that outlives the step is recorded by UID.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from podium.api.core import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.api.membership import GroupKey
from podium.api.records import CLUSTER
from podium.api.times import seconds
from podium.cluster.reader import Name
from podium.errors import PodiumError
from podium.planner.deadline import Deadline, DecisionTimeoutError
from podium.planner.engine import Engine
from podium.planner.liveplugin import PluginWrite
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.harm import plan_harm, work_saved
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.planner.preemption.units import Units
from podium.planner.settings import PreemptionMode
from podium.schedulerplugin.scheduling import messages
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Evict,
    Key,
    Moment,
    Placements,
    PodRef,
    Preemptor,
    ReportPending,
    Unit,
    placements,
    pod_ref,
    ref_at,
)
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.evictionlimits import (
    EvictionLimits,
    Limit,
    Why,
    expiry,
    no_room_since,
    overdue,
)
from podium.schedulerplugin.scheduling.holds import GangPause, GangRoom, Holds
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.queueinghints import Place, Waiting


class Await(NamedTuple):
    """Reserve nodes for pods (rows) of an entry until other pods are gone, at most `until` (seconds).

    These are terminating, or their end is known. The reservations of `cleared` pods of lower priority end.
    `report` has the nodes.
    """

    report: ReportPending
    rows: tuple[int, ...]
    cleared: tuple[PodRef, ...]
    waits_for: Waiting
    until: float | None
    no_room_since: datetime | None = None


class Preempt(NamedTuple):
    """Evict units for an entry, which waits for changes that could help it if the preemption fails."""

    evict: Evict
    decision: Decision
    target: PlacementTarget
    waits_for: Waiting
    no_room_since: datetime


class Refuse(NamedTuple):
    """Let an entry wait for a change that may help it, at most `until` (seconds), and report why.

    A gang may hold room for its pods (`rows`). `stranded` writes are undone, because no node can use them.
    `limited` is a preemption that has to wait, and why.
    """

    report: ReportPending
    rows: tuple[int, ...]
    waits_for: Waiting
    until: float | None
    gang: GangRoom | GangPause | None = None
    no_room_since: datetime | None = None
    stranded: tuple[PluginWrite, ...] = ()
    limited: tuple[Evict, Limit] | None = None


class Gate(NamedTuple):
    """Hold an entry back until it may be scheduled; its waiting pods (rows) keep neither node nor device."""

    report: ReportPending
    rows: Sequence[int]
    stranded: tuple[PluginWrite, ...] = ()


class Fail(NamedTuple):
    """Try an entry alone after a backoff. A `report` says that its decision exceeded the `budget` (seconds).

    `gone` says that none of its pods waits any more, or that its group is gone.
    """

    key: Key
    report: ReportPending | None = None
    budget: float = 0.0
    gone: bool = False


Verdict = Bind | Await | Preempt | Refuse | Gate | Fail


class Deciding:
    """Decides for the entries of one scheduler; no method changes the queue, the holds or the limits."""

    def __init__(self, engine: LiveEngine, entries: EntryPods, holds: Holds, limits: EvictionLimits) -> None:
        self._engine = engine
        self._entries = entries
        self._holds = holds
        self._limits = limits

    def decide(self, key: Key, moment: Moment) -> Verdict:
        """Return the verdict on one entry."""
        if not isinstance(key, GroupKey) and self._entries.reserved(key):
            # A better place may be taken, but need not be looked for.
            node = self._engine.as_reserved(key)
            if node is not None:
                return Bind(key, placements(self._engine, {self._engine.snapshot.pod_row[key]: node}))
        deadline = self._limits.deadline()
        try:
            unsure = self._entries.unsure(key)
            again = self._engine.resume(key, unsure, moment.now, deadline=deadline) if unsure else None
            decision = again or self._engine.decide(key, moment.now, deadline=deadline)
        except PodiumError:
            return Fail(key, gone=True)
        target = decision.target
        if target is None:
            cause = Blocker.NOT_JUDGED if decision.outcome is Outcome.NOT_JUDGED else None
            return self.gate(key, Unplaceable(decision.why, cause))
        if decision.outcome is Outcome.FITS:
            return Bind(key, placements(self._engine, decision.placed))
        stranded = self._holds.stranded(target.rows)
        if stranded or decision.outcome is not Outcome.FITS_AFTER_PREEMPTION:
            return self._refuse(key, decision, target, moment, stranded)
        if decision.chosen is None:
            return self._await(key, decision, target, moment)
        return self._preempt(key, decision, target, moment, again=again is not None)

    def decide_run(self, keys: Sequence[Name]) -> list[Bind]:
        """Return the binds of lone pods of one priority, up to the first that does not fit as they are."""
        placed = self._engine.place_lone(keys, deadline=self._limits.deadline())
        rows = self._engine.snapshot.pod_row
        return [Bind(key, placements(self._engine, {rows[key]: node})) for key, node in placed.items()]

    def decide_alike(
        self, before: Preempt, key: Name, moment: Moment, deadline: Deadline
    ) -> Preempt | Await | Refuse | None:
        """Return the verdict on a lone pod like the last preemptor; None if it takes a look at all nodes."""
        if self._entries.unsure(key):
            return None
        try:
            decision = self._engine.decide_next(before.decision, key, moment.now, deadline=deadline)
            if decision is None or decision.target is None:
                return None
            return self._preempt(key, decision, decision.target, moment)
        except DecisionTimeoutError:
            # The key is in the queue still, and has a deadline of its own when it is popped.
            return None

    def resume(self, key: Key, victims: Collection[int], moment: Moment) -> Preempt | None:
        """Return the preemption of these pods (rows) by an earlier process; None if it must not go on."""
        try:
            decision = self._engine.resume(key, victims, moment.now, deadline=self._limits.deadline())
        except DecisionTimeoutError:
            return None
        if decision is None or decision.target is None:
            return None
        verdict = self._preempt(key, decision, decision.target, moment, resumed=True)
        return verdict if isinstance(verdict, Preempt) else None

    def gate(self, key: Key, refused: Unplaceable) -> Gate:
        """Return the verdict on an entry that must not be scheduled as it is.

        Its pods may have been allocated devices before, such as those of a gang that is incomplete now. An
        object that is unread may show that all is well.
        """
        rows = self._entries.waiting_rows(key)
        pods = [self._engine.snapshot.pod_at(row) for row in rows]
        # The API server itself writes the condition of a pod with scheduling gates.
        ungated = tuple(pod_ref(pod) for pod in pods if not pod.spec.schedulingGates)
        stranded = () if refused.cause is Blocker.NOT_JUDGED else self._holds.stranded(rows)
        return Gate(ReportPending(key, ungated, UNSCHEDULABLE, refused.why, gated=True), rows, stranded)

    def timed_out(self, key: Key, error: DecisionTimeoutError) -> Fail:
        """Return the verdict on an entry whose decision exceeded the time budget."""
        budget = self._limits.live().decision_seconds
        pods = tuple(ref_at(self._engine, row) for row in self._entries.waiting_rows(key))
        return Fail(key, ReportPending(key, pods, SCHEDULER_ERROR, messages.timed_out(error, budget)), budget)

    def _await(
        self,
        key: Key,
        decision: Decision,
        target: PlacementTarget,
        moment: Moment,
        since: datetime | None = None,
    ) -> Await | Refuse:
        """Return the verdict on an entry that fits once other pods are gone."""
        engine, until = self._engine, overdue(self._engine, decision, moment)
        if self._holds.comes_first(target):
            why = messages.behind(self._holds.until(target.priority))
            return self._park(key, target, f"{messages.refusal(decision)} {why}", until)
        nominations = placements(engine, decision.placed)
        awaited = frozenset(engine.snapshot.uids[row] for row in decision.awaited)
        return Await(
            self._report(key, target, messages.awaiting(decision), nominations),
            target.rows,
            tuple(ref_at(engine, row) for row in outranked(engine, target, decision)),
            waiting(engine, target.rows, target.priority, decision.placed, awaited=awaited),
            until,
            since,
        )

    def _room_by_ends(self, decision: Decision, moment: Moment, since: datetime) -> Decision | None:
        """Return the decision to wait for pods that end by themselves; None to preempt."""
        if self._limits.live().mode is not PreemptionMode.ENFORCE:
            return None
        with suppress(DecisionTimeoutError):
            return self._engine.wait_for_ends(decision, moment.now, since, self._limits.deadline())
        return None

    def _preempt(
        self,
        key: Key,
        decision: Decision,
        target: PlacementTarget,
        moment: Moment,
        *,
        again: bool = False,
        resumed: bool = False,
    ) -> Preempt | Await | Refuse:
        """Return the preemption of a decision, or why it has to wait."""
        engine, holds = self._engine, self._holds
        message = messages.refusal(decision)
        if not (again or resumed) and holds.blocks(target, self._limits.deadline()):
            why = messages.not_for_held_room(holds.until(target.priority))
            return self._park(key, target, f"{message} preemption: {why}", holds.due())
        entry = self._entries.records[key]
        since = no_room_since(engine, entry, target, moment)
        wait = None if again or resumed else self._room_by_ends(decision, moment, since)
        if wait is not None:
            return self._await(key, wait, target, moment, since)
        evict = self._eviction(key, decision, target, message, moment)._replace(again=again, resumed=resumed)
        limit = self._limits.limit(engine, entry, evict, target, moment)
        if limit is not None:
            # A gang whose preemption is only delayed gets its room by that.
            may_hold = limit.kind in (Why.OFF, Why.OBSERVED)
            gang = holds.gang_room(key, target, moment, self._limits.deadline()) if may_hold else None
            noted = None if limit.kind is Why.OFF else since
            text = f"{message} preemption: {limit.why}{self._about_hold(key, target, gang)}"
            return self._park(key, target, text, limit.until, gang=gang, since=noted, limited=(evict, limit))
        awaited = frozenset(pod.uid for pod in evict.victims)
        waits_for = waiting(engine, tuple(decision.placed), target.priority, decision.placed, awaited=awaited)
        return Preempt(evict, decision, target, waits_for, since)

    def _eviction(
        self, key: Key, decision: Decision, target: PlacementTarget, message: str, moment: Moment
    ) -> Evict:
        """Return the preemption of a decision."""
        engine = self._engine
        evict = eviction(engine, key, decision, seconds(moment.now), message)
        failures = engine.intents.failed_evictions
        refused = tuple(pod for pod in evict.victims if failures.knows(pod.uid))
        others = (pod for pod in evict.victims if not failures.knows(pod.uid))
        doubted = tuple(pod for pod in others if failures.doubts(pod.namespace))
        lower = outranked(engine, target, decision)
        # The room that a gang held there was never written, so no write has to end it.
        cleared = tuple(ref_at(engine, row) for row in lower if not self._holds.yields(row, target.priority))
        return evict._replace(refused=refused, doubted=doubted, cleared=cleared)

    def _refuse(
        self,
        key: Key,
        decision: Decision,
        target: PlacementTarget,
        moment: Moment,
        stranded: tuple[PluginWrite, ...],
    ) -> Refuse:
        """Return the verdict on an entry that found no place."""
        gang = None
        if not stranded or key == self._holds.holder:
            # Once its devices are given back, a gang may fit where it does not fit now.
            gang = self._holds.gang_room(key, target, moment, self._limits.deadline())
        since = no_room_since(self._engine, self._entries.records[key], target, moment)
        message = messages.refusal(decision) + self._about_hold(key, target, gang)
        until = expiry(self._engine, target, moment)
        return self._park(key, target, message, until, gang=gang, since=since, stranded=stranded)

    def _park(
        self,
        key: Key,
        target: PlacementTarget,
        message: str,
        until: float | None,
        *,
        gang: GangRoom | GangPause | None = None,
        since: datetime | None = None,
        stranded: tuple[PluginWrite, ...] = (),
        limited: tuple[Evict, Limit] | None = None,
    ) -> Refuse:
        """Let an entry wait for changes that could help it, but not for room on nodes that it holds."""
        may_preempt = not target.preemption_barred
        waits_for = waiting(self._engine, target.rows, target.priority, {}, may_preempt=may_preempt)
        report = self._report(key, target, message)
        return Refuse(report, target.rows, waits_for, until, gang, since, stranded, limited)

    def _report(
        self, key: Key, target: PlacementTarget, message: str, nominations: Placements = ()
    ) -> ReportPending:
        pods = tuple(ref_at(self._engine, row) for row in target.rows)
        return ReportPending(key, pods, UNSCHEDULABLE, message, nominations)

    def _about_hold(self, key: Key, target: PlacementTarget, gang: GangRoom | GangPause | None) -> str:
        """Return a sentence about the gang's hold that counts for a refused entry; empty for none."""
        if isinstance(gang, GangRoom):
            return f" {messages.holding(gang.until)}"
        until = "" if key == self._holds.holder else self._holds.until(target.priority)
        return f" {messages.behind(until)}" if until else ""


def waiting(
    engine: Engine,
    rows: Sequence[int],
    priority: int,
    reserved: Mapping[int, int],
    *,
    awaited: frozenset[str] = frozenset(),
    may_preempt: bool = True,
) -> Waiting:
    """Return the changes that could help pods (rows) that found no place; `awaited` are UIDs of victims.

    `reserved` are the nodes (rows) that some of the pods hold.
    """
    snapshot = engine.snapshot
    shapes = {snapshot.shape.item(row): None for row in rows}
    return Waiting(
        shapes=tuple(snapshot.shapes[shape_id] for shape_id in shapes),
        priority=priority,
        may_preempt=may_preempt,
        awaited=awaited,
        reserved=tuple(Place(row, snapshot.shape_at(row), node) for row, node in reserved.items()),
    )


def eviction(engine: Engine, key: Key, decision: Decision, now: int, message: str) -> Evict:
    """Return the preemption of a decision; `now` is the time of the decision in seconds."""
    target, chosen = decision.target, decision.chosen
    assert target is not None
    assert chosen is not None
    units, _ = engine.units(for_group=target.group is not None, now=now)
    plan = chosen.plan
    harm = plan_harm(engine.harm(chosen, units, now), units, plan.victims, now)
    saves = work_saved(units, plan.victims, now).tolist()
    return Evict(
        key=key,
        preemptor=preemptor(engine, target),
        nominations=placements(engine, decision.placed),
        units=tuple(
            _unit(engine, units, *victim) for victim in zip(plan.victims.tolist(), saves, strict=True)
        ),
        domain=CLUSTER if plan.domain.node is None else plan.domain.name,
        message=message,
        violations=harm.violations,
        work=harm.acceleratorSeconds,
        saved=harm.acceleratorSecondsSaved,
    )


def preemptor(engine: Engine, target: PlacementTarget) -> Preemptor:
    """Return the pod or group to be placed."""
    group = target.group
    if group is not None:
        ref = group.ref
        uid = group.metadata.uid or ""
        return Preemptor(ref.kind.lower(), ref.namespace, ref.name, uid, target.priority)
    pod = ref_at(engine, target.rows[0])
    return Preemptor("pod", pod.namespace, pod.name, pod.uid, target.priority)


def outranked(engine: Engine, target: PlacementTarget, decision: Decision) -> Iterator[int]:
    """Yield the pending pods of lower priority with a reservation on one of the nodes; they lose it.

    Only pods of the same scheduler: another scheduler withdraws its own reservations.
    """
    own, ours = set(target.rows), engine.snapshot.pod_at(target.rows[0]).scheduler
    for node in set(decision.placed.values()):
        for row in engine.nominated_on(node):
            lower = row not in own and engine.priority_of(row) < target.priority
            if lower and engine.snapshot.pod_at(row).scheduler == ours:
                yield row


def _unit(engine: Engine, units: Units, lead: int, saves: int) -> Unit:
    kind, namespace, name = units.object_of(lead)
    pods = tuple(ref_at(engine, row) for row in units.members(lead).tolist())
    whole = units.whole_of(lead)
    uid = pods[0].uid if whole is None else whole.metadata.uid or ""
    return Unit(kind, namespace, name, uid, units.priority.item(lead), pods, saves)
