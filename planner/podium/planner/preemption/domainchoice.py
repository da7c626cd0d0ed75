"""Chooses the topology domain that is cheapest to clear for a group.

Under `kep` the plans of all domains are compared by harm, then by packing, then by the size of the domain. So
no pod is evicted for a domain that is only preferred, if a wider one needs less. A plan takes milliseconds,
and a cluster may have hundreds of domains. So a bound comes first: the lowest priority up to which all units
must leave before the sums of a domain are large enough. It is computed for all domains at once. Domains are
planned in the order of their bounds, without a search, until no bound is below the best plan. Only the few
best plans are searched at length.

kube-scheduler 1.37 removes all units of lower priority and chooses a domain by its scores for placement,
whatever the victims there. Its 1.36 release preempts for no group with a topology constraint.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.preemption.capacity import PodKinds
from podium.planner.preemption.choice import Chosen
from podium.planner.preemption.domain import DomainPlan, DomainPlanner, Score
from podium.planner.preemption.domainsearch import DomainLevel, DomainSearch
from podium.planner.preemption.leastharm import pool_of
from podium.planner.preemption.search import EFFORT
from podium.planner.preemption.topology import CLUSTER, Domain, Topology

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
