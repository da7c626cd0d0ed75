"""JobSets of real pods under JobSet's own controller: one gives way to another as a whole."""

import pytest
from tests.e2e.conftest import Measured
from tests.support.e2e.gangs import HIGH, LOW, GangSpace
from tests.support.e2e.lives import count_running, first_bound, last_ended, lives, preempted
from tests.support.e2e.work import PodWatch, Work
from tests.support.waiting import until

pytestmark = pytest.mark.e2e

# It does not end at SIGTERM, and the kubelet kills it after its grace period.
_LONG = Work(lifetime="30s", linger="60s", grace_seconds=4)


@pytest.mark.usefixtures("jobset_nodes")
def test_a_jobset_gives_way_as_a_whole_and_runs_again(
    space: GangSpace, watch: PodWatch, measured: Measured
) -> None:
    """Four pods on two nodes are evicted for four others, none of which is bound before all have ended.

    The Jobs make their pods again, and no Job fails. The pods wait, and are bound when the others have ended.
    """
    space.jobset("nightly", LOW, _LONG, workers=3)
    until(lambda: count_running(watch, "nightly-jobset") == 4, "nightly runs")
    group = space.group("nightly-jobset")
    assert group["schedulingPolicy"] == {"gang": {"minCount": 4}}
    assert (group["disruptionMode"], group["priorityClassName"]) == ({"all": {}}, LOW)
    victims = lives(watch, "nightly-jobset").keys()
    space.jobset("train", HIGH, Work(lifetime="5s"), workers=3)
    until(lambda: space.jobset_state("train")[0] == "Completed", "train completes")
    train = lives(watch, "train-jobset")
    gone = preempted(watch, "nightly-jobset")
    assert gone.keys() == victims
    assert len(train) == 4
    assert first_bound(train) >= last_ended(gone)
    until(lambda: space.jobset_state("nightly")[0] == "Completed", "nightly completes after train")
    again = {uid: life for uid, life in lives(watch, "nightly-jobset").items() if uid not in victims}
    assert len(again) == 4
    assert first_bound(again) >= last_ended(train)
    assert space.jobset_state("nightly") == ("Completed", 0)
    made = max(life.made for life in again.values())
    measured(
        f"bound {first_bound(train) - last_ended(gone):.1f} s after the last victim ended, "
        f"and again {first_bound(again) - made:.1f} s after the last pod was made"
    )
