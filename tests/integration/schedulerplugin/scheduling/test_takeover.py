"""The rate of evictions after a change of leader: unknown evictions count as the maximum.

The next process reads the number of recent evictions that the former one had recorded, and a killed one had
not recorded all. There is no history in this world.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scheduling.world import Sandbox, World, world
from tools.devcluster.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

WAITS = "when the rate of 5 units a minute allows it"
PAUSED = "nothing is evicted for a minute"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world in which each test has a scheduler of its own name."""
    with world(NEWEST.minor, tmp_path_factory.mktemp("world")) as made:
        yield made


def full(sandbox: Sandbox, size: int) -> None:
    """Create nodes with a pod each that may be evicted."""
    sandbox.nodes(size)
    for index in range(size):
        sandbox.pod(f"low-{index}", 4, 1, node=f"n{index}")


def test_the_successor_of_a_killed_leader_evicts_no_pod_for_a_minute(plain: World) -> None:
    """A new or released lease costs no quota, and an expired one a minute.

    A leader that stops within that minute, or could not record its evictions, releases nothing.
    """
    name, lease = "podium-heir", (plain.server.new_namespace("lease-"), "heir")
    with (
        plain.scheduling(lease=lease, schedulerName=name, evictionsPerMinute=5) as scheduler,
        plain.sandbox(name) as sandbox,
    ):
        full(sandbox, 2)
        assert scheduler.process.stop() == 0
        scheduler.again()
        sandbox.pod("first", 4, 5)
        sandbox.until_bound(["first"])
        assert PAUSED not in scheduler.log
        scheduler.kill()
        scheduler.again()
        sandbox.pod("second", 4, 5)
        sandbox.until_message("second", WAITS)
        sandbox.wait_for_decisions()
        assert len(sandbox.evicted()) == 1
        assert scheduler.log.count(PAUSED) == 1
        assert "the previous leader did not release its lease" in scheduler.log
        assert scheduler.process.stop() == 0
        scheduler.again()
        sandbox.until(lambda: scheduler.log.count(PAUSED) == 2, "it is in doubt, too")
        sandbox.until_message("second", WAITS)
        sandbox.wait_for_decisions()
        assert len(sandbox.evicted()) == 1


@pytest.mark.parametrize("what", ["emptied", "deleted"])
def test_a_lease_taken_from_a_leader_was_not_released(what: str, plain: World) -> None:
    """The next leader sees a lease that was taken, so the evictions of the other are unknown."""
    name, (namespace, lease) = "podium-torn", (plain.server.new_namespace("lease-"), "torn")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}"
    options: dict[str, Any] = {"lease": (namespace, lease), "schedulerName": name, "evictionsPerMinute": 5}
    with (
        plain.scheduling(**options) as leader,
        plain.sandbox(name) as sandbox,
    ):
        full(sandbox, 1)
        sandbox.until(lambda: leader.leads, "one leads")
        with plain.scheduling(**options) as heir:
            sandbox.until(lambda: "another leads" in heir.log, "the other waits")
            if what == "deleted":
                sandbox.ask("DELETE", path)
            else:
                sandbox.ask("PATCH", path, {"spec": {"holderIdentity": ""}})
            sandbox.until(lambda: leader.ended, "the former leader ends")
            sandbox.until(lambda: heir.leads, "the other leads")
            sandbox.pod("first", 4, 5)
            sandbox.until_message("first", WAITS)
            sandbox.wait_for_decisions()
            assert sandbox.evicted() == []
            assert heir.log.count(PAUSED) == 1
            assert "the lease was not released" in heir.log


def test_a_leader_with_unrecorded_evictions_does_not_release_the_lease(plain: World) -> None:
    """Without the record, the next leader would evict as many again."""
    name, lease = "podium-mute", (plain.server.new_namespace("lease-"), "mute")
    with (
        plain.scheduling(lease=lease, schedulerName=name, evictionsPerMinute=5) as scheduler,
        plain.sandbox(name) as sandbox,
    ):
        full(sandbox, 2)
        sandbox.pod("first", 4, 5)
        sandbox.until_bound(["first"])
        assert PAUSED not in scheduler.log
        assert scheduler.process.stop() == 0
        scheduler.again()
        sandbox.pod("second", 4, 5)
        sandbox.until_message("second", WAITS)
        sandbox.wait_for_decisions()
        assert len(sandbox.evicted()) == 1
        assert scheduler.log.count(PAUSED) == 1


def test_without_a_lease_the_end_of_the_previous_process_is_unknown(plain: World) -> None:
    """It is unknown whether there was an eviction; without a rate it does not matter."""
    name = "podium-alone"
    with (
        plain.scheduling(schedulerName=name, evictionsPerMinute=5) as scheduler,
        plain.sandbox(name) as sandbox,
    ):
        full(sandbox, 1)
        sandbox.pod("first", 4, 5)
        sandbox.until_message("first", WAITS)
        sandbox.wait_for_decisions()
        assert sandbox.evicted() == []
        assert scheduler.log.count(PAUSED) == 1
        assert scheduler.process.stop() == 0
        scheduler.configure(schedulerName=name)
        scheduler.again()
        sandbox.until_bound(["first"])
        assert scheduler.log.count(PAUSED) == 1
