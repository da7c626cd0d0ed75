"""The choice of a node: six steps of kube-scheduler, a seventh of the KEP, and no node is missed."""

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NOW, NS, SECONDS, clusters, objects, state_of
from tests.support.preemption.plain_cluster import Cluster
from tests.support.preemption.scene import HOST, cost_of, gang, group, node, placed, planned, pod, victims
from tests.unit.planner.preemption.test_budgets import budget

from podium.planner.engine import Engine, plan
from podium.planner.preemption.choice import Chooser
from podium.planner.preemption.domain import SHIFT, Cost, DomainPlan
from podium.planner.preemption.harm import Harm, Level
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.preemption.target import PreemptorPods
from podium.planner.preemption.topology import Domain
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

LEAST = -(2**31)


def low(name: str, where: str, priority: int = 1, cpu: int | str = 4, **kwargs: Any) -> Any:
    return pod(name, cpu, priority, node=where, **{"ago": 60, **kwargs})


def on_two(first: Any, second: Any, **settings: Any) -> Plan:
    """Plan for a pod of 4 cpus; n1 holds the first pods, and n2 the second."""
    return planned(node("n1"), node("n2"), first, second, pod("high", 4, 5), **settings)


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            [low("a", "n1", labels={"app": "a"}), budget(allowed=0)],
            [low("b", "n2", 4)],
            id="1: fewest budgets violated",
        ),
        pytest.param([low("a", "n1", 2)], [low("b", "n2", 1)], id="2: the lowest highest priority"),
        pytest.param(
            [low("a", "n1", 2, 2), low("b", "n1", 1, 2)],
            [low("c", "n2", 2, 2), low("d", "n2", 0, 2)],
            id="3: the least sum of priorities",
        ),
        pytest.param(
            [low("a", "n1", -1, 2), low("b", "n1", -1, 2)],
            [low("c", "n2", -1)],
            id="3: where two below zero are worse than one",
        ),
        pytest.param(
            [low("a", "n1", 2, 2), low("b", "n1", LEAST, 2)], [low("c", "n2", 2)], id="4: fewest pods"
        ),
        pytest.param([low("a", "n1", ago=90)], [low("b", "n2", ago=60)], id="5: the latest start"),
        pytest.param(
            [low("a", "n1", 2, 2, ago=90), low("b", "n1", 1, 2, ago=10)],
            [low("c", "n2", 2, 2, ago=60), low("d", "n2", 1, 2, ago=999)],
            id="5: of those of the highest priority",
        ),
        pytest.param(
            [low("a", "n1", 1, 2, ago=90), low("b", "n1", 1, 2, ago=10)],
            [low("c", "n2", 1, 2, ago=60), low("d", "n2", 1, 2, ago=60)],
            id="5: the earliest among them",
        ),
    ],
)
def test_the_steps_of_kube_scheduler(first: list[Any], second: list[Any], semantics: Semantics) -> None:
    """All steps but the sixth.

    In each, n2 is better, although n1 is the smaller name.
    """
    assert placed(on_two(first, second, semantics=semantics)) == {"high": "n2"}


@pytest.mark.parametrize(("minor", "victim"), [(37, "a"), (38, "b")])
def test_1_without_the_gates_the_release_decides_what_an_empty_selector_counts(
    minor: int, victim: str
) -> None:
    """kube-scheduler counts such budgets from 1.38 on, so the pod of the higher priority goes."""
    protected = [low("a", "n1"), budget(selector={}, allowed=0)]
    cluster = [node("n1"), node("n2"), *protected, low("b", "n2", 2, namespace="other"), pod("high", 4, 5)]
    made = plan(state_of(cluster), (NS, "high"), NOW, Settings(semantics=Semantics.PODS), minor=minor)
    assert victims(made) == [victim]


@pytest.mark.parametrize("semantics", Semantics)
def test_6_the_smallest_name_of_equal_nodes_is_chosen(semantics: Semantics) -> None:
    """kube-scheduler chooses any of them; the engine's answer is always the same."""
    cluster = [node("n2"), node("n1"), low("b", "n2"), low("a", "n1"), pod("high", 4, 5)]
    assert placed(planned(cluster, semantics=semantics)) == {"high": "n1"}
    _, ties = cost_of(cluster, semantics=semantics)
    assert ties == ("n1", "n2")


def two_pods_or_a_group(elsewhere: int = 3) -> list[Any]:
    """Return a group in n1 and n3, two lone pods in n2, and a pod that needs n1 or n2."""
    return [
        node("n1"),
        node("n2"),
        node("n3", 0),
        [group("g", 1, 1, whole=True), gang("g", ["n3"] * elsewhere, 0, priority=1)],
        low("g-x", "n1", group="g"),
        [low("b", "n2", 1, 2), low("c", "n2", 1, 2)],
        pod("high", 4, 5),
    ]


def test_the_sum_of_1_37_counts_every_pod_of_a_group_wherever_it_runs() -> None:
    cost, ties = cost_of(two_pods_or_a_group(), semantics=Semantics.V1_37)
    assert ties == ("n2",)
    assert cost == Cost(0, 1, 2 * (1 + SHIFT), 2, -(SECONDS - 60))


def test_two_lone_pods_are_less_harm_than_a_group_of_four_of_their_priority() -> None:
    cost, ties = cost_of(two_pods_or_a_group())
    assert ties == ("n2",)
    assert cost == Harm(0, (Level(1, 0, pods=2, units=2),), -(SECONDS - 60))


def test_one_group_is_less_harm_than_as_many_lone_pods_of_its_priority() -> None:
    cost, ties = cost_of(two_pods_or_a_group(elsewhere=1))
    assert ties == ("n1",)
    assert cost == Harm(0, (Level(1, 0, pods=2, units=1),), -(SECONDS - 60))


# The seventh step: among equals, the plan whose victims, recreated, would preempt least.


def cascade(first: dict[str, Any], second: dict[str, Any], beyond: Any, **settings: Any) -> Plan:
    """Plan for a pod of pool a, whose nodes n1 and n2 hold equal pods; `beyond` are other objects."""
    return planned(
        node("n1", labels={"pool": "a"}),
        node("n2", labels={"pool": "a"}),
        low("first", "n1", 3, **first),
        low("second", "n2", 3, **second),
        beyond,
        pod("high", 4, 5, nodeSelector={"pool": "a"}),
        **settings,
    )


POOL_A: dict[str, Any] = {"nodeSelector": {"pool": "a"}}


def test_7_a_victim_that_would_preempt_in_turn_is_spared() -> None:
    beyond = [node("n3"), low("third", "n3", 1)]
    assert victims(cascade({}, POOL_A, beyond)) == ["second"]
    assert victims(cascade(POOL_A, {}, beyond)) == ["first"]


def test_7_fewer_pods_in_the_second_preemption_are_better() -> None:
    n3, n4 = {"nodeSelector": {HOST: "n3"}}, {"nodeSelector": {HOST: "n4"}}
    beyond = [
        node("n3"),
        node("n4"),
        [low(f"three-{at}", "n3", 1, 2) for at in range(2)],
        low("four", "n4", 1),
    ]
    assert victims(cascade(n3, n4, beyond)) == ["second"]


def test_7_a_recreated_victim_that_finds_free_room_preempts_no_pod() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    beyond = [node("n3", labels={"pool": "b"}, taints=taints), node("n4"), low("third", "n4", 1)]
    tolerant = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    assert victims(cascade({}, tolerant, beyond)) == ["second"]


def test_7_the_releases_do_not_look_ahead() -> None:
    beyond = [node("n3"), low("third", "n3", 1)]
    for semantics in (Semantics.V1_36, Semantics.V1_37, Semantics.PODS):
        assert victims(cascade({}, POOL_A, beyond, semantics=semantics)) == ["first"]


@pytest.mark.parametrize(("harmless", "expected"), [(7, "n07"), (8, "n00")])
def test_7_compares_the_first_eight_of_equal_plans(harmless: int, expected: str) -> None:
    """In a large cluster there may be thousands of them."""
    nodes = [node(f"n{at:02}", labels={"pool": "a"}) for at in range(17)]
    lows = [low(f"low-{at:02}", f"n{at:02}", 3, **(POOL_A if at == harmless else {})) for at in range(17)]
    beyond = [node("z"), low("third", "z", 1)]
    assert placed(planned(nodes, lows, beyond, pod("high", 4, 5, **POOL_A))) == {"high": expected}


def test_7_comes_after_the_first_five() -> None:
    """A lower cost now counts more than the preemptions in turn."""
    beyond = [node("n3"), low("third", "n3", 0)]
    plan = planned(
        node("n1", labels={"pool": "a"}),
        node("n2", labels={"pool": "a"}),
        low("first", "n1", 2),
        low("second", "n2", 3, **POOL_A),
        beyond,
        pod("high", 4, 5, nodeSelector={"pool": "a"}),
    )
    assert victims(plan) == ["first"]


# No node is missed.


@given(clusters(), st.sampled_from(Semantics))
def test_the_choice_equals_the_best_of_the_plans_of_all_nodes(
    case: tuple[Cluster, str], semantics: Semantics
) -> None:
    """Sums and bounds find the same least cost, and a node with it, as a plan for each node."""
    cluster, _ = case
    engine = Engine(state_of(objects(cluster)), Settings(semantics=semantics))
    snapshot = engine.snapshot
    row = next(row for row in snapshot.pod_row.values() if snapshot.home.item(row) < 0)
    fits = engine.placer.chain.feasible(snapshot.shapes[snapshot.shape.item(row)])
    engine.units(for_group=False, now=SECONDS)
    with snapshot.trial():
        chooser = engine.chooser(PreemptorPods((row,), 1, 3), SECONDS)
        # If it fits without preemption, no plan is made.
        costs = {
            name: found.cost
            for name, at in snapshot.row.items()
            if not fits[at] and isinstance(found := _plan_on(chooser, name, at), DomainPlan)
        }
        chosen = chooser.best_node() if not fits.any() else None
    event(f"{len(costs)} plans, {'fits' if fits.any() else 'does not fit'}")
    if chosen is None:
        assert fits.any() or not costs
        return
    least = min(costs.values())
    equal = sorted(each for each, cost in costs.items() if cost == least)
    if semantics is not Semantics.KEP:
        assert (chosen.plan.cost, chosen.ties) == (least, tuple(equal))
        return
    # Sums are a bound there: the plan of a node may have a later start than they show.
    assert isinstance(least, Harm)
    assert isinstance(chosen.plan.cost, Harm)
    assert chosen.plan.cost[:2] == least[:2]
    assert chosen.plan.cost == costs[chosen.plan.domain.name]
    for name in chosen.ties:
        cost = costs[name]
        assert isinstance(cost, Harm)
        assert cost[:2] == least[:2], name


def _plan_on(chooser: Chooser, name: str, at: int) -> DomainPlan | None:
    leads = chooser.units.on_node(at)
    return chooser.planner.plan(Domain(name, node=at), leads[chooser.planner.potential[leads]])


def test_a_budget_is_charged_for_the_victim_and_not_for_more_important_units_of_its_node() -> None:
    """The group would violate the budget; the pod beside it does not, and is less harm than two pods."""
    plan = planned(
        [node("n1", 1), node("n2", 2), node("n3", 1), group("g", 1, 1, whole=True), budget(allowed=1)],
        [low(f"small-{at}", "n1", 1, "500m") for at in range(2)],
        low("alone", "n2", 1, 1, labels={"app": "a"}),
        [low(f"g-{name}", name, 1, 1, labels={"app": "a"}, group="g") for name in ("n2", "n3")],
        pod("high", 1, 5),
    )
    assert victims(plan) == ["alone"]


def test_a_node_with_more_pods_than_the_table_holds_is_planned_alike() -> None:
    many = [pod(f"many-{at}", "10m", 1, node="n1", ago=60) for at in range(300)]
    plan = planned(node("n1", 3, room={"pods": 500}), many, pod("high", "100m", 5))
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert len(victims(plan)) == 10
    better = planned(
        node("n1", 3, room={"pods": 500}), many, node("n2"), low("one", "n2"), pod("high", "100m", 5)
    )
    assert victims(better) == ["one"]
