"""Decides for one preemptor: it fits now, on the room of leaving pods, after preemption, or not at all.

Reading order, from a pending pod to a plan:

1. `engine.Engine.decide` is the entry. `target` determines which pods to place, or why they cannot be placed.
2. `Decider.decide` tries to place them (`targetplacement`, `filters.chain`): on free room, then on leaving
   pods' room.
3. `choice.Chooser` compares the nodes for a pod (`nodes` has the sums). For equal pods that are planned at
   once (`decide_alike`) the cluster is the only domain. For a group with a topology constraint
   `domainsearch` tries the domains, and `choice` compares them.
4. `domain.DomainPlanner` plans in one domain, on units (`units`) that nothing protects.
5. `leastharm` finds the victims under `kep` (`search`); `dry_run` tries placements and reprieves on the
   snapshot.
6. `decision.Decision` is the result, in rows of the snapshot; `explain` makes it an `outcome.Plan` of names.

The engine has begun a trial of the snapshot, in which nominated pods count on their nodes.
"""

import itertools
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Rows
from podium.planner.deadline import Deadline
from podium.planner.filters.chain import Refusals
from podium.planner.overlay import REMOVED
from podium.planner.preemption.choice import Chooser, Chosen, DomainChooser
from podium.planner.preemption.decision import (
    Decision,
    Obstacles,
    combined,
    obstacles_without_victims,
    pod_obstacles,
)
from podium.planner.preemption.domain import DomainPlan
from podium.planner.preemption.domainsearch import DomainSearch, Located
from podium.planner.preemption.inflight import is_preempted
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.target import PlacementTarget, PreemptorPods
from podium.planner.preemption.targetplacement import TargetPlacer
from podium.planner.preemption.topology import CLUSTER, Domain
from podium.planner.preemption.units import Units
from podium.planner.settings import Budgets

# kube-scheduler's words.
TERMINATING_ON_NODE = "not eligible due to a terminating pod on the nominated node."

# The most different pods of a target that are checked for one that suits no node.
_MOST_SHAPES = 16

_PLACED = (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION)


class DomainRoom(NamedTuple):
    """A topology domain by `number`, and for how many needed members it has room: now, and at most.

    `most` is without all units that may be evicted. Both are None if the pods are of too many kinds.
    `chosen` says that all placed pods are there.
    """

    number: int
    key: str
    name: str
    nodes: int
    chosen: bool
    free: int | None
    most: int | None


class Decider:
    """Decides for the pods of a group, or a lone pod, at `now` (seconds); `units` may be victims."""

    def __init__(
        self, engine: PlanningState, units: Units, now: int, deadline: Deadline, only: int | None = None
    ) -> None:
        """`only` is the number of the one topology domain that may be used; None for any."""
        self._engine = engine
        self._deadline = deadline
        self._units = units
        self._now = now
        self._snapshot = engine.snapshot
        self._placer = engine.placer
        self._rules = engine.settings.semantics.rules
        self._targets = TargetPlacer(engine.placer, engine.settings.semantics, deadline, only)

    def decide(self, target: PlacementTarget, *, known_not_to_fit: bool = False) -> Decision:
        """Return the decision for pods that are placed together; `known_not_to_fit`: a cached fact.

        Under `kep` it is for all desired pods if these can be placed, else for the needed ones.
        """
        if self._rules.needed_only and target.desired > target.needed:
            with self._snapshot.trial():
                decision = self._decide(target.whole)
            if decision.outcome in _PLACED:
                return decision._replace(target=target)
        return self._decide(target, known_not_to_fit=known_not_to_fit)

    def domains(self, target: PlacementTarget, placed: Collection[int]) -> list[DomainRoom]:
        """Return the topology domains for a group and their room, those that are used most first.

        `placed` are the node rows that were chosen.
        """
        level = self._targets.search(target).levels[0]
        topology, snapshot = level.topology, self._snapshot
        if topology is None:
            return []
        order, free = level.by_packing(), level.room()
        with snapshot.trial():
            snapshot.remove_many(self._leaving())
            planner = self._chooser(target).planner
            planner.dry_run.remove(np.flatnonzero(planner.potential))
            most = level.room()
        used = set(topology.counts(np.array(list(placed), np.intp)))
        return [
            DomainRoom(
                *(number, topology.keys[-1], topology.name(number), topology.nodes.item(number)),
                used == {number},
                None if free is None else free.item(number),
                None if most is None else most.item(number),
            )
            for number in order
        ]

    def decide_alike(self, target: PlacementTarget) -> Decision:
        """Return the decision for the first of equal lone pods, and for all that it is the decision for.

        The rows of its target are these pods.
        """
        with self._snapshot.trial():
            placed = self._place_alike(target)
        if placed:
            return Decision(Outcome.FITS, target._replace(rows=tuple(placed)), placed)
        decision = self._decide(target._replace(rows=target.rows[:1]))
        if decision.chosen is not None:
            return self._preempt_together(target, decision)
        if decision.placed and decision.refusals is not None and self._rules.leaving_free:
            # The leaving pods are removed.
            with self._snapshot.trial():
                placed = self._place_alike(target)
            return self._without_victims(target._replace(rows=tuple(placed)), placed, decision.refusals)
        return decision

    def _place_alike(self, target: PlacementTarget) -> dict[int, int]:
        """Place equal pods up to the first that does not fit."""
        return self._placer.place_many(target.rows, enough=len(target.rows), deadline=self._deadline)

    def _preempt_together(self, target: PlacementTarget, first: Decision) -> Decision:
        """Return the preemption for as many equal lone pods as preemption makes room for.

        It is that for the `first` if more than room can refuse the pods, or strict budgets, and under the
        rules of kube-scheduler's releases.
        """
        chooser = self._chooser(target)
        dry_run, strict = chooser.planner.dry_run, self._engine.settings.budgets is Budgets.STRICT
        if not dry_run.monotone or not self._rules.least_harm or strict:
            return first
        with self._snapshot.trial():
            dry_run.remove(np.flatnonzero(chooser.planner.potential))
            number = min(dry_run.room(), len(target.rows))
        target = target._replace(rows=target.rows[:number], needed=number)
        chosen = self._chooser(target).in_cluster()
        if chosen is None:
            return first
        return first._replace(target=target, placed=chosen.plan.placed, chosen=chosen)

    def _chooser(self, target: PlacementTarget, nominated: Mapping[int, int] = {}) -> Chooser:
        preemptor = PreemptorPods(
            *(target.rows, target.needed, target.priority, self._engine.as_group(target)),
            *(nominated, target.slices),
            tree=target if target.parts else None,
        )
        return self._engine.chooser(preemptor, self._now, self._deadline)

    def _decide(self, target: PlacementTarget, *, known_not_to_fit: bool = False) -> Decision:
        rules = self._rules
        search = self._targets.search(target)
        error = search.error or self._error_of_parts(target)
        if error:
            return Decision(Outcome.NOT_ELIGIBLE, target, {}, why=error)
        nominated = self._nominated_nodes(target.rows)
        # Under `kep` the pods may take a better node than the nominated one; kube-scheduler looks for none.
        if known_not_to_fit:
            located = Located(CLUSTER, None, self._targets.refusals(target.rows[0]))
        else:
            located = self._targets.place(search, nominated if rules.nominated_first else {})
        placed, refusals = located.placed, located.refusals
        if placed is None and nominated and not rules.nominated_first:
            placed = self._targets.place_nominated(search, nominated)
        if placed is not None:
            chance = rules.limits_domains
            choices = self._targets.random_choices(target, located, nominated) if chance else ()
            return Decision(Outcome.FITS, target, placed, choices=choices)
        assert refusals is not None, "what finds no place is refused"
        leaving = self._leaving()
        if rules.leaving_free and len(leaving):
            self._snapshot.remove_many(leaving)
            placed = self._targets.place_nominated(search, nominated)
            if placed is None and nominated:
                placed = self._targets.place_nominated(search, {})
            if placed is not None:
                return self._without_victims(target, placed, refusals)
        if rules.frees_claims and (why := self._awaits(search)):
            return self._ineligible(target, search, refusals, why)
        grouped = self._engine.as_group(target)
        if target.preemption_barred and not (grouped and rules.waits_first):
            return self._ineligible(target, search, refusals, target.preemption_barred)
        if not rules.leaving_free and self._waits_for_victims(target):
            return self._decide_waiting(target, search, refusals)
        if target.preemption_barred:
            return self._ineligible(target, search, refusals, target.preemption_barred)
        chooser = self._chooser(target, nominated if rules.nominated_first else {})
        chosen = DomainChooser(chooser.planner, search).choose() if grouped else chooser.best_node()
        if chosen is None:
            return self._does_not_fit(target, search, refusals, chooser)
        # kube-scheduler nominates the members that it placed before it chose the victims, and no others.
        placed = chosen.plan.placed
        if rules.needed_only:
            placed = self._targets.place_rest(target, chosen.plan, self._units)
        if not len(chosen.plan.victims):
            # Pods of several shapes found a place in another order, without an eviction.
            return self._without_victims(target, placed, refusals)
        choices = ()
        if grouped and rules.limits_domains:
            candidates = chosen.ties if len(chosen.ties) > 1 else ()
            located = Located(chosen.plan.domain, placed, candidates=candidates)
            with chooser.planner.cleared():
                choices = self._targets.random_choices(target, located, nominated)
        return Decision(
            Outcome.FITS_AFTER_PREEMPTION, target, placed, chosen, refusals=refusals, choices=choices
        )

    def _error_of_parts(self, target: PlacementTarget) -> str:
        """Return why kube-scheduler ends its cycle for a part of a tree, empty if it does not."""
        errors = (self._targets.search(part).error or self._error_of_parts(part) for part in target.parts)
        first = next(filter(None, errors), "")
        return f"composite pod group evaluation failed due to child error: {first}" if first else ""

    def _awaits(self, search: DomainSearch) -> str:
        """Return what the pods wait for if they fit once pods that are gone hold nothing, else empty."""
        shapes = list(map(self._snapshot.shape_at, search.target.rows))
        for node_filter in self._placer.chain.dynamic:
            if node_filter.AWAITS and any(map(node_filter.concerns, shapes)):
                with node_filter.once_released() as some:
                    if some and self._targets.place_nominated(search, {}) is not None:
                        return node_filter.AWAITS
        return ""

    def _without_victims(
        self, target: PlacementTarget, placed: dict[int, int], refusals: Refusals
    ) -> Decision:
        """Return the decision for a preemptor whose victims are already leaving."""
        snapshot = self._snapshot
        removed = np.flatnonzero(snapshot.node == REMOVED)
        near = removed[np.isin(snapshot.home[removed], list(set(placed.values())))]
        # Pods on other nodes (anti-affinity, spread) are reported only if no nearer pod is in the way.
        awaited = tuple((near if len(near) or self._fits_beside(placed, removed) else removed).tolist())
        outcome = Outcome.FITS_AFTER_PREEMPTION if awaited else Outcome.FITS
        return Decision(outcome, target, placed, awaited=awaited, refusals=refusals)

    def resume(self, target: PlacementTarget, victims: Rows) -> Decision | None:
        """Return the decision that evicts exactly these pods, if that places the preemptor; else None.

        A leader uses it to resume a preemption that was interrupted.
        """
        units, snapshot, search = self._units, self._snapshot, self._targets.search(target)
        located = self._targets.place(search)
        leads = np.unique(units.lead[victims]).astype(np.intp)
        if located.placed is not None or not len(leads) or leads[0] < 0:
            return None
        chooser = self._chooser(target)
        all_marked = np.array_equal(np.sort(units.all_members(leads)), victims)
        if not all_marked or not chooser.planner.potential[leads].all() or self._engine.forbids(units, leads):
            return None
        nominated_nodes = self._nominated_nodes(target.rows)
        snapshot.remove_many(self._leaving())
        if (
            self._targets.place_nominated(search, nominated_nodes) is not None
            or self._targets.place(search).placed is not None
        ):
            # The room of the leaving pods is enough.
            return None
        snapshot.remove_many(victims)
        placed = self._targets.place_nominated(search, nominated_nodes) or self._targets.place(search).placed
        if placed is None:
            return None
        node = None if target.group is not None else next(iter(placed.values()))
        domain = CLUSTER if node is None else Domain(snapshot.node_name(node), node)
        highest = int(units.priority[leads].max())
        cost = chooser.planner.cost(leads, 0)
        chosen = Chosen(DomainPlan(domain, placed, leads, highest, frozenset(), cost, {}), ())
        return Decision(Outcome.FITS_AFTER_PREEMPTION, target, placed, chosen, refusals=located.refusals)

    def decide_each(self, target: PlacementTarget) -> Decision:
        """Return the decision for the members of a group as lone pods, one after the other (`pods`)."""
        snapshot = self._snapshot
        decisions = []
        for row in target.rows:
            self._deadline.enforce()
            priority = snapshot.pod_at(row).spec.priority or 0
            lone = target._replace(rows=(row,), needed=1, priority=priority, group=None)
            decision = self.decide(lone)
            decisions.append(decision)
            if decision.chosen is not None:
                snapshot.remove_many(self._units.all_members(decision.chosen.plan.victims))
            for placed, node in decision.placed.items():
                snapshot.assume(placed, node)
        return combined(target, decisions)

    def _fits_beside(self, placed: Mapping[int, int], removed: Rows) -> bool:
        """Return whether pods still fit where they were placed while the removed pods are there."""
        snapshot, chain = self._snapshot, self._placer.chain
        with snapshot.trial():
            snapshot.forget_many(removed)
            for row, node in placed.items():
                self._deadline.enforce()
                if not chain.fits(snapshot.shape_at(row), node):
                    return False
                snapshot.assume(row, node)
        return True

    def _waits_for_victims(self, target: PlacementTarget) -> bool:
        """Return whether a kube-scheduler waits for victims that are leaving a nominated node.

        1.36 does not check this for a group. A lone pod whose node no longer suits it looks elsewhere.
        """
        if self._engine.as_group(target) and not self._rules.waits_for_victims:
            return False
        snapshot, units = self._snapshot, self._units
        for row, node in self._nominated_nodes(target.rows).items():
            self._deadline.enforce()
            static = self._placer.chain.static(snapshot.shape_at(row))
            if not self._engine.as_group(target) and not static[node]:
                continue
            on = snapshot.pods_on(node)
            lower = on[units.leaving[on] & snapshot.terminating[on] & (units.priority[on] < target.priority)]
            if any(is_preempted(snapshot.pods[victim]) for victim in lower.tolist()):
                return True
        return False

    def _decide_waiting(self, target: PlacementTarget, search: DomainSearch, refusals: Refusals) -> Decision:
        """Return kube-scheduler's decision while it waits: a lone pod is refused, a group keeps its nodes."""
        if not self._engine.as_group(target):
            return self._ineligible(target, search, refusals, TERMINATING_ON_NODE)
        snapshot = self._snapshot
        kept = self._nominated_nodes(target.rows)
        on = np.concatenate([snapshot.pods_on(node) for node in sorted(set(kept.values()))])
        awaited = tuple(row for row in on.tolist() if is_preempted(snapshot.pods[row]))
        return Decision(Outcome.FITS_AFTER_PREEMPTION, target, kept, awaited=awaited, refusals=refusals)

    def _leaving(self) -> Rows:
        """Return the pods on nodes whose room becomes free without an eviction."""
        return np.flatnonzero(self._units.freeing(self._now) & (self._snapshot.node >= 0))

    def _nominated_nodes(self, rows: tuple[int, ...]) -> dict[int, int]:
        """Return the node rows that are reserved for pods."""
        nodes = {row: self._snapshot.row.get(self._engine.nomination(row)) for row in rows}
        return {row: node for row, node in nodes.items() if node is not None}

    def _ineligible(
        self, target: PlacementTarget, search: DomainSearch, refusals: Refusals, why: str
    ) -> Decision:
        """Return the decision for pods that are refused, and for which nothing may be evicted."""
        refusals = self._explained(search, refusals)
        return Decision(Outcome.NOT_ELIGIBLE, target, {}, refusals=refusals, why=why)

    def _does_not_fit(
        self, target: PlacementTarget, search: DomainSearch, refusals: Refusals, chooser: Chooser
    ) -> Decision:
        """Return the decision for pods for which no preemption was found, with the reasons."""
        units = self._units
        refusals, obstacles = self._explained(search, refusals), self._obstacles(chooser, search)
        obstacles = obstacles._replace(
            refusals=obstacles.refusals._replace(unmet=refusals.unmet)
            if obstacles.refusals.shape is refusals.shape
            else self._explained(search, obstacles.refusals),
            victims=bool(chooser.planner.potential.any()),
            lower=bool((units.priority[units.is_lead] < target.priority).any()),
            freeing_rule=self._freeing_rule(obstacles.refusals),
            unknown_trees=bool(len(units.in_unknown_trees(target.priority))),
            refused=len(units.refused_below(target.priority)),
        )
        return Decision(Outcome.DOES_NOT_FIT, target, {}, refusals=refusals, obstacles=obstacles)

    def _explained(self, search: DomainSearch, refusals: Refusals) -> Refusals:
        """Return refusals with what no preemption changes.

        If all pods of a target are needed, one that suits no node refuses them all, whichever is refused
        first.
        """
        chain, target = self._placer.chain, search.target
        topology = search.levels[-1].topology
        keys = () if topology is None else topology.keys
        unmet = chain.unmet(refusals.shape, keys)
        if unmet.everywhere or target.needed < len(target.rows) or target.parts:
            return refusals._replace(unmet=unmet)
        shapes = {id(shape): shape for shape in map(self._snapshot.shape_at, target.rows)}
        for shape in itertools.islice(shapes.values(), _MOST_SHAPES):
            shape_unmet = unmet if shape is refusals.shape else chain.unmet(shape, keys)
            if shape_unmet.everywhere:
                return chain.refusals(shape)._replace(unmet=shape_unmet)
        return refusals._replace(unmet=unmet)

    def _freeing_rule(self, refusals: Refusals) -> str:
        """Return the rule of a kube-scheduler that evicts no pod for what refuses nodes; empty if it does."""
        reasons = [reason for reason, _, _ in refusals.reasons]
        rules = (
            item for node_filter in self._placer.chain.dynamic for item in node_filter.NEVER_FREED.items()
        )
        rule = next((rule for text, rule in rules if any(text in reason for reason in reasons)), "")
        return f"{self._rules.scheduler} {rule}" if rule and not self._rules.frees_claims else ""

    def _obstacles(self, chooser: Chooser, search: DomainSearch) -> Obstacles:
        """Return what refuses the preemptor even without all potential victims."""
        planner, chain, snapshot = chooser.planner, self._placer.chain, self._snapshot
        preemptor = planner.dry_run.preemptor
        if not preemptor.group:
            return pod_obstacles(chain, planner)
        with snapshot.trial():
            snapshot.remove_many(planner.units.all_members(np.flatnonzero(planner.potential)))
            refusals = self._targets.place(search, preemptor.nominated).refusals
            if refusals is not None:
                return Obstacles(refusals)
            return obstacles_without_victims(chain, planner.dry_run.shapes[0])
