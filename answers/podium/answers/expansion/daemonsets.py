"""The pods of a DaemonSet: one for each node that its template admits, bound to that node by its name.

A node admits the pods by labels, affinity and taints alone. Room does not count, because the controller
leaves it to the scheduler: that is where a DaemonSet evicts other pods. A node with a pod of the DaemonSet
gets no second one.

Source: NodeShouldRunDaemonPod, AddOrUpdateDaemonPodTolerations and ReplaceDaemonSetPodNodeNameNodeAffinity of
Kubernetes 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.nodeselector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from podium.api.schedulable import (
    Affinity,
    NodeAffinity,
    Schedulable,
    SchedulableNode,
    SchedulableSpec,
    Toleration,
)
from podium.api.selectors import NAME_FIELD, node_terms
from podium.planner.filters.nodes import untolerated
from podium.planner.preemption.protection import DAEMON_SET
from podium.planner.shapes import ShapeToleration
from podium.text import count, some

# The taints that pods of a DaemonSet tolerate in addition to those of its template.
_TOLERATED = (
    *(("not-ready", "NoExecute"), ("unreachable", "NoExecute")),
    *(("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule")),
    ("unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("network-unavailable", "NoSchedule")


class DaemonNodes(NamedTuple):
    """The nodes that admit the pods of a template, by name, and why the others do not, with their number."""

    admitting: tuple[str, ...]
    others: Mapping[str, int]

    @property
    def reasons(self) -> str:
        """Return the nodes without a pod in words, with their reasons."""
        return some(f"{count(number, 'node')} ({reason})" for reason, number in self.others.items())


def admitting_nodes(
    spec: SchedulableSpec, nodes: Iterable[SchedulableNode], taken: AbstractSet[str]
) -> DaemonNodes:
    """Return the nodes that get a pod of this spec; those `taken` have one already."""
    tolerations = tuple(
        ShapeToleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
        for each in tolerating(spec).tolerations or ()
    )
    required = spec.required_nodes
    terms = node_terms(required.nodeSelectorTerms, {}) if required is not None else None
    admitting: list[str] = []
    others = Counter[str]()
    for node in sorted(nodes, key=lambda each: each.metadata.name or ""):
        name, labels = node.metadata.name or "", node.metadata.labels or {}
        taints = (node.spec.taints if node.spec is not None else None) or ()
        if spec.nodeName and spec.nodeName != name:
            others["another node name"] += 1
        elif any(labels.get(key) != value for key, value in (spec.nodeSelector or {}).items()):
            others["node selector"] += 1
        elif terms is not None and not any(term.matches(name, labels) for term in terms):
            others["node affinity"] += 1
        elif left := untolerated(tolerations, taints):
            others[f"taint {left[0].key}"] += 1
        elif name in taken:
            others["has one already"] += 1
        else:
            admitting.append(name)
    return DaemonNodes(tuple(admitting), others)


def for_node(spec: SchedulableSpec, node: str) -> SchedulableSpec:
    """Return the spec of the pod for a node: its name replaces the required affinity."""
    affinity = spec.affinity or Affinity()
    named = NodeSelector([NodeSelectorTerm(None, [NodeSelectorRequirement(NAME_FIELD, "In", [node])])])
    own = msgspec.structs.replace(
        affinity.nodeAffinity or NodeAffinity(), requiredDuringSchedulingIgnoredDuringExecution=named
    )
    return msgspec.structs.replace(
        tolerating(spec), affinity=msgspec.structs.replace(affinity, nodeAffinity=own)
    )


def tolerating(spec: SchedulableSpec) -> SchedulableSpec:
    """Return a spec with the tolerations that the controller adds."""
    keys = (*_TOLERATED, _HOST_NETWORK) if spec.hostNetwork else _TOLERATED
    added = [Toleration(f"node.kubernetes.io/{key}", "Exists", None, effect) for key, effect in keys]
    return msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *added])


def nodes_of_daemon_sets(pods: Iterable[Pod]) -> dict[ObjectRef, set[str]]:
    """Return the nodes with a pod of each DaemonSet; a pod that ends leaves its node to the next."""
    nodes: dict[ObjectRef, set[str]] = {}
    for pod in pods:
        owner = pod.metadata.controller()
        if owner is None or (owner.apiVersion, owner.kind) != DAEMON_SET:
            continue
        if isinstance(pod, Schedulable) and not pod.finished and pod.metadata.deletionTimestamp is None:
            ref = ObjectRef(*DAEMON_SET, pod.metadata.namespace or "", owner.name)
            nodes.setdefault(ref, set()).update(_nodes_of(pod.spec))
    return nodes


def _nodes_of(spec: SchedulableSpec) -> list[str]:
    """Return the node of a pod of a DaemonSet, also of one that waits for it."""
    if spec.nodeName:
        return [spec.nodeName]
    required = spec.required_nodes
    terms = (required.nodeSelectorTerms if required is not None else None) or ()
    fields = (each for term in terms for each in term.matchFields or () if each.key == NAME_FIELD)
    return [name for each in fields for name in each.values or ()]
