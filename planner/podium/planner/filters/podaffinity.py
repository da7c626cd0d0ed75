"""Checks whether the pods around each node admit a pod there (InterPodAffinity's required terms).

There are three checks, in kube-scheduler's order. Affinity: one pod must match all terms, and share the value
of each term's topology key. If there is no such pod anywhere, a pod that matches its own terms may be the
first. Anti-affinity: no pod that matches a term shares its key's value. Symmetry: no pod there has a term of
anti-affinity that matches the newcomer. A node without the key is in no domain: affinity refuses it,
anti-affinity does not. Pods that are being deleted count like others. Pods that are only nominated do not
satisfy affinity yet, so affinity must hold without them too. Removing pods cannot satisfy affinity, so
preemption may resolve only refusals by anti-affinity.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from podium.api.core import Namespace
from podium.planner.arrays import Bools
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.counter import DomainCounter, topology
from podium.planner.filters.counters import (
    CountQuery,
    DomainCounters,
    PerShape,
    PodSelection,
    SelectorCounters,
    TermCounters,
    required_labels,
    unless_counted,
    with_pins,
)
from podium.planner.filters.existingterms import ExistingTerms
from podium.planner.filters.nominated import NO_PODS, NominatedPods
from podium.planner.filters.terms import labels_of
from podium.planner.framework import NodeFilter
from podium.planner.shapes import PodTerm, Shape
from podium.planner.snapshot import Snapshot

Namespaces = Mapping[str, Namespace]


class TopologyCounter(NamedTuple):
    """A counter, and the topology key whose values are its domains."""

    key: str
    counter: DomainCounter


class _AffinityCounters(NamedTuple):
    """The evaluated affinity terms of a shape: `pods` by key, and whether the pod matches all itself."""

    pods: tuple[PodSelection, ...]
    domains: tuple[TopologyCounter, ...]
    matches_itself: bool

    def is_first_match(self, less: Sequence[Mapping[int, int]]) -> bool:
        """Return whether the pod would be the first match, with `less` pods subtracted from each counter."""
        return self.matches_itself and not any(
            counter.total - sum(fewer.values())
            for (_, counter), fewer in zip(self.domains, less, strict=True)
        )


class PodAffinityFilter(NodeFilter):
    """The affinity terms of the pod to place."""

    COUNTS = True

    def __init__(self, asked: SelectorCounters, namespaces: Namespaces, nominated: NominatedPods) -> None:
        self.counters = (asked,)
        self._snapshot = asked.snapshot
        self._asked = asked
        self._namespaces = namespaces
        self._nominated = nominated
        self._plans = PerShape(asked, self._affinity_counters)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows where a pod of the shape satisfies its required affinity."""
        near = np.ones(len(self._snapshot.alive), np.bool_)
        counters = self._settled(shape)
        for less in self._runs(counters):
            is_first_match = counters.is_first_match(less)
            for (key, counter), fewer in zip(counters.domains, less, strict=True):
                column = self._snapshot.columns.column(key)
                near &= column >= 0 if is_first_match else counter.by_domain_without(fewer).take(column) > 0
        return near

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        counters = self._settled(shape)
        for less in self._runs(counters):
            is_first_match = counters.is_first_match(less)
            for (key, counter), fewer in zip(counters.domains, less, strict=True):
                domain = self._snapshot.columns.column(key).item(row)
                if domain < 0 or not (is_first_match or counter.counts.get(domain, 0) > fewer.get(domain, 0)):
                    return "node(s) didn't match pod affinity rules"
        return None

    def concerns(self, shape: Shape) -> bool:
        """Return whether a shape has required affinity."""
        return bool(shape.pod_affinity)

    def regardless_of(
        self, shape: Shape, others: Sequence[Shape], deadline: Deadline = NEVER
    ) -> tuple[Bools, Bools]:
        """Return the answers of `mask` if no term selects another pod; if one does, nothing is sure."""
        return unless_counted(self, shape, self._selected(shape, others), deadline)

    def _selected(self, shape: Shape, others: Sequence[Shape]) -> Iterator[bool]:
        for term in shape.pod_affinity:
            for other in with_pins(term.selector, others):
                around = labels_of(self._namespaces.get(other.namespace))
                yield term.matches(other.namespace, around, dict(other.labels))

    def is_first_match(self, shape: Shape) -> bool:
        """Return whether a pod of a shape would be the first match of its own required affinity."""
        counters = self._settled(shape)
        return any(counters.is_first_match(less) for less in self._runs(counters))

    def reload_namespaces(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._plans.clear()

    def _settled(self, shape: Shape) -> _AffinityCounters:
        counters = self._plans.get(shape)
        for _, counter in counters.domains:
            counter.refresh(self._snapshot.node_revision)
        return counters

    def _runs(self, counters: _AffinityCounters) -> Iterator[list[Mapping[int, int]]]:
        """Yield the pods to leave out of each counter: none, and then the nominated ones if some match."""
        yield [NO_PODS] * len(counters.domains)
        less = [self._nominated.counted(counters.pods, counter) for _, counter in counters.domains]
        if any(less):
            yield less

    def _affinity_counters(self, shape: Shape) -> _AffinityCounters:
        pods = tuple(selected_pods(term, self._namespaces) for term in shape.pod_affinity)
        keys = dict.fromkeys(term.topology_key for term in shape.pod_affinity)
        # A key that no node has refuses every node by itself.
        keys = next(({key: None} for key in keys if not self._snapshot.columns.has(key)), keys)
        domains = tuple(TopologyCounter(key, topology_counter(self._asked, pods, key)) for key in keys)
        return _AffinityCounters(pods, domains, all(selection.match(shape) for selection in pods))


class _AntiAffinityFilter(NodeFilter):
    """Anti-affinity terms by the counters of the pods that they concern."""

    REASON: ClassVar[str]

    def __init__(
        self,
        counters: DomainCounters[Any],
        namespaces: Namespaces,
        excluded: Callable[[Shape], list[TopologyCounter]],
    ) -> None:
        """`excluded` returns the domains from which pods exclude a shape."""
        self.counters = (counters,)
        self._snapshot = counters.snapshot
        self._namespaces = namespaces
        self._plans = PerShape(counters, excluded)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows without pods that exclude the shape, or that it excludes."""
        snapshot = self._snapshot
        # The domains of one key are combined first.
        taken: dict[str, Bools] = {}
        for key, counter in self._plans.get(shape):
            counter.refresh(snapshot.node_revision)
            here = counter.by_domain() > 0
            taken[key] = taken[key] | here if key in taken else here
        free = np.ones(len(snapshot.alive), np.bool_)
        for key, there in taken.items():
            free &= ~there.take(snapshot.columns.column(key))
        return free

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        for key, counter in self._plans.get(shape):
            counter.refresh(self._snapshot.node_revision)
            if counter.counts.get(self._snapshot.columns.column(key).item(row)):
                return self.REASON
        return None

    def reload_namespaces(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._plans.clear()


class PodAntiAffinityFilter(_AntiAffinityFilter):
    """The anti-affinity terms of the pod to place."""

    REASON = "node(s) didn't match pod anti-affinity rules"

    def __init__(self, asked: SelectorCounters, namespaces: Namespaces) -> None:
        super().__init__(asked, namespaces, self._avoided)
        self._asked = asked

    def concerns(self, shape: Shape) -> bool:
        """Return whether a shape has terms of anti-affinity."""
        return bool(shape.pod_anti_affinity)

    def _avoided(self, shape: Shape) -> list[TopologyCounter]:
        return [
            TopologyCounter(
                term.topology_key,
                topology_counter(self._asked, (selected_pods(term, self._namespaces),), term.topology_key),
            )
            for term in shape.pod_anti_affinity
            if self._snapshot.columns.has(term.topology_key)
        ]


class ExistingAntiAffinityFilter(_AntiAffinityFilter):
    """The anti-affinity `terms` of the pods that run already, and of those that are about to be placed."""

    REASON = "node(s) didn't satisfy existing pods anti-affinity rules"

    def __init__(self, snapshot: Snapshot, namespaces: Namespaces) -> None:
        self._running: TermCounters[PodTerm] = TermCounters(
            snapshot,
            keys=lambda shape: dict.fromkeys(shape.pod_anti_affinity),
            domains=lambda term: topology(snapshot, term.topology_key),
            marks=lambda term: required_labels(term.selector),
        )
        super().__init__(self._running, namespaces, self._against)
        self.terms = ExistingTerms(snapshot, namespaces, lambda shape: shape.pod_anti_affinity)

    @property
    def revision(self) -> int:  # type: ignore[override]  # it changes with the terms
        """Grows when the terms of other pods change."""
        return self.terms.version

    def concerns(self, shape: Shape) -> bool:
        """Return whether a term of another pod matches the shape."""
        return self.terms.matches(shape)

    def _against(self, shape: Shape) -> list[TopologyCounter]:
        """Return the terms of running pods that match a shape; an unknown namespace has no labels here."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        return [
            TopologyCounter(term.topology_key, counter)
            for term, counter in self._running.candidates(shape.labels)
            if term.matches(shape.namespace, around, labels)
        ]


def selected_pods(term: PodTerm, namespaces: Namespaces) -> PodSelection:
    """Return the pods that a newcomer's term selects; a namespace selector selects no unknown namespace."""
    selector = term.namespace_selector
    if selector is None:
        return PodSelection(term.namespaces, term.selector)
    if not selector.requirements:
        return PodSelection(None, term.selector)
    chosen = {name for name, namespace in namespaces.items() if selector.matches(labels_of(namespace))}
    return PodSelection(term.namespaces | chosen, term.selector)


def topology_counter(asked: SelectorCounters, pods: tuple[PodSelection, ...], key: str) -> DomainCounter:
    """Return the counter of the pods that are in all of `pods`, by the values of a topology key."""
    return asked.counter_for(CountQuery(pods, key), lambda: DomainCounter(topology(asked.snapshot, key)))
