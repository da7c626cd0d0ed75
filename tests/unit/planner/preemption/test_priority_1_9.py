"""The rules and examples of the documentation of priority and preemption in Kubernetes 1.9.

They still hold, under `kep` and under the semantics of every release.
"""

from typing import Any

import pytest
from tests.support.preemption.scene import HOST, ZONE, node, placed, planned, pod, spared, victims
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.schedulable import Schedulable
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

pytestmark = pytest.mark.parametrize("semantics", Semantics)


def near(app: str, key: str = HOST) -> dict[str, Any]:
    """Return required affinity to an app."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, key)]}}


def apart(app: str, key: str = HOST) -> dict[str, Any]:
    """Return required anti-affinity to an app."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, key)]}}


def _term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def app(name: str, of_app: str, priority: int, where: str, cpu: int = 1) -> Schedulable:
    return pod(name, cpu, priority, node=where, labels={"app": of_app}, ago=60)


def test_a_node_is_found_where_removal_of_lower_priority_pods_lets_the_pending_pod_be_scheduled(
    semantics: Semantics,
) -> None:
    plan = planned(node("n1"), pod("low", 4, 0, node="n1", ago=60), pod("high", 4, 1), semantics=semantics)
    assert (plan.outcome, victims(plan), placed(plan)) == (
        Outcome.FITS_AFTER_PREEMPTION,
        ["low"],
        {"high": "n1"},
    )


def test_only_a_portion_of_the_lower_priority_pods_is_removed(semantics: Semantics) -> None:
    lows = [pod(f"low-{at}", 1, at, node="n1", ago=60) for at in range(4)]
    assert victims(planned(node("n1"), lows, pod("high", 2, 9), semantics=semantics)) == ["low-1", "low-0"]


def test_a_node_where_removing_all_of_them_is_not_enough_is_not_considered(semantics: Semantics) -> None:
    plan = planned(
        node("n1"),
        pod("low", 1, 0, node="n1", ago=60),
        pod("peer", 3, 5, node="n1", ago=60),
        pod("high", 2, 5),
        semantics=semantics,
    )
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])


def test_pods_of_equal_priority_are_never_preempted(semantics: Semantics) -> None:
    plan = planned(node("n1"), pod("peer", 4, 5, node="n1", ago=60), pod("high", 4, 5), semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])


def test_victims_without_a_budget_violation_are_found(semantics: Semantics) -> None:
    """Within a node and among nodes, and with another victim at the same cost."""
    plan = planned(
        node("n1"),
        app("guarded", "a", 0, "n1", 2),
        app("free", "b", 0, "n1", 2),
        budget(allowed=0),
        pod("high", 2, 9),
        semantics=semantics,
    )
    assert victims(plan) == ["free"]
    assert not plan.victims[0].violatesBudget


def test_if_no_such_victims_are_found_preemption_happens_despite_the_budgets(semantics: Semantics) -> None:
    plan = planned(
        node("n1"), app("guarded", "a", 0, "n1", 4), budget(allowed=0), pod("high", 2, 9), semantics=semantics
    )
    assert victims(plan) == ["guarded"]
    assert plan.victims[0].violatesBudget


def test_inter_pod_affinity_towards_a_lower_priority_pod_keeps_its_node_from_being_preempted(
    semantics: Semantics,
) -> None:
    """Its node is no candidate, although another pod there could be evicted."""
    beside = [
        node("n1"),
        app("friend", "friend", 0, "n1"),
        app("other", "other", 0, "n1", 3),
        pod("high", 2, 9, affinity=near("friend")),
    ]
    plan = planned(beside, semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])
    elsewhere = [node("n2"), app("peer", "friend", 9, "n2"), app("low", "other", 0, "n2", 3)]
    plan = planned(beside, elsewhere, semantics=semantics)
    assert (victims(plan), placed(plan)) == (["low"], {"high": "n2"})


def test_inter_pod_affinity_towards_equal_or_higher_priority_pods_is_the_recommended_solution(
    semantics: Semantics,
) -> None:
    plan = planned(
        node("n1"),
        app("friend", "friend", 9, "n1"),
        app("other", "other", 0, "n1", 3),
        pod("high", 2, 9, affinity=near("friend")),
        semantics=semantics,
    )
    assert (victims(plan), placed(plan)) == (["other"], {"high": "n1"})


def in_a_zone() -> list[Any]:
    """Return the example: P suits node N only, and may not share a zone with Q, on another node of it."""
    return [
        node("n", labels={ZONE: "z"}),
        node("m", labels={ZONE: "z"}),
        pod("low", 4, 0, node="n", ago=60),
        app("q", "q", 0, "m"),
        pod("p", 2, 9, affinity=apart("q", ZONE), nodeSelector={HOST: "n"}),
    ]


def test_there_is_no_cross_node_preemption(semantics: Semantics) -> None:
    """Without pod Q, P could be scheduled on N; but a pod's domain is one node."""
    plan = planned(in_a_zone(), by="p", semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])


def test_anti_affinity_towards_a_lower_priority_pod_on_the_node_itself_is_preempted_for(
    semantics: Semantics,
) -> None:
    plan = planned(
        node("n1"),
        app("q", "q", 0, "n1"),
        app("other", "other", 0, "n1"),
        pod("p", 1, 9, affinity=apart("q", HOST)),
        by="p",
        semantics=semantics,
    )
    assert victims(plan) == ["q"]
    assert "q" not in spared(plan)


def test_another_node_that_becomes_available_is_used_instead_of_the_nominated_one(
    semantics: Semantics,
) -> None:
    """The nominated node's victims still terminate."""
    plan = planned(
        node("n1"),
        node("n2"),
        pod("victim", 4, 0, node="n1", terminating=True),
        pod("high", 4, 9, status={"nominatedNodeName": "n1"}),
        semantics=semantics,
    )
    assert (plan.outcome, placed(plan)) == (Outcome.FITS, {"high": "n2"})


def test_a_higher_priority_pod_gets_the_nominated_node_and_the_other_may_preempt_again(
    semantics: Semantics,
) -> None:
    cluster = [
        node("n1"),
        node("n2"),
        pod("low", 4, 0, node="n2", ago=60),
        pod("p", 4, 5, status={"nominatedNodeName": "n1"}),
        pod("higher", 4, 9),
    ]
    assert placed(planned(cluster, by="higher", semantics=semantics)) == {"higher": "n1"}
    cluster[-1] = pod("higher", 4, 9, node="n1")
    again = planned(cluster, by="p", semantics=semantics)
    assert (victims(again), placed(again)) == (["low"], {"p": "n2"})
