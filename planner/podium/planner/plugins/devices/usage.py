"""The devices that claims have in use: a value of its own, with cheap changes for trials.

A device for one allocation is in use as long as a claim has it, even by the mistake of two claims with it. A
device for several allocations is used by shares, each with the capacity that it consumes. A claim with
administrative access uses no device. Which counters a used device takes is the pool's matter, because slices
can change.

Source: allocateddevices.go of kube-scheduler 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from kubecel.quantityscanner import MAX_UNITS
from podium.api.core import RawQuantity
from podium.api.devices import AllocatedDevice, Allocation, Device, DeviceCapacity
from podium.api.quantity import canonical
from podium.errors import PodiumError
from podium.planner.plugins.devices.gates import Gates
from podium.planner.plugins.devices.inventory import PoolID, nanos

_NOTHING: Mapping[str, int] = {}


class PoolUse:
    """The used devices of one pool, by name."""

    __slots__ = ("consumed", "devices", "holders", "shares")

    def __init__(self) -> None:
        # How many allocations have a device, which are more than one only by mistake.
        self.devices: Counter[str] = Counter()
        # The shares of a device.
        self.shares: dict[str, Counter[str]] = {}
        # The consumed capacities of a device in nano-units, and how many shares consume any.
        self.consumed: dict[str, Counter[str]] = {}
        self.holders: Counter[str] = Counter()

    @property
    def empty(self) -> bool:
        """Return whether no device of the pool is in use."""
        return not (self.devices or self.shares or self.consumed)

    def __eq__(self, other: object) -> bool:
        """Return whether another use has the same devices, shares and amounts."""
        return isinstance(other, PoolUse) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def allocated_names(self) -> set[str]:
        """Return the devices that are allocated in any way."""
        return {*self.devices, *self.shares, *self.consumed}

    def shared(self, device: str, *, by_shares: bool) -> bool:
        """Return whether a device has shares already; `by_shares` counts those without capacities too."""
        return device in self.consumed or (by_shares and device in self.shares)


class DeviceUsage:
    """The used devices of a cluster. `shares` is False if the cluster does not share devices by capacity."""

    __slots__ = ("_pools", "_shares")

    def __init__(self, allocations: Iterable[Allocation] = (), *, shares: bool = True) -> None:
        self._pools: dict[PoolID, PoolUse] = {}
        self._shares = shares
        for allocation in allocations:
            self.add(allocation)

    def __eq__(self, other: object) -> bool:
        """Return whether another state has the same devices in use."""
        return isinstance(other, DeviceUsage) and self._pools == other._pools

    __hash__ = None  # type: ignore[assignment]

    def pool(self, pool: PoolID) -> PoolUse | None:
        """Return the used devices of a pool, None if it has none."""
        return self._pools.get(pool)

    def add(self, allocation: Allocation) -> None:
        """Put the devices of an allocation in use."""
        for device in allocation.devices.results or ():
            if not device.adminAccess:
                self._change(device, 1)

    def remove(self, allocation: Allocation) -> None:
        """Free the devices of an allocation that was added."""
        for device in allocation.devices.results or ():
            if not device.adminAccess:
                self._change(device, -1)

    def use(self, pool: PoolID, device: str, times: int = 1) -> None:
        """Put a device in use, or free it with -1."""
        with_pool = self._pools.setdefault(pool, PoolUse())
        _tally(with_pool.devices, device, times)
        self._drop_empty(pool)

    def share(self, pool: PoolID, device: str, share: str, times: int = 1) -> None:
        """Add a share of a device, or remove it with -1."""
        shares = self._pools.setdefault(pool, PoolUse()).shares
        _tally(shares.setdefault(device, Counter()), share, times)
        if not shares[device]:
            del shares[device]
        self._drop_empty(pool)

    def consume(self, pool: PoolID, device: str, amounts: Mapping[str, RawQuantity], times: int = 1) -> None:
        """Add capacities that a share of a device consumes, or remove them with -1."""
        used = self._pools.setdefault(pool, PoolUse())
        consumed = used.consumed.setdefault(device, Counter())
        for name, raw in amounts.items():
            consumed[name] += times * nanos(raw)
        _tally(used.holders, device, times)
        if not used.holders[device]:
            del used.consumed[device]
        self._drop_empty(pool)

    def _change(self, device: AllocatedDevice, times: int) -> None:
        pool = PoolID(device.driver, device.pool)
        if device.shareID is None or not self._shares:
            self.use(pool, device.device, times)
            return
        self.share(pool, device.device, device.shareID, times)
        if device.consumedCapacity is not None:
            self.consume(pool, device.device, device.consumedCapacity, times)

    def _drop_empty(self, pool: PoolID) -> None:
        if self._pools[pool].empty:
            del self._pools[pool]


def consumed_of(used: PoolUse | None, device: str) -> Mapping[str, int]:
    """Return the consumed capacities of a device in nano-units."""
    return used.consumed.get(device, _NOTHING) if used is not None else _NOTHING


def _tally(counter: Counter[str], key: str, times: int) -> None:
    counter[key] += times
    if not counter[key]:
        del counter[key]


# The capacity that a request takes from a device, and whether the device has it left.
#
# A device that allows several allocations is shared by amounts of its capacities. The policy of a capacity
# turns a requested amount into a consumed one: the default if nothing is requested, the next valid value, or
# the next step of a range. A device for one allocation must have the amounts too, but keeps no account.
#
# Kubernetes 1.37 refuses the whole allocation if an amount is negative, or too large for the arithmetic of a
# range. Kubernetes 1.36 has no such check; there the device does not fit.
#
# Source: consumable_capacity.go of k8s.io/dynamic-resource-allocation 0.36.3 and 0.37.0.


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
