"""A victim that saves on notice has its time, whenever a leader is killed and whatever the clocks do."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from tests.support.preemption.clusters import NOW, NS
from tests.support.scheduling.recording import Recorded
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.schedulerplugin.live.test_loop import Scene, saving

from podium.api.meta import Condition, instant
from podium.api.records import RecordedPlan
from podium.api.saving import SAVE_REQUESTED
from podium.api.schedulable import Schedulable, SchedulableStatus
from podium.schedulerplugin.scheduling.effects import PodRef
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.scheduler import Scheduler

LOW = (NS, "low")
# The events of a preemption that waits 40 seconds: the request begins and is stored, then 40 looks, then
# the delete begins and is done.
ASKED, DELETES = 2, 43


class KilledError(BaseException):
    """The process is killed."""


class Stored(Recorded):
    """Writes that change the objects of a world, until the process is killed at an event (0: never).

    Events are the writes that begin or end, and the looks of a preemption that waits.
    """

    def __init__(self, kill: int = 0) -> None:
        super().__init__()
        self.events = 0
        self.kill = kill
        self.scene: Scene
        # The times of the requests and of the deletion, by a right clock.
        self.requests: list[str] = []
        self.asked = self.deleted = 0.0
        self.passed = 0.0

    @property
    def time(self) -> float:
        return self.passed + self.scene.seconds

    def lead(self, scene: Scene) -> None:
        """Write for the next leader."""
        self.scene = scene
        scene.while_asleep = self.look
        self.watch = self.look

    def look(self) -> None:
        self.events += 1
        if self.events == self.kill:
            raise KilledError

    async def mark(
        self, pod: PodRef, condition: Condition, version: str | None = None, *, requested: str = ""
    ) -> None:
        await super().mark(pod, condition, version, requested=requested)
        stored = self.scene.world.state.pods[pod.key]
        assert isinstance(stored, Schedulable)
        annotations = {**(stored.metadata.annotations or {})}
        annotations.pop(SAVE_REQUESTED, None)
        if requested:
            annotations[SAVE_REQUESTED] = requested
            self.requests.append(requested)
            self.asked = self.time
        metadata = msgspec.structs.replace(stored.metadata, annotations=annotations)
        status = SchedulableStatus(phase="Running", conditions=[condition])
        self.scene.world.apply(msgspec.structs.replace(stored, metadata=metadata, status=status))
        self.look()

    async def delete(self, pod: PodRef) -> None:
        await super().delete(pod)
        self.deleted = self.time
        self.scene.world.state.remove(self.scene.world.state.pods[pod.key])
        self.look()


def next_leader(before: Scene, writes: Stored, ahead: float) -> Scene:
    """Return the loop of the next process, whose wall clock is ahead by so many seconds."""
    world = before.world
    writes.passed += before.seconds
    engine = LiveEngine(world.state, world.live.engine)
    world.scheduler = Scheduler(engine, world.limits)
    world.state._observers[:] = [engine.apply, world.scheduler.apply]
    scene = Scene(world, writes=writes)
    scene.ahead = writes.passed + ahead
    writes.lead(scene)
    return scene


def answers(*scenes: Scene) -> list[str]:
    """Return what the records say of the victim, without those that say nothing."""
    plans: list[RecordedPlan] = [plan for scene in scenes for (plan,) in scene.recorder.named("append")]
    return [unit.saving for plan in plans for unit in plan.units if unit.saving]


async def taken_over(kill: int, ahead: float = 0.0) -> tuple[Stored, list[Scene]]:
    """Kill a leader after so many events, and let the next one end the preemption."""
    writes = Stored(kill)
    first = Scene(saving(), writes=writes)
    writes.lead(first)
    state = first.world.state
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(BaseExceptionGroup):
            await first.loop.run()
    assert writes.events == kill
    second = next_leader(first, writes, ahead)
    if LOW in state.pods:
        await second.until(lambda: LOW not in state.pods)
    return writes, [first, second]


@pytest.mark.parametrize("kill", range(1, DELETES + 2))
async def test_a_victim_has_its_whole_time_whenever_the_leader_is_killed(kill: int) -> None:
    """It is asked once, and evicted once. A second is lost by the rounding of the request."""
    writes, scenes = await taken_over(kill)
    assert len(set(writes.requests)) == 1
    assert 39 <= writes.deleted - writes.asked <= 41
    assert [write.what for write in writes.done].count("delete") == 1
    # Only a leader that asked and waited for the whole time knows that the victim failed.
    assert answers(*scenes) == (["Failed"] if kill < ASKED else [])


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
async def test_a_victim_does_not_fail_because_two_leaders_have_other_clocks(ahead: float) -> None:
    """The next leader waits too long or not at all: the request has the time of another clock."""
    writes, scenes = await taken_over(10, ahead)
    assert answers(*scenes) == []
    assert len(writes.requests) == 1


def _step(scene: Scene, writes: Stored, by: float) -> Callable[[], None]:
    def step() -> None:
        writes.look()
        if scene.seconds == 10:
            scene.ahead += by

    return step


@pytest.mark.parametrize("by", [-7200.0, 7200.0])
async def test_a_step_of_the_clock_changes_no_wait(by: float) -> None:
    writes = Stored()
    scene = Scene(saving(), writes=writes)
    writes.lead(scene)
    scene.while_asleep = _step(scene, writes, by)
    await scene.until(lambda: LOW not in scene.world.state.pods and bool(scene.recorder.named("learn")))
    assert writes.deleted - writes.asked == 40
    assert answers(scene) == ["Failed"]
    assert instant(writes.requests[0]) - NOW < timedelta(seconds=1)
