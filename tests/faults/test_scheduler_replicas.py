"""Two replicas of the scheduler, of which one leads: the state in which the other takes over."""

import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.support.faults.scheduling import CHEAPEST, incoming_gang
from tests.support.proxy import ANY, Cut, Hold, Proxy
from tests.support.scheduling.world import Sandbox, Scheduler, World
from tests.support.waiting import until

pytestmark = pytest.mark.server


class Two(NamedTuple):
    """The leader with its proxy, the other replica, and the path of their lease."""

    leader: Scheduler
    way: Proxy
    heir: Scheduler
    lease: str


@pytest.fixture(scope="module")
def replicas(ours: World) -> Iterator[tuple[list[Scheduler], str]]:
    """Both replicas, and the path of their lease."""
    namespace = ours.server.new_namespace("lease-")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/podium"
    options = {"lease": (namespace, "podium")}
    with (
        ours.scheduling(way=0, **options) as one,
        ours.scheduling(way=1, **options) as two,
    ):
        yield [one, two], path


@pytest.fixture
def two(replicas: tuple[list[Scheduler], str], ours: World) -> Two:
    """Yield both replicas running, whatever the previous test did to them."""
    both, path = replicas
    for each in both:
        if each.ended:
            each.again()
    until(lambda: any(each.leads for each in both), f"one leads:{ours.log}")
    first = 0 if both[0].leads else 1
    return Two(both[first], ours.proxies[first], both[1 - first], path)


def gone(scheduler: Scheduler) -> int:
    """Wait until a replica has ended; return its exit code."""
    until(lambda: scheduler.ended, f"it ends:{scheduler.log}")
    code = scheduler.process.process.returncode
    assert isinstance(code, int)
    return code


def test_the_leader_is_killed_in_mid_preemption(sandbox: Sandbox, two: Two) -> None:
    """The next leader continues from the stored marks: the same victims, and no others."""
    with two.way.fault(sandbox.deletes, Hold(lost=True), skip=2) as held:
        names = incoming_gang(sandbox)
        sandbox.until(lambda: held.hits >= 1, "deletes are under way")
        two.leader.kill()
    sandbox.until_bound(names)
    assert sorted(sandbox.evicted()) == CHEAPEST
    assert two.heir.leads


def test_the_leader_is_asked_to_end_in_mid_preemption(sandbox: Sandbox, two: Two) -> None:
    """The leader releases the lease, so the other need not wait."""
    with two.way.fault(sandbox.deletes, Hold(), times=1) as held:
        names = incoming_gang(sandbox)
        sandbox.until(lambda: held.hits == 1, "a delete is under way")
        two.leader.process.process.send_signal(signal.SIGTERM)
        assert gone(two.leader) == 0
    sandbox.until_bound(names)
    assert sorted({*sandbox.evicted()}) == CHEAPEST


@pytest.mark.parametrize(
    ("what", "why"),
    [("stolen", "taken by thief"), ("emptied", "emptied"), ("deleted", "deleted")],
)
def test_the_lease_is_taken_from_the_leader(what: str, why: str, sandbox: Sandbox, two: Two) -> None:
    """The leader exits with an error and logs no release; the new holder never renews.

    The other continues after the leader has certainly ended.
    """
    began = len(two.leader.process.events)
    with two.way.fault(sandbox.deletes, Hold(lost=True)) as held:
        names = incoming_gang(sandbox)
        sandbox.until(lambda: held.hits >= 1, "deletes are under way")
        if what == "deleted":
            sandbox.ask("DELETE", two.lease)
        else:
            holder = "thief" if what == "stolen" else ""
            sandbox.ask("PATCH", two.lease, {"spec": {"holderIdentity": holder}})
        assert gone(two.leader) == 1
    events = two.leader.process.events[began:]
    assert [each["error"] for each in events if each["event"] == "lease lost"] == [why]
    assert "lease released" not in {each["event"] for each in events}
    sandbox.until_bound(names)
    assert two.heir.leads
    assert sorted({*sandbox.evicted()}) == CHEAPEST


def test_a_leader_that_was_paused_past_its_lease(sandbox: Sandbox, two: Two) -> None:
    """A paused leader wakes up after another has taken over, and sends none of its pending writes."""
    with two.way.fault(sandbox.deletes, Hold(lost=True), skip=1) as held:
        names = incoming_gang(sandbox)
        sandbox.until(lambda: held.hits >= 1, "deletes are under way")
        os.kill(two.leader.process.pid, signal.SIGSTOP)
    sandbox.until_bound(names)
    pods = sandbox.pods_where()
    before = len(two.way.writes(pods))
    sandbox.pod("more", 3, 7)
    sandbox.until_bound(["more"])
    os.kill(two.leader.process.pid, signal.SIGCONT)
    assert gone(two.leader) == 1
    # At most the writes that the pause interrupted between the check of the lease and the network, fenced by
    # UIDs.
    assert {call.code for call in two.way.writes(pods)[before:]} <= {404, 409, 422}
    assert sorted(sandbox.evicted())[:6] == CHEAPEST
    assert len(sandbox.evicted()) == 9


def test_a_leader_that_is_cut_off(sandbox: Sandbox, two: Two) -> None:
    """A leader that cannot renew stops before the other starts."""
    with two.way.fault(ANY, Cut(answered=False)):
        two.way.drop(ANY)
        names = incoming_gang(sandbox)
        assert gone(two.leader) == 1
        sandbox.until_bound(names)
    assert sorted(sandbox.evicted()) == CHEAPEST
