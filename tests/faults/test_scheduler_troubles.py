"""Common faults between the scheduler and the API server during preemptions.

Every preemptor needs the room of three of the four pods of a node, and there are more nodes than preemptors.
So at most three victims for each may be evicted, however often a plan fails, and all preemptors are bound in
the end.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.controlplane_faults import compact, without_api_server
from tests.support.faults.scheduling import full_sandbox
from tests.support.proxy import Cut, Delay, Fault, Half, Refuse, Where
from tests.support.scheduling.ledger import is_marked
from tests.support.scheduling.world import Sandbox, Scheduler, World

pytestmark = pytest.mark.server

NODES, LONE, GANG = 8, 3, 3
# The nodes of each of two racks, and the members of the gang in one of them. Other pods use no rack.
RACK = 2
# The number of attempts before the scheduler gives up.
ATTEMPTS = 5


@pytest.fixture
def sandbox(ours: World) -> Iterator[Sandbox]:
    """Make nodes, some of them in racks, that are full of pods of low priority."""
    with full_sandbox(ours, [[1] * 4] * (2 * RACK + NODES), RACK, racks=2) as made:
        yield made


def preempt(sandbox: Sandbox) -> list[str]:
    """Make pods and two gangs, one of them in a rack, that need a node each."""
    term = {"matchExpressions": [{"key": sandbox.rack_key, "operator": "DoesNotExist"}]}
    outside = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": outside}}
    for index in range(LONE):
        sandbox.pod(f"lone-{index}", 3, 7, **spec)
    sandbox.group("gang", 5, GANG)
    sandbox.group("rack", 5, RACK, **sandbox.in_rack)
    gangs = [*sandbox.members("gang", GANG, 3, 5, **spec), *sandbox.members("rack", RACK, 3, 5)]
    return [*(f"lone-{index}" for index in range(LONE)), *gangs]


def all_is_well(sandbox: Sandbox, names: list[str], scheduler: Scheduler) -> None:
    """Wait until all are bound; then check the victims."""
    nodes = sandbox.until_bound(names)
    assert len({*nodes.values()}) == len(names)
    assert len({int(node[1:]) // RACK for name, node in nodes.items() if name.startswith("rack")}) == 1
    assert len({*sandbox.evicted_uids()}) == 3 * len(names), f"{sorted(sandbox.evicted())}{sandbox.world.log}"
    assert not scheduler.ended


# The requests, their fault, and the number of hits.
TROUBLES: dict[str, tuple[str, Fault, int]] = {
    "a busy server for deletes": ("deletes", Refuse(429, "TooManyRequests", retry_after=1), 5),
    "a busy server for binds": ("binds", Refuse(429, "TooManyRequests", retry_after=1), 3),
    "a server with a bug for deletes": ("deletes", Refuse(500, "InternalError"), 8),
    "a server with a bug for marks": ("marks", Refuse(500, "InternalError"), 8),
    "a server with a bug for binds": ("binds", Refuse(500, "InternalError"), 4),
    "conflicts of marks": ("marks", Refuse(409, "Conflict"), 4),
    "conflicts of binds": ("binds", Refuse(409, "Conflict"), 3),
    "marks whose answers are lost": ("marks", Cut(answered=True), 8),
    "deletes that do not arrive": ("deletes", Cut(answered=False), 8),
    "binds that do not arrive": ("binds", Cut(answered=False), 4),
    "binds whose answers are lost": ("binds", Cut(answered=True), 4),
    "binds whose answers are cut": ("binds", Half(), 4),
    "deletes that are late": ("deletes", Delay(0.5), 10),
    "binds that are late": ("binds", Delay(0.5), 4),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_with_writes(trouble: str, sandbox: Sandbox, scheduler: Scheduler) -> None:
    """The fault recurs while all preemptors preempt."""
    kind, fault, times = TROUBLES[trouble]
    where: Where = getattr(sandbox, kind)
    with sandbox.world.proxy.fault(where, fault, times=times) as rule:
        names = preempt(sandbox)
        all_is_well(sandbox, names, scheduler)
    assert rule.hits > 0


def test_nominations_that_do_not_arrive(sandbox: Sandbox, scheduler: Scheduler) -> None:
    """Conditions are written during a long preemption, so deletes take a second here."""
    late = sandbox.world.proxy.fault(sandbox.deletes, Delay(1.0), times=12)
    with late, sandbox.world.proxy.fault(sandbox.nominations, Cut(answered=False), times=5) as rule:
        names = preempt(sandbox)
        all_is_well(sandbox, names, scheduler)
    assert rule.hits > 0


WATCHES: dict[str, tuple[str, Fault]] = {
    "pods' watches that break": ("/pods$", Half()),
    "nodes' watches that break": ("/nodes$", Half()),
    "pods' watches that the server forgot": ("/pods$", Refuse(410, "Expired", in_watch=True)),
    "groups' watches that the server forgot": ("/podgroups$", Refuse(410, "Expired", in_watch=True)),
}


@pytest.mark.parametrize("trouble", WATCHES)
def test_trouble_with_watches(trouble: str, sandbox: Sandbox, scheduler: Scheduler) -> None:
    """The writes are cut in flight, and fail three times more."""
    path, fault = WATCHES[trouble]
    where = Where(path, watch=True)
    with sandbox.world.proxy.fault(where, fault, times=3):
        names = preempt(sandbox)
        sandbox.world.proxy.drop(where)
        all_is_well(sandbox, names, scheduler)


def test_a_delete_with_a_lost_answer_is_done_once(sandbox: Sandbox, scheduler: Scheduler) -> None:
    """The delete is repeated for the same pod, which is gone or terminating; no other pod is deleted."""
    with sandbox.world.proxy.fault(sandbox.deletes, Cut(answered=True), times=6) as rule:
        sandbox.pod("high", 3, 5)
        sandbox.until_bound(["high"])
    assert rule.hits >= 3
    assert len({*sandbox.evicted_uids()}) == 3


@pytest.mark.parametrize(
    "fault",
    [Cut(answered=False), Refuse(503, "ServiceUnavailable"), Refuse(500, "InternalError")],
    ids=["connection refused", "proxy without a server", "a server with a bug"],
)
def test_rejected_deletes_cost_no_other_pod(fault: Fault, ours: World, scheduler: Scheduler) -> None:
    """Two of three deletes fail at every attempt; meanwhile other victims would be cheaper."""
    with full_sandbox(ours, [[3] * 4]) as sandbox:
        with sandbox.world.proxy.fault(sandbox.deletes, fault, times=2 * ATTEMPTS) as rule:
            sandbox.pod("high", 3, 7)
            sandbox.until(lambda: rule.hits >= 1, "a delete is under way")
            sandbox.node("cheap", 4)
            for index in range(4):
                sandbox.pod(f"cheap-{index}", "900m", 1, node="cheap")
            sandbox.until(lambda: rule.hits == 2 * ATTEMPTS, "none is left")
        assert sandbox.until_bound(["high"])["high"] == "n0"
        assert len({*sandbox.evicted_uids()}) == 3
        assert all(name.startswith("low-0-") for name in sandbox.evicted())
    assert not scheduler.ended


def test_victims_that_stay_are_unmarked_when_the_server_is_back(
    sandbox: Sandbox, scheduler: Scheduler
) -> None:
    """Victims for a deleted group are unmarked, although the first such write failed."""
    spares = sandbox.pods_where(method="PATCH", end="/status", body="The preemption was given up")
    with sandbox.world.proxy.fault(spares, Refuse(500, "InternalError")) as away:
        with sandbox.world.proxy.fault(sandbox.deletes, Refuse(403, "Forbidden")):
            (high,) = sandbox.gang("high", 1, 3, 7)
            sandbox.until(lambda: away.hits >= ATTEMPTS, "victims were to be told that they stay")
            sandbox.end(high)
            sandbox.wait_for_decisions()
        assert any(map(is_marked, sandbox.pods().values()))
    sandbox.until(lambda: not any(map(is_marked, sandbox.pods().values())), "victims are marked")
    assert sandbox.evicted() == []
    assert not scheduler.ended


@pytest.mark.parametrize("forgets", [False, True], ids=["restarted", "restarted and compacted"])
def test_the_api_server_is_restarted(forgets: bool, sandbox: Sandbox, scheduler: Scheduler) -> None:
    """The API server restarts during a preemption, and etcd has compacted the known versions (a real 410)."""
    names = preempt(sandbox)
    sandbox.until(lambda: len(sandbox.evicted()) >= 3, "it has begun")
    with without_api_server(sandbox.server):
        if forgets:
            compact(sandbox.server)
    all_is_well(sandbox, names, scheduler)
