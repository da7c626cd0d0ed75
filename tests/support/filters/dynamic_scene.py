"""A cluster twice: as a snapshot with the filters that depend on other pods, and as plain objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tests.support.filters import builders, plain_dynamic
from tests.support.filters.builders import empty_snapshot

from podium.api.core import Namespace
from podium.api.meta import ObjectMeta
from podium.api.schedulable import Schedulable
from podium.planner.filters.counters import NominatedPods
from podium.planner.framework import ChainContext
from podium.planner.plugins.declaredfeatures import DeclaredFeaturesFilter
from podium.planner.plugins.nodeports import HostPortsFilter
from podium.planner.plugins.podaffinity.plugin import (
    ExistingAntiAffinityFilter,
    PodAffinityFilter,
    PodAntiAffinityFilter,
)
from podium.planner.plugins.topologyspread import TopologyLabelsFilter, TopologySpreadFilter
from podium.planner.plugins.volumes.exclusive import DisksFilter
from podium.planner.shapes import Shape, shape_of
from podium.planner.snapshot import Snapshot

NAMESPACES = {
    "team-a": Namespace(metadata=ObjectMeta(name="team-a", labels={"env": "prod"})),
    "team-b": Namespace(metadata=ObjectMeta(name="team-b", labels={"env": "test"})),
}


SAYS = {
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "disk": "node(s) had no available disk",
    "skew": "node(s) didn't match pod topology spread constraints",
    "label": "node(s) didn't match pod topology spread constraints (missing required label)",
    "affinity": "node(s) didn't match pod affinity rules",
    "anti-affinity": "node(s) didn't match pod anti-affinity rules",
    "existing": "node(s) didn't satisfy existing pods anti-affinity rules",
    "features": "node(s) didn't match Pod's required features",
}


class Filters:
    """Every filter of this kind on one snapshot, in kube-scheduler's order."""

    def __init__(self, snapshot: Snapshot, namespaces: Mapping[str, Namespace] = NAMESPACES) -> None:
        self.snapshot = snapshot
        context = ChainContext(namespaces)
        self.nominated = context.shared(NominatedPods, snapshot)
        filters = {type(own): own for own in context.filters_of(snapshot.plugins)}
        kinds = (PodAffinityFilter, PodAntiAffinityFilter, ExistingAntiAffinityFilter)
        self.by_namespace = tuple(filters[kind] for kind in kinds)
        self.affinity, self.spread = filters[PodAffinityFilter], filters[TopologySpreadFilter]
        self.all = tuple(
            filters[kind]
            for kind in (
                *(HostPortsFilter, DisksFilter, TopologySpreadFilter, TopologyLabelsFilter),
                *(*kinds, DeclaredFeaturesFilter),
            )
        )

    def why(self, shape: Shape, node: str) -> list[str]:
        """Return the refusals of a node by every filter, each of which must agree with its mask."""
        row = self.snapshot.row[node]
        reasons = []
        for each in self.all:
            why, fits = each.reason(shape, row), bool(each.mask(shape)[row])
            assert fits == (why is None), each
            reasons += [] if why is None else [why]
        return reasons


class Scene:
    """A cluster twice: as a snapshot with its filters, and as plain objects."""

    def __init__(self, templates: Sequence[Mapping[str, Any]], *, late: bool = False) -> None:
        """Take all possible pods; `late` attaches the filters only at their first use."""
        self.snapshot = empty_snapshot()
        self.templates = templates
        self.nodes: dict[str, plain_dynamic.Node] = {}
        self.pods: dict[str, tuple[int, str | None, bool]] = {}
        self.moved: dict[str, str | None] = {}
        self.shapes = [
            shape_of(self._pod("asked", which), self.snapshot.plugins) for which in range(len(templates))
        ]
        self._filters: Filters | None = None if late else Filters(self.snapshot)

    def _pod(
        self, name: str, which: int, node: str | None = None, *, terminating: bool = False
    ) -> Schedulable:
        return builders.pod(name, node=node, terminating=terminating, **self.templates[which])

    def put_node(self, name: str, labels: Mapping[str, str], *, tainted: bool) -> None:
        taints = [{"key": "dedicated", "effect": "NoSchedule"}] if tainted else []
        self.nodes[name] = plain_dynamic.Node(labels, taints)
        self.snapshot.add_node(builders.node(name, labels=labels, taints=taints))

    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.snapshot.remove_node(name)

    def put_pod(self, name: str, which: int, node: str | None, *, terminating: bool) -> None:
        """Add or change a pod: its labels, constraints, node, or deletion."""
        before = self.templates[self.pods[name][0]] if name in self.pods else {}
        if before.get("namespace") != self.templates[which].get("namespace"):
            self.drop_pod(name)
        self.pods[name] = (which, node, terminating)
        self.snapshot.add_pod(self._pod(name, which, node, terminating=terminating))

    def drop_pod(self, name: str) -> None:
        which, _, _ = self.pods.pop(name, (0, None, False))
        self.snapshot.remove_pod((str(self.templates[which].get("namespace", builders.NS)), name))

    def attempt(self, moves: Sequence[tuple[str, str | None]], *, at_once: bool) -> None:
        """Move pods to other nodes, or off nodes, one by one or in bulk; undo all of it afterwards."""
        row = {name: at for (_, name), at in self.snapshot.pod_row.items()}
        to = {name: node for name, node in moves if name in row and (node is None or node in self.nodes)}
        removed = [name for name, node in to.items() if node is None]
        with self.snapshot.trial():
            self.moved = to
            if at_once:
                self.snapshot.remove_many(np.array([row[name] for name in removed], np.intp))
            for name, node in to.items():
                if node is not None:
                    self.snapshot.assume(row[name], self.snapshot.row[node])
                elif not at_once:
                    self.snapshot.remove(row[name])
            self.check()
        self.moved = {}
        self.check()

    def nominate(self, moves: Sequence[tuple[str, str]]) -> None:
        """Assume pods on nodes; undo all of it afterwards."""
        self._filters = self._filters or Filters(self.snapshot)
        row = {name: at for (_, name), at in self.snapshot.pod_row.items()}
        to = {name: node for name, node in moves if name in row and node in self.nodes}
        self.moved = dict(to)
        with self.snapshot.trial():
            for name, node in to.items():
                self.snapshot.assume(row[name], self.snapshot.row[node])
            self._filters.nominated.assume_all(np.array([row[name] for name in to], np.intp))
            self.check(absent=frozenset(to))
        self._filters.nominated.clear()
        self.moved = {}
        self.check()

    def check(self, absent: frozenset[str] = frozenset()) -> None:
        """Assert that every filter agrees with the oracle on every pod and node; pods may be `absent`."""
        self._filters = self._filters or Filters(self.snapshot)
        standing, certain = [], []
        for name, (which, node, terminating) in self.pods.items():
            node = self.moved.get(name, node)  # noqa: PLW2901 - the node on which it counts now
            if node in self.nodes:
                standing.append((self.plain(which, terminating=terminating), node))
                certain += [] if name in absent else standing[-1:]
        labels = {name: namespace.metadata.labels or {} for name, namespace in NAMESPACES.items()}
        cluster = plain_dynamic.Cluster(self.nodes, standing, labels)
        without = plain_dynamic.Cluster(self.nodes, certain, labels)
        nodes = list(self.nodes)
        rows = np.array([self.snapshot.row[node] for node in nodes], np.intp)
        for which, shape in enumerate(self.shapes):
            pod = self.plain(which)
            for node in nodes:
                refused = {
                    *plain_dynamic.refusals(cluster, pod, node),
                    *plain_dynamic.refusals(without, pod, node),
                }
                want = [message for each, message in SAYS.items() if each in refused]
                assert self._filters.why(shape, node) == want, (self.templates[which], node)
            near, even = (
                by.scores(shape, rows) // 2 for by in (self._filters.affinity, self._filters.spread)
            )
            assert dict(zip(nodes, near, strict=True)) == plain_dynamic.affinity_scores(cluster, pod, nodes)
            assert dict(zip(nodes, even, strict=True)) == plain_dynamic.spread_scores(cluster, pod, nodes)

    def plain(self, which: int, *, terminating: bool = False) -> plain_dynamic.Pod:
        spec = dict(self.templates[which])
        return plain_dynamic.Pod(
            spec.pop("namespace", builders.NS), spec.pop("labels", {}), spec, terminating=terminating
        )
