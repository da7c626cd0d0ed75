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
from podium.schedulerplugin.filters.nominated import NOBODY, Nominated
from podium.schedulerplugin.filters.tallies import (
    Asked,
    Carried,
    Plans,
    Pods,
    Question,
    Tallies,
    pins,
)
from podium.schedulerplugin.filters.tally import Tally, topology
from podium.schedulerplugin.shapes import PodTerm, Shape
from podium.schedulerplugin.snapshot import Snapshot

Namespaces = Mapping[str, Namespace]


class Near(NamedTuple):
    """A tally, and the topology key whose values are its domains."""

    key: str
    tally: Tally


class _Company(NamedTuple):
    """The evaluated affinity terms of a shape: `pods` by key, and whether the pod matches all itself."""

    pods: tuple[Pods, ...]
    domains: tuple[Near, ...]
    matches_itself: bool

    def alone(self, less: Sequence[Mapping[int, int]]) -> bool:
        """Return whether the pod would be the first match, with `less` pods subtracted from each tally."""
        return self.matches_itself and not any(
            tally.total - sum(fewer.values()) for (_, tally), fewer in zip(self.domains, less, strict=True)
        )


class PodAffinity:
    """The affinity terms of the pod to place."""

    PLUGIN = "InterPodAffinity"
    RESOLVABLE = False

    def __init__(self, asked: Asked, namespaces: Namespaces, nominated: Nominated) -> None:
        self._snapshot = asked.snapshot
        self._asked = asked
        self._namespaces = namespaces
        self._nominated = nominated
        self._plans = Plans(asked, self._company)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows where a pod of the shape satisfies its required affinity."""
        near = np.ones(len(self._snapshot.alive), np.bool_)
        company = self._settled(shape)
        for less in self._runs(company):
            alone = company.alone(less)
            for (key, tally), fewer in zip(company.domains, less, strict=True):
                column = self._snapshot.columns.column(key)
                near &= column >= 0 if alone else tally.by_domain_without(fewer).take(column) > 0
        return near

    def why(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        company = self._settled(shape)
        for less in self._runs(company):
            alone = company.alone(less)
            for (key, tally), fewer in zip(company.domains, less, strict=True):
                domain = self._snapshot.columns.column(key).item(row)
                if domain < 0 or not (alone or tally.counts.get(domain, 0) > fewer.get(domain, 0)):
                    return "node(s) didn't match pod affinity rules"
        return None

    def alone(self, shape: Shape) -> bool:
        """Return whether a pod of a shape would be the first match of its own required affinity."""
        company = self._settled(shape)
        return any(company.alone(less) for less in self._runs(company))

    def forget(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._plans.forget()

    def _settled(self, shape: Shape) -> _Company:
        company = self._plans.of(shape)
        for _, tally in company.domains:
            tally.settle(self._snapshot.node_revision)
        return company

    def _runs(self, company: _Company) -> Iterator[list[Mapping[int, int]]]:
        """Yield the pods to leave out of each tally: none, and then the nominated ones if some match."""
        yield [NOBODY] * len(company.domains)
        less = [self._nominated.counted(company.pods, tally) for _, tally in company.domains]
        if any(less):
            yield less

    def _company(self, shape: Shape) -> _Company:
        pods = tuple(looked_for(term, self._namespaces) for term in shape.pod_affinity)
        keys = dict.fromkeys(term.topology_key for term in shape.pod_affinity)
        # A key that no node has refuses every node by itself.
        keys = next(({key: None} for key in keys if not self._snapshot.columns.has(key)), keys)
        domains = tuple(Near(key, ask_near(self._asked, pods, key)) for key in keys)
        return _Company(pods, domains, all(each.match(shape) for each in pods))


class PodAntiAffinity:
    """The anti-affinity terms of the pod to place."""

    PLUGIN = "InterPodAffinity"
    RESOLVABLE = True

    def __init__(self, asked: Asked, namespaces: Namespaces) -> None:
        self._snapshot = asked.snapshot
        self._asked = asked
        self._namespaces = namespaces
        self._plans = Plans(asked, self._avoided)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows without pods that the anti-affinity of the shape excludes."""
        return _free(self._snapshot, self._plans.of(shape))

    def why(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        if _occupied(self._snapshot, self._plans.of(shape), row):
            return "node(s) didn't match pod anti-affinity rules"
        return None

    def forget(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._plans.forget()

    def _avoided(self, shape: Shape) -> list[Near]:
        return [
            Near(
                term.topology_key,
                ask_near(self._asked, (looked_for(term, self._namespaces),), term.topology_key),
            )
            for term in shape.pod_anti_affinity
            if self._snapshot.columns.has(term.topology_key)
        ]


class ExistingAntiAffinity:
    """The anti-affinity terms of the pods that run already."""

    PLUGIN = "InterPodAffinity"
    RESOLVABLE = True

    def __init__(self, snapshot: Snapshot, namespaces: Namespaces) -> None:
        self._snapshot = snapshot
        self._namespaces = namespaces
        self._carried: Carried[PodTerm] = Carried(
            snapshot,
            keys=lambda shape: dict.fromkeys(shape.pod_anti_affinity),
            domains=lambda term: topology(snapshot, term.topology_key),
            marks=lambda term: pins(term.selector),
        )
        self._plans = Plans(self._carried, lambda shape: list(self._against(shape)))

    @property
    def tallies(self) -> Tallies[PodTerm]:
        """The tallies of the terms that pods bring."""
        return self._carried

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows without pods whose anti-affinity excludes the shape."""
        return _free(self._snapshot, self._plans.of(shape))

    def why(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        if _occupied(self._snapshot, self._plans.of(shape), row):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return None

    def forget(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self._plans.forget()

    def _against(self, shape: Shape) -> Iterator[Near]:
        """Yield the terms of running pods that match a shape; an unknown namespace has no labels here."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        for term, tally in self._carried.candidates(shape.labels):
            if term.matches(shape.namespace, around, labels):
                yield Near(term.topology_key, tally)


def looked_for(term: PodTerm, namespaces: Namespaces) -> Pods:
    """Return the pods that a newcomer's term selects; a namespace selector selects no unknown namespace."""
    selector = term.namespace_selector
    if selector is None:
        return Pods(term.namespaces, term.selector)
    if not selector.requirements:
        return Pods(None, term.selector)
    chosen = {name for name, each in namespaces.items() if selector.matches(labels_of(each))}
    return Pods(term.namespaces | chosen, term.selector)


def labels_of(namespace: Namespace | None) -> Labels:
    """Return the labels of a namespace; an unknown namespace has none."""
    return (namespace.metadata.labels if namespace is not None else None) or {}


def ask_near(asked: Asked, pods: tuple[Pods, ...], key: str) -> Tally:
    """Return the tally of the pods that are in all of `pods`, by the values of a topology key."""
    return asked.ask(Question(pods, key), lambda: Tally(topology(asked.snapshot, key)))


def _free(snapshot: Snapshot, domains: Iterable[Near]) -> Bools:
    """Return the node rows in no domain with pods; the domains of one key are combined first."""
    taken: dict[str, Bools] = {}
    for key, tally in domains:
        tally.settle(snapshot.node_revision)
        here = tally.by_domain() > 0
        taken[key] = taken[key] | here if key in taken else here
    free = np.ones(len(snapshot.alive), np.bool_)
    for key, there in taken.items():
        free &= ~there.take(snapshot.columns.column(key))
    return free


def _occupied(snapshot: Snapshot, domains: Iterable[Near], row: int) -> bool:
    for key, tally in domains:
        tally.settle(snapshot.node_revision)
        if tally.counts.get(snapshot.columns.column(key).item(row)):
            return True
    return False
