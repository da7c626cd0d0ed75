"""Which gang a pod belongs to that asks for one, told from who made it.

Where the native API is closed nobody makes PodGroups. One label on a pod template is then enough, which is
`scheduling.podium.dev/gang: auto`: the webhook names each pod's group, the controller makes it. Both must
come to the same name with nothing but the pod to look at, for the webhook asks nobody and may see a pod
before its owner.

A label is a tenant's word, so the owner reference must say the same as the labels of JobSet and
LeaderWorkerSet do. What made a pod is in the name of its group, kind included: a Job and a JobSet of one name
have two groups.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from podium.api.core import Namespace, Pod, PodSpec, PriorityClass
from podium.api.foreign import Owner
from podium.api.groups import PODIUM_GROUP, DisruptionMode
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.findings import ObjectRef
from podium.inference import JOBSET_NAME, JOBSET_ROLE, LWS_GROUP, LWS_NAME
from podium.priority import HIGHEST_USER_PRIORITY, resolve

# The version in which a gang's group is written, which is the one that is stored: no conversion is asked for.
API_VERSION = f"{PODIUM_GROUP}/v1beta1"
# On a pod template: with `auto` its pods join a group that is made for them.
AUTO_LABEL = f"{PODIUM_GROUP}/gang"
AUTO = "auto"
# On a pod template, beside that: `single` has the members preempted one by one, not the gang as a whole.
DISRUPTION_LABEL = f"{PODIUM_GROUP}/gang-disruption"
SINGLE = "single"
# On a namespace, by its administrator: `true` lets its pods ask for a gang.
NAMESPACE_LABEL = f"{PODIUM_GROUP}/auto-groups"
ENABLED = "true"
# On a namespace, beside that: `podium-scheduler` is who schedules the pods that join a gang.
SCHEDULER_LABEL = f"{PODIUM_GROUP}/scheduler"

# kubernetes-sigs/jobset: which of a role's Jobs a pod is of; its Job is `<jobset>-<role>-<index>`.
JOBSET_INDEX = "jobset.sigs.k8s.io/job-index"
# What a gang's group carries.
GROUP_LABELS = {"app.kubernetes.io/managed-by": "podium", AUTO_LABEL: AUTO}
# The labels of a pod that are looked at here.
LABELS = (AUTO_LABEL, DISRUPTION_LABEL, JOBSET_NAME, JOBSET_ROLE, JOBSET_INDEX, LWS_NAME, LWS_GROUP)

# As the version in which groups are written has them.
_MODES: Mapping[DisruptionMode, dict[str, Any]] = {
    DisruptionMode.POD: {"single": {}},
    DisruptionMode.POD_GROUP: {"all": {}},
}

_JOB = ("batch/v1", "Job")
_JOBSET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
_LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_STATEFULSET = ("apps/v1", "StatefulSet")
# By (apiVersion, kind), as their owner references and objects carry them.
OWNER_KINDS = frozenset((_JOB, _JOBSET, _LWS))
# And what stands between them and their pods, which one may have to know to tell whose a pod is.
FOLLOWED = OWNER_KINDS | {_STATEFULSET}

# What a label's value holds at most, and so the name of a group.
_LIMIT = 63
_DIGITS = 8
_MOST_GANGS = 5_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


class Gang(NamedTuple):
    """Pods that belong together: what they belong to, and the name of their PodGroup in its namespace."""

    owner: ObjectRef
    group_name: str


def asks(metadata: ObjectMeta) -> bool:
    """Say whether a pod asks for a group to be made."""
    return (metadata.labels or {}).get(AUTO_LABEL) == AUTO


def opted_in(namespace: Namespace | None) -> bool:
    """Say whether a namespace lets its pods ask; one that is being deleted takes no new objects."""
    if namespace is None or namespace.metadata.deletionTimestamp is not None:
        return False
    return (namespace.metadata.labels or {}).get(NAMESPACE_LABEL) == ENABLED


def gang_of(pod: Pod) -> Gang | None:
    """Give the gang that a pod is of by who made it, whether it asks or not; None where that is not known."""
    metadata = pod.metadata
    controller = metadata.controller()
    if controller is None:
        return None
    labels, namespace = metadata.labels or {}, metadata.namespace or ""
    kind = (controller.apiVersion, controller.kind)
    if kind == _JOB:
        jobset = _jobset(labels, controller.name)
        if jobset is not None:
            return _gang(_JOBSET, namespace, jobset)
        return _gang(_JOB, namespace, controller.name)
    if kind == _STATEFULSET:
        index = _replica(labels, metadata.name or "", controller.name)
        return None if index is None else _gang(_LWS, namespace, labels[LWS_NAME], index)
    return None


def gang_keys(owner: Owner) -> Iterator[GroupKey]:
    """Give the groups that an owner's gangs have.

    A LeaderWorkerSet may have more replicas than it says while it is updated, and anybody can write that it
    has a billion: those beyond are told by their pods alone.
    """
    ref = owner.ref
    for index in range(min(owner.gangs, _MOST_GANGS)):
        kind = (ref.apiVersion, ref.kind)
        gang = _gang(kind, ref.namespace, ref.name, str(index) if kind == _LWS else "")
        if gang is not None:
            yield GroupKey(False, ref.namespace, gang.group_name)


def class_of(classes: Mapping[str, PriorityClass], specs: Iterable[PodSpec]) -> str:
    """Give the class of the integer that most members have, the lowest of several; empty for none.

    A class that a group may not have, or that is gone, would only have the group refused: without a class
    the group is made and its pods are found to diverge.
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
    owner: Owner, name: str, class_name: str, disruption: DisruptionMode | None = None
) -> dict[str, Any]:
    """Give the PodGroup of a gang as it is written; it goes with what its pods are made by.

    `disruption` is None for a group that exists: its mode cannot be changed.
    """
    reference = {
        "apiVersion": owner.ref.apiVersion,
        "kind": owner.ref.kind,
        "name": owner.ref.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": owner.ref.namespace,
            "labels": GROUP_LABELS,
            "ownerReferences": [reference],
        },
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": owner.gang_size}},
            **({"priorityClassName": class_name} if class_name else {}),
            **({"disruptionMode": _MODES[disruption]} if disruption is not None else {}),
        },
    }


def _jobset(labels: Mapping[str, str], job: str) -> str | None:
    """Name the JobSet that made a Job, if the labels of its pod and its name agree."""
    name = labels.get(JOBSET_NAME)
    fits = name and job == f"{name}-{labels.get(JOBSET_ROLE)}-{labels.get(JOBSET_INDEX)}"
    return name if fits else None


def _replica(labels: Mapping[str, str], pod: str, stateful_set: str) -> str | None:
    """Give a pod's replica of its LeaderWorkerSet.

    Leaders are of the StatefulSet of its name, workers of one that is called as their leader is. A leader's
    index is put on it by a webhook, maybe after ours, and is the end of its name.
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
    """Name a gang's group; None where the owner has a name that no object can have."""
    if not _NAME.fullmatch(owner):
        return None
    suffix = {_JOB: "-job", _JOBSET: "-jobset", _LWS: "-lws"}[kind]
    head = f"{owner}-{index}" if index else owner
    name = head + suffix
    if len(name) > _LIMIT:
        digits = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
        name = f"{head[: _LIMIT - len(suffix) - _DIGITS - 1].rstrip('-.')}-{digits}{suffix}"
    return Gang(ObjectRef(*kind, namespace, owner), name)
