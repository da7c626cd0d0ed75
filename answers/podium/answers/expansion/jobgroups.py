"""The PodGroups that the controllers of Job and JobSet create for spec.scheduling.

A Job has one group. A JobSet has one for all its pods, or one for some roles, or one for each of its Jobs.
Only gangs are returned: the pods of a basic group are placed one by one. Names have no hash, because its
input is the controller's own.

Sources: KEP-5547 (Job), KEP-969 of kubernetes-sigs/jobset.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podium.answers.expansion.added import Added
from podium.answers.expansion.makers import Batch, Made, uid_of
from podium.api.core import PodTemplate
from podium.api.groups import NATIVE_GROUP
from podium.api.membership import GroupKey
from podium.api.minors import WORKLOAD_VERSIONS
from podium.api.podcreators import JobSet, PodCreator

_FIELDS = ("schedulingConstraints", "disruptionMode", "resourceClaims", "priorityClassName")


class ControllerGroup(NamedTuple):
    """A group for some batches of pods: the field that asks for it, and the PodGroup as it is created."""

    path: str
    batches: Sequence[Batch]
    key: GroupKey
    document: dict[str, Any]


class _RequestedGroup(NamedTuple):
    """A group that a field asks for: its name, the pods, and the value of the field."""

    path: str
    name: str
    batches: Sequence[Batch]
    scheduling: Mapping[str, Any]
    default: str = "gang"


def scheduling_groups(added: Added, made: Made) -> Iterator[ControllerGroup]:
    """Yield the gangs that controllers create for spec.scheduling of an object of the file."""
    owner = added.owner()
    templates = dict(owner.templates())
    for asked in _asked(owner, added, made):
        policy = dict(asked.scheduling.get("schedulingPolicy") or {asked.default: {}})
        if policy.get("gang") is None or not asked.batches:
            continue
        size = sum(len(batch.copies) for batch in asked.batches)
        policy = {"gang": {"minCount": size, **policy["gang"]}}
        key = GroupKey(True, added.ref.namespace, asked.name)
        document = _document(key, policy, asked.scheduling, templates.get(asked.batches[0].template))
        yield ControllerGroup(asked.path, asked.batches, key, document)


def _asked(owner: PodCreator, added: Added, made: Made) -> Iterator[_RequestedGroup]:
    spec, name = added.value["spec"], added.ref.name
    if not isinstance(owner, JobSet):
        yield _RequestedGroup("spec.scheduling", name, made.batches, spec["scheduling"], default="basic")
        return
    if spec.get("scheduling") is not None:
        yield from _of_jobset(owner, name, made, spec["scheduling"])
        return
    for index, role in enumerate(spec.get("replicatedJobs") or ()):
        scheduling = ((role.get("template") or {}).get("spec") or {}).get("scheduling")
        if scheduling is not None:
            path = f"spec.replicatedJobs[{index}].template.spec.scheduling"
            for batch in _of_roles(made, [role.get("name")]):
                yield _RequestedGroup(path, batch.controller.name, [batch], scheduling, default="basic")


def _of_jobset(
    owner: JobSet, name: str, made: Made, scheduling: Mapping[str, Any]
) -> Iterator[_RequestedGroup]:
    """Yield the groups of a JobSet's own field: its pods start together, role by role, or Job by Job."""
    assert owner.spec is not None
    entries = scheduling.get("replicatedJobs") or ()
    for index, entry in enumerate(entries):
        path = f"spec.scheduling.replicatedJobs[{index}]"
        names = entry.get("targetReplicatedJobs") or []
        batches = _of_roles(made, names)
        if entry.get("job") is not None:
            for batch in batches:
                yield _RequestedGroup(f"{path}.job", batch.controller.name, [batch], entry["job"])
        else:
            yield _RequestedGroup(path, "-".join((name, *names)), batches, entry)
    if entries:
        return
    roles = owner.spec.replicatedJobs or ()
    if len(owner.spec.initial_roles()) == sum(1 for role in roles if role.size()):
        yield _RequestedGroup("spec.scheduling", name, made.batches, scheduling)
        return
    # A group of roles that wait for each other would never have all its pods.
    for role in roles:
        yield _RequestedGroup(
            "spec.scheduling", f"{name}-{role.name}", _of_roles(made, [role.name]), scheduling
        )


def _of_roles(made: Made, names: Sequence[str | None]) -> list[Batch]:
    return [batch for batch in made.batches if batch.role in names]


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
