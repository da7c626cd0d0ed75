"""Common faults between a replica and the API server: the leader stays and recovers.

One pair of replicas runs through all of them, with a storm of changes each time. Within a lease and five
seconds of the last change every condition is right. No write was wrong at its time.
"""

from collections.abc import Iterator

import pytest
from tests.support.controllers.running import Place
from tests.support.faults.contenders import FEW, LEASES, STEADY, Pair, Storm, pair
from tests.support.proxy import Cut, Delay, Fault, Half, Refuse, Where
from tests.support.waiting import until

pytestmark = pytest.mark.server

PODS = Where("/pods$", watch=True)
GROUPS = Where("/podgroups$", watch=True)
STATUS = Where(r"/podgroups/[^/]+/status$")


@pytest.fixture(scope="module")
def replicas(battered: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield two replicas of which one leads."""
    with pair(battered, tmp_path_factory.mktemp("pair"), STEADY) as made:
        yield made


# The requests, their fault, and the number of hits.
TROUBLES: dict[str, tuple[Where, Fault, int]] = {
    "conflicts": (STATUS, Refuse(409, "Conflict"), 10),
    "a busy server": (STATUS, Refuse(429, "TooManyRequests", retry_after=1), 10),
    "a server with a bug": (STATUS, Refuse(500, "InternalError"), 10),
    "writes that do not arrive": (STATUS, Cut(answered=False), 10),
    "answers that are lost": (STATUS, Cut(answered=True), 10),
    "answers that are cut": (STATUS, Half(), 10),
    "writes that are late": (STATUS, Delay(0.5), 10),
    "pods' watches that break": (PODS, Half(), 3),
    "groups' watches that break": (GROUPS, Half(), 3),
    "a busy server for leases": (LEASES, Refuse(429, "TooManyRequests", retry_after=1), 2),
    "a lease's answers that are lost": (LEASES._replace(method="PUT"), Cut(answered=True), 2),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_on_the_way(trouble: str, two: Pair, storm: Storm) -> None:
    """The fault recurs during the storm; the leader keeps its lease and recovers."""
    where, fault, times = TROUBLES[trouble]
    leader = two.leader
    with leader.proxy.fault(where, fault, times=times) as rule:
        until(lambda: rule.hits == times, f"{times} requests struck{two.log}")
        storm.more(FEW)
        storm.stop()
        two.converge()
    assert leader.leads
    assert two.done(two.other(leader)) == []


@pytest.mark.parametrize("where", [PODS, GROUPS], ids=["pods", "groups"])
def test_a_moment_that_the_server_forgot(where: Where, two: Pair, storm: Storm) -> None:
    """Every watch ends in 410; the lists that follow miss nothing."""
    leader = two.leader
    with leader.proxy.fault(where, Refuse(410, "Expired", in_watch=True), times=3) as rule:
        assert leader.proxy.drop(where) >= 1
        until(lambda: rule.hits == 3, f"watches struck{two.log}")
        storm.more(FEW)
        storm.stop()
        two.converge()
    assert leader.leads
