"""The plugin InterPodAffinity: whether the pods around each node admit a pod there, and prefer it.

There are three checks, in kube-scheduler's order. Affinity: one pod must match all terms, and share the value
of each term's topology key. If there is no such pod anywhere, a pod that matches its own terms may be the
first. Anti-affinity: no pod that matches a term shares its key's value. Symmetry: no pod there has a term of
anti-affinity that matches the newcomer. A node without the key is in no domain: affinity refuses it,
anti-affinity does not. Pods that are being deleted count like others. Pods that are only nominated do not
satisfy affinity yet, so affinity must hold without them too. Removing pods cannot satisfy affinity, so
preemption may resolve only refusals by anti-affinity.

Preferred terms score nodes by counters like those of the checks, so a score costs one look-up for each term
for all nodes at once. It changes with every placement in the same domain.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from podium.api.schedulable import Schedulable
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.counter import DomainCounter, topology
from podium.planner.filters.counters import (
    NO_PODS,
    CountQuery,
    DomainCounters,
    NominatedPods,
    PerShape,
    PodSelection,
    SelectorCounters,
    TermCounters,
    positions_of,
    required_labels,
    unless_counted,
    with_pins,
)
from podium.planner.framework import MAX_SCORE, ChainContext, NodeFilter, Plugin
from podium.planner.plugins.podaffinity.needs import (
    ExistingTerms,
    Namespaces,
    NeedOf,
    PodAffinityNeed,
    PodTerm,
    labels_of,
    need_of,
    selected_pods,
)
from podium.planner.reprieve import Exclusion, PlacedMembers, PodsByShape, Reprieve
from podium.planner.shapes import Shape, ShapeContext, need_at
from podium.planner.snapshot import Snapshot

# The weight of the score in the sum (kube-scheduler's default profile).
_WEIGHT = 2
# The score of a running pod's required affinity term for a newcomer it matches (upstream's default).
_REQUIRED_TERM_WEIGHT = 1


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
    """The affinity terms of the pod to place, and the score of preferred terms, its own and of other pods."""

    COUNTS = LOSES = JOINS = True

    def __init__(
        self, asked: SelectorCounters, needs: NeedOf, namespaces: Namespaces, nominated: NominatedPods
    ) -> None:
        self._snapshot = snapshot = asked.snapshot
        self._asked = asked
        self._needs = needs
        self._namespaces = namespaces
        self._nominated = nominated
        self._plans = PerShape(asked, self._affinity_counters)
        carried: TermCounters[tuple[int, PodTerm]] = TermCounters(
            snapshot,
            keys=self._carried_terms,
            domains=lambda term: topology(snapshot, term[1].topology_key),
            marks=lambda term: required_labels(term[1].selector),
        )
        self._carried = carried
        self.counters = (asked, carried)
        # The carried terms that may match a pod at all.
        self._around = ExistingTerms(
            snapshot, namespaces, lambda shape: (term for _, term in self._carried_terms(shape))
        )
        self._own = PerShape(asked, lambda shape: list(self._preferred(shape)))
        self._others = PerShape(carried, lambda shape: list(self._preferred_by_others(shape)))

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
        return bool(self._needs(shape).near)

    def regardless_of(
        self, shape: Shape, others: Sequence[Shape], deadline: Deadline = NEVER
    ) -> tuple[Bools, Bools]:
        """Return the answers of `mask` if no term selects another pod; if one does, nothing is sure."""
        return unless_counted(self, shape, self._selected(shape, others), deadline)

    def _selected(self, shape: Shape, others: Sequence[Shape]) -> Iterator[bool]:
        for term in self._needs(shape).near:
            for other in with_pins(term.selector, others):
                around = labels_of(self._namespaces.get(other.namespace))
                yield term.matches(other.namespace, around, dict(other.labels))

    def is_first_match(self, shape: Shape) -> bool:
        """Return whether a pod of a shape would be the first match of its own required affinity."""
        counters = self._settled(shape)
        return any(counters.is_first_match(less) for less in self._runs(counters))

    def reprieve(self, members: PlacedMembers) -> "_CompanyReprieve | None":
        """Return what the affinity of members says of pods that are given back."""
        joining = {
            tuple(selected_pods(term, self._namespaces) for term in self._needs(shape).near): shape
            for shape in members.shapes.values()
            if self.concerns(shape)
        }
        return _CompanyReprieve(self, members, joining) if joining else None

    def announce(self, shape_ids: Collection[int]) -> None:
        """Add the terms of pods that are about to be placed."""
        self._around.announce(shape_ids)

    def drop_idle(self) -> None:
        """Drop the terms of announced pods."""
        self._around.drop_idle()

    def reload_namespaces(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        for plans in (self._plans, self._own, self._others):
            plans.clear()

    def prefers(self, shape: Shape) -> bool:
        """Return whether a soft term of a pod of a shape, or a term of one near it, may matter."""
        return bool(self._needs(shape).preferred) or self._around.matches(shape)

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the score of soft affinity, of the pod and toward it."""
        points = np.zeros(len(rows), np.int64)
        for weight, (key, counter) in (*self._own.get(shape), *self._others.get(shape)):
            counter.refresh(self._snapshot.node_revision)
            points += counter.by_domain().take(self._snapshot.columns.column(key)[rows]) * np.int64(weight)
        if not len(rows):
            return points
        low, high = int(points.min()), int(points.max())
        if low == high:
            return np.zeros(len(rows), np.int64)
        return (MAX_SCORE * ((points - low) / (high - low))).astype(np.int64) * _WEIGHT

    def _carried_terms(self, shape: Shape) -> list[tuple[int, PodTerm]]:
        """Return the terms by which pods of a shape score nodes for others."""
        need = self._needs(shape)
        return [*need.preferred, *((_REQUIRED_TERM_WEIGHT, term) for term in need.near)]

    def _preferred(self, shape: Shape) -> Iterator[tuple[int, TopologyCounter]]:
        """Yield the preferences of the pod to place for running pods."""
        for weight, term in self._needs(shape).preferred:
            if self._snapshot.columns.has(term.topology_key):
                pods = (selected_pods(term, self._namespaces),)
                yield weight, topology_counter(self._asked, pods, term.topology_key)

    def _preferred_by_others(self, shape: Shape) -> Iterator[tuple[int, TopologyCounter]]:
        """Yield the preferences of running pods for the pod to place; their required terms count too."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        for (weight, term), counter in self._carried.candidates(shape.labels):
            if term.matches(shape.namespace, around, labels):
                yield weight, TopologyCounter(term.topology_key, counter)

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
        near = self._needs(shape).near
        pods = tuple(selected_pods(term, self._namespaces) for term in near)
        keys = dict.fromkeys(term.topology_key for term in near)
        # A key that no node has refuses every node by itself.
        keys = next(({key: None} for key in keys if not self._snapshot.columns.has(key)), keys)
        domains = tuple(topology_counter(self._asked, pods, key) for key in keys)
        return _AffinityCounters(pods, domains, all(selection.match(shape) for selection in pods))


class _AntiAffinityFilter(NodeFilter):
    """Anti-affinity terms by the counters of the pods that they concern."""

    REASON: ClassVar[str]

    def __init__(
        self,
        counters: DomainCounters[Any],
        needs: NeedOf,
        namespaces: Namespaces,
        excluded: Callable[[Shape], list[TopologyCounter]],
    ) -> None:
        """`excluded` returns the domains from which pods exclude a shape."""
        self.counters = (counters,)
        self._snapshot = counters.snapshot
        self._needs = needs
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

    def __init__(self, asked: SelectorCounters, needs: NeedOf, namespaces: Namespaces) -> None:
        super().__init__(asked, needs, namespaces, self._avoided)
        self._asked = asked

    def concerns(self, shape: Shape) -> bool:
        """Return whether a shape has terms of anti-affinity."""
        return bool(self._needs(shape).apart)

    def exclusions(
        self,
        shapes: Mapping[int, Shape],
        pods: PodsByShape,
        deadline: Deadline,  # noqa: ARG002 - one a term
    ) -> Iterator[Exclusion]:
        """Yield the pods that the terms of some shapes select."""
        terms: dict[PodTerm, list[int]] = defaultdict(list)
        for shape_id, shape in shapes.items():
            for term in dict.fromkeys(self._needs(shape).apart):
                terms[term].append(shape_id)
        for term, avoiding in terms.items():
            selected = positions_of(pods, (selected_pods(term, self._namespaces),))
            yield Exclusion(selected, avoiding, self._snapshot.columns.column(term.topology_key))

    def _avoided(self, shape: Shape) -> list[TopologyCounter]:
        return [
            topology_counter(self._asked, (selected_pods(term, self._namespaces),), term.topology_key)
            for term in self._needs(shape).apart
            if self._snapshot.columns.has(term.topology_key)
        ]


class ExistingAntiAffinityFilter(_AntiAffinityFilter):
    """The anti-affinity `terms` of the pods that run already, and of those that are about to be placed."""

    REASON = "node(s) didn't satisfy existing pods anti-affinity rules"

    def __init__(self, snapshot: Snapshot, needs: NeedOf, namespaces: Namespaces) -> None:
        self._running: TermCounters[PodTerm] = TermCounters(
            snapshot,
            keys=lambda shape: dict.fromkeys(needs(shape).apart),
            domains=lambda term: topology(snapshot, term.topology_key),
            marks=lambda term: required_labels(term.selector),
        )
        super().__init__(self._running, needs, namespaces, self._against)
        self.terms = ExistingTerms(snapshot, namespaces, lambda shape: needs(shape).apart)

    @property
    def revision(self) -> int:  # type: ignore[override]  # it changes with the terms
        """Grows when the terms of other pods change."""
        return self.terms.version

    def concerns(self, shape: Shape) -> bool:
        """Return whether a term of another pod matches the shape."""
        return self.terms.matches(shape)

    def announce(self, shape_ids: Collection[int]) -> None:
        """Add the terms of pods that are about to be placed."""
        self.terms.announce(shape_ids)

    def drop_idle(self) -> None:
        """Drop the terms of announced pods."""
        self.terms.drop_idle()

    def exclusions(
        self,
        shapes: Mapping[int, Shape],
        pods: PodsByShape,
        deadline: Deadline,
    ) -> Iterator[Exclusion]:
        """Yield the pods with terms that select pods of some shapes."""
        carrying: dict[PodTerm, list[Rows]] = defaultdict(list)
        for shape, positions in pods.each():
            for term in dict.fromkeys(self._needs(shape).apart):
                carrying[term].append(positions)
        for term, parts in carrying.items():
            deadline.enforce()
            avoided = self._selected_by(term, shapes)
            if avoided:
                yield Exclusion(
                    np.concatenate(parts), avoided, self._snapshot.columns.column(term.topology_key)
                )

    def _selected_by(self, term: PodTerm, shapes: Mapping[int, Shape]) -> list[int]:
        """Return the shapes (by id) that a term of other pods selects."""
        marks = required_labels(term.selector)
        selected = []
        for shape_id, shape in shapes.items():
            if marks is None or any(mark in shape.labels for mark in marks):
                around = labels_of(self._namespaces.get(shape.namespace))
                if term.matches(shape.namespace, around, dict(shape.labels)):
                    selected.append(shape_id)
        return selected

    def _against(self, shape: Shape) -> list[TopologyCounter]:
        """Return the terms of running pods that match a shape; an unknown namespace has no labels here."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        return [
            TopologyCounter(term.topology_key, counter)
            for term, counter in self._running.candidates(shape.labels)
            if term.matches(shape.namespace, around, labels)
        ]


class _CompanyReprieve(Reprieve):
    """The affinity of members: `joining` has a shape by the pods that its terms select."""

    def __init__(
        self,
        node_filter: PodAffinityFilter,
        members: PlacedMembers,
        joining: Mapping[tuple[PodSelection, ...], Shape],
    ) -> None:
        self._filter = node_filter
        self._members = members
        self._joining = joining

    def counted(self, pods: PodsByShape, rows: Rows, nodes: Int32s) -> Bools:  # noqa: ARG002 - on any node
        """Return which pods would be company of a member."""
        counted = np.zeros(len(rows), np.bool_)
        for selected in self._joining:
            self._members.deadline.enforce()
            counted[positions_of(pods, selected)] = True
        return counted

    def allows(self, rows: Rows, nodes: Int32s) -> bool | None:  # noqa: ARG002 - as above
        """Return None if a member has no company beside other members."""
        return None if any(map(self._filter.is_first_match, self._joining.values())) else True


class PodAffinityPlugin(Plugin):
    """The filters on the terms of pods about pods of one snapshot."""

    JUDGES = "pod affinity"
    SPEC = ("affinity",)

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.needs: NeedOf = need_at(at)
        self._snapshot = snapshot

    def fingerprint(self, pod: Schedulable) -> object:
        """Return the labels that terms merge into their selectors."""
        affinity, labels = pod.spec.affinity, pod.metadata.labels or {}
        keys: list[str] = []
        for kind in (affinity.podAffinity, affinity.podAntiAffinity) if affinity is not None else ():
            if kind is None:
                continue
            preferred = kind.preferredDuringSchedulingIgnoredDuringExecution or ()
            terms = kind.requiredDuringSchedulingIgnoredDuringExecution or ()
            for term in (*terms, *(soft.podAffinityTerm for soft in preferred)):
                if term is not None:
                    keys += (*(term.matchLabelKeys or ()), *(term.mismatchLabelKeys or ()))
        return [(key, labels.get(key)) for key in keys]

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> PodAffinityNeed:
        """Return the terms of a pod."""
        return need_of(pod, context)

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:
        """Return InterPodAffinity in its three parts."""
        asked = context.shared(SelectorCounters, self._snapshot)
        nominated = context.shared(NominatedPods, self._snapshot)
        return (
            PodAffinityFilter(asked, self.needs, context.namespaces, nominated),
            PodAntiAffinityFilter(asked, self.needs, context.namespaces),
            ExistingAntiAffinityFilter(self._snapshot, self.needs, context.namespaces),
        )


def topology_counter(asked: SelectorCounters, pods: tuple[PodSelection, ...], key: str) -> TopologyCounter:
    """Return the counter of the pods that are in all of `pods`, by the values of a topology key."""
    domains = topology(asked.snapshot, key)
    return TopologyCounter(key, asked.counter_for(CountQuery(pods, key), lambda: DomainCounter(domains)))
