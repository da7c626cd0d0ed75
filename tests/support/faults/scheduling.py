"""The pods that are preempted during the scheduler's faults, arranged so that only one outcome is right.

Every node has four pods and no free room, and a preemptor of 3 cpus needs the room of three. So the victims
and their number are known in advance, even if a plan is interrupted and resumed.
"""

import contextlib
from collections.abc import Iterator, Sequence

from tests.support.scheduling.world import Sandbox, World

MEMBERS = 2
# For a gang of this size in one rack, it is cheapest to evict three pods of priority 1 on each node of
# the first rack.
WORTH = [*[[3, 1, 1, 1]] * MEMBERS, *[[3, 3, 3, 3]] * 2]
CHEAPEST = [f"low-{node}-{index}" for node in range(MEMBERS) for index in range(1, 4)]


@contextlib.contextmanager
def full_sandbox(
    world: World, worth: Sequence[Sequence[int]], rack: int = MEMBERS, racks: int = 2
) -> Iterator[Sandbox]:
    """Yield a cluster with a node for each row, full of pods `low-ROW-COLUMN` of these priorities.

    The first nodes are in `racks` of so many nodes (`rack`).
    """
    with world.sandbox() as made:
        for node in range(len(worth)):
            labels = {made.rack_key: f"r{node // rack}"} if node < rack * racks else {}
            made.node(f"n{node}", labels=labels)
        for node, priorities in enumerate(worth):
            for index, priority in enumerate(priorities):
                made.pod(f"low-{node}-{index}", "900m", priority, node=f"n{node}")
        yield made


def incoming_gang(sandbox: Sandbox) -> list[str]:
    """Create the gang in one rack that preempts the pods in CHEAPEST; return its members' names."""
    sandbox.group("gang", 5, MEMBERS, **sandbox.in_rack)
    return sandbox.members("gang", MEMBERS, 3, 5)
