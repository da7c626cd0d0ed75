"""Finds differences between an engine's arrays and the cluster state that they were made from.

The arrays follow the state by events and are never read again from the objects. A bug, or a flipped bit,
would place pods wrongly for as long as the process lives. So a running scheduler compares a few nodes and
pods every second, in turn, and rebuilds its engine when it finds a difference. The cache comparer of
kube-scheduler has the same purpose.

Of a node it compares the object, capacity, labels and taints, and the pods that count on it. It also compares
the sums over these pods, the counters of ports, affinity and spread, and the nominations. Of a pod it
compares its place, its shape and requests (computed again from the object), and the fields that order
victims. Units and budgets are not compared.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import numpy as np

from podium.api.schedulable import Schedulable, SchedulableNode
from podium.cluster.reader import Name
from podium.planner.arrays import ABSENT_VALUE, MOST, SCORED
from podium.planner.engine import Engine
from podium.planner.overlay import PENDING, UNKNOWN_NODE
from podium.planner.progress import start_of
from podium.planner.snapshot import declared_features

# Pods that are compared beside each node. Computing one pod's shape takes up to 0.1 ms, so a step of five
# nodes stays below 10 ms. A cluster of 5,000 nodes and 100,000 pods takes 2,000 such steps.
PODS_A_NODE = 10
# Pod rows beside each node whose pods are only looked up: 0.1 ms.
_ROWS_A_NODE = 200


class Comparer:
    """Compares the nodes and pods of one engine in turn, a few at each step.

    `binding` returns the pods that this process bound and that the API server does not show on a node yet,
    with the nodes.
    """

    def __init__(self, engine: Engine, binding: Callable[[], Mapping[Name, str]]) -> None:
        self._engine = engine
        self._binding = binding
        self._nodes: Iterator[str] = iter(())
        self._pods: Iterator[Name] = iter(())
        self._rows: Iterator[Name] = iter(())

    def step(self, nodes: int) -> list[str]:
        """Compare the next nodes, and PODS_A_NODE pods for each; return the differences as texts.

        Call it between events, and not within a trial. A step at the end of a round over all objects copies
        their names, and may compare nothing.
        """
        engine, differences = self._engine, list[str]()
        engine.catch_up()
        names = list(islice(self._nodes, nodes))
        keys = list(islice(self._pods, nodes * PODS_A_NODE))
        rows = list(islice(self._rows, nodes * _ROWS_A_NODE))
        if len(names) < nodes:
            self._nodes = iter([*engine.view.nodes, *(engine.snapshot.row.keys() - engine.view.nodes.keys())])
        if len(keys) < nodes * PODS_A_NODE:
            self._pods = iter(list(engine.view.pods))
        if len(rows) < nodes * _ROWS_A_NODE:
            self._rows = iter(list(engine.snapshot.pod_row))
        keys += [key for key in rows if key not in engine.view.pods]
        for name in names:
            differences += compare_node(engine, name)
        binding = self._binding()
        for key in keys:
            differences += compare_pod(engine, key, binding.get(key))
        return differences


def compare_node(engine: Engine, name: str) -> list[str]:
    """Return how the arrays of a node differ from the node object, and from the pods that count there."""
    node, row = engine.view.nodes.get(name), engine.snapshot.row.get(name)
    if row is None or not isinstance(node, SchedulableNode):
        known = row is None and node is None
        return [] if known else [f"node {name}: {'no row' if row is None else 'no object'}"]
    differences = [*_of_object(engine, node, row), *_of_columns(engine, node, row), *_of_pods(engine, row)]
    return [f"node {name}: {difference}" for difference in differences]


def compare_pod(engine: Engine, key: Name, bound_to: str | None = None) -> list[str]:
    """Return how the arrays of a pod differ from the pod object.

    `bound_to` is the node of a bind in flight.
    """
    pod, row = engine.view.pods.get(key), engine.snapshot.pod_row.get(key)
    counts = isinstance(pod, Schedulable) and not pod.finished
    subject = f"pod {key[0]}/{key[1]}"
    if row is None or not isinstance(pod, Schedulable) or not counts:
        return (
            [] if counts is (row is not None) else [f"{subject}: {'no row' if row is None else 'no object'}"]
        )
    differences = [
        *_of_place(engine, pod, row, bound_to),
        *_of_shape(engine, pod, row),
        *_of_order(engine, pod, row),
    ]
    if not engine.nominations.is_current(row):
        differences.append("nomination")
    return [f"{subject}: {difference}" for difference in differences]


def _of_object(engine: Engine, node: SchedulableNode, row: int) -> Iterator[str]:
    snapshot = engine.snapshot
    if snapshot.names[row] != node.metadata.name or not snapshot.alive.item(row):
        yield "row is another node's"
    if snapshot.objects[row] is not node and snapshot.objects[row] != node:
        yield "another version of the object"
    offered, _ = snapshot.offered(node)
    for resource in offered.keys() | snapshot.resource.keys():
        there = snapshot.offered_at(resource, row)
        yield from _differ(f"allocatable {resource}", there, offered.get(resource, 0))
    cordoned = bool(node.spec and node.spec.unschedulable)
    yield from _differ("unschedulable", snapshot.unschedulable.item(row), cordoned)


def _of_columns(engine: Engine, node: SchedulableNode, row: int) -> Iterator[str]:
    columns, labels = engine.snapshot.columns, node.metadata.labels or {}
    for key in columns.keys:
        value = labels.get(key)
        value_id = ABSENT_VALUE if value is None else columns.values(key).of.get(value)
        yield from _differ(f"label {key}", columns.column(key).item(row), value_id)
    taints = tuple((node.spec.taints if node.spec else None) or ())
    yield from _differ("taints", columns.taints.rows.item(row), columns.taints.ids.of.get(taints))
    features = columns.features.ids.of.get(declared_features(node))
    yield from _differ("features", columns.features.rows.item(row), features)


def _of_pods(engine: Engine, row: int) -> Iterator[str]:
    snapshot = engine.snapshot
    here = np.flatnonzero(snapshot.node == row)
    if sorted(snapshot.pods_on(row).tolist()) != here.tolist():
        yield "index of pods"
    for pod_row in here.tolist():
        pod = snapshot.pods[pod_row]
        if pod is None or (pod.metadata.namespace or "", pod.metadata.name or "") not in engine.view.pods:
            yield f"a pod that does not exist counts (row {pod_row})"
    positions = {
        **snapshot.resource,
        **dict(zip(("cpu for scores", "memory for scores"), SCORED, strict=True)),
    }
    for name, at in positions.items():
        total = sum(snapshot.requests[at][here].tolist())
        yield from _differ(f"used {name}", snapshot.used[at].item(row), min(total, MOST))
    for counters in engine.placer.chain.counters:
        if counters.differ_on(row, here):
            yield "counters"
    if not all(engine.nominations.is_current(pod_row) for pod_row in engine.nominations.on(row)):
        yield "nominations"


def _of_place(engine: Engine, pod: Schedulable, row: int, bound_to: str | None) -> Iterator[str]:
    snapshot = engine.snapshot
    home = snapshot.row.get(pod.spec.nodeName, UNKNOWN_NODE) if pod.spec.nodeName else PENDING
    counts = snapshot.row.get(bound_to, PENDING) if home == PENDING and bound_to else home
    yield from _differ("home", snapshot.home.item(row), home)
    yield from _differ("node", snapshot.node.item(row), counts)


def _of_shape(engine: Engine, pod: Schedulable, row: int) -> Iterator[str]:
    snapshot = engine.snapshot
    if snapshot.pods[row] is not pod and snapshot.pods[row] != pod:
        yield "another version of the object"
    for plugin in snapshot.plugins:
        yield from plugin.differences(engine.view, pod)
    shape = snapshot.shape_of(pod)
    stored_shape = snapshot.shapes.get(snapshot.shape.item(row))
    if stored_shape is None or snapshot.visible(stored_shape) != shape:
        yield "shape"
    asked = dict(snapshot.counted_requests(shape))
    for name, at in snapshot.resource.items():
        yield from _differ(f"requests {name}", snapshot.requests[at].item(row), asked.get(name, 0))
    for at, amount in zip(SCORED, shape.scored, strict=True):
        yield from _differ("requests for scores", snapshot.requests[at].item(row), amount)


def _of_order(engine: Engine, pod: Schedulable, row: int) -> Iterator[str]:
    snapshot = engine.snapshot
    yield from _differ("uid", snapshot.uids[row], pod.metadata.uid or "")
    yield from _differ("priority", snapshot.priority.item(row), pod.spec.priority or 0)
    yield from _differ("start", snapshot.start.item(row), start_of(pod)[0])
    yield from _differ(
        "terminating", snapshot.terminating.item(row), pod.metadata.deletionTimestamp is not None
    )


def _differ(field: str, stored: object, expected: object) -> Iterator[str]:
    if stored != expected:
        yield f"{field} is {stored}, expected {expected}"
