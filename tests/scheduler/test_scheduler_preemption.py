"""A preemption in its course: what may happen while its victims are told, and while they die.

Of KEP-4832's races four are here with their names in the KEP.
"""

import pytest
from tests.preemption.scene import node
from tests.scheduler.objects import running
from tests.scheduler.rig import World, pod

from podium.schedulerplugin.scheduling.effects import Evict


def test_a_nominated_preemptor_waits_while_its_victims_die() -> None:
    """No new preemption begins, however often it is looked at, and it lands when they are gone."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.lingering = True
    world.run()
    world.later(600)
    assert (world.evicted(), world.nominated("high")) == (["low"], "n1")
    world.die("low")
    world.run()
    assert world.bound() == {"high": "n1"}


def test_a_better_place_may_be_taken_while_victims_die() -> None:
    """A node that comes meanwhile is taken, and the reservation ends."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.lingering = True
    world.run()
    world.run(node("n2", 1))
    world.later(60)
    assert world.bound() == {"low": "n1", "high": "n2"}
    assert len(world.evictions()) == 1


def test_planning_starts_afresh_when_the_nomination_is_of_no_use() -> None:
    """The reserved node goes; what terminates elsewhere still counts, and only what is lacking is evicted."""
    world = World(
        node("n1", 1),
        node("n2", 1),
        running("low-1", "n1"),
        running("low-2", "n2", priority=1),
        pod("high", 1, 10),
    )
    world.lingering = True
    world.run()
    assert world.nominated("high") == "n1"
    world.state.remove(world.state.nodes["n1"])
    world.run()
    world.later(60)
    assert world.evicted() == ["low-1", "low-2"]
    assert world.nominated("high") == "n2"


def test_a_failed_preemption_gives_everything_back() -> None:
    """The nomination ends, the victims count as running, and the preemptor tries again after a while."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    assert world.nominated("high") == "n1"
    world.release(failed="the server said no")
    assert (world.nominated("high"), world.bound()) == ("", {"low": "n1"})
    assert world.message("high").endswith("preemption: the server said no")
    world.later(20)
    assert world.bound() == {"high": "n1"}


def test_the_preemptor_is_gated_while_its_victims_are_told() -> None:
    """However much happens meanwhile, it is not looked at before that has ended."""
    world = World(node("n1", 1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.run(node("n2", 1))
    assert world.bound() == {"low": "n1"}
    world.release()
    assert world.bound()["high"] in ("n1", "n2")


def test_a_victim_that_is_gone_already_frees_its_room_at_once() -> None:
    """The end of the task finds nothing to wait for."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.die("low")
    world.run()
    assert world.bound() == {}
    world.release()
    assert world.bound() == {"high": "n1"}


@pytest.mark.parametrize("other", [5, 10])
def test_the_pod2s_scheduling_is_successful_pod2_is_equal_or_lower_priority_than_pod1(other: int) -> None:
    """A pod of no higher priority does not take the room that is being made for pod1."""
    world = World(node("n1", 1), running("low", "n1"), pod("pod1", 1, 10))
    world.hold_evictions = True
    world.run()
    held = world.held[0]
    assert isinstance(held, Evict)
    world.die("low")
    world.run(pod("pod2", 1, other))
    assert "pod2" not in world.bound()
    world.release()
    assert world.bound() == {"pod1": "n1"}


def test_the_pod2s_scheduling_is_successful_pod2_is_higher_priority_than_pod1() -> None:
    """A pod of higher priority may take it, and pod1 looks anew."""
    world = World(
        node("n1", 1), node("n2", 1), running("low", "n1"), running("same", "n2", 1, 10), pod("pod1", 1, 10)
    )
    world.hold_evictions = True
    world.run()
    world.die("low")
    world.run(pod("pod2", 1, 20))
    assert world.bound()["pod2"] == "n1"
    world.release()
    world.later(60)
    assert "pod1" not in world.bound()
    assert world.evicted() == ["low"]


@pytest.mark.parametrize("other", [5, 10])
def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_equal_or_lower(other: int) -> None:
    """Its plan counts pod1 where that is nominated: room is made for both."""
    world = World(node("n1", 2), running("low-1", "n1"), running("low-2", "n1"), pod("pod1", 1, 10))
    world.hold_evictions = True
    world.run()
    world.run(pod("pod2", 1, other))
    assert len(world.evictions()) == 2
    assert sorted(world.evicted()) == ["low-1", "low-2"]
    world.release()
    assert world.bound() == {"pod1": "n1", "pod2": "n1"}


def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_higher_priority() -> None:
    """It ignores pod1's nomination; nobody is told to go twice, and pod1 looks elsewhere."""
    world = World(
        node("n1", 1),
        node("n2", 1),
        running("low-1", "n1"),
        running("low-2", "n2", priority=1),
        pod("pod1", 1, 10),
    )
    world.lingering = True
    world.run()
    world.run(pod("pod2", 1, 20))
    world.later(60)
    assert sorted(world.evicted()) == ["low-1", "low-2"]
    world.die("low-1", "low-2")
    world.later(60)
    assert sorted(world.bound()) == ["pod1", "pod2"]
