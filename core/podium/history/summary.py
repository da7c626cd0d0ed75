"""Sums up a history: evictions by namespace and priority, and observed plans.

Two kinds of plans are never added together. Plans that were carried out happened. Plans that were only
observed would have happened. Plans of any other mode, which another version wrote, are left out. The fields
are those of the report's JSON.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from podium.api.records import PlanMode, PreemptionRecord, RecordedPlan, Result
from podium.api.times import written
from podium.history.evictioncycles import Evictions, Identity
from podium.history.records import identity, moment_of
from podium.history.trust import Trust


class Amount(msgspec.Struct, frozen=True):
    """A number of units and of their pods."""

    units: int
    pods: int


class ModeSums(msgspec.Struct, frozen=True):
    """The sums of all plans of one mode; `violations` and `acceleratorSeconds` are their harm.

    `acceleratorSecondsSaved` is the work that victims saved. Of `askedPods`, `savedPods` saved in time when
    asked, and the plans waited `waitedMilliseconds` for them. A failed plan counts in these three, and
    in `plans`, `failed` and `pods` (the pods that it evicted) only.
    """

    mode: str
    plans: int
    failed: int
    units: int
    pods: int
    accelerators: dict[str, int]
    violations: int
    acceleratorSeconds: int
    acceleratorSecondsSaved: int = 0
    askedPods: int = 0
    savedPods: int = 0
    waitedMilliseconds: int = 0


class Share(msgspec.Struct, frozen=True):
    """The units of a namespace or a priority, by mode: carried out, and observed."""

    name: str
    enforced: Amount
    observed: Amount


class Circle(msgspec.Struct, frozen=True):
    """Workloads that evicted each other in turn, the number of rounds, and the time of the last."""

    workloads: tuple[str, ...]
    rounds: int
    last: str


class Summary(msgspec.Struct, frozen=True):
    """The report from `since` to `until` (RFC 3339); `begins` is the time of the oldest recorded plan.

    `victims` are by namespace, `priorities` are the victims by priority, `preemptors` by namespace. Plans are
    the newest first. `untrusted` are the workloads that do not save their work as declared, by all records.
    """

    since: str
    until: str
    begins: str
    modes: tuple[ModeSums, ...]
    victims: tuple[Share, ...]
    priorities: tuple[Share, ...]
    preemptors: tuple[Share, ...]
    failed: tuple[RecordedPlan, ...]
    cycles: tuple[Circle, ...]
    untrusted: tuple[str, ...] = ()

    @property
    def plans(self) -> int:
        """Return the number of all plans."""
        return sum(mode.plans for mode in self.modes)


def summarize(records: Iterable[PreemptionRecord], since: datetime, until: datetime) -> Summary:
    """Return the summary of the plans in a time (UTC, both ends count)."""
    records = tuple(records)
    timed = sorted(
        (
            (at, plan)
            for record in records
            for plan in record.plans
            if plan.mode in tuple(PlanMode) and (at := moment_of(plan)) is not None
        ),
        key=lambda entry: entry[0],
    )
    within = [(at, plan) for at, plan in timed if since <= at <= until]
    plans = [plan for _, plan in within]
    victims = [(plan, unit) for plan in plans for unit in plan.units]
    return Summary(
        since=written(since),
        until=written(until),
        begins=written(timed[0][0]) if timed else "",
        modes=tuple(_sums(mode, plans) for mode in PlanMode if any(plan.mode == mode for plan in plans)),
        victims=_shares((plan, unit.namespace, Amount(1, unit.pods)) for plan, unit in victims),
        priorities=_shares((plan, str(unit.priority), Amount(1, unit.pods)) for plan, unit in victims),
        preemptors=_shares((plan, plan.preemptor.namespace, _amount(plan)) for plan in plans),
        failed=tuple(plan for plan in reversed(plans) if plan.result == Result.FAILED),
        cycles=_cycles(within),
        untrusted=tuple(_named(Identity(*workload)) for workload in sorted(Trust(records).untrusted)),
    )


def _named(workload: Identity) -> str:
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def _amount(plan: RecordedPlan) -> Amount:
    return Amount(plan.unitCount, plan.podCount)


def _sums(mode: PlanMode, plans: Iterable[RecordedPlan]) -> ModeSums:
    held: dict[str, int] = {}
    number = failed = units = pods = violations = work = saved = asked = answered = waited = 0
    for plan in plans:
        if plan.mode != mode:
            continue
        number += 1
        pods += plan.podCount
        asked += plan.askedPods
        answered += plan.savedPods
        waited += plan.waitedMilliseconds
        if plan.result == Result.FAILED:
            # It is not known which of its victims were evicted.
            failed += 1
            continue
        units += plan.unitCount
        violations += plan.violations
        work += plan.acceleratorSeconds
        saved += plan.acceleratorSecondsSaved
        for name, amount in plan.accelerators.items():
            held[name] = held.get(name, 0) + amount
    return ModeSums(mode, number, failed, units, pods, held, violations, work, saved, asked, answered, waited)


def _shares(parts: Iterable[tuple[RecordedPlan, str, Amount]]) -> tuple[Share, ...]:
    """Return the amounts by name and mode, most pods first, without failed plans.

    It is not known which victims of a failed plan were evicted.
    """
    by_name: dict[str, dict[str, Amount]] = {}
    for plan, name, amount in parts:
        if plan.result == Result.FAILED:
            continue
        modes = by_name.setdefault(name, {})
        had = modes.get(plan.mode, Amount(0, 0))
        modes[plan.mode] = Amount(had.units + amount.units, had.pods + amount.pods)
    shares = [
        Share(name, *(_mode_amount(modes, mode) for mode in PlanMode)) for name, modes in by_name.items()
    ]
    return tuple(sorted(shares, key=lambda share: (-share.enforced.pods, -share.observed.pods, share.name)))


def _mode_amount(modes: Mapping[str, Amount], mode: PlanMode) -> Amount:
    return modes.get(mode, Amount(0, 0))


def _cycles(plans: Iterable[tuple[datetime, RecordedPlan]]) -> tuple[Circle, ...]:
    """Return the workloads that evicted each other in turn, found as the scheduler itself does."""
    evictions = Evictions()
    rounds: dict[frozenset[Identity], tuple[tuple[Identity, ...], int, datetime]] = {}
    for at, plan in plans:
        if plan.mode != PlanMode.ENFORCED:
            continue
        by, now = identity(plan.preemptor), at.timestamp()
        for of in dict.fromkeys(identity(unit) for unit in plan.units):
            circle = evictions.closes(by, of, now)
            if circle:
                first, number, _ = rounds.get(frozenset(circle), (circle, 0, at))
                rounds[frozenset(circle)] = (first, number + 1, at)
            evictions.record(by, of, now)
    circles = [
        Circle(tuple(map(_named, circle)), number, written(last)) for circle, number, last in rounds.values()
    ]
    return tuple(sorted(circles, key=lambda circle: (-circle.rounds, circle.workloads)))
