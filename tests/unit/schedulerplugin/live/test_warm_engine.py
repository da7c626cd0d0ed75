"""The engine of a process follows the cluster in a standby too, and is built again when it is out of step."""

import asyncio
import io
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
import structlog
from tests.support.connection.fake import RESOURCES, Fake, serving
from tests.support.informer.changing import Resource
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import node
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World, pod
from tests.support.waiting import PATIENCE_SECONDS

from podium.cluster.state import ClusterState
from podium.kube.cache import InformerCache
from podium.kube.discovery import Discovery
from podium.planner.framework import Plugin
from podium.planner.settings import LiveSettings
from podium.runtime.host import THIS_MACHINE, utc_now
from podium.runtime.manager import ManagerOptions
from podium.runtime.metrics import exposition, new_registry
from podium.runtime.worker import Worker
from podium.schedulerplugin.live import process, warmengine
from podium.schedulerplugin.live.metrics import SchedulerMetrics
from podium.schedulerplugin.live.settingsreload import SettingsSource
from podium.schedulerplugin.live.warmengine import DriftError, WarmEngine
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.scheduler import Scheduler


class Scene:
    """A warm engine of a world with two nodes and a pod, followed for some seconds."""

    def __init__(self) -> None:
        self.world = World(node("n1"), node("n2"), running("p", "n1"))
        self.engines: list[LiveEngine] = []
        self.minors: list[int] = []
        self.seconds = 0.0
        self.version = "v1.36.3"
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.registry = new_registry()
        self._actions: Mapping[int, Callable[[], None]] = {}
        self._end = 0.0
        self.warm = WarmEngine(
            cast("InformerCache", self),
            self._new,
            Worker(THIS_MACHINE.executor(), THIS_MACHINE.clock),
            SchedulerMetrics(self.registry),
            clock=lambda: self.seconds,
            now=utc_now,
            sleep=self._sleep,
            log_event=lambda what, fields: self.logged.append((what, dict(fields))),
        )

    @property
    def state(self) -> ClusterState:
        """The state that the engine follows."""
        return self.world.state

    @property
    def discovery(self) -> Discovery:
        """The version of the server."""
        return Discovery(self.version, [], {})

    async def ready(self) -> None:
        """Return at once: everything was read."""

    async def run(self, seconds: int, actions: Mapping[int, Callable[[], None]] | None = None) -> None:
        """Follow the state for so long; take `actions` at their seconds."""
        self._actions, self._end = actions or {}, seconds
        with suppress(asyncio.CancelledError):
            await self.warm.run()

    def corrupt(self) -> None:
        """Corrupt a node's used amount in the newest engine."""
        snapshot = self.engines[-1].snapshot
        snapshot.used[snapshot.resource["cpu"]][snapshot.row["n1"]] += 1

    def named(self, event: str) -> list[dict[str, Any]]:
        """Return the fields of each log event of a name."""
        return [fields for what, fields in self.logged if what == event]

    @property
    def differences(self) -> float:
        """Return the metric."""
        text = exposition(self.registry, "text/plain")[0].decode()
        (line,) = [each for each in text.splitlines() if each.startswith("podium_scheduler_cache_diff")]
        return float(line.rpartition(" ")[2])

    def _new(self, minor: int) -> LiveEngine:
        self.minors.append(minor)
        self.engines.append(LiveEngine(self.state, None, minor))
        return self.engines[-1]

    async def _sleep(self, seconds: float) -> None:
        assert seconds == 1.0
        self._actions.get(int(self.seconds), lambda: None)()
        await asyncio.sleep(0)
        if self.seconds >= self._end:
            raise asyncio.CancelledError
        self.seconds += seconds


async def test_a_standby_has_an_engine_that_follows_the_cluster() -> None:
    """Until it is built, /readyz says so. The units are known before a decision needs them."""
    scene = Scene()
    assert scene.warm.waits() == ["the engine is being built"]
    await scene.run(2, {1: lambda: scene.state.apply(running("q", "n2"))})
    assert scene.warm.waits() == []
    (engine,) = scene.engines
    assert await scene.warm.built() is engine
    row = engine.snapshot.pod_row[NS, "q"]
    assert engine.snapshot.node.item(row) == engine.snapshot.row["n2"]
    assert {units.lead.item(row) for units, _ in engine._units.values()} == {row}


async def test_arrays_that_are_right_are_no_news() -> None:
    """Arrays without differences are never reported, however often they are compared."""
    scene = Scene()
    await scene.run(20)
    assert (scene.logged, scene.differences) == ([], 0)


async def test_a_difference_is_logged_counted_and_ends_the_engine() -> None:
    """The log names the difference. A leader is told, and only the new engine follows the state."""
    scene, drifts = Scene(), list[asyncio.Task[None]]()
    await scene.run(
        20,
        {
            0: lambda: drifts.append(asyncio.create_task(scene.warm.until_drift())),
            1: scene.corrupt,
            19: lambda: scene.state.apply(running("q", "n2")),
        },
    )
    difference = {"differences": ["node n1: used cpu is 1001, expected 1000"], "rebuilds": True}
    assert scene.logged == [("cache differs: a bug", difference), ("building the engine again", {})]
    assert scene.differences == 1
    with pytest.raises(DriftError):
        await drifts[0]
    former, engine = scene.engines
    assert await scene.warm.built() is engine
    assert (NS, "q") in engine.snapshot.pod_row
    assert (NS, "q") not in former.snapshot.pod_row


async def test_a_bug_that_shows_again_does_not_keep_the_scheduler_from_scheduling() -> None:
    """The engine is built again every ten minutes at most; the log and the metric have every difference."""
    scene = Scene()
    await scene.run(650, {1: scene.corrupt, 10: scene.corrupt})
    rebuilds = [each["rebuilds"] for each in scene.named("cache differs: a bug")]
    assert len(scene.engines) == 3
    assert rebuilds[0] is rebuilds[-1] is True
    assert len(rebuilds) > 100
    assert not any(rebuilds[1:-1])
    assert scene.differences == len(rebuilds)


async def test_a_change_that_was_not_followed_is_a_difference() -> None:
    """An exception in an observer means that the arrays may have missed it."""
    scene = Scene()

    def fails(_before: object, _after: object) -> None:
        raise ZeroDivisionError("a bug")

    def observe() -> None:
        with pytest.raises(ZeroDivisionError):
            scene.warm.observing(fails)(None, None)

    await scene.run(3, {1: observe})
    (logged,) = scene.named("cache differs: a bug")
    assert logged["differences"] == ["a change of an object was not followed: ZeroDivisionError: a bug"]
    assert len(scene.engines) == 2


@pytest.mark.parametrize(("leads", "minors"), [(False, [36, 37]), (True, [36])], ids=["standby", "leader"])
async def test_a_standby_follows_an_upgrade_of_the_server(leads: bool, minors: list[int]) -> None:
    """The arithmetic of requests depends on the release. A leader keeps its engine, as it always did."""
    scene = Scene()

    def upgrade() -> None:
        scene.version = "v1.37.0"

    def lead() -> None:
        if leads:
            scene.warm.engage(scene.world.scheduler)

    await scene.run(5, {1: lead, 2: upgrade})
    assert scene.minors == minors


async def test_binds_in_flight_are_no_difference() -> None:
    """A scheduler's pod counts on its node before the API server shows it."""
    scene = Scene()
    scene.world.hold_binds = True

    def bind() -> None:
        (engine,) = scene.engines
        scene.world.scheduler = Scheduler(engine, scene.world.limits)
        scene.state.observe(scene.world.scheduler.apply)
        scene.warm.engage(scene.world.scheduler)
        scene.world.run(pod("q"))
        assert set(scene.world.scheduler.binding) == {(NS, "q")}

    await scene.run(20, {1: bind})
    assert scene.logged == []


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
    monkeypatch.setattr(warmengine, "_PAUSE_SECONDS", 0.001)
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


async def test_a_plugin_that_keeps_failing_is_logged_once() -> None:
    scene, faults = Scene(), {2: "it failed", 3: "it failed", 5: "it failed again"}

    def fault(_plugin: Plugin) -> str:
        return faults.get(int(scene.seconds), "")

    with mock.patch.object(Plugin, "fault", fault):
        await scene.run(7)
    assert scene.logged == [
        ("plugin keeps failing", {"error": "it failed"}),
        ("plugin keeps failing", {"error": "it failed again"}),
    ]
