"""The nodes for the volumes of a pod, bound or not, and the volumes that assumed pods count on.

A pod that is assumed on a node counts on volumes there as it counts on room. So every move of such a pod
assumes its plan in the ledger, or forgets it, and a trial that is undone leaves the ledger as it was. No
preemption frees volumes or space: the claims of a running pod stay bound when it goes.

Source: the filter and Reserve of VolumeBinding of kube-scheduler 1.36 and 1.37.
"""

import numpy as np

from podium.api.storage import SELECTED_NODE
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.filters.nodefilter import NodeFilter
from podium.planner.filters.nodes import MissingVolumeFilter, VolumeNodeAffinityFilter
from podium.planner.filters.terms import MOST_BYTES
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot
from podium.planner.volumes.delayed import PodVolumes
from podium.planner.volumes.ledger import VolumePlan
from podium.text import count, cut, some

# From this release on, kube-scheduler scores by capacity (StorageCapacityScoring).
_SCORES_SINCE = 37


class VolumeBindingFilter(NodeFilter):
    """The nodes where the volumes of bound claims are reachable, and delayed claims can get volumes."""

    def __init__(self, snapshot: Snapshot, *, sums: bool) -> None:
        """`sums` says that the claims of a group's members are decided together (see `volumes.delayed`)."""
        # The two that depend on nodes alone.
        self.affinity = VolumeNodeAffinityFilter(snapshot)
        self.missing = MissingVolumeFilter(snapshot)
        self.static = (self.affinity, self.missing)
        self._snapshot = snapshot
        self._sums = sums
        self._plans: dict[int, VolumePlan] = {}
        snapshot.observe(self._moved, many=self._moved_many)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape."""
        passes = self.affinity.mask(shape) & self.missing.mask(shape)
        return passes & self._find(shape).feasible if shape.delayed else passes

    def concerns(self, shape: Shape) -> bool:
        """Return whether claims of the shape get volumes with a node, which assumed pods may have taken."""
        return bool(shape.delayed)

    def possible(self, shape: Shape) -> Bools | None:
        """Return the node rows where delayed claims get volumes: no preemption frees any."""
        return self.mask(shape) if shape.delayed else None

    def possible_at(self, shape: Shape, row: int) -> bool:
        """Return whether delayed claims get volumes on a node row."""
        return not shape.delayed or self.reason(shape, row) is None

    def lost(self, shape: Shape, row: int) -> str | None:
        """Return why a node row cannot reach the volumes of the pod."""
        return self.reason(shape, row)

    def refused(self, shape: Shape, rows: Bools) -> dict[str, Bools]:
        """Return the refused node rows by reason, in kube-scheduler's order; a row may have several."""
        reached = self.affinity.mask(shape)
        refused = {self.affinity.REASON: rows & ~reached}
        if shape.delayed:
            refused.update((why, rows & unbound) for why, unbound in self._find(shape).refused_rows())
        return {**refused, self.missing.REASON: rows & reached & ~self.missing.mask(shape)}

    def reasons(self, shape: Shape, row: int) -> tuple[str, ...]:
        """Return the reasons against a node row; empty if it passes."""
        unreached = self.affinity.reason(shape, row)
        unbound = self._find(shape).reason(row) if shape.delayed else None
        # The volumes before the missing one are reached.
        missing = self.missing.reason(shape, row) if unreached is None else None
        return tuple(why for why in (unreached, unbound, missing) if why is not None)

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return the reasons against a node row as one line, None if it passes."""
        return ", ".join(self.reasons(shape, row)) or None

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the score of rows by the capacity that the claims would use there, 0 before 1.37."""
        if self._snapshot.minor < _SCORES_SINCE:
            return np.zeros(len(rows), np.int64)
        return self._find(shape).scores()[rows]

    def remark(self, shape: Shape) -> str:
        """Return a sentence that names the claims without a volume, empty if there are none."""
        claims = self._find(shape).refusing_claims().items() if shape.delayed else ()
        if not claims:
            return ""
        (first, nodes), *others = sorted(
            sorted((name, nodes) for (_, name), nodes in claims), key=lambda pair: -pair[1]
        )
        more = f", and {count(len(others), 'other claim')} on some" if others else ""
        return f"Claim {first} finds no volume on {count(nodes, 'node')}{more}."

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - a claim names its node
        """Return the claims that keep the node selected for their volume, empty if there are none."""
        summed = self._sums and shape.in_group
        kept = {
            claim.key[1]: claim.selected_node
            for claim in shape.delayed
            if claim.selected_node and not (summed and claim.shareable)
        }
        texts = some(f"{name} on {cut(node, MOST_BYTES)}" for name, node in kept.items())
        return f"claims whose node is selected (annotation {SELECTED_NODE}): {texts}" if kept else ""

    def plan(self, pod_row: int) -> VolumePlan | None:
        """Return what is written for the claims of an assumed pod; None if it has none, or they find none."""
        return self._plans.get(pod_row)

    def _find(self, shape: Shape) -> PodVolumes:
        return self._snapshot.delayed.find(shape.delayed, summed=self._sums and shape.in_group)

    def _moved(self, pod_row: int, shape_id: int, node_row: int, sign: int) -> None:
        if sign < 0:
            plan = self._plans.pop(pod_row, None) if self._plans else None
            if plan is not None:
                self._snapshot.delayed.ledger.forget(plan)
            return
        snapshot = self._snapshot
        # A pod that the server has bound counts on what its claims say.
        if shape_id not in snapshot.delayed_shapes or snapshot.home.item(pod_row) == node_row:
            return
        volumes = self._find(snapshot.shapes[shape_id])
        if volumes.feasible.item(node_row):
            plan = self._plans[pod_row] = volumes.plan(snapshot.node_name(node_row))
            snapshot.delayed.ledger.assume(plan)

    def _moved_many(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, sign: int) -> None:
        if not (self._plans if sign < 0 else self._snapshot.delayed_shapes):
            return
        moves = zip(pod_rows.tolist(), shape_ids.tolist(), node_rows.tolist(), strict=True)
        for pod_row, shape_id, node_row in moves:
            self._moved(pod_row, shape_id, node_row, sign)
