"""Orders the entries to be tried, and decides when an entry that found no place is tried again.

The order is by priority, then by how long an entry has waited, never by the order of events. So two
schedulers that see the same cluster try the same entry. Only an entry whose last decision took too long comes
after all others. So do the other entries of its namespace for a while, because it may have a thousand such
entries. They get a quarter of the time while entries of other namespaces wait.

An entry that found no place waits until a change may help it (`queueinghints` decides). An attempt on every
change would cost more than everything else. An entry that failed lately waits longer each time, so it cannot
keep the others out. kube-scheduler's queue (pkg/scheduler/backend/queue of 1.37) has the same queues, waits
and last resorts.

A backoff delays an entry, but never lets an entry of lower priority take the room that woke it. An entry in
BACKOFF that was woken is tried early: before every entry of lower priority, and as soon as no entry is ACTIVE
(KEP-5142). Each early attempt needs a wake of its own. Early attempts use at most a quarter of the time,
because a gang with long decisions would otherwise starve the rest under steady changes. An entry that failed
with an error, such as a failed write or a decision over its time budget, is never tried early.

Changes that happen while an entry is IN_FLIGHT count when it is parked; otherwise it might wait for an event
that has passed.

All times are seconds of one steady clock. No operation costs more than O(log n).
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from podium.api.membership import GroupKey
from podium.schedulerplugin.scheduling.effects import Evict, Key
from podium.schedulerplugin.scheduling.entry import (
    QUEUED,
    Entries,
    Entry,
    EntryEvent,
    EntryPhase,
    Incoming,
    Preemption,
)
from podium.schedulerplugin.scheduling.queueinghints import Hints, Waiting

# kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
_FIRST_BACKOFF_SECONDS = 1.0
_LAST_BACKOFF_SECONDS = 10.0
# Early attempts may use this share of the time, after a burst of _EARLY_BURST_SECONDS.
_EARLY_SHARE = 0.25
_EARLY_BURST_SECONDS = 1.0
# kube-scheduler's DefaultPodMaxInUnschedulablePodsDuration: after that a key is tried even without a hint.
_FLUSH_SECONDS = 300.0
# Of the time, the share of a namespace whose decisions take too long, while entries of others wait.
_SLOW_SHARE = 0.25
# Superseded ranks that a heap may hold for each current one.
_SLACK = 2

_Rank = tuple[Any, ...]

# The queue of the metric `pending_pods` in which an entry counts, by its phase.
_POOLS = {
    EntryPhase.ACTIVE: EntryPhase.ACTIVE,
    EntryPhase.BACKOFF: EntryPhase.BACKOFF,
    EntryPhase.UNSCHEDULABLE: EntryPhase.UNSCHEDULABLE,
    EntryPhase.GATED: EntryPhase.GATED,
    EntryPhase.PREEMPTING: EntryPhase.GATED,
}


class _Ranked:
    """Keys by rank, the lowest first: a heap in which superseded ranks stay until they are reached.

    An entry changes its rank several times for each attempt. Removing its old rank from the heap would cost
    more than skipping it later, as long as superseded ranks do not pile up. Ranks differ from each other.
    """

    def __init__(self) -> None:
        self._ranks: dict[Key, _Rank] = {}
        # The rank of every key, and some superseded ranks.
        self._heap: list[tuple[_Rank, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._ranks

    def set_rank(self, key: Key, rank: _Rank) -> None:
        """Set the rank of a key, and replace the old one."""
        self._ranks[key] = rank
        if len(self._heap) > _SLACK * len(self._ranks) + _SLACK:
            self._heap = [(rank, key) for key, rank in self._ranks.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (rank, key))

    def discard(self, key: Key) -> None:
        """Remove a key, if it is there."""
        self._ranks.pop(key, None)

    def first(self) -> tuple[_Rank, Key] | None:
        """Return the key of the lowest rank and that rank, None if there is none."""
        while self._heap:
            rank, key = self._heap[0]
            if self._ranks.get(key) is rank:
                return rank, key
            heapq.heappop(self._heap)
        return None


class Queue:
    """The entries of which pods wait; `hints` learns what each waits for.

    Calls for an unknown key do nothing, because the entry was dropped meanwhile.
    """

    def __init__(self, hints: Hints, entries: Entries | None = None) -> None:
        """Start with the records of `entries`, none of them in the queue."""
        # The number of times that entries came into each queue of `pending_pods`, by the reason.
        self.entered: Counter[tuple[EntryPhase, Incoming]] = Counter()
        self.entries = Entries() if entries is None else entries
        self._hints = hints
        self._depths = dict.fromkeys(_POOLS.values(), 0)
        # ACTIVE keys in order, and the other keys by the time when they become ACTIVE anyway.
        self._order = _Ranked()
        self._timers = _Ranked()
        # Woken keys in BACKOFF, in order.
        self._woken = _Ranked()
        # Namespaces whose entries come after all others, until when, and their keys that were ranked so.
        self._debts: dict[str, float] = {}
        self._indebted: dict[str, dict[Key, None]] = {}
        # The time when the share of early attempts is balanced again.
        self._repaid = float("-inf")

    def __contains__(self, key: Key) -> bool:
        return self._find(key) is not None

    def enqueue(self, key: Key, priority: int, since: float) -> None:
        """Add an entry with its priority and the start of its wait; a known entry keeps its phase."""
        entry = self.entries.get(key)
        if entry is None or entry.phase not in QUEUED:
            entry = Entry(key) if entry is None else entry
            entry.enqueue(priority, since)
            self._enter(entry, EntryEvent.ADD, Incoming.ADDED)
            return
        changed = (entry.priority, entry.since) != (priority, since)
        entry.priority, entry.since = priority, since
        if changed:
            self._rank_again(entry)

    def remove(self, key: Key) -> None:
        """Take an entry out, because none of its pods waits; its record stays while binds are in flight."""
        entry = self.entries.get(key)
        if entry is not None and entry.phase is not EntryPhase.BINDING:
            self._leave(entry)
            entry.restart()
            self.entries.move(entry, EntryEvent.BIND if entry.binding else EntryEvent.DROP)

    def fail(self, key: Key) -> None:
        """Take an entry out whose attempt ended with an error; the next look at its pods adds it again."""
        entry = self._find(key)
        if entry is not None:
            self._leave(entry)
            self.entries.move(entry, EntryEvent.FAIL)

    def first(self, now: float) -> Key | None:
        """Return the entry to be tried next; None if no entry is ACTIVE or may be tried early."""
        self._settle(now)
        active, woken = self._first(self._order), self._first(self._woken)
        if (
            woken is None
            or (active is not None and woken[0][:2] >= active[0][:2])
            or now < self._early_from()
        ):
            return None if active is None else active[1]
        key = woken[1]
        self._enter(self.entries[key], EntryEvent.ACTIVATE, Incoming.EARLY)
        self.entries[key].early = True
        return key

    def pop(self, now: float) -> Key | None:
        """Return the entry to be tried next; it is IN_FLIGHT now, and its attempts are counted up."""
        key = self.first(now)
        if key is not None:
            entry = self.entries[key]
            self._leave(entry)
            self.entries.move(entry, EntryEvent.POP)
            entry.attempts += 1
            entry.first, entry.was_first = False, entry.first
            entry.last = False
            entry.seen = self._hints.seen
        return key

    def charge(self, keys: Iterable[Key], seconds: float, now: float) -> None:
        """Record the duration of an attempt that began now; if early and failed, it delays early ones."""
        entries = [entry for key in keys if (entry := self._find(key)) is not None]
        if any(entry.early for entry in entries):
            self._repaid = max(self._repaid, now) + seconds / _EARLY_SHARE
        for entry in entries:
            entry.early = False

    def give_back(self, key: Key) -> None:
        """Put an entry that was popped and not tried back in its place."""
        entry = self.entries.get(key)
        if entry is not None and entry.phase is EntryPhase.IN_FLIGHT:
            entry.attempts = max(0, entry.attempts - 1)
            entry.first = entry.first or entry.was_first
            entry.seen = None
            self.entries.move(entry, EntryEvent.GIVE_BACK)
            self._depths[EntryPhase.ACTIVE] += 1
            self._rank(entry, self._order)

    def keys(self, *phases: EntryPhase) -> list[Key]:
        """Return the keys of the entries in some phases, unordered."""
        return [key for key, entry in self.entries.items() if entry.phase in phases]

    def park(self, key: Key, waiting: Waiting, now: float, at: float | None = None) -> None:
        """Let an entry that found no place wait for changes that may help it, but not longer than until `at`.

        If a change that it waits for happened during the attempt, it is retried after its backoff. If one
        happened during its preemption, it is tried at once.
        """
        entry = self.entries.get(key)
        if entry is None or entry.phase not in (EntryPhase.IN_FLIGHT, EntryPhase.PREEMPTING):
            return
        if entry.phase is EntryPhase.IN_FLIGHT:
            entry.tried = now
            if entry.seen is not None and self._hints.missed(waiting, entry.seen):
                self._retry(entry, Incoming.FAILED, now)
                return
        if entry.helped:
            self._enter(entry, EntryEvent.ACTIVATE, Incoming.CLUSTER_EVENT)
            return
        due = now + _FLUSH_SECONDS
        self._enter(entry, EntryEvent.PARK, Incoming.FAILED, due if at is None else min(at, due))
        self._hints.wait(key, waiting)

    def gate(self, key: Key, now: float) -> None:
        """Hold an entry back until it is opened or activated."""
        entry = self._find(key)
        if entry is not None and entry.phase is not EntryPhase.GATED:
            incoming = self._incoming(entry, now)
            self._enter(entry, EntryEvent.GATE, incoming, now + _FLUSH_SECONDS)

    def preempt(self, evict: Evict, waiting: Waiting, now: float) -> None:
        """Hold an entry back while its preemption is in flight; it waits for `waiting` if that fails."""
        key = evict.key
        entry = self._find(key)
        if entry is not None:
            entry.unsure, entry.preemption = (), Preemption(evict, self._hints.seen.rules)
            self._enter(entry, EntryEvent.PREEMPT, self._incoming(entry, now))
            self._hints.wait(key, waiting)

    def open(self, key: Key) -> None:
        """Activate an entry that was held back."""
        entry = self.entries.get(key)
        if entry is not None and entry.phase in (EntryPhase.GATED, EntryPhase.PREEMPTING):
            self._enter(entry, EntryEvent.ACTIVATE, Incoming.UPDATED)

    def back_off(self, key: Key, now: float, failures: int = 1) -> None:
        """Retry an entry that failed just now, after a backoff for at least `failures` attempts."""
        entry = self._find(key)
        if entry is not None:
            entry.tried, entry.attempts = now, max(entry.attempts, failures)
            self._again(entry, Incoming.FAILED, now)

    def demote(self, key: Key, seconds: float, now: float) -> None:
        """Try an entry whose decision took so long next time only when no other one is ACTIVE.

        Until its namespace has repaid that time, its other entries come after those of others too.
        """
        self._debts[_namespace(key)] = now + seconds / _SLOW_SHARE
        entry = self._find(key)
        if entry is not None:
            entry.last = True
            self._rank_again(entry)

    def activate(self, key: Key, *, first: bool = False) -> None:
        """Make an entry ACTIVE without further waits; `first` puts it before all others of its priority."""
        entry = self._find(key)
        if entry is None:
            return
        entry.first = entry.first or first
        if entry.phase is EntryPhase.ACTIVE:
            self._rank(entry, self._order)
        else:
            self._enter(entry, EntryEvent.ACTIVATE, Incoming.ACTIVATED)

    def wake(self, keys: Iterable[Key], now: float) -> None:
        """Retry UNSCHEDULABLE entries that a change may help: after their backoff, or early.

        PREEMPTING entries remember the change.
        """
        for key in keys:
            entry = self.entries.get(key)
            if entry is not None and entry.phase is EntryPhase.PREEMPTING:
                entry.helped = True
            elif entry is not None and entry.phase is EntryPhase.UNSCHEDULABLE:
                self._retry(entry, Incoming.CLUSTER_EVENT, now)

    def due(self, now: float) -> float | None:
        """Return when the next entry is to be tried without another event, at least `now`; None for never."""
        timer = self._timers.first()
        times = [] if timer is None else [_time(timer[0])]
        if self._woken.first() is not None and self._order.first() is None:
            times.append(self._early_from())
        return max(now, min(times)) if times else None

    def phase_of(self, key: Key) -> EntryPhase:
        """Return the phase of an entry; NONE if it is unknown."""
        entry = self.entries.get(key)
        return EntryPhase.NONE if entry is None else entry.phase

    def depths(self) -> Mapping[EntryPhase, int]:
        """Return the number of entries in each queue of the metric `pending_pods`."""
        return MappingProxyType(self._depths)

    def _find(self, key: Key) -> Entry | None:
        """Return the record of an entry that is in the queue."""
        entry = self.entries.get(key)
        return entry if entry is not None and entry.phase in QUEUED else None

    def _settle(self, now: float) -> None:
        """Make ACTIVE the entries that are due."""
        self._forgive(now)
        while (timer := self._timers.first()) is not None and _time(timer[0]) <= now:
            entry = self.entries[timer[1]]
            backed_off = entry.phase is EntryPhase.BACKOFF
            self._enter(entry, EntryEvent.ACTIVATE, Incoming.BACKED_OFF if backed_off else Incoming.FLUSHED)

    def _early_from(self) -> float:
        """Return when an early attempt may begin."""
        return self._repaid - _EARLY_BURST_SECONDS / _EARLY_SHARE

    def _incoming(self, entry: Entry, now: float) -> Incoming:
        """Return why an entry is held back, and record the end of its attempt, if there was one."""
        if entry.phase is not EntryPhase.IN_FLIGHT:
            return Incoming.UPDATED
        entry.tried = now
        return Incoming.FAILED

    def _retry(self, entry: Entry, incoming: Incoming, now: float) -> None:
        """Retry an entry that a change may help."""
        self._again(entry, incoming, now)
        if entry.phase is EntryPhase.BACKOFF:
            self._rank(entry, self._woken)

    def _again(self, entry: Entry, incoming: Incoming, now: float) -> None:
        """Retry an entry as soon as its backoff since the last attempt has ended."""
        ends = entry.tried + _backoff(entry.attempts)
        if ends > now:
            self._enter(entry, EntryEvent.BACK_OFF, incoming, ends)
        else:
            self._enter(entry, EntryEvent.ACTIVATE, incoming)

    def _enter(self, entry: Entry, event: EntryEvent, incoming: Incoming, due: float | None = None) -> None:
        """Change the phase of an entry; `due` is when it becomes ACTIVE by itself."""
        self._leave(entry)
        self.entries.move(entry, event)
        pool = _POOLS[entry.phase]
        self.entered[pool, incoming] += 1
        self._depths[pool] += 1
        entry.seen, entry.helped = None, False
        if entry.phase is EntryPhase.ACTIVE:
            self._rank(entry, self._order)
        else:
            entry.first = False
        if due is not None:
            self._timers.set_rank(entry.key, (due, *_identity(entry.key)))

    def _leave(self, entry: Entry) -> None:
        """Take an entry out of the order, the timers and the hints of its phase."""
        if entry.phase not in _POOLS:
            return
        key = entry.key
        self._indebted.get(_namespace(key), {}).pop(key, None)
        match entry.phase:
            case EntryPhase.ACTIVE:
                self._order.discard(key)
            case EntryPhase.BACKOFF:
                self._woken.discard(key)
                self._timers.discard(key)
            case _:
                self._hints.drop(key)
                self._timers.discard(key)
        self._depths[_POOLS[entry.phase]] -= 1

    def _rank(self, entry: Entry, ranked: _Ranked) -> None:
        """Rank an entry in the order in which entries are tried."""
        namespace = _namespace(entry.key)
        indebted = namespace in self._debts
        if indebted:
            self._indebted.setdefault(namespace, {})[entry.key] = None
        turn = 2 if entry.last else int(indebted)
        rank = (turn, -entry.priority, not entry.first, entry.since, *_identity(entry.key))
        ranked.set_rank(entry.key, rank)

    def _rank_again(self, entry: Entry) -> None:
        if entry.phase is EntryPhase.ACTIVE:
            self._rank(entry, self._order)
        elif entry.key in self._woken:
            self._rank(entry, self._woken)

    def _first(self, ranked: _Ranked) -> tuple[_Rank, Key] | None:
        """Return the first key and its rank, after ranking keys again whose namespace is in debt since."""
        while (first := ranked.first()) is not None:
            (turn, *_), key = first
            if turn or _namespace(key) not in self._debts:
                break
            self._rank(self.entries[key], ranked)
        return first

    def _forgive(self, now: float) -> None:
        """Rank the entries of namespaces again whose debts are repaid."""
        for namespace in [name for name, until in self._debts.items() if until <= now]:
            del self._debts[namespace]
            for key in self._indebted.pop(namespace, ()):
                entry = self._find(key)
                if entry is not None:
                    self._rank_again(entry)


def _backoff(attempts: int) -> float:
    """Return the seconds between the end of the last of `attempts` attempts and the next."""
    if attempts == 0:
        return 0.0
    return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(attempts - 1, 10), _LAST_BACKOFF_SECONDS)


def _namespace(key: Key) -> str:
    return _identity(key)[0]


def _identity(key: Key) -> tuple[str, str, int]:
    """Return a total order among keys that differ in nothing else."""
    if isinstance(key, GroupKey):
        return key.namespace, key.name, 1 + key.native + 2 * key.composite
    return *key, 0


def _time(rank: _Rank) -> float:
    due = rank[0]
    assert isinstance(due, float)
    return due
