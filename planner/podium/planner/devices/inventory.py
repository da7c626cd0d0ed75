"""Devices and slices prepared once: which nodes reach them, and their amounts as whole numbers.

A scheduler asks for thousands of nodes with the same slices, so nothing of a slice is parsed twice. The
records of the API are only read. Each prepared device also keeps the answers of selectors, which depend
neither on the node nor on other devices.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from podium.api.core import RawQuantity
from podium.api.devices import Device, DeviceAttribute, DeviceTaint, ResourceSlice
from podium.api.nodeselector import NodeSelector
from podium.api.quantity import parse
from podium.api.selectors import NodeRequirement, node_terms

# The effects of taints that keep devices from being allocated.
_PREVENTING = ("NoSchedule", "NoExecute")

# A counter of a set, and amounts of counters in nano-units.
Counters = Mapping[tuple[str, str], int]


class PoolID(NamedTuple):
    """A pool: its name is unique only for its driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        """Return the pool as messages name it."""
        return f"{self.driver}/{self.pool}"


class DeviceReach(NamedTuple):
    """The nodes from which devices can be used: one, all, or those that match a term."""

    node: str = ""
    everywhere: bool = False
    terms: tuple[NodeRequirement, ...] | None = None

    @property
    def given(self) -> bool:
        """Return whether any of the three forms is set."""
        return bool(self.node) or self.everywhere or self.terms is not None

    def includes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node can use the devices."""
        if self.node:
            return self.node == name
        return self.everywhere or any(term.matches(name, labels) for term in self.terms or ())


class AttributeValue(NamedTuple):
    """A value that constraints compare: its type and its text or number; the type is empty if unknown."""

    kind: str
    value: object = None


class PoolDevice:
    """A device of a slice, with what the search reads of it."""

    __slots__ = ("answers", "attributes", "device", "driver", "name", "pool", "reach", "slice", "taints")

    def __init__(self, device: Device, prepared: "PreparedSlice") -> None:
        self.device = device
        self.name = device.name
        self.slice = prepared
        self.driver, self.pool = prepared.pool
        # Where the device can be used; None if that is a matter of its slice.
        self.reach = (
            _reach(device.nodeName, device.allNodes, device.nodeSelector) if prepared.per_device else None
        )
        self.taints: tuple[DeviceTaint, ...] = tuple(
            taint for taint in device.taints or () if taint.effect in _PREVENTING
        )
        # Whether the device matches, by the number of the selectors.
        self.answers: dict[int, bool] = {}
        self.attributes: dict[str, AttributeValue | None] = {}

    def __str__(self) -> str:
        """Return the device as messages name it."""
        return f"{self.driver}/{self.pool}/{self.name}"

    def attribute(self, name: str) -> AttributeValue | None:
        """Return the value of an attribute by its full name, which the device may list without its domain."""
        if name not in self.attributes:
            listed = self.device.attributes or {}
            domain, _, bare = name.partition("/")
            value = listed.get(name)
            if value is None and bare and domain == self.driver:
                value = listed.get(bare)
            self.attributes[name] = _value(value) if value is not None else None
        return self.attributes[name]

    def consumption(self) -> dict[tuple[str, str], int]:
        """Return the counters that the device takes from its pool."""
        taken: dict[tuple[str, str], int] = defaultdict(int)
        for consumption in self.device.consumesCounters or ():
            for name, counter in (consumption.counters or {}).items():
                taken[consumption.counterSet, name] += nanos(counter.value)
        return dict(taken)


class PreparedSlice:
    """A slice, with its pool and its reach."""

    __slots__ = (
        "counts",
        "devices",
        "generation",
        "groups",
        "name",
        "per_device",
        "pool",
        "reach",
        "record",
        "size",
    )

    def __init__(self, record: ResourceSlice) -> None:
        spec = record.spec
        self.record = record
        self.name = record.metadata.name or ""
        self.pool = PoolID(spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.size = spec.pool.resourceSliceCount
        self.per_device = bool(spec.perDeviceNodeSelection)
        self.reach = _reach(spec.nodeName, spec.allNodes, spec.nodeSelector)
        # Whether the slice has counters, which other slices of the pool use.
        self.counts = bool(spec.sharedCounters)
        self.devices = tuple(PoolDevice(device, self) for device in spec.devices or ())
        self.groups = any(
            consumption.compatibilityGroups
            for device in spec.devices or ()
            for consumption in device.consumesCounters or ()
        )

    def includes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node can use any device of the slice."""
        if self.reach.given or not self.per_device:
            return self.reach.includes(name, labels)
        return any(
            device.reach is not None and device.reach.includes(name, labels) for device in self.devices
        )


class SliceIndex:
    """All slices: by the node that alone uses them, those that several nodes may use, and by pool."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self.local: dict[str, list[PreparedSlice]] = defaultdict(list)
        self.shared: list[PreparedSlice] = []
        self.pools: dict[PoolID, list[PreparedSlice]] = defaultdict(list)
        for record in slices:
            prepared = PreparedSlice(record)
            self.pools[prepared.pool].append(prepared)
            if prepared.reach.node:
                self.local[prepared.reach.node].append(prepared)
            else:
                self.shared.append(prepared)

    def of_node(self, name: str, labels: Mapping[str, str]) -> list[PreparedSlice]:
        """Return the slices that a node can use."""
        shared = [prepared for prepared in self.shared if prepared.includes(name, labels)]
        return [*self.local.get(name, ()), *shared]


def drivers_devices(slices: Iterable[ResourceSlice]) -> Iterator[tuple[str, Device]]:
    """Yield the devices of slices, each with its driver."""
    for record in slices:
        for device in record.spec.devices or ():
            yield record.spec.driver, device


@lru_cache(maxsize=4096)
def nanos(raw: RawQuantity) -> int:
    """Return a quantity in nano-units. A cluster has few different ones."""
    return parse(raw)


def _reach(node: str | None, everywhere: bool | None, selector: NodeSelector | None) -> DeviceReach:
    terms = node_terms(selector.nodeSelectorTerms, {}) if selector is not None else None
    return DeviceReach(node or "", bool(everywhere), terms)


def _value(attribute: DeviceAttribute) -> AttributeValue:
    if attribute.string is not None:
        return AttributeValue("string", attribute.string)
    if attribute.integer is not None:
        return AttributeValue("int", attribute.integer)
    if attribute.boolean is not None:
        return AttributeValue("bool", attribute.boolean)
    # Versions are in their shortest form, so equal versions have equal texts.
    return AttributeValue("version" if attribute.version is not None else "", attribute.version)
