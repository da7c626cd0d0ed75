"""The simulation is consistent and deterministic, and its jobs are those of a file, a trace or a seed."""

import json
from pathlib import Path

import pytest
from bench import loads
from bench.gangholds import Holding
from bench.loads import DAY, LOAD, PER_NODE, Job, generated, philly, read, saving
from bench.results import Row
from bench.simulation import HOUR, POLICIES, row, simulated
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.errors import PodiumError

NODES = 4
(PATIENT,) = (name for name, policy in POLICIES.items() if policy.waits)


GANG = Job("gang", 0, 10 * HOUR, gpus=8, pods=NODES, priority=0)
URGENT = Job("urgent", 6 * HOUR, 1 * HOUR, gpus=8, pods=1, priority=10)


@pytest.mark.parametrize("policy", POLICIES)
def test_all_work_is_useful_or_lost(policy: str) -> None:
    """No node runs more than its capacity, and a second run gives the same figures."""
    jobs = generated(2 * DAY, NODES)
    result = simulated(jobs, NODES, 2 * DAY, policy)
    assert 0 < result.lost < result.ran <= result.capacity
    assert simulated(jobs, NODES, 2 * DAY, policy) == result


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_that_is_preempted_loses_its_work_and_runs_again(policy: str) -> None:
    result = simulated([GANG, URGENT], NODES, DAY, policy)
    assert (result.lost, result.evicted) == (4 * 8 * 6 * HOUR, {10: 0, 0: 4})
    assert result.ran == (4 * 8 * 6 + 8 * 1 + 4 * 8 * 10) * HOUR
    # It starts again when the urgent job has ended.
    assert result.wait == {10: 0, 0: 1 * HOUR}


@pytest.mark.parametrize(("minutes", "evicted"), [(9, 0), (10, 4)])
def test_a_job_waits_for_an_end_in_ten_minutes(minutes: int, evicted: int) -> None:
    """It evicts the gang that ends later: the end shows ten seconds late."""
    job = URGENT._replace(submit=10 * HOUR - 60 * minutes)
    result = simulated([GANG, job], NODES, DAY, PATIENT)
    assert (result.evicted[0], result.wait[10]) == (evicted, 0 if evicted else 60 * minutes)


def test_a_smaller_job_does_not_take_the_room_that_is_awaited() -> None:
    """The gang evicts neither job, because it has reserved the room of the first one that ends."""
    lows = [Job(f"low-{at}", 0, HOUR + 60 * at, gpus=8, pods=1, priority=0) for at in range(2)]
    gang = Job("high", HOUR - 60, HOUR, gpus=8, pods=2, priority=10)
    small = Job("small", HOUR - 30, HOUR, gpus=8, pods=1, priority=0)
    result = simulated([*lows, gang, small], 2, DAY, PATIENT)
    assert (result.lost, result.wait[10]) == (0, 120)


@pytest.mark.parametrize(
    ("saves", "interval", "lost"),
    [
        (0, 4 * HOUR, 2 * HOUR),
        (30, 0, 30),
        (7 * HOUR, 0, 6 * HOUR),
        (30, 4 * HOUR, 30),
        (30, 6 * HOUR, 0),
    ],
)
def test_a_gang_that_saves_its_work_continues_with_it(saves: int, interval: int, lost: int) -> None:
    result = simulated([GANG._replace(saves=saves, interval=interval), URGENT], NODES, DAY, "kep")
    assert result.lost == 4 * 8 * lost
    assert result.ran == 4 * 8 * (10 * HOUR + lost) + 8 * HOUR


def test_a_job_that_saves_its_work_is_evicted_before_a_shorter_one() -> None:
    """Under 1.37, which knows no declaration, the job that started last is evicted."""
    longer = Job("longer", 0, DAY, gpus=8, pods=1, priority=0, saves=30)
    shorter = Job("shorter", HOUR, DAY, gpus=8, pods=1, priority=0)
    lost = {policy: simulated([longer, shorter, URGENT], 2, DAY, policy).lost for policy in ("kep", "1.37")}
    assert lost == {"kep": 8 * 30, "1.37": 8 * 5 * HOUR}


def test_the_oldest_of_the_highest_priority_comes_first() -> None:
    """All jobs need the whole cluster for an hour, and the one of high priority starts first."""
    jobs = [GANG._replace(name=f"job-{at}", duration=HOUR, priority=at // 2) for at in range(4)]
    result = simulated(jobs, NODES, DAY, "kep")
    assert result.wait == {1: 0.5 * HOUR, 0: 2.5 * HOUR}
    assert result.lost == 0


def test_a_row_has_the_figures_of_all_weeks() -> None:
    """The same week twice has twice the evictions, and the same shares and waits."""
    week = simulated([GANG, URGENT], NODES, DAY, "kep")
    rows = [row("kep", 0.5, result) for result in (week, week.plus(week))]
    waits = "0.0 h at 10, 1.0 h at 0", "1.0 h"
    assert rows == [
        Row("kep", "50%", ("36.9%", "67.7%", "42.7%", evicted, *waits)) for evicted in ("4 at 0", "8 at 0")
    ]


# The nodes are full until the hours 10 and 5. The gang needs both, and the others one.
QUEUE = [
    Job("until-10", 0, 10 * HOUR, gpus=8, pods=1, priority=0),
    Job("until-5", 0, 5 * HOUR, gpus=8, pods=1, priority=0),
    Job("gang", 1 * HOUR, 1 * HOUR, gpus=8, pods=2, priority=0),
    Job("long", 2 * HOUR, 20 * HOUR, gpus=8, pods=1, priority=0),
    Job("short", 3 * HOUR, 4 * HOUR, gpus=8, pods=1, priority=0),
]


@pytest.mark.parametrize(
    ("hold", "backfill", "waits"),
    [
        # The long job takes the first node that comes free, and the short one the second.
        pytest.param(0, False, {"gang": 24, "long": 3, "short": 7}, id="no hold"),
        pytest.param(DAY, False, {"gang": 9, "long": 9, "short": 8}, id="hold"),
        # The short job ends before the second node comes free.
        pytest.param(DAY, True, {"gang": 9, "long": 9, "short": 2}, id="backfill"),
        # After the time of the hold the long job takes the node.
        pytest.param(5 * HOUR, False, {"gang": 25, "long": 4, "short": 7}, id="timed out"),
    ],
)
def test_a_gang_that_holds_room_starts_when_it_is_complete(
    hold: int, backfill: bool, waits: dict[str, int]
) -> None:
    result = Holding(2, hold, backfill=backfill).run(QUEUE, 2 * DAY)
    assert {own.job.name: own.waited // HOUR for own in result.jobs if own.waited} == waits


def test_without_a_hold_nothing_changes() -> None:
    jobs = generated(2 * DAY, NODES)
    assert Holding(NODES, 0, backfill=False).run(jobs, 2 * DAY) == simulated(jobs, NODES, 2 * DAY, "kep")


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), nodes=st.integers(4, 40), days=st.integers(1, 40))
def test_generated_jobs_need_the_load_and_fit_nodes(seed: int, nodes: int, days: int) -> None:
    until = days * DAY
    jobs = generated(until, nodes, seed)
    needed = sum(job.size * min(job.duration, until - job.submit) for job in jobs)
    assert needed >= LOAD * nodes * PER_NODE * until
    assert all(0 <= job.submit < until and job.duration > 0 for job in jobs)
    assert all(job.gpus <= PER_NODE and job.size in {1, 2, 4, 8, 16, 32} for job in jobs)
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    assert jobs == generated(until, nodes, seed)


@given(lower=st.floats(0, 1), higher=st.floats(0, 1))
def test_jobs_that_save_with_a_share_save_with_a_higher_one(lower: float, higher: float) -> None:
    jobs = [GANG] * 100
    lower, higher = sorted((lower, higher))
    few, many = saving(jobs, lower), saving(jobs, higher)
    assert all(less.saves <= more.saves for less, more in zip(few, many, strict=True))
    assert saving(jobs, 0.0) == jobs
    assert all(job.saves for job in saving(jobs, 1.0))


def test_a_trace_is_read_in_the_order_of_submission(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "user,submit,duration,gpus,pods,priority,saves\na,60,10,2,1,0,\nb,30.5,20,8,4,5,45\nc,0,0,1,1,0,\n",
        encoding="utf-8",
    )
    assert [job[1:] for job in read(path)] == [(30, 20, 8, 4, 5, 45, 0), (60, 10, 2, 1, 0, 0, 0)]


def test_a_trace_without_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("submit,duration\n0,1\n", encoding="utf-8")
    with pytest.raises(PodiumError, match="gpus"):
        read(path)


def attempt(begin: str | None, end: str | None, *gpus: int) -> dict[str, object]:
    """Return an attempt of Philly's log that used so many GPUs on each machine."""
    machines = [
        {"ip": f"m{at}", "gpus": [f"gpu{own}" for own in range(number)]} for at, number in enumerate(gpus)
    ]
    return {"start_time": begin, "end_time": end, "detail": machines}


def entry(submitted: str | None, *attempts: dict[str, object], vc: str = "a1") -> dict[str, object]:
    """Return a job of Philly's log."""
    return {
        "status": "Pass",
        "vc": vc,
        "jobid": "application_1_1",
        "submitted_time": submitted,
        "attempts": attempts,
    }


LOG = [
    entry(
        "2017-08-09 00:01:00",
        attempt("2017-08-09 00:05:00", "2017-08-09 00:06:00", 8, 4),
        attempt("2017-08-09 00:10:00", "2017-08-09 01:10:00", 6, 6),
    ),
    entry("2017-08-09 00:00:00", attempt("2017-08-09 00:00:10", "2017-08-10 00:00:10", 1), vc="b2"),
    # A job never ran, one runs still, and the log lost the times of two.
    entry("2017-08-09 00:00:00"),
    entry("2017-08-09 00:00:00", attempt("2017-08-09 00:00:10", None, 1)),
    entry("2017-08-09 00:00:00", attempt(None, "2017-08-09 00:00:10", 1)),
    entry("None", attempt("2017-08-09 00:00:10", "2017-08-10 00:00:10", 1)),
]


def test_the_log_of_philly_is_converted() -> None:
    """The attempts of a job are one run, of the most GPUs that one had, in pods of at most a node."""
    single, gang = philly(LOG)
    assert single[1:5] == (0, DAY, 1, 1)
    assert gang[1:5] == (60, 3660, 6, 2)
    assert {single.priority, gang.priority} <= {0, 100, 1_000}


@pytest.mark.parametrize(("clusters", "jobs"), [((), 2), (("b2",), 1), (("b2", "a1"), 2), (("c3",), 0)])
def test_a_converted_log_is_a_file_of_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], clusters: tuple[str, ...], jobs: int
) -> None:
    log, converted = tmp_path / "cluster_job_log", tmp_path / "jobs.csv"
    log.write_text(json.dumps(LOG), encoding="utf-8")
    loads.convert(str(log), *clusters)
    converted.write_text(capsys.readouterr().out, encoding="utf-8")
    own = [line for line in LOG if not clusters or line["vc"] in clusters]
    assert read(converted) == philly(own)
    assert len(philly(own)) == jobs
