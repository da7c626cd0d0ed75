"""Least harm: the victims where the KEP leaves open on which nodes the preemptor is placed."""

from typing import Any

import pytest
from tests.support.filters import builders
from tests.support.preemption.clusters import SECONDS, time_of
from tests.support.preemption.scene import HOST, group, node, of, placed, planned, unit, victims
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.saving import CHECKPOINT
from podium.planner.preemption.capacity import MOST_KINDS
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.units import SHRINK
from podium.planner.semantics import Semantics
from podium.planner.settings import Budgets

GPU = "nvidia.com/gpu"
HOUR = 3_600


def checkpoint(ago: int) -> dict[str, str]:
    """Return the annotation of a workload that saved its work so many seconds before now."""
    return {CHECKPOINT: time_of(SECONDS - ago) or ""}


def gpu_node(name: str, **kwargs: Any) -> Any:
    """Make a node with 8 accelerators."""
    return node(name, 100, room={GPU: 8}, **kwargs)


def holder(name: str, where: str | None, gpus: int = 8, priority: int = 1, **kwargs: Any) -> Any:
    """Make a pod that holds accelerators, and started `ago` seconds before now; pending without a node."""
    start = time_of(SECONDS - kwargs.pop("ago", HOUR)) if where else None
    saved = kwargs.pop("saved", None)
    made = builders.pod(name, {"cpu": 1, GPU: gpus}, node=where, priority=priority, start=start, **kwargs)
    if saved is not None:
        made.metadata.annotations = checkpoint(saved)
    return made


def whole(name: str, nodes: list[str], priority: int = 1, **kwargs: Any) -> list[Any]:
    """Make a group of mode PodGroup with a pod of 8 accelerators on each node."""
    pods = [holder(f"{name}-{at}", where, priority=priority, group=name) for at, where in enumerate(nodes)]
    return [group(name, priority, len(nodes), whole=True, **kwargs), *pods]


def shrinks(name: str, nodes: list[str], least: int, **kwargs: Any) -> list[Any]:
    """Make such a group that shrinks to minCount first; members on the first nodes started first."""
    pods = [
        holder(f"{name}-{at}", where, group=name, ago=HOUR - at, **kwargs) for at, where in enumerate(nodes)
    ]
    return [group(name, 1, least, whole=True, annotations={SHRINK: "true"}), *pods]


def new(*gpus: int, **kwargs: Any) -> list[Any]:
    """Make a waiting gang of priority 9, with a pod for each number of accelerators."""
    pods = [holder(f"new-{at}", None, each, 9, group="new", **kwargs) for at, each in enumerate(gpus)]
    return [group("new", 9, len(gpus)), *pods]


NODES = [gpu_node(f"n{at}") for at in range(1, 5)]
SAVED = checkpoint(60)

CASES: dict[str, tuple[list[Any], list[str]]] = {
    "an empty node beside two busy ones is used": (
        [NODES[:3], holder("a", "n1"), holder("b", "n2", ago=60), new(8, 8)],
        ["b"],
    ),
    "one of two whole groups is enough": (
        [NODES, whole("x", ["n1", "n3"]), whole("y", ["n2", "n4"]), new(8, 8)],
        ["y-0", "y-1"],
    ),
    "one pod of 8 accelerators goes, not eight of 1": (
        [NODES[:2], [holder(f"a-{at}", "n1", 1) for at in range(8)], holder("b", "n2"), new(8)],
        ["b"],
    ),
    "one lone pod goes, not a whole group of the same priority": (
        [NODES, whole("x", ["n1", "n2", "n3"]), holder("lone", "n4"), new(8)],
        ["lone"],
    ),
    "two units of priority 1 go, not one of priority 2": (
        [NODES[:2], holder("a", "n1", 4), holder("b", "n1", 4), holder("c", "n2", 8, 2), new(8)],
        ["a", "b"],
    ),
    "of units of one size, the one that loses less work goes": (
        [NODES[:2], holder("old", "n1"), holder("young", "n2", ago=60), new(8)],
        ["young"],
    ),
    "work is counted in accelerators": (
        [NODES[:2], holder("half", "n1", 4), holder("full", "n2", ago=HOUR - 60), new(8)],
        ["half"],
    ),
    "a checkpoint makes a victim cheaper": (
        [NODES[:2], holder("saved", "n1", saved=60), holder("young", "n2", ago=120), new(8)],
        ["saved"],
    ),
    "a checkpoint before the start counts as the start": (
        [NODES[:2], holder("saved", "n1", saved=9 * HOUR), holder("old", "n2", ago=2 * HOUR), new(8)],
        ["saved"],
    ),
    "a group's checkpoint is that of its pods": (
        [NODES[:2], whole("saved", ["n1"], annotations=SAVED), whole("y", ["n2"]), new(8)],
        ["saved-0"],
    ),
    "no budget is violated where another placement needs none": (
        [
            NODES[:2],
            holder("kept", "n1", labels={"app": "a"}, ago=60),
            holder("other", "n2"),
            budget("none"),
            new(8),
        ],
        ["other"],
    ),
    "a group that shrinks loses its youngest members above minCount": (
        [NODES, shrinks("x", ["n1", "n2", "n3", "n4"], 2), new(8, 8)],
        ["x-2", "x-3"],
    ),
    "a group that shrinks to less than minCount goes as a whole": (
        [NODES, shrinks("x", ["n1", "n2", "n3", "n4"], 2), new(8, 8, 8)],
        ["x-0", "x-1", "x-2", "x-3"],
    ),
    "of a group that shrinks one member goes": (
        [NODES, shrinks("x", ["n1", "n2", "n3", "n4"], 3), new(8)],
        ["x-3"],
    ),
    "a member above minCount and a lone pod go before a core": (
        [NODES, shrinks("x", ["n1", "n2", "n3"], 2), holder("lone", "n4"), new(8, 8)],
        ["lone", "x-2"],
    ),
    "a core stays if its loss and that of its surplus would violate a budget": (
        [
            NODES,
            shrinks("x", ["n1", "n2"], 1, labels={"app": "a"}),
            whole("y", ["n3", "n4"]),
            budget("one", allowed=1),
            new(8, 8),
        ],
        ["y-0", "y-1"],
    ),
    "what goes is charged to budgets, not what may go": (
        [
            NODES[:2],
            holder("a", "n1", labels={"app": "a"}),
            holder("b", "n2", labels={"app": "a"}, ago=60),
            budget("one", allowed=1),
            new(8),
        ],
        ["b"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_plan_of_least_harm_is_chosen(name: str) -> None:
    objects, expected = CASES[name]
    assert victims(planned(objects, by=of("new"))) == expected


def test_a_lone_pod_may_spend_a_budget_on_the_pod_that_loses_less_work() -> None:
    """The sums charge the most important pod of a node first, so they exclude the young one."""
    shared = [
        holder("old", "n1", 4, labels={"app": "a"}),
        holder("young", "n1", 4, labels={"app": "a"}, ago=60),
        budget("one", allowed=1),
    ]
    made = planned(NODES[:2], shared, holder("other", "n2", ago=300), holder("high", None, 4, priority=9))
    assert victims(made) == ["young"]


@pytest.mark.parametrize("name", CASES)
def test_a_lone_pod_has_the_victims_of_a_group_of_one(name: str) -> None:
    objects, expected = CASES[name]
    *rest, preemptor = objects
    if len(preemptor) == 2:
        assert victims(planned(rest, holder("high", None, priority=9))) == expected


CORES: dict[str, tuple[list[Any], dict[str, Any], list[str]]] = {
    "on the node of a core all of the group goes": ([], {}, ["x-0", "x-1", "x-2"]),
    "where budgets are strict, a budget of the surplus protects the core": (
        [budget("none")],
        {"budgets": Budgets.STRICT},
        [],
    ),
}


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("by", ["high", of("new")], ids=["pod", "group"])
def test_a_core_goes_only_with_its_surplus(name: str, by: Any) -> None:
    objects, settings, expected = CORES[name]
    group, *pods = shrinks("x", ["n1", "n2", "n3"], 2)
    pods[2].metadata.labels = {"app": "a"}
    on: Any = {"nodeSelector": {HOST: "n1"}}
    wanted = [holder("high", None, priority=9, **on)] if by == "high" else new(8, **on)
    plan = planned(NODES, group, pods, objects, wanted, by=by, **settings)
    assert victims(plan) == expected
    if expected:
        assert unit(plan, "x-2").reason == "its group is preempted as a whole"


RELEASES = [each for each in Semantics if each is not Semantics.KEP]


@pytest.mark.parametrize("semantics", RELEASES)
def test_releases_ignore_the_shrink_annotation(semantics: Semantics) -> None:
    objects = [NODES, new(8)]
    shrinking = shrinks("x", ["n1", "n2", "n3", "n4"], 3)
    plain = whole("x", ["n1", "n2", "n3", "n4"])[:1]
    found = [
        victims(planned(objects, group, shrinking[1:], by=of("new"), semantics=semantics))
        for group in (shrinking[0], plain[0])
    ]
    assert found[0] == found[1]


def test_strict_budgets_still_grant_allowed_disruptions() -> None:
    objects, expected = CASES["what goes is charged to budgets, not what may go"]
    assert victims(planned(objects, by=of("new"), budgets=Budgets.STRICT)) == expected


# Members of different sizes: the older and smaller one does not take the only place of the larger one.

MIXED = new(1, 8)


@pytest.mark.parametrize("priority", [1, 9])
def test_a_feasible_gang_is_placed_in_any_order_of_members(priority: int) -> None:
    plan = planned(NODES[:2], holder("there", "n2", 4, priority), MIXED, by=of("new"))
    assert (plan.outcome, victims(plan)) == (Outcome.FITS, [])
    assert placed(plan) == {"new-0": "n2", "new-1": "n1"}


@pytest.mark.parametrize("nodes", [[], [node("n1", 0)]])
def test_members_of_different_sizes_do_not_fit_without_suitable_nodes(nodes: list[Any]) -> None:
    assert planned(nodes, MIXED, by=of("new")).outcome is Outcome.DOES_NOT_FIT


def test_members_of_different_sizes_are_packed_on_what_victims_leave() -> None:
    plan = planned(NODES[:2], holder("a", "n1"), holder("b", "n2", 4), MIXED, by=of("new"))
    assert victims(plan) == ["a"]
    assert placed(plan) == {"new-0": "n2", "new-1": "n1"}


def test_members_of_too_many_sizes_are_placed_in_their_order() -> None:
    """A tenant chooses the number of sizes, and each size costs packing time."""
    cpus = range(1, MOST_KINDS + 2)
    sizes = [builders.pod(f"new-{cpu:02}", {"cpu": cpu}, priority=9, group="new") for cpu in cpus]
    cluster = [holder("low", "n1", 0), group("new", 9, len(sizes)), sizes]
    roomy = planned(node("n1", 1 + sum(cpus)), cluster, by=of("new"))
    assert (len(placed(roomy)), victims(roomy)) == (len(sizes), [])
    full = planned(node("n1", sum(cpus)), cluster, by=of("new"))
    assert (len(placed(full)), victims(full)) == (len(sizes), ["low"])


# More constraints than resources: one pod a host, and pods that repel the preemptor.

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"job": "new"}}, "topologyKey": HOST}
        ]
    }
}


def test_one_pod_a_host_takes_as_many_hosts_as_it_needs() -> None:
    gang = new(2, 2, labels={"job": "new"}, affinity=APART)
    small = [holder(f"small-{at}", "n1", 2) for at in range(4)]
    plan = planned(NODES[:2], small, holder("large", "n2"), gang, by=of("new"))
    assert sorted(victims(plan)) == ["large", "small-3"]
    assert set(placed(plan).values()) == {"n1", "n2"}


def test_a_pod_with_blocking_anti_affinity_is_evicted() -> None:
    repels = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"job": "new"}}, "topologyKey": HOST}
            ]
        }
    }
    loner = holder("loner", "n1", 0, affinity=repels)
    plan = planned(NODES[:1], loner, new(8, labels={"job": "new"}), by=of("new"))
    assert victims(plan) == ["loner"]


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37])
def test_releases_keep_their_own_choice(semantics: Semantics) -> None:
    """They place first: 1.37 evicts both units although one node is empty."""
    objects, _ = CASES["an empty node beside two busy ones is used"]
    taken = victims(planned(objects, by=of("new"), semantics=semantics))
    assert len(taken) == (2 if semantics is Semantics.V1_37 else 1)
