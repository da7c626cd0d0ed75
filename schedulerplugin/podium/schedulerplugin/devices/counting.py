"""The first solution by counting, for claims that only ask for numbers of devices.

Without constraints, choices and shared amounts, the search takes the first free devices for one request after
the other. It goes back only if a request finds too few. If each two requests can have the same devices or
none in common, going back cannot help, so too few means that there is no solution. Otherwise the search
decides.
"""

from enum import Enum, auto

from podium.schedulerplugin.devices.nodeview import NodeView
from podium.schedulerplugin.devices.requests import Demand, Requirement
from podium.schedulerplugin.devices.usage import DeviceUsage


class Counted(Enum):
    """The result of counting without a solution."""

    TOO_FEW = auto()
    UNDECIDED = auto()


# The devices of each claim with their requirements, in order.
Solution = tuple[list[tuple[Requirement, int]], ...]


def count(node: NodeView, demand: Demand, usage: DeviceUsage) -> Solution | Counted:
    """Return the first solution, or why counting finds none."""
    if not demand.plain or any(_shared(usage, node, at) for at in range(len(node.pools))):
        return Counted.UNDECIDED
    free = (1 << len(node.devices)) - 1 & ~node.used(usage)
    solution: Solution = tuple([] for _ in demand.claims)
    masks: list[int] = []
    for requirement in demand.requirements:
        mask = node.countable(demand.claims[requirement.claim], requirement)
        if mask is None:
            return Counted.UNDECIDED
        masks.append(mask)
        rest = free & mask
        if rest.bit_count() < requirement.count:
            separate = all(mask in (each, mask & ~each) for each in masks)
            return Counted.TOO_FEW if separate else Counted.UNDECIDED
        for _ in range(requirement.count):
            lowest = rest & -rest
            solution[requirement.claim].append((requirement, lowest.bit_length() - 1))
            rest ^= lowest
            free ^= lowest
    return solution


def _shared(usage: DeviceUsage, node: NodeView, at: int) -> bool:
    """Return whether a pool has devices with consumed capacity."""
    used = usage.pool(node.pools[at].id)
    return used is not None and bool(used.consumed)
