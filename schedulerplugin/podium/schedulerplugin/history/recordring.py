"""Keeps a history of preemptions for people, in a ring of objects that overwrites the oldest.

One object for each plan would be thousands of objects, and one object for all plans would exceed what an API
server stores. So an object holds many plans, and objects are filled one after the other. When the last of the
ring is full, the first is overwritten. A plan that is only observed is made again at every look at its
preemptor, and is recorded once.

If a process is stopped during a preemption, the preemption is recorded as far as it came. The next leader
resumes it, and replaces that record by the record of the whole: it is one preemption, and counts once.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from podium.api.records import (
    MAX_PLANS,
    RECORD_KIND,
    RECORD_VERSION,
    PlanMode,
    PreemptionRecord,
    RecordedPlan,
)
from podium.history.records import STOPPED, unit_uids

# The number of objects in the ring, and the most bytes of plans in each.
OBJECTS = 64
MAX_BYTES = 128 * 1024
# Of objects that cannot be written, only this many are kept: the newest.
KEPT = 8
# The most observed plans that are remembered, so that each is recorded once.
_REMEMBERED = 4096


class Draft(NamedTuple):
    """An object to be written: replaces the resourceVersion `version`, or is created if that is empty."""

    name: str
    version: str
    sequence: int
    plans: tuple[RecordedPlan, ...]
    changes: int

    def document(self) -> dict[str, Any]:
        """Return the object as it is sent."""
        metadata = {"name": self.name, **({"resourceVersion": self.version} if self.version else {})}
        return {
            "apiVersion": RECORD_VERSION,
            "kind": RECORD_KIND,
            "metadata": metadata,
            "sequence": self.sequence,
            "plans": self.plans,
        }


class _RingObject:
    """An object of the ring: its plans, their sizes, its number of changes, and that number when written."""

    def __init__(self, number: int, sequence: int) -> None:
        self.number = number
        self.sequence = sequence
        self.plans: list[RecordedPlan] = []
        self.sizes: list[int] = []
        self.changes = 0
        self.saved = 0

    def takes(self, size: int) -> bool:
        return len(self.plans) < MAX_PLANS and sum(self.sizes) + size <= MAX_BYTES

    def append(self, plan: RecordedPlan, size: int) -> None:
        self.plans.append(plan)
        self.sizes.append(size)
        self.changes += 1

    def replace(self, plans: list[RecordedPlan]) -> None:
        self.plans, self.sizes = plans, [_size(plan) for plan in plans]
        self.changes += 1


class Ring:
    """The objects of one scheduler, `<name>-00` and so on; `dropped` counts plans that were never written."""

    def __init__(self, name: str) -> None:
        self.dropped = 0
        self._name = name
        self._names = [f"{name}-{number:02d}" for number in range(OBJECTS)]
        # The last page is being filled; those before it wait to be written.
        self._pages = [_RingObject(0, 1)]
        self._versions: dict[int, str] = {}
        self._recorded: dict[tuple[object, ...], None] = {}
        # Earlier parts of preemptions that are merged into another plan now.
        self._ended: set[tuple[object, ...]] = set()

    def restore(self, records: Iterable[PreemptionRecord]) -> None:
        """Continue after the stored records. Plans that were appended before this call come after them."""
        waiting = [plan for page in self._pages for plan in page.plans]
        newest: tuple[int, int, PreemptionRecord] | None = None
        for record in records:
            number = self._number(record)
            if number is None:
                continue
            self._versions[number] = record.metadata.resourceVersion or ""
            for plan in _known_plans(record):
                self._remember(plan)
            if newest is None or (record.sequence, number) > newest[:2]:
                newest = (record.sequence, number, record)
        if newest is not None:
            sequence, number, record = newest
            page = _RingObject(number, sequence)
            for plan in _known_plans(record):
                page.append(plan, _size(plan))
            page.saved = page.changes
            self._pages = [page]
            for plan in waiting:
                self._add_or_merge(plan)

    def append(self, plan: RecordedPlan) -> bool:
        """Queue a plan to be written; return False for an observed plan that is recorded already."""
        if not self._remember(plan):
            return False
        self._add_or_merge(plan)
        return True

    def draft(self) -> Draft | None:
        """Return the first object to be written, None if all are written."""
        page = next((page for page in self._pages if page.changes != page.saved), None)
        if page is None:
            return None
        version = self._versions.get(page.number, "")
        return Draft(self._names[page.number], version, page.sequence, tuple(page.plans), page.changes)

    def saved(self, draft: Draft, version: str) -> None:
        """Record that an object was written, and the resourceVersion that it has now."""
        page = self._page(draft)
        self._versions[self._names.index(draft.name)] = version
        if page is not None:
            page.saved = draft.changes
            if page is not self._pages[-1] and page.saved == page.changes:
                self._pages.remove(page)

    def met(self, draft: Draft, stored: PreemptionRecord | None) -> None:
        """Record the object that is stored where another was to be written; None if there is none.

        The last plans of an earlier leader are kept. If a later leader has continued already, our object is
        dropped.
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
            theirs = [plan for plan in _known_plans(stored) if _same(plan) not in known]
            ours = [self._joined(theirs, plan) for plan in page.plans]
            page.replace(sorted([*theirs, *ours], key=lambda plan: plan.time)[-MAX_PLANS:])

    def refused(self, draft: Draft) -> None:
        """Drop an object that is refused for what it holds, so that those after it are written."""
        page = self._page(draft)
        if page is not None:
            self.dropped += len(page.plans)
            if page is self._pages[-1]:
                self._pages.append(_RingObject((page.number + 1) % OBJECTS, page.sequence + 1))
            self._pages.remove(page)

    def _add_or_merge(self, plan: RecordedPlan) -> None:
        """Add a plan at the end, or merge it into the plan that it resumes."""
        for page in self._pages:
            before = list(page.plans)
            whole = self._joined(before, plan)
            if whole is not plan:
                page.replace(before)
                self._append(whole)
                return
        self._append(plan)

    def _joined(self, others: list[RecordedPlan], plan: RecordedPlan) -> RecordedPlan:
        """Return a plan merged with the one in `others` that it resumes; the plan itself if there is none.

        The merged one is removed from `others`.
        """
        earlier = next((other for other in others if _resumes(other, plan)), None)
        if earlier is None:
            return plan
        others.remove(earlier)
        self._ended.add(_same(earlier))
        return _whole(earlier, plan)

    def _append(self, plan: RecordedPlan) -> None:
        size = _size(plan)
        page = self._pages[-1]
        if not page.takes(size):
            if page.saved == page.changes:
                self._pages.remove(page)
            page = _RingObject((page.number + 1) % OBJECTS, page.sequence + 1)
            self._pages.append(page)
            if len(self._pages) > KEPT:
                self.dropped += len(self._pages.pop(0).plans)
        page.append(plan, size)

    def _remember(self, plan: RecordedPlan) -> bool:
        """Return whether a plan is new; one that was carried out always is."""
        if plan.mode == PlanMode.ENFORCED:
            return True
        key = (plan.preemptor.uid, unit_uids(plan))
        known = key in self._recorded
        self._recorded.pop(key, None)
        self._recorded[key] = None
        if len(self._recorded) > _REMEMBERED:
            del self._recorded[next(iter(self._recorded))]
        return not known

    def _number(self, record: PreemptionRecord) -> int | None:
        name = record.metadata.name or ""
        return self._names.index(name) if name in self._names else None

    def _page(self, draft: Draft) -> _RingObject | None:
        return next((page for page in self._pages if page.sequence == draft.sequence), None)


def _known_plans(record: PreemptionRecord) -> list[RecordedPlan]:
    """Return the plans of a record, without those of modes that only another version's schema has.

    The API server would refuse an object that still holds them.
    """
    return [plan for plan in record.plans if plan.mode in tuple(PlanMode)]


def _resumes(earlier: RecordedPlan, later: RecordedPlan) -> bool:
    """Return whether a plan resumes an earlier one whose process was stopped.

    For plans with more units than are named, this is unknown.
    """
    return (
        earlier.message == STOPPED
        and earlier.mode == later.mode == PlanMode.ENFORCED
        and earlier.preemptor.uid == later.preemptor.uid
        and _same(earlier) != _same(later)
        and unit_uids(later) <= unit_uids(earlier)
    )


def _whole(earlier: RecordedPlan, later: RecordedPlan) -> RecordedPlan:
    """Return both plans as the one preemption that they are, with the time and result of the later one.

    A process that is stopped while it waits records no answers. With answers, no pod is awaited again.
    """
    answers = {unit.uid: unit.saving for unit in later.units if unit.saving}
    units = (
        msgspec.structs.replace(unit, saving=answers.get(unit.uid, unit.saving)) for unit in earlier.units
    )
    return msgspec.structs.replace(
        later,
        units=tuple(units),
        unitCount=earlier.unitCount,
        podCount=earlier.podCount + later.podCount,
        accelerators=earlier.accelerators,
        violations=earlier.violations,
        acceleratorSeconds=earlier.acceleratorSeconds,
        acceleratorSecondsSaved=earlier.acceleratorSecondsSaved,
        askedPods=max(earlier.askedPods, later.askedPods),
        savedPods=max(earlier.savedPods, later.savedPods),
        waitedMilliseconds=earlier.waitedMilliseconds + later.waitedMilliseconds,
    )


def _same(plan: RecordedPlan) -> tuple[object, ...]:
    return plan.time, plan.mode, plan.preemptor.uid, tuple(unit.uid for unit in plan.units)


def _size(plan: RecordedPlan) -> int:
    return len(msgspec.json.encode(plan))
