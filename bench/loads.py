"""The jobs of a simulation: read from CSV, generated like those of Philly, or converted from a public trace.

`python -m bench.loads LOG [VC ...] > jobs.csv` converts `cluster_job_log` of the Philly traces (CC-BY 4.0,
https://github.com/msr-fiddle/philly-traces), or some of its virtual clusters. `python -m bench.simulation
--trace jobs.csv` simulates the jobs. No trace is in this repository.

A file of jobs is CSV with a header. Other columns are ignored, and columns and lines have any order:

| Column | Content |
| --- | --- |
| submit | the arrival, in seconds since the start of the simulation |
| duration | the seconds that the job works |
| gpus | the accelerators of one pod |
| pods | the number of pods; more than 1 is a gang, which is placed and preempted as a whole |
| priority | the priority of the pods |
| saves | optional: the seconds in which the job saves its work after SIGTERM, empty or 0 if it does not |
| interval | optional: the seconds between two checkpoints from the start on, empty or 0 for none |

The generated jobs have the durations, sizes and sweeps of 42 days of Philly (5,937 jobs of four virtual
clusters; Jeon and others, "Analysis of Large-Scale Multi-Tenant GPU Clusters", USENIX ATC 2019). In a sweep a
user submits jobs of one size and of like durations at once. The trace has no priorities and no gangs, so both
are drawn: 10 % of the jobs have priority 1000, and 30 % have 100. Jobs of more than 8 accelerators are gangs,
and so is half of those of 4 and 8.
"""

import csv
import json
import math
import random
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from podium.errors import PodiumError

PER_NODE = 8
DAY = 24 * 3600
# The accelerator-seconds that the generated jobs need until the end, as a share of those of the cluster.
LOAD = 0.94
# The seconds in which a saving job saves its work: the default grace period of a pod.
SAVES = 30
_PRIORITIES = {1_000: 0.1, 100: 0.3, 0: 0.6}
_REQUIRED, _OPTIONAL = ("submit", "duration", "gpus", "pods", "priority"), ("saves", "interval")
# The sweeps of Philly by the accelerators of a job: their number, and the jobs of the largest. Of the sweeps,
# n ** -tail have n jobs or more.
_SIZES = (1, 2, 4, 8, 16, 32)
_SWEEPS = (835, 69, 509, 1113, 176, 41)
_TAILS = {1: 1.25, 2: 1.4, 4: 1.75, 8: 2.6, 16: 3.1, 32: 1.55}
_LARGEST = {1: 525, 2: 43, 4: 75, 8: 9, 16: 6, 32: 6}
# The deviation of the logarithm of the durations in one sweep.
_WITHIN = 0.8
# The durations of the jobs in seconds, at each of the shares of the jobs.
_SHARES = (0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 1)
_DURATIONS = {
    1: (4, 33, 196, 3_595, 114_360, 510_863, 2_543_669, 4_257_415),
    2: (16, 214, 4_030, 63_746, 159_319, 444_720, 1_798_344, 2_583_252),
    4: (2, 34, 1_062, 28_072, 75_252, 231_419, 1_465_560, 4_014_063),
    8: (3, 40, 1_248, 27_677, 184_453, 369_103, 1_245_993, 4_628_239),
    16: (14, 44, 1_137, 12_257, 58_030, 195_142, 3_178_696, 3_412_913),
    32: (12, 16, 46, 11_903, 54_108, 71_514, 3_098_095, 3_098_095),
}


class Job(NamedTuple):
    """Equal pods that run together; times are in seconds since the start, and 0 is no saving."""

    name: str
    submit: int
    duration: int
    gpus: int
    pods: int
    priority: int
    saves: int = 0
    interval: int = 0

    @property
    def size(self) -> int:
        """The accelerators of all pods."""
        return self.gpus * self.pods


def generated(until: int, nodes: int, seed: int = 1) -> list[Job]:
    """Make the jobs of a cluster up to a time, in the order of their submission."""
    rng = random.Random(seed)
    jobs, needed = [], LOAD * nodes * PER_NODE * until
    while needed > 0:
        submit = _daily(rng, until)
        (size,) = rng.choices(_SIZES, _SWEEPS)
        typical = np.interp(rng.random(), _SHARES, np.log(_DURATIONS[size]))
        for _ in range(min(int(rng.paretovariate(_TAILS[size])), _LARGEST[size])):
            duration = min(round(rng.lognormvariate(typical, _WITHIN)) or 1, _DURATIONS[size][-1])
            needed -= size * min(duration, until - submit)
            jobs.append(_drawn(rng, submit, duration, size))
    return _in_order(jobs)


def read(path: Path) -> list[Job]:
    """Read the jobs of a CSV file, in the order of their submission."""
    with path.open(encoding="utf-8", newline="") as lines:
        try:
            jobs = [
                Job(
                    "",
                    *(int(float(row[column])) for column in _REQUIRED),
                    *(int(float(row.get(column) or 0)) for column in _OPTIONAL),
                )
                for row in csv.DictReader(lines)
            ]
        except (KeyError, ValueError, TypeError) as error:
            raise PodiumError(f"{path}: {error} (columns: {', '.join(_REQUIRED)})") from None
    fitting = (job._replace(gpus=min(job.gpus, PER_NODE)) for job in jobs)
    return _in_order(job for job in fitting if min(job.duration, job.gpus, job.pods) > 0)


def saving(jobs: Iterable[Job], share: float, seed: int = 1) -> list[Job]:
    """Let a share of the jobs save their work; those of a lower share save it with a higher one too."""
    rng = random.Random(seed)
    return [job._replace(saves=SAVES) if rng.random() < share else job for job in jobs]


def philly(log: Iterable[Mapping[str, Any]], seed: int = 1) -> list[Job]:
    """Return the jobs of Philly's `cluster_job_log` that ran; the attempts of a job count as one run.

    The log has a job's attempts with their times and the GPUs on each machine, and no priority.
    """
    rng, jobs = random.Random(seed), []
    for entry in log:
        runs = [
            (end - start, sum(len(machine["gpus"]) for machine in attempt["detail"]))
            for attempt in entry["attempts"]
            if (start := _philly_time(attempt["start_time"])) and (end := _philly_time(attempt["end_time"]))
        ]
        submitted = _philly_time(entry["submitted_time"])
        if submitted and runs:
            duration, size = sum(seconds for seconds, _ in runs), max(gpus for _, gpus in runs)
            jobs.append(_drawn(rng, submitted, duration, size))
    begin = min((job.submit for job in jobs), default=0)
    return _in_order(job._replace(submit=job.submit - begin) for job in jobs)


def _drawn(rng: random.Random, submit: int, duration: int, size: int) -> Job:
    """Return a job without a name, of a random priority and shape."""
    (priority,) = rng.choices(tuple(_PRIORITIES), tuple(_PRIORITIES.values()))
    split = size in (4, PER_NODE) and rng.random() < 0.5
    pods = 2 if split else math.ceil(size / PER_NODE)
    return Job("", submit, duration, math.ceil(size / pods), pods, priority)


def _daily(rng: random.Random, until: int) -> int:
    """Return a random time; twice as many are by day as by night."""
    while True:
        at = rng.randrange(until)
        if rng.random() < (1.0 if at % DAY < DAY // 2 else 0.5):
            return at


def _philly_time(text: str | None) -> int | None:
    """Return the seconds of a time such as `2017-10-07 01:12:09`; the log has None for unknown ones."""
    if text in (None, "None", ""):
        return None
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp())


def _in_order(jobs: Iterable[Job]) -> list[Job]:
    return [job._replace(name=f"job-{at:06d}") for at, job in enumerate(sorted(jobs))]


def convert(path: str, *clusters: str) -> None:
    """Print the jobs of a log as CSV; `clusters` are the virtual clusters, none for all."""
    log = json.loads(Path(path).read_text(encoding="utf-8"))
    jobs = philly(entry for entry in log if not clusters or entry["vc"] in clusters)
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(Job._fields[1:])
    lines.writerows(job[1:] for job in jobs)


if __name__ == "__main__":
    convert(*sys.argv[1:])
