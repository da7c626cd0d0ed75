"""Writes to the status of pods and groups why they wait or are evicted; hot writes go first.

A full cluster has thousands of pods that wait for the same reason, and one more node changes the message of
all of them. Nothing is scheduled by these messages. So only the last message for a pod is written. A message
that the pod has already is not written again, and pointless ones are dropped. The rest is written a few at a
time at a bounded rate, while no bind or eviction needs the server.

A preemption that is over within half a second is not reported at all. If it lasts, autoscalers read the node
that is reserved for the preemptor, and people read on a victim why it is evicted. The evictor writes what
must be announced before the first delete, except for the conditions of groups. An apply contains all
conditions of a group, so every write to a group goes through this module, one at a time.

What was written is remembered here for some seconds, because the state shows it only after the watch event. A
status that is compared with an older one would be left wrong.

This module also withdraws the mark of a pod that stays, when the evictor could not reach the server. By then
the pod may be the victim of another preemption. So the write names the version of the pod that was read, and
cannot undo what was written since.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from datetime import datetime
from math import inf
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from podium.api.membership import GroupKey, key_of
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.errors import PodiumError
from podium.kube.backoff import Rate
from podium.kube.connection import RefusedError, Sleep
from podium.kube.fenced import LeaseOverError
from podium.kube.watching import Say
from podium.note import Note
from podium.schedulerplugin.live.writes import GoneError, Writes
from podium.schedulerplugin.preemption.intents import is_preempted
from podium.schedulerplugin.scheduling import notes
from podium.schedulerplugin.scheduling.announcements import Announcements
from podium.schedulerplugin.scheduling.conditions import (
    POD_SCHEDULED,
    SCHEDULED,
    UNSCHEDULABLE,
    Attempt,
    doomed,
    group_conditions,
    group_of,
    ours,
    same,
    spared,
    target_message,
    unscheduled,
)
from podium.schedulerplugin.scheduling.effects import Evict, Key, PodRef, Preemptor, Report, Unit
from podium.service.queue import Queue
from podium.view import Name, View

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_WORKERS = 4
# A tenth of the writes that an API server on two cores does.
_BURST, _SECONDS = 25, 0.01
# Room for the messages of one attempt at every waiting entry of a large cluster. A later attempt repeats
# messages for which there was no room.
_ROOM = 20_000
# How long a write waits for hot writes, and how often it looks (seconds). Under load a few writes still go
# out.
_PATIENCE, _GLANCE = 5.0, 0.02
# A preemption that lasts longer than this is reported: most victims without a grace period are gone by then.
# Cluster Autoscaler looks at pending pods every ten seconds, Karpenter after one quiet second.
LASTING_SECONDS = 0.5
# A watch that is later than this has other troubles.
_LAG = 10.0


class _News(NamedTuple):
    """The content for a group's conditions: None is no change, an empty target ends the old target."""

    attempt: Attempt | None = None
    target: str | None = None

    def then(self, later: "_News") -> "_News":
        """Return both merged; that a group was scheduled stays true whatever a later attempt finds."""
        scheduled = self.attempt is not None and self.attempt.reason == SCHEDULED
        attempt = self.attempt if scheduled or later.attempt is None else later.attempt
        return _News(attempt, self.target if later.target is None else later.target)


class _Told(NamedTuple):
    """The content for a pod's status: why the pod waits, and its reserved node (empty for none)."""

    pod: PodRef
    reason: str
    message: str
    node: str


class _Doomed(NamedTuple):
    """A pod that is being evicted and whose status does not name the preemptor."""

    pod: PodRef
    preemptor: Preemptor


class _Applied(NamedTuple):
    """The conditions of ours that a group has."""

    uid: str
    conditions: tuple[Condition, ...]


class _Memory(Generic[K, V]):
    """Values written to objects that the cluster state may not show yet."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[V, float]] = {}
        self._doubted: set[K] = set()

    def begin(self, key: K, value: V) -> None:
        """Assume that `value` is stored until another call says otherwise, because its write is in flight."""
        self._known[key] = value, inf

    def keep(self, key: K, value: V, now: float) -> None:
        """Assume that `value` is stored for some seconds, and drop assumptions that have expired."""
        self.drop(key)
        self._known[key] = value, now + _LAG
        while (oldest := next(iter(self._known))) and self._known[oldest][1] <= now:
            self.drop(oldest)

    def doubt(self, key: K, value: V, now: float) -> None:
        """Assume `value` for some seconds, but mark it as doubtful: everything is written again."""
        self.keep(key, value, now)
        self._doubted.add(key)

    def sure(self, key: K) -> bool:
        """Return whether the assumed value is certain."""
        return key not in self._doubted

    def drop(self, key: K) -> None:
        """Use the cluster state again."""
        self._known.pop(key, None)
        self._doubted.discard(key)

    def writes(self, key: K) -> bool:
        """Return whether a write is in flight."""
        known = self._known.get(key)
        return known is not None and known[1] == inf

    def get(self, key: K, now: float) -> V | None:
        """Return the assumed value, None if there is none."""
        known = self._known.get(key)
        return known[0] if known is not None and known[1] > now else None


class Statuses:
    """Keeps the status of pods and groups up to date; every method but `run` returns at once."""

    def __init__(
        self,
        view: View,
        writes: Writes,
        queue: Queue[Key],
        emit: Callable[[Note], None],
        scheduler: str,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Sleep,
        say: Say,
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
        self._say = say
        self._rate = Rate(_BURST, _SECONDS)
        self._wanted: dict[Name, _Told] = {}
        self._spared: dict[Name, PodRef] = {}
        self._doomed: dict[Name, _Doomed] = {}
        self._news: dict[GroupKey, _News] = {}
        self._pods = _Memory[Name, _Told]()
        self._groups = _Memory[GroupKey, _Applied]()
        self._said: set[int] = set()
        # One lock for each group that is being written: an apply must not remove what another one set.
        self._locks = WeakValueDictionary[GroupKey, asyncio.Lock]()

    @property
    def depth(self) -> int:
        """The number of pods and groups with a status to write."""
        return len(self._wanted) + len(self._spared) + len(self._doomed) + len(self._news)

    def submit(self, report: Report) -> None:
        """Report to pods, and to their group, why they wait."""
        nominated = dict(report.nominated)
        attempt = Attempt(report.reason, report.message)
        self._tell_group(report.key, _News(attempt))
        for pod in report.pods:
            self._tell(_Told(pod, *attempt, nominated.get(pod, "")))

    def placed(self, key: GroupKey, message: str) -> None:
        """Report to a group that it was scheduled; it is no preemption target any more."""
        self._tell_group(key, _News(Attempt(SCHEDULED, message), ""))

    def began(self, evict: Evict, first: Announcements) -> None:
        """Register a preemption: it is reported to its pods and groups if it lasts.

        The evictor writes the nominations in `first` and the clearings, and no older report undoes them.
        """
        now = self._clock()
        for pod in evict.victims:
            self._spared.pop(pod.key, None)
        written = frozenset(first.nominations)
        for pod, node in evict.nominations:
            told = _Told(pod, UNSCHEDULABLE, evict.message, node)
            if (pod, node) not in written:
                self._tell(told, LASTING_SECONDS)
                continue
            self._lament(told, self._shown(pod))
            self._wanted.pop(pod.key, None)
            self._pods.keep(pod.key, told, now)
        for pod in evict.cleared:
            self._pods.keep(pod.key, self._shown(pod)._replace(node=""), now)
            if pod.key in self._wanted:
                self._wanted[pod.key] = self._wanted[pod.key]._replace(node="")
        self._tell_group(evict.key, _News(Attempt(UNSCHEDULABLE, evict.message)), LASTING_SECONDS)
        self._tell_targets(
            (unit for unit in evict.units if unit not in first.groups),
            target_message(self._scheduler, evict.preemptor),
        )

    async def target(self, evict: Evict, unit: Unit) -> bool:
        """Report to a group at once that it is evicted; return whether the API server took the write.

        Raises LeaseOverError.
        """
        group = group_of(self._view, unit)
        if group is None:
            return False
        key = key_of(group)
        self._note_news(key, _News(target=target_message(self._scheduler, evict.preemptor)))
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
        told = {pod for unit in first.groups for pod in unit.pods}.union(first.marks)
        for pod in deleted:
            if pod not in told and len(self._doomed) < _ROOM:
                self._doomed[pod.key] = _Doomed(pod, evict.preemptor)
                self._queue.add(pod.key, LASTING_SECONDS)

    def gave_up(self, evict: Evict, deleted: Collection[PodRef]) -> None:
        """Report to the target groups of a failed preemption that they stay, except those that lost pods."""
        lost = set(deleted)
        self._tell_targets((unit for unit in evict.units if lost.isdisjoint(unit.pods)), "")

    def withdraw(self, groups: Iterable[GroupKey]) -> None:
        """Report to groups that they stay."""
        for key in groups:
            self._tell_group(key, _News(target=""))

    def spare(self, pods: Iterable[PodRef]) -> None:
        """Withdraw the marks of pods that stay, as soon as the server takes the write."""
        for pod in pods:
            if len(self._spared) < _ROOM:
                self._spared[pod.key] = pod
                self._queue.add(pod.key)

    async def run(self) -> None:
        """Write what is queued, until cancelled; what is left then is never written."""
        await self._queue.work(self._write, _WORKERS)

    def _tell(self, told: _Told, after: float = 0.0) -> None:
        key = told.pod.key
        if self._shown(told.pod) == told and self._pods.sure(key) and not self._pods.writes(key):
            self._wanted.pop(key, None)
        elif key in self._wanted or len(self._wanted) < _ROOM:
            self._wanted[key] = told
            self._queue.add(key, after)

    def _tell_group(self, key: Key, news: _News, after: float = 0.0) -> None:
        if isinstance(key, GroupKey):
            self._note_news(key, news)
            self._queue.add(key, after)

    def _note_news(self, key: GroupKey, news: _News) -> None:
        self._news[key] = self._news.get(key, _News()).then(news)

    def _tell_targets(self, units: Iterable[Unit], target: str) -> None:
        for unit in units:
            group = group_of(self._view, unit)
            if group is not None:
                self._tell_group(key_of(group), _News(target=target))

    async def _write(self, key: Key) -> None:
        """Write the queued status of one pod or group, if it still matters. Raises PodiumError."""
        if isinstance(key, GroupKey):
            if key in self._news and key in self._view.groups:
                await self._turn()
            await self._write_group(key)
        else:
            if key in self._spared:
                await self._turn()
                await self._write_spared(key)
            if key in self._doomed:
                if self._silent(self._doomed[key].pod) is not None:
                    await self._turn()
                await self._write_doomed(key)
            if key in self._wanted and self._waiting(self._wanted[key].pod) is not None:
                await self._turn()
            await self._write_pod(key)
        self._queue.forget(key)

    async def _turn(self) -> None:
        """Wait until hot writes leave room, and the rate allows a write."""
        patience = self._clock() + _PATIENCE
        while self._writes.busy and self._clock() < patience:
            await self._sleep(_GLANCE)
        while (wait := self._rate.wait(self._clock())) > 0:
            await self._sleep(wait)
        self._rate.take(self._clock())

    async def _write_pod(self, key: Name) -> None:
        told = self._wanted.get(key)
        pod, sure = self._waiting(told.pod) if told is not None else None, self._pods.sure(key)
        if told is None or pod is None or ((shown := self._shown(told.pod)) == told and sure):
            self._wanted.pop(key, None)
            return
        condition = unscheduled(told.reason, told.message, pod, self._now())
        if shown.node == told.node and sure:
            write = self._writes.mark(told.pod, condition)
        else:
            write = self._writes.nominate(told.pod, told.node or None, condition)
        if await self._settle(self._pods, key, (shown, told), write):
            self._lament(told, shown)
        if self._wanted.get(key) == told:
            del self._wanted[key]

    async def _write_spared(self, key: Name) -> None:
        pod, stored = self._spared.get(key), self._view.pods.get(key)
        if pod is None:
            return
        if isinstance(stored, Schedulable) and stored.metadata.uid == pod.uid:
            await self._mark(pod, spared(stored, self._now()), stored.metadata.resourceVersion)
        if self._spared.get(key) is pod:
            del self._spared[key]

    async def _write_doomed(self, key: Name) -> None:
        found = self._doomed.get(key)
        if found is None:
            return
        pod = self._silent(found.pod)
        if pod is not None:
            await self._mark(found.pod, doomed(self._scheduler, found.preemptor, pod, self._now()))
        if self._doomed.get(key) is found:
            del self._doomed[key]

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
        news, group = self._news.get(key), self._view.groups.get(key)
        if news is None or group is None:
            self._news.pop(key, None)
            return group is not None
        uid = group.metadata.uid or ""
        applied = self._groups.get(key, self._clock())
        shown = applied.conditions if applied is not None and applied.uid == uid else ours(group)
        wanted = group_conditions(group, shown, self._now(), attempt=news.attempt, target=news.target)
        told = True
        if not _alike(shown, wanted) or not self._groups.sure(key):
            write = self._writes.apply_group(group.ref, uid, wanted)
            told = await self._settle(self._groups, key, (_Applied(uid, shown), _Applied(uid, wanted)), write)
        if self._news.get(key) == news:
            del self._news[key]
        return told

    async def _settle(
        self, memory: _Memory[K, V], key: K, change: tuple[V, V], write: Awaitable[None]
    ) -> bool:
        """Write a change, and return whether it was written.

        Raises PodiumError if a retry may help.
        """
        before, after = change
        memory.begin(key, after)
        try:
            await write
        except GoneError:
            memory.drop(key)
            return False
        except PodiumError as error:
            memory.doubt(key, before, self._clock())
            self._give_up(error)
            return False
        self._said.clear()
        memory.keep(key, after, self._clock())
        return True

    def _give_up(self, error: PodiumError) -> None:
        """Log once why a status is not written. Raises the error if a retry may help."""
        if not isinstance(error, RefusedError) or error.code == 429 or error.code >= 500:
            raise error
        # A permission is missing, or the API server rejects the status.
        if error.code not in self._said:
            self._said.add(error.code)
            self._say("status not written", {"error": str(error)})

    def _lament(self, told: _Told, shown: _Told) -> None:
        """Emit an event for a failure, if its reason or message differs from the last."""
        if (told.reason, told.message) != (shown.reason, shown.message):
            self._emit(notes.failed(told.pod, told.message))

    def _silent(self, pod: PodRef) -> Schedulable | None:
        """Return the stored pod if it is the same, still runs and has no mark of a preemption; else None."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid:
            return None
        return None if stored.finished or is_preempted(stored) else stored

    def _waiting(self, pod: PodRef) -> Schedulable | None:
        """Return the stored pod if it is the same and still waits; else None."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid or stored.spec.nodeName:
            return None
        return None if stored.finished or stored.metadata.deletionTimestamp is not None else stored

    def _shown(self, pod: PodRef) -> _Told:
        """Return the status a pod was given last, with empty fields if none."""
        known = self._pods.get(pod.key, self._clock())
        if known is not None and known.pod == pod:
            return known
        stored = self._waiting(pod)
        status = stored.status if stored is not None else None
        if status is None:
            return _Told(pod, "", "", "")
        condition = status.condition(POD_SCHEDULED)
        node = status.nominatedNodeName or ""
        if condition is None or condition.status != "False":
            return _Told(pod, "", "", node)
        return _Told(pod, condition.reason or "", condition.message or "", node)


def _alike(shown: Iterable[Condition], wanted: Collection[Condition]) -> bool:
    """Return whether the conditions to write equal those that are shown."""
    had = {condition.type: condition for condition in shown}
    return had.keys() == {condition.type for condition in wanted} and all(
        same(had[condition.type], condition) for condition in wanted
    )
