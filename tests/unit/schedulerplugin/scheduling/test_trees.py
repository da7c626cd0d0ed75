"""A tree of composite groups in the scheduling loop: one entry, which may change its root."""

from typing import Any

import pytest
from tests.support.preemption.scene import composite, group, node, tree_of
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.rig import World
from tests.support.scheduling.rig import pod as ours

from podium.groups.trees import MAX_GROUPS
from podium.schedulerplugin.scheduling.effects import ReportPending, entry_name, entry_of
from podium.schedulerplugin.scheduling.entry import EntryPhase

SOON = 11.0
RACK = "rack"
ENTRIES = [
    (tree_of("a"), "compositepodgroup.scheduling.k8s.io/team-a/a"),
    (tree_of("a", native=False), "compositepodgroup.scheduling.podium.dev/team-a/a"),
]


def leaf(name: str, parent: str = "tree", least: int = 1, **fields: Any) -> Any:
    """Make a group of a tree of priority 10."""
    return group(name, 10, least, composite=parent, **fields)


def members(name: str, size: int, cpu: int = 2) -> list[Any]:
    """Make pending members of a group of the tree."""
    return gang(name, size=size, cpu=cpu, priority=10)


PAIR = [leaf("x", least=2), leaf("y", least=2), *members("x", 2), *members("y", 2)]


@pytest.mark.parametrize(("key", "name"), ENTRIES)
def test_the_name_of_an_entry_is_that_of_its_root(key: Any, name: str) -> None:
    assert (entry_name(key), entry_of(name)) == (name, key)


def test_a_tree_is_bound_as_one() -> None:
    world = World(node("n1"), node("n2"), composite("tree", 10, 2), PAIR)
    world.run()
    assert set(world.bound()) == {"x-0", "x-1", "y-0", "y-1"}
    assert world.scheduler.queue.phase_of(tree_of("tree")) is EntryPhase.NONE


def test_nothing_of_a_tree_is_bound_while_one_group_does_not_fit() -> None:
    world = World(node("n1"), composite("tree", 10, 2), PAIR)
    world.run()
    assert world.bound() == {}
    report = next(each for each in world.effects if isinstance(each, ReportPending))
    assert (report.key, len(report.pods)) == (tree_of("tree"), 4)
    world.apply(node("n2"))
    world.later(SOON)
    assert len(world.bound()) == 4


def test_a_tree_waits_for_enough_ready_groups() -> None:
    world = World(node("n1"), node("n2"), composite("tree", 10, 2), leaf("x", least=2), members("x", 2))
    world.run()
    assert world.bound() == {}
    waits = "waiting for minGroupCount child groups: 1 of 1 are ready, minGroupCount is 2"
    assert world.message("x-0") == waits
    world.run(leaf("y", least=2), members("y", 2))
    assert len(world.bound()) == 4


def test_a_root_that_comes_later_takes_the_groups_of_its_children() -> None:
    """The groups wait for the inner group, then for the root, each time as one entry."""
    world = World(node("n1"), node("n2"), [leaf("x", "inner", 2), *members("x", 2)])
    world.run()
    assert world.scheduler.queue.phase_of(tree_of("inner")) is EntryPhase.GATED
    world.run(composite("inner", 10, 1, parent="tree"))
    assert world.scheduler.queue.phase_of(tree_of("inner")) is EntryPhase.NONE
    assert world.scheduler.queue.phase_of(tree_of("tree")) is EntryPhase.GATED
    world.run(composite("tree", 10, 1))
    assert set(world.bound()) == {"x-0", "x-1"}


def test_a_tree_without_its_root_waits_again() -> None:
    world = World(node("n1"), composite("tree", 10, 2), PAIR)
    world.run()
    world.state.remove(composite("tree", 10, 2))
    world.apply(node("n2"))
    world.later(SOON)
    assert world.bound() == {}
    assert world.message("x-0") == "waiting for the composite group team-a/tree, which does not exist"


def test_groups_that_nest_too_deep_are_not_scheduled() -> None:
    chain = [composite("c0", 10, 1), *(composite(f"c{at}", 10, 1, parent=f"c{at - 1}") for at in range(1, 4))]
    world = World(node("n1"), chain, leaf("x", "c3"), members("x", 1), leaf("y", "c2"), members("y", 1))
    world.run()
    assert world.bound() == {"y-0": "n1"}
    assert world.message("x-0") == "its composite groups nest in more than 4 levels, or in a cycle"


def test_groups_of_a_cycle_are_not_scheduled() -> None:
    ring = [composite("a", 10, 1, parent="b"), composite("b", 10, 1, parent="a")]
    world = World(node("n1"), ring, leaf("x", "a"), members("x", 1))
    world.run()
    assert world.bound() == {}
    assert world.message("x-0") == "its composite groups nest in more than 4 levels, or in a cycle"


def test_one_preemption_clears_the_room_of_a_whole_tree() -> None:
    low = [running(f"low{at}", f"n{at}", 4, 1) for at in (1, 2)]
    world = World(node("n1"), node("n2"), low, composite("tree", 10, 2), PAIR)
    world.run()
    (evict,) = world.evictions()
    assert (evict.key, evict.preemptor.kind) == (tree_of("tree"), "compositepodgroup")
    assert sorted(world.evicted()) == ["low1", "low2"]
    world.later(SOON)
    assert {name for name in world.bound() if name[0] in "xy"} == {"x-0", "x-1", "y-0", "y-1"}


def test_a_tree_of_mode_all_is_evicted_as_one() -> None:
    """The pods of both groups go, on any node, though the room of one is enough."""
    low = [
        composite("low", 1, 2, whole=True),
        *(group(name, 1, 1, composite="low") for name in ("a", "b")),
        *(running(f"{name}-0", where, 4, 1, group=name) for name, where in (("a", "n1"), ("b", "n2"))),
    ]
    world = World(
        node("n1"), node("n2"), low, composite("tree", 10, 1), leaf("x", least=1), members("x", 1, 4)
    )
    world.run()
    (evict,) = world.evictions()
    assert [(unit.kind, unit.name, unit.uid, len(unit.pods)) for unit in evict.units] == [
        ("CompositePodGroup", "low", "low", 2)
    ]
    world.later(SOON)
    assert sorted(world.evicted()) == ["a-0", "b-0"]
    assert world.bound()["x-0"] in ("n1", "n2")


def test_a_bind_in_flight_protects_the_whole_tree() -> None:
    """A preemptor waits for it, and preempts once the bind has ended."""
    world = World(node("n1"), composite("low", 1, 1, whole=True), group("a", 1, 1, composite="low"))
    world.hold_binds = True
    world.run(gang("a", size=1, cpu=4, priority=1))
    world.run(ours("high", 4, 10))
    assert world.evictions() == []
    world.hold_binds = False
    world.release()
    world.later(SOON)
    assert world.bound()["high"] == "n1"


def test_a_new_leader_resumes_the_preemption_of_a_tree() -> None:
    low = [running(f"low{at}", f"n{at}", 4, 1) for at in (1, 2)]
    world = World(node("n1"), node("n2"), low, composite("tree", 10, 2), PAIR)
    world.run()
    assert len(world.evictions()) == 1
    world.restart()
    world.later(SOON)
    assert {name for name in world.bound() if name[0] in "xy"} == {"x-0", "x-1", "y-0", "y-1"}


def test_late_members_stay_in_the_rack_of_the_tree() -> None:
    racks = [node(f"{rack}-{at}", labels={RACK: rack}) for rack in "ab" for at in (0, 1)]
    tree = [composite("tree", 10, topology=RACK), leaf("x", least=1), leaf("y", least=1)]
    world = World(racks, tree, running("x-0", "b-0", 2, 10, group="x"))
    world.run(ours("y-0", 2, 10, group="y"))
    assert world.bound()["y-0"].startswith("b")


def test_satisfied_groups_of_a_tree() -> None:
    """The conditions of groups that are not satisfied stay as they are."""
    tree = [composite("tree", 10, 1), leaf("x", least=1), leaf("y", least=4)]
    world = World(node("n1"), tree, members("x", 1), members("y", 4))
    world.run()
    found = world.scheduler.entries.satisfied(tree_of("tree"))
    assert sorted(key.name for key in found) == ["tree", "x"]
    world.die("x-0")
    assert world.scheduler.entries.satisfied(tree_of("tree")) == []


@pytest.mark.parametrize("leaves", [MAX_GROUPS - 1, MAX_GROUPS])
def test_a_tree_with_too_many_groups_is_not_placed(leaves: int) -> None:
    """The pods of the root get the reason, and one group less than that is placed."""
    more = [leaf(f"g{at}") for at in range(leaves - 1)]
    world = World(node("n1"), composite("tree", 10, 1), leaf("x"), more, members("x", 1))
    world.run()
    too_large = leaves == MAX_GROUPS
    assert set(world.bound()) == (set() if too_large else {"x-0"})
    assert world.message("x-0") == ("its tree has more than 657 groups" if too_large else "")
    if too_large:
        world.state.remove(more[0])
        world.run()
        assert set(world.bound()) == {"x-0"}
