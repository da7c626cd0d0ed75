"""The version-neutral Workload and PodGroup: the form that every rule about groups uses.

Each served version has its own read (`v1alpha2`, `v1beta1`) and one function that converts it to this form.
Nothing is written back from this form: it holds the *meaning* of a group, not its original text.
"""

from enum import StrEnum

import msgspec

from podium.api.core import EntryStatus, ResourceClaimEntry
from podium.api.findings import ObjectRef, group_of
from podium.api.meta import Condition, ObjectMeta

NATIVE_GROUP = "scheduling.k8s.io"
PODIUM_GROUP = "scheduling.podium.dev"
# The label for membership in a Podium group, because the native field is dropped while its gate is off.
GROUP_LABEL = f"{PODIUM_GROUP}/pod-group"
# A finalizer of Podium's groups: they stay while pods need them.
FINALIZER = f"{PODIUM_GROUP}/podgroup-protection"
# The field managers of the reconciler and the scheduler in the status of groups.
CONTROLLER_MANAGER, SCHEDULER_MANAGER = "podium-controller", "podium-scheduler"
# The condition of a group that was scheduled once, and its name in Kubernetes 1.36.
INITIALLY_SCHEDULED, GROUP_SCHEDULED = "PodGroupInitiallyScheduled", "PodGroupScheduled"
# The condition of a composite group that was scheduled once.
COMPOSITE_INITIALLY_SCHEDULED = "CompositePodGroupInitiallyScheduled"
FIRST_SCHEDULED = (INITIALLY_SCHEDULED, GROUP_SCHEDULED, COMPOSITE_INITIALLY_SCHEDULED)
# The reasons of these conditions with which kube-scheduler 1.38 refuses an invalid group or tree.
GROUP_ERROR, COMPOSITE_ERROR = "PodGroupError", "CompositePodGroupError"
# The taint that keeps pods of other schedulers off the nodes reserved for Podium's pods.
RESERVED = f"{PODIUM_GROUP}/reserved"


class DisruptionMode(StrEnum):
    """The eviction of a group's members, one by one or all together, with v1alpha2's names."""

    POD = "Pod"
    POD_GROUP = "PodGroup"


class Template(msgspec.Struct, frozen=True, gc=False):
    """A template of a Workload, of groups or (composite) of groups of groups.

    min_count is None under the basic policy, and for a composite template, which has min_group_count.
    """

    name: str
    min_count: int | None
    disruption_mode: DisruptionMode | None
    priority_class_name: str
    priority: int | None
    preemption_policy: str | None
    composite: bool = False
    min_group_count: int | None = None

    @property
    def gang(self) -> bool:
        """Return whether the policy is gang."""
        return self.min_count is not None or self.min_group_count is not None


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Workload: its templates by field path (`spec.podGroupTemplates[0]`), composite children included."""

    ref: ObjectRef
    metadata: ObjectMeta
    templates: dict[str, Template]

    def template(self, name: str) -> Template | None:
        """Return the template of a PodGroup by its name."""
        matches = (
            template
            for template in self.templates.values()
            if template.name == name and not template.composite
        )
        return next(matches, None)


class TemplateRef(msgspec.Struct, frozen=True, gc=False):
    """The Workload, in the same namespace, and its template from which a group was made."""

    workload: str
    template: str


class CompositeGroup(msgspec.Struct, frozen=True, gc=False):
    """A CompositePodGroup: a group of PodGroups and further composite groups.

    min_group_count is None under the basic policy. `composite` is the name of its parent, empty for a root,
    and `topology` the node label whose values are its domains, empty for none.
    """

    ref: ObjectRef
    metadata: ObjectMeta
    min_group_count: int | None
    disruption_mode: DisruptionMode
    priority_class_name: str
    priority: int | None
    preemption_policy: str | None
    template_ref: TemplateRef | None
    composite: str = ""
    topology: str = ""
    conditions: tuple[Condition, ...] = ()

    @property
    def gang(self) -> bool:
        """Return whether the policy is gang."""
        return self.min_group_count is not None

    @property
    def least(self) -> int:
        """The number of children without which it is not scheduled."""
        return 1 if self.min_group_count is None else self.min_group_count

    @property
    def native(self) -> bool:
        """Return whether this is the API server's own kind, not Podium's custom resource."""
        return group_of(self.ref.apiVersion) == NATIVE_GROUP


class PodGroup(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup. min_count is None under the basic policy; an absent class is the empty string.

    `topology` is the label of the nodes among whose values its pods share one, empty without a constraint.
    `demands` names its further requirements on a scheduler: `resource claims` and so on. `composite` is the
    name of the CompositePodGroup that it belongs to, empty for none. `claims` are the resource claims that
    its pods may share, and `created` those that were created from templates, by the names of `claims`.
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
    topology: str = ""
    demands: tuple[str, ...] = ()
    composite: str = ""
    claims: tuple[ResourceClaimEntry, ...] = ()
    created: tuple[EntryStatus, ...] = ()

    @property
    def gang(self) -> bool:
        """Return whether the policy is gang."""
        return self.min_count is not None

    @property
    def least(self) -> int:
        """The number of pods without which it is not scheduled."""
        return 1 if self.min_count is None else self.min_count

    @property
    def native(self) -> bool:
        """Return whether this is the API server's own kind, not Podium's custom resource."""
        return group_of(self.ref.apiVersion) == NATIVE_GROUP
