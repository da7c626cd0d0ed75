"""The renewal and the loss of the lease, in simulated time."""

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pytest
from tests.support.lease.world import HUNG, OTHER, Outcome, World, leading, methods

from podium.runtime.leaderelection import LostError

_GONE = Outcome(there=math.inf)
_REFUSED = Outcome(code=500)


def _acting(world: World) -> Callable[[], None]:
    """Return a check that the process may act at every moment."""

    def check() -> None:
        assert world["a"].may_act()

    return check


def test_a_quiet_leader_writes_nothing_but_one_renewal_each_two_seconds_and_a_little() -> None:
    with leading() as world:
        before = len(world.server.requests)
        world.run(220.0)
        assert {request.method for request in world.server.requests[before:]} == {"PUT"}
        assert len(world.server.requests) - before == 100
        assert world["a"].events() == ["leading"]


def test_candidates_and_renewals_do_not_keep_step() -> None:
    """Jitter adds up to a fifth to each pause, and never shortens one."""
    chances = iter([0.0, 0.999, 0.5] * 10)
    with leading(random=lambda: next(chances)) as world:
        world.run(21.0)
        times = [request.at for request in world.server.requests[1:]]
        pauses = [after - before for before, after in pairwise(times)]
        assert pauses == pytest.approx([2.0, 2.3998, 2.2] * 3, abs=0.03)


_PASSING: dict[str, list[Outcome]] = {
    "refused": [_REFUSED] * 3,
    "the connection is lost after it was done": [Outcome(cut=True)],
    "no answer": [HUNG],
    "never arrives": [_GONE],
    "stored after the timeout": [Outcome(there=5.5)],
    "slow each time": [Outcome(there=2.0, back=2.0)] * 5,
    "nonsense": [Outcome(body=b"nonsense"), Outcome(body=b"nonsense")],
    "forbidden for a while": [Outcome(code=403)] * 3,
    "busy": [Outcome(code=429)] * 3,
}


@pytest.mark.parametrize("outcomes", _PASSING.values(), ids=_PASSING)
def test_an_outage_within_the_window_is_survived(outcomes: list[Outcome]) -> None:
    """The lease stays ours, and the work continues."""
    with leading(*outcomes) as world:
        world.check = _acting(world)
        world.run(60.0)
        assert world["a"].runs()
        assert len(world["a"].led) == 1
        assert world.server.holder == "a"
        assert world.server.spec["leaseTransitions"] == 0


_LASTING: dict[str, Iterable[Outcome]] = {
    "refused": [_REFUSED] * 1000,
    "no answer": [HUNG] * 1000,
    "never arrives": [_GONE] * 1000,
    "cut before": [Outcome(there=math.inf, cut=True)] * 1000,
    "nonsense": [Outcome(code=500, body=b"nonsense")] * 1000,
}


@pytest.mark.parametrize("outcomes", _LASTING.values(), ids=_LASTING)
def test_a_longer_outage_ends_the_work_within_the_window(outcomes: list[Outcome]) -> None:
    """The work ends ten seconds after the start of the last answered renewal, whatever the calls do."""
    with leading(*outcomes) as world:
        last = world.server.requests[-1]
        world.run(until=lambda: not world["a"].may_act())
        assert world.now - last.at == pytest.approx(10.0, abs=0.05)
        world.run(1.0, until=lambda: not world["a"].runs())
        assert world.now - last.at == pytest.approx(10.0, abs=0.05)
        assert not world["a"].works()
        assert isinstance(world["a"].failure, LostError)
        assert "not renewed within 10 s" in str(world["a"].failure)
        assert world["a"].events()[-1] == "lease lost"


def test_a_call_that_hangs_leaves_time_for_another() -> None:
    with leading(*[HUNG] * 10) as world:
        world.run(until=lambda: not world["a"].runs())
        # The renewal at 2.2 s hangs until 7.2 s, then a read does.
        assert methods(world) == "GET POST PUT GET"


class _Theft(NamedTuple):
    do: Callable[[World], None]
    why: str


def _delete(world: World) -> None:
    world.server.lease = None


def _recreate(world: World) -> None:
    _delete(world)
    world.server.put(OTHER)


_THEFTS = {
    "taken": _Theft(lambda world: world.server.edit(holderIdentity="thief"), "taken by thief"),
    "emptied": _Theft(lambda world: world.server.edit(holderIdentity=""), "emptied"),
    "no spec": _Theft(lambda world: world.server.put({}), "emptied"),
    "deleted": _Theft(_delete, "deleted"),
    "recreated": _Theft(_recreate, "taken by other"),
    "by a replica of the same name": _Theft(
        lambda world: world.server.edit(acquireTime="2026-11-21T00:00:00.000000Z"), "changed by another"
    ),
    "shortened": _Theft(lambda world: world.server.edit(leaseDurationSeconds=1), "changed by another"),
}


@pytest.mark.parametrize("theft", _THEFTS.values(), ids=_THEFTS)
def test_a_lease_that_is_not_ours_any_more_is_lost_at_the_next_renewal(theft: _Theft) -> None:
    """The work has ended before the process learns of it, and another's write stays."""
    with leading() as world:
        world["a"].wind_down = 3.0
        theft.do(world)
        there, now = world.server.lease, world.now
        world.run(until=lambda: not world["a"].may_act())
        assert world.now - now < 2.5
        assert world["a"].works(), "it takes three seconds to end"
        world.run(until=lambda: not world["a"].runs())
        assert not world["a"].works()
        assert str(world["a"].failure) == (
            f"lease system/controller: lost: {theft.why};"
            " this replica has stopped working and must be restarted"
        )
        world.run(30.0)
        assert world.server.lease == there


@pytest.mark.parametrize("what", ["emptied", "no spec", "deleted"])
def test_a_paused_leader_acts_alone_until_its_lease_expires(what: str) -> None:
    """A paused process has time left: another one that acquires the lease at once would act too."""
    with World("ab") as world:
        world["a"].start()
        world.run(1.0)
        world["b"].start()
        world.run(20.0)
        world["a"].paused_until = world.now + 9.0
        _THEFTS[what].do(world)

        def alone() -> None:
            assert not (world["a"].may_act() and world["b"].may_act())

        world.check = alone
        world.run(40.0)
        assert isinstance(world["a"].failure, LostError)
        assert world["b"].works()


def test_foreign_changes_of_the_lease_are_kept() -> None:
    """Another client sets a label: the renewal is refused once, and repeated on the stored object."""
    with leading() as world:
        world.run(1.0)
        world.server.put(world.server.spec, labels={"team": "x"})
        world.run(20.0)
        assert world["a"].may_act()
        assert world.server.lease is not None
        assert world.server.lease["metadata"]["labels"] == {"team": "x"}
        assert methods(world).startswith("GET POST PUT GET PUT PUT")


@pytest.mark.parametrize("skew", [1e9, -1e9])
def test_a_wall_clock_that_is_set_changes_nothing(skew: float) -> None:
    with leading() as world:
        for moment in (10, 30):
            world.at(moment, partial(setattr, world["a"], "skew", skew if moment == 10 else 0.0))
        world.check = _acting(world)
        world.run(60.0)
        assert world["a"].events() == ["leading"]


def test_a_stopped_wall_clock_does_not_stop_renewals() -> None:
    """Each renewal changes the Lease, or the other replicas would acquire it."""
    with World("ab") as world:
        world["a"].frozen = datetime(2026, 11, 21, tzinfo=UTC)
        world["a"].start()
        world.run(1.0)
        world["b"].start()
        world.check = _acting(world)
        world.run(60.0)
        assert not world["b"].led


def test_a_process_paused_past_its_time_sees_it_at_once_and_writes_nothing_more() -> None:
    with leading() as world:
        before = len(world.server.requests)
        world["a"].paused_until = 60.0
        world.run(59.0)
        assert not world["a"].may_act(), "the first question is answered right"
        world.run(until=lambda: not world["a"].runs())
        assert world.now == pytest.approx(60.0)
        assert isinstance(world["a"].failure, LostError)
        world.run(30.0)
        assert len(world.server.requests) == before


def test_a_process_paused_for_less_goes_on() -> None:
    with leading() as world:
        world["a"].paused_until = 9.0
        world.run(30.0)
        assert world["a"].may_act()
        assert len(world["a"].led) == 1


def test_one_that_was_paused_while_it_renewed_does_not_count_from_the_answer() -> None:
    """The answer waits in the socket; the others have counted from an earlier time."""
    with leading() as world:
        world.run(until=lambda: len(world.server.requests) == 3)
        world["a"].paused_until = world.now + 11.0
        world.run(11.5)
        assert not world["a"].runs()
        assert isinstance(world["a"].failure, LostError)
