"""The answers of filters about pods that are given back beside the placed pods of a preemptor.

Placing all members again for each unit would cost a gang's size times the cluster's. Nearly every unit
concerns no member, and for most others the answer is known at once. So a filter sorts all pods by their
effect on the members, for all units together. Few remain whose effect depends on the pods given back before.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int32s, Rows
from podium.planner.deadline import Deadline
from podium.planner.overlay import Overlay
from podium.planner.shapes import Shape


class PlacedMembers:
    """The pods of a preemptor where they were `placed`: node rows by pod row.

    `nodes` are the node rows by shape id, and `shapes` the shapes.
    """

    def __init__(
        self, overlay: Overlay, shapes: Mapping[int, Shape], placed: Mapping[int, int], deadline: Deadline
    ) -> None:
        self.placed = placed
        self.deadline = deadline
        self.nodes: dict[int, list[int]] = defaultdict(list)
        for row, node in placed.items():
            self.nodes[overlay.shape.item(row)].append(node)
        self.shapes = {shape_id: shapes[shape_id] for shape_id in self.nodes}
        # The node rows of the members.
        self.hosts: Bools = np.zeros(len(overlay.alive), np.bool_)
        self.hosts[list(placed.values())] = True


class PodsByShape:
    """Positions of pods by shape, so that facts of a shape are computed once."""

    def __init__(self, shapes: Mapping[int, Shape], shape_ids: Int32s) -> None:
        self._order = np.argsort(shape_ids, kind="stable")
        ids, first = np.unique(shape_ids[self._order], return_index=True)
        self._shapes = [shapes[shape_id] for shape_id in ids.tolist()]
        self._bounds = [*first.tolist(), len(shape_ids)]

    def each(self) -> Iterator[tuple[Shape, Rows]]:
        """Yield each shape with the positions of its pods."""
        for at, shape in enumerate(self._shapes):
            yield shape, self._order[self._bounds[at] : self._bounds[at + 1]]

    def positions(self, matches: Callable[[Shape], bool]) -> Rows:
        """Return the positions of the pods of the shapes that match."""
        parts = [positions for shape, positions in self.each() if matches(shape)]
        return np.concatenate(parts) if parts else np.zeros(0, np.intp)


class Exclusion(NamedTuple):
    """Pods (by position) that keep pods of some `shapes` (by id) out of their domain, whatever its room.

    `domains` has the domain of each node row, -1 for none.
    """

    pods: Rows
    shapes: Sequence[int]
    domains: Int32s

    def shared(self, nodes: Iterable[int]) -> Bools:
        """Return for each node row whether it is in the domain of one of some nodes."""
        # One additional entry, which the domain -1 finds.
        shared = np.zeros(int(self.domains.max(initial=-1)) + 2, np.bool_)
        shared[self.domains[list(nodes)]] = True
        shared[-1] = False
        share: Bools = shared[self.domains]
        return share


class Reprieve:
    """The answers of a filter about pods on nodes (rows), beside the members of one preemptor.

    Each method has the answer of a filter that such pods do not concern; None of the first is no pod.
    """

    def counted(self, pods: PodsByShape, rows: Rows, nodes: Int32s) -> Bools | None:  # noqa: ARG002 - they do not concern it
        """Return the pods (rows) whose effect depends on those that were given back before."""
        return None

    def allows(self, rows: Rows, nodes: Int32s) -> bool | None:  # noqa: ARG002 - as above
        """Return whether the members fit beside more pods; None if they must be placed again to know.

        The members count nowhere meanwhile.
        """
        return True


class Rivals(Reprieve):
    """Pods that may take what members need; `takes` judges a pod by its row.

    If `nearby`, only those on the nodes of members matter.
    """

    def __init__(self, members: PlacedMembers, takes: Callable[[int], bool], *, nearby: bool) -> None:
        self._members = members
        self._takes = takes
        self._nearby = nearby

    def counted(self, pods: PodsByShape, rows: Rows, nodes: Int32s) -> Bools:  # noqa: ARG002 - each row is judged
        """Return the pods that may take something."""
        counted = np.zeros(len(rows), np.bool_)
        near = np.flatnonzero(self._members.hosts[nodes]) if self._nearby else np.arange(len(rows))
        counted[near] = [self._takes(row) for row in rows[near].tolist()]
        return counted

    def allows(self, rows: Rows, nodes: Int32s) -> bool | None:  # noqa: ARG002 - as above
        """Return None if a pod may take something."""
        return None if any(map(self._takes, rows.tolist())) else True
