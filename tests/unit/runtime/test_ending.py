"""The end of a leader: the work ends first, then the lease is released, also if the release fails."""

import asyncio
import contextlib
from typing import Any

import pytest
from tests.support.lease.world import FINE, HUNG, OTHER, Outcome, World, leading, methods


def test_told_to_stop_the_work_ends_first_and_the_lease_is_given_back() -> None:
    with leading() as world:
        world["a"].wind_down = 30.0
        releases: list[bool] = []

        def note(process: object, request: Any) -> None:
            if request.spec.get("holderIdentity") == "":
                releases.append(world["a"].works())

        world.arrived = note
        world["a"].stop()
        world.run(29.0)
        assert world["a"].may_act(), "it is renewed until the work has ended"
        world.run(until=lambda: not world["a"].runs())
        assert isinstance(world["a"].failure, asyncio.CancelledError)
        assert releases == [False]
        assert world.server.spec["holderIdentity"] == ""
        assert world.server.spec["leaseDurationSeconds"] == 1
        assert world.server.spec["leaseTransitions"] == 0
        assert not world["a"].may_act()
        assert world["a"].events()[-1] == "lease released"


def test_a_lease_that_expires_was_not_released() -> None:
    """The next process waits until the lease expires, and knows that it did."""
    with World("ab") as world:
        world["a"].start()
        world.run(1.0)
        world["b"].start()
        world.run(20.0)
        world["a"].elector.keeps = True
        world["a"].stop()
        world.run(until=lambda: not world["a"].runs())
        assert not world["a"].may_act()
        world.run(12.0)
        assert not world["b"].led
        world.run(5.5)
        assert world["b"].works()
        assert world["b"].elector.expired


def test_the_lease_is_released_when_the_work_ends() -> None:
    with World() as world:
        world["a"].start(lambda: asyncio.sleep(5.0))
        world.run(until=lambda: not world["a"].runs())
        assert world["a"].failure is None
        assert world.server.holder == ""
        assert world.server.lease is not None


def test_the_lease_is_released_when_the_work_fails() -> None:
    async def fail() -> None:
        await asyncio.sleep(5.0)
        raise ZeroDivisionError

    with World() as world:
        world["a"].start(fail)
        world.run(until=lambda: not world["a"].runs())
        assert isinstance(world["a"].failure, ZeroDivisionError)
        assert world.server.holder == ""
        assert not world["a"].may_act()


@pytest.mark.parametrize("stolen", [False, True])
def test_a_bug_in_how_the_work_ends_is_not_kept_quiet(stolen: bool) -> None:
    async def trip() -> None:
        try:
            await asyncio.sleep(1000.0)
        finally:
            raise ZeroDivisionError

    with World() as world:
        world["a"].start(trip)
        world.run(5.0)
        if stolen:
            world.server.edit(holderIdentity="thief")
        else:
            world["a"].stop()
        world.run(until=lambda: not world["a"].runs())
        assert isinstance(world["a"].failure, ZeroDivisionError)
        assert world.server.holder == ("thief" if stolen else "")


def test_told_twice_it_still_waits_for_the_work_to_end() -> None:
    """The second stop cancels the work again, however it then ends."""
    ended: list[str] = []

    async def lead() -> None:
        try:
            await asyncio.sleep(1000.0)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1000.0)
            await asyncio.sleep(3.0)
            ended.append(world.server.holder)

    with World() as world:
        world["a"].start(lead)
        world.run(5.0)
        world["a"].stop()
        world.run(30.0)
        assert world["a"].may_act()
        world["a"].stop()
        world.run(until=lambda: not world["a"].runs())
        assert isinstance(world["a"].failure, asyncio.CancelledError)
        assert ended == ["a"]
        assert world.server.holder == ""


def test_the_next_replica_takes_over_at_once() -> None:
    """The process ends at its next read at the latest."""
    with World("ab") as world:
        world["a"].start()
        world.run(1.0)
        world["b"].start()
        world.run(20.0)
        world["a"].stop()
        world.run(2.5)
        assert world["b"].works()
        assert world.server.spec["leaseTransitions"] == 1
        assert (world["b"].elector.leader, world["b"].elector.transitions) == ("b", 1)


def test_after_a_crash_the_next_replica_takes_over_when_the_lease_ends() -> None:
    with World("ab") as world:
        world["a"].start()
        world.run(1.0)
        world["b"].start()
        world.run(20.0)
        world.kill("a")
        world.run(12.0)
        assert not world["b"].led
        world.run(5.5)
        assert world["b"].works()


def test_a_failed_release_of_the_lease_delays_no_exit() -> None:
    with leading(*[HUNG] * 10) as world:
        world["a"].stop()
        now = world.now
        world.run(until=lambda: not world["a"].runs())
        assert world.now - now == pytest.approx(5.0, abs=0.1)
        assert world["a"].events()[-1] == "lease not released"
        assert isinstance(world["a"].failure, asyncio.CancelledError)


@pytest.mark.parametrize("there", [0.06, 0.07, 0.08, 0.5, 3.0])
def test_a_renewal_on_its_way_when_we_stop_does_not_outlive_the_release(there: float) -> None:
    """The renewal arrives before, or the release is repeated, or it arrives afterwards and is refused."""
    with leading(Outcome(there=there)) as world:
        # 50 ms after the renewal was sent.
        world.run(2.25 - world.now)
        assert methods(world) == "GET POST"
        world["a"].stop()
        world.run(10.0)
        assert not world["a"].runs()
        assert methods(world).count("PUT") >= 2
        assert world.server.holder == ""


def test_another_s_lease_is_not_given_back() -> None:
    with leading() as world:
        world.server.edit(holderIdentity="thief")
        world["a"].stop()
        world.run(10.0)
        assert not world["a"].runs()
        assert world.server.holder == "thief"
        assert "lease released" not in world["a"].events()


def test_a_candidate_that_is_told_to_stop_writes_nothing() -> None:
    with World() as world:
        world.server.put(OTHER)
        world["a"].start()
        world.run(5.0)
        world["a"].stop()
        world.run(1.0)
        assert isinstance(world["a"].failure, asyncio.CancelledError)
        assert set(methods(world).split()) == {"GET"}


@pytest.mark.parametrize("outcome", [Outcome(back=3.0), HUNG, Outcome(there=0.07), Outcome(there=2.0)])
def test_a_candidate_that_is_told_to_stop_while_it_bids_leaves_no_lease_behind(outcome: Outcome) -> None:
    """The lease is released, whether the server has received the bid or not yet."""
    with World(outcomes=[FINE, outcome]) as world:
        world["a"].start()
        # 30 ms after the bid was sent.
        world.run(0.05)
        assert methods(world) == ("GET POST" if outcome.there < 0.03 else "GET")
        world["a"].stop()
        world.run(10.0)
        assert not world["a"].runs()
        assert world.server.holder == ""
        assert not world["a"].led
