"""The PodGroups that a controller makes from a Workload, for the pods of the object it refers to.

A Workload has no pods and no groups. A controller creates a group from each of its templates and assigns the
pods of spec.controllerRef to it. Only names say which pods belong to which template. A single template is for
all pods; several templates are for the roles of the same names.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from podium.answers.expansion.added import Added
from podium.answers.expansion.makers import Batch, Made, uid_of
from podium.api.fieldpath import at, parse_path
from podium.api.findings import ObjectError, group_of
from podium.api.groups import NATIVE_GROUP, PodGroup, Template, Workload
from podium.api.membership import GroupKey, group_name
from podium.rules import podgroup

_CONTROLLER = "spec.controllerRef"


class BatchGroup(NamedTuple):
    """The group of the pods of a batch, and the PodGroup as its controller would create it."""

    batch: Batch
    key: GroupKey
    document: dict[str, Any]


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


def maker_of(added: Added, makers: Iterable[tuple[Added, Made]]) -> tuple[Added, Made]:
    """Return the object of the file that a Workload refers to. Raises ObjectError if there is none."""
    spec = added.value.get("spec") or {}
    ref = spec.get("controllerRef") or {}
    wanted = (ref.get("apiGroup") or "", ref.get("kind"), added.ref.namespace, ref.get("name"))
    for owner, made in makers:
        if wanted == (owner.ref.group, owner.ref.kind, owner.ref.namespace, owner.ref.name):
            return owner, made
    named = (
        f"the {ref.get('kind')} {ref.get('name')}"
        if ref
        else ("the Job, JobSet or LeaderWorkerSet that creates them")
    )
    problem = f"a Workload creates no pods. Add {named}, or its PodGroups with their pods"
    raise ObjectError(added.ref, _CONTROLLER, problem)


def groups_for(added: Added, owner: Added, made: Made, *, native_served: bool) -> list[BatchGroup]:
    """Return the group of each batch of an owner's pods, from a Workload. Raises ObjectError."""
    workload: Workload = added.read.neutral(added.typed())
    native = group_of(added.ref.apiVersion) == NATIVE_GROUP
    templates = dict(owner.owner().templates())
    of: dict[GroupKey, str] = {}
    groups = []
    for batch in made.batches:
        path, template = _template(workload, batch)
        pods = templates.get(batch.template)
        named = None if pods is None else group_name(pods.metadata, pods.spec, native_served=native_served)
        if named is not None and named[0] != native:
            problem = f"its pods name a group of another API ({named[1]})"
            raise ObjectError(workload.ref, _CONTROLLER, problem)
        place = "" if batch.replica is None else f"-{batch.replica}"
        name = f"{workload.ref.name}-{template.name}{place}" if named is None else named[1]
        key = GroupKey(native, workload.ref.namespace, name)
        if of.setdefault(key, path) != path:
            raise ObjectError(workload.ref, path, f"its pods name PodGroup {name}, as those of {of[key]} do")
        groups.append(BatchGroup(batch, key, _document(added, key, path, template)))
    return groups


def _template(workload: Workload, batch: Batch) -> tuple[str, Template]:
    """Return the only template, or the template with the name of the pods' role."""
    if any(template.composite for template in workload.templates.values()):
        field = "spec.compositePodGroupTemplates"
        raise ObjectError(workload.ref, field, "a plan needs the groups of a tree. Add them")
    found = [
        (path, template)
        for path, template in workload.templates.items()
        if len(workload.templates) == 1 or template.name == batch.role
    ]
    if len(found) != 1:
        role = f"pods of role {batch.role}" if batch.role else "these pods, which have no roles"
        problem = f"several templates, and none has the name of {role}"
        raise ObjectError(workload.ref, "spec.podGroupTemplates", problem)
    return found[0]


def _document(added: Added, key: GroupKey, path: str, template: Template) -> dict[str, Any]:
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
