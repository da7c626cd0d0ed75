"""What was preempted for whom: written down for people, in a ring of objects that overwrites the oldest.

An object a plan would be thousands of objects, and one object for all of them outgrows what an API server
stores. So an object holds many plans and is filled one after the other; when the last of the ring is full the
first begins anew. A plan that is only observed comes out again at every look at its preemptor, and is told
once.

This is no record to go by: nothing that decides reads it, but for a new leader that wants to know how many
units were evicted lately, and by whom.

A preemption in which a process is told to stop is written down as far as it came. Who follows goes on with
it, and writes down the whole of it in the place of that: it is one preemption, and counts once.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from podium.api.membership import GroupKey
from podium.api.meta import instant
from podium.api.records import (
    MAX_PLANS,
    MAX_RESOURCES,
    MAX_TEXT,
    MAX_UNITS,
    RECORD_KIND,
    RECORD_VERSION,
    Mode,
    Owner,
    Party,
    PreemptionRecord,
    RecordedPlan,
    Result,
)
from podium.api.times import written
from podium.schedulerplugin.devices import devices
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Unit
from podium.schedulerplugin.scheduling.loops import Identity, identity_of_group, workload_of
from podium.view import View
from podium.wording import cut

# The ring: so many objects of at most so many bytes of plans.
OBJECTS = 64
MAX_BYTES = 128 * 1024
# Of objects that cannot be written so many are kept, the newest.
KEPT = 8
# Why a preemption was not ended by who began it.
STOPPED = "the scheduler stopped before it was done"
# Plans that were only observed, remembered to be told once.
_TOLD = 4096


class Draft(NamedTuple):
    """An object to be written: over the resourceVersion `version`, or anew where that is empty."""

    name: str
    version: str
    sequence: int
    plans: tuple[RecordedPlan, ...]
    changes: int

    def document(self) -> dict[str, Any]:
        """Give it as it is sent."""
        metadata = {"name": self.name, **({"resourceVersion": self.version} if self.version else {})}
        return {
            "apiVersion": RECORD_VERSION,
            "kind": RECORD_KIND,
            "metadata": metadata,
            "sequence": self.sequence,
            "plans": self.plans,
        }


class _Page:
    """One object: its plans and their sizes, how often it changed, and how often when it was written."""

    def __init__(self, number: int, sequence: int) -> None:
        self.number = number
        self.sequence = sequence
        self.plans: list[RecordedPlan] = []
        self.sizes: list[int] = []
        self.changes = 0
        self.saved = 0

    def takes(self, size: int) -> bool:
        return len(self.plans) < MAX_PLANS and sum(self.sizes) + size <= MAX_BYTES

    def put(self, plan: RecordedPlan, size: int) -> None:
        self.plans.append(plan)
        self.sizes.append(size)
        self.changes += 1

    def keep(self, plans: list[RecordedPlan]) -> None:
        self.plans, self.sizes = plans, [_size(plan) for plan in plans]
        self.changes += 1


class Ring:
    """The objects of one scheduler, `<name>-00` and so on; `dropped` counts plans that were never written."""

    def __init__(self, name: str) -> None:
        self.dropped = 0
        self._name = name
        self._names = [f"{name}-{number:02d}" for number in range(OBJECTS)]
        # The last one is being filled; those before it wait to be written.
        self._pages = [_Page(0, 1)]
        self._versions: dict[int, str] = {}
        self._told: dict[tuple[object, ...], None] = {}
        # What was left, and is part of another plan now.
        self._ended: set[tuple[object, ...]] = set()

    def restore(self, records: Iterable[PreemptionRecord]) -> None:
        """Go on where the stored ones end; what was appended before this comes after it."""
        waiting = [plan for page in self._pages for plan in page.plans]
        newest: tuple[int, int, PreemptionRecord] | None = None
        for record in records:
            number = self._number(record)
            if number is None:
                continue
            self._versions[number] = record.metadata.resourceVersion or ""
            for plan in record.plans:
                self._remember(plan)
            if newest is None or (record.sequence, number) > newest[:2]:
                newest = (record.sequence, number, record)
        if newest is not None:
            sequence, number, record = newest
            page = _Page(number, sequence)
            for plan in record.plans:
                page.put(plan, _size(plan))
            page.saved = page.changes
            self._pages = [page]
            for plan in waiting:
                self._take(plan)

    def append(self, plan: RecordedPlan) -> bool:
        """Take a plan to be written; False for one that was only observed, and told before."""
        if not self._remember(plan):
            return False
        self._take(plan)
        return True

    def draft(self) -> Draft | None:
        """Give the first object that is to be written, None where all are."""
        page = next((page for page in self._pages if page.changes != page.saved), None)
        if page is None:
            return None
        version = self._versions.get(page.number, "")
        return Draft(self._names[page.number], version, page.sequence, tuple(page.plans), page.changes)

    def saved(self, draft: Draft, version: str) -> None:
        """Note that an object was written, and the resourceVersion that it has now."""
        page = self._page(draft)
        self._versions[self._names.index(draft.name)] = version
        if page is not None:
            page.saved = draft.changes
            if page is not self._pages[-1] and page.saved == page.changes:
                self._pages.remove(page)

    def met(self, draft: Draft, stored: PreemptionRecord | None) -> None:
        """Note what is stored in the place of an object that was to be written; None is nothing.

        What an earlier leader wrote last is kept. Where a later one went on already, this is not written.
        """
        self._versions[self._names.index(draft.name)] = (
            "" if stored is None else stored.metadata.resourceVersion or ""
        )
        page = self._page(draft)
        if page is None or stored is None:
            return
        if stored.sequence > page.sequence:
            self.dropped += len(page.plans)
            page.saved = page.changes
        elif stored.sequence == page.sequence:
            known = {*map(_same, page.plans), *self._ended}
            theirs = [plan for plan in stored.plans if _same(plan) not in known]
            ours = [self._joined(theirs, plan) for plan in page.plans]
            page.keep(sorted([*theirs, *ours], key=lambda plan: plan.time)[-MAX_PLANS:])

    def _take(self, plan: RecordedPlan) -> None:
        """Put a plan behind all others, in the place of the one that it goes on with."""
        for page in self._pages:
            before = list(page.plans)
            whole = self._joined(before, plan)
            if whole is not plan:
                page.keep(before)
                self._put(whole)
                return
        self._put(plan)

    def _joined(self, others: list[RecordedPlan], plan: RecordedPlan) -> RecordedPlan:
        """Give the whole of a plan that goes on with one of others, which that is taken from; else itself."""
        earlier = next((each for each in others if _goes_on(each, plan)), None)
        if earlier is None:
            return plan
        others.remove(earlier)
        self._ended.add(_same(earlier))
        return _whole(earlier, plan)

    def _put(self, plan: RecordedPlan) -> None:
        size = _size(plan)
        page = self._pages[-1]
        if not page.takes(size):
            if page.saved == page.changes:
                self._pages.remove(page)
            page = _Page((page.number + 1) % OBJECTS, page.sequence + 1)
            self._pages.append(page)
            if len(self._pages) > KEPT:
                self.dropped += len(self._pages.pop(0).plans)
        page.put(plan, size)

    def _remember(self, plan: RecordedPlan) -> bool:
        """Say whether a plan is news: one that was carried out always is."""
        if plan.mode == Mode.ENFORCED:
            return True
        key = (plan.mode, plan.agreement, plan.preemptor.uid, frozenset(unit.uid for unit in plan.units))
        known = key in self._told
        self._told.pop(key, None)
        self._told[key] = None
        if len(self._told) > _TOLD:
            del self._told[next(iter(self._told))]
        return not known

    def _number(self, record: PreemptionRecord) -> int | None:
        name = record.metadata.name or ""
        return self._names.index(name) if name in self._names else None

    def _page(self, draft: Draft) -> _Page | None:
        return next((page for page in self._pages if page.sequence == draft.sequence), None)


def planned(evict: Evict, view: View, at: datetime, mode: Mode) -> RecordedPlan:
    """Write down a preemption when it is decided, for when its victims are gone nobody knows what they were.

    `at` is in UTC.
    """
    pods = [view.pods.get(pod.key) for pod in evict.victims]
    held = sorted(devices(pods).items(), key=lambda item: (-item[1], item[0]))[:MAX_RESOURCES]
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
    """Note how a preemption ended, after so many seconds, and which victims were told to go.

    `failed` says why not all of them were, and is empty where they were.
    """
    return msgspec.structs.replace(
        plan,
        result=Result.FAILED if failed else Result.EVICTED,
        message=cut(failed, MAX_TEXT) if failed else plan.message,
        podCount=len(deleted) if failed else plan.podCount,
        milliseconds=max(0, round(1000 * seconds)),
    )


def recent(records: Iterable[PreemptionRecord], since: datetime) -> list[tuple[datetime, Identity, Identity]]:
    """Give the units that were evicted since a time (UTC), oldest first: when, by whom, who.

    Those of a preemption that failed in the middle are among them: some of them are gone.
    """
    return [
        (at, identity(plan.preemptor), identity(unit))
        for at, plan in _carried_out(records, since)
        for unit in plan.units
    ]


def counted(records: Iterable[PreemptionRecord], since: datetime) -> list[datetime]:
    """Give when each of these was evicted, oldest first: of large plans also those that are not named."""
    return [at for at, plan in _carried_out(records, since) for _ in range(plan.unitCount)]


def unfinished(
    records: Iterable[PreemptionRecord], since: datetime
) -> list[tuple[datetime, str, frozenset[str]]]:
    """Give what earlier leaders had to leave since a time, oldest first: when, for whom, who (by UIDs)."""
    return [
        (at, plan.preemptor.uid, _uids(plan))
        for at, plan in _carried_out(records, since)
        if plan.message == STOPPED
    ]


def identity(party: Party) -> Identity:
    """Give what stays the same of a pod or group when it is made anew."""
    if party.owner is None:
        return Identity(party.kind, party.namespace, party.name)
    return Identity(party.owner.kind, party.namespace, party.owner.name, party.owner.uid)


def moment_of(plan: RecordedPlan) -> datetime | None:
    """Read the time of a plan; None for what is no time, which only somebody else can have written."""
    try:
        return instant(plan.time)
    except msgspec.ValidationError:
        return None


def _carried_out(records: Iterable[PreemptionRecord], since: datetime) -> list[tuple[datetime, RecordedPlan]]:
    found = [
        (at, plan)
        for record in records
        for plan in record.plans
        if plan.mode == Mode.ENFORCED and (at := moment_of(plan)) is not None and at >= since
    ]
    return sorted(found, key=lambda each: each[0])


def _preemptor(evict: Evict, view: View) -> Party:
    each = evict.preemptor
    if isinstance(evict.key, GroupKey):
        group = view.groups.get(evict.key)
        kind, found = "PodGroup", None if group is None else identity_of_group(group)
    else:
        kind, found = "Pod", workload_of(view, view.pods.get(evict.key))
    owner = _owner(found, kind, each.name)
    return Party(kind, each.namespace, each.name, each.uid, each.priority, len(evict.nominations), owner)


def _unit(unit: Unit, view: View) -> Party:
    owner = _owner(workload_of(view, view.pods.get(unit.pods[0].key)), unit.kind, unit.name)
    return Party(unit.kind, unit.namespace, unit.name, unit.uid, unit.priority, len(unit.pods), owner)


def _owner(found: Identity | None, kind: str, name: str) -> Owner | None:
    """Give the owner that an identity names; none where it is the object itself."""
    if found is None or (found.kind, found.name) == (kind, name):
        return None
    return Owner(found.kind, found.name, found.uid)


def _goes_on(earlier: RecordedPlan, later: RecordedPlan) -> bool:
    """Say whether a plan ends what an earlier one, in which its process was stopped, had begun.

    Of plans with more units than are named that is not known.
    """
    return (
        earlier.message == STOPPED
        and earlier.mode == later.mode == Mode.ENFORCED
        and earlier.preemptor.uid == later.preemptor.uid
        and _same(earlier) != _same(later)
        and _uids(later) <= _uids(earlier)
    )


def _whole(earlier: RecordedPlan, later: RecordedPlan) -> RecordedPlan:
    """Give both as the one preemption that they are; all of it counts from when it was resumed."""
    return msgspec.structs.replace(
        later,
        units=earlier.units,
        unitCount=earlier.unitCount,
        podCount=earlier.podCount + later.podCount,
        accelerators=earlier.accelerators,
        violations=earlier.violations,
        acceleratorSeconds=earlier.acceleratorSeconds,
    )


def _uids(plan: RecordedPlan) -> frozenset[str]:
    return frozenset(unit.uid for unit in plan.units)


def _same(plan: RecordedPlan) -> tuple[object, ...]:
    return plan.time, plan.mode, plan.preemptor.uid, tuple(unit.uid for unit in plan.units)


def _size(plan: RecordedPlan) -> int:
    return len(msgspec.json.encode(plan))
