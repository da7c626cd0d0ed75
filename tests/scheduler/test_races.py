"""What must hold however events fall, and whatever a tenant writes: an adversary's list.

Each test is a way in which a promise could be broken: an eviction that nobody needs or that a rule forbids by
then, room that is held by nobody, an entry that is lost, one that starves others, memory that grows.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.preemption.clusters import NOW, NS
from tests.preemption.scene import group, node, priority_class
from tests.scheduler.recording import Recorded, Write
from tests.scheduler.rig import World, pod

from podium.api.core import PodDisruptionBudget
from podium.api.membership import key_of
from podium.api.schedulable import Schedulable
from podium.kube.connection import RefusedError
from podium.schedulerplugin.live.loop import Loop
from podium.schedulerplugin.scheduling.effects import Bind, Effect, Evict, Moment, Report
from podium.schedulerplugin.settings import Budgets, Settings


def running(
    name: str, where: str = "n1", cpu: str | int = 1, priority: int = 0, **kwargs: Any
) -> Schedulable:
    """Make a pod of ours that runs."""
    return pod(name, cpu, priority, node=where, **kwargs)


def gang(name: str, size: int, priority: int = 0, cpu: int = 1, **kwargs: Any) -> list[Schedulable]:
    """Make members of a group, pending."""
    return [pod(f"{name}-{at}", cpu, priority, group=name, **kwargs) for at in range(size)]


def change(world: World, name: str, **metadata: Any) -> None:
    """Change fields of a pod's metadata."""
    found = world.state.pods[NS, name]
    world.run(msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **metadata)))


def being_deleted(world: World, name: str) -> None:
    """Have a pod deleted that a finalizer keeps."""
    change(world, name, deletionTimestamp="2026-01-01T12:00:00Z")


def nominated_by_hand(world: World, name: str, where: str) -> None:
    """Have somebody write a pod's status."""
    found = world.state.pods[NS, name]
    status = msgspec.convert({"phase": "Pending", "nominatedNodeName": where}, type(found.status))
    world.run(msgspec.structs.replace(found, status=status))


def held_bind(world: World) -> Bind:
    """Let the scheduler work until a bind is under way; give that."""
    world.hold_binds = True
    world.run()
    (bind,) = world.held
    assert isinstance(bind, Bind)
    world.held = []
    return bind


# --- evictions that nobody needs any more, or that a rule forbids by then -----------------------------------


def begun(*objects: Any, **settings: Any) -> World:
    """Make a world in which one preemption is under way, and nobody is deleted yet."""
    world = World(*objects, **settings)
    world.hold_evictions = True
    world.run()
    assert len(world.evictions()) == 1
    return world


@pytest.mark.parametrize("priority", [0, 10])
def test_not_for_a_pod_that_took_the_preemptors_name(priority: int) -> None:
    """It is another, of whatever priority."""
    world = begun(node(cpu=1), running("low"), pod("high", 1, 10))
    world.die("high")
    world.run(pod("high", 1, priority, uid="another"))
    assert world.scheduler.objection((NS, "high"), world.moment)


def test_not_for_pods_that_took_the_names_of_a_group() -> None:
    """Nor for a group of the same name that counts less."""
    world = begun(node(cpu=2), running("low", cpu=2), group("g", 10, 2), gang("g", 2, 10))
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
    """The preemptor counts less or may not preempt; the victim's class or group protects it."""
    world = begun(
        *(node(cpu=2), priority_class("c", 0), group("v", 5, 1, priority_class_name="c")),
        *(running("v-0", cpu=2, priority=20, group="v"), group("g", 10, 2), gang("g", 2, 10)),
    )
    happens(world)
    world.release()
    world.later(30)
    assert world.bound() == {"v-0": "n1"}


def test_only_one_preemption_however_long_it_takes() -> None:
    """Not even the queue's last resort has the preemptor looked at while one is under way."""
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
    """One disruption is allowed; before its status says that it is used up another plan is made."""
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


def test_who_cannot_be_deleted_does_not_cost_others_for_ever() -> None:
    """A policy keeps one victim; those that go beside it come back, and are not evicted again and again."""
    world = World(node("n1", 2), running("kept"), running("b0"), pod("high", 2, 10))
    gone: list[str] = []

    def evict(each: Evict, _failed: str) -> None:
        deleted = [ref for ref in each.victims if ref.name != "kept"]
        world.die(*(ref.name for ref in deleted))
        world.effects += world.scheduler.preempted(each.key, deleted, "it is forbidden", world.moment)
        gone.extend(ref.name for ref in deleted)
        world.apply(pod(f"b{len(gone)}"))

    world._evict = evict  # type: ignore[method-assign, assignment]
    world.run()
    world.later(3600)
    assert 1 < len(gone) < 15


def test_small_plans_do_not_starve_a_large_one_of_the_rate() -> None:
    """Each unit that the rate allows would be taken by whoever needs no more."""
    nodes = [node(f"n{at}", 1) for at in range(30)]
    world = World(nodes, [running(f"low-{at}", f"n{at}") for at in range(30)], evictions_a_minute=2)
    world.run(pod("mid", 1, 5))
    world.later(30)
    world.run(group("g", 10, 2), gang("g", 2, 10))
    for at in range(8):
        world.run(pod(f"mid-{at}", 1, 5))
        world.later(30)
    assert {"g-0", "g-1"} <= world.bound().keys()


def test_a_window_begins_no_earlier_than_the_pod() -> None:
    """Whatever a tenant writes in its status."""
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


# --- room that is held by nobody, or by more than it is worth ----------------------------------------------


def test_what_another_scheduler_has_reserved_is_its_own_to_take_back() -> None:
    """A higher pod of ours may take the room, but clears nothing, and the nomination counts on."""
    foreign = pod("foreign", 1, 0, schedulerName="default-scheduler", status={"nominatedNodeName": "n1"})
    world = begun(node(cpu=1), running("low"), foreign, pod("high", 1, 10))
    (evict,) = world.evictions()
    assert not evict.cleared
    assert world.nominated("foreign") == "n1"


def test_a_divergent_group_reserves_no_more_than_its_pods_are_worth() -> None:
    """A group's integer is no way around the quota of its pods' classes."""
    world = World(node(cpu=1), running("old", terminating=True), group("g", 100, 1), gang("g", 1))
    world.run()
    assert world.nominated("g-0") == "n1"
    world.run(pod("mid", 1, 50))
    world.die("old")
    world.later(20)
    assert world.bound() == {"mid": "n1"}


def test_a_member_that_is_being_deleted_holds_no_node() -> None:
    """A finalizer keeps the pod, not the room."""
    world = World(
        *(node("n1", 1), node("n2", 1), running("low-1"), running("low-2", "n2")),
        *(group("g", 10, 1), gang("g", 2, 10)),
    )
    world.lingering = True
    world.run()
    assert world.nominated("g-0")
    being_deleted(world, "g-0")
    world.later(30)
    assert not world.nominated("g-0")


def test_a_pod_that_is_deleted_while_its_bind_is_under_way_holds_no_node() -> None:
    """What was reserved for it before it was to be bound is not reserved again."""
    world = World(node(cpu=1), running("low"), pod("high", 1, 10))
    bind = held_bind(world)
    being_deleted(world, "high")
    world.hold_binds = False
    world.scheduler.binds.failed(bind.key, *bind.pods[0], settled=True)
    world.run(pod("next", 1, 10))
    world.later(15)
    assert world.bound() == {"next": "n1"}


@pytest.mark.parametrize("asks", [{"cpu": 5}, {"nodeSelector": {"no": "where"}}])
def test_a_nomination_that_a_tenant_writes_holds_no_room(asks: dict[str, Any]) -> None:
    """It is looked at, and ends where the pod does not fit."""
    world = World(node(cpu=1), pod("a", **asks))
    world.run()
    nominated_by_hand(world, "a", "n1")
    world.run(pod("b"))
    world.later(15)
    assert (world.bound(), world.nominated("a")) == ({"b": "n1"}, "")


FIRST: dict[str, tuple[list[Any], set[str]]] = {
    "a lone pod": ([pod("a")], {"a"}),
    "one that has preempted": ([running("low", cpu=2), pod("a", 1, 10)], {"a"}),
    "a gang": ([group("g", 10, 2), gang("g", 2, 10)], {"g-0", "g-1"}),
}


def test_a_bind_that_was_overtaken_takes_nothing_back() -> None:
    """Its node went, there is another, and only then the first one fails: until then none is sent."""
    world = World(node("n1", 1), node("n2", 0), pod("a"))
    first = held_bind(world)
    world.state.remove(world.state.nodes["n1"])
    world.run(node("n2", 1))
    change(world, "a", labels={"x": "y"})
    world.later(15)
    assert not world.held
    world.scheduler.binds.failed(first.key, *first.pods[0], settled=False)
    world.hold_binds = False
    world.run(pod("b"))
    assert world.bound() == {"a": "n2"}
    assert not world.overcommitted()


@pytest.mark.parametrize("ends", ["well", "badly"])
@pytest.mark.parametrize("first", ["a lone pod", "a gang"])
def test_a_node_that_went_and_came_holds_the_room_of_a_bind_whatever_was_tried_between(
    first: str, ends: str
) -> None:
    """Who may be bound yet is not bound to another node as well, for then the first would count as free."""
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
        world.scheduler.binds.failed(each.key, *each.pods[0], settled=True)
    world.later(400)
    assert not world.overcommitted()
    assert world.bound().keys() == {*names, "b"}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("ends", ["well", "badly", "unknown"])
def test_a_node_made_anew_holds_the_room_of_binds_to_its_namesake(ends: str, first: str) -> None:
    """A bind that is under way succeeds whatever became of the node, so it counts on the one of that name."""
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
            world.scheduler.binds.failed(bind.key, ref, where, settled=False)
    world._bind(bind, "500" if ends == "badly" else "")
    world.later(400)
    assert not world.overcommitted()
    assert world.bound().keys() == names


# --- entries that are lost ---------------------------------------------------------------------------------


def test_of_a_gang_one_bind_fails_before_another_succeeds() -> None:
    """Who is left over is tried again."""
    world = World(node(cpu=2), group("g", 0, 2), gang("g", 2))
    bind = held_bind(world)
    world.scheduler.binds.failed(bind.key, *bind.pods[0], settled=False)
    world.hold_binds = False
    world._bind(bind._replace(pods=bind.pods[1:]), "")
    world.later(20)
    assert sorted(world.bound()) == ["g-0", "g-1"]


def test_a_pod_is_made_anew_right_after_its_bind_failed() -> None:
    """What is known of the first counts no more, and nobody else is lost over it."""
    world = World(node(cpu=2), pod("a"))
    bind = held_bind(world)
    world.hold_binds = False
    world.scheduler.binds.failed(bind.key, *bind.pods[0], settled=False)
    world.die("a")
    world.run()
    world.run(pod("a", uid="other"), pod("b"))
    world.later(20)
    assert sorted(world.bound()) == ["a", "b"]


def test_a_victims_group_that_loses_priority_wakes_who_waits() -> None:
    """As a class does that is changed."""
    world = World(node(cpu=1), group("v", 20, 1), running("v-0", priority=20, group="v"), pod("high", 1, 10))
    world.run()
    assert not world.evictions()
    world.run(group("v", 0, 1))
    world.later(15)
    assert world.evicted() == ["v-0"]


class BugError(Exception):
    """Something that nobody thought of."""


def buggy(world: World, poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every question about one pod fail, and the scheduler stepped as the loop does it."""
    scheduler, engine = world.scheduler, world.scheduler.engine
    step, decide, place = scheduler.step, engine.decide, engine.place_lone

    def stepped(moment: Moment) -> list[Effect]:
        try:
            return step(moment)
        except BugError:
            return scheduler.stumbled(moment)

    def decided(target: Any, *args: Any) -> Any:
        if target[-1] == poison:
            raise BugError
        return decide(target, *args)

    def placed(targets: Any) -> Any:
        if poison in [name for _, name in targets]:
            raise BugError
        return place(targets)

    monkeypatch.setattr(scheduler, "step", stepped)
    monkeypatch.setattr(engine, "decide", decided)
    monkeypatch.setattr(engine, "place_lone", placed)


def test_a_bug_about_one_pod_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lone pods are placed many at a time; one that cannot be is left to itself."""
    world = World(node("n1", 10))
    buggy(world, "b", monkeypatch)
    world.run(pod("a"), pod("b"), pod("c"))
    world.later(5)
    world.run(pod("d"))
    world.later(60)
    assert sorted(world.bound()) == ["a", "c", "d"]


def test_what_was_decided_before_a_bug_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those placed in the same step are bound, for they count as such."""
    world = World(node("n1", 10))
    place = world.scheduler.engine.place_lone
    buggy(world, "b", monkeypatch)
    monkeypatch.setattr(world.scheduler.engine, "place_lone", place)
    world.run(pod("a"), pod("b", 20), pod("c"))
    world.later(60)
    assert sorted(world.bound()) == ["a", "c"]


# --- the loop ----------------------------------------------------------------------------------------------


class Told:
    """Statuses, a history, metrics: whatever is called on it is noted."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def submit(self, report: Report) -> None:
        """Take what a pod is told."""
        self.reports.append(report)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: None


async def looped(world: World, writes: Recorded, until: Callable[[Told], bool]) -> Told:
    """Run the loop on a world until something was told or written."""
    told: Any = Told()
    loop = Loop(
        world.scheduler,
        writes,
        statuses=told,
        history=told,
        metrics=told,
        emit=lambda _note: None,
        clock=lambda: 0.0,
        now=lambda: NOW,
        say=lambda _text, _fields: None,
    )
    task = asyncio.create_task(loop.run())
    async with asyncio.timeout(5):
        while not until(told):  # noqa: ASYNC110 - what is noted sets no event
            await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    found: Told = told
    return found


def refused(what: str, name: str) -> RefusedError:
    """Give what a server answers that forbids something, in its own words."""
    return RefusedError("https://api", f"{what} /x/pods/{name}", 403, "Forbidden", f"pod {name} is kept")


async def test_a_preemptor_is_not_told_the_names_of_victims() -> None:
    """The server's own words about a write that it refused are for the log."""
    writes = Recorded({Write("delete", "secret"): refused("DELETE", "secret")})
    world = World(node(cpu=1), running("secret", namespace="other"), pod("high", 1, 10))
    told = await looped(world, writes, lambda told: bool(told.reports))
    assert [report.message for report in told.reports if "secret" in report.message] == []
    assert told.reports[-1].message.endswith("preemption: the API server did not take all of it")


async def test_a_pod_that_the_server_does_not_take_is_told_so() -> None:
    """It keeps its node, and is tried again."""
    writes = Recorded({Write("bind", "a", "n1"): refused("POST", "a")})
    told = await looped(World(node(cpu=1), pod("a")), writes, lambda told: bool(told.reports))
    report = told.reports[0]
    assert (report.reason, report.nominated) == ("SchedulerError", ((report.pods[0], "n1"),))
    assert report.message == "binding to node n1 failed: pod a is kept"


async def test_a_bug_at_the_start_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ended over one pod would end each time it begins."""
    world = World(node(cpu=2))
    wanted = world.scheduler.entries.wanted

    def asked(key: Any) -> Any:
        if key == (NS, "b"):
            raise BugError
        return wanted(key)

    monkeypatch.setattr(world.scheduler.entries, "wanted", asked)
    world.apply(pod("a"), pod("b"), pod("c"))
    writes = Recorded()
    await looped(world, writes, lambda _told: len(writes.done) == 2)
    assert {write.pod for write in writes.done} == {"a", "c"}


# --- memory ------------------------------------------------------------------------------------------------


def size(obj: Any, seen: set[int]) -> int:
    """Count what all containers hold that are reached through objects of ours."""
    if id(obj) in seen:
        return 0
    seen.add(id(obj))
    if isinstance(obj, dict):
        return len(obj) + sum(size(each, seen) for each in obj.values())
    if isinstance(obj, list | set | frozenset | tuple):
        return len(obj) + sum(size(each, seen) for each in obj)
    if not type(obj).__module__.startswith("podium."):
        return 0
    fields = [getattr(obj, slot, None) for slot in getattr(type(obj), "__slots__", ())]
    return sum(size(each, seen) for each in [*getattr(obj, "__dict__", {}).values(), *fields])


def kept(world: World) -> int:
    """Count what a scheduler keeps, but for the cluster and for what forgets when it is full."""
    world.effects.clear()
    return size(world.scheduler, {id(world.state), id(world.scheduler.engine.placer)})


def churn(world: World, rounds: range) -> None:
    """Have pods and gangs come, find places or not, fail, and go while something is under way."""
    for at in rounds:
        world.lingering, world.hold_binds, world.hold_evictions = at % 3 == 0, at % 5 == 0, at % 7 == 0
        world.run(pod(f"a{at}", 1, 5, labels={"x": str(at)}), group(f"g{at}", 10, 2), gang(f"g{at}", 2, 10))
        world.later(2)
        world.release(failed="500" if at % 2 else "")
        world.run(pod(f"c{at}", 9, 50), pod(f"d{at}", 1, schedulingGates=[{"name": "x"}]))
        world.later(20)
        world.release()
        for each in list(world.state.pods.values()):
            world.state.remove(each)
        world.state.remove(world.state.groups[key_of(group(f"g{at}"))])
        world.run()


def test_nothing_of_what_is_gone_is_kept() -> None:
    """Whatever was under way when it went."""
    world = World(node("n1", 2), node("n2", 2), evictions_a_minute=3)
    churn(world, range(60))
    world.later(4000)
    before = kept(world)
    churn(world, range(60, 150))
    world.later(4000)
    assert kept(world) <= before + 40
