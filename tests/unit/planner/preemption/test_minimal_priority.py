"""N: the lowest priority such that the preemptor fits when only units of N or lower are evicted.

The search is binary if more room can only help, and linear otherwise; the answer is the same.
"""

from dataclasses import replace
from typing import Any

from hypothesis import given
from tests.support.preemption.clusters import GANG, NOW, clusters, objects, state_of, target
from tests.support.preemption.plain_cluster import Cluster, Node, Pod
from tests.support.preemption.scene import ZONE, gang, group, node, of, placed, planned, pod, spared, victims
from tests.unit.planner.preemption.test_budgets import budget

from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.semantics import Semantics

# A node where nothing fits, and a pod there with anti-affinity to the preemptor's app. It excludes no node,
# but the preemptor then needs more checks than resources.
BALLAST_NODE = Node("zz-ballast", {"cpu": 0, "memory": 0, "example.com/gpu": 0, "pods": 0}, tainted=True)


def asking_for_resources_only(cluster: Cluster) -> Cluster:
    pods = (
        replace(each, app="a", avoids=None, ports=frozenset()) if each.node is None else each
        for each in cluster.pods
    )
    return replace(cluster, pods=tuple(pods))


def with_ballast(cluster: Cluster) -> Cluster:
    requests = {"cpu": 0, "memory": 0}
    ballast = Pod("ballast", requests, priority=99, node=BALLAST_NODE.name, avoids="a", tolerates=True)
    return replace(cluster, nodes=(*cluster.nodes, BALLAST_NODE), pods=(*cluster.pods, ballast))


def without_nodes(plan: Plan) -> dict[str, Any]:
    """Return the decision without the sentences that count nodes."""
    fields = ("outcome", "minimalPriority", "placements", "victims", "spared")
    return {name: getattr(plan, name) for name in fields}


def is_plain(engine: Engine, name: str) -> bool:
    rows = [row for key, row in engine.snapshot.pod_row.items() if key[1].startswith(name)]
    shapes = [engine.snapshot.shapes[engine.snapshot.shape.item(row)] for row in rows]
    return all(engine.placer.chain.resources_only(shape) for shape in shapes)


@given(clusters())
def test_binary_and_linear_search_and_either_reprieve_give_one_plan(case: tuple[Cluster, str]) -> None:
    """The ballast forces the general algorithm, and changes nothing else."""
    cluster, name = asking_for_resources_only(case[0]), case[1]
    plain = Engine(state_of(objects(cluster)))
    general = Engine(state_of(objects(with_ballast(cluster))))
    assert not is_plain(general, "member" if name == GANG else name)
    assert without_nodes(general.plan(target(name), NOW)) == without_nodes(plain.plan(target(name), NOW))


def friends() -> dict[str, Any]:
    """Return required affinity to an app, by zone."""
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": ZONE}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_n_is_the_smallest_that_helps_even_if_a_larger_one_does_not() -> None:
    """N = 1 leaves a friend beside the room; without all friends the pod is the first match of its affinity.

    With N = 2 the friend in z1 would be gone, and one in z2 left, where no member may go. A binary search
    over 1, 2, 3 would begin at 2 and end at 3.
    """
    plan = planned(
        node("n1", labels={ZONE: "z1"}),
        node("n2", labels={ZONE: "z2"}, taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
        pod("a", 2, 1, node="n1", ago=60),
        pod("b", 2, 2, node="n1", labels={"app": "friend"}, ago=60),
        pod("c", 2, 3, node="n2", labels={"app": "friend"}, ago=60),
        group("high", 5, 1),
        gang("high", [None], 2, priority=5, labels={"app": "friend"}, affinity=friends()),
        by=of("high"),
    )
    assert plan.minimalPriority == 1
    assert victims(plan) == ["a"]


def two_places(**settings: Any) -> Plan:
    """Plan for a group of one; n1 needs a victim of priority 3, n2 one of priority 1."""
    return planned(
        node("n1"),
        node("n2"),
        pod("three", 4, 3, node="n1", ago=60),
        pod("one", 4, 1, node="n2", ago=60),
        group("high", 5, 1),
        gang("high", [None], 4, priority=5),
        by=of("high"),
        **settings,
    )


def test_victims_above_n_are_dropped_and_the_preemptor_is_placed_without_them() -> None:
    plan = two_places()
    assert (plan.minimalPriority, victims(plan), placed(plan)) == (1, ["one"], {"high-0": "n2"})


def test_kube_scheduler_does_not_search_for_n() -> None:
    """It places the group once, without all units of lower priority; the first of two empty nodes is n1."""
    for semantics in (Semantics.V1_37, Semantics.V1_36):
        plan = two_places(semantics=semantics)
        assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
        assert len(victims(plan)) == 1
    assert victims(two_places(semantics=Semantics.V1_37)) == ["three"]


def test_units_above_n_are_named_with_the_reason() -> None:
    plan = planned(
        node("n1"),
        pod("three", 1, 3, node="n1", ago=60),
        pod("two", 2, 2, node="n1", ago=60),
        pod("one", 1, 1, node="n1", ago=60),
        pod("high", 2, 5),
    )
    assert (plan.minimalPriority, victims(plan)) == (2, ["two"])
    assert spared(plan) == {
        "three": "it is enough to take units of priority 2 or lower",
        "one": "the preemptor fits beside it",
    }


def test_units_that_would_violate_budgets_are_reprieved_before_n_is_searched() -> None:
    """Without the budget N would be 1. With it `one` stays, and only the pod of priority 2 is enough."""
    cluster = [
        node("n1"),
        pod("two", 2, 2, node="n1", labels={"app": "b"}, ago=60),
        pod("one", 2, 1, node="n1", labels={"app": "a"}, ago=60),
        pod("high", 2, 5),
    ]
    assert (planned(cluster).minimalPriority, victims(planned(cluster))) == (1, ["one"])
    guarded = planned(cluster, budget(allowed=0))
    assert (guarded.minimalPriority, victims(guarded)) == (2, ["two"])


def test_without_preemption_there_is_no_n() -> None:
    assert planned(node("n1"), pod("high", 2, 5)).minimalPriority is None
