"""Plans preemption in one domain: a node for a pod, the cluster for a group.

Under `kep` the plan is that of least harm (`leastharm`). kube-scheduler's releases remove all units of lower
priority. If the preemptor fits then, they reprieve as many units as possible beside it. Units whose eviction
would violate a budget come first, then the others, the most important first. The result for each unit is
kept, so an explanation needs no second search.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.preemption.budgets import BudgetIndex
from podium.planner.preemption.dryrun import DryRun, NodeDryRun
from podium.planner.preemption.harm import Harm, harm
from podium.planner.preemption.leastharm import LeastHarmPlan, least_harm
from podium.planner.preemption.search import EFFORT, NODE_EFFORT
from podium.planner.preemption.topology import CLUSTER, Domain
from podium.planner.preemption.units import Units
from podium.planner.settings import Budgets, Settings

# Added to every priority in the sum over victims, so that more victims are worse even below zero.
SHIFT = 2**31


class UnitResult(StrEnum):
    """The result for a potential victim."""

    VICTIM = "victim"
    # The preemptor fits beside it.
    REPRIEVED = "reprieved"
    # The same, and its eviction would violate a budget.
    BUDGET = "budget"
    # The preemptor fits without any unit of so high a priority.
    ABOVE = "above"
    # `budgets: strict` leaves no choice.
    STRICT = "strict"


class Cost(NamedTuple):
    """The cost of a plan: kube-scheduler's five steps in their order; less is better."""

    violations: int
    highest: int
    total: int
    pods: int
    # Negative, because victims that started later are better.
    earliest: int


# The value by which plans are compared: Harm under `kep`, Cost under the rules of kube-scheduler's releases.
Score = Harm | Cost


class DomainPlan(NamedTuple):
    """A plan in one domain, by rows of the snapshot as it is now."""

    domain: Domain
    placed: dict[int, int]
    victims: Rows
    minimal: int
    violating: frozenset[int]
    cost: Score
    results: dict[int, UnitResult]


# The order of the victims of a node: pods that violate budgets, then the pods by priority from the highest
# down, then kind and size of each unit. A node without victims comes before all others.
_VictimsKey = tuple[int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
_NO_VICTIMS: _VictimsKey = (-1, (), ())


class NodeRanks:
    """The ranks of nodes for a group that preempts; `rank` is by node row, lower is better.

    The group is placed with all potential victims gone. Each of its pods goes to the feasible nodes of the
    lowest rank. A node has rank 0 if no victim is left there: there was none, or earlier pods of the group
    cost them already. The other nodes are ordered by all their victims, needed or not, as the reprieve comes
    later. The units that are lost already follow from the nodes of the preemptor's pods, so they need no
    undoing. Source: DefaultPreemption.RankNodes and Reserve, and preemption.CompareVictimSets, 1.38.0-beta.0.
    """

    def __init__(self, units: Units, ordered: Rows, violations: Int64s, preemptor: tuple[int, ...]) -> None:
        """`ordered` are the potential victims, the most important first; `violations` are theirs.

        `preemptor` are the rows of its pods.
        """
        self._snapshot = units.snapshot
        self._preemptor = np.array(preemptor, np.intp)
        self._violations = violations.tolist()
        self._priority = units.priority[ordered].tolist()
        self._kind = list(zip(units.rank[ordered].tolist(), units.size[ordered].tolist(), strict=True))
        owners = np.repeat(np.arange(len(ordered)), units.size[ordered])
        # The units on each node, the most important first, and the nodes of each unit.
        self._on: dict[int, list[int]] = {}
        self._nodes: dict[int, list[int]] = {}
        places = zip(owners.tolist(), units.node[units.all_members(ordered)].tolist(), strict=True)
        for unit, node in dict.fromkeys(places):
            self._on.setdefault(node, []).append(unit)
            self._nodes.setdefault(unit, []).append(node)
        self._begin()

    def refresh(self) -> None:
        """Follow the snapshot: pods of the preemptor may have been placed or taken back."""
        nodes = self._snapshot.node[self._preemptor]
        taken = set(nodes[nodes >= 0].tolist())
        if not self._taken <= taken:
            self._begin()
        for node in sorted(taken - self._taken):
            self.take(node)

    def take(self, node: int) -> None:
        """Count the units on a node as lost: a pod of the preemptor is assumed there."""
        self._taken.add(node)
        lost = [unit for unit in self._on.get(node, ()) if unit not in self._lost]
        self._lost.update(lost)
        touched = dict.fromkeys(other for unit in lost for other in self._nodes[unit])
        for other in touched:
            self._keys[other] = self._key(other)
        if all(self._keys[other] in self._order for other in touched):
            for other in touched:
                self.rank[other] = self._order[self._keys[other]]
        else:
            self._rank_all()

    def _begin(self) -> None:
        self._taken: set[int] = set()
        self._lost: set[int] = set()
        self._keys = {node: self._key(node) for node in self._on}
        self._rank_all()

    def _rank_all(self) -> None:
        ordered = sorted({_NO_VICTIMS, *self._keys.values()})
        self._order = {key: rank for rank, key in enumerate(ordered)}
        self.rank: Int64s = np.zeros(len(self._snapshot.alive), np.int64)
        for node, key in self._keys.items():
            self.rank[node] = self._order[key]

    def _key(self, node: int) -> _VictimsKey:
        units = [unit for unit in self._on[node] if unit not in self._lost]
        if not units:
            return _NO_VICTIMS
        levels = tuple(
            (priority, sum(self._kind[unit][1] for unit in level))
            for priority, level in groupby(units, key=self._priority.__getitem__)
        )
        return (
            sum(self._violations[unit] for unit in units),
            levels,
            tuple(self._kind[unit] for unit in units),
        )


class DomainPlanner:
    """Plans for the preemptor of a dry run at one moment (`now`, in seconds), domain by domain.

    `potential` marks the potential victims by lead. The caller has begun a trial of the snapshot, has assumed
    the nominated pods and has removed the leaving ones. `charge` is how budgets are charged.
    """

    def __init__(
        self, dry_run: DryRun, budgets: BudgetIndex, settings: Settings, now: int, effort: int = EFFORT
    ) -> None:
        """`effort` is that of the search for the least harm (see `search`)."""
        self._effort = effort
        self.dry_run = dry_run
        self.units = dry_run.units
        self.now = now
        self.budgets = budgets
        self.settings = settings
        self.rules = settings.semantics.rules
        self.charge = self.rules.group_charge if dry_run.preemptor.group else self.rules.pod_charge
        self.potential = self._potential()

    def plan(
        self, domain: Domain, leads: Rows, *, only_room: bool = False, effort: int | None = None
    ) -> DomainPlan | None:
        """Return the plan in a domain; None if it is infeasible or there is no potential victim.

        `leads` are the potential victims with a pod in the domain, in any order. `only_room` is for a node.
        It says that only room can refuse the preemptor there, whatever is evicted. `effort` limits the search
        for the least harm.
        """
        self.dry_run.deadline.enforce()
        with self.dry_run.within(domain):
            return self._plan_within(domain, leads, only_room=only_room, effort=effort)

    def ranked(self, leads: Rows) -> AbstractContextManager[None]:
        """Begin a block that places a group by the ranks of nodes, if the rules have some.

        `leads` are the potential victims.
        """
        preemptor, ranks = self.dry_run.preemptor, None
        if self.rules.ranks_nodes and preemptor.group:
            ordered = self.units.ordered(leads, self.now)
            ranks = NodeRanks(self.units, ordered, self._violations(ordered), preemptor.rows)
        return self.dry_run.placer.ranked(ranks)

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Begin a block without all potential victims, in which the group is placed as before a reprieve."""
        leads = np.flatnonzero(self.potential)
        with self.ranked(leads), self.dry_run.trial():
            self.dry_run.remove(leads)
            yield

    def in_cluster(self) -> DomainPlan | None:
        """Return the plan on all nodes, for a group or for several pods; None if there is none."""
        return self.plan(CLUSTER, np.flatnonzero(self.potential))

    def _plan_within(
        self, domain: Domain, leads: Rows, *, only_room: bool, effort: int | None
    ) -> DomainPlan | None:
        ordered = self.units.ordered(self.units.with_surplus(leads), self.now)
        if self.rules.least_harm:
            most = self._effort if domain.node is None else min(self._effort, NODE_EFFORT)
            effort = most if effort is None else min(effort, most)
            return self._of_least_harm(domain, ordered, only_room=only_room, effort=effort)
        violations = self._violations(ordered)
        dry_run = (
            NodeDryRun(self.dry_run, domain.node) if only_room and domain.node is not None else self.dry_run
        )
        plan = _VictimSelection(self, dry_run, domain, ordered, violations).select()
        strict = self.settings.budgets is Budgets.STRICT
        if not strict or plan is None or not plan.cost.violations:
            return plan
        # The plan violates a budget although it reprieves what it can. So it must do without those units.
        safe = violations == 0
        plan = _VictimSelection(self, dry_run, domain, ordered[safe], violations[safe]).select()
        if plan is not None:
            plan.results.update(dict.fromkeys(ordered[~safe].tolist(), UnitResult.STRICT))
        return plan

    def _of_least_harm(
        self, domain: Domain, ordered: Rows, *, only_room: bool, effort: int
    ) -> DomainPlan | None:
        """Return the plan of least harm; one that violates budgets only if no plan was found without."""
        plan = self._searched(domain, ordered, only_room=only_room, effort=effort)
        if plan is not None and plan.cost.violations:
            safe = self.units.without_held_cores(ordered[self._violations(ordered) == 0])
            safe_plan = self._searched(domain, safe, only_room=only_room, effort=effort)
            if safe_plan is not None and safe_plan.cost < plan.cost:
                held = ordered[~np.isin(ordered, safe)]
                safe_plan.results.update(dict.fromkeys(held.tolist(), self._by_budget))
                plan = safe_plan
            if plan.cost.violations and self.settings.budgets is Budgets.STRICT:
                return None
        return plan

    @property
    def _by_budget(self) -> UnitResult:
        return UnitResult.STRICT if self.settings.budgets is Budgets.STRICT else UnitResult.BUDGET

    def _searched(self, domain: Domain, ordered: Rows, *, only_room: bool, effort: int) -> DomainPlan | None:
        if not len(ordered):
            return None
        least = self._least(domain, ordered, only_room=only_room, effort=effort)
        if least is None:
            return None
        victims = least.victims
        violations = self._violations(victims)
        cost = harm(self.units, victims, int(violations.sum()), self.now)
        results = dict.fromkeys(ordered.tolist(), UnitResult.REPRIEVED)
        minimal = cost.highest if cost.highest is not None else -SHIFT
        above = ordered[self.units.priority[ordered] > minimal]
        results.update(dict.fromkeys(above.tolist(), UnitResult.ABOVE))
        held = self.budgets.holding(ordered, victims, self.units)
        results.update(dict.fromkeys(held.tolist(), self._by_budget))
        results.update(dict.fromkeys(victims.tolist(), UnitResult.VICTIM))
        violating = frozenset(victims[violations > 0].tolist())
        return DomainPlan(domain, least.placed, victims, minimal, violating, cost, results)

    def _least(self, domain: Domain, ordered: Rows, *, only_room: bool, effort: int) -> LeastHarmPlan | None:
        """Return the victims of least harm among units in order, with a placement."""
        return least_harm(
            self.dry_run, self.budgets, domain, ordered, self.now, only_room=only_room, effort=effort
        )

    def cost(self, victims: Rows, violations: int) -> Cost:
        """Return the cost of evicting these units; kube-scheduler's releases use the pods' own priorities."""
        units, snapshot = self.units, self.dry_run.snapshot
        if not len(victims):
            return Cost(0, 0, 0, 0, 0)
        rows = units.all_members(victims)
        priority = snapshot.priority[rows].astype(np.int64)
        if self.rules.least_harm:
            priority = np.repeat(units.priority[victims], units.size[victims])
        start = np.minimum(snapshot.start[rows], self.now)
        earliest = int(start[priority == priority.max()].min())
        return Cost(violations, int(priority[0]), int((priority + SHIFT).sum()), len(rows), -earliest)

    def _potential(self) -> Bools:
        units = self.units
        # A pod that was moved in this trial is not a victim a second time.
        stands: Bools = self.dry_run.snapshot.node == units.node
        may: Bools = stands & units.preemptable_by(self.dry_run.preemptor.priority, self.now)
        units.hold_cores(may)
        return may

    def _violations(self, ordered: Rows) -> Int64s:
        """Return for each unit how many of its pods would take a budget below what it allows."""
        numbers = np.repeat(np.arange(len(ordered)), self.units.size[ordered])
        self.dry_run.deadline.enforce()
        members = self.units.all_members(ordered)
        return self.budgets.violations(members, numbers, self.charge, self.dry_run.deadline)


class _VictimSelection:
    """kube-scheduler's selection of victims among `ordered` units, the most important first."""

    def __init__(
        self, planner: DomainPlanner, dry_run: DryRun, domain: Domain, ordered: Rows, violations: Int64s
    ) -> None:
        self.planner = planner
        self.dry_run = dry_run
        self.domain = domain
        self.ordered = ordered
        self.violations = violations
        self.results: dict[int, UnitResult] = {}

    def select(self) -> DomainPlan | None:
        """Remove all potential victims; if the preemptor fits then, reprieve as many as possible."""
        if not len(self.ordered):
            return None
        with self.dry_run.trial():
            self.dry_run.remove(self.ordered)
            with self.dry_run.trial():
                with self.planner.ranked(self.ordered):
                    placed = self.dry_run.place(self.domain)
                if placed is None:
                    return None
                return self._reprieve(placed)

    def _reprieve(self, placed: dict[int, int]) -> DomainPlan:
        """Reprieve as kube-scheduler does: units that violate budgets first, without a search for N."""
        dry_run, violates = self.dry_run, self.violations > 0
        new_placement = self.planner.rules.places_again and self.domain.node is None
        for leads, result in (
            (self.ordered[violates], UnitResult.BUDGET),
            (self.ordered[~violates], UnitResult.REPRIEVED),
        ):
            again = (
                dry_run.reprieve_with_new_placement(leads, placed)
                if new_placement
                else dry_run.reprieve(leads, placed)
            )
            self.results.update(dict.fromkeys(again, result))
        if new_placement:
            dry_run.snapshot.remove_many(np.fromiter(placed, np.intp, len(placed)))
            placed = dry_run.place(self.domain) or placed
        victims = self.ordered[~np.isin(self.ordered, list(self.results))]
        highest = self.planner.units.priority[victims].max(initial=-SHIFT)
        return self._found(placed, victims, int(highest))

    def _found(self, placed: dict[int, int], victims: Rows, minimal: int) -> DomainPlan:
        taken = np.isin(self.ordered, victims)
        self.results.update(dict.fromkeys(victims.tolist(), UnitResult.VICTIM))
        violating = frozenset(self.ordered[taken & (self.violations > 0)].tolist())
        cost = self.planner.cost(victims, int(self.violations[taken].sum()))
        return DomainPlan(self.domain, placed, victims, minimal, violating, cost, self.results)
