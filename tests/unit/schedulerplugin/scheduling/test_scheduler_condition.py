"""The condition PodsNotMatchingPriority in the loop: it forbids preemption, and permits none."""

from typing import Any

import pytest
from tests.support.preemption.scene import group, node
from tests.support.scheduling.rig import World, pod

from podium.api.groups import PodGroup
from podium.api.meta import Condition
from podium.schedulerplugin.scheduling.effects import Disagreed


def told(status: str, reason: str = "", **fields: Any) -> PodGroup:
    """Make a group of priority 10 with the condition; empty for no status."""
    condition = Condition("PodsNotMatchingPriority", status, reason)
    return group("g", 10, 1, conditions=(condition,) if status else (), **fields)


def full() -> World:
    """Return a world whose only node is full of a pod of priority 0."""
    return World(node("n1", 1), pod("low", 1, node="n1"))


@pytest.mark.parametrize("status, reason", [("True", "PriorityMismatch"), ("Unknown", "GroupUnresolved")])
def test_it_withholds_preemption_until_it_is_gone(status: str, reason: str) -> None:
    """The condition applies from the moment it is seen; the pods have the group's priority all the time."""
    world = full()
    world.run(told(status, reason), pod("g-0", 1, 10, group="g"))
    world.later(60)
    assert world.evicted() == []
    assert f"its condition PodsNotMatchingPriority is {status}" in world.message("g-0")
    world.run(told("False", "PrioritiesMatch"))
    assert world.evicted() == ["low"]


def test_it_stops_a_preemption_before_the_first_delete() -> None:
    """The plan is made and the announcements are in flight when the condition arrives."""
    world = full()
    world.hold_evictions = True
    world.run(told(""), pod("g-0", 1, 10, group="g"))
    assert len(world.evictions()) == 1
    world.run(told("True"))
    world.release()
    world.later(60)
    assert "low" in world.bound()


@pytest.mark.parametrize("status", ["", "False", "Unknown"])
def test_it_grants_nothing(status: str) -> None:
    """The pods of the group have another priority than the group."""
    world = full()
    world.run(told(status), pod("g-0", 1, 5, group="g"))
    world.later(60)
    assert world.evicted() == []


def test_free_room_is_taken_under_it() -> None:
    world = World(node("n1", 1))
    world.run(told("True"), pod("g-0", 1, 10, group="g"))
    assert world.bound() == {"g-0": "n1"}


def test_each_disagreement_is_reported_once() -> None:
    """The next report comes after the condition and the pods have agreed again."""
    world = full()
    world.run(told("True"), pod("g-0", 1, 10, group="g"))
    world.run(told("True", annotations={"any": "change"}))
    world.later(310)
    world.run(told("False"))
    world.die("g-0")
    world.run(pod("g-1", 1, 5, group="g"))
    found = [each.condition for each in world.effects if isinstance(each, Disagreed)]
    assert found == ["True", "False"]
