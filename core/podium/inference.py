"""Groups that nobody declared: pods that belong together by what well-known projects write on them.

Most clusters have gangs and no PodGroup. What will diverge on the day a PodGroup is made can be told today,
from the pods alone. A pod is taken into one group: the unit that an explicit gang label names, else the
largest that its controllers speak of. Nothing here is a fact about scheduling, so reports mark it `inferred`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from podium.api.core import Pod
from podium.api.foreign import Owner
from podium.findings import ObjectRef

# kubernetes-sigs/lws: every pod carries its set, its replica and its place; place 0 leads.
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
# kubeflow/trainer: a TrainJob runs as a JobSet of its own name; the label says for which step a pod runs.
TRAINJOB_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
# volcano-sh/apis: set as annotations, and by newer releases as labels too.
VOLCANO_JOB = "volcano.sh/job-name"
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
# kubernetes-sigs/jobset
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
# kubernetes-sigs/kueue: plain pods that are admitted together, and the name of a pod's part in its Workload.
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_ROLE = "kueue.x-k8s.io/podset"
KUEUE_ROLE_HASH = "kueue.x-k8s.io/role-hash"
# Kueue writes a pod's Workload on it where topology or a prebuilt Workload asks for it.
KUEUE_WORKLOAD = "kueue.x-k8s.io/workload"
# kubernetes-sigs/scheduler-plugins, coscheduling
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
# kubeflow/training-operator (v1): PyTorchJob, MPIJob and their kin; the label does not tell which.
TRAINING_JOB = "training.kubeflow.org/job-name"
TRAINING_ROLE = "training.kubeflow.org/replica-type"
# kubernetes/kubernetes, the Job controller: the label of today and the one before 1.27.
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_NAME_OLD = "job-name"


class _Source(NamedTuple):
    """A label whose value names the group; read from annotations too where the project writes it there."""

    key: str
    api_version: str
    kind: str
    annotation: bool = False


# The first that a pod carries names its group: what schedulers gang by comes before what made the pod.
_SOURCES = (
    _Source(COSCHEDULING_GROUP, "scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    _Source(KUEUE_GROUP, "kueue.x-k8s.io/v1beta1", "Workload"),
    _Source(VOLCANO_JOB, "batch.volcano.sh/v1alpha1", "Job", annotation=True),
    _Source(JOBSET_NAME, "jobset.x-k8s.io/v1alpha2", "JobSet"),
    _Source(TRAINING_JOB, "kubeflow.org/v1", "Job"),
    _Source(VOLCANO_GROUP, "scheduling.volcano.sh/v1beta1", "PodGroup", annotation=True),
    _Source(JOB_NAME, "batch/v1", "Job"),
    _Source(JOB_NAME_OLD, "batch/v1", "Job"),
)
_ROLES = (JOBSET_ROLE, VOLCANO_TASK, TRAINING_ROLE, KUEUE_ROLE, TRAINJOB_STEP)
_TRAINJOB = ("trainer.kubeflow.org/v1alpha1", "TrainJob")

_Identity = tuple[str, str, str, str]  # apiVersion, kind, namespace, name


def infer(pods: Iterable[Pod], owners: Mapping[ObjectRef, Owner]) -> dict[ObjectRef, list[Pod]]:
    """Gather pods into the groups they seem to form; a pod that carries no known mark is in none.

    A LeaderWorkerSet makes one group a replica, named as its leader is (`serve-0`). `owners` tell a JobSet
    that a TrainJob made from one that stands alone.
    """
    found: dict[_Identity, list[Pod]] = {}
    for pod in pods:
        identity = _identity(pod)
        if identity is not None:
            found.setdefault(identity, []).append(pod)
    groups: dict[ObjectRef, list[Pod]] = {}
    for identity, members in found.items():
        groups.setdefault(_made_by(ObjectRef(*identity), owners), []).extend(members)
    return groups


def role(pod: Pod) -> str:
    """Give a pod's part in what made it (`launcher`, `worker`), or the empty string."""
    labels = pod.metadata.labels or {}
    place = labels.get(LWS_WORKER)
    if place is not None:
        return "leader" if place == "0" else "worker"
    annotations = pod.metadata.annotations or {}
    for key in _ROLES:
        name = labels.get(key) or annotations.get(key)
        if name:
            return name
    return annotations.get(KUEUE_ROLE_HASH, "")


def _identity(pod: Pod) -> _Identity | None:
    metadata = pod.metadata
    labels = metadata.labels or {}
    annotations = metadata.annotations
    namespace = metadata.namespace or ""
    index = labels.get(LWS_GROUP)
    if index is not None and LWS_NAME in labels:
        return "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", namespace, f"{labels[LWS_NAME]}-{index}"
    for key, api_version, kind, annotation in _SOURCES:
        name = labels.get(key)
        if not name and annotation and annotations:
            name = annotations.get(key)
        if name:
            if key == JOBSET_NAME and TRAINJOB_STEP in labels:
                return (*_TRAINJOB, namespace, name)
            return api_version, kind, namespace, name
    owner = metadata.controller()
    if owner is None or (owner.apiVersion, owner.kind) != ("batch/v1", "Job"):
        return None
    return owner.apiVersion, owner.kind, namespace, owner.name


def _made_by(ref: ObjectRef, owners: Mapping[ObjectRef, Owner]) -> ObjectRef:
    """Name the TrainJob instead of the JobSet it runs as."""
    made = owners.get(ref)
    parent = made.metadata.controller() if made is not None else None
    if ref.kind == "JobSet" and parent is not None and parent.kind == "TrainJob":
        return ObjectRef(parent.apiVersion, parent.kind, ref.namespace, parent.name)
    return ref
