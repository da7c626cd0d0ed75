"""The victims for devices: partitions with counters, taints, shared claims, gangs of different members."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from tests.support.devices.scene import (
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
from tests.support.preemption.clusters import time_of
from tests.support.preemption.scene import SECONDS, group, of, placed, planned
from tests.unit.planner.preemption.test_devices import AFTER, FITS, HOT, NOT, Case, check, gang_waiting


def card(*partitions: str, memory: int = 4, tainted: Sequence[str] = ()) -> list[Any]:
    """Return the node n0 whose card has partitions such as `large-0`, which takes all memory of four."""
    sizes = {"large": 4, "half": 2, "small": 1}
    devices: list[dict[str, Any]] = []
    for name in partitions:
        profile = name.partition("-")[0]
        counters = {"memory": {"value": str(sizes[profile])}}
        devices.append(
            {
                "name": name,
                "attributes": {"profile": {"string": profile}},
                "consumesCounters": [{"counterSet": "card", "counters": counters}],
                "taints": HOT if name in tainted else None,
            }
        )
    sets = [{"name": "card", "counters": {"memory": {"value": str(memory)}}}]
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 2}
    shared = devices_of("n0", 0, pool=pool, devices=[], sharedCounters=sets)
    shared.metadata.name = "n0-counters"
    chosen = 'device.attributes["gpu.example.com"].profile == "{}"'
    classes = [device_class(each, chosen.format(each)) for each in sizes]
    return [node("n0"), *classes, devices_of("n0", 0, pool=pool, devices=devices), shared]


def asking(profile: str, count: int = 1) -> list[Any]:
    """Return the pending pod `high` with a claim for partitions of a profile."""
    return [claim("high", count=count, requested=profile), pod("high", 10)]


def on_card(name: str, partition: str, priority: int = 0) -> list[Any]:
    return holder(name, [f"n0/{partition}"], priority)


SMALL, HALVES = [f"small-{at}" for at in range(4)], [f"half-{at}" for at in range(4)]


PARTITIONS = {
    "a small partition is evicted for the whole card": Case(
        [*card("large-0", *SMALL), *on_card("a", "small-0"), *asking("large")], AFTER, ["a"]
    ),
    "all small partitions are evicted for the whole card": Case(
        [
            *card("large-0", *SMALL),
            *chain.from_iterable(on_card(each, f"small-{at}") for at, each in enumerate("abc")),
            *asking("large"),
        ],
        AFTER,
        ["a", "b", "c"],
    ),
    "one small partition is evicted for half of the card": Case(
        [
            *card("half-0", *SMALL),
            *on_card("a", "small-0", 1),
            *on_card("b", "small-1", 2),
            *on_card("c", "small-2", 3),
            pod("d", claims=(), node="n0"),
            *asking("half"),
        ],
        AFTER,
        ["a"],
    ),
    "half of the card is free": Case(
        [*card("half-0", *SMALL), *on_card("a", "small-0"), *on_card("b", "small-1"), *asking("half")], FITS
    ),
    "the whole card is evicted for a small partition": Case(
        [*card("large-0", *SMALL), *on_card("a", "large-0"), *asking("small")], AFTER, ["a"]
    ),
    "one half is evicted rather than two small partitions": Case(
        [
            *card("half-0", "half-1", *SMALL),
            *on_card("a", "half-0"),
            *on_card("b", "small-0"),
            *on_card("c", "small-1"),
            *asking("half"),
        ],
        AFTER,
        ["a"],
    ),
    "no small partition is evicted if one of them stays": Case(
        [*card("large-0", *SMALL), *on_card("a", "small-0"), *on_card("b", "small-1", 20), *asking("large")],
        NOT,
    ),
    "a partition on another card frees no counters": Case(
        [
            *card("large-0", *SMALL),
            *on_card("a", "small-0", 20),
            node("n1"),
            devices_of("n1", 1),
            *holder("b", ["n1/gpu-0"]),
            *asking("large"),
        ],
        NOT,
    ),
    "counters are free beside one half": Case(
        [*card(*HALVES), *on_card("a", "half-0"), *asking("half")], FITS, (), {"high": "n0"}
    ),
    "one of two halves is evicted for a third": Case(
        [*card(*HALVES), *on_card("a", "half-0"), *on_card("b", "half-1"), *asking("half")], AFTER, ["b"]
    ),
    "two halves are evicted for two others": Case(
        [*card(*HALVES), *on_card("a", "half-0"), *on_card("b", "half-1"), *asking("half", 2)],
        AFTER,
        ["a", "b"],
        {"high": "n0"},
    ),
    "counters do not suffice for three halves": Case(
        [*card(*HALVES), *on_card("a", "half-0"), *on_card("b", "half-1"), *asking("half", 3)], NOT
    ),
}
TAINTS = {
    "no holder of a tainted partition is evicted for it": Case(
        [*card("large-0", tainted=["large-0"]), *on_card("a", "large-0"), *asking("large")], NOT
    ),
    "a holder of a tainted partition is evicted for its counters": Case(
        [*card("half-0", "large-0", tainted=["large-0"]), *on_card("a", "large-0"), *asking("half")],
        AFTER,
        ["a"],
    ),
    "the holder of the device without a taint is evicted": Case(
        [
            node("n0"),
            device_class(),
            devices_of("n0", 0, devices=[{"name": "gpu-0", "taints": HOT}, {"name": "gpu-1"}]),
            *holder("a", ["n0/gpu-0"]),
            *holder("b", ["n0/gpu-1"], 5),
            *waiting("high"),
        ],
        AFTER,
        ["b"],
    ),
    "a gang that lacks a device without a taint evicts no pod": Case(
        [
            node("n0"),
            device_class(),
            devices_of("n0", 0, devices=[{"name": "gpu-0", "taints": HOT}, {"name": "gpu-1"}]),
            *holder("a", ["n0/gpu-0"]),
            *holder("b", ["n0/gpu-1"]),
            *gang_waiting(1, 1),
        ],
        NOT,
        by=of("high"),
    ),
}
# Two claims that the pod b uses, and a claim that a user of higher priority keeps.
CHAINED = [
    *cluster(1, 2),
    claim("c", ["n0/gpu-0"], ["a", "b"]),
    claim("d", ["n0/gpu-1"], ["b", "e"]),
    pod("a", claims=["c"], node="n0"),
    pod("b", claims=["c", "d"], node="n0"),
]
KEPT = [
    *cluster(1, 2),
    claim("c", ["n0/gpu-0"], ["a", "b"]),
    pod("a", claims=["c"], node="n0"),
    pod("b", 20, claims=["c"], node="n0"),
]
SHARED = {
    "shared claims pull in the units that share them": Case(
        [*CHAINED, pod("e", claims=["d"], node="n0"), *waiting("high", 2)], AFTER, ["a", "b", "e"]
    ),
    "one of two claims suffices, and a user of the other stays": Case(
        [*CHAINED, pod("e", 5, claims=["d"], node="n0"), *waiting("high")], AFTER, ["a", "b"]
    ),
    "a claim of a gang and a pod is freed by both": Case(
        [
            *cluster(2, 1),
            group("low", 0, 2, whole=True),
            claim("c", ["n0/gpu-0"], ["low-0", "a"]),
            pod("low-0", claims=["c"], node="n0", group="low"),
            pod("low-1", claims=(), node="n1", group="low"),
            pod("a", claims=["c"], node="n0"),
            *holder("b", ["n1/gpu-0"], 20),
            *waiting("high"),
        ],
        AFTER,
        ["a", "low-0", "low-1"],
    ),
    "a gang evicts no pod whose claim another user keeps": Case(
        [*KEPT, *holder("d", ["n0/gpu-1"]), *gang_waiting(1, 1)], NOT, by=of("high")
    ),
    "a claim whose other user stays is no reason to evict": Case(
        [*KEPT, *holder("d", ["n0/gpu-1"], 5), *waiting("high")], AFTER, ["d"]
    ),
}
LOW = [
    group("low", 0, 3, whole=True),
    *chain.from_iterable(
        holder(f"low-{at}", held, group="low", start=time_of(SECONDS - 600))
        for at, held in enumerate((["n1/gpu-0"], ["n1/gpu-1"], ["n1/gpu-2", "n1/gpu-3"]))
    ),
]
LARGER = [node("n0"), node("n1"), device_class(), devices_of("n0", 3), devices_of("n1", 1)]
GANGS = {
    "a gang of different members fits on free devices": Case(
        [*LARGER, *gang_waiting(1, 3)], FITS, by=of("high")
    ),
    "a gang of different members evicts the one holder in its way": Case(
        [*LARGER, *holder("a", ["n0/gpu-0"]), *gang_waiting(1, 3)], AFTER, ["a"], by=of("high")
    ),
    "different members evict a gang that has enough devices, and no pod beside it": Case(
        [
            *cluster(2, 2)[:-2],
            device_class(),
            devices_of("n1", 4),
            *holder("a", ["n0/gpu-0", "n0/gpu-1"], start=time_of(SECONDS - 60)),
            *LOW,
            *gang_waiting(1, 2),
        ],
        AFTER,
        ["low-0", "low-1", "low-2"],
        by=of("high"),
    ),
    "a member with few devices leaves those of the large one": Case(
        [
            *LARGER,
            *holder("a", ["n0/gpu-0", "n0/gpu-1", "n0/gpu-2"]),
            *holder("b", ["n1/gpu-0"]),
            *gang_waiting(1, 3),
        ],
        AFTER,
        ["a", "b"],
        by=of("high"),
    ),
    "one holder of many devices is evicted rather than several of few": Case(
        [
            *cluster(1, 5),
            *holder("a", ["n0/gpu-0", "n0/gpu-1", "n0/gpu-2"]),
            *holder("b", ["n0/gpu-3"]),
            *holder("c", ["n0/gpu-4"]),
            *gang_waiting(1, 2),
        ],
        AFTER,
        ["a"],
        by=of("high"),
    ),
}
ALL = {**PARTITIONS, **TAINTS, **SHARED, **GANGS}


@pytest.mark.parametrize("case", ALL.values(), ids=list(ALL))
def test_a_plan_for_devices_evicts(case: Case) -> None:
    check(case)


def test_members_are_placed_where_their_devices_are() -> None:
    made = planned(LARGER, holder("a", ["n0/gpu-0"]), gang_waiting(1, 3), by=of("high"))
    assert placed(made) == {"high-0": "n1", "high-1": "n0"}


def test_a_pod_gets_the_devices_that_a_later_member_cannot_use() -> None:
    """The first member may have any device, and takes the only one of the second if it is placed first."""
    kinds = [{"name": f"gpu-{at}", "attributes": {"kind": {"string": each}}} for at, each in enumerate("ba")]
    fast = device_class("fast", f'device.attributes["{DRIVER}"].kind == "b"')
    objects = [node("n0"), device_class(), fast, devices_of("n0", 0, devices=kinds)]
    members = [pod(f"high-{at}", 10, [f"high-{at}"], group="high") for at in range(2)]
    claims = [claim("high-0"), claim("high-1", requested="fast")]
    assert planned(objects, claims, group("high", 10, 2), members, by=of("high")).outcome is FITS
