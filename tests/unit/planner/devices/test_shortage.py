"""An explanation of too few devices agrees with the allocator, names what excludes each device, and ends."""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.allocation.asking import Question, records
from tests.support.allocation.clusters import cluster, countable
from tests.support.devices.modelled import SAME, exact, model, modelled, spec
from tests.support.devices.scene import DRIVER, allocation, claim, device_class, devices_of

from kubecel import compile_selector
from podium.api.devices import Allocation, Device, DeviceClass, ResourceClaim, ResourceSlice
from podium.planner.deadline import NEVER
from podium.planner.plugins.devices.gates import AllocationError, Gates, default_gates
from podium.planner.plugins.devices.shortage import (
    DeviceExaminer,
    DeviceNode,
    DeviceShortage,
    explain_shortage,
)
from podium.planner.plugins.devices.usage import DeviceUsage

_CASES = st.integers(0, 2**32).map(lambda seed: (cluster if seed % 2 else countable)(Random(seed)))
_GATES = st.sampled_from([default_gates(36), default_gates(37)])
_LATEST = default_gates(37)


def _explained(case: dict[str, Any], question: Question, gates: Gates) -> DeviceShortage:
    slices, classes = records(ResourceSlice, case["slices"]), records(DeviceClass, case["classes"])
    node = DeviceNode(question.name, question.labels)
    claims = records(ResourceClaim, case["claims"])
    return explain_shortage(DeviceExaminer(slices, classes, gates), claims, [node], question.usage)


def _question(case: dict[str, Any], gates: Gates) -> Question:
    def select(expression: str, driver: str, device: Device) -> bool:
        return compile_selector(expression, gates.minor).selects(driver, device)

    return Question(case, select, gates)


@settings(max_examples=500)
@given(_CASES, _GATES)
def test_it_finds_a_shortage_where_the_allocator_finds_no_devices(case: dict[str, Any], gates: Gates) -> None:
    question = _question(case, gates)
    found = _explained(case, question, gates)
    try:
        allocated = question.allocator.allocate(
            question.name, question.labels, question.demand, question.usage, NEVER
        )
    except AllocationError:
        allocated = None
    assert not found.unexamined
    assert (allocated is not None) == (not found.requests and not found.error)


@settings(max_examples=300)
@given(_CASES, _GATES)
def test_a_request_that_lacks_devices_finds_none_alone(case: dict[str, Any], gates: Gates) -> None:
    """Every device of the node is counted, and the requests before it do not matter."""
    question = _question(case, gates)
    view = question.allocator.view(question.name, question.labels)
    for short in _explained(case, question, gates).requests:
        tally = short.tally
        assert tally.free + sum(devices for _, devices in tally.excluded) == tally.devices
        assert tally.devices >= len(view.devices)
        if short.together or not short.needed:
            continue
        assert tally.free < short.needed
        alone = _only(case, short.claim, short.request)
        try:
            found = question.allocator.allocate(
                question.name, question.labels, question.allocator.demand([alone]), question.usage, NEVER
            )
        except AllocationError:
            continue
        assert found is None


def _only(case: dict[str, Any], label: str, request: str) -> ResourceClaim:
    """Return a claim with one request of a case, or with one alternative of it."""
    claims = records(ResourceClaim, case["claims"])
    whole = next(each for each in claims if label.endswith(each.metadata.name or ""))
    name, _, alternative = request.partition("/")
    (wanted,) = [each for each in whole.spec.devices.requests or () if each.name == name]
    if alternative:
        listed = [each for each in wanted.firstAvailable or () if each.name == alternative]
        wanted = msgspec.structs.replace(wanted, firstAvailable=listed)
    devices = msgspec.structs.replace(whole.spec.devices, requests=[wanted])
    return msgspec.structs.replace(whole, spec=msgspec.structs.replace(whole.spec, devices=devices))


class Scene(NamedTuple):
    """Slices and claims, the devices in use, and the explanation on nodes n0, n1 ... by request.

    `refused` nodes refuse the pod for another reason.
    """

    slices: Sequence[ResourceSlice]
    claims: Sequence[ResourceClaim]
    wanted: dict[str, str]
    held: Sequence[str] = ()
    classes: Sequence[DeviceClass] = (device_class(),)
    refused: Sequence[str] = ()
    pools: Sequence[str] = ()


COUNTED = {"counterSet": "memory", "counters": {"gb": {"value": "40"}}}
MIG = [
    devices_of(
        "n0",
        0,
        devices=[{"name": f"mig-{at}", "consumesCounters": [COUNTED]} for at in range(3)],
        pool={"name": "n0", "generation": 1, "resourceSliceCount": 2},
    ),
    msgspec.convert(
        {
            "metadata": {"name": "n0-counters"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "n0",
                "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 2},
                "sharedCounters": [{"name": "memory", "counters": {"gb": {"value": "80"}}}],
            },
        },
        ResourceSlice,
    ),
]
SCENES = {
    "in use, and excluded by a selector": Scene(
        [modelled("n0", *"aaaaaaaabbbb")],
        [claim("c", count=2, selectors=model('== "a"'))],
        {"gpus": "12 devices, 8 in use, 4 excluded by selector 1"},
        [f"n0/gpu-{at}" for at in range(8)],
    ),
    "a selector counts before the use": Scene(
        [modelled("n0", *"ab")],
        [claim("c", selectors=model('== "a"'))],
        {"gpus": "2 devices, 1 excluded by selector 1, 1 in use"},
        ["n0/gpu-0", "n0/gpu-1"],
    ),
    "selectors of the class, and of the request": Scene(
        [modelled("n0", *"aab")],
        [claim("c", selectors=[{"cel": {"expression": "true"}}, *model('!= "a"')])],
        {"gpus": "3 devices, 2 excluded by selector 2, 1 excluded by selector 1 of class gpu"},
        classes=[device_class(expression=f'device.attributes["{DRIVER}"].model != "b"')],
    ),
    "a selector that fails": Scene(
        [devices_of("n0", 2)],
        [claim("c", selectors=[{"cel": {"expression": "device.attributes['x'].y == 1"}}])],
        {"gpus": "2 devices, 2 on which selector 1 fails (no such key: y"},
    ),
    "free devices on several nodes": Scene(
        [devices_of("n0", 2), devices_of("n1", 3)], [claim("c", count=4)], {"gpus": "5 devices, 5 free"}
    ),
    "taints": Scene(
        [modelled("n0", "a", taints=[{"key": "broken", "value": "x", "effect": "NoExecute"}])],
        [claim("c")],
        {"gpus": "1 device, 1 with the taint broken:NoExecute"},
    ),
    "counters of a pool": Scene(
        MIG,
        [spec(exact("gpus"))],
        {"gpus": "3 devices, 2 in use, 1 whose shared counters are used up"},
        ["n0/mig-0", "n0/mig-1"],
    ),
    "capacity": Scene(
        [modelled("n0", "a", allowMultipleAllocations=True, capacity={"gb": {"value": "4"}})],
        [spec(exact("gpus", capacity={"requests": {"gb": "8"}}))],
        {"gpus": "1 device, 1 with too little capacity"},
    ),
    "devices of another node": Scene(
        [
            devices_of(
                "any",
                0,
                devices=[{"name": "a", "nodeName": "n1"}, {"name": "b", "nodeName": "n9"}],
                allNodes=None,
                perDeviceNodeSelection=True,
            ),
            devices_of("n0", 1),
        ],
        [claim("c", count=2)],
        {"gpus": "3 devices, 1 only for other nodes, 2 free"},
    ),
    "devices of nodes that refuse the pod": Scene(
        [devices_of("n0", 1), devices_of("n1", 3)],
        [claim("c")],
        {"gpus": "4 devices, 2 in use, 2 on nodes that refuse the pod (Insufficient cpu)"},
        ["n0/gpu-0", "n1/gpu-0"],
        refused=["n1"],
    ),
    "devices of nodes that do not exist": Scene(
        [devices_of("n0", 1), devices_of("gone", 2)],
        [claim("c", count=2)],
        {"gpus": "3 devices, 2 of nodes that do not exist, 1 free"},
    ),
    "an incomplete pool": Scene(
        [devices_of("n0", 2, pool={"name": "n0", "generation": 1, "resourceSliceCount": 2})],
        [claim("c")],
        {"gpus": "0 devices"},
        pools=[f"pool {DRIVER}/n0: the pool has not all of its slices"],
    ),
    "no device": Scene([], [claim("c")], {"gpus": "0 devices"}),
    "an attribute that a constraint compares": Scene(
        [devices_of("n0", 2)],
        [spec(exact("gpus", 2), **SAME)],
        {"gpus": f"2 devices, 2 without attribute {DRIVER}/model, which a constraint compares"},
    ),
    "a constraint": Scene(
        [modelled("n0", *"ab")],
        [spec(exact("gpus", 2), **SAME)],
        {"gpus": f"2 devices, 2 free: no choice of them satisfies constraint 1 (matchAttribute {DRIVER}/m"},
    ),
    "two requests for one device": Scene(
        [devices_of("n0", 1)],
        [spec(exact("first"), exact("second"))],
        {"second": "1 device, 1 free: requests before it need the same devices, capacity or counters"},
    ),
    "alternatives": Scene(
        [devices_of("n0", 1)],
        [
            spec(
                {
                    "name": "any",
                    "firstAvailable": [
                        {"name": "two", "deviceClassName": "gpu", "count": 2},
                        {"name": "b", "deviceClassName": "gpu", "count": 1, "selectors": model('== "b"')},
                    ],
                }
            )
        ],
        {"any/two": "1 device, 1 free", "any/b": "1 device, 1 on which selector 1 fails (no such key: model"},
    ),
    "all devices, one of them in use": Scene(
        [devices_of("n0", 3)],
        [spec(exact("gpus", allocationMode="All", count=None))],
        {"gpus": "3 devices, 1 in use, 2 free"},
        ["n0/gpu-1"],
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_devices_are_counted_by_the_reason_against_them(scene: Scene) -> None:
    found = explained(scene)
    texts = {each.request: text_of(each) for each in found.requests}
    assert {name: text[: len(scene.wanted[name])] for name, text in texts.items()} == scene.wanted
    assert list(found.pools) == list(scene.pools)


def explained(scene: Scene) -> DeviceShortage:
    """Return the explanation of a scene on two nodes."""
    nodes = [
        DeviceNode(each, {}, "Insufficient cpu" if each in scene.refused else "") for each in ("n0", "n1")
    ]
    usage = DeviceUsage([msgspec.convert(allocation([each]), Allocation) for each in scene.held])
    examiner = DeviceExaminer(scene.slices, scene.classes, _LATEST)
    return explain_shortage(examiner, scene.claims, nodes, usage)


def text_of(short: Any) -> str:
    """Return the counts of a request in words."""
    tally = short.tally
    excluded = [f"{devices} {reason}" for reason, devices in tally.excluded]
    free = [f"{tally.free} free"] if tally.free else []
    total = f"{tally.devices} device{'' if tally.devices == 1 else 's'}"
    return ", ".join([total, *excluded, *free]) + (f": {short.together}" if short.together else "")


def test_an_error_of_a_claim_is_the_only_answer() -> None:
    found = explained(Scene([devices_of("n0", 1)], [claim("c", requested="none")], {}))
    assert (found.requests, found.nodes) == ((), 2)
    assert found.error.endswith('deviceclass.resource.k8s.io "none" not found')
