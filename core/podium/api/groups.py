"""The version-neutral Workload and PodGroup: what every rule about groups speaks of.

Each served version has its own read (`v1alpha2`, `v1beta1`) and one function that brings it here. Nothing
is written back from this form: it says what a group *means*, not what was written.
"""

from enum import StrEnum

import msgspec

from podium.api.meta import Condition, ObjectMeta
from podium.findings import ObjectRef, group_of

NATIVE_GROUP = "scheduling.k8s.io"
PODIUM_GROUP = "scheduling.podium.dev"
# Membership in a Podium group; a label, for the native field is dropped where the gate is off.
GROUP_LABEL = f"{PODIUM_GROUP}/pod-group"
# A finalizer of Podium's groups: they stay while pods need them.
FINALIZER = f"{PODIUM_GROUP}/podgroup-protection"
# Whose the fields are that the reconciler and the scheduler write into the status of groups.
CONTROLLER_MANAGER, SCHEDULER_MANAGER = "podium-controller", "podium-scheduler"
# The condition of a group that it was scheduled once, and what Kubernetes 1.36 calls it.
INITIALLY_SCHEDULED, GROUP_SCHEDULED = "PodGroupInitiallyScheduled", "PodGroupScheduled"
# The taint that keeps other schedulers' pods off nodes that are reserved for Podium's.
RESERVED = f"{PODIUM_GROUP}/reserved"


class DisruptionMode(StrEnum):
    """Whether the members of a group go one by one or all together, by the v1alpha2 names of the spec."""

    POD = "Pod"
    POD_GROUP = "PodGroup"


class Template(msgspec.Struct, frozen=True, gc=False):
    """One template of a Workload, of groups or (composite) of groups of groups.

    min_count is None under the basic policy, and for a composite template.
    """

    name: str
    min_count: int | None
    disruption_mode: DisruptionMode | None
    priority_class_name: str
    priority: int | None
    preemption_policy: str | None
    composite: bool = False


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Workload: its templates by field path (`spec.podGroupTemplates[0]`), composite children included."""

    ref: ObjectRef
    metadata: ObjectMeta
    templates: dict[str, Template]

    def template(self, name: str) -> Template | None:
        """Give the template that a PodGroup can be made from, by its name."""
        found = (each for each in self.templates.values() if each.name == name and not each.composite)
        return next(found, None)


class TemplateRef(msgspec.Struct, frozen=True, gc=False):
    """Which template of which Workload, in the same namespace, a group was made from."""

    workload: str
    template: str


class PodGroup(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup. min_count is None under the basic policy; an absent class is the empty string.

    `demands` names what it asks of a scheduler beyond minCount: `topology constraints` and the like.
    """

    ref: ObjectRef
    metadata: ObjectMeta
    min_count: int | None
    disruption_mode: DisruptionMode
    priority_class_name: str
    priority: int | None
    preemption_policy: str | None
    template_ref: TemplateRef | None
    conditions: tuple[Condition, ...] = ()
    demands: tuple[str, ...] = ()

    @property
    def native(self) -> bool:
        """Whether this is the API server's own kind, not Podium's custom resource."""
        return group_of(self.ref.apiVersion) == NATIVE_GROUP
