"""Which pending pods hold room on a node that was reserved for them, by row and by node.

A preemption takes its time, and the room it makes belongs to its preemptor: whoever is decided about
meanwhile, of no higher priority, has to count the preemptor as if it stood there already. These are few
among many pods, and every decision asks for them, so they are kept, in step with pods and intents.
"""

from collections.abc import Callable, Collection, Iterator

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.snapshot import Snapshot


class Nominations:
    """The reservations of a snapshot's pods; `says` gives the node (empty: none) that one pod names.

    A pod that counts on a node, for its binding is on the way, holds no other.
    """

    def __init__(self, snapshot: Snapshot, says: Callable[[Schedulable], str]) -> None:
        self._snapshot = snapshot
        self._says = says
        self._node: dict[int, str] = {}
        self._rows: dict[str, set[int]] = {}

    def note(self, row: int) -> None:
        """Read anew what the pod on a row says, if there is one."""
        pod = self._snapshot.pods[row]
        node = self._says(pod) if pod is not None and not pod.spec.nodeName else ""
        before = self._node.pop(row, "")
        if before:
            self._rows[before].discard(row)
            if not self._rows[before]:
                del self._rows[before]
        if node:
            self._node[row] = node
            self._rows.setdefault(node, set()).add(row)

    def of(self, row: int) -> str:
        """Give the node that is reserved for a pod, known or not; empty for none."""
        return self._node.get(row, "") if self._snapshot.node.item(row) < 0 else ""

    def held(self) -> Iterator[tuple[int, int]]:
        """Give the pods that hold a node that exists, with it, by rows."""
        snapshot = self._snapshot
        for row, name in self._node.items():
            node = snapshot.row.get(name)
            if node is not None and snapshot.node.item(row) < 0:
                yield row, node

    def on(self, node_row: int) -> Collection[int]:
        """Give the pods for which a node is reserved, those that count on one among them."""
        return self._rows.get(self._snapshot.names[node_row] or "", ())
