"""Small typed builders for the objects of audit tests; a cluster is a State of them."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from podium.answers.audits.report import AuditReport
from podium.answers.audits.run import audit_view
from podium.api.core import (
    Container,
    Node,
    NodeInfo,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplate,
    PriorityClass,
    RawQuantity,
    ResourceRequirements,
    SchedulingGroup,
)
from podium.api.findings import Finding, ObjectRef
from podium.api.foreigngroups import ForeignGroup, ForeignGroupSpec, KueueWorkload, KueueWorkloadSpec
from podium.api.groups import GROUP_LABEL, DisruptionMode, PodGroup, Template, TemplateRef, Workload
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.podkinds.kind import JobRun, PodOwner
from podium.cluster.reader import WorkloadName
from podium.cluster.state import ClusterState, Readable

NS = "team-a"
OLD = "2026-01-01T00:00:00Z"
NEW = "2026-01-02T00:00:00Z"


def cluster(
    *objects: Readable,
    unread: Mapping[str, str] | None = None,
    native: bool = True,
    untrusted: frozenset[WorkloadName] = frozenset(),
) -> ClusterState:
    """Put objects into one State; every kind counts as read unless `unread` names it."""
    state = ClusterState(native_served=native, unread=unread)
    state.note_untrusted(untrusted)
    for each in objects:
        state.apply(each)
    return state


def stored(*objects: Readable) -> list[Readable]:
    """Return copies of objects with the UID that a server gives."""
    return [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, uid="stored"))
        for each in objects
    ]


def report(*objects: Readable, kubernetes: str = "1.37", **options: object) -> AuditReport:
    """Audit a cluster of these objects."""
    return audit_view(cluster(*objects), kubernetes=kubernetes, chosen_by="test", **options)  # type: ignore[arg-type] # options are checked by audit's own tests


def findings(rule: str, state: ClusterState, kubernetes: str = "1.37") -> list[Finding]:
    """Return the findings of one rule."""
    return audit_view(state, kubernetes=kubernetes, chosen_by="test", select=[rule]).findings


def priority_class(
    name: str,
    value: int | None = None,
    *,
    default: bool = False,
    policy: str | None = None,
    annotations: dict[str, str] | None = None,
) -> PriorityClass:
    return PriorityClass(
        metadata=ObjectMeta(name=name, annotations=annotations),
        value=value,
        globalDefault=default or None,
        preemptionPolicy=policy,
    )


def pod(
    name: str,
    *,
    group: str = "",
    podium: str = "",
    priority: int | None = 0,
    class_name: str = "",
    policy: str | None = None,
    scheduler: str | None = None,
    namespace: str = NS,
    phase: str = "Running",
    created: str = NEW,
    terminating: bool = False,
    owner: tuple[str, str, str] | None = ("batch/v1", "Job", "train"),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    node: str | None = "node-0",
    requests: dict[str, RawQuantity] | None = None,
    containers: list[Container] | None = None,
    init: list[Container] | None = None,
) -> Pod:
    """Make a pod; `group` references a native group by field, `podium` one of Podium's by label."""
    all_labels = {**(labels or {}), **({GROUP_LABEL: podium} if podium else {})}
    made_by = None if owner is None else [OwnerReference(*owner, uid=owner[2], controller=True)]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            creationTimestamp=created,
            deletionTimestamp=NEW if terminating else None,
            labels=all_labels or None,
            annotations=annotations,
            ownerReferences=made_by,
        ),
        spec=PodSpec(
            priorityClassName=class_name or None,
            priority=priority,
            preemptionPolicy=policy,
            schedulerName=scheduler,
            schedulingGroup=SchedulingGroup(group) if group else None,
            nodeName=node,
            containers=containers or [container(requests)],
            initContainers=init,
        ),
        status=PodStatus(phase=phase),
    )


def member(name: str, **fields: Any) -> Pod:
    """Make a pod of the native group `train`."""
    return pod(name, group="train", **fields)


def pods(
    count: int, *, group: str = "train", start: int = 0, priority: int = 0, class_name: str = ""
) -> list[Pod]:
    """Make equal members of one native group: `pod-0`, `pod-1`..."""
    return [
        pod(f"pod-{index}", group=group, priority=priority, class_name=class_name)
        for index in range(start, start + count)
    ]


def container(
    requests: dict[str, RawQuantity] | None = None,
    limits: dict[str, RawQuantity] | None = None,
    *,
    name: str = "main",
    restart: str | None = None,
) -> Container:
    return Container(
        name=name, resources=ResourceRequirements(requests=requests, limits=limits), restartPolicy=restart
    )


def pod_group(
    name: str = "train",
    *,
    podium: bool = False,
    version: str = "v1beta1",
    priority: int | None = 0,
    class_name: str = "",
    policy: str | None = None,
    min_count: int | None = None,
    mode: DisruptionMode = DisruptionMode.POD,
    template: tuple[str, str] | None = None,
    created: str = OLD,
    deleted: str | None = None,
    namespace: str = NS,
    owned_by: tuple[str, str, str] | None = None,
    topology: str = "",
) -> PodGroup:
    refs = None if owned_by is None else [OwnerReference(*owned_by, uid=owned_by[2], controller=True)]
    api_group = "scheduling.podium.dev" if podium else "scheduling.k8s.io"
    return PodGroup(
        ref=ObjectRef(f"{api_group}/{version}", "PodGroup", namespace, name),
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            creationTimestamp=created,
            deletionTimestamp=deleted,
            ownerReferences=refs,
        ),
        min_count=min_count,
        disruption_mode=mode,
        priority_class_name=class_name,
        priority=priority,
        preemption_policy=policy,
        template_ref=TemplateRef(*template) if template is not None else None,
        topology=topology,
    )


def group_template(
    name: str = "workers",
    *,
    class_name: str = "",
    priority: int | None = None,
    policy: str | None = None,
    min_count: int | None = None,
    mode: DisruptionMode | None = None,
    composite: bool = False,
) -> Template:
    return Template(name, min_count, mode, class_name, priority, policy, composite)


def workload(
    *templates: Template, name: str = "train", podium: bool = False, version: str = "v1beta1"
) -> Workload:
    api_group = "scheduling.podium.dev" if podium else "scheduling.k8s.io"
    return Workload(
        ref=ObjectRef(f"{api_group}/{version}", "Workload", NS, name),
        metadata=ObjectMeta(name=name, namespace=NS),
        templates={f"spec.podGroupTemplates[{index}]": each for index, each in enumerate(templates)},
    )


def node(
    name: str = "node-0",
    allocatable: dict[str, RawQuantity] | None = None,
    *,
    unschedulable: bool = False,
    kubelet: str | None = "v1.37.0",
) -> Node:
    return Node(
        metadata=ObjectMeta(name=name),
        spec=NodeSpec(unschedulable=unschedulable or None),
        status=NodeStatus(allocatable=allocatable, nodeInfo=NodeInfo(kubeletVersion=kubelet)),
    )


def owner(
    kind: str = "Job",
    name: str = "train",
    *,
    api_version: str = "batch/v1",
    class_name: str | None = None,
    priority: int | None = None,
    made_by: tuple[str, str, str] | None = None,
    path: str = "spec.template",
    group: str = "",
    podium: str = "",
    scheduler: str | None = None,
    number: int | None = 1,
    run: JobRun | None = None,
    uid: str | None = None,
    suspended: bool = False,
    finished: bool = False,
) -> PodOwner:
    """Make an owner of one pod template; `group` names a native group by field, `podium` one by label."""
    refs = None if made_by is None else [OwnerReference(*made_by, uid=made_by[2], controller=True)]
    spec = PodSpec(
        priorityClassName=class_name,
        priority=priority,
        schedulerName=scheduler,
        schedulingGroup=SchedulingGroup(group) if group else None,
    )
    template = PodTemplate(metadata=ObjectMeta(labels={GROUP_LABEL: podium} if podium else None), spec=spec)
    return PodOwner(
        ref=ObjectRef(api_version, kind, NS, name),
        metadata=ObjectMeta(name=name, namespace=NS, ownerReferences=refs, uid=uid),
        templates={path: template},
        pods={} if number is None else {path: number},
        runs={} if run is None else {path: run},
        gangs=1,
        suspended=suspended,
        finished=finished,
    )


def with_roles(**classes: str) -> PodOwner:
    """Make a JobSet whose roles have these classes (empty: none)."""
    templates = {
        f"spec.{role}.template": PodTemplate(spec=PodSpec(priorityClassName=class_name or None))
        for role, class_name in classes.items()
    }
    ref = ObjectRef("jobset.x-k8s.io/v1alpha2", "JobSet", NS, "roles")
    metadata = ObjectMeta(name="roles", namespace=NS)
    return PodOwner(ref=ref, metadata=metadata, templates=templates, gangs=1)


def foreign_group(least: int | None, api_version: str = "scheduling.x-k8s.io/v1alpha1") -> ForeignGroup:
    """Make the PodGroup `train` of another project."""
    metadata = ObjectMeta(name="train", namespace=NS)
    return ForeignGroup(api_version, metadata=metadata, spec=ForeignGroupSpec(least))


def kueue_workload(
    name: str, *, priority: int | None, owners: Iterable[tuple[str, str, str]] = ()
) -> KueueWorkload:
    return KueueWorkload(
        apiVersion="kueue.x-k8s.io/v1beta1",
        kind="Workload",
        metadata=ObjectMeta(
            name=name,
            namespace=NS,
            ownerReferences=[OwnerReference(*each, uid=each[2], controller=True) for each in owners],
        ),
        spec=KueueWorkloadSpec(priority=priority),
    )
