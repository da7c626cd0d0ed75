"""The scheduler is killed at every step of a preemption, and a new process goes on from what it finds.

A gang of two preempts three pods on each of two nodes; no other plan is as cheap. Whatever the moment, and
whether the write that was under way arrives or not, exactly those six go, once, and the gang is bound.
"""

import pytest
from tests.faults.scheduling import CHEAPEST, MEMBERS, incoming_gang
from tests.fixtures.proxy import Hold, Where
from tests.scheduler.ledger import told
from tests.scheduler.world import Scheduler, Yard

pytestmark = pytest.mark.server

# Which of the writes of each kind is under way.
STEPS: dict[str, tuple[str, int]] = {
    "the first nomination": ("nominations", 0),
    "the last nomination": ("nominations", MEMBERS - 1),
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
    """At this write."""
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


def test_killed_again_and_again(yard: Yard, scheduler: Scheduler) -> None:
    """With one delete done at most: every process gets a little further."""
    names: list[str] = []
    for _ in range(3):
        with yard.world.proxy.fault(yard.deletes, Hold(lost=True), skip=1) as held:
            names = names or incoming_gang(yard)
            yard.until(lambda: held.hits >= 1, "a delete is under way")
            scheduler.kill()
        scheduler.again()
    yard.until_bound(names)
    assert sorted({*yard.evicted()}) == CHEAPEST


def test_the_preemptor_is_gone_when_the_next_process_starts(yard: Yard, scheduler: Scheduler) -> None:
    """Those that were told and not deleted stay, and are told so."""
    with yard.world.proxy.fault(yard.deletes, Hold(lost=True)) as held:
        names = incoming_gang(yard)
        yard.until(lambda: held.hits >= 1, "the deletes are under way")
        scheduler.kill()
    for name in names:
        yard.end(name)
    scheduler.again()
    yard.witness()
    yard.until(lambda: not any(map(told, yard.pods().values())), "nobody is told to go any more")
    assert yard.evicted() == []
