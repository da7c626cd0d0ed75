"""A cluster as plain values, and the nodes on which a pod fits; the plain algorithm uses it.

It follows the documentation alone. It uses dictionaries and no code of Podium.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GPU = "example.com/gpu"

# The node of each pod, by the pod's name.
Standing = Mapping[str, str]


@dataclass(frozen=True)
class Node:
    """A node with its allocatable (milli cpu, bytes, pods); only pods that tolerate its taint fit there."""

    name: str
    room: Mapping[str, int]
    tainted: bool = False


@dataclass(frozen=True)
class Patience:
    """A class's toleration: preemptors below `minimum` wait `seconds`, or forever if that is negative."""

    minimum: int
    seconds: int


@dataclass(frozen=True)
class Group:
    """A pod group; `whole` groups are disrupted as a whole, `least` is minCount (1 for a basic group).

    `made` is the second of its creation, `first` that of its first scheduling (None: not recorded).
    """

    name: str
    priority: int
    least: int = 1
    whole: bool = False
    never: bool = False
    patience: Patience | None = None
    uid: str = ""
    made: int = 0
    first: int | None = None


@dataclass(frozen=True)
class Pod:
    """A pod that runs on `node`, or is pending and may have a `nominated` node.

    `app` is its label. It has anti-affinity by host to pods of the app `avoids`. `start` and `scheduled` are
    seconds. If `scheduled` is None, the pod was never marked as scheduled. `kept` is a pod of another
    scheduler, which may not be evicted. `stuck` is a leaving pod that should have left already.
    """

    name: str
    requests: Mapping[str, int]
    priority: int = 0
    node: str | None = None
    group: str | None = None
    namespace: str = "team-a"
    app: str | None = None
    avoids: str | None = None
    ports: frozenset[int] = frozenset()
    tolerates: bool = False
    start: int | None = None
    scheduled: int | None = None
    patience: Patience | None = None
    leaving: bool = False
    stuck: bool = False
    kept: bool = False
    nominated: str | None = None
    never: bool = False
    created: int = 0
    uid: str = ""


@dataclass(frozen=True)
class Budget:
    """A PodDisruptionBudget on the pods of one app in one namespace."""

    name: str
    app: str
    allowed: int
    namespace: str = "team-a"


@dataclass(frozen=True)
class Cluster:
    """All objects of a cluster; `now` is in seconds."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    groups: tuple[Group, ...] = ()
    budgets: tuple[Budget, ...] = ()
    now: int = 0

    def pod(self, name: str) -> Pod:
        return next(pod for pod in self.pods if pod.name == name)

    def group(self, name: str | None) -> Group | None:
        return next((group for group in self.groups if group.name == name), None)

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)


def fits(cluster: Cluster, standing: Standing, pod: Pod, node: Node) -> bool:
    """Return whether a node has room for a pod beside the other pods there."""
    if node.tainted and not pod.tolerates:
        return False
    beside = [cluster.pod(name) for name, at in standing.items() if at == node.name and name != pod.name]
    if any(pod.ports & other.ports for other in beside):
        return False
    if any(hates(pod, other) or hates(other, pod) for other in beside):
        return False
    if len(beside) + 1 > node.room["pods"]:
        return False
    for resource, wanted in pod.requests.items():
        held = sum(other.requests.get(resource, 0) for other in beside)
        if wanted and held + wanted > node.room.get(resource, 0):
            return False
    return True


def hates(pod: Pod, other: Pod) -> bool:
    return pod.avoids is not None and (other.namespace, other.app) == (pod.namespace, pod.avoids)


def worth(cluster: Cluster, standing: Standing, pod: Pod, node: Node) -> int:
    """Return the score of a node: higher if emptier, if cpu and memory are balanced, if GPUs are packed."""
    held = [cluster.pod(name) for name, at in standing.items() if at == node.name]
    emptiness, before, after = [], [], []
    for resource in ("cpu", "memory"):
        room, wanted = node.room[resource], pod.requests[resource]
        used = sum(other.requests[resource] for other in held)
        emptiness.append(max(room - used - wanted, 0) * 100 // room)
        before.append(min(used / room, 1.0))
        after.append(min((used + wanted) / room, 1.0))
    gain = evenness(after) - evenness(before)
    return sum(emptiness) // 2 + 50 + (50 + gain) // 2 + packed(held, pod, node)


def packed(held: Sequence[Pod], pod: Pod, node: Node) -> int:
    """Return the score for the GPUs of a node that are used up, and for those in use already."""
    wanted = pod.requests.get(GPU, 0)
    if not wanted:
        return 0
    used = sum(other.requests.get(GPU, 0) for other in held)
    part = min(used + wanted, node.room[GPU]) * 100 // node.room[GPU]
    return (part + (100 if used else 0)) // 2 * 4


def rank(pod: Pod, node: Node) -> int:
    """Return the order of a node among equal nodes, by MurmurHash3's finalizer of both checksums."""
    uid = pod.uid or f"{pod.namespace}-{pod.name}"
    number = zlib.crc32(node.name.encode()) | zlib.crc32(uid.encode()) << 32
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        number ^= number >> 33
        number = number * factor % 2**64
    return number ^ number >> 33


def evenness(parts: Sequence[float]) -> int:
    return int((1 - abs((parts[0] - parts[1]) / 2)) * 100)


def place(
    cluster: Cluster, standing: Standing, pods: Sequence[Pod], enough: int | None = None
) -> dict[str, str]:
    """Place pods one after the other, each on the best node, until `enough` are placed."""
    placed: dict[str, str] = {}
    for pod in pods:
        if enough is not None and len(placed) == enough:
            break
        here = {**standing, **placed}
        takers = [node for node in cluster.nodes if fits(cluster, here, pod, node)]
        if takers:
            best = min(takers, key=lambda node: (-worth(cluster, here, pod, node), rank(pod, node)))
            placed[pod.name] = best.name
    return placed


def still_fits(cluster: Cluster, standing: Standing, placed: Standing) -> bool:
    """Return whether placed pods still fit beside the other pods."""
    here = {**standing, **placed}
    return all(fits(cluster, here, cluster.pod(name), cluster.node(at)) for name, at in placed.items())
