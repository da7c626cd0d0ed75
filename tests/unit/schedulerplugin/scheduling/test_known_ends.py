"""The scheduler waits for pods that end by themselves, and evicts when the wait gave no room."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import group, node, priority_class
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.rig import World, pod

from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.saving import LONGEST_WAIT_FOR_ROOM, PREEMPTION_DELAY, RUN_TIME
from podium.api.times import written
from podium.planner.settings import PreemptionMode

PATIENT = priority_class("patient", 10)
PATIENT.metadata.annotations = {LONGEST_WAIT_FOR_ROOM: "10m"}
SYSTEM = priority_class("system", HIGHEST_USER_PRIORITY + 1)
SYSTEM.metadata.annotations = PATIENT.metadata.annotations
# Seconds until the API server shows an end, and in which an entry that was woken is tried.
LATE, BACKOFF = 10, 20


def ending(name: str, where: str = "n1", seconds: int = 300, **kwargs: Any) -> Any:
    """Make a running pod that will be gone in so many seconds if it does what it declares."""
    made = running(name, where, start=written(NOW - timedelta(seconds=600)), **kwargs)
    made.metadata.annotations = {RUN_TIME: f"{600 - LATE + seconds}s"}
    return made


def high(name: str = "high", priority: int = 10, **kwargs: Any) -> Any:
    return pod(name, 1, priority, **{"priorityClassName": "patient", **kwargs})


def waiting(*objects: Any, **settings: Any) -> World:
    """Return a world in which the pod `high` waits for an end."""
    world = World(node(cpu=1), PATIENT, *objects, **settings)
    world.run(high())
    assert not world.evictions()
    return world


def test_an_end_in_time_spares_the_pod() -> None:
    """The room is reserved, the condition has its time, and no name of another tenant."""
    world = waiting(ending("low"))
    assert world.nominated("high") == "n1"
    text = "preemption: waiting for room at 2026-01-01T12:05:00Z, by the end of 1 pod, before"
    assert text in world.message("high")
    world.later(290)
    world.die("low")
    world.run()
    assert (world.bound(), world.evictions()) == ({"high": "n1"}, [])


def test_an_end_that_passes_without_room_evicts() -> None:
    world = waiting(ending("low"))
    world.later(299)
    assert not world.evictions()
    world.later(1)
    assert world.evicted() == ["low"]


def test_the_first_end_that_passes_is_looked_at() -> None:
    """The preemptor does not wait for the other end once the first pod outlives its own."""
    world = World(node("n1", 1), node("n2", 1), ending("soon", "n1", 100), ending("late", "n2", 400))
    gang_of_two = group("high", 10, 2, annotations={LONGEST_WAIT_FOR_ROOM: "10m"})
    world.run(gang_of_two, gang("high", size=2, priority=10))
    world.later(99)
    assert not world.evictions()
    world.later(1)
    assert sorted(world.evicted()) == ["late", "soon"]


def test_an_end_that_moves_beyond_the_wait_evicts() -> None:
    """A workload that declares more and more gains no more than the longest wait."""
    world = waiting(ending("low"))
    world.later(60)
    for seconds in (500, 590, 700):
        world.run(ending("low", seconds=seconds))
    world.later(240)
    assert world.evicted() == ["low"]


def test_a_new_leader_waits_for_what_is_left() -> None:
    """The condition has the time since which the pod does not fit."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-01T11:54:00Z",
    }
    world = World(node(cpu=1), PATIENT, ending("low"), high(status={"conditions": [condition]}))
    world.run()
    assert world.evicted() == ["low"]


def test_two_preemptors_do_not_wait_for_one_end() -> None:
    """The first has the room reserved, so the second evicts on the other node."""
    world = World(node("n1", 1), node("n2", 1), PATIENT, ending("low", "n1"), running("endless", "n2"))
    world.run(high("first"))
    world.run(high("second"))
    assert world.nominated("first") == "n1"
    assert world.evicted() == ["endless"]


def test_free_room_ends_the_wait() -> None:
    world = waiting(ending("low"))
    world.run(node("n2", 1))
    assert (world.bound(), world.evictions()) == ({"low": "n1", "high": "n2"}, [])


AT_ONCE: dict[str, tuple[Any, list[Any]]] = {
    "no annotation": (high(priorityClassName=None), []),
    "a system class": (high(priorityClassName="system", priority=HIGHEST_USER_PRIORITY + 1), []),
    "a later end": (high(), [ending("low", seconds=601)]),
}


@pytest.mark.parametrize(("preemptor", "objects"), AT_ONCE.values(), ids=AT_ONCE)
def test_these_evict_at_once(preemptor: Any, objects: list[Any]) -> None:
    world = World(node(cpu=1), PATIENT, SYSTEM, ending("low"), *objects)
    world.run(preemptor)
    assert world.evicted() == ["low"]


@pytest.mark.parametrize("mode", [PreemptionMode.OFF, PreemptionMode.OBSERVE])
def test_nothing_is_reserved_without_evictions(mode: PreemptionMode) -> None:
    """A preemptor that evicts nothing has no claim to the next room."""
    world = waiting(ending("low"), mode=mode)
    assert world.nominated("high") == ""


pods = st.lists(st.tuples(st.sampled_from([0, 60, 120, 500]), st.booleans()), min_size=2, max_size=2)


@given(pods, st.sampled_from([0, 100, 300]), st.booleans())
def test_no_preemptor_waits_past_its_longest_wait(
    lows: list[tuple[int, bool]], longest: int, delay: bool
) -> None:
    """Pods end as they declare, or stay: by the longest wait the gang has its room, one way or the other."""
    annotations = {PREEMPTION_DELAY if delay else LONGEST_WAIT_FOR_ROOM: f"{longest}s"}
    world = World(node("n0", 1), node("n1", 1))
    for at, (seconds, _) in enumerate(lows):
        where = f"n{at}"
        world.run(ending(f"low-{at}", where, seconds) if seconds else running(f"low-{at}", where))
    world.run(group("high", 10, 2, annotations=annotations), gang("high", size=2, priority=10))
    for second in range(0, longest + BACKOFF, 20):
        for at, (seconds, ends) in enumerate(lows):
            if ends and 0 < seconds <= second + 20 and (NS, f"low-{at}") in world.state.pods:
                world.die(f"low-{at}")
        world.later(second - world.seconds)
    assert world.bound().keys() == {"high-0", "high-1"}
    if all(ends and 0 < seconds <= longest for seconds, ends in lows):
        assert not world.evictions()
