"""Workloads that evict each other in turn are slowed down and reported, by the real process.

With constant priorities this cannot happen. Here the test recreates each pod under its name with a higher
class than that of the pod that took its place.
"""

import re

import pytest
from tests.support.scheduling.world import Sandbox, Scheduler, World
from tests.unit.schedulerplugin.history.test_report import run

pytestmark = pytest.mark.server

_HELD = re.compile(r"1 pod would be evicted, which evicted it: backing off for (\d+) s")


def held_back(sandbox: Sandbox, name: str) -> int:
    """Wait until a pod's message has a delay; return the seconds."""
    found = _HELD.search(sandbox.until_message(name, "which evicted it"))
    assert found is not None
    return int(found[1])


def circles(sandbox: Sandbox, scheduler: Scheduler, times: int) -> None:
    """Wait until this many cycles are counted; each is logged once."""
    sandbox.until(lambda: scheduler.metric("eviction_cycles_total") == times, f"{times} are counted")
    assert scheduler.log.count("workloads evict each other") == times


def test_workloads_that_evict_each_other_are_slowed_down(recorded: World) -> None:
    """The first cycle delays a minute, the next one two; the delay ends, because its reason may be gone."""
    records = recorded.server.new_namespace("records-")
    with recorded.scheduling(recordsNamespace=records) as scheduler, recorded.sandbox() as sandbox:
        sandbox.node("n0")
        sandbox.pod("a", 4, 1)
        sandbox.until_bound(["a"])
        sandbox.pod("b", 4, 3)
        sandbox.until_bound(["b"])
        assert scheduler.metric("eviction_cycles_total") == 0
        first, again = sandbox.evicted_uids(), sandbox.pod("a", 4, 5)["metadata"]["uid"]
        assert 30 < held_back(sandbox, "a") <= 60
        sandbox.wait_for_decisions()
        circles(sandbox, scheduler, 1)
        assert sandbox.evicted_uids() == first
        scheduler.skip_minute()
        sandbox.wait_for_decisions()
        sandbox.until(
            lambda: sandbox.pods().get("a", {}).get("spec", {}).get("nodeName"), "the minute has passed"
        )
        assert sandbox.pods()["a"]["metadata"]["uid"] == again
        assert sandbox.evicted() == ["a", "b"]
        sandbox.pod("b", 4, 7)
        assert 60 < held_back(sandbox, "b") <= 120
        circles(sandbox, scheduler, 2)
        arguments = ("--kubeconfig", recorded.server.kubeconfig, "--namespace", records)
        sandbox.until(lambda: run(*arguments).exit_code == 3, "the cycle is recorded")
        report = run(*arguments)
        assert "Workloads evicted each other in 1 cycle." in report.stdout
        line = next(line for line in report.stdout.splitlines() if f"Pod {sandbox.name}/a" in line)
        assert f"Pod {sandbox.name}/b" in line
