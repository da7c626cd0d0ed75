"""Orders the keys to be tried, and decides when a key that found no place is tried again.

The order is by priority, then by how long a key has waited, never by the order of events. So two schedulers
that see the same cluster try the same key. Only a key whose last decision took too long comes after all
others. A key that found no place waits until a change may help it (`hints` decides that). An attempt on every
change would cost more than everything else. A key that failed lately waits longer each time, so it cannot
keep the others out. Upstream's queue (pkg/scheduler/backend/queue of kube-scheduler 1.37) has the same pools,
waits and last resorts.

A backoff delays a key, but never lets a key of lower priority take the room that woke it. A key in BACKOFF
that was woken is tried early: before every key of lower priority, and as soon as no key is ACTIVE (KEP-5142).
Each early attempt needs a wake of its own. Early attempts use at most a quarter of the time, because a gang
with long decisions would otherwise starve the rest under steady changes. A key that failed with an error,
such as a failed write or a decision over its time budget, is never tried early.

A key that is being tried is in flight and in no pool. Changes that concern it meanwhile are remembered and
count when it comes back; otherwise it might wait for an event that has passed.

All times are seconds of one steady clock. No operation costs more than O(log n).
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
# Early attempts may use this share of the time, after a burst of _EARLY_BURST_SECONDS.
_EARLY_SHARE = 0.25
_EARLY_BURST_SECONDS = 1.0
# kube-scheduler's DefaultPodMaxInUnschedulablePodsDuration: after that a key is tried even without a hint.
_FLUSH_SECONDS = 300.0


class Pool(StrEnum):
    """The pools of keys, named as in kube-scheduler's metric `pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


class Event(StrEnum):
    """The events that bring a key into a pool, named as in kube-scheduler's `queue_incoming_pods_total`.

    CLUSTER_EVENT covers all of upstream's events that name a kind of change in the cluster.
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
    """The state of one key; `pool` None is in flight."""

    __slots__ = (
        *("again", "attempts", "early", "first", "heard", "last", "pool"),
        *("priority", "seen", "since", "tried", "was_first"),
    )

    def __init__(self, priority: int, since: float) -> None:
        self.priority = priority
        self.since = since
        self.pool: Pool | None = Pool.ACTIVE
        # Tried before all others of its priority, once; `was_first` restores this for a key given back
        # untried.
        self.first = False
        self.was_first = False
        # Tried after all others of any priority, once.
        self.last = False
        # Whether the current attempt, or the next one, is early.
        self.early = False
        self.attempts = 0
        # When the last attempt ended.
        self.tried = float("-inf")
        # The hints' counters when the key was popped, and the pool that a change since then asks for.
        self.seen: Seen | None = None
        self.again: Pool | None = None
        # Whether a change that it waits for happened while it was GATED.
        self.heard = False


class Queue:
    """All keys to be scheduled, each in one pool or in flight; `hints` learns what each waits for.

    Calls for an unknown key do nothing, because the key was dropped meanwhile.
    """

    def __init__(self, hints: Hints) -> None:
        """Start empty."""
        # The number of times that keys came into each pool, by event.
        self.entered: Counter[tuple[Pool, Event]] = Counter()
        self._hints = hints
        self._entries: dict[Key, _Entry] = {}
        self._depths = dict.fromkeys(Pool, 0)
        # ACTIVE keys in order, and the other keys by the time when they become ACTIVE anyway.
        self._order = Ranked()
        self._timers = Ranked()
        # Woken keys in BACKOFF, in order.
        self._woken = Ranked()
        # The time when the share of early attempts is balanced again.
        self._repaid = float("-inf")

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def put(self, key: Key, priority: int, since: float) -> None:
        """Add a key with its priority and the start of its wait; a known key stays in its pool."""
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
        """Forget a key, because it is scheduled or gone."""
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
        """Return the key to be tried next; it is in flight from now on, and its attempts are counted up."""
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
        """Record the duration of an attempt that began now; if early and failed, it delays early ones."""
        entries = [self._entries[key] for key in keys if key in self._entries]
        if any(entry.early for entry in entries):
            self._repaid = max(self._repaid, now) + seconds / _EARLY_SHARE
        for entry in entries:
            entry.early = False

    def give_back(self, key: Key) -> None:
        """Put a key that was popped and not tried back in its place."""
        entry = self._entries.get(key)
        if entry is not None and entry.pool is None:
            entry.attempts = max(0, entry.attempts - 1)
            entry.first = entry.first or entry.was_first
            entry.pool, entry.seen, entry.again = Pool.ACTIVE, None, None
            self._depths[Pool.ACTIVE] += 1
            self._rank(key, entry)

    def keys(self, pool: Pool) -> list[Key]:
        """Return the keys of a pool, unordered."""
        return [key for key, entry in self._entries.items() if entry.pool is pool]

    def park(self, key: Key, waiting: Waiting, now: float, at: float | None = None) -> None:
        """Let a key that found no place wait for changes that may help it, but no longer than until `at`.

        A key that is ACTIVE or in BACKOFF is tried again anyway and stays there. A key that was GATED is
        tried at once if a change that it waited for happened meanwhile.
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

        Changes that it is `waiting` for are remembered until it is parked.
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
        """Activate a key if it is GATED."""
        entry = self._entries.get(key)
        if entry is not None and entry.pool is None:
            self._remember(entry, Pool.ACTIVE)
        elif entry is not None and entry.pool is Pool.GATED:
            self._enter(key, entry, Pool.ACTIVE, Event.UPDATED)

    def back_off(self, key: Key, now: float, failures: int = 1) -> None:
        """Retry a key that failed just now, after a backoff for at least `failures` attempts."""
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
        """Make a key ACTIVE without further waits; `first` puts it before all others of its priority."""
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
        """Retry UNSCHEDULABLE keys that a change may help: after their backoff, or early.

        GATED keys remember the change.
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
        """Reset the backoff of a key, because a part of it was scheduled."""
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
        """Return the pool of a key; None if it is in flight or unknown."""
        entry = self._entries.get(key)
        return None if entry is None else entry.pool

    def depths(self) -> Mapping[Pool, int]:
        """Return the number of keys in each pool; keys in flight are in none."""
        return MappingProxyType(self._depths)

    def _settle(self, now: float) -> None:
        """Make ACTIVE the keys that are due."""
        while (found := self._timers.first()) is not None and _time(found[0]) <= now:
            key = found[1]
            entry = self._entries[key]
            event = Event.BACKED_OFF if entry.pool is Pool.BACKOFF else Event.FLUSHED
            self._enter(key, entry, Pool.ACTIVE, event)

    def _early_from(self) -> float:
        """Return when an early attempt may begin."""
        return self._repaid - _EARLY_BURST_SECONDS / _EARLY_SHARE

    def _comes_back(self, key: Key, entry: _Entry, now: float) -> bool:
        """Record the end of an attempt; if a change happened meanwhile, retry the key and return True."""
        entry.tried = now
        if entry.again is None:
            return False
        self._retry(key, entry, entry.again, Event.FAILED, now)
        return True

    def _remember(self, entry: _Entry, pool: Pool) -> None:
        """Remember the pool for a key in flight; ACTIVE takes precedence over BACKOFF."""
        if entry.again is not Pool.ACTIVE:
            entry.again = pool

    def _retry(self, key: Key, entry: _Entry, pool: Pool, event: Event, now: float) -> None:
        """Retry a key that a change may help."""
        self._again(key, entry, pool, event, now)
        if entry.pool is Pool.BACKOFF:
            self._woken.put(key, _place(key, entry))

    def _again(self, key: Key, entry: _Entry, pool: Pool, event: Event, now: float) -> None:
        """Retry a key: at once, or (BACKOFF) as soon as its backoff since the last attempt has ended."""
        ends = entry.tried + _backoff(entry.attempts)
        if pool is Pool.BACKOFF and ends > now:
            self._enter(key, entry, Pool.BACKOFF, event, ends)
        else:
            self._enter(key, entry, Pool.ACTIVE, event)

    def _enter(self, key: Key, entry: _Entry, pool: Pool, event: Event, due: float | None = None) -> None:
        """Move a key to a pool; `due` is when it becomes ACTIVE by itself."""
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
    """Return the seconds between the end of the last of `attempts` attempts and the next."""
    if attempts == 0:
        return 0.0
    return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(attempts - 1, 10), _LAST_BACKOFF_SECONDS)


def _place(key: Key, entry: _Entry) -> Rank:
    """Return the rank of a key in the order in which keys are tried."""
    return entry.last, -entry.priority, not entry.first, entry.since, *_identity(key)


def _identity(key: Key) -> tuple[str, str, int]:
    """Return a total order among keys that differ in nothing else."""
    if isinstance(key, GroupKey):
        return key.namespace, key.name, 1 + key.native
    return *key, 0


def _time(rank: Rank) -> float:
    due = rank[0]
    assert isinstance(due, float)
    return due
