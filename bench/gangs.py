"""Preemption beside kube-scheduler: the same nodes, pods and groups, made on a real API server.

The peer plans inside its process and keeps the books of it, a histogram of what planning took without the
first try and without any write. Ours is handed the objects as the API server answered them, and plans with
the first try, on one core, from a fresh engine each time.
"""

import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
from bench import rig
from bench.following import answered, follow, following
from bench.kubescheduler import Scheduler, scheduling
from bench.results import Row, Section, spread
from tests.fixtures.servers import Server, exclusive

from podium.api.core import PriorityClass
from podium.api.membership import GroupKey
from podium.api.reads import READS
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.controlplane.client import Client
from podium.controlplane.releases import NEWEST
from podium.errors import PodiumError
from podium.schedulerplugin.preemption.outcome import Outcome, Plan
from podium.state import State

API = "scheduling.k8s.io/v1beta1"
# Members of one gang, and the factor by which ours is to be quicker.
GANGS = {100: 10, 400: 20, 1_000: 30}
LOW_GANGS = 5
LONE_NODES, LONE_PODS_A_NODE, LONE_PREEMPTORS = 1_000, 4, 200
ROUNDS = 3
# How many of the lone pods one preemptor needs gone.
EVICTED = 3
_WRITERS = 8
_NAMESPACE = "bench"
_LOW, _HIGH = "bench-low", "bench-high"
_NOTE = f"""
Kubernetes {NEWEST.version}: nodes of 4 cpus and nothing else, kube-scheduler on both processors,
Podium's engine in a Python process on one. Gangs: as in upstream's GangPreemptionPodGroups, {LOW_GANGS}
gangs of pods that ask for 600m, one of each gang on every node, and one gang of as many pods that ask
for 3500m. Lone pods: {LONE_PODS_A_NODE} pods of 900m on each node, and {LONE_PREEMPTORS} pods one after
another that ask for 3 cpus. kube-scheduler's figure is its own
`preemption_evaluation_duration_seconds`, the planning alone; Podium's is the decision, which tries to
place without preemption first, of an engine that has followed the cluster and sees such a pod for the
first time. Putting it into words is timed apart. {ROUNDS} rounds, after one that does not count.
"""


def measure() -> Section:
    """Measure it all; takes about ten minutes."""
    rows = []
    for size, factor in GANGS.items():
        with exclusive(NEWEST) as server, scheduling(server) as scheduler:
            rows += gang_rows(Field(server, scheduler, size), size, factor)
    with exclusive(NEWEST) as server, scheduling(server) as scheduler:
        rows += lone_rows(Field(server, scheduler, LONE_NODES))
    return Section("Preemption beside kube-scheduler", rows, _NOTE)


class Turn(NamedTuple):
    """Seconds of one plan by each, and of putting ours into words."""

    peer: float
    ours: float
    words: float


class Field:
    """Nodes on an API server that a kube-scheduler follows, and what is made on them."""

    def __init__(self, server: Server, scheduler: Scheduler, nodes: int) -> None:
        self._server = server
        self._scheduler = scheduler
        self._rounds = itertools.count()
        _made(server.request("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}}))
        classes = [
            {"metadata": {"name": name}, "value": value} for name, value in ((_LOW, 1), (_HIGH, 1_000))
        ]
        self._classes = self._make("/apis/scheduling.k8s.io/v1/priorityclasses", classes)
        room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
        documents = [
            {"metadata": {"name": f"node-{index}"}, "status": {"capacity": room, "allocatable": room}}
            for index in range(nodes)
        ]
        self._nodes = self._make("/api/v1/nodes", documents)
        scheduler.until_known("nodes", nodes)

    def gang_turn(self, size: int) -> Turn:
        """Let one gang preempt the others, by each."""
        turn = next(self._rounds)
        low = [f"low-{turn}-{index}" for index in range(LOW_GANGS)]
        groups = self._make_groups([_group(name, size, _LOW) for name in low])
        pods = self._make_pods(
            [
                _pod(f"{name}-{node}", "600m", _LOW, node=node, group=name)
                for name in low
                for node in range(size)
            ]
        )
        self._scheduler.until_known("pods", len(pods))
        # They are not tried before their group is there.
        high = f"high-{turn}"
        pods += self._make_pods(
            [_pod(f"{high}-{index}", "3500m", _HIGH, group=high) for index in range(size)]
        )
        before = self._scheduler.evaluations("podgroup")
        groups += self._make_groups([_group(high, size, _HIGH)])
        peer = self._scheduler.next_evaluation("podgroup", before)
        self._clear(pods)
        engine = following(self._state(pods, groups))
        with rig.on(rig.SERVER):
            ours = answered(engine, GroupKey(True, _NAMESPACE, high))
        _expect(ours.plan, LOW_GANGS * size)
        return Turn(peer, ours.decided, ours.worded)

    def lone_turn(self) -> Turn:
        """Let lone pods preempt one after another; gives means."""
        documents = [
            _pod(f"low-{node}-{index}", "900m", _LOW, node=node)
            for node in range(LONE_NODES)
            for index in range(LONE_PODS_A_NODE)
        ]
        pods = self._make_pods(documents)
        self._scheduler.until_known("pods", len(pods))
        before = self._scheduler.evaluations("pod")
        high = self._make_pods([_pod(f"high-{index}", "3", _HIGH) for index in range(LONE_PREEMPTORS)])
        peer = self._scheduler.next_evaluation("pod", before, LONE_PREEMPTORS)
        self._clear(pods + high)
        state = self._state(pods + high, [])
        engine = following(state)
        answers = []
        for preemptor in high:
            name = preemptor["metadata"]["name"]
            with rig.on(rig.SERVER):
                answers.append(answered(engine, (_NAMESPACE, name)))
            _expect(answers[-1].plan, EVICTED)
            follow(state, answers[-1].plan)
        decided, worded = sum(each.decided for each in answers), sum(each.worded for each in answers)
        return Turn(peer, decided / len(answers), worded / len(answers))

    def _make_groups(self, documents: list[Any]) -> list[Any]:
        return self._make(f"/apis/{API}/namespaces/{_NAMESPACE}/podgroups", documents)

    def _make_pods(self, documents: list[Any]) -> list[Any]:
        return self._make(f"/api/v1/namespaces/{_NAMESPACE}/pods", documents)

    def _make(self, path: str, documents: Iterable[Any]) -> list[Any]:
        """Create objects; gives them as they were stored, in some order."""
        return self._all(lambda client, document: _made(client.request("POST", path, document)), documents)

    def _clear(self, pods: list[Any]) -> None:
        """Take away these pods, the last ones first, as far as they are there; then there are none."""
        path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
        names = [pod["metadata"]["name"] for pod in reversed(pods)]
        self._all(lambda client, name: client.request("DELETE", f"{path}/{name}"), names)
        self._scheduler.until_known("pods", 0)

    def _all(self, ask: Callable[[Client, Any], Any], items: Iterable[Any]) -> list[Any]:
        """Ask something for every item, over a few connections at once."""
        # Lists, for a generator cannot be read by several threads.
        left = iter(list(items))

        def work(_: int) -> list[Any]:
            with closing(self._server.access.client()) as client:
                return [ask(client, item) for item in left]

        with ThreadPoolExecutor(_WRITERS) as pool:
            return [answer for share in pool.map(work, range(_WRITERS)) for answer in share]

    def _state(self, pods: list[Any], groups: list[Any]) -> State:
        state = State(native_served=True)
        read_group = READS[API, "PodGroup"]
        for each in groups:
            state.apply(read_group.neutral(msgspec.convert(each, read_group.type)))
        for each in self._classes:
            state.apply(msgspec.convert(each, PriorityClass))
        for each in self._nodes:
            state.apply(msgspec.convert(each, SchedulableNode))
        for each in pods:
            state.apply(msgspec.convert(each, Schedulable))
        return state


def gang_rows(field: Field, size: int, factor: int) -> list[Row]:
    """Give the rows of gangs of one size."""
    turns = [field.gang_turn(size) for _ in range(ROUNDS + 1)][1:]
    return compared(f"gang of {size:,} over {LOW_GANGS} gangs, {size:,} nodes", turns, f"; target {factor} x")


def lone_rows(field: Field) -> list[Row]:
    """Give the rows of lone pods."""
    what = f"lone pod, {LONE_NODES:,} nodes, {LONE_NODES * LONE_PODS_A_NODE:,} pods, mean"
    return compared(what, [field.lone_turn() for _ in range(ROUNDS + 1)][1:])


def compared(what: str, turns: list[Turn], target: str = "") -> list[Row]:
    """Give both figures and how many times quicker ours is."""
    ratios = [turn.peer / turn.ours for turn in turns]
    return [
        Row(f"{what}, kube-scheduler", spread([turn.peer * 1e3 for turn in turns], "ms", 1)),
        Row(f"{what}, Podium", spread([turn.ours * 1e3 for turn in turns], "ms", 1)),
        Row("its explanation", spread([turn.words * 1e3 for turn in turns], "ms", 1)),
        Row(f"{what}, kube-scheduler / Podium, round by round{target}", spread(ratios, "x", 1)),
    ]


def _expect(plan: Plan, victims: int) -> None:
    """Check that a plan evicts so many pods, as kube-scheduler's must, or nothing is compared."""
    found = sum(len(unit.pods) for unit in plan.victims)
    if plan.outcome is not Outcome.FITS_AFTER_PREEMPTION or found != victims:
        raise PodiumError(f"{found} victims, not {victims}: {plan.outcome}, {plan.message}")


def _group(name: str, size: int, class_name: str) -> Any:
    gang = {"gang": {"minCount": size}}
    spec = {"schedulingPolicy": gang, "disruptionMode": {"all": {}}, "priorityClassName": class_name}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def _pod(name: str, cpu: str, class_name: str, *, node: int | None = None, group: str = "") -> Any:
    resources = {"requests": {"cpu": cpu, "memory": "100Mi"}}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "priorityClassName": class_name,
        "terminationGracePeriodSeconds": 0,
    }
    if node is not None:
        spec["nodeName"] = f"node-{node}"
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"metadata": {"name": name}, "spec": spec}


def _made(answer: tuple[int, Any]) -> Any:
    code, document = answer
    if code not in (200, 201):
        raise PodiumError(f"HTTP {code}: {document}")
    return document
