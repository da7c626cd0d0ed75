"""Chooses the node to preempt on: the one with the cheapest plan, without making a plan for each.

A pod has a plan for each node. Plans are compared by harm under `kep`, and by the five steps of
kube-scheduler under the rules of its releases. Under `kep`, of equal plans the best is the one whose
recreated victims would preempt the fewest pods. At last the smallest name decides, so the answer is the same
for the same cluster.

A bound on the first two steps costs a few sums for all nodes together. So nodes are planned in the order of
their bounds, until no bound is below the best plan. Nodes whose plans are sums are planned all at once.

Under `kep` the plans of all topology domains are compared by harm, then by packing, then by the size of the
domain. So no pod is evicted for a domain that is only preferred, if a wider one needs less. A plan takes
milliseconds, and a cluster may have hundreds of domains. So a bound comes first: the lowest priority up to
which all units must leave before the sums of a domain are large enough. It is computed for all domains at
once. Domains are planned in the order of their bounds, without a search, until no bound is below the best
plan. Only the few best plans are searched at length.

kube-scheduler 1.37 removes all units of lower priority and chooses a domain by its scores for placement,
whatever the victims there. Its 1.36 release preempts for no group with a topology constraint.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.placement import Placer
from podium.planner.preemption.budgets import BudgetIndex
from podium.planner.preemption.capacity import PodKinds
from podium.planner.preemption.domain import SHIFT, DomainPlan, DomainPlanner, Score
from podium.planner.preemption.domainsearch import DomainLevel, DomainSearch
from podium.planner.preemption.harm import Harm
from podium.planner.preemption.leastharm import pool_of
from podium.planner.preemption.nodes import NOT_ENOUGH, NodeTable, VictimLists, VictimSums
from podium.planner.preemption.search import EFFORT
from podium.planner.preemption.target import PreemptorPods
from podium.planner.preemption.topology import CLUSTER, Domain, Topology
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.semantics import Charge
from podium.planner.shapes import Shape

# The number of equal plans that are compared by the pods that their victims would preempt in turn.
MAX_COMPARED = 8
# The number of nodes that are searched for a plan of less harm than the sums along their pods show.
_MAX_SEARCHED = 8


class Chosen(NamedTuple):
    """The plan to carry out, and the names of the domains whose plans have the same cost.

    `then` are the node rows that equal pods get next, one each, while no other node changes.
    """

    plan: DomainPlan
    ties: tuple[str, ...]
    then: tuple[int, ...] = ()


class _NonViolating(NamedTuple):
    """Plans by node that evict no pod which would violate a budget.

    `level` is the lowest priority of a plan there, `violations` the fewest of any plan. `exact` marks the
    nodes where sums are exact.
    """

    level: Int64s
    violations: Int64s
    exact: Bools


class Chooser:
    """Chooses a plan for one preemptor; see DomainPlanner for the state the snapshot is in.

    `recreated(preemptor)` returns the chooser for a recreated victim, which may preempt in turn.
    """

    def __init__(
        self,
        planner: DomainPlanner,
        placer: Placer,
        table: NodeTable,
        budgets: BudgetIndex,
        *,
        recreated: Callable[[PreemptorPods], "Chooser"],
    ) -> None:
        self.planner = planner
        self.units = planner.units
        self._deadline = planner.dry_run.deadline
        self._placer = placer
        self._table = table
        self._budgets = budgets
        self._recreated = recreated
        self._snapshot = placer.snapshot
        # The nodes where only room can refuse the pod, whatever is evicted.
        self._only_room: Bools = np.zeros(0, np.bool_)

    def in_cluster(self) -> Chosen | None:
        """Return the plan on all nodes, for several pods; None if there is none."""
        plan = self.planner.in_cluster()
        return None if plan is None else Chosen(plan, (CLUSTER.name,))

    def best_node(self) -> Chosen | None:
        """Return the cheapest plan on a node for the pod; None if preemption helps on no node."""
        best, equal, planned = self._compare_nodes()
        if best is None:
            return None
        order = self._placer.chain.by_name()
        equal = order[np.isin(order, equal)].tolist()
        ties = tuple(map(self._snapshot.node_name, equal))
        if len(equal) == 1 or not self._counts_cascades():
            return Chosen(planned.get(equal[0]) or self._plan_node(equal[0]), ties, tuple(equal[1:]))
        plans = [planned.get(row) or self._plan_node(row) for row in equal[:MAX_COMPARED]]
        # Where sums are a bound, a plan may have a later start than they show.
        least = min(plan.cost for plan in plans)
        return Chosen(self._fewest_in_turn([plan for plan in plans if plan.cost == least]), ties)

    def next_equal(self, before: Chosen) -> Chosen | None:
        """Return the choice for a pod equal to that of `before`; only the chosen node has changed since.

        Only room may refuse such pods. The result is None if all nodes have to be compared again. That is so
        if the node of `before` may hold both pods, or if the next plan has another cost.
        """
        node = before.plan.domain.node
        if node is None or not before.then or self._may_hold_two(node):
            return None
        row, *then = before.then
        plan = self.planner.plan(self._domain(row), self._leads_on(row), only_room=True)
        if plan is None or plan.cost != before.plan.cost:
            return None
        return Chosen(plan, before.ties[1:], tuple(then))

    def _may_hold_two(self, node: int) -> bool:
        """Return whether two such preemptors fit on a node without its potential victims and leaving pods."""
        units, snapshot = self.units, self._snapshot
        on = snapshot.pods_on(node)
        leads = units.lead[on]
        going = on[units.freeing(self.planner.now)[on] | ((leads != NO_UNIT) & self.planner.potential[leads])]
        return all(
            snapshot.allocatable[at].item(node)
            - snapshot.used[at].item(node)
            + int(snapshot.requests[at][going].sum())
            >= 2 * amount
            for at, amount in (
                (snapshot.resource[name], amount) for name, amount in self.planner.dry_run.shapes[0].requests
            )
        )

    def _compare_nodes(self) -> tuple[Score | None, list[int], dict[int, DomainPlan]]:
        """Return the least cost, the nodes whose plans have it, and the plans that were made."""
        shape = self.planner.dry_run.shapes[0]
        accepted, refused = self._placer.chain.regardless_of(shape, self._victims_shapes(), self._deadline)
        candidates = self._candidates(shape, refused)
        sums = VictimSums(self._table, self.units, self.planner.potential, shape, self._deadline)
        agree = self._priorities_agree()
        self._only_room = accepted.copy()
        accepted &= agree
        level = sums.levels(candidates, accepted)
        # No plan on a node violates fewer budgets, or has a lower highest priority, than its bound.
        bound, violations = level, np.zeros(len(level), np.int64)
        doubtful: list[int] = []
        exact = accepted & (level != NOT_ENOUGH)
        if self._budgets.names and exact.any():
            sparing = self._without_violating(sums, level, exact)
            if not (sparing.exact & (sparing.level == level[exact].min())).any():
                # If budgets matter on all nodes of the lowest priority, the other nodes count too.
                sums.excluded = None
                bound = sums.levels(candidates)
                sparing = self._without_violating(sums, bound, accepted & (bound != NOT_ENOUGH))
            doubtful = self._doubtful(sums, bound, sparing.level)
            level, violations, exact = sparing
        best, equal, planned = self._cheapest_by_sums(sums, level, exact)
        for row in doubtful:
            best, equal, planned = self._better(row, best, equal, planned)
        bound = np.where(agree | (bound == NOT_ENOUGH), bound, -SHIFT)
        bound[candidates & self._table.long] = -SHIFT
        left = (bound != NOT_ENOUGH) & ~exact
        left[doubtful] = False
        order = self._placer.chain.by_name()
        rows = order[left[order]]
        rows = rows[np.lexsort((bound[rows], violations[rows]))]
        if self.planner.dry_run.searches and len(rows) > _MAX_SEARCHED:
            rows = rows[self._promising(rows, bound, violations)]
        for row in rows.tolist():
            self._deadline.enforce()
            if best is not None and (violations[row], bound[row]) > (best.violations, best.highest):
                break
            best, equal, planned = self._better(row, best, equal, planned)
        return best, list(dict.fromkeys(equal)), planned

    def _promising(self, rows: Rows, bound: Int64s, violations: Int64s) -> Rows:
        """Return the positions of the nodes (ordered by bound) whose first plans are among the best.

        The search of a filter places the preemptor many times, so not every node is searched.
        """
        costs: list[tuple[Score, int]] = []
        least: Score | None = None
        for at, row in enumerate(rows.tolist()):
            self._deadline.enforce()
            if least is not None and (violations[row], bound[row]) > (least.violations, least.highest):
                break
            plan = self._plan_or_none(row, effort=0)
            if plan is not None:
                costs.append((plan.cost, at))
                least = plan.cost if least is None else min(least, plan.cost)
        costs.sort()
        # Equal plans are all kept, because names and recreated victims decide between them.
        last = costs[min(len(costs), _MAX_SEARCHED) - 1] if costs else None
        kept = [at for cost, at in costs if cost == least or (last is not None and (cost, at) <= last)]
        return np.array(sorted(kept), np.intp)

    def _doubtful(self, sums: VictimSums, bound: Int64s, level: Int64s) -> list[int]:
        """Return nodes where a search may find a plan without a violation that is better than the sums show.

        The sums charge the most important units to a budget first. A search may charge it for fewer pods.
        `bound` is the lowest sufficient priority by node, and `level` is that without the units which the
        sums exclude.
        """
        doubtful = level > bound
        if not self.planner.rules.least_harm or not doubtful.any():
            return []
        excluded, budgets, units = sums.excluded, self._budgets, self.units
        sums.exclude(np.flatnonzero(doubtful), lambda leads, _: budgets.violating_alone(leads, units))
        least = sums.levels(doubtful)
        sums.excluded = excluded
        order = self._placer.chain.by_name()
        rows = order[(least[order] < level[order]) & (least[order] <= level.min())]
        best: list[int] = rows[np.argsort(least[rows], kind="stable")][:_MAX_SEARCHED].tolist()
        return best

    def _better(
        self, row: int, best: Score | None, equal: list[int], planned: dict[int, DomainPlan]
    ) -> tuple[Score | None, list[int], dict[int, DomainPlan]]:
        """Plan on a node; return the least cost, its nodes and their plans, including that node."""
        plan = self._plan_or_none(row)
        if plan is None or (best is not None and best < plan.cost):
            return best, equal, planned
        if plan.cost != best:
            best, equal, planned = plan.cost, [], {}
        return best, [*equal, row], {**planned, row: plan}

    def _without_violating(self, sums: VictimSums, level: Int64s, nodes: Bools) -> "_NonViolating":
        """Return the plans on some nodes that violate no budget, which are sums as well."""
        none = np.zeros(len(level), np.int64)
        if self.planner.charge is not Charge.EVERY:
            return _NonViolating(level, none, nodes & ~self._may_violate(sums, nodes))
        units, budgets = self.units, self._budgets
        sums.exclude(np.flatnonzero(nodes), lambda leads, on: budgets.violating_on_nodes(leads, on, units))
        without = sums.levels(nodes)
        return _NonViolating(without, none + (nodes & (without == NOT_ENOUGH)), without != NOT_ENOUGH)

    def _cheapest_by_sums(
        self, sums: VictimSums, level: Int64s, exact: Bools
    ) -> tuple[Score | None, list[int], dict[int, DomainPlan]]:
        """Return the least cost among the nodes whose plans are sums, nodes that have it, and plans made.

        If one pod goes that loses no work, no node is searched: another node may have a later start.
        """
        if not exact.any():
            return None, [], {}
        lowest = int(level[exact].min())
        nodes = exact & (level == lowest)
        # By name, because a search of a few nodes takes the first of equal ones.
        order = self._placer.chain.by_name()
        lists = sums.lists(order[nodes[order]], sums.depth(nodes, lowest))
        if not self.planner.rules.least_harm:
            best, equal = sums.cheapest(lists, lowest, self.planner.now)
            return best, equal.tolist(), {}
        least, equal, sure = sums.least_harm(lists, lowest, self.planner.now)
        if sure:
            return least, equal.tolist(), {}
        return self._searched(sums, lists, lowest, least, equal)

    def _searched(
        self, sums: VictimSums, lists: VictimLists, level: int, least: Harm, equal: Rows
    ) -> tuple[Score | None, list[int], dict[int, DomainPlan]]:
        """Search the nodes that may have less harm than sums show; return what `_cheapest_by_sums` does."""
        fewest = sums.fewest(lists, level)
        order = np.argsort(fewest, kind="stable")
        if not least.levels[0].work:
            order = order[fewest[order] <= least.levels[0].pods]
        at_least = np.flatnonzero(np.isin(lists.nodes, equal))
        likely = list(dict.fromkeys([*at_least[:_MAX_SEARCHED], *order[:_MAX_SEARCHED]]))
        best: Score | None = None
        nodes: list[int] = []
        planned: dict[int, DomainPlan] = {}
        possible = sums.least_possible(lists, likely, level, fewest[likely], self.planner.now)
        for at, harm in zip(likely, possible, strict=True):
            if harm is None or harm < least or (harm == least and at not in at_least):
                best, nodes, planned = self._better(int(lists.nodes[at]), best, nodes, planned)
        if best is None or least < best:
            return least, equal.tolist(), {}
        if best == least:
            nodes = list(dict.fromkeys([*equal.tolist(), *nodes]))
        return best, nodes, planned

    def _candidates(self, shape: Shape, refused: Bools) -> Bools:
        """Return the nodes where preemption may help: only other pods keep the preemptor out."""
        static = self._placer.chain.static(shape) & ~refused
        return static & (self._table.pod_count > 0)

    def _victims_shapes(self) -> list[Shape]:
        """Return the shapes of the potential victims."""
        if self.planner.dry_run.plain:
            return []
        lead = self.units.lead
        ids = self._snapshot.shape[self.planner.potential[lead] & (lead != NO_UNIT)]
        if not len(ids):
            return []
        # Marks are faster than sorting, and ids are consecutive.
        first = int(ids.min())
        met = np.zeros(int(ids.max()) - first + 1, np.bool_)
        met[ids - first] = True
        shapes = self._snapshot.shapes
        return [shapes[first + offset] for offset in np.flatnonzero(met).tolist()]

    def _may_violate(self, sums: VictimSums, nodes: Bools) -> Bools:
        """Return on which of these nodes a budget may be violated.

        A unit of several pods is also charged for its pods on other nodes. So each such unit that a budget
        counts is a risk.
        """
        risky = np.zeros(len(nodes), np.bool_)
        rows = np.flatnonzero(nodes)
        if not len(rows) or not self._budgets.names:
            return risky
        pods = self._table.pods[:, rows]
        charged = pods[sums.lists(rows, len(pods)).potential].astype(np.intp)
        risky[self._budgets.may_violate(charged, self.units.node[charged])] = True
        several = charged[self.units.size[self.units.lead[charged]] > 1]
        members = self.units.all_members(np.unique(self.units.lead[several]).astype(np.intp))
        counted = np.zeros(len(self.units.lead), np.bool_)
        counted[self.units.lead[members[self._budgets.charged(members)]]] = True
        risky[self.units.node[several[counted[self.units.lead[several]]]]] = True
        return risky

    def _priorities_agree(self) -> bool:
        """Return whether costs and units use the same priorities; kube-scheduler's may differ."""
        units = self.units
        if self.planner.rules.least_harm or not units.rule.grouped:
            return True
        rows = np.flatnonzero(units.lead != NO_UNIT)
        return bool((units.priority[units.lead[rows]] == self._snapshot.priority[rows]).all())

    def _plan_or_none(self, row: int, effort: int | None = None) -> DomainPlan | None:
        only_room = bool(self._only_room[row])
        return self.planner.plan(self._domain(row), self._leads_on(row), only_room=only_room, effort=effort)

    def _plan_node(self, row: int) -> DomainPlan:
        plan = self._plan_or_none(row)
        assert plan is not None, "a node that was chosen has a plan"
        return plan

    def _domain(self, row: int) -> Domain:
        return Domain(self._snapshot.node_name(row), node=row)

    def _leads_on(self, row: int) -> Rows:
        leads = self.units.on_node(row)
        return leads[self.planner.potential[leads]]

    def _counts_cascades(self) -> bool:
        """Return whether a recreated victim could preempt: potential victims must differ in priority."""
        if not self.planner.rules.counts_cascades:
            return False
        worth = self.units.priority[self.planner.potential]
        return bool(len(worth)) and bool(worth.min() < worth.max())

    def _fewest_in_turn(self, plans: list[DomainPlan]) -> DomainPlan:
        """Return the plan whose recreated victims would preempt the fewest pods; of equals, the first."""
        best, least = plans[0], self._preempted_in_turn(plans[0], NOT_ENOUGH)
        for plan in plans[1:]:
            if not least:
                break
            pods = self._preempted_in_turn(plan, least)
            if pods < least:
                best, least = plan, pods
        return best

    def _preempted_in_turn(self, plan: DomainPlan, most: int) -> int:
        """Return how many pods the recreated victims would preempt, one preemption deep.

        It counts up to `most`, because a plan with as many is no better.
        """
        units, snapshot = self.units, self._snapshot
        pods = 0
        with snapshot.trial():
            snapshot.remove_many(units.all_members(plan.victims))
            for row, node in plan.placed.items():
                snapshot.assume(row, node)
            for lead in plan.victims.tolist():
                self._deadline.enforce()
                if pods >= most:
                    break
                rows = tuple(units.members(lead).tolist())
                if any(snapshot.shape_at(row).missing for row in rows):
                    # Such a pod cannot be placed here, and preempts nothing.
                    continue
                with snapshot.trial() as kept:
                    if len(self._placer.place_many(rows, deadline=self._deadline)) == len(rows):
                        kept.commit()
                        continue
                if units.core.item(lead) != NO_UNIT:
                    # A recreated member above minCount preempts nothing.
                    continue
                recreated_victim = PreemptorPods(
                    rows, len(rows), units.priority.item(lead), group=len(rows) > 1
                )
                chooser = self._recreated(recreated_victim)
                best = chooser.cost()
                pods += best.pods if best is not None else 0
        return pods

    def cost(self) -> Score | None:
        """Return the cost of the cheapest plan without making it; None if there is no plan."""
        if self.planner.dry_run.preemptor.group:
            chosen = self.in_cluster()
            return None if chosen is None else chosen.plan.cost
        return self._compare_nodes()[0]


# The number of domains that are searched at length. In others the first reprieve is the plan.
_SEARCHED = 4


class DomainBound(NamedTuple):
    """The least that a plan in a domain costs: the priority (`level`) up to which units have to leave.

    `step` is the position of the domain's level among those of the group.
    """

    domain: Domain
    level: int
    step: int


class _DomainPlanned(NamedTuple):
    bound: DomainBound
    plan: DomainPlan


def _cost(planned: _DomainPlanned) -> tuple[Score, int]:
    """Return what plans are compared by; a preference never costs another workload anything."""
    return planned.plan.cost, planned.bound.step


def _is_beyond(bound: DomainBound, best: Score) -> bool:
    """Return whether no plan of a domain is as good as the best one; without victims there is no highest."""
    return best.highest is None or (0, bound.level) > (best.violations, best.highest)


class DomainChooser:
    """Chooses among the domains of a search; the planner's snapshot is without leaving pods."""

    def __init__(self, planner: DomainPlanner, search: DomainSearch) -> None:
        """`planner` plans for the group that the search is for."""
        self._planner = planner
        self._search = search
        self._units = planner.units
        self._potential = np.flatnonzero(planner.potential)

    def choose(self) -> Chosen | None:
        """Return the plan in the best domain, with the domains of equal cost; None without a plan."""
        rules, constrained = self._planner.rules, self._search.levels[-1].topology is not None
        if rules.least_harm:
            plans = self.ranked()
            ties = tuple(plan.domain.name for plan in plans if plan.cost == plans[0].cost)
            return Chosen(plans[0], ties) if plans else None
        if constrained and rules.clears_domains:
            return self._as_placed()
        plan = None if constrained else self._planner.in_cluster()
        return None if plan is None else Chosen(plan, (CLUSTER.name,))

    def ranked(self) -> list[DomainPlan]:
        """Return the plans under `kep`, the best first: by harm, of equal ones by level, then by packing.

        Domains are left out whose plans cannot be the best one.
        """
        if len(self._search.levels) == 1 and self._search.levels[0].topology is None:
            plan = self._planned_in(CLUSTER, EFFORT)
            return [] if plan is None else [plan]
        plans: list[_DomainPlanned] = []
        bounds = self.bounds()
        effort = EFFORT if len(bounds) <= _SEARCHED else 0
        for bound in bounds:
            best = min((planned.plan.cost for planned in plans), default=None)
            if best is not None and _is_beyond(bound, best):
                break
            plan = self._planned_in(bound.domain, effort)
            if plan is not None:
                plans.append(_DomainPlanned(bound, plan))
        plans.sort(key=_cost)
        if effort < EFFORT:
            searched = [
                planned._replace(plan=self._planned_in(planned.bound.domain, EFFORT) or planned.plan)
                for planned in plans[:_SEARCHED]
            ]
            plans = sorted([*searched, *plans[_SEARCHED:]], key=_cost)
        return [planned.plan for planned in plans]

    def bounds(self) -> list[DomainBound]:
        """Return the domains where all potential victims make room enough, the cheapest first."""
        bounds = (bound for at, level in enumerate(self._search.levels) for bound in self._bounds(at, level))
        return sorted(bounds, key=lambda bound: (bound.level, bound.step))

    def _bounds(self, step: int, level: DomainLevel) -> list[DomainBound]:
        """Return the domains of a level where all potential victims make room enough."""
        topology, kinds = level.topology, level.kinds
        lowest = int(self._units.priority[self._potential].min(initial=0))
        if topology is None:
            return [DomainBound(CLUSTER, lowest, step)]
        order = level.by_packing()
        levels = dict.fromkeys(order, lowest) if kinds is None else self._levels(level, topology, kinds)
        return [
            DomainBound(topology.domain(number), levels[number], step) for number in order if number in levels
        ]

    def _planned_in(self, domain: Domain, effort: int) -> DomainPlan | None:
        return self._planner.plan(domain, self._leads_in(domain), effort=effort)

    def _as_placed(self) -> Chosen | None:
        """Return kube-scheduler's plan: its domain is the best one for the room of all victims."""
        planner, dry_run = self._planner, self._planner.dry_run
        if not len(self._potential):
            return None
        with planner.cleared():
            located = self._search.first(
                lambda: (dry_run.try_place(), None), dry_run.preemptor.nominated.values()
            )
        if located.placed is None:
            return None
        plan = planner.plan(located.domain, self._potential)
        return None if plan is None else Chosen(plan, located.candidates or (located.domain.name,))

    def _leads_in(self, domain: Domain) -> Rows:
        """Return the potential victims that may matter in a domain.

        If only room decides, these have a pod there.
        """
        allowed = self._search.limit if domain.nodes is None else domain.nodes
        if not self._planner.dry_run.plain or allowed is None:
            return self._potential
        owners, nodes = self._victim_pods
        inside: Rows = np.unique(owners[allowed[nodes]]).astype(np.intp)
        return self._potential[inside]

    @cached_property
    def _victim_pods(self) -> tuple[Rows, Int32s]:
        """The pods of the potential victims: positions of their units, and node rows."""
        owners = np.repeat(np.arange(len(self._potential)), self._units.size[self._potential])
        return owners, self._units.node[self._units.all_members(self._potential)]

    def _levels(self, level: DomainLevel, topology: Topology, pods: PodKinds) -> dict[int, int]:
        """Return the lowest sufficient priority by domain, without domains where all units are too few."""
        pool = pool_of(self._units, self._potential, pods)
        priority, domains = self._units.priority[pool.leads][pool.owner], topology.of[pods.nodes][pool.node]
        levels = np.unique(priority)

        def enough(most: Int64s) -> Bools:
            """Return which domains have room without the units up to a position in `levels`, by domain."""
            gone = (domains >= 0) & (priority <= levels[most[domains]])
            left = [free.copy() for free in pool.free]
            for room, amounts in zip(left, pool.amounts, strict=True):
                np.add.at(room, pool.node[gone], amounts[gone])
            members = level.room(left)
            assert members is not None, "there are few kinds of pods"
            return np.asarray(members >= sum(kind.number for kind in pods.kinds))

        if not len(levels) or not topology.size:
            return {}
        low = np.zeros(topology.size, np.int64)
        high = np.full(topology.size, len(levels) - 1, np.int64)
        possible = enough(high)
        while (low < high).any():
            middle = (low + high) // 2
            fits = enough(middle)
            high = np.where(fits, middle, high)
            low = np.where(fits, low, np.minimum(middle + 1, high))
        return {number: int(levels[high[number]]) for number in np.flatnonzero(possible).tolist()}
