"""The scheduler is killed at every step of a preemption, and a new process continues from the stored state.

A gang of two preempts three pods on each of two nodes; no other plan is as cheap. Whether the write in flight
arrives or not, exactly those six pods are evicted, once, and the gang is bound.
"""

import pytest
from tests.support.faults.scheduling import CHEAPEST, MEMBERS, incoming_gang
from tests.support.proxy import Hold, Where
from tests.support.scheduling.ledger import is_marked
from tests.support.scheduling.world import Sandbox, Scheduler

pytestmark = pytest.mark.server

# The number of the write in flight, by kind.
STEPS: dict[str, tuple[str, int]] = {
    "the first mark": ("marks", 0),
    "the last mark": ("marks", len(CHEAPEST) - 1),
    "the first delete": ("deletes", 0),
    "the last but one delete": ("deletes", len(CHEAPEST) - 2),
    "the last delete": ("deletes", len(CHEAPEST) - 1),
    "the first bind": ("binds", 0),
    "the last bind": ("binds", MEMBERS - 1),
}


@pytest.mark.parametrize("arrives", [True, False], ids=["and it arrives", "and it is lost"])
@pytest.mark.parametrize("step", STEPS)
def test_killed(step: str, arrives: bool, sandbox: Sandbox, scheduler: Scheduler) -> None:
    """The process is killed at this write."""
    kind, skip = STEPS[step]
    where: Where = getattr(sandbox, kind)
    with sandbox.world.proxy.fault(where, Hold(lost=not arrives), times=1, skip=skip) as held:
        names = incoming_gang(sandbox)
        sandbox.until(lambda: held.hits == 1, f"{step} is under way")
        scheduler.kill()
    scheduler.again()
    sandbox.until_bound(names)
    assert sorted(sandbox.evicted()) == CHEAPEST
    assert sorted({*sandbox.touched()}) == CHEAPEST


@pytest.mark.parametrize("arrives", [True, False], ids=["and it arrives", "and it is lost"])
@pytest.mark.parametrize("skip", range(3))
def test_killed_at_a_delete_for_a_lone_pod(
    skip: int, arrives: bool, sandbox: Sandbox, scheduler: Scheduler
) -> None:
    """Without a record and with two equal nodes, still only the three pods of one node are evicted."""
    with sandbox.world.proxy.fault(sandbox.deletes, Hold(lost=not arrives), times=1, skip=skip) as held:
        sandbox.pod("lone", 3, 5)
        sandbox.until(lambda: held.hits == 1, "the delete is under way")
        scheduler.kill()
    scheduler.again()
    sandbox.until_bound(["lone"])
    evicted = sorted({*sandbox.evicted()})
    assert evicted in (CHEAPEST[:3], CHEAPEST[3:])


@pytest.mark.parametrize("arrives", [True, False], ids=["and it arrives", "and it is lost"])
@pytest.mark.parametrize("step", ["the mark of the group", "the first delete", "the last delete"])
def test_killed_while_a_group_is_evicted(
    step: str, arrives: bool, sandbox: Sandbox, scheduler: Scheduler
) -> None:
    """The victim's condition is the record: the other victims are evicted, and no other pod."""
    sandbox.node("g0")
    sandbox.node("g1")
    old = sandbox.running_gang("old", ["g0", "g1"], 4, 1, whole=True)
    mark = Where(
        rf"/namespaces/{sandbox.name}/podgroups/old/status$", method="PATCH", body="DisruptionTarget"
    )
    where = mark if "mark" in step else sandbox.deletes
    with sandbox.world.proxy.fault(
        where, Hold(lost=not arrives), times=1, skip=int(step == "the last delete")
    ) as held:
        names = sandbox.gang("gang", 2, 4, 5)
        sandbox.until(lambda: held.hits == 1, f"{step} is under way")
        scheduler.kill()
    scheduler.again()
    sandbox.until_bound(names)
    assert sorted({*sandbox.evicted()}) == old
    assert not sandbox.calls(body="DisruptionTarget"), "no pod is marked by itself"


def test_killed_again_and_again(sandbox: Sandbox, scheduler: Scheduler) -> None:
    """With at most one delete a process, every process makes some progress."""
    names: list[str] = []
    for _ in range(3):
        # The fault is set before the process starts, because it deletes at once.
        with sandbox.world.proxy.fault(sandbox.deletes, Hold(lost=True), skip=1) as held:
            if names:
                scheduler.again()
            names = names or incoming_gang(sandbox)
            sandbox.until(lambda: held.hits >= 1, "a delete is under way")
            scheduler.kill()
    scheduler.again()
    sandbox.until_bound(names)
    assert sorted({*sandbox.evicted()}) == CHEAPEST


def test_the_preemptor_is_gone_when_the_next_process_starts(sandbox: Sandbox, scheduler: Scheduler) -> None:
    """Marked victims that were not deleted stay, and are unmarked."""
    with sandbox.world.proxy.fault(sandbox.deletes, Hold(lost=True)) as held:
        names = incoming_gang(sandbox)
        sandbox.until(lambda: held.hits >= 1, "the deletes are under way")
        scheduler.kill()
    for name in names:
        sandbox.end(name)
    scheduler.again()
    sandbox.wait_for_decisions()
    sandbox.until(lambda: not any(map(is_marked, sandbox.pods().values())), "no pod is marked as a victim")
    assert sandbox.evicted() == []
