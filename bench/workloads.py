"""Workloads to compare schedulers: upstream's SchedulingBasic and PreemptionBasic, and gangs over gangs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from bench.field import HIGH, LOW, NAMESPACE, group, pod
from bench.scene import INDEX

from podium.api.devices import DEVICE_API
from podium.api.storage import BIND_COMPLETED, NO_PROVISIONER

DRIVER = "csi.example.com"
LOCAL = "local"
HOST = "kubernetes.io/hostname"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
VOLUMES = "/api/v1/persistentvolumes"
DEVICES = f"/apis/{DEVICE_API}"
DEVICE_CLAIMS = f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
LOW_GANGS = 5
# 100 nodes of 4 cpus have room for a thousand such pods, but not for two thousand.
_CPU = "300m"
_LARGE = 1_000
LONE_PODS_A_NODE, LONE_EVICTED = 4, 3
GANG_TARGET = 2.5


class Workload(NamedTuple):
    """The objects to schedule: `standing` pods are bound, `groups` theirs, `wanted` are to be scheduled.

    `last` are groups that come once the scheduler is ready. `steps` lists by names the pods to bind with
    their nodes, and the pods to delete before. `storage` has other objects by the path to create them, which
    rounds may share. `binds` says that the volume controller of Kubernetes runs, and binds the claims of the
    pods. `rack` is the number of nodes in a rack, 0 without racks.
    """

    nodes: int
    standing: list[Any]
    groups: list[Any]
    wanted: list[Any]
    last: list[Any]
    steps: list[tuple[list[tuple[str, str]], list[str]]]
    storage: Sequence[tuple[str, Any]] = ()
    binds: bool = False
    rack: int = 0


class Shape(NamedTuple):
    """A workload by its upstream name, and a round's maker.

    `rounds` is the number of significant rounds, and `target` the least multiple of kube-scheduler's rate.
    """

    title: str
    make: Callable[[int], Workload]
    rounds: int = 3
    target: float = 2


def basic(nodes: int, pods: int) -> Workload:
    """SchedulingBasic: a backlog of small pods."""
    names = [f"pod-{index}" for index in range(pods)]
    places = [(name, f"node-{index % nodes}") for index, name in enumerate(names)]
    pending = [pod(name, "100m", LOW, memory="500Mi") for name in names]
    return Workload(nodes, [], [], pending, [], [([place], []) for place in places])


def numbered(workload: Workload) -> Workload:
    """Return a workload whose pods each have a label of their own, like those of an Indexed Job."""
    for manifest in (*workload.standing, *workload.wanted):
        manifest["metadata"]["labels"] = {INDEX: manifest["metadata"]["name"]}
    return workload


def volumes(nodes: int, pods: int) -> Workload:
    """SchedulingCSIPVs: each pod has a claim of its own, which is bound to a volume of a CSI driver."""
    workload = basic(nodes, pods)
    storage: list[tuple[str, Any]] = []
    for at in range(nodes):
        drivers = [{"name": DRIVER, "nodeID": f"node-{at}", "allocatable": {"count": 39}}]
        storage.append((CSI_NODES, {"metadata": {"name": f"node-{at}"}, "spec": {"drivers": drivers}}))
    for manifest in workload.wanted:
        name = manifest["metadata"]["name"]
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        volume = {
            **common,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {"namespace": NAMESPACE, "name": name},
        }
        annotations = {BIND_COMPLETED: "true"}
        claim = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
        storage.append((VOLUMES, {"metadata": {"name": name}, "spec": volume}))
        storage.append((CLAIMS, {"metadata": {"name": name, "annotations": annotations}, "spec": claim}))
        mounted = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        manifest["spec"]["volumes"] = [mounted]
    return workload._replace(storage=storage)


def devices(nodes: int, pods: int, serial: int) -> Workload:
    """Pods with a label and a claim of their own, for one of the eight devices that each node offers."""
    pending: list[Any] = []
    storage: list[tuple[str, Any]] = [(f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})]
    for at in range(nodes):
        name = f"node-{at}"
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        offered = [{"name": f"gpu-{index}"} for index in range(8)]
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": offered}
        storage.append((f"{DEVICES}/resourceslices", {"metadata": {"name": name}, "spec": spec}))
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    for index in range(pods):
        name = f"pod-{serial}-{index}"
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        storage.append((DEVICE_CLAIMS, claim))
        pending.append(pod(name, "100m", LOW))
        pending[-1]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return numbered(Workload(nodes, [], [], pending, [], [], storage))


def delayed(nodes: int, pods: int, serial: int) -> Workload:
    """Pods with a claim each that is bound to a local volume of the node that the pod gets."""
    workload = basic(nodes, pods)
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    local = {
        "metadata": {"name": LOCAL},
        "provisioner": NO_PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    storage: list[tuple[str, Any]] = [(classes, local)]
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": LOCAL}
    for at, manifest in enumerate(workload.wanted):
        name = f"{manifest['metadata']['name']}-{serial}"
        host = {"key": HOST, "operator": "In", "values": [f"node-{at % nodes}"]}
        volume = {
            **common,
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
        }
        claim = {**common, "resources": {"requests": {"storage": "1Gi"}}}
        storage.append((VOLUMES, {"metadata": {"name": name}, "spec": volume}))
        storage.append((CLAIMS, {"metadata": {"name": name}, "spec": claim}))
        manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return workload._replace(storage=storage, binds=True)


def lone(nodes: int) -> Workload:
    """PreemptionBasic: every node is full, and as many preemptors as nodes need most of one each."""
    standing = [
        pod(f"low-{node}-{index}", "900m", LOW, node=node)
        for node in range(nodes)
        for index in range(LONE_PODS_A_NODE)
    ]
    pending = [pod(f"high-{index}", "3", HIGH) for index in range(nodes)]
    steps = [
        ([(f"high-{node}", f"node-{node}")], [f"low-{node}-{index}" for index in range(LONE_EVICTED)])
        for node in range(nodes)
    ]
    return Workload(nodes, standing, [], pending, [], steps)


def gang(size: int, serial: int) -> Workload:
    """Make a gang that needs every node, over gangs that are evicted as a whole."""
    low = [f"low-{serial}-{index}" for index in range(LOW_GANGS)]
    high = f"high-{serial}"
    standing = [
        pod(f"{name}-{node}", "600m", LOW, node=node, group=name) for name in low for node in range(size)
    ]
    pending = [pod(f"{high}-{index}", "3500m", HIGH, group=high) for index in range(size)]
    places = [(f"{high}-{index}", f"node-{index}") for index in range(size)]
    victims = [manifest["metadata"]["name"] for manifest in standing]
    groups = [group(name, size, LOW) for name in low]
    return Workload(size, standing, groups, pending, [group(high, size, HIGH)], [(places, victims)])


def gangs(nodes: int, size: int, count: int, serial: int, *, rack: int = 0) -> Workload:
    """Make gangs that find free room, each in one rack of so many nodes; without racks, anywhere."""
    names = [f"gang-{serial}-{index}" for index in range(count)]
    groups = [group(name, size, LOW, rack=rack > 0) for name in names]
    pending = [pod(f"{name}-{index}", _CPU, LOW, group=name) for name in names for index in range(size)]
    racks = nodes // rack if rack else 1
    steps: list[tuple[list[tuple[str, str]], list[str]]] = []
    for at, name in enumerate(names):
        first = at % racks * rack
        nodes_of = [f"node-{first + index % (rack or nodes)}" for index in range(size)]
        steps.append(([(f"{name}-{index}", node) for index, node in enumerate(nodes_of)], []))
    # The plan of a large gang counts, and that of the first of many small ones does not matter.
    last, first_come = (groups, []) if size >= _LARGE else ([], groups)
    return Workload(nodes, [], first_come, pending, last, steps, rack=rack)


SHAPES = {
    "basic-1000": Shape("SchedulingBasic, 1,000 nodes, 4,000 pods", lambda _: basic(1_000, 4_000)),
    "numbered-1000": Shape(
        "SchedulingBasic, 1,000 nodes, distinct labels", lambda _: numbered(basic(1_000, 4_000))
    ),
    "basic-5000": Shape("SchedulingBasic, 5,000 nodes, 5,000 pods", lambda _: basic(5_000, 5_000)),
    "volumes-5000": Shape(
        "SchedulingCSIPVs, 5,000 nodes, 5,000 pods with a volume each", lambda _: volumes(5_000, 5_000)
    ),
    "devices-500": Shape(
        "500 nodes of 8 devices, 2,000 pods with a device each", partial(devices, 500, 2_000)
    ),
    "delayed-200": Shape(
        "200 nodes, 400 pods with a claim each that is bound with the pod",
        partial(delayed, 200, 400),
    ),
    "volumes-1000": Shape(
        "SchedulingCSIPVs, 1,000 nodes, 4,000 pods with a volume each", lambda _: volumes(1_000, 4_000)
    ),
    "lone-200": Shape("PreemptionBasic, 200 nodes, 200 preemptors", lambda _: lone(200)),
    "numbered-200": Shape("PreemptionBasic, 200 nodes, distinct labels", lambda _: numbered(lone(200))),
    "lone-1000": Shape("PreemptionBasic, 1,000 nodes, 1,000 preemptors", lambda _: lone(1_000)),
    "gang-100": Shape("gang of 100 over 5 gangs, 100 nodes", partial(gang, 100), 7, GANG_TARGET),
    "gang-400": Shape("gang of 400 over 5 gangs, 400 nodes", partial(gang, 400), target=GANG_TARGET),
    "numbered-400": Shape(
        "gang of 400 over 5 gangs, distinct labels",
        lambda serial: numbered(gang(400, serial)),
        target=GANG_TARGET,
    ),
    "racks-4": Shape("1,250 gangs of 4, each in one of 50 racks", partial(gangs, 5_000, 4, 1_250, rack=100)),
    "racks-1000": Shape(
        "5 gangs of 1,000, each in one of 50 racks", partial(gangs, 5_000, 1_000, 5, rack=100)
    ),
    "racks-few": Shape("50 gangs of 4, each in one of 5 racks", partial(gangs, 50, 4, 50, rack=10), 1),
    "gangs-4": Shape("1,250 gangs of 4, 5,000 nodes", partial(gangs, 5_000, 4, 1_250)),
    "gang-1000": Shape("gang of 1,000 over 5 gangs, 1,000 nodes", partial(gang, 1_000), target=GANG_TARGET),
}
