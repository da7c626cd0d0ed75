"""Any entry that a change can help is tried soon, without the queue's periodic retry after 5 minutes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from tests.support.filters import dynamic_cases
from tests.support.filters.builders import (
    attachment,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    volume,
)
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import HOST, group, node, priority_class
from tests.support.scheduling.rig import World, pod
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.core import PODIUM_SCHEDULER, Namespace
from podium.api.membership import key_of
from podium.api.meta import ObjectMeta
from podium.planner.settings import Budgets, DivergencePolicy, Settings
from podium.schedulerplugin.scheduling.entry import EntryPhase, Incoming

# Longer than the longest backoff.
SOON = 11.0


def running(name: str, cpu: int = 1, priority: int = 0, **kwargs: Any) -> Any:
    """Make our pod that runs on n1."""
    return pod(name, cpu, priority, node="n1", **kwargs)


def held(binds: bool = False, evictions: bool = False, lingering: bool = False) -> Callable[[World], None]:
    """Hold effects."""

    def begin(world: World) -> None:
        world.hold_binds, world.hold_evictions, world.lingering = binds, evictions, lingering

    return begin


def gone(*names: str) -> Callable[[World], None]:
    """Delete pods."""
    return lambda world: world.die(*names)


def gone_unbound(name: str) -> Callable[[World], None]:
    """Delete a pod, and fail its bind."""

    def end(world: World) -> None:
        world.die(name)
        world.release(failed="500")

    return end


def answered(failed: str = "") -> Callable[[World], None]:
    """Answer what was held; `failed` is the code of an error."""

    def end(world: World) -> None:
        world.release(failed=failed)

    return end


def comes(*objects: Any) -> Callable[[World], None]:
    """Create objects."""
    return lambda world: world.apply(*objects)


@dataclass
class Case:
    """Objects, changes with the scheduler running after each, and the entries that wait until the last."""

    objects: list[Any]
    steps: list[Callable[[World], None]]
    waits: str
    settings: dict[str, Any] = field(default_factory=dict)


def tenant(env: str) -> Namespace:
    """Make the namespace `tenant` with a label."""
    return Namespace(metadata=ObjectMeta(name="tenant", labels={"env": env}))


def on(name: str) -> dict[str, Any]:
    """Return the node selector term of one node."""
    return {"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]}


def attaching(limit: int | None) -> list[Any]:
    """Make a node that attaches so many volumes of a driver, the claim `data`, and another one."""
    volumes = [volume(name, csi={"driver": "d", "volumeHandle": name}) for name in ("pv", "other")]
    return [node("n1"), csi_node("n1", {"d": limit}), *volumes, claim("data", "pv"), claim("other", "other")]


def deleted(obj: Any) -> Callable[[World], None]:
    """Delete an object."""
    return lambda world: world.state.remove(obj)


def apart(name: str, **selector: Any) -> Any:
    """Make a pod with anti-affinity to pods with the label app=a on its node."""
    return pod(name, 1, 0, **dynamic_cases.anti_affinity(dynamic_cases.term("a", HOST, **selector)))


HIGH = pod("high", 2, 10)
CLAIMED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
APART = apart("apart", namespaceSelector={"matchLabels": {"env": "prod"}})
ALONE = apart("alone")
STRICT = Settings(budgets=Budgets.STRICT, evict_only=PODIUM_SCHEDULER)
BY_GROUP = Settings(divergence=DivergencePolicy.USE_GROUP_PRIORITY, evict_only=PODIUM_SCHEDULER)

# The group is evicted as a whole, and not while the bind of a member to n2 is in flight.
WHOLE = [
    *(node("n1", 2), node("n2", 1), group("g", 0, 1, whole=True)),
    *(running("g-0", group="g"), running("low")),
]
JOINS = [held(binds=True), comes(pod("g-1", 1, 0, group="g")), comes(HIGH)]

CASES = {
    "a member goes of a whole group while another is being bound": Case(WHOLE, [*JOINS, gone("g-0")], "high"),
    "a member of a whole group is bound on another node": Case(WHOLE, [*JOINS, answered()], "high"),
    "the bind of a member of a whole group fails on another node": Case(
        WHOLE, [*JOINS, answered("500")], "high"
    ),
    "a pod that is being bound is deleted": Case(
        [node("n1", 1), pod("a")], [held(binds=True), comes(pod("b")), gone("a")], "b"
    ),
    "a pod whose bind fails is deleted": Case(
        [node("n1", 1), pod("a")],
        [held(binds=True), comes(pod("b")), gone_unbound("a")],
        "b",
    ),
    "a preemptor is deleted whose victims are gone": Case(
        [node("n1", 1), running("low")],
        [held(evictions=True), comes(pod("high", 1, 10)), gone("low"), comes(pod("b", 1, 5)), gone("high")],
        "b",
    ),
    "a gang that waits for victims loses a member": Case(
        [node("n1", 1), node("n2", 1), running("low")],
        [
            held(lingering=True),
            comes(group("g", 10, 2), pod("g-0", 1, 10, group="g"), pod("g-1", 1, 10, group="g")),
            comes(pod("b", 1, 5)),
            gone("g-0"),
        ],
        "b",
    ),
    "a pod of another scheduler goes that stood in the way": Case(
        [node("n1", 2), running("other", schedulerName="other"), running("low"), HIGH],
        [gone("other")],
        "high",
    ),
    "a node declares a feature that the pod requires": Case(
        [node("n1"), pod("a", hostNetwork=True, hostUsers=False)],
        [comes(node("n1", features=["UserNamespacesHostNetworkSupport"]))],
        "a",
    ),
    "a pod goes whose class tolerated it": Case(
        [
            *(node("n1", 2), priority_class("patient", 0, minimum=100, seconds=-1)),
            *(running("other", priorityClassName="patient"), running("low"), HIGH),
        ],
        [gone("other")],
        "high",
    ),
    "a claim is bound that a pod waits for": Case(
        [node("n1"), claim("data"), pod("a", volumes=CLAIMED)],
        [comes(claim("data", "pv"), volume("pv"))],
        "a",
    ),
    "a claim is created that a pod waits for": Case(
        [node("n1"), volume("pv"), pod("a", volumes=CLAIMED)], [comes(claim("data", "pv"))], "a"
    ),
    "a lost claim gets its volume back": Case(
        [node("n1"), volume("pv"), claim("data", "pv", phase="Lost"), pod("a", volumes=CLAIMED)],
        [comes(claim("data", "pv", phase="Bound"))],
        "a",
    ),
    "the claim of a delayed class is bound by another scheduler": Case(
        [
            *(node("n1"), volume("pv"), storage_class("wait", "WaitForFirstConsumer")),
            *(claim("data", storageClassName="wait"), pod("a", volumes=CLAIMED)),
        ],
        [comes(claim("data", "pv", storageClassName="wait"))],
        "a",
    ),
    "a pod goes whose claim may have one pod only, and its node is full": Case(
        [
            *(node("n1", 1), node("n2"), claim("data", "pv", accessModes=["ReadWriteOncePod"]), volume("pv")),
            *(running("user", volumes=CLAIMED), pod("a", 2, volumes=CLAIMED)),
        ],
        [gone("user")],
        "a",
    ),
    "a volume is detached": Case(
        [*attaching(1), attachment("other", "n1", "d"), pod("a", volumes=CLAIMED)],
        [deleted(attachment("other", "n1", "d"))],
        "a",
    ),
    "a node may attach more volumes": Case(
        [*attaching(0), pod("a", volumes=CLAIMED)], [comes(csi_node("n1", {"d": 1}))], "a"
    ),
    "a driver is installed": Case(
        [*attaching(None), csi_node("n1", {}), csi_driver("d", required=True), pod("a", volumes=CLAIMED)],
        [comes(csi_node("n1", {"d": None}))],
        "a",
    ),
    "a driver need not be installed": Case(
        [*attaching(None), csi_node("n1", {}), csi_driver("d", required=True), pod("a", volumes=CLAIMED)],
        [comes(csi_driver("d"))],
        "a",
    ),
    "a victim's volume is detached after it": Case(
        [
            *(*attaching(1), attachment("other", "n1", "d")),
            running("low", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}]),
            pod("a", 1, 10, volumes=CLAIMED),
        ],
        [deleted(attachment("other", "n1", "d"))],
        "a",
    ),
    "a pod goes that wrote to a disk": Case(
        [
            *(node("n1"), running("user", **dynamic_cases.disk("gcePersistentDisk", pdName="d"))),
            pod("a", **dynamic_cases.disk("gcePersistentDisk", pdName="d")),
        ],
        [gone("user")],
        "a",
    ),
    "a volume appears whose claim a pod waits for": Case(
        [node("n1"), claim("data", "pv"), pod("a", volumes=CLAIMED)], [comes(volume("pv"))], "a"
    ),
    "a volume becomes reachable from a node": Case(
        [node("n1"), claim("data", "pv"), volume("pv", terms=[on("n2")]), pod("a", volumes=CLAIMED)],
        [comes(volume("pv", terms=[on("n1")]))],
        "a",
    ),
    "a class no longer tolerates preemption": Case(
        [
            *(node("n1", 1), priority_class("patient", 0, minimum=100, seconds=-1)),
            *(running("low", priorityClassName="patient"), pod("high", 1, 10)),
        ],
        [comes(priority_class("patient", 0))],
        "high",
    ),
    "a budget allows a disruption": Case(
        [node("n1", 1), budget(), running("low", labels={"app": "a"}), pod("high", 1, 10)],
        [comes(budget(allowed=1))],
        "high",
        {"engine": STRICT},
    ),
    "a namespace loses the label that anti-affinity selects": Case(
        [node("n1"), tenant("prod"), running("other", namespace="tenant", labels={"app": "a"}), APART],
        [comes(tenant("test"))],
        "apart",
    ),
    "a running pod loses the label that anti-affinity selects": Case(
        [node("n1"), running("other", labels={"app": "a"}), ALONE],
        [comes(running("other", labels={"app": "b"}))],
        "alone",
    ),
    "a running pod shrinks in place": Case(
        [node("n1", 4), running("other", 4), pod("a", 2)], [comes(running("other", 2))], "a"
    ),
    "a pod whose node another scheduler nominated is deleted": Case(
        [
            node("n1", 1),
            pod("other", 1, 5, schedulerName="other", status={"nominatedNodeName": "n1"}),
            pod("a", 1, 1),
        ],
        [gone("other")],
        "a",
    ),
    "a pod goes that its group protected": Case(
        [node("n1", 2), group("g", 10, 1), running("other", group="g"), running("low"), HIGH],
        [gone("other")],
        "high",
        {"engine": BY_GROUP},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_entry_that_a_change_helps_is_tried_soon(name: str) -> None:
    """In each case the last event helps, and none before."""
    case = CASES[name]
    world = World(case.objects, **case.settings)
    world.run()
    for step in case.steps[:-1]:
        step(world)
        world.run()
        world.later(1)
        assert case.waits not in world.bound()
    case.steps[-1](world)
    world.hold_binds = world.hold_evictions = world.lingering = False
    world.run()
    world.later(SOON)
    assert (NS, case.waits) in world.state.pods
    assert case.waits in world.bound()


def test_the_higher_of_two_that_wait_gets_the_node_that_comes() -> None:
    """It is tried at once, although the backoff of the lower one ends first; no pod is evicted for it."""
    world = World()
    world.run(pod("lower", 1, 3))
    world.later(0.5)
    world.run(pod("higher", 1, 7))
    world.later(0.25)
    world.run(node("n1", 1))
    assert world.bound() == {"higher": "n1"}
    world.later(SOON)
    assert world.evictions() == []


def test_a_pod_in_backoff_takes_the_node_that_comes_before_a_lower_pod() -> None:
    """The lower pod is created after the node, within the first second of the higher one."""
    world = World(node("n1", 1), pod("peer", 1, 50, node="n1"))
    world.run(pod("high", 1, 10))
    world.apply(node("n2", 1))
    world.run(pod("low", 1, 1))
    assert world.bound() == {"peer": "n1", "high": "n2"}
    assert world.evictions() == []


def test_a_gang_in_backoff_is_placed_when_its_last_node_comes() -> None:
    """Six nodes are added one by one, and each raised its backoff."""
    members = [pod(f"g-{at}", 1, 10, group="g") for at in range(6)]
    world = World(group("g", 10, 6), members)
    for at in range(6):
        world.later(4)
        world.apply(node(f"n{at}", 1))
        world.run(pod(f"low-{at}", 1, 1) if at == 5 else [])
    assert sorted(world.bound()) == [f"g-{at}" for at in range(6)]
    assert world.evictions() == []


@pytest.mark.parametrize("slow", [False, True])
def test_attempts_that_take_long_leave_time_for_lower_pods(slow: bool) -> None:
    """A gang is tried early when its first node comes. If that takes seconds, its next backoff counts."""
    world = World(
        group("g", 10, 2), [pod(f"g-{at}", 1, 10, group="g") for at in range(2)], decision_seconds=1e9
    )
    world.run()
    with patch.object(world.limits, "clock", count(step=2.0 if slow else 0.0).__next__):
        world.run(node("n1", 1))
        world.apply(node("n2", 1))
        world.run(pod("low", 1, 1))
    assert ("low" in world.bound()) is slow
    world.later(SOON)
    assert {"g-0", "g-1"} <= world.bound().keys()


def test_a_gang_below_its_quorum_stays_gated_when_it_is_looked_at_again() -> None:
    """After five minutes it is decided once, and not repeatedly."""
    world = World(node("n1"), group("g", 0, 2), pod("g-0", group="g"))
    world.run()
    world.later(310)
    (key,) = world.scheduler.queue.keys(EntryPhase.GATED)
    assert world.scheduler.queue.entered[EntryPhase.GATED, Incoming.FAILED] == 1
    assert key == key_of(group("g"))


def test_a_bind_on_its_reserved_node_wakes_no_entry() -> None:
    """A reservation that becomes a bind frees no room, so preemptors elsewhere are not woken."""
    nodes = [node(f"n{at}", 1) for at in (1, 2)]
    lows = [pod(f"low-{at}", 1, node=f"n{at}") for at in (1, 2)]
    world = World(nodes, lows)
    world.lingering = True
    world.run(pod("high-1", 1, 10), pod("high-2", 1, 10))
    world.die("low-1")
    world.later(SOON)
    attempts = len(world.effects)
    world.later(SOON)
    assert len(world.bound()) == 2
    assert len(world.effects) == attempts


def test_a_gang_may_be_evicted_once_it_is_bound() -> None:
    """While its binds are in flight it is no victim; a preemptor of higher priority waits for them only."""
    gang = [pod(f"g-{at}", 1, 5, group="g") for at in range(2)]
    world = World(node("n1", 2), group("g", 5, 2, whole=True))
    world.hold_binds = True
    world.run(gang)
    world.run(pod("high", 2, 6))
    assert not world.evictions()
    world.release()
    world.later(SOON)
    assert world.bound() == {"high": "n1"}


@pytest.mark.parametrize("waits", [False, True])
def test_members_that_go_are_looked_at_where_others_wait(waits: bool) -> None:
    """A running group that loses pods needs no attempt by itself; its other pods may be too few now."""
    members = [pod(f"g-{at}", 1, node="n1", group="g") for at in range(2)]
    world = World(node("n1", 2), group("g", 0, 2), members, [pod("g-2", 1, group="g")] if waits else [])
    world.run()
    for name in ("g-0", "g-1"):
        world.state.remove(world.state.pods[NS, name])
    entries = world.scheduler.entries
    with patch.object(entries, "wanted", wraps=entries.wanted) as wanted:
        world.run()
    assert wanted.called == waits
    assert world.bound() == {}


def test_an_entry_is_planned_again_when_pods_it_counted_on_stay() -> None:
    """A preemption ends whose victims another preemptor had counted as leaving."""
    world = World(node("n1", 1), pod("low", 1, node="n1"))
    world.hold_evictions = True
    world.run(pod("high", 1, 10))
    world.die("high")
    world.run(pod("next", 1, 10))
    world.release()
    world.later(SOON)
    assert world.bound() == {"next": "n1"}


def test_an_entry_that_loses_reserved_room_to_a_bind_is_planned_again() -> None:
    """Its victim is evicted in vain now, and the preemptor does not wait for it."""
    world = World(node("n1", 3), node("n2", 3), running("low", 2), pod("low-2", 3, 1, node="n2"))
    world.lingering = True
    world.run(pod("a", 3, 5))
    assert world.evicted() == ["low"]
    world.run(pod("b", 1, 10))
    assert world.bound()["b"] == "n1"
    world.later(SOON)
    assert world.evicted() == ["low", "low-2"]


def test_a_preemptor_hears_at_the_end_what_happened_meanwhile() -> None:
    """Room appears while its victims are marked: it uses that, however long they take to end."""
    world = World(node("n1", 2), node("n2", 2), running("low", 2), pod("high", 2, 9, node="n2"))
    world.hold_evictions = world.lingering = True
    world.run(pod("a", 2, 5))
    world.die("high")
    world.run()
    world.release()
    assert world.bound()["a"] == "n2"


def test_a_lower_member_that_waits_makes_its_group_no_victim() -> None:
    """A group is protected at its own priority, under NoPreemption as under other policies."""
    world = World(node("n1", 1), group("h", 5, whole=True), running("h-0", 1, 5, group="h"))
    world.run(pod("a", 1, 5))
    world.run(pod("h-1", 1, 0, group="h"))
    world.later(SOON)
    assert not world.evicted()


def test_an_entry_that_a_change_helps_during_its_preemption_is_tried_at_its_end() -> None:
    """It is tried although the queue's periodic retry came in between."""
    world = World(node("n1"), node("n2"), running("low", 4), pod("other", 4, 9, node="n2"))
    world.hold_evictions = world.lingering = True
    world.run(pod("high", 4, 5))
    assert world.evicted() == ["low"]
    world.die("other")
    world.run()
    world.later(301)
    world.release()
    assert world.bound() == {"low": "n1", "high": "n2"}


@pytest.mark.parametrize("policy", [None, "Never"])
def test_an_entry_of_higher_priority_takes_the_room_of_a_failed_bind(policy: str | None) -> None:
    """The node stays reserved for the pod, but not against a higher priority."""
    world = World(node("n1", 1), pod("a", 1, 5))
    world.hold_binds = True
    world.run()
    world.run(pod("high", 1, 10, preemptionPolicy=policy))
    world.later(SOON)
    world.release(failed="500")
    assert world.bound() == {"high": "n1"}
    assert not world.evicted()


def test_a_pod_that_stays_counts_toward_its_group_again() -> None:
    """While its members were leaving, a group had too few for one more."""
    members = [running(f"g-{at}", group="g") for at in (0, 1)]
    world = World(node("n1", 3), group("g", 0, 3, whole=True), members)
    world.hold_evictions = True
    world.run(pod("high", 2, 10))
    world.run(pod("g-2", group="g"))
    world.die("high")
    world.release()
    world.later(SOON)
    assert "g-2" in world.bound()


@pytest.mark.parametrize(
    ("size", "goes"),
    [(2, pod("high", 2, 10)), (4, running("mid", 3, 5, terminating=True))],
    ids=["evicted", "deleted"],
)
def test_a_pod_marked_for_deletion_leaves_room_before_it_is_gone(size: int, goes: Any) -> None:
    """A preemptor that could not evict the leaving pod evicts another at once and does not wait."""
    world = World(node("n1", 4), running("low"), running("mid", 3, 5))
    world.lingering = True
    world.run(pod("b", size, 5))
    world.later(SOON)
    assert not world.evicted()
    world.run(goes)
    assert world.evicted()[-1:] == ["low"]


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.run(node("n1", 1, unschedulable=True)),
        lambda world: world.run(node("n1", 1, labels={"rack": "b"}, unschedulable=True)),
        lambda world: world.state.remove(world.state.nodes["n1"]),
    ],
    ids=["cordoned without a rack", "cordoned in another rack", "removed"],
)
def test_a_group_follows_its_members_to_another_rack(change: Callable[[World], Any]) -> None:
    """A member on a full node binds the group to its rack until the rack of the node changes."""
    nodes = [node("n1", 1, labels={"rack": "a"}), node("n2", 1, labels={"rack": "b"})]
    world = World(*nodes, group("g", 0, 1, topology="rack"), running("g-0", group="g"))
    world.run(pod("g-1", group="g"))
    world.later(SOON)
    assert "g-1" not in world.bound()
    change(world)
    world.later(SOON)
    assert world.bound()["g-1"] == "n2"
