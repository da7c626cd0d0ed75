"""Preemption in one domain, the same for a pod on a node and a gang on a cluster.

Under `kep` the plan is that of least harm (`leastharm`). kube-scheduler's releases take all units of lower
priority away; if the preemptor fits then, as many as possible are given back where it still fits beside them:
first those whose loss would violate a budget, then the others, the most important first. What was decided
about each unit is kept on the way, so an explanation is no second path.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.preemption.budgets import BudgetIndex, Charge
from podium.schedulerplugin.preemption.harm import Harm, harm
from podium.schedulerplugin.preemption.leastharm import least_harm
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.search import EFFORT, NODE_EFFORT
from podium.schedulerplugin.preemption.stage import Domain, NodeStage, Stage
from podium.schedulerplugin.settings import Budgets, Settings

# Added to every priority in the sum over victims, so that more victims are worse even below zero.
SHIFT = 2**31


class Fate(StrEnum):
    """What became of a unit that might have been taken."""

    TAKEN = "taken"
    # The preemptor fits beside it.
    STAYS = "stays"
    # The same, and its loss would violate a budget.
    BUDGET = "budget"
    # The preemptor fits without any unit of so high a priority.
    ABOVE = "above"
    # `budgets: strict` leaves no choice.
    STRICT = "strict"


class Cost(NamedTuple):
    """What a plan costs, to be compared: kube-scheduler's five steps in their order; less is better."""

    violations: int
    highest: int
    total: int
    pods: int
    # Negative, for victims that started later are the better ones.
    earliest: int


# What plans are compared by: harm under `kep`, the steps of kube-scheduler under its releases' rules.
Score = Harm | Cost


class Found(NamedTuple):
    """A plan in one domain: rows of leads and pods are those of the snapshot as it is now."""

    domain: Domain
    placed: dict[int, int]
    victims: Rows
    minimal: int
    violating: frozenset[int]
    cost: Score
    fates: dict[int, Fate]


class DomainPlanner:
    """Plans for the preemptor of a stage at one moment (`now`, in seconds), domain by domain.

    `potential` says by lead which units may be taken at all. The snapshot is in a trial of the caller's, with
    what else is to be counted (nominated pods) or not (leaving ones) already so. `charge` is how budgets are.
    """

    def __init__(
        self, stage: Stage, budgets: BudgetIndex, settings: Settings, now: int, effort: int = EFFORT
    ) -> None:
        """`effort` is that of the search for the least harm (see `search`)."""
        self._effort = effort
        self.stage = stage
        self.units = stage.units
        self.now = now
        self._budgets = budgets
        self._settings = settings
        self.charge = charge(settings.semantics, group=stage.preemptor.group)
        self.potential = self._potential()

    def plan(self, domain: Domain, leads: Rows, *, only_room: bool = False) -> Found | None:
        """Plan in a domain, None where it is infeasible or nobody may be taken.

        `leads` are the units, in any order, that may be taken and have a pod in the domain. `only_room` says
        of a node that nothing but room can refuse the preemptor there, whoever goes.
        """
        self.stage.deadline.check()
        ordered = self.units.ordered(self.units.with_surplus(leads), self.now)
        if self.semantics is Semantics.KEP:
            return self._of_least_harm(domain, ordered, only_room=only_room)
        violations = self._violations(ordered)
        stage = NodeStage(self.stage, domain.node) if only_room and domain.node is not None else self.stage
        found = _Attempt(self, stage, domain, ordered, violations).plan()
        strict = self._settings.budgets is Budgets.STRICT
        if not strict or found is None or not found.cost.violations:
            return found
        # The plan that spares what it can still violates a budget: without those units, or not at all.
        safe = violations == 0
        found = _Attempt(self, stage, domain, ordered[safe], violations[safe]).plan()
        if found is not None:
            found.fates.update(dict.fromkeys(ordered[~safe].tolist(), Fate.STRICT))
        return found

    def _of_least_harm(self, domain: Domain, ordered: Rows, *, only_room: bool) -> Found | None:
        """Return the plan of least harm; one that violates budgets only if no plan was found without."""
        found = self._searched(domain, ordered, only_room=only_room)
        if found is not None and found.cost.violations:
            safe = self.units.without_held_cores(ordered[self._violations(ordered) == 0])
            other = self._searched(domain, safe, only_room=only_room)
            if other is not None and other.cost < found.cost:
                held = ordered[~np.isin(ordered, safe)]
                other.fates.update(dict.fromkeys(held.tolist(), self._by_budget))
                found = other
            if found.cost.violations and self._settings.budgets is Budgets.STRICT:
                return None
        return found

    @property
    def _by_budget(self) -> Fate:
        return Fate.STRICT if self._settings.budgets is Budgets.STRICT else Fate.BUDGET

    def _searched(self, domain: Domain, ordered: Rows, *, only_room: bool) -> Found | None:
        if not len(ordered):
            return None
        effort = self._effort if domain.node is None else min(self._effort, NODE_EFFORT)
        least = least_harm(
            self.stage, self._budgets, domain, ordered, self.now, only_room=only_room, effort=effort
        )
        if least is None:
            return None
        victims = least.victims
        violations = self._violations(victims)
        cost = harm(self.units, victims, int(violations.sum()), self.now)
        fates = dict.fromkeys(ordered.tolist(), Fate.STAYS)
        minimal = cost.highest if cost.highest is not None else -SHIFT
        above = ordered[self.units.priority[ordered] > minimal]
        fates.update(dict.fromkeys(above.tolist(), Fate.ABOVE))
        held = self._budgets.holding(ordered, victims, self.units)
        fates.update(dict.fromkeys(held.tolist(), self._by_budget))
        fates.update(dict.fromkeys(victims.tolist(), Fate.TAKEN))
        violating = frozenset(victims[violations > 0].tolist())
        return Found(domain, least.placed, victims, minimal, violating, cost, fates)

    def cost(self, victims: Rows, violations: int) -> Cost:
        """Give what taking these units costs; kube-scheduler's releases look at the pods' own integers."""
        units, snapshot = self.units, self.stage.snapshot
        if not len(victims):
            return Cost(0, 0, 0, 0, 0)
        rows = units.all_members(victims)
        priority = snapshot.priority[rows].astype(np.int64)
        if units.rule.guarded:
            priority = np.repeat(units.priority[victims], units.size[victims])
        start = np.minimum(snapshot.start[rows], self.now)
        earliest = int(start[priority == priority.max()].min())
        return Cost(violations, int(priority[0]), int((priority + SHIFT).sum()), len(rows), -earliest)

    def _potential(self) -> Bools:
        units = self.units
        # Who has been moved in a trial is no victim a second time.
        stands: Bools = self.stage.snapshot.node == units.at
        may: Bools = stands & units.open_to(self.stage.preemptor.priority, self.now)
        units.hold_cores(may)
        return may

    def _violations(self, ordered: Rows) -> Int64s:
        """Give for each unit how many of its pods would take a budget below what it allows."""
        numbers = np.repeat(np.arange(len(ordered)), self.units.size[ordered])
        self.stage.deadline.check()
        members = self.units.all_members(ordered)
        return self._budgets.violations(members, numbers, self.charge, self.stage.deadline)

    @property
    def semantics(self) -> Semantics:
        """Whose rules decide."""
        return self._settings.semantics


class _Attempt:
    """One run of the algorithm: `ordered` are the potential victims, the most important first."""

    def __init__(
        self, planner: DomainPlanner, stage: Stage, domain: Domain, ordered: Rows, violations: Int64s
    ) -> None:
        self.planner = planner
        self.stage = stage
        self.domain = domain
        self.ordered = ordered
        self.violations = violations
        self.fates: dict[int, Fate] = {}

    def plan(self) -> Found | None:
        """Take all away, see whether the preemptor fits, and give back what can be."""
        if not len(self.ordered):
            return None
        with self.stage.trial():
            self.stage.lift(self.ordered)
            with self.stage.trial():
                placed = self.stage.place(self.domain)
                if placed is None:
                    return None
                return self._as_released(placed)

    def _as_released(self, placed: dict[int, int]) -> Found:
        """Reprieve as kube-scheduler does: those that violate budgets first, no search for N."""
        stage, violates = self.stage, self.violations > 0
        anew = self.planner.semantics is Semantics.V1_36 and self.domain.node is None
        for leads, fate in ((self.ordered[violates], Fate.BUDGET), (self.ordered[~violates], Fate.STAYS)):
            again = stage.reprieve_anew(leads, placed, self.domain) if anew else stage.reprieve(leads, placed)
            self.fates.update(dict.fromkeys(again, fate))
        if anew:
            stage.snapshot.lift_many(np.fromiter(placed, np.intp, len(placed)))
            placed = stage.place(self.domain) or placed
        victims = self.ordered[~np.isin(self.ordered, list(self.fates))]
        highest = self.planner.units.priority[victims].max(initial=-SHIFT)
        return self._found(placed, victims, int(highest))

    def _found(self, placed: dict[int, int], victims: Rows, minimal: int) -> Found:
        taken = np.isin(self.ordered, victims)
        self.fates.update(dict.fromkeys(victims.tolist(), Fate.TAKEN))
        violating = frozenset(self.ordered[taken & (self.violations > 0)].tolist())
        cost = self.planner.cost(victims, int(self.violations[taken].sum()))
        return Found(self.domain, placed, victims, minimal, violating, cost, self.fates)


def charge(semantics: Semantics, *, group: bool) -> Charge:
    """Give which budgets a pod charges that has taken one below what it allows, for a lone pod or a group."""
    if semantics is Semantics.V1_37:
        return Charge.POD_STOPS
    if semantics is Semantics.V1_36 and group:
        return Charge.UNIT_STOPS
    return Charge.EVERY
