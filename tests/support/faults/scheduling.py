"""The pods that are preempted during the scheduler's faults, arranged so that only one outcome is right.

Every node has four pods and no free room, and a preemptor of 3 cpus needs the room of three. So the victims
and their number are known in advance, even if a plan is interrupted and resumed.
"""

import contextlib
from collections.abc import Iterator, Sequence

from tests.support.scheduling.world import Sandbox, World

MEMBERS = 2
# For a gang of this size the cheapest plan is to evict a node's three pods of priority 1 for each member.
WORTH = [*[[3, 1, 1, 1]] * MEMBERS, *[[3, 3, 3, 3]] * 2]
CHEAPEST = [f"low-{node}-{index}" for node in range(MEMBERS) for index in range(1, 4)]


@contextlib.contextmanager
def full_sandbox(world: World, worth: Sequence[Sequence[int]]) -> Iterator[Sandbox]:
    """Yield a cluster with a node for each row, full of pods `low-ROW-COLUMN` of these priorities."""
    with world.sandbox() as made:
        made.nodes(len(worth))
        for node, priorities in enumerate(worth):
            for index, priority in enumerate(priorities):
                made.pod(f"low-{node}-{index}", "900m", priority, node=f"n{node}")
        yield made


def incoming_gang(sandbox: Sandbox) -> list[str]:
    """Create the gang that preempts the pods in CHEAPEST; return its members' names."""
    return sandbox.gang("gang", MEMBERS, 3, 5)
