"""A generated cluster as values: nodes full of gangs and lone pods, budgets over both, and preemptors.

Reading files of a million pods would take longer than the bench, so the objects are made as a read returns
them. Copies of a pod share here what they share in a cluster (labels, containers, constraints). The same size
and seed make the same objects.
"""

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from podium.api.core import (
    Namespace,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PriorityClass,
    RawQuantity,
    SchedulingGroup,
)
from podium.api.findings import ObjectRef
from podium.api.groups import DisruptionMode, PodGroup
from podium.api.meta import Condition, LabelSelector, ObjectMeta
from podium.api.schedulable import (
    Schedulable,
    SchedulableNode,
    SchedulableNodeSpec,
    SchedulableNodeStatus,
    SchedulableSpec,
    SchedulableStatus,
    Taint,
)
from podium.cluster.state import ClusterState

API = "scheduling.k8s.io/v1beta1"
INDEX = "batch.kubernetes.io/job-completion-index"
NOW = datetime(2026, 11, 1, tzinfo=UTC)
TEAMS = tuple(f"team-{index:02d}" for index in range(50))
# Half of these have no constraints but resources.
SHAPES = 20
GANG = 50
# Higher than every running pod's.
PRIORITY = 10_000
_LOWER = (0, 10, 100, 1_000, 5_000)
_ZONES = 10
_ZONE, _HOST, _POOL = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "pool"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# The cpu of the pods of one node, which leaves an eighth of the node free.
_SIZES = (500, 1000, 1500, 2000, 3000)
_START = NOW - timedelta(days=30)


class Size(NamedTuple):
    """The size of a cluster: half of the pods of each node are members of gangs of GANG."""

    nodes: int = 5_000
    pods_per_node: int = 20
    budgets: int = 1_000
    # Whether each pod has a label of its own, as the pods of an Indexed Job or a StatefulSet do.
    numbered: bool = False

    @property
    def pods(self) -> int:
        """Return the number of running pods."""
        return self.nodes * self.pods_per_node

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.pods:,} pods"


class Part(NamedTuple):
    """The metadata and spec that the pods of one app, gang or preemptor share."""

    metadata: dict[str, Any]
    spec: dict[str, Any]


def cluster(size: Size, seed: int = 1) -> ClusterState:
    """Make a cluster without room for a pod of 8 cpus on any node."""
    state = ClusterState(native_served=True)
    for value in (*_LOWER, PRIORITY):
        state.apply(PriorityClass(metadata=ObjectMeta(name=f"class-{value}"), value=value))
    for team in TEAMS:
        state.apply(Namespace(metadata=ObjectMeta(name=team)))
    for index in range(size.nodes):
        state.apply(node(index, size.pods_per_node))
    rng = random.Random(seed)
    for budget in _budgets(size.budgets, rng):
        state.apply(budget)
    for running in _running(size, rng):
        state.apply(numbered(running) if size.numbered and isinstance(running, Schedulable) else running)
    return state


def node(index: int, pods: int) -> SchedulableNode:
    """Make a node for this many pods of medium size and 4 cpus more; one in five is tainted."""
    name = f"node-{index:06d}"
    labels = {_HOST: name, _ZONE: f"zone-{index // len(TEAMS) % _ZONES}", _POOL: f"pool-{index // 7 % 4}"}
    taints = [Taint("dedicated", "batch", "NoSchedule")] if index // 11 % 5 == 0 else None
    cpu = pods * sum(_SIZES) // len(_SIZES) + 4_000
    room: dict[str, RawQuantity] = {"cpu": f"{cpu}m", "memory": f"{cpu // 1000 * 4}Gi", "pods": "110"}
    return SchedulableNode(
        metadata=ObjectMeta(name=name, uid=name, labels=labels),
        spec=SchedulableNodeSpec(taints=taints),
        status=SchedulableNodeStatus(allocatable=room),
    )


def wanted(count: int, *, name: str = "new", cpu: int | None = None) -> list[Schedulable]:
    """Make pending pods of all SHAPES in turn with this many milli cpus, or with each shape's own."""
    parts = [
        _part(TEAMS[0], f"{name}-{shape}", shape, cpu or _SIZES[shape % len(_SIZES)])
        for shape in range(SHAPES)
    ]
    return [_pod(parts[index % SHAPES], f"{name}-{index}", index, PRIORITY) for index in range(count)]


def gang(count: int, *, cpu: int = 8_000, name: str = "wanted") -> tuple[PodGroup, list[Schedulable]]:
    """Make a group and its equal pending members, all of which are needed."""
    template = _part(TEAMS[0], name, 0, cpu, group=name)
    members = [_pod(template, f"{name}-{index}", index, PRIORITY) for index in range(count)]
    return _group(TEAMS[0], name, count, PRIORITY), members


def numbered(pod: Schedulable) -> Schedulable:
    """Return the pod with a label of its own."""
    labels = {**(pod.metadata.labels or {}), INDEX: pod.metadata.name or ""}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def bound(pod: Schedulable, to: str) -> Schedulable:
    """Return the pod as it runs on a node."""
    spec = msgspec.structs.replace(pod.spec, nodeName=to)
    return msgspec.structs.replace(pod, spec=spec, status=_status(_time(0)))


def _running(size: Size, rng: random.Random) -> Iterator[PodGroup | Schedulable]:
    """Make the running pods; a gang's members are on any nodes."""
    half = size.pods_per_node // 2
    gangs = itertools.count()
    # A gang's pods are equal, so it uses slots of one size.
    for cpu in _SIZES:
        places = [
            (host, slot)
            for host in range(size.nodes)
            for slot in range(half)
            if _SIZES[(host + slot) % len(_SIZES)] == cpu
        ]
        rng.shuffle(places)
        while places:
            taken = [places.pop() for _ in range(min(GANG, len(places)))]
            yield from _gang(next(gangs), taken, cpu, rng.choice(_LOWER))
    parts: dict[tuple[int, int, int], Part] = {}
    for host in range(size.nodes):
        for slot in range(half, size.pods_per_node):
            serial = host * 100 + slot
            key = (host % len(TEAMS), (host + slot) % SHAPES, (host + slot) % len(_SIZES))
            if key not in parts:
                parts[key] = _part(TEAMS[key[0]], f"app-{key[1]}", key[1], _SIZES[key[2]])
            name = f"app-{key[1]}-{serial}"
            yield _pod(parts[key], name, serial, rng.choice(_LOWER), f"node-{host:06d}")


def _gang(
    index: int, places: list[tuple[int, int]], cpu: int, priority: int
) -> Iterator[PodGroup | Schedulable]:
    """Make a gang that runs in these slots (node, slot); one in four is disrupted pod by pod."""
    team, name = TEAMS[index % len(TEAMS)], f"gang-{index:05d}"
    mode = DisruptionMode.POD if index % 4 == 0 else DisruptionMode.POD_GROUP
    yield _group(team, name, len(places) * 4 // 5, priority, mode)
    template = _part(team, f"train-{index // len(TEAMS) % SHAPES}", 0, cpu, group=name)
    for member, (host, slot) in enumerate(places):
        yield _pod(template, f"{name}-{member}", host * 100 + slot, priority, f"node-{host:06d}")


def _budgets(count: int, rng: random.Random) -> Iterator[PodDisruptionBudget]:
    """Make budgets, each over one app of one team, lone or trained; some allow nothing."""
    apps = [f"{kind}-{shape}" for shape in range(SHAPES) for kind in ("app", "train")]
    names = ((team, app) for app in apps for team in TEAMS)
    for team, app in islice(names, count):
        yield PodDisruptionBudget(
            metadata=ObjectMeta(name=app, namespace=team, uid=f"{team}-{app}"),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels={"app": app})),
            status=PodDisruptionBudgetStatus(disruptionsAllowed=rng.randrange(20)),
        )


def _part(team: str, app: str, shape: int, cpu: int, group: str = "") -> Part:
    constraints: dict[str, Any] = {}
    same: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": app}}}
    if shape >= SHAPES // 2:
        match shape % 5:
            case 0 | 1:
                toleration = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
                constraints["tolerations"] = [toleration]
            case 2:
                pools = {"key": _POOL, "operator": "In", "values": [f"pool-{shape % 4}", "pool-3"]}
                required = {"nodeSelectorTerms": [{"matchExpressions": [pools]}]}
                constraints["affinity"] = {"nodeAffinity": {_REQUIRED: required}}
            case 3:
                spread = {"maxSkew": 5, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule", **same}
                constraints["topologySpreadConstraints"] = [spread]
            case _:
                apart = {"topologyKey": _HOST, **same}
                constraints["affinity"] = {"podAntiAffinity": {_REQUIRED: [apart]}}
    requests = {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    raw = {"containers": containers, "schedulerName": "podium-scheduler", **constraints}
    spec = msgspec.structs.asdict(msgspec.convert(raw, SchedulableSpec))
    if group:
        spec["schedulingGroup"] = SchedulingGroup(podGroupName=group)
    return Part({"namespace": team, "labels": {"app": app}}, spec)


def _pod(template: Part, name: str, serial: int, priority: int, on: str | None = None) -> Schedulable:
    created = _time(serial)
    own = {"name": name, "uid": f"{template.metadata['namespace']}-{name}", "creationTimestamp": created}
    wants = {"priority": priority, "priorityClassName": f"class-{priority}", "nodeName": on}
    return Schedulable(
        metadata=ObjectMeta(**{**template.metadata, **own}),
        spec=SchedulableSpec(**{**template.spec, **wants}),
        status=_status(created) if on is not None else SchedulableStatus(phase="Pending"),
    )


def _status(started: str) -> SchedulableStatus:
    scheduled = Condition(type="PodScheduled", status="True", lastTransitionTime=started)
    return SchedulableStatus(phase="Running", startTime=started, conditions=[scheduled])


def _group(
    team: str, name: str, least: int, priority: int, mode: DisruptionMode = DisruptionMode.POD_GROUP
) -> PodGroup:
    return PodGroup(
        ref=ObjectRef(API, "PodGroup", team, name),
        metadata=ObjectMeta(name=name, namespace=team, uid=f"group-{team}-{name}"),
        min_count=least,
        disruption_mode=mode,
        priority_class_name=f"class-{priority}",
        priority=priority,
        preemption_policy=None,
        template_ref=None,
    )


def _time(serial: int) -> str:
    return (_START + timedelta(seconds=serial)).strftime("%Y-%m-%dT%H:%M:%SZ")
