"""The pods that count on nodes during a decision only because these nodes are reserved for them.

A nominated pod may come, or never. Filters that it can only make stricter (room, ports, anti-affinity) count
it once. For affinity and spread it may be the pod that makes a node pass. So a node has to pass them with the
nominated pods and without them, as in kube-scheduler (RunFilterPluginsWithNominatedPods). Nominated pods do
not move during a decision. So the number that a counter counts is computed once, and the second answer is a
subtraction.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from podium.planner.arrays import Rows
from podium.planner.filters.counter import DomainCounter
from podium.planner.filters.counters import PodSelection
from podium.planner.snapshot import Snapshot

# Pods by domain: none.
NO_PODS: Mapping[int, int] = {}


class NominatedPods:
    """The nominated pods that count on a snapshot during one decision; none between decisions."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rows: Rows = np.zeros(0, np.intp)
        # By the identity of a counter, which is valid while the counter is held.
        self._known: dict[int, tuple[DomainCounter, Mapping[int, int]]] = {}

    def assume_all(self, rows: Rows) -> None:
        """Set the nominated pods; each is assumed on its node."""
        self._rows, self._known = rows, {}

    def clear(self) -> None:
        """Clear the nominated pods."""
        self.assume_all(np.zeros(0, np.intp))

    def counted(self, pods: tuple[PodSelection, ...], counter: DomainCounter) -> Mapping[int, int]:
        """Return how many nominated pods a counter of `pods` counts, by domain; only domains with some."""
        if not len(self._rows):
            return NO_PODS
        known = self._known.get(id(counter))
        if known is None:
            known = self._known[id(counter)] = (counter, self._count(pods, counter))
        return known[1]

    def _count(self, pods: tuple[PodSelection, ...], counter: DomainCounter) -> Mapping[int, int]:
        snapshot, column = self._snapshot, counter.domains.column()
        meant: dict[int, bool] = {}
        counts: Counter[int] = Counter()
        for row in self._rows.tolist():
            shape_id, node = snapshot.shape.item(row), snapshot.node.item(row)
            if shape_id not in meant:
                meant[shape_id] = all(selection.match(snapshot.shapes[shape_id]) for selection in pods)
            stays = counter.terminating or not snapshot.terminating.item(row)
            if meant[shape_id] and stays and node >= 0 and column.item(node) >= 0:
                counts[column.item(node)] += 1
        return counts
