"""Each input of a plan, changed under an engine that has planned before, changes the plan."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.filters.builders import claim, volume
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import (
    HOST,
    gang,
    group,
    marked_for_deletion,
    node,
    pod,
    priority_class,
    scheduled,
    victims,
)
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.core import Namespace
from podium.api.meta import ObjectMeta
from podium.cluster.state import ClusterState
from podium.planner.engine import Engine, plan
from podium.planner.preemption.outcome import Plan
from podium.planner.settings import Settings

HIGH = pod("high", 2, 5, nodeSelector={HOST: "n1"})
A = pod("a", 2, 1, node="n1", ago=90, uid="a", labels={"app": "a"}, priorityClassName="patient")
B = pod("b", 2, 1, node="n1", ago=60, uid="b", labels={"app": "b"})
# n1 is full of a and b; b started later, so it goes.
FULL = [node("n1"), node("n2"), priority_class("patient", 1), A, B, HIGH]
Change = Callable[[ClusterState], None]


def put(*objects: Any) -> Change:
    def change(state: ClusterState) -> None:
        for each in objects:
            state.apply(each)

    return change


def drop(gone: Any) -> Change:
    return lambda state: state.remove(gone)


def answers(engine: Engine, state: ClusterState, later: int = 0) -> tuple[Plan, Plan]:
    """Return the plan of the engine, and that of a new one."""
    now = NOW + timedelta(seconds=later)
    return engine.plan((NS, "high"), now), plan(state, (NS, "high"), now, engine.settings)


def following(objects: list[Any], settings: Settings | None = None) -> tuple[ClusterState, Engine]:
    state = state_of(objects)
    engine = Engine(state, settings)
    state.observe(engine.apply)
    return state, engine


LOW = [group("low", 1, 2, whole=True), *gang("low", ["n1", "n2"], 2, uid="low")]
PAIR = [node("n1"), node("n2"), pod("b", 2, 1, node="n1", ago=60, uid="b"), *LOW, HIGH]


@pytest.mark.parametrize(
    ("objects", "change", "before", "after"),
    [
        pytest.param(FULL, drop(B), ["b"], [], id="a pod goes"),
        pytest.param([*FULL[:4], HIGH], put(pod("b", 2, 1, node="n1", ago=60)), [], ["b"], id="a pod comes"),
        pytest.param(
            FULL, put(pod("b", 2, 1, node="n2", ago=60)), ["b"], [], id="a pod is somewhere else now"
        ),
        pytest.param(FULL, put(pod("b", 2, 3, node="n1", ago=60)), ["b"], ["a"], id="another priority"),
        pytest.param(FULL, put(pod("b", 2, 1, node="n1", ago=600)), ["b"], ["a"], id="another start"),
        pytest.param(FULL, put(pod("b", 0, 1, node="n1", ago=60)), ["b"], [], id="another request"),
        pytest.param(
            FULL, put(pod("b", 2, 1, node="n1", terminating=True)), ["b"], [], id="a pod is deleted"
        ),
        pytest.param(
            FULL,
            put(pod("b", 2, 1, node="n1", status=marked_for_deletion())),
            ["b"],
            [],
            id="a pod is marked as a victim",
        ),
        pytest.param(FULL, put(node("n1", 6)), ["b"], [], id="a node has more room"),
        pytest.param(FULL, drop(node("n1")), ["b"], [], id="a node goes"),
        pytest.param(
            [each for each in FULL if each is not FULL[0]], put(node("n1")), [], ["b"], id="a node comes"
        ),
        pytest.param(FULL, put(node("n1", unschedulable=True)), ["b"], [], id="a node is cordoned"),
        pytest.param(
            FULL, put(budget(selector={"matchLabels": {"app": "b"}})), ["b"], ["a"], id="a budget comes"
        ),
        pytest.param(
            [*FULL, budget(selector={"matchLabels": {"app": "b"}})],
            drop(budget()),
            ["a"],
            ["b"],
            id="a budget goes",
        ),
        pytest.param(
            [*FULL, budget(selector={"matchLabels": {"app": "b"}})],
            put(budget(selector={"matchLabels": {"app": "b"}}, allowed=1)),
            ["a"],
            ["b"],
            id="a budget allows more",
        ),
        pytest.param(
            [*FULL[:4], pod("b", 2, 2, node="n1", ago=60), HIGH],
            put(priority_class("patient", 1, minimum=9, seconds=-1)),
            ["a"],
            ["b"],
            id="a class tolerates preemption now",
        ),
        pytest.param(
            [*FULL[:4], pod("b", 2, 2, node="n1", ago=60), HIGH],
            drop(priority_class("patient", 1)),
            ["a"],
            ["b"],
            id="a class goes",
        ),
        pytest.param(
            [node("n1"), A, pod("b", 2, 2, node="n1", ago=60), HIGH],
            put(priority_class("patient", 1)),
            ["b"],
            ["a"],
            id="a class comes",
        ),
        pytest.param(PAIR, put(group("low", 0, 2, whole=True)), ["b"], ["low-0", "low-1"], id="its integer"),
        pytest.param(PAIR, put(group("low", 1, 2)), ["b"], ["low-0"], id="its disruption mode"),
        pytest.param(PAIR, drop(LOW[0]), ["b"], ["low-0"], id="a group goes"),
        pytest.param(
            [each for each in PAIR if each is not LOW[0]], put(LOW[0]), ["low-0"], ["b"], id="a group comes"
        ),
        pytest.param(
            [each for each in PAIR if each is not PAIR[2]],
            put(pod("b", 2, 3, node="n1"), pod("low-2", 0, 0, node="n2", group="low")),
            [],
            ["low-0", "low-1", "low-2"],
            id="a member joins",
        ),
        pytest.param(
            [PAIR[0], PAIR[1], pod("b", 2, 3, node="n1"), *LOW, HIGH],
            drop(LOW[2]),
            ["low-0", "low-1"],
            ["low-0"],
            id="a member goes",
        ),
        pytest.param(
            [PAIR[0], PAIR[1], pod("b", 2, 3, node="n1"), *LOW, HIGH],
            put(pod("low-1", 2, 0, node="n2")),
            ["low-0", "low-1"],
            ["low-0"],
            id="a member leaves the group",
        ),
        pytest.param(
            PAIR, lambda state: state.serve_native(False), ["b"], ["low-0"], id="the API is served no more"
        ),
        pytest.param(
            [*FULL[:4], HIGH],
            put(pod("other", 2, 5, status={"nominatedNodeName": "n1"})),
            [],
            ["a"],
            id="another preemptor is nominated",
        ),
        pytest.param(
            [*FULL[:4], HIGH, pod("other", 2, 5, status={"nominatedNodeName": "n1"})],
            put(pod("other", 2, 5)),
            ["a"],
            [],
            id="a nomination is cleared",
        ),
        pytest.param(
            [*FULL[:4], HIGH, pod("other", 2, 5, status={"nominatedNodeName": "n1"})],
            drop(pod("other")),
            ["a"],
            [],
            id="a preemptor that was nominated goes",
        ),
    ],
)
def test_a_change_of_each_input_changes_the_plan(
    objects: list[Any], change: Change, before: list[str], after: list[str]
) -> None:
    state, engine = following(objects)
    kept, anew = answers(engine, state)
    assert kept == anew
    assert victims(kept) == before
    change(state)
    kept, anew = answers(engine, state)
    assert victims(kept) == after
    assert kept == anew


@pytest.mark.parametrize(
    ("objects", "later", "before", "after"),
    [
        pytest.param(
            [
                node("n1"),
                pod("none", 2, 1, node="n1", uid="b"),
                pod("soon", 2, 1, node="n1", ago=-60, uid="c"),
                # The other node is the better one unless `none` counts as less important then.
                node("n2"),
                pod("peer", 2, 9, node="n2"),
                pod("later", 2, 1, node="n2", ago=-90),
                pod("high", 2, 5),
            ],
            120,
            ["soon"],
            ["none"],
            id="a start that was in the future",
        ),
        pytest.param(
            [
                node("n1"),
                priority_class("patient", 1, minimum=9, seconds=600),
                pod("a", 2, 1, node="n1", priorityClassName="patient", status=scheduled(60)),
                pod("b", 2, 2, node="n1"),
                HIGH,
            ],
            600,
            ["b"],
            ["a"],
            id="a toleration that is over",
        ),
    ],
)  # fmt: skip
def test_a_change_of_time_changes_the_plan_forwards_and_backwards(
    objects: list[Any], later: int, before: list[str], after: list[str]
) -> None:
    state, engine = following(objects)
    for seconds, expected in ((0, before), (later, after), (0, before)):
        kept, anew = answers(engine, state, seconds)
        assert victims(kept) == expected
        assert kept == anew


def test_a_change_of_namespace_labels_changes_the_plan() -> None:
    """A pod with anti-affinity to namespaces of a team."""
    term = {"labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "x"}}, "topologyKey": HOST}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    state, engine = following(
        [
            node("n1"),
            pod("other", 1, 1, node="n1", namespace="team-b", labels={"app": "a"}),
            pod("high", 1, 5, affinity=alone),
        ]
    )
    assert victims(answers(engine, state)[0]) == []
    state.apply(Namespace(metadata=ObjectMeta(name="team-b", labels={"team": "x"})))
    kept, anew = answers(engine, state)
    assert victims(kept) == ["other"]
    assert kept == anew


def test_a_change_of_claims_and_volumes_changes_the_plan() -> None:
    """A pod whose volume is bound while it waits."""
    data = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    state, engine = following([node("n1"), B, A, claim("data"), pod("high", 2, 5, volumes=data)])
    assert "unbound immediate" in answers(engine, state)[0].message
    reached = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n1"]}]}]
    state.apply(volume("v", terms=reached))
    state.apply(claim("data", "v"))
    kept, anew = answers(engine, state)
    assert victims(kept) == ["b"]
    assert kept == anew
