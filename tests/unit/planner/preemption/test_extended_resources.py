"""Preemption for extended resources that classes provide: by devices of claims, and by room of plugins."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.devices.scene import (
    RESOURCE,
    cluster,
    device_class,
    devices_of,
    extended,
    holder,
    node,
    plugged,
    requesting,
    waiting,
    with_devices,
)
from tests.support.preemption.scene import group, of, placed, planned, victims

from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

PROVIDES = device_class(resource=RESOURCE)


@dataclass(frozen=True)
class Case:
    """Objects with the preemptor `high`, the names of the victims, and the nodes that it may get."""

    objects: Sequence[Any]
    victims: Sequence[str]
    nodes: Sequence[str] = ("n0",)


HIGH = requesting("high", 1, 10)
CASES = {
    "a pod with devices of a claim": Case(
        [*cluster(1, 1, RESOURCE), with_devices("low", ["n0/gpu-0"]), HIGH], ["low"]
    ),
    "a pod of a device plugin": Case(
        [plugged("n0", 1), PROVIDES, requesting("low", node="n0"), HIGH], ["low"]
    ),
    "a pod with a claim of its own": Case(
        [*cluster(1, 1, RESOURCE), holder("low", ["n0/gpu-0"]), HIGH], ["low"]
    ),
    "the preemptor has a claim of its own": Case(
        [*cluster(1, 1, RESOURCE), with_devices("low", ["n0/gpu-0"]), waiting("high")], ["low"]
    ),
    "two pods for two devices": Case(
        [
            *cluster(1, 2, RESOURCE),
            with_devices("a", ["n0/gpu-0"]),
            with_devices("b", ["n0/gpu-1"]),
            requesting("high", 2, 10),
        ],
        ["a", "b"],
    ),
    "one of two pods for one device": Case(
        [
            *cluster(1, 2, RESOURCE),
            with_devices("a", ["n0/gpu-0"], 5),
            with_devices("b", ["n0/gpu-1"], 1),
            HIGH,
        ],
        ["b"],
    ),
    "no pod of the node frees devices of another": Case(
        [
            *cluster(2, 1, RESOURCE),
            with_devices("top", ["n0/gpu-0"], 20),
            with_devices("low", ["n1/gpu-0"]),
            HIGH,
        ],
        ["low"],
        ["n1"],
    ),
    "the pod of a device plugin is cheaper": Case(
        [
            *(node("n0"), devices_of("n0", 1), plugged("n1", 1), PROVIDES),
            with_devices("dear", ["n0/gpu-0"], 5),
            requesting("cheap", node="n1"),
            HIGH,
        ],
        ["cheap"],
        ["n1"],
    ),
    "the pod with devices is cheaper": Case(
        [
            *(node("n0"), devices_of("n0", 1), plugged("n1", 1), PROVIDES),
            with_devices("cheap", ["n0/gpu-0"]),
            requesting("dear", 1, 5, node="n1"),
            HIGH,
        ],
        ["cheap"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_plan_frees_devices_and_room(case: Case) -> None:
    made = planned(*case.objects)
    assert (made.outcome, sorted(victims(made))) == (Outcome.FITS_AFTER_PREEMPTION, list(case.victims))
    assert placed(made)["high"] in case.nodes


IN_VAIN = {
    "the node has too few devices": [
        *cluster(1, 1, RESOURCE),
        with_devices("low", ["n0/gpu-0"]),
        requesting("high", 2, 10),
    ],
    "the device plugin offers too little": [
        plugged("n0", 1),
        PROVIDES,
        requesting("low", node="n0"),
        requesting("high", 2, 10),
    ],
    "a pod of equal priority has the device": [
        *cluster(1, 1, RESOURCE),
        with_devices("low", ["n0/gpu-0"], 10),
        HIGH,
    ],
    "the device is of a pod that is gone": [
        *cluster(1, 1, RESOURCE),
        extended("gone", ["n0/gpu-0"]),
        requesting("low", 0, 0, node="n0"),
        HIGH,
    ],
}


@pytest.mark.parametrize("objects", IN_VAIN.values(), ids=list(IN_VAIN))
def test_no_pod_is_evicted_in_vain(objects: list[Any]) -> None:
    assert victims(planned(*objects)) == []


def test_a_gang_preempts_a_gang_for_devices() -> None:
    low = [
        group("low", 1, 2, whole=True),
        *(with_devices(f"low-{at}", [f"n{at}/gpu-0"], 1, group="low") for at in range(2)),
    ]
    high = [group("high", 10, 2), *(requesting(f"high-{at}", 1, 10, group="high") for at in range(2))]
    made = planned(*cluster(2, 1, RESOURCE), *low, *high, by=of("high"))
    assert sorted(victims(made)) == ["low-0", "low-1"]


def test_a_gang_evicts_no_more_than_it_needs() -> None:
    """One member uses an idle device, and one the room of a device plugin."""
    objects = [node("n0"), devices_of("n0", 2), plugged("n1", 1), PROVIDES, with_devices("low", ["n0/gpu-0"])]
    high = [group("high", 10, 2), *(requesting(f"high-{at}", 1, 10, group="high") for at in range(2))]
    made = planned(*objects, *high, by=of("high"))
    assert (made.outcome, sorted(placed(made).values())) == (Outcome.FITS, ["n0", "n1"])


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37])
def test_rules_of_kube_scheduler_free_room_and_no_devices(semantics: Semantics) -> None:
    devices = [*cluster(1, 1, RESOURCE), with_devices("low", ["n0/gpu-0"]), HIGH]
    assert planned(*devices, semantics=semantics).outcome is Outcome.DOES_NOT_FIT
    room = [plugged("n0", 1), PROVIDES, requesting("low", node="n0"), HIGH]
    assert victims(planned(*room, semantics=semantics)) == ["low"]


def test_the_plan_names_the_devices() -> None:
    made = planned(*cluster(1, 2, RESOURCE), requesting("high", 2, 10))
    ((each,),) = (one.claims for one in made.placements)
    assert each.name == "<extended-resources>"
    assert [(one.request, one.pool, one.device) for one in each.results] == [
        ("container-0-request-1", "n0", "gpu-0"),
        ("container-0-request-1", "n0", "gpu-1"),
    ]
