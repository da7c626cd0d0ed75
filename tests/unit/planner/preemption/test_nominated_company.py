"""Pods that are only nominated satisfy no affinity or spread (RunFilterPluginsWithNominatedPods)."""

from typing import Any

import pytest
from tests.support.filters.dynamic_cases import affinity, spread, term
from tests.support.preemption.scene import HOST, ZONE, node, placed, planned, pod

from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

A: dict[str, Any] = {"labels": {"app": "a"}}
ZONES = [node("n1", labels={ZONE: "1"}), node("n2", labels={ZONE: "2"})]
NEAR_A = affinity(term("a", HOST))
EVEN = {**A, **spread("a", ZONE)}
SEMANTICS = pytest.mark.parametrize("semantics", list(Semantics))


def nominated(name: str, on: str, priority: int = 10, **spec: Any) -> Any:
    """Make a pending pod of app a with a nominated node."""
    return pod(name, priority=priority, status={"nominatedNodeName": on}, **{**A, **spec})


@SEMANTICS
def test_a_nominated_pod_satisfies_no_affinity(semantics: Semantics) -> None:
    """It is met when the other pod is bound."""
    newcomer = pod("high", priority=10, **NEAR_A)
    plan = planned(*ZONES, nominated("a", "n1"), newcomer, semantics=semantics)
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert "2 node(s) didn't match pod affinity rules" in plan.message
    there = planned(*ZONES, pod("a", node="n1", **A), newcomer, semantics=semantics)
    assert placed(there) == {"high": "n1"}


@SEMANTICS
def test_a_nominated_pod_does_not_raise_the_emptiest_domain(semantics: Semantics) -> None:
    """Zone 1 holds a pod. Zone 2 may never get its nominated pod, and has no room for another."""
    cluster = [ZONES[0], node("n2", cpu=1, labels={ZONE: "2"}), pod("a-0", priority=10, node="n1", **A)]
    plan = planned(*cluster, nominated("a-1", "n2"), pod("high", priority=10, **EVEN), semantics=semantics)
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert "1 node(s) didn't match pod topology spread constraints" in plan.message
    running = pod("a-1", priority=10, node="n2", **A)
    there = planned(*cluster, running, pod("high", priority=10, **EVEN), semantics=semantics)
    assert placed(there) == {"high": "n1"}


@SEMANTICS
def test_the_first_match_of_its_affinity_stays_beside_nominated_pods(semantics: Semantics) -> None:
    """With the nominated pod it must be zone 2; without it, any zone."""
    plan = planned(
        *ZONES,
        nominated("a", "n2"),
        pod("high", priority=10, **A, **affinity(term("a", ZONE))),
        semantics=semantics,
    )
    assert placed(plan) == {"high": "n2"}


def test_no_pod_is_reprieved_if_only_a_nominated_pod_satisfies_spread() -> None:
    """Zone 1 may keep one of its pods only if zone 2 has one. The nominated pod does not count."""
    cluster = [
        node("n1", cpu=2, labels={ZONE: "1"}),
        node("n2", cpu=1, labels={ZONE: "2"}),
        pod("a-0", node="n1", ago=100, **A),
        pod("b-0", node="n1", ago=50),
    ]
    high = pod("high", priority=10, **EVEN)
    plan = planned(*cluster, nominated("a-1", "n2", 20), high)
    assert [unit.name for unit in plan.victims] == ["a-0"]
    there = planned(*cluster, pod("a-1", priority=20, node="n2", **A), high)
    assert [unit.name for unit in there.victims] == ["b-0"]
