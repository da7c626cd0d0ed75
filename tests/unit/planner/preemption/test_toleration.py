"""Preemption toleration, step by step as in the plugin."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.filters.builders import pod
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import priority_class

from podium.api.core import PriorityClass
from podium.api.schedulable import Schedulable
from podium.planner import can_tolerate_preemption
from podium.planner.preemption.protection import (
    FOREVER,
    Exemption,
    exemption,
    scheduled_at,
    scheduled_time_problem,
)

# 2026-01-01T00:00:00Z
SCHEDULED = 1_767_225_600
VALUE = 8000
# Above every value that a user's class may have.
USERS = 1_000_000_001
UNKNOWN = Exemption(USERS, -1)


def gold(minimum: str | None = None, seconds: str | None = None) -> PriorityClass:
    """Make the class of the proposal's examples."""
    return priority_class("gold", VALUE, minimum=minimum, seconds=seconds)


def running(status: str | None = "True", time: str | None = "2026-01-01T00:00:00Z") -> Schedulable:
    """Make a pod with a condition PodScheduled, unless its status is None."""
    condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": time}
    return pod(node="n", status={"conditions": [condition] if status else []})


@pytest.mark.parametrize(
    ("found", "name", "granted"),
    [
        pytest.param(None, "", None, id="no class named"),
        pytest.param(gold(), "", None, id="no class named, whatever there is"),
        pytest.param(None, "gone", UNKNOWN, id="class does not exist"),
        pytest.param(None, "system-cluster-critical", Exemption(2_000_000_001, 0), id="system class"),
        pytest.param(gold(), "gold", Exemption(VALUE + 1, 0), id="no annotation: the defaults"),
        pytest.param(gold("10000"), "gold", Exemption(10_000, 0), id="minimum alone: 0 seconds"),
        pytest.param(gold(None, "600"), "gold", Exemption(VALUE + 1, 600), id="seconds alone: value + 1"),
        pytest.param(gold("10000", "-1"), "gold", Exemption(10_000, -1), id="both"),
        pytest.param(gold("10000", "10m"), "gold", Exemption(10_000, -1), id="seconds that do not parse"),
        pytest.param(gold("1e4", "600"), "gold", Exemption(USERS, 600), id="minimum that does not parse"),
        pytest.param(gold("1e4", "10m"), "gold", UNKNOWN, id="neither parses: as without a class"),
        pytest.param(gold("2147483648", "600"), "gold", Exemption(USERS, 600), id="minimum beyond 32 bits"),
        pytest.param(
            gold("10000", "9223372036854775808"), "gold", Exemption(10_000, -1), id="seconds beyond 64 bits"
        ),
    ],
)
def test_the_toleration_that_a_class_grants(
    found: PriorityClass | None, name: str, granted: Exemption | None
) -> None:
    assert exemption(found, name) == granted


@pytest.mark.parametrize(
    ("found", "priority", "scheduled", "after", "expected"),
    [
        pytest.param(gold("10000", "-1"), 9_999, SCHEDULED, 10**9, True, id="negative seconds: for ever"),
        pytest.param(gold("10000", "-1"), 10_000, SCHEDULED, 0, False, id="at the minimum: not even at once"),
        pytest.param(gold("10000", "600"), 9_000, SCHEDULED, 599, True, id="within the time"),
        pytest.param(gold("10000", "600"), 9_000, SCHEDULED, 600, False, id="at its end, no more"),
        pytest.param(gold("10000", "600"), 9_000, None, 10**9, True, id="not scheduled: exempt"),
        pytest.param(gold("10000"), 9_000, None, 10**9, True, id="not scheduled: even with 0 seconds"),
        pytest.param(gold("10000"), 9_000, SCHEDULED, 0, False, id="0 seconds: no time at all"),
        pytest.param(gold("10000"), 9_000, SCHEDULED, -5, True, id="scheduled in the clock's future"),
        pytest.param(gold(None, "600"), VALUE + 1, SCHEDULED, 0, False, id="seconds alone never apply"),
        pytest.param(gold(None, "600"), VALUE, SCHEDULED, 0, True, id="but where the pod's integer is lower"),
        pytest.param(gold("10000", "9223372036854775807"), 9_000, SCHEDULED, 10**11, True, id="no overflow"),
        pytest.param(gold("x", "-1"), 10**9, SCHEDULED, 10**9, True, id="minimum that does not parse"),
        pytest.param(gold("x", "-1"), 10**9 + 1, SCHEDULED, 0, False, id="but not from a system class"),
        pytest.param(gold("10000", "x"), 9_999, SCHEDULED, 10**9, True, id="seconds that do not parse"),
    ],
)
def test_exempt_victims(
    found: PriorityClass, priority: int, scheduled: int | None, after: int, expected: bool
) -> None:
    """`after` is in seconds after the pod was scheduled."""
    status = running() if scheduled is not None else running(None)
    victim = msgspec.structs.replace(status, spec=pod(priorityClassName="gold").spec)
    now = datetime.fromtimestamp(SCHEDULED + after, UTC)
    assert can_tolerate_preemption(victim, pod(priority=priority), {"gold": found}, now) is expected
    granted = exemption(found, "gold")
    assert granted is None or granted.until(scheduled) <= FOREVER


def test_a_victim_without_a_class_tolerates_nothing() -> None:
    assert not can_tolerate_preemption(pod(), pod(priority=1), {}, NOW)


@pytest.mark.parametrize(
    ("victim", "expected", "named"),
    [
        pytest.param(running(), SCHEDULED, False, id="scheduled"),
        pytest.param(running(time="2026-01-01T01:00:00+01:00"), SCHEDULED, False, id="another zone"),
        pytest.param(running(time="2026-01-01T00:00:00.9Z"), SCHEDULED, False, id="whole seconds count"),
        pytest.param(running("False"), None, False, id="not True"),
        pytest.param(
            running("Unknown", "yesterday"), None, False, id="not True, so its time does not matter"
        ),
        pytest.param(running(None), None, False, id="no condition"),
        pytest.param(pod(status=None), None, False, id="no conditions at all"),
        pytest.param(running(time=None), -62_135_596_800, False, id="no time: the year 1, as in Go"),
        pytest.param(running(time="yesterday"), None, True, id="no time that can be read: rather exempt"),
        pytest.param(running(time="2026-01-01T00:00:00"), None, True, id="a time of no zone"),
    ],
)
def test_the_second_at_which_a_pod_was_scheduled(
    victim: Schedulable, expected: int | None, named: bool
) -> None:
    assert scheduled_at(victim) == expected
    found: Any = scheduled_time_problem(victim)
    assert (found is not None) is named
    if named:
        assert str(found.object) == "Pod team-a/pod"
        assert found.field == "status.conditions"


def test_a_pod_without_a_status_is_not_scheduled() -> None:
    victim = Schedulable()
    assert scheduled_at(victim) is None
    assert scheduled_time_problem(victim) is None
