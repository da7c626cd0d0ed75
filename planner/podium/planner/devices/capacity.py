"""The capacity that a request takes from a device, and whether the device has it left.

A device that allows several allocations is shared by amounts of its capacities. The policy of a capacity
turns a requested amount into a consumed one: the default if nothing is requested, the next valid value, or
the next step of a range. A device for one allocation must have the amounts too, but keeps no account.

Kubernetes 1.37 refuses the whole allocation if an amount is negative, or too large for the arithmetic of a
range. Kubernetes 1.36 has no such check; there the device does not fit.

Source: consumable_capacity.go of k8s.io/dynamic-resource-allocation 0.36.3 and 0.37.0.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from kubecel.quantityscanner import MAX_UNITS
from podium.api.core import RawQuantity
from podium.api.devices import Device, DeviceCapacity
from podium.api.quantity import canonical
from podium.errors import PodiumError
from podium.planner.devices.gates import Gates
from podium.planner.devices.inventory import nanos

_NANOS = 10**9
_MILLI = 10**6
_NO_ARITHMETIC = "capacity request cannot be represented in the device's range arithmetic"

Requested = Mapping[str, RawQuantity]
Consumed = Mapping[str, int]


class CapacityError(PodiumError):
    """A requested amount that no device can take, in upstream's words."""


class CapacityAmount(NamedTuple):
    """A consumed amount in nano-units, and its text in the result of an allocation."""

    nanos: int
    text: str


def fits(device: Device, requested: Requested, taken: Consumed, gates: Gates) -> bool:
    """Return whether a device has the requested amounts beside those that are taken, in nano-units.

    Raises CapacityError.
    """
    capacities = device.capacity or {}
    if any(name not in capacities for name in requested):
        return False
    amounts = consumed_amounts(device, requested, gates)
    for name, capacity in capacities.items():
        amount = amounts[name].nanos
        if _violates(amount, capacity, gates) or amount + taken.get(name, 0) > _exact(capacity.value):
            return False
    return True


def unrestricted(device: Device) -> bool:
    """Return whether a request without amounts fits a device of which nothing is taken."""
    return all(
        capacity.requestPolicy is None and nanos(capacity.value) >= 0
        for capacity in (device.capacity or {}).values()
    )


def consumed_amounts(device: Device, requested: Requested, gates: Gates) -> dict[str, CapacityAmount]:
    """Return the amounts that a request takes from each capacity of a device. Raises CapacityError."""
    amounts: dict[str, CapacityAmount] = {}
    for name, capacity in (device.capacity or {}).items():
        try:
            amounts[name] = _consumed(requested.get(name), capacity, gates)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amounts[name].nanos < 0 and gates.latest:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    return amounts


def _consumed(requested: RawQuantity | None, capacity: DeviceCapacity, gates: Gates) -> CapacityAmount:
    policy = capacity.requestPolicy
    if requested is None:
        default = policy.default if policy is not None else None
        return _verbatim(default if default is not None else capacity.value)
    if policy is None:
        return _verbatim(requested)
    reach = policy.validRange
    if reach is not None and reach.min is not None:
        if _exact(requested) < _exact(reach.min):
            return _verbatim(reach.min)
        if reach.step is None:
            return _verbatim(requested)
        return _next_step(requested, reach.min, reach.step, milli=_fractional(capacity, gates), gates=gates)
    for valid in policy.validValues or ():
        if _exact(requested) <= _exact(valid):
            return _verbatim(valid)
    return _verbatim(requested)


def _next_step(
    requested: RawQuantity, least: RawQuantity, step: RawQuantity, *, milli: bool, gates: Gates
) -> CapacityAmount:
    """Return a request rounded up to a whole number of steps from the least amount."""
    exact = _exact(requested)
    if milli and exact % _MILLI:
        raise CapacityError(
            f"{_NO_ARITHMETIC}: request {canonical(requested)} is not a representable milli value"
        )
    if milli and exact > MAX_UNITS * _MILLI:
        raise CapacityError(
            f"{_NO_ARITHMETIC}: request {canonical(requested)} is not a representable milli value"
        )
    if not milli and gates.latest and exact > MAX_UNITS * _NANOS:
        raise CapacityError(f"{_NO_ARITHMETIC}: request {canonical(requested)} exceeds MaxInt64")
    unit = _MILLI if milli else _NANOS
    first, width = _whole(least, unit), _whole(step, unit)
    steps = -(-(_whole(requested, unit) - first) // width)
    units = first + width * steps
    if gates.latest and units > MAX_UNITS and (milli or first >= 0):
        limit = "the milli-value range" if milli else "MaxInt64"
        rounding = f"rounding request {canonical(requested)} up to the next step passes {limit}"
        raise CapacityError(f"{_NO_ARITHMETIC}: {rounding}")
    if milli and units % 1000:
        return CapacityAmount(units * _MILLI, canonical(f"{units}m"))
    whole = units // 1000 if milli else units
    return CapacityAmount(whole * _NANOS, _formatted(whole, step if gates.latest else "1Ki"))


def _violates(amount: int, capacity: DeviceCapacity, gates: Gates) -> bool:
    """Return whether the policy of a capacity does not allow a consumed amount."""
    policy = capacity.requestPolicy
    if policy is None or (policy.default is not None and amount == _exact(policy.default)):
        return False
    reach = policy.validRange
    if reach is None:
        return bool(policy.validValues) and all(amount != _exact(value) for value in policy.validValues or ())
    if reach.max is not None and amount > _exact(reach.max):
        return True
    if reach.step is None or reach.min is None:
        return False
    if _fractional(capacity, gates):
        if amount % _MILLI:
            return True
        unit = _MILLI
    else:
        unit = _NANOS
    return (_up(amount, unit) - _whole(reach.min, unit)) % _whole(reach.step, unit) != 0


def _fractional(capacity: DeviceCapacity, gates: Gates) -> bool:
    """Return whether the arithmetic of a range is in thousandths: if they hold all of its limits."""
    reach = capacity.requestPolicy.validRange if capacity.requestPolicy is not None else None
    if reach is None or not gates.fractional_range:
        return False
    limits = [_exact(limit) for limit in (reach.min, reach.max, reach.step) if limit is not None]
    if any(limit % _MILLI or abs(limit) > MAX_UNITS * _MILLI for limit in limits):
        return False
    return reach.step is None or _exact(reach.step) >= _MILLI


@lru_cache(maxsize=4096)
def _verbatim(raw: RawQuantity) -> CapacityAmount:
    return CapacityAmount(_exact(raw), canonical(raw))


def _whole(raw: RawQuantity, unit: int) -> int:
    return _up(_exact(raw), unit)


def _up(amount: int, unit: int) -> int:
    """Return an amount in whole units, rounded away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit


@lru_cache(maxsize=4096)
def _exact(raw: RawQuantity) -> int:
    """Return a quantity in nano-units, past the largest number of 64 bits too."""
    amount = nanos(raw)
    if abs(amount) < MAX_UNITS * _NANOS:
        return amount
    text = canonical(raw)
    # Upstream stops at that number for texts with a binary suffix only.
    if text.endswith("i"):
        return amount
    suffix = text[-1] if text[-1].isalpha() else ""
    exponent = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}.get(suffix, 0)
    return int(Decimal(text.removesuffix(suffix)).scaleb(exponent + 9))


def _formatted(units: int, like: RawQuantity) -> str:
    """Return whole units in the format of another quantity."""
    text = str(like)
    if text.endswith("i"):
        if units >= 1024 and units % 1024 == 0:
            return canonical(f"{units // 1024}Ki")
        return str(units) if units >= 1024 else canonical(str(units))
    exponential = "e" in text or ("E" in text and not text.endswith("E"))
    return canonical(f"{units}e0") if exponential and units % 1000 == 0 else canonical(str(units))
