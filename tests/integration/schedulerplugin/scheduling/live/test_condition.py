"""Scheduler and reconciler on one cluster: the condition early, late, forged and stale."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.calling import invoke
from tests.support.controllers.running import running
from tests.support.scheduling.world import Sandbox, World

pytestmark = pytest.mark.server

NAME = "podium-condition"
DIVERGES = "its condition PodsNotMatchingPriority is True, and the divergence policy is NoPreemption"
DIVIDED = "not all of its pods have its priority, and the divergence policy is NoPreemption"


def write(sandbox: Sandbox, group: str, status: str) -> None:
    """Set the condition of a group directly."""
    condition = {
        "type": "PodsNotMatchingPriority",
        "status": status,
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    sandbox.ask("PATCH", f"{sandbox.groups_path(group)}/status", {"status": {"conditions": [condition]}})


def condition_of(sandbox: Sandbox, group: str) -> dict[str, str]:
    conditions = sandbox.ask("GET", sandbox.groups_path(group)).get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "PodsNotMatchingPriority"), {})


def status_of(sandbox: Sandbox, group: str) -> str:
    return condition_of(sandbox, group).get("status", "")


def message_of_audit(world: World, sandbox: Sandbox, group: str) -> str:
    """Return the message of the audit's rule pod-priority-differs for a group."""
    options = ["--kubeconfig", str(world.server.kubeconfig), "-n", sandbox.name, "-o", "json"]
    findings = invoke(["audit", *options], Path.cwd()).json["findings"]
    named = [finding for finding in findings if finding["rule"] == "pod-priority-differs"]
    message: str = next(finding["message"] for finding in named if finding["object"]["name"] == group)
    return message


def test_the_condition_early_late_forged_and_stale(worlds: Callable[[str], World], tmp_path: Path) -> None:
    """The group does not preempt while its condition is True or its pods differ; a reconciler corrects it."""
    world = worlds("podium")
    with world.scheduling(schedulerName=NAME) as scheduler, world.sandbox(NAME) as sandbox:
        sandbox.nodes(3)
        for at in range(3):
            sandbox.pod(f"low-{at}", 4, 1, node=f"n{at}")
        # Early: True before a pod exists. Late: no condition yet. Forged: False although the pods differ.
        for group, status, priority in (("early", "True", 5), ("late", "", 3), ("forged", "False", 3)):
            sandbox.group(group, 5, 1)
            if status:
                write(sandbox, group, status)
            sandbox.pod(f"{group}-0", 4, priority, group=group)
        sandbox.until_message("early-0", DIVERGES)
        sandbox.until_message("late-0", DIVIDED)
        sandbox.until_message("forged-0", DIVIDED)
        sandbox.wait_for_decisions()
        assert sandbox.evicted() == []
        for status in ("True", "False"):
            assert scheduler.metric("condition_disagreements_total", condition=status) == 1
        with running(world.server, tmp_path / "first"):
            sandbox.until_bound(["early-0"])
            for group, status in (("early", "False"), ("late", "True"), ("forged", "True")):
                sandbox.until(lambda g=group, s=status: status_of(sandbox, g) == s, f"{group} is {status}")
            for group in ("late", "forged"):
                assert condition_of(sandbox, group)["message"] == message_of_audit(world, sandbox, group)
            sandbox.wait_for_decisions()
            assert len(sandbox.evicted()) == 1
        # Stale: the reconciler is down while the pods are corrected.
        sandbox.end("late-0")
        sandbox.pod("late-1", 4, 5, group="late")
        sandbox.until_message("late-1", DIVERGES)
        sandbox.wait_for_decisions()
        assert len(sandbox.evicted()) == 1
        assert scheduler.metric("condition_disagreements_total", condition="True") == 2
        with running(world.server, tmp_path / "second"):
            sandbox.until_bound(["late-1"])
        assert len(sandbox.evicted()) == 2
