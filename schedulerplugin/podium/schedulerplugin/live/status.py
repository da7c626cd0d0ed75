"""Writes to the status of pods and groups why they wait or are evicted; hot writes go first.

A full cluster has thousands of pods that wait for the same reason, and one more node changes the message of
all of them. Nothing is scheduled by these messages. So only the last message for a pod is written. A message
that the pod has already is not written again, and pointless ones are dropped. The rest is written a few at a
time at a bounded rate, while no bind or eviction needs the server.

A preemption that is over within half a second is not reported at all. If it lasts, autoscalers read the node
that is reserved for the preemptor, and people read on a victim why it is evicted. The evictor writes what
must be announced before the first delete, except for the conditions of groups. An apply contains all
conditions of a group, so every write to a group goes through this module, one at a time.

A tree of composite groups is scheduled and evicted as one. So a report about a composite group is written to
it and to all groups below it. Kubernetes documents conditions of composite groups and writes none.

This module also withdraws the mark of a pod that stays, when the evictor could not reach the server. By then
the pod may be the victim of another preemption. So the write names the version of the pod that was read, and
cannot undo what was written since.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain
from math import inf
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from podium.api.core import POD_SCHEDULED, UNSCHEDULABLE
from podium.api.events import EventDraft
from podium.api.groups import PodGroup
from podium.api.membership import GroupKey, key_of
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader, Name, name_of
from podium.errors import PodiumError
from podium.groups.trees import group_at, is_too_large, tree
from podium.kube.backoff import Rate
from podium.kube.connection import RefusedError, Sleep
from podium.kube.preconditions import LeaseOverError
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.planner.liveplugin import GoneError
from podium.planner.preemption.inflight import DISRUPTION_TARGET, is_preempted
from podium.runtime.workqueue import Workqueue
from podium.schedulerplugin.live.writes import Writes, is_final, together
from podium.schedulerplugin.scheduling import messages
from podium.schedulerplugin.scheduling.effects import (
    Evict,
    Key,
    PodRef,
    Preemptor,
    ReportPending,
    Unit,
    stored_pod,
)
from podium.schedulerplugin.scheduling.messages import (
    SCHEDULED,
    Attempt,
    group_conditions,
    group_of,
    ours,
    same_condition,
    spread_over_domains,
    target_condition,
    target_message,
    unscheduled_condition,
    withdrawn_condition,
)
from podium.schedulerplugin.scheduling.preemptions import Announcements, preemptor_of

# The status of pods and groups as this process knows it: stored, or written and not watched yet.
#
# Writes are remembered for some seconds, because the cluster state shows them only after the watch
# event. A status that is compared with an older one would be left wrong.

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# A watch that is later than this has other troubles.
_LAG = 10.0


class WrittenPodStatus(NamedTuple):
    """The content for a pod's status: why the pod waits, and its reserved node (empty for none)."""

    pod: PodRef
    reason: str
    message: str
    node: str


class AppliedConditions(NamedTuple):
    """The conditions of ours that a group has."""

    uid: str
    conditions: tuple[Condition, ...]


class WriteMemory(Generic[K, V]):
    """Values written to objects that the cluster state may not show yet."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[V, float]] = {}
        self._doubted: set[K] = set()

    def assume(self, key: K, value: V) -> None:
        """Assume that `value` is stored until another call says otherwise, because its write is in flight."""
        self._known[key] = value, inf

    def assume_for(self, key: K, value: V, now: float) -> None:
        """Assume that `value` is stored for some seconds, and drop assumptions that have expired."""
        self.drop(key)
        self._known[key] = value, now + _LAG
        while (oldest := next(iter(self._known))) and self._known[oldest][1] <= now:
            self.drop(oldest)

    def doubt(self, key: K, value: V, now: float) -> None:
        """Assume `value` for some seconds, but mark it as doubtful: everything is written again."""
        self.assume_for(key, value, now)
        self._doubted.add(key)

    def sure(self, key: K) -> bool:
        """Return whether the assumed value is certain."""
        return key not in self._doubted

    def drop(self, key: K) -> None:
        """Use the cluster state again."""
        self._known.pop(key, None)
        self._doubted.discard(key)

    def settled(self, key: K) -> bool:
        """Return whether the assumed value is certain, and no write is in flight."""
        known = self._known.get(key)
        return self.sure(key) and (known is None or known[1] != inf)

    def get(self, key: K, now: float) -> V | None:
        """Return the assumed value, None if there is none."""
        known = self._known.get(key)
        return known[0] if known is not None and known[1] > now else None


class KnownStatus:
    """The status that pods and groups have now: what was written last, or else what is stored."""

    def __init__(self, view: ClusterReader, clock: Callable[[], float]) -> None:
        """`clock` returns steady seconds."""
        self.pods = WriteMemory[Name, WrittenPodStatus]()
        self.groups = WriteMemory[GroupKey, AppliedConditions]()
        self._view = view
        self._clock = clock

    def of_pod(self, pod: PodRef) -> WrittenPodStatus:
        """Return the status a pod was given last, with empty fields if none."""
        known = self.pods.get(pod.key, self._clock())
        if known is not None and known.pod == pod:
            return known
        stored = self.waiting(pod)
        status = stored.status if stored is not None else None
        if status is None:
            return WrittenPodStatus(pod, "", "", "")
        condition = status.condition(POD_SCHEDULED)
        node = status.nominatedNodeName or ""
        if condition is None or condition.status != "False":
            return WrittenPodStatus(pod, "", "", node)
        return WrittenPodStatus(pod, condition.reason or "", condition.message or "", node)

    def conditions(self, group: Child) -> tuple[Condition, ...]:
        """Return the conditions of ours that a group has."""
        applied = self.groups.get(key_of(group), self._clock())
        if applied is None or applied.uid != (group.metadata.uid or ""):
            return ours(group)
        return applied.conditions

    def waiting(self, pod: PodRef) -> Schedulable | None:
        """Return the stored pod if it is the same and still waits; else None."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid or stored.spec.nodeName:
            return None
        return None if stored.finished or stored.metadata.deletionTimestamp is not None else stored

    def running_unmarked(self, pod: PodRef) -> Schedulable | None:
        """Return the stored pod if it is the same, still runs and has no mark of a preemption; else None."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid:
            return None
        return None if stored.finished or is_preempted(stored) else stored


_WORKERS = 4
# A tenth of the writes that an API server on two cores does.
_BURST, _SECONDS = 25, 0.01
# Room for the messages of one attempt at every waiting entry of a large cluster. A later attempt repeats
# messages for which there was no room.
_ROOM = 20_000
# How long a write waits for hot writes, and how often it looks (seconds). Under load a few writes still go
# out.
_PATIENCE, _POLL_SECONDS = 5.0, 0.02
# A preemption that lasts longer than this is reported: most victims without a grace period are gone by then.
# Cluster Autoscaler looks at pending pods every ten seconds, Karpenter after one quiet second.
LASTING_SECONDS = 0.5


class _GroupNews(NamedTuple):
    """The content for a group's conditions: None is no change, an empty target ends the old target.

    `bound` are the nodes of members that were bound just now, by name.
    """

    attempt: Attempt | None = None
    target: str | None = None
    bound: tuple[tuple[str, str], ...] = ()

    def then(self, later: "_GroupNews") -> "_GroupNews":
        """Return both merged; that a group was scheduled stays true whatever a later attempt finds."""
        scheduled = self.attempt is not None and self.attempt.reason == SCHEDULED
        attempt = self.attempt if scheduled or later.attempt is None else later.attempt
        target = self.target if later.target is None else later.target
        return _GroupNews(attempt, target, self.bound + later.bound)


class _PodMark(NamedTuple):
    """A pod that is being evicted and whose status does not name the preemptor."""

    pod: PodRef
    preemptor: Preemptor


class Statuses:
    """Keeps the status of pods and groups up to date; every method but `run` returns at once."""

    def __init__(
        self,
        view: ClusterReader,
        writes: Writes,
        queue: Workqueue[Key],
        emit: Callable[[EventDraft], None],
        scheduler: str,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Sleep,
        log_event: EventLogger,
    ) -> None:
        """`view` holds what scheduling reads, `emit` takes events; `scheduler` is our schedulerName.

        `clock` returns steady seconds, `now` the time in UTC. No other object may use `queue`.
        """
        self._view = view
        self._writes = writes
        self._queue = queue
        self._emit = emit
        self._scheduler = scheduler
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._log_event = log_event
        self._rate = Rate(_BURST, _SECONDS)
        self._wanted: dict[Name, WrittenPodStatus] = {}
        self._unmarked: dict[Name, PodRef] = {}
        self._marks: dict[Name, _PodMark] = {}
        self._news: dict[GroupKey, _GroupNews] = {}
        self._known = KnownStatus(view, clock)
        self._logged_codes: set[int] = set()
        # One lock for each group that is being written: an apply must not remove what another one set.
        self._locks = WeakValueDictionary[GroupKey, asyncio.Lock]()

    @property
    def depth(self) -> int:
        """The number of pods and groups with a status to write."""
        return len(self._wanted) + len(self._unmarked) + len(self._marks) + len(self._news)

    def submit(self, report: ReportPending) -> None:
        """Report to pods, and to their group or tree, why they wait."""
        nominated = dict(report.nominated)
        attempt = Attempt(report.reason, report.message)
        self._keep_group(report.key, _GroupNews(attempt))
        for pod in report.pods:
            self._keep_pod(WrittenPodStatus(pod, *attempt, nominated.get(pod, "")))

    def placed(
        self, groups: Iterable[GroupKey], message: str, bound: Iterable[tuple[PodRef, str]] = ()
    ) -> None:
        """Report to each of these groups that it was scheduled; it is no target any more.

        `bound` are pods of the groups, and their nodes.
        """
        nodes = tuple((pod.name, node) for pod, node in bound)
        for key in groups:
            self._keep_one(key, _GroupNews(Attempt(SCHEDULED, message), "", nodes))

    def began(self, evict: Evict, first: Announcements) -> None:
        """Register a preemption: it is reported to its pods and groups if it lasts.

        The evictor writes the nominations in `first` and the clearings, and no older report undoes them.
        """
        now = self._clock()
        for pod in evict.victims:
            self._unmarked.pop(pod.key, None)
        written = frozenset(first.nominations)
        for pod, node in evict.nominations:
            pod_status = WrittenPodStatus(pod, UNSCHEDULABLE, evict.message, node)
            if (pod, node) not in written:
                self._keep_pod(pod_status, LASTING_SECONDS)
                continue
            self._emit_failure(pod_status, self._known.of_pod(pod))
            self._wanted.pop(pod.key, None)
            self._known.pods.assume_for(pod.key, pod_status, now)
        for pod in evict.cleared:
            self._known.pods.assume_for(pod.key, self._known.of_pod(pod)._replace(node=""), now)
            if pod.key in self._wanted:
                self._wanted[pod.key] = self._wanted[pod.key]._replace(node="")
        self._keep_group(evict.key, _GroupNews(Attempt(UNSCHEDULABLE, evict.message)), LASTING_SECONDS)
        self._tell_targets((unit for unit in evict.units if unit not in first.groups), evict.preemptor)

    async def target(self, evict: Evict, unit: Unit) -> bool:
        """Report to a group at once that it is evicted; return whether the API server took the write.

        The groups below a composite group are written later. Raises LeaseOverError.
        """
        group = group_of(self._view, unit)
        if group is None:
            return False
        key = key_of(group)
        news = _GroupNews(target=target_message(self._scheduler, evict.preemptor, unit.namespace))
        self._note_news(key, news)
        for below in self._tree(key):
            if below != key:
                self._keep_one(below, news, LASTING_SECONDS)
        try:
            return await self._write_group(key)
        except LeaseOverError:
            raise
        except PodiumError:
            # The group is written later, whatever the outcome of this preemption.
            self._queue.add(key)
            return False

    def evicted(self, evict: Evict, first: Announcements, deleted: Iterable[PodRef]) -> None:
        """Report the preemptor to `deleted` pods that have no mark yet, if they take long to terminate."""
        announced = {pod for unit in first.groups for pod in unit.pods}.union(first.marks)
        for pod in deleted:
            if pod not in announced and len(self._marks) < _ROOM:
                self._marks[pod.key] = _PodMark(pod, evict.preemptor)
                self._queue.add(pod.key, LASTING_SECONDS)

    def gave_up(self, evict: Evict, deleted: Collection[PodRef]) -> None:
        """Report to the target groups of a failed preemption that they stay, except those that lost pods."""
        lost = set(deleted)
        self._tell_targets((unit for unit in evict.units if lost.isdisjoint(unit.pods)), None)

    def withdraw(self, groups: Iterable[GroupKey]) -> None:
        """Report to groups that they stay."""
        for key in groups:
            self._keep_group(key, _GroupNews(target=""))

    def unmark(self, pods: Iterable[PodRef]) -> None:
        """Withdraw the marks of pods that stay, as soon as the server takes the write."""
        for pod in pods:
            if len(self._unmarked) < _ROOM:
                self._unmarked[pod.key] = pod
                self._queue.add(pod.key)

    async def run(self) -> None:
        """Write what is queued, until cancelled; what is left then is never written."""
        await self._queue.process(self._write, _WORKERS)

    async def retire(self, seconds: float) -> tuple[int, int]:
        """Withdraw nominations, marks and conditions of groups; return how many objects were written and not.

        For the end of the last process: a nomination without a scheduler keeps kube-scheduler from the node.
        """
        writes = list(self._withdrawals())
        written = 0

        async def write(withdraw: Callable[[], Awaitable[None]]) -> None:
            nonlocal written
            try:
                await withdraw()
            except GoneError:
                pass
            except LeaseOverError:
                raise
            except PodiumError as error:
                self._log_event("status not withdrawn", {"error": str(error)})
                return
            written += 1

        with suppress(TimeoutError, LeaseOverError):
            jobs = [partial(write, withdraw) for withdraw in writes]
            await within(seconds, together(jobs, self._writes.limit))
        return written, len(writes) - written

    def _withdrawals(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield a write for each pod and group with a status that only a running scheduler keeps true."""
        for pod in self._view.pods.values():
            if not isinstance(pod, Schedulable) or pod.status is None or pod.finished:
                continue
            ref = PodRef(*name_of(pod), pod.metadata.uid or "")
            mark = pod.status.condition(DISRUPTION_TARGET)
            if self._known.waiting(ref) is not None and pod.scheduler == self._scheduler:
                if pod.status.nominatedNodeName:
                    yield partial(self._writes.nominate, ref, None, None)
            elif is_preempted(pod) and preemptor_of(mark, self._scheduler):
                yield partial(self._writes.mark, ref, withdrawn_condition(pod, self._now()))
        groups: Iterable[Child] = chain(self._view.groups.values(), self._view.composites.values())
        for group in groups:
            if ours(group):
                yield partial(self._writes.apply_group, group.ref, group.metadata.uid or "", ())

    def _keep_pod(self, pod_status: WrittenPodStatus, after: float = 0.0) -> None:
        key = pod_status.pod.key
        if self._known.of_pod(pod_status.pod) == pod_status and self._known.pods.settled(key):
            self._wanted.pop(key, None)
        elif key in self._wanted or len(self._wanted) < _ROOM:
            self._wanted[key] = pod_status
            self._queue.add(key, after)

    def _keep_group(self, key: Key, news: _GroupNews, after: float = 0.0) -> None:
        """Queue the content for a group and all groups below it; a lone pod has none."""
        for group in self._tree(key) if isinstance(key, GroupKey) else ():
            self._keep_one(group, news, after)

    def _keep_one(self, key: GroupKey, news: _GroupNews, after: float = 0.0) -> None:
        self._note_news(key, news)
        self._queue.add(key, after)

    def _tree(self, key: GroupKey) -> list[GroupKey]:
        """Return the groups that a report concerns; of a tree that is too large, the root alone."""
        if not key.composite or is_too_large(self._view, key):
            return [key]
        return [key_of(group) for group in tree(self._view, key)]

    def _note_news(self, key: GroupKey, news: _GroupNews) -> None:
        self._news[key] = self._news.get(key, _GroupNews()).then(news)

    def _tell_targets(self, units: Iterable[Unit], preemptor: Preemptor | None) -> None:
        """Report to the groups among units that a preemptor evicts them; None: that they stay."""
        for unit in units:
            group = group_of(self._view, unit)
            if group is not None:
                target = target_message(self._scheduler, preemptor, unit.namespace) if preemptor else ""
                self._keep_group(key_of(group), _GroupNews(target=target))

    async def _write(self, key: Key) -> None:
        """Write the queued status of one pod or group, if it still matters. Raises PodiumError."""
        if isinstance(key, GroupKey):
            if key in self._news and group_at(self._view, key) is not None:
                await self._turn()
            await self._write_group(key)
        else:
            if key in self._unmarked:
                await self._turn()
                await self._write_unmarked(key)
            if key in self._marks:
                if self._known.running_unmarked(self._marks[key].pod) is not None:
                    await self._turn()
                await self._write_mark(key)
            if key in self._wanted and self._known.waiting(self._wanted[key].pod) is not None:
                await self._turn()
            await self._write_pod(key)
        self._queue.forget(key)

    async def _turn(self) -> None:
        """Wait until hot writes leave room, and the rate allows a write."""
        patience = self._clock() + _PATIENCE
        while self._writes.busy and self._clock() < patience:
            await self._sleep(_POLL_SECONDS)
        while (wait := self._rate.wait(self._clock())) > 0:
            await self._sleep(wait)
        self._rate.record(self._clock())

    async def _write_pod(self, key: Name) -> None:
        pod_status = self._wanted.get(key)
        pod, sure = (
            self._known.waiting(pod_status.pod) if pod_status is not None else None,
            self._known.pods.sure(key),
        )
        if (
            pod_status is None
            or pod is None
            or ((shown := self._known.of_pod(pod_status.pod)) == pod_status and sure)
        ):
            self._wanted.pop(key, None)
            return
        condition = unscheduled_condition(pod_status.reason, pod_status.message, pod, self._now())
        if shown.node == pod_status.node and sure:
            write = self._writes.mark(pod_status.pod, condition)
        else:
            write = self._writes.nominate(pod_status.pod, pod_status.node or None, condition)
        if await self._settle(self._known.pods, key, (shown, pod_status), write):
            self._emit_failure(pod_status, shown)
        if self._wanted.get(key) == pod_status:
            del self._wanted[key]

    async def _write_unmarked(self, key: Name) -> None:
        pod = self._unmarked.get(key)
        if pod is None:
            return
        stored = stored_pod(self._view, pod)
        if stored is not None:
            await self._mark(pod, withdrawn_condition(stored, self._now()), stored.metadata.resourceVersion)
        if self._unmarked.get(key) is pod:
            del self._unmarked[key]

    async def _write_mark(self, key: Name) -> None:
        mark = self._marks.get(key)
        if mark is None:
            return
        pod = self._known.running_unmarked(mark.pod)
        if pod is not None:
            await self._mark(mark.pod, target_condition(self._scheduler, mark.preemptor, pod, self._now()))
        if self._marks.get(key) is mark:
            del self._marks[key]

    async def _mark(self, pod: PodRef, condition: Condition, version: str | None = None) -> None:
        """Write the DisruptionTarget condition of a pod, if the pod still exists."""
        try:
            await self._writes.mark(pod, condition, version)
        except GoneError:
            pass
        except PodiumError as error:
            self._give_up(error)

    async def _write_group(self, key: GroupKey) -> bool:
        """Write the queued conditions of a group; return whether the group has them."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await self._write_group_alone(key)

    async def _write_group_alone(self, key: GroupKey) -> bool:
        news, group = self._news.get(key), group_at(self._view, key)
        if news is None or group is None:
            self._news.pop(key, None)
            return group is not None
        uid = group.metadata.uid or ""
        shown = self._known.conditions(group)
        spread = None
        if isinstance(group, PodGroup):
            spread = spread_over_domains(self._view, group, dict(news.bound))
        conditions = group_conditions(
            group, shown, self._now(), attempt=news.attempt, target=news.target, spread=spread
        )
        written = True
        if not _alike(shown, conditions) or not self._known.groups.sure(key):
            write = self._writes.apply_group(group.ref, uid, conditions)
            change = AppliedConditions(uid, shown), AppliedConditions(uid, conditions)
            written = await self._settle(self._known.groups, key, change, write)
        if self._news.get(key) == news:
            del self._news[key]
        return written

    async def _settle(
        self, memory: WriteMemory[K, V], key: K, change: tuple[V, V], write: Awaitable[None]
    ) -> bool:
        """Write a change, and return whether it was written.

        Raises PodiumError if a retry may help.
        """
        before, after = change
        memory.assume(key, after)
        try:
            await write
        except GoneError:
            memory.drop(key)
            return False
        except PodiumError as error:
            memory.doubt(key, before, self._clock())
            self._give_up(error)
            return False
        self._logged_codes.clear()
        memory.assume_for(key, after, self._clock())
        return True

    def _give_up(self, error: PodiumError) -> None:
        """Log once why a status is not written. Raises the error if a retry may help."""
        if not isinstance(error, RefusedError):
            raise error
        if (error.code == 429 or error.code >= 500) and not is_final(error):
            raise error
        # A permission is missing, or the API server rejects the status.
        if error.code not in self._logged_codes:
            self._logged_codes.add(error.code)
            self._log_event("status not written", {"error": str(error)})

    def _emit_failure(self, pod_status: WrittenPodStatus, shown: WrittenPodStatus) -> None:
        """Emit an event for a failure, if its reason or message differs from the last."""
        if (pod_status.reason, pod_status.message) != (shown.reason, shown.message):
            self._emit(messages.failed_event(pod_status.pod, pod_status.message))


def _alike(shown: Iterable[Condition], conditions: Collection[Condition]) -> bool:
    """Return whether the conditions to write equal those that are shown."""
    had = {condition.type: condition for condition in shown}
    return had.keys() == {condition.type for condition in conditions} and all(
        same_condition(had[condition.type], condition) for condition in conditions
    )
