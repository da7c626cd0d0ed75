"""The devices that a search has chosen so far, with everything that each of them takes.

`take_device` adds a device if nothing forbids it, and `undo` takes back the latest. Between the two, all
state is as if the claims had the chosen devices, and a search that fails leaves nothing behind.

Source: allocateDevice and rollbackDevice of the incubating allocator, 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from kubecel import SelectorCompileError, SelectorRuntimeError, UnansweredSelectorError
from podium.api.devices import Device, DeviceConstraint
from podium.planner.plugins.devices.gates import AllocationError, Gates, UnansweredAllocationError
from podium.planner.plugins.devices.inventory import AttributeValue, Counters, Pool, PoolDevice, PoolID
from podium.planner.plugins.devices.requests import Demand, DeviceNeed, FlatClaim, NeedShape
from podium.planner.plugins.devices.usage import (
    CapacityError,
    DeviceUsage,
    consumed_amounts,
    consumed_of,
    fits,
    unrestricted,
)

# The devices of one node: which of them each requirement can have, apart from those in use.
#
# The devices of all usable pools have one order, and a device is its place in it. A set of devices is a whole
# number with a bit for each, so counting free devices is one operation. A selector is evaluated when the
# search comes to a device, not before: an expression that fails on a later device does not disturb an
# allocation.


# Evaluates an expression on a device of a driver. Raises SelectorCompileError, SelectorRuntimeError, and
# AllocationError if that is too slow.
Select = Callable[[str, str, Device], bool]


class NodeView:
    """The devices of a node; it lives as long as slices, classes and the labels of the node stay the same."""

    __slots__ = ("_alike", "_countable", "_gates", "_select", "devices", "labels", "name", "owners", "pools")

    def __init__(
        self, name: str, labels: Mapping[str, str], pools: list[Pool], select: Select, gates: Gates
    ) -> None:
        self.name = name
        self.labels = labels
        self.pools = pools
        self.devices: list[PoolDevice] = [device for pool in pools for device in pool.devices]
        self.owners: list[Pool] = [pool for pool in pools for _ in pool.devices]
        self._select = select
        self._gates = gates
        self._countable: dict[NeedShape, int | None] = {}
        self._alike: dict[tuple[int, str], bool] = {}

    @property
    def faulty(self) -> bool:
        """Return whether a pool is invalid."""
        return any(pool.invalid for pool in self.pools)

    def multiple(self, at: int) -> bool:
        """Return whether several allocations may share a device by its capacity."""
        return self._gates.consumable_capacity and bool(self.devices[at].device.allowMultipleAllocations)

    def matches(self, claim: FlatClaim, requirement: DeviceNeed, at: int) -> bool:
        """Return whether a device matches the selectors and can be used on the node.

        Raises AllocationError if an expression fails.
        """
        device = self.devices[at]
        if device.device.bindingConditions and not self._gates.binding_conditions:
            return False
        number = requirement.shape.selectors
        answer = device.answers.get(number)
        if answer is None:
            answer = device.answers[number] = self._selected(claim, requirement, device)
        return answer and (device.reach is None or device.reach.includes(self.name, self.labels))

    def _selected(self, claim: FlatClaim, requirement: DeviceNeed, device: PoolDevice) -> bool:
        selectors = requirement.selectors
        for owner, expressions in (
            (f"class {selectors.class_name}", selectors.of_class),
            (f"claim {claim.label}", selectors.of_request),
        ):
            for number, expression in enumerate(expressions):
                where = f"{owner}: selector #{number}"
                try:
                    if not self._select(expression, device.driver, device.device):
                        return False
                except AllocationError:
                    raise
                except SelectorCompileError as error:
                    raise AllocationError(f"{where}: CEL compile error: {error}") from None
                except UnansweredSelectorError as error:
                    raise UnansweredAllocationError(f"{where} on device {device}: {error}") from None
                except SelectorRuntimeError as error:
                    named = f"{where} on device {device}" if self._gates.latest else where
                    raise AllocationError(f"{named}: CEL runtime error: {error}") from None
        return True

    def has_capacity(
        self, claim: FlatClaim, requirement: DeviceNeed, at: int, taken: Mapping[str, int], doing: str
    ) -> bool:
        """Return whether a device has the requested capacity beside `taken`, in nano-units.

        Raises AllocationError if no device can have it, with `doing` in its text.
        """
        record = self.devices[at].device
        if not self._gates.consumable_capacity:
            return True
        if not requirement.capacity and not taken and unrestricted(record):
            return True
        try:
            return fits(record, requirement.capacity, taken, self._gates)
        except CapacityError as error:
            where = f"claim {claim.label}, request {requirement.name}"
            raise AllocationError(f"{where}: {doing}: {error}") from None

    def tolerated(self, requirement: DeviceNeed, at: int) -> bool:
        """Return whether the taints of a device permit the requirement to have it."""
        taints = self.devices[at].taints
        return not taints or not self._gates.device_taints or requirement.tolerates(taints)

    def used(self, usage: DeviceUsage) -> int:
        """Return the devices for one allocation that are in use."""
        bits = 0
        for pool in self.pools:
            used = usage.pool(pool.id) if pool.numbers else None
            if used is not None:
                for name in used.devices:
                    number = pool.numbers.get(name)
                    if number is not None:
                        bits |= 1 << (pool.start + number)
        return bits

    def alike(self, devices: int, attribute: str) -> bool:
        """Return whether all these devices have one known value of an attribute."""
        key = devices, attribute
        if key not in self._alike:
            values = {
                device.attribute(attribute) for at, device in enumerate(self.devices) if devices >> at & 1
            }
            self._alike[key] = not values or (
                len(values) == 1 and all(value is not None and value.kind for value in values)
            )
        return self._alike[key]

    def countable(self, claim: FlatClaim, requirement: DeviceNeed) -> int | None:
        """Return the devices that a requirement can have, None if more than their number counts.

        That is so if devices share counters or capacity, or if an expression fails on one of them.
        """
        shape = requirement.shape
        if shape not in self._countable:
            self._countable[shape] = self._counted(claim, requirement)
        return self._countable[shape]

    def _counted(self, claim: FlatClaim, requirement: DeviceNeed) -> int | None:
        bits = 0
        for at, device in enumerate(self.devices):
            record = device.device
            try:
                if not self.matches(claim, requirement, at) or not self.tolerated(requirement, at):
                    continue
                if record.consumesCounters or self.multiple(at):
                    return None
                if self.has_capacity(claim, requirement, at, {}, "counting"):
                    bits |= 1 << at
            except UnansweredAllocationError:
                raise
            except AllocationError:
                return None
        return bits


# The constraints of a claim during a search: attributes that its devices share, or that differ.
#
# A device without the attribute satisfies neither. Values of different types differ. A value of a type that
# this release does not know satisfies a constraint only if its device is the only one.
#
# Kubernetes 1.36 keeps one value for each request whose devices must differ, and forgets it in a step back.
# So two devices of one request can have the same value there. Podium follows each release.
#
# Source: matchAttributeConstraint and distinctAttributeConstraint of the incubating allocator, 1.36 and
# 1.37.


class AttributeRule(Protocol):
    """One constraint, with the devices that were added."""

    attribute: str

    def add(self, request: str, device: PoolDevice) -> bool:
        """Add a device of a request and return True, or return False if that breaks the constraint."""

    def remove(self, request: str, device: PoolDevice) -> None:
        """Remove a device that was added; the devices are removed in the reverse order."""


class SameAttribute:
    """All devices have the same value."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self._count = 0
        self._value: AttributeValue | None = None

    def add(self, request: str, device: PoolDevice) -> bool:  # noqa: ARG002 - see AttributeRule
        """Add a device and return True, or return False if its value is another."""
        value = device.attribute(self.attribute)
        if value is None or (self._count and (not value.kind or value != self._value)):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def remove(self, request: str, device: PoolDevice) -> None:  # noqa: ARG002 - see AttributeRule
        """Remove a device."""
        self._count -= 1


class DifferentAttribute:
    """No two devices have the same value."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self._values: Counter[AttributeValue] = Counter()

    def add(self, request: str, device: PoolDevice) -> bool:  # noqa: ARG002 - see AttributeRule
        """Add a device and return True, or return False if another one has its value."""
        value = device.attribute(self.attribute)
        if value is None or value in self._values or (self._values and not value.kind):
            return False
        self._values[value] += 1
        return True

    def remove(self, request: str, device: PoolDevice) -> None:  # noqa: ARG002 - see AttributeRule
        """Remove a device."""
        value = device.attribute(self.attribute)
        if value is not None:
            del self._values[value]


class DifferentRequests:
    """No device has the value that 1.36 keeps of a request, which is that of its latest device."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self._count = 0
        self._latest: dict[str, AttributeValue] = {}

    def add(self, request: str, device: PoolDevice) -> bool:
        """Add a device and return True, or return False if a request has its value."""
        value = device.attribute(self.attribute)
        if value is None:
            return False
        if self._count and self._latest and (not value.kind or value in self._latest.values()):
            return False
        self._latest[request] = value
        self._count += 1
        return True

    def remove(self, request: str, device: PoolDevice) -> None:  # noqa: ARG002 - see AttributeRule
        """Remove a device, and with it what is known of its request."""
        self._latest.pop(request, None)
        self._count -= 1


def rule_of(constraint: DeviceConstraint, gates: Gates) -> AttributeRule | None:
    """Return a constraint without devices, None if its type is not known."""
    if constraint.matchAttribute is not None:
        return SameAttribute(constraint.matchAttribute)
    if constraint.distinctAttribute is not None:
        different = DifferentAttribute if gates.latest else DifferentRequests
        return different(constraint.distinctAttribute)
    return None


# The shared counters of pools during a search: what is left of them, with the devices chosen so far.
#
# Devices that are in use take their counters, also those that this node cannot use. If a counter is overdrawn
# already, no device of the pool with counters can be allocated.
#
# The counters of Kubernetes 1.36 are kept by the name of the pool, so pools of two drivers with one name are
# confused there. Podium keeps them apart for both releases.
#
# Source: checkAvailableCounters of the incubating allocator, 1.37.

_Left = dict[tuple[str, str], int]


class CounterLedger:
    """The rest of the counters of each pool."""

    __slots__ = ("_left", "_usage")

    def __init__(self, usage: DeviceUsage) -> None:
        self._usage = usage
        self._left: dict[PoolID, _Left] = {}

    def take(self, pool: Pool, counters: Counters) -> bool:
        """Take counters and return True, or return False if they do not suffice."""
        left = self._of_pool(pool)
        if any(amount < 0 for amount in left.values()):
            return False
        if any(left[counter] < amount for counter, amount in counters.items()):
            return False
        for counter, amount in counters.items():
            left[counter] -= amount
        return True

    def give_back(self, pool: Pool, taken: Counters) -> None:
        """Give back counters that were taken."""
        left = self._of_pool(pool)
        for counter, amount in taken.items():
            left[counter] += amount

    def left(self, pool: Pool) -> Counters:
        """Return what is left of the counters of a pool, by set and counter, in nano-units."""
        return self._of_pool(pool)

    def _of_pool(self, pool: Pool) -> _Left:
        if pool.id not in self._left:
            left = dict(pool.counters)
            used = self._usage.pool(pool.id)
            for name in used.allocated_names() if used is not None else ():
                for taken in pool.consumers.get(name, ()):
                    for counter, amount in taken.items():
                        left[counter] -= amount
            self._left[pool.id] = left
        return self._left[pool.id]


_NO_COUNTERS: Counters = {}


class Choice(NamedTuple):
    """A device for a requirement, with the counters and the capacity that it takes (None: not shared)."""

    requirement: DeviceNeed
    at: int
    counters: Counters
    share: Mapping[str, int] | None


class DeviceTrial:
    """The chosen devices of all claims of a pod on one node."""

    def __init__(self, node: NodeView, demand: Demand, usage: DeviceUsage, gates: Gates) -> None:
        self.node = node
        self.demand = demand
        self.counters = CounterLedger(usage)
        # The chosen devices by claim, in order.
        self.chosen: tuple[list[Choice], ...] = tuple([] for _ in demand.claims)
        self.used = node.used(usage)
        self._usage = usage
        self._gates = gates
        # For each device, a bit for each claim that has it.
        self._holders: dict[int, int] = {}
        # The shares of a device that the claims take, and their number.
        self._shares: dict[int, tuple[int, Counter[str]]] = {}
        self._rules: tuple[tuple[AttributeRule | None, ...], ...] = tuple(
            tuple(rule_of(constraint, gates) for constraint in claim.constraints) for claim in demand.claims
        )

    def available(self, requirement: DeviceNeed, at: int) -> bool:
        """Return whether no other allocation keeps a requirement from having a device."""
        held = self._holders.get(at, 0)
        if requirement.admin:
            return not held >> requirement.claim & 1
        return not held and not self.used >> at & 1

    def suitable(self, requirement: DeviceNeed, at: int) -> bool:
        """Return whether a requirement can have an available device, apart from counters and constraints."""
        return self.node.matches(self._claim(requirement), requirement, at) and self.has_capacity(
            requirement, at, "checking"
        )

    def has_capacity(self, requirement: DeviceNeed, at: int, doing: str) -> bool:
        """Return whether what is left of a device's capacity suffices."""
        text = f"{doing} capacity for device {self.node.devices[at]}"
        return self.node.has_capacity(self._claim(requirement), requirement, at, self._taken(at), text)

    def take_device(self, requirement: DeviceNeed, at: int, *, must: bool = False) -> bool:
        """Choose a device and return True, or return False if counters, taints or constraints forbid it.

        `must` is set for a request for all devices: a constraint that forbids one of them is an error.
        """
        node, device = self.node, self.node.devices[at]
        multiple = node.multiple(at)
        if must and not self.available(requirement, at):
            return False
        counters = self._counters(at, multiple=multiple)
        if counters is None or not node.tolerated(requirement, at):
            return False
        if counters and not self.counters.take(node.owners[at], counters):
            return False
        if not self._add_to_rules(requirement, at):
            self.counters.give_back(node.owners[at], counters)
            if must:
                where = f"claim {self._claim(requirement).label}, request {requirement.name}"
                reason = "because a claim constraint would not be satisfied"
                raise AllocationError(f"{where}: cannot add device {device} {reason}")
            return False
        if must and not self.has_capacity(requirement, at, "rechecking"):
            self._remove_from_rules(requirement, at, len(requirement.rules))
            self.counters.give_back(node.owners[at], counters)
            return False
        share = self._share(requirement, at) if multiple else None
        if share is None:
            self._holders[at] = self._holders.get(at, 0) | 1 << requirement.claim
        self.chosen[requirement.claim].append(Choice(requirement, at, counters, share))
        return True

    def undo(self, claim: int) -> None:
        """Take back the device that was chosen last for a claim."""
        requirement, at, counters, share = self.chosen[claim].pop()
        if share is not None:
            count, taken = self._shares[at]
            taken.subtract(share)
            self._shares[at] = count - 1, taken
        else:
            self._holders[at] ^= 1 << claim
        self._remove_from_rules(requirement, at, len(requirement.rules))
        self.counters.give_back(self.node.owners[at], counters)

    def _claim(self, requirement: DeviceNeed) -> FlatClaim:
        return self.demand.claims[requirement.claim]

    def _counters(self, at: int, *, multiple: bool) -> Counters | None:
        """Return the counters that a device takes, None if the gates exclude devices with counters.

        A device that is shared already has taken them.
        """
        device = self.node.devices[at]
        if not device.device.consumesCounters:
            return _NO_COUNTERS
        if not self._gates.partitionable_devices:
            return None
        if multiple:
            used = self._usage.pool(self.node.owners[at].id)
            by_shares = self._gates.latest
            if self._shared(at) or (used is not None and used.shared(device.name, by_shares=by_shares)):
                return _NO_COUNTERS
        return device.consumption()

    def _shared(self, at: int) -> bool:
        return self._shares.get(at, (0,))[0] > 0

    def _taken(self, at: int) -> Mapping[str, int]:
        """Return the capacities of a device that are taken, in nano-units."""
        used = self._usage.pool(self.node.owners[at].id)
        consumed = consumed_of(used, self.node.devices[at].name)
        if not self._shared(at):
            return consumed
        shares = self._shares[at][1]
        return {name: consumed.get(name, 0) + shares[name] for name in {*consumed, *shares}}

    def _share(self, requirement: DeviceNeed, at: int) -> Mapping[str, int]:
        """Take the capacities of a share of a device."""
        amounts = consumed_amounts(self.node.devices[at].device, requirement.capacity, self._gates)
        share = {name: amount.nanos for name, amount in amounts.items()}
        count, taken = self._shares.get(at, (0, Counter[str]()))
        taken.update(share)
        self._shares[at] = count + 1, taken
        return share

    def _add_to_rules(self, requirement: DeviceNeed, at: int) -> bool:
        """Add a device to the constraints that concern it, to all or to none."""
        device, rules = self.node.devices[at], self._rules[requirement.claim]
        for number, index in enumerate(requirement.rules):
            rule = rules[index]
            if rule is not None and not rule.add(requirement.request, device):
                self._remove_from_rules(requirement, at, number)
                return False
        return True

    def _remove_from_rules(self, requirement: DeviceNeed, at: int, count: int) -> None:
        """Remove a device from the first `count` constraints that concern it."""
        device, rules = self.node.devices[at], self._rules[requirement.claim]
        for index in requirement.rules[:count]:
            rule = rules[index]
            if rule is not None:
                rule.remove(requirement.request, device)
