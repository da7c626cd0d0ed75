"""The times the scheduler's event loop is blocked: in the first list, at the takeover, in large decisions.

That loop renews the lease, answers probes and reads watches. A task that sleeps for a millisecond records its
delays. The API server is a fake, in a process of its own.
"""

import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import structlog
import uvloop
from bench.paper import POD_INDEX, pod
from bench.results import Row, Section
from bench.rig import REST

from podium.planner.settings import LiveSettings
from podium.runtime.manager import ManagerOptions
from podium.schedulerplugin.live import process
from podium.schedulerplugin.live.settingsreload import SettingsSource

NODES, PODS, GANG = 5_000, 120_000, 300
APART, NAMED = 20, 500
_BEAT_SECONDS = 0.001
_PATIENCE_SECONDS = 300.0
_HOST = "kubernetes.io/hostname"


class Beat:
    """The longest delay of the task since `restart`."""

    def __init__(self) -> None:
        self.longest = 0.0

    def restart(self) -> float:
        """Return the longest delay so far, in seconds, and reset it."""
        longest, self.longest = self.longest, 0.0
        return longest

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began = perf_counter()
            await asyncio.sleep(_BEAT_SECONDS)
            self.longest = max(self.longest, perf_counter() - began - _BEAT_SECONDS)


class Log:
    """The log events of the process, for tasks that wait for them."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.events: list[str] = []

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
        """Record an event, as structlog's last processor."""
        self.events.append(str(event["event"]))
        self.changed.set()
        return ""

    async def until(self, event: str) -> None:
        """Wait for its next log event."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while event not in self.events:
                self.changed.clear()
                await self.changed.wait()


def measure() -> Section:
    """Time one scheduler from its start to a gang that needs a preemption."""
    rows = uvloop.run(_measured())
    note = (
        f"{NODES:,} nodes, {PODS:,} pods of one distinct label each. The gang has {GANG} pods, one a node "
        f"(required anti-affinity on {_HOST}), and must preempt."
    )
    return Section("Event loop of the scheduler: longest time without a turn", rows, note)


async def _measured() -> list[Row]:
    beat, log, rows = Beat(), Log(), []

    def note(label: str) -> None:
        rows.append(Row(label, f"{beat.restart() * 1000:,.0f} ms"))

    with fake_server(NODES, PODS) as url, tempfile.TemporaryDirectory() as folder:
        logger = structlog.wrap_logger(structlog.PrintLogger(io.StringIO()), processors=[log])
        options = ManagerOptions(kubeconfig=kubeconfig(url, Path(folder)), lease=("team", "podium-scheduler"))
        async with _beside(process.run(options, SettingsSource(LiveSettings), logger), beat.run()):
            await log.until("leading")
            note("the first lists")
            await log.until("scheduling")
            note("taking over: lists again, and the engine")
            async with aiohttp.ClientSession(url) as session:
                await _add_apart(session)
                await _until(session, "POST", APART)
                note(f"{APART} pods whose anti-affinity names {NAMED} labels each, to the last bind")
                await _add_gang(session)
                await _until(session, "DELETE", 1)
            note(f"a gang of {GANG} that preempts, to the first delete")
    return rows


@contextmanager
def fake_server(nodes: int, pods: int) -> Iterator[str]:
    """Run the API server on a processor of its own; yield its URL."""
    line = [sys.executable, "-m", "bench.paper", str(nodes), str(pods)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        os.sched_setaffinity(server.pid, {REST})
        yield server.stdout.readline().strip()
        server.stdin.close()


def kubeconfig(url: str, folder: Path) -> str:
    """Write a kubeconfig for the API server; return its path."""
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "paper",
        "clusters": [{"name": "paper", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": "paper", "context": {"cluster": "paper", "user": "me", "namespace": "team"}}],
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a task while the block runs; its failure ends the block."""
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(coroutine) for coroutine in work]
        yield
        for task in begun:
            task.cancel()


async def _until(session: aiohttp.ClientSession, method: str, count: int) -> None:
    """Return when the server has had so many requests of a method."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while (await (await session.get("/writes")).json()).get(method, 0) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _add_apart(session: aiohttp.ClientSession) -> None:
    """Create pods with terms that distinguish other pods of the cluster."""
    for at in range(APART):
        values = [str(number) for number in range(at * NAMED, (at + 1) * NAMED)]
        named = {"key": POD_INDEX, "operator": "In", "values": values}
        affinity = _apart({"matchExpressions": [named]})
        await _send_pods(session, [pod(f"apart-{at}", {}, {"cpu": "1"}, affinity=affinity)])


def _apart(selector: dict[str, Any]) -> dict[str, Any]:
    """Return the anti-affinity of a pod to pods of a selector on its node."""
    term = {"topologyKey": _HOST, "labelSelector": selector}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


async def _send_pods(session: aiohttp.ClientSession, pods: Iterable[dict[str, Any]]) -> None:
    await _send(session, "pods", ({"apiVersion": "v1", "kind": "Pod", **manifest} for manifest in pods))


async def _send(session: aiohttp.ClientSession, resource: str, documents: Iterable[Any]) -> None:
    await session.post("/add", params={"resource": resource}, data="\n".join(map(json.dumps, documents)))


async def _add_gang(session: aiohttp.ClientSession) -> None:
    """Create the gang and its pods."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "team", "uid": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": GANG}}, "priority": 1000},
    }
    await _send(session, "podgroups", [group])
    affinity = _apart({"matchLabels": {"job": "train"}})
    members = (
        pod(
            f"train-{at}",
            {"job": "train", "batch.kubernetes.io/job-completion-index": str(at)},
            {"cpu": "90"},
            affinity=affinity,
            priority=1000,
            schedulingGroup={"podGroupName": "train"},
        )
        for at in range(GANG)
    )
    await _send_pods(session, members)
