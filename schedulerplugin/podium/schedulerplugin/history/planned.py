"""Makes the record of a preemption (PreemptionRecord) from the decision, and from its end."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from podium.api.membership import GroupKey
from podium.api.records import (
    MAX_RESOURCES,
    MAX_TEXT,
    MAX_UNITS,
    Owner,
    Party,
    PlanMode,
    RecordedPlan,
    Result,
)
from podium.api.times import written
from podium.cluster.reader import ClusterReader, held_devices
from podium.groups.trees import group_at
from podium.history.evictioncycles import Identity, identity_of_group, workload_of
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Unit
from podium.schedulerplugin.scheduling.preemptions import NO_ANSWERS, Answers
from podium.text import cut


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
        acceleratorSecondsSaved=evict.saved,
    )


def ended(
    plan: RecordedPlan,
    failed: str,
    deleted: Collection[PodRef],
    seconds: float,
    answers: Answers = NO_ANSWERS,
) -> RecordedPlan:
    """Return the record of a preemption that has ended, with its duration and its deleted victims.

    `failed` says why not all of them were deleted, and is empty if all were. `answers` are those of the
    victims that were asked to save their work.
    """
    units = (msgspec.structs.replace(unit, saving=answers.units.get(unit.uid, "")) for unit in plan.units)
    return msgspec.structs.replace(
        plan,
        result=Result.FAILED if failed else Result.EVICTED,
        message=cut(failed, MAX_TEXT) if failed else plan.message,
        podCount=len(deleted) if failed else plan.podCount,
        units=tuple(units),
        acceleratorSeconds=plan.acceleratorSeconds + answers.lost,
        acceleratorSecondsSaved=plan.acceleratorSecondsSaved - answers.lost,
        milliseconds=max(0, round(1000 * seconds)),
        askedPods=answers.asked,
        savedPods=answers.saved,
        waitedMilliseconds=max(0, round(1000 * answers.seconds)),
    )


def _preemptor(evict: Evict, view: ClusterReader) -> Party:
    preemptor = evict.preemptor
    if isinstance(evict.key, GroupKey):
        group = group_at(view, evict.key)
        kind, identity = evict.key.kind, None if group is None else identity_of_group(group)
    else:
        kind, identity = "Pod", workload_of(view, view.pods.get(evict.key))
    owner = _owner(identity, kind, preemptor.name)
    return Party(
        kind,
        preemptor.namespace,
        preemptor.name,
        preemptor.uid,
        preemptor.priority,
        len(evict.nominations),
        owner,
    )


def _unit(unit: Unit, view: ClusterReader) -> Party:
    owner = _owner(workload_of(view, view.pods.get(unit.pods[0].key)), unit.kind, unit.name)
    return Party(unit.kind, unit.namespace, unit.name, unit.uid, unit.priority, len(unit.pods), owner)


def _owner(identity: Identity | None, kind: str, name: str) -> Owner | None:
    """Return the owner that an identity names; None if that is the object itself."""
    if identity is None or (identity.kind, identity.name) == (kind, name):
        return None
    return Owner(identity.kind, identity.name, identity.uid)
