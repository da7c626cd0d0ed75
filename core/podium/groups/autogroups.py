"""The gang of a pod that asks for one, derived from the owner that created the pod.

Where the native API is not served, no controller creates PodGroups. One label on a pod template,
`scheduling.podium.dev/gang: auto`, is then sufficient: the webhook names each pod's group, and the controller
creates it. Both must derive the same name from the pod alone. The webhook makes no request, and may see a pod
before its owner.

A tenant can set any label, so the owner reference must agree with the labels of JobSet and LeaderWorkerSet.
The name of a group contains the name and kind of the owner: a Job and a JobSet with the same name have two
groups.

With `scheduling.podium.dev/gang-tree: auto` beside the label for a gang, each Job of a JobSet has a PodGroup,
and so has each replica of a LeaderWorkerSet. A CompositePodGroup of the owner is the root. A JobSet needs all
its Jobs, so its root is a gang of the Jobs that wait for no other role. The replicas of a LeaderWorkerSet
serve independently, so its root is `basic`: it holds the topology of all replicas.

The request is a label of the pods, not of the owner, because the webhook names the group of a pod by the pod
alone. The policy of a composite group is immutable. So a root is created once and never changed.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from podium.api.core import Namespace, Pod, PodSpec, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.groups import PODIUM_GROUP, DisruptionMode
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.podkinds.kind import Branch, GangForm, PodOwner
from podium.api.podkinds.table import GANG_FORMS
from podium.api.priority import HIGHEST_USER_PRIORITY, resolve
from podium.groups.topology import PREFERRED_TOPOLOGY

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

# An annotation on an owner for the root, and on a pod template for its groups: a label of nodes. All pods of
# the group share one value of the label.
REQUIRED_TOPOLOGY = f"{PODIUM_GROUP}/required-topology"
# The annotations of an owner that this module reads.
ANNOTATIONS = (PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY)
# The longest annotation that is copied to a group; three labels of nodes are shorter.
_LONGEST = 1_000
# The names of the templates of a root and of its children, in the reference that every group of a tree must
# have. No Workload of the root's name exists.
_ROOT_TEMPLATE, _CHILD_TEMPLATE = "root", "child"
# The labels of a gang's group.
GROUP_LABELS = {"app.kubernetes.io/managed-by": "podium", AUTO_LABEL: AUTO}
# The labels of a pod that tell its place in the gangs of a kind.
FORM_LABELS = tuple(label for form in GANG_FORMS.values() for label in form.labels)
# The labels of a pod that this module reads.
LABELS = (
    AUTO_LABEL,
    TREE_LABEL,
    DISRUPTION_LABEL,
    *FORM_LABELS,
)

# Disruption modes in the version in which groups are written.
_MODES: Mapping[DisruptionMode, dict[str, Any]] = {
    DisruptionMode.POD: {"single": {}},
    DisruptionMode.POD_GROUP: {"all": {}},
}

# The owners of gangs and the controllers of their pods, which may be needed to find the owner of a pod.
FOLLOWED = GANG_FORMS.keys() | {form.controller for form in GANG_FORMS.values()}
# The kinds with gangs, those above other kinds with the same controller first.
_BY_CONTROLLER: dict[tuple[str, str], list[tuple[str, str]]] = {}
for _kind, _form in sorted(GANG_FORMS.items(), key=lambda item: item[0] == item[1].controller):
    _BY_CONTROLLER.setdefault(_form.controller, []).append(_kind)

# The end of the name of a Job's group in a JobSet's tree: another JobSet may have the name of the Job.
_CHILD = "-child"
# The maximum length of a label value, and so of a group name.
_LIMIT = 63
_DIGITS = 8
# The gangs of an owner that are looked up when it changes: 30 ms. The others are known by their pods.
MOST_GANGS = 2_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


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
    for kind in _BY_CONTROLLER.get((controller.apiVersion, controller.kind), ()):
        part = GANG_FORMS[kind].part(labels, metadata.name or "", controller.name)
        if part is None:
            continue
        owner = ObjectRef(*kind, namespace, part.owner)
        if part.role is not None:
            return job_gang(owner, part.role, part.number) if tree else _gang(owner)
        gang = _gang(owner, part.number)
        return gang._replace(root=root_name(owner)) if gang is not None and tree and part.number else gang
    return None


def job_gang(owner: ObjectRef, role: str, number: str) -> Gang | None:
    """Return the gang of one Job of a JobSet in a tree; None for names that no object has."""
    job = f"{owner.name}-{role}-{number}"
    if not _NAME.fullmatch(owner.name) or not _NAME.fullmatch(job):
        return None
    return Gang(owner, _fitting(job, _CHILD), root_name(owner), role)


def root_name(owner: ObjectRef) -> str:
    """Return the name of the CompositePodGroup of an owner that has gangs."""
    return _fitting(owner.name, form_of(owner).suffix)


def gang_keys(owner: PodOwner) -> Iterator[GroupKey]:
    """Yield the keys of the groups for an owner's gangs.

    During an update a LeaderWorkerSet may have more replicas than it declares, and any user can declare a
    billion. Replicas beyond the declared number are known from their pods only.
    """
    for index in range(min(owner.gangs, MOST_GANGS)):
        gang = _gang(owner.ref, str(index) if form_of(owner.ref).replicated else "")
        if gang is not None:
            yield GroupKey(False, owner.ref.namespace, gang.group_name)


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
    single = all((member.labels or {}).get(DISRUPTION_LABEL) == SINGLE for member in members)
    return DisruptionMode.POD if single else DisruptionMode.POD_GROUP


def _group_metadata(owner: PodOwner, name: str) -> dict[str, Any]:
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


def form_of(owner: ObjectRef) -> GangForm:
    """Return the form of an owner's gangs."""
    return GANG_FORMS[owner.apiVersion, owner.kind]


def _gang(owner: ObjectRef, number: str = "") -> Gang | None:
    """Return a gang with the name of its group; None if the owner's name is invalid for every object."""
    if not _NAME.fullmatch(owner.name):
        return None
    head = f"{owner.name}-{number}" if number else owner.name
    return Gang(owner, _fitting(head, form_of(owner).suffix))


def _fitting(head: str, suffix: str) -> str:
    """Return a name that fits in a label: a longer one is cut, with digits of its hash."""
    name = head + suffix
    if len(name) > _LIMIT:
        digits = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
        name = f"{head[: _LIMIT - len(suffix) - _DIGITS - 1].rstrip('-.')}-{digits}{suffix}"
    return name


def size_of(owner: PodOwner, gang: Gang) -> int:
    """Return the minCount of a gang: of its Job in the tree of a JobSet, else the owner's; 0 if unknown."""
    if not gang.role:
        return owner.gang_size
    return next((branch.size for branch in owner.branches if branch.role == gang.role), 0)


def leaf_of(
    owner: PodOwner, gang: Gang, class_name: str, disruption: DisruptionMode | None = None
) -> dict[str, Any]:
    """Return the PodGroup of a gang, in its tree if it has one.

    `disruption` is None for a group that exists. Its place in the tree and its topology cannot be changed
    either.
    """
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": _group_metadata(owner, gang.group_name),
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": size_of(owner, gang)}},
            **({"priorityClassName": class_name} if class_name else {}),
            **({"disruptionMode": _MODES[disruption]} if disruption is not None else {}),
        },
    }
    if gang.root and disruption is not None:
        annotations = next((branch.annotations for branch in owner.branches if branch.role == gang.role), {})
        _place(document, gang.root, _CHILD_TEMPLATE, annotations)
        document["spec"]["parentCompositePodGroupName"] = gang.root
    return document


def root_of(owner: PodOwner, class_name: str) -> dict[str, Any] | None:
    """Return the CompositePodGroup of an owner, or None if no pod of it asks for a tree or may run now."""
    asking = [branch for branch in owner.branches if _asks(branch)]
    jobs = sum(branch.groups for branch in asking if branch.first and branch.size > 0)
    if jobs < 1:
        return None
    gang = form_of(owner.ref).whole
    single = all(branch.labels.get(DISRUPTION_LABEL) == SINGLE for branch in asking)
    whole = gang and not single
    name = root_name(owner.ref)
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "CompositePodGroup",
        "metadata": _group_metadata(owner, name),
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": jobs}} if gang else {"basic": {}},
            **({"priorityClassName": class_name} if class_name else {}),
            "disruptionMode": _MODES[DisruptionMode.POD_GROUP if whole else DisruptionMode.POD],
        },
    }
    _place(document, name, _ROOT_TEMPLATE, owner.metadata.annotations or {})
    return document


def owner_keys(owner: PodOwner) -> Iterator[GroupKey]:
    """Yield the keys of all groups that an owner may have: of its gangs, and of its tree."""
    yield from gang_keys(owner)
    if owner.branches:
        yield GroupKey(False, owner.ref.namespace, root_name(owner.ref), composite=True)
        yield from _job_keys(owner)


def _job_keys(owner: PodOwner) -> Iterator[GroupKey]:
    whole = form_of(owner.ref).whole
    asking = [branch for branch in owner.branches if whole and _asks(branch)]
    jobs = ((branch.role, str(index)) for branch in asking for index in range(branch.groups))
    # Before the names are checked: any user can declare a billion Jobs of a name that no Job can have.
    for role, index in islice(jobs, MOST_GANGS):
        gang = job_gang(owner.ref, role, index)
        if gang is not None:
            yield GroupKey(False, owner.ref.namespace, gang.group_name)


def _asks(branch: Branch) -> bool:
    return branch.labels.get(AUTO_LABEL) == AUTO and branch.labels.get(TREE_LABEL) == AUTO


def _place(document: dict[str, Any], workload: str, template: str, annotations: Mapping[str, str]) -> None:
    """Add the topology that annotations ask for, and the reference to a Workload."""
    metadata, spec = document["metadata"], document["spec"]
    spec["workloadRef"] = {"workloadName": workload, "templateName": template}
    required = annotations.get(REQUIRED_TOPOLOGY, "").strip()
    preferred = annotations.get(PREFERRED_TOPOLOGY, "").strip()
    if required:
        spec["schedulingConstraints"] = {"topology": [{"key": required}]}
    if preferred and len(preferred) <= _LONGEST:
        metadata["annotations"] = {PREFERRED_TOPOLOGY: preferred}
