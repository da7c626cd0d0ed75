"""Two replicas of the reconciler under a storm of changes and the faults of an installation.

After each fault, every condition is true within a lease and five seconds of the last change. No write was
wrong at its time: no false status, no outdated status, and no write that changed nothing.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from tests.support.controllers.running import PRIORITY, Place
from tests.support.controlplane_faults import compact, without_api_server
from tests.support.faults.contenders import (
    FEW,
    LEASES,
    OTHER,
    SAME,
    Contender,
    Pair,
    Storm,
    pair,
    version,
)
from tests.support.proxy import ANY, Cut, Hold, Where
from tests.support.waiting import until

pytestmark = pytest.mark.server

GROUPS = Where("/podgroups/")


@pytest.fixture(scope="module")
def replicas(battered: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield two replicas; a replica that ended in a test is started again for the next."""
    with pair(battered, tmp_path_factory.mktemp("replicas")) as made:
        yield made


def gone(contender: Contender) -> int:
    """Wait until a replica has ended; return its exit code."""
    process = contender.process.process
    until(lambda: process.poll() is not None, f"it ends:\n{contender.process.log}")
    code = process.returncode
    assert isinstance(code, int)
    return code


def test_the_leader_is_killed(two: Pair, storm: Storm) -> None:
    """The next leader waits for the lease and starts from the stored state; the killed one writes no more."""
    dead = two.leader
    heir = two.other(dead)
    assert two.done(heir) == []
    dead.process.process.kill()
    gone(dead)
    until(lambda: heir.leads, f"the other leads:{two.log}")
    storm.more(FEW)
    storm.stop()
    two.converge()
    assert version(two.done(dead)[-1]) < version(two.done(heir)[0])


def test_the_leader_is_asked_to_end(two: Pair, storm: Storm) -> None:
    """The leader releases the lease when its workers have ended, so the other replica need not wait."""
    first = two.leader
    heir = two.other(first)
    first.process.process.send_signal(signal.SIGTERM)
    assert gone(first) == 0
    assert '"lease released"' in first.process.log
    until(lambda: heir.leads, f"the other leads:{two.log}")
    storm.more(FEW)
    storm.stop()
    two.converge()
    assert version(two.done(first)[-1]) < version(two.done(heir)[0])


def test_the_lease_is_stolen(two: Pair, storm: Storm) -> None:
    """The former holder exits with an error.

    The new holder never renews, so one of our replicas takes over.
    """
    first = two.leader
    two.space.ask("PATCH", two.lease, {"spec": {"holderIdentity": "thief"}})
    assert gone(first) == 1
    assert "taken by thief" in first.process.log
    storm.more(FEW)
    storm.stop()
    two.converge()
    assert two.leader in two.contenders


@pytest.mark.parametrize("what", ["deleted", "emptied"])
def test_the_lease_is_taken_from_the_leader_by_hand(what: str, two: Pair, storm: Storm) -> None:
    """After a manual deletion of the lease, the leader ends and logs it; the other waits until then."""
    first = two.leader
    heir = two.other(first)
    if what == "deleted":
        two.space.ask("DELETE", two.lease)
    else:
        two.space.ask("PATCH", two.lease, {"spec": {"holderIdentity": ""}})
    assert gone(first) == 1
    assert "lease released" not in first.process.log
    until(lambda: "the lease was not released" in heir.process.log, f"the other waits:{two.log}")
    storm.more(FEW)
    storm.stop()
    two.converge()


def test_a_leader_that_was_paused_overwrites_nothing(two: Pair, storm: Storm) -> None:
    """A paused leader wakes up after a takeover and ends; its pending writes are not accepted."""
    first = two.leader
    heir = two.other(first)
    os.kill(first.process.pid, signal.SIGSTOP)
    until(lambda: heir.leads, f"the other leads:{two.log}")
    storm.more(FEW)
    for name in storm.groups:
        two.space.ask("PATCH", two.space.groups_path(name), {"metadata": {"labels": {"moved": "on"}}})
    before = len(first.proxy.writes(GROUPS))
    os.kill(first.process.pid, signal.SIGCONT)
    assert gone(first) == 1
    # At most the writes that the pause interrupted between the check of the lease and the network.
    assert {call.code for call in first.proxy.writes(GROUPS)[before:]} <= {409}
    storm.stop()
    two.converge()
    assert version(two.done(first)[-1]) < version(two.done(heir)[0])


def test_a_write_that_lands_after_the_lease_overwrites_nothing(two: Pair) -> None:
    """A delayed write of a killed leader arrives after the next leader's write and is refused."""
    space, first = two.space, two.leader
    space.group("gang", SAME)
    with first.proxy.fault(two.status, Hold()) as held:
        space.pod("other", "gang", OTHER)
        until(lambda: held.hits == 1, "the leader wants to write")
        first.process.process.kill()
        gone(first)
        space.expect("gang", "True", "PriorityMismatch")
        space.end("other")
        space.expect("gang", "False", "NoMembers")
        stored = space.ask("GET", space.groups_path("gang"))
    until(
        lambda: [call.code for call in first.proxy.writes(two.status)] == [409],
        "the write lands, and is refused",
    )
    assert space.ask("GET", space.groups_path("gang")) == stored


def test_a_write_about_a_group_that_was_replaced(two: Pair) -> None:
    """A write names the UID of its group, so it fails for a new group of the same name, without a retry."""
    space, leader = two.space, two.leader
    space.group("gang", SAME)
    with leader.proxy.fault(two.status, Hold()) as held:
        space.pod("other", "gang", OTHER)
        until(lambda: held.hits == 1, "the leader wants to write")
        space.remove_group("gang")
        space.group("gang", OTHER)
    until(lambda: len(leader.proxy.writes(two.status)) == 1, "the write lands")
    assert [call.code for call in leader.proxy.writes(two.status)] in ([409], [422])
    space.group("witness", SAME)
    space.pod("differs", "witness", OTHER)
    space.expect("witness", "True", "PriorityMismatch")
    assert PRIORITY not in space.conditions("gang")
    assert [call.path.split("/")[-2] for call in leader.proxy.writes(two.status)] == ["gang", "witness"]
    two.converge()


def test_a_leader_that_is_cut_off(two: Pair, storm: Storm) -> None:
    """A leader that cannot renew stops before another replica may start."""
    first = two.leader
    heir = two.other(first)
    with first.proxy.fault(ANY, Cut(answered=False)):
        first.proxy.drop(ANY)
        assert gone(first) == 1
        until(lambda: heir.leads, f"the other leads:{two.log}")
        storm.more(FEW)
        storm.stop()
    two.converge()
    assert version(two.done(first)[-1]) < version(two.done(heir)[0])


@pytest.mark.parametrize("forgets", [False, True], ids=["restarted", "restarted and compacted"])
def test_the_api_server_is_restarted(forgets: bool, battered: Place, two: Pair, storm: Storm) -> None:
    """The API server restarts, and etcd has compacted the known versions (a real 410)."""
    with without_api_server(battered.server):
        if forgets:
            compact(battered.server)
    storm.more(FEW)
    storm.stop()
    two.converge()


def test_when_nothing_changes_nothing_is_written_but_the_lease(two: Pair, storm: Storm) -> None:
    """No replica writes without a change."""
    storm.stop()
    two.converge()
    leader, other = two.leader, two.other(two.leader)
    others = len(other.proxy.writes())

    def written(renewals: int) -> int:
        """Count the other writes during this many renewals."""
        wanted = len(leader.proxy.writes(LEASES)) + renewals
        before = len(leader.proxy.writes())
        until(lambda: len(leader.proxy.writes(LEASES)) >= wanted, f"renewals{two.log}")
        return len(leader.proxy.writes()) - before - renewals

    # A message follows its pods after the group is quiet, at most every 10 s.
    until(lambda: written(renewals=13) == 0, "the messages settle")
    two.space.ask("PATCH", two.space.groups_path("gang-0"), {"metadata": {"labels": {"a": "b"}}})
    assert written(renewals=5) == 0
    assert len(other.proxy.writes()) == others
