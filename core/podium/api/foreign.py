"""The owners of pods in neutral form, the table of their kinds, and the read of Kueue's Workload."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from podium.api.core import PodTemplate
from podium.api.fieldpath import at, parse_path
from podium.api.findings import ObjectRef
from podium.api.meta import Int32, ObjectMeta
from podium.api.podcreators import (
    Branch,
    CronJob,
    JobRun,
    JobScheduling,
    JobSet,
    LeaderWorkerSet,
    PodCreator,
    SimpleOwner,
)
from podium.api.podmakers import POD_MAKERS, MadePods
from podium.api.v1alpha2 import reference


class OwnerKind(NamedTuple):
    """The read of a kind that creates pods, and its name in a URL."""

    type: type[PodCreator]
    plural: str


OWNERS: dict[tuple[str, str], OwnerKind] = {
    ("apps/v1", "Deployment"): OwnerKind(SimpleOwner, "deployments"),
    ("apps/v1", "StatefulSet"): OwnerKind(SimpleOwner, "statefulsets"),
    ("apps/v1", "DaemonSet"): OwnerKind(SimpleOwner, "daemonsets"),
    ("apps/v1", "ReplicaSet"): OwnerKind(SimpleOwner, "replicasets"),
    ("batch/v1", "Job"): OwnerKind(SimpleOwner, "jobs"),
    ("batch/v1", "CronJob"): OwnerKind(CronJob, "cronjobs"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): OwnerKind(JobSet, "jobsets"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): OwnerKind(LeaderWorkerSet, "leaderworkersets"),
}
# Further kinds that are read from manifests only: a cluster has their pods, and listing needs more rights.
MANIFEST_OWNERS: dict[tuple[str, str], OwnerKind] = {
    **OWNERS,
    ("v1", "ReplicationController"): OwnerKind(SimpleOwner, "replicationcontrollers"),
    **{key: OwnerKind(MadePods, f"{key[1].lower()}s") for key in POD_MAKERS},
}


# The feature gate of the controller that creates groups for spec.scheduling, by the kind that has the field.
JOB_GATE, JOBSET_GATE = "WorkloadWithJob", "JobSetWorkloadAwareSchedulingAPI"


class PodOwner(msgspec.Struct, frozen=True, gc=False):
    """An object that creates pods, in neutral form: its templates by field path, and its gangs.

    `gangs` is their number (0: the kind has none), `gang_size` the number of pods with which each of them
    begins. `pods` is the number of pods of each template before any of them runs, also for a suspended owner.
    It lacks a template whose number is not known. `runs` are the Jobs of each template of Jobs. `spec_paths`
    are the places of the pods' specs for templates that do not have them under `spec`. `job_scheduling` are
    the groups that the Job controller of Kubernetes 1.37, or the JobSet controller, would create, by field
    path. `branches` are the parts of a JobSet or LeaderWorkerSet.
    """

    ref: ObjectRef
    metadata: ObjectMeta
    templates: dict[str, PodTemplate]
    gangs: int = 0
    gang_size: int = 0
    pods: dict[str, int] = {}
    runs: dict[str, JobRun] = {}
    spec_paths: dict[str, str] = {}
    job_scheduling: dict[str, JobScheduling] = {}
    branches: tuple[Branch, ...] = ()
    suspended: bool = False
    finished: bool = False

    def scheduling_gate(self, path: str) -> str:
        """Return the gate of a field of `job_scheduling`; JobSet has its own field and gate."""
        return JOBSET_GATE if self.ref.kind == "JobSet" and path == "spec.scheduling" else JOB_GATE

    def spec_path(self, template: str) -> str:
        """Return the field path of the spec of the pods of a template."""
        return self.spec_paths.get(template, f"{template}.spec")


def neutral_owner(owner: PodCreator) -> PodOwner:
    """Return the neutral form of any owner."""
    ref = reference(owner.apiVersion, owner.kind, owner.metadata)
    gangs, size = owner.gangs()
    return PodOwner(
        ref=ref,
        metadata=owner.metadata,
        templates=dict(owner.templates()),
        gangs=gangs,
        gang_size=size,
        pods=owner.pod_numbers(),
        runs=owner.runs(),
        spec_paths=owner.spec_paths(),
        job_scheduling=dict(owner.job_scheduling()),
        branches=tuple(owner.branches()),
        suspended=owner.suspended,
        finished=owner.finished,
    )


class KueueWorkloadSpec(msgspec.Struct, gc=False):
    """spec of Kueue's Workload, as far as priority is concerned."""

    priority: Int32 | None = None
    priorityClassName: str | None = None


class KueueWorkload(msgspec.Struct, gc=False):
    """Kueue's own Workload; its priority decides its place in the queue, not in the scheduler."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: KueueWorkloadSpec = msgspec.field(default_factory=KueueWorkloadSpec)


def template_documents(owner: PodCreator, document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the whole pod templates of an owner that was decoded from `document`, by field path."""
    if isinstance(owner, MadePods):
        return {role.path: role.template for role in owner.roles()}
    return {path: at(document, parse_path(path)) for path, _ in owner.templates()}
