"""The simulation is consistent and deterministic."""

from pathlib import Path

import pytest
from bench.simulation import DAY, HOUR, POLICIES, Job, generated, read_trace, simulated

from podium.errors import PodiumError

NODES = 4


GANG = Job("gang", 0, 10 * HOUR, gpus=8, pods=NODES, priority=0)
URGENT = Job("urgent", 6 * HOUR, 1 * HOUR, gpus=8, pods=1, priority=10)


@pytest.mark.parametrize("policy", POLICIES)
def test_all_work_is_useful_or_lost(policy: str) -> None:
    """No node runs more than its capacity, and a second run gives the same figures."""
    jobs = generated(DAY, NODES)
    result = simulated(jobs, NODES, DAY, policy)
    assert 0 < result.lost < result.ran <= result.capacity
    assert simulated(jobs, NODES, DAY, policy) == result


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_that_is_preempted_loses_its_work_and_runs_again(policy: str) -> None:
    result = simulated([GANG, URGENT], NODES, DAY, policy)
    assert (result.lost, result.evicted) == (4 * 8 * 6 * HOUR, {0: 4})
    assert result.ran == (4 * 8 * 6 + 8 * 1 + 4 * 8 * 10) * HOUR
    # It starts again when the urgent job has ended.
    assert result.wait == {0: 1 * HOUR, 10: 0}


def test_work_before_the_last_checkpoint_is_kept() -> None:
    result = simulated([GANG, URGENT], NODES, DAY, "kep", checkpoint=4 * HOUR)
    assert result.lost == 4 * 8 * 2 * HOUR
    assert result.ran == (4 * 8 * 6 + 8 * 1 + 4 * 8 * 6) * HOUR


def test_the_oldest_of_the_highest_priority_comes_first() -> None:
    """All jobs need the whole cluster for an hour, and the one of high priority starts first."""
    jobs = [GANG._replace(name=f"job-{at}", duration=HOUR, priority=at // 2) for at in range(4)]
    result = simulated(jobs, NODES, DAY, "kep")
    assert result.wait == {1: 0.5 * HOUR, 0: 2.5 * HOUR}
    assert result.lost == 0


def test_a_trace_is_read_in_the_order_of_submission(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "user,submit,duration,gpus,pods,priority\na,60,10,2,1,0\nb,30.5,20,8,4,5\nc,0,0,1,1,0\n",
        encoding="utf-8",
    )
    first, second = read_trace(path)
    assert first[1:] == (30, 20, 8, 4, 5)
    assert second[1:] == (60, 10, 2, 1, 0)


def test_a_trace_without_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("submit,duration\n0,1\n", encoding="utf-8")
    with pytest.raises(PodiumError, match="gpus"):
        read_trace(path)


def test_results_of_several_weeks_are_summed_up() -> None:
    first, second = (simulated(generated(DAY, NODES, seed), NODES, DAY, "kep") for seed in (1, 2))
    both = first.plus(second)
    assert (both.ran, both.lost) == (first.ran + second.ran, first.lost + second.lost)
    assert both.evicted == first.evicted + second.evicted
    assert both.jobs == first.jobs + second.jobs
