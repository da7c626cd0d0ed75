"""Explains a decision in sentences: the victims, the units that stay and why, the placement, the refusals.

Nothing is decided here. Facts found on the way to a decision become sentences, and rows become names. A
report for a tenant names other tenants' objects in another way (`naming`). Only the filter that refuses the
preemptor beside a victim is evaluated again, in a trial of the engine.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np

from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.groups import PodGroup
from podium.api.membership import key_of
from podium.api.podrequests import PODS
from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.saving import NOT_SAVED
from podium.api.times import LAST_SECOND, written_at
from podium.audit.trees import unknown_tree_findings
from podium.cluster.reader import name_of
from podium.groups.topology import preferred_topology
from podium.history.trust import FAILURES, declares, distrusted
from podium.planner.arrays import Bools, Rows
from podium.planner.preemption.decision import Decision, Elsewhere
from podium.planner.preemption.domain import UnitResult
from podium.planner.preemption.domainsearch import RandomChoice
from podium.planner.preemption.harm import plan_harm
from podium.planner.preemption.knownends import ends_in_words
from podium.planner.preemption.outcome import (
    NodeReason,
    ObjectNamer,
    Outcome,
    Placed,
    Plan,
    PlanHarm,
    UnitPod,
    UnitVerdict,
)
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.protection import (
    FOREVER,
    class_findings,
    of_daemon_set,
    scheduled_at,
    scheduled_time_problem,
    unknown_grant,
)
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.topology import Topology
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units
from podium.planner.progress import declaration_of, patience
from podium.planner.snapshot import Problem
from podium.text import count, listed, some

# Explains why units of lower priority than a preemptor stay: it fits beside them, or they are protected.

# The most units that are reported as spared: those on the preemptor's nodes, the most important first.
_MAX_SPARED = 1000
_BY_BUDGET = (UnitResult.BUDGET, UnitResult.STRICT)


class SparedUnit(NamedTuple):
    """A unit (by lead) that stays, and why; `by_budget` says that its eviction would violate a budget."""

    lead: int
    reason: str
    by_budget: bool


class SparedUnits:
    """The units that one decision spares, made at `now` (seconds) by an engine that has not changed since."""

    def __init__(
        self, engine: PlanningState, units: Units, decision: Decision, now: int, namer: ObjectNamer
    ) -> None:
        self._engine = engine
        self._snapshot = engine.snapshot
        self._units = units
        self._decision = decision
        self._target = decision.target
        self._now = now
        self._namer = namer

    def each(self) -> Iterator[SparedUnit]:
        """Yield the units of lower priority that stay: on the preemptor's nodes, or protected on any node."""
        target, decision = self._target, self._decision
        fits = decision.outcome is Outcome.FITS or decision.awaited
        if target is None or fits or (decision.refusals is None and decision.obstacles is None):
            return
        results = decision.chosen.plan.results if decision.chosen is not None else {}
        lower = self._asked_about(target, results)
        reported = 0
        for lead in self._units.ordered(lower, self._now).tolist():
            result = results.get(lead)
            if result is UnitResult.VICTIM:
                continue
            if reported == _MAX_SPARED:
                return
            reason = self._why_spared(lead, result)
            if reason:
                reported += 1
                yield SparedUnit(lead, reason, by_budget=result in _BY_BUDGET)

    def _asked_about(self, target: PlacementTarget, results: dict[int, UnitResult]) -> Rows:
        """Return the units of lower priority for which a reader would ask why they stay.

        These are the units beside the preemptor. For a group, whose domain is the cluster, the protected
        units are added. If the preemptor finds no place, these are all units.
        """
        units, decision = self._units, self._decision
        if decision.chosen is None:
            leads = np.flatnonzero(self._units.is_lead)
            return leads[units.priority[leads] < target.priority]
        on = [self._snapshot.pods_on(node) for node in sorted(set(decision.placed.values()))]
        near = np.unique(units.lead[np.concatenate(on)])
        if target.group is not None:
            leads = np.flatnonzero(self._units.is_lead)
            protected = leads[units.protected[leads] | self._exempt[leads]]
            by_budget = [lead for lead, result in results.items() if result in _BY_BUDGET]
            near = np.unique(np.concatenate([near, protected, np.array(by_budget, np.intp)]))
        near = near[near != NO_UNIT].astype(np.intp)
        lower: Rows = near[units.priority[near] < target.priority]
        return lower

    @cached_property
    def _exempt(self) -> Bools:
        """The units that tolerate the preemptor, by lead."""
        assert self._target is not None
        return self._units.exempt(self._target.priority, self._now)

    def _why_spared(self, lead: int, result: UnitResult | None) -> str:
        chosen = self._decision.chosen
        match result:
            case UnitResult.REPRIEVED:
                return "the preemptor fits beside it"
            case UnitResult.ABOVE:
                assert chosen is not None
                return f"it is enough to take units of priority {chosen.plan.minimal} or lower"
            case UnitResult.BUDGET:
                return f"the preemptor fits beside it, and {self._budget(lead)}"
            case UnitResult.STRICT:
                return f"{self._budget(lead)}, and budgets are strict"
            case _:
                return self._units.why_protected(lead, self._namer) or self._tolerates(lead)

    def _budget(self, lead: int) -> str:
        counted = self._engine.budgets.charges(self._units.members(lead))
        names = [self._namer("PodDisruptionBudget", *name) for name in counted]
        return f"its loss would violate a PodDisruptionBudget ({some(names)})"

    def _tolerates(self, lead: int) -> str:
        """Return why a unit is exempt, empty if it is not."""
        if not self._exempt.item(lead):
            return ""
        units = self._units
        name, minimum, until = (
            units.class_name(lead),
            units.exempt_below.item(lead),
            units.exempt_until.item(lead),
        )
        doubt = unknown_grant(self._engine.view.classes.get(name), name)
        held = f"its PriorityClass tolerates preemption by priorities below {minimum}"
        if doubt:
            allowed = f"priorities from {minimum}" if minimum <= HIGHEST_USER_PRIORITY else "system classes"
            held = f"its PriorityClass {doubt}, so only {allowed} preempt it"
        if until <= LAST_SECOND:
            return f"{held} until {written_at(until)}"
        pending = [row for row in units.members(lead).tolist() if self._scheduled(row) is None]
        if pending and not doubt:
            name = self._namer("Pod", *name_of(self._snapshot.pod_at(pending[0])))
            return f"{held}, and {name} is not scheduled yet"
        return held if doubt else f"{held} for ever"

    def _scheduled(self, row: int) -> int | None:
        pod = self._snapshot.pods[row]
        return None if pod is None else scheduled_at(pod)


# The most placements of the preemptor for which the refusal beside a victim is computed.
_MAX_CHECKED = 16


class _ExplainedRefusal(NamedTuple):
    """Why a pod is refused, and whether the reason is room: resources, or places for pods."""

    why: str
    room: bool


class Explainer:
    """Explains one decision, made at `now` (seconds) by an engine that has not changed since."""

    def __init__(self, engine: PlanningState, decision: Decision, now: int, namer: ObjectNamer) -> None:
        self._engine = engine
        self._snapshot = engine.snapshot
        self._decision = decision
        self._now = now
        self._namer = namer
        self._target = decision.target
        obstacles = decision.obstacles
        self._refusals = decision.refusals if obstacles is None else obstacles.refusals
        grouped = self._target is not None and self._target.group is not None
        self._units, _ = engine.units(for_group=grouped, now=now)

    def explained_plan(self) -> Plan:
        """Return the plan with all its explanations."""
        decision = self._decision
        chosen = decision.chosen
        refusals = self._refusals
        spared = SparedUnits(self._engine, self._units, decision, self._now, self._namer)
        return Plan(
            semantics=self._engine.settings.semantics,
            outcome=decision.outcome,
            message=self._message(),
            minimalPriority=None if chosen is None else chosen.plan.minimal,
            harm=self._harm(),
            placements=tuple(self._placements()),
            victims=() if chosen is None else tuple(map(self._victim, chosen.plan.victims.tolist())),
            spared=tuple(
                self._verdict(lead, why, violates=violates) for lead, why, violates in spared.each()
            ),
            nodes=() if refusals is None else tuple(NodeReason(*reason) for reason in refusals.reasons),
            findings=tuple(self._findings()),
        )

    def _harm(self) -> PlanHarm | None:
        chosen = self._decision.chosen
        if chosen is None:
            return None
        cost = self._engine.harm(chosen, self._units, self._now)
        return plan_harm(cost, self._units, chosen.plan.victims, self._now)

    def _message(self) -> str:
        decision = self._decision
        target, refusals = self._target, self._refusals
        if target is None or decision.outcome is Outcome.NOT_ELIGIBLE:
            return decision.why if refusals is None else refusals.ineligible(decision.why)
        if decision.obstacles is not None:
            return decision.obstacles.message(self._example(decision.obstacles.elsewhere))
        where = self._where(target)
        if decision.room_at:
            minutes = count(-(-(decision.room_at - self._now) // 60), "minute")
            ends = ends_in_words(self._engine.view, self._units, decision, self._namer)
            return f"{where} in {minutes}, by {ends}; no unit is evicted"
        if decision.awaited:
            names = [self._pod_name(row) for row in decision.awaited]
            gone = f"{count(len(names), 'pod')} that {'is' if len(names) == 1 else 'are'} leaving already"
            return f"{where} once {gone} {'has' if len(names) == 1 else 'have'} gone: {some(names)}"
        if decision.chosen is None:
            return f"{where}; no unit is evicted"
        victims = decision.chosen.plan.victims
        pods = count(int(self._units.size[victims].sum()), "pod")
        units = [self._units.object_of(lead)[0] for lead in victims.tolist()]
        groups = units.count("PodGroup")
        evicted = pods if not groups else f"{pods}, {count(groups, 'whole group')} among them"
        return f"{where} after preempting {evicted}"

    def _example(self, elsewhere: Elsewhere | None) -> str:
        """Return a sentence on the units of other nodes that block the first node; empty for none."""
        if elsewhere is None:
            return ""
        names = [self._unit_name(lead) for lead in elsewhere.units.tolist()]
        return f"For node {self._snapshot.node_name(elsewhere.node)} that would be {some(names)}."

    def _unit_name(self, lead: int) -> str:
        """Return a unit's name and the nodes of its pods."""
        rows = self._units.node[self._units.members(lead)].tolist()
        nodes = set(map(self._snapshot.node_name, rows))
        return f"{self._namer(*self._units.object_of(lead))} on {some(nodes)}"

    def _where(self, target: PlacementTarget) -> str:
        placed = self._decision.placed
        if len(target.rows) == 1 and target.group is None:
            return f"fits on node {self._snapshot.node_name(next(iter(placed.values())))}"
        where = self._domain(target) + self._chance()
        return f"{len(placed)} of {count(len(target.rows), 'pending pod')} fit{where}"

    def _chance(self) -> str:
        """Return that kube-scheduler may take another domain; empty if it may not."""
        choices = self._decision.choices
        if not choices:
            return ""
        scheduler = self._engine.settings.semantics.rules.scheduler
        texts = [self._choice(choice) for choice in choices]
        return f" ({scheduler} looks at domains in random order and takes {listed(texts)})"

    def _choice(self, choice: RandomChoice) -> str:
        """Return the domains of a random choice, and the group if it is below the preemptor."""
        target, ref = self._decision.target, choice.group.ref
        names = f"one of {some(choice.names)}"
        whole = target is not None and choice.group is target.group
        return names if whole else f"{names} for {ref.kind} {self._namer(ref.kind, ref.namespace, ref.name)}"

    def _domain(self, target: PlacementTarget) -> str:
        """Return where a group with a topology constraint is placed; empty for others."""
        group = target.group
        keys = [] if group is None else [*preferred_topology(group), *filter(None, (group.topology,))]
        for key in keys:
            topology = Topology(self._snapshot, (key,))
            used = set(topology.counts(np.array(list(self._decision.placed.values()), np.intp)))
            if len(used) == 1 and min(used) >= 0:
                wider = "" if key == keys[0] else f", and in no single {keys[0]}"
                return f" in {key}={topology.name(used.pop())}{wider}"
        return f", but in no single {keys[0]}" if keys else ""

    def _placements(self) -> Iterator[Placed]:
        claimed = self._claimed()
        for row, node in self._placed_by_name():
            namespace, name = self._names(row)
            where = {"pod": f"{namespace}/{name}", "node": self._snapshot.node_name(node)}
            yield msgspec.convert({**where, **claimed.get(row, {})}, Placed, from_attributes=True)

    def _claimed(self) -> dict[int, dict[str, Any]]:
        """Return what each pod that is placed gets on its node, by row and by field of Placed."""
        snapshot = self._snapshot
        claimed: dict[int, dict[str, Any]] = {}
        placed = {
            row: node
            for row, node in self._decision.placed.items()
            if any(plugin.binds(row) for plugin in snapshot.plugins)
        }
        chosen = self._decision.chosen
        with snapshot.trial():
            if chosen is not None and placed:
                snapshot.remove_many(self._units.all_members(chosen.plan.victims))
            for row, node in placed.items():
                snapshot.assume(row, node)
                fields = claimed[row] = dict[str, Any]()
                for plugin in snapshot.plugins:
                    fields.update(plugin.explain(row))
        return claimed

    def _placed_by_name(self) -> list[tuple[int, int]]:
        """Return the preemptor's pods and their nodes (rows), by the names of the pods."""
        return sorted(self._decision.placed.items(), key=lambda placement: self._names(placement[0]))

    def _victim(self, lead: int) -> UnitVerdict:
        chosen = self._decision.chosen
        assert chosen is not None
        reason = self._needed(lead)
        if of_daemon_set(self._snapshot.pod_at(lead), self._engine.view):
            reason += "; its DaemonSet creates it again for this node"
        reason += self._saving(lead)
        return self._verdict(lead, reason, violates=lead in chosen.plan.violating)

    def _saving(self, lead: int) -> str:
        """Return how a unit saves its work before its eviction, after a semicolon; empty if it does not."""
        pods = [self._snapshot.pod_at(row) for row in self._units.members(lead).tolist()]
        view = self._engine.view
        works = [declaration_of(view, pod) for pod in pods]
        if any(distrusted(view, pod) and declares(view, pod) for pod in pods):
            return f"; it declares to save its work, and failed to {FAILURES} times in a row"
        after_sigterm = max(work.saves_within for work in works)
        if after_sigterm != NOT_SAVED:
            return f"; it saves its work within {after_sigterm} s after SIGTERM"
        on_notice = max(min(work.saves_within, work.notice) for work in works)
        if on_notice > self._patience() or not self._units.rules.marks_groups:
            return ""
        return f"; it is asked first, and saves its work within {on_notice} s"

    def _patience(self) -> int:
        """Return for how many seconds the preemptor may wait for a victim to save its work."""
        target, longest = self._target, self._engine.settings.notice_seconds
        assert target is not None, "a victim is of a preemptor"
        spec = self._snapshot.pod_at(target.rows[0]).spec
        name = spec.priorityClassName if target.group is None else target.group.priority_class_name
        return patience(self._engine.view, name or "", target.priority, longest)

    def _needed(self, lead: int) -> str:
        """Return the resources of a unit that the preemptor needs."""
        chosen, core = self._decision.chosen, self._units.core.item(lead)
        if chosen is not None and (chosen.plan.victims == core).any():
            return "its group is preempted as a whole"
        lacking, requests, resource = self._lacking, self._snapshot.requests, self._snapshot.resource
        members = self._units.members(lead)
        held: set[str] = set()
        nodes: set[str] = set()
        for row, node in zip(members.tolist(), self._units.node[members].tolist(), strict=True):
            for name in lacking.get(node, ()):
                if requests[resource[name]].item(row):
                    held.add(name)
                    nodes.add(self._snapshot.node_name(node))
        beside = self._refusal_beside.get(lead) if self._constrained or not held else None
        if held and (beside is None or beside.room):
            return f"its {listed(sorted(held))} on {some(nodes)} {'is' if len(held) == 1 else 'are'} needed"
        return "the preemptor cannot run beside it" + ("" if beside is None else f": {beside.why}")

    @cached_property
    def _constrained(self) -> bool:
        """Whether a filter other than room may refuse one of the preemptor's pods."""
        snapshot, chain = self._snapshot, self._engine.placer.chain
        shapes = {snapshot.shape.item(row) for row in self._decision.placed}
        return not all(chain.resources_only(snapshot.shapes[shape_id]) for shape_id in shapes)

    @cached_property
    def _refusal_beside(self) -> dict[int, _ExplainedRefusal]:
        """The refusal of a preemptor's pod if one victim stays, by lead; none if several victims cause it."""
        snapshot, units, chosen = self._snapshot, self._units, self._decision.chosen
        assert chosen is not None
        kinds = list(dict.fromkeys((snapshot.shape.item(row), node) for row, node in self._placed_by_name()))
        refusals = {}
        with snapshot.trial():
            snapshot.remove_many(units.all_members(chosen.plan.victims))
            before = {kind: self._refused(*kind) for kind in kinds}
            for lead in chosen.plan.victims.tolist():
                own = units.members(lead)
                near = set(units.node[own].tolist())
                with snapshot.trial():
                    snapshot.assume_many(own, units.node[own])
                    asked = [kind for kind in kinds if kind[1] in near] or kinds
                    after = ((kind, self._refused(*kind)) for kind in asked[:_MAX_CHECKED])
                    refused = next((beside for kind, beside in after if beside != before[kind]), None)
                if refused is not None:
                    refusals[lead] = refused
        return refusals

    def _refused(self, shape_id: int, node: int) -> _ExplainedRefusal:
        """Return the refusal of a pod of a shape on a node."""
        chain, shape = self._engine.placer.chain, self._snapshot.shapes[shape_id]
        why = chain.reasons(shape, node)
        return _ExplainedRefusal(", ".join(why), why == chain.room.reasons(shape, node))

    @cached_property
    def _lacking(self) -> dict[int, set[str]]:
        """The resources that the preemptor's pods lack without preemption, by the node they are placed on."""
        snapshot = self._snapshot
        lacking: dict[int, Counter[str]] = {}
        for row, node in self._decision.placed.items():
            lacking.setdefault(node, Counter()).update(dict(snapshot.shape_at(row).requests))
        return {
            node: {name for name, amount in sums.items() if name != PODS and self._free(node, name) < amount}
            for node, sums in lacking.items()
        }

    def _free(self, node: int, name: str) -> int:
        at = self._snapshot.resource[name]
        return self._snapshot.allocatable[at].item(node) - self._snapshot.used[at].item(node)

    def _verdict(self, lead: int, reason: str, *, violates: bool) -> UnitVerdict:
        kind, namespace, name = self._units.object_of(lead)
        members = self._units.members(lead)
        where = zip(members.tolist(), self._units.node[members].tolist(), strict=True)
        return UnitVerdict(
            kind=kind,
            namespace=namespace,
            name=name,
            priority=self._units.priority.item(lead),
            pods=tuple([UnitPod(self._names(row)[1], self._snapshot.node_name(node)) for row, node in where]),
            violatesBudget=violates,
            reason=reason,
        )

    def _findings(self) -> Iterator[Finding]:
        """Yield the problems of the input, once each, and the trees that are left out."""
        snapshot, engine = self._snapshot, self._engine
        yield from unknown_tree_findings(engine.view, self._left_out())
        problems: list[Problem] = [*snapshot.problems(), *engine.budgets.problems()]
        leads = self._leads()
        lower = leads if self._target is None else leads[self._units.priority[leads] < self._target.priority]
        if self._units.rules.tolerations:
            for name in filter(None, self._units.class_names(lower)):
                yield from class_findings(name, engine.view.classes)
            problems += self._bad_times(lower)
            problems += self._overdue()
        for problem in dict.fromkeys(problems):
            yield Finding(
                rule="not-countable",
                severity=Severity.WARNING,
                object=problem.object,
                field=problem.field,
                message=f"{problem.why}.",
                fix="correct it; until then the plan counts on the side of less room",
            )

    def _left_out(self) -> Iterator[PodGroup]:
        """Yield the groups of lower priority that are no victims because their trees are unknown."""
        if self._target is None or self._decision.refusals is None:
            return
        leads = self._units.in_unknown_trees(self._target.priority).tolist()
        groups = (self._units.group_of(lead) for lead in leads)
        yield from {key_of(group): group for group in groups if group is not None}.values()

    def _overdue(self) -> Iterator[Problem]:
        """Yield the pods that should have left their nodes."""
        units = self._units
        overdue = units.leaving & ~units.freeing(self._now)
        for row in sorted(np.flatnonzero(overdue).tolist(), key=self._names):
            ref = ObjectRef("v1", "Pod", *self._names(row))
            why = "it is being deleted and has not left in time, so its room counts as taken until it is gone"
            yield Problem(ref, "metadata.deletionTimestamp", why)

    def _bad_times(self, leads: Rows) -> Iterator[Problem]:
        """Yield unreadable times of units that a class with a toleration exempts; only there they matter."""
        units = self._units
        for lead in leads[units.exempt_until[leads] == FOREVER].tolist():
            for row in units.members(lead).tolist():
                pod = self._snapshot.pods[row]
                problem = scheduled_time_problem(pod) if pod is not None else None
                if problem is not None:
                    yield problem

    def _leads(self) -> Rows:
        return np.flatnonzero(self._units.is_lead)

    def _names(self, row: int) -> tuple[str, str]:
        return name_of(self._snapshot.pod_at(row))

    def _pod_name(self, row: int) -> str:
        return self._namer("Pod", *self._names(row))
