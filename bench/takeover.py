"""The time from the lease to the first bind when a standby takes over, and the memory of a standby.

The real API server has nodes and pods without kubelets, so its collections are quiet: no event says that a
watch is current, which is the slowest case. The larger cluster is answered by `bench.paper`.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from bench import field, fleet, paper, rig
from bench.commands import PODIUM
from bench.eventloop import fake_server, kubeconfig
from bench.results import Row, Section, spread
from tests.support.servers import exclusive
from tools.devcluster.controlplane import process
from tools.devcluster.controlplane.releases import NEWEST

from podium.errors import PodiumError

REAL, STUB = (5_000, 50_000), (15_000, 150_000)
ROUNDS = 3
_PATIENCE_SECONDS = 300.0
# The standby has settled this long after it is ready, and would be told by a bookmark within a minute.
_SETTLE_SECONDS = 5.0
_NOTE = f"""
Two replicas; the leader is killed, or asked to end and releases its lease. A pod is created before the lease
is acquired, and the clock runs from the log line `leading` to the pod's bind. {REAL[0]:,} nodes and
{REAL[1]:,} pods in {REAL[1] // fleet.MEMBERS:,} groups are on Kubernetes {NEWEST.version}, and nothing else
changes there. {STUB[0]:,} nodes and {STUB[1]:,} lone pods are served by a stub, which answers at once and
sends bookmarks as a real server does. {ROUNDS} rounds each; memory is resident.
"""


class Bed(NamedTuple):
    """A filled cluster: its kubeconfig, `add` creates a pending pod, `binds` counts the pods bound so far."""

    kubeconfig: Path
    add: Callable[[str], None]
    binds: Callable[[], int]


class Replica:
    """A scheduler process, with its log."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._log = log
        argv = [
            PODIUM,
            "scheduler",
            f"--kubeconfig={kubeconfig}",
            "--lease=default/bench",
            "--metrics-port=0",
        ]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=stderr)

    def when(self, event: str) -> float:
        """Return the time of a log event, 0 while it has not been logged."""
        for line in self._log.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            if fields["event"] == event:
                return datetime.fromisoformat(fields["time"]).timestamp()
        return 0.0

    def until(self, event: str) -> float:
        """Return the time of a log event when it has been logged. Raises PodiumError."""
        _until(lambda: self.when(event) > 0, event)
        return self.when(event)

    def until_ready(self) -> None:
        """Wait until the process is ready."""
        self.until("serving")
        (port,) = (
            json.loads(line)["metrics_port"]
            for line in self._log.read_text(encoding="utf-8").splitlines()
            if '"metrics_port"' in line
        )

        def ready() -> bool:
            with contextlib.suppress(OSError):
                return bool(urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").status == 200)
            return False

        _until(ready, "ready")


def measure() -> Section:
    """Measure both sizes; takes about fifteen minutes."""
    rows: list[Row] = []
    for title, bed in (("API server", _real), ("stub", _stub)):
        with tempfile.TemporaryDirectory() as folder, bed(Path(folder)) as made:
            size = REAL if bed is _real else STUB
            rows += _rows(f"{size[0]:,} nodes, {size[1]:,} pods, {title}", made, Path(folder))
    return Section("Takeover by a standby", rows, _NOTE)


def _rows(title: str, bed: Bed, folder: Path) -> list[Row]:
    rows = []
    with contextlib.ExitStack() as stack:
        leader = _started(bed, folder / "first", stack)
        leader.until("scheduling")
        memory = []
        for name, sent in (("killed", signal.SIGKILL), ("released", signal.SIGTERM)):
            seconds = []
            for turn in range(ROUNDS):
                heir = _started(bed, folder / f"{name}-{turn}", stack)
                heir.until_ready()
                time.sleep(_SETTLE_SECONDS)
                memory.append(rig.resident(heir.process.pid))
                seconds.append(_taken(bed, leader, heir, sent, f"{name}-{turn}"))
                print(f"{title}, {name}: {seconds[-1]:.2f} s, {memory[-1]:.0f} MiB", file=sys.stderr)
                leader = heir
            rows.append(
                Row(f"{title}: leader {name}, from the lease to the first bind", spread(seconds, "s"))
            )
        rows.append(Row(f"{title}: memory of a standby", spread(memory, "MiB", 0)))
        peak = rig.resident(leader.process.pid, peak=True)
        rows.append(Row(f"{title}: peak memory of the leader", f"{peak:,.0f} MiB"))
    return rows


def _taken(bed: Bed, leader: Replica, heir: Replica, sent: signal.Signals, name: str) -> float:
    """End the leader; return the seconds from the heir's lease to its first bind."""
    leader.process.send_signal(sent)
    leader.process.wait()
    before = bed.binds()
    bed.add(name)
    _until(lambda: bed.binds() > before, "the first bind")
    bound = time.time()
    return bound - heir.until("leading")


def _started(bed: Bed, log: Path, stack: contextlib.ExitStack) -> Replica:
    replica = Replica(bed.kubeconfig, log)
    stack.callback(replica.process.wait)
    stack.callback(replica.process.kill)
    return replica


@contextlib.contextmanager
def _real(_folder: Path) -> Iterator[Bed]:
    """Yield a real server with nodes and pods in groups."""
    nodes, pods = REAL
    with exclusive(NEWEST) as server, fleet.roomy(server):
        fleet.filled(server, pods // fleet.MEMBERS)
        ground = field.Field(server, 0)
        room = {"cpu": "256", "memory": "4Ti", "nvidia.com/gpu": "16", "pods": "110"}
        documents = (
            {
                "metadata": {"name": f"node-{index:05d}"},
                "status": {"capacity": room, "allocatable": room},
            }
            for index in range(nodes)
        )
        ground.make("/api/v1/nodes", documents)
        names: list[str] = []

        def add(name: str) -> None:
            names.append(name)
            document = field.pod(name, "100m", field.LOW)
            document["spec"]["schedulerName"] = "podium-scheduler"
            field.made(server.request("POST", field.PODS, document))

        def binds() -> int:
            answers = (server.request("GET", f"{field.PODS}/{name}")[1] for name in names[-1:])
            return len(names) - 1 + sum("nodeName" in answer["spec"] for answer in answers) if names else 0

        yield Bed(server.kubeconfig, add, binds)


@contextlib.contextmanager
def _stub(folder: Path) -> Iterator[Bed]:
    """Yield a stub with nodes and lone pods."""
    with fake_server(*STUB) as url:

        def add(name: str) -> None:
            pod = {"apiVersion": "v1", "kind": "Pod", **paper.pod(name, {}, {"cpu": "1"})}
            _asked(f"{url}/add?resource=pods", json.dumps(pod).encode())

        def binds() -> int:
            return int(json.loads(_asked(f"{url}/writes")).get("binds", 0))

        yield Bed(Path(kubeconfig(url, folder)), add, binds)


def _until(reached: Callable[[], bool], description: str) -> None:
    if not process.wait_until(reached, seconds=_PATIENCE_SECONDS):
        raise PodiumError(f"not within {_PATIENCE_SECONDS:.0f} s: {description}")


def _asked(url: str, data: bytes | None = None) -> bytes:
    with urllib.request.urlopen(url, data) as answer:  # noqa: S310 - the stub's
        return bytes(answer.read())
