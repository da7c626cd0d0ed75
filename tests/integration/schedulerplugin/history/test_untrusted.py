"""A workload that twice did not save its work is known to the next leader, by the records."""

import time
from typing import Any

import pytest
from tests.support.scheduling.world import Sandbox, World
from tests.support.waiting import until

from podium.api.records import RECORD_VERSION
from podium.api.saving import SAVES_ON_NOTICE

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

GPU = "nvidia.com/gpu"
SAVES = {"annotations": {SAVES_ON_NOTICE: "1s"}}


def add_node(sandbox: Sandbox, name: str) -> None:
    """Make a node with accelerators, so that work on it has a price."""
    room = {"cpu": "4", "memory": "64Gi", "pods": "110", GPU: "8"}
    status = {"status": {"capacity": room, "allocatable": room}}
    sandbox.ask("PATCH", f"/api/v1/nodes/{sandbox.node(name)}/status", status)


def add_pod(sandbox: Sandbox, name: str, priority: int, **fields: Any) -> None:
    """Make a pod that takes all accelerators of a node."""
    resources = {"requests": {"cpu": "1", GPU: "8"}, "limits": {GPU: "8"}}
    containers = [{"name": "main", "image": "none", "resources": resources}]
    sandbox.pod(name, 1, priority, containers=containers, **fields)


def answers(world: World, namespace: str) -> list[str]:
    """Return the answers of the victims in the records, the oldest first."""
    code, found = world.server.request(
        "GET", f"/apis/{RECORD_VERSION}/namespaces/{namespace}/preemptionrecords"
    )
    assert code == 200, found
    plans = [plan for record in found["items"] for plan in record["plans"]]
    return [
        unit.get("saving", "")
        for plan in sorted(plans, key=lambda plan: plan["time"])
        for unit in plan["units"]
    ]


def _until_answers(world: World, namespace: str, times: int) -> None:
    until(lambda: answers(world, namespace) == ["Failed"] * times, "the answers are recorded")


def pass_seconds(seconds: int) -> None:
    """Wait for so many whole seconds: a price has seconds."""
    since = time.monotonic()
    until(lambda: time.monotonic() - since > seconds, "time passes")


def test_the_next_leader_knows_a_workload_that_does_not_save(recorded: World) -> None:
    """The next leader evicts a workload that loses less, and not the one that declares to save its work."""
    name, namespace = "podium-untrusted", recorded.server.new_namespace("records-")
    with (
        recorded.scheduling(schedulerName=name, recordsNamespace=namespace) as scheduler,
        recorded.sandbox(name) as sandbox,
    ):
        add_node(sandbox, "n0")
        for times in (1, 2):
            add_pod(sandbox, "saving", 1, node="n0", metadata=SAVES)
            add_pod(sandbox, f"high-{times}", 5)
            sandbox.until_bound([f"high-{times}"])
            _until_answers(recorded, namespace, times)
            assert scheduler.metric("untrusted_workloads") == times - 1
            sandbox.end(f"high-{times}")
        assert scheduler.metric("save_requests_total", result="failed") == 2
        scheduler.kill()
        scheduler.again()
        until(
            lambda: scheduler.leads and scheduler.metric("untrusted_workloads") == 1, "it reads the records"
        )
        add_pod(sandbox, "saving", 1, node="n0", metadata=SAVES)
        pass_seconds(3)
        add_node(sandbox, "n1")
        add_pod(sandbox, "other", 1, node="n1")
        pass_seconds(2)
        add_pod(sandbox, "high-3", 5)
        sandbox.until_bound(["high-3"])
        assert sandbox.evicted() == ["saving", "saving", "other"]
