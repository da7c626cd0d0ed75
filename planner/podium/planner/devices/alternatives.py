"""Scores an allocation by the alternatives that it takes: the earlier ones of a request are preferred.

kube-scheduler prefers nodes where claims get their first choices. The points of a node are scaled by the most
of all nodes to choose from.

Source: Score of the plugin DynamicResources of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Iterable

from podium.api.devices import MAX_ALTERNATIVES, Allocation, DeviceRequest

# The score of the best node.
BEST_ALTERNATIVES = 100
# The weight of the score in the sum (kube-scheduler's default profile).
ALTERNATIVES_WEIGHT = 2


def alternative_points(requests: Iterable[DeviceRequest], allocation: Allocation) -> int:
    """Return the points of a claim's allocation: for each request more, the earlier its alternative is."""
    taken = {each.request for each in allocation.devices.results or ()}
    return sum(
        MAX_ALTERNATIVES - at
        for request in requests
        for at, each in enumerate(request.firstAvailable or ())
        if f"{request.name}/{each.name}" in taken
    )
