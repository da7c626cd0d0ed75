"""The checker of the tests on real servers detects flapping and wrong times."""

from typing import Any

import pytest
from tests.support.controllers.history import Seen, problems
from tests.support.controllers.running import POLICY, PRIORITY

T0, T1, T2 = (f"2026-01-01T00:00:0{second}Z" for second in range(3))


def _group(version: int, *found: tuple[str, str], uid: str = "g", axis: str = PRIORITY) -> Seen:
    """Return a version of a group of 1000, with the status and time of its condition."""
    conditions = [
        {"type": axis, "status": status, "reason": "r", "message": "m", "lastTransitionTime": since}
        for status, since in found
    ]
    metadata = {"name": "gang", "uid": uid, "resourceVersion": str(version)}
    spec = {"priorityClassName": "high", "priority": 1000}
    return Seen(
        version, "MODIFIED", {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
    )


def _pod(version: int, priority: int = 100, type_: str = "ADDED", **metadata: Any) -> Seen:
    """Return a version of a member."""
    spec = {"priority": priority, "schedulingGroup": {"podGroupName": "gang"}}
    pod = {"metadata": {"name": "p", "uid": "p", **metadata}, "spec": spec, "status": {"phase": "Pending"}}
    return Seen(version, type_, pod)


GONE = _pod(30, type_="DELETED")
RIGHT: dict[str, tuple[list[Seen], list[Seen]]] = {
    "at once": ([_group(10), _group(21, ("True", T0))], [_pod(20)]),
    "late": ([_group(10), _group(31, ("True", T0)), _group(32, ("False", T1))], [_pod(20), GONE]),
    "a pod before its group": ([_group(21), _group(22, ("True", T0))], [_pod(20)]),
    "a pod that leaves": (
        [_group(10), _group(21, ("True", T0)), _group(26, ("False", T1))],
        [_pod(20), _pod(25, deletionTimestamp=T1)],
    ),
    "another group": ([_group(10, uid="old"), _group(21, ("True", T0)), _group(40, uid="new")], [_pod(20)]),
}
WRONG: dict[str, tuple[list[Seen], list[Seen], str]] = {
    "before it was so": ([_group(10), _group(15, ("True", T0))], [_pod(20)], "not so"),
    "a group that agrees": ([_group(10), _group(25, ("True", T0))], [_pod(20, priority=1000)], "not so"),
    "flapping": (
        [
            _group(10),
            _group(21, ("True", T0)),
            _group(31, ("False", T1)),
            _group(32, ("True", T1)),
            _group(33, ("False", T2)),
        ],
        [_pod(20), GONE],
        "not so since 30",
    ),
    "a time that moves": (
        [_group(10), _group(21, ("True", T0)), _group(22, ("True", T1))],
        [_pod(20)],
        "the time moved, the status did not",
    ),
    "a time that goes back": (
        [_group(10), _group(21, ("True", T1)), _group(31, ("False", T0))],
        [_pod(20), GONE],
        "the time went back",
    ),
    "the other axis' time": (
        [_group(10), _group(11, ("True", T0), axis=POLICY), _group(12, ("True", T1), axis=POLICY)],
        [],
        "the time moved, the status did not",
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_history_has_no_problem(case: str) -> None:
    assert problems(*RIGHT[case]) == []


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_history_has_one_problem(case: str) -> None:
    groups, pods, message = WRONG[case]
    found = problems(groups, pods)
    assert len(found) == 1
    assert message in found[0]


def test_gaps_and_foreign_writes_are_no_problem() -> None:
    """Within a gap any status may have been true; an edit is not checked."""
    groups = [_group(10), _group(15, ("True", T0)), _group(25, ("False", T1)), _group(35, ("True", T2))]
    assert len(problems(groups, [])) == 2
    assert len(problems(groups, [], gaps=[(28, 30)])) == 1
    assert problems(groups, [], gaps=[(11, 20)]) == []
    assert len(problems(groups, [], edits={"35"})) == 1
