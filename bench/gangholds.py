"""The gang hold in a simulation: the waits of large gangs of the lowest priority, and the price for others.

`python -m bench.gangholds [--days N] [--nodes N] [--seed N] [--trace FILE]` prints a line for each length of
the hold, without and with backfill. The code of the scheduler's holds runs here. With backfill a job passes
the gang that holds room if it ends before the ends of other jobs make room for the gang. All ends are known
then, which is more than a cluster knows.
"""

import argparse
import heapq
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from bench.loads import DAY, PER_NODE, Job, generated, read
from bench.results import Row, Section, quantile
from bench.simulation import (
    DAYS,
    HOUR,
    NODES,
    NS,
    POLICIES,
    SEEDS,
    TIMER,
    Move,
    Result,
    Simulation,
    target_of,
    time_of,
)

from podium.planner.deadline import NEVER
from podium.planner.preemption.target import PlacementTarget
from podium.planner.settings import LiveSettings, Settings
from podium.schedulerplugin.scheduling.effects import Key, Moment
from podium.schedulerplugin.scheduling.entry import Entry
from podium.schedulerplugin.scheduling.holds import HoldEnd, Holds
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

# The lengths of a hold in seconds, each with whether jobs that end early pass it.
HOLDS = ((0, False), *((hours * HOUR, early) for hours in (1, 6, 24) for early in (False, True)))
_COLUMNS = (
    "hold",
    "scheduling goodput",
    "lost of what ran",
    "evicted pods",
    "wait at 0 of over 8 accelerators: mean / median / p95, h",
    "of 32 or more",
    "of 1",
    "of all",
)
_NOTE = f"""
{DAYS} days on {NODES} nodes, seeds {SEEDS[0]} and {SEEDS[-1]}, with the jobs of the section Simulation and no
saving. One waiting gang at a time holds the free room that it could use, for at most the given hours. With
backfill a job passes it that ends before the ends of other jobs make room for the gang; all ends are known.
"""


class Holding(Simulation):
    """A simulation whose gangs may hold room for so many seconds, 0 for never."""

    _engine: LiveEngine

    def __init__(self, nodes: int, seconds: int, *, backfill: bool) -> None:
        super().__init__(nodes, POLICIES["kep"])
        self._seconds, self._backfill = seconds, backfill
        live = LiveSettings(gang_hold_seconds=seconds)
        # Holds need three things of a scheduler's entries, and nothing of its changes.
        entries = SimpleNamespace(
            records=_Records(),
            rows=lambda pods: [self._engine.snapshot.pod_row[pod.key] for pod in pods],
            keys=lambda rows: {target_of(self._job_of(row)) for row in rows},
        )
        changes = SimpleNamespace(touched=set(), count_on=lambda *_: None)
        self._holds = Holds(self._engine, cast("Any", entries), cast("Any", changes), lambda: live)
        self._gang: Job | None = None
        # The time when room is next made for the gang, and whether its room has to be chosen again.
        self._starts, self._stale, self._now = 0, False, 0

    def _engine_of(self, settings: Settings) -> LiveEngine:
        return LiveEngine(self._state, settings)

    def _try(self, now: int, jobs: Iterable[Job]) -> None:
        if self._holds.over(now):
            self._holds.time_out(now)
        self._now, self._stale = now, True
        super()._try(now, jobs)

    def _kind(self, job: Job) -> tuple[object, ...]:
        # Each gang that is refused may hold room.
        return (job,) if job.pods > 1 and self._seconds else (*super()._kind(job), self._passes(job))

    def _decide(self, now: int, job: Job) -> Move | None:
        if self._stale and self._holds.holder is not None:
            self._holds.grow(range(self._nodes), NEVER)
            self._starts, self._stale = self._start_of_gang(), False
        move, key = super()._decide(now, job), target_of(job)
        if move is None and self._passes(job):
            self._holds.cancel(self._rows_of_gang())
            move, self._stale = super()._decide(now, job), True
        target = self._engine.placement_target(key)
        assert isinstance(target, PlacementTarget), target
        if move is None and job.pods > 1:
            self._hold(now, job, target)
        if move is None or (move.victims and self._holds.blocks(target, NEVER)):
            return None
        self._holds.release(key, now, why=HoldEnd.SCHEDULED)
        self._holds.give_way(job.priority, set(move.placed.values()))
        self._stale = True
        return move

    def _hold(self, now: int, job: Job, target: PlacementTarget) -> None:
        """Let a gang that was refused hold room, if the rules allow it."""
        key, moment, before = target_of(job), Moment(time_of(now), now), self._holds.holder
        room = self._holds.gang_room(key, target, moment, NEVER)
        if key == before or room is not None:
            self._holds.hold(key, target.rows, room, moment)
        if self._holds.holder == key != before:
            self._gang, self._stale = job, True
            heapq.heappush(self._ends, (now + self._seconds, job, TIMER))

    def _passes(self, job: Job) -> bool:
        """Return whether a job may use the room of the gang, because it ends before the gang starts."""
        return (
            self._backfill
            and self._holds.counts(job.priority)
            and job != self._gang
            and self._now + self._left[job] <= self._starts
        )

    def _start_of_gang(self) -> int:
        """Return when the ends of running jobs make room for the gang that holds room."""
        assert self._gang is not None, "a gang holds room"
        free = np.full(self._nodes, PER_NODE, np.int64)
        for used in self._used.values():
            free -= used
        start = self._now
        for end, job, since in sorted(self._ends):
            running = self._running.get(job)
            if running is None or running.since != since:
                continue
            if (free // self._gang.gpus).sum() >= self._gang.pods:
                break
            start = end
            for node, pods in running.nodes.items():
                free[node] += pods * job.gpus
        return start

    def _rows_of_gang(self) -> list[int]:
        assert self._gang is not None, "a gang holds room"
        rows = self._engine.snapshot.pod_row
        return [rows[NS, f"{self._gang.name}-{member}"] for member in range(self._gang.pods)]


class _Records(dict[Key, Entry]):
    def __missing__(self, key: Key) -> Entry:
        self[key] = Entry(key)
        return self[key]


def measure() -> Section:
    """Simulate each hold without and with backfill, on all processors."""
    with ProcessPoolExecutor() as processes:
        results = processes.map(_weeks, *zip(*HOLDS, strict=True))
        rows = [_row(*hold, result) for hold, result in zip(HOLDS, results, strict=True)]
    return Section("Gang hold", rows, _NOTE, _COLUMNS)


def _weeks(seconds: int, backfill: bool) -> Result:
    """Simulate the weeks of each seed."""
    until = DAYS * DAY
    loads = (generated(until, NODES, seed) for seed in SEEDS)
    return reduce(Result.plus, (_held(jobs, NODES, until, seconds, backfill) for jobs in loads))


def _held(jobs: Iterable[Job], nodes: int, until: int, seconds: int, backfill: bool) -> Result:
    return Holding(nodes, seconds, backfill=backfill).run(jobs, until)


def _row(seconds: int, backfill: bool, of: Result) -> Row:
    return Row(
        f"{seconds / HOUR:g} h{', backfill' if backfill else ''}",
        f"{of.ran / of.capacity:.1%}",
        (
            f"{of.lost / of.ran:.1%}",
            f"{sum(of.evicted.values()):,}",
            *(_waits(of, sizes) for sizes in (range(9, 10**6), range(32, 10**6), range(1, 2), range(10**6))),
        ),
    )


def _waits(of: Result, sizes: range) -> str:
    """Return the mean, median and 95th percentile of the waits of jobs of the lowest priority."""
    waits = of.waits(lambda job: not job.priority and job.size in sizes)
    if not waits:
        return "none"
    figures = sum(waits) / len(waits), quantile(waits, 0.5), quantile(waits, 0.95)
    return " / ".join(f"{seconds / HOUR:.1f}" for seconds in figures)


def _main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trace", type=Path)
    given = parser.parse_args(arguments)
    until = given.days * DAY
    jobs = read(given.trace) if given.trace else generated(until, given.nodes, given.seed)
    print(" | ".join(_COLUMNS))
    for hold in HOLDS:
        what, figure, more = _row(*hold, _held(jobs, given.nodes, until, *hold))
        print(" | ".join((what, figure, *more)), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
