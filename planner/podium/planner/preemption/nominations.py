"""Keeps the pending pods that hold room on a node reserved for them, and the priority they count with.

A preemption takes time, and the room it makes belongs to its preemptor. Until then, a decision for a pod of
no higher priority has to count the preemptor as if it ran there already. A burst of preemptors adds hundreds
of them to every decision, so they are in arrays, in step with pods and intents.
"""

from collections.abc import Callable, Collection

import numpy as np

from podium.api.schedulable import Schedulable
from podium.planner.arrays import Int32s, Int64s, Rows, grown
from podium.planner.snapshot import Snapshot

_FEWEST = 16
_NO_NODE = -1


class Nominations:
    """The reservations of a snapshot's pods: `nominated_node` returns a pod's reserved node (empty: none).

    `priority_of` returns the priority of a pod's row. Call `update` when the pod, its priority or its
    reserved node may have changed. A pod that counts on a node, because its bind is in flight, holds no other
    node.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        nominated_node: Callable[[Schedulable], str],
        priority_of: Callable[[int], int],
    ) -> None:
        self._snapshot = snapshot
        self._nominated_node = nominated_node
        self._priority_of = priority_of
        self._names: dict[int, str] = {}
        self._rows: dict[str, set[int]] = {}
        # By place: pod rows, node rows and priorities. When an entry is removed, the last entry takes its
        # place.
        self._place: dict[int, int] = {}
        self._pods: Rows = np.zeros(0, np.intp)
        self._nodes: Int32s = np.zeros(0, np.int32)
        self._priority: Int64s = np.zeros(0, np.int64)
        self._nodes_revision = snapshot.node_revision

    def update(self, row: int) -> None:
        """Update the reservation of the pod on a row, if there is one."""
        pod = self._snapshot.pods[row]
        name = self._nominated_node(pod) if pod is not None and not pod.spec.nodeName else ""
        if name != self._names.get(row, ""):
            self._drop(row)
            if name:
                self._add(row, name)
        if name:
            self._priority[self._place[row]] = self._priority_of(row)

    def update_all(self) -> None:
        """Update all reservations."""
        for row in tuple(self._names):
            self.update(row)

    def is_current(self, row: int) -> bool:
        """Return whether the data stored for a pod equals its current reservation."""
        self._update_nodes()
        pod = self._snapshot.pods[row]
        name = self._nominated_node(pod) if pod is not None and not pod.spec.nodeName else ""
        place = self._place.get(row)
        if not name or place is None:
            return place is None and not name and row not in self._names
        stored = (self._pods.item(place), self._nodes.item(place), self._priority.item(place))
        expected = (row, self._snapshot.row.get(name, _NO_NODE), self._priority_of(row))
        return self._names.get(row) == name and row in self._rows.get(name, ()) and stored == expected

    def node_of(self, row: int) -> str:
        """Return the node reserved for a pod, even if the node is unknown; empty for none."""
        return self._names.get(row, "") if self._snapshot.node.item(row) < 0 else ""

    def holding(self, priority: int, but: Collection[int]) -> tuple[Rows, Int32s]:
        """Return the pods of no lower priority that hold a node, except those in `but`; and the node rows."""
        self._update_nodes()
        held = len(self._place)
        pods, nodes = self._pods[:held], self._nodes[:held]
        counts = (self._priority[:held] >= priority) & (nodes != _NO_NODE) & (self._snapshot.node[pods] < 0)
        counts[[self._place[row] for row in but if row in self._place]] = False
        return pods[counts], nodes[counts]

    def on(self, node_row: int) -> Collection[int]:
        """Return the pods with this node reserved, including those that count on a node."""
        return self.on_name(self._snapshot.node_name(node_row))

    def on_name(self, node: str) -> Collection[int]:
        """Return the pods with a node of this name reserved, whether it exists or not."""
        return self._rows.get(node, ())

    def _add(self, row: int, name: str) -> None:
        self._names[row] = name
        self._rows.setdefault(name, set()).add(row)
        place = self._place[row] = len(self._place)
        if place == len(self._pods):
            size = max(_FEWEST, 2 * place)
            self._pods, self._nodes = grown(self._pods, size), grown(self._nodes, size)
            self._priority = grown(self._priority, size)
        self._pods[place] = row
        self._nodes[place] = self._snapshot.row.get(name, _NO_NODE)

    def _drop(self, row: int) -> None:
        name = self._names.pop(row, "")
        if not name:
            return
        self._rows[name].discard(row)
        if not self._rows[name]:
            del self._rows[name]
        place, last = self._place.pop(row), len(self._place)
        if place != last:
            moved = self._pods.item(last)
            self._place[moved] = place
            for array in (self._pods, self._nodes, self._priority):
                array[place] = array[last]

    def _update_nodes(self) -> None:
        """Look up the nodes again if some came or went."""
        if self._nodes_revision == self._snapshot.node_revision:
            return
        self._nodes_revision = self._snapshot.node_revision
        for row, place in self._place.items():
            self._nodes[place] = self._snapshot.row.get(self._names[row], _NO_NODE)
