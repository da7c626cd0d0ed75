"""Which key is tried next, and when one that found no place is tried again.

The order is by priority, then by how long a key has waited, never by which event came first: two schedulers
that see the same cluster try the same key. Only a key whose last decision took too long stands behind all
others. What found no place waits until something happens that may help it (`hints` knows what), for trying it
on every change would cost more than all the rest; and one that failed lately waits longer each time, so that
it cannot keep the others out. Upstream's queue (pkg/scheduler/backend/queue of kube-scheduler 1.37) has the
same pools, waits and last resorts.

A backoff delays a key, but never lets a key of lower priority take the room that woke it. If a key in BACKOFF
was woken, it is tried early: before every key of lower priority, and as soon as no key is ACTIVE (KEP-5142).
Each early attempt needs a wake of its own. Early attempts use at most a quarter of the time, or a gang that
takes long to decide would starve the rest under steady changes. A key that failed with an error, such as a
failed write or a decision over its time budget, is never tried early.

A key that is tried is in flight and in no pool. What happens to it meanwhile is remembered and counts when
it comes back, or it might wait for an event that has passed.

All times are seconds of one clock that nobody sets. Nothing here costs more than O(log n).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from podium.api.membership import GroupKey
from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.scheduling.hints import Hints, Seen, Waiting
from podium.schedulerplugin.scheduling.ranked import Rank, Ranked

# kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
_FIRST_BACKOFF_SECONDS = 1.0
_LAST_BACKOFF_SECONDS = 10.0
# Early attempts may use this share of the time, after a burst of so many seconds.
_EARLY_SHARE = 0.25
_EARLY_BURST_SECONDS = 1.0
# kube-scheduler's DefaultPodMaxInUnschedulablePodsDuration: what hints may have missed is tried after that.
_FLUSH_SECONDS = 300.0


class Pool(StrEnum):
    """Where a key waits, by the names of kube-scheduler's metric `pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


class Event(StrEnum):
    """What brings a key into a pool, by the names of kube-scheduler's metric `queue_incoming_pods_total`.

    CLUSTER_EVENT stands for all of those that tell one change in the cluster from another.
    """

    ADDED = "UnscheduledPodAdd"
    UPDATED = "UnscheduledPodUpdate"
    FAILED = "ScheduleAttemptFailure"
    BACKED_OFF = "BackoffComplete"
    EARLY = "PopFromBackoffQ"
    FLUSHED = "UnschedulableTimeout"
    ACTIVATED = "ForceActivate"
    CLUSTER_EVENT = "ClusterEvent"


class _Entry:
    """What is known of one key; `pool` None is in flight."""

    __slots__ = (
        *("again", "attempts", "early", "first", "heard", "last", "pool"),
        *("priority", "seen", "since", "tried", "was_first"),
    )

    def __init__(self, priority: int, since: float) -> None:
        self.priority = priority
        self.since = since
        self.pool: Pool | None = Pool.ACTIVE
        # Before all others of its priority, until it is tried; `was_first` is for who is given back untried.
        self.first = False
        self.was_first = False
        # Behind all others of any priority, until it is tried.
        self.last = False
        # Whether the attempt under way, or the next one, is early.
        self.early = False
        self.attempts = 0
        # When the last attempt ended.
        self.tried = float("-inf")
        # What the hints had seen when it was taken, and where what happened since wants it.
        self.seen: Seen | None = None
        self.again: Pool | None = None
        # Whether something happened that it waits for, while it was GATED.
        self.heard = False


class Queue:
    """All keys that are to be scheduled, each in one pool or in flight; `hints` hears who waits for what.

    What is said of a key that is not known counts for nothing: it went meanwhile.
    """

    def __init__(self, hints: Hints) -> None:
        """Start empty."""
        # How often keys came into each pool, by what brought them.
        self.entered: Counter[tuple[Pool, Event]] = Counter()
        self._hints = hints
        self._entries: dict[Key, _Entry] = {}
        self._depths = dict.fromkeys(Pool, 0)
        # ACTIVE keys in order, and the others by when they become ACTIVE whatever happens.
        self._order = Ranked()
        self._timers = Ranked()
        # Woken keys in BACKOFF, in order.
        self._woken = Ranked()
        # When the time that early attempts have used is made up for.
        self._repaid = float("-inf")

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def put(self, key: Key, priority: int, since: float) -> None:
        """Have a key scheduled, of that priority and waiting since then; a known one stays in its pool."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(priority, since)
            self._depths[Pool.ACTIVE] += 1
            self.entered[Pool.ACTIVE, Event.ADDED] += 1
            self._rank(key, entry)
            return
        changed = (entry.priority, entry.since) != (priority, since)
        entry.priority, entry.since = priority, since
        if entry.pool is None:
            self._remember(entry, Pool.BACKOFF)
        elif entry.pool is Pool.ACTIVE and changed:
            self._rank(key, entry)
        elif key in self._woken and changed:
            self._woken.put(key, _place(key, entry))

    def drop(self, key: Key) -> None:
        """Forget a key: it is scheduled, or it is gone."""
        entry = self._entries.get(key)
        if entry is not None:
            self._leave(key, entry)
            del self._entries[key]

    def first(self, now: float) -> Key | None:
        """Return the key to be tried next; None if no key is ACTIVE or may be tried early."""
        self._settle(now)
        active, woken = self._order.first(), self._woken.first()
        if (
            woken is None
            or (active is not None and woken[0][:2] >= active[0][:2])
            or now < self._early_from()
        ):
            return None if active is None else active[1]
        key = woken[1]
        self._enter(key, self._entries[key], Pool.ACTIVE, Event.EARLY)
        self._entries[key].early = True
        return key

    def pop(self, now: float) -> Key | None:
        """Take the key to be tried next: from now on it is in flight, and this is one attempt more."""
        key = self.first(now)
        if key is not None:
            entry = self._entries[key]
            self._leave(key, entry)
            entry.attempts += 1
            entry.first, entry.was_first = False, entry.first
            entry.last = False
            entry.seen = self._hints.seen
        return key

    def charge(self, keys: Iterable[Key], seconds: float, now: float) -> None:
        """Note how long an attempt took that began now; if it was early and failed, others may go first."""
        entries = [self._entries[key] for key in keys if key in self._entries]
        if any(entry.early for entry in entries):
            self._repaid = max(self._repaid, now) + seconds / _EARLY_SHARE
        for entry in entries:
            entry.early = False

    def give_back(self, key: Key) -> None:
        """Put a key that was popped, and not tried, where it was."""
        entry = self._entries.get(key)
        if entry is not None and entry.pool is None:
            entry.attempts = max(0, entry.attempts - 1)
            entry.first = entry.first or entry.was_first
            entry.pool, entry.seen, entry.again = Pool.ACTIVE, None, None
            self._depths[Pool.ACTIVE] += 1
            self._rank(key, entry)

    def keys(self, pool: Pool) -> list[Key]:
        """Give the keys of a pool, in no order that means anything."""
        return [key for key, entry in self._entries.items() if entry.pool is pool]

    def park(self, key: Key, waiting: Waiting, now: float, at: float | None = None) -> None:
        """Have a key that found no place wait for what may help it, but no longer than until `at`.

        One that is ACTIVE or in BACKOFF is tried again anyway and stays so; one that was GATED is tried at
        once if what it waited for happened meanwhile.
        """
        entry = self._entries.get(key)
        if entry is None or entry.pool in (Pool.ACTIVE, Pool.BACKOFF):
            return
        if entry.pool is None:
            if entry.seen is not None and self._hints.missed(waiting, entry.seen):
                self._remember(entry, Pool.BACKOFF)
            if self._comes_back(key, entry, now):
                return
        if entry.heard:
            self._enter(key, entry, Pool.ACTIVE, Event.CLUSTER_EVENT)
            return
        due = now + _FLUSH_SECONDS
        self._enter(key, entry, Pool.UNSCHEDULABLE, Event.FAILED, due if at is None else min(at, due))
        self._hints.wait(key, waiting)

    def gate(self, key: Key, now: float, waiting: Waiting | None = None) -> None:
        """Hold a key back, whatever pool it is in, until it is opened or activated.

        What happens of what it is `waiting` for meanwhile is remembered until it is parked.
        """
        entry = self._entries.get(key)
        if entry is None or entry.pool is Pool.GATED:
            return
        if entry.pool is None and self._comes_back(key, entry, now):
            return
        event = Event.FAILED if entry.pool is None else Event.UPDATED
        self._enter(key, entry, Pool.GATED, event, now + _FLUSH_SECONDS)
        if waiting is not None:
            self._hints.wait(key, waiting)

    def open(self, key: Key) -> None:
        """Have a GATED key tried; nothing else waits for that."""
        entry = self._entries.get(key)
        if entry is not None and entry.pool is None:
            self._remember(entry, Pool.ACTIVE)
        elif entry is not None and entry.pool is Pool.GATED:
            self._enter(key, entry, Pool.ACTIVE, Event.UPDATED)

    def back_off(self, key: Key, now: float, failures: int = 1) -> None:
        """Have a key tried again that failed just now, the last of so many times at least; ever later."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.tried, entry.attempts = now, max(entry.attempts, failures)
            self._again(key, entry, Pool.BACKOFF, Event.FAILED, now)

    def demote(self, key: Key) -> None:
        """Try a key next time only when no other key is ACTIVE, whatever its priority."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.last = True
            if entry.pool is Pool.ACTIVE:
                self._rank(key, entry)
            elif key in self._woken:
                self._woken.put(key, _place(key, entry))

    def activate(self, key: Key, *, first: bool = False) -> None:
        """Have a key tried without further waits; `first` is before all others of its priority."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.first = entry.first or first
        if entry.pool is None:
            self._remember(entry, Pool.ACTIVE)
        elif entry.pool is Pool.ACTIVE:
            self._rank(key, entry)
        else:
            self._enter(key, entry, Pool.ACTIVE, Event.ACTIVATED)

    def wake(self, keys: Iterable[Key], now: float) -> None:
        """Have UNSCHEDULABLE keys tried that something happened for: after their backoff, or early.

        GATED ones remember it.
        """
        for key in keys:
            entry = self._entries.get(key)
            if entry is None:
                continue
            if entry.pool is None:
                self._remember(entry, Pool.BACKOFF)
            elif entry.pool is Pool.GATED:
                entry.heard = True
            elif entry.pool is Pool.UNSCHEDULABLE:
                self._retry(key, entry, Pool.BACKOFF, Event.CLUSTER_EVENT, now)

    def forget(self, key: Key) -> None:
        """Have the waits of a key begin anew: a part of it was scheduled."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.attempts = 0

    def due(self, now: float) -> float | None:
        """Return when the next key is to be tried without another event, not before `now`; None for never."""
        found = self._timers.first()
        times = [] if found is None else [_time(found[0])]
        if self._woken.first() is not None and self._order.first() is None:
            times.append(self._early_from())
        return max(now, min(times)) if times else None

    def pool_of(self, key: Key) -> Pool | None:
        """Say where a key is; None for one in flight, or not known."""
        entry = self._entries.get(key)
        return None if entry is None else entry.pool

    def depths(self) -> Mapping[Pool, int]:
        """Say how many keys each pool holds; keys in flight are in none."""
        return MappingProxyType(self._depths)

    def _settle(self, now: float) -> None:
        """Make ACTIVE what is due."""
        while (found := self._timers.first()) is not None and _time(found[0]) <= now:
            key = found[1]
            entry = self._entries[key]
            event = Event.BACKED_OFF if entry.pool is Pool.BACKOFF else Event.FLUSHED
            self._enter(key, entry, Pool.ACTIVE, event)

    def _early_from(self) -> float:
        """Return when an early attempt may begin."""
        return self._repaid - _EARLY_BURST_SECONDS / _EARLY_SHARE

    def _comes_back(self, key: Key, entry: _Entry, now: float) -> bool:
        """Note that an attempt ended; if something happened in the meantime, have another and say so."""
        entry.tried = now
        if entry.again is None:
            return False
        self._retry(key, entry, entry.again, Event.FAILED, now)
        return True

    def _remember(self, entry: _Entry, pool: Pool) -> None:
        """Note where a key in flight is to go; who may be tried at once need not back off as well."""
        if entry.again is not Pool.ACTIVE:
            entry.again = pool

    def _retry(self, key: Key, entry: _Entry, pool: Pool, event: Event, now: float) -> None:
        """Have a key tried that something happened for."""
        self._again(key, entry, pool, event, now)
        if entry.pool is Pool.BACKOFF:
            self._woken.put(key, _place(key, entry))

    def _again(self, key: Key, entry: _Entry, pool: Pool, event: Event, now: float) -> None:
        """Have a key tried: at once, or (BACKOFF) as soon as its backoff since the last attempt has ended."""
        ends = entry.tried + _backoff(entry.attempts)
        if pool is Pool.BACKOFF and ends > now:
            self._enter(key, entry, Pool.BACKOFF, event, ends)
        else:
            self._enter(key, entry, Pool.ACTIVE, event)

    def _enter(self, key: Key, entry: _Entry, pool: Pool, event: Event, due: float | None = None) -> None:
        """Move a key to a pool; `due` is when it leaves that by itself."""
        self._leave(key, entry)
        self.entered[pool, event] += 1
        self._depths[pool] += 1
        entry.pool, entry.seen, entry.again, entry.heard = pool, None, None, False
        if due is None:
            self._rank(key, entry)
        else:
            entry.first = False
            self._timers.put(key, (due, *_identity(key)))

    def _leave(self, key: Key, entry: _Entry) -> None:
        """Take a key out of its pool."""
        match entry.pool:
            case None:
                return
            case Pool.ACTIVE:
                self._order.drop(key)
            case Pool.UNSCHEDULABLE | Pool.GATED:
                self._hints.drop(key)
                self._timers.drop(key)
            case Pool.BACKOFF:
                self._woken.drop(key)
                self._timers.drop(key)
        self._depths[entry.pool] -= 1
        entry.pool = None

    def _rank(self, key: Key, entry: _Entry) -> None:
        self._order.put(key, _place(key, entry))


def _backoff(attempts: int) -> float:
    """Give the seconds between the end of the last of so many attempts and the next."""
    if attempts == 0:
        return 0.0
    return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(attempts - 1, 10), _LAST_BACKOFF_SECONDS)


def _place(key: Key, entry: _Entry) -> Rank:
    """Give the place of a key in the order in which keys are tried."""
    return entry.last, -entry.priority, not entry.first, entry.since, *_identity(key)


def _identity(key: Key) -> tuple[str, str, int]:
    """Give an order among keys that differ in nothing else."""
    if isinstance(key, GroupKey):
        return key.namespace, key.name, 1 + key.native
    return *key, 0


def _time(rank: Rank) -> float:
    due = rank[0]
    assert isinstance(due, float)
    return due
