"""Plans for trees of composite groups, on racks of one or two nodes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import (
    composite,
    engine_of,
    gang,
    group,
    node,
    of,
    placed,
    planned,
    pod,
    tree_of,
    victims,
)

from podium.cluster.state import ClusterState
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

RACK, BLOCK = "rack", "block"
BOTH = (Semantics.KEP, Semantics.V1_37)


def racks(**nodes: int) -> list[Any]:
    """Make nodes `RACK-NUMBER` with so many cpus; the first letter of a rack is its block."""
    return [node(name, cpu, labels={RACK: name.split("_")[0], BLOCK: name[0]}) for name, cpu in nodes.items()]


def leaf(
    name: str,
    parent: str = "tree",
    least: int | None = 1,
    priority: int = 10,
    created: str | None = None,
    **fields: Any,
) -> Any:
    """Make a group of a tree."""
    made = group(name, priority, least, composite=parent, **fields)
    metadata = msgspec.structs.replace(made.metadata, creationTimestamp=created)
    return msgspec.structs.replace(made, metadata=metadata)


class Tree(NamedTuple):
    """A cluster with a tree `tree` of priority 10; its plan under both semantics, or under `kep`."""

    objects: list[Any]
    racks_of: dict[str, str] | None
    victims: Sequence[str] = ()
    semantics: tuple[Semantics, ...] = BOTH


def pending(name: str, count: int, cpu: int = 2, **fields: Any) -> list[Any]:
    """Make pending members of a group of the tree."""
    return gang(name, [None] * count, cpu, priority=10, **fields)


def low(node_name: str, cpu: int = 4, priority: int = 1, name: str = "") -> Any:
    """Make a running pod of low priority, named after its node."""
    return pod(name or f"low-{node_name}", cpu, priority, node=node_name)


def two_gangs(**fields: Any) -> list[Any]:
    """Make the gangs `x` and `y` of the tree, of two pending members each."""
    return [leaf(name, least=2, **fields) for name in "xy"] + pending("x", 2) + pending("y", 2)


# The gang x takes as much room as the gangs y and z together.
ONE_OR_TWO: list[Any] = [
    *(racks(a1=4), composite("tree", 10, 2), leaf("x", least=2), leaf("y", least=1), leaf("z", least=1)),
    *(pending("x", 2), pending("y", 1), pending("z", 1)),
]
CASES = {
    "two gangs in a rack each": Tree(
        [racks(a1=4, b1=4), composite("tree", 10, 2), two_gangs(topology=RACK)], {"x": "a1", "y": "b1"}
    ),
    "two gangs in one rack, as the tree has the constraint": Tree(
        [racks(a1=4, b1=8, c1=6), composite("tree", 10, 2, topology=RACK), two_gangs()],
        {"x": "b1", "y": "b1"},
    ),
    "racks within one block": Tree(
        [racks(a1=4, a2=2, b1=4, b2=4), composite("tree", 10, 2, topology=BLOCK), two_gangs(topology=RACK)],
        {"x": "b1", "y": "b2"},
    ),
    "one of two gangs is enough": Tree([racks(a1=4), composite("tree", 10, 1), two_gangs()], {"x": "a1"}),
    "both gangs are needed": Tree([racks(a1=4), composite("tree", 10, 2), two_gangs()], None),
    "the larger gang first, so that both fit": Tree(
        [
            racks(a1=4, b1=2),
            composite("tree", 10, 2),
            leaf("x", least=1, topology=RACK),
            leaf("y", least=2, topology=RACK),
            pending("x", 1),
            pending("y", 2),
        ],
        {"x": "b1", "y": "a1"},
    ),
    "the gang of the largest pod first": Tree(
        [
            racks(a1=8, b1=6),
            composite("tree", 10, 2),
            leaf("x", least=2, topology=RACK),
            leaf("y", least=1, topology=RACK),
            gang("x", [None] * 2, 3, priority=10),
            pending("y", 1, 5),
        ],
        {"x": "a1", "y": "b1"},
        semantics=(Semantics.KEP,),
    ),
    "a tree below a tree": Tree(
        [
            racks(a1=4, b1=4, c1=2),
            composite("tree", 10, 2),
            composite("inner", 10, 2, parent="tree", topology=RACK),
            leaf("x", "inner", least=1),
            leaf("y", "inner", least=1),
            leaf("z", least=1, topology=RACK),
            pending("x", 1),
            pending("y", 1),
            pending("z", 1),
        ],
        {"x": "a1", "y": "a1", "z": "c1"},
        semantics=(Semantics.KEP,),
    ),
    "members that run pin the rack of the tree": Tree(
        [
            racks(a1=8, b1=8),
            composite("tree", 10, 2, topology=RACK),
            leaf("x", least=1),
            leaf("y", least=1),
            pod("x-0", 2, 10, node="b1", group="x"),
            pending("y", 1),
        ],
        {"y": "b1"},
    ),
    "kube-scheduler places the oldest gang first": Tree(
        [
            racks(a1=4),
            composite("tree", 10, 1),
            leaf("x", least=2, created="2026-01-01T00:00:02Z"),
            leaf("y", least=2, created="2026-01-01T00:00:01Z"),
            pending("x", 2),
            pending("y", 2),
        ],
        {"y": "a1"},
        semantics=(Semantics.V1_37,),
    ),
    "gangs of one age are placed by name": Tree(
        [
            racks(a1=4),
            composite("tree", 10, 1),
            leaf("y", least=2, created="2026-01-01T00:00:01Z"),
            leaf("x", least=2, created="2026-01-01T00:00:01Z"),
            pending("y", 2),
            pending("x", 2),
        ],
        {"x": "a1"},
        semantics=(Semantics.V1_37,),
    ),
    "a settled gang takes its turn by age": Tree(
        [
            racks(a1=5),
            composite("tree", 10, 1),
            leaf("x", least=1, created="2026-01-01T00:00:01Z"),
            leaf("y", least=2, created="2026-01-01T00:00:02Z"),
            pod("x-9", 1, 10, node="a1", group="x"),
            pending("x", 1),
            pending("y", 2),
        ],
        {"x": "a1"},
        semantics=(Semantics.V1_37,),
    ),
    "kube-scheduler does not take a gang back for two others": Tree(
        ONE_OR_TWO, None, semantics=(Semantics.V1_37,)
    ),
    "a gang is left out for two others": Tree(ONE_OR_TWO, {"y": "a1", "z": "a1"}, semantics=(Semantics.KEP,)),
    "a member that fits nowhere stays beside the others in their rack": Tree(
        [
            racks(a1=2),
            composite("tree", 10),
            leaf("x", least=1, topology=RACK),
            pending("x", 2),
            low("a1", 2),
        ],
        {"x": "a1"},
        ["low-a1"],
    ),
    "kube-scheduler compares pods with the root and not with their group": Tree(
        [
            racks(a1=4),
            composite("tree", 10, 2),
            leaf("x", least=1, priority=3),
            leaf("y", least=1, priority=30),
            pending("x", 1),
            pending("y", 1),
            low("a1", priority=5),
        ],
        {"x": "a1", "y": "a1"},
        ["low-a1"],
        semantics=(Semantics.V1_37,),
    ),
    "the rack that costs least": Tree(
        [
            racks(a1=4, b1=4),
            composite("tree", 10, 1, topology=RACK),
            leaf("x", least=2),
            pending("x", 2),
            low("a1", priority=5),
            low("b1", priority=1),
        ],
        {"x": "b1"},
        ["low-b1"],
        semantics=(Semantics.KEP,),
    ),
    "each gang clears the rack that costs least": Tree(
        [
            racks(a1=4, b1=4, c1=4),
            composite("tree", 10, 2),
            two_gangs(topology=RACK),
            low("a1", priority=1),
            low("b1", priority=9),
            low("c1", priority=2),
        ],
        {"x": "a1", "y": "c1"},
        ["low-a1", "low-c1"],
        semantics=(Semantics.KEP,),
    ),
    "one rack is free, the other is cleared": Tree(
        [racks(a1=4, b1=4), composite("tree", 10, 2), two_gangs(topology=RACK), low("a1")],
        {"x": "b1", "y": "a1"},
        ["low-a1"],
        semantics=(Semantics.KEP,),
    ),
    "only the cheapest of two gangs preempts": Tree(
        [
            racks(a1=4, b1=2),
            composite("tree", 10, 1),
            leaf("x", least=2, topology=RACK),
            leaf("y", least=1, topology=RACK),
            pending("x", 2),
            pending("y", 1),
            low("a1", priority=2),
            low("b1", 2, priority=1),
        ],
        {"y": "b1"},
        ["low-b1"],
        semantics=(Semantics.KEP,),
    ),
}


@pytest.mark.parametrize(
    ("case", "semantics"),
    [(case, each) for case in CASES.values() for each in case.semantics],
    ids=[f"{name}-{each}" for name, case in CASES.items() for each in case.semantics],
)
def test_a_tree_takes(case: Tree, semantics: Semantics) -> None:
    plan = planned(*case.objects, by=tree_of("tree"), semantics=semantics)
    found = {pod.rpartition("-")[0].rpartition("/")[2]: where for pod, where in placed(plan).items()}
    assert found == (case.racks_of or {})
    assert (plan.outcome is Outcome.DOES_NOT_FIT) == (case.racks_of is None)
    assert sorted(victims(plan)) == list(case.victims)


def test_kube_scheduler_refuses_a_tree_for_one_pod_of_another_preemption_policy() -> None:
    """The other children would be enough for the tree."""
    objects = [
        racks(a1=4),
        composite("tree", 10, 1),
        leaf("x", least=2),
        leaf("y"),
        pending("x", 2),
        pending("y", 1, preemptionPolicy="Never"),
    ]
    plan = planned(*objects, by=tree_of("tree"), semantics=Semantics.V1_37)
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    assert "pods of the tree have preemptionPolicy Never and PreemptLowerPriority" in plan.message


def test_a_tree_with_a_resource_that_no_node_offers_does_not_fit() -> None:
    tree = [composite("tree", 10, 2), leaf("x", topology=RACK), leaf("y", topology=RACK)]
    pods = [*pending("x", 1), builders.pod("y-0", {"cpu": 1, "example.com/gpu": 1}, priority=10, group="y")]
    plan = planned(racks(a1=4), low("a1"), tree, pods, by=tree_of("tree"))
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert "Insufficient example.com/gpu" in plan.message


@pytest.mark.parametrize("full", [False, True], ids=["free", "full"])
def test_every_group_of_a_large_tree_gets_a_rack(full: bool) -> None:
    """Each of 150 gangs needs a rack; every second rack is too small."""
    names = {f"{'ab'[at % 2]}{at}": 2 - at % 2 for at in range(300)}
    children = [each for at in range(150) for each in (leaf(f"g{at}", topology=RACK), *pending(f"g{at}", 1))]
    work = [low(name, cpu) for name, cpu in names.items()] if full else []
    plan = planned(racks(**names), work, composite("tree", 10, 150), children, by=tree_of("tree"))
    assert len(set(placed(plan).values())) == 150
    assert sorted(victims(plan)) == (
        sorted(f"low-{name}" for name in names if name[0] == "a") if full else []
    )


def test_extra_members_take_the_room_that_is_left() -> None:
    """The second member of x would take the only place of y."""
    tree = [
        composite("tree", 10, 2),
        leaf("x", least=1),
        leaf("y", least=1),
        *pending("x", 2),
        *pending("y", 1),
    ]
    plan = planned(racks(a1=4), tree, by=tree_of("tree"))
    assert sorted(placed(plan)) == ["x-0", "y-0"]
    more = planned(racks(a1=6), tree, by=tree_of("tree"))
    assert len(placed(more)) == 3


@pytest.mark.parametrize(("least", "refused"), [(1, True), (None, False)], ids=["a gang", "basic"])
def test_no_unit_goes_for_a_group_beyond_min_group_count(least: int | None, refused: bool) -> None:
    runs = [leaf("x"), pod("x-0", 2, 10, node="b1", group="x")]
    tree = [composite("tree", 10, least), *runs, leaf("y", least=2), *pending("y", 2)]
    plan = planned(racks(a1=4, b1=2), low("a1"), tree, by=tree_of("tree"))
    assert (plan.outcome is Outcome.NOT_ELIGIBLE) is refused
    assert victims(plan) == ([] if refused else ["low-a1"])


def test_a_request_for_a_member_is_one_for_the_tree() -> None:
    tree = [composite("tree", 10, 2), leaf("x"), leaf("y"), *pending("x", 1), *pending("y", 1)]
    plans = [planned(racks(a1=4), tree, by=each) for each in (tree_of("tree"), of("x"), "y-0")]
    assert [sorted(placed(plan)) for plan in plans] == [["x-0", "y-0"]] * 3


def test_a_changed_root_changes_the_units_of_its_pods() -> None:
    """The engine follows each object as if it had begun with it."""
    tree = [leaf(name, "low", priority=1) for name in "xy"]
    pods = [pod(f"{name}-0", 4, 1, node=f"{name}1", group=name) for name in "xy"]
    high = pod("high", 4, 5)
    engine = engine_of(racks(x1=4, y1=4), tree, pods, high, composite("low", 1))
    state = engine.view
    assert isinstance(state, ClusterState)
    for changed, gone in (
        (composite("low", 1, whole=True), ["low"]),
        (composite("low", 1), ["x-0"]),
        (composite("low", 7), []),
    ):
        state.apply(changed)
        engine.apply(state.composites[tree_of("low")], changed)
        plan = engine.plan(("team-a", "high"), NOW)
        assert [unit.name for unit in plan.victims] == gone
