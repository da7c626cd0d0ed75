"""The reconcile loop for groups: from a change in the cluster to a write, around pure reconcilers.

Every group is one key. A change marks the keys that it concerns, and the leader handles them, each by one
worker at a time. A worker reads the group from the cache, asks the reconcilers in order, and performs the
first action that one of them returns. A write changes the group, so further actions are decided when the
informer delivers the result; until then the group is skipped. So no write is decided on a state older than
our own last write.

No completed work is remembered, because only the stored objects count. A new leader reconciles all groups
once. A leader that no other follows removes its marks, which are its finalizer and its conditions.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from datetime import datetime
from math import inf
from typing import NamedTuple, Protocol

import msgspec

from podium.api.core import Namespace, Pod, PriorityClass
from podium.api.events import EventDraft
from podium.api.groups import CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of, membership, parent_key
from podium.api.podkinds.kind import PodOwner
from podium.cluster.reader import ClusterReader
from podium.cluster.state import ClusterState, Readable
from podium.controllers import autogroups, divergence, protection
from podium.controllers.actions import Action, ApplyConditions, Reconciliation
from podium.controllers.conditions import OURS, Judged, judged
from podium.controllers.divergence import Times, Write
from podium.controllers.metrics import ReconcilerMetrics
from podium.errors import PodiumError
from podium.groups.autogroups import opted_in, owner_keys
from podium.groups.divergence import ServerInfo
from podium.kube.backoff import Rate
from podium.kube.connection import RefusedError
from podium.kube.preconditions import StaleError
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.runtime.workqueue import Workqueue

# Map a change in the cluster to the groups to reconcile.
#
# A cluster changes hundreds of times a second, and few changes concern a given group. So this runs for every
# event and returns keys only; the queue coalesces repeated keys.


def touched(view: ClusterReader, before: Readable | None, after: Readable | None) -> Iterator[GroupKey]:
    """Yield the groups that a change concerns; a group may be repeated, and may not exist."""
    changed = after if after is not None else before
    match changed:
        case Pod():
            for pod in (before, after):
                key = membership(pod, native_served=view.native_served) if isinstance(pod, Pod) else None
                if key is not None:
                    yield key
                    yield from _absent_parent(view, view.groups.get(key))
        case PodGroup():
            yield key_of(changed)
            yield from _absent_parent(view, changed)
        case CompositeGroup():
            yield key_of(changed)
        case PodOwner() if _gangs(before) != _gangs(after):
            for owner in (before, after):
                keys = owner_keys(owner) if isinstance(owner, PodOwner) else ()
                yield from (
                    key for key in keys if key in view.groups or key in view.children or view.members(key)
                )
        case Namespace() if _facts(before) != _facts(after):
            name = changed.metadata.name
            yield from (key for key in view.groups if key.namespace == name)
            yield from (key for key in view.referenced_groups() if key.namespace == name)
            yield from (key for key in view.children if key.namespace == name)
        case PriorityClass():
            yield from _in_doubt(view)
        case _:
            pass


def _absent_parent(view: ClusterReader, group: PodGroup | None) -> Iterator[GroupKey]:
    """Yield the key of the composite group that a group names and that does not exist."""
    above = parent_key(group) if group is not None else None
    if above is not None and above not in view.composites:
        yield above


def _in_doubt(view: ClusterReader) -> Iterator[GroupKey]:
    """Yield the groups whose message may name a class; other messages depend on integers only."""
    for key, group in view.groups.items():
        if any(condition.type in OURS and condition.status != "False" for condition in group.conditions):
            yield key


def _gangs(owner: Readable | None) -> tuple[object, ...]:
    """Return the fields of an owner that groups depend on; most changes of an owner concern its status."""
    if not isinstance(owner, PodOwner):
        return ()
    return owner.gangs, owner.gang_size, owner.branches, owner.metadata.uid, owner.metadata.deletionTimestamp


def _facts(namespace: Readable | None) -> tuple[object, ...]:
    """Return the fields of a namespace that groups depend on."""
    if not isinstance(namespace, Namespace):
        return ()
    return opted_in(namespace), namespace.metadata.deletionTimestamp


# The burst of writes of one group, and the seconds for each further one: a conflict with another controller
# or a person about a field must not become a tight loop.
_BURST, _BURST_SECONDS = 10, 5.0
# The seconds after which a group that we created should be in the cache.
_NEWS_SECONDS = 5.0


class LiveState(Protocol):
    """The current cluster state."""

    @property
    def state(self) -> ClusterState:
        """Return the current state."""

    async def ready(self) -> None:
        """Return when every wanted kind has been listed once."""


class Rules(NamedTuple):
    """The enabled reconcilers and their settings."""

    write: Write = Write.DIVERGENT
    preemption_policy: bool = False
    protection: bool = True
    auto_groups: bool = True
    writers: int = 16


class _GroupRecord(msgspec.Struct):
    """Data about a group outside of the state: times by our clock, and the last result.

    `wrote` is the time of the last write of its conditions, `acted` of any write. `expected` is the
    resourceVersion after the last write.
    """

    changed: float
    wrote: float = -inf
    acted: float = -inf
    expected: int = 0
    judged: tuple[Judged, ...] = ()
    rate: Rate = msgspec.field(default_factory=lambda: Rate(_BURST, _BURST_SECONDS))


class Manager:
    """Reconciles the groups of a cluster; `lead` works while this replica leads."""

    def __init__(
        self,
        cluster: LiveState,
        perform: Callable[[Action], Awaitable[int]],
        rules: Rules,
        metrics: ReconcilerMetrics,
        emit: Callable[[EventDraft], None],
        *,
        server: Callable[[], ServerInfo],
        new_queue: Callable[[], Workqueue[GroupKey]],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        log_event: EventLogger,
    ) -> None:
        """`perform` writes as `Writer.perform` does, `emit` takes events; `server` returns its version.

        `clock` returns monotonic seconds, `now` the time in UTC.
        """
        self._cluster = cluster
        self._write = perform
        self._rules = rules
        self._metrics = metrics
        self._emit = emit
        self._server = server
        self._new_queue = new_queue
        self._clock = clock
        self._now = now
        self._log_event = log_event
        self._records: dict[GroupKey, _GroupRecord] = {}
        self._queue: Workqueue[GroupKey] | None = None
        self._logged: set[tuple[type[Action], str, int]] = set()
        # While this replica retires: the groups with marks, and whether none is left.
        self._marked: set[GroupKey] | None = None
        self._cleared = asyncio.Event()
        cluster.state.observe(self._observe)

    @property
    def depth(self) -> int:
        """Return the number of groups that wait in the queue."""
        return self._queue.depth if self._queue is not None else 0

    def divergent(self) -> tuple[Counter[tuple[str, ...]], Counter[tuple[str, ...]]]:
        """Return the numbers of divergent groups and of their divergent pods, by namespace and cause."""
        groups: Counter[tuple[str, ...]] = Counter()
        pods: Counter[tuple[str, ...]] = Counter()
        for key, record in self._records.items():
            for judgement in record.judged:
                if judgement.cause:
                    groups[key.namespace, judgement.cause] += 1
                    pods[key.namespace, judgement.cause] += judgement.pods
        return groups, pods

    async def lead(self) -> None:
        """Reconcile all groups until cancelled; no worker is left when this returns."""
        await self._cluster.ready()
        state = self._cluster.state
        self._queue = queue = self._new_queue()
        try:
            self._log_event("looking after groups", {"groups": len(state.groups)})
            self._mark({*state.groups, *state.referenced_groups(), *state.children})
            await queue.process(self._reconcile, self._rules.writers)
        finally:
            self._queue = None
            self._records.clear()

    async def retire(self, seconds: float) -> None:
        """Remove our finalizer and our conditions from all groups, and log how many are left at the end."""
        self._marked = {key for key, group in self._cluster.state.groups.items() if _removal(group).actions}
        total = len(self._marked)
        if total:
            self._queue = queue = self._new_queue()
            self._mark(self._marked)
            try:
                await within(seconds, self._until_cleared(queue))
            except TimeoutError:
                pass
            finally:
                self._queue = None
        left = len(self._marked)
        self._log_event("groups released", {"groups": total - left, "left": left})

    async def _until_cleared(self, queue: Workqueue[GroupKey]) -> None:
        work = asyncio.ensure_future(queue.process(self._reconcile, self._rules.writers))
        try:
            await self._cleared.wait()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _observe(self, before: Readable | None, after: Readable | None) -> None:
        if self._queue is None:
            return
        if self._marked is not None:
            self._look_for_marks(before, after)
        self._mark(set(touched(self._cluster.state, before, after)))
        if isinstance(after, PodGroup):
            for note in divergence.flips(before if isinstance(before, PodGroup) else None, after):
                self._emit(note)

    def _look_for_marks(self, before: Readable | None, after: Readable | None) -> None:
        assert self._marked is not None
        if isinstance(before, PodGroup):
            self._marked.discard(key_of(before))
        if isinstance(after, PodGroup) and _removal(after).actions:
            self._marked.add(key_of(after))
        if not self._marked:
            self._cleared.set()

    def _mark(self, keys: Collection[GroupKey]) -> None:
        assert self._queue is not None
        now = self._clock()
        for key in keys:
            record = self._records.get(key)
            if record is None:
                self._records[key] = _GroupRecord(now)
            else:
                record.changed = now
            self._queue.add(key)

    async def _reconcile(self, key: GroupKey) -> None:
        queue, record = self._queue, self._records.get(key)
        assert queue is not None
        if record is None:
            return
        began = self._clock()
        decision = self._decide(key, record)
        if decision.actions:
            await self._perform(queue, key, record, decision.actions[0])
        else:
            queue.forget(key)
            if decision.again is not None:
                queue.add(key, decision.again)
        self._metrics.reconciles.observe(self._clock() - began)

    def _decide(self, key: GroupKey, record: _GroupRecord) -> Reconciliation:
        """Ask the reconcilers in order, and return the first decision with actions."""
        if key.composite:
            return self._decide_root(key, record)
        state, rules = self._cluster.state, self._rules
        group, members = state.groups.get(key), state.members(key).values()
        if group is None and not members:
            del self._records[key]
            return Reconciliation()
        now = self._clock()
        if group is None:
            record.judged = ()
            news = record.acted + _NEWS_SECONDS - now
            if news > 0:
                return Reconciliation(again=news)
        elif int(group.metadata.resourceVersion or 0) < record.expected:
            return Reconciliation()
        elif self._marked is not None:
            return _removal(group)
        decisions = []
        if group is not None:
            record.judged = judged(
                group, members, state.classes, self._server(), policy=rules.preemption_policy
            )
            times = Times(quiet=now - record.changed, since_write=now - record.wrote)
            decisions.append(divergence.decide(group, record.judged, times, rules.write, self._now()))
            decisions.append(protection.decide(state, key, protect=rules.protection))
        if rules.auto_groups and self._marked is None:
            decisions.append(autogroups.decide(state, key))
        chosen = next((decision for decision in decisions if decision.actions), None)
        if chosen is not None:
            rest = record.rate.wait(now)
            return chosen if rest <= 0 else Reconciliation(again=rest)
        return Reconciliation(
            again=min((decision.again for decision in decisions if decision.again is not None), default=None)
        )

    def _decide_root(self, key: GroupKey, record: _GroupRecord) -> Reconciliation:
        """Decide about a composite group, which is only created."""
        state, now = self._cluster.state, self._clock()
        if key not in state.composites and key not in state.children:
            del self._records[key]
            return Reconciliation()
        if key in state.composites or not self._rules.auto_groups or self._marked is not None:
            return Reconciliation()
        decision = autogroups.decide(state, key)
        rest = max(record.acted + _NEWS_SECONDS - now, record.rate.wait(now))
        return decision if not decision.actions or rest <= 0 else Reconciliation(again=rest)

    async def _perform(
        self, queue: Workqueue[GroupKey], key: GroupKey, record: _GroupRecord, action: Action
    ) -> None:
        record.rate.record(self._clock())
        try:
            record.expected = await self._write(action)
        except StaleError as error:
            # A watch event delivers the newer group; a deleted group needs no retry.
            if not error.gone:
                queue.retry(key)
        except TimeoutError:
            queue.retry(key)
        except RefusedError as error:
            self._failed(key, action, error, error.code)
            queue.retry(key, error.retry_after)
        except PodiumError as error:
            self._failed(key, action, error, 0)
            queue.retry(key)
        else:
            queue.forget(key)
            self._logged = {entry for entry in self._logged if entry[:2] != _like(action)}
            record.acted = self._clock()
            if isinstance(action, ApplyConditions):
                record.wrote = record.acted

    def _failed(self, key: GroupKey, action: Action, error: PodiumError, code: int) -> None:
        """Log a failure once for all groups that fail alike, until such a write succeeds."""
        if (*_like(action), code) not in self._logged:
            self._logged.add((*_like(action), code))
            self._log_event(
                "write failed", {"namespace": key.namespace, "group": key.name, "error": str(error)}
            )


def _removal(group: PodGroup) -> Reconciliation:
    """Return the action that removes the next of our marks from a group."""
    released = protection.release(group)
    return released if released.actions else divergence.removal(group)


def _like(action: Action) -> tuple[type[Action], str]:
    """Return a key for the writes that one RBAC rule allows, approximately."""
    return type(action), action.ref.apiVersion
