"""Moves free a whole topology domain if every unit that may be evicted finds room elsewhere."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import HOST, engine_of, gang, group, pod, priority_class, scheduled
from tests.unit.planner.preemption.test_budgets import budget
from tests.unit.planner.preemption.test_pinned import daemon_set, mirror, of_daemon_set

from podium.api.schedulable import SchedulableNode
from podium.errors import PodiumUsageError
from podium.groups.topology import SLICE_SIZE, SLICE_TOPOLOGY
from podium.planner.preemption.defragment import MOST_TRIED, Defragmentation, DomainMoves, Freeing
from podium.planner.preemption.units import SHRINK
from podium.planner.settings import Budgets

RACK = "example.com/rack"
ROW = "example.com/row"
GPU = "nvidia.com/gpu"
GIB = 2**30


def rack(name: str, *cpus: int, gpus: int = 0, row: str = "") -> list[SchedulableNode]:
    """Make the nodes of a rack, `name-0` and so on, one for each number of cpus."""
    return [
        builders.node(
            f"{name}-{at}", {"cpu": cpu, GPU: gpus}, labels={HOST: f"{name}-{at}", RACK: name, ROW: row}
        )
        for at, cpu in enumerate(cpus)
    ]


def freed(*objects: Any, key: str = RACK, most: int = 10, **settings: Any) -> Defragmentation:
    return engine_of(*objects, **settings).defragment(key, NOW, most)


def domain(found: Defragmentation, name: str) -> DomainMoves:
    return next(each for each in found.domains if each.name == name)


def moves(found: DomainMoves) -> dict[str, str]:
    """Return the new node of each moved pod."""
    return {pod.name: pod.to for unit in found.moves for pod in unit.pods}


class Case(NamedTuple):
    """A cluster with a rack `a`, and the outcome there: the moved pods by node, or the message."""

    objects: Sequence[Any]
    outcome: Freeing
    moved: Mapping[str, str] = MappingProxyType({})
    message: str = ""


PACKED = "its pods fit if they are packed as listed; a scheduler may place them otherwise"
TWO = [*rack("a", 4), *rack("b", 4)]
FULL = pod("full", 4, node="b-0")
CASES = {
    "a pod moves to free room": Case(
        [TWO, pod("p", 2, node="a-0"), pod("q", 2, node="b-0")], Freeing.MOVABLE, {"p": "b-0"}
    ),
    "free room is too little in sum": Case(
        [TWO, pod("p", 2, node="a-0"), pod("q", 3, node="b-0")],
        Freeing.DOES_NOT_FIT,
        message="its pods request more cpu than is free on other nodes",
    ),
    "free room is too little on each node": Case(
        [
            rack("a", 4),
            rack("b", 4, 4),
            pod("p", 3, node="a-0"),
            pod("q", 2, node="b-0"),
            pod("r", 2, node="b-1"),
        ],
        Freeing.DOES_NOT_FIT,
        message=f"Pod {NS}/p fits on no other node: 0/2 nodes are available: 2 Insufficient cpu",
    ),
    "a cordoned node takes no pod": Case(
        [
            rack("a", 4),
            builders.node("b-0", labels={RACK: "b"}, unschedulable=True),
            pod("p", 1, node="a-0"),
            pod("q", 1, node="b-0"),
        ],
        Freeing.DOES_NOT_FIT,
        message=f"Pod {NS}/p fits on no other node: 0/1 nodes are available: 1 node(s) were unschedulable",
    ),
    "a node without the label takes pods": Case(
        [rack("a", 4), builders.node("spare"), pod("p", 1, node="a-0")], Freeing.MOVABLE, {"p": "spare"}
    ),
    "a selector pins a pod": Case(
        [TWO, pod("p", 1, node="a-0", nodeSelector={RACK: "a"}), pod("q", 1, node="b-0")],
        Freeing.DOES_NOT_FIT,
        message=f"Pod {NS}/p fits on no other node: 0/1 nodes are available: 1 node(s) didn't match Pod's "
        "node affinity/selector",
    ),
    "a pod of kube-system stays": Case(
        [TWO, pod("p", 1, node="a-0", namespace="kube-system"), pod("q", 1, node="b-0")],
        Freeing.BLOCKED,
        message="Pod kube-system/p stays: it is one of the cluster's own, which are never evicted",
    ),
    "a pod of a DaemonSet stays and does not count": Case(
        [
            TWO,
            daemon_set("d"),
            of_daemon_set(pod("d", 1, node="a-0"), "d"),
            pod("p", 1, node="a-0"),
            pod("q", 1, node="b-0"),
        ],
        Freeing.MOVABLE,
        {"p": "b-0"},
    ),
    "the mirror of a static pod stays and does not count": Case(
        [TWO, mirror("a-0", on="a-0"), pod("p", 1, node="a-0"), pod("q", 1, node="b-0")],
        Freeing.MOVABLE,
        {"p": "b-0"},
    ),
    "a pod that only names a DaemonSet leaves like others": Case(
        [TWO, daemon_set("another"), of_daemon_set(pod("d", 2, node="a-0"), "d"), FULL],
        Freeing.DOES_NOT_FIT,
        message="its pods request more cpu than is free on other nodes",
    ),
    "a leaving pod counts as gone": Case(
        [TWO, pod("p", 4, node="a-0", terminating=True), pod("r", 1, node="a-0"), pod("q", 1, node="b-0")],
        Freeing.MOVABLE,
        {"r": "b-0"},
    ),
    "a tolerated unit stays until its end": Case(
        [
            TWO,
            priority_class("patient", 0, minimum=9, seconds=600),
            pod("p", 1, node="a-0", priorityClassName="patient", status=scheduled(60)),
            pod("q", 1, node="b-0"),
        ],
        Freeing.BLOCKED,
        message=f"Pod {NS}/p stays: its PriorityClass tolerates no preemption below priority 9 until "
        "2026-01-01T12:09:00Z",
    ),
    "a reserved node stays": Case(
        [
            TWO,
            pod("p", 1, node="a-0"),
            pod("soon", 1, status={"nominatedNodeName": "a-0"}),
            pod("q", 1, node="b-0"),
        ],
        Freeing.BLOCKED,
        message=f"Pod {NS}/soon stays: node a-0 is reserved for it",
    ),
    "a reserved node elsewhere has that much less room": Case(
        [
            TWO,
            pod("p", 2, node="a-0"),
            pod("soon", 2, status={"nominatedNodeName": "b-0"}),
            pod("q", 1, node="b-0"),
        ],
        Freeing.DOES_NOT_FIT,
        message="its pods request more cpu than is free on other nodes",
    ),
    "a pod with an unknown request stays": Case(
        [TWO, pod("p", 1, node="a-0", resourceClaims=[{"name": "gpu"}]), pod("q", 1, node="b-0")],
        Freeing.BLOCKED,
        message=f"Pod {NS}/p stays: what it asks for cannot be judged: resource claims",
    ),
    "a group moves as a whole": Case(
        [
            rack("a", 4),
            rack("b", 4),
            rack("c", 4),
            group("ring", whole=True),
            gang("ring", ["a-0", "b-0"], 2),
            pod("q", 1, node="b-0"),
            pod("r", 1, node="c-0"),
        ],
        Freeing.MOVABLE,
        {"ring-0": "c-0", "ring-1": "b-0"},
    ),
    "a group stays if one member finds no room": Case(
        [rack("a", 4), rack("b", 4), group("ring", whole=True), gang("ring", ["a-0", "b-0"], 3)],
        Freeing.DOES_NOT_FIT,
        message="its pods request more cpu than is free on other nodes",
    ),
    "a protected member of a group stays": Case(
        [
            TWO,
            group("ring", whole=True),
            gang("ring", ["b-0"], 1),
            pod("ring-1", 1, node="a-0", group="ring", resourceClaims=[{"name": "gpu"}]),
        ],
        Freeing.BLOCKED,
        message=f"PodGroup {NS}/ring stays: what it asks for cannot be judged: resource claims",
    ),
    "a group with a topology constraint needs one domain": Case(
        [
            rack("a", 4),
            rack("b", 2, 2),
            rack("c", 2, 2),
            group("ring", whole=True, topology=RACK),
            gang("ring", ["a-0", "a-0"], 2),
            pod("q", 1, node="b-0"),
            pod("r", 1, node="c-0"),
        ],
        Freeing.DOES_NOT_FIT,
        message=f"PodGroup {NS}/ring fits on no other node: 0/2 domains of {RACK} are available, the nearest "
        f"is {RACK}=b: 1 of 2 members has room; 0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) were taken by other members of the group (Insufficient cpu)",
    ),
    "a group with a topology constraint moves to one domain": Case(
        [
            rack("a", 4),
            rack("b", 2, 2),
            rack("c", 2, 2),
            group("ring", whole=True, topology=RACK),
            gang("ring", ["a-0", "a-0"], 2),
            pod("q", 1, node="b-0"),
            pod("r", 0, node="c-0"),
        ],
        Freeing.MOVABLE,
        {"ring-0": "c-1", "ring-1": "c-0"},
    ),
    "members that stay bind the others": Case(
        [
            rack("a", 4, row="1"),
            rack("b", 4, row="1"),
            rack("c", 4, row="2"),
            builders.node("a-1", labels={RACK: "a", ROW: "1"}),
            group("ring", topology=ROW),
            gang("ring", ["a-1", "b-0"], 2),
            pod("q", 3, node="b-0"),
            pod("r", 1, node="c-0"),
        ],
        Freeing.DOES_NOT_FIT,
        message=f"PodGroup {NS}/ring fits on no other node: members of the group run in {ROW}=1, which has "
        "too little room: 0/1 nodes are available: 1 Insufficient cpu",
    ),
    "a slice moves to one domain": Case(
        [
            rack("a", 4),
            rack("b", 2),
            rack("c", 2),
            rack("d", 2, 2),
            group("ring", whole=True, annotations={SLICE_TOPOLOGY: RACK, SLICE_SIZE: "2"}),
            gang("ring", ["a-0", "a-0"], 2),
            *(pod(f"in-{name}", 0, node=f"{name}-0") for name in "bcd"),
        ],
        Freeing.MOVABLE,
        {"ring-0": "d-1", "ring-1": "d-0"},
    ),
    "the core of a shrinking group takes its surplus along": Case(
        [
            rack("a", 4),
            rack("b", 4),
            group("ring", whole=True, least=1, annotations={SHRINK: "true"}, native=False),
            pod("ring-0", 1, node="a-0", ago=90, labels={"scheduling.podium.dev/pod-group": "ring"}),
            pod("ring-1", 1, node="b-0", ago=10, labels={"scheduling.podium.dev/pod-group": "ring"}),
        ],
        Freeing.MOVABLE,
        {"ring-0": "b-0", "ring-1": "b-0"},
    ),
    "pods are packed if the scheduler's order fails": Case(
        [
            rack("a", 9),
            rack("b", 3, 6),
            pod("large", 3, node="a-0"),
            *(pod(f"small-{at}", 2, node="a-0") for at in range(3)),
            pod("q", 0, node="b-0"),
        ],
        Freeing.MOVABLE,
        {"large": "b-0", "small-0": "b-1", "small-1": "b-1", "small-2": "b-1"},
        PACKED,
    ),
    "few pods are tried on every node": Case(
        [
            rack("a", 18),
            rack("b", 7, 11),
            *(pod(f"p{cpu}", cpu, node="a-0") for cpu in (6, 5, 4, 3)),
            pod("q", 0, node="b-0"),
        ],
        Freeing.MOVABLE,
        {"p6": "b-1", "p5": "b-1", "p4": "b-0", "p3": "b-0"},
        PACKED,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_frees_a_domain_or_says_why(case: Case) -> None:
    """Rack `a` is freed by these moves, or stays for this reason."""
    found = domain(freed(*case.objects), "a")
    assert (found.outcome, found.message, moves(found)) == (case.outcome, case.message, case.moved)


def test_no_node_has_the_label() -> None:
    """A label without a node is a mistake in the arguments."""
    with pytest.raises(PodiumUsageError, match="no node has the label"):
        freed(*TWO, key="example.com/aisle")


class Order(NamedTuple):
    """A cluster of racks, and the order of those that can be freed."""

    objects: Sequence[Any]
    order: str


SPARE = [builders.node("spare", {"cpu": 16})]
ORDERS = {
    "fewest violations": Order(
        [SPARE, rack("a", 4), rack("b", 4), budget(allowed=0), pod("p", 1, node="a-0", labels={"app": "a"}),
         pod("q", 1, 7, node="b-0")],
        "ba",
    ),
    "lowest priority": Order([SPARE, TWO, pod("p", 1, 5, node="a-0"), pod("q", 1, 4, node="b-0")], "ba"),
    "least work lost": Order(
        [SPARE, rack("a", 4, gpus=1), rack("b", 4, gpus=1), builders.node("gpus", {GPU: 2}),
         *(builders.pod(name, {GPU: 1}, node=f"{name}-0", start=f"2026-01-01T{hour}:00:00Z")
           for name, hour in (("a", 10), ("b", 11)))],
        "ba",
    ),
    "fewest units": Order(
        [SPARE, TWO, pod("p", 1, node="a-0"), pod("p2", 1, node="a-0"), pod("q", 1, node="b-0")], "ba"
    ),
    "most room": Order(
        [SPARE, rack("a", 4), rack("b", 6), pod("p", 1, node="a-0"), pod("q", 1, node="b-0")], "ba"
    ),
    "name": Order(
        [SPARE, rack("b", 4), rack("a", 4), pod("p", 1, node="a-0"), pod("q", 1, node="b-0")], "ab"
    ),
    "no free domain is filled": Order(
        [rack("a", 4), rack("b", 2, 2), rack("c", 4), rack("d", 3), pod("p", 3, node="a-0"),
         pod("d", 0, 9, node="d-0"), pod("q", 2, 2, node="b-0")],
        "abd",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ORDERS.values(), ids=list(ORDERS))
def test_domains_come_in_the_order_of_their_harm(case: Order) -> None:
    """The first difference in violations, harm, room and name decides."""
    found = freed(*case.objects)
    assert "".join(each.name for each in found.domains if each.outcome is Freeing.MOVABLE) == case.order


def test_a_free_domain_is_filled_only_if_nothing_else_helps() -> None:
    """Free domains are listed apart, and a domain that is freed into one says so and comes last."""
    objects = [
        rack("a", 4),
        rack("b", 4),
        rack("c", 4),
        rack("d", 4),
        pod("p", 4, node="a-0"),
        pod("q", 1, 9, node="b-0"),
    ]
    found = freed(*objects, pod("r", 3, 9, node="d-0"))
    assert found.free == ("c",)
    assert [(each.name, each.fills) for each in found.domains] == [("b", ()), ("d", ()), ("a", ("c",))]


def test_the_harm_of_each_move_is_reported() -> None:
    """Moves come the most important unit first, with their work and violations; the plan has the sums."""
    found = domain(
        freed(
            SPARE,
            rack("a", 4, 4, gpus=2),
            builders.node("gpus", {GPU: 4}),
            budget(allowed=1),
            group("ring", 5, whole=True),
            *(
                builders.pod(
                    f"ring-{at}", {GPU: 1}, node=f"a-{at}", group="ring", start="2026-01-01T11:00:00Z"
                )
                for at in (0, 1)
            ),
            pod("p", 1, 2, node="a-0", labels={"app": "a"}, ago=60),
            pod("q", 1, 3, node="a-1", labels={"app": "a"}, ago=60),
        ),
        "a",
    )
    assert [
        (unit.kind, unit.name, unit.priority, unit.acceleratorSeconds, unit.violations)
        for unit in found.moves
    ] == [("PodGroup", "ring", 5, 7200, 0), ("Pod", "q", 3, 0, 0), ("Pod", "p", 2, 0, 1)]
    assert found.harm is not None
    assert (found.harm.violations, found.harm.acceleratorSeconds, found.harm.units, found.harm.pods) == (
        1,
        7200,
        3,
        4,
    )
    assert found.frees == {"cpu": 8000, "memory": 32 * GIB, GPU: 4}


def test_strict_budgets_keep_a_domain() -> None:
    """A domain whose moves violate a budget stays if budgets are strict."""
    objects = [TWO, budget(allowed=0), pod("p", 1, node="a-0", labels={"app": "a"}), pod("q", 1, node="b-0")]
    found = domain(freed(*objects, budgets=Budgets.STRICT), "a")
    assert found.outcome is Freeing.DOES_NOT_FIT
    assert found.message == "its moves would violate a PodDisruptionBudget, and budgets are strict"


def test_the_search_ends_with_enough_domains() -> None:
    """Domains after the best ones are not tried, and all that stay are counted."""
    racks = [rack(f"r{at:02}", 4) for at in range(12)]
    found = freed(SPARE, racks, [pod(f"p{at}", 1, at, node=f"r{at:02}-0") for at in range(12)], most=2)
    assert [each.name for each in found.domains] == ["r00", "r01"]
    assert (found.count, found.candidates, found.tried, found.movable) == (12, 12, 2, 2)


def test_the_search_ends_with_its_bound() -> None:
    """Of many domains that cannot be freed, those with the least harm are tried."""
    number = MOST_TRIED + 5
    nodes = [builders.node(f"n{at:03}", labels={HOST: f"n{at:03}"}) for at in range(number)]
    found = freed(
        nodes, [pod(f"p{at:03}", 3, node=f"n{at:03}") for at in range(number)], key=HOST, most=number
    )
    outcomes = [each.outcome for each in found.domains]
    assert outcomes == [Freeing.DOES_NOT_FIT] * MOST_TRIED + [Freeing.NOT_TRIED] * 5
    assert found.domains[-1].message == f"not tried: {MOST_TRIED} domains with less harm were tried before it"


def test_nothing_is_moved_in_the_engine() -> None:
    """The snapshot is as before, so a second call has the same answer."""
    engine = engine_of(*CASES["few pods are tried on every node"].objects)
    before = engine.snapshot.node.tolist()
    assert engine.defragment(RACK, NOW, 5) == engine.defragment(RACK, NOW, 5)
    assert engine.snapshot.node.tolist() == before
