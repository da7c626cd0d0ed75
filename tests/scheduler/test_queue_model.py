"""The queue in any history, against one that keeps no heaps and looks at every key each time.

Pools, backoffs and events in flight are simple for one key at a time; the queue's part is to handle all of
them fast.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.scheduler.ground import GANG, PODIUM_GANG, ROOM, A, B, C, waits

from podium.api.membership import GroupKey
from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.scheduling.hints import Hints
from podium.schedulerplugin.scheduling.queue import Pool, Queue


@dataclass
class Plain:
    """The state of a key in the plain queue; `pool` None is in flight."""

    priority: int
    since: float
    pool: Pool | None = Pool.ACTIVE
    first: bool = False
    was_first: bool = False
    attempts: int = 0
    tried: float = float("-inf")
    due: float = float("inf")
    again: Pool | None = None
    missed: bool = False
    woken: bool = False
    early: bool = False
    # GATED: whether hints know the objects it waits for, and whether one of them changed.
    listens: bool = False
    heard: bool = False

    def backoff_ends(self) -> float:
        """The end of the backoff."""
        waits = [0.0, 1.0, 2.0, 4.0, 8.0, 10.0]
        return self.tried + waits[min(self.attempts, 5)]


KEYS: list[Key] = [A, B, C, GANG, PODIUM_GANG]

keys = st.sampled_from(KEYS)


class Interleavings(RuleBasedStateMachine):
    """The queue against one that keeps no heaps and looks at every key each time."""

    def __init__(self) -> None:
        super().__init__()
        self.hints = Hints()
        self.queue = Queue(self.hints)
        self.plain: dict[Key, Plain] = {}
        self.now = 0.0
        # The earliest time of early attempts: they cost four times their duration, beyond a second.
        self.early = float("-inf")

    def active(self, found: Plain) -> None:
        found.pool, found.due, found.again, found.missed = Pool.ACTIVE, float("inf"), None, False
        found.woken = found.listens = found.heard = False

    def timed(self, found: Plain, pool: Pool, due: float) -> None:
        found.pool, found.due, found.again, found.first, found.missed = pool, due, None, False, False
        found.woken = found.listens = found.heard = False

    def retry(self, found: Plain) -> None:
        if found.backoff_ends() > self.now:
            self.timed(found, Pool.BACKOFF, found.backoff_ends())
        else:
            self.active(found)

    def wakes(self, found: Plain) -> None:
        """Wake a key after a change."""
        self.retry(found)
        found.woken = found.pool is Pool.BACKOFF

    def comes_back(self, found: Plain) -> bool:
        """Return whether a key in flight was asked for in the meantime, and have it tried."""
        if found.pool is not None:
            return False
        found.tried = self.now
        if found.again is Pool.ACTIVE:
            self.active(found)
        elif found.again is Pool.BACKOFF:
            self.wakes(found)
        return found.pool is not None

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 2.0, 7.0, 60.0, 299.75, 300.0]))
    def advance(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=keys, priority=st.integers(-1, 1), since=st.sampled_from([0.0, 1.0]))
    def put(self, key: Key, priority: int, since: float) -> None:
        self.queue.put(key, priority, since)
        found = self.plain.setdefault(key, Plain(priority, since))
        found.priority, found.since = priority, since
        if found.pool is None and found.again is None:
            found.again = Pool.BACKOFF

    @rule(key=keys)
    def drop(self, key: Key) -> None:
        self.queue.drop(key)
        self.plain.pop(key, None)

    @rule()
    def pop(self) -> None:
        expected = self.settled()
        assert self.queue.first(self.now) == expected
        assert self.queue.pop(self.now) == expected
        if expected is not None:
            found = self.plain[expected]
            found.pool, found.was_first, found.first = None, found.first, False
            found.attempts += 1

    @rule(key=keys, seconds=st.sampled_from([0.0, 0.25, 2.0]))
    def charge(self, key: Key, seconds: float) -> None:
        self.queue.charge([key], seconds, self.now)
        found = self.plain.get(key)
        if found is not None and found.early:
            found.early = False
            self.early = max(self.early, self.now - 4.0) + 4.0 * seconds

    @rule(key=keys)
    def give_back(self, key: Key) -> None:
        self.queue.give_back(key)
        found = self.plain.get(key)
        if found is not None and found.pool is None:
            found.first = found.first or found.was_first
            found.attempts = max(0, found.attempts - 1)
            self.active(found)

    @rule(key=keys, after=st.sampled_from([None, 5.0, 1000.0]))
    def park(self, key: Key, after: float | None) -> None:
        self.queue.park(key, ROOM, self.now, None if after is None else self.now + after)
        found = self.plain.get(key)
        if found is None or found.pool in (Pool.ACTIVE, Pool.BACKOFF):
            return
        if found.missed and found.again is None:
            found.again = Pool.BACKOFF
        if self.comes_back(found):
            return
        if found.heard:
            self.active(found)
            return
        self.timed(found, Pool.UNSCHEDULABLE, self.now + min(after or 300.0, 300.0))

    @rule(key=keys, listens=st.booleans())
    def gate(self, key: Key, listens: bool) -> None:
        self.queue.gate(key, self.now, ROOM if listens else None)
        found = self.plain.get(key)
        if found is not None and found.pool is not Pool.GATED and not self.comes_back(found):
            self.timed(found, Pool.GATED, self.now + 300.0)
            found.listens = listens

    @rule(key=keys)
    def open(self, key: Key) -> None:
        self.queue.open(key)
        found = self.plain.get(key)
        if found is not None and found.pool is None:
            found.again = Pool.ACTIVE
        elif found is not None and found.pool is Pool.GATED:
            self.active(found)

    @rule(key=keys)
    def back_off(self, key: Key) -> None:
        self.queue.back_off(key, self.now)
        found = self.plain.get(key)
        if found is not None:
            found.tried, found.attempts = self.now, max(1, found.attempts)
            self.retry(found)

    @rule(key=keys, first=st.booleans())
    def activate(self, key: Key, first: bool) -> None:
        self.queue.activate(key, first=first)
        found = self.plain.get(key)
        if found is None:
            return
        found.first = found.first or first
        if found.pool is None:
            found.again = Pool.ACTIVE
        else:
            self.active(found)

    @rule(woken=st.sets(keys))
    def wake(self, woken: set[Key]) -> None:
        self.queue.wake(woken, self.now)
        for key in woken & self.plain.keys():
            found = self.plain[key]
            if found.pool is None and found.again is None:
                found.again = Pool.BACKOFF
            elif found.pool is Pool.GATED:
                found.heard = True
            elif found.pool is Pool.UNSCHEDULABLE:
                self.wakes(found)

    @rule(key=keys)
    def forget(self, key: Key) -> None:
        self.queue.forget(key)
        if key in self.plain:
            self.plain[key].attempts = 0

    @rule(row=st.integers(0, 3))
    def note(self, row: int) -> None:
        """Note a change that may help keys in flight that find no place."""
        self.hints.note_node(row)
        for found in self.plain.values():
            found.missed = found.pool is None

    @precondition(lambda self: self.plain)
    @rule()
    def after_five_minutes_all_are_tried(self) -> None:
        """In any history, no key is forgotten: each one that is not in flight is tried."""
        self.now += 300.0
        self.settled()
        assert self.queue.first(self.now) == self.settled()
        waiting = [key for key, found in self.plain.items() if found.pool is not None]
        assert sorted(map(str, self.queue.keys(Pool.ACTIVE))) == sorted(map(str, waiting))

    def settled(self) -> Key | None:
        """Move the due keys to ACTIVE, and return the first by looking at all."""
        for found in self.plain.values():
            if found.due <= self.now:
                self.active(found)
        active, woken = self.keys_in(Pool.ACTIVE), self.keys_in(Pool.BACKOFF)
        best = min((key for key in woken if self.plain[key].woken), key=self.rank, default=None)
        higher = best is not None and all(self.rank(best)[0] < self.rank(each)[0] for each in active)
        if best is not None and higher and self.early <= self.now:
            self.active(self.plain[best])
            self.plain[best].early = True
            return best
        return min(active, key=self.rank, default=None)

    def keys_in(self, pool: Pool) -> list[Key]:
        return [key for key in KEYS if key in self.plain and self.plain[key].pool is pool]

    def rank(self, key: Key) -> Any:
        found = self.plain[key]
        kind = 1 + key.native if isinstance(key, GroupKey) else 0
        return -found.priority, not found.first, found.since, key[-2:], kind

    @invariant()
    def same_pools(self) -> None:
        """Every key is in its pool, once, and hints hold exactly the keys that wait for them."""
        for key in KEYS:
            assert (key in self.queue) == (key in self.plain)
            pool = self.plain[key].pool if key in self.plain else None
            assert self.queue.pool_of(key) is pool
            listens = key in self.plain and self.plain[key].listens
            assert waits(self.hints, key) == (pool is Pool.UNSCHEDULABLE or listens)
        pools = [found.pool for found in self.plain.values()]
        assert self.queue.depths() == {pool: pools.count(pool) for pool in Pool}

    @invariant()
    def same_due(self) -> None:
        """The next time at which something happens by itself is known."""
        due = min((found.due for found in self.plain.values()), default=float("inf"))
        if any(found.woken for found in self.plain.values()) and not self.keys_in(Pool.ACTIVE):
            due = min(due, self.early)
        expected = None if due == float("inf") else max(due, self.now)
        assert self.queue.due(self.now) == expected


test_interleavings = Interleavings.TestCase
