"""KEP-5710: the integration tests of its test plan, its principles, and the planning of delayed preemption.

The names of the first four tests are the sentences of the test plan.
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


@pytest.mark.parametrize("semantics", AWARE)
def test_pods_of_a_group_in_mode_pod_can_be_preempted_individually_by_a_higher_priority_group(
    semantics: Semantics,
) -> None:
    plan = planned(running_gang(whole=False), waiting_group(), by=of("high"), semantics=semantics)
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert len(victims(plan)) == 1
    assert [unit.kind for unit in plan.victims] == ["Pod"]
    assert set(placed(plan)) == {"high-0"}


@pytest.mark.parametrize("semantics", AWARE)
def test_pods_of_a_group_in_mode_podgroup_are_preempted_all_together_by_a_higher_priority_group(
    semantics: Semantics,
) -> None:
    """Even when preempting a single pod would be enough to free up the space."""
    plan = planned(running_gang(whole=True), waiting_group(), by=of("high"), semantics=semantics)
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert [(unit.kind, unit.name) for unit in plan.victims] == [("PodGroup", "low")]
    assert victims(plan) == ["low-0", "low-1", "low-2", "low-3"]


@pytest.mark.parametrize("semantics", AWARE)
def test_pods_of_a_group_in_mode_pod_can_be_preempted_individually_by_a_higher_priority_pod(
    semantics: Semantics,
) -> None:
    plan = planned(running_gang(whole=False), pod("high", 2, 5), semantics=semantics)
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert len(victims(plan)) == 1
    assert [unit.kind for unit in plan.victims] == ["Pod"]


@pytest.mark.parametrize("semantics", [Semantics.KEP, Semantics.V1_37])
def test_pods_of_a_group_in_mode_podgroup_are_preempted_all_together_by_a_higher_priority_pod(
    semantics: Semantics,
) -> None:
    """Even when preempting a single pod would be enough to free up the space."""
    plan = planned(running_gang(whole=True), pod("high", 2, 5), semantics=semantics)
    assert [(unit.kind, unit.name) for unit in plan.victims] == [("PodGroup", "low")]
    assert victims(plan) == ["low-0", "low-1", "low-2", "low-3"]


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
