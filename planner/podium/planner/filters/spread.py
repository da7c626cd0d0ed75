"""Checks whether one more pod keeps pods evenly spread (PodTopologySpread, DoNotSchedule only).

A node may take a pod if its domain would then hold at most maxSkew pods more than the emptiest. The domains
are those the pod sees: nodes with every key of its hard constraints, which its node affinity and (if
requested) its tolerations admit. Only pods on those nodes count, in the pod's namespace, and none that is
being deleted. A selector that selects everything counts no pod. Below minDomains domains the emptiest counts
as empty. Pods that are only nominated may not come: the skew must be kept with them and without them.

There are two checks. The first is whether each constraint keeps the skew, up to the first whose label the
node lacks. The second is whether the node has all the labels. In this order they refuse a node with
kube-scheduler's own reason. Preemption may resolve only a refusal by the first check.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from podium.api.selectors import NodeRequirement, Requirement
from podium.planner.arrays import Bools, Int32s
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.counter import DomainCounter, Domains
from podium.planner.filters.counters import (
    CountQuery,
    PerShape,
    PodSelection,
    SelectorCounters,
    unless_counted,
    with_pins,
)
from podium.planner.filters.nodes import (
    NodeAffinityFilter,
    NodeCache,
    StaticFilter,
    TaintTolerationFilter,
)
from podium.planner.filters.nominated import NO_PODS, NominatedPods
from podium.planner.filters.terms import unmet_terms
from podium.planner.framework import NodeFilter
from podium.planner.shapes import Shape, SpreadConstraint


class SpreadCounter(DomainCounter):
    """A counter of pods that are to stay, which also knows how few the emptiest domain holds."""

    def __init__(self, domains: Domains) -> None:
        super().__init__(domains, terminating=False)
        self.domains_now = 0
        self._least = 0
        # The number of domains by their number of pods, so that the least is found without a search.
        self._holding: Counter[int] = Counter()

    def least(self, min_domains: int, less: Mapping[int, int] = NO_PODS) -> int:
        """Return the pods in the emptiest domain; 0 while there are fewer domains than `min_domains`.

        `less` is subtracted from the pods of some domains.
        """
        if self.domains_now < min_domains:
            return 0
        return min([self._least, *(self.counts.get(domain, 0) - fewer for domain, fewer in less.items())])

    def refresh(self, revision: int) -> None:
        """Update to the current nodes, and count the domains that they are in."""
        changed = revision != self._revision
        super().refresh(revision)
        if not changed:
            return
        column = self.domains.column()
        self.domains_now = len(np.unique(column[column >= 0]))
        self._holding = Counter(self.counts.values())
        if self.domains_now > len(self.counts):
            self._holding[0] = self.domains_now - len(self.counts)
        self._least = min(self._holding, default=0)

    def holding(self, number: int) -> int:
        """Return the number of domains that hold that many pods."""
        return self._holding[number]

    def _shift(self, domain: int, number: int) -> None:
        before = self.counts.get(domain, 0)
        super()._shift(domain, number)
        self._holding[before] -= 1
        self._holding[before + number] += 1
        if not self._holding[before]:
            del self._holding[before]
        if before + number < self._least or before == self._least not in self._holding:
            self._least = min(self._holding)


class SpreadCounters:
    """The counters of constraints, shared by all shapes that see the same nodes in the same way."""

    def __init__(
        self,
        asked: SelectorCounters,
        affinity: NodeAffinityFilter,
        taints: TaintTolerationFilter,
        *,
        empty_selector: bool,
    ) -> None:
        """`empty_selector` says that an empty selector selects all pods of the namespace, else none."""
        self._snapshot = asked.snapshot
        self._empty_selector = empty_selector
        self._asked = asked
        self._affinity = affinity
        self._taints = taints
        self._columns = NodeCache[Int32s](asked.snapshot)

    def counter(self, shape: Shape, constraints: tuple[SpreadConstraint, ...], which: int) -> SpreadCounter:
        """Return the counter of one of a shape's constraints.

        The hard constraints are taken together, and so are the soft ones.
        """
        constraint = constraints[which]
        key = constraint.topology_key
        keys = tuple(sorted({constraint.topology_key for constraint in constraints}))
        view = (
            key,
            keys,
            (shape.selector, shape.node_required) if constraint.honor_affinity else None,
            shape.tolerations if constraint.honor_taints else None,
        )

        def column() -> Int32s:
            return self._columns.get(view, lambda: self._admitted(shape, constraint, keys))

        domains = Domains(column, lambda: self._snapshot.columns.values(key).size)
        return self._asked.counter_for(
            CountQuery((self.counted_by(shape, constraint),), view), lambda: SpreadCounter(domains)
        )

    def counted_by(self, shape: Shape, constraint: SpreadConstraint) -> PodSelection:
        """Return the pods that a constraint of a shape counts."""
        selector = constraint.selector
        if selector is not None:
            selector = selector.counting(empty=self._empty_selector)
        return PodSelection(frozenset((shape.namespace,)), selector)

    def _admitted(self, shape: Shape, constraint: SpreadConstraint, keys: tuple[str, ...]) -> Int32s:
        """Return the domains of the nodes that count, -1 for the others."""
        snapshot = self._snapshot
        counts = snapshot.alive.copy()
        for key in keys:
            counts &= snapshot.columns.column(key) >= 0
        if constraint.honor_affinity:
            counts &= self._affinity.mask(shape)
        if constraint.honor_taints:
            counts &= self._taints.mask(shape)
        return np.where(counts, snapshot.columns.column(constraint.topology_key), np.int32(-1))


class SpreadLimit(NamedTuple):
    """A constraint of one shape: how many pods more than the emptiest a domain may hold beforehand."""

    key: str
    pods: PodSelection
    counter: SpreadCounter
    spare: int
    min_domains: int

    def most(self, less: Mapping[int, int] = NO_PODS) -> int:
        """Return the pods that a domain may hold before one more comes, with `less` subtracted by domain."""
        return self.spare + self.counter.least(self.min_domains, less)


class TopologySpreadFilter(NodeFilter):
    """The skew of every constraint."""

    COUNTS = True

    def __init__(self, asked: SelectorCounters, counters: SpreadCounters, nominated: NominatedPods) -> None:
        self.counters = (asked,)
        self._snapshot = asked.snapshot
        self._counters = counters
        self._plans = PerShape(asked, self._limits)
        self._nominated = nominated

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows whose domains may hold one more pod of the shape."""
        snapshot = self._snapshot
        even = np.ones(len(snapshot.alive), np.bool_)
        labelled = even.copy()
        for limit in self._plans.get(shape):
            limit.counter.refresh(snapshot.node_revision)
            column = snapshot.columns.column(limit.key)
            labelled &= column >= 0
            for less in self.runs(limit):
                even &= ~labelled | (limit.counter.by_domain_without(less).take(column) <= limit.most(less))
        return even

    def concerns(self, shape: Shape) -> bool:
        """Return whether a shape has hard constraints."""
        return bool(shape.spread)

    def regardless_of(
        self, shape: Shape, others: Sequence[Shape], deadline: Deadline = NEVER
    ) -> tuple[Bools, Bools]:
        """Return the answers of `mask` if none of the other pods counts; if one does, nothing is sure."""
        return unless_counted(self, shape, self._selected(shape, others), deadline)

    def _selected(self, shape: Shape, others: Sequence[Shape]) -> Iterator[bool]:
        beside = [other for other in others if other.namespace == shape.namespace]
        for constraint in shape.spread:
            selector = constraint.selector
            for other in with_pins(selector, beside):
                yield selector is not None and selector.matches(dict(other.labels))

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        for limit in self._plans.get(shape):
            limit.counter.refresh(self._snapshot.node_revision)
            domain = self._snapshot.columns.column(limit.key).item(row)
            if domain < 0:
                return None
            held = limit.counter.counts.get(domain, 0)
            if any(held - less.get(domain, 0) > limit.most(less) for less in self.runs(limit)):
                return "node(s) didn't match pod topology spread constraints"
        return None

    def runs(self, limit: SpreadLimit) -> Iterator[Mapping[int, int]]:
        """Yield the pods to leave out by domain: none, and then the nominated ones if some count."""
        yield NO_PODS
        less = self._nominated.counted((limit.pods,), limit.counter)
        if less:
            yield less

    def limits(self, shape: Shape) -> list[SpreadLimit]:
        """Return the evaluated constraints of a shape."""
        return self._plans.get(shape)

    def _limits(self, shape: Shape) -> list[SpreadLimit]:
        # Pods on a node that lacks one of the keys do not count. With a key that no node has, no pods count.
        if not all(self._snapshot.columns.has(constraint.topology_key) for constraint in shape.spread):
            return []
        labels = dict(shape.labels)
        limits = []
        for which, constraint in enumerate(shape.spread):
            itself = constraint.selector is not None and constraint.selector.matches(labels)
            counter = self._counters.counter(shape, shape.spread, which)
            spare = constraint.max_skew - itself
            pods = self._counters.counted_by(shape, constraint)
            limits.append(SpreadLimit(constraint.topology_key, pods, counter, spare, constraint.min_domains))
        return limits


class TopologyLabelsFilter(StaticFilter):
    """The nodes with every topology key of the hard constraints."""

    REASON = "node(s) didn't match pod topology spread constraints (missing required label)"
    READS = ("spread",)

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the topology keys that some nodes lack."""
        keys = dict.fromkeys(constraint.topology_key for constraint in shape.spread)
        term = NodeRequirement(tuple(Requirement(key, "Exists") for key in keys))
        return f"{unmet_terms(self._snapshot, nodes, (term,))} (for a topology spread constraint)"

    def _feasible(self, shape: Shape) -> Bools:
        labelled = np.ones(len(self._snapshot.alive), np.bool_)
        for constraint in shape.spread:
            labelled &= self._snapshot.columns.column(constraint.topology_key) >= 0
        return labelled
