"""Decides whether a planned preemption may be carried out now: every condition except room.

A plan says what would help the preemptor. Whether it is carried out is another question, with one reason at a
time against it: preemption is switched off or only observed, an autoscaler still has time to add nodes, the
same workloads evicted each other lately, or the eviction rate is used up.

The delay for an autoscaler is set by PriorityClass. A group may wait longer, because it only delays its own
start. It may not wait less, because the victims are not its own.

The rate limits how many units may be evicted in any minute, so that a wrong class on a large group, or a bug,
does not empty a cluster before a person looks. A bucket that refills while nothing happens
(`podium.kube.backoff.Rate`, which protects API servers) would let twice as many go within one minute. The
evictions of a process that was killed are known only as far as they had been recorded. But that process kept
to the limit. So if nothing is evicted for a minute after it, the limit holds, however often a process is
killed. A plan is carried out whole or not at all. A plan with more units than the limit waits for an empty
window, so it is never starved. It then uses as many minutes of quota as its units need.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Final, NamedTuple

from podium.api.times import seconds, written
from podium.history.evictioncycles import Evictions, Identity, identity_of_group, workload_of
from podium.planner.deadline import Deadline
from podium.planner.preemption import knownends
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.inflight import free_until
from podium.planner.preemption.knownends import class_of, preemption_delay
from podium.planner.preemption.protection import FOREVER
from podium.planner.preemption.target import PlacementTarget
from podium.planner.settings import LiveSettings, PreemptionMode
from podium.schedulerplugin.scheduling import messages
from podium.schedulerplugin.scheduling.effects import Evict, Held, Key, Moment, Planned
from podium.schedulerplugin.scheduling.entry import Entry
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.text import count

_MINUTE: Final = 60.0
# The pause after a failed preemption that had deleted pods, doubled each time in a row.
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 10.0, 1800.0
# The failures of which the API server's refusal of a victim is the cause, and that have no pause.
_BLAMED_AT_ONCE = 4


class EvictionRate:
    """The times of evictions in seconds of one clock; limits are units a minute, at least 1, or None."""

    def __init__(self) -> None:
        """Start with no evictions."""
        # The time from which each unit counts, in order. The units of a plan beyond its limit count from
        # later minutes.
        self._times: list[float] = []
        # The time until which any limit counts as reached.
        self._closed = -math.inf

    def wait(self, limit: int | None, units: int, now: float) -> float:
        """Return the seconds until a plan of that many units may be carried out, 0 for now."""
        if limit is None:
            return 0.0
        over = self._over(now)
        excess = len(self._times) - over + min(units, limit) - limit
        free = self._closed if excess <= 0 else max(self._closed, self._times[over + excess - 1] + _MINUTE)
        # The sums of fractions are not exact.
        return round(free - now, 6) if free > now else 0.0

    def left(self, limit: int, now: float) -> int:
        """Return how many units, one by one, may be evicted now."""
        return 0 if self.closed(now) else max(0, limit - len(self._times) + self._over(now))

    def charge(self, limit: int | None, units: int, now: float) -> list[float]:
        """Record a plan of that many units that is carried out; return when each counts from."""
        at_once = units if limit is None else limit
        del self._times[: self._over(now)]
        times = [now + _MINUTE * (unit // at_once) for unit in range(units)]
        self.restore(times)
        return times

    def withdraw(self, times: Iterable[float]) -> list[float]:
        """Remove recorded times, and return those of them that were still known."""
        known = []
        for time in times:
            at = bisect_left(self._times, time)
            if self._times[at : at + 1] == [time]:
                known.append(self._times.pop(at))
        return known

    def restore(self, times: Sequence[float]) -> None:
        """Record the times of units, in order."""
        later = not self._times or not times or times[0] >= self._times[-1]
        self._times += times
        # Without a limit there are thousands of times, and all come at the end.
        if not later:
            self._times.sort()

    def close(self, now: float) -> None:
        """Count any limit as reached for a minute, because earlier evictions are unknown."""
        self._closed = now + _MINUTE

    def closed(self, now: float) -> bool:
        """Return whether any limit counts as reached."""
        return now < self._closed

    def _over(self, now: float) -> int:
        """Return how many of the times no longer count."""
        return bisect_right(self._times, now, key=lambda time: time + _MINUTE)


class Why(Enum):
    """The reasons not to carry out a preemption."""

    OFF = auto()
    WINDOW = auto()
    OBSERVED = auto()
    FAILED = auto()
    CIRCLE = auto()
    RATE = auto()


class Limit(NamedTuple):
    """Why not now, and when to look again (seconds of the steady clock; None: when something changes)."""

    kind: Why
    why: str
    until: float | None = None


class Unfinished(NamedTuple):
    """An unfinished preemption of an earlier process: units by UID, and since when (our clock) they count."""

    units: frozenset[str]
    at: float


class EvictionLimits:
    """The limits of one scheduler: the time of a decision, and its evictions.

    `limit` only judges a preemption. `hold_back` and `took` record what became of it.
    """

    def __init__(self, live: Callable[[], LiveSettings], clock: Callable[[], float]) -> None:
        """`clock` is the monotonic clock, in seconds, by which decisions have a deadline."""
        self.live = live
        self.clock = clock
        self._rate = EvictionRate()
        self._evictions = Evictions()
        # The entries that wait for the rate: the priority, and until when.
        self._waiting_turns: dict[Key, tuple[int, float]] = {}
        # The unfinished preemptions of an earlier process, by the preemptor's UID.
        self._unfinished: Mapping[str, Unfinished] = {}

    def restore(
        self,
        evicted: Iterable[tuple[float, Identity, Identity]],
        units: Sequence[float],
        unfinished: Mapping[str, Unfinished],
    ) -> None:
        """Restore the evictions of an earlier process, in order: time, preemptor and victim of each.

        `units` are the times from which units count, for the rate.
        `unfinished` preemptions, by the preemptor's UID, are included. Each counts once if it is resumed.
        """
        for at, by, of in evicted:
            self._evictions.record(by, of, at)
        self._rate.restore(units)
        self._unfinished = unfinished

    def doubt(self, now: float) -> None:
        """Start after a process whose last evictions are unknown: nothing is evicted for a minute."""
        self._rate.close(now)

    def doubts(self, now: float) -> bool:
        """Return whether that minute still runs; a leader that follows within it must start in doubt too."""
        return self._rate.closed(now)

    def room(self, now: float) -> tuple[int, int] | None:
        """Return the limit of evictions and what is left of it now, None without a limit."""
        limit = self.live().evictions_a_minute
        return None if limit is None else (limit, self._rate.left(limit, now))

    def deadline(self) -> Deadline:
        """Start the time budget of a decision."""
        return Deadline(self.clock, self.live().decision_seconds)

    def limit(
        self, engine: LiveEngine, entry: Entry, evict: Evict, target: PlacementTarget, moment: Moment
    ) -> Limit | None:
        """Return why a preemption that was just planned must wait; None if it may be carried out now."""
        live, now = self.live(), moment.seconds
        if live.mode is PreemptionMode.OFF:
            return Limit(Why.OFF, "it is switched off")
        since = no_room_since(engine, entry, target, moment)
        delay = preemption_delay(target.group, class_of(engine.view, engine.snapshot, target))
        until = since + delay
        if delay and until > moment.now:
            pause = (until - moment.now).total_seconds()
            return Limit(
                Why.WINDOW,
                f"waiting until {written(until)} for new nodes before anything is evicted",
                now + pause,
            )
        going = messages.victim_count(evict)
        if live.mode is PreemptionMode.OBSERVE:
            return Limit(Why.OBSERVED, f"{going} would be evicted, but preemption is only observed")
        # A preemption that is made again deletes no other victims.
        limit = None if evict.again else self._earlier_failure(engine, entry, evict, target, now)
        if limit is not None:
            return limit
        pause = self._rated(entry, evict, target.priority, now)
        if pause > 0:
            why = (
                f"{going} will be evicted when the rate of {live.evictions_a_minute} units a minute allows it"
            )
            return Limit(Why.RATE, why, now + pause)
        return None

    def hold_back(self, entry: Entry, evict: Evict, limit: Limit) -> list[Planned | Held]:
        """Record that a preemption has to wait; return what is reported once for a plan and a reason."""
        self._waiting_turns.pop(entry.key, None)
        if limit.kind is Why.RATE and limit.until is not None:
            self._waiting_turns[entry.key] = evict.preemptor.priority, limit.until
        plan = frozenset(pod.uid for pod in evict.victims), limit.kind
        if entry.held_back == plan:
            return []
        entry.held_back = plan
        if limit.kind is Why.OBSERVED:
            return [Planned(evict)]
        return [Held(evict, limit.kind is Why.CIRCLE)] if limit.kind in (Why.RATE, Why.CIRCLE) else []

    def took(
        self, engine: LiveEngine, entry: Entry, evict: Evict, target: PlacementTarget, now: float
    ) -> None:
        """Record that a preemption is carried out, after `limit` returned None."""
        self._waiting_turns.pop(entry.key, None)
        self._rate.withdraw(self._counted(entry, evict))
        entry.counted = self._rate.charge(self.live().evictions_a_minute, len(evict.units), now)
        entry.held_back = None
        if evict.again or self._left(evict) is not None:
            return
        for by, of in _pairs(engine, evict, target):
            self._evictions.record(by, of, now)

    def gave_up(self, entry: Entry, now: float, *, deleted: bool, blamed: bool = False) -> None:
        """Record that a preemption failed, and whether pods had been `deleted` for it in vain by then.

        Each attempt may evict others in vain. If it is `blamed` on victims, the next plan is without these,
        so the pause is short, and the first attempts have none.
        """
        if deleted:
            times = 1 if entry.eviction_failures is None else entry.eviction_failures[0] + 1
            pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(times, 10), _LAST_PAUSE_SECONDS)
            if blamed:
                pause = _FIRST_PAUSE_SECONDS if times > _BLAMED_AT_ONCE else 0.0
            entry.eviction_failures = times, now + pause

    def refund(self, entry: Entry) -> None:
        """Count the last preemption of an entry no more: pods that stay must not use up the rate."""
        self._rate.withdraw(entry.counted)
        entry.counted = []

    def done(self, key: Key) -> None:
        """Record that an entry waits no more."""
        self._waiting_turns.pop(key, None)

    def _earlier_failure(
        self, engine: LiveEngine, entry: Entry, evict: Evict, target: PlacementTarget, now: float
    ) -> Limit | None:
        """Return the hold after earlier preemptions: they failed, or these victims evicted the preemptor."""
        times, until = entry.eviction_failures or (0, now)
        if until > now:
            why = f"it failed {count(times, 'time')}, and pods may go in vain again: backing off"
            return Limit(Why.FAILED, why, until)
        pause = max(
            (self._evictions.wait(by, of, now) for by, of in _pairs(engine, evict, target)), default=0.0
        )
        if pause > 0:
            why = (
                f"{messages.victim_count(evict)} would be evicted, which evicted it: "
                f"backing off for {max(1, round(pause))} s"
            )
            return Limit(Why.CIRCLE, why, now + pause)
        return None

    def _rated(self, entry: Entry, evict: Evict, priority: int, now: float) -> float:
        """Return the seconds until the rate allows a plan, 0 for now; plans that wait already go first.

        Otherwise small plans would take each unit as it becomes free, and a large plan would wait forever.
        Units that an earlier attempt counted are counted once, from now on if the plan is allowed.
        """
        limit, units = self.live().evictions_a_minute, len(evict.units)
        if limit is None:
            return 0.0
        turns = (turn for key, turn in self._waiting_turns.items() if key != entry.key)
        ahead = (until - now for waiting, until in turns if waiting >= priority)
        counted = self._rate.withdraw(self._counted(entry, evict))
        pause = max(self._rate.wait(limit, units, now), *ahead, 0.0)
        self._rate.restore(counted)
        return pause

    def _counted(self, entry: Entry, evict: Evict) -> list[float]:
        """Return the times from which units of a plan count since an earlier attempt."""
        units, left = len(evict.units), self._left(evict)
        before = entry.counted if evict.again else [] if left is None else [left.at] * units
        return before[-units:]

    def _left(self, evict: Evict) -> Unfinished | None:
        """Return the unfinished preemption that a preemption resumes, if it has no other units.

        A lone pod preempts lone pods without a record, so its preemption is planned again.
        """
        resumes = evict.resumed or evict.preemptor.kind == "pod"
        left = self._unfinished.get(evict.preemptor.uid) if resumes else None
        return left if left is not None and left.units.issuperset(unit.uid for unit in evict.units) else None


def no_room_since(engine: LiveEngine, entry: Entry, target: PlacementTarget, moment: Moment) -> datetime:
    """Return since when an entry finds no room; its window for new nodes starts then."""
    return entry.no_room_since or knownends.no_room_since(engine.snapshot, target, moment.now)


def expiry(engine: LiveEngine, target: PlacementTarget, moment: Moment) -> float | None:
    """Return when the next toleration or refusal that blocks a preemptor ends, in steady seconds."""
    now = seconds(moment.now)
    units, _ = engine.units(for_group=target.group is not None, now=now)
    lower = units.is_lead & (units.priority < target.priority)
    ends: list[int] = units.exempt_until[lower & units.exempt(target.priority, now)].tolist()
    refused = units.refused_below(target.priority).tolist()
    ends += [engine.intents.failed_evictions.ends(engine.snapshot.uids[row]) for row in refused]
    if not ends:
        return None
    return moment.seconds + max(0.0, min(ends) - moment.now.timestamp())


def overdue(engine: LiveEngine, decision: Decision, moment: Moment) -> float | None:
    """Return when the first of the awaited pods is no longer counted on, in seconds of the steady clock."""
    pods = (engine.snapshot.pods[row] for row in decision.awaited)
    ends = [end for pod in pods if pod is not None and (end := free_until(pod)) != FOREVER]
    if decision.room_at and decision.target is not None:
        units, _ = engine.units(for_group=engine.as_group(decision.target), now=seconds(moment.now))
        ends += filter(None, units.gone_by[list(decision.awaited)].tolist())
    return moment.seconds + max(0.0, min(ends) - moment.now.timestamp()) if ends else None


def _pairs(engine: LiveEngine, evict: Evict, target: PlacementTarget) -> Iterator[tuple[Identity, Identity]]:
    """Yield the workloads of the preemptor and of each victim."""
    view = engine.view
    group = target.group
    by = (
        identity_of_group(group)
        if group is not None
        else workload_of(view, view.pods.get(evict.nominations[0][0].key))
    )
    for unit in evict.units:
        of = workload_of(view, view.pods.get(unit.pods[0].key))
        if by is not None and of is not None:
            yield by, of
