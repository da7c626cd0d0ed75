"""The pods that a controller would create for an object, so that a plan can include objects not yet created.

Names, labels and owners are those that the controllers write, as far as scheduling reads them. They decide
the gang of a pod, the selectors that count it, and its position in the order. Where a controller picks random
letters, they are derived from the owner's name here, so the same file gives the same pods.

A DaemonSet has a pod for each node that its template admits, bound to that node by its name. A node admits
the pods by labels, affinity and taints alone. Room does not count, because the controller leaves it to the
scheduler: that is where a DaemonSet evicts other pods. A node with a pod of the DaemonSet gets no second one.

Sources: the Job, StatefulSet, DaemonSet (NodeShouldRunDaemonPod, AddOrUpdateDaemonPodTolerations,
ReplaceDaemonSetPodNodeNameNodeAffinity) and ReplicaSet controllers of Kubernetes 1.37; kubernetes-sigs/jobset
and lws.
"""

import hashlib
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.findings import ObjectError, ObjectRef
from podium.api.meta import OwnerReference
from podium.api.nodeselector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from podium.api.podcreators import (
    EXCLUSIVE,
    CronJob,
    JobSet,
    JobSetSpec,
    JobTemplate,
    LeaderWorkerSet,
    LeaderWorkerSetSpec,
    PodCreator,
    ReplicatedJob,
    SimpleOwner,
    TemplateSpec,
)
from podium.api.podmakers import POD_MAKERS, MadePods
from podium.api.schedulable import (
    Affinity,
    NodeAffinity,
    Schedulable,
    SchedulableNode,
    SchedulableSpec,
    Toleration,
)
from podium.api.selectors import NAME_FIELD, node_terms
from podium.api.v1alpha2 import reference
from podium.cluster.state import ClusterState
from podium.groups import inferred
from podium.groups.autogroups import JOBSET_INDEX
from podium.planner.filters.nodes import untolerated
from podium.planner.preemption.protection import DAEMON_SET
from podium.planner.shapes import ShapeToleration
from podium.text import count, some

# More pods than this in one file are probably a mistake, and would take the planner minutes.
MOST_PODS = 20_000

# An annotation and label of the Job controller on pods: the pod's completion index.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_CONTROLLER_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_JOBSET = "jobset.sigs.k8s.io"
_LWS = "leaderworkerset.sigs.k8s.io"
# An annotation with which pods wait for other pods and then follow them, so no single plan covers all.
_JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_LWS_EXCLUSIVE = (EXCLUSIVE, f"{_LWS}/subgroup-exclusive-topology")

_NO_PLAN = "orders its pods, which plans do not support. Add the pods themselves"

# maxSurge of a Deployment without one, and the most digits of a percentage.
_SURGE_PERCENT, _PERCENT_DIGITS = "25", 9

# apimachinery's letters of generated names, the length of the suffix, and the maximum length of the base.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_GENERATED_BASE = 58
_HASH = 10


class Copy(NamedTuple):
    """A pod of a template: its name, its labels beside the template's, and the node of a DaemonSet's pod."""

    name: str
    labels: dict[str, str]
    node: str = ""


class Batch(NamedTuple):
    """Pods of one template (a field path in the owner) that one controller creates.

    `role` is the name of a JobSet's role, `replica` the index in a LeaderWorkerSet. `claims` is the path of
    the volumeClaimTemplates from which a StatefulSet creates claims, empty for none.
    """

    template: str
    controller: OwnerReference
    copies: tuple[Copy, ...]
    role: str = ""
    replica: int | None = None
    claims: tuple[str, ...] = ()


class Made(NamedTuple):
    """The pods that are created at once for an object, and notes on the rest."""

    batches: tuple[Batch, ...]
    notes: tuple[str, ...]


def uid_of(kind: str, namespace: str, name: str) -> str:
    """Return the uid of an object that no server has stored, always the same for the same name."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{name}"))


def generated(base: str, namespace: str, index: int = 0) -> str:
    """Return a name as generateName would; the index selects one of the 27^5 suffixes, all different."""
    base = base[:_GENERATED_BASE]
    return base + _letters(_seed(f"{namespace}/{base}") + index, _SUFFIX)


def size_of(owner: PodCreator) -> int:
    """Return the number of pods that would be created at once, in constant time. Raises ObjectError.

    It is 0 for a DaemonSet, whose pods depend on the nodes (`daemon_set`).
    """
    ref = reference(owner.apiVersion, owner.kind, owner.metadata)
    for field, number in _numbers(owner):
        if number is not None and number < 0:
            raise ObjectError(ref, field, f"is {number}, which is less than 0")
    match owner:
        case CronJob():
            raise ObjectError(ref, "spec.jobTemplate", "creates its Jobs later. Add the Job instead")
        case MadePods() if problem := _unplanned(owner):
            raise ObjectError(ref, "spec", problem)
        case LeaderWorkerSet(spec=LeaderWorkerSetSpec()) if owner.gangs()[0] and not owner.gangs()[1]:
            raise ObjectError(
                ref, "spec.leaderWorkerTemplate.size", "is 0, but the leader is a pod. Use at least 1"
            )
        case _:
            return 0 if owner.suspended else sum(owner.pod_numbers().values())


def made_by(owner: PodCreator, document: Mapping[str, Any]) -> Made:
    """Return the pods of an owner that was decoded from `document`. Raises ObjectError.

    The owner must have a name, and its `size_of` must be within the limit.
    """
    ref = reference(owner.apiVersion, owner.kind, owner.metadata)
    number = size_of(owner)
    if owner.suspended:
        raise ObjectError(ref, _suspend_field(owner), _suspended(owner))
    match owner:
        case JobSet():
            return _jobset(ref, owner, document)
        case LeaderWorkerSet():
            return _leader_worker_set(ref, owner, document)
        case MadePods():
            return _made_pods(ref, owner)
        case SimpleOwner(kind="Job"):
            indexed = value_at(document, "spec", "completionMode") == "Indexed"
            return Made((_job(ref, "spec.template", number, {}, indexed=indexed),), ())
        case SimpleOwner(kind="StatefulSet"):
            return Made((_stateful(ref, document, number),), ())
        case _:
            return Made((_replicas(ref, number),), ())


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
        suffix = f"-{(pod.metadata.labels or {}).get(inferred.TEMPLATE_HASH, '')}"
        name = maker.name if maker is not None else owner.name.removesuffix(suffix)
        pods.setdefault(ObjectRef(owner.apiVersion, "Deployment", namespace, name), []).append(pod)
    for ended_first in pods.values():
        ended_first.sort(key=lambda pod: pod.metadata.creationTimestamp or "", reverse=True)
        ended_first.sort(key=lambda pod: bool(pod.spec.nodeName))
    return pods


def _numbers(owner: PodCreator) -> Iterator[tuple[str, int | None]]:
    """Yield the fields that set numbers of pods, with their values."""
    match owner:
        case SimpleOwner(spec=TemplateSpec() as spec):
            yield from _counts("spec", spec)
        case JobSet(spec=JobSetSpec() as spec):
            for index, role in enumerate(spec.replicatedJobs or ()):
                path = f"spec.replicatedJobs[{index}]"
                yield f"{path}.replicas", role.replicas
                if role.template is not None and role.template.spec is not None:
                    yield from _counts(f"{path}.template.spec", role.template.spec)
        case LeaderWorkerSet(spec=LeaderWorkerSetSpec() as spec):
            yield "spec.replicas", spec.replicas
            if spec.leaderWorkerTemplate is not None:
                yield "spec.leaderWorkerTemplate.size", spec.leaderWorkerTemplate.size
        case _:
            return


def _counts(path: str, spec: TemplateSpec) -> Iterator[tuple[str, int | None]]:
    for field in ("replicas", "parallelism", "completions"):
        yield f"{path}.{field}", getattr(spec, field)


def _suspend_field(owner: PodCreator) -> str:
    return POD_MAKERS[owner.apiVersion, owner.kind].suspend if isinstance(owner, MadePods) else "spec.suspend"


def _suspended(owner: PodCreator) -> str:
    queue = (owner.metadata.labels or {}).get(inferred.KUEUE_QUEUE)
    waits = f"it waits for Kueue in queue {queue}" if queue else "it is suspended"
    return f"{waits} and has no pods. Remove the field to plan for them"


def _job(ref: ObjectRef, template: str, number: int, labels: Mapping[str, str], *, indexed: bool) -> Batch:
    """Return the pods of a Job; pods of an Indexed Job have an index."""
    common = {
        **labels,
        **dict.fromkeys(_CONTROLLER_UIDS, uid_of(ref.kind, ref.namespace, ref.name)),
        inferred.JOB_NAME: ref.name,
        inferred.JOB_NAME_OLD: ref.name,
    }
    if indexed:
        copies = [_indexed(ref, common, index) for index in range(number)]
    else:
        copies = [Copy(generated(f"{ref.name}-", ref.namespace, index), common) for index in range(number)]
    return Batch(template, _reference(ref), tuple(copies))


def _indexed(ref: ObjectRef, common: Mapping[str, str], index: int) -> Copy:
    place = f"-{index}-"
    name = generated(ref.name[: _GENERATED_BASE - len(place)] + place, ref.namespace)
    return Copy(name, {**common, COMPLETION_INDEX: str(index)})


def _replicas(ref: ObjectRef, number: int) -> Batch:
    """Return the pods of a ReplicaSet, or of the ReplicaSet that a Deployment creates."""
    labels = {}
    if ref.kind == "Deployment":
        labels["pod-template-hash"] = _letters(_seed(str(ref)), _HASH)
        ref = ObjectRef(
            ref.apiVersion, "ReplicaSet", ref.namespace, f"{ref.name}-{labels['pod-template-hash']}"
        )
    copies = [Copy(generated(f"{ref.name}-", ref.namespace, index), labels) for index in range(number)]
    return Batch("spec.template", _reference(ref), tuple(copies))


def daemon_set(ref: ObjectRef, uid: str, nodes: Sequence[str]) -> Batch:
    """Return the pods of a DaemonSet on these nodes."""
    labels = {"controller-revision-hash": _letters(_seed(str(ref)), _HASH)}
    copies = (
        Copy(generated(f"{ref.name}-", ref.namespace, at), labels, node) for at, node in enumerate(nodes)
    )
    controller = OwnerReference(ref.apiVersion, ref.kind, ref.name, uid, controller=True)
    return Batch("spec.template", controller, tuple(copies))


def _stateful(ref: ObjectRef, document: Mapping[str, Any], number: int) -> Batch:
    first = value_at(document, "spec", "ordinals", "start") or 0
    if not isinstance(first, int) or first < 0:
        raise ObjectError(ref, "spec.ordinals.start", "is not an initial number of pods")
    copies = [_ordinal(ref.name, first + index) for index in range(number)]
    return Batch("spec.template", _reference(ref), tuple(copies), claims=("spec",))


def _ordinal(stateful_set: str, ordinal: int, labels: Mapping[str, str] | None = None) -> Copy:
    name = f"{stateful_set}-{ordinal}"
    own = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
    return Copy(name, {**(labels or {}), **own})


def _unplanned(owner: MadePods) -> str:
    """Return why the pods of an object cannot be planned, or an empty text."""
    maker = POD_MAKERS[owner.apiVersion, owner.kind]
    if maker.elsewhere:
        return f"{maker.elsewhere}. Add the runtime to the file"
    if any(role.number is None for role in owner.roles()):
        return f"the number of pods of a {owner.kind} depends on its steps. Add the pods themselves"
    return ""


def _made_pods(ref: ObjectRef, owner: MadePods) -> Made:
    """Return the pods of each role; their controllers may also write labels that no plan reads."""
    maker = POD_MAKERS[owner.apiVersion, owner.kind]
    batches = []
    for role in owner.roles():
        labels = {maker.label: ref.name} if maker.label else {}
        labels |= {maker.role_label: role.name} if maker.role_label and role.name else {}
        base = "-".join(filter(None, (ref.name, role.name)))
        copies = tuple(Copy(f"{base}-{index}", labels) for index in range(role.number or 0))
        batches.append(Batch(role.path, _reference(ref), copies, role=role.name))
    return Made(tuple(batches), ())


def _jobset(ref: ObjectRef, owner: JobSet, document: Mapping[str, Any]) -> Made:
    """Return the pods of the roles that wait for no other role."""
    spec = owner.spec
    if spec is None:
        return Made((), ())
    _refuse_keys(ref, "metadata.annotations", owner.metadata.annotations, (_JOBSET_EXCLUSIVE,))
    first = {id(role) for role in spec.initial_roles()}
    batches: list[Batch] = []
    later: list[str] = []
    for position, role in enumerate(spec.replicatedJobs or ()):
        if id(role) in first:
            sent = document["spec"]["replicatedJobs"][position]
            batches += _role(ref, role, f"spec.replicatedJobs[{position}]", sent)
        elif role.size():
            later.append(role.name or "")
    note = f"{ref}: not planned for, because they start after other roles: {', '.join(later)}"
    return Made(tuple(batches), (note,) if later else ())


def _role(ref: ObjectRef, role: ReplicatedJob, path: str, sent: Mapping[str, Any]) -> Iterator[Batch]:
    """Yield the pods of the Jobs of a role; its Jobs are Indexed by default."""
    job = role.template or JobTemplate()
    annotations = job.metadata.annotations if job.metadata is not None else None
    _refuse_keys(ref, f"{path}.template.metadata.annotations", annotations, (_JOBSET_EXCLUSIVE,))
    indexed = (value_at(sent, "template", "spec", "completionMode") or "Indexed") == "Indexed"
    replicas = _default(role.replicas)
    for index in range(replicas):
        labels = {
            inferred.JOBSET_NAME: ref.name,
            inferred.JOBSET_ROLE: role.name or "",
            JOBSET_INDEX: str(index),
            f"{_JOBSET}/replicatedjob-replicas": str(replicas),
            f"{_JOBSET}/restart-attempt": "0",
        }
        made = ObjectRef("batch/v1", "Job", ref.namespace, f"{ref.name}-{role.name}-{index}")
        number = (job.spec or TemplateSpec()).at_once()
        batch = _job(made, f"{path}.template.spec.template", number, labels, indexed=indexed)
        yield batch._replace(role=role.name or "")


def _leader_worker_set(ref: ObjectRef, owner: LeaderWorkerSet, document: Mapping[str, Any]) -> Made:
    """Return the leaders of every replica, and the workers unless they wait for their leader."""
    pair = owner.spec.leaderWorkerTemplate if owner.spec is not None else None
    if pair is None:
        return Made((), ())
    _refuse_keys(ref, "metadata.annotations", owner.metadata.annotations, _LWS_EXCLUSIVE)
    if (value_at(document, "spec", "groupPlacementPolicy", "type") or "None") != "None":
        raise ObjectError(ref, "spec.groupPlacementPolicy", _NO_PLAN)
    workers = "spec.leaderWorkerTemplate.workerTemplate"
    leaders = workers if pair.leaderTemplate is None else "spec.leaderWorkerTemplate.leaderTemplate"
    claims = ("spec", "leaderWorkerTemplate")
    replicas, at_once = owner.gangs()
    batches: list[Batch] = []
    for replica in range(replicas):
        name = f"{ref.name}-{replica}"
        labels = {inferred.LWS_NAME: ref.name, inferred.LWS_GROUP: str(replica)}
        own = [{**labels, inferred.LWS_WORKER: str(place)} for place in range(at_once)]
        for template, stateful_set, copies in (
            (leaders, ref.name, [_ordinal(ref.name, replica, own[0])]),
            (workers, name, [_ordinal(name, place, own[place]) for place in range(1, at_once)]),
        ):
            controller = _reference(ObjectRef("apps/v1", "StatefulSet", ref.namespace, stateful_set))
            batches.append(Batch(template, controller, tuple(copies), replica=replica, claims=claims))
    waiting = replicas > 0 and _default(pair.size) > at_once
    return Made(
        tuple(batches),
        (f"{ref}: workers are not planned for, because they start after their leader",) * waiting,
    )


def value_at(value: object, *steps: str) -> Any:
    """Return the value at a path of an untyped document, or None if the path does not exist."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _refuse_keys(
    ref: ObjectRef, field: str, annotations: Mapping[str, str] | None, keys: tuple[str, ...]
) -> None:
    for key in keys:
        if annotations and annotations.get(key):
            raise ObjectError(ref, f"{field}[{key}]", _NO_PLAN)


def _reference(ref: ObjectRef) -> OwnerReference:
    uid = uid_of(ref.kind, ref.namespace, ref.name)
    return OwnerReference(ref.apiVersion, ref.kind, ref.name, uid, controller=True)


def _default(number: int | None) -> int:
    return 1 if number is None else number


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _letters(number: int, count: int) -> str:
    """Return a number in the letters of generated names."""
    text = ""
    for _ in range(count):
        number, digit = divmod(number, len(_LETTERS))
        text += _LETTERS[digit]
    return text


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
