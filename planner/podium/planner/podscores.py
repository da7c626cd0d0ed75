"""Scores each node for a pod by the pods around it (kube-scheduler's soft pod affinity and soft spread).

Both are sums over counters like those of the filters, so a score costs one look-up for each term for all
nodes at once. Unlike the other scores they change with every placement in the same domain. They are scaled by
the least and the largest among the rows to choose from, in upstream's arithmetic. Upstream's default
constraints for pods without any (it spreads them by the Services and ReplicaSets that select them) are not
evaluated here.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Int64s, Rows
from podium.planner.filters.counter import DomainCounter, topology
from podium.planner.filters.counters import (
    DomainCounters,
    PerShape,
    SelectorCounters,
    TermCounters,
    required_labels,
)
from podium.planner.filters.podaffinity import Namespaces, selected_pods, topology_counter
from podium.planner.filters.spread import SpreadCounter, SpreadCounters
from podium.planner.filters.terms import labels_of
from podium.planner.scores import MAX
from podium.planner.shapes import PodTerm, Shape

# The weight of each kind in the sum (kube-scheduler's default profile).
POD_AFFINITY_WEIGHT = 2
SPREAD_WEIGHT = 2
# The score of a running pod's required affinity term for a newcomer it matches (upstream's default).
REQUIRED_TERM_WEIGHT = 1


class _PreferredTerm(NamedTuple):
    """The score of each pod of a counter for the nodes of its domain; negative for anti-affinity."""

    weight: int
    key: str
    counter: DomainCounter


class PodScores:
    """The scores of one snapshot; rows are those of nodes that passed every filter for the shape."""

    def __init__(
        self, asked: SelectorCounters, namespaces: Namespaces, spread_counters: SpreadCounters
    ) -> None:
        self._snapshot = snapshot = asked.snapshot
        self._asked = asked
        self._namespaces = namespaces
        self._spread_counters = spread_counters
        self._carried: TermCounters[tuple[int, PodTerm]] = TermCounters(
            snapshot,
            keys=_preferred_terms,
            domains=lambda term: topology(snapshot, term[1].topology_key),
            marks=lambda term: required_labels(term[1].selector),
        )
        self._own = PerShape(asked, lambda shape: list(self._preferred(shape)))
        self._others = PerShape(self._carried, lambda shape: list(self._preferred_by_others(shape)))
        self._levels = PerShape(asked, self._spread_counters_of)

    @property
    def counters(self) -> DomainCounters[tuple[int, PodTerm]]:
        """The counters of the terms that pods bring."""
        return self._carried

    def total(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the weighted sum of both kinds for each of the rows, which are the whole choice."""
        return self.affinity(shape, rows) * POD_AFFINITY_WEIGHT + self.spread(shape, rows) * SPREAD_WEIGHT

    def affinity(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the score of soft affinity, of the pod and toward it (InterPodAffinity)."""
        points = np.zeros(len(rows), np.int64)
        for weight, key, counter in (*self._own.get(shape), *self._others.get(shape)):
            counter.refresh(self._snapshot.node_revision)
            points += counter.by_domain().take(self._snapshot.columns.column(key)[rows]) * np.int64(weight)
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
        levels = self._levels.get(shape)
        if not levels or not len(rows):
            return np.zeros(len(rows), np.int64)
        domains = [
            self._snapshot.columns.column(constraint.topology_key)[rows] for constraint in shape.soft_spread
        ]
        labelled = np.logical_and.reduce([column >= 0 for column in domains])
        if not labelled.any():
            return np.zeros(len(rows), np.int64)
        sums = np.zeros(len(rows))
        for constraint, column, counter in zip(shape.soft_spread, domains, levels, strict=True):
            counter.refresh(self._snapshot.node_revision)
            weight = math.log(len(np.unique(column[labelled])) + 2)
            sums += counter.by_domain().take(column) * weight + (constraint.max_skew - 1)
        # Rounded half up, as a whole number of pods is never negative.
        whole = np.trunc(sums)
        points = (whole + (sums - whole >= 0.5)).astype(np.int64)
        low, high = int(points[labelled].min()), int(points[labelled].max())
        scaled = MAX * (high + low - points) // high if high else np.full(len(rows), MAX)
        return np.where(labelled, scaled, 0)

    def reload_namespaces(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._own.clear()
        self._others.clear()

    def _preferred(self, shape: Shape) -> Iterator[_PreferredTerm]:
        """Yield the preferences of the pod to place for running pods."""
        for weight, term in shape.preferred_pods:
            if not self._snapshot.columns.has(term.topology_key):
                continue
            pods = (selected_pods(term, self._namespaces),)
            yield _PreferredTerm(
                weight, term.topology_key, topology_counter(self._asked, pods, term.topology_key)
            )

    def _preferred_by_others(self, shape: Shape) -> Iterator[_PreferredTerm]:
        """Yield the preferences of running pods for the pod to place; their required terms count too."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        for (weight, term), counter in self._carried.candidates(shape.labels):
            if term.matches(shape.namespace, around, labels):
                yield _PreferredTerm(weight, term.topology_key, counter)

    def _spread_counters_of(self, shape: Shape) -> list[SpreadCounter]:
        soft = shape.soft_spread
        # A node that lacks one of the keys gets no points. With a key that no node has, there are no points.
        if not all(self._snapshot.columns.has(constraint.topology_key) for constraint in soft):
            return []
        return [self._spread_counters.counter(shape, soft, which) for which in range(len(soft))]


def _preferred_terms(shape: Shape) -> list[tuple[int, PodTerm]]:
    return [*shape.preferred_pods, *((REQUIRED_TERM_WEIGHT, term) for term in shape.pod_affinity)]
