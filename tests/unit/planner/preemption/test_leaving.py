"""Leaving pods keep their room until they are gone, and a plan uses that room at no cost.

A pod is leaving if it is being deleted for any cause, or if a preemption has marked it.
"""

from typing import Any

import pytest
from tests.support.preemption.scene import (
    HOST,
    ZONE,
    gang,
    group,
    marked_for_deletion,
    node,
    of,
    placed,
    planned,
    pod,
    spared,
    victims,
)
from tests.unit.planner.preemption.test_budgets import budget

from podium.planner.preemption.outcome import Outcome

LEAVING = pytest.mark.parametrize(
    "leaving",
    [
        pytest.param({"terminating": True}, id="deleted"),
        pytest.param({"status": marked_for_deletion()}, id="marked as a victim"),
    ],
)


@LEAVING
def test_it_fits_on_the_room_of_leaving_pods_and_the_message_counts_them(leaving: dict[str, Any]) -> None:
    plan = planned(
        node("n1"),
        [pod(f"going-{at}", 1, 1, node="n1", **leaving) for at in range(3)],
        pod("low", 1, 0, node="n1"),
        pod("high", 3, 5),
    )
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert victims(plan) == []
    assert plan.minimalPriority is None
    assert plan.message == (
        "fits on node n1 once 3 pods that are leaving already have gone: "
        "team-a/going-0, team-a/going-1, team-a/going-2"
    )


def test_one_leaving_pod_is_counted_in_the_singular() -> None:
    plan = planned(node("n1"), pod("going", 4, 1, node="n1", terminating=True), pod("high", 3, 5))
    assert plan.message == "fits on node n1 once 1 pod that is leaving already has gone: team-a/going"


@LEAVING
def test_leaving_pods_occupy_their_node_until_they_are_gone(leaving: dict[str, Any]) -> None:
    """A pod that fits elsewhere goes there; no pod is bound on room that is not free yet."""
    plan = planned(node("n1"), node("n2"), pod("going", 4, 1, node="n1", **leaving), pod("high", 3, 5))
    assert (plan.outcome, placed(plan)) == (Outcome.FITS, {"high": "n2"})


@LEAVING
def test_leaving_pods_are_no_victims_beside_other_victims(leaving: dict[str, Any]) -> None:
    """They cost nothing: their node needs one victim less."""
    plan = planned(
        node("n1"),
        node("n2"),
        [pod(f"low-{at}", 2, 1, node="n1", ago=60) for at in range(2)],
        [pod("going", 2, 1, node="n2", **leaving), pod("low", 2, 1, node="n2", ago=60)],
        pod("high", 4, 5),
    )
    assert (victims(plan), placed(plan)) == (["low"], {"high": "n2"})
    assert "going" not in spared(plan)


@LEAVING
def test_leaving_pods_of_higher_priority_and_of_kube_system_free_room_too(leaving: dict[str, Any]) -> None:
    """No pod is evicted, because they leave anyway."""
    plan = planned(
        node("n1"),
        pod("going-1", 2, 9, node="n1", **leaving),
        pod("going-2", 2, 0, node="n1", namespace="kube-system", **leaving),
        pod("high", 4, 5),
    )
    assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, [])


def test_a_leaving_pod_charges_no_budget() -> None:
    plan = planned(
        node("n1"),
        pod("going", 2, 1, node="n1", labels={"app": "a"}, terminating=True),
        pod("low", 2, 1, node="n1", labels={"app": "a"}, ago=60),
        budget(allowed=1),
        pod("high", 4, 5),
    )
    assert victims(plan) == ["low"]
    assert not plan.victims[0].violatesBudget


def test_a_group_with_a_leaving_member_is_still_one_unit() -> None:
    plan = planned(
        node("n1"),
        group("low", 1, 3, whole=True),
        gang("low", ["n1", "n1"], 1, priority=1, ago=60),
        pod("going", 2, 1, node="n1", group="low", terminating=True),
        pod("high", 3, 5),
    )
    assert victims(plan) == ["low-0", "low-1"]


def test_only_pods_on_the_preemptors_own_nodes_are_awaited() -> None:
    plan = planned(
        node("n1"),
        node("n2"),
        pod("going-n1", 4, 1, node="n1", terminating=True),
        pod("going-n2", 4, 1, node="n2", terminating=True),
        pod("high", 4, 5),
    )
    (chosen,) = placed(plan).values()
    assert plan.message.endswith(f"once 1 pod that is leaving already has gone: team-a/going-{chosen}")


def test_a_group_waits_for_them_on_several_nodes() -> None:
    plan = planned(
        node("n1"),
        node("n2"),
        [pod(f"going-{at}", 4, 1, node=f"n{at}", terminating=True) for at in (1, 2)],
        group("high", 5, 2),
        gang("high", [None, None], 4, priority=5),
        by=of("high"),
    )
    assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, [])
    assert plan.message == (
        "2 of 2 pending pods fit once 2 pods that are leaving already have gone: "
        "team-a/going-1, team-a/going-2"
    )


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
        {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"},
    ],
)
def test_another_disruption_is_no_preemption(condition: dict[str, str]) -> None:
    """Such a pod may stay; it is a potential victim like others."""
    low = pod("low", 4, 1, node="n1", status={"conditions": [condition]})
    assert victims(planned(node("n1"), low, pod("high", 3, 5))) == ["low"]


@LEAVING
def test_a_leaving_pod_elsewhere_is_awaited_if_anti_affinity_excludes_it(leaving: dict[str, Any]) -> None:
    """There is room, but a pod bound at once would violate its anti-affinity."""
    zone = {ZONE: "z"}
    apart = {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": ZONE}
    plan = planned(
        node("n1", labels=zone),
        node("n2", labels=zone),
        pod("going", 4, 1, node="n2", labels={"app": "b"}, **leaving),
        pod(
            "high",
            1,
            5,
            nodeSelector={HOST: "n1"},
            affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        ),
    )
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert plan.message == "fits on node n1 once 1 pod that is leaving already has gone: team-a/going"
