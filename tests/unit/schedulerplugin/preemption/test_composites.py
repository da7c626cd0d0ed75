"""Pods of composite groups, which plans neither place nor evict, although one of them is the cheapest victim.

In each case the group `left` has the cheapest pod, on n1, and belongs to the composite group `both`.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.support.calling import calling
from tests.support.preemption.scene import gang, group, node, of, planned, pod, spared, victims
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World
from tests.support.scheduling.rig import pod as ours
from tests.support.why import objects as documents

from podium.api.findings import ObjectRef
from podium.api.reads import COMPOSITE_VERSION
from podium.api.v1alpha2 import COMPOSITE_DEMAND
from podium.schedulerplugin.preemption.outcome import Outcome
from podium.schedulerplugin.semantics import Semantics
from podium.schedulerplugin.settings import Budgets, Settings

KNOWING = (Semantics.KEP, Semantics.V1_37)
NODES = [node("n1"), node("n2")]
OTHER = pod("other", 4, 3, node="n2")
WHY = "its group belongs to a composite group, and Podium does not plan the eviction of these"
LEFT_OUT = "Pods of composite groups are not preempted."
BOTH = ObjectRef(COMPOSITE_VERSION, "CompositePodGroup", "team-a", "both")
SOON = 11.0


def child(name: str = "left", priority: int = 1, *, composite: str = "both", **fields: Any) -> Any:
    """Make a group of a composite group, as its read does."""
    return group(name, priority, composite=composite, demands=(COMPOSITE_DEMAND,), **fields)


def left(whole: bool = True) -> list[Any]:
    """Make the group and its running pod."""
    return [child(whole=whole), pod("left-0", 4, 1, node="n1", group="left")]


@pytest.mark.parametrize("whole", [True, False], ids=["as a whole", "pod by pod"])
@pytest.mark.parametrize(
    ("semantics", "expected"),
    [
        (Semantics.KEP, ["other"]),
        (Semantics.V1_37, ["other"]),
        (Semantics.V1_36, ["left-0"]),
        (Semantics.PODS, ["left-0"]),
    ],
)
def test_the_victim_is_another_where_composite_groups_may_be_units(
    semantics: Semantics, expected: list[str], whole: bool
) -> None:
    plan = planned(NODES, left(whole), OTHER, pod("high", 4, 10), semantics=semantics)
    assert victims(plan) == expected
    named = [(each.rule, each.object) for each in plan.findings]
    assert named == ([("composite-not-planned", BOTH)] if semantics in KNOWING else [])


@pytest.mark.parametrize("semantics", KNOWING)
@pytest.mark.parametrize("by", ["high", of("gang")], ids=["a pod", "a gang"])
def test_a_plan_that_needs_such_a_pod_is_refused_with_the_reason(by: Any, semantics: Semantics) -> None:
    preemptors = [pod("high", 4, 10), group("gang", 10, 2), gang("gang", [None, None], 4, priority=10)]
    high = pod("other", 4, 10, node="n2")
    plan = planned(NODES, left(), high, preemptors, by=by, semantics=semantics)
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert plan.message.endswith(LEFT_OUT)
    assert spared(plan) == {"left" if plan.spared[0].kind == "PodGroup" else "left-0": WHY}


@pytest.mark.parametrize("semantics", KNOWING)
@pytest.mark.parametrize(
    ("low", "high"),
    [
        pytest.param(left(), pod("high", 4, 1), id="its priority is not lower"),
        pytest.param([child()], pod("high", 4, 10), id="none of its pods runs"),
        pytest.param(left(), pod("high", 4, 10, preemptionPolicy="Never"), id="nothing is preempted"),
    ],
)
def test_plans_that_need_no_such_pod_do_not_mention_it(low: Any, high: Any, semantics: Semantics) -> None:
    plan = planned(NODES, low, pod("other", 4, 10, node="n2"), high, semantics=semantics)
    assert LEFT_OUT not in plan.message


def test_a_free_node_is_used_without_a_finding() -> None:
    plan = planned(NODES, left(), pod("high", 4, 10))
    assert (plan.outcome, plan.findings) == (Outcome.FITS, ())


def test_a_finding_names_all_left_out_groups_of_a_composite_group_once() -> None:
    groups = [child(name, composite=of_) for name, of_ in (("a", "x"), ("b", "x"), ("c", "y"))]
    pods = [pod(f"{name}-{at}", 1, 1, node="n1", group=name) for name in "abc" for at in (0, 1)]
    plan = planned(node("n1", 6), groups, pods, pod("high", 4, 10))
    found = {each.object.name: each.message.partition(".")[0] for each in plan.findings}
    assert found == {"x": "PodGroups a, b belong to it", "y": "PodGroup c belongs to it"}


@pytest.mark.parametrize("semantics", KNOWING)
@pytest.mark.parametrize("budgets", Budgets)
def test_the_live_scheduler_evicts_another(semantics: Semantics, budgets: Budgets) -> None:
    engine = Settings(semantics=semantics, budgets=budgets)
    low = [child(whole=True), running("left-0", "n1", 4, 1, group="left"), running("other", "n2", 4, 3)]
    world = World(NODES, low, engine=engine)
    world.run(ours("high", 4, 10))
    world.later(SOON)
    assert world.evicted() == ["other"]
    assert world.bound()["high"] == "n2"


@pytest.mark.parametrize("semantics", KNOWING)
@pytest.mark.parametrize("ends", ["its pod ends", "its group is deleted"])
def test_the_live_scheduler_waits_and_says_why(semantics: Semantics, ends: str) -> None:
    """It takes the room as soon as it is free, or the pod as soon as no composite group protects it."""
    low = [child(whole=True), running("left-0", "n1", 4, 1, group="left")]
    world = World(node("n1"), low, engine=Settings(semantics=semantics))
    world.run(ours("high", 4, 10))
    world.later(SOON)
    assert world.evictions() == []
    none = "preemption: No preemption victims found for incoming preemptor."
    assert world.message("high") == f"0/1 nodes are available: 1 Insufficient cpu. {none} {LEFT_OUT}"
    if ends == "its pod ends":
        world.die("left-0")
    else:
        world.state.remove(child())
    world.later(SOON)
    assert world.bound() == {"high": "n1"}


def test_the_live_scheduler_places_no_group_of_a_composite_group() -> None:
    """Nothing is evicted for it, and its condition says why."""
    low = running("low", "n1", 4, 1)
    members = [ours(f"left-{at}", 1, 5, group="left") for at in (0, 1)]
    world = World(node("n1"), node("n2"), low, child(priority=5), members)
    world.run()
    world.later(SOON)
    assert (world.evictions(), world.bound()) == ([], {"low": "n1"})
    assert world.message("left-0") == "the group has what cannot be judged: a composite group"


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
    whatif, why, audit = (calling(name, monkeypatch, tmp_path) for name in ("whatif", "why", "audit"))
    file = cluster(version)
    plan = whatif("-f", file, "--pod", "a/high", "-o", "json").json
    assert [each["name"] for each in plan["victims"]] == ["other"]
    refused = whatif("-f", file, "--pod", "a/new-0", "-o", "json")
    assert (refused.code, refused.json["outcome"]) == (4, "NotJudged")
    assert refused.json["message"].endswith("a composite group")
    assert LEFT_OUT in why("-f", file, "pod", "a/high", "-o", "json").json["waiting"][0]["message"]
    assert why("-f", file, "pod", "a/new-0", "-o", "json").json["waiting"][0]["cause"] == "NotJudged"
    (found,) = audit("-f", file, "--select", "composite-not-planned", "-o", "json").json["findings"]
    assert (found["object"]["name"], found["message"]) == (
        "both",
        "PodGroups left, new belong to it. Podium neither places nor preempts their pods.",
    )
