"""The PodGroups that controllers create for the objects of a file.

For spec.scheduling a Job has one group. A JobSet has one for all its pods, or one for some roles, or one for
each of its Jobs. Only gangs are returned: the pods of a basic group are placed one by one. Names have no
hash, because its input is the controller's own.

A Workload has no pods and no groups. A controller creates a group from each of its templates and assigns the
pods of spec.controllerRef to it. Only names say which pods belong to which template. A single template is for
all pods; several templates are for the roles of the same names.

Pods may also ask for a gang with labels, for which Podium's controller creates the groups.

Sources: KEP-5547 (Job), KEP-969 of kubernetes-sigs/jobset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podium.answers.expansion.added import Added
from podium.answers.expansion.additions import Additions
from podium.api.core import PodTemplate
from podium.api.fieldpath import at, parse_path
from podium.api.findings import ObjectError, ObjectRef, group_of
from podium.api.groups import NATIVE_GROUP, PodGroup, Template, Workload
from podium.api.membership import GroupKey, group_name
from podium.api.minors import WORKLOAD_VERSIONS
from podium.api.podkinds.created import Batch, CreatedPods, uid_of
from podium.api.podkinds.kind import PodOwner
from podium.api.schedulable import Schedulable
from podium.cluster.reader import name_of
from podium.groups import autogroups
from podium.rules import podgroup

_FIELDS = ("schedulingConstraints", "disruptionMode", "resourceClaims", "priorityClassName")


class ControllerGroup(NamedTuple):
    """A group for some batches of pods: the field that asks for it, and the PodGroup as it is created."""

    path: str
    batches: Sequence[Batch]
    key: GroupKey
    document: dict[str, Any]


def scheduling_groups(added: Added, pods: CreatedPods) -> Iterator[ControllerGroup]:
    """Yield the gangs that controllers create for spec.scheduling of an object of the file."""
    creator = added.owner()
    templates = creator.neutral().templates
    for requested in creator.requested_groups(added.value, pods):
        policy = dict(requested.scheduling.get("schedulingPolicy") or {requested.default: {}})
        if policy.get("gang") is None or not requested.batches:
            continue
        size = sum(len(batch.copies) for batch in requested.batches)
        policy = {"gang": {"minCount": size, **policy["gang"]}}
        key = GroupKey(True, added.ref.namespace, requested.name)
        template = templates.get(requested.batches[0].template)
        document = _document(key, policy, requested.scheduling, template)
        yield ControllerGroup(requested.path, requested.batches, key, document)


def _document(
    key: GroupKey, policy: dict[str, Any], scheduling: Mapping[str, Any], template: PodTemplate | None
) -> dict[str, Any]:
    """Return a PodGroup. Its class is that of the pods, which must have its priority."""
    spec = template.spec if template is not None else None
    class_name = spec.priorityClassName if spec is not None else None
    return {
        "apiVersion": f"{NATIVE_GROUP}/{WORKLOAD_VERSIONS[max(WORKLOAD_VERSIONS)][0]}",
        "kind": "PodGroup",
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid_of("PodGroup", *key.qualified)},
        "spec": {
            "schedulingPolicy": policy,
            **({"priorityClassName": class_name} if class_name else {}),
            **{field: scheduling[field] for field in _FIELDS if scheduling.get(field) is not None},
        },
    }


def make_gangs(
    additions: Additions,
    joined: Mapping[GroupKey, list[Schedulable]],
    owners: Mapping[ObjectRef, PodOwner],
) -> None:
    """Create the groups of pods that asked for a gang or tree, as the controller does.

    `joined` are the pods by the group that they joined; `owners` are the owners that the file adds.
    """
    below: dict[GroupKey, list[Schedulable]] = {}
    for key, pods in joined.items():
        gangs = (autogroups.gang_of(pod) for pod in pods)
        gang = max(
            (candidate for candidate in gangs if candidate is not None), key=lambda candidate: candidate.root
        )
        owner = _owner(additions, owners, gang)
        size = autogroups.size_of(owner, gang) if owner is not None else 0
        if gang.root:
            root = GroupKey(False, key.namespace, gang.root, composite=True)
            below.setdefault(root, []).extend(pods)
        if key in additions.seen.groups or owner is None or size < 1:
            continue
        class_name = autogroups.class_of(additions.seen.classes, (pod.spec for pod in pods))
        disruption = autogroups.disruption_of(pod.metadata for pod in pods)
        _put(additions, pods[0], autogroups.leaf_of(owner, gang, class_name, disruption))
    for root, pods in below.items():
        gang_of_first = autogroups.gang_of(pods[0])
        owner = _owner(additions, owners, gang_of_first)
        class_name = autogroups.class_of(additions.seen.classes, (pod.spec for pod in pods))
        document = autogroups.root_of(owner, class_name) if owner is not None else None
        if root not in additions.seen.composites and document is not None:
            _put(additions, pods[0], document)


def _owner(
    additions: Additions, owners: Mapping[ObjectRef, PodOwner], gang: autogroups.Gang | None
) -> PodOwner | None:
    """Return the owner of a gang, of the file or the cluster."""
    if gang is None:
        return None
    return owners.get(gang.owner) or additions.state.owners.get(gang.owner)


def _put(additions: Additions, first: Schedulable, document: dict[str, Any]) -> None:
    """Add a group for pods that ask; `first` is one of them."""
    metadata = document["metadata"]
    metadata["uid"] = uid_of(document["kind"], metadata["namespace"], metadata["name"])
    source = additions.brought[name_of(first)]
    with additions.leaving_out(source.ref):
        additions.store_group(source.document, document)


_CONTROLLER = "spec.controllerRef"


def has_groups(workload: Workload, groups: Iterable[PodGroup]) -> bool:
    """Return whether any of these groups was made from a Workload."""
    native = group_of(workload.ref.apiVersion) == NATIVE_GROUP
    return any(
        group.native == native
        and group.ref.namespace == workload.ref.namespace
        and group.template_ref is not None
        and group.template_ref.workload == workload.ref.name
        for group in groups
    )


def creator_of(added: Added, creators: Iterable[tuple[Added, CreatedPods]]) -> tuple[Added, CreatedPods]:
    """Return the object of the file that a Workload refers to. Raises ObjectError if there is none."""
    spec = added.value.get("spec") or {}
    ref = spec.get("controllerRef") or {}
    target = (ref.get("apiGroup") or "", ref.get("kind"), added.ref.namespace, ref.get("name"))
    for owner, pods in creators:
        if target == (owner.ref.group, owner.ref.kind, owner.ref.namespace, owner.ref.name):
            return owner, pods
    named = (
        f"the {ref.get('kind')} {ref.get('name')}"
        if ref
        else ("the Job, JobSet or LeaderWorkerSet that creates them")
    )
    problem = f"a Workload creates no pods. Add {named}, or its PodGroups with their pods"
    raise ObjectError(added.ref, _CONTROLLER, problem)


def groups_for(
    added: Added, owner: Added, pods: CreatedPods, *, native_served: bool
) -> list[ControllerGroup]:
    """Return the group of each batch of an owner's pods, from a Workload. Raises ObjectError."""
    workload: Workload = added.read.neutral(added.typed())
    native = group_of(added.ref.apiVersion) == NATIVE_GROUP
    templates = owner.owner().neutral().templates
    of: dict[GroupKey, str] = {}
    groups = []
    for batch in pods.batches:
        path, template = _template(workload, batch)
        of_pods = templates.get(batch.template)
        named = (
            None
            if of_pods is None
            else group_name(of_pods.metadata, of_pods.spec, native_served=native_served)
        )
        if named is not None and named[0] != native:
            problem = f"its pods name a group of another API ({named[1]})"
            raise ObjectError(workload.ref, _CONTROLLER, problem)
        place = "" if batch.replica is None else f"-{batch.replica}"
        name = f"{workload.ref.name}-{template.name}{place}" if named is None else named[1]
        key = GroupKey(native, workload.ref.namespace, name)
        if of.setdefault(key, path) != path:
            raise ObjectError(workload.ref, path, f"its pods name PodGroup {name}, as those of {of[key]} do")
        groups.append(ControllerGroup(path, [batch], key, _document_of_workload(added, key, path, template)))
    return groups


def _template(workload: Workload, batch: Batch) -> tuple[str, Template]:
    """Return the only template, or the template with the name of the pods' role."""
    if any(template.composite for template in workload.templates.values()):
        field = "spec.compositePodGroupTemplates"
        raise ObjectError(workload.ref, field, "a plan needs the groups of a tree. Add them")
    matching = [
        (path, template)
        for path, template in workload.templates.items()
        if len(workload.templates) == 1 or template.name == batch.role
    ]
    if len(matching) != 1:
        role = f"pods of role {batch.role}" if batch.role else "these pods, which have no roles"
        problem = f"several templates, and none has the name of {role}"
        raise ObjectError(workload.ref, "spec.podGroupTemplates", problem)
    return matching[0]


def _document_of_workload(added: Added, key: GroupKey, path: str, template: Template) -> dict[str, Any]:
    """Return a group as a controller writes it that copies the template."""
    version = added.ref.apiVersion.rpartition("/")[2]
    workload = added.ref.name
    if version == "v1alpha2":
        reference: Any = {"workload": {"workloadName": workload, "podGroupTemplateName": template.name}}
    else:
        reference = {"workloadName": workload, "templateName": template.name}
    spec = {field: value for field, value in at(added.value, parse_path(path)).items() if field != "name"}
    return {
        "apiVersion": added.ref.apiVersion,
        "kind": "PodGroup",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "uid": uid_of("PodGroup", key.namespace, key.name),
        },
        "spec": {podgroup.REFERENCE[version]: reference, **spec},
    }
