"""Plans preemption for a tree of groups under `kep`: one plan, with the least harm for all its parts.

Each part that finds no free room takes the domain that is cheapest to clear for it (`domainchoice`), beside
the parts before it. The domains of parts depend on each other: two parts may share the room of one victim. So
other combinations of domains are tried as long as they may do less harm. At last the victims return that are
needed by no part. The number of plans is bounded.
"""

from collections.abc import Hashable, Iterable
from contextlib import closing

import numpy as np

from podium.planner.arrays import Bools, Rows
from podium.planner.preemption.domain import DomainPlan, DomainPlanner
from podium.planner.preemption.domainchoice import DomainChooser
from podium.planner.preemption.dryrun import DryRun
from podium.planner.preemption.groupplacement import PartSearch, Placements
from podium.planner.preemption.harm import weights
from podium.planner.preemption.leastharm import LeastHarmPlan
from podium.planner.preemption.target import PlacementTarget, PreemptorPods
from podium.planner.preemption.topology import Domain

# The most domains of a part that are tried in combinations.
_DOMAINS = 4
# The most plans of parts, and the pods that they may look at before no further combination is tried.
_PLANS, _PODS = 256, 500_000
# The most pods of a tree that are placed again, all times together, to do without a victim.
_PODS_PLACED_AGAIN = 2_000


class TreePlanner(DomainPlanner):
    """Plans for a tree; see DomainPlanner."""

    def _least(self, domain: Domain, ordered: Rows, *, only_room: bool, effort: int) -> LeastHarmPlan | None:
        tree = self.dry_run.preemptor.tree
        assert tree is not None, "the preemptor is a tree"
        plan = _PartPlans(self, ordered, effort).least(tree)
        return plan or super()._least(domain, ordered, only_room=only_room, effort=effort)


class _PartPlanner(DomainPlanner):
    """Plans for a part; `known` are the plans for equal parts, by all that decides in a domain.

    A tree has many equal parts, and each changes one domain only. So the plans of all others stay.
    """

    known: dict[Hashable, tuple[tuple[int, ...], DomainPlan | None]]

    def plan(
        self, domain: Domain, leads: Rows, *, only_room: bool = False, effort: int | None = None
    ) -> DomainPlan | None:
        """Return the plan in a domain, as DomainPlanner does."""
        preemptor, snapshot = self.dry_run.preemptor, self.dry_run.snapshot
        if not self.dry_run.plain or preemptor.slices is not None:
            return super().plan(domain, leads, only_room=only_room, effort=effort)
        with self.dry_run.within(domain):
            nodes = self.dry_run.placer.chain.nodes
        asked = dict.fromkeys(name for shape in self.dry_run.shapes for name, _ in shape.requests)
        at = (snapshot.resource[name] for name in asked if name in snapshot.resource)
        used = (snapshot.used[index][nodes].tobytes() for index in at)
        kind = (preemptor.needed, tuple(snapshot.shape.item(row) for row in preemptor.rows), effort)
        key = (*kind, nodes.tobytes(), leads.tobytes(), *used)
        if key not in self.known:
            self.known[key] = preemptor.rows, super().plan(domain, leads, effort=effort)
        rows, plan = self.known[key]
        if plan is None or rows == preemptor.rows:
            return plan
        mine = dict(zip(rows, preemptor.rows, strict=True))
        return plan._replace(placed={mine[row]: node for row, node in plan.placed.items()})


class _PartPlans(PartSearch):
    """A search for the domains of the parts of a tree, and for the victims there, among `ordered` units."""

    def __init__(self, planner: TreePlanner, ordered: Rows, effort: int) -> None:
        super().__init__(planner.dry_run.placer, planner.settings.semantics, planner.dry_run.deadline)
        self._planner = planner
        self._units = planner.units
        self._ordered = ordered
        self._effort = effort
        self._weights = weights(planner.units, ordered, planner.now)
        self._position = {lead: at for at, lead in enumerate(ordered.tolist())}
        pods = int(self._units.size[ordered].sum()) + len(self.snapshot.alive)
        self.left = self._most = min(_PLANS, _PODS // max(pods, 1))
        # The victims of the parts that are placed at the moment.
        self._gone: list[Rows] = []
        self._best: tuple[int, LeastHarmPlan] | None = None
        self._known: dict[Hashable, tuple[tuple[int, ...], DomainPlan | None]] = {}

    def least(self, tree: PlacementTarget) -> LeastHarmPlan | None:
        """Return the plan of least harm among those that were tried, None without any."""
        for order in (tree, _backwards(tree)):
            with self.snapshot.trial(), closing(self.children(order, None)) as options:
                for placed in options:
                    self._note(placed)
                    if self.left <= 0:
                        break
            if self.left <= 0 or (self._best is not None and len(self._best[1].victims) < 2):
                break
            self.left = self._most // 2
        return None if self._best is None else self._without_each(tree, self._best[1])

    def _without_each(self, tree: PlacementTarget, plan: LeastHarmPlan) -> LeastHarmPlan:
        """Return a plan without the victims that another placement of the whole tree does not need.

        The most harmful one is tried first.
        """
        heaviest = sorted(plan.victims.tolist(), key=lambda lead: -self._weight_of([lead]))
        for lead in heaviest[: _PODS_PLACED_AGAIN // len(tree.rows)]:
            fewer = self._units.with_surplus(plan.victims[plan.victims != lead])
            if lead in fewer:
                continue
            with self.snapshot.trial():
                self._planner.dry_run.remove(fewer)
                placed = PartSearch(self.placer, self.semantics, self.deadline).place_needed(tree)
            if placed:
                plan = LeastHarmPlan(placed, self._ordered[np.isin(self._ordered, fewer)])
        return plan

    def _note(self, placed: dict[int, int]) -> None:
        """Keep the present placement and its victims if they do less harm than all before."""
        dry_run, units = self._planner.dry_run, self._units
        gone = self._ordered[np.isin(self._ordered, self._victims())]
        with self.snapshot.trial():
            stays = dry_run.reprieve(gone, placed)
        victims = units.with_surplus(gone[~np.isin(gone, stays)])
        victims = self._ordered[np.isin(self._ordered, victims)]
        weight = self._weight_of(victims.tolist())
        if self._best is None or weight < self._best[0]:
            self._best = weight, LeastHarmPlan(placed, victims)

    def _victims(self) -> Rows:
        return np.concatenate([*self._gone, self._ordered[:0]])

    def options(self, part: PlacementTarget, within: Bools | None, *, extra: bool) -> Placements:
        """Yield the placements of a part, those on free room first."""
        if not part.parts:
            free = False
            with closing(super().options(part, within, extra=extra)) as options:
                for placed in options:
                    free = True
                    yield placed
            if not extra and (self.left > 0 or not free):
                yield from self._cleared(part, within)
            return
        yielded = False
        for nodes in self._clearable(part, within):
            with closing(self.children(part, nodes)) as options:
                for placed in options:
                    yielded = True
                    yield placed
            if yielded and self.left <= 0:
                return

    def _cleared(self, part: PlacementTarget, within: Bools | None) -> Placements:
        """Yield the placements of a group of pods once units have left, the least harm first."""
        for plan in self._plans(part, within)[:_DOMAINS]:
            victims = plan.victims
            weight = self._weight_of([*self._victims().tolist(), *victims.tolist()])
            if self._best is not None and weight >= self._best[0]:
                return
            with self.snapshot.trial():
                self._planner.dry_run.remove(victims)
                for row, node in plan.placed.items():
                    self.snapshot.assume(row, node)
                self._gone.append(victims)
                try:
                    yield plan.placed
                finally:
                    self._gone.pop()
            if self.left <= 0:
                return

    def _plans(self, part: PlacementTarget, within: Bools | None) -> list[DomainPlan]:
        self.left -= 1
        with self.placer.chain.within(within):
            return DomainChooser(self._planner_of(part), self.search(part)).ranked()

    def _clearable(self, part: PlacementTarget, within: Bools | None) -> list[Bools | None]:
        """Return the nodes of the domains of a part that may be cleared for it, the cheapest first."""
        with self.placer.chain.within(within):
            bounds = DomainChooser(self._planner_of(part), self.search(part)).bounds()
        return [within if bound.domain.nodes is None else bound.domain.nodes for bound in bounds]

    def _weight_of(self, leads: Iterable[int]) -> int:
        """Return the weight of units."""
        return self._weights.total(self._position[lead] for lead in leads)

    def _planner_of(self, part: PlacementTarget) -> DomainPlanner:
        """Return the planner for a part, whose victims are among those of the tree."""
        preemptor = PreemptorPods(
            *(part.rows, part.needed, part.priority),
            group=True,
            slices=part.slices,
            tree=part if part.parts else None,
        )
        planner, dry_run = self._planner, self._planner.dry_run
        mine = DryRun(self.placer, self._units, preemptor, self.semantics, self.deadline)
        part_planner = _PartPlanner(mine, planner.budgets, planner.settings, planner.now, self._effort)
        part_planner.known = self._known
        allowed = np.zeros_like(part_planner.potential)
        allowed[self._ordered] = True
        part_planner.potential &= allowed
        assert dry_run.preemptor.priority >= part.priority, "a part has the priority of the tree"
        return part_planner


def _backwards(tree: PlacementTarget) -> PlacementTarget:
    """Return a tree whose counted parts are placed in the other order."""
    parts = tuple(map(_backwards, tree.parts))
    return tree._replace(parts=(*reversed(parts[: tree.counted_parts]), *parts[tree.counted_parts :]))
