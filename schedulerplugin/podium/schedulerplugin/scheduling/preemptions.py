"""Tracks preemptions in flight, from the decision until the task that carries them out has ended.

Later decisions count a preemption as done: its nodes are reserved, and its victims are terminating. The
preemptor is not tried meanwhile, because it would preempt twice; changes of it are kept until the end. What
was not carried out is taken back.

Between a plan and the first delete there are writes, which take milliseconds or, on a server in trouble,
minutes. Any premise of the plan may have changed by then: the mode, the preemptor, its nodes, and the rules
that protect the victims. A preemptor may be recreated pods of the same names by now, or a group of lower
priority. So `objection` checks the plan again before the first delete.

A preemption with fewer writes is faster, so `announcements` chooses the writes before the first delete by
their readers. Two readers cannot wait. The next leader resumes from a record if this process ends between two
deletes. A controller decides by the condition DisruptionTarget of a pod that ends: a Job's podFailurePolicy
does not count it as a failure. All other writes only inform, and `live.status` makes them if the preemption
lasts.

A lone pod that preempts lone pods needs no record under the semantics `kep`. The room of the deleted pods
counts as free for the next leader, and no other plan costs less than the rest of this one. The rules of
kube-scheduler's releases do not have this property, so under those rules everything is announced as
kube-scheduler does.

A victim that declares `saves-on-notice` is asked by its mark: the condition DisruptionTarget, and with it the
annotation SAVE_REQUESTED, which a container can read as a file of a downward-API volume. Its eviction waits
(`waits`) until the time of its checkpoint moves, until the declared time is over, or until it is gone. When
the mark is withdrawn, the annotation goes with it, and the workload may go on. The annotation says since when
the victim knows. So no victim has more time because the leader changes, and none has less. At the end of the
wait `answers` says which units saved their work, and which failed to (see `podium.history.trust`).

`begun` reads that record after a takeover: the remaining victims of each preemption. It is only a hint. A
tenant that may write the status of a pod or of a group can write one, and the cluster has changed since. So
it only says which plan to look at first, and that plan has to pass every check of a new one. A plan that does
not pass is withdrawn, and planning starts from nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np

from podium.api.events import PREEMPTOR
from podium.api.membership import GroupKey
from podium.api.meta import Condition, instant
from podium.api.records import Saving
from podium.api.saving import NO_CHECKPOINT, NOT_SAVED, SAVE_REQUESTED
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.cluster.reader import Child, ClusterReader, name_of
from podium.errors import PodiumError
from podium.groups.trees import group_at, members_below
from podium.planner.preemption.inflight import (
    DISRUPTION_TARGET,
    LONGEST_GRACE_SECONDS,
    is_preempted,
    preempts,
)
from podium.planner.preemption.target import PlacementTarget, Unplaceable
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.progress import declaration_of, patience
from podium.planner.semantics import Semantics
from podium.planner.settings import PreemptionMode
from podium.schedulerplugin.scheduling.effects import (
    Evict,
    Key,
    Moment,
    PodRef,
    RefusedVictim,
    Unit,
    Unmark,
    ref_at,
    stored_pod,
)
from podium.schedulerplugin.scheduling.entry import EntryPhase
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.eventhandlers import Changes
from podium.schedulerplugin.scheduling.holds import Holds
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.messages import group_of
from podium.schedulerplugin.scheduling.queueinghints import Hints

# The API groups of controllers that read no condition of a pod but Ready: ReplicaSet, StatefulSet, DaemonSet
# and ReplicationController. Any other controller may read others.
_READY_ONLY = ("apps/v1", "v1")


class Preemptions:
    """The preemptions in flight of one scheduler, by the preemptor's entry; each entry has at most one."""

    def __init__(
        self,
        engine: LiveEngine,
        entries: EntryPods,
        holds: Holds,
        *,
        changes: Changes,
        hints: Hints,
    ) -> None:
        self._engine = engine
        self._entries = entries
        self._holds = holds
        self._changes = changes
        self._hints = hints

    def __contains__(self, key: Key) -> bool:
        """Return whether an entry has a preemption in flight."""
        return self._entries.queue.phase_of(key) is EntryPhase.PREEMPTING

    def touch(self, key: Key) -> None:
        """Remember that a preemptor changed; it is looked at when its preemption ends."""
        preemption = self._entries.records[key].preemption
        assert preemption is not None, "a preemption is in flight"
        preemption.changed = True

    def objection(self, key: Key, mode: PreemptionMode, moment: Moment) -> str:
        """Return why no victim may be deleted, empty if all may be; the text contains no name of a victim."""
        entry = self._entries.records.get(key)
        preemption = None if entry is None else entry.preemption
        if preemption is None:
            return "it has ended"
        if mode is not PreemptionMode.ENFORCE:
            return f"the mode of preemption is {mode} now"
        evict = preemption.evict
        try:
            target = self._engine.placement_target(key)
        except PodiumError as error:
            return str(error)
        if isinstance(target, Unplaceable):
            return target.why
        if target.preemption_barred:
            return target.preemption_barred
        if target.priority < evict.preemptor.priority:
            return "its priority is lower now"
        rules_changed = preemption.rules != self._hints.seen.rules
        if rules_changed and not _may_go(self._engine, self._entries, evict, moment):
            return "some of its victims may not be evicted any more"
        return _unplaced(self._engine, self._entries, evict, target)

    def finish(self, key: Key) -> Evict:
        """End a preemption; all victims count as deleted unless `take_back` is called.

        The caller must change the phase of the entry.
        """
        entry = self._entries.records[key]
        preemption, entry.preemption = entry.preemption, None
        assert preemption is not None, "a preemption is in flight"
        if preemption.changed:
            self._changes.touched.add(key)
        return preemption.evict

    def take_back(
        self,
        evict: Evict,
        deleted: Iterable[PodRef],
        refused: Iterable[RefusedVictim],
        now: int,
        *,
        unsure: bool,
    ) -> None:
        """Undo a failed preemption: victims that were not deleted stay, and no node is reserved.

        If `unsure`, some of them may be terminating. The next plan should be the same, because another plan
        might evict more pods than necessary. It is without the `refused` ones; `now` is in seconds.
        """
        gone = frozenset(deleted)
        left = tuple(pod for pod in evict.victims if pod not in gone)
        if unsure:
            self._entries.records[evict.key].unsure = left
        kept = self._entries.rows(left)
        self._engine.unmark(kept)
        for victim in refused:
            row = self._entries.row(victim.pod)
            if row is not None:
                self._engine.keep_out(row, victim.why, now, final=victim.final)
        self._changes.unmarked(kept)
        self._holds.cancel(self._entries.rows(pod for pod, _ in evict.nominations))


def _unplaced(engine: LiveEngine, entry_pods: EntryPods, evict: Evict, target: PlacementTarget) -> str:
    """Return why the preemptor cannot use the room; empty if it can."""
    snapshot, here = engine.snapshot, 0
    rows = set(target.rows)
    for pod, name in evict.nominations:
        row, node = entry_pods.row(pod), snapshot.row.get(name)
        if row is None or row not in rows:
            continue
        here += 1
        if node is None or engine.nomination(row) != name:
            return f"node {name} is not reserved for it any more"
        if not engine.suits(snapshot.shape_at(row), node):
            return f"node {name} does not suit it any more"
    return "" if here >= target.needed else "the pods that it was begun for are gone"


def _may_go(engine: LiveEngine, entry_pods: EntryPods, evict: Evict, moment: Moment) -> bool:
    """Return whether the rules still allow the eviction of the remaining victims."""
    now, going = seconds(moment.now), engine.snapshot.terminating
    rows = [row for row in entry_pods.rows(evict.victims) if not going.item(row)]
    # A pod marked for deletion is in no unit, so the marks are lifted during the check.
    engine.unmark(rows)
    units, _ = engine.units(for_group=isinstance(evict.key, GroupKey), now=now)
    leads = np.unique(units.lead[rows])
    leads = leads[leads != NO_UNIT]
    permitted = units.preemptable_by(evict.preemptor.priority, now)[leads].all() and not engine.forbids(
        units, leads
    )
    engine.mark_for_deletion(rows)
    return bool(permitted)


class Notice(NamedTuple):
    """A victim that saves its work on notice: `until` (steady seconds), and its checkpoint before that.

    `resumed` says that an earlier process asked it.
    """

    pod: PodRef
    until: float
    saved: int
    resumed: bool = False


def notices(view: ClusterReader, evict: Evict, longest: int, moment: Moment) -> tuple[Notice, ...]:
    """Return the victims of a preemption to ask; no time is longer than `longest` (seconds)."""
    if isinstance(evict.key, GroupKey):
        group = group_at(view, evict.key)
        name = "" if group is None else group.priority_class_name
    else:
        pod = view.pods.get(evict.key)
        name = "" if pod is None else pod.spec.priorityClassName or ""
    longest = patience(view, name, evict.preemptor.priority, longest)
    return tuple(_asked(view, evict.victims, longest, moment))


def _asked(view: ClusterReader, victims: Iterable[PodRef], longest: int, moment: Moment) -> Iterator[Notice]:
    now = seconds(moment.now)
    for ref in victims:
        pod = _running(view, ref)
        if pod is None:
            continue
        work = declaration_of(view, pod)
        if work.saves_within != NOT_SAVED or work.notice > longest:
            continue
        since = _requested(pod)
        left = work.notice if since is None else min(max(since + work.notice - now, 0), work.notice)
        # A checkpoint since an earlier leader asked is the answer: another one than before.
        answered = since is not None and work.saved >= since
        until = moment.seconds if answered else moment.seconds + left
        yield Notice(ref, until, NO_CHECKPOINT if answered else work.saved, since is not None)


def waits(view: ClusterReader, asked: Iterable[Notice], now: float) -> bool:
    """Return whether a victim may still save its work; `now` is in steady seconds."""
    return any(
        now < notice.until
        and (pod := _running(view, notice.pod)) is not None
        and declaration_of(view, pod).saved == notice.saved
        for notice in asked
    )


def answer(notice: Notice, saved: int, now: float, *, requested: bool) -> Saving | None:
    """Return whether a running victim saved its work, by the checkpoint that it reports at the end of a wait.

    `now` is in steady seconds. None if it is not known: it lacked time, or was not `requested`. A victim that
    an earlier process asked does not fail, because the time that it had is not known by one steady clock.
    """
    if saved != notice.saved:
        return Saving.SAVED
    return Saving.FAILED if requested and not notice.resumed and now >= notice.until else None


class Answers(NamedTuple):
    """The end of a wait: how many pods were asked, saved and failed, and the answers of units by UID.

    `lost` are the accelerator-seconds that declarations were to save and did not.
    """

    asked: int = 0
    saved: int = 0
    failed: int = 0
    units: Mapping[str, Saving] = MappingProxyType({})
    lost: int = 0
    seconds: float = 0.0


NO_ANSWERS = Answers()


def answers(
    view: ClusterReader, evict: Evict, asked: Collection[Notice], longest: int, times: tuple[float, float]
) -> Answers:
    """Return the answers to a preemption's notices; `times` (steady seconds) are those of the wait.

    Work that was to be saved on a notice of at most `longest` seconds is lost if there was no answer, also if
    the preemptor was not to wait for it.
    """
    if not asked and not evict.saved:
        return NO_ANSWERS
    began, now = times
    noticed = {notice.pod: notice for notice in asked}
    units: dict[str, Saving] = {}
    total, lost = Counter[Saving | None](), 0
    for unit in evict.units:
        of_pods, unsaved = Counter[Saving | None](), False
        for ref in unit.pods:
            pod, notice = _running(view, ref), noticed.get(ref)
            if pod is None:
                continue
            work, verdict = declaration_of(view, pod), None
            if notice is not None:
                verdict = answer(notice, work.saved, now, requested=is_requested(pod))
            of_pods[verdict] += 1
            on_notice = work.saves_within == NOT_SAVED and work.notice <= longest
            unsaved |= on_notice and verdict is not Saving.SAVED
        lost += unit.saves if unsaved else 0
        total += of_pods
        if of_pods[Saving.FAILED] or of_pods[Saving.SAVED]:
            units[unit.uid] = Saving.FAILED if of_pods[Saving.FAILED] else Saving.SAVED
    saved, failed = total[Saving.SAVED], total[Saving.FAILED]
    return Answers(len(noticed), saved, failed, units, min(lost, evict.saved), now - began)


def is_requested(pod: Schedulable) -> bool:
    """Return whether a pod has been asked to save its work."""
    return SAVE_REQUESTED in (pod.metadata.annotations or {})


def _running(view: ClusterReader, ref: PodRef) -> Schedulable | None:
    """Return a pod that exists and neither ends nor has ended."""
    pod = stored_pod(view, ref)
    ends = pod is None or pod.finished or pod.metadata.deletionTimestamp is not None
    return None if ends else pod


def _requested(pod: Schedulable) -> int | None:
    """Return since when (seconds since 1970) a marked pod is asked, None if it is not."""
    text = (pod.metadata.annotations or {}).get(SAVE_REQUESTED) if is_preempted(pod) else None
    try:
        return seconds(instant(text)) if text else None
    except msgspec.ValidationError:
        return None


class Announcements(NamedTuple):
    """Nominations, victims to be marked, and groups to be marked in place of their pods.

    The `asked` are those of the marked pods that the mark asks to save their work (`notices`).
    """

    nominations: tuple[tuple[PodRef, str], ...]
    marks: tuple[PodRef, ...]
    groups: tuple[Unit, ...]
    asked: frozenset[PodRef] = frozenset()


def announcements(
    view: ClusterReader, evict: Evict, semantics: Semantics, asked: frozenset[PodRef] = frozenset()
) -> Announcements:
    """Return what must be written before the first delete of a preemption; victims to ask are `asked`."""
    if not semantics.rules.marks_groups:
        return Announcements(evict.nominations, evict.victims, (), asked)
    recorded = evict.preemptor.kind != "pod" or any(len(unit.pods) > 1 for unit in evict.units)
    marks: list[PodRef] = []
    groups: list[Unit] = []
    for unit in evict.units:
        as_group = recorded and group_of(view, unit) is not None
        if as_group:
            groups.append(unit)
        by_pod = recorded and not as_group
        marks += [ref for ref in unit.pods if by_pod or ref in asked or _is_read(view, ref)]
    return Announcements((), tuple(marks), tuple(groups), asked)


def _is_read(view: ClusterReader, ref: PodRef) -> bool:
    """Return whether a reader decides by the mark of a pod: its controller, or Podium if it ends slowly."""
    pod = view.pods.get(ref.key)
    if not isinstance(pod, Schedulable):
        return False
    controller = pod.metadata.controller()
    if controller is not None and controller.apiVersion not in _READY_ONLY:
        return True
    return (pod.spec.terminationGracePeriodSeconds or 0) > LONGEST_GRACE_SECONDS


class Begun(NamedTuple):
    """The pods that were to be evicted for one preemptor, by its UID, and were not deleted.

    `rows` are the pods, of which `marked` have the condition themselves; `groups` are those that have it.
    """

    preemptor: str
    rows: tuple[int, ...]
    marked: tuple[int, ...]
    groups: tuple[GroupKey, ...]

    def withdrawn(self, engine: LiveEngine) -> Unmark:
        """Return the effect that withdraws the marks."""
        return Unmark(tuple(ref_at(engine, row) for row in self.marked), self.groups)


def begun(engine: LiveEngine, scheduler: str, now: int) -> Iterator[Begun]:
    """Yield what a scheduler of that name had begun, by preemptor; pods that are being deleted are left out.

    Only conditions in that scheduler's own form count, which names the preemptor at its end. `now` is in
    seconds since 1970.
    """
    marked: dict[str, list[int]] = {}
    snapshot = engine.snapshot
    for _, row in sorted(snapshot.pod_row.items()):
        pod = snapshot.pods[row]
        if snapshot.terminating.item(row) or snapshot.node.item(row) < 0 or not is_preempted(pod):
            continue
        condition = pod.status.condition(DISRUPTION_TARGET) if pod is not None and pod.status else None
        uid = preemptor_of(condition, scheduler)
        if uid:
            marked.setdefault(uid, []).append(row)
    groups: dict[str, list[GroupKey]] = {}
    members: dict[str, list[int]] = {}
    for key, uid in _marked_groups(engine, scheduler):
        rows = _unit(engine, key, now)
        if rows:
            groups.setdefault(uid, []).append(key)
            members.setdefault(uid, []).extend(rows)
    for uid in sorted(marked.keys() | groups.keys()):
        own = marked.get(uid, [])
        rows = sorted({*own, *members.get(uid, ())})
        yield Begun(uid, tuple(rows), tuple(own), tuple(groups.get(uid, ())))


def _marked_groups(engine: LiveEngine, scheduler: str) -> Iterator[tuple[GroupKey, str]]:
    """Yield the marked groups, each with the preemptor's UID.

    The rules of kube-scheduler's releases mark each pod, and a group's condition there may be from long ago.
    """
    if not engine.settings.semantics.rules.marks_groups:
        return
    view = engine.view
    every: list[tuple[GroupKey, Child]] = [*view.groups.items(), *view.composites.items()]
    for key, group in sorted(every, key=itemgetter(0)):
        condition = next((condition for condition in group.conditions if preempts(condition)), None)
        uid = preemptor_of(condition, scheduler)
        if uid:
            yield key, uid


def _unit(engine: LiveEngine, key: GroupKey, now: int) -> list[int]:
    """Return the pods of a group that exist and are evicted together; empty if they are not."""
    units, _ = engine.units(for_group=True, now=now)
    rows = engine.snapshot.pod_row
    pods = members_below(engine.view, key)
    members = [row for pod in pods if (row := rows.get(name_of(pod))) is not None]
    leads = {units.lead.item(row) for row in members} - {NO_UNIT}
    whole = (lead for lead in leads if units.whole_of(lead) is not None)
    return [row for lead in whole for row in units.members(lead).tolist()]


def preemptor_of(condition: Condition | None, scheduler: str) -> str:
    """Return the UID of the preemptor that a condition names; empty for a condition of another form."""
    message = (condition.message if condition is not None else None) or ""
    named = PREEMPTOR.search(message)
    return named[2] if named is not None and message.startswith(f"{scheduler}: ") else ""
