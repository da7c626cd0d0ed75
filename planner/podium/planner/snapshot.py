"""The cluster as arrays, kept in step with a State by the same events.

Every decision looks at all nodes or all pods, so the data is in arrays. A node or pod keeps its row while it
exists. Pods that are equal to the scheduler share one Shape. If the arrays cannot express a value exactly (an
unreadable quantity, an unknown node), they count less room, and `problems` reports it. No document can make
the arrays wrong.

A plugin may provide a resource on nodes that do not offer it themselves. Only resources that some pod
requests are offered so.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from podium.api.core import Node, Pod
from podium.api.findings import ObjectRef
from podium.api.podrequests import LATEST, UnusableQuantity, allocatable
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.api.selectors import Labels, Selector
from podium.cluster.reader import Name, name_of
from podium.planner.arrays import Bools, Columns, Int32s, Int64s, LayoutChange, Needs, Rows, by_id, grown
from podium.planner.deadline import NEVER
from podium.planner.framework import Effect, Plugin, overriding
from podium.planner.indexes import Unread, discard
from podium.planner.interning import NO_LABELS, ShapeInterner, VisibleLabels, distinguished
from podium.planner.overlay import (
    NO_POD,
    NO_SHAPE,
    PENDING,
    UNKNOWN_NODE,
    Overlay,
    Reshaped,
)
from podium.planner.progress import same_for_scheduling, start_of
from podium.planner.shapes import Shape, shape_of

# The fewest rows of nodes, and of pods, for which arrays have a place.
FEWEST_ROWS = 16
# The amount of a resource that a plugin provides on a node: more than any pods request. The filter of the
# plugin has the limit. The sum over a hundred thousand nodes is within 64 bits.
BACKED = 2**46
# A request for it counts as at most so much. A pod that names its node itself may request any amount
# there, and no kubelet refuses it.
_MOST_BACKED = 2**36


class NodeRows(Overlay):
    """The nodes of a snapshot and their room; a Snapshot applies the objects."""

    def __init__(self, minor: int, unread: Unread) -> None:
        """`unread` returns the kinds that were not read, or not entirely."""
        super().__init__()
        self.node_revision = 0
        self.columns = Columns()
        self.names: list[str | None] = []
        self.objects: list[SchedulableNode | None] = []
        self.row: dict[str, int] = {}
        self.unschedulable: Bools = np.zeros(0, np.bool_)
        self.unread = unread
        self.plugins: list[Plugin] = []
        self.minor = minor
        self._interner = ShapeInterner(minor, self.plugins, self._shape_came, self._shape_went)
        self._free_nodes: list[int] = []
        # The resources that pods request and plugins provide.
        self._backed: set[str] = set()
        self._bad_nodes: dict[int, tuple[UnusableQuantity, ...]] = {}

    @property
    def shapes(self) -> Mapping[int, Shape]:
        """The shapes that pods have, by id."""
        return self._interner.shapes

    def node_name(self, row: int) -> str:
        """Return the name of the node of a row, empty if the row is free."""
        return self.names[row] or ""

    def offered(self, node: SchedulableNode) -> tuple[dict[str, int], tuple[UnusableQuantity, ...]]:
        """Return what a node offers, BACKED of each resource that a plugin provides there."""
        amounts, unusable = allocatable(node)
        for name in self._backed:
            own = amounts.get(name, 0)
            amounts[name] = min(own, BACKED - 1) if own else BACKED
        return amounts, unusable

    def backed(self, resource: str) -> Bools | None:
        """Return the node rows where a plugin provides a resource, None for none."""
        at = self.resource.get(resource) if resource in self._backed else None
        return None if at is None else self.allocatable[at] == BACKED

    def is_backed(self, resource: str, row: int) -> bool:
        """Return whether a plugin provides a resource on a node row."""
        at = self.resource.get(resource) if resource in self._backed else None
        return at is not None and self.allocatable[at].item(row) == BACKED

    def counted_requests(self, shape: Shape) -> list[tuple[str, int]]:
        """Return the amounts that pods of a shape take from their nodes."""
        backed = self._backed
        return [
            (name, min(amount, _MOST_BACKED) if name in backed else amount) for name, amount in shape.requests
        ]

    def offered_at(self, resource: str, row: int) -> int:
        """Return what a node row offers of a resource, whether it has arrays or not."""
        return self._sums.offered_at(resource, row)

    def is_offered(self, resource: str) -> bool:
        """Return whether a node offers a resource, whether it has arrays or not."""
        return self._sums.is_offered(resource)

    def _free_node(self) -> int:
        if not self._free_nodes:
            start, size = len(self.alive), max(FEWEST_ROWS, 2 * len(self.alive))
            self._grow_nodes(size)
            self.columns.grow(size)
            self.unschedulable = grown(self.unschedulable, size)
            self.names += [None] * (size - start)
            self.objects += [None] * (size - start)
            self._free_nodes.extend(range(size - 1, start - 1, -1))
        return self._free_nodes.pop()

    def back(self, resources: Iterable[str]) -> None:
        """Let nodes offer resources that a plugin provides there."""
        self._back(self._backed.union(resources))

    def back_only(self, resources: Iterable[str]) -> None:
        """Let nodes offer only these of the resources that a plugin provided there."""
        self._back(self._backed.intersection(resources))

    def _back(self, resources: set[str]) -> None:
        """Let nodes offer these resources where they have none, and no others."""
        changed, self._backed = self._backed ^ resources, resources
        if not changed:
            return
        nodes = [(row, node) for row in self.row.values() if (node := self.objects[row]) is not None]
        # The requests of pods for a resource are counted when nodes begin to offer it.
        for row, node in nodes:
            amounts, _ = allocatable(node)
            kept = {name: amount for name, amount in amounts.items() if name not in changed}
            self._offer(row, (*amounts, *changed), kept)
        for row, node in nodes:
            self._set_room(row, None, node)

    def _set_room(self, row: int, before: SchedulableNode | None, node: SchedulableNode) -> None:
        amounts, unusable = self.offered(node)
        self._offer(row, self._offered_names(before), amounts)
        self._bad_nodes.pop(row, None)
        if unusable:
            self._bad_nodes[row] = unusable

    def _offered_names(self, node: SchedulableNode | None) -> Iterable[str]:
        """Return the resources that a node may offer, with those that plugins provide."""
        status = node.status if node is not None else None
        return () if node is None else (*((status.allocatable if status else None) or ()), *self._backed)

    def _offer(self, row: int, before: Iterable[str], amounts: Mapping[str, int]) -> None:
        """Set what a node offers instead of the resources that it offered `before`."""
        change = self._sums.offer(row, before, amounts)
        if change.came or change.went:
            self._lay_out(change)

    def _shape_came(self, shape_id: int, shape: Shape) -> None:
        """Count what pods of a new shape request."""
        change = self._sums.count_requests(shape.requests, 1)
        self._needs[shape_id] = self._needs_of(shape)
        # Otherwise the shape is the only one that requests a resource with new arrays, and has no pod yet.
        if change.went:
            self._lay_out(change)
        for plugin in self.plugins:
            plugin.shape_came(shape_id, shape)

    def _shape_went(self, shape_id: int, shape: Shape) -> None:
        del self._needs[shape_id]
        for plugin in self.plugins:
            plugin.shape_went(shape_id)
        change = self._sums.count_requests(shape.requests, -1)
        if change.came:
            self._lay_out(change)

    def _lay_out(self, change: LayoutChange) -> None:
        """Fill new arrays, and compute the needs of the shapes that request a resource of them."""
        changed = {*change.came, *change.went}
        asked: dict[str, dict[int, int]] = {name: {} for name in changed}
        for shape_id, shape in self.shapes.items():
            named = [request for request in self.counted_requests(shape) if request[0] in changed]
            for name, amount in named:
                asked[name][shape_id] = amount
            if named:
                self._needs[shape_id] = self._needs_of(shape)
        for name in change.came:
            self._sums.fill(name, by_id(self.shape, asked[name]), self.node)

    def _needs_of(self, shape: Shape) -> Needs:
        return self._sums.needs(self.counted_requests(shape), shape.scored)

    def _report_node_change(self, row: int) -> None:
        self.node_revision += 1
        for callback in self._node_changed:
            callback(row)

    def report_nodes(self) -> None:
        """Report that nodes may suit other pods than before, though no node has changed itself."""
        self.node_revision += 1


P = TypeVar("P", bound=Plugin)
# Makes a plugin for its place in `Shape.needs` and a snapshot.
PluginFactory = Callable[[int, "Snapshot"], Plugin]


class Problem(NamedTuple):
    """A part of an object that the snapshot could not use as it is; `field` is a path."""

    object: ObjectRef
    field: str
    why: str


class Snapshot(NodeRows):
    """Nodes and pods by row; the Overlay has the arrays of room and of where pods count.

    By node row: `names`, `objects`, `unschedulable`, `columns` (labels, taints, features). By pod row:
    `pods`, `uids`, `priority`, `start` (seconds since 1970, or NO_START), `terminating`, and `shape`, an id
    in `shapes` (ids are never reused). `row` and `pod_row` find rows. `node_revision` grows when a node came,
    went, or changed its labels, taints, features or unschedulable mark.
    Finished pods are not included. `minor` is the kube-scheduler release whose arithmetic counts (see
    `requests`).
    """

    def __init__(
        self, minor: int = LATEST, unread: Unread = lambda: (), plugins: Sequence[PluginFactory] = ()
    ) -> None:
        """`unread` returns the kinds that were not read, or not entirely."""
        super().__init__(minor, unread)
        # Whether a node that offers another amount is reported too, because a plugin reads amounts.
        self.reports_amounts = False
        self.plugins += [plugin(at, self) for at, plugin in enumerate(plugins)]
        self.holders = overriding(self.plugins, "held")
        self._linked = overriding(self.plugins, "link")
        self._followers = overriding(self.plugins, "changed_users")
        # The pods (rows) whose needs may have changed, for a follower that takes them.
        self.changed_pods: set[int] = set()
        self.pods: list[Schedulable | None] = []
        self.uids: list[str] = []
        self._labels: list[Labels] = []
        self.pod_row: dict[Name, int] = {}
        self.priority: Int32s = np.zeros(0, np.int32)
        self.start: Int64s = np.zeros(0, np.int64)
        self.terminating: Bools = np.zeros(0, np.bool_)
        # The end of the decision under way, after which filters begin no long evaluation.
        self.deadline = NEVER
        # The number of times that pending pods got other shapes because of new selectors.
        self.reshaped = 0
        self._reshaped: list[Reshaped] = []
        self._free_pods: list[int] = []
        self._on_unknown_nodes: dict[str, set[int]] = {}
        self._bad_starts: dict[int, str] = {}

    @property
    def next_shape_id(self) -> int:
        """The largest id of a shape so far, plus one; it grows when pods of a new shape come."""
        return self._interner.next_id

    def plugin(self, kind: type[P]) -> P:
        """Return the plugin of a class, which must be among those of this snapshot."""
        return next(plugin for plugin in self.plugins if isinstance(plugin, kind))

    def row_of(self, pod: Name, uid: str) -> int | None:
        """Return the row of a pod, None if it is gone or another pod has its name."""
        row = self.pod_row.get(pod)
        return row if row is not None and self.uids[row] == uid else None

    def pod_at(self, row: int) -> Schedulable:
        """Return the pod of a row that is in use."""
        pod = self.pods[row]
        assert pod is not None, "the row is a pod's"
        return pod

    def shape_at(self, row: int) -> Shape:
        """Return the shape of the pod of a row."""
        return self.shapes[self.shape.item(row)]

    def shape_of(self, pod: Schedulable) -> Shape:
        """Return the shape of a pod, computed from the object."""
        return self.visible(shape_of(pod, self.plugins, self.minor))

    def visible(self, shape: Shape) -> Shape:
        """Return a shape without the labels that no selector distinguishes any more."""
        return shape._replace(labels=self.labels.visible(dict(shape.labels)))

    @property
    def labels(self) -> VisibleLabels:
        """The labels of pods that shapes have."""
        return self._interner.labels

    def stranded(self, node: str) -> Collection[int]:
        """Return the pods (rows) on a node of this name that does not exist."""
        return self._on_unknown_nodes.get(node, ())

    def observe_shapes(self, reshaped: Reshaped) -> None:
        """Register a callback for pods that get another shape without a change of the pods."""
        self._reshaped.append(reshaped)

    def catch_up(self, selectors: Iterable[Selector] = ()) -> None:
        """Make shapes follow the claims, and distinguish pods by all selectors of pods, budgets and these.

        Call it before reading shapes. It looks once at the pods of what changed; new names take a look at all
        pods.
        """
        changed = set[int]().union(*(plugin.changed_users() for plugin in self._followers))
        self.changed_pods |= changed
        self.reshape(sorted(changed))
        new = self.labels.name(selectors)
        if not new:
            return
        moved: Counter[tuple[int, int]] = Counter()
        relabelled: dict[tuple[int, tuple[tuple[str, str], ...]], int] = {}
        for row in distinguished(self._labels, new):
            before = self.shape.item(row)
            labels = self.labels.visible(self._labels[row])
            if labels == self.shapes[before].labels:
                continue
            after = relabelled.get((before, labels))
            if after is None:
                after = relabelled[before, labels] = self._interner.relabelled(before, labels)
            self.shape[row] = after
            self._interner.move(before, after)
            counts = self.node.item(row) >= 0
            moved[before, after] += counts
            self.reshaped += not counts
        for (before, after), pods in moved.items():
            for callback in self._reshaped:
                callback(before, after, pods)

    def apply(self, before: object, after: object) -> Effect:
        """Apply one change of an object, as an observer of a State; other kinds are ignored."""
        match before if after is None else after:
            case Schedulable() as pod:
                if after is None or pod.finished:
                    self.remove_pod(name_of(pod))
                else:
                    self.add_pod(pod)
            case SchedulableNode() as node:
                if after is None:
                    self.remove_node(node.metadata.name or "")
                else:
                    self.add_node(node)
            case Pod() | Node():
                raise TypeError("pods and nodes are read as Schedulable and SchedulableNode for scheduling")
            case _:
                for plugin in self.plugins:
                    effect = plugin.apply(before, after)
                    if effect is not None:
                        return effect
        return Effect.ANY

    def problems(self) -> list[Problem]:
        """Return the problems of all objects, by object, computed on each call."""
        problems = []
        for row, unusable in self._bad_nodes.items():
            problems += [Problem(self._node_ref(row), *fault) for fault in unusable]
        for shape_id in self._interner.unusable:
            for row in np.flatnonzero((self.shape == shape_id) & (self.home != NO_POD)).tolist():
                problems += [Problem(self._pod_ref(row), *fault) for fault in self.shapes[shape_id].unusable]
        for row, why in self._bad_starts.items():
            problems.append(Problem(self._pod_ref(row), "status.startTime", why))
        for name, rows in self._on_unknown_nodes.items():
            why = f"node {name} does not exist"
            problems += [Problem(self._pod_ref(row), "spec.nodeName", why) for row in rows]
        return sorted(problems)

    def add_node(self, node: SchedulableNode) -> None:
        """Add a node, or replace the one of its name; pods that waited for it count from now on."""
        assert self._log is None, "no object is applied while a trial is open"
        name = node.metadata.name or ""
        row = self.row.get(name)
        new = row is None
        if row is None:
            row = self.row[name] = self._free_node()
            self.names[row] = name
            self.alive[row] = True
        before, self.objects[row] = self.objects[row], node
        room = before is None or not _same_room(before, node)
        if room:
            self._set_room(row, before, node)
        spec = node.spec
        taints = spec.taints if spec else None
        changed = self.columns.put(row, node.metadata.labels, taints, declared_features(node))
        unschedulable = bool(spec and spec.unschedulable)
        changed |= room and self.reports_amounts
        if new or changed or self.unschedulable.item(row) != unschedulable:
            self.unschedulable[row] = unschedulable
            self._report_node_change(row)
        for pod_row in self._on_unknown_nodes.pop(name, ()) if new else ():
            self.home[pod_row] = row
            self._move(pod_row, row)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods are stranded, pods only assumed there are pending again."""
        assert self._log is None, "no object is applied while a trial is open"
        row = self.row.get(name)
        if row is None:
            return
        for pod_row in tuple(self._on[row]):
            if self.home.item(pod_row) == row:
                self.home[pod_row] = UNKNOWN_NODE
                self._on_unknown_nodes.setdefault(name, set()).add(pod_row)
            if self.node.item(pod_row) == row:
                self._move(pod_row, self.home.item(pod_row))
        self._on[row].clear()
        del self.row[name]
        self._offer(row, self._offered_names(self.objects[row]), {})
        self.names[row] = self.objects[row] = None
        self.alive[row] = self.unschedulable[row] = False
        self._bad_nodes.pop(row, None)
        self.columns.put(row, None, None)
        self._report_node_change(row)
        self._free_nodes.append(row)

    def add_pod(self, pod: Schedulable) -> None:
        """Add a pod, or replace the one of its name: it counts on its node, if it has one that is known.

        A pod that is assumed on a node stays so until the server gives it one, or it is another pod.
        """
        assert self._log is None, "no object is applied while a trial is open"
        key = name_of(pod)
        row = self.pod_row.get(key)
        if row is not None and same_for_scheduling(self.pods[row], pod):
            self.pods[row] = pod
            return
        shape_id = self._interner.acquire(pod)
        if row is None:
            row = self.pod_row[key] = self._free_pod()
        terminating = pod.metadata.deletionTimestamp is not None
        home = to = self._home_of(pod)
        at = self.node.item(row)
        if home == PENDING == self.home.item(row) and at >= 0 and self.uids[row] == (pod.metadata.uid or ""):
            to = at
        counted = (self.home.item(row), at, self.shape.item(row), self.terminating.item(row))
        recount = counted != (home, to, shape_id, terminating)
        if recount:
            self._move(row, NO_POD)
        self._unlink(row)
        if recount:
            self._set_home(row, home)
            self._set_shape(row, shape_id)
            self.terminating[row] = terminating
        else:
            self._interner.release(shape_id)
        self._set_fields(row, pod)
        self._link(row, pod)
        if recount:
            self._move(row, to)

    def remove_pod(self, key: Name) -> None:
        """Remove a pod, by namespace and name."""
        assert self._log is None, "no object is applied while a trial is open"
        row = self.pod_row.pop(key, None)
        if row is None:
            return
        self._move(row, NO_POD)
        self._unlink(row)
        self._set_home(row, NO_POD)
        self._set_shape(row, NO_SHAPE)
        self.pods[row] = None
        self.uids[row] = ""
        self._labels[row] = NO_LABELS
        self._bad_starts.pop(row, None)
        self._free_pods.append(row)

    def _free_pod(self) -> int:
        if not self._free_pods:
            start, size = len(self.node), max(FEWEST_ROWS, 2 * len(self.node))
            self._grow_pods(size)
            self.priority = grown(self.priority, size)
            self.start = grown(self.start, size)
            self.terminating = grown(self.terminating, size)
            self.pods += [None] * (size - start)
            self.uids += [""] * (size - start)
            self._labels += [NO_LABELS] * (size - start)
            self._free_pods.extend(range(size - 1, start - 1, -1))
        return self._free_pods.pop()

    def pods_of(self, shape_ids: Collection[int]) -> Rows:
        """Return the pods (rows) of some shapes."""
        return np.flatnonzero(np.isin(self.shape, list(shape_ids)) & (self.home != NO_POD))

    def reshape(self, rows: Iterable[int]) -> None:
        """Compute the shapes of pods again, because what they need has changed."""
        for row in rows:
            self.add_pod(self.pod_at(row))

    def _home_of(self, pod: Schedulable) -> int:
        return self.row.get(pod.spec.nodeName, UNKNOWN_NODE) if pod.spec.nodeName else PENDING

    def _set_home(self, row: int, home: int) -> None:
        """Record a pod's node in the server, while the pod counts nowhere."""
        before = self.home.item(row)
        if before >= 0:
            self._on[before].discard(row)
        self.home[row] = home

    def _set_shape(self, row: int, shape_id: int) -> None:
        """Set the shape of a pod that counts nowhere now, and release its former shape."""
        before = self.shape.item(row)
        self._sums.store(row, self._needs.get(before, ()), self._needs.get(shape_id, ()))
        self.shape[row] = shape_id
        if before != NO_SHAPE:
            self._interner.release(before)

    def _set_fields(self, row: int, pod: Schedulable) -> None:
        """Record the fields of a pod that do not decide its place."""
        self.pods[row] = pod
        self.uids[row] = pod.metadata.uid or ""
        self._labels[row] = pod.metadata.labels or NO_LABELS
        self.priority[row] = pod.spec.priority or 0
        self.start[row], why = start_of(pod)
        self._bad_starts.pop(row, None)
        if why:
            self._bad_starts[row] = why

    def _link(self, row: int, pod: Schedulable) -> None:
        """Register a pod for the objects it waits for: its claims, and its node if that is unknown."""
        if self.home.item(row) == UNKNOWN_NODE:
            self._on_unknown_nodes.setdefault(pod.spec.nodeName or "", set()).add(row)
        for plugin in self._linked:
            plugin.link(row, pod)

    def _unlink(self, row: int) -> None:
        pod = self.pods[row]
        if pod is None:
            return
        if self.home.item(row) == UNKNOWN_NODE:
            discard(self._on_unknown_nodes, pod.spec.nodeName or "", row)
        for plugin in self._linked:
            plugin.unlink(row, pod)

    def _node_ref(self, row: int) -> ObjectRef:
        return ObjectRef("v1", "Node", "", self.names[row] or "")

    def _pod_ref(self, row: int) -> ObjectRef:
        pod = self.pod_at(row)
        return ObjectRef("v1", "Pod", *name_of(pod))


def declared_features(node: SchedulableNode) -> frozenset[str]:
    """Return the features that a kubelet declares."""
    return frozenset((node.status.declaredFeatures if node.status is not None else None) or ())


def _same_room(before: SchedulableNode, node: SchedulableNode) -> bool:
    """Return whether a node offers what it offered before: a kubelet may report any number of resources."""
    if before.status is None or node.status is None:
        return before.status is node.status
    return before.status.allocatable == node.status.allocatable
