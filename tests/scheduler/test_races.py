"""What must hold however events fall, and whatever a tenant writes: the scheduler against an adversary."""

from typing import Any

import msgspec
import pytest
from tests.preemption.clusters import NS
from tests.preemption.scene import group, node, priority_class
from tests.scheduler.rig import World, key_of, pod
from tests.scheduling import builders

from podium.api.core import PodDisruptionBudget
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.schedulerplugin.scheduling.effects import Bind, Evict, PodRef
from podium.schedulerplugin.scheduling.scheduler import Scheduler
from podium.schedulerplugin.settings import Budgets, Settings


def running(name: str, where: str = "n1", cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> Any:
    return pod(name, cpu, priority, node=where, **kwargs)


def gang(name: str, size: int, cpu: int = 1, priority: int = 0, **kwargs: Any) -> list[Any]:
    return [pod(f"{name}-{at}", cpu, priority, group=name, **kwargs) for at in range(size)]


def patched(found: Any, **status: Any) -> Any:
    return msgspec.structs.replace(
        found, status=msgspec.convert({"phase": "Pending", **status}, type(found.status))
    )


def terminating(found: Any) -> Any:
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, deletionTimestamp="2026-01-01T12:00:00Z")
    )


def test_of_a_gang_one_bind_fails_before_another_succeeds() -> None:
    world = World(node(cpu=2), group("g", 0, 2), gang("g", 2))
    world.hold_binds = True
    world.run()
    (bind,) = world.held
    assert isinstance(bind, Bind)
    (bad, good) = bind.pods
    world.held = []
    world.scheduler.unbound(bind.key, bad[0], bad[1], settled=False)
    world._bind(bind._replace(pods=(good,)), "")
    world.hold_binds = False
    world.run()
    world.later(20)
    assert sorted(world.bound()) == ["g-0", "g-1"]


def test_a_pod_whose_bind_failed_is_made_anew() -> None:
    world = World(node(cpu=2), pod("a"))
    world.hold_binds = True
    world.run()
    (bind,) = world.held
    assert isinstance(bind, Bind)
    world.hold_binds, world.held = False, []
    world.scheduler.unbound(bind.key, *bind.pods[0], settled=False)
    world.die("a")
    world.run()
    world.run(pod("a", uid="other"), pod("b"))
    world.later(20)
    assert sorted(world.bound()) == ["a", "b"]


def test_a_preemption_that_takes_longer_than_the_last_resort() -> None:
    """Its preemptor is not looked at, however long the server takes."""
    world = World(node("n1", 1), node("n2", 1), running("low"), running("low2", "n2"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.later(1000)
    assert len(world.evictions()) == 1
    world.release()
    world.later(20)
    assert list(world.bound()) in (["low2", "high"], ["low", "high"])


def test_nobody_is_evicted_for_a_pod_that_took_the_name_of_the_preemptor() -> None:
    world = World(node(cpu=1), running("low"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.die("high")
    world.run(pod("high", 1, 0, uid="another"))
    world.release()
    assert world.bound() == {"low": "n1"}


def test_nobody_is_evicted_for_a_group_that_took_the_name() -> None:
    world = World(node(cpu=2), running("low", cpu=2), group("g", 10, 2), gang("g", 2, priority=10))
    world.hold_evictions = True
    world.run()
    assert world.evicted() == ["low"]
    world.die("g-0", "g-1")
    world.state.remove(world.state.groups[key_of(group("g"))])
    world.run(group("g", 0, 2, uid="new"), [pod(f"g-{at}", 1, 0, group="g", uid=f"x{at}") for at in range(2)])
    world.release()
    assert world.bound() == {"low": "n1"}


def test_preemptor_group_loses_its_priority_before_the_first_delete() -> None:
    world = World(
        node(cpu=2), running("low", cpu=2, priority=5), group("g", 10, 2), gang("g", 2, priority=10)
    )
    world.hold_evictions = True
    world.run()
    world.run(group("g", 5, 2))
    world.release()
    assert world.bound() == {"low": "n1"}


def test_victim_class_tolerates_before_the_first_delete() -> None:
    plain = priority_class("c", 0)
    world = World(node(cpu=1), plain, running("low", priorityClassName="c"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    assert world.evicted() == ["low"]
    world.run(priority_class("c", 0, minimum=100, seconds=-1))
    world.release()
    assert world.bound() == {"low": "n1"}


def test_victim_group_rises_before_the_first_delete() -> None:
    world = World(node(cpu=1), group("v", 0, 1), running("v-0", priority=20, group="v"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    assert world.evicted() == ["v-0"]
    world.run(group("v", 20, 1))
    world.release()
    assert world.bound() == {"v-0": "n1"}


def test_lower_nominations_of_another_scheduler_are_let_alone() -> None:
    """What kube-scheduler reserved is its own to clear, and counts again for who is no higher."""
    foreign = pod("foreign", 1, 0, schedulerName="default-scheduler", status={"nominatedNodeName": "n1"})
    world = World(node(cpu=1), running("low"), foreign, pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    (evict,) = world.evictions()
    assert [ref.name for ref in evict.cleared] == []
    assert world.nominated("foreign") == "n1"


def test_a_divergent_group_reserves_no_more_than_its_pods_are_worth() -> None:
    """A group's integer is no way around the quota of its pods' classes."""
    leaving = running("old", terminating=True)
    world = World(node(cpu=1), leaving, group("g", 100, 1), gang("g", 1, priority=0))
    world.run()
    assert world.nominated("g-0") == "n1"
    world.run(pod("mid", 1, 50))
    world.die("old")
    world.run()
    world.later(20)
    assert world.bound() == {"mid": "n1"}


def test_a_member_that_is_being_deleted_holds_no_node() -> None:
    world = World(
        *(node("n1", 1), node("n2", 1), running("low-1", "n1"), running("low-2", "n2")),
        *(group("g", 10, 1), gang("g", 2, priority=10)),
    )
    world.lingering = True
    world.run()
    assert {world.nominated("g-0"), world.nominated("g-1")} >= {"n1"} or world.nominated("g-1")
    held = {name: world.nominated(name) for name in ("g-0", "g-1")}
    print(held)
    for name, where in held.items():
        if where:
            world.run(terminating(world.state.pods[NS, name]))
            break
    world.later(30)
    assert not world.nominated(name)


def test_a_pod_that_is_deleted_while_its_bind_is_under_way_holds_no_node() -> None:
    world = World(node(cpu=1), running("low"), pod("high", 1, 10))
    world.run_until = None
    world.hold_binds = True
    world.run()
    (bind,) = world.held
    assert isinstance(bind, Bind)
    world.held, world.hold_binds = [], False
    world.run(terminating(world.state.pods[NS, "high"]))
    world.scheduler.unbound(bind.key, *bind.pods[0], settled=True)
    world.run()
    assert world.nominated("high") == ""
    world.run(pod("next", 1, 10))
    world.later(15)
    assert world.bound() == {"next": "n1"}


def test_nominations_that_a_tenant_writes_hold_no_room() -> None:
    world = World(node(cpu=1), pod("a", 5))
    world.run()
    world.run(patched(world.state.pods[NS, "a"], nominatedNodeName="n1"))
    world.later(15)
    assert world.nominated("a") == ""


def test_nominations_that_a_tenant_writes_hold_no_room_whatever() -> None:
    world = World(node(cpu=1), pod("a", 1, nodeSelector={"no": "where"}))
    world.run()
    world.run(patched(world.state.pods[NS, "a"], nominatedNodeName="n1"))
    world.run(pod("b"))
    world.later(15)
    assert world.bound() == {"b": "n1"}


def test_small_plans_do_not_starve_a_large_one_of_the_rate() -> None:
    """A plan that waits for the rate is not overtaken for ever by those of lower priority."""
    nodes = [node(f"n{at}", 1) for at in range(30)]
    lows = [running(f"low-{at}", f"n{at}") for at in range(30)]
    world = World(nodes, lows, evictions_a_minute=2)
    small = iter(range(100))
    world.run(pod(f"mid-{next(small)}", 1, 5))
    world.later(30)
    world.run(pod(f"mid-{next(small)}", 1, 5))
    world.run(group("g", 10, 2), gang("g", 2, priority=10))
    for _ in range(16):
        world.run(pod(f"mid-{next(small)}", 1, 5))
        world.later(30)
    assert {"g-0", "g-1"} <= set(world.bound())


def test_a_strict_budget_is_not_spent_twice() -> None:
    budget = msgspec.convert(
        {
            "metadata": {"name": "b", "namespace": NS, "uid": "b"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": 1, "observedGeneration": 0},
        },
        PodDisruptionBudget,
    )
    strict = Settings(evict_only="podium-scheduler", budgets=Budgets.STRICT)
    world = World(
        *(node("n1", 1), node("n2", 1), budget),
        *(running(f"low-{at}", f"n{at}", labels={"app": "x"}) for at in (1, 2)),
        *(pod("high-1", 1, 10), pod("high-2", 1, 10)),
        engine=strict,
    )
    world.hold_evictions = True
    world.run()
    assert len(world.evicted()) == 1


def test_a_victims_group_that_loses_priority_wakes_who_waits() -> None:
    world = World(node(cpu=1), group("v", 20, 1), running("v-0", priority=20, group="v"), pod("high", 1, 10))
    world.run()
    assert not world.evictions()
    world.run(group("v", 0, 1))
    world.later(15)
    assert world.evicted() == ["v-0"]


def test_a_bind_that_was_overtaken_takes_nothing_back() -> None:
    """Node deleted with a bind under way: a second bind is under way when the first ends."""
    world = World(node("n1", 1), node("n2", 0), pod("a"))
    world.hold_binds = True
    world.run()
    (first,) = world.held
    world.held = []
    assert isinstance(first, Bind)
    assert first.pods[0][1] == "n1"
    world.state.remove(world.state.nodes["n1"])
    world.run(node("n2", 1))
    world.run(
        msgspec.structs.replace(
            world.state.pods[NS, "a"],
            metadata=msgspec.structs.replace(world.state.pods[NS, "a"].metadata, labels={"x": "y"}),
        )
    )
    world.later(15)
    print(world.held)
    for _ in world.held:
        world.scheduler.unbound(first.key, *first.pods[0], settled=True)
        world.hold_binds = False
        world.run(pod("b"))
        break
    world.release()
    assert not world.overcommitted()


class Bug(Exception):
    """Something in the scheduler."""


def buggy(world: World, poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = world.scheduler.engine
    decide, place = engine.decide, engine.place_lone

    def decided(target: Any, *args: Any, **kwargs: Any) -> Any:
        if target[-1] == poison:
            raise Bug
        return decide(target, *args, **kwargs)

    def placed(targets: Any) -> Any:
        if poison in [each[-1] for each in targets]:
            raise Bug
        return place(targets)

    monkeypatch.setattr(engine, "decide", decided)
    monkeypatch.setattr(engine, "place_lone", placed)


def stepping(world: World) -> None:
    step = world.scheduler.step

    def caught(moment: Any) -> Any:
        try:
            return step(moment)
        except Bug:
            return world.scheduler.stumbled(moment) or []

    world.scheduler.step = caught  # type: ignore[method-assign]


def test_a_bug_about_one_pod_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n1", 10))
    stepping(world)
    buggy(world, "b", monkeypatch)
    world.run(pod("a"), pod("b"), pod("c"))
    world.later(60)
    assert sorted(world.bound()) == ["a", "c"]


def test_what_was_decided_before_a_bug_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n1", 10))
    stepping(world)
    engine = world.scheduler.engine

    def decided(target: Any, *args: Any, **kwargs: Any) -> Any:
        raise Bug

    monkeypatch.setattr(engine, "decide", decided)
    world.run(pod("a"), pod("b", 20), pod("c"))
    world.later(60)
    assert sorted(world.bound()) == ["a", "c"]


def test_an_undeletable_victim_does_not_cost_others_for_ever() -> None:
    """A victim whose deletion is refused: who goes beside it comes back, and is not evicted again and again."""
    world = World(node("n1", 2), running("a"), running("b"), pod("high", 2, 10))
    count = 0

    def evict(each: Evict, _failed: str) -> None:
        nonlocal count
        gone = [ref for ref in each.victims if ref.name != "a"]
        for ref in gone:
            found = world._live(ref)
            if found is not None:
                count += 1
                world.state.remove(found)
        world.effects += world.scheduler.preempted(each.key, gone, "403", world.moment)
        for ref in gone:
            world.apply(pod(f"b{count}"))

    world._evict = evict  # type: ignore[method-assign]
    world.run()
    world.later(3600)
    assert count < 20


def test_a_window_is_not_cut_short_by_a_status_that_a_tenant_wrote() -> None:
    """It began no earlier than the pod."""
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


def test_a_long_preemption_whose_node_goes_is_the_only_one() -> None:
    """The preemptor is not decided about again before it has ended, whatever the queue's last resort says."""
    world = World(
        node("n1", 1), node("n2", 1), running("low"), running("low2", "n2", 1, 1), pod("high", 1, 10)
    )
    world.hold_evictions = True
    world.run()
    assert world.evicted() == ["low"]
    world.state.remove(world.state.nodes["n1"])
    world.later(1000)
    assert len(world.evictions()) == 1
    world.release()
    world.later(20)
    assert world.bound()["high"] == "n2"


def test_a_preemptor_that_joins_a_group_on_the_way_evicts_once() -> None:
    world = World(
        *(node("n1", 1), node("n2", 1), running("low"), running("low2", "n2", 1, 1)),
        *(pod("high", 1, 10), group("g", 10, 1)),
    )
    world.hold_evictions = True
    world.run()
    high = world.state.pods[NS, "high"]
    world.run(
        msgspec.structs.replace(
            high,
            spec=msgspec.structs.replace(
                high.spec,
                schedulingGroup=msgspec.convert(
                    {"podGroupName": "g"}, type(pod("x", group="g").spec.schedulingGroup)
                ),
            ),
        )
    )
    world.later(30)
    world.release()
    world.later(30)
    assert world.bound()["high"]
    assert len(world.evicted()) == 1


def _size(obj: Any, seen: set[int]) -> int:
    """Count what containers hold, in everything of ours that is reached."""
    if id(obj) in seen:
        return 0
    seen.add(id(obj))
    if isinstance(obj, dict):
        return len(obj) + sum(_size(each, seen) for each in obj.values())
    if isinstance(obj, (list, set, frozenset, tuple)):
        return len(obj) + sum(_size(each, seen) for each in obj)
    if type(obj).__module__.startswith("podium."):
        fields = [getattr(obj, slot, None) for slot in getattr(type(obj), "__slots__", ())]
        return (
            sum(_size(each, seen) for each in [*vars(obj).values(), *fields] if each is not None)
            if hasattr(obj, "__dict__")
            else sum(_size(each, seen) for each in fields)
        )
    return 0


def _churn(world: World, rounds: range) -> None:
    for at in rounds:
        world.lingering = at % 3 == 0
        world.hold_binds = at % 5 == 0
        world.hold_evictions = at % 7 == 0
        world.run(
            pod(f"a{at}", 1, 5, labels={"x": str(at)}), group(f"g{at}", 10, 2), gang(f"g{at}", 2, 1, 10)
        )
        world.later(2)
        world.release(failed="500" if at % 2 else "")
        world.later(3)
        world.run(pod(f"c{at}", 9, 50), pod(f"d{at}", 1, schedulingGates=[{"name": "x"}]))
        world.later(20)
        world.hold_binds = world.hold_evictions = False
        world.release()
        for each in list(world.state.pods.values()):
            world.state.remove(each)
        world.state.remove(world.state.groups[key_of(group(f"g{at}"))])
        world.run()


def test_nothing_of_what_is_gone_is_kept() -> None:
    """Memory is flat, whatever was under way when an entry went."""
    world = World(node("n1", 2), node("n2", 2), evictions_a_minute=3)
    _churn(world, range(60))
    world.later(4000)
    world.effects.clear()
    before = _size(world.scheduler, {id(world.state)})
    _churn(world, range(60, 180))
    world.later(4000)
    world.effects.clear()
    assert _size(world.scheduler, {id(world.state)}) <= before + 40
