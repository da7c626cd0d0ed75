"""Preemption for devices: victims free the devices of their claims, and only victims do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from tests.support.devices.scene import (
    ANY,
    CLASS,
    DRIVER,
    claim,
    cluster,
    device_class,
    devices_of,
    holder,
    node,
    pod,
    waiting,
)
from tests.support.filters.builders import device_plugin
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import engine_of, group, of, placed, planned, victims

from podium.api.core import ResourceClaimEntry
from podium.api.devices import DeviceConstraint, DeviceRequest
from podium.planner.plugins.devices.filter import DevicesFilter
from podium.planner.plugins.devices.search import TOO_LONG
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.semantics import Semantics

AFTER, FITS, NOT = Outcome.FITS_AFTER_PREEMPTION, Outcome.FITS, Outcome.DOES_NOT_FIT


def gang_of(
    name: str, held: Sequence[str], priority: int = 0, *, whole: bool = True, **fields: Any
) -> list[Any]:
    """Return a running gang whose members have one of these devices each."""
    members = [holder(f"{name}-{at}", [each], priority, group=name) for at, each in enumerate(held)]
    return [group(name, priority, len(held), whole=whole, **fields), *chain.from_iterable(members)]


def gang_waiting(*counts: int) -> list[Any]:
    """Return the pending gang `high` whose members have claims of their own for so many devices."""
    members = [waiting(f"high-{at}", count, group="high") for at, count in enumerate(counts)]
    return [group("high", 10, len(counts)), *chain.from_iterable(members)]


@dataclass(frozen=True)
class Case:
    """Objects, and the plan for the pod `high` or the gang `high`."""

    objects: list[Any]
    outcome: Outcome
    victims: Sequence[str] = ()
    placed: Mapping[str, str] = field(default_factory=dict)
    by: Any = "high"
    why: str = ""


N0 = {"high": "n0"}
SHARED = [claim("c", ["n0/gpu-0"], ["a", "b"]), pod("a", claims=["c"], node="n0")]
PAIR = [f"n0/gpu-{at}" for at in range(2)]
HOT = [{"key": "hot", "effect": "NoSchedule"}]
CASES = {
    "no pod is evicted beside a free device": Case(
        [*cluster(1, 2), *holder("a", ["n0/gpu-0"]), *waiting("high")], FITS, (), N0
    ),
    "the holder of one device is evicted, and no other pod": Case(
        [
            *cluster(1, 2),
            *holder("a", ["n0/gpu-0"], 1),
            *holder("b", ["n0/gpu-1"]),
            pod("c", claims=(), node="n0"),
            *waiting("high"),
        ],
        AFTER,
        ["b"],
        N0,
    ),
    "two holders are evicted for two devices": Case(
        [*cluster(1, 2), *holder("a", ["n0/gpu-0"]), *holder("b", ["n0/gpu-1"]), *waiting("high", 2)],
        AFTER,
        ["a", "b"],
        N0,
    ),
    "a free device of the node is used too": Case(
        [*cluster(1, 3), *holder("a", ["n0/gpu-0"]), *holder("b", ["n0/gpu-1"], 1), *waiting("high", 2)],
        AFTER,
        ["a"],
        N0,
    ),
    "a holder on a node with too few devices is spared": Case(
        [
            *cluster(1, 1),
            node("n1"),
            devices_of("n1", 2),
            *holder("a", ["n0/gpu-0"]),
            *holder("b", ["n1/gpu-0", "n1/gpu-1"], 5),
            *waiting("high", 2),
        ],
        AFTER,
        ["b"],
        {"high": "n1"},
    ),
    "a holder of the same priority is spared": Case(
        [*cluster(1, 1), *holder("a", ["n0/gpu-0"], 10), *waiting("high")], NOT
    ),
    "all freed devices do not suffice": Case(
        [*cluster(2, 1), *holder("a", ["n0/gpu-0"]), *holder("b", ["n1/gpu-0"]), *waiting("high", 2)], NOT
    ),
    "no node has such devices": Case(
        [node("n0"), device_class(), pod("a", claims=(), node="n0"), *waiting("high")], NOT
    ),
    "a shared claim is freed by all its users": Case(
        [*cluster(1, 1), *SHARED, pod("b", claims=["c"], node="n0"), *waiting("high")], AFTER, ["a", "b"], N0
    ),
    "a user of higher priority keeps a shared claim": Case(
        [*cluster(1, 1), *SHARED, pod("b", 99, claims=["c"], node="n0"), *waiting("high")], NOT
    ),
    "a user that waits keeps a shared claim": Case(
        [*cluster(1, 1), *SHARED, pod("b", 0, claims=["c"]), *waiting("high")], NOT
    ),
    "a user that is not known keeps a shared claim": Case([*cluster(1, 1), *SHARED, *waiting("high")], NOT),
    "a holder is cheaper than the users of a shared claim": Case(
        [
            *cluster(1, 2),
            *SHARED,
            pod("b", claims=["c"], node="n0"),
            *holder("d", ["n0/gpu-1"]),
            *waiting("high"),
        ],
        AFTER,
        ["d"],
        N0,
    ),
    "a whole gang is evicted": Case(
        [*cluster(2, 1), *gang_of("low", ["n0/gpu-0", "n1/gpu-0"]), *waiting("high")],
        AFTER,
        ["low-0", "low-1"],
    ),
    "a gang evicts a whole gang": Case(
        [*cluster(2, 1), *gang_of("low", ["n0/gpu-0", "n1/gpu-0"]), *gang_waiting(1, 1)],
        AFTER,
        ["low-0", "low-1"],
        by=of("high"),
    ),
    "a gang evicts one of two gangs": Case(
        [
            *cluster(2, 2),
            *gang_of("low", PAIR, 1),
            *gang_of("less", ["n1/gpu-0", "n1/gpu-1"]),
            *gang_waiting(1, 1),
        ],
        AFTER,
        ["less-0", "less-1"],
        {"high-0": "n1", "high-1": "n1"},
        of("high"),
    ),
    "a gang for which all devices do not suffice evicts no pod": Case(
        [*cluster(2, 1), *gang_of("low", ["n0/gpu-0", "n1/gpu-0"]), *gang_waiting(1, 1, 1)],
        NOT,
        by=of("high"),
    ),
    "a gang that shares a claim evicts one holder": Case(
        [
            *cluster(2, 1),
            *holder("a", ["n0/gpu-0"]),
            *holder("b", ["n1/gpu-0"], 1),
            group("high", 10, 2, claims=(ResourceClaimEntry(name="x0", resourceClaimName="c"),)),
            claim("c"),
            *(pod(f"high-{at}", 10, claims=["c"], group="high") for at in range(2)),
        ],
        AFTER,
        ["a"],
        {"high-0": "n0", "high-1": "n0"},
        of("high"),
    ),
    "a terminating holder is awaited": Case(
        [*cluster(1, 1), *holder("a", ["n0/gpu-0"], terminating=True), *waiting("high")], AFTER, (), N0
    ),
    "claims of pods that are gone are awaited": Case(
        [*cluster(1, 1), claim("a", ["n0/gpu-0"]), *waiting("high")],
        Outcome.NOT_ELIGIBLE,
        why=DevicesFilter.AWAITS,
    ),
    "no other holder is evicted while claims are awaited": Case(
        [*cluster(1, 2), claim("a", ["n0/gpu-0"]), *holder("b", ["n0/gpu-1"]), *waiting("high")],
        Outcome.NOT_ELIGIBLE,
        why=DevicesFilter.AWAITS,
    ),
    "claims of pods that are gone do not suffice": Case(
        [*cluster(1, 2), claim("a", ["n0/gpu-0"]), *holder("b", ["n0/gpu-1"]), *waiting("high", 2)], NOT
    ),
    "a device with a taint is not worth an eviction": Case(
        [
            node("n0"),
            device_class(),
            devices_of("n0", 0, devices=[{"name": "gpu-0", "taints": HOT}]),
            *holder("a", ["n0/gpu-0"]),
            *waiting("high"),
        ],
        NOT,
    ),
    "a tolerated taint": Case(
        [
            node("n0"),
            device_class(),
            devices_of("n0", 0, devices=[{"name": "gpu-0", "taints": HOT}]),
            *holder("a", ["n0/gpu-0"]),
            claim("high", tolerations=[{"operator": "Exists"}]),
            pod("high", 10),
        ],
        AFTER,
        ["a"],
        N0,
    ),
    "devices for all nodes are freed on another node": Case(
        [
            *cluster(2, 0),
            devices_of(ANY, 1),
            *holder("a", [f"{ANY}/gpu-0"], on="n1"),
            *waiting("high", nodeSelector={"kubernetes.io/hostname": "n0"}),
        ],
        NOT,
    ),
    "devices for all nodes are freed on the node": Case(
        [*cluster(1, 0), devices_of(ANY, 1), *holder("a", [f"{ANY}/gpu-0"], on="n0"), *waiting("high")],
        AFTER,
        ["a"],
        N0,
    ),
    "a pod that needs room alone evicts a holder": Case(
        [
            node("n0"),
            device_class(),
            devices_of("n0", 1),
            *holder("a", ["n0/gpu-0"], containers=[{"name": "c", "resources": {"requests": {"cpu": "64"}}}]),
            pod("high", 10, claims=()),
        ],
        AFTER,
        ["a"],
        N0,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_plan_frees_devices(case: Case) -> None:
    check(case)


def check(case: Case) -> None:
    """Assert that the plan of a case has its outcome, victims and places."""
    made = planned(case.objects, by=case.by)
    assert (made.outcome, sorted(victims(made))) == (case.outcome, list(case.victims))
    assert not case.placed or placed(made) == case.placed
    assert case.why in made.message


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_no_release_of_kube_scheduler_frees_devices(semantics: Semantics) -> None:
    made = planned(cluster(1, 1), holder("a", ["n0/gpu-0"]), waiting("high"), semantics=semantics)
    assert (made.outcome, victims(made)) == (NOT, [])


def test_the_plan_names_the_devices() -> None:
    made = planned(cluster(1, 2), holder("a", PAIR), waiting("high", 2))
    results = [each for one in made.placements for claimed in one.claims for each in claimed.results]
    assert [(each.request, each.pool, each.device) for each in results] == [
        ("gpus", "n0", "gpu-0"),
        ("gpus", "n0", "gpu-1"),
    ]


# --- brute force ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tiny:
    """Devices by node; running pods with priority and devices; the devices that the preemptors want."""

    offers: tuple[int, ...]
    running: tuple[tuple[int, tuple[str, ...]], ...]
    shared: tuple[int, int] | None
    wanted: tuple[int, ...]

    def objects(self, without: frozenset[int] = frozenset()) -> list[Any]:
        """Return the objects without some of the running pods, and without their claims."""
        names = [f"n{at}" for at in range(len(self.offers))]
        found: list[Any] = [*map(node, names), device_class()]
        found += [devices_of(name, count) for name, count in zip(names, self.offers, strict=True)]
        for at, (priority, held) in enumerate(self.running):
            users = self.users(at)
            if held and not users <= without:
                first = min(users)
                found.append(claim(f"low-{first}", held, [f"low-{each}" for each in sorted(users - without)]))
            if at not in without:
                used = [f"low-{min(users)}"] if self.held(at) else []
                found.append(pod(f"low-{at}", priority, used, node=self.held(at)[0].split("/")[0]))
        if len(self.wanted) == 1:
            return [*found, *waiting("high", self.wanted[0])]
        return [*found, *gang_waiting(*self.wanted)]

    def users(self, at: int) -> frozenset[int]:
        """Return the pods that use the claim of a pod."""
        return frozenset(self.shared) if self.shared is not None and at in self.shared else frozenset((at,))

    def held(self, at: int) -> tuple[str, ...]:
        """Return the devices of a pod."""
        return self.running[min(self.users(at))][1]

    def plan(self, without: frozenset[int] = frozenset()) -> Plan:
        """Return the plan once some of the running pods are gone."""
        return planned(self.objects(without), by="high" if len(self.wanted) == 1 else of("high"))


@st.composite
def tiny_clusters(draw: st.DrawFn) -> Tiny:
    offers = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    running: list[tuple[int, tuple[str, ...]]] = []
    for at, count in enumerate(offers):
        free = [f"n{at}/gpu-{each}" for each in range(count)]
        while free and len(running) < 5 and draw(st.integers(0, 3)):
            taken = draw(st.integers(1, len(free)))
            running.append((draw(st.sampled_from((0, 1, 5, 20))), tuple(free[:taken])))
            free = free[taken:]
    shared = None
    if running and len(running) < 5 and draw(st.booleans()):
        first = draw(st.integers(0, len(running) - 1))
        running.append((draw(st.sampled_from((0, 1, 20))), ()))
        shared = first, len(running) - 1
    wanted = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    return Tiny(offers, tuple(running), shared, wanted)


@budget(max_examples=80)
@given(tiny_clusters())
def test_no_plan_is_worse_than_trying_all_sets_of_victims(tiny: Tiny) -> None:
    lower = [at for at, (priority, _) in enumerate(tiny.running) if priority < 10]
    made = tiny.plan()
    evicted = frozenset(int(name.removeprefix("low-")) for name in victims(made))
    assert evicted <= set(lower)
    removable = chain.from_iterable(combinations(lower, size) for size in range(len(lower) + 1))
    helps = [frozenset(each) for each in removable if tiny.plan(frozenset(each)).outcome is FITS]
    assert (made.outcome in (FITS, AFTER)) == bool(helps)
    assert (made.outcome is FITS) == (frozenset() in helps)
    if not helps:
        assert not evicted
        return
    assert evicted in helps
    assert not any(each < evicted for each in helps), "no victim is evicted without need"
    if len({tiny.running[at][0] for at in lower}) == 1:
        assert len(evicted) <= min(map(len, helps))
    worst = min(max((tiny.running[at][0] for at in each), default=-1) for each in helps)
    assert max((tiny.running[at][0] for at in evicted), default=-1) == worst


@budget(max_examples=40)
@given(tiny_clusters())
def test_a_plan_leaves_the_devices_as_they_were(tiny: Tiny) -> None:
    engine, fresh = engine_of(tiny.objects()), engine_of(tiny.objects())
    target = (NS, "high") if len(tiny.wanted) == 1 else of("high")
    first = engine.plan(target, NOW)
    assert device_plugin(engine.snapshot).known.usage == device_plugin(fresh.snapshot).known.usage
    assert engine.plan(target, NOW) == first


def test_recreated_victims_that_cannot_be_judged_preempt_no_pod() -> None:
    """Two nodes have plans of equal cost, and victims of two priorities could preempt in turn."""
    held = [holder(f"v{at}-{index}", [f"n{at}/gpu-{index}"], index) for at in (0, 1) for index in (0, 1)]
    plan = planned(*cluster(2, 2), *held, *waiting("p", 2), by=(NS, "p"))
    assert sorted(victims(plan)) == ["v0-0", "v0-1"]


def test_a_search_without_an_end_refuses_the_pod() -> None:
    """A tenant's claim for twelve devices that differ, of which each node has eleven kinds."""
    serials = [{"name": f"gpu-{at}", "attributes": {"serial": {"int": at % 11}}} for at in range(16)]
    names = [f"r{at}" for at in range(12)]
    endless = claim("p")
    request = msgspec.convert({"name": "r", "exactly": {"deviceClassName": CLASS, "count": 1}}, DeviceRequest)
    endless.spec.devices.requests = [msgspec.structs.replace(request, name=each) for each in names]
    endless.spec.devices.constraints = [DeviceConstraint(distinctAttribute=f"{DRIVER}/serial")]
    nodes = [node(f"n{at}") for at in range(20)]
    slices = [devices_of(f"n{at}", 0, devices=serials) for at in range(20)]
    plan = planned(*nodes, *slices, device_class(), endless, pod("p", 10), by=(NS, "p"))
    assert plan.outcome is NOT
    assert plan.message.endswith(f"20 {TOO_LONG}.")
