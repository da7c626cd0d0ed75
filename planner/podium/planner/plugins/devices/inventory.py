"""Devices and slices prepared once: which nodes reach them, and their amounts as whole numbers.

A scheduler asks for thousands of nodes with the same slices, so nothing of a slice is parsed twice. The
records of the API are only read. Each prepared device also keeps the answers of selectors, which depend
neither on the node nor on other devices.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from podium.api.core import RawQuantity
from podium.api.devices import Device, DeviceAttribute, DeviceTaint, ResourceSlice
from podium.api.quantity import parse
from podium.api.selectors import NodeRequirement, NodeSelector, node_terms
from podium.planner.plugins.devices.gates import Gates

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


# The pools of a node: which of them are complete and valid, and their devices in the order of the search.
#
# A driver publishes a pool as several slices with a generation. Only the highest generation counts, and only
# if all of its slices are there: slices for other nodes count too. Devices of an incomplete or invalid pool
# cannot be allocated. A request for all devices fails on an incomplete or invalid pool. Pools are sorted by
# driver and name, and their slices by name. So a driver decides by its names which devices are handed out
# first. Pools with binding conditions come last.
#
# Source: pools_incubating.go of k8s.io/dynamic-resource-allocation 0.36.3 and 0.37.0.


class Pool:
    """A pool as one node sees it; `fault` says why its devices cannot be allocated."""

    __slots__ = ("consumers", "counters", "devices", "fault", "id", "incomplete", "numbers", "start")

    def __init__(self, pool: PoolID, fault: str = "", *, incomplete: bool = False) -> None:
        self.id = pool
        self.fault = fault
        self.incomplete = incomplete
        self.devices: tuple[PoolDevice, ...] = ()
        self.counters: Counters = {}
        # The consumption of each device with counters, also of those for other nodes, whose names may repeat.
        self.consumers: dict[str, list[Counters]] = {}
        # The place of the first device among the devices of the node, and the place of each by its name.
        self.start = 0
        self.numbers: dict[str, int] = {}

    @property
    def invalid(self) -> bool:
        """Return whether all slices of the pool are there, but contradict each other."""
        return bool(self.fault) and not self.incomplete


class PoolCatalog:
    """The pools of each node, from all slices of the cluster."""

    def __init__(self, index: SliceIndex, gates: Gates) -> None:
        self._index = index
        self._gates = gates
        # In 1.36, each node sees the counters of all pools, even of those whose devices it cannot use.
        self._foreign = () if gates.latest or not gates.partitionable_devices else tuple(self._faulty())

    def of_node(self, name: str, labels: Mapping[str, str]) -> list[Pool]:
        """Return the pools of a node in the order of the search."""
        by_pool: dict[PoolID, list[PreparedSlice]] = defaultdict(list)
        for prepared in self._index.of_node(name, labels):
            if self._ignored(prepared) or (prepared.counts and not self._gates.latest):
                continue
            by_pool[prepared.pool].append(prepared)
        pools = {pool.id: pool for pool in self._foreign}
        for pool_id, slices in by_pool.items():
            pools.pop(pool_id, None)
            seen = self._seen(pool_id, self._newest([*slices, *self._counters(pool_id)]))
            if seen is not None:
                pools[pool_id] = seen
        ordered = sorted(pools.values(), key=_order)
        start = 0
        for pool in ordered:
            pool.start = start
            start += len(pool.devices)
        return ordered

    def _ignored(self, prepared: PreparedSlice) -> bool:
        """Return whether the gates exclude a slice."""
        spec = prepared.record.spec
        if not self._gates.partitionable_devices and (
            spec.perDeviceNodeSelection is not None or prepared.counts
        ):
            return True
        # A device of a compatibility group needs checks behind a gate that is off by default.
        return prepared.groups and self._gates.latest

    def _counters(self, pool: PoolID) -> list[PreparedSlice]:
        """Return the slices with counters of a pool, which in 1.36 count for all nodes."""
        if self._gates.latest or not self._gates.partitionable_devices:
            return []
        return [prepared for prepared in self._index.pools[pool] if prepared.counts]

    def _faulty(self) -> Iterable[Pool]:
        """Yield the pools with counters that are faulty even for nodes without their devices."""
        for pool in self._index.pools:
            counters = self._counters(pool)
            seen = self._seen(pool, self._newest(counters)) if counters else None
            if seen is not None and seen.fault:
                yield seen

    @staticmethod
    def _newest(slices: Sequence[PreparedSlice]) -> list[PreparedSlice]:
        newest = max(prepared.generation for prepared in slices)
        return [prepared for prepared in slices if prepared.generation == newest]

    def _seen(self, pool: PoolID, slices: list[PreparedSlice]) -> Pool | None:
        """Return a pool of which a node can use some slices, None if other nodes have a newer generation."""
        generation, size = slices[0].generation, slices[0].size
        others: list[PreparedSlice] = []
        if len(slices) != size:
            every = self._index.pools[pool]
            if any(prepared.generation > generation for prepared in every):
                return None
            every = [
                prepared
                for prepared in every
                if prepared.generation == generation and not (prepared.groups and self._gates.latest)
            ]
            if len(every) != size:
                return Pool(pool, "the pool has not all of its slices", incomplete=True)
            names = {prepared.name for prepared in slices}
            others = [prepared for prepared in every if prepared.name not in names]
        slices.sort(key=lambda prepared: prepared.name)
        return self._built(pool, slices, others)

    def _built(self, pool: PoolID, slices: list[PreparedSlice], others: list[PreparedSlice]) -> Pool:
        """Return a complete pool from the slices that the node can use, and the others."""
        partitions = self._gates.partitionable_devices
        devices = [prepared for prepared in slices if not (partitions and prepared.counts)]
        built = Pool(pool)
        built.devices = tuple(device for prepared in devices for device in prepared.devices)
        built.fault = _repeated_name(built.devices)
        if partitions and not built.fault:
            elsewhere = [prepared for prepared in others if not prepared.counts]
            sets = [prepared for prepared in (*slices, *others) if prepared.counts]
            built.fault = _connect(built, sets, [*devices, *elsewhere])
        if built.fault:
            return Pool(pool, built.fault)
        built.numbers = {device.name: number for number, device in enumerate(built.devices)}
        return built


def _repeated_name(devices: Iterable[PoolDevice]) -> str:
    names: set[str] = set()
    for device in devices:
        if device.name in names:
            return f"duplicate device name {device.name}"
        names.add(device.name)
    return ""


def _connect(pool: Pool, sets: Iterable[PreparedSlice], users: Iterable[PreparedSlice]) -> str:
    """Read the counters of a pool and their consumers; return what is wrong with them, or nothing."""
    counters: dict[tuple[str, str], int] = {}
    names: set[str] = set()
    for prepared in sets:
        for counter_set in prepared.record.spec.sharedCounters or ():
            if counter_set.name in names:
                return f"duplicate counter set name {counter_set.name}"
            names.add(counter_set.name)
            counters.update(
                {
                    (counter_set.name, name): nanos(counter.value)
                    for name, counter in (counter_set.counters or {}).items()
                }
            )
    for prepared in users:
        for device in prepared.devices:
            for taken in device.device.consumesCounters or ():
                if taken.counterSet not in names:
                    return f"counter set {taken.counterSet} not found"
                for name in taken.counters or ():
                    if (taken.counterSet, name) not in counters:
                        return f"counter {name} not found in counter set {taken.counterSet}"
            if device.device.consumesCounters:
                pool.consumers.setdefault(device.name, []).append(device.consumption())
    pool.counters = counters
    return ""


def _order(pool: Pool) -> tuple[bool, str, str]:
    binds = any(device.device.bindingConditions is not None for device in pool.devices)
    return binds, *pool.id
