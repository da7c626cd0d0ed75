"""The terms of a pod about other pods, as its shape has them, and those of other pods that concern it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from podium.api.core import Namespace
from podium.api.schedulable import PodAffinity, PodAffinityTerm, Schedulable
from podium.api.selectors import Labels, Requirement, Selector, conjoined, selector_of
from podium.planner.arrays import Int32s, Rows
from podium.planner.filters.counter import ShapeIntegers
from podium.planner.filters.counters import MarkIndex, PodSelection, required_labels
from podium.planner.shapes import PodNeed, Shape, ShapeContext
from podium.planner.snapshot import Snapshot

Namespaces = Mapping[str, Namespace]

# The most ids of deleted shapes that are kept, in addition to twice the number of shapes.
_MAX_DELETED = 1024


class PodTerm(NamedTuple):
    """Other pods by namespace (by name, or by its labels) and by label; without a selector, none of them."""

    namespaces: frozenset[str]
    namespace_selector: Selector | None
    selector: Selector | None
    topology_key: str

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Return whether the term selects a pod of a namespace."""
        within = namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        )
        return within and self.selector is not None and self.selector.matches(labels)


class PodAffinityNeed(PodNeed, frozen=True, cache_hash=True):
    """The terms of a pod; those of `preferred` with a negative weight are about pods to be avoided."""

    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()

    @property
    def selectors(self) -> Iterator[Selector]:
        """The selectors of all terms."""
        for term in (*self.near, *self.apart, *(term for _, term in self.preferred)):
            if term.selector is not None:
                yield term.selector

    @property
    def looks_around(self) -> bool:
        """Whether there are required terms."""
        return bool(self.near or self.apart)

    def looks_at(self, shape: Shape, namespace: str, labels: Labels) -> bool:  # noqa: ARG002 - terms name namespaces
        """Return whether a required term may match a pod."""
        return any(
            (namespace in term.namespaces or term.namespace_selector is not None)
            and term.selector is not None
            and term.selector.matches(labels)
            for term in (*self.near, *self.apart)
        )


# Returns the need in a shape.
NeedOf = Callable[[Shape], PodAffinityNeed]

_NO_NEED = PodAffinityNeed()


def need_of(pod: Schedulable, context: ShapeContext) -> PodAffinityNeed:
    """Return the terms of a pod."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.podAffinity is None and affinity.podAntiAffinity is None):
        return _NO_NEED
    reader = _TermReader(pod, context)
    near, apart = affinity.podAffinity or PodAffinity(), affinity.podAntiAffinity or PodAffinity()
    # The first that are read are the most important: those that other pods must obey, too.
    avoided = reader.terms(apart.requiredDuringSchedulingIgnoredDuringExecution)
    return PodAffinityNeed(
        near=reader.terms(near.requiredDuringSchedulingIgnoredDuringExecution),
        apart=avoided,
        preferred=reader.preferred(near, 1) + reader.preferred(apart, -1),
    )


class _TermReader:
    """Reads the terms of one pod."""

    def __init__(self, pod: Schedulable, context: ShapeContext) -> None:
        self._namespace = pod.metadata.namespace or ""
        self._labels = pod.metadata.labels or {}
        self._missing = context.missing
        self._limited = context.term_limit()

    def terms(self, terms: Iterable[PodAffinityTerm] | None) -> tuple[PodTerm, ...]:
        return tuple(map(self._term, self._limited(terms)))

    def preferred(self, affinity: PodAffinity, sign: int) -> tuple[tuple[int, PodTerm], ...]:
        return tuple(
            (sign * preferred.weight, self._term(preferred.podAffinityTerm))
            for preferred in self._limited(affinity.preferredDuringSchedulingIgnoredDuringExecution)
            if preferred.weight and preferred.podAffinityTerm is not None
        )

    def _term(self, term: PodAffinityTerm) -> PodTerm:
        namespaces = frozenset(term.namespaces or ())
        if not namespaces and term.namespaceSelector is None:
            namespaces = frozenset({self._namespace})
        selector = selector_of(term.labelSelector, self._missing)
        if selector is not None and (term.matchLabelKeys or term.mismatchLabelKeys):
            # A server merged these when the pod was created; labels may have changed since.
            merged = {requirement.key for requirement in selector.requirements}
            more = [
                Requirement(key, operator, (self._labels[key],))
                for keys, operator in ((term.matchLabelKeys, "In"), (term.mismatchLabelKeys, "NotIn"))
                for key in keys or ()
                if key in self._labels and key not in merged
            ]
            selector = conjoined(*selector.requirements, *more)
        return PodTerm(
            namespaces, selector_of(term.namespaceSelector, self._missing), selector, term.topologyKey or ""
        )


def selected_pods(term: PodTerm, namespaces: Namespaces) -> PodSelection:
    """Return the pods that a newcomer's term selects; a namespace selector selects no unknown namespace."""
    selector = term.namespace_selector
    if selector is None:
        return PodSelection(term.namespaces, term.selector)
    if not selector.requirements:
        return PodSelection(None, term.selector)
    chosen = {name for name, namespace in namespaces.items() if selector.matches(labels_of(namespace))}
    return PodSelection(term.namespaces | chosen, term.selector)


def labels_of(namespace: Namespace | None) -> Labels:
    """Return the labels of a namespace; an unknown namespace has none."""
    return (namespace.metadata.labels if namespace is not None else None) or {}


class ExistingTerms:
    """Terms of other pods that concern a pod: of pods that count on a node, or are about to.

    `version` grows when they change. A term of a waiting pod concerns no other pod. Otherwise one pending pod
    whose anti-affinity selects all pods would make every decision in the cluster look at neighbours. A plan
    removes pods and puts them back, and the terms that concern a pod must not change meanwhile. So a term is
    dropped only between plans (`drop_idle`). A term whose topology key no node has concerns no pod.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        namespaces: Namespaces,
        terms: Callable[[Shape], Iterable[PodTerm]],
    ) -> None:
        self.version = 0
        self._snapshot = snapshot
        self._namespaces = namespaces
        self._terms = terms
        self._index: MarkIndex[PodTerm] = MarkIndex()
        # By shape id: which of the known shapes have terms, and how many pods of those count on a node.
        self._seen = 0
        self._with_terms: set[int] = set()
        self._has_terms = ShapeIntegers(snapshot.shapes)
        self._pods: Counter[int] = Counter()
        # The terms of shapes that concern others, and how many of these shapes have each term.
        self._terms_of: dict[int, tuple[PodTerm, ...]] = {}
        self._shapes: Counter[PodTerm] = Counter()
        # Those of these shapes that had no counted pod at some moment.
        self._idle: set[int] = set()
        snapshot.observe(self._counted, many=self._counted_many)
        snapshot.observe_shapes(self._reshaped)
        there = np.flatnonzero(snapshot.node >= 0)
        self._counted_many(there, snapshot.shape[there], snapshot.node[there], 1)

    def matches(self, shape: Shape) -> bool:
        """Return whether one of the terms matches pods of a shape."""
        labels, around = dict(shape.labels), labels_of(self._namespaces.get(shape.namespace))
        has = self._snapshot.columns.has
        return any(
            has(term.topology_key) and term.matches(shape.namespace, around, labels)
            for term in self._index.candidates(shape.labels)
        )

    def announce(self, shape_ids: Collection[int]) -> None:
        """Add the terms of these shapes, because pods of them are about to be placed."""
        self._read_new_shapes()
        for shape_id in shape_ids:
            if shape_id in self._with_terms and shape_id not in self._terms_of:
                self._idle.add(shape_id)
                terms = tuple(dict.fromkeys(self._terms(self._snapshot.shapes[shape_id])))
                self._terms_of[shape_id] = terms
                for term in terms:
                    self._shapes[term] += 1
                    if self._shapes[term] == 1:
                        self.version += 1
                        self._index.add(term, required_labels(term.selector))

    def drop_idle(self) -> None:
        """Drop the terms of shapes without a counted pod; call it while no plan is being tried."""
        idle, self._idle = self._idle, set()
        for shape_id in idle:
            if self._pods[shape_id]:
                continue
            del self._pods[shape_id]
            for term in self._terms_of.pop(shape_id):
                self._shapes[term] -= 1
                if not self._shapes[term]:
                    self.version += 1
                    del self._shapes[term]
                    self._index.discard(term, required_labels(term.selector))

    def _read_new_shapes(self) -> None:
        """Read the terms of new shapes."""
        shapes, met = self._snapshot.shapes, self._snapshot.next_shape_id
        if len(self._with_terms) > 2 * len(shapes) + _MAX_DELETED:
            self._with_terms &= shapes.keys()
        for shape_id in range(self._seen, met):
            shape = shapes.get(shape_id)
            if shape is not None and any(True for _ in self._terms(shape)):
                self._with_terms.add(shape_id)
                self._has_terms.set(shape_id, 1)
        self._seen = met

    def _counted(self, _pod_row: int, shape_id: int, _node_row: int, sign: int) -> None:
        self._read_new_shapes()
        if shape_id in self._with_terms:
            self._count(shape_id, sign)

    def _counted_many(self, _pod_rows: Rows, shape_ids: Int32s, _node_rows: Int32s, sign: int) -> None:
        self._read_new_shapes()
        distinct, counts = np.unique(shape_ids[self._has_terms.get(shape_ids) > 0], return_counts=True)
        for shape_id, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            self._count(shape_id, sign * count)

    def _reshaped(self, before: int, after: int, pods: int) -> None:
        """Update the counts for pods that got another shape, with the same terms."""
        self._read_new_shapes()
        if pods and after in self._with_terms:
            self._count(after, pods)
            self._count(before, -pods)

    def _count(self, shape_id: int, more: int) -> None:
        """Add `more` (may be negative) to the counted pods of a shape with terms."""
        self._pods[shape_id] += more
        if not self._pods[shape_id]:
            self._idle.add(shape_id)
        if more > 0:
            self.announce((shape_id,))
