"""The pods that a controller would create for an object of a file, and those of the cluster that end for it.

The row of a kind has its pods (`podium.api.podkinds`). Two kinds depend on the cluster. The rollout of a
Deployment ends old pods. A DaemonSet has a pod for each node that its template admits, bound to that node by
its name. A node admits the pods by labels, affinity and taints alone. Room does not count, because the
controller leaves it to the scheduler: that is where a DaemonSet evicts other pods. A node with a pod of the
DaemonSet gets no second one.

Sources: the Deployment and DaemonSet (NodeShouldRunDaemonPod, AddOrUpdateDaemonPodTolerations,
ReplaceDaemonSetPodNodeNameNodeAffinity) controllers of Kubernetes 1.37.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.findings import ObjectError, ObjectRef
from podium.api.podkinds.created import CreatedPods, value_at
from podium.api.podkinds.kind import PodCreator, PodOwner
from podium.api.podkinds.table import OWNER_KINDS
from podium.api.podkinds.workloads import TEMPLATE_HASH
from podium.api.schedulable import (
    Affinity,
    NodeAffinity,
    Schedulable,
    SchedulableNode,
    SchedulableSpec,
    Toleration,
)
from podium.api.selectors import (
    NAME_FIELD,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    node_terms,
)
from podium.cluster.state import ClusterState
from podium.groups.inferred import KUEUE_QUEUE
from podium.planner.plugins.tainttoleration import shape_tolerations, untolerated
from podium.planner.preemption.protection import DAEMON_SET
from podium.text import count, some

# More pods than this in one file are probably a mistake, and would take the planner minutes.
MOST_PODS = 20_000

# maxSurge of a Deployment without one, and the most digits of a percentage.
_SURGE_PERCENT, _PERCENT_DIGITS = "25", 9


def size_of(creator: PodCreator) -> int:
    """Return the number of pods that would be created at once, in constant time. Raises ObjectError.

    It is 0 for a DaemonSet, whose pods depend on the nodes.
    """
    owner = _planned(creator)
    return 0 if owner.suspended else sum(owner.pods.values())


def _planned(creator: PodCreator) -> PodOwner:
    """Return the neutral form of an object whose pods can be planned. Raises ObjectError for others."""
    for field, number in creator.numbers():
        if number is not None and number < 0:
            raise ObjectError(creator.ref, field, f"is {number}, which is less than 0")
    field, problem = creator.unplanned()
    if problem:
        raise ObjectError(creator.ref, field, problem)
    return creator.neutral()


def created_pods(creator: PodCreator, document: Mapping[str, Any]) -> CreatedPods:
    """Return the pods of an object that was decoded from `document`. Raises ObjectError.

    The object must have a name, and its `size_of` must be within the limit.
    """
    owner = _planned(creator)
    if owner.suspended:
        field = OWNER_KINDS[creator.apiVersion, creator.kind].suspend or "spec.suspend"
        queue = (owner.metadata.labels or {}).get(KUEUE_QUEUE)
        waits = f"it waits for Kueue in queue {queue}" if queue else "it is suspended"
        raise ObjectError(owner.ref, field, f"{waits} and has no pods. Remove the field to plan for them")
    return creator.created(owner, document)


def rollout_surge(document: Mapping[str, Any], replicas: int) -> int:
    """Return how many pods a Deployment may have beyond its replicas while they are replaced.

    Source: ResolveFenceposts of the Deployment controller.
    """
    strategy = value_at(document, "spec", "strategy")
    if value_at(strategy, "type") == "Recreate":
        return 0
    surge = value_at(strategy, "rollingUpdate", "maxSurge")
    if isinstance(surge, int):
        return max(surge, 0)
    percent = surge.removesuffix("%") if isinstance(surge, str) else _SURGE_PERCENT
    known = percent.isdecimal() and len(percent) <= _PERCENT_DIGITS
    return math.ceil(replicas * int(percent) / 100) if known else 0


def pods_of_deployments(state: ClusterState) -> dict[ObjectRef, list[Schedulable]]:
    """Return the pods of each Deployment that have not ended, those that its ReplicaSets end first ahead.

    These are pods without a node, and then the youngest.
    """
    pods: dict[ObjectRef, list[Schedulable]] = {}
    for pod in state.pods.values():
        owner, namespace = pod.metadata.controller(), pod.metadata.namespace or ""
        if not isinstance(pod, Schedulable) or owner is None or owner.kind != "ReplicaSet" or pod.finished:
            continue
        replica_set = state.owners.get(ObjectRef(owner.apiVersion, owner.kind, namespace, owner.name))
        maker = replica_set.metadata.controller() if replica_set is not None else None
        suffix = f"-{(pod.metadata.labels or {}).get(TEMPLATE_HASH, '')}"
        name = maker.name if maker is not None else owner.name.removesuffix(suffix)
        pods.setdefault(ObjectRef(owner.apiVersion, "Deployment", namespace, name), []).append(pod)
    for ended_first in pods.values():
        ended_first.sort(key=lambda pod: pod.metadata.creationTimestamp or "", reverse=True)
        ended_first.sort(key=lambda pod: bool(pod.spec.nodeName))
    return pods


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
    tolerations = shape_tolerations(tolerating(spec))
    required = spec.required_nodes
    terms = node_terms(required.nodeSelectorTerms, {}) if required is not None else None
    admitting: list[str] = []
    others = Counter[str]()
    for node in sorted(nodes, key=lambda node: node.metadata.name or ""):
        name, labels = node.metadata.name or "", node.metadata.labels or {}
        taints = (node.spec.taints if node.spec is not None else None) or ()
        if spec.nodeName and spec.nodeName != name:
            others["another node name"] += 1
        elif any(labels.get(key) != value for key, value in (spec.nodeSelector or {}).items()):
            others["node selector"] += 1
        elif terms is not None and not any(term.matches(name, labels) for term in terms):
            others["node affinity"] += 1
        elif repelling := untolerated(tolerations, taints):
            others[f"taint {repelling[0].key}"] += 1
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
    fields = (field for term in terms for field in term.matchFields or () if field.key == NAME_FIELD)
    return [name for field in fields for name in field.values or ()]
