"""The room beside the placed pods of a preemptor, as plain integers.

The search checks for tens of thousands of units whether one can be given back. As far as room decides, the
answer is a subtraction on the nodes that the unit shares with the preemptor.
"""

from collections.abc import Mapping, Sequence

from podium.schedulerplugin.snapshot import Snapshot

# Room of a resource that no pod of the preemptor requests on a node: more than all pods there can take.
_NO_MATTER = 2**100

# The node of a pod of a unit, and the amounts of `Room.resources`.
Taken = tuple[int, Sequence[int]]


class Room:
    """The room left on the nodes of `placed` (node rows by pod row), whose pods are assumed there.

    A filter looks only at what a pod requests. On a node where no pod of the preemptor requests accelerators,
    units that hold some never block it.
    """

    def __init__(self, snapshot: Snapshot, placed: Mapping[int, int]) -> None:
        asked: dict[int, set[int]] = {}
        for row, node in placed.items():
            shape = snapshot.shapes[snapshot.shape.item(row)]
            asked.setdefault(node, set()).update(snapshot.resource[name] for name, _ in shape.requests)
        self.resources = sorted(set().union(*asked.values()))
        nodes = list(asked)
        free = [snapshot.allocatable[at][nodes] - snapshot.used[at][nodes] for at in self.resources]
        rooms = zip(*(each.tolist() for each in free), strict=True)
        self._left = {
            node: [
                have if at in asked[node] else _NO_MATTER
                for at, have in zip(self.resources, room, strict=True)
            ]
            for node, room in zip(nodes, rooms, strict=True)
        }

    def take(self, unit: Sequence[Taken]) -> bool:
        """Take room for the pods of a unit on these nodes; if there is too little, take none."""
        before = []
        for node, wanted in unit:
            left = self._left[node]
            before.append((node, left))
            less = beside(left, wanted)
            if less is None:
                for at, was in reversed(before):
                    self._left[at] = was
                return False
            self._left[node] = less
        return True

    def leave(self, unit: Sequence[Taken]) -> None:
        """Free the room of a unit again."""
        for node, wanted in unit:
            left = self._left[node]
            self._left[node] = [have + want for have, want in zip(left, wanted, strict=True)]


def beside(left: list[int], wanted: Sequence[int]) -> list[int] | None:
    """Return the room that is left after `wanted` is taken; None if it does not fit.

    A resource that is not wanted need not be free: a node may be overcommitted in it.
    """
    less = [have - want for have, want in zip(left, wanted, strict=True)]
    return None if any(have < 0 < want for have, want in zip(less, wanted, strict=True)) else less
