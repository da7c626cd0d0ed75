"""The shared counters of pools during a search: what is left of them, with the devices chosen so far.

Devices that are in use take their counters, also those that this node cannot use. If a counter is overdrawn
already, no device of the pool with counters can be allocated.

The counters of Kubernetes 1.36 are kept by the name of the pool, so pools of two drivers with one name are
confused there. Podium keeps them apart for both releases.

Source: checkAvailableCounters of the incubating allocator, 1.37.
"""

from podium.planner.devices.inventory import Counters, PoolID
from podium.planner.devices.pools import Pool
from podium.planner.devices.usage import DeviceUsage

_Left = dict[tuple[str, str], int]


class CounterLedger:
    """The rest of the counters of each pool."""

    __slots__ = ("_left", "_usage")

    def __init__(self, usage: DeviceUsage) -> None:
        self._usage = usage
        self._left: dict[PoolID, _Left] = {}

    def take(self, pool: Pool, wanted: Counters) -> bool:
        """Take counters and return True, or return False if they do not suffice."""
        left = self._of_pool(pool)
        if any(amount < 0 for amount in left.values()):
            return False
        if any(left[counter] < amount for counter, amount in wanted.items()):
            return False
        for counter, amount in wanted.items():
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
