"""Groups without a PodGroup: pods that belong together by the labels of well-known projects.

Most clusters have gangs without a PodGroup. The pods alone show which groups will diverge once PodGroups are
created. A pod is in one group only: the unit that an explicit gang label names, else the largest unit that
its controllers name. This is not a fact about scheduling, so reports mark such groups `inferred`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.foreign import PodOwner
from podium.api.foreigngroups import COSCHEDULING, KAI, VOLCANO, ForeignKind

# kubernetes-sigs/lws: every pod has labels for its set, its replica and its index; index 0 is the leader.
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
# kubeflow/trainer: a TrainJob runs as a JobSet of the same name; the label names the step of a pod.
TRAINJOB_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
# volcano-sh/apis: set as annotations, and in newer releases as labels too.
VOLCANO_JOB = "volcano.sh/job-name"
VOLCANO_TASK = "volcano.sh/task-spec"
# kubernetes-sigs/jobset
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
# kubernetes-sigs/kueue: the queue of a workload. Plain pods that are admitted together have a group, and
# the name of a pod's role in its Workload.
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_ROLE = "kueue.x-k8s.io/podset"
KUEUE_ROLE_HASH = "kueue.x-k8s.io/role-hash"
# Kueue sets the Workload of a pod on the pod if topology or a prebuilt Workload needs it.
KUEUE_WORKLOAD = "kueue.x-k8s.io/workload"
# kubeflow/training-operator (v1): PyTorchJob, MPIJob and related kinds; the label does not tell which.
TRAINING_JOB = "training.kubeflow.org/job-name"
TRAINING_ROLE = "training.kubeflow.org/replica-type"
# ray-project/kuberay: every pod has labels for its cluster and its group of workers.
RAY_CLUSTER = "ray.io/cluster"
RAY_ROLE = "ray.io/group"
# ai-dynamo/grove: the gang of a pod, and its role in the gang.
GROVE_GANG = "grove.io/podgang"
GROVE_ROLE = "grove.io/podclique"
# The PodCliqueSet of a pod of Grove.
GROVE_SET = "app.kubernetes.io/part-of"
# knative/serving: the Service of a pod.
KNATIVE_SERVICE = "serving.knative.dev/service"
# apache/yunikorn-k8shim: the application of a pod, by its label or annotation or by the older
# label; the task group of a pod that is scheduled as a gang.
YUNIKORN_APP = "yunikorn.apache.org/app-id"
YUNIKORN_APP_OLD = "applicationId"
YUNIKORN_TASKS = "yunikorn.apache.org/task-group-name"
# kubernetes/kubernetes, the Deployment controller: the suffix of the name of the ReplicaSet.
TEMPLATE_HASH = "pod-template-hash"
# kubernetes/kubernetes, the Job controller: the current label, and the label before 1.27.
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_NAME_OLD = "job-name"


class _Source(NamedTuple):
    """A label whose value names the group; an annotation counts too if the project also writes it there.

    A label without the domain of its project counts for pods of one `scheduler` only.
    """

    key: str
    api_version: str
    kind: str
    annotation: bool = False
    scheduler: str = ""


def _group_sources(kind: ForeignKind) -> list[_Source]:
    """Return the labels and annotations that name a PodGroup of another project."""
    return [_Source(key, kind.api_versions[0], "PodGroup", annotation=True) for key in kind.keys]


_TRAINJOB = ("trainer.kubeflow.org/v1alpha1", "TrainJob")
_KUEUE = ("kueue.x-k8s.io/v1beta1", "Workload")
_YUNIKORN = ("yunikorn.apache.org/v1alpha1", "Application")
# The first of these on a pod names its group: labels that schedulers use for gangs come before owner labels.
_SOURCES = (
    *_group_sources(COSCHEDULING),
    _Source(KUEUE_GROUP, *_KUEUE),
    _Source(YUNIKORN_APP, *_YUNIKORN, annotation=True),
    _Source(YUNIKORN_APP_OLD, *_YUNIKORN, scheduler="yunikorn"),
    _Source(VOLCANO_JOB, "batch.volcano.sh/v1alpha1", "Job", annotation=True),
    _Source(JOBSET_NAME, "jobset.x-k8s.io/v1alpha2", "JobSet"),
    _Source(RAY_CLUSTER, "ray.io/v1", "RayCluster"),
    _Source(GROVE_GANG, "scheduler.grove.io/v1alpha1", "PodGang"),
    _Source(TRAINING_JOB, "kubeflow.org/v1", "Job"),
    *_group_sources(VOLCANO),
    *_group_sources(KAI),
    _Source(JOB_NAME, "batch/v1", "Job"),
    _Source(JOB_NAME_OLD, "batch/v1", "Job"),
)


class _Maker(NamedTuple):
    """A label with the name of an owner, for pods with a further label and a controller of a kind."""

    key: str
    needed: str
    controller: str
    owner: tuple[str, str]


# Owners of controllers that generated names have, each before its own owner.
_MAKERS = (
    _Maker(LWS_NAME, LWS_NAME, "StatefulSet", ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")),
    _Maker(JOBSET_NAME, JOBSET_NAME, "Job", ("jobset.x-k8s.io/v1alpha2", "JobSet")),
    _Maker(JOBSET_NAME, TRAINJOB_STEP, "Job", _TRAINJOB),
    # Only mpi-operator starts pods by a Job; training-operator creates them itself.
    _Maker(TRAINING_JOB, TRAINING_JOB, "Job", ("kubeflow.org/v2beta1", "MPIJob")),
    _Maker(GROVE_SET, GROVE_GANG, "PodClique", ("grove.io/v1alpha1", "PodCliqueSet")),
    _Maker(KNATIVE_SERVICE, KNATIVE_SERVICE, "ReplicaSet", ("serving.knative.dev/v1", "Service")),
)
_ROLES = (
    JOBSET_ROLE,
    VOLCANO_TASK,
    TRAINING_ROLE,
    RAY_ROLE,
    GROVE_ROLE,
    KUEUE_ROLE,
    TRAINJOB_STEP,
    YUNIKORN_TASKS,
)

_Identity = tuple[str, str, str, str]  # apiVersion, kind, namespace, name


def infer(pods: Iterable[Pod], owners: Mapping[ObjectRef, PodOwner]) -> dict[ObjectRef, list[Pod]]:
    """Return the groups that pods seem to form; a pod without a known label is in none.

    A LeaderWorkerSet forms one group per replica, with the name of its leader (`serve-0`). `owners` tell a
    JobSet that a TrainJob created from an independent JobSet.
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


def owners_by_labels(pod: Pod) -> Iterator[ObjectRef]:
    """Yield the owners that a pod's labels name, even if its controllers were not read, the topmost last.

    A ReplicaSet has the name of its Deployment before the hash of the template.
    """
    labels, namespace = pod.metadata.labels or {}, pod.metadata.namespace or ""
    controller = pod.metadata.controller()
    kind = controller.kind if controller is not None else ""
    if controller is not None and kind == "ReplicaSet" and TEMPLATE_HASH in labels:
        name = controller.name.removesuffix(f"-{labels[TEMPLATE_HASH]}")
        if name != controller.name:
            yield ObjectRef(controller.apiVersion, "Deployment", namespace, name)
    for maker in _MAKERS:
        if maker.controller == kind and labels.get(maker.key) and maker.needed in labels:
            yield ObjectRef(*maker.owner, namespace, labels[maker.key])


def queued_together(pod: Pod) -> bool:
    """Return whether a queue manages pods without a controller as one workload: Kueue, or YuniKorn."""
    identity = _identity(pod)
    return identity is not None and identity[:2] in (_KUEUE, _YUNIKORN)


def role(pod: Pod) -> str:
    """Return a pod's role in its owner (`launcher`, `worker`), or the empty string."""
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
    for key, api_version, kind, annotation, scheduler in _SOURCES:
        name = labels.get(key)
        if not name and annotation and annotations:
            name = annotations.get(key)
        if name and scheduler in ("", pod.scheduler):
            if kind == _YUNIKORN[1] and _generated(name):
                continue
            if key == JOBSET_NAME and TRAINJOB_STEP in labels:
                return (*_TRAINJOB, namespace, name)
            return api_version, kind, namespace, name
    owner = metadata.controller()
    if owner is None or (owner.apiVersion, owner.kind) != ("batch/v1", "Job"):
        return None
    return owner.apiVersion, owner.kind, namespace, owner.name


def _generated(application: str) -> bool:
    """Return whether YuniKorn made up an application, for all other pods of a namespace or for one pod."""
    shared = application.startswith("yunikorn-") and application.endswith("-autogen")
    return shared or application.endswith("-uniqueautogen")


def _made_by(ref: ObjectRef, owners: Mapping[ObjectRef, PodOwner]) -> ObjectRef:
    """Return the TrainJob of a JobSet that a TrainJob created, else the object itself."""
    made = owners.get(ref)
    parent = made.metadata.controller() if made is not None else None
    if ref.kind == "JobSet" and parent is not None and parent.kind == "TrainJob":
        return ObjectRef(parent.apiVersion, parent.kind, ref.namespace, parent.name)
    return ref
