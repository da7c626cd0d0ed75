"""Settings that an administrator may change, on a real server: preemption itself, and evictions a minute."""

from collections.abc import Callable

import pytest
from tests.integration.schedulerplugin.scheduling.live.test_victims import OF_A_JOB
from tests.support.proxy import Hold
from tests.support.scheduling.ledger import is_marked
from tests.support.scheduling.world import Sandbox, World
from tools.devcluster.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

OBSERVER = "podium-observer"


@pytest.fixture(scope="module")
def plain(worlds: Callable[[str], World]) -> World:
    """Return a world in which each test has a scheduler of its own name."""
    return worlds(NEWEST.minor)


def full(sandbox: Sandbox) -> None:
    """Create two nodes, each full of a pod whose mark is written before its delete."""
    sandbox.nodes(2)
    for index in range(2):
        sandbox.pod(f"low-{index}", 4, 1, node=f"n{index}", metadata=OF_A_JOB)


def test_observe_plans_and_deletes_nothing_and_is_switched_while_it_runs(plain: World) -> None:
    """Plans are counted and no pod is marked; with enforce the waiting pod preempts at once."""
    with (
        plain.scheduling(schedulerName=OBSERVER, preemption="observe") as scheduler,
        plain.sandbox(OBSERVER) as sandbox,
    ):
        full(sandbox)
        sandbox.pod("high", 4, 5)
        sandbox.until_message("high", "nodes are available")
        sandbox.until(lambda: scheduler.metric("observed_preemptions_total") >= 1, "the plan is counted")
        sandbox.wait_for_decisions()
        assert sandbox.touched() == []
        assert "nominatedNodeName" not in sandbox.pods()["high"]["status"]
        scheduler.configure(schedulerName=OBSERVER, preemption="enforce")
        sandbox.until_bound(["high"])
        assert len(sandbox.evicted()) == 1


def test_off_is_off(plain: World) -> None:
    with (
        plain.scheduling(schedulerName="podium-off", preemption="off"),
        plain.sandbox("podium-off") as sandbox,
    ):
        full(sandbox)
        sandbox.pod("high", 4, 5)
        sandbox.until_message("high", "nodes are available")
        sandbox.wait_for_decisions()
        assert sandbox.touched() == []


def test_a_window_leaves_an_autoscaler_the_time(plain: World) -> None:
    """No eviction starts until the window ends or its annotation is removed."""
    name, annotation = "podium-patient", "scheduling.podium.dev/preemption-delay"
    with plain.scheduling(schedulerName=name), plain.sandbox(name) as sandbox:
        full(sandbox)
        sandbox.group("gang", 5, 2, annotations={annotation: "1h"})
        members = sandbox.members("gang", 2, 4, 5)
        for member in members:
            sandbox.until_message(member, "for new nodes before anything is evicted")
        sandbox.wait_for_decisions()
        assert sandbox.touched() == []
        sandbox.ask("PATCH", sandbox.groups_path("gang"), {"metadata": {"annotations": {annotation: None}}})
        sandbox.until_bound(members)
        assert len(sandbox.evicted()) == 2


def test_a_rate_is_kept(plain: World) -> None:
    """With one unit a minute, the second preemptor waits for its turn and evicts nothing before."""
    # Without a lease the first preemptor would have to wait too.
    lease = plain.server.new_namespace("lease-"), "slow"
    with (
        plain.scheduling(lease=lease, schedulerName="podium-slow", evictionsPerMinute=1) as scheduler,
        plain.sandbox("podium-slow") as sandbox,
    ):
        full(sandbox)
        sandbox.pod("first", 4, 5)
        sandbox.until_bound(["first"])
        sandbox.pod("second", 4, 5)
        sandbox.until_message("second", "the rate of 1 units a minute")
        sandbox.until(lambda: scheduler.metric("rate_limited_total") >= 1, "it is counted")
        sandbox.wait_for_decisions()
        assert len(sandbox.evicted()) == 1
        scheduler.configure(schedulerName="podium-slow", evictionsPerMinute=None)
        sandbox.until_bound(["second"])


def test_it_is_switched_off_in_mid_preemption(plain: World) -> None:
    """Before the first delete no pod is evicted, and marked victims are unmarked."""
    name = "podium-switched"
    with plain.scheduling(schedulerName=name) as scheduler, plain.sandbox(name) as sandbox:
        full(sandbox)
        with plain.proxy.fault(sandbox.marks, Hold(), times=1) as held:
            sandbox.pod("high", 4, 5)
            sandbox.until(lambda: held.hits == 1, "the victim is marked")
            scheduler.configure(schedulerName=name, preemption="off")
            sandbox.until(lambda: "configuration changed" in scheduler.log, "it is off")
        sandbox.until(
            lambda: (
                len(plain.proxy.writes(sandbox.marks)) == 2
                and not any(map(is_marked, sandbox.pods().values()))
            ),
            "the mark is withdrawn",
        )
        sandbox.wait_for_decisions()
        assert sandbox.evicted() == []


@pytest.mark.parametrize("seconds", [0, 3600])
def test_a_gang_holds_room_against_a_stream_of_small_pods(seconds: int, plain: World) -> None:
    """Each small pod that ends has a waiting successor of the same priority."""
    name = f"podium-hold-{seconds}"
    with (
        plain.scheduling(schedulerName=name, gangHoldSeconds=seconds) as scheduler,
        plain.sandbox(name) as sandbox,
    ):
        sandbox.nodes(2)
        for index in range(2):
            sandbox.pod(f"small-{index}", 4, 5, node=f"n{index}")
        gang = sandbox.gang("gang", 2, 4, 5)
        sandbox.until_message(gang[0], "This gang holds room" if seconds else "nodes are available")
        for index in range(2):
            sandbox.pod(f"next-{index}", 4, 5)
            sandbox.until_message(f"next-{index}", "nodes are available")
        sandbox.end("small-0")
        if not seconds:
            sandbox.until(lambda: bound_of(sandbox, "next-"), "the next small pod takes the node")
        sandbox.end("small-1")
        if seconds:
            sandbox.until_bound(gang)
            sandbox.until(lambda: scheduler.metric("gang_holds_total", result="scheduled") == 1, "it counts")
        else:
            sandbox.until_bound(["next-0", "next-1"])
        assert len(bound_of(sandbox, "")) == 2
        assert sandbox.evicted() == []


def bound_of(sandbox: Sandbox, prefix: str) -> list[str]:
    """Return the names of the pods with a prefix that have a node."""
    return [name for name, pod in sandbox.pods().items() if name.startswith(prefix) and sandbox.where(pod)]
