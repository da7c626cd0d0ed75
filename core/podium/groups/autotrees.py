"""The tree of a JobSet or LeaderWorkerSet that asks for one: a composite group above those of its parts.

With `scheduling.podium.dev/gang-tree: auto` beside the label for a gang, each Job of a JobSet has a PodGroup,
and so has each replica of a LeaderWorkerSet. A CompositePodGroup of the owner is the root. A JobSet needs all
its Jobs, so its root is a gang of the Jobs that wait for no other role. The replicas of a LeaderWorkerSet
serve independently, so its root is `basic`: it holds the topology of all replicas.

The request is a label of the pods, not of the owner, because the webhook names the group of a pod by the pod
alone. The policy of a composite group is immutable. So a root is created once and never changed.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from podium.api.foreign import PodOwner
from podium.api.groups import PODIUM_GROUP, DisruptionMode
from podium.api.membership import GroupKey
from podium.api.podcreators import Branch
from podium.groups.autogroups import (
    API_VERSION,
    AUTO,
    AUTO_LABEL,
    DISRUPTION_LABEL,
    MODES,
    MOST_GANGS,
    SINGLE,
    TREE_LABEL,
    Gang,
    gang_keys,
    group_metadata,
    group_of,
    job_gang,
    root_name,
)
from podium.groups.topology import PREFERRED_TOPOLOGY

# An annotation on an owner for the root, and on a pod template for its groups: a label of nodes. All pods of
# the group share one value of the label.
REQUIRED_TOPOLOGY = f"{PODIUM_GROUP}/required-topology"
# The annotations of an owner that this module reads.
ANNOTATIONS = (PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY)
# The longest annotation that is copied to a group; three labels of nodes are shorter.
_LONGEST = 1_000
# The names of the templates of a root and of its children, in the reference that every group of a tree must
# have. No Workload of the root's name exists.
_ROOT, _CHILD = "root", "child"


def size_of(owner: PodOwner, gang: Gang) -> int:
    """Return the minCount of a gang: of its Job in the tree of a JobSet, else the owner's; 0 if unknown."""
    if not gang.role:
        return owner.gang_size
    return next((each.size for each in owner.branches if each.role == gang.role), 0)


def leaf_of(
    owner: PodOwner, gang: Gang, class_name: str, disruption: DisruptionMode | None = None
) -> dict[str, Any]:
    """Return the PodGroup of a gang, in its tree if it has one.

    `disruption` is None for a group that exists. Its place in the tree and its topology cannot be changed
    either.
    """
    document = group_of(owner, gang.group_name, size_of(owner, gang), class_name, disruption)
    if gang.root and disruption is not None:
        asked = next((each.annotations for each in owner.branches if each.role == gang.role), {})
        _place(document, gang.root, _CHILD, asked)
        document["spec"]["parentCompositePodGroupName"] = gang.root
    return document


def root_of(owner: PodOwner, class_name: str) -> dict[str, Any] | None:
    """Return the CompositePodGroup of an owner, or None if no pod of it asks for a tree or may run now."""
    asking = [each for each in owner.branches if _asks(each)]
    jobs = sum(each.groups for each in asking if each.first and each.size > 0)
    if jobs < 1:
        return None
    gang = owner.ref.kind == "JobSet"
    single = all(each.labels.get(DISRUPTION_LABEL) == SINGLE for each in asking)
    whole = gang and not single
    name = root_name(owner.ref)
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "CompositePodGroup",
        "metadata": group_metadata(owner, name),
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": jobs}} if gang else {"basic": {}},
            **({"priorityClassName": class_name} if class_name else {}),
            "disruptionMode": MODES[DisruptionMode.POD_GROUP if whole else DisruptionMode.POD],
        },
    }
    _place(document, name, _ROOT, owner.metadata.annotations or {})
    return document


def owner_keys(owner: PodOwner) -> Iterator[GroupKey]:
    """Yield the keys of all groups that an owner may have: of its gangs, and of its tree."""
    yield from gang_keys(owner)
    if owner.branches:
        yield GroupKey(False, owner.ref.namespace, root_name(owner.ref), composite=True)
        yield from _job_keys(owner)


def _job_keys(owner: PodOwner) -> Iterator[GroupKey]:
    namespace, name = owner.ref.namespace, owner.ref.name
    asking = [branch for branch in owner.branches if _asks(branch)] if owner.ref.kind == "JobSet" else []
    jobs = ((branch.role, str(index)) for branch in asking for index in range(branch.groups))
    # Before the names are checked: any user can declare a billion Jobs of a name that no Job can have.
    for role, index in islice(jobs, MOST_GANGS):
        gang = job_gang(namespace, name, role, index)
        if gang is not None:
            yield GroupKey(False, namespace, gang.group_name)


def _asks(branch: Branch) -> bool:
    return branch.labels.get(AUTO_LABEL) == AUTO and branch.labels.get(TREE_LABEL) == AUTO


def _place(document: dict[str, Any], workload: str, template: str, asked: Mapping[str, str]) -> None:
    """Add the topology that annotations ask for, and the reference to a Workload."""
    metadata, spec = document["metadata"], document["spec"]
    spec["workloadRef"] = {"workloadName": workload, "templateName": template}
    required, preferred = asked.get(REQUIRED_TOPOLOGY, "").strip(), asked.get(PREFERRED_TOPOLOGY, "").strip()
    if required:
        spec["schedulingConstraints"] = {"topology": [{"key": required}]}
    if preferred and len(preferred) <= _LONGEST:
        metadata["annotations"] = {PREFERRED_TOPOLOGY: preferred}
