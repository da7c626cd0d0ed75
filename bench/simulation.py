"""A simulation of busy weeks on a cluster: the accelerator-hours and the waiting of each preemption policy.

`python -m bench.simulation [--days N] [--nodes N] [--trace FILE] [--checkpoint SECONDS] [POLICY ...]` prints
a line for each policy. A trace is CSV with a header: `submit` and `duration` in seconds, `gpus` (of one pod),
`pods` (more than 1 is a gang, placed and preempted as a whole) and `priority`. Without one the jobs are
generated from a seed.
"""

import argparse
import csv
import heapq
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from bench.results import Row, Section
from tests.support.filters import builders
from tests.support.oracle.least import COUNTS_FIRST, ORDER, Criterion, least
from tests.support.oracle.problem import problem_of

from podium.api.findings import ObjectRef
from podium.api.groups import DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.schedulable import Schedulable, SchedulableStatus
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

NS, GPU, PER_NODE = builders.NS, "nvidia.com/gpu", 8
HOUR, DAY = 3600, 24 * 3600
DAYS, NODES, SEEDS = 7, 64, (1, 2)
_COLUMNS = ("submit", "duration", "gpus", "pods", "priority")
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
# The share of the cluster's accelerators that each priority requests.
LOAD = {1_000: 0.15, 100: 0.35, 0: 0.6}
_NOTE = f"""
{len(SEEDS)} weeks on {NODES} nodes of {PER_NODE} accelerators, of seeds {SEEDS[0]} and {SEEDS[-1]}. Jobs
ask for {sum(LOAD.values()):.0%} of what the cluster has, in three priorities: pods of 1 to 8 accelerators,
and gangs of 2 to 16 pods that are placed and preempted whole, with half of the accelerator-hours each;
twice as many come by day as by night. A job that finds no room preempts if it may, else it waits, the
highest priority first, then the oldest; a job that finds room passes it. A job that loses a pod loses its
work since its start and waits again; there are no checkpoints. `whatif`'s engine makes every decision. The
integer program takes the engine's placement where no pod has to go, and else the least harm: with the
least work lost by priority, or with the fewest pods and units by priority.
"""


class Job(NamedTuple):
    """Equal pods that run together; times are in seconds since the start."""

    name: str
    submit: int
    duration: int
    gpus: int
    pods: int
    priority: int


class Move(NamedTuple):
    """A decision: the node of each placed pod, and the evicted pods, by row."""

    placed: Mapping[int, int]
    victims: Iterable[int]


class Policy(NamedTuple):
    """A preemption policy; `move` returns None if the job must wait."""

    settings: Settings
    move: Callable[[Engine, Name | GroupKey, datetime], Move | None]


class Result(NamedTuple):
    """Accelerator-seconds that were available, used and lost.

    By priority: evicted pods, seconds that jobs waited, and the number of jobs.
    """

    capacity: int
    ran: int
    lost: int
    evicted: Counter[int]
    waited: Counter[int]
    jobs: Counter[int]

    def plus(self, other: "Result") -> "Result":
        """Return the sum of two results."""
        return Result(
            self.capacity + other.capacity,
            self.ran + other.ran,
            self.lost + other.lost,
            self.evicted + other.evicted,
            self.waited + other.waited,
            self.jobs + other.jobs,
        )

    @property
    def wait(self) -> dict[int, float]:
        """The mean seconds that a job waited, by priority, the highest first."""
        return {
            priority: self.waited[priority] / self.jobs[priority]
            for priority in sorted(self.jobs, reverse=True)
        }


def measure() -> Section:
    """Simulate every policy; takes about ten minutes."""
    return Section("Simulation", [Row(name, words(_weeks(name))) for name in POLICIES], _NOTE)


def _weeks(policy: str) -> Result:
    """Simulate a week of each seed."""
    until = DAYS * DAY
    results = [simulated(generated(until, NODES, seed), NODES, until, policy) for seed in SEEDS]
    return reduce(Result.plus, results)


def simulated(jobs: Iterable[Job], nodes: int, until: int, policy: str, checkpoint: int = 0) -> Result:
    """Simulate to the end; with `checkpoint` a job keeps its work in multiples of this many seconds."""
    return _Simulation(nodes, POLICIES[policy], checkpoint).run(jobs, until)


def generated(until: int, nodes: int, seed: int = 1) -> list[Job]:
    """Make the jobs of a cluster up to a time, in the order of their submission."""
    rng = random.Random(seed)
    jobs = []
    for priority, load in LOAD.items():
        for gang in (False, True):
            gpu_seconds, asked, kinds = load / 2 * nodes * PER_NODE * until, 0, []
            while asked < gpu_seconds:
                kinds.append(_kind(rng, gang=gang))
                gpus, pods, duration = kinds[-1]
                asked += gpus * pods * duration
            jobs += [(_daily(rng, until), kind, priority) for kind in kinds]
    jobs.sort()
    return [
        Job(f"job-{at:06d}", submit, duration, gpus, pods, priority)
        for at, (submit, (gpus, pods, duration), priority) in enumerate(jobs)
    ]


def read_trace(path: Path) -> list[Job]:
    """Read the jobs of a CSV file."""
    with path.open(encoding="utf-8", newline="") as lines:
        try:
            rows = [[int(float(row[column])) for column in _COLUMNS] for row in csv.DictReader(lines)]
        except (KeyError, ValueError, TypeError) as error:
            raise PodiumError(f"{path}: {error} (columns: {', '.join(_COLUMNS)})") from None
    rows.sort()
    return [
        Job(f"job-{at:06d}", submit, duration, min(gpus, PER_NODE), pods, priority)
        for at, (submit, duration, gpus, pods, priority) in enumerate(rows)
        if min(duration, gpus, pods) > 0
    ]


def words(of: Result) -> str:
    """Return a result as a line."""
    evicted = ", ".join(
        f"{of.evicted[priority]:,} at {priority}" for priority in of.wait if of.evicted[priority]
    )
    waits = ", ".join(f"{seconds / HOUR:.2f} h at {priority}" for priority, seconds in of.wait.items())
    return (
        f"lost {of.lost / of.ran:.1%} of {of.ran / HOUR:,.0f} GPU-hours that ran; "
        f"useful {(of.ran - of.lost) / of.capacity:.1%} of the cluster; "
        f"evicted pods {evicted or 0}; mean wait {waits}"
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
    "integer program": Policy(Settings(), partial(_by_program, ORDER)),
    "integer program, counts before work": Policy(Settings(), partial(_by_program, COUNTS_FIRST)),
}


class _Running(NamedTuple):
    """A running job: its start, and the number of its pods by node (row)."""

    since: int
    nodes: Counter[int]


class _Simulation:
    """A cluster that moves from event to event; the engine follows every change of its state."""

    def __init__(self, nodes: int, policy: Policy, checkpoint: int) -> None:
        self._policy = policy
        self._checkpoint = checkpoint
        self._state = ClusterState(native_served=True)
        for at in range(nodes):
            name = f"node-{at:04d}"
            room = {GPU: PER_NODE, "cpu": 960, "pods": 110}
            self._state.apply(builders.node(name, room, labels={"kubernetes.io/hostname": name}))
        self._engine = Engine(self._state, policy.settings)
        self._state.observe(self._engine.apply)
        self._used: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        self._nodes = nodes
        self._left: dict[Job, int] = {}
        self._waiting: dict[Job, int] = {}
        self._running: dict[Job, _Running] = {}
        self._jobs: dict[Name, Job] = {}
        self._waited: Counter[Job] = Counter()
        self._ends: list[tuple[int, Job, int]] = []
        self._evicted: Counter[int] = Counter()
        self._ran = self._lost = 0

    def run(self, jobs: Iterable[Job], until: int) -> Result:
        """Run all jobs to their end."""
        for now, job in self._events(jobs, until):
            if job is None:
                self._try(now, self._waiting)
            else:
                self._submit(now, job)
                self._try(now, [job])
        for job, running in self._running.items():
            self._ran += (until - running.since) * job.gpus * job.pods
        for job, since in self._waiting.items():
            self._waited[job] += until - since
        waited = Counter[int]()
        for job, seconds in self._waited.items():
            waited[job.priority] += seconds
        capacity = self._nodes * PER_NODE * until
        submitted = Counter(job.priority for job in self._waited)
        return Result(capacity, self._ran, self._lost, self._evicted, waited, submitted)

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
            if changed:
                yield now, None

    def _try(self, now: int, jobs: Iterable[Job]) -> None:
        """Place the jobs that fit, the most important first; evicted jobs are tried again in order."""
        todo = [(_rank(job), job) for job in jobs]
        heapq.heapify(todo)
        refused: set[tuple[int, int, int]] = set()
        while todo:
            _, job = heapq.heappop(todo)
            kind = (job.gpus, job.pods, job.priority)
            if kind in refused or job not in self._waiting:
                continue
            move = self._policy.move(self._engine, _target(job), _time(now)) if self._may_fit(job) else None
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
        self._ran += ran * job.gpus * job.pods
        return ran

    def _evict(self, now: int, job: Job) -> None:
        ran = self._stop(now, job)
        saved = ran // self._checkpoint * self._checkpoint if self._checkpoint else 0
        self._lost += (ran - saved) * job.gpus * job.pods
        self._left[job] -= saved
        self._evicted[job.priority] += job.pods
        self._wait(now, job)

    def _count(self, job: Job, nodes: Counter[int], sign: int) -> None:
        used = self._used.setdefault(job.priority, np.zeros(self._nodes, np.int64))
        for node, pods in nodes.items():
            used[node] += sign * pods * job.gpus

    def _job_of(self, row: int) -> Job:
        pod = self._engine.snapshot.pods[row]
        assert pod is not None
        return self._jobs[NS, pod.metadata.name or ""]


def _rank(job: Job) -> tuple[int, int]:
    return -job.priority, job.submit


def _target(job: Job) -> Name | GroupKey:
    return GroupKey(True, NS, job.name) if job.pods > 1 else (NS, f"{job.name}-0")


def _kind(rng: random.Random, *, gang: bool) -> tuple[int, int, int]:
    """Return random accelerators of a pod, pods and seconds of a job."""
    if gang:
        hours = rng.lognormvariate(math.log(4), 1.0)
        return rng.choice((4, 8, 8, 8)), rng.choice((2, 2, 4, 4, 8, 16)), int(min(max(hours, 0.2), 72) * HOUR)
    hours = rng.lognormvariate(math.log(2), 1.2)
    return rng.choice((1, 1, 1, 2, 2, 4, 8)), 1, int(min(max(hours, 0.1), 48) * HOUR)


def _daily(rng: random.Random, until: int) -> int:
    """Return a random time; twice as many are by day as by night."""
    while True:
        at = rng.randrange(until)
        if rng.random() < (1.0 if at % DAY < DAY // 2 else 0.5):
            return at


def _pod(job: Job, member: int) -> Schedulable:
    return builders.pod(
        f"{job.name}-{member}",
        {GPU: job.gpus, "cpu": job.gpus},
        priority=job.priority,
        group=job.name if job.pods > 1 else "",
    )


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


def _time(now: int) -> datetime:
    return BEGIN + timedelta(seconds=now)


def _text(now: int) -> str:
    return _time(now).strftime("%Y-%m-%dT%H:%M:%SZ")


def _main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("policies", nargs="*", choices=[*POLICIES, []], metavar="POLICY")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--checkpoint", type=int, default=0, metavar="SECONDS")
    given = parser.parse_args(arguments)
    until = given.days * DAY
    jobs = read_trace(given.trace) if given.trace else generated(until, given.nodes, given.seed)
    for name in given.policies or POLICIES:
        print(f"{name}: {words(simulated(jobs, given.nodes, until, name, given.checkpoint))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
