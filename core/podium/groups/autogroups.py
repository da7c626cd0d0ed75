"""The gang of a pod that asks for one, derived from the owner that created the pod.

Where the native API is not served, no controller creates PodGroups. One label on a pod template,
`scheduling.podium.dev/gang: auto`, is then sufficient: the webhook names each pod's group, and the controller
creates it. Both must derive the same name from the pod alone. The webhook makes no request, and may see a pod
before its owner.

A tenant can set any label, so the owner reference must agree with the labels of JobSet and LeaderWorkerSet.
The name of a group contains the name and kind of the owner: a Job and a JobSet with the same name have two
groups.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from podium.api.core import Namespace, Pod, PodSpec, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.foreign import PodOwner
from podium.api.groups import PODIUM_GROUP, DisruptionMode
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.priority import HIGHEST_USER_PRIORITY, resolve
from podium.groups.inferred import JOBSET_NAME, JOBSET_ROLE, LWS_GROUP, LWS_NAME

# The version in which the group of a gang is written. It is the stored version, so no conversion is needed.
API_VERSION = f"{PODIUM_GROUP}/v1beta1"
# On a pod template: with `auto` its pods join a group that the controller creates for them.
AUTO_LABEL = f"{PODIUM_GROUP}/gang"
AUTO = "auto"
# On a pod template of a JobSet or LeaderWorkerSet with the label `gang`: with `auto` the gang is a tree.
TREE_LABEL = f"{PODIUM_GROUP}/gang-tree"
# On a pod template with the label `gang`: with `single` members are preempted one by one, not as a gang.
DISRUPTION_LABEL = f"{PODIUM_GROUP}/gang-disruption"
SINGLE = "single"
# On a namespace, set by its administrator: `true` lets its pods ask for a gang.
NAMESPACE_LABEL = f"{PODIUM_GROUP}/auto-groups"
ENABLED = "true"
# On a namespace with the label `auto-groups`: `podium-scheduler` schedules the pods that join a gang.
SCHEDULER_LABEL = f"{PODIUM_GROUP}/scheduler"

# kubernetes-sigs/jobset: the index of a pod's Job within its role. The Job is `<jobset>-<role>-<index>`.
JOBSET_INDEX = "jobset.sigs.k8s.io/job-index"
# The labels of a gang's group.
GROUP_LABELS = {"app.kubernetes.io/managed-by": "podium", AUTO_LABEL: AUTO}
# The labels of a pod that this module reads.
LABELS = (
    AUTO_LABEL,
    TREE_LABEL,
    DISRUPTION_LABEL,
    JOBSET_NAME,
    JOBSET_ROLE,
    JOBSET_INDEX,
    LWS_NAME,
    LWS_GROUP,
)

# Disruption modes in the version in which groups are written.
MODES: Mapping[DisruptionMode, dict[str, Any]] = {
    DisruptionMode.POD: {"single": {}},
    DisruptionMode.POD_GROUP: {"all": {}},
}

_JOB = ("batch/v1", "Job")
_JOBSET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
_LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_STATEFULSET = ("apps/v1", "StatefulSet")
# By (apiVersion, kind), as in owner references and objects.
OWNER_KINDS = frozenset((_JOB, _JOBSET, _LWS))
# The owners between these and their pods as well, which may be needed to find the owner of a pod.
FOLLOWED = OWNER_KINDS | {_STATEFULSET}

# The end of a group's name by the kind of the owner. A Job in a JobSet's tree has its own: another JobSet may
# have the name of the Job.
_SUFFIXES = {_JOB: "-job", _JOBSET: "-jobset", _LWS: "-lws"}
_CHILD = "-child"
# The maximum length of a label value, and so of a group name.
_LIMIT = 63
_DIGITS = 8
# The gangs of an owner that are looked up when it changes: 30 ms. The others are known by their pods.
MOST_GANGS = 2_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


class Gang(NamedTuple):
    """Pods that belong together: their owner, and the name of their PodGroup in its namespace.

    In a tree, `root` is the name of the CompositePodGroup above, and `role` the role of a JobSet's Job.
    """

    owner: ObjectRef
    group_name: str
    root: str = ""
    role: str = ""


def asks(metadata: ObjectMeta) -> bool:
    """Return whether a pod asks for a group."""
    return (metadata.labels or {}).get(AUTO_LABEL) == AUTO


def opted_in(namespace: Namespace | None) -> bool:
    """Return whether a namespace lets its pods ask for a gang; a terminating namespace does not."""
    if namespace is None or namespace.metadata.deletionTimestamp is not None:
        return False
    return (namespace.metadata.labels or {}).get(NAMESPACE_LABEL) == ENABLED


def gang_of(pod: Pod) -> Gang | None:
    """Return the gang of a pod by its owner, whether the pod asks or not; None if the owner is unknown."""
    metadata = pod.metadata
    controller = metadata.controller()
    if controller is None:
        return None
    labels, namespace = metadata.labels or {}, metadata.namespace or ""
    tree = labels.get(TREE_LABEL) == AUTO
    kind = (controller.apiVersion, controller.kind)
    if kind == _JOB:
        jobset = _jobset(labels, controller.name)
        if jobset is not None and tree:
            return job_gang(namespace, jobset, labels[JOBSET_ROLE], labels[JOBSET_INDEX])
        if jobset is not None:
            return _gang(_JOBSET, namespace, jobset)
        return _gang(_JOB, namespace, controller.name)
    if kind == _STATEFULSET:
        index = _replica(labels, metadata.name or "", controller.name)
        gang = None if index is None else _gang(_LWS, namespace, labels[LWS_NAME], index)
        return gang._replace(root=root_name(gang.owner)) if gang is not None and tree else gang
    return None


def job_gang(namespace: str, jobset: str, role: str, index: str) -> Gang | None:
    """Return the gang of one Job of a JobSet in a tree; None for names that no object has."""
    job = f"{jobset}-{role}-{index}"
    if not _NAME.fullmatch(jobset) or not _NAME.fullmatch(job):
        return None
    owner = ObjectRef(*_JOBSET, namespace, jobset)
    return Gang(owner, _fitting(job, _CHILD), root_name(owner), role)


def root_name(owner: ObjectRef) -> str:
    """Return the name of the CompositePodGroup of an owner that has gangs."""
    return _fitting(owner.name, _SUFFIXES[owner.apiVersion, owner.kind])


def gang_keys(owner: PodOwner) -> Iterator[GroupKey]:
    """Yield the keys of the groups for an owner's gangs.

    During an update a LeaderWorkerSet may have more replicas than it declares, and any user can declare a
    billion. Replicas beyond the declared number are known from their pods only.
    """
    ref = owner.ref
    for index in range(min(owner.gangs, MOST_GANGS)):
        kind = (ref.apiVersion, ref.kind)
        gang = _gang(kind, ref.namespace, ref.name, str(index) if kind == _LWS else "")
        if gang is not None:
            yield GroupKey(False, ref.namespace, gang.group_name)


def class_of(classes: Mapping[str, PriorityClass], specs: Iterable[PodSpec]) -> str:
    """Return the class of the most common integer among members, the lowest of several; empty for none.

    A group with a class that is gone or not allowed would be refused. Without a class the group is created,
    and its pods are reported as divergent.
    """
    chosen = Counter((spec.priority or 0, spec.priorityClassName or "") for spec in specs)
    counts: Counter[int] = Counter()
    for (value, _), number in chosen.items():
        counts[value] += number
    value = min(counts, key=lambda value: (-counts[value], value))
    _, name = min((pair for pair in chosen if pair[0] == value), key=lambda pair: (-chosen[pair], pair[1]))
    return name if value <= HIGHEST_USER_PRIORITY and resolve(classes, name) is not None else ""


def disruption_of(members: Iterable[ObjectMeta]) -> DisruptionMode:
    """Return how a group of these members is preempted: as a whole, unless each of them asks for `single`."""
    single = all((each.labels or {}).get(DISRUPTION_LABEL) == SINGLE for each in members)
    return DisruptionMode.POD if single else DisruptionMode.POD_GROUP


def group_of(
    owner: PodOwner, name: str, size: int, class_name: str, disruption: DisruptionMode | None = None
) -> dict[str, Any]:
    """Return the PodGroup of a gang as it is written; `size` is its minCount.

    `disruption` is None for a group that exists: its mode cannot be changed.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": group_metadata(owner, name),
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": size}},
            **({"priorityClassName": class_name} if class_name else {}),
            **({"disruptionMode": MODES[disruption]} if disruption is not None else {}),
        },
    }


def group_metadata(owner: PodOwner, name: str) -> dict[str, Any]:
    """Return the metadata of an owner's group, which is deleted together with the owner of its pods."""
    reference = {
        "apiVersion": owner.ref.apiVersion,
        "kind": owner.ref.kind,
        "name": owner.ref.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    return {
        "name": name,
        "namespace": owner.ref.namespace,
        "labels": GROUP_LABELS,
        "ownerReferences": [reference],
    }


def _jobset(labels: Mapping[str, str], job: str) -> str | None:
    """Return the JobSet of a Job, if the labels of its pod agree with its name, else None."""
    name = labels.get(JOBSET_NAME)
    fits = name and job == f"{name}-{labels.get(JOBSET_ROLE)}-{labels.get(JOBSET_INDEX)}"
    return name if fits else None


def _replica(labels: Mapping[str, str], pod: str, stateful_set: str) -> str | None:
    """Return the replica index of a pod in its LeaderWorkerSet, or None if the names do not agree.

    The leaders belong to the StatefulSet with the set's name. The workers belong to a StatefulSet with their
    leader's name. A webhook, which may run after ours, sets a leader's index label; the index is also the end
    of the leader's name.
    """
    name = labels.get(LWS_NAME)
    if not name:
        return None
    if stateful_set == name:
        head, _, index = pod.rpartition("-")
        fits = head == name and labels.get(LWS_GROUP, index) == index
    else:
        index = labels.get(LWS_GROUP, "")
        fits = stateful_set == f"{name}-{index}"
    return index if fits and _INDEX.fullmatch(index) else None


def _gang(kind: tuple[str, str], namespace: str, owner: str, index: str = "") -> Gang | None:
    """Return a gang with the name of its group; None if the owner's name is invalid for every object."""
    if not _NAME.fullmatch(owner):
        return None
    head = f"{owner}-{index}" if index else owner
    return Gang(ObjectRef(*kind, namespace, owner), _fitting(head, _SUFFIXES[kind]))


def _fitting(head: str, suffix: str) -> str:
    """Return a name that fits in a label: a longer one is cut, with digits of its hash."""
    name = head + suffix
    if len(name) > _LIMIT:
        digits = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
        name = f"{head[: _LIMIT - len(suffix) - _DIGITS - 1].rstrip('-.')}-{digits}{suffix}"
    return name
