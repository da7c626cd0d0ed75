"""LeaderWorkerSets of real pods under their own controller: a replica is a gang, preempted as a whole."""

import pytest
from tests.e2e.conftest import Measured
from tests.support.e2e.gangs import HIGH, LOW, GangSpace
from tests.support.e2e.lives import count_running, deleted, first_bound, last_ended, lives, preempted
from tests.support.e2e.work import PodWatch, Work
from tests.support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lws_nodes")]

# It does not end at SIGTERM, and the kubelet kills it after its grace period.
_SERVING = Work(linger="60s", grace_seconds=4)
_GROUPS = ("serve-0-lws", "serve-1-lws")


def test_one_replica_gives_way_as_a_whole_and_runs_again(
    space: GangSpace, watch: PodWatch, measured: Measured
) -> None:
    """A JobSet of two pods takes the room of a replica of two. The other replica goes on.

    The controller makes the replica's pods again. They wait, and are bound when the JobSet has ended.
    """
    space.leaderworkerset("serve", LOW, _SERVING, replicas=2, size=2)
    until(lambda: all(count_running(watch, each) == 2 for each in _GROUPS), "both replicas run")
    before = {each: lives(watch, each).keys() for each in _GROUPS}
    for each in _GROUPS:
        group = space.group(each)
        assert group["schedulingPolicy"] == {"gang": {"minCount": 2}}
        assert (group["disruptionMode"], group["priorityClassName"]) == ({"all": {}}, LOW)
    space.jobset("train", HIGH, Work(lifetime="5s"), workers=1)
    until(lambda: space.jobset_state("train")[0] == "Completed", "train completes")
    train = lives(watch, "train-jobset")
    gone = {each: deleted(watch, each) for each in _GROUPS}
    (replica,) = (each for each, found in gone.items() if found)
    # LeaderWorkerSet may delete the pods that it made in their place, and make them once more.
    victims = {uid: life for uid, life in gone[replica].items() if uid in before[replica]}
    assert victims.keys() == before[replica]
    assert not any(life.marked for life in victims.values())
    assert first_bound(train) >= last_ended(victims)
    until(lambda: count_running(watch, replica) == 2, "the replica runs again")
    again = {uid: life for uid, life in lives(watch, replica).items() if life.runs}
    assert first_bound(again) >= last_ended(train)
    (other,) = set(_GROUPS) - {replica}
    assert lives(watch, other).keys() == before[other]
    assert all(life.runs for life in lives(watch, other).values())
    made = len(lives(watch, replica).keys() - victims.keys())
    measured(
        f"bound {first_bound(train) - last_ended(victims):.1f} s after the last victim, "
        f"again {first_bound(again) - last_ended(train):.1f} s after the last winner; {made} pods made"
    )


def test_a_replica_of_higher_priority_preempts_a_jobset(space: GangSpace, watch: PodWatch) -> None:
    """The replica is bound when the pods on its node have ended, and the JobSet is evicted as a whole.

    The JobSet waits as long as the replica serves, also with room for two of its four pods.
    """
    space.jobset("nightly", LOW, Work(lifetime="20s", linger="60s", grace_seconds=4), workers=3)
    until(lambda: count_running(watch, "nightly-jobset") == 4, "nightly runs")
    victims = lives(watch, "nightly-jobset").keys()
    space.leaderworkerset("serve", HIGH, _SERVING, replicas=1, size=2)
    until(lambda: count_running(watch, "serve-0-lws") == 2, "serve runs")
    serve = lives(watch, "serve-0-lws")
    gone = preempted(watch, "nightly-jobset")
    assert gone.keys() == victims
    nodes = {life.node for life in serve.values()}
    assert first_bound(serve) >= last_ended({uid: life for uid, life in gone.items() if life.node in nodes})
    until(lambda: len(lives(watch, "nightly-jobset")) == 8, "the Jobs make their pods again")
    space.delete_leaderworkerset("serve")
    until(lambda: space.jobset_state("nightly")[0] == "Completed", "nightly completes after serve")
    again = {uid: life for uid, life in lives(watch, "nightly-jobset").items() if uid not in victims}
    assert len(again) == 4
    assert first_bound(again) >= last_ended(lives(watch, "serve-0-lws"))
    assert space.jobset_state("nightly") == ("Completed", 0)
