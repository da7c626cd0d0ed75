"""Chooses the node to preempt on: the one with the cheapest plan, without making a plan for each.

A pod has a plan for each node. Plans are compared by harm under `kep`, and by the five steps of
kube-scheduler under the rules of its releases. Under `kep`, of equal plans the best is the one whose
recreated victims would preempt the fewest pods. At last the smallest name decides, so the answer is the same
for the same cluster.

A bound on the first two steps costs a few sums for all nodes together. So nodes are planned in the order of
their bounds, until no bound is below the best plan. Nodes whose plans are sums are planned all at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.placement import Placer
from podium.planner.preemption.budgets import BudgetIndex
from podium.planner.preemption.domain import SHIFT, DomainPlan, DomainPlanner, Score
from podium.planner.preemption.harm import Harm
from podium.planner.preemption.nodes import NOT_ENOUGH, NodeTable, VictimLists, VictimSums
from podium.planner.preemption.target import PreemptorPods
from podium.planner.preemption.topology import CLUSTER, Domain
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
