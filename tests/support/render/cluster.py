"""Clusters of nodes with accelerators for the pictures: small ones by hand, large ones by a seed."""

from collections.abc import Callable, Iterable
from random import Random

from podium.api.core import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PriorityClass,
    ResourceRequirements,
)
from podium.api.meta import ObjectMeta
from podium.cluster.state import ClusterState

GPU = "nvidia.com/gpu"
PRIORITIES = (2_000_001_000, 10_000, 1_000, 700, 500, 100, 0)


def node(
    name: str, gpus: int = 8, labels: dict[str, str] | None = None, *, cordoned: bool = False, gpu: str = GPU
) -> Node:
    """Return a node with 96 cores, and accelerators unless their number is 0."""
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", **({gpu: str(gpus)} if gpus else {})}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(allocatable=dict(room)),
    )


def pod(name: str, on: str, priority: int, *, leaves: bool = False, **requests: int | str) -> Pod:
    """Return a pod on a node (empty for none); `gpu` and `cpu` are its requests."""
    wants = {GPU if key == "gpu" else key: str(amount) for key, amount in requests.items()}
    return Pod(
        metadata=ObjectMeta(
            namespace="team", name=name, deletionTimestamp="2026-11-24T03:00:00Z" if leaves else None
        ),
        spec=PodSpec(
            nodeName=on or None,
            priority=priority,
            containers=[Container(resources=ResourceRequirements(requests=dict(wants)))],
        ),
    )


def state(objects: Iterable[Node | Pod | PriorityClass]) -> ClusterState:
    """Return a cluster of objects."""
    found = ClusterState(native_served=True, unread={})
    for each in objects:
        found.apply(each)
    return found


def large(
    nodes: int, *, gpus: int = 8, racks: int = 0, seed: int = 1, name: Callable[[str], str] = str
) -> ClusterState:
    """Return a cluster of many nodes, mostly full, in racks if there is a number of them."""
    random = Random(seed)
    objects: list[Node | Pod] = []
    for number in range(nodes):
        labels = {"topology.kubernetes.io/rack": name(f"rack-{number * racks // nodes}")} if racks else None
        on = name(f"node-{number}")
        objects.append(node(on, gpus, labels, cordoned=random.random() < 0.02))
        left = gpus
        while left and random.random() < 0.9:
            left -= (taken := min(random.choice((1, 2, 4, 8)), left))
            priority, leaves = random.choice(PRIORITIES), random.random() < 0.05
            objects.append(pod(name(f"pod-{number}-{left}"), on, priority, leaves=leaves, gpu=taken))
    return state(objects)
