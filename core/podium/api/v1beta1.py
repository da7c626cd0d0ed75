"""Reads of scheduling v1beta1 and v1alpha3 (the same fields): Kubernetes 1.37, and Podium's stored shape.

Its distinctive fields are the union disruptionMode (`{single: {}}` or `{all: {}}`) and the flat workloadRef.
"""

import msgspec

from podium.api import v1alpha2
from podium.api.core import ResourceClaimEntry
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup, Template, TemplateRef, Workload
from podium.api.meta import Condition, Int32


class SingleMode(msgspec.Struct, gc=False):
    """Members are evicted one by one."""


class AllMode(msgspec.Struct, gc=False):
    """Members are evicted all together."""


class DisruptionModeUnion(msgspec.Struct, gc=False):
    """A union: exactly one member is set."""

    single: SingleMode | None = None
    all: AllMode | None = None

    def neutral(self) -> DisruptionMode | None:
        """Return the mode, or None if neither member is set."""
        if self.all is not None:
            return DisruptionMode.POD_GROUP
        return None if self.single is None else DisruptionMode.POD


class CommonFields(msgspec.Struct, gc=False):
    """The fields that groups, composite groups and their templates have in common."""

    schedulingConstraints: v1alpha2.SchedulingConstraints | None = None
    disruptionMode: DisruptionModeUnion | None = None
    priorityClassName: str | None = None
    priority: Int32 | None = None
    preemptionPolicy: str | None = None


class GroupFieldsV1Beta1(CommonFields, gc=False):
    """The fields that a group and its template have in common."""

    schedulingPolicy: v1alpha2.SchedulingPolicy | None = None
    resourceClaims: list[ResourceClaimEntry] | None = None


class CompositeGangPolicy(msgspec.Struct, gc=False):
    """All or nothing up to minGroupCount child groups."""

    minGroupCount: Int32 | None = None


class CompositeSchedulingPolicy(msgspec.Struct, gc=False):
    """A union: exactly one member is set."""

    basic: dict[str, object] | None = None
    gang: CompositeGangPolicy | None = None


class CompositeFields(CommonFields, gc=False):
    """The fields that a composite group and its template have in common."""

    schedulingPolicy: CompositeSchedulingPolicy | None = None


class PodGroupTemplateV1Beta1(GroupFieldsV1Beta1, gc=False):
    """A template of a Workload."""

    name: str | None = None


class CompositePodGroupTemplate(CompositeFields, gc=False):
    """A template of groups, behind CompositePodGroup; recursive to a depth of four."""

    name: str | None = None
    podGroupTemplates: list[PodGroupTemplateV1Beta1] | None = None
    compositePodGroupTemplates: "list[CompositePodGroupTemplate] | None" = None


class WorkloadSpecV1Beta1(msgspec.Struct, gc=False):
    """spec of a Workload: one of the two lists is set."""

    controllerRef: v1alpha2.ControllerRef | None = None
    podGroupTemplates: list[PodGroupTemplateV1Beta1] | None = None
    compositePodGroupTemplates: list[CompositePodGroupTemplate] | None = None


class WorkloadV1Beta1(v1alpha2.GroupingObject, gc=False):
    """A Workload; it has no status."""

    spec: WorkloadSpecV1Beta1 = msgspec.field(default_factory=WorkloadSpecV1Beta1)


class WorkloadRef(msgspec.Struct, gc=False):
    """A reference to a Workload and one of its templates."""

    workloadName: str | None = None
    templateName: str | None = None


class PodGroupSpecV1Beta1(GroupFieldsV1Beta1, gc=False):
    """spec of a PodGroup."""

    parentCompositePodGroupName: str | None = None
    workloadRef: WorkloadRef | None = None


class PodGroupV1Beta1(v1alpha2.GroupingObject, gc=False):
    """A PodGroup."""

    spec: PodGroupSpecV1Beta1 = msgspec.field(default_factory=PodGroupSpecV1Beta1)
    status: v1alpha2.PodGroupStatus | None = None


class CompositePodGroupSpec(CompositeFields, gc=False):
    """spec of a CompositePodGroup."""

    parentCompositePodGroupName: str | None = None
    workloadRef: WorkloadRef | None = None


class CompositePodGroupStatus(msgspec.Struct, gc=False):
    """status of a CompositePodGroup."""

    conditions: list[Condition] | None = None


class CompositePodGroup(v1alpha2.GroupingObject, gc=False):
    """A CompositePodGroup of v1beta1, in which Podium and Kubernetes 1.38 serve it, or of v1alpha3."""

    spec: CompositePodGroupSpec = msgspec.field(default_factory=CompositePodGroupSpec)
    status: CompositePodGroupStatus | None = None


def neutral_group(group: PodGroupV1Beta1) -> PodGroup:
    """Return a PodGroup in neutral form; an absent disruptionMode is single, the server's default."""
    spec = group.spec
    ref = spec.workloadRef
    mode = spec.disruptionMode.neutral() if spec.disruptionMode is not None else None
    return PodGroup(
        ref=v1alpha2.reference(group.apiVersion, group.kind, group.metadata),
        metadata=group.metadata,
        min_count=v1alpha2.min_count(spec.schedulingPolicy),
        disruption_mode=mode or DisruptionMode.POD,
        priority_class_name=spec.priorityClassName or "",
        priority=spec.priority,
        preemption_policy=spec.preemptionPolicy,
        template_ref=None if ref is None else TemplateRef(ref.workloadName or "", ref.templateName or ""),
        conditions=tuple((group.status.conditions if group.status is not None else None) or ()),
        topology=v1alpha2.topology_key(spec.schedulingConstraints),
        demands=v1alpha2.demands(group.apiVersion, spec.resourceClaims),
        claims=tuple(spec.resourceClaims or ()),
        created=tuple((group.status.resourceClaimStatuses if group.status is not None else None) or ()),
        composite=spec.parentCompositePodGroupName or "",
    )


def neutral_composite(group: CompositePodGroup) -> CompositeGroup:
    """Return a CompositePodGroup in neutral form; an absent disruptionMode is single."""
    spec = group.spec
    ref, policy = spec.workloadRef, spec.schedulingPolicy
    mode = spec.disruptionMode.neutral() if spec.disruptionMode is not None else None
    return CompositeGroup(
        ref=v1alpha2.reference(group.apiVersion, group.kind, group.metadata),
        metadata=group.metadata,
        min_group_count=policy.gang.minGroupCount if policy is not None and policy.gang is not None else None,
        disruption_mode=mode or DisruptionMode.POD,
        priority_class_name=spec.priorityClassName or "",
        priority=spec.priority,
        preemption_policy=spec.preemptionPolicy,
        template_ref=None if ref is None else TemplateRef(ref.workloadName or "", ref.templateName or ""),
        composite=spec.parentCompositePodGroupName or "",
        topology=v1alpha2.topology_key(spec.schedulingConstraints),
        conditions=tuple((group.status.conditions if group.status is not None else None) or ()),
    )


def neutral_workload(workload: WorkloadV1Beta1) -> Workload:
    """Return a v1beta1 Workload in neutral form, including the templates inside composites."""
    templates: dict[str, Template] = {}
    _collect(workload.spec.podGroupTemplates, workload.spec.compositePodGroupTemplates, "spec", templates)
    ref = v1alpha2.reference(workload.apiVersion, workload.kind, workload.metadata)
    return Workload(ref=ref, metadata=workload.metadata, templates=templates)


def _collect(
    leaves: list[PodGroupTemplateV1Beta1] | None,
    composites: list[CompositePodGroupTemplate] | None,
    path: str,
    into: dict[str, Template],
) -> None:
    for index, leaf in enumerate(leaves or ()):
        into[f"{path}.podGroupTemplates[{index}]"] = _template(
            leaf, v1alpha2.min_count(leaf.schedulingPolicy)
        )
    for index, composite in enumerate(composites or ()):
        here = f"{path}.compositePodGroupTemplates[{index}]"
        policy = composite.schedulingPolicy
        gang = policy.gang if policy is not None else None
        into[here] = _template(composite, None, None if gang is None else gang.minGroupCount)
        _collect(composite.podGroupTemplates, composite.compositePodGroupTemplates, here, into)


def _template(
    source: PodGroupTemplateV1Beta1 | CompositePodGroupTemplate,
    least: int | None,
    least_groups: int | None = None,
) -> Template:
    return Template(
        name=source.name or "",
        min_count=least,
        disruption_mode=source.disruptionMode.neutral() if source.disruptionMode is not None else None,
        priority_class_name=source.priorityClassName or "",
        priority=source.priority,
        preemption_policy=source.preemptionPolicy,
        composite=isinstance(source, CompositePodGroupTemplate),
        min_group_count=least_groups,
    )
