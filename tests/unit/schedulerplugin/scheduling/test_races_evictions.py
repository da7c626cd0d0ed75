"""Evictions that are needless, that a rule forbids by then, or that exceed the rate.

The reasons for a preemption may change while it is in flight, and a tenant may cause that. Each test is a way
in which a user could lose pods for nothing.
"""

from collections.abc import Callable

import msgspec
import pytest
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node, priority_class
from tests.support.scheduling.objects import begun, gang, running
from tests.support.scheduling.rig import World, pod
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.core import PodDisruptionBudget
from podium.api.membership import key_of
from podium.planner.settings import Budgets, Settings
from podium.schedulerplugin.scheduling.effects import Evict


@pytest.mark.parametrize("priority", [0, 10])
def test_not_for_a_pod_that_took_the_preemptors_name(priority: int) -> None:
    """It is another pod, of any priority."""
    world = begun(node(cpu=1), running("low"), pod("high", 1, 10))
    world.die("high")
    world.run(pod("high", 1, priority, uid="another"))
    assert world.scheduler.objection((NS, "high"), world.moment)


def test_not_for_pods_that_took_the_names_of_a_group() -> None:
    """A group of the same name with lower priority gets none either."""
    world = begun(node(cpu=2), running("low", cpu=2), group("g", 10, 2), gang("g", size=2, priority=10))
    world.die("g-0", "g-1")
    world.state.remove(world.state.groups[key_of(group("g"))])
    world.run(group("g", 0, 2, uid="new"), [pod(f"g-{at}", 1, 0, group="g", uid=f"x{at}") for at in range(2)])
    world.release()
    world.later(30)
    assert world.bound() == {"low": "n1"}


def _lower(world: World) -> None:
    world.run(group("g", 5, 2))


def _never(world: World) -> None:
    world.run(group("g", 10, 2, preemption_policy="Never"))


def _tolerated(world: World) -> None:
    world.run(priority_class("c", 0, minimum=100, seconds=-1))


def _unknown(world: World) -> None:
    world.state.remove(world.state.classes["c"])


def _risen(world: World) -> None:
    world.run(group("v", 20, 1, priority_class_name="c"))


@pytest.mark.parametrize("happens", [_lower, _never, _tolerated, _unknown, _risen])
def test_not_by_rules_that_changed_on_the_way(happens: Callable[[World], None]) -> None:
    """The preemptor has lost priority or may not preempt, or the victim's class or group protects it."""
    world = begun(
        *(node(cpu=2), priority_class("c", 0), group("v", 5, 1, priority_class_name="c")),
        *(running("v-0", cpu=2, priority=20, group="v"), group("g", 10, 2), gang("g", size=2, priority=10)),
    )
    happens(world)
    world.release()
    world.later(30)
    assert world.bound() == {"v-0": "n1"}


@pytest.mark.parametrize("budgets", Budgets)
def test_not_against_a_strict_budget_that_came_on_the_way(budgets: Budgets) -> None:
    """A budget that is not strict is violated, as in a plan."""
    victim = running("low", labels={"app": "a"})
    world = begun(node(cpu=1), victim, pod("high", 1, 10), engine=Settings(budgets=budgets))
    world.run(budget())
    world.release()
    world.later(30)
    assert set(world.bound()) == ({"low"} if budgets is Budgets.STRICT else {"high"})


def test_only_one_preemption_however_long_it_takes() -> None:
    """During a preemption, not even the queue's periodic retry tries the preemptor again."""
    world = begun(
        node("n1", 1), node("n2", 1), running("low"), running("other", "n2", 1, 1), pod("high", 1, 10)
    )
    world.state.remove(world.state.nodes["n1"])
    world.later(1000)
    assert len(world.evictions()) == 1
    world.release()
    world.later(20)
    assert world.bound()["high"] == "n2"


def test_a_preemptor_that_joins_a_group_on_the_way_evicts_once() -> None:
    """Two entries in turn, and one victim."""
    world = begun(
        *(node("n1", 1), node("n2", 1), running("low"), running("other", "n2", 1, 1)),
        *(pod("high", 1, 10), group("g", 10, 1)),
    )
    high = world.state.pods[NS, "high"]
    joined = msgspec.structs.replace(high.spec, schedulingGroup=pod("x", group="g").spec.schedulingGroup)
    world.run(msgspec.structs.replace(high, spec=joined))
    world.later(30)
    world.release()
    world.later(30)
    assert "high" in world.bound()
    assert world.evicted() == ["low"]


def test_a_strict_budget_is_not_spent_twice() -> None:
    """The budget allows one disruption; another plan is made before its status is updated."""
    budget = msgspec.convert(
        {
            "metadata": {"name": "b", "namespace": NS, "uid": "b"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": 1},
        },
        PodDisruptionBudget,
    )
    lows = [running(f"low-{at}", f"n{at}", labels={"app": "x"}) for at in (1, 2)]
    strict = Settings(evict_only="podium-scheduler", budgets=Budgets.STRICT)
    world = begun(
        node("n1", 1), node("n2", 1), budget, lows, pod("high-1", 1, 10), pod("high-2", 1, 10), engine=strict
    )
    assert len(world.evicted()) == 1


def test_a_victim_that_cannot_be_deleted_stops_further_evictions_for_a_while() -> None:
    """A policy keeps one victim; the other victims come back, and are not evicted repeatedly."""
    world = World(node("n1", 2), running("kept"), running("b0"), pod("high", 2, 10))
    gone: list[str] = []

    def evict(effect: Evict, _failed: str) -> None:
        deleted = [ref for ref in effect.victims if ref.name != "kept"]
        world.die(*(ref.name for ref in deleted))
        world.effects += world.scheduler.preempted(effect.key, deleted, "it is forbidden", world.moment)
        gone.extend(ref.name for ref in deleted)
        world.apply(pod(f"b{len(gone)}"))

    world._evict = evict  # type: ignore[method-assign, assignment]
    world.run()
    world.later(3600)
    assert 1 < len(gone) < 15


def test_small_plans_do_not_starve_a_large_one_of_the_rate() -> None:
    """Otherwise a preemptor that needs no more would evict each unit that the rate allows."""
    nodes = [node(f"n{at}", 1) for at in range(30)]
    world = World(nodes, [running(f"low-{at}", f"n{at}") for at in range(30)], evictions_a_minute=2)
    world.run(pod("mid", 1, 5))
    world.later(30)
    world.run(group("g", 10, 2), gang("g", size=2, priority=10))
    for at in range(8):
        world.run(pod(f"mid-{at}", 1, 5))
        world.later(30)
    assert {"g-0", "g-1"} <= world.bound().keys()


def test_a_window_begins_no_earlier_than_the_pod() -> None:
    """A tenant's status fields do not count."""
    slow = priority_class("slow", 10)
    slow.metadata.annotations = {"scheduling.podium.dev/preemption-delay": "90s"}
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "0001-01-01T00:00:00Z",
    }
    high = pod("high", 1, 10, priorityClassName="slow", status={"conditions": [condition]})
    high.metadata.creationTimestamp = "2026-01-01T12:00:00Z"
    world = World(node(cpu=1), slow, running("low"), high)
    world.run()
    assert not world.evictions()
