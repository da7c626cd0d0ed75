"""The scheduling loop: it turns each effect of a step into a write, a record, a metric or a log event."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import group, marked_for_deletion, node
from tests.support.scheduling.objects import running
from tests.support.scheduling.recording import Recorded, Write
from tests.support.scheduling.rig import World, pod
from tests.support.waiting import PATIENCE_SECONDS

from podium.api.events import EventDraft
from podium.api.membership import GroupKey
from podium.api.records import PlanMode, Result
from podium.api.saving import CHECKPOINT, SAVE_REQUESTED, SAVES_ON_NOTICE
from podium.kube.connection import RefusedError
from podium.runtime.host import THIS_MACHINE
from podium.runtime.worker import Worker
from podium.schedulerplugin.live.loop import Loop
from podium.schedulerplugin.scheduling.effects import (
    Disagreed,
    Effect,
    Evict,
    Held,
    Key,
    Moment,
    Planned,
    PodRef,
    Preemptor,
    Rejected,
    TimedOut,
    Unit,
    Unmark,
)

LOW, HIGH = PodRef(NS, "low", "team-a-low"), PodRef(NS, "high", "team-a-high")
GANG = GroupKey(True, NS, "gang")
EVICT = Evict(
    HIGH.key,
    Preemptor("pod", NS, "high", HIGH.uid, 10),
    ((HIGH, "n1"),),
    (Unit("Pod", NS, "low", LOW.uid, 0, (LOW,)),),
    "n1",
    "waits for 1 pod",
)


class Recorder:
    """Records each call of statuses, history and metrics with its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of each call of a method."""
        return [arguments for called, arguments in self.calls if called == name]

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments, **_: self.calls.append((name, arguments))


def recorder() -> Any:
    """Return a recorder that replaces any of the three."""
    return Recorder()


class Scene:
    """A loop over a world; `effects` are those of its first step, and `logged` are the log events."""

    def __init__(self, world: World, *effects: Effect, writes: Recorded | None = None) -> None:
        self.world = world
        self.writes = Recorded() if writes is None else writes
        self.recorder = recorder()
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.events: list[EventDraft] = []
        scheduler, first = world.scheduler, [list(effects)] if effects else []
        # Steady seconds, and what happens while the loop sleeps.
        self.seconds = 0.0
        # The seconds by which the wall clock is ahead of the steady one.
        self.ahead = 0.0
        self.stopped = False
        self.while_asleep: Callable[[], object] = lambda: None
        step, has_work = scheduler.step, scheduler.has_work
        scheduler.step = lambda moment: first.pop() if first else step(moment)  # type: ignore[method-assign]
        scheduler.has_work = lambda now: bool(first) or has_work(now)  # type: ignore[method-assign]
        self.loop = Loop(
            scheduler,
            self.writes,
            statuses=self.recorder,
            history=self.recorder,
            metrics=self.recorder,
            emit=self.events.append,
            clock=lambda: self.seconds,
            now=lambda: NOW + timedelta(seconds=self.seconds + self.ahead),
            sleep=self._sleep,
            log_event=lambda event, fields: self.logged.append((event, dict(fields))),
            worker=Worker(THIS_MACHINE.executor(), THIS_MACHINE.clock),
            deciding=lambda _keys: None,
            learn=self.recorder.learn,
        )

    async def _sleep(self, seconds: float) -> None:
        self.seconds += 0.0 if self.stopped else seconds
        self.while_asleep()
        await asyncio.sleep(0)

    async def until(self, done: Callable[[], bool]) -> None:
        """Run the loop until a condition holds."""
        task = asyncio.create_task(self.loop.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not done():  # noqa: ASYNC110 - a call of the recorder sets no event
                await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def world() -> World:
    """Return a full node with a pod of lower priority than a waiting one."""
    return World(node("n1", 1), running("low"))


async def test_an_observed_preemption_is_recorded_and_not_carried_out() -> None:
    scene = Scene(world(), Planned(EVICT))
    await scene.until(lambda: bool(scene.recorder.named("append")))
    ((plan,),) = scene.recorder.named("append")
    assert (plan.mode, plan.preemptor.name, plan.podCount) == (PlanMode.OBSERVED, "high", 1)
    assert scene.writes.begun == []


LOGGED: dict[str, tuple[Effect, tuple[str, dict[str, Any]]]] = {
    "an eviction cycle": (
        Held(EVICT, circle=True),
        ("workloads evict each other", {"error": "waits for 1 pod", "of": "team-a-high"}),
    ),
    "a rejection by a kubelet": (
        Rejected(LOW, "OutOfcpu"),
        ("a kubelet had no room for a pod of ours", {"error": "OutOfcpu", "pod": "team-a/low"}),
    ),
    "a decision for a pod that timed out": (
        TimedOut(HIGH.key, 5.0),
        ("decision timed out", {"entry": "pod/team-a/high", "seconds": 5.0}),
    ),
    "a decision for a group that timed out": (
        TimedOut(GANG, 5.0),
        ("decision timed out", {"entry": "podgroup.scheduling.k8s.io/team-a/gang", "seconds": 5.0}),
    ),
}


@pytest.mark.parametrize("name", LOGGED)
async def test_an_effect_that_an_operator_should_know_is_logged(name: str) -> None:
    effect, expected = LOGGED[name]
    scene = Scene(world(), effect)
    await scene.until(lambda: bool(scene.logged))
    assert scene.logged == [expected]


async def test_timeouts_and_disagreements_are_counted() -> None:
    scene = Scene(world(), TimedOut(GANG, 5.0), TimedOut(HIGH.key, 5.0), Disagreed(GANG, "True"))
    await scene.until(lambda: bool(scene.recorder.named("disagreed")))
    assert scene.recorder.named("timed_out") == [("podgroup",), ("pod",)]
    assert scene.recorder.named("disagreed") == [("True",)]


async def test_a_wait_for_the_eviction_rate_is_not_logged() -> None:
    scene = Scene(world(), Held(EVICT, circle=False), Disagreed(GANG, "True"))
    await scene.until(lambda: bool(scene.recorder.named("disagreed")))
    assert scene.logged == []


async def test_marks_that_no_preemption_needs_are_withdrawn() -> None:
    """A pod that is gone, or was recreated under its name, gets no write."""
    others = (PodRef(NS, "gone", "uid"), PodRef(NS, "low", "an earlier one"))
    scene = Scene(world(), Unmark((LOW, *others), (GANG,)))
    await scene.until(lambda: bool(scene.writes.done))
    assert scene.writes.begun == [Write("mark", "low", "False")]
    assert scene.recorder.named("withdraw") == [((GANG,),)]


async def test_marks_of_an_earlier_process_are_withdrawn_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod that is chosen again gets its new mark afterwards."""
    scene = Scene(World(node("n1", 1), running("low"), pod("high", 1, 10)))
    scheduler = scene.world.scheduler
    initialize = scheduler.initialize

    def begun(moment: Moment, interrupted: Collection[Key]) -> list[Effect]:
        return [*initialize(moment, interrupted=interrupted), TimedOut(GANG, 5.0), Unmark((LOW,))]

    monkeypatch.setattr(scheduler, "initialize", begun)
    await scene.until(lambda: bool(scene.recorder.named("evicted")))
    assert scene.recorder.named("timed_out") == [("podgroup",)]
    assert scene.writes.begun[0] == Write("mark", "low", "False")
    assert Write("delete", "low") in scene.writes.begun[1:]


async def test_a_mark_that_is_not_withdrawn_is_queued_for_later() -> None:
    failure = RefusedError("https://api", "PATCH /x", 500, "InternalError", "etcd is away")
    writes = Recorded({Write("mark", "low", "False"): failure})
    scene = Scene(world(), Unmark((LOW,)), writes=writes)
    await scene.until(lambda: bool(scene.recorder.named("unmark")))
    assert scene.recorder.named("unmark") == [((LOW,),)]
    assert [event for event, _ in scene.logged] == ["a condition was not withdrawn"]


async def test_a_preemption_marks_and_deletes_its_victims() -> None:
    """Its record has the deleted victims, and the statuses get both results."""
    scene = Scene(World(node("n1", 1), running("low"), pod("high", 1, 10)))
    await scene.until(lambda: bool(scene.recorder.named("evicted")))
    assert Write("delete", "low") in scene.writes.done
    ((plan,),) = scene.recorder.named("append")
    assert (plan.mode, plan.podCount) == (PlanMode.ENFORCED, 1)
    assert len(scene.recorder.named("began")) == 1


def saving() -> World:
    """Return a full node with a pod that saves its work on notice, and a waiting one."""
    victim = running("low")
    victim.metadata.annotations = {SAVES_ON_NOTICE: "40s"}
    return World(node("n1", 1), victim, pod("high", 1, 10))


def at_second(scene: Scene, second: float, **annotations: str) -> Callable[[], None]:
    """Return a function that shows the victim with further annotations, once it is that second."""

    def show() -> None:
        if scene.seconds == second:
            shown = running("low", status=marked_for_deletion())
            shown.metadata.annotations = {SAVES_ON_NOTICE: "40s", **annotations}
            scene.world.apply(shown)

    return show


REQUESTED = {SAVE_REQUESTED: "2026-11-21T00:00:00Z"}
SAVED = {**REQUESTED, CHECKPOINT: "2026-11-21T00:00:00Z"}


async def test_an_eviction_waits_until_the_victim_has_saved_its_work() -> None:
    scene = Scene(saving())
    scene.while_asleep = at_second(scene, 3, **SAVED)
    await scene.until(lambda: bool(scene.recorder.named("learn")))
    assert scene.writes.done == [Write("ask", "low", "True"), Write("delete", "low")]
    assert scene.seconds == 3
    ((plan,),), ((learned,),) = scene.recorder.named("append"), scene.recorder.named("learn")
    assert plan is learned
    assert [unit.saving for unit in plan.units] == ["Saved"]
    assert (plan.askedPods, plan.savedPods, plan.waitedMilliseconds) == (1, 1, 3_000)
    ((answers,),) = scene.recorder.named("answered")
    assert (answers.asked, answers.saved, answers.failed) == (1, 1, 0)


async def test_an_eviction_waits_no_longer_than_the_victim_declares() -> None:
    scene = Scene(saving())
    scene.while_asleep = at_second(scene, 1, **REQUESTED)
    await scene.until(lambda: bool(scene.recorder.named("learn")))
    assert scene.writes.done == [Write("ask", "low", "True"), Write("delete", "low")]
    assert scene.seconds == 40
    ((plan,),) = scene.recorder.named("learn")
    assert [unit.saving for unit in plan.units] == ["Failed"]
    assert (plan.askedPods, plan.savedPods, plan.waitedMilliseconds) == (1, 0, 40_000)


async def test_a_victim_that_does_not_show_the_request_has_not_failed() -> None:
    """The API server did not take the write, so the workload could not read it."""
    scene = Scene(saving())
    await scene.until(lambda: bool(scene.recorder.named("learn")))
    ((plan,),) = scene.recorder.named("learn")
    assert [unit.saving for unit in plan.units] == [""]


async def test_a_victim_goes_on_when_its_room_is_not_needed_any_more() -> None:
    scene = Scene(saving())
    scene.while_asleep = lambda: scene.world.state.remove(scene.world.state.pods[NS, "high"])
    await scene.until(lambda: bool(scene.recorder.named("gave_up")))
    assert scene.writes.done == [Write("ask", "low", "True"), Write("mark", "low", "False")]


async def test_evictions_that_wait_for_their_victims_leave_room_for_other_writes() -> None:
    """Each of these preemptions has as many writes as may be in flight at a time."""
    nodes = [node(f"n{at}", 64, room={"pods": 100}) for at in range(40)]
    victims = [running(f"v-{at}-{number}", f"n{at}") for at in range(40) for number in range(64)]
    for victim in victims:
        victim.metadata.annotations = {SAVES_ON_NOTICE: "60s"}
    scene = Scene(World(*nodes, *victims, *(pod(f"high-{at}", 64, 10) for at in range(40))))
    scene.stopped = True

    def come() -> None:
        if (NS, "late") not in scene.world.state.pods and len(scene.writes.done) == len(victims):
            scene.world.apply(node("free", 1), pod("late"))

    scene.while_asleep = come
    await scene.until(lambda: Write("bind", "late", "free") in scene.writes.done)
    assert not any(write.what == "delete" for write in scene.writes.begun)


async def test_a_victim_that_the_api_server_keeps_is_named_to_its_owner() -> None:
    """The event is about the victim; log and record name it, and the preemptor's message does not."""
    denied = RefusedError("https://api", "DELETE /x", 403, "Forbidden", "a policy denies it")
    writes = Recorded({Write("delete", "low"): denied})
    scene = Scene(World(node("n1", 1), running("low"), pod("high", 1, 10)), writes=writes)
    await scene.until(lambda: len(scene.recorder.named("submit")) > 1)
    why = "cannot be evicted: the API server refuses its deletion: a policy denies it"
    (event,) = [each for each in scene.events if each.reason == "CannotEvict"]
    assert (event.type, event.regarding.name, event.text) == ("Warning", "low", f"C{why[1:]}")
    assert ("a pod cannot be evicted", {"pod": "team-a/low", "error": "a policy denies it"}) in scene.logged
    assert scene.recorder.named("refused") == [()]
    ((plan,),) = scene.recorder.named("append")
    assert (plan.result, plan.message) == (Result.FAILED, f"pod team-a/low {why}")
    assert not any("low" in report.message for (report,) in scene.recorder.named("submit"))


async def test_a_group_that_is_placed_gets_a_status() -> None:
    members = [pod(f"gang-{at}", group="gang") for at in range(2)]
    scene = Scene(World(node("n1"), group("gang", 0, 2), members))
    await scene.until(lambda: bool(scene.recorder.named("bound")))
    assert {write.pod for write in scene.writes.done} == {"gang-0", "gang-1"}


async def test_a_switch_of_settings_looks_at_all_entries_again() -> None:
    scene = Scene(world())
    switched: list[bool] = []
    scene.world.scheduler.switched = lambda: switched.append(True)  # type: ignore[method-assign]
    scene.loop.switch()
    await scene.until(lambda: bool(switched))
    assert switched == [True]
