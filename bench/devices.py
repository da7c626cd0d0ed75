"""Allocating devices to a gang: the allocator alone, without a queue, filters, scores or writes.

`python -m bench.devices` prints the figures. Selectors are answered by a function in place of CEL.
"""

from collections.abc import Mapping
from time import process_time

import msgspec
from bench.results import ROUNDS, Row, Section, machine, render, spread

from podium.api.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from podium.errors import PodiumError
from podium.planner.deadline import NEVER
from podium.planner.plugins.devices.allocator import Allocator
from podium.planner.plugins.devices.gates import default_gates
from podium.planner.plugins.devices.usage import DeviceUsage

NODES, PER_NODE, MEMBERS = 1_000, 8, 1_000
# The devices of a member, and the constraint of its claim.
CASES: Mapping[str, tuple[int, str]] = {
    "one device each": (1, ""),
    "8 devices each": (8, ""),
    "8 devices each of one model": (8, "matchAttribute"),
    "8 devices each with different UUIDs": (8, "distinctAttribute"),
}
_DRIVER = "gpu.example.com"
_ATTRIBUTES = {"matchAttribute": f"{_DRIVER}/model", "distinctAttribute": f"{_DRIVER}/uuid"}
_NOTE = f"""
One process on one processor. {NODES:,} nodes with {PER_NODE} devices each, a gang of {MEMBERS:,} members with
one claim each. The first member asks every node, as filters do. Then each member gets devices of the first
node with room, and these devices are in use for the next. Devices of one model are counted, and different
UUIDs need the search. Figures are processor time, without that of reading the slices.
"""


def measure() -> Section:
    """Measure all cases; takes a few seconds."""
    rows = [
        Row(f"gang of {MEMBERS:,}, {label}; target under 200 ms", spread(_rounds(count, kind), "ms", 0))
        for label, (count, kind) in CASES.items()
    ]
    return Section("Devices for a gang", rows, _NOTE)


def _rounds(count: int, kind: str) -> list[float]:
    slices = [_slice(at) for at in range(NODES)]
    classes = [msgspec.convert({"metadata": {"name": "gpu"}, "spec": _selectors()}, DeviceClass)]
    claims = [_claim(at, count, kind) for at in range(MEMBERS)]
    return [_round(slices, classes, claims) for _ in range(ROUNDS + 1)][1:]


def _round(slices: list[ResourceSlice], classes: list[DeviceClass], claims: list[ResourceClaim]) -> float:
    """Return the milliseconds of one gang with an allocator that knows no node yet."""
    allocator = Allocator(slices, classes, _of_driver, default_gates(37))
    names, labels = [f"n{at}" for at in range(NODES)], dict[str, str]()
    usage = DeviceUsage()
    start = process_time()
    first = allocator.demand(claims[:1])
    for name in names:
        allocator.allocate(name, labels, first, usage, NEVER)
    at = 0
    for claim in claims:
        demand = allocator.demand([claim])
        allocation = allocator.allocate(names[at], labels, demand, usage, NEVER)
        while allocation is None:
            at += 1
            allocation = allocator.allocate(names[at], labels, demand, usage, NEVER)
        usage.add(allocation[0])
    return (process_time() - start) * 1000


def _of_driver(_expression: str, driver: str, _device: Device) -> bool:
    return driver == _DRIVER


def _selectors() -> dict[str, list[dict[str, dict[str, str]]]]:
    return {"selectors": [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]}


def _slice(node: int) -> ResourceSlice:
    devices = [
        {
            "name": f"gpu-{at}",
            "attributes": {"uuid": {"string": f"{node}-{at}"}, "model": {"string": "H100"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for at in range(PER_NODE)
    ]
    pool = {"name": f"n{node}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": f"n{node}", "pool": pool, "devices": devices}
    return msgspec.convert({"metadata": {"name": f"n{node}"}, "spec": spec}, ResourceSlice)


def _claim(at: int, count: int, kind: str) -> ResourceClaim:
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count},
    }
    constraints = [{kind: _ATTRIBUTES[kind]}] if kind else []
    devices = {"requests": [request], "constraints": constraints}
    metadata = {"name": f"claim-{at}", "namespace": "team"}
    return msgspec.convert({"metadata": metadata, "spec": {"devices": devices}}, ResourceClaim)


if __name__ == "__main__":
    try:
        print(render(measure(), machine()))
    except PodiumError as error:
        raise SystemExit(f"devices: {error}") from None
