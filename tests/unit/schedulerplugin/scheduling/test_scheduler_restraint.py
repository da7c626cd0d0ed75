"""Preemptors that may not evict yet or at all: because of the mode, the rate, a window, or a toleration.

The message of a waiting entry has the time or the switch, and the entry needs no other event.
"""

from typing import Any

import pytest
from tests.support.preemption.scene import group, node, priority_class
from tests.support.scheduling.objects import begun, gang, running
from tests.support.scheduling.rig import World, pod

from podium.planner.settings import LiveSettings, PreemptionMode
from podium.schedulerplugin.scheduling.effects import Evict


def test_mode_off_never_plans_to_the_end() -> None:
    """No victim is deleted, and the pod's message gives the reason."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=PreemptionMode.OFF)
    world.run()
    assert (world.evicted(), world.observed()) == ([], [])
    assert world.message("high").endswith("preemption: it is switched off")


def test_observe_tells_a_plan_once_and_deletes_nothing() -> None:
    """Without evictions no room is reserved."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=PreemptionMode.OBSERVE)
    world.run()
    world.later(3600)
    assert (world.evicted(), world.observed(), world.nominated("high")) == ([], [["low"]], "")
    assert world.message("high").endswith(
        "preemption: 1 pod would be evicted, but preemption is only observed"
    )


def test_switching_to_enforce_takes_effect() -> None:
    """Waiting preemptors are tried again at once."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=PreemptionMode.OBSERVE)
    world.run()
    world.live = LiveSettings()
    world.scheduler.switched()
    world.run()
    assert world.bound() == {"high": "n1"}


def test_switching_off_stops_a_preemption_under_way() -> None:
    """The preemption ends before the first delete."""
    world = begun(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.live = LiveSettings(mode=PreemptionMode.OFF)
    world.release()
    assert world.bound() == {"low": "n1"}


def test_evictions_have_a_rate() -> None:
    """With two units a minute the others wait, and their message has the reason."""
    pods = [running(f"low-{at}", f"n{at}") for at in range(4)]
    nodes = [node(f"n{at}", 1) for at in range(4)]
    highs = [pod(f"high-{at}", 1, 10) for at in range(4)]
    world = World(nodes, pods, highs, evictions_a_minute=2)
    world.run()
    assert len(world.evicted()) == 2
    assert "rate of 2 units a minute" in world.message("high-3")
    assert world.limits.room(world.seconds) == (2, 0)
    world.later(120)
    assert len(world.evicted()) == 4
    assert world.limits.room(world.seconds) == (2, 2)
    world.live = LiveSettings()
    assert world.limits.room(world.seconds) is None


def once_in_vain(world: World, deleted: int = 0) -> None:
    """End the next preemption after this many deletes, because the server does not answer."""
    well = world._evict

    def evict(effect: Evict, _failed: str) -> None:
        world._evict = well  # type: ignore[method-assign]
        gone = effect.victims[:deleted]
        world.die(*(ref.name for ref in gone))
        world.effects += world.scheduler.preempted(effect.key, gone, "no answer", world.moment, unsure=True)

    world._evict = evict  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("deleted", [0, 1])
@pytest.mark.parametrize(
    "later", [LiveSettings(evictions_a_minute=2), LiveSettings()], ids=["2", "unlimited"]
)
def test_a_preemption_that_goes_on_counts_once(deleted: int, later: LiveSettings) -> None:
    """It need not wait for itself; the first deleted pods count from then, the others from now."""
    world = World(node(cpu=2), running("low-1"), running("low-2"), evictions_a_minute=2)
    once_in_vain(world, deleted)
    world.run(pod("high", 2, 10))
    assert "high" not in world.bound()
    world.live = later
    world.later(30)
    assert world.bound() == {"high": "n1"}
    assert [evict.again for evict in world.evictions()] == [False, True]
    went = world.seconds - 30
    world.live = LiveSettings(evictions_a_minute=2)
    assert world.limits.room(world.seconds) == (2, 0)
    world.seconds = went + 60.0
    assert world.limits.room(world.seconds) == (2, deleted)


def test_a_preemption_that_goes_on_waits_for_what_went_meanwhile() -> None:
    """The limit covers every minute, and the minute of its evictions is unknown."""
    world = World(node(cpu=2), running("low-1"), running("low-2"), evictions_a_minute=2)
    once_in_vain(world)
    world.run(pod("high", 2, 10))
    world.limits.restore([], [world.seconds], {})
    world.later(30)
    assert "when the rate of 2 units a minute allows it" in world.message("high")
    world.later(40)
    assert world.bound() == {"high": "n1"}


def test_a_preemption_that_goes_on_is_no_other_round_of_a_circle() -> None:
    """It had waited for that before it started."""
    world = World(node(cpu=1), running("low"))
    world.run(pod("high", 1, 10))
    world.die("high")
    world.run(running("high", priority=0))
    once_in_vain(world)
    world.run(pod("low", 1, 5))
    assert "which evicted it: backing off for 60 s" in world.message("low")
    world.later(60)
    assert [evict.key[1] for evict in world.evictions()] == ["high", "low"]
    world.later(30)
    assert world.bound() == {"low": "n1"}


def _slow() -> Any:
    """Return a class whose preemptors wait for new nodes."""
    slow = priority_class("slow", 10)
    slow.metadata.annotations = {"scheduling.podium.dev/preemption-delay": "90s"}
    return slow


def test_another_process_does_not_restart_the_window() -> None:
    """The condition has the time since which a pod does not fit."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-01T11:59:00Z",
    }
    high = pod("high", 1, 10, priorityClassName="slow", status={"conditions": [condition]})
    world = World(node(cpu=1), _slow(), running("low", "n1"), high)
    world.run()
    assert "waiting until 2026-01-01T12:00:30Z for new nodes" in world.message("high")


# A gang's annotation, its class, and the resulting seconds.
WINDOWS = {
    "the group's": ("90s", "", 90),
    "its class's": (None, "slow", 90),
    "the longer one: the group's": ("2m", "slow", 120),
    "the longer one: its class's": ("30s", "slow", 90),
}


def test_a_window_waits_for_an_autoscaler() -> None:
    """No victim is deleted before the end of the window, which the message names."""
    slow = _slow()
    world = World(node(cpu=1), slow, running("low", "n1"), pod("high", 1, 10, priorityClassName="slow"))
    world.run()
    assert "waiting until 2026-01-01T12:01:30Z for new nodes" in world.message("high")
    world.later(80)
    assert not world.evictions()
    world.later(20)
    assert world.bound() == {"high": "n1"}


@pytest.mark.parametrize(("own", "class_name", "window"), WINDOWS.values(), ids=WINDOWS)
def test_a_group_has_a_window(own: str | None, class_name: str, window: int) -> None:
    made = group("g", 10, 2, priority_class_name=class_name)
    if own is not None:
        made.metadata.annotations = {"scheduling.podium.dev/preemption-delay": own}
    world = World(node(cpu=2), _slow(), running("low", cpu=2), made, gang("g", size=2, priority=10))
    world.run()
    world.later(window - 1)
    assert "for new nodes before anything is evicted" in world.message("g-0")
    assert not world.evictions()
    world.later(2)
    assert world.bound().keys() == {"g-0", "g-1"}


def test_a_toleration_window_ends_without_any_event() -> None:
    """The preemptor is tried when it ends."""
    patient = priority_class("patient", 0, minimum=100, seconds=30)
    victim = running(
        "low",
        "n1",
        priorityClassName="patient",
        status={
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}
            ]
        },
    )
    world = World(node(cpu=1), patient, victim, pod("high", 1, 10))
    world.later(25)
    assert not world.evictions()
    world.later(10)
    assert world.bound() == {"high": "n1"}
