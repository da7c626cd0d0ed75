"""Preemptors that wait for pods which leave too late, or never."""

import msgspec
from tests.support.preemption.clusters import NS, SECONDS, time_of
from tests.support.preemption.scene import node
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World, pod

from podium.planner.preemption.inflight import LATE_SECONDS, LONGEST_GRACE_SECONDS

YEARS = 315_360_000


def deleted(world: World, name: str, grace: int) -> None:
    """Delete a pod as its owner does at the start of the clock."""
    found = world.state.pods[NS, name]
    metadata = msgspec.structs.replace(
        found.metadata, deletionTimestamp=time_of(SECONDS + grace), deletionGracePeriodSeconds=grace
    )
    world.state.apply(msgspec.structs.replace(found, metadata=metadata))


def world_with(grace: int) -> World:
    """Return a cluster whose n1 is being freed, for a preemptor that could evict on n2."""
    world = World(node("n1", 1), node("n2", 1), running("going", "n1"), running("low", "n2"))
    deleted(world, "going", grace)
    world.run(pod("high", 1, 10))
    return world


def test_a_preemptor_waits_for_a_pod_that_leaves_until_its_time_and_a_minute_are_over() -> None:
    """Then, without any change in the cluster, it evicts elsewhere."""
    world = world_with(30)
    world.later(30 + LATE_SECONDS - 1)
    assert (world.evicted(), world.nominated("high")) == ([], "n1")
    world.later(1)
    assert world.evicted() == ["low"]
    assert world.bound() == {"going": "n1", "high": "n2"}


def test_the_longest_grace_period_holds_a_preemptor_for_minutes() -> None:
    world = world_with(LONGEST_GRACE_SECONDS)
    world.later(LONGEST_GRACE_SECONDS + LATE_SECONDS - 1)
    assert (world.evicted(), world.nominated("high")) == ([], "n1")
    world.later(1)
    assert world.evicted() == ["low"]


def test_a_grace_period_of_years_holds_no_preemptor() -> None:
    world = world_with(YEARS)
    assert world.evicted() == ["low"]
    assert world.bound() == {"going": "n1", "high": "n2"}


def test_no_pod_is_evicted_for_room_that_a_terminating_pod_frees_in_time() -> None:
    world = world_with(30)
    world.later(80)
    world.die("going")
    world.later(600)
    assert world.evicted() == []
    assert world.bound() == {"low": "n2", "high": "n1"}


def test_a_victim_of_ones_own_that_does_not_leave_is_given_up() -> None:
    """Preemptions follow one another: the scheduler waits for each."""
    world = World(node("n1", 1), node("n2", 1), running("low-1", "n1"), running("low-2", "n2"))
    world.lingering, world.grace = True, YEARS
    world.run(pod("high", 1, 10))
    world.later(LONGEST_GRACE_SECONDS)
    assert world.evicted() == ["low-1"]
    world.later(2 * LONGEST_GRACE_SECONDS)
    assert world.evicted() == ["low-1", "low-2"]
    world.die("low-2")
    world.run()
    assert world.bound() == {"low-1": "n1", "high": "n2"}


def test_room_that_is_taken_again_is_free_when_the_pod_goes() -> None:
    """With no other pod to evict, the preemptor is woken."""
    world = World(node("n1", 1), running("going", "n1"))
    deleted(world, "going", 30)
    world.run(pod("high", 1, 10))
    world.later(600)
    assert (world.evicted(), world.bound()) == ([], {"going": "n1"})
    world.die("going")
    world.later(20)
    assert world.bound() == {"high": "n1"}
