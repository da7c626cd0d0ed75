"""Pods a second compared with kube-scheduler on the same API server: upstream's workloads, in turns.

The objects exist before the scheduler starts, and each turn has a new scheduler. The clock runs from the
first change of a pod until the last pod is bound, both as a watch receives it. So neither the start of a
process nor its first list counts. A gang's PodGroup comes last, when the scheduler is ready: a gang's clock
runs from there, and planning counts. `python -m bench.throughput NAME ... [SIDE ...]` prints the turns of
some workloads, of all sides or of some (kube_scheduler, podium, bare).
"""

import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from bench import rig
from bench.barewrites import Place, Step, Victim
from bench.field import LOW, Field, pod
from bench.heard import Heard
from bench.kubescheduler import PEER, scheduling
from bench.livescheduler import podium_scheduling
from bench.results import Row, Section, spread
from bench.workloads import DEVICE_CLAIMS, LONE_PODS_A_NODE, LOW_GANGS, SHAPES, Shape, Workload
from tests.support.servers import TOPOLOGY, Server, exclusive
from tests.support.volumes.controllers import volume_controller

from podium.documents import files
from podium.errors import PodiumError

# The bench gives up on pending pods after this many seconds without a change.
PATIENCE_SECONDS = 90.0
MEMORY_NODES, MEMORY_PODS, MEMORY_MORE = 5_000, 50_000, 1_000
_NOTE = f"""
Kubernetes {PEER.version}, nodes of 4 cpus, no kubelet and no controller; every pod has a grace period of 0.
API server, etcd and the scheduler under test share all processors; kube-scheduler may ask 5,000 times a
second. The pods, of 100m, are there before a scheduler starts. The clock runs from the first change to a pod
that a watch hears to the last pod bound. The bare loop is one Python process that writes, by Podium's own
code, what Podium's scheduler must, every decision known beforehand, and no events. Stuck: pods were left
pending, nothing having happened for {PATIENCE_SECONDS:.0f} s; the rate is then that of the bound ones.
Three rounds, of the gang of 100 seven; kube-scheduler, Podium and the bare loop in turns.
"""
_AS_ABOVE = f"Kubernetes {PEER.version}, otherwise as above"


class Turn(NamedTuple):
    """The result of a turn: pods bound, pending and deleted, seconds, processor seconds with the start."""

    bound: int
    pending: int
    gone: int
    seconds: float
    busy: float

    @property
    def rate(self) -> float:
        """Return the pods bound per second."""
        return self.bound / self.seconds

    def __str__(self) -> str:
        text = f"{self.rate:,.1f} pods/s, {self.gone} gone, {self.busy:.1f} s of processor"
        return f"{text}; stuck, {self.pending} pending" if self.pending else text


class Contest:
    """A server with nodes, on which schedulers take turns."""

    def __init__(self, server: Server, nodes: int, rack: int = 0) -> None:
        self._server = server
        self._gates = (TOPOLOGY,) if rack else ()
        self._field = Field(server, nodes, rack)
        # Podium also records its evictions.
        records = files.folder("manifests") / "crds" / "preemptionrecords.scheduling.podium.dev.yaml"
        server.kubectl("apply", f"--filename={records}")
        # A server needs a second for the first list of a new kind, and answers 429 until then.
        server.kubectl("get", "preemptionrecords.scheduling.podium.dev")
        self._serials = itertools.count()

    def kube_scheduler(self, shape: Shape) -> Turn:
        """Run a round of kube-scheduler."""

        @contextlib.contextmanager
        def run(workload: Workload) -> Iterator[int]:
            with scheduling(self._server, *self._gates) as scheduler:
                if workload.last:
                    scheduler.until_known("nodes", workload.nodes)
                    scheduler.until_known("pods", len(workload.standing))
                yield scheduler.pid

        return self._turn(shape.make(next(self._serials)), "default-scheduler", run)

    def podium(self, shape: Shape) -> Turn:
        """Run a round of Podium."""
        return self._turn(
            shape.make(next(self._serials)), "podium-scheduler", lambda _: podium_scheduling(self._server)
        )

    def bare(self, shape: Shape) -> Turn:
        """Run a round of the bare writes."""
        workload = shape.make(next(self._serials))._replace(last=[])
        uids = self._laid_out(workload, "none")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "steps.json"
            path.write_bytes(msgspec.json.encode([_step(*step, uids) for step in workload.steps]))
            argv = [sys.executable, "-m", "bench.barewrites", str(self._server.kubeconfig), str(path)]
            with _listening(self._server, workload) as heard, subprocess.Popen(argv) as running:
                heard.until_bound(PATIENCE_SECONDS)
                busy = rig.processor_seconds(running.pid)
            if running.returncode:
                raise PodiumError(f"bench.barewrites ended with {running.returncode}")
        self._field.delete_pods(uids)
        return _turn(workload, heard, heard.first, busy)

    def resident(self) -> tuple[float, float]:
        """Return the MiB of Podium's scheduler on a large cluster: after some binds, and the maximum."""
        more = [f"more-{index}" for index in range(MEMORY_MORE)]
        standing = [
            pod(f"pod-{index}", "100m", LOW, node=index % MEMORY_NODES) for index in range(MEMORY_PODS)
        ]
        workload = Workload(MEMORY_NODES, standing, [], [pod(name, "100m", LOW) for name in more], [], [])
        self._laid_out(workload, "podium-scheduler")
        with _listening(self._server, workload) as heard, podium_scheduling(self._server) as pid:
            heard.until_bound(PATIENCE_SECONDS)
            if len(heard.bound) < MEMORY_MORE:
                raise PodiumError(f"{len(heard.bound)} of {MEMORY_MORE} pods were bound")
            return rig.resident(pid), rig.resident(pid, peak=True)

    def _turn(
        self, workload: Workload, name: str, run: Callable[[Workload], contextlib.AbstractContextManager[int]]
    ) -> Turn:
        uids = self._laid_out(workload, name)
        binding = volume_controller(self._server) if workload.binds else contextlib.nullcontext()
        with binding, _listening(self._server, workload) as heard, run(workload) as pid:
            before, began = rig.processor_seconds(pid), time.perf_counter()
            if workload.last:
                self._make_groups(workload, workload.last)
            heard.until_bound(PATIENCE_SECONDS)
            busy = rig.processor_seconds(pid) - (before if workload.last else 0)
        self._field.delete_pods(uids)
        self._field.delete_claims(DEVICE_CLAIMS)
        return _turn(workload, heard, began if workload.last else heard.first, busy)

    def _laid_out(self, workload: Workload, scheduler: str) -> dict[str, str]:
        """Create all objects of a workload but the last groups; return UIDs of pods by name."""
        # The bound pods too: Podium evicts no pods of another scheduler.
        for manifest in (*workload.standing, *workload.wanted):
            manifest["spec"]["schedulerName"] = scheduler
        self._make_groups(workload, workload.groups)
        self._field.ensure(workload.storage)
        if workload.binds:
            self._field.make_available()
        pods = self._field.make_pods(workload.standing) + self._field.make_pods(workload.wanted)
        return {stored["metadata"]["name"]: stored["metadata"]["uid"] for stored in pods}

    def _make_groups(self, workload: Workload, groups: list[Any]) -> None:
        stored = self._field.make_groups(groups)
        if workload.rack and not all("schedulingConstraints" in group["spec"] for group in stored):
            raise PodiumError("the API server dropped the constraint of a group")


def _listening(server: Server, workload: Workload) -> contextlib.AbstractContextManager[Heard]:
    return Heard.listening(server, [manifest["metadata"]["name"] for manifest in workload.wanted])


def _turn(workload: Workload, heard: Heard, began: float, busy: float) -> Turn:
    if not heard.bound:
        raise PodiumError("no pod was bound")
    pending = len(workload.wanted) - len(heard.bound)
    return Turn(len(heard.bound), pending, heard.gone, max(heard.bound.values()) - began, busy)


def _step(places: list[tuple[str, str]], victims: list[str], uids: dict[str, str]) -> Step:
    return Step(
        [Place(name, uids[name], node) for name, node in places],
        [Victim(name, uids[name]) for name in victims],
    )


_SUBJECTS: tuple[Callable[[Contest, Shape], Turn], ...] = (
    Contest.kube_scheduler,
    Contest.podium,
    Contest.bare,
)


def scheduling_basic() -> Section:
    """Measure SchedulingBasic, and the memory for a large cluster; takes about ten minutes."""
    rows = _rows("basic-1000", "numbered-1000", "basic-5000", "volumes-5000")
    with exclusive(PEER) as server:
        now, peak = Contest(server, MEMORY_NODES).resident()
    label = (
        f"Podium's resident memory, {MEMORY_NODES:,} nodes, {MEMORY_PODS:,} pods, {MEMORY_MORE:,} more bound"
    )
    rows.append(Row(f"{label}; target under 500 MiB", f"{now:,.0f} MiB, at most {peak:,.0f} MiB"))
    return Section("Pods a second beside kube-scheduler", rows, _NOTE)


def preemption_basic() -> Section:
    """Measure PreemptionBasic; takes about ten minutes, and more if kube-scheduler hangs."""
    note = f"""
{_AS_ABOVE}: {LONE_PODS_A_NODE} pods of 900m on each node, and as many that ask for 3 cpus as nodes.
"""
    rows = _rows("lone-200", "numbered-200", "lone-1000")
    return Section("Preemptors a second beside kube-scheduler", rows, note)


def gangs() -> Section:
    """Measure gangs that preempt gangs; takes about fifteen minutes."""
    note = f"""
{_AS_ABOVE}: {LOW_GANGS} gangs of pods that ask for 600m, one of each gang on every node,
and one gang as large whose pods ask for 3500m; all are evicted whole (mode all). The gang's PodGroup is the
last object to come, and the clock runs from its creation, so that planning counts.
"""
    rows = _rows("gang-100", "gang-400", "numbered-400", "gang-1000")
    return Section("Gangs that preempt beside kube-scheduler", rows, note)


def racks() -> Section:
    """Measure gangs with a topology constraint; takes about twelve minutes."""
    note = f"""
{_AS_ABOVE}, on free nodes. The groups of 4 exist before their pods, and those of
1,000 come last: the clock runs from their creation. Each gang requires one rack of 100 nodes, of which there
are 50. API server and kube-scheduler have the gates GenericWorkload and TopologyAwareWorkloadScheduling. A
rack takes one gang of 1,000 pods of 300m.
"""
    return Section("Gangs in racks beside kube-scheduler", _rows("racks-4", "racks-1000"), note)


def claims() -> Section:
    """Measure pods whose claims the scheduler writes before their bind; takes about five minutes."""
    note = f"""
{_AS_ABOVE}, kube-scheduler and Podium in turns. Claims for volumes are bound by the volume controller of
Kubernetes, and both schedulers wait for it. For devices, each pod has a label and a claim of its own. There
are 4,000 devices. A scheduler writes each claim twice before it binds the pod: finalizer, then device.
"""
    rows = _rows("delayed-200", "devices-500", bare=False)
    return Section("Pods with claims beside kube-scheduler", rows, note)


def _rows(*names: str, bare: bool = True) -> list[Row]:
    subjects = _SUBJECTS if bare else _SUBJECTS[:2]
    return [row for name in names for row in _compared(SHAPES[name], _turns(SHAPES[name], subjects))]


def _turns(shape: Shape, subjects: Iterable[Callable[[Contest, Shape], Turn]]) -> dict[str, list[Turn]]:
    """Run the turns of each, on a server of their own."""
    turns: dict[str, list[Turn]] = {}
    first = shape.make(0)
    # Without the gate, the API server drops the constraint.
    gates = (f"--feature-gates={TOPOLOGY}",) if first.rack else ()
    with exclusive(PEER, apiserver=gates) as server:
        contest = Contest(server, first.nodes, first.rack)
        for _ in range(shape.rounds):
            for subject in subjects:
                turn = subject(contest, shape)
                turns.setdefault(subject.__name__, []).append(turn)
                print(f"{shape.title}, {subject.__name__}: {turn}", file=sys.stderr)
    return turns


def _compared(shape: Shape, turns: dict[str, list[Turn]]) -> list[Row]:
    peer, ours, bare = turns["kube_scheduler"], turns["podium"], turns.get("bare")
    times = [mine.rate / theirs.rate for mine, theirs in zip(ours, peer, strict=True)]
    rows = [
        Row(f"{shape.title}, kube-scheduler", _rates(peer)),
        Row(f"{shape.title}, Podium", _rates(ours)),
        Row(
            f"{shape.title}, Podium / kube-scheduler, round by round; target {shape.target:g} x",
            spread(times, "x", 1),
        ),
    ]
    if bare is not None:
        shares = [100 * mine.rate / loop.rate for mine, loop in zip(ours, bare, strict=True)]
        label = f"{shape.title}, bare loop; Podium's share of it"
        rows.append(Row(label, f"{_rates(bare)}; {statistics.median(shares):.0f} %"))
    return rows


def _rates(turns: list[Turn]) -> str:
    stuck = [str(turn.pending) for turn in turns if turn.pending]
    text = spread([turn.rate for turn in turns], "pods/s", 0)
    return f"{text}; stuck in {len(stuck)} of {len(turns)} rounds, {', '.join(stuck)} left" if stuck else text


if __name__ == "__main__":
    chosen = [subject for subject in _SUBJECTS if subject.__name__ in sys.argv[1:]] or _SUBJECTS
    try:
        for name in sys.argv[1:]:
            if name in SHAPES:
                _turns(SHAPES[name], chosen)
    except PodiumError as error:
        sys.exit(str(error))
