"""The plugins NodeUnschedulable and TaintToleration: taints and cordons of nodes, and a pod's tolerations.

A toleration is evaluated once for each distinct set of taints, and the results are then looked up for all
nodes at once. Semantics and texts are those of kube-scheduler 1.36 and 1.37 with their default gates (no Lt
and Gt in tolerations).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from podium.api.groups import RESERVED
from podium.api.schedulable import Schedulable, SchedulableSpec, Taint
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.filters.nodes import MOST_BYTES, NodeCache, StaticFilter, everywhere, scaled, share
from podium.planner.framework import MAX_SCORE, ChainContext, NodeFilter, Plugin
from podium.planner.shapes import PodNeed, Shape, ShapeContext, need_at
from podium.planner.snapshot import Snapshot
from podium.text import SHOWN, count, cut

# A pod that tolerates this taint also accepts a node with spec.unschedulable.
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
# The effects of a taint that keep a pod from being placed.
_KEEPS_OUT = ("NoSchedule", "NoExecute")
# The weight of the score in the sum (kube-scheduler's default profile).
_WEIGHT = 3


class ShapeToleration(NamedTuple):
    """A toleration; an empty key or effect matches all of them."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration covers a taint; operators behind a gate (Lt, Gt) tolerate nothing."""
        if self.effect not in ("", taint.effect or "") or self.key not in ("", taint.key or ""):
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == (taint.value or ""))


class TolerationNeed(PodNeed, frozen=True, cache_hash=True):
    """The tolerations of a pod."""

    tolerations: tuple[ShapeToleration, ...] = ()

    @property
    def node_constraints(self) -> tuple[ShapeToleration, ...]:
        """The tolerations."""
        return self.tolerations


# Returns the tolerations in a shape.
TolerationsOf = Callable[[Shape], tuple[ShapeToleration, ...]]


class NodeUnschedulableFilter(StaticFilter):
    """Nodes that are not cordoned, or all for a pod that tolerates the taint of cordoned ones."""

    REASON = "node(s) were unschedulable"
    KEEPS_OUT = True

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return how many nodes are cordoned."""
        cordoned = int((nodes & ~self.mask(shape)).sum())
        return f"spec.unschedulable: {share(cordoned, nodes, 'is', 'are')} cordoned"

    def _feasible(self, shape: Shape) -> Bools:
        if tolerates(self._needs(shape), UNSCHEDULABLE):
            return everywhere(self._snapshot)
        return ~self._snapshot.unschedulable


class TaintTolerationFilter(StaticFilter):
    """Nodes whose every NoSchedule and NoExecute taint is tolerated.

    Those with fewer untolerated soft taints score higher. On nodes `reserved` for Podium, all its pods
    tolerate the taint that excludes other pods. They do not tolerate NoExecute, because a kubelet would
    reject them.
    """

    NAME = "TaintToleration"
    REASON = "node(s) had untolerated taint(s)"
    KEEPS_OUT = True

    def __init__(self, snapshot: Snapshot, tolerations: TolerationsOf, *, reserved: bool = False) -> None:
        super().__init__(snapshot, tolerations)
        self._always = (ShapeToleration(RESERVED, "Exists", effect="NoSchedule"),) if reserved else ()
        self._soft = NodeCache[Int32s](snapshot)

    def untolerated(self, shape: Shape, row: int) -> list[Taint]:
        """Return the taints of a node row that exclude a pod of a shape."""
        return untolerated(self._needs(shape) + self._always, self._snapshot.columns.taints.of[row])

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the taints for which the pod lacks a toleration, those on the most nodes first."""
        tolerations, columns = self._needs(shape) + self._always, self._snapshot.columns
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

    def differs(self, shape: Shape, rows: Rows) -> bool:
        """Return whether a soft taint of some rows is not tolerated."""
        soft = self._untolerated(shape)[rows]
        return bool(len(rows)) and bool(soft.min() < soft.max())

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return a higher score for fewer untolerated PreferNoSchedule taints."""
        return (MAX_SCORE - scaled(self._untolerated(shape)[rows])) * _WEIGHT

    def _untolerated(self, shape: Shape) -> Int32s:
        """Return the number of untolerated soft taints by node row."""
        tolerations = self._needs(shape)
        return self._soft.get(
            tolerations,
            lambda: self._by_taints(
                lambda taints: sum(
                    taint.effect == "PreferNoSchedule" and not tolerates(tolerations, taint)
                    for taint in taints
                )
            ),
        )

    def _feasible(self, shape: Shape) -> Bools:
        tolerations = self._needs(shape) + self._always
        passes: Bools = self._by_taints(lambda taints: len(untolerated(tolerations, taints))) == 0
        return passes

    def _by_taints(self, number: Callable[[tuple[Taint, ...]], int]) -> Int32s:
        """Return by node row a number of its taints."""
        sets = self._snapshot.columns.taints
        table = np.zeros(sets.ids.size, np.int32)
        for taints, set_id in sets.ids.of.items():
            table[set_id] = number(taints)
        return table[sets.rows]


class TaintTolerationPlugin(Plugin):
    """The filters on taints and cordons of one snapshot."""

    JUDGES = "tolerations"
    SPEC = ("tolerations",)

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.needs: Callable[[Shape], TolerationNeed] = need_at(at)
        self._snapshot = snapshot

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> TolerationNeed:
        """Return the tolerations of a pod."""
        tolerations = shape_tolerations(pod.spec)
        for toleration in tolerations:
            if toleration.operator not in ("Equal", "Exists"):
                context.missing[f"the toleration operator {toleration.operator}"] = None
        return TolerationNeed(tolerations=tolerations)

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:
        """Return NodeUnschedulable and TaintToleration."""
        return (
            NodeUnschedulableFilter(self._snapshot, self.tolerations),
            TaintTolerationFilter(self._snapshot, self.tolerations, reserved=bool(context.reserved)),
        )

    def tolerations(self, shape: Shape) -> tuple[ShapeToleration, ...]:
        """Return the tolerations in a shape."""
        return self.needs(shape).tolerations


def shape_tolerations(spec: SchedulableSpec) -> tuple[ShapeToleration, ...]:
    """Return the tolerations of a spec with their defaults, in order and each once."""
    tolerations = {
        ShapeToleration(
            toleration.key or "",
            toleration.operator or "Equal",
            toleration.value or "",
            toleration.effect or "",
        )
        for toleration in spec.tolerations or ()
    }
    return tuple(sorted(tolerations))


def tolerates(tolerations: tuple[ShapeToleration, ...], taint: Taint) -> bool:
    """Return whether one of the tolerations covers a taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: tuple[ShapeToleration, ...], taints: Iterable[Taint]) -> list[Taint]:
    """Return those of a node's taints that exclude a pod with these tolerations."""
    return [taint for taint in taints if taint.effect in _KEEPS_OUT and not tolerates(tolerations, taint)]


def _taint_words(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{cut(f'{taint.key}{value}', MOST_BYTES)}:{taint.effect}"
