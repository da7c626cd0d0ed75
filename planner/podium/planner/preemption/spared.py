"""Explains why units of lower priority than a preemptor stay: it fits beside them, or they are protected."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.times import LAST_SECOND, written_at
from podium.cluster.reader import name_of
from podium.planner.arrays import Bools, Rows
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.domain import UnitResult
from podium.planner.preemption.outcome import (
    ObjectNamer,
    Outcome,
)
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.protection import (
    scheduled_at,
    unknown_grant,
)
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units
from podium.text import some

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
        results = decision.chosen.found.results if decision.chosen is not None else {}
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
        found = np.unique(units.lead[np.concatenate(on)])
        if target.group is not None:
            leads = np.flatnonzero(self._units.is_lead)
            protected = leads[units.protected[leads] | self._exempt[leads]]
            by_budget = [lead for lead, result in results.items() if result in _BY_BUDGET]
            found = np.unique(np.concatenate([found, protected, np.array(by_budget, np.intp)]))
        found = found[found != NO_UNIT].astype(np.intp)
        lower: Rows = found[units.priority[found] < target.priority]
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
                return f"it is enough to take units of priority {chosen.found.minimal} or lower"
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
            others = f"priorities from {minimum}" if minimum <= HIGHEST_USER_PRIORITY else "system classes"
            held = f"its PriorityClass {doubt}, so only {others} preempt it"
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
