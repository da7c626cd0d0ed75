"""KEP-5710: the integration tests of its test plan, its principles, and the planning of delayed preemption.

The first four cases are the sentences of the test plan.
"""

from typing import Any

import pytest
from tests.support.preemption.scene import (
    gang,
    group,
    marked_for_deletion,
    node,
    of,
    placed,
    planned,
    pod,
    scheduled,
    victims,
)

from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

# The spec's rule, and the releases with groups as victims and preemptors.
AWARE = [Semantics.KEP, Semantics.V1_36, Semantics.V1_37]


def running_gang(*, whole: bool) -> list[Any]:
    """Return two nodes of 4 cpus that are full of one group of four."""
    low = group("low", priority=1, least=4, whole=whole)
    return [node("n1"), node("n2"), low, *gang("low", ["n1", "n1", "n2", "n2"], 2, priority=1)]


def waiting_group() -> list[Any]:
    return [group("high", priority=5, least=1), *gang("high", [None], 2, priority=5)]


LONE, GROUP = "lone", of("high")
TEST_PLAN: dict[str, tuple[bool, Any]] = {
    "pods of a group in mode Pod can be preempted individually by a higher priority group": (False, GROUP),
    "pods of a group in mode PodGroup are preempted all together by a higher priority group": (True, GROUP),
    "pods of a group in mode Pod can be preempted individually by a higher priority pod": (False, LONE),
    "pods of a group in mode PodGroup are preempted all together by a higher priority pod": (True, LONE),
}


@pytest.mark.parametrize(("whole", "by"), TEST_PLAN.values(), ids=TEST_PLAN)
@pytest.mark.parametrize("semantics", AWARE)
def test_the_sentences_of_the_test_plan(whole: bool, by: Any, semantics: Semantics) -> None:
    """In mode PodGroup also when preempting a single pod would be enough; 1.36 has no such units for pods."""
    mine = pod(LONE, 2, 5) if by == LONE else waiting_group()
    plan = planned(running_gang(whole=whole), mine, by=by, semantics=semantics)
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    if whole and not (by == LONE and semantics is Semantics.V1_36):
        assert [(unit.kind, unit.name) for unit in plan.victims] == [("PodGroup", "low")]
        assert victims(plan) == ["low-0", "low-1", "low-2", "low-3"]
    else:
        assert [unit.kind for unit in plan.victims] == ["Pod"]
    assert set(placed(plan)) == ({LONE} if by == LONE else {"high-0"})


# Principles.


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("by", ["high", of("group")])
def test_nothing_is_preempted_for_a_preemptor_that_fits(semantics: Semantics, by: Any) -> None:
    plan = planned(
        node("n1"),
        node("n2"),
        pod("low", 3, 0, node="n1"),
        pod("high", 3, 5),
        group("group", 5, 1),
        gang("group", [None], 3, priority=5),
        by=by,
        semantics=semantics,
    )
    assert plan.outcome is Outcome.FITS
    assert victims(plan) == []
    assert list(placed(plan).values()) == ["n2"]


def test_a_group_is_placed_over_many_nodes_at_the_cost_of_pods_and_groups() -> None:
    """A group as preemptor, groups and single pods as victims, and no needless unit."""
    plan = planned(
        node("n1"),
        node("n2"),
        node("n3"),
        group("low", 1, 2, whole=True),
        gang("low", ["n1", "n2"], 4, priority=1),
        pod("single", 4, 1, node="n3"),
        group("high", 5, 3),
        gang("high", [None] * 3, 4, priority=5),
        by=of("high"),
    )
    assert sorted((unit.kind, unit.name) for unit in plan.victims) == [("Pod", "single"), ("PodGroup", "low")]
    assert sorted(placed(plan).values()) == ["n1", "n2", "n3"]


def test_the_node_with_the_least_secondary_preemption_is_chosen() -> None:
    """The second principle: each plan evicts one pod of priority 3; recreated, `roams` preempts another."""
    plan = planned(
        node("n1", labels={"pool": "a"}),
        node("n2", labels={"pool": "a"}),
        node("n3", labels={"pool": "b"}),
        pod("roams", 4, 3, node="n1", ago=60),
        pod("bound", 4, 3, node="n2", ago=60, nodeSelector={"pool": "a"}),
        pod("low", 4, 1, node="n3"),
        pod("high", 4, 5, nodeSelector={"pool": "a"}),
    )
    assert victims(plan) == ["bound"]


# Delayed preemption: planning during a preemption.


@pytest.mark.parametrize("leaving", [{"terminating": True}, {"status": marked_for_deletion()}])
def test_a_nomination_that_is_still_feasible_starts_no_new_preemption(leaving: dict[str, Any]) -> None:
    """The first case: the room of the nominated node is not free yet, and the preemptor waits for it."""
    plan = planned(
        node("n1"),
        node("n2"),
        pod("going", 4, 1, node="n1", **leaving),
        pod("low", 4, 0, node="n2"),
        pod("high", 4, 5, status={"nominatedNodeName": "n1"}),
    )
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert victims(plan) == []
    assert placed(plan) == {"high": "n1"}
    assert plan.minimalPriority is None


def test_a_group_with_feasible_nominations_starts_no_new_preemption() -> None:
    plan = planned(
        node("n1"),
        node("n2"),
        node("n3"),
        [pod(f"going-{at}", 4, 1, node=f"n{at}", terminating=True) for at in (1, 2)],
        pod("low", 4, 0, node="n3"),
        group("high", 5, 2),
        pod("high-0", 4, 5, group="high", status={"nominatedNodeName": "n2"}),
        pod("high-1", 4, 5, group="high", status={"nominatedNodeName": "n1"}),
        by=of("high"),
    )
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert victims(plan) == []
    assert placed(plan) == {"high-0": "n2", "high-1": "n1"}


def test_an_alternative_placement_that_is_free_now_is_taken() -> None:
    """The first case allows another placement; then the preemptor does not wait."""
    plan = planned(
        node("n1"),
        node("n2"),
        pod("going", 4, 1, node="n1", terminating=True),
        pod("high", 4, 5, status={"nominatedNodeName": "n1"}),
    )
    assert (plan.outcome, placed(plan)) == (Outcome.FITS, {"high": "n2"})


def test_a_nomination_that_is_no_longer_feasible_is_planned_from_scratch() -> None:
    """The second case: a higher priority pod took the room; earlier victims cost nothing more.

    n1 was freed and taken. On n2 half of the room is leaving already, so it needs one victim less than n3.
    """
    plan = planned(
        node("n1"),
        node("n2"),
        node("n3"),
        pod("higher", 4, 9, node="n1"),
        pod("going", 2, 1, node="n2", terminating=True),
        pod("low", 2, 1, node="n2", ago=60),
        [pod(f"other-{at}", 2, 1, node="n3", ago=30) for at in range(2)],
        pod("high", 4, 5, status={"nominatedNodeName": "n1"}),
    )
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert victims(plan) == ["low"]
    assert placed(plan) == {"high": "n2"}


def test_priorities_of_the_pods_of_a_group_are_ignored() -> None:
    """The group's priority decides, for victims and preemptors."""
    plan = planned(
        node("n1"),
        group("low", 1, 1),
        gang("low", ["n1"], 4, priority=100),
        group("high", 5, 1),
        gang("high", [None], 4, priority=0),
        by=of("high"),
    )
    assert victims(plan) == ["low-0"]
    assert plan.minimalPriority == 1


def test_a_group_of_equal_priority_is_not_preempted() -> None:
    plan = planned(
        node("n1"),
        group("low", 5, 1, whole=True),
        gang("low", ["n1"], 4, priority=0, status=scheduled()),
        pod("high", 4, 5),
    )
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert plan.message.startswith("nothing has a lower priority: 0/1 nodes are available")
