"""Room that is held for no pod or for too much, and lost entries, in any order of events.

A bind or a preemption in flight holds room. The objects behind it may meanwhile be deleted, recreated or
written by a tenant.
"""

from typing import Any

import msgspec
import pytest
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node
from tests.support.scheduling.objects import begun, gang, running
from tests.support.scheduling.rig import World, pod

from podium.schedulerplugin.scheduling.effects import Bind


def change(world: World, name: str, **metadata: Any) -> None:
    """Change fields of a pod's metadata."""
    stored = world.state.pods[NS, name]
    world.run(msgspec.structs.replace(stored, metadata=msgspec.structs.replace(stored.metadata, **metadata)))


def being_deleted(world: World, name: str) -> None:
    """Delete a pod with a finalizer."""
    change(world, name, deletionTimestamp="2026-01-01T12:00:00Z")


def nominated_by_hand(world: World, name: str, where: str) -> None:
    """Write a pod's status directly."""
    stored = world.state.pods[NS, name]
    status = msgspec.convert({"phase": "Pending", "nominatedNodeName": where}, type(stored.status))
    world.run(msgspec.structs.replace(stored, status=status))


def held_bind(world: World) -> Bind:
    """Run the scheduler until a bind is in flight; return the bind."""
    world.hold_binds = True
    world.run()
    (bind,) = world.held
    assert isinstance(bind, Bind)
    world.held = []
    return bind


def test_nominations_of_another_scheduler_are_not_cleared() -> None:
    """A higher pod of ours may take the room, but clears nothing, and the nomination still counts."""
    foreign = pod("foreign", 1, 0, schedulerName="default-scheduler", status={"nominatedNodeName": "n1"})
    world = begun(node(cpu=1), running("low"), foreign, pod("high", 1, 10))
    (evict,) = world.evictions()
    assert not evict.cleared
    assert world.nominated("foreign") == "n1"


def test_a_divergent_group_keeps_its_reserved_node_at_its_own_priority() -> None:
    """The integers of its pods are ignored."""
    world = World(node(cpu=1), running("old", terminating=True), group("g", 100, 1), gang("g", size=1))
    world.run()
    assert world.nominated("g-0") == "n1"
    world.run(pod("mid", 1, 50))
    world.die("old")
    world.later(20)
    assert world.bound() == {"g-0": "n1"}


def test_a_member_that_is_being_deleted_holds_no_node() -> None:
    """A finalizer keeps the pod, not the room."""
    world = World(
        *(node("n1", 1), node("n2", 1), running("low-1"), running("low-2", "n2")),
        *(group("g", 10, 1), gang("g", size=2, priority=10)),
    )
    world.lingering = True
    world.run()
    assert world.nominated("g-0")
    being_deleted(world, "g-0")
    world.later(30)
    assert not world.nominated("g-0")


def test_a_pod_that_is_deleted_while_its_bind_is_under_way_holds_no_node() -> None:
    """The room reserved for the pod before its bind is not reserved again."""
    world = World(node(cpu=1), running("low"), pod("high", 1, 10))
    bind = held_bind(world)
    being_deleted(world, "high")
    world.hold_binds = False
    world.scheduler.holds.bind_failed(bind.key, *bind.pods[0], settled=True)
    world.run(pod("next", 1, 10))
    world.later(15)
    assert world.bound() == {"next": "n1"}


@pytest.mark.parametrize("requests", [{"cpu": 5}, {"nodeSelector": {"no": "where"}}])
def test_a_nomination_that_a_tenant_writes_holds_no_room(requests: dict[str, Any]) -> None:
    """The scheduler reads the nomination, and withdraws it if the pod does not fit."""
    world = World(node(cpu=1), pod("a", **requests))
    world.run()
    nominated_by_hand(world, "a", "n1")
    world.run(pod("b"))
    world.later(15)
    assert (world.bound(), world.nominated("a")) == ({"b": "n1"}, "")


FIRST: dict[str, tuple[list[Any], set[str]]] = {
    "a lone pod": ([pod("a")], {"a"}),
    "one that has preempted": ([running("low", cpu=2), pod("a", 1, 10)], {"a"}),
    "a gang": ([group("g", 10, 2), gang("g", size=2, priority=10)], {"g-0", "g-1"}),
}


def test_a_bind_that_was_overtaken_takes_nothing_back() -> None:
    """Its node is removed, another is added, and only then the first bind fails: until then none is sent."""
    world = World(node("n1", 1), node("n2", 0), pod("a"))
    first = held_bind(world)
    world.state.remove(world.state.nodes["n1"])
    world.run(node("n2", 1))
    change(world, "a", labels={"x": "y"})
    world.later(15)
    assert not world.held
    world.scheduler.holds.bind_failed(first.key, *first.pods[0], settled=False)
    world.hold_binds = False
    world.run(pod("b"))
    assert world.bound() == {"a": "n2"}
    assert not world.overcommitted()


@pytest.mark.parametrize("ends", ["well", "badly"])
@pytest.mark.parametrize("first", ["a lone pod", "a gang"])
def test_a_node_that_went_and_came_holds_the_room_of_a_bind_whatever_was_tried_between(
    first: str, ends: str
) -> None:
    """A pod whose bind may still succeed is not bound to another node; its first node would count as free."""
    objects, names = FIRST[first]
    world = World(node("n1", 1), node("n2", len(names) - 1), node("n3", 0), objects)
    bind = held_bind(world)
    lost = [each for each in bind.pods if each[1] == "n1"]
    world.state.remove(world.state.nodes["n1"])
    world._bind(bind._replace(pods=tuple(each for each in bind.pods if each not in lost)), "")
    world.run(node("n3", 1))
    change(world, lost[0][0].name, labels={"x": "y"})
    world.later(15)
    again = world.held
    world.hold_binds = False
    world.run(node("n1", 1), pod("b"))
    world._bind(bind._replace(pods=tuple(lost)), "500" if ends == "badly" else "")
    for each in again:
        assert isinstance(each, Bind)
        world.scheduler.holds.bind_failed(each.key, *each.pods[0], settled=True)
    world.later(400)
    assert not world.overcommitted()
    assert world.bound().keys() == {*names, "b"}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("ends", ["well", "badly", "unknown"])
def test_a_recreated_node_keeps_room_for_binds_to_its_name(ends: str, first: str) -> None:
    """A bind in flight succeeds whatever happens to the node, so it counts on the node of that name."""
    objects, names = FIRST[first]
    world = World(node("n1", 2), objects)
    bind = held_bind(world)
    world.state.remove(world.state.nodes["n1"])
    world.run()
    world.run(node("n1", len(names)), pod("b"))
    world.later(15)
    assert not world.held
    world.hold_binds = False
    if ends == "unknown":
        for ref, where in bind.pods:
            world.scheduler.holds.bind_failed(bind.key, ref, where, settled=False)
    world._bind(bind, "500" if ends == "badly" else "")
    world.later(400)
    assert not world.overcommitted()
    assert world.bound().keys() == names


def test_of_a_gang_one_bind_fails_before_another_succeeds() -> None:
    """The member whose bind failed is tried again."""
    world = World(node(cpu=2), group("g", 0, 2), gang("g", size=2))
    bind = held_bind(world)
    world.scheduler.holds.bind_failed(bind.key, *bind.pods[0], settled=False)
    world.hold_binds = False
    world._bind(bind._replace(pods=bind.pods[1:]), "")
    world.later(20)
    assert sorted(world.bound()) == ["g-0", "g-1"]


def test_a_pod_is_recreated_right_after_its_bind_failed() -> None:
    """The state of the first pod no longer counts, and no other pod is lost for it."""
    world = World(node(cpu=2), pod("a"))
    bind = held_bind(world)
    world.hold_binds = False
    world.scheduler.holds.bind_failed(bind.key, *bind.pods[0], settled=False)
    world.die("a")
    world.run()
    world.run(pod("a", uid="other"), pod("b"))
    world.later(20)
    assert sorted(world.bound()) == ["a", "b"]


def test_a_victims_group_that_loses_priority_wakes_waiting_entries() -> None:
    """A changed class has this effect."""
    world = World(node(cpu=1), group("v", 20, 1), running("v-0", priority=20, group="v"), pod("high", 1, 10))
    world.run()
    assert not world.evictions()
    world.run(group("v", 0, 1))
    world.later(15)
    assert world.evicted() == ["v-0"]
