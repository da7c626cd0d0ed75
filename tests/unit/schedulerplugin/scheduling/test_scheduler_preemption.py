"""A preemption in progress: the events while its victims are marked, and while they end.

Four of KEP-4832's races are here with their names in the KEP.
"""

import pytest
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node, priority_class
from tests.support.scheduling.objects import begun, running
from tests.support.scheduling.rig import World, pod

from podium.planner.semantics import Semantics
from podium.planner.settings import Settings
from podium.schedulerplugin.scheduling.effects import Evict, PodRef


def test_a_nominated_preemptor_waits_while_its_victims_die() -> None:
    """No new preemption starts, however often it is tried, and it is bound when they are gone."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.lingering, world.grace = True, 600
    world.run()
    world.later(600)
    assert (world.evicted(), world.nominated("high")) == (["low"], "n1")
    world.die("low")
    world.run()
    assert world.bound() == {"high": "n1"}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("evict_only", ["podium-scheduler", None])
def test_pods_of_kube_system_are_never_victims(semantics: Semantics, evict_only: str | None) -> None:
    """No other pod is evicted, under both semantics."""
    low = running("low", "n1", namespace="kube-system")
    engine = Settings(semantics=semantics, evict_only=evict_only)
    world = World(node(cpu=1), low, pod("high", 1, 10), engine=engine)
    world.run()
    world.later(600)
    assert world.evictions() == []


def test_a_group_is_evicted_and_recorded_without_the_member_that_may_not_be() -> None:
    """The group is the unit and is marked; the member of another scheduler is not marked, and stays."""
    world = World(
        node(cpu=2),
        node("n2", 1),
        group("low", 0, 2, whole=True),
        [pod(f"low-{at}", 1, node=f"n{at}", group="low") for at in (1, 2)],
        pod("helper", 1, node="n1", group="low", schedulerName="other"),
        pod("high", 1, 10),
        engine=Settings(evict_only="podium-scheduler"),
    )
    world.run()
    (evict,) = world.evictions()
    assert [(unit.kind, unit.name) for unit in evict.units] == [("PodGroup", "low")]
    assert [victim.name for victim in evict.victims] == ["low-1", "low-2"]
    assert set(world.bound()) == {"high", "helper"}


def test_reservations_are_counted_by_scheduler() -> None:
    """Victims of other schedulers hold room too; one on a deleted node holds none."""
    foreign = [
        pod(name, 1, 20, schedulerName="default-scheduler", status={"nominatedNodeName": where})
        for name, where in (("theirs", "n2"), ("lost", "n9"))
    ]
    world = World(node(cpu=1), node("n2", 1), running("low", "n1"), foreign, pod("high", 1, 10))
    world.lingering = True
    world.run()
    assert world.scheduler.entries.nominated() == (1, 1)
    world.die("low")
    world.run()
    assert world.scheduler.entries.nominated() == (0, 1)


def test_a_better_place_may_be_taken_while_victims_die() -> None:
    """A new node is used meanwhile, and the reservation ends."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.lingering = True
    world.run()
    world.run(node("n2", 1))
    world.later(60)
    assert world.bound() == {"low": "n1", "high": "n2"}
    assert len(world.evictions()) == 1


def test_planning_starts_afresh_when_the_nomination_is_of_no_use() -> None:
    """The reserved node is freed; pods that end elsewhere still count, and only the others are evicted."""
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
    world = begun(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    assert world.nominated("high") == "n1"
    world.release(failed="the server said no")
    assert (world.nominated("high"), world.bound()) == ("", {"low": "n1"})
    assert world.message("high").endswith("preemption: the server said no")
    world.later(20)
    assert world.bound() == {"high": "n1"}


def failed(world: World, *done: str, deleted: tuple[PodRef, ...] = ()) -> None:
    """Fail the preemption in flight: only the server knows that those in `done` were deleted."""
    (evict,) = world.held
    assert isinstance(evict, Evict)
    world.held, world.hold_evictions = [], False
    world.effects += world.scheduler.preempted(evict.key, deleted, "no answer", world.moment, unsure=True)
    evict_one = world._evict

    def carry_out(effect: Evict, why: str) -> None:
        world.die(*(name for name in done if (NS, name) in world.state.pods))
        evict_one(effect, why)

    world._evict = carry_out  # type: ignore[method-assign, assignment]


def test_planning_starts_with_victims_of_unanswered_deletes() -> None:
    """Deletes got no answer.

    Meanwhile other victims would cost less, but that would be one more.
    """
    world = begun(node("n1", 2), running("a"), running("b"), pod("high", 2, 10))
    world.run(node("n2", 2), running("c", "n2", 2, -5))
    failed(world, "a")
    world.later(30)
    assert world.evicted() == ["a", "b"] * 2
    assert [evict.again for evict in world.evictions()] == [False, True]
    assert world.bound() == {"c": "n2", "high": "n1"}


def test_going_on_waits_for_no_pause_after_a_failure() -> None:
    """A plan with other victims must not be made, because some were deleted for this one."""
    world = begun(node("n1", 3), running("a"), running("b"), running("c"), pod("high", 3, 10))
    world.die("a")
    gone = world.evictions()[0].victims[:1]
    failed(world, deleted=gone)
    world.later(5)
    assert world.evicted() == ["a", "b", "c", "b", "c"]
    assert world.bound() == {"high": "n1"}


def test_a_victim_that_terminates_is_not_marked_again() -> None:
    """No other pod is marked either, if that is enough."""
    world = begun(node("n1", 2), running("a"), running("b"), pod("high", 2, 10))
    world.run(node("n2", 2), running("c", "n2", 2, -5))
    world.die("a")
    failed(world)
    world.later(30)
    assert world.evicted() == ["a", "b", "b"]
    assert world.bound() == {"c": "n2", "high": "n1"}


def test_a_victim_that_a_rule_protects_by_then_is_not_marked_again() -> None:
    """Every rule is checked again, as for any plan."""
    patient = running("a", priorityClassName="patient")
    world = begun(node("n1", 1), priority_class("patient", 0), patient, pod("high", 1, 10))
    world.run(node("n2", 1), running("c", "n2", 1, 5), priority_class("patient", 0, minimum=100, seconds=-1))
    failed(world)
    world.later(30)
    assert world.evicted() == ["a", "c"]
    assert world.bound() == {"a": "n1", "high": "n2"}


def test_a_preemptor_that_fits_meanwhile_evicts_no_pod() -> None:
    """Some may be terminating already."""
    world = begun(node("n1", 1), running("a"), pod("high", 1, 10))
    world.run(node("n2", 1))
    failed(world)
    world.later(30)
    assert world.evicted() == ["a"]
    assert world.bound() == {"a": "n1", "high": "n2"}


def test_the_preemptor_is_gated_while_its_victims_are_told() -> None:
    """It is not tried before that has ended, whatever happens meanwhile."""
    world = begun(node("n1", 1), running("low", "n1"), pod("high", 1, 10))
    world.run(node("n2", 1))
    assert world.bound() == {"low": "n1"}
    world.release()
    assert world.bound()["high"] in ("n1", "n2")


def test_a_victim_that_is_gone_already_frees_its_room_at_once() -> None:
    """When the task ends there is nothing to wait for."""
    world = begun(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.die("low")
    world.run()
    assert world.bound() == {}
    world.release()
    assert world.bound() == {"high": "n1"}


@pytest.mark.parametrize("other", [5, 10])
def test_the_pod2s_scheduling_is_successful_pod2_is_equal_or_lower_priority_than_pod1(other: int) -> None:
    """A pod of equal or lower priority does not take the room for pod1."""
    world = begun(node("n1", 1), running("low", "n1"), pod("pod1", 1, 10))
    held = world.held[0]
    assert isinstance(held, Evict)
    world.die("low")
    world.run(pod("pod2", 1, other))
    assert "pod2" not in world.bound()
    world.release()
    assert world.bound() == {"pod1": "n1"}


def test_the_pod2s_scheduling_is_successful_pod2_is_higher_priority_than_pod1() -> None:
    """A pod of higher priority may take it, and pod1 is planned again."""
    world = begun(
        node("n1", 1), node("n2", 1), running("low", "n1"), running("same", "n2", 1, 10), pod("pod1", 1, 10)
    )
    world.die("low")
    world.run(pod("pod2", 1, 20))
    assert world.bound()["pod2"] == "n1"
    world.release()
    world.later(60)
    assert "pod1" not in world.bound()
    assert world.evicted() == ["low"]


@pytest.mark.parametrize("other", [5, 10])
def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_equal_or_lower(other: int) -> None:
    """Its plan counts pod1 on its nominated node: room is made for both."""
    world = begun(node("n1", 2), running("low-1", "n1"), running("low-2", "n1"), pod("pod1", 1, 10))
    world.run(pod("pod2", 1, other))
    assert len(world.evictions()) == 2
    assert sorted(world.evicted()) == ["low-1", "low-2"]
    world.release()
    assert world.bound() == {"pod1": "n1", "pod2": "n1"}


def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_higher_priority() -> None:
    """It ignores pod1's nomination; no pod is marked twice, and pod1 is planned elsewhere."""
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
