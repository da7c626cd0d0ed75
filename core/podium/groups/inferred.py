"""Groups without a PodGroup: pods that belong together by the labels of well-known projects.

Most clusters have gangs without a PodGroup. The pods alone show which groups will diverge once PodGroups are
created. A pod is in one group only: the unit that an explicit gang label names, else the largest unit that
its controllers name. This is not a fact about scheduling, so reports mark such groups `inferred`.
"""

from collections.abc import Iterable, Iterator, Mapping

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.foreigngroups import COSCHEDULING, KAI, VOLCANO, ForeignKind
from podium.api.podkinds.custom import TRAINJOB_STEP
from podium.api.podkinds.kind import GroupLabel, PodOwner, Rank
from podium.api.podkinds.leaderworkerset import LWS_WORKER
from podium.api.podkinds.table import GROUP_LABELS, OWNER_LABELS
from podium.api.podkinds.workloads import TEMPLATE_HASH

# kubernetes-sigs/kueue: the queue of a workload. Plain pods that are admitted together have a group, and
# the name of a pod's role in its Workload.
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_ROLE = "kueue.x-k8s.io/podset"
KUEUE_ROLE_HASH = "kueue.x-k8s.io/role-hash"
# Kueue sets the Workload of a pod on the pod if topology or a prebuilt Workload needs it.
KUEUE_WORKLOAD = "kueue.x-k8s.io/workload"
# apache/yunikorn-k8shim: the application of a pod, by its label or annotation or by the older
# label; the task group of a pod that is scheduled as a gang.
YUNIKORN_APP = "yunikorn.apache.org/app-id"
YUNIKORN_APP_OLD = "applicationId"
YUNIKORN_TASKS = "yunikorn.apache.org/task-group-name"

_KUEUE = ("kueue.x-k8s.io/v1beta1", "Workload")
_YUNIKORN = ("yunikorn.apache.org/v1alpha1", "Application")


def _group_labels(kind: ForeignKind, rank: Rank) -> list[GroupLabel]:
    """Return the labels and annotations that name a PodGroup of another project."""
    return [GroupLabel(key, kind.api_versions[0], "PodGroup", rank, annotation=True) for key in kind.keys]


# The first of these on a pod names its group. One that needs a further label comes first in its rank.
_LABELS = sorted(
    (
        *_group_labels(COSCHEDULING, Rank.SCHEDULER),
        GroupLabel(KUEUE_GROUP, *_KUEUE, Rank.SCHEDULER),
        GroupLabel(YUNIKORN_APP, *_YUNIKORN, Rank.SCHEDULER, annotation=True),
        GroupLabel(YUNIKORN_APP_OLD, *_YUNIKORN, Rank.SCHEDULER, scheduler="yunikorn"),
        *GROUP_LABELS,
        *_group_labels(VOLCANO, Rank.GROUPER),
        *_group_labels(KAI, Rank.GROUPER),
    ),
    key=lambda label: (label.rank, not label.needed),
)
_ROLES = (
    *dict.fromkeys(label.role for label in GROUP_LABELS if label.role and not label.number),
    *(KUEUE_ROLE, TRAINJOB_STEP, YUNIKORN_TASKS),
)
# The kinds with the label of a group, and the kind that creates them with the same label.
_THROUGH = frozenset((label.kind, label.through) for label in GROUP_LABELS if label.through)

_Identity = tuple[str, str, str, str]  # apiVersion, kind, namespace, name


def infer(pods: Iterable[Pod], owners: Mapping[ObjectRef, PodOwner]) -> dict[ObjectRef, list[Pod]]:
    """Return the groups that pods seem to form; a pod without a known label is in none.

    A LeaderWorkerSet forms one group per replica, with the name of its leader (`serve-0`). `owners` tell a
    JobSet that a TrainJob created from an independent JobSet.
    """
    by_identity: dict[_Identity, list[Pod]] = {}
    for pod in pods:
        identity = _identity(pod)
        if identity is not None:
            by_identity.setdefault(identity, []).append(pod)
    groups: dict[ObjectRef, list[Pod]] = {}
    for identity, members in by_identity.items():
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
    for (api_version, owner_kind), label in OWNER_LABELS:
        if label.controller == kind and labels.get(label.key) and (label.needed or label.key) in labels:
            yield ObjectRef(api_version, owner_kind, namespace, labels[label.key])


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
    for label in _LABELS:
        name = labels.get(label.key)
        if not name and label.annotation and annotations:
            name = annotations.get(label.key)
        if (
            not name
            or label.scheduler not in ("", pod.scheduler)
            or (label.needed and label.needed not in labels)
        ):
            continue
        if label.kind == _YUNIKORN[1] and _generated(name):
            continue
        return (
            label.api_version,
            label.kind,
            namespace,
            f"{name}-{labels[label.number]}" if label.number else name,
        )
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
    if parent is not None and (parent.kind, ref.kind) in _THROUGH:
        return ObjectRef(parent.apiVersion, parent.kind, ref.namespace, parent.name)
    return ref
