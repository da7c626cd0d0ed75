"""Podium and kube-scheduler on one cluster, with separate nodes or with the same ones."""

from collections.abc import Callable, Iterator

import pytest
from bench.kubescheduler import scheduling
from tests.support.scheduling.ledger import milli
from tests.support.scheduling.world import Sandbox, World
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.groups import PODIUM_GROUP

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
def shared(both: World) -> Iterator[Sandbox]:
    """Yield a sandbox whose nodes are open to every scheduler."""
    with both.sandbox() as made:
        yield made


def reserve(sandbox: Sandbox, name: str) -> None:
    """Make a node that only Podium may use."""
    full = sandbox.node(name, taints=[{"key": RESERVED, "effect": "NoSchedule"}])
    sandbox.ask("PATCH", f"/api/v1/nodes/{full}", {"metadata": {"labels": {RESERVED: ""}}})


def test_reserved_nodes_are_podiums_and_are_never_over_committed(both: World) -> None:
    """Among many pods of both, each goes to its own nodes, and our preemptors evict none of the others'."""
    with (
        both.scheduling(schedulerName=RESERVING, reservedNodes=RESERVED),
        both.sandbox(RESERVING) as sandbox,
    ):
        ours, theirs = [f"r{index}" for index in range(4)], [f"n{index}" for index in range(4)]
        for name in ours:
            reserve(sandbox, name)
        sandbox.nodes(4)
        for index in range(16):
            sandbox.pod(f"ours-{index}", 1, 1)
            sandbox.pod(f"theirs-{index}", 1, 1, schedulerName=OTHER)
        lows = sandbox.until_bound([f"ours-{index}" for index in range(16)])
        assert {*lows.values()} == {*ours}
        assert {*sandbox.until_bound([f"theirs-{index}" for index in range(16)]).values()} == {*theirs}
        names = sandbox.gang("gang", 4, 3, 5)
        for index in range(4):
            sandbox.pod(f"more-{index}", 1, 3, schedulerName=OTHER)
        assert {*sandbox.until_bound(names).values()} == {*ours}
        assert len(sandbox.evicted()) == 12
        assert all(name.startswith("ours-") for name in sandbox.touched())
        held: dict[str, int] = {}
        for pod in sandbox.pods().values():
            node = sandbox.where(pod)
            held[node] = held.get(node, 0) + milli(pod)
        assert {node: held[node] for node in ours} == dict.fromkeys(ours, 4000)


def test_room_that_the_other_has_taken_is_not_free(shared: Sandbox) -> None:
    shared.nodes(2)
    shared.pod("theirs", 4, 1, schedulerName=OTHER)
    taken = shared.until_bound(["theirs"])["theirs"]
    shared.pod("ours", 4, 9)
    assert shared.until_bound(["ours"])["ours"] != taken
    shared.pod("late", 4, 9)
    shared.until_message("late", "nodes are available")
    shared.wait_for_decisions()
    assert shared.touched() == []


def test_pods_that_the_other_has_nominated_are_counted(shared: Sandbox) -> None:
    """The preemptor waits for a slow victim; the room of a terminating pod is not free for others."""
    shared.node("n0", 4)
    shared.pod("low", 2, 1, node="n0", schedulerName=OTHER)
    shared.pod("slow", 2, 1, node="n0", schedulerName=OTHER, metadata={"finalizers": ["example.com/stays"]})
    shared.pod("theirs", 4, 5, schedulerName=OTHER)
    shared.until_nominated("theirs", "n0")
    shared.until(lambda: "low" not in shared.pods(), "half of the node is empty")
    shared.pod("ours", 2, 5)
    shared.until_message("ours", "nodes are available")
    shared.wait_for_decisions()
    shared.free("slow")
    assert shared.until_bound(["theirs"]) == {"theirs": "n0"}
    assert shared.touched() == []
