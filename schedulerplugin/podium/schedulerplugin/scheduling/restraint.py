"""Decides whether a planned preemption may be carried out now: every condition except room.

A plan says what would help the preemptor. Whether it is carried out is another question, with one reason at a
time against it. The administrator may have switched preemption off, or want it observed only. A window may
still be open in which an autoscaler can add nodes. The same workloads may have evicted each other lately. And
evictions have a rate.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from podium.api.meta import instant
from podium.api.schedulable import Schedulable
from podium.api.times import seconds, written
from podium.schedulerplugin.preemption.decision import Decision
from podium.schedulerplugin.preemption.target import Wanted
from podium.schedulerplugin.preemption.terminating import free_until
from podium.schedulerplugin.preemption.toleration import FOREVER
from podium.schedulerplugin.scheduling import wait, words
from podium.schedulerplugin.scheduling.conditions import POD_SCHEDULED, UNSCHEDULABLE
from podium.schedulerplugin.scheduling.effects import Evict, Key, Moment
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.loops import Evictions, Identity, identity_of_group, workload_of
from podium.schedulerplugin.scheduling.rate import EvictionRate
from podium.schedulerplugin.scheduling.settings import LiveSettings, Mode
from podium.wording import count

# The pause after a failed preemption that had deleted pods, doubled each time in a row.
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 10.0, 1800.0


class Why(Enum):
    """The reasons not to carry out a preemption."""

    OFF = auto()
    WINDOW = auto()
    OBSERVED = auto()
    FAILED = auto()
    CIRCLE = auto()
    RATE = auto()


class Hold(NamedTuple):
    """Why not now, and when to look again (seconds of the steady clock; None: when something changes)."""

    kind: Why
    why: str
    until: float | None = None


class Unfinished(NamedTuple):
    """An unfinished preemption of an earlier process: units by UID, and since when (our clock) they count."""

    units: frozenset[str]
    at: float


class Restraint:
    """Holds preemptions of one scheduler back, and remembers those that it allowed."""

    def __init__(self, live: Callable[[], LiveSettings]) -> None:
        self._live = live
        self._rate = EvictionRate()
        self._evictions = Evictions()
        # The time since which an entry has found no room.
        self._since: dict[Key, datetime] = {}
        # The entries that wait for the rate: the priority, and until when.
        self._owed: dict[Key, tuple[int, float]] = {}
        # The times from which the units of the entry's last preemption count.
        self._counted: dict[Key, list[float]] = {}
        # The unfinished preemptions of an earlier process, by the preemptor's UID.
        self._unfinished: Mapping[str, Unfinished] = {}
        # How many preemptions in a row failed after deleting pods, and until when there is no other.
        self._failures: dict[Key, tuple[int, float]] = {}

    def restore(
        self,
        evicted: Iterable[tuple[float, Identity, Identity]],
        units: Sequence[float],
        unfinished: Mapping[str, Unfinished],
    ) -> None:
        """Restore the evictions of an earlier process: who evicted whom and when, in order, and units' times.

        `unfinished` preemptions, by the preemptor's UID, are included. Each counts once if it is resumed.
        """
        for at, by, of in evicted:
            self._evictions.note(by, of, at)
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
        limit = self._live().evictions_a_minute
        return None if limit is None else (limit, self._rate.left(limit, now))

    def hold(self, engine: LiveEngine, evict: Evict, wanted: Wanted, moment: Moment) -> Hold | None:
        """Return why a preemption that was just planned must wait; None if it may be carried out now."""
        live, now = self._live(), moment.seconds
        self._owed.pop(evict.key, None)
        if live.mode is Mode.OFF:
            return Hold(Why.OFF, "it is switched off")
        self.failed(engine, evict.key, wanted, moment)
        until = wait.deadline(self._since[evict.key], _delay(engine, wanted))
        if until is not None and until > moment.now:
            pause = (until - moment.now).total_seconds()
            return Hold(
                Why.WINDOW,
                f"waiting until {written(until)} for new nodes before anything is evicted",
                now + pause,
            )
        going = words.victims(evict)
        if live.mode is Mode.OBSERVE:
            return Hold(Why.OBSERVED, f"{going} would be evicted, but preemption is only observed")
        # A preemption that is made again deletes no other victims.
        hold = None if evict.again else self._regretted(engine, evict, wanted, now)
        if hold is not None:
            return hold
        pause = self._rated(evict, wanted.priority, now)
        if pause > 0:
            self._owed[evict.key] = wanted.priority, now + pause
            why = (
                f"{going} will be evicted when the rate of {live.evictions_a_minute} units a minute allows it"
            )
            return Hold(Why.RATE, why, now + pause)
        return None

    def took(self, engine: LiveEngine, evict: Evict, wanted: Wanted, moment: Moment) -> None:
        """Record that a preemption is carried out, after `hold` returned None."""
        limit, units = self._live().evictions_a_minute, len(evict.units)
        self._counted[evict.key] = self._rate.take(limit, units, moment.seconds)
        if evict.again or self._left(evict) is not None:
            return
        for by, of in _pairs(engine, evict, wanted):
            self._evictions.note(by, of, moment.seconds)

    def gave_up(self, key: Key, now: float, *, deleted: bool) -> None:
        """Record that a preemption failed, and whether pods had been `deleted` for it by then.

        If one victim cannot be evicted (a policy forbids it), each attempt would evict the others in vain.
        """
        if deleted:
            times = self._failures.get(key, (0, now))[0] + 1
            pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(times, 10), _LAST_PAUSE_SECONDS)
            self._failures[key] = times, now + pause

    def failed(self, engine: LiveEngine, key: Key, wanted: Wanted, moment: Moment) -> None:
        """Record that an entry found no room; this starts its window for new nodes, if none has begun."""
        if key not in self._since:
            told = (_told(engine.snapshot.pods[row]) for row in wanted.rows)
            self._since[key] = min([moment.now, *(time for time in told if time is not None)])

    def done(self, key: Key) -> None:
        """Record that an entry waits no more."""
        for memory in (self._since, self._owed, self._counted, self._failures):
            memory.pop(key, None)

    def _regretted(self, engine: LiveEngine, evict: Evict, wanted: Wanted, now: float) -> Hold | None:
        """Return why earlier preemptions speak against one: they failed, or the victims evicted it before."""
        times, until = self._failures.get(evict.key, (0, now))
        if until > now:
            why = f"it failed {count(times, 'time')} after pods were evicted for it: backing off"
            return Hold(Why.FAILED, why, until)
        pause = max(
            (self._evictions.wait(by, of, now) for by, of in _pairs(engine, evict, wanted)), default=0.0
        )
        if pause > 0:
            why = (
                f"{words.victims(evict)} would be evicted, which evicted it: "
                f"backing off for {math.ceil(pause)} s"
            )
            return Hold(Why.CIRCLE, why, now + pause)
        return None

    def _rated(self, evict: Evict, priority: int, now: float) -> float:
        """Return the seconds until the rate allows a plan, 0 for now; plans that wait already go first.

        Otherwise small plans would take each unit as it becomes free, and a large plan would wait forever.
        Units that an earlier attempt counted are counted once, from now on if the plan is allowed.
        """
        limit, units = self._live().evictions_a_minute, len(evict.units)
        left = self._left(evict)
        before = self._counted[evict.key] if evict.again else [] if left is None else [left.at] * units
        counted = self._rate.withdraw(before[-units:])
        if limit is None:
            return 0.0
        ahead = (until - now for other, until in self._owed.values() if other >= priority)
        pause = max(self._rate.wait(limit, units, now), *ahead, 0.0)
        if pause > 0:
            self._rate.restore(counted)
        return pause

    def _left(self, evict: Evict) -> Unfinished | None:
        """Return the unfinished preemption that a preemption resumes, if it has no other units.

        A lone pod preempts lone pods without a record, so its preemption is planned again.
        """
        goes_on = evict.resumed or evict.preemptor.kind == "pod"
        left = self._unfinished.get(evict.preemptor.uid) if goes_on else None
        return left if left is not None and left.units.issuperset(unit.uid for unit in evict.units) else None


def expiry(engine: LiveEngine, wanted: Wanted, moment: Moment) -> float | None:
    """Return when the next toleration that blocks a preemptor ends, in seconds of the steady clock."""
    now = seconds(moment.now)
    units, _ = engine.units(for_group=wanted.group is not None, now=now)
    lower = units.is_lead & (units.priority < wanted.priority)
    ends = units.until[lower & units.exempt(wanted.priority, now)]
    if not len(ends):
        return None
    return moment.seconds + max(0.0, int(ends.min()) - moment.now.timestamp())


def overdue(engine: LiveEngine, decision: Decision, moment: Moment) -> float | None:
    """Return when the first of the awaited pods is no longer counted on, in seconds of the steady clock."""
    pods = (engine.snapshot.pods[row] for row in decision.awaited)
    ends = [end for pod in pods if pod is not None and (end := free_until(pod)) != FOREVER]
    return moment.seconds + max(0.0, min(ends) - moment.now.timestamp()) if ends else None


def _told(pod: Schedulable | None) -> datetime | None:
    """Return since when a pod's status reports no room; None if it does not, or has no time."""
    if pod is None or pod.status is None:
        return None
    condition, created = pod.status.condition(POD_SCHEDULED), pod.metadata.creationTimestamp
    if condition is None or (condition.status, condition.reason) != ("False", UNSCHEDULABLE):
        return None
    try:
        told = instant(condition.lastTransitionTime or "")
        # Any writer of a status can write any time, but only the server sets the creation time.
        return max(told, instant(created)) if created else told
    except msgspec.ValidationError:
        return None


def _delay(engine: LiveEngine, wanted: Wanted) -> timedelta:
    """Return how long a preemptor waits for an autoscaler; for a lone pod its class decides."""
    group, classes = wanted.group, engine.view.classes
    if group is not None:
        return wait.delay(group, classes.get(group.priority_class_name)).length
    pod = engine.snapshot.pods[wanted.rows[0]]
    name = pod.spec.priorityClassName if pod is not None else None
    return wait.delay(None, classes.get(name or "")).length


def _pairs(engine: LiveEngine, evict: Evict, wanted: Wanted) -> Iterator[tuple[Identity, Identity]]:
    """Yield who evicts whom, by workload."""
    view = engine.view

    group = wanted.group
    by = (
        identity_of_group(group)
        if group is not None
        else workload_of(view, view.pods.get(evict.nominations[0][0].key))
    )
    for unit in evict.units:
        of = workload_of(view, view.pods.get(unit.pods[0].key))
        if by is not None and of is not None:
            yield by, of
