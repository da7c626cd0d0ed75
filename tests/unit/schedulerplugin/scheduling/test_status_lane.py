"""The queue of pod conditions delays nothing: no bind, no server, and no write behind a failure.

A full cluster has ten thousand pods with waiting conditions at the moment when room is made.
"""

import asyncio

import msgspec
import pytest
from tests.support.scheduling.statuses import (
    FULL,
    FULLER,
    PREEMPTOR,
    Scene,
    at_work,
    everything,
    eviction,
    pod,
    ref,
    refused,
    report,
)
from tests.unit.schedulerplugin.scheduling.test_conditions import group_with

from podium.api.meta import Condition
from podium.api.schedulable import Schedulable, SchedulableStatus
from podium.errors import PodiumError
from podium.kube.preconditions import LeaseOverError
from podium.planner.liveplugin import ChangedError, GoneError
from podium.schedulerplugin.scheduling.effects import Unit


async def test_hot_writes_go_first() -> None:
    """During hot writes a few others are sent; afterwards all of them."""
    async with at_work() as scene:
        names = [f"pod-{number}" for number in range(20)]
        for name in names:
            scene.state.apply(pod(name))
        scene.api.busy = True
        scene.statuses.submit(report(FULL, *names))
        for _ in range(249):
            await scene.advance(0.02)
        assert scene.api.log == []
        for _ in range(3):
            await scene.advance(0.02)
        assert len(scene.api.log) == 4
        scene.api.busy = False
        await scene.advance(0.02)
        assert len(scene.api.log) == 20


async def test_a_storm_is_written_at_a_bounded_rate() -> None:
    """A quarter of a hundred at once, then a hundred a second."""
    async with at_work() as scene:
        names = [f"pod-{number}" for number in range(300)]
        for name in names:
            scene.state.apply(pod(name))
        scene.statuses.submit(report(FULL, *names))
        for _ in range(3):
            await scene.advance()
        assert len(scene.api.log) == 25
        for _ in range(100):
            await scene.advance(0.01)
        assert 120 <= len(scene.api.log) <= 126
        for _ in range(200):
            await scene.advance(0.01)
        assert {name for _, name, _ in scene.api.log} == set(names)


async def test_a_write_without_room_is_left_to_a_later_attempt() -> None:
    scene = Scene()
    for number in range(20_005):
        scene.state.apply(pod(f"pod-{number}"))
        scene.statuses.submit(report(FULL, f"pod-{number}"))
    assert scene.statuses.depth == 20_000
    scene.statuses.submit(report(FULLER, "pod-7"))
    assert scene.statuses.depth == 20_000


async def test_a_pod_that_is_gone_on_the_server_is_no_error() -> None:
    async with at_work(GoneError("no such pod")) as scene:
        scene.state.apply(pod("a"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance(60.0)
        assert (len(scene.api.log), scene.logged, scene.notes) == (1, [], [])


@pytest.mark.parametrize("code", [403, 422])
async def test_a_forbidden_write_is_logged_once_and_dropped(code: int) -> None:
    """The next attempt at the pod writes it again."""
    async with at_work(refused(code), refused(code), refused(code)) as scene:
        for name in ("a", "b"):
            scene.state.apply(pod(name))
        for _ in range(2):
            scene.statuses.submit(report(FULL, "a", "b"))
            await scene.advance(60.0)
        assert len(scene.api.log) == 4
        assert [what for what, _ in scene.logged] == ["status not written"]
        assert scene.api.told == {ref("b"): (FULL, "")}


@pytest.mark.parametrize("newer", [False, True], ids=["the same", "a newer word"])
async def test_a_server_in_trouble_is_asked_again(newer: bool) -> None:
    async with at_work(refused(500), PodiumError("no answer")) as scene:
        scene.state.apply(pod("a"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        if newer:
            scene.statuses.submit(report(FULLER, "a"))
        for _ in range(5):
            await scene.advance(1.0)
        assert scene.api.told[ref("a")][0] == (FULLER if newer else FULL)
        assert [note.text for note in scene.notes] == [FULLER if newer else FULL]
        assert scene.statuses.depth == 0


async def test_a_message_repeated_in_flight_is_written_if_the_first_write_fails() -> None:
    async with at_work(refused(500)) as scene:
        scene.state.apply(pod("a"))
        scene.api.held = asyncio.Event()
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        scene.statuses.submit(report(FULL, "a"))
        scene.api.held.set()
        await scene.advance(1.0)
        assert scene.api.told == {ref("a"): (FULL, "")}


AWAY = (refused(500), PodiumError("no answer"), refused(503))


async def test_victims_that_stay_are_unmarked_when_the_server_is_back() -> None:
    """The write uses the version of the pod at that time."""
    async with at_work(*AWAY, ChangedError("it has changed")) as scene:
        scene.state.apply(pod("a", bound="node-1", version="1"))
        scene.statuses.unmark([ref("a")])
        assert scene.statuses.depth == 1
        await scene.advance()
        scene.state.apply(pod("a", bound="node-1", version="2"))
        for _ in range(10):
            await scene.advance(1.0)
        assert scene.api.log == [("unmark", "a", "1"), *[("unmark", "a", "2")] * 4]
        assert scene.statuses.depth == 0


ABSENT = {
    "another of its name": pod("a", bound="node-1", uid="uid-later"),
    "gone": None,
}


@pytest.mark.parametrize("after", ABSENT.values(), ids=ABSENT.keys())
async def test_no_other_pod_is_unmarked(after: Schedulable | None) -> None:
    async with at_work(*AWAY) as scene:
        scene.state.apply(pod("a", bound="node-1"))
        scene.statuses.unmark([ref("a")])
        await scene.advance()
        scene.state.remove(pod("a"))
        if after is not None:
            scene.state.apply(after)
        await scene.advance(60.0)
        assert (len(scene.api.log), scene.statuses.depth) == (1, 0)


async def test_a_victim_of_another_preemptor_is_not_unmarked() -> None:
    """After that decision no mark is withdrawn; a write in flight by then is refused."""
    async with at_work(*AWAY) as scene:
        scene.state.apply(pod("a", bound="node-1"))
        scene.statuses.unmark([ref("a")])
        await scene.advance()
        victim = Unit("Pod", "team", "a", "uid-a", 1, (ref("a"),))
        scene.statuses.began(
            eviction(victim, key=("team", PREEMPTOR.name)),
            everything(eviction(victim, key=("team", PREEMPTOR.name))),
        )
        await scene.advance(60.0)
        assert (len(scene.api.log), scene.statuses.depth) == (1, 0)


@pytest.mark.parametrize("error", [refused(403), GoneError("gone")], ids=str)
async def test_a_final_answer_is_not_retried(error: PodiumError) -> None:
    async with at_work(error) as scene:
        scene.state.apply(pod("a", bound="node-1"))
        scene.statuses.unmark([ref("a")])
        await scene.advance(60.0)
        assert (len(scene.api.log), scene.statuses.depth) == (1, 0)


def _marked(name: str, scheduler: str) -> Schedulable:
    """Return a running pod that a scheduler has marked for a preemptor."""
    message = f"{scheduler}: preempting to accommodate a higher priority pod (UID uid-mine)"
    mark = Condition("DisruptionTarget", "True", "PreemptionByScheduler", message)
    return msgspec.structs.replace(
        pod(name, bound="node-1"), status=SchedulableStatus(phase="Running", conditions=[mark])
    )


def _left_behind() -> Scene:
    """Return a scene whose objects have the statuses of this scheduler, and those of another."""
    scene = Scene()
    others = pod("other", FULL, "node-1")
    others.spec.schedulerName = "default-scheduler"
    scene.state.apply(group_with(Condition("DisruptionTarget", "True", "PreemptionByScheduler", FULL)))
    for thing in (
        pod("waits", FULL),
        pod("nominated", FULL, "node-1"),
        others,
        _marked("victim", "podium-scheduler"),
        _marked("theirs", "default-scheduler"),
    ):
        scene.state.apply(thing)
    return scene


_WITHDRAWN = [("nominate", "nominated", "", ""), ("unmark", "victim", ""), ("group", "uid-train")]


async def test_the_last_process_withdraws_its_own_statuses() -> None:
    scene = _left_behind()
    assert await scene.statuses.retire(10) == (3, 0)
    assert sorted(scene.api.log) == sorted(_WITHDRAWN)


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        pytest.param(refused(403), (2, 1), id="a refusal concerns one object"),
        pytest.param(GoneError("gone"), (3, 0), id="an object that is gone needs nothing"),
        pytest.param(LeaseOverError(), (1, 2), id="without the lease nothing more is written"),
    ],
)
async def test_failed_withdrawals_are_counted(outcome: PodiumError, result: tuple[int, int]) -> None:
    scene = _left_behind()
    scene.api.outcomes = [outcome]
    assert await scene.statuses.retire(10) == result


async def test_withdrawals_end_in_time() -> None:
    scene = _left_behind()
    scene.api.held = asyncio.Event()
    assert await asyncio.wait_for(scene.statuses.retire(0.01), 10) == (0, 3)
