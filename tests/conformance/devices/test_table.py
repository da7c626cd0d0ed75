"""Upstream's table of the allocator, case by case: the same allocations or error as the incubating code.

Each case was recorded twice by upstream's code of both releases: with the gates of the case, and with the
gates of kube-scheduler. Three kinds of records differ from the case by their form only. A lister of the table
names no class that it does not find. A quantity of 10^21 has no JSON form: a server prints it as 1. An
interrupted search is not an answer here: the caller's deadline has passed.
"""

import gzip
import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.support.allocation.selecting import selecting

from podium.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from podium.schedulerplugin.deadline import NEVER, Deadline, DecisionTimeoutError
from podium.schedulerplugin.devices import (
    AllocationError,
    Allocator,
    DeviceUsage,
    Gates,
    NodeAllocationError,
    default_gates,
)
from podium.schedulerplugin.devices.inventory import PoolID

_RECORDED = Path(__file__).parent / "recorded"
_GATES = {
    "AdminAccess": "admin_access",
    "PrioritizedList": "prioritized_list",
    "PartitionableDevices": "partitionable_devices",
    "DeviceTaints": "device_taints",
    "DeviceBindingAndStatus": "binding_conditions",
    "ConsumableCapacity": "consumable_capacity",
    "FractionalCapacityRange": "fractional_range",
}
_Kind = TypeVar("_Kind")
_RECORDED_ONCE = ("no-classes", "unknown-class", "consumable-capacity-requests-are-not-modified")
_INTERRUPTED = "filter operation aborted"
_PASSED = Deadline(lambda: 0.0, 0.0)
_CEL = re.compile(r"CEL (compile|runtime) error: (.*)", re.DOTALL)


def _cases() -> Iterator[Any]:
    """Yield each case with its minor."""
    for path in sorted(_RECORDED.glob("table-*.jsonl.gz")):
        version = path.name.removeprefix("table-").removesuffix(".jsonl.gz")
        with gzip.open(path) as lines:
            for case in map(json.loads, lines):
                yield pytest.param(case, int(version.split(".")[1]), id=f"{version}-{case['name']}")


def _gates(case: dict[str, Any], minor: int) -> Gates:
    return Gates(minor, **{name: bool(case["features"].get(gate)) for gate, name in _GATES.items()})


def _usage(allocated: dict[str, Any]) -> DeviceUsage:
    usage = DeviceUsage()
    for each in allocated["devices"]:
        usage.use(PoolID(each["driver"], each["pool"]), each["device"])
    for each in allocated["shared"]:
        usage.share(PoolID(each["driver"], each["pool"]), each["device"], each.get("shareID") or "")
    for each in allocated["consumed"]:
        usage.consume(PoolID(each["driver"], each["pool"]), each["device"], each["capacity"])
    return usage


def _allocated(case: dict[str, Any], gates: Gates, texts: dict[str, str], deadline: Deadline) -> Any:
    """Return the answer in the form of the record."""
    allocator = Allocator(
        _records(ResourceSlice, case["slices"]),
        _records(DeviceClass, case["classes"]),
        selecting(texts.get("compile", "compile"), texts.get("runtime", "runtime"), lists=gates.latest),
        gates,
        share=map("share-{}".format, count()).__next__,
    )
    node = case["node"]["metadata"]
    demand = allocator.demand(_records(ResourceClaim, case["claims"]))
    usage = _usage(case["allocated"])
    try:
        found = allocator.allocate(node["name"], node.get("labels") or {}, demand, usage, deadline)
    except DecisionTimeoutError:
        return {"error": _INTERRUPTED}
    except AllocationError as error:
        return {"error": str(error), "node": isinstance(error, NodeAllocationError)}
    return {"allocations": _without_nulls(json.loads(msgspec.json.encode(found)))}


def _records(kind: type[_Kind], written: Any) -> list[_Kind]:
    return msgspec.json.decode(json.dumps(written or []), type=list[kind])  # type: ignore[valid-type]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded answer with the empty lists that Go leaves out."""
    answer = {key: value for key, value in answer.items() if key != "channel"}
    for allocation in answer.get("allocations") or ():
        allocation["devices"].setdefault("results", [])
    return answer


@pytest.mark.parametrize(("case", "minor"), list(_cases()))
@pytest.mark.parametrize("answer", ["answer", "scheduler"])
def test_the_allocator_answers_as_upstream(case: dict[str, Any], minor: int, answer: str) -> None:
    gates = _gates(case, minor) if answer == "answer" else default_gates(minor)
    expected = _comparable(case["scheduler" if case["name"] in _RECORDED_ONCE else answer])
    error = expected.get("error", "")
    interrupted = error.startswith(_INTERRUPTED)
    found = _allocated(case, gates, dict(_CEL.findall(error)), _PASSED if interrupted else NEVER)
    assert found == ({"error": _INTERRUPTED} if interrupted else expected)
