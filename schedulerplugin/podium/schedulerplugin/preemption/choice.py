"""Which domain to preempt in: the cheapest plan of all, found without making every one.

A pod has a plan for each node. Their costs are compared as kube-scheduler compares them (fewest budgets
violated, lowest priority lost, least in sum, fewest pods, latest start); among equals, where the spec asks
for it, the plan whose victims would preempt least if they were made again; and last the smallest name, so
the answer is the same for the same cluster.

A bound on the first two steps costs a few sums for all nodes together. So nodes are planned in the order of
their bounds, those that need no more than sums all at once, until no bound is below the best plan.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.placement import Placer
from podium.schedulerplugin.preemption.budgets import BudgetIndex, Charge
from podium.schedulerplugin.preemption.domain import SHIFT, DomainPlanner, Found, Score
from podium.schedulerplugin.preemption.harm import Harm
from podium.schedulerplugin.preemption.nodes import NOT_ENOUGH, Lists, NodeTable, Sums
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.stage import Domain, Preemptor
from podium.schedulerplugin.preemption.units import NO_UNIT
from podium.schedulerplugin.shapes import Shape

# Of plans that cost the same, so many are looked at for what their victims would do next.
FORESIGHT = 8
# So many nodes are searched for a plan of less harm than sums along their pods show.
_SEARCHED = 8


class Chosen(NamedTuple):
    """The plan to carry out, and the nodes (or domains) whose plans cost the same by the five steps.

    `then` are the rows of those that pods alike would be given next, one each, while no other node changes.
    """

    found: Found
    ties: tuple[str, ...]
    then: tuple[int, ...] = ()


class _Lawful(NamedTuple):
    """Plans by node that violate no budget, those who would violate one staying where they are.

    `level` is their lowest priority, `violations` the fewest of any plan, `safe` where sums are exact.
    """

    level: Int64s
    violations: Int64s
    safe: Bools


class Chooser:
    """Chooses among domains for one preemptor; see DomainPlanner for the state the snapshot is in.

    `again(preemptor)` gives a planner for a victim that would preempt in its turn.
    """

    def __init__(
        self,
        planner: DomainPlanner,
        placer: Placer,
        table: NodeTable,
        budgets: BudgetIndex,
        *,
        again: Callable[[Preemptor], "Chooser"],
    ) -> None:
        self.planner = planner
        self.units = planner.units
        self._deadline = planner.stage.deadline
        self._placer = placer
        self._table = table
        self._budgets = budgets
        self._again = again
        self._snapshot = placer.snapshot
        # Where nothing but room can refuse the pod, whoever goes.
        self._only_room: Bools = np.zeros(0, np.bool_)

    def among(self, domains: list[Domain]) -> Chosen | None:
        """Choose among domains of several nodes, for a group; None where there is no plan in any."""
        made = (self.planner.plan(domain, self._leads_in(domain)) for domain in domains)
        found = [plan for plan in made if plan is not None]
        if not found:
            return None
        best = min(plan.cost for plan in found)
        equal = sorted((plan for plan in found if plan.cost == best), key=lambda plan: plan.domain.name)
        chosen = self._gentlest(equal) if len(equal) > 1 else equal[0]
        return Chosen(chosen, tuple(plan.domain.name for plan in equal))

    def node(self) -> Chosen | None:
        """Choose a node for the pod; None where preemption helps on none."""
        best, equal, made = self._cheapest()
        if best is None:
            return None
        names = self._snapshot.names
        equal.sort(key=lambda row: names[row] or "")
        ties = tuple(names[row] or "" for row in equal)
        if len(equal) == 1 or not self._looks_ahead():
            return Chosen(made.get(equal[0]) or self._plan(equal[0]), ties, tuple(equal[1:]))
        plans = [made.get(row) or self._plan(row) for row in equal[:FORESIGHT]]
        return Chosen(self._gentlest(plans), ties)

    def next(self, before: Chosen) -> Chosen | None:
        """Choose for a pod like that of `before`, since when nothing but the node chosen then has changed.

        Only room may refuse such pods. None where all nodes have to be looked at: the node chosen then might
        do for both, or the next plan does not cost the same any more.
        """
        node = before.found.domain.node
        if node is None or not before.then or self._may_hold_both(node):
            return None
        row, *then = before.then
        found = self.planner.plan(self._domain(row), self._leads_on(row), only_room=True)
        if found is None or found.cost != before.found.cost:
            return None
        return Chosen(found, before.ties[1:], tuple(then))

    def _may_hold_both(self, node: int) -> bool:
        """Say whether two pods like the preemptor would fit on a node if all went that may, or do go."""
        units, snapshot = self.units, self._snapshot
        on = snapshot.pods_on(node)
        leads = units.lead[on]
        going = on[units.going(self.planner.now)[on] | ((leads != NO_UNIT) & self.planner.potential[leads])]
        return all(
            snapshot.allocatable[at].item(node)
            - snapshot.used[at].item(node)
            + int(snapshot.requests[at][going].sum())
            >= 2 * amount
            for at, amount in (
                (snapshot.resource[name], amount) for name, amount in self.planner.stage.shapes[0].requests
            )
        )

    def _cheapest(self) -> tuple[Score | None, list[int], dict[int, Found]]:
        """Give the least cost, the nodes whose plans have it, and those of the plans that had to be made."""
        shape = self.planner.stage.shapes[0]
        accepted, refused = self._placer.chain.settled(shape, self._victims_shapes(), self._deadline)
        candidates = self._candidates(shape, refused)
        sums = Sums(self._table, self.units, self.planner.potential, shape, self._deadline)
        agree = self._integers_agree()
        self._only_room = accepted.copy()
        accepted &= agree
        level = sums.levels(candidates, accepted)
        # No plan on a node violates fewer budgets, or takes less in priority, than its bound.
        bound, violations = level, np.zeros(len(level), np.int64)
        safe = accepted & (level != NOT_ENOUGH)
        if self._budgets.names and safe.any():
            found = self._without_violating(sums, level, safe)
            if not (found.safe & (found.level == level[safe].min())).any():
                # Where a budget is in play on all of the lowest, the others are of use too.
                sums.barred = None
                bound = sums.levels(candidates)
                found = self._without_violating(sums, bound, accepted & (bound != NOT_ENOUGH))
            level, violations, safe = found
        best, equal, made = self._by_sums(sums, level, safe)
        bound = np.where(agree | (bound == NOT_ENOUGH), bound, -SHIFT)
        bound[candidates & self._table.long] = -SHIFT
        rows = np.flatnonzero((bound != NOT_ENOUGH) & ~safe)
        for row in rows[np.lexsort((bound[rows], violations[rows]))].tolist():
            self._deadline.check()
            if best is not None and (violations[row], bound[row]) > (best.violations, best.highest):
                break
            best, equal, made = self._better(row, best, equal, made)
        return best, equal, made

    def _better(
        self, row: int, best: Score | None, equal: list[int], made: dict[int, Found]
    ) -> tuple[Score | None, list[int], dict[int, Found]]:
        """Plan on a node; give the least cost, its nodes and their plans with that node among them."""
        plan = self._attempt(row)
        if plan is None or (best is not None and best < plan.cost):
            return best, equal, made
        if plan.cost != best:
            best, equal, made = plan.cost, [], {}
        return best, [*equal, row], {**made, row: plan}

    def _without_violating(self, sums: Sums, level: Int64s, nodes: Bools) -> "_Lawful":
        """Look on some nodes for plans that violate no budget, which are sums as well."""
        none = np.zeros(len(level), np.int64)
        if self.planner.charge is not Charge.EVERY:
            return _Lawful(level, none, nodes & ~self._risky(sums, nodes))
        units, budgets = self.units, self._budgets
        sums.bar(np.flatnonzero(nodes), lambda leads, on: budgets.violating_on_nodes(leads, on, units))
        without = sums.levels(nodes)
        return _Lawful(without, none + (nodes & (without == NOT_ENOUGH)), without != NOT_ENOUGH)

    def _by_sums(
        self, sums: Sums, level: Int64s, safe: Bools
    ) -> tuple[Score | None, list[int], dict[int, Found]]:
        """Return the least cost among the nodes whose plans are sums, nodes that have it, and plans made.

        If one pod goes that loses no work, no node is searched: another node may have a later start.
        """
        if not safe.any():
            return None, [], {}
        lowest = int(level[safe].min())
        nodes = safe & (level == lowest)
        lists = sums.lists(np.flatnonzero(nodes), sums.depth(nodes, lowest))
        if self.planner.semantics is not Semantics.KEP:
            best, equal = sums.cheapest(lists, lowest, self.planner.now)
            return best, equal.tolist(), {}
        least, equal, sure = sums.least_harm(lists, lowest, self.planner.now)
        if sure:
            return least, equal.tolist(), {}
        return self._searched(sums, lists, lowest, least, equal)

    def _searched(
        self, sums: Sums, lists: Lists, level: int, least: Harm, equal: Rows
    ) -> tuple[Score | None, list[int], dict[int, Found]]:
        """Search the nodes that may have a plan of less harm than sums show; give what `_by_sums` gives."""
        fewest = sums.fewest(lists, level)
        order = np.argsort(fewest, kind="stable")
        if not least.levels[0].work:
            order = order[fewest[order] <= least.levels[0].units]
        likely = list(dict.fromkeys([*equal[:_SEARCHED].tolist(), *lists.nodes[order[:_SEARCHED]].tolist()]))
        best: Score | None = None
        nodes: list[int] = []
        made: dict[int, Found] = {}
        for row in likely:
            best, nodes, made = self._better(row, best, nodes, made)
        if best is None or least < best:
            return least, equal.tolist(), {}
        if best == least:
            nodes = list(dict.fromkeys([*equal.tolist(), *nodes]))
        return best, nodes, made

    def _candidates(self, shape: Shape, refused: Bools) -> Bools:
        """Give the nodes where taking pods away may help: nothing but other pods keeps the preemptor out."""
        static = self._placer.chain.static(shape) & ~refused
        return static & (self._table.held > 0)

    def _victims_shapes(self) -> list[Shape]:
        """Give the shapes of the pods that may be taken."""
        if self.planner.stage.plain:
            return []
        lead = self.units.lead
        ids = self._snapshot.shape[self.planner.potential[lead] & (lead != NO_UNIT)]
        if not len(ids):
            return []
        # Marks are quicker than sorting, and ids are given out one after the other.
        first = int(ids.min())
        met = np.zeros(int(ids.max()) - first + 1, np.bool_)
        met[ids - first] = True
        shapes = self._snapshot.shapes
        return [shapes[first + each] for each in np.flatnonzero(met).tolist()]

    def _risky(self, sums: Sums, nodes: Bools) -> Bools:
        """Say on which of these nodes a budget may be violated.

        A unit of several pods charges for those elsewhere too: one that any budget counts is a risk.
        """
        risky = np.zeros(len(nodes), np.bool_)
        rows = np.flatnonzero(nodes)
        if not len(rows) or not self._budgets.names:
            return risky
        pods = self._table.pods[:, rows]
        charged = pods[sums.lists(rows, len(pods)).may].astype(np.intp)
        risky[self._budgets.may_violate(charged, self.units.at[charged])] = True
        several = charged[self.units.size[self.units.lead[charged]] > 1]
        members = self.units.all_members(np.unique(self.units.lead[several]).astype(np.intp))
        counted = np.zeros(len(self.units.lead), np.bool_)
        counted[self.units.lead[members[self._budgets.charged(members)]]] = True
        risky[self.units.at[several[counted[self.units.lead[several]]]]] = True
        return risky

    def _integers_agree(self) -> bool:
        """Say whether costs and units look at the same integers, as they do but in kube-scheduler 1.37."""
        units = self.units
        if units.rule.guarded or not units.rule.member_priority:
            return True
        rows = np.flatnonzero(units.lead != NO_UNIT)
        return bool((units.priority[units.lead[rows]] == self._snapshot.priority[rows]).all())

    def _attempt(self, row: int) -> Found | None:
        only_room = bool(self._only_room[row])
        return self.planner.plan(self._domain(row), self._leads_on(row), only_room=only_room)

    def _plan(self, row: int) -> Found:
        plan = self._attempt(row)
        assert plan is not None, "a node that was chosen has a plan"
        return plan

    def _domain(self, row: int) -> Domain:
        return Domain(self._snapshot.names[row] or "", node=row)

    def _leads_on(self, row: int) -> Rows:
        leads = self.units.on_node(row)
        return leads[self.planner.potential[leads]]

    def _leads_in(self, domain: Domain) -> Rows:
        units = self.units
        if domain.within is None:
            return np.flatnonzero(self.planner.potential)
        rows = np.flatnonzero(units.lead != NO_UNIT)
        leads = np.unique(units.lead[rows[domain.within[units.at[rows]]]]).astype(np.intp)
        return leads[self.planner.potential[leads]]

    def _looks_ahead(self) -> bool:
        """Say whether a victim could preempt in its turn: somebody must be worth less than another victim."""
        if self.planner.semantics is not Semantics.KEP:
            return False
        worth = self.units.priority[self.planner.potential]
        return bool(len(worth)) and bool(worth.min() < worth.max())

    def _gentlest(self, plans: list[Found]) -> Found:
        """Give the plan whose victims would preempt the fewest pods, of equals the first."""
        best, least = plans[0], self._cascade(plans[0], NOT_ENOUGH)
        for plan in plans[1:]:
            if not least:
                break
            pods = self._cascade(plan, least)
            if pods < least:
                best, least = plan, pods
        return best

    def _cascade(self, found: Found, most: int) -> int:
        """Count the pods that the victims would preempt if they were made again, one preemption deep.

        It counts up to `most`: a plan that comes to as many is no better.
        """
        units, snapshot = self.units, self._snapshot
        pods = 0
        with snapshot.trial():
            snapshot.lift_many(units.all_members(found.victims))
            for row, node in found.placed.items():
                snapshot.assume(row, node)
            for lead in found.victims.tolist():
                self._deadline.check()
                if pods >= most:
                    break
                rows = tuple(units.members(lead).tolist())
                with snapshot.trial() as kept:
                    if len(self._placer.place_many(rows, deadline=self._deadline)) == len(rows):
                        kept.keep()
                        continue
                if units.core.item(lead) != NO_UNIT:
                    # A member above minCount preempts nothing when it is made again.
                    continue
                made_again = Preemptor(rows, len(rows), units.priority.item(lead), group=len(rows) > 1)
                chooser = self._again(made_again)
                best = chooser.cost()
                pods += best.pods if best is not None else 0
        return pods

    def cost(self) -> Score | None:
        """Give what the cheapest plan costs, without making it; None where there is none."""
        if self.planner.stage.preemptor.group:
            chosen = self.among([Domain("cluster")])
            return None if chosen is None else chosen.found.cost
        return self._cheapest()[0]
