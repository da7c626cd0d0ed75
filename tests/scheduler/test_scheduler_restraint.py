"""Who would evict and may not yet, or not at all: by the mode, the rate, a window, or a toleration.

Whoever waits for a moment or a switch is told which, and nothing but that must come for it to go on.
"""

from typing import Any

from tests.preemption.scene import node, priority_class
from tests.scheduler.objects import running
from tests.scheduler.rig import World, pod

from podium.schedulerplugin.scheduling.settings import LiveSettings, Mode


def test_mode_off_never_plans_to_the_end() -> None:
    """Nobody goes, and the pod is told why."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=Mode.OFF)
    world.run()
    assert (world.evicted(), world.observed()) == ([], [])
    assert world.message("high").endswith("preemption: it is switched off")


def test_observe_tells_a_plan_once_and_deletes_nothing() -> None:
    """The room that is not made is reserved for nobody."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=Mode.OBSERVE)
    world.run()
    world.later(3600)
    assert (world.evicted(), world.observed(), world.nominated("high")) == ([], [["low"]], "")
    assert world.message("high").endswith(
        "preemption: 1 pod would be evicted, but preemption is only observed"
    )


def test_switching_to_enforce_takes_effect() -> None:
    """At once: whoever waited is looked at again."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=Mode.OBSERVE)
    world.run()
    world.live = LiveSettings()
    world.scheduler.switched()
    world.run()
    assert world.bound() == {"high": "n1"}


def test_switching_off_stops_a_preemption_under_way() -> None:
    """Before the first delete it is given up."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.live = LiveSettings(mode=Mode.OFF)
    world.release()
    assert world.bound() == {"low": "n1"}


def test_evictions_have_a_rate() -> None:
    """Two units a minute: the others wait, and say what for."""
    pods = [running(f"low-{at}", f"n{at}") for at in range(4)]
    nodes = [node(f"n{at}", 1) for at in range(4)]
    highs = [pod(f"high-{at}", 1, 10) for at in range(4)]
    world = World(nodes, pods, highs, evictions_a_minute=2)
    world.run()
    assert len(world.evicted()) == 2
    assert "rate of 2 units a minute" in world.message("high-3")
    assert world.restraint.room(world.seconds) == (2, 0)
    world.later(120)
    assert len(world.evicted()) == 4
    assert world.restraint.room(world.seconds) == (2, 2)
    world.live = LiveSettings()
    assert world.restraint.room(world.seconds) is None


def _slow() -> Any:
    """Make a class whose preemptors wait for new nodes."""
    slow = priority_class("slow", 10)
    slow.metadata.annotations = {"scheduling.podium.dev/preemption-delay": "90s"}
    return slow


def test_a_window_is_not_begun_anew_by_another_process() -> None:
    """Since when a pod finds no room is in its condition."""
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


def test_a_window_waits_for_an_autoscaler() -> None:
    """Nobody goes before its end, which the message names."""
    slow = _slow()
    world = World(node(cpu=1), slow, running("low", "n1"), pod("high", 1, 10, priorityClassName="slow"))
    world.run()
    assert "waiting until 2026-01-01T12:01:30Z for new nodes" in world.message("high")
    world.later(80)
    assert not world.evictions()
    world.later(20)
    assert world.bound() == {"high": "n1"}


def test_a_toleration_window_ends_without_any_event() -> None:
    """The preemptor is looked at when it does."""
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
