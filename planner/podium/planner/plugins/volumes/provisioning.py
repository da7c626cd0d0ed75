"""Decides for which nodes a class can provision a volume: by provisioner, topologies and free space.

Space counts only for a CSI driver that publishes it. Then a node needs one CSIStorageCapacity of the class
with a topology that the node meets, and with room for the claim. kube-scheduler compares each claim with the
published amount alone. So two pods that are placed before the driver publishes again count on the same space.
For gangs, the sizes of assumed claims are summed by segment, which is a class and a topology. A driver may
replace the object of a segment, so the object's name is no key.

The limit of one volume is the maximumVolumeSize, or else the capacity. Sums are compared with the capacity.
If a driver publishes only the maximumVolumeSize, the amount of the segment is unknown and not compared.

Source: checkVolumeProvisions and hasEnoughCapacity of kube-scheduler's volume binder, 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from podium.api.core import RawQuantity
from podium.api.selectors import NodeRequirement, Requirement, Selector, selector_of
from podium.api.storage import NO_PROVISIONER, Alternatives, CSIDriver, CSIStorageCapacity, StorageClass
from podium.cluster.reader import Name
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.indexes import discard
from podium.planner.plugins.volumes.bindables import DelayedClaim, nanos, whole_bytes
from podium.planner.plugins.volumes.nodeclasses import (
    EVERYWHERE,
    NodeClasses,
    ReachableItems,
    keys_of,
)

# Arrays count at most this many bytes, so that a sum of two never exceeds 64 bits.
_MOST = 2**61
# The room of a segment whose amount is unknown.
_UNKNOWN = 2 * _MOST


class Segment(NamedTuple):
    """A storage class on the nodes of one topology."""

    storage_class: str
    topology: Selector

    @property
    def reach(self) -> Alternatives:
        """The terms of the nodes of the topology."""
        return (NodeRequirement(self.topology.requirements),)


class PublishedCapacity(NamedTuple):
    """The space that a driver published for a segment, in bytes: for one volume, and in total if known."""

    key: Name
    segment: Segment
    largest: int
    total: int | None


class ProvisioningClass(NamedTuple):
    """A StorageClass, as far as provisioning reads it."""

    provisioner: str
    topologies: Alternatives

    @property
    def provisions(self) -> bool:
        """Return whether a provisioner creates volumes of the class."""
        return self.provisioner not in {"", NO_PROVISIONER}


class Reserved(NamedTuple):
    """The segment that a claim would be provisioned in, by class of nodes, as a position in `among`."""

    among: "PublishedCapacities"
    at: Rows
    size: int

    @property
    def absent(self) -> Bools:
        """Return by class whether no segment was found."""
        absent: Bools = self.at == self.among.items.absent
        return absent

    @property
    def capacity(self) -> Int64s:
        """The bytes of the segment by class of nodes, 0 without one."""
        return self.among.totals[self.at]

    def segment(self, at: int) -> Segment:
        """Return the segment for a class of nodes that has one."""
        return self.among.segment(self.at.item(at))

    def where(self, needed: Bools) -> "Reserved":
        """Return the same without the classes where it is not needed."""
        return self._replace(at=np.where(needed, self.at, self.among.items.absent))


class PublishedCapacities:
    """The published capacities of one class in the order of their keys, and the room that promises leave."""

    def __init__(self, capacities: Iterable[PublishedCapacity], promised: Mapping[Segment, int]) -> None:
        self._ordered = sorted(capacities)
        self.items = ReachableItems([capacity.segment.reach for capacity in self._ordered])
        self._promised = promised
        self._position = {capacity.key: at for at, capacity in enumerate(self._ordered)}
        self._largest: Int64s = np.array([capacity.largest for capacity in self._ordered], np.int64)
        # With the position `absent`, which has no bytes and the number of no segment.
        self.totals: Int64s = np.zeros(len(self._ordered) + 1, np.int64)
        self._room: Int64s = np.zeros(len(self._ordered) + 1, np.int64)
        self._number: Rows = np.full(len(self._ordered) + 1, -1, np.intp)
        self._positions: dict[Segment, list[int]] = {}
        for at, capacity in enumerate(self._ordered):
            positions = self._positions.setdefault(capacity.segment, [])
            positions.append(at)
            self._number[at] = positions[0]
        for segment in self._positions:
            self.promise(segment)

    def segment(self, at: int) -> Segment:
        """Return the segment of a position."""
        return self._ordered[at].segment

    def update(self, capacity: PublishedCapacity) -> None:
        """Set new amounts of a capacity whose segment is the same."""
        at = self._position[capacity.key]
        self._ordered[at] = capacity
        self._largest[at] = capacity.largest
        self.promise(capacity.segment)

    def promise(self, segment: Segment) -> None:
        """Compute the room of a segment again."""
        promised = self._promised.get(segment, 0)
        for at in self._positions.get(segment, ()):
            total = self._ordered[at].total
            self.totals[at] = total or 0
            self._room[at] = _UNKNOWN if total is None else max(-1, min(total - promised, _MOST))

    def reserve(self, classes: NodeClasses, size: int, own: Iterable[Reserved], *, summed: bool) -> Reserved:
        """Return where a claim finds room; if `summed`, the pod's `own` claims take theirs first."""
        requested, eligible = min(size, _MOST), self._largest >= size
        if not summed:
            return Reserved(self, self.items.first(classes, eligible), requested)
        mine = [reserved for reserved in own if reserved.among is self]

        def full(at: Rows) -> Bools:
            taken = np.zeros(len(at), np.int64)
            for reserved in mine:
                same = self._number[reserved.at] == self._number[at]
                taken = np.minimum(taken + np.where(same, reserved.size, 0), _MOST)
            return self._room[at] < taken + requested

        eligible &= self._room[:-1] >= requested
        # Each claim can fill all capacities of one segment.
        most = len(mine) * max(map(len, self._positions.values()), default=0)
        return Reserved(self, self.items.first(classes, eligible, full, most), requested)


class Provisioning:
    """The storage classes, the drivers that publish capacity, and the capacities with the sizes promised."""

    def __init__(self) -> None:
        self.promised: Counter[Segment] = Counter()
        self._classes: dict[str, ProvisioningClass] = {}
        self._publishing: set[str] = set()
        self._capacities: dict[Name, PublishedCapacity] = {}
        self._of_class: dict[str, set[Name]] = {}
        self._tables: dict[str, PublishedCapacities] = {}

    def apply_class(self, storage_class: StorageClass, *, gone: bool) -> None:
        """Apply a change of a StorageClass."""
        name = storage_class.metadata.name or ""
        self._classes.pop(name, None)
        if not gone:
            provisioner = storage_class.provisioner or ""
            self._classes[name] = ProvisioningClass(provisioner, _topologies(storage_class))

    def apply_driver(self, driver: CSIDriver, *, gone: bool) -> None:
        """Apply a change of a CSIDriver."""
        name = driver.metadata.name or ""
        self._publishing.discard(name)
        if not gone and driver.spec is not None and driver.spec.storageCapacity:
            self._publishing.add(name)

    def apply_capacity(self, capacity: CSIStorageCapacity, *, gone: bool) -> None:
        """Apply a change of a CSIStorageCapacity."""
        key = capacity.metadata.namespace or "", capacity.metadata.name or ""
        before, after = self._capacities.pop(key, None), None if gone else published_capacity(capacity)
        if after is not None:
            self._capacities[key] = after
        if before is not None and after is not None and before.segment == after.segment:
            table = self._tables.get(after.segment.storage_class)
            if table is not None:
                table.update(after)
            return
        if before is not None:
            discard(self._of_class, before.segment.storage_class, key)
            self._tables.pop(before.segment.storage_class, None)
        if after is not None:
            self._of_class.setdefault(after.segment.storage_class, set()).add(key)
            self._tables.pop(after.segment.storage_class, None)

    def keys(self, claim: DelayedClaim) -> frozenset[str]:
        """Return the label keys that decide for which nodes a claim can be provisioned."""
        storage_class = self._classes.get(claim.storage_class)
        if storage_class is None:
            return frozenset()
        keys = keys_of(storage_class.topologies)
        return keys | self._table(claim.storage_class).items.keys if self._counts(claim) else keys

    def allowed(self, claim: DelayedClaim, classes: NodeClasses) -> Bools:
        """Return by class of nodes whether the claim's class can provision for it, apart from space."""
        storage_class = self._classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisions:
            return np.zeros(classes.size, np.bool_)
        return classes.satisfying(storage_class.topologies)

    def reserve(
        self, claim: DelayedClaim, classes: NodeClasses, own: Iterable[Reserved], *, summed: bool
    ) -> Reserved | None:
        """Return where a claim finds space, None if space does not count for it."""
        if claim.size is None or not self._counts(claim):
            return None
        size = whole_bytes(claim.size)
        return self._table(claim.storage_class).reserve(classes, size, own, summed=summed)

    def promise(self, segment: Segment, size: int) -> None:
        """Add bytes to what claims were promised of a segment; a negative size takes them back."""
        self.promised[segment] += size
        if not self.promised[segment]:
            del self.promised[segment]
        table = self._tables.get(segment.storage_class)
        if table is not None:
            table.promise(segment)

    def _counts(self, claim: DelayedClaim) -> bool:
        """Return whether the driver of a claim's class publishes capacity."""
        storage_class = self._classes.get(claim.storage_class)
        return storage_class is not None and storage_class.provisioner in self._publishing

    def _table(self, storage_class: str) -> PublishedCapacities:
        table = self._tables.get(storage_class)
        if table is None:
            capacities = [self._capacities[key] for key in self._of_class.get(storage_class, ())]
            table = self._tables[storage_class] = PublishedCapacities(capacities, self.promised)
        return table


def published_capacity(capacity: CSIStorageCapacity) -> PublishedCapacity | None:
    """Return a capacity as binding reads it, None if it offers nothing to any node."""
    total = _amount(capacity.capacity)
    largest = total if capacity.maximumVolumeSize is None else _amount(capacity.maximumVolumeSize)
    unreadable: dict[str, None] = {}
    topology = selector_of(capacity.nodeTopology, unreadable)
    if topology is None or largest is None or unreadable:
        return None
    key = capacity.metadata.namespace or "", capacity.metadata.name or ""
    # A capacity below the maximumVolumeSize contradicts it. One volume of that size is possible then.
    known = None if total is None else max(total, largest)
    return PublishedCapacity(key, Segment(capacity.storageClassName or "", topology), largest, known)


def _amount(quantity: RawQuantity | None) -> int | None:
    value = None if quantity is None else nanos(quantity)
    return None if value is None else whole_bytes(value)


def _topologies(storage_class: StorageClass) -> Alternatives:
    """Return the terms of the nodes that a class allows; without a list it allows all, an empty term none."""
    if not storage_class.allowedTopologies:
        return EVERYWHERE
    return tuple(
        NodeRequirement(
            tuple(
                sorted(
                    Requirement(expression.key or "", "In", tuple(sorted(set(expression.values or ()))))
                    for expression in term.matchLabelExpressions
                )
            )
        )
        for term in storage_class.allowedTopologies
        if term.matchLabelExpressions
    )
