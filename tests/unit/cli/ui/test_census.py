"""The census of groups and pods: kinds and states, the order, and the totals by priority."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.ui.clusters import BY_SCHEDULER, mixed, page_data
from tests.support.why import disrupted, group, node, pod
from tests.unit.answers.accounts.test_devices import DRIVER, held

from podium.answers.accounts.model import RunState
from podium.cli.ui.census import CensusRow

GPU = [{"name": "main", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "4"}}}]
GONE = {"deletionTimestamp": "2026-11-21T08:10:00Z"}
GOING = disrupted(BY_SCHEDULER)

Case = tuple[list[dict[str, Any]], RunState, bool, int, dict[RunState, int], dict[str, int]]
# A group `ring` and its pods: its state, preempted or not, the number of divergent pods, its pods, its
# resources.
GROUPS: dict[str, Case] = {
    "without pods": ([group("ring")], RunState.WAITING, False, 0, {}, {}),
    "waits": (
        [group("ring"), pod("x", group="ring", priority=5)],
        RunState.WAITING,
        False,
        0,
        {RunState.WAITING: 1},
        {},
    ),
    "runs": (
        [
            group("ring"),
            *(pod(f"x{n}", group="ring", priority=5, node="n1", containers=GPU) for n in range(2)),
        ],
        RunState.RUNNING,
        False,
        0,
        {RunState.RUNNING: 2},
        {"nvidia.com/gpu": 8},
    ),
    "runs in part": (
        [group("ring"), pod("x", group="ring", priority=5, node="n1"), pod("y", group="ring", priority=5)],
        RunState.WAITING,
        False,
        0,
        {RunState.WAITING: 1, RunState.RUNNING: 1},
        {},
    ),
    "runs and diverges": (
        [group("ring"), pod("x", group="ring", priority=5, node="n1"), pod("y", group="ring", node="n1")],
        RunState.RUNNING,
        False,
        1,
        {RunState.RUNNING: 2},
        {},
    ),
    "is preempted": (
        [group("ring"), pod("x", GOING, group="ring", priority=5, node="n1", containers=GPU)],
        RunState.LEAVING,
        True,
        0,
        {RunState.LEAVING: 1},
        {"nvidia.com/gpu": 4},
    ),
    "was preempted and waits again": (
        [group("ring", GOING), pod("x", group="ring", priority=5)],
        RunState.WAITING,
        True,
        0,
        {RunState.WAITING: 1},
        {},
    ),
    "was preempted once and runs again": (
        [group("ring", GOING), pod("x", group="ring", priority=5, node="n1")],
        RunState.RUNNING,
        False,
        0,
        {RunState.RUNNING: 1},
        {},
    ),
    "is deleted by a user": (
        [group("ring"), pod("x", group="ring", priority=5, node="n1", metadata=GONE)],
        RunState.LEAVING,
        False,
        0,
        {RunState.LEAVING: 1},
        {},
    ),
    "has run to its end and holds nothing": (
        [
            group("ring"),
            pod("x", group="ring", priority=5, node="n1", containers=GPU, status={"phase": "Succeeded"}),
        ],
        RunState.FINISHED,
        False,
        0,
        {RunState.FINISHED: 1},
        {},
    ),
    "is no gang and has no pods": (
        [group("ring", spec={"schedulingPolicy": {"basic": {}}})],
        RunState.EMPTY,
        False,
        0,
        {},
        {},
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_at(name: str, tmp_path: Path) -> None:
    """Each state of a group, by its pods and its own condition."""
    objects, state, preempted, differing, pods, held = GROUPS[name]
    (row,) = page_data([node(), *objects], tmp_path).census.rows
    assert (row.namespace, row.name, row.priority) == ("a", "ring", 5)
    assert (row.state, row.preempted, row.differing) == (state, preempted, differing)
    assert (dict(row.pods), dict(row.held), row.min_count) == (
        pods,
        held,
        None if state is RunState.EMPTY else 2,
    )


def test_devices_of_claims_are_held(tmp_path: Path) -> None:
    """A claim that two pods of a group share counts once, and a claim of a finished pod not at all."""
    consumer = {"resource": "pods", "name": "x", "uid": "x"}
    claims = [{"name": "gpus", "resourceClaimName": "c"}]
    shared = held("c", "n1", 0, 1)
    shared["status"]["reservedFor"] = [
        consumer | {"name": each, "uid": each} for each in ("x", "y", "lone", "ended")
    ]
    running: dict[str, Any] = {"node": "n1", "resourceClaims": claims}
    found = page_data(
        [
            *(node(), shared, group("ring")),
            *(pod(each, group="ring", priority=5, metadata={"uid": each}, **running) for each in "xy"),
            pod("lone", metadata={"uid": "lone"}, **running),
            pod("ended", metadata={"uid": "ended"}, status={"phase": "Succeeded"}, **running),
        ],
        tmp_path,
    )
    rows = {row.name: dict(row.held) for row in found.census.rows}
    assert rows == {"ring": {DRIVER: 2}, "lone": {DRIVER: 2}, "ended": {}}
    assert dict(found.related("group", ("a", "ring")).held) == {DRIVER: 2}


def test_a_missing_group_has_the_priority_of_its_pods(tmp_path: Path) -> None:
    objects = [pod("x", group="ring", priority=3), pod("y", group="ring", priority=7)]
    (row,) = page_data(objects, tmp_path).census.rows
    assert (row.exists, row.priority, row.min_count) == (False, 7, None)


def test_the_highest_priority_is_first_and_waiting_before_running(tmp_path: Path) -> None:
    """Groups and lone pods are in one order; members of groups have no rows."""
    rows = page_data(mixed(), tmp_path).census.rows
    assert [sentence_of(row) for row in rows] == [
        "1000 group train Waiting",
        "100 group again Waiting",
        "100 group sweep Running",
        "7 group nobody Waiting",
        "5 pod lone Waiting",
        "0 pod victim Leaving",
        "0 pod done Finished",
    ]


def sentence_of(row: CensusRow) -> str:
    return f"{row.priority} {'group' if row.is_group else 'pod'} {row.name} {row.state}"


def test_levels_add_up(tmp_path: Path) -> None:
    """By priority: the classes, groups by state, lone pods by state."""
    levels = {level.priority: level for level in page_data(mixed(), tmp_path).census.levels}
    assert list(levels) == [1000, 100, 7, 5, 0]
    assert levels[1000].classes == ("high",)
    assert dict(levels[100].groups) == {RunState.WAITING: 1, RunState.RUNNING: 1}
    assert dict(levels[0].pods) == {RunState.LEAVING: 1, RunState.FINISHED: 1}
