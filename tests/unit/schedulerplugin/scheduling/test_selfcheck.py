"""A scheduler whose arrays differ from the cluster logs that and builds its engine again."""

import asyncio
import io
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.support.connection.fake import RESOURCES, Fake, serving
from tests.support.informer.changing import Resource
from tests.support.preemption.scene import node
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World
from tests.support.waiting import PATIENCE_SECONDS

from podium.runtime.manager import ManagerOptions
from podium.runtime.metrics import exposition, new_registry
from podium.runtime.worker import Worker
from podium.schedulerplugin.live import process, selfcheck
from podium.schedulerplugin.live.metrics import SchedulerMetrics
from podium.schedulerplugin.live.selfcheck import DriftError, SelfCheck
from podium.schedulerplugin.live.switch import SettingsSource
from podium.schedulerplugin.scheduling.scheduler import Scheduler
from podium.schedulerplugin.settings import LiveSettings


class Scene:
    """A self-check of a world with two nodes and a pod; it ends after some steps, or at the first bug."""

    def __init__(self) -> None:
        self.world = World(node("n1"), node("n2"), running("p", "n1"))
        self.seconds = 0.0
        self.logged: list[dict[str, Any]] = []
        self.registry = new_registry()
        self._steps = 0
        self.check = SelfCheck(
            Worker(),
            SchedulerMetrics(self.registry),
            clock=lambda: self.seconds,
            sleep=self._sleep,
            log_event=lambda _what, fields: self.logged.append(fields),
        )
        self.check.watch(self.world.scheduler)

    async def run(self, steps: int) -> bool:
        """Check this many times; return whether the engine must be built again."""
        self._steps = steps
        try:
            await self.check.run()
        except DriftError:
            return True
        except asyncio.CancelledError:
            return False
        raise AssertionError("it ended by itself")

    def corrupt(self) -> None:
        """Corrupt a node's used amount."""
        snapshot = self.world.scheduler.engine.snapshot
        snapshot.used[snapshot.resource["cpu"]][snapshot.row["n1"]] += 1

    @property
    def differences(self) -> float:
        """Return the metric."""
        text = exposition(self.registry, "text/plain")[0].decode()
        (line,) = [each for each in text.splitlines() if each.startswith("podium_scheduler_cache_diff")]
        return float(line.rpartition(" ")[2])

    async def _sleep(self, seconds: float) -> None:
        assert seconds == 1.0
        self.seconds += seconds
        if not self._steps:
            raise asyncio.CancelledError
        self._steps -= 1


async def test_arrays_that_are_right_are_no_news() -> None:
    """Arrays without differences are never reported, however often they are compared."""
    scene = Scene()
    assert not await scene.run(20)
    assert (scene.logged, scene.differences) == ([], 0)


async def test_a_difference_is_logged_counted_and_ends_the_engine() -> None:
    """The log names the difference."""
    scene = Scene()
    scene.corrupt()
    assert await scene.run(20)
    assert scene.logged == [{"differences": ["node n1: used cpu is 1001, expected 1000"], "rebuilds": True}]
    assert scene.differences == 1


async def test_a_bug_that_shows_again_does_not_keep_the_scheduler_from_scheduling() -> None:
    """The engine is built again every ten minutes at most; the log and the metric have every difference."""
    scene = Scene()
    scene.corrupt()
    assert await scene.run(20)
    scene.check.watch(scene.world.scheduler)
    assert not await scene.run(20)
    assert {each["rebuilds"] for each in scene.logged[1:]} == {False}
    scene.seconds += 600
    assert await scene.run(20)


async def test_a_change_that_was_not_followed_is_a_difference() -> None:
    """An exception in an observer means that the arrays may have missed it."""
    scene = Scene()

    def fails(_before: object, _after: object) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        scene.check.observing(fails)(None, None)
    assert await scene.run(1)
    (logged,) = scene.logged
    assert logged["differences"] == ["a change of an object was not followed: ZeroDivisionError: a bug"]


def _node(name: str, version: int) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": room, "capacity": room}}


async def test_a_process_builds_its_engine_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process continues, from a new list, with an engine that is in step."""
    fake, made, events = Fake(), list[Scheduler](), list[str]()
    resources = {f"{root}/{name}": Resource(10) for root, each in RESOURCES.items() for name, *_ in each}
    resources["/api/v1/nodes"] = Resource(10, _node("n1", 5))
    fake.answers.update({path: resource.answer for path, resource in resources.items()})
    logged = asyncio.Event()

    class Noted(Scheduler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    def log_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
        events.append(str(event["event"]))
        logged.set()
        return ""

    async def until(count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while events.count("scheduling") < count:
                logged.clear()
                await logged.wait()

    monkeypatch.setattr(process, "Scheduler", Noted)
    monkeypatch.setattr(selfcheck, "_PAUSE_SECONDS", 0.001)
    log = structlog.wrap_logger(structlog.PrintLogger(io.StringIO()), processors=[log_event])
    async with serving(fake):
        options = ManagerOptions(kubeconfig=fake.kubeconfig(tmp_path, namespace="team"), elects=False)
        task = asyncio.create_task(process.run(options, SettingsSource(LiveSettings), log))
        await until(1)
        snapshot = made[0].engine.snapshot
        snapshot.allocatable[snapshot.resource["cpu"]][snapshot.row["n1"]] = 1
        await until(2)
        snapshot = made[1].engine.snapshot
        assert snapshot.allocatable[snapshot.resource["cpu"]][snapshot.row["n1"]] == 4000
        await resources["/api/v1/nodes"].tell("ADDED", _node("n2", 11))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "n2" not in snapshot.row:  # noqa: ASYNC110 - no event is set
                await asyncio.sleep(0)
        assert "n2" not in made[0].engine.snapshot.row
        task.cancel()
        await asyncio.wait((task,))
