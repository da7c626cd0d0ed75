"""The pods that owners create, by their templates.

Manifests have no pods, so a repository shows its groups in templates only. A reader that also has the pods
leaves out the owners with pods, because no pod may count twice.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from podium.api.core import PodSpec, PodTemplate
from podium.api.findings import ObjectRef
from podium.api.groups import NATIVE_GROUP
from podium.api.membership import GroupKey, group_name
from podium.api.podkinds.kind import PodOwner
from podium.cluster.reader import ClusterReader


class PlannedPods(NamedTuple):
    """The pods that an owner will create from the template at a field path.

    `number` is how many exist before any of them runs, None if it depends on something else.
    """

    owner: PodOwner
    path: str
    template: PodTemplate
    number: int | None

    @property
    def spec(self) -> PodSpec:
        """Return the spec of the template."""
        return self.template.spec or PodSpec()

    @property
    def spec_path(self) -> str:
        """Return the field path of the spec of its pods."""
        return self.owner.spec_path(self.path)

    @property
    def expected(self) -> bool:
        """Return whether its pods are missing as intended: the owner is suspended, or was never applied."""
        return self.owner.suspended or not self.owner.metadata.uid

    def named_group(self, *, native_served: bool) -> GroupKey | None:
        """Return the group that the template names, or None."""
        name = group_name(self.template.metadata, self.spec, native_served=native_served)
        return None if name is None else GroupKey(name[0], self.owner.ref.namespace, name[1])


def made_by_people(owners: Mapping[ObjectRef, PodOwner]) -> Iterator[PodOwner]:
    """Yield the owners that no other known owner created: a Deployment's ReplicaSet only repeats it."""
    for owner in owners.values():
        maker = owner.metadata.controller()
        if (
            maker is None
            or ObjectRef(maker.apiVersion, maker.kind, owner.ref.namespace, maker.name) not in owners
        ):
            yield owner


def planned_pods(owners: Mapping[ObjectRef, PodOwner]) -> Iterator[PlannedPods]:
    """Yield the pods of the templates of owners that have not ended, whether they exist or not."""
    for owner in made_by_people(owners):
        if not owner.finished and owner.metadata.deletionTimestamp is None:
            for path, template in owner.templates.items():
                yield PlannedPods(owner, path, template, owner.pods.get(path))


def names_group(owner: PodOwner, key: GroupKey) -> bool:
    """Return whether a template of an owner names a group: then people create it, and no controller does."""
    names = (
        group_name(template.metadata, template.spec, native_served=key.native)
        for template in owner.templates.values()
    )
    return (key.native, key.name) in names


def group_creator(view: ClusterReader, ref: ObjectRef) -> ObjectRef | None:
    """Return the controller that creates a PodGroup or Workload again, such as a Job; None if people do.

    A Workload controls no group by itself, so a group of a Workload has the creator of the Workload.
    """
    key = GroupKey(ref.group == NATIVE_GROUP, ref.namespace, ref.name)
    target = view.groups.get(key) if ref.kind == "PodGroup" else view.workloads.get(key)
    controller = target.metadata.controller() if target is not None else None
    if controller is not None and controller.kind == "Workload":
        workload = view.workloads.get(key._replace(name=controller.name))
        controller = workload.metadata.controller() if workload is not None else None
    if controller is None or controller.kind == "Workload":
        return None
    creator = ObjectRef(controller.apiVersion, controller.kind, ref.namespace, controller.name)
    owner = view.owners.get(creator)
    return None if owner is not None and names_group(owner, key) else creator


def paused_owner(view: ClusterReader, key: GroupKey) -> PodOwner | None:
    """Return the owner of a group's pods if it creates none at present, such as a suspended Job; else None.

    It controls the group, or its template names the group. With several owners, all of them create no pods.
    """
    group = view.groups.get(key)
    references = (group.metadata.ownerReferences if group is not None else None) or ()
    refs = {
        ObjectRef(reference.apiVersion, reference.kind, key.namespace, reference.name)
        for reference in references
    }
    owners = [view.owners[ref] for ref in sorted(refs & view.owners.keys())]
    owners = owners or [owner for owner in made_by_people(view.owners) if names_group(owner, key)]
    left = [owner for owner in owners if not owner.finished]
    if all(owner.suspended or (owner.pods and not any(owner.pods.values())) for owner in left):
        return next(iter(left), None)
    return None
