"""Scores each node for a pod by the pods around it (kube-scheduler's soft pod affinity and soft spread).

Both are sums over tallies like those of the filters, so a score costs one look-up for each term for all nodes
at once. Unlike the other scores they change with every placement in the same domain. They are scaled by the
least and the largest among the rows to choose from, in upstream's arithmetic. Upstream's default constraints
for pods without any (it spreads them by the Services and ReplicaSets that select them) are not evaluated
here.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Int64s, Rows
from podium.schedulerplugin.filters.nodes import NodeAffinity, TaintToleration
from podium.schedulerplugin.filters.podaffinity import Namespaces, ask_near, labels_of, looked_for
from podium.schedulerplugin.filters.spread import Levels, SpreadTallies
from podium.schedulerplugin.filters.tallies import Asked, Carried, Plans, Tallies, pins
from podium.schedulerplugin.filters.tally import Tally, topology
from podium.schedulerplugin.scores import MAX
from podium.schedulerplugin.shapes import PodTerm, Shape

# The weight of each kind in the sum (kube-scheduler's default profile).
POD_AFFINITY_WEIGHT = 2
SPREAD_WEIGHT = 2
# The score of a running pod's required affinity term for a newcomer it matches (upstream's default).
REQUIRED_WORTH = 1


class _Wish(NamedTuple):
    """The score of each pod of a tally for the nodes of its domain; negative for anti-affinity."""

    weight: int
    key: str
    tally: Tally


class PodScores:
    """The scores of one snapshot; rows are those of nodes that passed every filter for the shape."""

    def __init__(
        self, asked: Asked, namespaces: Namespaces, affinity: NodeAffinity, taints: TaintToleration
    ) -> None:
        self._snapshot = snapshot = asked.snapshot
        self._asked = asked
        self._namespaces = namespaces
        self._spread_tallies = SpreadTallies(asked, affinity, taints)
        self._carried: Carried[tuple[int, PodTerm]] = Carried(
            snapshot,
            keys=_wishes,
            domains=lambda wish: topology(snapshot, wish[1].topology_key),
            marks=lambda wish: pins(wish[1].selector),
        )
        self._own = Plans(asked, lambda shape: list(self._wished(shape)))
        self._others = Plans(self._carried, lambda shape: list(self._wished_of(shape)))
        self._levels = Plans(asked, self._even)

    @property
    def tallies(self) -> Tallies[tuple[int, PodTerm]]:
        """The tallies of the terms that pods bring."""
        return self._carried

    def total(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the weighted sum of both kinds for each of the rows, which are the whole choice."""
        return self.affinity(shape, rows) * POD_AFFINITY_WEIGHT + self.spread(shape, rows) * SPREAD_WEIGHT

    def affinity(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the score of soft affinity, of the pod and toward it (InterPodAffinity)."""
        points = np.zeros(len(rows), np.int64)
        for weight, key, tally in (*self._own.of(shape), *self._others.of(shape)):
            tally.settle(self._snapshot.node_revision)
            points += tally.by_domain().take(self._snapshot.columns.column(key)[rows]) * np.int64(weight)
        if not len(rows):
            return points
        low, high = int(points.min()), int(points.max())
        if low == high:
            return np.zeros(len(rows), np.int64)
        return (MAX * ((points - low) / (high - low))).astype(np.int64)

    def spread(self, shape: Shape, rows: Rows) -> Int64s:
        """Return a higher score for domains with fewer matching pods (PodTopologySpread, ScheduleAnyway).

        The more domains there are, the more each pod in one counts. A node that lacks one of the labels gets
        0, and does not affect the scale.
        """
        levels = self._levels.of(shape)
        if not levels or not len(rows):
            return np.zeros(len(rows), np.int64)
        domains = [self._snapshot.columns.column(each.topology_key)[rows] for each in shape.soft_spread]
        labelled = np.logical_and.reduce([column >= 0 for column in domains])
        if not labelled.any():
            return np.zeros(len(rows), np.int64)
        sums = np.zeros(len(rows))
        for constraint, column, tally in zip(shape.soft_spread, domains, levels, strict=True):
            tally.settle(self._snapshot.node_revision)
            weight = math.log(len(np.unique(column[labelled])) + 2)
            sums += tally.by_domain().take(column) * weight + (constraint.max_skew - 1)
        # Rounded half up, as a whole number of pods is never negative.
        whole = np.trunc(sums)
        points = (whole + (sums - whole >= 0.5)).astype(np.int64)
        low, high = int(points[labelled].min()), int(points[labelled].max())
        scaled = MAX * (high + low - points) // high if high else np.full(len(rows), MAX)
        return np.where(labelled, scaled, 0)

    def forget(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._own.forget()
        self._others.forget()

    def _wished(self, shape: Shape) -> Iterator[_Wish]:
        """Yield the preferences of the pod to place for running pods."""
        for weight, term in shape.preferred_pods:
            if not self._snapshot.columns.has(term.topology_key):
                continue
            pods = (looked_for(term, self._namespaces),)
            yield _Wish(weight, term.topology_key, ask_near(self._asked, pods, term.topology_key))

    def _wished_of(self, shape: Shape) -> Iterator[_Wish]:
        """Yield the preferences of running pods for the pod to place; their required terms count too."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        for (weight, term), tally in self._carried.candidates(shape.labels):
            if term.matches(shape.namespace, around, labels):
                yield _Wish(weight, term.topology_key, tally)

    def _even(self, shape: Shape) -> list[Levels]:
        soft = shape.soft_spread
        # A node that lacks one of the keys gets no points. With a key that no node has, there are no points.
        if not all(self._snapshot.columns.has(each.topology_key) for each in soft):
            return []
        return [self._spread_tallies.of(shape, soft, which) for which in range(len(soft))]


def _wishes(shape: Shape) -> list[tuple[int, PodTerm]]:
    return [*shape.preferred_pods, *((REQUIRED_WORTH, term) for term in shape.pod_affinity)]
