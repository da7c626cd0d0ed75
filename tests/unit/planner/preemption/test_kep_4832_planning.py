"""KEP-4832: the last two of its scenarios, with a preemption planned while another is in progress.

The first preemptor is nominated to node1, where its victim is leaving. Then the second is planned.
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
    victims,
)

from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

# Plans count a marked victim as gone, and its room belongs to the first preemptor.
LEAVING: list[dict[str, Any]] = [{"terminating": True}, {"status": marked_for_deletion()}]


def under_way(priority: int, leaving: dict[str, Any]) -> list[Any]:
    """Return node1 of 4 cpus: the preemptor pod1 waits for one half, and low has the other half."""
    return [
        node("node1"),
        pod("victim", 2, 0, node="node1", **leaving),
        pod("low", 2, 0, node="node1"),
        pod("pod1", 2, priority, status={"nominatedNodeName": "node1"}),
    ]


@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize("priority", [5, 6])
def test_two_preemptions_that_select_the_same_node_make_room_for_both(
    priority: int, leaving: dict[str, Any]
) -> None:
    """pod2 is of equal or lower priority. Its plan counts pod1's nomination, so it evicts `low` too."""
    plan = planned(under_way(priority, leaving), pod("pod2", 2, 5), by="pod2")
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert victims(plan) == ["low"]
    assert placed(plan) == {"pod2": "node1"}


@pytest.mark.parametrize("leaving", LEAVING)
def test_a_higher_priority_preemptor_ignores_the_nomination(leaving: dict[str, Any]) -> None:
    """pod2 takes the room that was made for pod1, and no other pod is evicted."""
    plan = planned(under_way(4, leaving), pod("pod2", 2, 5), by="pod2")
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert victims(plan) == []
    assert placed(plan) == {"pod2": "node1"}


def test_room_that_is_reserved_is_not_free() -> None:
    """It fits without preemption only if no preemptor of equal or higher priority is nominated there."""
    nodes = [node("node1"), pod("pod1", 3, 5, status={"nominatedNodeName": "node1"})]
    equal = planned(nodes, pod("pod2", 2, 5), by="pod2")
    assert (equal.outcome, victims(equal)) == (Outcome.DOES_NOT_FIT, [])
    assert planned(nodes, pod("pod2", 2, 6), by="pod2").outcome is Outcome.FITS


def test_a_member_that_is_nominated_counts_with_the_priority_of_its_group() -> None:
    nominated = [
        node("node1"),
        group("first", 5, 1),
        gang("first", [None], 3, priority=0, status={"nominatedNodeName": "node1"}),
    ]
    assert planned(nominated, pod("pod2", 2, 5), by="pod2").outcome is Outcome.DOES_NOT_FIT
    assert planned(nominated, pod("pod2", 2, 6), by="pod2").outcome is Outcome.FITS


def test_nominations_of_the_groups_own_members_do_not_block_it() -> None:
    plan = planned(
        node("node1"),
        group("high", 5, 2),
        gang("high", [None, None], 2, priority=5, status={"nominatedNodeName": "node1"}),
        by=of("high"),
    )
    assert plan.outcome is Outcome.FITS


def test_a_nomination_for_a_deleted_node_reserves_nothing() -> None:
    plan = planned(
        node("node1"), pod("pod1", 3, 9, status={"nominatedNodeName": "node2"}), pod("pod2", 3, 5), by="pod2"
    )
    assert plan.outcome is Outcome.FITS


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37])
def test_kube_scheduler_counts_leaving_pods_as_potential_victims(semantics: Semantics) -> None:
    plan = planned(under_way(4, {"terminating": True}), pod("pod2", 2, 5), by="pod2", semantics=semantics)
    assert len(victims(plan)) == 1
