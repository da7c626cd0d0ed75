"""A simulation of busy weeks on a cluster: the accelerator-hours and the waiting of each preemption policy.

`python -m bench.simulation [POLICY ...] [--days N] [--nodes N] [--seed N] [--trace FILE] [--saving SHARE]`
prints a line for each policy and each share of jobs that save their work. `bench.loads` describes the
file of a trace, and generates the jobs if there is none. The share 0 leaves what the file says of saving.
"""

import argparse
import heapq
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from bench.loads import DAY, LOAD, PER_NODE, SAVES, Job, generated, read, saving
from bench.results import Row, Section, quantile
from tests.support.filters import builders
from tests.support.oracle.least import COUNTS_FIRST, ORDER, Criterion, least
from tests.support.oracle.problem import problem_of

from podium.api.core import POD_SCHEDULED, UNSCHEDULABLE, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.groups import DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import Condition, ObjectMeta
from podium.api.saving import (
    CHECKPOINT_INTERVAL,
    DEFAULT_GRACE,
    LONGEST_WAIT_FOR_ROOM,
    RUN_TIME,
    SAVES_ON_TERMINATION,
)
from podium.api.schedulable import Schedulable, SchedulableStatus
from podium.cluster.reader import Name, name_of
from podium.cluster.state import ClusterState
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

NS, GPU, HOUR = builders.NS, "nvidia.com/gpu", 3600
DAYS, NODES, SEEDS = 42, 96, (1, 2)
# The start of a job in an event that is no end of one.
TIMER = -1
# The class of jobs that wait for known ends.
_PATIENT = "patient"
# How long a preemptor of the policy that waits for known ends does so at most.
WAIT = "10m"
# The shares of the jobs that save their work.
SHARES = (0.0, 0.25, 0.5, 1.0)
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_COLUMNS = (
    "policy",
    "jobs that save",
    "lost of what ran",
    "scheduling goodput",
    "useful",
    "evicted pods",
    "mean wait",
    "median wait of gangs of over 8 accelerators at 0",
)
_NOTE = f"""
{DAYS} days on {NODES} nodes of {PER_NODE} accelerators, in the sum of seeds {SEEDS[0]} and {SEEDS[-1]}. The
jobs are generated with the arrivals, durations and sizes of the Philly trace, and need {LOAD:.0%} of the
cluster (`bench/loads.py`). A share of them saves its work within {SAVES} s of SIGTERM, and declares it. A job
that finds no room preempts if it may, else it waits, the highest priority first, then the oldest; a job that
finds room passes it. An evicted job waits again. It loses the work since its start, or the seconds in which
it saves it. `whatif`'s engine makes every decision. The integer program takes the engine's placement where no
pod has to go, and else the least harm: with the least work lost by priority, or with the fewest pods and
units by priority. In the policy that waits for known ends all jobs declare their run times, and no job evicts
while such ends make room within {WAIT} after it was queued.

Scheduling goodput is Google's: the time in which jobs have all their accelerators, of the time of all
accelerators. Lost is the part of it that evictions destroyed, so 100 % less lost is the runtime goodput.
Useful is the product of both. Seeds differ by several points: the eviction of one long gang is a point.
"""


class Move(NamedTuple):
    """A decision: the node of each placed pod, and the evicted pods, by row."""

    placed: Mapping[int, int]
    victims: Collection[int]


class Policy(NamedTuple):
    """A preemption policy; `move` returns None if the job must wait. If it `waits`, see Patient."""

    settings: Settings
    move: Callable[[Engine, Name | GroupKey, datetime], Move | None]
    waits: bool = False


class JobResult(NamedTuple):
    """The seconds that a job waited, and how often it was evicted."""

    job: Job
    waited: int
    evictions: int


class Result(NamedTuple):
    """Accelerator-seconds that were available, used and lost, and the result of each job."""

    capacity: int
    ran: int
    lost: int
    jobs: tuple[JobResult, ...]

    def plus(self, other: "Result") -> "Result":
        """Return the sum of two results."""
        return Result(
            self.capacity + other.capacity,
            self.ran + other.ran,
            self.lost + other.lost,
            self.jobs + other.jobs,
        )

    @property
    def evicted(self) -> dict[int, int]:
        """The number of evicted pods by priority, the highest first."""
        return {at: sum(own.evictions * own.job.pods for own in of) for at, of in self._levels().items()}

    @property
    def wait(self) -> dict[int, float]:
        """The mean seconds that a job waited, by priority, the highest first."""
        return {at: sum(own.waited for own in of) / len(of) for at, of in self._levels().items()}

    def waits(self, chosen: Callable[[Job], bool]) -> list[int]:
        """Return the seconds that some jobs waited, in ascending order."""
        return sorted(own.waited for own in self.jobs if chosen(own.job))

    def _levels(self) -> dict[int, list[JobResult]]:
        levels: dict[int, list[JobResult]] = {}
        for own in sorted(self.jobs, key=lambda own: -own.job.priority):
            levels.setdefault(own.job.priority, []).append(own)
        return levels


def measure() -> Section:
    """Simulate every policy with every share of saving jobs, on all processors."""
    runs = list(product(POLICIES, SHARES))
    with ProcessPoolExecutor() as processes:
        results = processes.map(_weeks, *zip(*runs, strict=True))
        rows = [row(*run, result) for run, result in zip(runs, results, strict=True)]
    return Section("Simulation", rows, _NOTE, _COLUMNS)


def _weeks(policy: str, share: float) -> Result:
    """Simulate the weeks of each seed."""
    until = DAYS * DAY
    loads = (saving(generated(until, NODES, seed), share) for seed in SEEDS)
    return reduce(Result.plus, (simulated(jobs, NODES, until, policy) for jobs in loads))


def simulated(jobs: Iterable[Job], nodes: int, until: int, policy: str) -> Result:
    """Simulate to the end."""
    kind = Patient if POLICIES[policy].waits else Simulation
    return kind(nodes, POLICIES[policy]).run(jobs, until)


def row(policy: str, share: float, of: Result) -> Row:
    """Return the figures of a policy with a share of saving jobs."""
    evicted = ", ".join(f"{pods:,} at {priority}" for priority, pods in of.evicted.items() if pods)
    waits = ", ".join(f"{seconds / HOUR:.1f} h at {priority}" for priority, seconds in of.wait.items())
    gangs = of.waits(lambda job: job.size > PER_NODE and not job.priority)
    return Row(
        policy,
        f"{share:.0%}",
        (
            f"{of.lost / of.ran:.1%}",
            f"{of.ran / of.capacity:.1%}",
            f"{(of.ran - of.lost) / of.capacity:.1%}",
            evicted or "0",
            waits,
            f"{quantile(gangs, 0.5) / HOUR:.1f} h" if gangs else "",
        ),
    )


def _by_rules(engine: Engine, target: Name | GroupKey, now: datetime) -> Move | None:
    decision = engine.decide(target, now)
    if decision.outcome not in {Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION}:
        return None
    if decision.chosen is None:
        return Move(decision.placed, ())
    grouped = isinstance(target, GroupKey)
    units, _ = engine.units(for_group=grouped, now=int(now.timestamp()))
    return Move(decision.placed, units.all_members(decision.chosen.plan.victims).tolist())


def _by_program(
    order: tuple[Criterion, ...], engine: Engine, target: Name | GroupKey, now: datetime
) -> Move | None:
    decision = engine.decide(target, now)
    if decision.outcome is Outcome.FITS:
        return Move(decision.placed, ())
    solution = least(problem_of(engine, target, now), order)
    if solution is None or decision.target is None:
        return None
    # The pods of a job are equal, so it is one demand.
    nodes = [node for (_, node), count in sorted(solution.placed.items()) for _ in range(count)]
    placed = dict(zip(decision.target.rows, nodes, strict=True))
    return Move(placed, [pod.row for unit in solution.units for pod in unit.pods])


POLICIES = {
    **{
        str(semantics): Policy(Settings(semantics=semantics), _by_rules)
        for semantics in (Semantics.KEP, Semantics.V1_38, Semantics.V1_37, Semantics.V1_36)
    },
    f"kep, waits {WAIT} for known ends": Policy(Settings(), _by_rules, waits=True),
    "integer program": Policy(Settings(), partial(_by_program, ORDER)),
    "integer program, counts before work": Policy(Settings(), partial(_by_program, COUNTS_FIRST)),
}


class _Running(NamedTuple):
    """A running job: its start, and the number of its pods by node (row)."""

    since: int
    nodes: Counter[int]


class Simulation:
    """A cluster that moves from event to event; the engine follows every change of its state."""

    def __init__(self, nodes: int, policy: Policy) -> None:
        self._policy = policy
        self._state = ClusterState(native_served=True)
        for at in range(nodes):
            name = f"node-{at:04d}"
            room = {GPU: PER_NODE, "cpu": 960, "pods": 110}
            self._state.apply(builders.node(name, room, labels={"kubernetes.io/hostname": name}))
        self._engine = self._engine_of(policy.settings)
        self._state.observe(self._engine.apply)
        self._used: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        self._nodes = nodes
        self._left: dict[Job, int] = {}
        self._waiting: dict[Job, int] = {}
        self._running: dict[Job, _Running] = {}
        self._jobs: dict[Name, Job] = {}
        self._waited: Counter[Job] = Counter()
        self._ends: list[tuple[int, Job, int]] = []
        self._evicted: Counter[Job] = Counter()
        self._ran = self._lost = 0

    def _engine_of(self, settings: Settings) -> Engine:
        return Engine(self._state, settings)

    def run(self, jobs: Iterable[Job], until: int) -> Result:
        """Run all jobs to their end."""
        for now, job in self._events(jobs, until):
            if job is None:
                self._try(now, self._waiting)
            else:
                self._submit(now, job)
                self._try(now, [job])
        for job, running in self._running.items():
            self._ran += (until - running.since) * job.size
        for job, since in self._waiting.items():
            self._waited[job] += until - since
        results = tuple(JobResult(job, waited, self._evicted[job]) for job, waited in self._waited.items())
        return Result(self._nodes * PER_NODE * until, self._ran, self._lost, results)

    def _events(self, jobs: Iterable[Job], until: int) -> Iterator[tuple[int, Job | None]]:
        """Yield the times of events: a job is submitted, or (None) others have ended."""
        for job in jobs:
            yield from self._ended(min(job.submit, until))
            if job.submit >= until:
                return
            yield job.submit, job
        yield from self._ended(until)

    def _ended(self, until: int) -> Iterator[tuple[int, None]]:
        while self._ends and self._ends[0][0] <= until:
            now = self._ends[0][0]
            changed = False
            while self._ends and self._ends[0][0] == now:
                _, job, since = heapq.heappop(self._ends)
                if job in self._running and self._running[job].since == since:
                    self._stop(now, job)
                    changed = True
                changed = changed or since == TIMER
            if changed:
                yield now, None

    def _try(self, now: int, jobs: Iterable[Job]) -> None:
        """Place the jobs that fit, the most important first; evicted jobs are tried again in order."""
        todo = [(_rank(job), job) for job in jobs]
        heapq.heapify(todo)
        refused: set[tuple[object, ...]] = set()
        while todo:
            _, job = heapq.heappop(todo)
            kind = self._kind(job)
            if kind in refused or job not in self._waiting:
                continue
            move = self._decide(now, job)
            if move is None:
                refused.add(kind)
                continue
            gone = {self._job_of(row) for row in move.victims}
            for victim in gone:
                self._evict(now, victim)
            self._start(now, job, move.placed)
            if gone:
                # The victims may free more than the job uses.
                refused.clear()
                todo = [(_rank(waiting), waiting) for waiting in self._waiting if _rank(waiting) > _rank(job)]
                heapq.heapify(todo)

    def _kind(self, job: Job) -> tuple[object, ...]:
        """Return the facts of a job by which others are refused without a decision."""
        return job.gpus, job.pods, job.priority

    def _decide(self, now: int, job: Job) -> Move | None:
        return self._policy.move(self._engine, target_of(job), time_of(now)) if self._may_fit(job) else None

    def _may_fit(self, job: Job) -> bool:
        """Return whether a job fits when all of lower priority are gone."""
        free = np.full(self._nodes, PER_NODE, np.int64)
        for priority, used in self._used.items():
            if priority >= job.priority:
                free -= used
        return int((free // job.gpus).sum()) >= job.pods

    def _submit(self, now: int, job: Job) -> None:
        self._left[job] = job.duration
        self._wait(now, job)

    def _wait(self, now: int, job: Job) -> None:
        """Queue a job, whose pods do not exist."""
        self._waiting[job] = now
        if job.pods > 1:
            self._state.apply(_group(job))
        for member in range(job.pods):
            pod = _pod(job, member)
            self._jobs[NS, pod.metadata.name or ""] = job
            self._state.apply(pod)

    def _start(self, now: int, job: Job, placed: Mapping[int, int]) -> None:
        self._waited[job] += now - self._waiting.pop(job)
        names = self._engine.snapshot.names
        bound = [(self._engine.snapshot.pods[row], names[node]) for row, node in placed.items()]
        nodes = Counter(placed.values())
        for pod, node in bound:
            assert pod is not None
            spec = msgspec.structs.replace(pod.spec, nodeName=node)
            status = SchedulableStatus(phase="Running", startTime=_text(now))
            self._state.apply(msgspec.structs.replace(pod, spec=spec, status=status))
        self._running[job] = _Running(now, nodes)
        self._count(job, nodes, 1)
        heapq.heappush(self._ends, (now + self._left[job], job, now))

    def _stop(self, now: int, job: Job) -> int:
        """Remove a job's pods; return how long it ran."""
        running = self._running.pop(job)
        self._count(job, running.nodes, -1)
        for member in range(job.pods):
            name = NS, f"{job.name}-{member}"
            self._state.remove(self._state.pods[name])
            del self._jobs[name]
        if job.pods > 1:
            self._state.remove(self._state.groups[GroupKey(True, NS, job.name)])
        ran = now - running.since
        self._ran += ran * job.size
        return ran

    def _evict(self, now: int, job: Job) -> None:
        ran = self._stop(now, job)
        lost = ran % job.interval if job.interval else ran
        lost = min(lost, job.saves) if job.saves else lost
        self._lost += lost * job.size
        self._left[job] -= ran - lost
        self._evicted[job] += 1
        self._wait(now, job)

    def _count(self, job: Job, nodes: Counter[int], sign: int) -> None:
        used = self._used.setdefault(job.priority, np.zeros(self._nodes, np.int64))
        for node, pods in nodes.items():
            used[node] += sign * pods * job.gpus

    def _job_of(self, row: int) -> Job:
        pod = self._engine.snapshot.pods[row]
        assert pod is not None
        return self._jobs[NS, pod.metadata.name or ""]


class Patient(Simulation):
    """A simulation whose jobs declare their run times, and wait for such ends before they evict."""

    def __init__(self, nodes: int, policy: Policy) -> None:
        super().__init__(nodes, policy)
        annotations = {LONGEST_WAIT_FOR_ROOM: WAIT}
        self._state.apply(PriorityClass(metadata=ObjectMeta(name=_PATIENT, annotations=annotations), value=0))

    def _kind(self, job: Job) -> tuple[object, ...]:
        # Each job that waits reserves other room.
        return (job,)

    def _wait(self, now: int, job: Job) -> None:
        super()._wait(now, job)
        group = self._state.groups.get(GroupKey(True, NS, job.name))
        if group is not None:
            self._state.apply(msgspec.structs.replace(group, priority_class_name=_PATIENT))
        condition = Condition(POD_SCHEDULED, "False", UNSCHEDULABLE, lastTransitionTime=_text(now))
        for pod in self._pods(job):
            declared = {**(pod.metadata.annotations or {}), RUN_TIME: f"{self._left[job]}s"}
            metadata = msgspec.structs.replace(pod.metadata, annotations=declared)
            spec = msgspec.structs.replace(pod.spec, priorityClassName=_PATIENT)
            status = SchedulableStatus(phase="Pending", conditions=[condition])
            self._state.apply(msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=status))

    def _decide(self, now: int, job: Job) -> Move | None:
        move, at = super()._decide(now, job), time_of(now)
        wait = None
        if move is not None and move.victims:
            wait = self._engine.wait_for_ends(self._engine.decide(target_of(job), at), at)
        if move is not None and wait is None:
            return move
        names = self._engine.snapshot.names
        nodes = {} if wait is None else {row: names[node] for row, node in wait.placed.items()}
        for pod in self._pods(job):
            row = self._engine.snapshot.pod_row[name_of(pod)]
            assert pod.status is not None, "a pod that waits has a status"
            if (pod.status.nominatedNodeName or "") != nodes.get(row, ""):
                status = msgspec.structs.replace(pod.status, nominatedNodeName=nodes.get(row))
                self._state.apply(msgspec.structs.replace(pod, status=status))
        if wait is not None:
            heapq.heappush(self._ends, (wait.room_at, job, TIMER))
        return None

    def _pods(self, job: Job) -> list[Schedulable]:
        pods = (self._state.pods[NS, f"{job.name}-{member}"] for member in range(job.pods))
        return [pod for pod in pods if isinstance(pod, Schedulable)]


def _rank(job: Job) -> tuple[int, int]:
    return -job.priority, job.submit


def target_of(job: Job) -> Name | GroupKey:
    return GroupKey(True, NS, job.name) if job.pods > 1 else (NS, f"{job.name}-0")


def _pod(job: Job, member: int) -> Schedulable:
    pod = builders.pod(
        f"{job.name}-{member}",
        {GPU: job.gpus, "cpu": job.gpus},
        priority=job.priority,
        group=job.name if job.pods > 1 else "",
        terminationGracePeriodSeconds=max(job.saves, DEFAULT_GRACE),
    )
    declared = {SAVES_ON_TERMINATION: job.saves, CHECKPOINT_INTERVAL: job.interval}
    pod.metadata.annotations = {key: f"{seconds}s" for key, seconds in declared.items() if seconds}
    return pod


def _group(job: Job) -> PodGroup:
    return PodGroup(
        ref=ObjectRef("scheduling.k8s.io/v1beta1", "PodGroup", NS, job.name),
        metadata=ObjectMeta(name=job.name, namespace=NS, uid=f"group-{job.name}"),
        min_count=job.pods,
        disruption_mode=DisruptionMode.POD_GROUP,
        priority_class_name="",
        priority=job.priority,
        preemption_policy=None,
        template_ref=None,
    )


def time_of(now: int) -> datetime:
    return BEGIN + timedelta(seconds=now)


def _text(now: int) -> str:
    return time_of(now).strftime("%Y-%m-%dT%H:%M:%SZ")


def _main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("policies", nargs="*", choices=[*POLICIES, []], metavar="POLICY")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--saving", type=float, nargs="+", default=SHARES, metavar="SHARE")
    given = parser.parse_args(arguments)
    until = given.days * DAY
    jobs = read(given.trace) if given.trace else generated(until, given.nodes, given.seed)
    print(" | ".join(_COLUMNS))
    for name, share in product(given.policies or POLICIES, given.saving):
        result = simulated(saving(jobs, share), given.nodes, until, name)
        what, figure, more = row(name, share, result)
        print(" | ".join((what, figure, *more)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
