"""The harm of evicting pods with devices of claims: each device counts as an accelerator does."""

from typing import Any

import pytest
from tests.support.devices.scene import claim, cluster, devices_of, holder, node, pod, waiting
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, NS, state_of, time_of
from tests.support.preemption.scene import HOST, SECONDS, engine_of, group, of, planned, victims
from tests.unit.planner.preemption.test_harm import harm_of

from podium.answers.whatifplans import accelerators
from podium.api.core import ResourceClaimEntry
from podium.api.devices import ResourceClaim
from podium.api.records import PlanMode
from podium.planner.preemption.outcome import PlanHarm
from podium.schedulerplugin.history import planned as records
from podium.schedulerplugin.scheduling.verdicts import eviction

GPU = "nvidia.com/gpu"


def started(name: str, ago: int, priority: int = 0, claims: Any = None, **fields: Any) -> Any:
    """Return a pod that runs on n0 since so many seconds."""
    return pod(name, priority, claims, start=time_of(SECONDS - ago), **{"node": "n0", **fields})


def held(name: str, ago: int, *devices: str, priority: int = 0, **fields: Any) -> list[Any]:
    """Return a pod that holds devices of n0 since so many seconds."""
    where = [f"n0/{each}" for each in devices]
    return [claim(name, where, count=len(devices)), started(name, ago, priority, **fields)]


def marked(name: str, *, share: str = "", admin: bool = False) -> ResourceClaim:
    """Return a claim with the device gpu-0: a share of it, or administrative access to it."""
    made = claim(name, ["n0/gpu-0"])
    assert made.status is not None
    assert made.status.allocation is not None
    for each in made.status.allocation.devices.results or ():
        each.shareID, each.adminAccess = share or None, admin or None
    return made


ALL = [*waiting("high", 2)]
TWO = cluster(1, 2)
SHARED = claim("c", ["n0/gpu-0", "n0/gpu-1"], ["a", "b"])
GANG_CLAIM = (ResourceClaimEntry(name="x0", resourceClaimName="c"),)
LARGE: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "60"}}}]}

CASES: dict[str, tuple[list[Any], PlanHarm]] = {
    "a device of a claim counts as an accelerator": (
        [*TWO, *held("a", 600, "gpu-0", "gpu-1"), *ALL],
        harm_of(0, 1_200, (0, 1, 1)),
    ),
    "devices of two victims": (
        [*TWO, *held("a", 600, "gpu-0"), *held("b", 60, "gpu-1"), *ALL],
        harm_of(0, 660, (0, 2, 2)),
    ),
    "a claim of two victims counts once, for the longest time": (
        [*TWO, SHARED, started("a", 600, claims=["c"]), started("b", 60, claims=["c"]), *ALL],
        harm_of(0, 1_200, (0, 2, 2)),
    ),
    "a claim of two victims counts for the highest priority": (
        [*TWO, SHARED, started("a", 600, claims=["c"]), started("b", 60, 1, claims=["c"]), *ALL],
        harm_of(0, 120, (1, 1, 1), (0, 1, 1)),
    ),
    "a claim of a gang counts once": (
        [
            *TWO,
            claim("c", ["n0/gpu-0", "n0/gpu-1"], group="low"),
            group("low", 0, 2, whole=True, claims=GANG_CLAIM),
            *(started(f"low-{at}", 600 + at, claims=["c"], group="low") for at in range(2)),
            *ALL,
        ],
        harm_of(0, 1_202, (0, 1, 2)),
    ),
    "a claim that is not reserved for the pod does not count": (
        [
            *TWO,
            claim("c", ["n0/gpu-0"], ["b"]),
            started("a", 600, claims=["c"], **LARGE),
            pod("high", 10, (), **LARGE),
        ],
        harm_of(0, 0, (0, 1, 1)),
    ),
    "administrative access does not count": (
        [*TWO, marked("a", admin=True), started("a", 600, **LARGE), pod("high", 10, (), **LARGE)],
        harm_of(0, 0, (0, 1, 1)),
    ),
    "a share of a device counts as a device": (
        [*TWO, marked("a", share="s"), started("a", 600, **LARGE), pod("high", 10, (), **LARGE)],
        harm_of(0, 600, (0, 1, 1)),
    ),
    "devices and accelerators of device plugins add up": (
        [
            builders.node("n0", {"cpu": 64, GPU: 8}, labels={HOST: "n0"}),
            *cluster(1, 1)[1:],
            claim("a", ["n0/gpu-0"]),
            started("a", 10, containers=[{"name": "c", "resources": {"requests": {GPU: "3", "cpu": "1"}}}]),
            *waiting("high"),
        ],
        harm_of(0, 40, (0, 1, 1)),
    ),
}


@pytest.mark.parametrize(("objects", "expected"), CASES.values(), ids=list(CASES))
def test_devices_of_claims_count_as_lost_work(objects: list[Any], expected: PlanHarm) -> None:
    assert planned(objects).harm == expected


@pytest.mark.parametrize(("objects", "expected"), CASES.values(), ids=list(CASES))
def test_the_scheduler_records_the_devices_that_whatif_shows(objects: list[Any], expected: PlanHarm) -> None:
    engine = engine_of(objects)
    decision = engine.decide((NS, "high"), NOW)
    evict = eviction(engine, (NS, "high"), decision, SECONDS, "")
    assert evict.work == expected.acceleratorSeconds
    view = state_of(objects)
    shown = accelerators(engine.explain(decision, NOW), view)
    assert records.planned(evict, view, NOW, PlanMode.ENFORCED).accelerators == shown


def test_the_devices_of_the_victims_are_shown_by_driver() -> None:
    objects = [*TWO, SHARED, started("a", 600, claims=["c"]), started("b", 60, claims=["c"]), *ALL]
    assert accelerators(planned(objects), state_of(objects)) == {"gpu.example.com": 2}


def test_less_work_on_devices_is_lost_if_two_nodes_are_equal_in_all_else() -> None:
    others = [node("n1"), devices_of("n1", 1), claim("b", ["n1/gpu-0"])]
    younger = started("b", 60, node="n1")
    assert victims(planned(*cluster(1, 1), held("a", 600, "gpu-0"), others, younger, waiting("high"))) == [
        "b"
    ]


def test_a_gang_evicts_the_pods_that_lose_least_work_on_devices() -> None:
    """The preemptor needs cpu alone: the pods in its way differ in their devices."""
    low = [holder(f"low-{at}", [f"n{at}/gpu-0"], start=time_of(SECONDS - 600), **LARGE) for at in range(2)]
    gang = [group("high", 10, 1), pod("high-0", 10, (), group="high", **LARGE)]
    without = pod("low-2", 0, (), node="n2", start=time_of(SECONDS - 900), **LARGE)
    plan = planned(cluster(3, 1), low, without, gang, by=of("high"))
    assert victims(plan) == ["low-2"]


def test_a_claim_that_becomes_allocated_counts_from_then_on() -> None:
    before, after = claim("a", users=["a"]), claim("a", ["n0/gpu-0"])
    engine = engine_of(*TWO, before, started("a", 600, **LARGE), pod("high", 10, (), **LARGE))
    works = []
    for old, new in ((None, None), (before, after), (after, before)):
        if old is not None:
            engine.apply(old, new)
        harm = engine.plan((NS, "high"), NOW).harm
        assert harm is not None
        works.append(harm.acceleratorSeconds)
    assert works == [0, 600, 0]
