"""Records of preemptions (PreemptionRecord): from a decision to a record, and from records to evictions.

No decision reads these records, with one exception. A new leader reads how many units were evicted lately,
the preemptors of each, and the preemptions that an earlier leader left unfinished.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from podium.api.membership import GroupKey
from podium.api.meta import instant
from podium.api.records import (
    MAX_RESOURCES,
    MAX_TEXT,
    MAX_UNITS,
    Owner,
    Party,
    PlanMode,
    PreemptionRecord,
    RecordedPlan,
    Result,
)
from podium.api.times import written
from podium.cluster.helddevices import held_devices
from podium.cluster.reader import ClusterReader
from podium.groups.trees import group_at
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Unit
from podium.schedulerplugin.scheduling.evictioncycles import Identity, identity_of_group, workload_of
from podium.text import cut

# The message of a preemption whose process was stopped before it ended.
STOPPED = "the scheduler stopped before it was done"


def planned(evict: Evict, view: ClusterReader, at: datetime, mode: PlanMode) -> RecordedPlan:
    """Return the record of a preemption at its decision; later its victims are gone and unknown.

    `at` is in UTC.
    """
    pods = [view.pods.get(pod.key) for pod in evict.victims]
    held = sorted(held_devices(pods, view).items(), key=lambda item: (-item[1], item[0]))[:MAX_RESOURCES]
    return RecordedPlan(
        time=written(at),
        mode=mode,
        result=Result.PLANNED,
        message=cut(evict.message, MAX_TEXT),
        preemptor=_preemptor(evict, view),
        domain=evict.domain,
        units=tuple(_unit(unit, view) for unit in evict.units[:MAX_UNITS]),
        unitCount=len(evict.units),
        podCount=len(pods),
        accelerators=dict(held),
        violations=evict.violations,
        acceleratorSeconds=evict.work,
    )


def ended(plan: RecordedPlan, failed: str, deleted: Collection[PodRef], seconds: float) -> RecordedPlan:
    """Return the record of a preemption that has ended, with its duration and its deleted victims.

    `failed` says why not all of them were deleted, and is empty if all were.
    """
    return msgspec.structs.replace(
        plan,
        result=Result.FAILED if failed else Result.EVICTED,
        message=cut(failed, MAX_TEXT) if failed else plan.message,
        podCount=len(deleted) if failed else plan.podCount,
        milliseconds=max(0, round(1000 * seconds)),
    )


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
    found = [
        (at, plan)
        for record in records
        for plan in record.plans
        if plan.mode == PlanMode.ENFORCED and (at := moment_of(plan)) is not None and at >= since
    ]
    return sorted(found, key=lambda each: each[0])


def _preemptor(evict: Evict, view: ClusterReader) -> Party:
    each = evict.preemptor
    if isinstance(evict.key, GroupKey):
        group = group_at(view, evict.key)
        kind, found = evict.key.kind, None if group is None else identity_of_group(group)
    else:
        kind, found = "Pod", workload_of(view, view.pods.get(evict.key))
    owner = _owner(found, kind, each.name)
    return Party(kind, each.namespace, each.name, each.uid, each.priority, len(evict.nominations), owner)


def _unit(unit: Unit, view: ClusterReader) -> Party:
    owner = _owner(workload_of(view, view.pods.get(unit.pods[0].key)), unit.kind, unit.name)
    return Party(unit.kind, unit.namespace, unit.name, unit.uid, unit.priority, len(unit.pods), owner)


def _owner(found: Identity | None, kind: str, name: str) -> Owner | None:
    """Return the owner that an identity names; None if that is the object itself."""
    if found is None or (found.kind, found.name) == (kind, name):
        return None
    return Owner(found.kind, found.name, found.uid)
