"""An idle scheduler on a real server does not wait for a backoff: it binds when room is freed."""

import pytest
from tests.support.scheduling.world import Sandbox, Scheduler
from tools.devcluster.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

# After so many failed attempts the backoff has its maximum of ten seconds.
_ATTEMPTS = 5


def _failures(scheduler: Scheduler) -> float:
    return scheduler.metric("schedule_attempts_total", result="unschedulable")


def _waits(scheduler: Scheduler) -> float:
    """Return the number of entries that were tried because their backoff had ended."""
    return scheduler.metric("queue_incoming_pods_total", event="BackoffComplete")


def _end_without_effect(sandbox: Sandbox, scheduler: Scheduler, pod: str) -> None:
    """End a pod, and wait for an attempt that finds too little room."""
    failed = _failures(scheduler)
    sandbox.end(pod)
    sandbox.until(lambda: _failures(scheduler) > failed, "the gang is tried again")


@pytest.mark.parametrize("sandbox", [NEWEST.minor], indirect=True)
def test_freed_room_is_taken_before_the_backoff_ends(sandbox: Sandbox) -> None:
    """A gang that failed several times is bound by an early attempt, not by the end of its backoff."""
    (scheduler,) = sandbox.world.schedulers
    sandbox.nodes(2)
    for index in range(2):
        sandbox.pod(f"high-{index}", 4, 9, node=f"n{index}")
    failed = _failures(scheduler)
    names = sandbox.gang("gang", 2)
    sandbox.until(lambda: _failures(scheduler) > failed, "the gang finds no place")
    for _ in range(_ATTEMPTS):
        _end_without_effect(sandbox, scheduler, "high-0")
        sandbox.pod("high-0", 4, 9, node="n0")
    _end_without_effect(sandbox, scheduler, "high-0")
    waited = _waits(scheduler)
    sandbox.end("high-1")
    assert set(sandbox.until_bound(names).values()) == {"n0", "n1"}
    assert _waits(scheduler) == waited
