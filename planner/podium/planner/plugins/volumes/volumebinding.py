"""The nodes for the volumes of a pod, bound or not, and the volumes that assumed pods count on.

A pod that is assumed on a node counts on volumes there as it counts on room. So every move of such a pod
assumes its plan in the ledger, or forgets it, and a trial that is undone leaves the ledger as it was. No
preemption frees volumes or space: the claims of a running pod stay bound when it goes.

Source: the filter and Reserve of VolumeBinding of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Hashable
from collections.abc import Set as AbstractSet

import numpy as np

from podium.api.selectors import NodeRequirement
from podium.api.storage import SELECTED_NODE, Alternatives
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.filters.nodes import MOST_BYTES, StaticFilter, all_terms, any_term, unmet_terms
from podium.planner.framework import NodeFilter
from podium.planner.plugins.volumes.delayed import DelayedBinding, PodVolumes
from podium.planner.plugins.volumes.needs import NeedsOf
from podium.planner.plugins.volumes.writes import VolumePlan
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot
from podium.text import count, cut, some

# From this release on, kube-scheduler scores by capacity (StorageCapacityScoring).
_SCORES_SINCE = 37


class VolumeNodeAffinityFilter(StaticFilter):
    """Nodes from which the volumes of all bound claims are reachable."""

    REASON = "node(s) didn't match PersistentVolume's node affinity"

    _needs: NeedsOf

    def reads(self, shape: Shape) -> Hashable:
        """Return the terms of the volumes."""
        return self._needs(shape).reach.volumes

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return where the first volume is that some nodes do not reach."""
        return _unreached(self._snapshot, nodes, self._needs(shape).reach.volumes)

    def _feasible(self, shape: Shape) -> Bools:
        return all_terms(self._snapshot, self._needs(shape).reach.volumes)


class MissingVolumeFilter(StaticFilter):
    """No nodes for a pod with an ephemeral claim that is bound to a volume which does not exist."""

    REASON = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

    _needs: NeedsOf

    def reads(self, shape: Shape) -> Hashable:
        """Return whether a volume does not exist."""
        return self._needs(shape).reach.missing

    def _feasible(self, shape: Shape) -> Bools:
        return np.full(len(self._snapshot.alive), not self._needs(shape).reach.missing)


class VolumeZoneFilter(StaticFilter):
    """Nodes in the zones of the volumes of bound claims, by the volumes' labels."""

    REASON = "node(s) had no available volume zone"

    _needs: NeedsOf

    def reads(self, shape: Shape) -> Hashable:
        """Return the zones of the volumes."""
        return self._needs(shape).reach.zones

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the zone of the first volume that is not that of all nodes."""
        # A node without such labels passes too. That is no advice.
        zones = tuple(
            tuple(term for term in terms if _has_values(term)) for terms in self._needs(shape).reach.zones
        )
        return _unreached(self._snapshot, nodes, zones)

    def lost(self, shape: Shape, row: int) -> str | None:
        """Return why a node is not in the zones of the pod's volumes."""
        return self.reason(shape, row)

    def _feasible(self, shape: Shape) -> Bools:
        return all_terms(self._snapshot, self._needs(shape).reach.zones)


class VolumeBindingFilter(NodeFilter):
    """The nodes where the volumes of bound claims are reachable, and delayed claims can get volumes."""

    def __init__(
        self,
        snapshot: Snapshot,
        delayed: DelayedBinding,
        needs: NeedsOf,
        delayed_shapes: AbstractSet[int],
        *,
        sums: bool,
    ) -> None:
        """`sums` says that the claims of a group's members are decided together (see `delayed`).

        `delayed_shapes` are the ids of the shapes with delayed claims.
        """
        # The two that depend on nodes alone.
        self.affinity = VolumeNodeAffinityFilter(snapshot, needs)
        self.missing = MissingVolumeFilter(snapshot, needs)
        self.static = (self.affinity, self.missing)
        self._snapshot = snapshot
        self._delayed = delayed
        self._needs = needs
        self._delayed_shapes = delayed_shapes
        self._sums = sums
        self._plans: dict[int, VolumePlan] = {}
        snapshot.observe(self._moved, many=self._moved_many)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape."""
        passes = self.affinity.mask(shape) & self.missing.mask(shape)
        return passes & self._find(shape).feasible if self._needs(shape).delayed else passes

    def concerns(self, shape: Shape) -> bool:
        """Return whether claims of the shape get volumes with a node, which assumed pods may have taken."""
        return bool(self._needs(shape).delayed)

    def possible(self, shape: Shape) -> Bools | None:
        """Return the node rows where delayed claims get volumes: no preemption frees any."""
        return self.mask(shape) if self._needs(shape).delayed else None

    def possible_at(self, shape: Shape, row: int) -> bool:
        """Return whether delayed claims get volumes on a node row."""
        return not self._needs(shape).delayed or self.reason(shape, row) is None

    def lost(self, shape: Shape, row: int) -> str | None:
        """Return why a node row cannot reach the volumes of the pod."""
        return self.reason(shape, row)

    def refused_by_reason(self, shape: Shape, rows: Bools) -> dict[str, Bools]:
        """Return the refused node rows by reason, in kube-scheduler's order; a row may have several."""
        reached = self.affinity.mask(shape)
        refused = {self.affinity.REASON: rows & ~reached}
        if self._needs(shape).delayed:
            refused.update((why, rows & unbound) for why, unbound in self._find(shape).refused_rows())
        return {**refused, self.missing.REASON: rows & reached & ~self.missing.mask(shape)}

    def reasons(self, shape: Shape, row: int) -> tuple[str, ...]:
        """Return the reasons against a node row; empty if it passes."""
        unreached = self.affinity.reason(shape, row)
        unbound = self._find(shape).reason(row) if self._needs(shape).delayed else None
        # The volumes before the missing one are reached.
        missing = self.missing.reason(shape, row) if unreached is None else None
        return tuple(why for why in (unreached, unbound, missing) if why is not None)

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return the reasons against a node row as one line, None if it passes."""
        return ", ".join(self.reasons(shape, row)) or None

    def prefers(self, shape: Shape) -> bool:
        """Return whether nodes are scored by the capacity that delayed claims would use there."""
        return self._snapshot.minor >= _SCORES_SINCE and bool(self._needs(shape).delayed)

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the score of rows by the capacity that the claims would use there."""
        return self._find(shape).scores()[rows]

    def remark(self, shape: Shape) -> str:
        """Return a sentence that names the claims without a volume, empty if there are none."""
        claims = self._find(shape).refusing_claims().items() if self._needs(shape).delayed else ()
        if not claims:
            return ""
        (first, nodes), *others = sorted(
            sorted((name, nodes) for (_, name), nodes in claims), key=lambda pair: -pair[1]
        )
        more = f", and {count(len(others), 'other claim')} on some" if others else ""
        return f"Claim {first} finds no volume on {count(nodes, 'node')}{more}."

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - a claim names its node
        """Return the claims that keep the node selected for their volume, empty if there are none."""
        summed = self._sums and self._needs(shape).in_group
        kept = {
            claim.key[1]: claim.selected_node
            for claim in self._needs(shape).delayed
            if claim.selected_node and not (summed and claim.shareable)
        }
        texts = some(f"{name} on {cut(node, MOST_BYTES)}" for name, node in kept.items())
        return f"claims whose node is selected (annotation {SELECTED_NODE}): {texts}" if kept else ""

    def plan(self, pod_row: int) -> VolumePlan | None:
        """Return what is written for the claims of an assumed pod; None if it has none, or they find none."""
        return self._plans.get(pod_row)

    def _find(self, shape: Shape) -> PodVolumes:
        needs = self._needs(shape)
        return self._delayed.find(needs.delayed, summed=self._sums and needs.in_group)

    def _moved(self, pod_row: int, shape_id: int, node_row: int, sign: int) -> None:
        if sign < 0:
            plan = self._plans.pop(pod_row, None) if self._plans else None
            if plan is not None:
                self._delayed.ledger.forget(plan.claims)
            return
        snapshot = self._snapshot
        # A pod that the server has bound counts on what its claims say.
        if shape_id not in self._delayed_shapes or snapshot.home.item(pod_row) == node_row:
            return
        volumes = self._find(snapshot.shapes[shape_id])
        if volumes.feasible.item(node_row):
            plan = self._plans[pod_row] = volumes.plan(snapshot.node_name(node_row))
            self._delayed.ledger.assume(plan.claims)

    def _moved_many(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, sign: int) -> None:
        if not (self._plans if sign < 0 else self._delayed_shapes):
            return
        moves = zip(pod_rows.tolist(), shape_ids.tolist(), node_rows.tolist(), strict=True)
        for pod_row, shape_id, node_row in moves:
            self._moved(pod_row, shape_id, node_row, sign)


def _has_values(term: NodeRequirement) -> bool:
    return any(requirement.values for requirement in term.expressions)


def _unreached(snapshot: Snapshot, nodes: Bools, alternatives: tuple[Alternatives, ...]) -> str:
    """Return what the first of some alternatives needs that not all `nodes` (rows) meet."""
    for terms in alternatives:
        if (nodes & ~any_term(snapshot, terms)).any():
            return f"{unmet_terms(snapshot, nodes, terms)} (for a volume of the pod)"
    return ""
