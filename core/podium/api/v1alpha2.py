"""Reads of scheduling v1alpha2: Kubernetes 1.36 only, and the older shape of Podium's own resources.

Its distinctive fields are the string disruptionMode (`Pod` or `PodGroup`) and podGroupTemplateRef. All fields
are listed, so that fields which a server would prune as unknown can be reported.
"""

import msgspec

from podium.api.core import EntryStatus, ResourceClaimEntry
from podium.api.findings import ObjectRef, group_of
from podium.api.groups import NATIVE_GROUP, DisruptionMode, PodGroup, Template, TemplateRef, Workload
from podium.api.meta import Condition, Int32, ObjectMeta


class GroupingObject(msgspec.Struct, gc=False):
    """The head of a PodGroup, a CompositePodGroup or a Workload in any version."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class BasicPolicy(msgspec.Struct, gc=False):
    """No minimum: members are scheduled one by one."""


class GangPolicy(msgspec.Struct, gc=False):
    """All or nothing up to minCount members."""

    minCount: Int32 | None = None


class SchedulingPolicy(msgspec.Struct, gc=False):
    """A union: exactly one member is set."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(msgspec.Struct, gc=False):
    """All members in one domain of this node label."""

    key: str | None = None


class SchedulingConstraints(msgspec.Struct, gc=False):
    """Behind TopologyAwareWorkloadScheduling."""

    topology: list[TopologyConstraint] | None = None


class ControllerRef(msgspec.Struct, gc=False):
    """The object that a Workload describes."""

    apiGroup: str | None = None
    kind: str | None = None
    name: str | None = None


class GroupFieldsV1Alpha2(msgspec.Struct, gc=False):
    """The fields that a group and a template have in common."""

    schedulingPolicy: SchedulingPolicy | None = None
    schedulingConstraints: SchedulingConstraints | None = None
    # Behind DRAWorkloadResourceClaims.
    resourceClaims: list[ResourceClaimEntry] | None = None
    disruptionMode: str | None = None
    priorityClassName: str | None = None
    priority: Int32 | None = None


class PodGroupTemplateV1Alpha2(GroupFieldsV1Alpha2, gc=False):
    """A template of a Workload."""

    name: str | None = None


class WorkloadSpecV1Alpha2(msgspec.Struct, gc=False):
    """spec of a Workload."""

    controllerRef: ControllerRef | None = None
    podGroupTemplates: list[PodGroupTemplateV1Alpha2] | None = None


class WorkloadV1Alpha2(GroupingObject, gc=False):
    """A Workload; it has no status."""

    spec: WorkloadSpecV1Alpha2 = msgspec.field(default_factory=WorkloadSpecV1Alpha2)


class WorkloadTemplateRef(msgspec.Struct, gc=False):
    """podGroupTemplateRef.workload."""

    workloadName: str | None = None
    podGroupTemplateName: str | None = None


class PodGroupTemplateRef(msgspec.Struct, gc=False):
    """A union of one member."""

    workload: WorkloadTemplateRef | None = None


class PodGroupSpecV1Alpha2(GroupFieldsV1Alpha2, gc=False):
    """spec of a PodGroup."""

    podGroupTemplateRef: PodGroupTemplateRef | None = None


class PodGroupStatus(msgspec.Struct, gc=False):
    """status of a PodGroup; the same in every version."""

    conditions: list[Condition] | None = None
    resourceClaimStatuses: list[EntryStatus] | None = None


class PodGroupV1Alpha2(GroupingObject, gc=False):
    """A PodGroup."""

    spec: PodGroupSpecV1Alpha2 = msgspec.field(default_factory=PodGroupSpecV1Alpha2)
    status: PodGroupStatus | None = None


def min_count(policy: SchedulingPolicy | None) -> int | None:
    """Return a gang's minCount, or None under the basic policy."""
    return policy.gang.minCount if policy is not None and policy.gang is not None else None


def reference(api_version: str, kind: str, metadata: ObjectMeta) -> ObjectRef:
    """Return an object's identity; an object without a name uses its generateName."""
    name = metadata.name or metadata.generateName or ""
    return ObjectRef(api_version, kind, metadata.namespace or "", name)


def neutral_group(group: PodGroupV1Alpha2) -> PodGroup:
    """Return a PodGroup in neutral form; an absent disruptionMode is `Pod`, the server's default."""
    spec = group.spec
    ref = spec.podGroupTemplateRef.workload if spec.podGroupTemplateRef is not None else None
    return PodGroup(
        ref=reference(group.apiVersion, group.kind, group.metadata),
        metadata=group.metadata,
        min_count=min_count(spec.schedulingPolicy),
        disruption_mode=_mode(spec.disruptionMode) or DisruptionMode.POD,
        priority_class_name=spec.priorityClassName or "",
        priority=spec.priority,
        preemption_policy=None,
        template_ref=None
        if ref is None
        else TemplateRef(ref.workloadName or "", ref.podGroupTemplateName or ""),
        conditions=tuple((group.status.conditions if group.status is not None else None) or ()),
        topology=topology_key(spec.schedulingConstraints),
        demands=demands(group.apiVersion, spec.resourceClaims),
        claims=tuple(spec.resourceClaims or ()),
        created=tuple((group.status.resourceClaimStatuses if group.status is not None else None) or ()),
    )


def topology_key(constraints: SchedulingConstraints | None) -> str:
    """Return the label of a topology constraint, empty for none; the API allows one at most."""
    first = next(iter((constraints.topology if constraints is not None else None) or ()), None)
    return (first.key if first is not None else None) or ""


def demands(api_version: str, claims: list[ResourceClaimEntry] | None) -> tuple[str, ...]:
    """Return a group's requirements that Podium cannot judge; for every version.

    kube-controller-manager and kubelets know the claims of native groups only.
    """
    return ("resource claims",) if claims and group_of(api_version) != NATIVE_GROUP else ()


def neutral_workload(workload: WorkloadV1Alpha2) -> Workload:
    """Return a v1alpha2 Workload in neutral form."""
    templates = {
        f"spec.podGroupTemplates[{index}]": Template(
            name=template.name or "",
            min_count=min_count(template.schedulingPolicy),
            disruption_mode=_mode(template.disruptionMode),
            priority_class_name=template.priorityClassName or "",
            priority=template.priority,
            preemption_policy=None,
        )
        for index, template in enumerate(workload.spec.podGroupTemplates or ())
    }
    ref = reference(workload.apiVersion, workload.kind, workload.metadata)
    return Workload(ref=ref, metadata=workload.metadata, templates=templates)


def _mode(text: str | None) -> DisruptionMode | None:
    return DisruptionMode(text) if text in ("Pod", "PodGroup") else None
