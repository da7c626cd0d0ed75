"""Compares the topology domains of a group for a reader: their room, their harm, and why they are refused.

The decision for the group is made again as if only one domain existed, for the domains with the most room.
So the report needs no rule of its own. It costs a decision for each domain, and a live scheduler makes none.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from podium.api.times import seconds
from podium.planner.preemption.choice import Chosen
from podium.planner.preemption.deciding import DomainRoom
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.harm import Harm, plan_harm
from podium.planner.preemption.outcome import DomainVerdict, Outcome, PlanTopology
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.units import Units

_ORDER = (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION)
_NONE = Harm(0, (), 0)


class DomainDecisions(Protocol):
    """The decisions for a group by domain; the engine implements this."""

    def domains(self, found: PlacementTarget, placed: Collection[int], now: datetime) -> list[DomainRoom]:
        """Return the topology domains for a group and their room."""

    def decide_in(self, found: PlacementTarget, domain: int, now: datetime) -> Decision:
        """Return the decision for a group if it could use only one domain."""

    def units(self, *, for_group: bool, now: int) -> tuple[Units, object]:
        """Return the units."""

    def harm(self, chosen: Chosen, units: Units, now: int) -> Harm:
        """Return the harm of a preemption."""


def compared(engine: DomainDecisions, decision: Decision, now: datetime, most: int) -> PlanTopology | None:
    """Return the first `most` domains for the group of a decision; None if it has no topology constraint."""
    found = decision.target
    rooms = [] if found is None else engine.domains(found, decision.placed.values(), now)
    if found is None or not rooms:
        return None
    rooms.sort(key=lambda room: (not room.chosen, -(room.free or 0), -(room.most or 0)))
    verdicts = [_verdict(engine, found, room, now) for room in rooms[:most]]
    verdicts.sort(key=lambda each: (not each[1].chosen, each[1].outcome not in _ORDER, each[0]))
    return PlanTopology(rooms[0].key, len(rooms), tuple(verdict for _, verdict in verdicts))


def _verdict(
    engine: DomainDecisions, found: PlacementTarget, room: DomainRoom, now: datetime
) -> tuple[Harm, DomainVerdict]:
    """Return the harm of the decision in a domain, and the report on the domain."""
    decision, second = engine.decide_in(found, room.number, now), seconds(now)
    units, _ = engine.units(for_group=True, now=second)
    harm = None if decision.chosen is None else engine.harm(decision.chosen, units, second)
    verdict = DomainVerdict(
        name=room.name,
        chosen=room.chosen,
        nodes=room.nodes,
        free=room.free,
        capacity=room.most,
        outcome=decision.outcome,
        harm=None if harm is None else plan_harm(harm),
        message=_message(decision),
    )
    return harm or _NONE, verdict


def _message(decision: Decision) -> str:
    """Return why a domain is refused, or what has to go first; empty if it is free."""
    if decision.awaited:
        return f"once {len(decision.awaited)} leaving pods have gone"
    if decision.outcome in _ORDER:
        return ""
    refusals = decision.refusals if decision.obstacles is None else decision.obstacles.refusals
    said = "" if refusals is None else refusals._replace(domains="").sentence
    return " ".join(filter(None, (decision.why, said)))
