"""The time for which the room of a terminating pod counts as free: a minute past its deletion time."""

from typing import Any

import pytest
from tests.support.preemption.clusters import time_of
from tests.support.preemption.scene import (
    SECONDS,
    gang,
    group,
    marked_for_deletion,
    node,
    of,
    placed,
    planned,
    pod,
    scheduled,
    spared,
    victims,
)

from podium.api.schedulable import Schedulable
from podium.planner.preemption.inflight import LATE_SECONDS, LONGEST_GRACE_SECONDS, free_until
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.preemption.protection import FOREVER
from podium.planner.semantics import Semantics

YEARS = 315_360_000


def leaving(name: str, *, left: int, grace: int | None = 30, cpu: int = 4, **kwargs: Any) -> Schedulable:
    """Make a pod that is being deleted, with its deletion time in `left` seconds."""
    made = pod(name, cpu, **{"node": "n1", **kwargs})
    made.metadata.deletionTimestamp = time_of(SECONDS + left)
    made.metadata.deletionGracePeriodSeconds = grace
    return made


@pytest.mark.parametrize(
    ("left", "grace", "seconds"),
    [
        pytest.param(30, 30, 30 + LATE_SECONDS, id="deleted now"),
        pytest.param(-30, 30, -30 + LATE_SECONDS, id="its time is over, the minute is not"),
        pytest.param(600, 600, 600 + LATE_SECONDS, id="the longest grace period that counts"),
        pytest.param(0, 0, LATE_SECONDS, id="none"),
        pytest.param(30, None, 30 + LATE_SECONDS, id="unknown"),
    ],
)
@pytest.mark.parametrize("status", [None, marked_for_deletion()], ids=["its owner", "a preemption"])
def test_the_second_until_which_the_room_counts_as_free(
    left: int, grace: int | None, seconds: int, status: dict[str, Any] | None
) -> None:
    """The result is the same for any cause of the deletion."""
    assert free_until(leaving("going", left=left, grace=grace, status=status)) == SECONDS + seconds


@pytest.mark.parametrize(
    ("left", "grace", "seconds"),
    [
        pytest.param(601, 601, 600 + LATE_SECONDS, id="one second longer"),
        pytest.param(1, 601, LATE_SECONDS, id="most of it is over"),
        pytest.param(YEARS, YEARS, LONGEST_GRACE_SECONDS + LATE_SECONDS, id="ten years"),
    ],
)
def test_a_longer_grace_period_counts_in_part_and_only_for_victims(
    left: int, grace: int, seconds: int
) -> None:
    victim = leaving("going", left=left, grace=grace, status=marked_for_deletion())
    assert free_until(victim) == SECONDS + seconds
    assert free_until(leaving("going", left=left, grace=grace)) == 0


@pytest.mark.parametrize("written", ["soon", "", "2026-01-01T00:00:00", "10001-01-01T00:00:00Z"])
def test_an_unreadable_deletion_time_frees_no_room(written: str) -> None:
    going = leaving("going", left=30)
    going.metadata.deletionTimestamp = written
    assert free_until(going) == 0


def test_a_marked_victim_without_a_deletion_time_frees_room_forever() -> None:
    assert free_until(pod("going", status=marked_for_deletion())) == FOREVER


def beside(going: Schedulable, **settings: Any) -> Plan:
    """Plan for a pod that fits on n1 without that pod, and on n2 after preemption."""
    return planned(node("n1"), node("n2"), going, pod("low", 4, 1, node="n2"), pod("high", 4, 5), **settings)


@pytest.mark.parametrize(
    ("left", "grace", "free"),
    [
        pytest.param(1 - LATE_SECONDS, 30, True, id="the last second"),
        pytest.param(-LATE_SECONDS, 30, False, id="a minute after its deletion time"),
        pytest.param(-7200, 30, False, id="a pod that hangs"),
        pytest.param(600, 600, True, id="ten minutes, just deleted"),
        pytest.param(601, 601, False, id="a second longer than ten minutes, just deleted"),
        pytest.param(YEARS, YEARS, False, id="ten years, just deleted"),
    ],
)
def test_a_preemptor_counts_on_the_room_for_a_limited_time(left: int, grace: int, *, free: bool) -> None:
    plan = beside(leaving("going", left=left, grace=grace))
    assert placed(plan) == {"high": "n1" if free else "n2"}
    assert victims(plan) == ([] if free else ["low"])
    assert ("going" in plan.message) is free
    late = [each for each in plan.findings if each.field == "metadata.deletionTimestamp"]
    assert [str(each.object) for each in late] == ([] if free else ["Pod team-a/going"])


def test_a_pod_that_has_not_left_in_time_is_no_victim() -> None:
    """It is being deleted already: another deletion frees nothing."""
    plan = planned(node("n1"), leaving("going", left=-7200), pod("high", 4, 5))
    assert (plan.outcome, victims(plan), spared(plan)) == (Outcome.DOES_NOT_FIT, [], {})


@pytest.mark.parametrize("least", [1, 2])
def test_a_group_counts_only_on_pods_that_leave_in_time(least: int) -> None:
    """One of the two nodes becomes free in time."""
    plan = planned(
        [node("n1"), node("n2")],
        [leaving("late", left=-7200), leaving("going", left=10, node="n2")],
        group("high", 5, least),
        gang("high", [None, None], 4, priority=5),
        by=of("high"),
    )
    assert plan.outcome is (Outcome.FITS_AFTER_PREEMPTION if least == 1 else Outcome.DOES_NOT_FIT)
    assert set(placed(plan).values()) == ({"n2"} if least == 1 else set())


def test_a_group_is_evicted_without_the_member_that_has_not_left() -> None:
    members = gang("low", ["n1", "n2"], 2, priority=1, status=scheduled(60))
    plan = planned(
        [node("n1"), node("n2")],
        group("low", 1, 3, whole=True),
        members,
        leaving("low-9", left=-7200, cpu=2, group="low"),
        pod("high", 4, 5),
    )
    assert (victims(plan), placed(plan)) == (["low-0", "low-1"], {"high": "n2"})


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_kube_scheduler_counts_a_leaving_pod_as_a_potential_victim(semantics: Semantics) -> None:
    """For any deletion time."""
    for left in (30, -7200):
        plan = planned(node("n1"), leaving("going", left=left), pod("high", 4, 5), semantics=semantics)
        assert victims(plan) == ["going"]
        assert plan.findings == ()
