"""The devices that claims have in use: a value of its own, with cheap changes for trials.

A device for one allocation is in use as long as a claim has it, even by the mistake of two claims with it. A
device for several allocations is used by shares, each with the capacity that it consumes. A claim with
administrative access uses no device. Which counters a used device takes is the pool's matter, because slices
can change.

Source: allocateddevices.go of kube-scheduler 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from podium.api.core import RawQuantity
from podium.api.devices import AllocatedDevice, Allocation
from podium.planner.devices.inventory import PoolID, nanos

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
