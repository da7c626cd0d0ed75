"""Generates clusters, each with a preemptor, to compare the planner with the oracle.

A seed gives the same objects on every machine. Nodes have accelerators, only cpus, or are of both sorts.
Gangs and lone pods of several priorities run on them. Some are selected by budgets, some nodes are tainted,
and some room is free.
"""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from tests.support.filters import builders
from tests.support.preemption.clusters import SECONDS, time_of

from podium.api.core import PodDisruptionBudget, RawQuantity
from podium.api.findings import ObjectRef
from podium.api.groups import DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.schedulable import Affinity, Schedulable
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.planner.preemption.units import SHRINK

NS, GPU, HOST, ZONE = builders.NS, "nvidia.com/gpu", "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WANTED = "wanted"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LEVELS = (-10, 0, 10, 100, 1_000, 5_000)
_DAY = 24 * 3600
_TOLERATION = {"key": "dedicated", "operator": "Exists"}

Requests = Mapping[str, int]


class Case(NamedTuple):
    """A cluster, the pending pod or group in it, and the sort of that preemptor."""

    state: ClusterState
    target: Name | GroupKey
    sort: str


class _Node(NamedTuple):
    name: str
    labels: Mapping[str, str]
    tainted: bool
    free: dict[str, int]


class _Workload(NamedTuple):
    """The common fields of the pods of an app or a gang; `group` is None for lone pods."""

    name: str
    requests: tuple[Requests, ...]
    priority: int
    tolerates: bool
    group: DisruptionMode | None


def generated(seed: int) -> Case:
    """Make the cluster of a seed with 3 to 20 nodes, and a lone pod or a gang without constraints."""
    rng = random.Random(seed)
    sort = rng.choice(("lone", "gang", "gang", "shapes", "short"))
    return _made(rng, sort, {})


def constrained(seed: int) -> Case:
    """Make the cluster of a seed with a gang that has one pod a host, or spreads over hosts or zones."""
    rng = random.Random(seed)
    sort = rng.choice(("apart", "even hosts", "even zones"))
    same = {"labelSelector": {"matchLabels": {"app": WANTED}}}
    if sort == "apart":
        spec: dict[str, Any] = {"affinity": {"podAntiAffinity": {_REQUIRED: [{"topologyKey": HOST, **same}]}}}
    else:
        key = HOST if sort == "even hosts" else ZONE
        spread = {"topologyKey": key, "maxSkew": rng.choice((1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
        spec = {"topologySpreadConstraints": [{**spread, **same}]}
    return _made(rng, sort, spec)


def shrinking(seed: int) -> Case:
    """Make the cluster of a seed in which running gangs shrink to their minCount first."""
    case, rng = generated(seed), random.Random(seed)
    for key, group in sorted(case.state.groups.items()):
        members = len(case.state.members(key))
        if key.name != WANTED and group.disruption_mode is DisruptionMode.POD_GROUP and members > 1:
            metadata = msgspec.structs.replace(group.metadata, annotations={SHRINK: "true"})
            least = rng.randint(1, members)
            case.state.apply(msgspec.structs.replace(group, metadata=metadata, min_count=least))
    return case


def repelled(seed: int) -> Case:
    """Make the cluster of a seed in which pods keep the preemptor away from their hosts or zones, or it them.

    The other half of the clusters has the constraints of `constrained` as well.
    """
    case, rng = (constrained if seed % 2 else generated)(seed), random.Random(seed)
    apps = sorted({(pod.metadata.labels or {})["app"] for pod in case.state.pods.values()} - {WANTED})
    avoided = rng.sample(apps, min(len(apps), rng.choice((0, 0, 1, 2))))
    for pod in sorted(case.state.pods.values(), key=lambda pod: pod.metadata.name or ""):
        terms = [_apart(app, HOST) for app in avoided] if pod.pending else []
        if not pod.pending and rng.random() < 0.15:
            key = rng.choice((HOST,) * 5 + (ZONE,))
            # A lone pod preempts on one node only.
            terms = [_apart(WANTED, HOST if case.sort == "lone" else key)]
        if terms and isinstance(pod, Schedulable) and pod.spec.affinity is None:
            affinity = msgspec.convert({"podAntiAffinity": {_REQUIRED: terms}}, Affinity)
            spec = msgspec.structs.replace(pod.spec, affinity=affinity)
            case.state.apply(msgspec.structs.replace(pod, spec=spec))
    return case


def _apart(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def racked(seed: int) -> Case:
    """Make the cluster of a seed with a gang that wants one zone; some nodes may be in none."""
    rng = random.Random(seed)
    case = _made(rng, rng.choice(("gang", "gang", "shapes", "short")), {})
    assert isinstance(case.target, GroupKey)
    zones = rng.choice((2, 3, 5, 7))
    for at, node in enumerate(sorted(case.state.nodes.values(), key=lambda each: each.metadata.name or "")):
        labels = {**(node.metadata.labels or {}), ZONE: f"zone-{at % zones}"}
        if rng.random() < 0.05:
            del labels[ZONE]
        metadata = msgspec.structs.replace(node.metadata, labels=labels)
        case.state.apply(msgspec.structs.replace(node, metadata=metadata))
    case.state.apply(msgspec.structs.replace(case.state.groups[case.target], topology=ZONE))
    return case


def replicas(seed: int) -> tuple[ClusterState, list[Name]]:
    """Make the cluster of a seed with equal lone pods instead of its preemptor, and return their names."""
    state, rng = generated(seed).state, random.Random(seed)
    waiting = [pod for pod in state.pods.values() if pod.pending]
    for each in waiting:
        state.remove(each)
    mould = waiting[0]
    spec = msgspec.structs.replace(mould.spec, schedulingGroup=None)
    names = [(NS, f"{WANTED}-{at}") for at in range(rng.randint(2, 14))]
    for namespace, name in names:
        metadata = ObjectMeta(name=name, namespace=namespace, uid=name, labels={"app": WANTED})
        state.apply(msgspec.structs.replace(mould, metadata=metadata, spec=spec))
    return state, names


def full_of_gangs(seed: int) -> Case:
    """Make 8-GPU nodes full of gangs of one priority, and a gang that needs some of the nodes."""
    rng = random.Random(seed)
    state = ClusterState(native_served=True)
    number = rng.randrange(40, 201, 8)
    places = [node for node in range(number) for _ in range(8)]
    for node in range(number):
        _put_node(state, _gpu_node(node, zones=1))
    free = [8] * number
    for at in range(len(places)):
        gpus = rng.choice((1, 2, 4, 8, 8, 8))
        takers = [node for node in range(number) if free[node] >= gpus]
        if not takers:
            break
        size = min(rng.choice((2, 4, 8, 16, 32)), sum(free[node] // gpus for node in takers))
        workload = _Workload(
            f"gang-{at}", (_gpu_pod(gpus),), 0, tolerates=False, group=DisruptionMode.POD_GROUP
        )
        state.apply(_group(workload, size))
        for member in range(size):
            node = rng.choice([each for each in takers if free[each] >= gpus])
            free[node] -= gpus
            ago = rng.randrange(60, 2 * _DAY)
            state.apply(_pod(workload, f"gang-{at}-{member}", 0, node=f"n{node:03d}", ago=ago))
    wanted = _Workload(WANTED, (_gpu_pod(8),), 100, tolerates=False, group=DisruptionMode.POD_GROUP)
    size = rng.choice((1, 2, 4, 8, 16, 32))
    _wait(state, wanted, size, size, {})
    return Case(state, GroupKey(True, NS, WANTED), "full of gangs")


def _made(rng: random.Random, sort: str, spec: Mapping[str, Any]) -> Case:
    state = ClusterState(native_served=True)
    gpus = rng.choice((0.0, 0.5, 1.0, 1.0))
    zones = rng.choice((2, 3))
    tainted = rng.choice((0.0, 0.0, 0.25))
    nodes = []
    for at in range(rng.randint(3, 20)):
        make = _gpu_node if rng.random() < gpus else _cpu_node
        nodes.append(make(at, zones, tainted=rng.random() < tainted))
    for node in nodes:
        _put_node(state, node)
    levels = rng.sample(_LEVELS, rng.randint(1, 4))
    _fill(state, rng, nodes, levels, kept=rng.choice((0.0, 0.0, 0.0, 0.1, 0.25)))
    _protect(state, rng)
    priority = rng.choice((max(levels) + 1, max(levels) + 1, sorted(levels)[len(levels) // 2] + 1))
    tolerates = rng.random() < 0.5
    on_gpus = any(GPU in node.free for node in nodes) and rng.random() < 0.8
    extra = dict(spec)
    if not extra and rng.random() < 0.2:
        extra["nodeSelector"] = {"pool": rng.choice("ab")}
    size = 1 if sort == "lone" else rng.randint(2, 12)
    shapes = tuple(_request(rng, on_gpus=on_gpus) for _ in range(2 if sort == "shapes" else 1))
    group = None if sort == "lone" else DisruptionMode.POD_GROUP
    wanted = _Workload(WANTED, shapes, priority, tolerates, group)
    least = rng.randint(1, size - 1) if sort == "short" else size
    _wait(state, wanted, size, least, extra)
    return Case(state, (NS, WANTED) if group is None else GroupKey(True, NS, WANTED), sort)


def _fill(
    state: ClusterState, rng: random.Random, nodes: list[_Node], levels: list[int], kept: float
) -> None:
    """Add running workloads until the next does not fit, except on a share `kept` of the nodes."""
    empty = {node.name for node in nodes if rng.random() < kept}
    misses, at = 0, 0
    while misses < 15:
        at += 1
        gang = rng.random() < 0.5
        mode = rng.choice((DisruptionMode.POD_GROUP,) * 3 + (DisruptionMode.POD,)) if gang else None
        on_gpus = any(GPU in node.free for node in nodes) and rng.random() < 0.7
        workload = _Workload(
            f"{'gang' if gang else 'app'}-{at}",
            (_request(rng, on_gpus=on_gpus),),
            rng.choice(levels),
            rng.random() < 0.6,
            mode,
        )
        places = _places(
            rng, nodes, empty, workload, rng.choice((2, 2, 3, 4, 6, 8, 12)) if gang else rng.randint(1, 4)
        )
        if not places or (gang and len(places) < 2):
            misses += 1
            continue
        if gang:
            state.apply(_group(workload, len(places)))
        ago = rng.randrange(60, 2 * _DAY)
        for member, node in enumerate(places):
            started = ago if gang else rng.randrange(60, 2 * _DAY)
            state.apply(_pod(workload, f"{workload.name}-{member}", 0, node=node.name, ago=started))


def _places(
    rng: random.Random, nodes: list[_Node], empty: set[str], workload: _Workload, size: int
) -> list[_Node]:
    """Take room for up to so many pods; a gang prefers the nodes that it already has."""
    requests = workload.requests[0]
    order = [node for node in nodes if node.name not in empty and (workload.tolerates or not node.tainted)]
    rng.shuffle(order)
    packed = rng.random() < 0.5
    places: list[_Node] = []
    while order and len(places) < size:
        node = order[0] if packed else rng.choice(order)
        if any(node.free.get(name, 0) < amount for name, amount in requests.items()):
            order.remove(node)
            continue
        for name, amount in requests.items():
            node.free[name] -= amount
        places.append(node)
    return places


def _protect(state: ClusterState, rng: random.Random) -> None:
    """Make budgets over some apps; each pod is in one at most."""
    apps = sorted({(pod.metadata.labels or {})["app"] for pod in state.pods.values()})
    for app in rng.sample(apps, min(len(apps), rng.choice((0, 1, 3, 6, 12)))):
        state.apply(
            msgspec.convert(
                {
                    "metadata": {"name": app, "namespace": NS, "uid": f"budget-{app}"},
                    "spec": {"selector": {"matchLabels": {"app": app}}},
                    "status": {"disruptionsAllowed": rng.choice((0, 0, 1, 2))},
                },
                PodDisruptionBudget,
            )
        )


def _request(rng: random.Random, *, on_gpus: bool) -> Requests:
    if on_gpus:
        return _gpu_pod(rng.choice((1, 1, 2, 2, 4, 8)))
    return {"cpu": rng.choice((1, 2, 4, 4, 8, 16)), "memory": rng.choice((2, 8, 16, 64))}


def _gpu_pod(gpus: int) -> Requests:
    return {GPU: gpus, "cpu": 10 * gpus, "memory": 64 * gpus}


def _gpu_node(at: int, zones: int, *, tainted: bool = False) -> _Node:
    return _node(at, zones, {GPU: 8, "cpu": 96, "memory": 768}, tainted=tainted)


def _cpu_node(at: int, zones: int, *, tainted: bool = False) -> _Node:
    return _node(at, zones, {"cpu": 32, "memory": 128}, tainted=tainted)


def _node(at: int, zones: int, room: dict[str, int], *, tainted: bool) -> _Node:
    name = f"n{at:03d}"
    return _Node(name, {HOST: name, ZONE: f"zone-{at % zones}", "pool": "ab"[at // 2 % 2]}, tainted, room)


def _put_node(state: ClusterState, node: _Node) -> None:
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if node.tainted else None
    state.apply(builders.node(node.name, _quantities(node.free), labels=node.labels, taints=taints))


def _quantities(amounts: Requests) -> dict[str, RawQuantity]:
    return {name: f"{amount}Gi" if name == "memory" else amount for name, amount in amounts.items()}


def _wait(state: ClusterState, wanted: _Workload, size: int, least: int, spec: Mapping[str, Any]) -> None:
    if wanted.group is not None:
        state.apply(_group(wanted, least))
    for member in range(size):
        name = wanted.name if wanted.group is None else f"{wanted.name}-{member}"
        state.apply(_pod(wanted, name, member % len(wanted.requests), **spec))


def _pod(
    workload: _Workload, name: str, shape: int, node: str | None = None, ago: int = 0, **spec: Any
) -> Schedulable:
    return builders.pod(
        name,
        _quantities(workload.requests[shape]),
        labels={"app": workload.name},
        node=node,
        priority=workload.priority,
        start=time_of(SECONDS - ago) if node is not None else None,
        group=workload.name if workload.group is not None else "",
        tolerations=[_TOLERATION] if workload.tolerates else None,
        **spec,
    )


def _group(workload: _Workload, least: int) -> PodGroup:
    mode = workload.group
    assert mode is not None
    return PodGroup(
        ref=ObjectRef("scheduling.k8s.io/v1beta1", "PodGroup", NS, workload.name),
        metadata=ObjectMeta(name=workload.name, namespace=NS, uid=f"group-{workload.name}"),
        min_count=least,
        disruption_mode=mode,
        priority_class_name="",
        priority=workload.priority,
        preemption_policy=None,
        template_ref=None,
    )
