"""Pods of a composite group that is unknown, which plans neither place nor evict.

In each case the group `left` has the cheapest pod, on n1, and belongs to the composite group `both`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import why as documents
from tests.support.calling import calling
from tests.support.preemption.scene import composite, gang, group, node, of, planned, pod, spared, victims
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World
from tests.support.scheduling.rig import pod as ours

from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.settings import Budgets, Settings

NODES = [node("n1"), node("n2")]
OTHER = pod("other", 4, 3, node="n2")
WHY = "its group belongs to an unknown tree: the composite group both does not exist"
LEFT_OUT = "Pods whose composite groups are unknown are not preempted."
SOON = 11.0


def child(name: str = "left", priority: int = 1, *, parent: str = "both", **fields: Any) -> Any:
    """Make a group of a composite group."""
    return group(name, priority, composite=parent, **fields)


def left(whole: bool = True) -> list[Any]:
    """Make the group and its running pod."""
    return [child(whole=whole), pod("left-0", 4, 1, node="n1", group="left")]


@pytest.mark.parametrize("whole", [True, False], ids=["as a whole", "pod by pod"])
@pytest.mark.parametrize(
    ("semantics", "expected"),
    [
        (Semantics.KEP, ["other"]),
        (Semantics.V1_37, ["left-0"]),
        (Semantics.V1_36, ["left-0"]),
        (Semantics.PODS, ["left-0"]),
    ],
)
def test_the_victim_is_another_under_kep(semantics: Semantics, expected: list[str], whole: bool) -> None:
    """kube-scheduler takes the last group that it knows as the root."""
    plan = planned(NODES, left(whole), OTHER, pod("high", 4, 10), semantics=semantics)
    assert victims(plan) == expected
    named = [(each.rule, each.object.name) for each in plan.findings]
    assert named == ([("composite-parent-missing", "left")] if semantics is Semantics.KEP else [])


@pytest.mark.parametrize("by", ["high", of("gang")], ids=["a pod", "a gang"])
def test_a_plan_that_needs_such_a_pod_is_refused_with_the_reason(by: Any) -> None:
    preemptors = [pod("high", 4, 10), group("gang", 10, 2), gang("gang", [None, None], 4, priority=10)]
    plan = planned(NODES, left(), pod("other", 4, 10, node="n2"), preemptors, by=by)
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert plan.message.endswith(LEFT_OUT)
    assert spared(plan) == {"left" if plan.spared[0].kind == "PodGroup" else "left-0": WHY}


@pytest.mark.parametrize(
    ("low", "high"),
    [
        pytest.param(left(), pod("high", 4, 1), id="its priority is not lower"),
        pytest.param([child()], pod("high", 4, 10), id="none of its pods runs"),
        pytest.param(left(), pod("high", 4, 10, preemptionPolicy="Never"), id="nothing is preempted"),
        pytest.param([composite("both", 1), *left()], pod("high", 4, 10), id="the composite group exists"),
    ],
)
def test_plans_that_need_no_such_pod_do_not_mention_it(low: Any, high: Any) -> None:
    plan = planned(NODES, low, pod("other", 4, 10, node="n2"), high)
    assert LEFT_OUT not in plan.message


def test_a_free_node_is_used_without_a_finding() -> None:
    plan = planned(NODES, left(), pod("high", 4, 10))
    assert (plan.outcome, plan.findings) == (Outcome.FITS, ())


def test_a_finding_names_each_left_out_group_once() -> None:
    groups = [child(name, parent=of_) for name, of_ in (("a", "x"), ("b", "x"), ("c", "y"))]
    pods = [pod(f"{name}-{at}", 1, 1, node="n1", group=name) for name in "abc" for at in (0, 1)]
    plan = planned(node("n1", 6), groups, pods, pod("high", 4, 10))
    found = {each.object.name: each.message.partition(",")[0] for each in plan.findings}
    absent = "the composite group {} does not exist"
    assert found == {"a": absent.format("x"), "b": absent.format("x"), "c": absent.format("y")}


@pytest.mark.parametrize("budgets", Budgets)
def test_the_live_scheduler_evicts_another(budgets: Budgets) -> None:
    low = [child(whole=True), running("left-0", "n1", 4, 1, group="left"), running("other", "n2", 4, 3)]
    world = World(NODES, low, engine=Settings(budgets=budgets))
    world.run(ours("high", 4, 10))
    world.later(SOON)
    assert world.evicted() == ["other"]
    assert world.bound()["high"] == "n2"


ENDS: dict[str, Callable[[World], None]] = {
    "its pod ends": lambda world: world.die("left-0"),
    "its group is deleted": lambda world: world.state.remove(child()),
    "the composite group comes": lambda world: world.state.apply(composite("both", 1)),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_live_scheduler_waits_and_says_why(end: Callable[[World], None]) -> None:
    """It takes the room as soon as it is free, or the pod as soon as nothing protects it."""
    low = [child(whole=True), running("left-0", "n1", 4, 1, group="left")]
    world = World(node("n1"), low)
    world.run(ours("high", 4, 10))
    world.later(SOON)
    assert world.evictions() == []
    none = "preemption: No preemption victims found for incoming preemptor."
    assert world.message("high") == f"0/1 nodes are available: 1 Insufficient cpu. {none} {LEFT_OUT}"
    end(world)
    world.later(SOON)
    assert world.bound() == {"high": "n1"}


def test_the_live_scheduler_places_no_group_without_its_composite_group() -> None:
    """Nothing is evicted for it, and its condition says why. Once the composite group comes, it is placed."""
    low = running("low", "n1", 4, 1)
    members = [ours(f"left-{at}", 1, 5, group="left") for at in (0, 1)]
    world = World(node("n1"), node("n2"), low, child(priority=5), members)
    world.run()
    world.later(SOON)
    assert (world.evictions(), world.bound()) == ([], {"low": "n1"})
    waits = "waiting for the composite group team-a/both, which does not exist"
    assert world.message("left-0") == waits
    world.run(composite("both", 5))
    assert world.bound() == {"low": "n1", "left-0": "n2", "left-1": "n2"}


# The same on the command line, from what an API server serves.


def cluster(version: str) -> str:
    """Write a cluster in which the pods of the group `left` are pending or cheap, and return its file."""
    parent = {"parentCompositePodGroupName": "both"}
    waiting = documents.unscheduled(f"0/2 nodes are available: 2 Insufficient cpu. preemption: {LEFT_OUT}")
    objects = [
        *(documents.node(name) for name in ("n1", "n2")),
        documents.group("left", native=True, least=1, priority=1, spec=parent),
        documents.pod("left-0", group="left", native=True, node="n1", cpu="4", priority=1),
        documents.pod("other", node="n2", cpu="4", priority=3),
        documents.pod("high", waiting, cpu="4", priority=10),
        documents.group("new", native=True, least=1, priority=5, spec=parent),
        documents.pod("new-0", group="new", native=True, cpu="4", priority=5),
    ]
    for each in objects:
        if each["kind"] == "PodGroup":
            each["apiVersion"] = f"scheduling.k8s.io/{version}"
    return documents.file(objects)


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
def test_commands_on_a_cluster_with_composite_groups(
    version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whatif, why = (calling(name, monkeypatch, tmp_path) for name in ("whatif", "why"))
    file = cluster(version)
    plan = whatif("-f", file, "--pod", "a/high", "-o", "json").json
    assert [each["name"] for each in plan["victims"]] == ["other"]
    refused = whatif("-f", file, "--pod", "a/new-0", "-o", "json")
    assert (refused.code, refused.json["outcome"]) == (3, "NotEligible")
    assert refused.json["message"] == "waiting for the composite group a/both, which does not exist"
    assert LEFT_OUT in why("-f", file, "pod", "a/high", "-o", "json").json["waiting"][0]["message"]
    assert why("-f", file, "pod", "a/new-0", "-o", "json").json["waiting"][0]["cause"] == "GroupMissing"
