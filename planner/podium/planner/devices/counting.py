"""The first solution by counting, for claims that only ask for numbers of devices.

Without choices and shared amounts, the search takes the first free devices for one request after the other.
It goes back only if a request finds too few. If this request and each earlier one can have the same devices
or none in common, going back cannot help: too few means that there is no solution. A constraint that all
devices of its requests satisfy, such as one model on a node with one model, does not matter. In all other
cases the search decides.
"""

from collections.abc import Sequence
from enum import Enum, auto

from podium.planner.devices.nodeview import NodeView
from podium.planner.devices.requests import Demand, DeviceNeed
from podium.planner.devices.usage import DeviceUsage


class CountOutcome(Enum):
    """The result of counting without a solution."""

    TOO_FEW = auto()
    UNDECIDED = auto()


# The devices of each claim with their requirements, in order.
Solution = tuple[list[tuple[DeviceNeed, int]], ...]


def count_devices(node: NodeView, demand: Demand, usage: DeviceUsage) -> Solution | CountOutcome:
    """Return the first solution, or why counting finds none."""
    masks = _masks(node, demand) if demand.countable else None
    if masks is None or any(_shared(usage, node, at) for at in range(len(node.pools))):
        return CountOutcome.UNDECIDED
    free = (1 << len(node.devices)) - 1 & ~node.used(usage)
    solution: Solution = tuple([] for _ in demand.claims)
    for requirement, mask in zip(demand.requirements, masks, strict=True):
        rest = free & mask
        if rest.bit_count() < requirement.count:
            separate = all(each == mask or not each & mask for each in masks[: requirement.number])
            return CountOutcome.TOO_FEW if separate else CountOutcome.UNDECIDED
        chosen = solution[requirement.claim]
        for _ in range(requirement.count):
            lowest = rest & -rest
            chosen.append((requirement, lowest.bit_length() - 1))
            rest ^= lowest
            free ^= lowest
    return solution


def _masks(node: NodeView, demand: Demand) -> list[int] | None:
    """Return the devices that each requirement can have, None if more than their number counts."""
    masks: list[int] = []
    for requirement in demand.requirements:
        mask = node.countable(demand.claims[requirement.claim], requirement)
        if mask is None:
            return None
        masks.append(mask)
    for number, claim in enumerate(demand.claims):
        for index, constraint in enumerate(claim.constraints):
            concerned = [
                masks[each.number]
                for each in demand.requirements
                if each.claim == number and index in each.rules
            ]
            if not node.alike(_union(concerned), constraint.matchAttribute or ""):
                return None
    return masks


def _union(masks: Sequence[int]) -> int:
    union = 0
    for each in masks:
        union |= each
    return union


def _shared(usage: DeviceUsage, node: NodeView, at: int) -> bool:
    """Return whether a pool has devices with consumed capacity."""
    used = usage.pool(node.pools[at].id)
    return used is not None and bool(used.consumed)
