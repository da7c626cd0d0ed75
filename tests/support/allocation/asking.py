"""Asks Podium's allocator about a case in the form of upstream's witness."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import msgspec

from podium.api.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from podium.planner.deadline import NEVER, Deadline
from podium.planner.plugins.devices.allocator import Allocator
from podium.planner.plugins.devices.gates import AllocationError, Gates, NodeAllocationError
from podium.planner.plugins.devices.inventory import PoolID
from podium.planner.plugins.devices.usage import DeviceUsage

_Kind = TypeVar("_Kind")


class Question:
    """A case, decoded."""

    def __init__(
        self, case: dict[str, Any], select: Callable[[str, str, Device], bool], gates: Gates
    ) -> None:
        self.allocator = Allocator(
            records(ResourceSlice, case["slices"]),
            records(DeviceClass, case["classes"]),
            select,
            gates,
            share=map("share-{}".format, count()).__next__,
        )
        node = case["node"]["metadata"]
        self.name: str = node["name"]
        self.labels: dict[str, str] = node.get("labels") or {}
        self.demand = self.allocator.demand(records(ResourceClaim, case["claims"]))
        self.usage = usage(case["allocated"])

    def answer(self, deadline: Deadline = NEVER) -> dict[str, Any]:
        """Return the answer in the form of the witness."""
        try:
            found = self.allocator.allocate(self.name, self.labels, self.demand, self.usage, deadline)
        except AllocationError as error:
            return {"error": str(error), "node": isinstance(error, NodeAllocationError)}
        return {"allocations": _without_nulls(json.loads(msgspec.json.encode(found)))}


def records(kind: type[_Kind], written: Any) -> list[_Kind]:
    """Return records of a kind from JSON values."""
    return msgspec.json.decode(json.dumps(written or []), type=list[kind])  # type: ignore[valid-type]


def usage(allocated: dict[str, Any]) -> DeviceUsage:
    """Return the devices in use of a case."""
    found = DeviceUsage()
    for each in allocated["devices"] or ():
        found.use(PoolID(each["driver"], each["pool"]), each["device"])
    for each in allocated["shared"] or ():
        found.share(PoolID(each["driver"], each["pool"]), each["device"], each.get("shareID") or "")
    for each in allocated["consumed"] or ():
        found.consume(PoolID(each["driver"], each["pool"]), each["device"], each["capacity"])
    return found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
