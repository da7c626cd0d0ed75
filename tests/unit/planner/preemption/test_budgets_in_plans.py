"""Budgets in plans: the order of charges and of reprieves, whole units, and strict budgets."""

from typing import Any

import pytest
from tests.support.preemption.scene import gang, group, node, of, placed, planned, pod, spared, unit, victims
from tests.unit.planner.preemption.test_budgets import budget

from podium.planner.preemption.outcome import Outcome
from podium.planner.settings import Budgets

APP = {"app": "a"}


def low(name: str, cpu: int = 2, priority: int = 1, where: str = "n1", ago: int = 60, **kwargs: Any) -> Any:
    return pod(name, cpu, priority, node=where, ago=ago, **kwargs)


def test_budgets_are_charged_in_order_of_importance() -> None:
    """The more important pod uses up the budget, so the other pod violates it."""
    plan = planned(
        node("n1"),
        low("more", labels=APP, ago=90),
        low("less", labels=APP, ago=60),
        budget(allowed=1),
        pod("high", 4, 5),
    )
    assert {each.name: each.violatesBudget for each in plan.victims} == {"more": False, "less": True}


def test_units_that_would_violate_a_budget_are_reprieved_first() -> None:
    """Even if another unit is more important, and if a pod of higher priority is evicted instead."""
    plan = planned(
        node("n1"), low("guarded", labels=APP), low("free", priority=2), budget(), pod("high", 2, 5)
    )
    assert victims(plan) == ["free"]
    assert spared(plan) == {
        "guarded": "the preemptor fits beside it, and its loss would violate a PodDisruptionBudget "
        "(team-a/pdb)"
    }
    assert unit(plan, "guarded").violatesBudget


def test_of_several_units_the_most_important_is_reprieved_first() -> None:
    plan = planned(
        node("n1"),
        low("more", labels=APP, priority=2),
        low("less", labels=APP, priority=1),
        budget(allowed=0),
        pod("high", 2, 5),
    )
    assert [(each.name, each.violatesBudget) for each in plan.victims] == [("less", True)]


def test_budgets_are_best_effort_by_default() -> None:
    plan = planned(node("n1"), low("guarded", 4, labels=APP), budget(), pod("high", 2, 5))
    assert [(each.name, each.violatesBudget) for each in plan.victims] == [("guarded", True)]


@pytest.mark.parametrize(
    ("labelled", "allowed", "violates"),
    [
        pytest.param((True, False), 0, True, id="any member is enough"),
        pytest.param((True, True), 1, True, id="each member is charged"),
        pytest.param((True, True), 2, False, id="all are allowed"),
        pytest.param((False, False), 0, False, id="none is counted"),
    ],
)
def test_a_unit_violates_if_any_member_does(
    labelled: tuple[bool, bool], allowed: int, violates: bool
) -> None:
    """On any node: the second member is on another node."""
    members = [
        low(f"low-{at}", 4, where=where, group="low", labels=APP if counts else {"app": "b"})
        for at, (where, counts) in enumerate(zip(("n1", "n2"), labelled, strict=True))
    ]
    plan = planned(
        node("n1"),
        node("n2"),
        group("low", 1, 2, whole=True),
        members,
        budget(allowed=allowed),
        pod("high", 2, 5),
    )
    assert [(each.name, each.violatesBudget) for each in plan.victims] == [("low", violates)]


def test_violations_are_counted_by_pod() -> None:
    """A pod that violates two budgets counts once; two pods of one unit count twice.

    Violations come before priority, and n1's pods have a lower priority.
    """
    two = [group("two", 1, 2, whole=True), gang("two", ["n1", "n1"], 2, labels=APP, ago=60)]
    one = low("one", 4, 3, where="n2", labels={"app": "b"})
    b = [budget("b1", {"matchLabels": {"app": "b"}}), budget("b2", {"matchLabels": {"app": "b"}})]
    plan = planned(node("n1"), node("n2"), two, one, b, budget("a"), pod("high", 4, 5))
    assert victims(plan) == ["one"]


# Strict budgets.


def strict(*objects: Any, **kwargs: Any) -> Any:
    return planned(*objects, budgets=Budgets.STRICT, **kwargs)


@pytest.mark.parametrize("by", ["high", of("group")])
def test_strict_budgets_are_never_violated(by: Any) -> None:
    mine = [pod("high", 2, 5), group("group", 5, 1), gang("group", [None], 2, priority=5)]
    plan = strict(node("n1"), low("guarded", 4, labels=APP), budget(), mine, by=by)
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])
    assert plan.message == (
        "even without all that may be preempted: 0/1 nodes are available: 1 node(s) had room only where "
        "PodDisruptionBudgets forbid preemption, and budgets are strict."
    )


def test_strict_budgets_send_the_preemptor_elsewhere() -> None:
    """At a higher cost than it would pay otherwise."""
    cluster = [
        node("n1"),
        node("n2"),
        low("guarded", 4, labels=APP),
        [low(f"free-{at}", 2, 3, "n2") for at in range(2)],
        budget(),
        pod("high", 4, 5),
    ]
    plan = strict(cluster)
    assert (sorted(victims(plan)), placed(plan)) == (["free-0", "free-1"], {"high": "n2"})


def test_strict_budgets_grant_allowed_disruptions() -> None:
    plan = strict(
        node("n1"),
        low("more", labels=APP, ago=90),
        low("less", labels=APP, ago=60),
        budget(allowed=1),
        pod("high", 2, 5),
    )
    assert len(victims(plan)) == 1
    assert not plan.victims[0].violatesBudget


def test_strict_budgets_do_not_split_a_group() -> None:
    """One protected member protects the whole unit."""
    plan = strict(
        node("n1"),
        node("n2"),
        group("low", 1, 2, whole=True),
        [low("low-0", 4, group="low"), low("low-1", 4, where="n2", group="low", labels=APP)],
        budget(),
        pod("high", 2, 5),
    )
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])


def test_budgets_of_another_namespace_protect_no_pod() -> None:
    plan = strict(node("n1"), low("low", 4, labels=APP), budget(namespace="team-b"), pod("high", 2, 5))
    assert victims(plan) == ["low"]


def test_if_the_lowest_would_violate_the_next_lowest_of_all_nodes_is_evicted() -> None:
    """Not only of the nodes that need as few pods."""
    plan = planned(
        node("n1"), node("n2"), node("n3"),
        low("guarded", 4, 0, "n1", labels={"app": "a"}),
        low("one", 4, 20, "n2"),
        [low("first", 1, -10, "n3"), low("second", 3, 10, "n3")],
        budget(allowed=0),
        pod("high", 4, 50),
    )  # fmt: skip
    assert (victims(plan), plan.minimalPriority) == (["second", "first"], 10)
