"""An exception for one pod, and a server that refuses one write, affect that pod alone."""

import asyncio
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import node
from tests.support.scheduling.objects import running
from tests.support.scheduling.recording import Recorded, Write
from tests.support.scheduling.rig import World, pod
from tests.support.waiting import PATIENCE_SECONDS

from podium.api.meta import Condition
from podium.cluster.reader import name_in
from podium.kube.connection import RefusedError
from podium.runtime.host import THIS_MACHINE
from podium.runtime.worker import Worker
from podium.schedulerplugin.live.loop import Loop
from podium.schedulerplugin.scheduling.effects import Effect, Key, Moment, PodRef, ReportPending


class BugError(Exception):
    """An unexpected error."""


def buggy(world: World, poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every decision on one pod fail, and step the scheduler as the loop does."""
    scheduler, engine = world.scheduler, world.scheduler.engine
    step, decide, place = scheduler.step, engine.decide, engine.place_lone

    def stepped(moment: Moment) -> list[Effect]:
        try:
            return step(moment)
        except BugError:
            return scheduler.on_error(moment)

    def decided(target: Any, *args: Any, **kwargs: Any) -> Any:
        if name_in(target)[1] == poison:
            raise BugError
        return decide(target, *args, **kwargs)

    def placed(targets: Any, **kwargs: Any) -> Any:
        if poison in [name for _, name in targets]:
            raise BugError
        return place(targets, **kwargs)

    monkeypatch.setattr(scheduler, "step", stepped)
    monkeypatch.setattr(engine, "decide", decided)
    monkeypatch.setattr(engine, "place_lone", placed)


def test_a_bug_about_one_pod_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lone pods are placed in batches; a failing one is tried by itself."""
    world = World(node("n1", 10))
    buggy(world, "b", monkeypatch)
    world.run(pod("a"), pod("b"), pod("c"))
    world.later(5)
    world.run(pod("d"))
    world.later(60)
    assert sorted(world.bound()) == ["a", "c", "d"]


def test_effects_that_precede_an_error_are_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods placed in the same step are bound, because they count as placed."""
    world = World(node("n1", 10))
    place = world.scheduler.engine.place_lone
    buggy(world, "b", monkeypatch)
    monkeypatch.setattr(world.scheduler.engine, "place_lone", place)
    world.run(pod("a"), pod("b", 20), pod("c"))
    world.later(60)
    assert sorted(world.bound()) == ["a", "c"]


class Recorder:
    """Records each call of statuses, history and metrics."""

    def __init__(self) -> None:
        self.reports: list[ReportPending] = []

    def submit(self, report: ReportPending) -> None:
        """Record a pod's report."""
        self.reports.append(report)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: None


async def looped(
    world: World,
    writes: Recorded,
    until: Callable[[Recorder], bool],
    deciding: Callable[[Collection[Key]], None] = lambda _keys: None,
) -> Recorder:
    """Run the loop on a world until a status or a write was made."""
    recorder: Any = Recorder()
    loop = Loop(
        world.scheduler,
        writes,
        statuses=recorder,
        history=recorder,
        metrics=recorder,
        emit=lambda _note: None,
        clock=lambda: 0.0,
        now=lambda: NOW,
        sleep=asyncio.sleep,
        log_event=lambda _text, _fields: None,
        worker=Worker(THIS_MACHINE.executor(), THIS_MACHINE.clock),
        deciding=deciding,
        learn=lambda _plan: None,
    )
    task = asyncio.create_task(loop.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not until(recorder):  # noqa: ASYNC110 - a call of the recorder sets no event
            await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    found: Recorder = recorder
    return found


def refused(what: str, name: str) -> RefusedError:
    """Return the error of a server that forbids a request, with its own message."""
    return RefusedError("https://api", f"{what} /x/pods/{name}", 403, "Forbidden", f"pod {name} is kept")


async def test_the_message_of_a_preemptor_has_no_names_of_victims() -> None:
    """The server's message on a refused write is in the log."""
    writes = Recorded({Write("delete", "secret"): refused("DELETE", "secret")})
    world = World(node(cpu=1), running("secret", namespace="other"), pod("high", 1, 10))
    recorder = await looped(world, writes, lambda recorder: bool(recorder.reports))
    assert [report.message for report in recorder.reports if "secret" in report.message] == []
    assert recorder.reports[-1].message.endswith("preemption: the API server did not take all of it")


async def test_a_pod_that_the_server_does_not_take_is_told_so() -> None:
    """It keeps its node, and is tried again."""
    writes = Recorded({Write("bind", "a", "n1"): refused("POST", "a")})
    recorder = await looped(World(node(cpu=1), pod("a")), writes, lambda recorder: bool(recorder.reports))
    report = recorder.reports[0]
    assert (report.reason, report.nominated) == ("SchedulerError", ((report.pods[0], "n1"),))
    assert report.message == "binding to node n1 failed: pod a is kept"


async def test_a_bug_at_the_start_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ended because of one pod would end at each start."""
    world = World(node(cpu=2))
    wanted = world.scheduler.entries.wanted

    def recording_key(key: Any) -> Any:
        if key == (NS, "b"):
            raise BugError
        return wanted(key)

    monkeypatch.setattr(world.scheduler.entries, "wanted", recording_key)
    world.apply(pod("a"), pod("b"), pod("c"))
    writes = Recorded()
    await looped(world, writes, lambda _told: len(writes.done) == 2)
    assert {write.pod for write in writes.done} == {"a", "c"}


class Away(Recorded):
    """An API server that answers binds only."""

    async def mark(
        self,
        pod: PodRef,
        condition: Condition,
        version: str | None = None,  # noqa: ARG002 - the signature of Writes
        *,
        requested: str = "",  # noqa: ARG002 - as above
    ) -> None:
        self.begun.append(Write("mark", pod.name, condition.status or ""))
        await asyncio.get_running_loop().create_future()


async def test_a_preemption_of_thousands_of_pods_keeps_no_bind_waiting() -> None:
    """It has a limited number of writes in flight, and other work continues."""
    victims = [running(f"v{number}", "n1") for number in range(3000)]
    world = World(node("n1", 3000, room={"pods": 4000}), victims, pod("high", 3000, 10), pod("other", 1))
    world.apply(node("n2", 1))
    writes = Away()
    await looped(world, writes, lambda _told: Write("bind", "other", "n2") in writes.done)
    assert sum(write.what == "mark" for write in writes.begun) <= writes.limit


@pytest.mark.parametrize("what", ["bind_done", "bind_failed"])
async def test_a_bug_in_what_a_bind_tells_keeps_no_other_out(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is tried again, and the others are scheduled."""
    world = World(node("n1", 10), pod("a"))
    ends = {Write("bind", "a", "n1"): refused("POST", "a")} if what == "bind_failed" else {}
    writes = Recorded(ends)

    def bug(*_args: Any, **_kwargs: Any) -> None:
        raise BugError

    monkeypatch.setattr(world.scheduler.holds, what, bug)
    await looped(world, writes, lambda _told: bool(writes.begun))
    world.apply(pod("b"))
    await looped(world, writes, lambda _told: any(write.pod == "b" for write in writes.begun))


async def test_a_bug_at_the_end_of_a_preemption_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as ended, and the preemptor is tried again."""
    world = World(node("n1", 1), running("victim"), pod("high", 1, 10))
    writes = Recorded()

    def bug(*_args: Any, **_kwargs: Any) -> None:
        raise BugError

    monkeypatch.setattr(world.scheduler, "preempted", bug)
    await looped(world, writes, lambda _told: Write("delete", "victim") in writes.done)
    world.apply(node("n2", 1), pod("b"))
    await looped(world, writes, lambda _told: any(write.what == "bind" for write in writes.begun))


async def test_a_slow_step_names_its_entry_and_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop runs during the step; the next leader reads the name."""
    world = World(node("n1", 1), pod("slow"))
    named, reported = threading.Event(), list[list[Key]]()
    place = world.scheduler.engine.place_lone

    def slowly(targets: Any, **kwargs: Any) -> Any:
        assert named.wait(PATIENCE_SECONDS)
        return place(targets, **kwargs)

    def deciding(keys: Collection[Key]) -> None:
        reported.append(list(keys))
        if keys:
            named.set()

    monkeypatch.setattr(world.scheduler.engine, "place_lone", slowly)
    writes = Recorded()
    await looped(world, writes, lambda _told: bool(writes.done), deciding)
    assert [(NS, "slow")] in reported
    assert reported[-1] == []
