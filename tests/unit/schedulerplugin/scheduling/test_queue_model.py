"""The queue in any history, compared with a plain queue that keeps no heaps and scans every key.

Phases, backoffs and changes during an attempt are simple for one key at a time; the queue's part is to handle
all of them fast. A transition that the table does not list raises.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.scheduling.fixedrooms import GANG, PODIUM_GANG, ROOM, A, B, C, evict, waits

from podium.api.membership import GroupKey
from podium.cluster.reader import name_in
from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.scheduling.entry import EntryPhase
from podium.schedulerplugin.scheduling.queue import Queue
from podium.schedulerplugin.scheduling.queueinghints import Hints


@dataclass
class Plain:
    """The state of a key in the plain queue."""

    priority: int
    since: float
    phase: EntryPhase = EntryPhase.ACTIVE
    first: bool = False
    was_first: bool = False
    attempts: int = 0
    tried: float = float("-inf")
    due: float = float("inf")
    missed: bool = False
    woken: bool = False
    early: bool = False
    # PREEMPTING: whether a change has happened that may help.
    heard: bool = False

    def backoff_ends(self) -> float:
        """The end of the backoff."""
        waits = [0.0, 1.0, 2.0, 4.0, 8.0, 10.0]
        return self.tried + waits[min(self.attempts, 5)]


KEYS: list[Key] = [A, B, C, GANG, PODIUM_GANG]

keys = st.sampled_from(KEYS)


class Interleavings(RuleBasedStateMachine):
    """The queue compared with a plain queue that keeps no heaps and scans every key."""

    def __init__(self) -> None:
        super().__init__()
        self.hints = Hints()
        self.queue = Queue(self.hints)
        self.plain: dict[Key, Plain] = {}
        self.now = 0.0
        # The earliest time of early attempts: they cost four times their duration, beyond a second.
        self.early = float("-inf")

    def active(self, found: Plain) -> None:
        found.phase, found.due = EntryPhase.ACTIVE, float("inf")
        found.missed = found.woken = found.heard = False

    def timed(self, found: Plain, phase: EntryPhase, due: float) -> None:
        found.phase, found.due = phase, due
        found.first = found.missed = found.woken = found.heard = False

    def retry(self, found: Plain) -> None:
        if found.backoff_ends() > self.now:
            self.timed(found, EntryPhase.BACKOFF, found.backoff_ends())
        else:
            self.active(found)

    def wakes(self, found: Plain) -> None:
        """Wake a key after a change."""
        self.retry(found)
        found.woken = found.phase is EntryPhase.BACKOFF

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 2.0, 7.0, 60.0, 299.75, 300.0]))
    def advance(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=keys, priority=st.integers(-1, 1), since=st.sampled_from([0.0, 1.0]))
    def put(self, key: Key, priority: int, since: float) -> None:
        self.queue.enqueue(key, priority, since)
        found = self.plain.setdefault(key, Plain(priority, since))
        found.priority, found.since = priority, since

    @rule(key=keys)
    def drop(self, key: Key) -> None:
        """None of its pods is pending any more; a key in flight is dropped after its attempt."""
        found = self.plain.get(key)
        if found is not None and found.phase is EntryPhase.PREEMPTING:
            return
        if found is not None and found.phase is EntryPhase.IN_FLIGHT:
            self.queue.fail(key)
            assert self.queue.phase_of(key) is EntryPhase.RETRYING
        self.queue.remove(key)
        self.plain.pop(key, None)

    @rule()
    def pop(self) -> None:
        expected = self.settled()
        assert self.queue.first(self.now) == expected
        assert self.queue.pop(self.now) == expected
        if expected is not None:
            found = self.plain[expected]
            found.phase, found.was_first, found.first = EntryPhase.IN_FLIGHT, found.first, False
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
        if found is not None and found.phase is EntryPhase.IN_FLIGHT:
            found.first = found.first or found.was_first
            found.attempts = max(0, found.attempts - 1)
            self.active(found)

    @rule(key=keys, after=st.sampled_from([None, 5.0, 1000.0]))
    def park(self, key: Key, after: float | None) -> None:
        self.queue.park(key, ROOM, self.now, None if after is None else self.now + after)
        found = self.plain.get(key)
        if found is None or found.phase not in (EntryPhase.IN_FLIGHT, EntryPhase.PREEMPTING):
            return
        if found.phase is EntryPhase.IN_FLIGHT:
            found.tried = self.now
        if found.missed:
            self.wakes(found)
        elif found.heard:
            self.active(found)
        else:
            self.timed(found, EntryPhase.UNSCHEDULABLE, self.now + min(after or 300.0, 300.0))

    def held_back(self, key: Key) -> Plain | None:
        """Return a key that may be held back, after the end of its attempt, if there was one."""
        found = self.plain.get(key)
        if found is None or found.phase in (EntryPhase.GATED, EntryPhase.PREEMPTING):
            return None
        if found.phase is EntryPhase.IN_FLIGHT:
            found.tried = self.now
        return found

    @rule(key=keys)
    def gate(self, key: Key) -> None:
        found = self.held_back(key)
        if found is not None:
            self.queue.gate(key, self.now)
            self.timed(found, EntryPhase.GATED, self.now + 300.0)

    @rule(key=keys)
    def preempt(self, key: Key) -> None:
        found = self.held_back(key)
        if found is not None and found.phase in (EntryPhase.ACTIVE, EntryPhase.IN_FLIGHT):
            self.queue.preempt(evict(key), ROOM, self.now)
            self.timed(found, EntryPhase.PREEMPTING, float("inf"))

    @rule(key=keys)
    def open(self, key: Key) -> None:
        self.queue.open(key)
        found = self.plain.get(key)
        if found is not None and found.phase in (EntryPhase.GATED, EntryPhase.PREEMPTING):
            self.active(found)

    @rule(key=keys)
    def back_off(self, key: Key) -> None:
        found = self.plain.get(key)
        if found is not None and found.phase is not EntryPhase.GATED:
            self.queue.back_off(key, self.now)
            found.tried, found.attempts = self.now, max(1, found.attempts)
            self.retry(found)

    @rule(key=keys, first=st.booleans())
    def activate(self, key: Key, first: bool) -> None:
        found = self.plain.get(key)
        if found is None or found.phase is EntryPhase.IN_FLIGHT:
            return
        self.queue.activate(key, first=first)
        found.first = found.first or first
        self.active(found)

    @rule(woken=st.sets(keys))
    def wake(self, woken: set[Key]) -> None:
        self.queue.wake(woken, self.now)
        for key in woken & self.plain.keys():
            found = self.plain[key]
            if found.phase is EntryPhase.PREEMPTING:
                found.heard = True
            elif found.phase is EntryPhase.UNSCHEDULABLE:
                self.wakes(found)

    @rule(row=st.integers(0, 3))
    def note(self, row: int) -> None:
        """Record a change that may help keys in flight without a place."""
        self.hints.note_node(row)
        for found in self.plain.values():
            found.missed = found.phase is EntryPhase.IN_FLIGHT

    @precondition(lambda self: self.plain)
    @rule()
    def after_five_minutes_all_are_tried(self) -> None:
        """In any history no key is lost: each one without an attempt or a preemption is tried."""
        self.now += 300.0
        self.settled()
        assert self.queue.first(self.now) == self.settled()
        busy = (EntryPhase.IN_FLIGHT, EntryPhase.PREEMPTING)
        waiting = [key for key, found in self.plain.items() if found.phase not in busy]
        assert sorted(map(str, self.queue.keys(EntryPhase.ACTIVE))) == sorted(map(str, waiting))

    def settled(self) -> Key | None:
        """Move the due keys to ACTIVE, and return the first by a scan of all."""
        for found in self.plain.values():
            if found.due <= self.now:
                self.active(found)
        active, woken = self.keys_in(EntryPhase.ACTIVE), self.keys_in(EntryPhase.BACKOFF)
        best = min((key for key in woken if self.plain[key].woken), key=self.rank, default=None)
        higher = best is not None and all(self.rank(best)[0] < self.rank(each)[0] for each in active)
        if best is not None and higher and self.early <= self.now:
            self.active(self.plain[best])
            self.plain[best].early = True
            return best
        return min(active, key=self.rank, default=None)

    def keys_in(self, phase: EntryPhase) -> list[Key]:
        return [key for key in KEYS if key in self.plain and self.plain[key].phase is phase]

    def rank(self, key: Key) -> Any:
        found = self.plain[key]
        kind = 1 + key.native if isinstance(key, GroupKey) else 0
        return -found.priority, not found.first, found.since, name_in(key), kind

    @invariant()
    def same_phases(self) -> None:
        """Every key has its phase, and hints hold exactly the keys that wait for them."""
        for key in KEYS:
            assert (key in self.queue) == (key in self.plain)
            phase = self.plain[key].phase if key in self.plain else EntryPhase.NONE
            assert self.queue.phase_of(key) is phase
            assert waits(self.hints, key) == (phase in (EntryPhase.UNSCHEDULABLE, EntryPhase.PREEMPTING))
        phases = [found.phase for found in self.plain.values()]
        depths = {each: phases.count(each) for each in self.queue.depths()}
        depths[EntryPhase.GATED] += phases.count(EntryPhase.PREEMPTING)
        assert self.queue.depths() == depths

    @invariant()
    def same_due(self) -> None:
        """The next time of a timed transition is known."""
        due = min((found.due for found in self.plain.values()), default=float("inf"))
        if any(found.woken for found in self.plain.values()) and not self.keys_in(EntryPhase.ACTIVE):
            due = min(due, self.early)
        expected = None if due == float("inf") else max(due, self.now)
        assert self.queue.due(self.now) == expected


test_interleavings = Interleavings.TestCase
