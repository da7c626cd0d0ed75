"""Preemption compared with kube-scheduler: the same nodes, pods and groups, on a real API server.

The peer plans inside its process and has a histogram of the planning time, without the first attempt and
without any write. Ours gets the objects as the API server answered them, and plans including the first
attempt, on one core, from a new engine each time.
"""

import itertools
from typing import Any, NamedTuple

import msgspec
from bench import rig
from bench.field import API, HIGH, LOW, NAMESPACE, Field, group, pod
from bench.following import answered, follow, following
from bench.kubescheduler import PEER, Scheduler, scheduling
from bench.results import Row, Section, spread
from bench.workloads import GANG_TARGET, LOW_GANGS
from tests.support.servers import exclusive

from podium.api.core import PriorityClass
from podium.api.membership import GroupKey
from podium.api.reads import READS
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.preemption.outcome import Outcome, Plan

# Members of one gang.
GANGS = (100, 400, 1_000)
LONE_NODES, LONE_PODS_A_NODE, LONE_PREEMPTORS = 1_000, 4, 200
# The least factor of the speed-up for a lone pod.
LONE_TARGET = 2
ROUNDS = 3
# The number of lone pods that one preemptor must evict.
EVICTED = 3
_NOTE = f"""
Kubernetes {PEER.version}: nodes of 4 cpus and nothing else, kube-scheduler on both processors,
Podium's engine in a Python process on one. Gangs: as in upstream's GangPreemptionPodGroups, {LOW_GANGS}
gangs of pods that ask for 600m, one of each gang on every node, and one gang of as many pods that ask
for 3500m. Lone pods: {LONE_PODS_A_NODE} pods of 900m on each node, and {LONE_PREEMPTORS} pods one after
another that ask for 3 cpus. kube-scheduler's figure is its own
`preemption_evaluation_duration_seconds`, the planning alone; Podium's is the decision, which tries to
place without preemption first, of an engine that has followed the cluster and sees such a pod for the
first time. Putting it into words is timed apart. {ROUNDS} rounds, after one that does not count.
"""


def measure() -> Section:
    """Measure all sizes; takes about ten minutes."""
    rows = []
    for size in GANGS:
        with exclusive(PEER) as server, scheduling(server) as scheduler:
            rows += gang_rows(Rivals(Field(server, size), scheduler), size)
    with exclusive(PEER) as server, scheduling(server) as scheduler:
        rows += lone_rows(Rivals(Field(server, LONE_NODES), scheduler))
    return Section("Preemption beside kube-scheduler", rows, _NOTE)


class Turn(NamedTuple):
    """Seconds of one plan by each, and of the message of ours."""

    peer: float
    ours: float
    words: float


class Rivals:
    """A cluster with a kube-scheduler, and the comparisons on it."""

    def __init__(self, field: Field, scheduler: Scheduler) -> None:
        self._field = field
        self._scheduler = scheduler
        self._rounds = itertools.count()
        scheduler.until_known("nodes", len(field.nodes))

    def gang_turn(self, size: int) -> Turn:
        """Let one gang preempt the others, by each."""
        turn = next(self._rounds)
        low = [f"low-{turn}-{index}" for index in range(LOW_GANGS)]
        groups = self._field.make_groups([group(name, size, LOW) for name in low])
        pods = self._field.make_pods(
            [
                pod(f"{name}-{node}", "600m", LOW, node=node, group=name)
                for name in low
                for node in range(size)
            ]
        )
        self._scheduler.until_known("pods", len(pods))
        # They are not tried before their group exists.
        high = f"high-{turn}"
        pods += self._field.make_pods(
            [pod(f"{high}-{index}", "3500m", HIGH, group=high) for index in range(size)]
        )
        before = self._scheduler.evaluations("podgroup")
        groups += self._field.make_groups([group(high, size, HIGH)])
        peer = self._scheduler.next_evaluation("podgroup", before)
        self._clear(pods)
        engine = following(self._state(pods, groups))
        with rig.on(rig.SERVER):
            ours = answered(engine, GroupKey(True, NAMESPACE, high))
        _expect(ours.plan, LOW_GANGS * size)
        return Turn(peer, ours.decided, ours.worded)

    def lone_turn(self) -> Turn:
        """Let lone pods preempt one after another; return means."""
        documents = [
            pod(f"low-{node}-{index}", "900m", LOW, node=node)
            for node in range(LONE_NODES)
            for index in range(LONE_PODS_A_NODE)
        ]
        pods = self._field.make_pods(documents)
        self._scheduler.until_known("pods", len(pods))
        before = self._scheduler.evaluations("pod")
        high = self._field.make_pods([pod(f"high-{index}", "3", HIGH) for index in range(LONE_PREEMPTORS)])
        peer = self._scheduler.next_evaluation("pod", before, LONE_PREEMPTORS)
        self._clear(pods + high)
        state = self._state(pods + high, [])
        engine = following(state)
        answers = []
        for preemptor in high:
            name = preemptor["metadata"]["name"]
            with rig.on(rig.SERVER):
                answers.append(answered(engine, (NAMESPACE, name)))
            _expect(answers[-1].plan, EVICTED)
            follow(state, answers[-1].plan)
        decided, worded = sum(answer.decided for answer in answers), sum(answer.worded for answer in answers)
        return Turn(peer, decided / len(answers), worded / len(answers))

    def _clear(self, pods: list[Any]) -> None:
        """Delete the existing ones of these pods, the last ones first, until none is left."""
        self._field.delete_pods(manifest["metadata"]["name"] for manifest in reversed(pods))
        self._scheduler.until_known("pods", 0)

    def _state(self, pods: list[Any], groups: list[Any]) -> ClusterState:
        state = ClusterState(native_served=True)
        read_group = READS[API, "PodGroup"]
        for manifest in groups:
            state.apply(read_group.neutral(msgspec.convert(manifest, read_group.type)))
        for priority_class in self._field.classes:
            state.apply(msgspec.convert(priority_class, PriorityClass))
        for node in self._field.nodes:
            state.apply(msgspec.convert(node, SchedulableNode))
        for manifest in pods:
            state.apply(msgspec.convert(manifest, Schedulable))
        return state


def gang_rows(rivals: Rivals, size: int) -> list[Row]:
    """Return the rows of gangs of one size."""
    turns = [rivals.gang_turn(size) for _ in range(ROUNDS + 1)][1:]
    return compared(f"gang of {size:,} over {LOW_GANGS} gangs, {size:,} nodes", turns, GANG_TARGET)


def lone_rows(rivals: Rivals) -> list[Row]:
    """Return the rows of lone pods."""
    label = f"lone pod, {LONE_NODES:,} nodes, {LONE_NODES * LONE_PODS_A_NODE:,} pods, mean"
    return compared(label, [rivals.lone_turn() for _ in range(ROUNDS + 1)][1:], LONE_TARGET)


def compared(label: str, turns: list[Turn], target: float) -> list[Row]:
    """Return both figures and their ratio."""
    ratios = [turn.peer / turn.ours for turn in turns]
    return [
        Row(f"{label}, kube-scheduler", spread([turn.peer * 1e3 for turn in turns], "ms", 1)),
        Row(f"{label}, Podium", spread([turn.ours * 1e3 for turn in turns], "ms", 1)),
        Row("its explanation", spread([turn.words * 1e3 for turn in turns], "ms", 1)),
        Row(f"{label}, kube-scheduler / Podium, round by round; target {target:g} x", spread(ratios, "x", 1)),
    ]


def _expect(plan: Plan, victims: int) -> None:
    """Check that a plan evicts this many pods, as kube-scheduler's must."""
    evicted = sum(len(unit.pods) for unit in plan.victims)
    if plan.outcome is not Outcome.FITS_AFTER_PREEMPTION or evicted != victims:
        raise PodiumError(f"{evicted} victims, not {victims}: {plan.outcome}, {plan.message}")
