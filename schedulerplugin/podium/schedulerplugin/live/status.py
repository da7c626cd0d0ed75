"""Tells pods and groups why they wait or go, in their status: on a lane of its own that hot writes overtake.

A full cluster has thousands of pods that wait for the same reason, and one node more changes the sentence
for all of them. Nobody schedules anything by these sentences. So of what a pod shall be told only the last
counts, what it was told already is not told again, what has become pointless is dropped, and the rest is
written a few at a time at a bounded rate, while the writes that bind and evict have no use for the server.

A preemption that is over within half a second is not told of at all. If it lasts, autoscalers read the node
that is reserved for the preemptor, and people read on a victim why it goes. What a preemption must announce
before its first delete is the evictor's to write, but for the conditions of groups: an apply gives all of
them, so every write to a group goes through here, one at a time.

What was written is believed here for some seconds, for the state shows it only when the watch brings it: a
status that is compared with an older one would be left wrong.

A pod that was told to go, and stays, is told so here when the evictor could not reach the server. By then it
may be to go for another preemption. So what it is told names the version of the pod that was looked at, and
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
# A tenth of what an API server on two cores writes.
_BURST, _SECONDS = 25, 0.01
# What one attempt at everything that waits in a large cluster may say; a later attempt says what had no room.
_ROOM = 20_000
# Hot writes are let pass for so long, looked at so often: under load a trickle goes on.
_PATIENCE, _GLANCE = 5.0, 0.02
# A preemption that lasts longer than this is told of: most victims without a grace period are gone by then.
# Cluster Autoscaler and Karpenter look at pending pods every ten seconds, and after one that is calm.
LASTING_SECONDS = 0.5
# A watch that is later than this has other troubles.
_LAG = 10.0


class _News(NamedTuple):
    """What a group has to be told; None of either is no news, an empty target one that is over."""

    attempt: Attempt | None = None
    target: str | None = None

    def then(self, later: "_News") -> "_News":
        """Give both as one; that a group was scheduled is true whatever became of a later attempt."""
        scheduled = self.attempt is not None and self.attempt.reason == SCHEDULED
        attempt = self.attempt if scheduled or later.attempt is None else later.attempt
        return _News(attempt, self.target if later.target is None else later.target)


class _Told(NamedTuple):
    """What a pod is told: why it waits, and which node is reserved for it (none if empty)."""

    pod: PodRef
    reason: str
    message: str
    node: str


class _Doomed(NamedTuple):
    """A pod that goes without having been told for whom."""

    pod: PodRef
    preemptor: Preemptor


class _Applied(NamedTuple):
    """The conditions of ours that a group has."""

    uid: str
    conditions: tuple[Condition, ...]


class _Memory(Generic[K, V]):
    """What was written of objects and the state may not show yet."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[V, float]] = {}
        self._doubted: set[K] = set()

    def begin(self, key: K, value: V) -> None:
        """Believe what is being written, until something else is said."""
        self._known[key] = value, inf

    def keep(self, key: K, value: V, now: float) -> None:
        """Believe what was written, for a while; what is not believed any more is forgotten."""
        self.drop(key)
        self._known[key] = value, now + _LAG
        while (oldest := next(iter(self._known))) and self._known[oldest][1] <= now:
            self.drop(oldest)

    def doubt(self, key: K, value: V, now: float) -> None:
        """Believe for a while that something else may have been written since; all is to be written again."""
        self.keep(key, value, now)
        self._doubted.add(key)

    def sure(self, key: K) -> bool:
        """Say whether what is believed is all that may have been written."""
        return key not in self._doubted

    def drop(self, key: K) -> None:
        """Believe the state."""
        self._known.pop(key, None)
        self._doubted.discard(key)

    def writes(self, key: K) -> bool:
        """Say whether a write is on its way."""
        known = self._known.get(key)
        return known is not None and known[1] == inf

    def get(self, key: K, now: float) -> V | None:
        """Give what is believed."""
        known = self._known.get(key)
        return known[0] if known is not None and known[1] > now else None


class Statuses:
    """Keeps what pods and groups are told; every method but `run` returns at once."""

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

        `clock` gives seconds and never goes back, `now` the time in UTC; `queue` is nobody else's.
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
        # Of groups that are being written, so that no apply takes away what another one gave.
        self._locks = WeakValueDictionary[GroupKey, asyncio.Lock]()

    @property
    def depth(self) -> int:
        """How many pods and groups have something to be told."""
        return len(self._wanted) + len(self._spared) + len(self._doomed) + len(self._news)

    def submit(self, report: Report) -> None:
        """Tell pods why they wait, and their group."""
        nominated = dict(report.nominated)
        attempt = Attempt(report.reason, report.message)
        self._tell_group(report.key, _News(attempt))
        for pod in report.pods:
            self._tell(_Told(pod, *attempt, nominated.get(pod, "")))

    def placed(self, key: GroupKey, message: str) -> None:
        """Tell a group that it was scheduled; it is nobody's target any more."""
        self._tell_group(key, _News(Attempt(SCHEDULED, message), ""))

    def began(self, evict: Evict, first: Announcements) -> None:
        """Take note of a preemption: its pods and groups are told of it if it lasts.

        Nominations that come `first`, and clearings, are the evictor's to write, and no older report undoes
        them.
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
        """Tell a group at once that it goes; return False if the API server does not take it.

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
            # The group is told later, whatever comes of this preemption.
            self._queue.add(key)
            return False

    def evicted(self, evict: Evict, first: Announcements, deleted: Iterable[PodRef]) -> None:
        """Have those `deleted` that were not told before be told for whom they go, if they take long."""
        told = {pod for unit in first.groups for pod in unit.pods}.union(first.marks)
        for pod in deleted:
            if pod not in told and len(self._doomed) < _ROOM:
                self._doomed[pod.key] = _Doomed(pod, evict.preemptor)
                self._queue.add(pod.key, LASTING_SECONDS)

    def gave_up(self, evict: Evict, deleted: Collection[PodRef]) -> None:
        """Tell the groups that a preemption was to evict that they stay, but for those that lost pods."""
        lost = set(deleted)
        self._tell_targets((unit for unit in evict.units if lost.isdisjoint(unit.pods)), "")

    def withdraw(self, groups: Iterable[GroupKey]) -> None:
        """Tell groups that they stay."""
        for key in groups:
            self._tell_group(key, _News(target=""))

    def spare(self, pods: Iterable[PodRef]) -> None:
        """Tell pods that were told to go that they stay, as soon as the server takes it."""
        for pod in pods:
            if len(self._spared) < _ROOM:
                self._spared[pod.key] = pod
                self._queue.add(pod.key)

    async def run(self) -> None:
        """Write what has to be told, until cancelled; what is not told by then never is."""
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
        """Write what one pod or group has to be told, if that still matters. Raises PodiumError."""
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
        """Wait until hot writes let one pass, and the rate does."""
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
        """Write whether a pod is a target, if the pod is still there."""
        try:
            await self._writes.mark(pod, condition, version)
        except GoneError:
            pass
        except PodiumError as error:
            self._give_up(error)

    async def _write_group(self, key: GroupKey) -> bool:
        """Write what a group has to be told; return whether it has been told that."""
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
        """Write a change; say whether it was. Raises PodiumError where asking again may help."""
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
        """Say once why something is not written. Raises it where asking again may help."""
        if not isinstance(error, RefusedError) or error.code == 429 or error.code >= 500:
            raise error
        # A right is missing, or what we say is not taken.
        if error.code not in self._said:
            self._said.add(error.code)
            self._say("status not written", {"error": str(error)})

    def _lament(self, told: _Told, shown: _Told) -> None:
        """Tell of a failure in an event, if it is another than was told."""
        if (told.reason, told.message) != (shown.reason, shown.message):
            self._emit(notes.failed(told.pod, told.message))

    def _silent(self, pod: PodRef) -> Schedulable | None:
        """Give a pod as it is stored, if it is the same, runs still and does not say that it is preempted."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid:
            return None
        return None if stored.finished or is_preempted(stored) else stored

    def _waiting(self, pod: PodRef) -> Schedulable | None:
        """Give a pod as it is stored, if it is the same and waits still."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid or stored.spec.nodeName:
            return None
        return None if stored.finished or stored.metadata.deletionTimestamp is not None else stored

    def _shown(self, pod: PodRef) -> _Told:
        """Give what a pod was told last, all empty for nothing."""
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
    """Say whether a group is told nothing new."""
    had = {condition.type: condition for condition in shown}
    return had.keys() == {condition.type for condition in wanted} and all(
        same(had[condition.type], condition) for condition in wanted
    )
