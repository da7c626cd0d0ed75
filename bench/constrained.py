"""Preemptors with constraints: one pod a host, even spread, whole gangs with anti-affinity.

`python -m bench.constrained CASE ARGUMENT ...` measures one case in a process of its own and prints its
figures as JSON. Each decision is made again after a pod of the cluster was replaced.
"""

import json
import sys
import zlib
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import msgspec
from bench import scene
from bench.following import following
from bench.preemption import RATIO, ratio, run
from bench.results import ROUNDS, Row, Section, spread

from podium.api.findings import ObjectRef
from podium.api.groups import DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.preemption.outcome import Outcome

GPU, NS = "nvidia.com/gpu", "team"
HOST, POOL, RACK = "kubernetes.io/hostname", "pool", "rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PER_NODE = 8
# Nodes, and members of the gang.
GANGS = ((500, 300), (5_000, 500))
KINDS = {
    "plain": "no constraint",
    "apart": "one pod a host",
    "even": "host spread",
    "sizes": "three sizes of pods",
}
# The accelerators of the members of a gang with several sizes, in turn.
SIZES = (8, 4, 2)
APART_NODES, APART_GANG = 400, 20
# The nodes of a rack, and the gangs that clear one of them.
RACK_NODES, RACK_GANGS = 100, (4, 50, 100)
OUTSIDER_NODES, OUTSIDER_GANG = 1_000, 100
_NOTE = f"""
One process on one processor for each cluster. Every node has 8 accelerators, which {PER_NODE} pods of three
lower priorities hold; each member of the gang asks for all 8 of a node, or, of three sizes, for 8, 4 and 2 in
turn. A rack has {RACK_NODES} nodes. The lone pod asks for a node of which
each holds a member of a whole gang that keeps its members apart by host. The outsider is a pending pod of
another namespace whose required anti-affinity means all pods of all namespaces. Every pod carries a label of
its own, as the pods of an Indexed Job do; pods alike carry none. Figures are processor time; the first
decision of an engine is left out.
"""


def measure() -> Section:
    """Measure all cases; takes about half a minute."""
    rows = []
    for nodes, members in GANGS:
        cluster = f"{nodes:,} nodes, {nodes * PER_NODE:,} pods"
        for kind, label in KINDS.items():
            target = "" if kind == "plain" else f"; target under {500 if nodes <= 500 else 2_000} ms"
            rows += _beside(f"gang of {members}, {label}, {cluster}", target, "gang", kind, nodes, members)
    for members in RACK_GANGS:
        label = f"gang of {members} in one of {5_000 // RACK_NODES} racks, 5,000 nodes, 40,000 pods"
        rows += _beside(label, "; target under 500 ms", "gang", "rack", 5_000, members)
    label = f"lone pod among whole gangs of {APART_GANG} that keep apart, {APART_NODES} nodes"
    rows += _beside(label, "; target under 100 ms", "lone", "apart", APART_NODES, APART_GANG)
    for kind, case in (("none", "no outsider"), ("nowhere", "a key no node has"), ("host", "by host")):
        label = f"gang of {OUTSIDER_GANG}, {OUTSIDER_NODES:,} nodes, outsider: {case}"
        target = "" if kind == "none" else "; target 1.5 times that without"
        rows.append(_row(f"{label}{target}", _run("outsider", kind, OUTSIDER_NODES, OUTSIDER_GANG)))
    return Section("Preemptors with constraints", rows, _NOTE)


def gang(kind: str, nodes: int, members: int, numbered: int = 1) -> list[float]:
    """Let a gang preempt: `plain`, one a host (`apart`), spread `even`, several `sizes`, in one `rack`."""
    state = _full(nodes)
    sizes = SIZES if kind == "sizes" else SIZES[:1]
    preemptor = _gang(state, "wanted", members, 10, sizes=sizes, **_constraint(kind))
    if kind == "rack":
        state.apply(msgspec.structs.replace(state.groups[preemptor], topology=RACK))
    return _deciding(state, preemptor, numbered)


def lone(kind: str, nodes: int, members: int, numbered: int = 1) -> list[float]:
    """Let a lone pod preempt where whole gangs run on half of the nodes, lower pods on the other."""
    state = ClusterState(native_served=True)
    half = nodes // 2
    for at in range(nodes):
        state.apply(_node(at, {POOL: "a" if at < half else "b"}))
    for first in range(0, half, members):
        _gang(state, f"running-{first}", members, 5, first=first, **_constraint(kind))
    for at in range(half, nodes):
        for slot in range(4):
            state.apply(_pod(f"low-{at}-{slot}", 2, 1, at=at, labels={"app": "low"}))
    state.apply(_pod("lone", 8, 10, labels={}, nodeSelector={POOL: "a"}))
    return _deciding(state, (NS, "lone"), numbered)


def outsider(kind: str, nodes: int, members: int, numbered: int = 1) -> list[float]:
    """Let a plain gang preempt while another pending pod has a term that selects all pods."""
    state = _full(nodes)
    if kind != "none":
        key = HOST if kind == "host" else "no.such/key"
        term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": key}
        affinity = {"podAntiAffinity": {REQUIRED: [term]}}
        state.apply(_pod("outsider", 1_000, 0, labels={}, namespace="other", affinity=affinity))
    return _deciding(state, _gang(state, "wanted", members, 10), numbered)


def free(kind: str, nodes: int, members: int, count: int = 1_250) -> list[float]:
    """Place gangs on free room one after another; return the mean milliseconds of each tenth of them."""
    state = ClusterState(native_served=True)
    for at in range(nodes):
        state.apply(_node(at, {RACK: f"rack-{at // RACK_NODES}"}))
    # More members than a rack has accelerators ask for none.
    sizes, targets = (int(members <= PER_NODE * RACK_NODES),), []
    for number in range(count):
        targets.append(_gang(state, f"wanted-{number}", members, 10, sizes=sizes))
        if kind == "rack":
            state.apply(msgspec.structs.replace(state.groups[targets[-1]], topology=RACK))
    engine = following(state)
    times = []
    for target in targets:
        began = process_time()
        decision = engine.decide(target, scene.NOW)
        times.append((process_time() - began) * 1e3)
        if decision.outcome is not Outcome.FITS:
            raise PodiumError(f"{target}: {decision.outcome}")
        for row, node in decision.placed.items():
            placed = engine.snapshot.pod_at(row)
            state.apply(scene.bound(placed, engine.snapshot.node_name(node)))
    tenth = max(1, count // 10)
    return [sum(times[at : at + tenth]) / tenth for at in range(0, tenth * 10, tenth)]


def _deciding(state: ClusterState, target: Name | GroupKey, numbered: int) -> list[float]:
    """Return the milliseconds of a decision that preempts, each time after a pod was replaced."""
    for pod in list(state.pods.values()) if numbered else ():
        assert isinstance(pod, Schedulable)
        state.apply(scene.numbered(pod))
    engine = following(state)
    times = []
    for round_ in range(ROUNDS + 1):
        old = next(pod for pod in state.pods.values() if pod.spec.nodeName)
        state.remove(old)
        metadata = msgspec.structs.replace(old.metadata, uid=f"{old.metadata.uid}-{round_}")
        state.apply(msgspec.structs.replace(old, metadata=metadata))
        began = process_time()
        decision = engine.decide(target, scene.NOW)
        took = process_time() - began
        if decision.outcome is not Outcome.FITS_AFTER_PREEMPTION or decision.chosen is None:
            raise PodiumError(f"{target}: {decision.outcome}")
        times.append(took * 1e3)
    return times[1:]


def _full(nodes: int) -> ClusterState:
    state = ClusterState(native_served=True)
    for at in range(nodes):
        state.apply(_node(at, {RACK: f"rack-{at // RACK_NODES}"}))
    for at in range(nodes):
        for slot in range(PER_NODE):
            labels = {"app": f"app-{at % 50}"}
            state.apply(_pod(f"low-{at}-{slot}", 1, 1 + (at + slot) % 3, at=at, labels=labels))
    return state


def _constraint(kind: str) -> dict[str, Any]:
    same = {"labelSelector": {"matchLabels": {"role": "worker"}}, "topologyKey": HOST}
    if kind == "apart":
        return {"affinity": {"podAntiAffinity": {REQUIRED: [same]}}}
    if kind == "even":
        spread_ = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **same}
        return {"topologySpreadConstraints": [spread_]}
    return {}


def _gang(  # noqa: PLR0917 - a case names few of them
    state: ClusterState,
    name: str,
    members: int,
    priority: int,
    first: int | None = None,
    sizes: Sequence[int] = SIZES[:1],
    **spec: Any,
) -> GroupKey:
    """Add a whole gang to a cluster, pending, or on nodes from the given one on."""
    state.apply(
        PodGroup(
            ref=ObjectRef(scene.API, "PodGroup", NS, name),
            metadata=ObjectMeta(name=name, namespace=NS, uid=f"group-{name}"),
            min_count=members,
            disruption_mode=DisruptionMode.POD_GROUP,
            priority_class_name="",
            priority=priority,
            preemption_policy=None,
            template_ref=None,
        )
    )
    for at in range(members):
        where = None if first is None else first + at
        fields = {"labels": {"role": "worker"}, "schedulingGroup": {"podGroupName": name}, **spec}
        state.apply(_pod(f"{name}-{at}", sizes[at % len(sizes)], priority, at=where, **fields))
    return GroupKey(True, NS, name)


def _node(at: int, labels: dict[str, str]) -> SchedulableNode:
    name = f"node-{at:05d}"
    room = {GPU: "8", "cpu": "96", "memory": "768Gi", "pods": "110"}
    metadata = {"name": name, "uid": name, "labels": {HOST: name, **labels}}
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": room}}, SchedulableNode)


def _pod(
    name: str,
    gpus: int,
    priority: int,
    at: int | None = None,
    *,
    labels: dict[str, str],
    namespace: str = NS,
    **spec: Any,
) -> Schedulable:
    """Make a pod, running if a node is given by number."""
    containers = [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]
    running = {"phase": "Running", "startTime": "2026-10-01T00:00:00Z"}
    # UIDs differ in their first bytes, as those of an API server do.
    uid = f"{zlib.crc32(name.encode()):08x}-{name}"
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "labels": labels},
            "spec": {
                "schedulerName": "podium-scheduler",
                "priority": priority,
                "containers": containers,
                "nodeName": None if at is None else f"node-{at:05d}",
                **spec,
            },
            "status": {"phase": "Pending"} if at is None else running,
        },
        Schedulable,
    )


CASES: dict[str, Callable[..., list[float]]] = {
    "gang": gang,
    "lone": lone,
    "outsider": outsider,
    "free": free,
}


def _beside(label: str, target: str, case: str, *of: str | int) -> list[Row]:
    """Measure a case with pods of one label each, and with equal pods."""
    alike, numbered = _run(case, *of, 0), _run(case, *of, 1)
    return [_row(f"{label}{target}", numbered), Row(f"{label}, {RATIO}", ratio(numbered, alike))]


def _run(case: str, *arguments: str | int) -> list[float]:
    times: list[float] = run("bench.constrained", case, *arguments)
    return times


def _row(label: str, times: list[float]) -> Row:
    return Row(label, spread(times, "ms", 0))


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:]))))
