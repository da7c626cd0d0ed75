"""Scheduler and reconciler on one cluster: the condition early, late, forged and stale."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.controllers.running import running
from tests.support.scheduling.world import World, Yard

pytestmark = pytest.mark.server

NAME = "podium-condition"
DIVERGES = "its condition PodsNotMatchingPriority is True, and the divergence policy is NoPreemption"
DIVIDED = "not all of its pods have its priority, and the divergence policy is NoPreemption"


def write(yard: Yard, group: str, status: str) -> None:
    """Set the condition of a group directly."""
    condition = {
        "type": "PodsNotMatchingPriority",
        "status": status,
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    yard.ask("PATCH", f"{yard.groups_path(group)}/status", {"status": {"conditions": [condition]}})


def status_of(yard: Yard, group: str) -> str:
    found = yard.ask("GET", yard.groups_path(group)).get("status", {}).get("conditions", ())
    return next((each["status"] for each in found if each["type"] == "PodsNotMatchingPriority"), "")


def test_the_condition_early_late_forged_and_stale(worlds: Callable[[str], World], tmp_path: Path) -> None:
    """The group does not preempt while its condition is True or its pods differ; a reconciler corrects it."""
    world = worlds("podium")
    with world.scheduling(schedulerName=NAME) as scheduler, world.yard(NAME) as yard:
        yard.nodes(3)
        for at in range(3):
            yard.pod(f"low-{at}", 4, 1, node=f"n{at}")
        # Early: True before a pod exists. Late: no condition yet. Forged: False although the pods differ.
        for group, status, priority in (("early", "True", 5), ("late", "", 3), ("forged", "False", 3)):
            yard.group(group, 5, 1)
            if status:
                write(yard, group, status)
            yard.pod(f"{group}-0", 4, priority, group=group)
        yard.until_message("early-0", DIVERGES)
        yard.until_message("late-0", DIVIDED)
        yard.until_message("forged-0", DIVIDED)
        yard.witness()
        assert yard.evicted() == []
        for status in ("True", "False"):
            assert scheduler.metric("condition_disagreements_total", condition=status) == 1
        with running(world.server, tmp_path / "first"):
            yard.until_bound(["early-0"])
            for group, status in (("early", "False"), ("late", "True"), ("forged", "True")):
                yard.until(lambda g=group, s=status: status_of(yard, g) == s, f"{group} is {status}")
            yard.witness()
            assert len(yard.evicted()) == 1
        # Stale: the reconciler is down while the pods are corrected.
        yard.end("late-0")
        yard.pod("late-1", 4, 5, group="late")
        yard.until_message("late-1", DIVERGES)
        yard.witness()
        assert len(yard.evicted()) == 1
        assert scheduler.metric("condition_disagreements_total", condition="True") == 2
        with running(world.server, tmp_path / "second"):
            yard.until_bound(["late-1"])
        assert len(yard.evicted()) == 2
