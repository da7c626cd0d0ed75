"""The acquisition of the lease by one process, in simulated time."""

from functools import partial
from typing import Any

import pytest
from tests.support.lease.world import FINE, HUNG, OTHER, RELEASED, Outcome, World, empty, leading, methods


def test_where_no_lease_is_one_is_made() -> None:
    world = leading()
    with world:
        assert methods(world) == "GET POST"
        assert world.server.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-21T00:00:00.020000Z",
            "renewTime": "2026-11-21T00:00:00.020000Z",
            "leaseTransitions": 0,
        }
        assert (world["a"].elector.leader, world["a"].elector.transitions) == ("a", 0)
        assert not world["a"].elector.expired
        assert world["a"].logged[-1][1:] == ("leading", {"lease": "system/controller", "transitions": 0})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(None, id="no spec"),
        pytest.param({}, id="an empty spec"),
        pytest.param(RELEASED, id="given back"),
        pytest.param({"holderIdentity": None, "leaseTransitions": None}, id="nulls"),
    ],
)
def test_a_free_lease_is_taken_at_once_and_what_others_put_on_it_stays(spec: dict[str, Any] | None) -> None:
    with World() as world:
        world.server.put(spec, labels={"team": "x"}, annotations={"a": "b"})
        world["a"].start()
        world.run(0.1)
        assert world["a"].works()
        assert world.server.lease is not None
        assert world.server.lease["metadata"]["labels"] == {"team": "x"}
        assert world.server.lease["metadata"]["annotations"] == {"a": "b"}
        assert not world["a"].elector.expired
        assert world.server.spec["leaseTransitions"] == ((spec or {}).get("leaseTransitions") or 0) + 1


@pytest.mark.parametrize("skew", [0.0, 1e9, -1e9])
def test_a_held_lease_is_waited_for_its_whole_duration_whatever_its_times_say(skew: float) -> None:
    """Its renewTime is decades ago or ahead: only observed changes count."""
    with World() as world:
        world.server.put(OTHER)
        world["a"].skew = skew
        world["a"].start()
        world.run(15.0)
        assert methods(world).replace("GET", "").strip() == ""
        assert world["a"].elector.leader == "other"
        assert world["a"].events() == ["another leads"]
        world.run(0.2)
        assert world["a"].works()
        assert world.server.spec["leaseTransitions"] == 8
        assert world["a"].elector.expired


def test_while_the_holder_renews_it_is_waited_for() -> None:
    with World() as world:
        world.server.put(OTHER)
        for moment in range(10, 60, 10):
            world.at(moment, partial(world.server.edit, renewTime=f"t{moment}"))
        world["a"].start()
        world.run(64.9)
        assert not world["a"].led
        # The last renewal was seen at the next read, up to 2.2 s later, which takes 20 ms.
        world.run(2.6)
        assert world["a"].works()
        assert world["a"].events() == ["another leads", "leading"]


def test_one_that_is_given_back_while_it_is_waited_for_has_not_expired() -> None:
    with World() as world:
        world.server.put(OTHER)
        world.at(5.0, partial(world.server.put, RELEASED))
        world["a"].start()
        world.run(8.0)
        assert world["a"].works()
        assert not world["a"].elector.expired


@pytest.mark.parametrize("what", ["emptied", "deleted"])
def test_a_lease_taken_from_its_holder_counts_as_not_renewed(
    what: str,
) -> None:
    """The former holder learns of it with its next renewal, if it can reach the server."""
    with World() as world:
        world.server.put({**OTHER, "leaseDurationSeconds": 3600})
        world.at(5.0, partial(setattr, world.server, "lease", None) if what == "deleted" else empty(world))
        world["a"].start()
        world.run(20.0)
        assert not world["a"].led
        world.run(3.0)
        assert world["a"].works()
        assert world["a"].elector.expired
        assert world["a"].elector.made == (what == "deleted")
        assert world["a"].events() == ["another leads", "the lease was not released", "leading"]


def test_the_duration_of_the_record_is_waited_for() -> None:
    """The holder may be of a release with another default."""
    with World() as world:
        world.server.put({**OTHER, "leaseDurationSeconds": 40})
        world["a"].start()
        world.run(40.0)
        assert not world["a"].led
        world.run(0.2)
        assert world["a"].works()


def test_a_late_candidate_names_the_leader() -> None:
    """The lease is acquired by another between our read and our write: the write is refused."""
    with World() as world:
        world.server.put({})
        world.at(0.025, lambda: world.server.put(OTHER))
        world["a"].start()
        world.run(14.0)
        assert methods(world).startswith("GET PUT GET")
        assert world.server.holder == "other"
        assert (world["a"].elector.leader, world["a"].elector.transitions) == ("other", 7)
        assert world["a"].events() == ["another leads"]


def test_two_that_make_the_lease_at_once_are_one_leader() -> None:
    with World("ab") as world:
        world["a"].start()
        world["b"].start()
        world.run(60.0)
        assert sorted([world["a"].works(), world["b"].works()]) == [False, True]
        assert sorted(request.code for request in world.server.requests if request.method == "POST") == [
            201,
            409,
        ]


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Outcome(cut=True), id="the connection was lost"),
        pytest.param(HUNG, id="no answer"),
        pytest.param(Outcome(body=b"oops"), id="an answer that is none"),
        pytest.param(Outcome(there=7.0), id="it is stored long after the timeout"),
    ],
)
def test_an_acquisition_with_a_lost_answer_is_recognized(outcome: Outcome) -> None:
    """We need not wait for the end of our own lease."""
    with World(outcomes=[FINE, outcome]) as world:
        world["a"].start()
        world.run(10.0, until=world["a"].works)
        assert world["a"].works()
        assert world.server.spec["leaseTransitions"] == 0


def test_a_bid_that_lands_while_we_repeat_it_is_known_for_ours() -> None:
    """Both are based on the same version, so one of them is refused; either way it is our term."""
    with World(outcomes=[FINE, Outcome(there=5.1), FINE, Outcome(there=0.5)]) as world:
        world.server.put({})
        world["a"].start()
        world.run(6.0)
        assert world["a"].works()
        assert [request.code for request in world.server.requests if request.method == "PUT"] == [
            200,
            409,
            200,
        ]


def test_another_process_of_our_name_is_another() -> None:
    """A pod may be recreated under its name while the old one still runs on a lost node."""
    with World() as world:
        world.server.put({**OTHER, "holderIdentity": "a"})
        world["a"].start()
        world.run(15.0)
        assert not world["a"].led
        world.run(0.2)
        assert world["a"].works()


def test_a_late_answer_does_not_make_a_leader() -> None:
    """The lease may belong to another by now; here it is still ours, and is renewed before any work."""
    with World() as world:
        world["a"].start()
        world.run(until=lambda: world.server.holder == "a")
        world["a"].paused_until = 60.0
        world.run(59.9)
        assert not world["a"].led
        world.run(until=lambda: bool(world["a"].led))
        renewal = world.server.requests[-1]
        assert (renewal.method, renewal.code) == ("PUT", 200)
        assert 60.0 < renewal.at < world["a"].led[0]
        assert world["a"].elector.remaining() == pytest.approx(10.0, abs=0.05)


@pytest.mark.parametrize("code", [401, 403, 404, 422, 429, 500, 503])
def test_a_refusal_is_said_once_and_asked_again_for_ever(code: int) -> None:
    with World(outcomes=[Outcome(code=code)] * 100) as world:
        # A read without a result (404) is followed by a bid.
        world["a"].start()
        world.run(100.0)
        assert not world["a"].led
        assert world["a"].events() == ["lease not reached"]
        assert f" {code} Reason: because" in world["a"].logged[0][2]["error"]
        assert len(world.server.requests) <= 100
        world.run(200.0)
        assert world["a"].works()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b'{"kind": "Status"}',
        b'{"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"holderIdentity": 7}}',
        b'{"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"leaseDurationSeconds": "soon"}}',
        b'{"metadata": {"uid": "u"}, "spec": {}}',
    ],
)
def test_an_invalid_lease_is_an_error(body: bytes) -> None:
    """A proxy's page, or half an object."""
    with World(outcomes=[Outcome(body=body)] * 3) as world:
        world.server.put(OTHER)
        world["a"].start()
        world.run(5.0)
        assert methods(world) == "GET GET GET"
        assert world["a"].events() == ["lease not reached"]
        assert "controller: the API server's answer is not a Lease" in world["a"].logged[0][2]["error"]
