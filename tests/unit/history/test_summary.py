"""The totals of a history: each kind of plan separately, nothing counted twice, cycles detected."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.history import party, plan

from podium.api.records import Owner, Party, PlanMode, PreemptionRecord, RecordedPlan, Result, Saving
from podium.history.summary import Amount, Circle, ModeSums, Summary, summarize

GPU = "nvidia.com/gpu"
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def summed(*plans: RecordedPlan, since: int = 0, until: int = 86_399) -> Summary:
    """Sum up plans of one object, between two seconds of the day."""
    record = PreemptionRecord(plans=list(plans))
    return summarize([record], DAY + timedelta(seconds=since), DAY + timedelta(seconds=until))


def group(namespace: str, name: str, pods: int = 1, priority: int = 0, owner: str = "") -> Party:
    made_by = Owner("Job", owner, f"uid-{owner}") if owner else None
    return Party("PodGroup", namespace, name, f"uid-{name}", priority, pods, made_by)


def by(
    at: int, preemptor: Party, *units: Party, mode: str = PlanMode.ENFORCED, **fields: Any
) -> RecordedPlan:
    """Make a plan whose counts are consistent."""
    pods = sum(unit.pods for unit in units)
    counted = {"unitCount": len(units), "podCount": pods, **fields}
    return plan(at, mode, preemptor=preemptor, units=units, **counted)


HIGH = group("research", "train", 4, 1000)


def test_modes_are_never_added_together() -> None:
    summary = summed(
        by(1, HIGH, group("a", "x", 3, 10), accelerators={GPU: 24}, violations=2, acceleratorSeconds=86_400),
        by(
            2,
            HIGH,
            group("a", "y", 2, 10),
            mode=PlanMode.OBSERVED,
            accelerators={GPU: 16},
            acceleratorSeconds=3_600,
        ),
        by(3, HIGH, group("b", "z", 1, 5), mode=PlanMode.OBSERVED, accelerators={"google.com/tpu": 4}),
    )
    assert summary.modes == (
        ModeSums("Enforced", 1, 0, 1, 3, {GPU: 24}, 2, 86_400),
        ModeSums("Observed", 2, 0, 2, 3, {GPU: 16, "google.com/tpu": 4}, 0, 3_600),
    )
    assert summary.plans == 3
    a, b = summary.victims
    assert (a.name, a.enforced, a.observed) == ("a", Amount(1, 3), Amount(1, 2))
    assert (b.name, b.enforced, b.observed) == ("b", Amount(0, 0), Amount(1, 1))
    assert [(each.name, each.enforced) for each in summary.preemptors] == [("research", Amount(1, 3))]
    assert [(each.name, each.observed.pods) for each in summary.priorities] == [("10", 2), ("5", 1)]


def test_a_failed_preemption_counts_the_pods_that_went() -> None:
    """Their units and the accelerators of these are unknown."""
    failed = by(
        1,
        HIGH,
        group("a", "x", 3),
        result=Result.FAILED,
        podCount=1,
        accelerators={GPU: 24},
        violations=1,
        acceleratorSeconds=60,
        message="why",
    )
    summary = summed(failed)
    assert summary.modes == (ModeSums("Enforced", 1, 1, 0, 1, {}, 0, 0),)
    assert summary.failed == (failed,)
    assert summary.victims == ()


def test_answers_and_saved_work_are_summed_up() -> None:
    """A failed plan did ask its victims. The workloads that failed are those of all records."""
    said: dict[str, Any] = {"askedPods": 3, "savedPods": 1, "waitedMilliseconds": 40_000}
    lost = msgspec.structs.replace(group("a", "x", 3, owner="train"), saving=Saving.FAILED)
    first = by(1, HIGH, lost, acceleratorSeconds=60, acceleratorSecondsSaved=600, **said)
    second = by(9, HIGH, lost, acceleratorSecondsSaved=5, result=Result.FAILED, **said)
    for summary, times in ((summed(first, second), 2), (summed(first, second, since=5), 1)):
        (sums,) = summary.modes
        assert (sums.askedPods, sums.savedPods, sums.waitedMilliseconds) == (3 * times, times, 40_000 * times)
        assert sums.acceleratorSecondsSaved == (600 if times == 2 else 0)
        assert summary.untrusted == ("Job a/train",)


def test_only_the_time_asked_for() -> None:
    """Both ends count, and the summary has the date of the oldest record."""
    plans = [by(at, HIGH, group("a", "x")) for at in (10, 20, 30, 40)]
    assert summed(*plans, since=20, until=30).plans == 2
    assert summed(*plans, since=20, until=30).begins == "2026-01-01T00:00:10Z"
    assert summed().begins == ""
    assert summed(msgspec.structs.replace(plans[0], time="soon")).plans == 0


def test_a_mode_of_another_version_is_left_out() -> None:
    """The same plans without it have the same summary."""
    kept = by(2, HIGH, group("a", "x"))
    others = [by(at, HIGH, group("b", "y"), mode="Shadow", result=Result.FAILED) for at in (1, 3)]
    assert summed(*others, kept) == summed(kept)


def test_workloads_that_evict_each_other() -> None:
    """Owners identify them, because their groups are recreated; each closing of the cycle is a round."""
    first, second = group("a", "x", owner="jx"), group("b", "y", owner="jy")
    again = group("a", "x-2", owner="jx")
    summary = summed(by(1, first, second), by(60, second, first), by(120, again, second))
    (circle,) = summary.cycles
    assert circle == Circle(("Job b/jy", "Job a/jx"), 2, "2026-01-01T00:02:00Z")


def test_no_circle() -> None:
    """There is no cycle in one direction, half an hour apart, or without an eviction."""
    first, second = group("a", "x"), group("b", "y")
    assert summed(by(1, first, second), by(60, first, second)).cycles == ()
    assert summed(by(1, first, second), by(1 + 1800, second, first)).cycles == ()
    observed = [by(1, first, second), by(2, second, first)]
    assert summed(*(msgspec.structs.replace(each, mode=PlanMode.OBSERVED) for each in observed)).cycles == ()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 86_399),
            st.sampled_from(PlanMode),
            st.sampled_from([Result.EVICTED, Result.FAILED]),
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.integers(-1, 2)), max_size=3),
        ),
        max_size=20,
    )
)
def test_sums_agree_with_each_other(rows: list[Any]) -> None:
    """The totals by mode, by namespace and by priority are of the same pods, in any order of writes."""
    plans = [
        by(at, HIGH, *(group(name, "x", pods, rank) for name, pods, rank in units), mode=mode, result=result)
        for at, mode, result, units in rows
    ]
    summary = summed(*plans)
    assert summary == summed(*sorted(plans, key=lambda each: each.time))
    for sums in summary.modes:
        field = sums.mode.lower()
        lost = sum(each.podCount for each in summary.failed if each.mode == sums.mode)
        for shares in (summary.victims, summary.priorities, summary.preemptors):
            assert sum(getattr(each, field).pods for each in shares) == sums.pods - lost
            assert sum(getattr(each, field).units for each in shares) == sums.units
    assert sum(sums.plans for sums in summary.modes) == len(plans)


def test_parties_are_named_by_what_they_are_part_of() -> None:
    alone = party("solo")
    summary = summed(by(1, alone, group("b", "y")), by(2, group("b", "y"), alone))
    assert summary.cycles[0].workloads == ("PodGroup b/y", "Pod team-a/solo")
