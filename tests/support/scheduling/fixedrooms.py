"""A fixed cluster for the queries of hints, and entries that wait for room on it."""

from collections.abc import Collection
from dataclasses import dataclass, field

from podium.api.membership import GroupKey
from podium.planner.shapes import Shape
from podium.schedulerplugin.scheduling.effects import Evict, Key, Preemptor
from podium.schedulerplugin.scheduling.queueinghints import Hints, Waiting

A, B, C = ("team-a", "a"), ("team-a", "b"), ("team-a", "c")
GANG = GroupKey(native=True, namespace="team-a", name="b")
PODIUM_GANG = GANG._replace(native=False)
ROOM = Waiting((Shape(),), priority=5, may_preempt=True)


def evict(key: Key) -> Evict:
    """Return a preemption for a key."""
    return Evict(key, Preemptor("pod", "team-a", "high", "u0", 5), (), (), "n1", "")


@dataclass
class ClusterQueries:
    """The feasible nodes of each shape, and their room for each shape from a priority on.

    A key of `reserved` is a pod's row. The room that the pod reserves counts only for pods beside it.
    """

    suitable_for: set[tuple[Shape, int]] = field(default_factory=set)
    room: dict[tuple[Shape, int], int] = field(default_factory=dict)
    reserved: dict[int, int] = field(default_factory=dict)
    asked: int = 0
    reshaped: int = 0

    def suits(self, shape: Shape, node_row: int) -> bool:
        """Return whether a node is feasible for a shape."""
        self.asked += 1
        return (shape, node_row) in self.suitable_for

    def has_room(self, shape: Shape, node_row: int, priority: int, beside: Collection[int]) -> bool:
        """Return whether a node has room now."""
        self.asked += 1
        least = self.room.get((shape, node_row))
        held = any(node == node_row for row, node in self.reserved.items() if row not in beside)
        suits = (shape, node_row) in self.suitable_for
        return suits and least is not None and priority >= least and not held

    def suitable(self, shape: Shape, node_rows: Collection[int]) -> list[int]:
        """Return those of many nodes that are feasible for a shape."""
        self.asked += 1
        return [row for row in node_rows if (shape, row) in self.suitable_for]

    def with_room(self, shape: Shape, node_rows: Collection[int]) -> list[int]:
        """Return those of many nodes that have room, for any priority."""
        self.asked += 1
        return [row for row in node_rows if (shape, row) in self.room]


def waits(hints: Hints, key: Key) -> bool:
    """Return whether an entry waits in the hints."""
    return key in hints._waiting
