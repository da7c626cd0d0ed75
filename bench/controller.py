"""The reconciler in a large cluster: from its start to every condition true, under a storm, and idle.

Two peers take turns with it on the same server: the list alone, and its necessary writes alone. No processor
is reserved: this is a small cluster as it is, with the API server on the same machine.
"""

import asyncio
import contextlib
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvloop
from bench import rig
from bench.bare import GROUPS as GROUPS_PATH
from bench.fleet import DIVERGENT_EVERY, MEMBERS, Fleet, filled, roomy
from bench.results import ROUNDS, Row, Section, quantile, spread
from bench.storm import FLIP_EVERY, RATE, Seen, Storm, Weather, groups_seen, pods_seen
from tests.support.servers import exclusive
from tools.devcluster.controlplane.releases import NEWEST

from podium.controllers.conditions import OURS
from podium.controllers.manager import Rules
from podium.errors import PodiumError
from podium.kube.connection import Connection, connect

GROUPS = 10_000
# Rounds of start, list and bare writes, after a warm-up round: each takes more than a minute.
STARTS = 3
STORM_SECONDS = 10.0
IDLE_SECONDS = 30.0
_CALM_SECONDS = 120.0
_GLANCE_SECONDS = 0.5
# The time in which a new leader checks every group.
_REST_SECONDS = 15.0
_PODIUM = str(Path(sys.executable).with_name("podium"))
_LEASE = "podium-controller"
# The metric of writes that an API server has answered, with the labels resource and verb.
_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'\b(resource|verb)="([^"]*)"')
_READS = ("GET", "LIST", "WATCH", "CONNECT")
_SHARE = f"{GROUPS:,} with {MEMBERS} pods each, {GROUPS // DIVERGENT_EVERY:,} of them divergent"
_NOTE = f"""
Kubernetes {NEWEST.version}, native groups: {_SHARE}. API server, etcd and
load share the machine with the reconciler. Start, {STARTS} rounds: from the start of the process, which has
yet to become the leader, until a watch has seen every condition. The list alone reads what the reconciler
reads and keeps the same of it; the bare loop applies the same conditions, {Rules().writers} at a time, and
knows before what to write. Storm: {RATE} changes of pods a second at random times (Poisson), one in
{FLIP_EVERY} flips a group. A pod's event is what a watch of pods hears; between that and etcd's answer to the
write is the API server's own delay. It runs with GOGC=400 and GOMEMLIMIT=10GiB:
at the usual 100 the collection of a heap of gigabytes takes both processors for seconds. The storm's pods are
changed in etcd, for 500 writes a second are more than an API server does on two processors.
"""


class Turn(NamedTuple):
    """Seconds of one round: the process until its last condition, the list alone, the bare writes.

    The list has two values: with the start of its process, and without.
    """

    start: float
    reader: float
    listing: float
    bare: float

    def share(self, listing: float) -> float:
        """Return the start as a share of its limit."""
        return self.start / (listing + 1.5 * self.bare)


def measure() -> Section:
    """Measure all cases; takes about ten minutes."""
    with exclusive(NEWEST) as server, roomy(server):
        return uvloop.run(measured(filled(server, GROUPS)))


async def measured(fleet: Fleet) -> Section:
    """Measure with a fleet."""
    async with connect(str(fleet.server.kubeconfig), None) as connection:
        with tempfile.TemporaryDirectory() as folder:
            bench = _Bench(fleet, Path(folder), connection)
            async with _following(bench.seen):
                turns = [await bench.turn() for _ in range(STARTS + 1)][1:]
                rows = [*_starts(turns), *await bench.service()]
    return Section("Reconciler", rows, _NOTE)


@contextlib.asynccontextmanager
async def _following(seen: Seen[Any]) -> AsyncIterator[None]:
    watching = asyncio.create_task(seen.follow())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


class _Bench:
    """The jobs that are timed on one fleet."""

    def __init__(self, fleet: Fleet, folder: Path, connection: Connection) -> None:
        self._fleet = fleet
        self._kubeconfig = str(fleet.server.kubeconfig)
        self._folder = folder
        self._connection = connection
        self.seen = groups_seen(connection)

    async def turn(self) -> Turn:
        """Time each job once; remove the conditions after each."""
        async with self._controller() as (_, began):
            await self._all_told()
            start = time.perf_counter() - began
        conditions = await self._conditions()
        written = self._file("written", conditions)
        none = self._file("none", {name: [] for name in conditions})
        await self._reset(none)
        reader, listing = await self._bare("list")
        _, bare = await self._bare("apply", written)
        await self._all_told()
        await self._reset(none)
        return Turn(start, reader, listing, bare)

    async def service(self) -> list[Row]:
        """Return the figures of a process in a storm, and of a later process that finds no change."""
        pods = pods_seen(self._connection)
        async with _following(pods), self._controller() as (pid, _):
            await self._all_told()
            storm = Storm(self._fleet, self.seen, pods)
            before, began = rig.processor_seconds(pid), time.perf_counter()
            weathers = [await storm.blow(STORM_SECONDS) for _ in range(ROUNDS + 1)][1:]
            busy = (rig.processor_seconds(pid) - before) / (time.perf_counter() - began)
            memory = rig.resident(pid)
        async with self._controller():
            await self._calm()
            writes = await self._idle()
        return [
            *_storms(weathers),
            Row("storm, the reconciler's processor", f"{busy * 100:.0f} % of one"),
            Row("storm, resident memory at its end", f"{memory:,.0f} MiB"),
            Row(f"at rest for {IDLE_SECONDS:.0f} s, writes to Leases", str(writes.pop("leases", 0))),
            Row(f"at rest for {IDLE_SECONDS:.0f} s, other writes", str(writes.total())),
        ]

    @contextlib.asynccontextmanager
    async def _controller(self) -> AsyncIterator[tuple[int, float]]:
        """Run `podium controller`; yield its process id and start time.

        It must exit with 0.
        """
        argv = [_PODIUM, "controller", f"--kubeconfig={self._kubeconfig}", "--metrics-port=0"]
        path = self._folder / "controller.log"
        with path.open("wb") as log:
            began = time.perf_counter()
            process = await asyncio.create_subprocess_exec(*argv, f"--lease=default/{_LEASE}", stderr=log)
        try:
            yield process.pid, began
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if code:
            raise PodiumError(f"the controller ended with {code}: {_last_line(path)}")

    async def _bare(self, work: str, *files: Path) -> tuple[float, float]:
        """Run one of the peers; return seconds from its start to the end of its work, and of the work."""
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.bare", work, self._kubeconfig, *map(str, files)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        line = await process.stdout.readline()
        whole = time.perf_counter() - began
        if await process.wait():
            raise PodiumError(f"bench.bare {work} ended with {process.returncode}")
        return whole, float(line)

    def _file(self, name: str, conditions: dict[str, list[Any]]) -> Path:
        path = self._folder / f"{name}.json"
        path.write_bytes(msgspec.json.encode(conditions))
        return path

    async def _all_told(self) -> None:
        """Wait until every divergent group has its condition."""
        await self.seen.until(
            lambda: self.seen.count("True") == len(self._fleet.divergent), "every condition"
        )

    async def _reset(self, none: Path) -> None:
        """Remove all our conditions."""
        await self._bare("apply", none)
        await self.seen.until(lambda: self.seen.count("") == self._fleet.groups, "no conditions")

    async def _conditions(self) -> dict[str, list[Any]]:
        """Return the conditions that the reconciler wrote, by group."""
        stored = msgspec.json.decode(await self._connection.get(GROUPS_PATH))["items"]
        by_group = {}
        for group in stored:
            conditions = group.get("status", {}).get("conditions", ())
            ours = [condition for condition in conditions if condition["type"] in OURS]
            if ours:
                by_group[f"{group['metadata']['namespace']}/{group['metadata']['name']}"] = ours
        return by_group

    async def _calm(self) -> None:
        """Wait until a process leads, and until it has checked every group."""
        lease = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{_LEASE}"
        deadline = time.perf_counter() + _CALM_SECONDS
        while not msgspec.json.decode(await self._connection.get(lease))["spec"].get("holderIdentity"):
            if time.perf_counter() > deadline:
                raise PodiumError(f"waited {_CALM_SECONDS:.0f} s for the controller to lead")
            await asyncio.sleep(_GLANCE_SECONDS)
        await asyncio.sleep(_REST_SECONDS)

    async def _idle(self) -> Counter[str]:
        """Return the writes of an idle cluster by resource; the API server's own Lease is among them."""
        before = await self._writes()
        await asyncio.sleep(IDLE_SECONDS)
        return await self._writes() - before

    async def _writes(self) -> Counter[str]:
        """Return the number of writes that the API server has answered, by resource."""
        writes: Counter[str] = Counter()
        for labels, value in _REQUESTS.findall((await self._connection.get("/metrics")).decode()):
            label = dict(_LABEL.findall(labels))
            if label["verb"] not in _READS:
                writes[label["resource"]] += int(float(value))
        return writes


def _starts(turns: list[Turn]) -> list[Row]:
    shares = [turn.share(turn.reader) for turn in turns]
    strict = [turn.share(turn.listing) for turn in turns]
    return [
        Row("start of the process to every condition", spread([turn.start for turn in turns], "s")),
        Row("the list alone, start of a process included", spread([turn.reader for turn in turns], "s")),
        Row("the list alone", spread([turn.listing for turn in turns], "s")),
        Row("bare loop of the same applies", spread([turn.bare for turn in turns], "s")),
        Row("start / (list in a process + 1.5 x bare loop), round by round", spread(shares, "x")),
        Row("start / (list + 1.5 x bare loop), round by round", spread(strict, "x")),
    ]


def _storms(weathers: list[Weather]) -> list[Row]:
    rows = [Row("storm, changes of pods", spread([weather.rate for weather in weathers], "a second", 0))]
    for share in (0.5, 0.99):
        for text, delays in (
            ("pod's event to condition", [weather.delays for weather in weathers]),
            ("pod stored to condition", [weather.whole for weather in weathers]),
        ):
            times = [quantile(series, share) * 1e3 for series in delays]
            rows.append(Row(f"storm, {text}, p{share * 100:.0f}", spread(times, "ms", 0)))
    return rows


def _last_line(path: Path) -> str:
    return (path.read_text(encoding="utf-8").splitlines() or ["it wrote nothing"])[-1]
