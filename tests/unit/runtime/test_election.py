"""Three replicas under any faults: two never act at one moment, and finally one does."""

from asyncio import CancelledError
from functools import partial
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from tests.support.lease.world import Outcome, Process, Request, World, empty

from podium.runtime.leaderelection import LostError

_NAMES = "abc"
# Longer than a lease and an attempt: after this time without faults one must lead.
_QUIET_SECONDS = 30.0
# No request takes longer, and no pause.
_LONGEST_SECONDS = 40.0
# A process that ended is started again after this long.
_RESTART_SECONDS = 1.0


class _Blow(NamedTuple):
    """A fault of a process, `after` seconds since the last; `seconds` is its length, or a clock's error."""

    after: float
    name: str
    what: str
    seconds: float


_delays = st.one_of(
    st.just(0.01),
    st.floats(0, 1),
    st.sampled_from([4.9, 5.1, 9.0, 9.99, 10.0, 14.9, 15.1]),
    st.floats(0, _LONGEST_SECONDS),
)
_fates = st.builds(
    Outcome,
    there=_delays,
    back=st.one_of(_delays, st.just(float("inf"))),
    code=st.sampled_from([0, 0, 0, 0, 409, 429, 500]),
    cut=st.booleans(),
)
_blows = st.builds(
    _Blow,
    after=st.floats(0, 20),
    name=st.sampled_from(_NAMES),
    what=st.sampled_from(["pause", "pause", "kill", "stop", "wall", "empty"]),
    seconds=st.one_of(st.floats(0, _LONGEST_SECONDS), st.sampled_from([4.0, 9.0, 11.0, 14.9, 15.1, 16.0])),
)


class _Watch:
    """Starts ended processes again, and checks the invariants at every moment."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._due: set[str] = set()
        world.check = self._check
        world.arrived = self._arrived
        self._check()

    def befall(self, blow: _Blow) -> None:
        """Apply a fault to a process."""
        process = self._world[blow.name]
        match blow.what:
            case "pause":
                process.paused_until = self._world.now + blow.seconds
            case "stop":
                process.stop()
            case "empty":
                empty(self._world)()
            case "wall":
                process.skew = (blow.seconds - 20.0) * 1e6
            case _:
                self._world.kill(blow.name)
        # If every process has ended, no other event would start them again.
        self._check()

    def _check(self) -> None:
        """At most one process may act, and none works after its candidacy has ended."""
        acting = [name for name, process in self._world.processes.items() if process.may_act()]
        assert len(acting) <= 1, f"{acting} at {self._world.now}"
        for name, process in self._world.processes.items():
            if not process.runs() and name not in self._due:
                assert not process.works()
                assert process.task is None or isinstance(process.failure, LostError | CancelledError)
                self._due.add(name)
                self._world.at(self._world.now + _RESTART_SECONDS, partial(self._start, name))

    def _start(self, name: str) -> None:
        self._due.discard(name)
        self._world[name].start()

    def _arrived(self, process: Process, request: Request) -> None:
        """No process releases a lease under which it still works."""
        if request.code == 200 and request.method == "PUT" and not request.spec["holderIdentity"]:
            assert not process.works()


@given(
    outcomes=st.lists(_fates, max_size=60),
    blows=st.lists(_blows, max_size=8),
    rates=st.tuples(*[st.floats(0.9, 1.1)] * 3),
    wind_down=st.sampled_from([0.0, 0.5, 6.0]),
    seed=st.integers(0, 2**32),
)
def test_never_two_may_act_and_in_the_end_one_does(
    outcomes: list[Outcome], blows: list[_Blow], rates: tuple[float, ...], wind_down: float, seed: int
) -> None:
    """Clocks differ by a fifth in rate and start anywhere; a process may be paused or killed at any await."""
    with World(_NAMES, outcomes=outcomes, random=Random(seed).random) as world:
        for process, rate in zip(world.processes.values(), rates, strict=True):
            process.rate, process.wind_down = rate, wind_down
        watch = _Watch(world)
        for blow in blows:
            world.run(blow.after)
            watch.befall(blow)
        world.outcomes = iter(())
        world.run(_LONGEST_SECONDS + _QUIET_SECONDS)
        leaders = [name for name, process in world.processes.items() if process.works()]
        assert len(leaders) == 1
        transitions = world.server.spec["leaseTransitions"]
        world.run(_QUIET_SECONDS)
        assert world[leaders[0]].may_act()
        assert world.server.spec["leaseTransitions"] == transitions
