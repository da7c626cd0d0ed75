"""Podium and kube-scheduler on one cluster, with separate nodes or with the same ones."""

from collections.abc import Callable, Iterator

import pytest
from bench.kubescheduler import scheduling
from tests.support.scheduling.ledger import milli
from tests.support.scheduling.world import World, Yard

from podium.api.groups import PODIUM_GROUP
from podium.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

RESERVED = f"{PODIUM_GROUP}/reserved"
OTHER = "default-scheduler"
RESERVING = "podium-reserving"


@pytest.fixture(scope="module")
def both(worlds: Callable[[str], World]) -> Iterator[World]:
    """Yield a world with kube-scheduler."""
    made = worlds(NEWEST.minor)
    with scheduling(made.server):
        yield made


@pytest.fixture
def shared(both: World) -> Iterator[Yard]:
    """Yield a sandbox whose nodes are open to every scheduler."""
    with both.yard() as made:
        yield made


def reserve(yard: Yard, name: str) -> None:
    """Make a node that only Podium may use."""
    full = yard.node(name, taints=[{"key": RESERVED, "effect": "NoSchedule"}])
    yard.ask("PATCH", f"/api/v1/nodes/{full}", {"metadata": {"labels": {RESERVED: ""}}})


def test_reserved_nodes_are_podiums_and_are_never_over_committed(both: World) -> None:
    """Among many pods of both, each goes to its own nodes, and our preemptors evict none of the others'."""
    with (
        both.scheduling(schedulerName=RESERVING, reservedNodes=RESERVED),
        both.yard(RESERVING) as yard,
    ):
        ours, theirs = [f"r{index}" for index in range(4)], [f"n{index}" for index in range(4)]
        for name in ours:
            reserve(yard, name)
        yard.nodes(4)
        for index in range(16):
            yard.pod(f"ours-{index}", 1, 1)
            yard.pod(f"theirs-{index}", 1, 1, schedulerName=OTHER)
        lows = yard.until_bound([f"ours-{index}" for index in range(16)])
        assert {*lows.values()} == {*ours}
        assert {*yard.until_bound([f"theirs-{index}" for index in range(16)]).values()} == {*theirs}
        names = yard.gang("gang", 4, 3, 5)
        for index in range(4):
            yard.pod(f"more-{index}", 1, 3, schedulerName=OTHER)
        assert {*yard.until_bound(names).values()} == {*ours}
        assert len(yard.evicted()) == 12
        assert all(name.startswith("ours-") for name in yard.touched())
        held: dict[str, int] = {}
        for pod in yard.pods().values():
            node = yard.where(pod)
            held[node] = held.get(node, 0) + milli(pod)
        assert {node: held[node] for node in ours} == dict.fromkeys(ours, 4000)


def test_room_that_the_other_has_taken_is_not_free(shared: Yard) -> None:
    shared.nodes(2)
    shared.pod("theirs", 4, 1, schedulerName=OTHER)
    taken = shared.until_bound(["theirs"])["theirs"]
    shared.pod("ours", 4, 9)
    assert shared.until_bound(["ours"])["ours"] != taken
    shared.pod("late", 4, 9)
    shared.until_message("late", "nodes are available")
    shared.witness()
    assert shared.touched() == []


def test_pods_that_the_other_has_nominated_are_counted(shared: Yard) -> None:
    """The preemptor waits for a slow victim; the room of a terminating pod is not free for others."""
    shared.node("n0", 4)
    shared.pod("low", 2, 1, node="n0", schedulerName=OTHER)
    shared.pod("slow", 2, 1, node="n0", schedulerName=OTHER, metadata={"finalizers": ["example.com/stays"]})
    shared.pod("theirs", 4, 5, schedulerName=OTHER)
    shared.until_nominated("theirs", "n0")
    shared.until(lambda: "low" not in shared.pods(), "half of the node is empty")
    shared.pod("ours", 2, 5)
    shared.until_message("ours", "nodes are available")
    shared.witness()
    shared.free("slow")
    assert shared.until_bound(["theirs"]) == {"theirs": "n0"}
    assert shared.touched() == []
