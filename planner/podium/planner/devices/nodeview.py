"""The devices of one node: which of them each requirement can have, apart from those in use.

The devices of all usable pools have one order, and a device is its place in it. A set of devices is a whole
number with a bit for each, so counting free devices is one operation. A selector is evaluated when the search
comes to a device, not before: an expression that fails on a later device does not disturb an allocation.
"""

from collections.abc import Callable, Mapping

from kubecel import SelectorCompileError, SelectorRuntimeError, UnansweredSelectorError
from podium.api.devices import Device
from podium.planner.devices.capacity import CapacityError, fits, unrestricted
from podium.planner.devices.errors import AllocationError, UnansweredAllocationError
from podium.planner.devices.gates import Gates
from podium.planner.devices.inventory import PoolDevice
from podium.planner.devices.pools import Pool
from podium.planner.devices.requests import DeviceNeed, FlatClaim, NeedShape
from podium.planner.devices.usage import DeviceUsage

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
