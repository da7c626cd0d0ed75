"""The plugin NodeAffinity: node selectors and affinity of pods, and the label of nodes reserved for Podium.

Semantics and texts are those of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Callable

import numpy as np

from podium.api.schedulable import NodeAffinity, Schedulable
from podium.api.selectors import NodeRequirement, Requirement, node_terms
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.filters.nodes import (
    MOST_WORDED,
    NodeCache,
    StaticFilter,
    any_term,
    everywhere,
    labelled,
    matching,
    scaled,
    unmet_terms,
    with_names,
)
from podium.planner.framework import ChainContext, NodeFilter, Plugin
from podium.planner.shapes import PodNeed, Shape, ShapeContext, need_at
from podium.planner.snapshot import Snapshot

# The weight of the score in the sum (kube-scheduler's default profile).
_WEIGHT = 2


class NodeAffinityNeed(PodNeed, frozen=True, cache_hash=True):
    """The nodes that a pod selects; one term of `required` must match, and None requires nothing."""

    selector: tuple[tuple[str, str], ...] = ()
    required: tuple[NodeRequirement, ...] | None = None
    preferred: tuple[tuple[int, NodeRequirement], ...] = ()

    @property
    def node_constraints(self) -> tuple[object, ...]:
        """The part that decides which nodes suit the pod."""
        return self.selector, self.required

    @property
    def node_preferences(self) -> tuple[object, ...]:
        """The preferred terms."""
        return self.preferred

    @property
    def restricts(self) -> bool:
        """Return False: no object beside nodes changes its answer."""
        return False

    @property
    def weight(self) -> int:
        """The number of requirements and terms."""
        terms = (*(self.required or ()), *(term for _, term in self.preferred))
        return len(self.selector) + len(terms) + sum(len(term.expressions) for term in terms)

    @property
    def selected(self) -> tuple[Requirement, ...]:
        """The node selector as requirements."""
        return tuple(Requirement(key, "In", (value,)) for key, value in self.selector)


NeedOf = Callable[[Shape], NodeAffinityNeed]


class ReservedNodesFilter(StaticFilter):
    """Nodes with the label by which an administrator reserves nodes for Podium."""

    REASON = "node(s) were not reserved for Podium"
    FIRST = True

    def __init__(self, snapshot: Snapshot, label: str) -> None:
        super().__init__(snapshot)
        key, equal, value = label.partition("=")
        self._label = Requirement(key, "In", (value,)) if equal else Requirement(key, "Exists", ())

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - the label is for all pods
        """Return the label of reserved nodes."""
        return unmet_terms(self._snapshot, nodes, (NodeRequirement((self._label,)),))

    def _feasible(self, shape: Shape) -> Bools:  # noqa: ARG002 - as above
        return labelled(self._snapshot, self._label)


class NamedNodesFilter(StaticFilter):
    """The nodes that a pod's required affinity names, if each of its terms names some.

    kube-scheduler looks at no other node then, and reports so before any filter runs.
    """

    REASON = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    FIRST = True

    def __init__(self, snapshot: Snapshot, needs: NeedOf) -> None:
        super().__init__(snapshot, lambda shape: needs(shape).required)

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - the filter of the affinity says it
        """Return nothing: the filter of the affinity names the terms."""
        return ""

    def _feasible(self, shape: Shape) -> Bools:
        names = _named(self._needs(shape))
        return everywhere(self._snapshot) if names is None else with_names(self._snapshot, names)


class NodeAffinityFilter(StaticFilter):
    """Nodes that match both the node selector and one term of the required affinity.

    Those with a larger sum of preferred terms score higher.
    """

    NAME = "NodeAffinity"
    REASON = "node(s) didn't match Pod's node affinity/selector"

    _needs: NeedOf

    def __init__(self, snapshot: Snapshot, needs: NeedOf) -> None:
        super().__init__(snapshot, needs)
        self._sums = NodeCache[Int32s](snapshot)

    def reads(self, shape: Shape) -> tuple[object, ...]:
        """Return the selector and the required terms."""
        return self._needs(shape).node_constraints

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the labels and names that the pod selects."""
        need = self._needs(shape)
        if need.required is None:
            return unmet_terms(self._snapshot, nodes, (NodeRequirement(need.selected),))
        terms = [
            NodeRequirement((*need.selected, *term.expressions), term.fields)
            for term in need.required[: MOST_WORDED + 1]
        ]
        return unmet_terms(self._snapshot, nodes, terms)

    def differs(self, shape: Shape, rows: Rows) -> bool:  # noqa: ARG002 - the terms are not evaluated yet
        """Return whether the pod prefers nodes."""
        return bool(self._needs(shape).preferred)

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return a higher score for a larger sum of the matching preferred terms."""
        preferred = self._needs(shape).preferred
        return scaled(self._sums.get(preferred, lambda: self._preferred(preferred))[rows]) * _WEIGHT

    def _preferred(self, preferred: tuple[tuple[int, NodeRequirement], ...]) -> Int32s:
        sums = np.zeros(len(self._snapshot.alive), np.int32)
        for weight, term in preferred:
            sums += matching(self._snapshot, term) * weight
        return sums

    def _feasible(self, shape: Shape) -> Bools:
        need = self._needs(shape)
        passes = matching(self._snapshot, NodeRequirement(need.selected))
        if need.required is not None:
            passes &= any_term(self._snapshot, need.required)
        return passes


class NodeAffinityPlugin(Plugin):
    """The filters on the labels and names of nodes of one snapshot."""

    JUDGES = "node affinity"
    SPEC = ("nodeSelector", "affinity")

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.needs: NeedOf = need_at(at)
        self._snapshot = snapshot

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> NodeAffinityNeed:
        """Return the nodes that a pod selects."""
        affinity = (
            pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
        ) or NodeAffinity()
        limited = context.term_limit()
        written = affinity.requiredDuringSchedulingIgnoredDuringExecution
        required = None
        if written is not None:
            required = node_terms(limited(written.nodeSelectorTerms), context.missing)
        preferred = tuple(
            (preferred.weight, term)
            for preferred in limited(affinity.preferredDuringSchedulingIgnoredDuringExecution)
            if preferred.weight and preferred.preference is not None
            for term in node_terms([preferred.preference], context.missing)
        )
        return NodeAffinityNeed(
            "pod affinity terms conflict" if _named(required) == set() else "",
            tuple(sorted((pod.spec.nodeSelector or {}).items())),
            required,
            tuple(sorted(preferred)),
        )

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:
        """Return NodeAffinity in its two parts, after that on reserved nodes if there are any."""
        snapshot, needs = self._snapshot, self.needs
        only = (ReservedNodesFilter(snapshot, context.reserved),) if context.reserved else ()
        return (*only, NamedNodesFilter(snapshot, needs), NodeAffinityFilter(snapshot, needs))


def _named(terms: tuple[NodeRequirement, ...] | None) -> set[str] | None:
    """Return the nodes that required terms name, None if a term names none."""
    names: set[str] = set()
    for term in terms or ():
        meant = [set(field.values) for field in term.fields if field.operator == "In"]
        if not meant:
            return None
        names |= set.intersection(*meant)
    return names if terms else None
