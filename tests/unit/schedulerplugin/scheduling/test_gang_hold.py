"""A waiting gang holds free room for a bounded time; pods of its priority wait, higher ones do not."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.support.preemption.clusters import NS, SECONDS, time_of
from tests.support.preemption.scene import group, node, priority_class
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.rig import World, pod

from podium.api.membership import GroupKey
from podium.planner.semantics import Semantics
from podium.planner.settings import PreemptionMode, Settings
from podium.schedulerplugin.scheduling.effects import ReportPending
from podium.schedulerplugin.scheduling.holds import HoldEnd

HOLD = 600
GANG = GroupKey(True, NS, "big")


def full(nodes: int = 3, *, hold: int = HOLD, priority: int = 5, **settings: Any) -> World:
    """Make nodes of 1 cpu, full of pods of priority 5, and a waiting gang with one pod a node."""
    world = World(
        [node(f"n{at}", 1) for at in range(nodes)],
        [running(f"small-{at}", f"n{at}", 1, 5) for at in range(nodes)],
        gang_hold_seconds=hold,
        **settings,
    )
    world.run(group("big", priority, nodes), gang("big", size=nodes, priority=priority))
    return world


def held(world: World, size: int = 3, name: str = "big") -> list[str]:
    """Return the nodes that members of a gang hold."""
    return sorted(filter(None, (world.nominated(f"{name}-{at}") for at in range(size))))


@pytest.mark.parametrize(("hold", "bound"), [(0, False), (HOLD, True)])
def test_a_stream_of_small_pods_starves_a_gang_that_holds_nothing(hold: int, *, bound: bool) -> None:
    """As each small pod ends, the next one is waiting already."""
    world = full(hold=hold)
    for round_ in range(9):
        at = round_ % 3
        world.apply(pod(f"next-{round_}", 1, 5))
        if f"small-{at}" in world.bound():
            world.die(f"small-{at}")
        world.later(20)
        if "big-0" in world.bound():
            break
    assert ("big-0" in world.bound()) is bound
    assert world.scheduler.holds.ended == ({HoldEnd.SCHEDULED: 1} if bound else {})


def test_the_hold_grows_node_by_node_and_nothing_of_it_is_written() -> None:
    world = full()
    for at, nodes in enumerate((["n0"], ["n0", "n1"])):
        world.die(f"small-{at}")
        world.run()
        assert held(world) == nodes
    assert world.message("big-0").endswith(
        "This gang holds room as it comes free, until 2026-01-01T12:10:00Z (gangHoldSeconds)."
    )
    assert all(not each.nominated for each in world.effects if isinstance(each, ReportPending))


def test_an_entry_of_higher_priority_takes_the_held_room_at_once() -> None:
    world = full()
    world.die("small-0", "small-1")
    world.run()
    world.run(pod("high", 1, 6))
    assert world.bound()["high"] in ("n0", "n1")
    assert held(world) == sorted({"n0", "n1"} - {world.bound()["high"]})


@pytest.mark.parametrize("priority", [5, 4])
def test_an_entry_of_no_higher_priority_waits_and_says_why(priority: int) -> None:
    world = full()
    world.die("small-0")
    world.run(pod("late", 1, priority))
    assert "late" not in world.bound()
    message = "A waiting gang holds some of the free room until 2026-01-01T12:10:00Z."
    assert world.message("late").endswith(message)


def test_a_hold_that_runs_out_gives_the_room_back_and_pauses() -> None:
    """The small pod takes the room, and for the length of the hold no gang holds any."""
    world = full()
    world.die("small-0")
    world.run(pod("late", 1, 5))
    world.later(HOLD)
    assert world.bound()["late"] == "n0"
    assert world.scheduler.holds.ended == {HoldEnd.TIMED_OUT: 1}
    assert "holds room" not in world.message("big-0")
    world.run(group("other", 5, 2), gang("other", size=2, priority=5))
    world.die("small-1")
    world.later(HOLD - 1)
    assert (held(world), held(world, 2, "other")) == ([], [])
    world.run(pod("last", 1, 5))
    assert world.bound()["last"] == "n1"
    world.later(1)
    world.die("small-2")
    world.run()
    assert (held(world), held(world, 2, "other")) == ([], ["n2"])


def test_a_gang_pauses_longer_after_each_expired_hold() -> None:
    world = full()
    begun = [0.0]
    world.die("small-0")
    for _ in range(80):
        before = world.scheduler.holds.holder
        world.later(HOLD / 4)
        if before is None and world.scheduler.holds.holder is not None:
            begun.append(world.seconds)
    pauses = [(later - sooner) / HOLD for sooner, later in pairwise(begun)]
    assert [round(pause) for pause in pauses] == [3, 5, 9]


# The kinds of entries that never hold room.
NEVER: dict[str, dict[str, Any]] = {
    "without the setting": {"hold": 0},
    "by kube-scheduler's rules": {"engine": Settings(semantics=Semantics.V1_37)},
}


@pytest.mark.parametrize("settings", NEVER.values(), ids=list(NEVER))
def test_no_gang_holds(settings: dict[str, Any]) -> None:
    world = full(**settings)
    world.die("small-0")
    world.run()
    assert (world.scheduler.holds.holder, held(world)) == (None, [])


def test_a_gang_that_would_not_fit_on_empty_nodes_never_holds() -> None:
    world = full()
    world.run(group("huge", 7, 4), gang("huge", size=4, priority=7))
    world.die("small-0")
    world.later(3 * HOLD)
    assert held(world, 4, "huge") == []


def test_a_lone_pod_and_a_gang_that_needs_one_pod_hold_nothing() -> None:
    world = World(node("n0", 1), running("small", "n0", 1, 5), gang_hold_seconds=HOLD)
    world.run(pod("lone", 1, 5), group("one", 5, 1), gang("one", size=1, priority=5))
    assert world.scheduler.holds.holder is None


def test_one_gang_holds_at_a_time_and_a_higher_one_takes_the_rest_of_the_time() -> None:
    world = full()
    world.later(HOLD / 2)
    world.run(group("equal", 5, 2), gang("equal", size=2, priority=5))
    world.die("small-0")
    world.run()
    assert (held(world), held(world, 2, "equal")) == (["n0"], [])
    world.run(group("higher", 6, 3), gang("higher", size=3, priority=6, preemptionPolicy="Never"))
    assert (held(world), held(world, 3, "higher")) == ([], ["n0"])
    world.later(HOLD / 2)
    assert held(world, 3, "higher") == []


def test_no_pod_goes_for_an_entry_that_would_fit_but_for_the_hold() -> None:
    """It waits; without the hold it is bound, and with no room at all it preempts."""
    world = World(
        [node(f"n{at}", 1) for at in range(4)],
        [running(f"small-{at}", f"n{at}", 1, 5) for at in range(3)],
        running("low", "n3", 1, 0, preemptionPolicy="Never"),
        gang_hold_seconds=HOLD,
    )
    never = gang("big", size=3, priority=5, preemptionPolicy="Never")
    world.run(group("big", 5, 3), never)
    world.die("small-0")
    world.run(pod("late", 1, 5))
    assert (world.evicted(), held(world)) == ([], ["n0"])
    assert "no pod is evicted: the room is free, and a waiting gang holds it until" in world.message("late")
    world.run(pod("next", 2, 5))
    world.later(HOLD)
    assert (world.evicted(), world.bound()["late"]) == ([], "n0")
    world.run(pod("last", 1, 5))
    assert world.evicted() == ["low"]


def test_room_that_another_scheduler_takes_is_held_no_more() -> None:
    world = full()
    world.die("small-0")
    world.run()
    world.run(pod("foreign", 1, 5, node="n0", schedulerName="default-scheduler"))
    assert held(world) == []
    world.die("small-1")
    world.run()
    assert held(world) == ["n1"]


def leave(world: World, name: str) -> None:
    """Delete a pod with a grace period of 30 s."""
    found = world.state.pods[NS, name]
    metadata = msgspec.structs.replace(
        found.metadata, deletionTimestamp=time_of(SECONDS + 30), deletionGracePeriodSeconds=30
    )
    world.apply(msgspec.structs.replace(found, metadata=metadata))
    world.run()


@pytest.mark.parametrize("priority", [5, 4])
def test_room_that_a_terminating_pod_will_free_is_for_the_gang(priority: int) -> None:
    """Otherwise a small pod would reserve the room while each pod terminates."""
    world = full()
    world.run(pod("late", 1, priority))
    for at in range(3):
        leave(world, f"small-{at}")
        assert world.nominated("late") == ""
        if at < 2:
            assert "A waiting gang holds some of the free room" in world.message("late")
            world.die(f"small-{at}")
            world.run()
    assert held(world) == ["n0", "n1", "n2"]
    assert world.scheduler.holds.ended == {HoldEnd.SCHEDULED: 1}
    world.die("small-2")
    world.run()
    assert sorted(world.bound()) == ["big-0", "big-1", "big-2"]


def test_a_preemptor_keeps_the_room_of_its_victims() -> None:
    """It preempted before the gang held room; another attempt while the victim terminates changes nothing."""
    world = World(
        [node(f"n{at}", 1) for at in range(4)],
        [running(f"small-{at}", f"n{at}", 1, 5) for at in range(3)],
        running("low", "n3", 1, 0),
        gang_hold_seconds=HOLD,
    )
    world.lingering = True
    world.run(pod("first", 1, 5))
    assert (world.evicted(), world.nominated("first")) == (["low"], "n3")
    never = gang("big", size=3, priority=5, preemptionPolicy="Never")
    world.run(group("big", 5, 3), never)
    assert world.scheduler.holds.holder == GANG
    world.scheduler.switched()
    world.run()
    assert world.nominated("first") == "n3"
    world.die("low")
    world.run()
    assert world.bound()["first"] == "n3"


def test_a_node_that_comes_is_held() -> None:
    world = full()
    world.run(node("new", 1))
    assert held(world) == ["new"]


@pytest.mark.parametrize("how", ["deleted", "gated", "switched off", "another leader"])
def test_the_room_is_given_back(how: str) -> None:
    world = full()
    world.die("small-0")
    world.run(pod("late", 1, 5))
    assert held(world) == ["n0"]
    if how == "deleted":
        world.die(*(f"big-{at}" for at in range(3)))
    elif how == "gated":
        world.die("big-0")
    elif how == "switched off":
        world.live = world.live._replace(gang_hold_seconds=0)
        world.scheduler.switched()
    else:
        world.live = world.live._replace(gang_hold_seconds=0)
        world.restart()
    world.later(20)
    assert world.bound()["late"] == "n0"


@pytest.mark.parametrize("mode", [PreemptionMode.OFF, PreemptionMode.OBSERVE])
def test_a_gang_with_an_observed_preemption_holds_room(mode: PreemptionMode) -> None:
    world = full(priority=7, mode=mode)
    world.die("small-0")
    world.run()
    assert held(world) == ["n0"]
    assert world.evicted() == []


def test_a_gang_that_preempts_holds_nothing() -> None:
    world = full(priority=7)
    assert world.scheduler.holds.holder is None
    assert sorted(world.bound()) == ["big-0", "big-1", "big-2"]


def test_a_hold_ends_when_its_gang_may_preempt_after_all() -> None:
    world = full(mode=PreemptionMode.OFF, priority=7)
    world.die("small-0")
    world.run(priority_class("gold", 7))
    world.live = world.live._replace(mode=PreemptionMode.ENFORCE)
    world.scheduler.switched()
    world.later(20)
    assert sorted(world.bound()) == ["big-0", "big-1", "big-2"]
    assert sorted(world.evicted()) == ["small-1", "small-2"]


def test_a_plan_that_is_not_carried_out_leaves_the_hold_alone() -> None:
    """If the hold ended, the higher pod would wake up and plan again, for ever at one instant."""
    world = full(mode=PreemptionMode.OFF)
    world.run(node("wide", 2), running("small", "wide", 1, 5))
    assert held(world) == ["wide"]
    world.run(pod("high", 2, 9))
    assert (held(world), "high" in world.bound()) == (["wide"], False)


def test_no_write_clears_what_a_gang_held() -> None:
    """A preemptor of higher priority takes the node, whose nomination the API server never received."""
    world = World(
        [node(f"n{at}", 2) for at in range(2)],
        *(running("low", "n0", 1, 0), running("small-1", "n1", 2, 5)),
        gang_hold_seconds=HOLD,
    )
    world.run(group("big", 5, 3), gang("big", size=3, priority=5, preemptionPolicy="Never"))
    assert held(world) == ["n0"]
    world.run(pod("high", 2, 9))
    (evict,) = world.evictions()
    assert ([victim.name for victim in evict.victims], evict.cleared) == (["low"], ())
