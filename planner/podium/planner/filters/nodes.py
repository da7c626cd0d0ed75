"""Filters on a node's own fields: name, taints, labels, volumes, features.

Nothing here depends on other pods. So an answer holds until a node changes, and pods with equal constraints
share it. Each filter keeps its masks by the part of a shape that it reads. A toleration is evaluated once for
each distinct set of taints, and the results are then looked up for all nodes at once. No preemption resolves
these refusals. Semantics and texts are those of kube-scheduler 1.36 and 1.37. Their default gates hold (no Lt
and Gt in tolerations). node_filters has its order.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from podium.api.groups import RESERVED
from podium.api.schedulable import Taint
from podium.api.selectors import NodeRequirement, Requirement
from podium.planner.arrays import Bools
from podium.planner.filters.terms import (
    MOST_BYTES,
    MOST_WORDED,
    any_term,
    everywhere,
    labelled,
    matching,
    share,
    unmet_terms,
    with_names,
)
from podium.planner.framework import NodeFilter
from podium.planner.shapes import Shape, ShapeToleration
from podium.planner.snapshot import Snapshot
from podium.text import SHOWN, count, cut, some

T = TypeVar("T", bound=npt.NDArray[Any])

# A pod that tolerates this taint also accepts a node with spec.unschedulable.
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
# The effects of a taint that keep a pod from being placed.
_KEEPS_OUT = ("NoSchedule", "NoExecute")

# The most bytes of answers in a NodeCache: 160 masks of 100,000 nodes.
KEPT_BYTES = 2**24


class NodeCache(Generic[T]):
    """Answers about all nodes, each computed once for its key until a node changes.

    The oldest are dropped first.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._revision = -1
        self._answers: dict[Hashable, T] = {}
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the answer for a key, computed now if it is not known."""
        if self._revision != self._snapshot.node_revision:
            self._revision = self._snapshot.node_revision
            self._answers.clear()
            self._bytes = 0
        answer = self._answers.get(key)
        if answer is None:
            answer = make()
            while self._answers and self._bytes + answer.nbytes > KEPT_BYTES:
                self._bytes -= self._answers.pop(next(iter(self._answers))).nbytes
            self._answers[key] = answer
            self._bytes += answer.nbytes
        return answer


class StaticFilter(NodeFilter):
    """A filter on one snapshot: a mask kept by the part it reads, and one text for every refused node."""

    REASON: ClassVar[str]
    # The fields of a shape that the answer depends on.
    READS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, snapshot: Snapshot) -> None:
        self.static = (self,)
        self._snapshot = snapshot
        self._kept = NodeCache[Bools](snapshot)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape; read only, and valid until a node changes."""
        return self._kept.get(self.reads(shape), lambda: self._sealed(shape))

    def reads(self, shape: Shape) -> Hashable:
        """Return the part of a shape that the answer depends on."""
        return tuple(getattr(shape, field) for field in self.READS)

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, None if it passes."""
        return None if self.mask(shape)[row] else self.REASON

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return what the pod requires and some of `nodes` (rows) lack, with the number of nodes.

        The result is empty if another filter names it.
        """
        refused = nodes & ~self.mask(shape)
        return f"{int(refused.sum()):,} {self.reason(shape, int(refused.argmax()))}"

    def _sealed(self, shape: Shape) -> Bools:
        mask = self._snapshot.alive & self._feasible(shape)
        # Otherwise one caller's `&=` would change every later caller's answer.
        mask.flags.writeable = False
        return mask

    @abstractmethod
    def _feasible(self, shape: Shape) -> Bools:
        """Return the rows that pass; values for rows without a node do not matter."""


class PodRefusalFilter(StaticFilter):
    """No nodes for a pod that kube-scheduler refuses before it checks a node, and all nodes for others."""

    READS = ("node_required", "refused")

    def reason(self, shape: Shape, row: int) -> str | None:  # noqa: ARG002 - it is the same for every row
        """Return the reason against the pod."""
        return pod_refusal(shape) or None

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - as above
        """Return nothing: the reason against the pod names no node."""
        return ""

    def _feasible(self, shape: Shape) -> Bools:
        return np.full(len(self._snapshot.alive), not pod_refusal(shape))


class NamedNodesFilter(StaticFilter):
    """The nodes that a pod's required affinity names, if each of its terms names some.

    kube-scheduler looks at no other node then, and reports so before any filter runs.
    """

    REASON = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    READS = ("node_required",)

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - as above
        """Return nothing: the filter of the affinity names the terms."""
        return ""

    def _feasible(self, shape: Shape) -> Bools:
        names = _named(shape)
        return everywhere(self._snapshot) if names is None else with_names(self._snapshot, names)


class NodeNameFilter(StaticFilter):
    """The node that a pod requests by name."""

    REASON = "node(s) didn't match the requested node name"
    READS = ("node_name",)

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the name that the pod requests."""
        having = share(int((nodes & self.mask(shape)).sum()), nodes, "has", "have")
        return f"spec.nodeName={cut(shape.node_name or '', MOST_BYTES)}: {having} this name"

    def _feasible(self, shape: Shape) -> Bools:
        if shape.node_name is None:
            return everywhere(self._snapshot)
        return with_names(self._snapshot, (shape.node_name,))


class NodeUnschedulableFilter(StaticFilter):
    """Nodes that are not cordoned, or all for a pod that tolerates the taint of cordoned ones."""

    REASON = "node(s) were unschedulable"
    READS = ("tolerations",)
    KEEPS_OUT = True

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return how many nodes are cordoned."""
        cordoned = int((nodes & ~self.mask(shape)).sum())
        return f"spec.unschedulable: {share(cordoned, nodes, 'is', 'are')} cordoned"

    def _feasible(self, shape: Shape) -> Bools:
        if tolerates(shape.tolerations, UNSCHEDULABLE):
            return everywhere(self._snapshot)
        return ~self._snapshot.unschedulable


class ReservedNodesFilter(StaticFilter):
    """Nodes with the label by which an administrator reserves nodes for Podium."""

    REASON = "node(s) were not reserved for Podium"

    def __init__(self, snapshot: Snapshot, label: str) -> None:
        super().__init__(snapshot)
        key, equal, value = label.partition("=")
        self._label = Requirement(key, "In", (value,)) if equal else Requirement(key, "Exists", ())

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - as above
        """Return the label of reserved nodes."""
        return unmet_terms(self._snapshot, nodes, (NodeRequirement((self._label,)),))

    def _feasible(self, shape: Shape) -> Bools:  # noqa: ARG002 - as above
        return labelled(self._snapshot, self._label)


class TaintTolerationFilter(StaticFilter):
    """Nodes whose every NoSchedule and NoExecute taint is tolerated.

    On nodes `reserved` for Podium, all its pods tolerate the taint that excludes other pods. They do not
    tolerate NoExecute, because a kubelet would reject them.
    """

    REASON = "node(s) had untolerated taint(s)"
    READS = ("tolerations",)
    KEEPS_OUT = True

    def __init__(self, snapshot: Snapshot, *, reserved: bool = False) -> None:
        super().__init__(snapshot)
        self._always = (ShapeToleration(RESERVED, "Exists", effect="NoSchedule"),) if reserved else ()

    def _feasible(self, shape: Shape) -> Bools:
        columns = self._snapshot.columns
        tolerations = shape.tolerations + self._always
        table = np.zeros(columns.taints.ids.size, np.bool_)
        for taints, set_id in columns.taints.ids.of.items():
            table[set_id] = not untolerated(tolerations, taints)
        return table[columns.taints.rows]

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the taints for which the pod lacks a toleration, those on the most nodes first."""
        tolerations, columns = shape.tolerations + self._always, self._snapshot.columns
        # A cordoned node also has a taint that says so.
        ids = columns.taints.rows[nodes & ~self.mask(shape) & ~self._snapshot.unschedulable]
        number_of = dict(zip(*(array.tolist() for array in np.unique(ids, return_counts=True)), strict=True))
        tainted = Counter[Taint]()
        for taints, set_id in columns.taints.ids.of.items():
            for taint in dict.fromkeys(untolerated(tolerations, taints)) if set_id in number_of else ():
                tainted[taint] += number_of[set_id]
        texts = [
            f"{_taint_words(taint)}: {share(number, nodes, 'has', 'have')} this taint"
            for taint, number in tainted.most_common(SHOWN)
        ]
        if len(tainted) > SHOWN:
            texts.append(count(len(tainted) - SHOWN, "more taint"))
        return (
            f"{', '.join(texts)}, and the pod has no toleration for {'it' if len(texts) == 1 else 'them'}"
            if texts
            else ""
        )


class NodeAffinityFilter(StaticFilter):
    """Nodes that match both the node selector and one term of the required affinity."""

    REASON = "node(s) didn't match Pod's node affinity/selector"
    READS = ("selector", "node_required")

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the labels and names that the pod selects."""
        pairs = _selected(shape)
        if shape.node_required is None:
            return unmet_terms(self._snapshot, nodes, (NodeRequirement(pairs),))
        terms = [
            NodeRequirement((*pairs, *term.expressions), term.fields)
            for term in shape.node_required[: MOST_WORDED + 1]
        ]
        return unmet_terms(self._snapshot, nodes, terms)

    def _feasible(self, shape: Shape) -> Bools:
        passes = matching(self._snapshot, NodeRequirement(_selected(shape)))
        if shape.node_required is not None:
            passes &= any_term(self._snapshot, shape.node_required)
        return passes


class DeclaredFeaturesFilter(StaticFilter):
    """Nodes whose kubelet declares every feature that a pod requires."""

    REASON = "node(s) didn't match Pod's required features"
    READS = ("features",)

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the features that the pod requires."""
        having = share(int((nodes & self.mask(shape)).sum()), nodes, "declares", "declare")
        return f"required features {some(shape.features)}: {having} them"

    def _feasible(self, shape: Shape) -> Bools:
        if not shape.features:
            return everywhere(self._snapshot)
        sets = self._snapshot.columns.features
        table = np.zeros(sets.ids.size, np.bool_)
        for features, set_id in sets.ids.of.items():
            table[set_id] = features.issuperset(shape.features)
        return table[sets.rows]


def node_filters(snapshot: Snapshot, reserved: str = "") -> list[StaticFilter]:
    """Return the filters in the order of kube-scheduler; ports and resources precede volumes.

    If some nodes are `reserved` (a label), that filter precedes all others on nodes.
    """
    only = (ReservedNodesFilter(snapshot, reserved),) if reserved else ()
    taints = TaintTolerationFilter(snapshot, reserved=bool(reserved))
    named = NamedNodesFilter(snapshot), NodeNameFilter(snapshot), NodeUnschedulableFilter(snapshot)
    return [PodRefusalFilter(snapshot), *only, *named, taints, NodeAffinityFilter(snapshot)]


def pod_refusal(shape: Shape) -> str:
    """Return why kube-scheduler refuses a pod before it checks any node, empty if it does not."""
    return "pod affinity terms conflict" if _named(shape) == set() else shape.refused


def tolerates(tolerations: tuple[ShapeToleration, ...], taint: Taint) -> bool:
    """Return whether one of the tolerations covers a taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: tuple[ShapeToleration, ...], taints: Iterable[Taint]) -> list[Taint]:
    """Return those of a node's taints that exclude a pod with these tolerations."""
    return [taint for taint in taints if taint.effect in _KEEPS_OUT and not tolerates(tolerations, taint)]


def _named(shape: Shape) -> set[str] | None:
    """Return the nodes that a required affinity names, None if a term names none."""
    names: set[str] = set()
    for term in shape.node_required or ():
        meant = [set(field.values) for field in term.fields if field.operator == "In"]
        if not meant:
            return None
        names |= set.intersection(*meant)
    return names if shape.node_required else None


def _selected(shape: Shape) -> tuple[Requirement, ...]:
    """Return the node selector of a shape as requirements."""
    return tuple(Requirement(key, "In", (value,)) for key, value in shape.selector)


def _taint_words(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{cut(f'{taint.key}{value}', MOST_BYTES)}:{taint.effect}"
