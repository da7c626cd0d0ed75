"""The PodGroups that a Workload is a template of, for the pods of the object that it stands for.

A Workload has no pods and no groups: a controller makes a group of each of its templates and puts the pods of
spec.controllerRef in it. Which pods belong to which template is said nowhere but by the names: one template
is for all of them, several are for the roles that are called alike.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from podium.api.groups import NATIVE_GROUP, PodGroup, Template, Workload
from podium.api.membership import GroupKey, group_name
from podium.fieldpath import at, parse_path
from podium.findings import ObjectError, group_of
from podium.ops.added import Added
from podium.ops.makers import Batch, Made, uid_of
from podium.rules import podgroup

_CONTROLLER = "spec.controllerRef"


class Given(NamedTuple):
    """The group that the pods of a batch are given, and the PodGroup as its controller would create it."""

    batch: Batch
    key: GroupKey
    document: dict[str, Any]


def has_groups(workload: Workload, groups: Iterable[PodGroup]) -> bool:
    """Say whether any of these groups was made from a Workload."""
    native = group_of(workload.ref.apiVersion) == NATIVE_GROUP
    return any(
        group.native == native
        and group.ref.namespace == workload.ref.namespace
        and group.template_ref is not None
        and group.template_ref.workload == workload.ref.name
        for group in groups
    )


def maker_of(added: Added, makers: Iterable[tuple[Added, Made]]) -> tuple[Added, Made]:
    """Give the object of the file that a Workload stands for. Raises ObjectError where there is none."""
    spec = added.value.get("spec") or {}
    ref = spec.get("controllerRef") or {}
    wanted = (ref.get("apiGroup") or "", ref.get("kind"), added.ref.namespace, ref.get("name"))
    for owner, made in makers:
        if wanted == (owner.ref.group, owner.ref.kind, owner.ref.namespace, owner.ref.name):
            return owner, made
    named = (
        f"the {ref.get('kind')} {ref.get('name')}" if ref else "a Job, JobSet or LeaderWorkerSet, named here,"
    )
    problem = f"a Workload makes no pods; add {named} or its PodGroups with their pods"
    raise ObjectError(added.ref, _CONTROLLER, problem)


def groups_for(added: Added, owner: Added, made: Made, *, native_served: bool) -> Iterator[Given]:
    """Give the group of each batch of an owner's pods, by a Workload. Raises ObjectError."""
    workload: Workload = added.read.neutral(added.typed())
    native = group_of(added.ref.apiVersion) == NATIVE_GROUP
    templates = dict(owner.owner().templates())
    of: dict[GroupKey, str] = {}
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
        yield Given(batch, key, _document(added, key, path, template))


def _template(workload: Workload, batch: Batch) -> tuple[str, Template]:
    """Give the one template, or the one that is called as the role of the pods is."""
    if any(template.composite for template in workload.templates.values()):
        field = "spec.compositePodGroupTemplates"
        raise ObjectError(workload.ref, field, "composite groups are not planned for")
    found = [
        (path, template)
        for path, template in workload.templates.items()
        if len(workload.templates) == 1 or template.name == batch.role
    ]
    if len(found) != 1:
        role = f"pods of role {batch.role}" if batch.role else "these pods, which have no roles"
        problem = f"several templates, and none is named for {role}"
        raise ObjectError(workload.ref, "spec.podGroupTemplates", problem)
    return found[0]


def _document(added: Added, key: GroupKey, path: str, template: Template) -> dict[str, Any]:
    """Write a group as a controller does that copies the template."""
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
