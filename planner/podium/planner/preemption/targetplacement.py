"""Places the pods of a target without an eviction: in its domains, on reserved nodes, in order or packed."""

from collections.abc import Mapping

from podium.planner.arrays import Bools
from podium.planner.deadline import Deadline
from podium.planner.filters.chain import Refusals
from podium.planner.placement import Placer
from podium.planner.preemption.capacity import place_packed
from podium.planner.preemption.domain import DomainPlan
from podium.planner.preemption.domainsearch import DomainSearch, Located, RandomChoice
from podium.planner.preemption.groupplacement import (
    PartSearch,
    in_whole_slices,
    ordered_attempts,
    part_refusals,
    place_pods,
    slice_refusals,
)
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.units import Units
from podium.planner.semantics import Semantics

_TAKEN = "node(s) were taken by other members of the group ({})"


class TargetPlacer:
    """Places targets on the snapshot as it is; every placement is tried and undone."""

    def __init__(
        self, placer: Placer, semantics: Semantics, deadline: Deadline, only: int | None = None
    ) -> None:
        """`only` is the number of the one topology domain that may be used; None for any."""
        self._placer = placer
        self._snapshot = placer.snapshot
        self._semantics = semantics
        self._deadline = deadline
        self._only = only

    def search(self, target: PlacementTarget) -> DomainSearch:
        """Return the topology domains for pods; the cluster is the only one without a constraint."""
        return DomainSearch(self._placer, target, self._semantics, self._deadline, self._only)

    def place(self, search: DomainSearch, nominated: Mapping[int, int] = {}) -> Located:
        """Return the placement without preemption; if too few fit, what refuses the first that does not."""
        return search.first(lambda: self._place_there(search.target, nominated), nominated.values())

    def random_choices(
        self, target: PlacementTarget, located: Located, nominated: Mapping[int, int]
    ) -> tuple[RandomChoice, ...]:
        """Return the random choices of kube-scheduler that led to a placement of a group or a tree."""
        choices = []
        if target.group is not None and located.candidates:
            choices.append(RandomChoice(target.group, located.candidates))
        if target.parts and self._semantics.rules.limits_domains:
            parts = PartSearch(self._placer, self._semantics, self._deadline, nominated=nominated)
            with self._placer.chain.within(located.domain.nodes), self._snapshot.trial():
                choices += parts.random_choices(target)
        return tuple(choices)

    def _place_there(
        self, target: PlacementTarget, nominated: Mapping[int, int]
    ) -> tuple[dict[int, int] | None, Refusals | None]:
        snapshot, slices = self._snapshot, target.slices
        with snapshot.trial():
            placed = self._place_pods(target, nominated=nominated)
            if len(placed) >= target.needed:
                return placed, None
            failed = next(row for row in target.rows if row not in placed)
            if target.parts:
                return None, part_refusals(self._placer, failed, self.refusals(failed))
            if slices is not None:
                return None, slice_refusals(self._placer, slices, failed, self.refusals(failed))
            shape, most = snapshot.shape_at(failed), len(placed)
            refused = list(self._placer.chain.refused_rows(shape, self._placer.chain.nodes))
            refusals = self._placer.chain.refusals_of(shape, refused)
        if self._semantics.rules.tries_orders:
            with snapshot.trial():
                placed = place_packed(self._placer.chain, target.rows, target.needed, self._deadline)
                if len(placed) >= target.needed:
                    return placed, None
                most = max(most, len(placed))
            if not nominated:
                for attempt in ordered_attempts(self._placer, target.rows, target.needed, self._deadline):
                    with snapshot.trial():
                        placed = attempt()
                        if len(placed) >= target.needed:
                            return placed, None
                        most = max(most, len(placed))
        return None, self._beside_members(target, refusals, refused, most) if most else refusals

    def _beside_members(
        self, target: PlacementTarget, refusals: Refusals, refused: list[tuple[str, Bools]], number: int
    ) -> Refusals:
        """Return the refusals of a member, with the `number` of others that have room.

        `refused` are its reasons beside the others. Nodes that would take it alone are counted as taken.
        """
        free = self._placer.chain.feasible(refusals.shape)
        reasons = [(reason, rows & ~free) for reason, rows in refused]
        reasons += [(_TAKEN.format(reason), rows & free) for reason, rows in refused]
        kind = "members" if target.needed == len(target.rows) and not target.running else "needed members"
        beside = self._placer.chain.refusals_of(refusals.shape, reasons)
        return beside._replace(remark=refusals.remark).beside_members(number, target.needed, kind)

    def _place_pods(
        self,
        target: PlacementTarget,
        *,
        before: Mapping[int, int] = {},
        nominated: Mapping[int, int] = {},
    ) -> dict[int, int]:
        return place_pods(
            self._placer, target, self._semantics, self._deadline, before=before, nominated=nominated
        )

    def refusals(self, row: int) -> Refusals:
        """Return what refuses a pod on each node."""
        self._deadline.enforce()
        snapshot = self._snapshot
        return self._placer.chain.refusals(snapshot.shape_at(row))

    def place_nominated(self, search: DomainSearch, nominated: Mapping[int, int]) -> dict[int, int] | None:
        """Return a placement that uses nominated nodes first; None if too few pods fit."""
        return search.any(lambda: self._place_nominated_there(search.target, nominated))

    def _place_nominated_there(
        self, target: PlacementTarget, nominated: Mapping[int, int]
    ) -> dict[int, int] | None:
        chain, snapshot = self._placer.chain, self._snapshot
        placed: dict[int, int] = {}
        with snapshot.trial():
            for row, node in in_whole_slices(self._placer, target, nominated).items():
                self._deadline.enforce()
                if chain.fits(snapshot.shape_at(row), node):
                    snapshot.assume(row, node)
                    placed[row] = node
            placed |= self._place_pods(target, before=placed)
        return placed if len(placed) >= target.needed else None

    def place_rest(self, target: PlacementTarget, chosen: DomainPlan, units: Units) -> dict[int, int]:
        """Return the placement of a plan with the members that no unit is evicted for, as far as they fit."""
        placed = dict(chosen.placed)
        if len(placed) == len(target.rows):
            return placed
        snapshot = self._snapshot
        with snapshot.trial(), self._placer.chain.within(chosen.domain.nodes):
            snapshot.remove_many(units.all_members(chosen.victims))
            for row, node in placed.items():
                snapshot.assume(row, node)
            placed.update(self._place_pods(target, before=placed))
        return placed
