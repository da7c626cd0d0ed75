"""The scheduler is killed at every step of a preemption, and a new process continues from the stored state.

A gang of two preempts three pods on each of two nodes; no other plan is as cheap. Whether the write in flight
arrives or not, exactly those six pods are evicted, once, and the gang is bound.
"""

import pytest
from tests.support.faults.scheduling import CHEAPEST, MEMBERS, incoming_gang
from tests.support.proxy import Hold, Where
from tests.support.scheduling.ledger import is_marked
from tests.support.scheduling.world import Scheduler, Yard

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
def test_killed(step: str, arrives: bool, yard: Yard, scheduler: Scheduler) -> None:
    """The process is killed at this write."""
    kind, skip = STEPS[step]
    where: Where = getattr(yard, kind)
    with yard.world.proxy.fault(where, Hold(lost=not arrives), times=1, skip=skip) as held:
        names = incoming_gang(yard)
        yard.until(lambda: held.hits == 1, f"{step} is under way")
        scheduler.kill()
    scheduler.again()
    yard.until_bound(names)
    assert sorted(yard.evicted()) == CHEAPEST
    assert sorted({*yard.touched()}) == CHEAPEST


@pytest.mark.parametrize("arrives", [True, False], ids=["and it arrives", "and it is lost"])
@pytest.mark.parametrize("skip", range(3))
def test_killed_at_a_delete_for_a_lone_pod(
    skip: int, arrives: bool, yard: Yard, scheduler: Scheduler
) -> None:
    """Without a record and with two equal nodes, still only the three pods of one node are evicted."""
    with yard.world.proxy.fault(yard.deletes, Hold(lost=not arrives), times=1, skip=skip) as held:
        yard.pod("lone", 3, 5)
        yard.until(lambda: held.hits == 1, "the delete is under way")
        scheduler.kill()
    scheduler.again()
    yard.until_bound(["lone"])
    evicted = sorted({*yard.evicted()})
    assert evicted in (CHEAPEST[:3], CHEAPEST[3:])


@pytest.mark.parametrize("arrives", [True, False], ids=["and it arrives", "and it is lost"])
@pytest.mark.parametrize("step", ["the mark of the group", "the first delete", "the last delete"])
def test_killed_while_a_group_is_evicted(step: str, arrives: bool, yard: Yard, scheduler: Scheduler) -> None:
    """The victim's condition is the record: the other victims are evicted, and no other pod."""
    yard.node("g0")
    yard.node("g1")
    old = yard.running_gang("old", ["g0", "g1"], 4, 1, whole=True)
    mark = Where(rf"/namespaces/{yard.name}/podgroups/old/status$", method="PATCH", body="DisruptionTarget")
    where = mark if "mark" in step else yard.deletes
    with yard.world.proxy.fault(
        where, Hold(lost=not arrives), times=1, skip=int(step == "the last delete")
    ) as held:
        names = yard.gang("gang", 2, 4, 5)
        yard.until(lambda: held.hits == 1, f"{step} is under way")
        scheduler.kill()
    scheduler.again()
    yard.until_bound(names)
    assert sorted({*yard.evicted()}) == old
    assert not yard.calls(body="DisruptionTarget"), "no pod is marked by itself"


def test_killed_again_and_again(yard: Yard, scheduler: Scheduler) -> None:
    """With at most one delete a process, every process makes some progress."""
    names: list[str] = []
    for _ in range(3):
        # The fault is set before the process starts, because it deletes at once.
        with yard.world.proxy.fault(yard.deletes, Hold(lost=True), skip=1) as held:
            if names:
                scheduler.again()
            names = names or incoming_gang(yard)
            yard.until(lambda: held.hits >= 1, "a delete is under way")
            scheduler.kill()
    scheduler.again()
    yard.until_bound(names)
    assert sorted({*yard.evicted()}) == CHEAPEST


def test_the_preemptor_is_gone_when_the_next_process_starts(yard: Yard, scheduler: Scheduler) -> None:
    """Marked victims that were not deleted stay, and are unmarked."""
    with yard.world.proxy.fault(yard.deletes, Hold(lost=True)) as held:
        names = incoming_gang(yard)
        yard.until(lambda: held.hits >= 1, "the deletes are under way")
        scheduler.kill()
    for name in names:
        yard.end(name)
    scheduler.again()
    yard.witness()
    yard.until(lambda: not any(map(is_marked, yard.pods().values())), "no pod is marked as a victim")
    assert yard.evicted() == []
