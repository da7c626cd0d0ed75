"""Reads records of preemptions (PreemptionRecord): the units evicted lately, and unfinished preemptions.

No decision reads these records, with one exception. A new leader reads how many units were evicted lately,
the preemptors of each, the preemptions that an earlier leader left unfinished, and which workloads do not
save their work (see `trust`).
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from podium.api.meta import instant
from podium.api.records import Party, PlanMode, PreemptionRecord, RecordedPlan
from podium.history.evictioncycles import Identity

# The message of a preemption whose process was stopped before it ended.
STOPPED = "the scheduler stopped before it was done"


def recent(records: Iterable[PreemptionRecord], since: datetime) -> list[tuple[datetime, Identity, Identity]]:
    """Return the units that were evicted since a time (UTC), oldest first: time, preemptor, unit.

    The units of a preemption that failed in the middle are included, because some of them are gone.
    """
    return [
        (at, identity(plan.preemptor), identity(unit))
        for at, plan in _carried_out(records, since)
        for unit in plan.units
    ]


def counted(records: Iterable[PreemptionRecord], since: datetime) -> list[datetime]:
    """Return when each unit was evicted, oldest first, with the units of large plans that are not named."""
    return [at for at, plan in _carried_out(records, since) for _ in range(plan.unitCount)]


def unfinished(
    records: Iterable[PreemptionRecord], since: datetime
) -> list[tuple[datetime, str, frozenset[str]]]:
    """Return what earlier leaders left unfinished since a time, oldest first: time, preemptor, units.

    Preemptor and units are UIDs.
    """
    return [
        (at, plan.preemptor.uid, unit_uids(plan))
        for at, plan in _carried_out(records, since)
        if plan.message == STOPPED
    ]


def identity(party: Party) -> Identity:
    """Return the part of a pod's or group's identity that stays the same when it is recreated."""
    if party.owner is None:
        return Identity(party.kind, party.namespace, party.name)
    return Identity(party.owner.kind, party.namespace, party.owner.name, party.owner.uid)


def moment_of(plan: RecordedPlan) -> datetime | None:
    """Return the time of a plan; None if it is no time, which another writer must have written."""
    try:
        return instant(plan.time)
    except msgspec.ValidationError:
        return None


def unit_uids(plan: RecordedPlan) -> frozenset[str]:
    """Return the UIDs of the units that a plan names."""
    return frozenset(unit.uid for unit in plan.units)


def _carried_out(records: Iterable[PreemptionRecord], since: datetime) -> list[tuple[datetime, RecordedPlan]]:
    timed = [
        (at, plan)
        for record in records
        for plan in record.plans
        if plan.mode == PlanMode.ENFORCED and (at := moment_of(plan)) is not None and at >= since
    ]
    return sorted(timed, key=lambda entry: entry[0])
