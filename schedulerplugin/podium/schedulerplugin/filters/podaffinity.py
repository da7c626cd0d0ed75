"""Checks whether the pods around each node admit a pod there (InterPodAffinity's required terms).

There are three checks, in kube-scheduler's order. Affinity: one pod must match all terms, and share the value
of each term's topology key. If there is no such pod anywhere, a pod that matches its own terms may be the
first. Anti-affinity: no pod that matches a term shares its key's value. Symmetry: no pod there has a term of
anti-affinity that matches the newcomer. A node without the key is in no domain: affinity refuses it,
anti-affinity does not. Pods that are being deleted count like others. Pods that are only nominated do not
satisfy affinity yet, so affinity must hold without them too. Removing pods cannot satisfy affinity, so
preemption may resolve only refusals by anti-affinity.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from podium.api.core import Namespace
from podium.api.selectors import Labels
from podium.schedulerplugin.arrays import Bools
from podium.schedulerplugin.filters.counter import DomainCounter, topology
from podium.schedulerplugin.filters.counters import (
    CountQuery,
    DomainCounters,
    PerShape,
    PodSelection,
    SelectorCounters,
    TermCounters,
    required_labels,
)
from podium.schedulerplugin.filters.nominated import NO_PODS, NominatedPods
from podium.schedulerplugin.shapes import PodTerm, Shape
from podium.schedulerplugin.snapshot import Snapshot

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


class PodAffinityFilter:
    """The affinity terms of the pod to place."""

    PLUGIN = "InterPodAffinity"
    RESOLVABLE = False

    def __init__(self, asked: SelectorCounters, namespaces: Namespaces, nominated: NominatedPods) -> None:
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
        return _AffinityCounters(pods, domains, all(each.match(shape) for each in pods))


class PodAntiAffinityFilter:
    """The anti-affinity terms of the pod to place."""

    PLUGIN = "InterPodAffinity"
    RESOLVABLE = True

    def __init__(self, asked: SelectorCounters, namespaces: Namespaces) -> None:
        self._snapshot = asked.snapshot
        self._asked = asked
        self._namespaces = namespaces
        self._plans = PerShape(asked, self._avoided)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows without pods that the anti-affinity of the shape excludes."""
        return _free(self._snapshot, self._plans.get(shape))

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        if _occupied(self._snapshot, self._plans.get(shape), row):
            return "node(s) didn't match pod anti-affinity rules"
        return None

    def reload_namespaces(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._plans.clear()

    def _avoided(self, shape: Shape) -> list[TopologyCounter]:
        return [
            TopologyCounter(
                term.topology_key,
                topology_counter(self._asked, (selected_pods(term, self._namespaces),), term.topology_key),
            )
            for term in shape.pod_anti_affinity
            if self._snapshot.columns.has(term.topology_key)
        ]


class ExistingAntiAffinityFilter:
    """The anti-affinity terms of the pods that run already."""

    PLUGIN = "InterPodAffinity"
    RESOLVABLE = True

    def __init__(self, snapshot: Snapshot, namespaces: Namespaces) -> None:
        self._snapshot = snapshot
        self._namespaces = namespaces
        self._carried: TermCounters[PodTerm] = TermCounters(
            snapshot,
            keys=lambda shape: dict.fromkeys(shape.pod_anti_affinity),
            domains=lambda term: topology(snapshot, term.topology_key),
            marks=lambda term: required_labels(term.selector),
        )
        self._plans = PerShape(self._carried, lambda shape: list(self._against(shape)))

    @property
    def counters(self) -> DomainCounters[PodTerm]:
        """The counters of the terms that pods bring."""
        return self._carried

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows without pods whose anti-affinity excludes the shape."""
        return _free(self._snapshot, self._plans.get(shape))

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        if _occupied(self._snapshot, self._plans.get(shape), row):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return None

    def reload_namespaces(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._plans.clear()

    def _against(self, shape: Shape) -> Iterator[TopologyCounter]:
        """Yield the terms of running pods that match a shape; an unknown namespace has no labels here."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        for term, counter in self._carried.candidates(shape.labels):
            if term.matches(shape.namespace, around, labels):
                yield TopologyCounter(term.topology_key, counter)


def selected_pods(term: PodTerm, namespaces: Namespaces) -> PodSelection:
    """Return the pods that a newcomer's term selects; a namespace selector selects no unknown namespace."""
    selector = term.namespace_selector
    if selector is None:
        return PodSelection(term.namespaces, term.selector)
    if not selector.requirements:
        return PodSelection(None, term.selector)
    chosen = {name for name, each in namespaces.items() if selector.matches(labels_of(each))}
    return PodSelection(term.namespaces | chosen, term.selector)


def labels_of(namespace: Namespace | None) -> Labels:
    """Return the labels of a namespace; an unknown namespace has none."""
    return (namespace.metadata.labels if namespace is not None else None) or {}


def topology_counter(asked: SelectorCounters, pods: tuple[PodSelection, ...], key: str) -> DomainCounter:
    """Return the counter of the pods that are in all of `pods`, by the values of a topology key."""
    return asked.counter_for(CountQuery(pods, key), lambda: DomainCounter(topology(asked.snapshot, key)))


def _free(snapshot: Snapshot, domains: Iterable[TopologyCounter]) -> Bools:
    """Return the node rows in no domain with pods; the domains of one key are combined first."""
    taken: dict[str, Bools] = {}
    for key, counter in domains:
        counter.refresh(snapshot.node_revision)
        here = counter.by_domain() > 0
        taken[key] = taken[key] | here if key in taken else here
    free = np.ones(len(snapshot.alive), np.bool_)
    for key, there in taken.items():
        free &= ~there.take(snapshot.columns.column(key))
    return free


def _occupied(snapshot: Snapshot, domains: Iterable[TopologyCounter], row: int) -> bool:
    for key, counter in domains:
        counter.refresh(snapshot.node_revision)
        if counter.counts.get(snapshot.columns.column(key).item(row)):
            return True
    return False
