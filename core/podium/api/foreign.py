"""Reads of what makes pods (Deployment to LeaderWorkerSet) for their templates, and of Kueue's Workload.

Of an owner only its pod templates matter here, each with its field path: a rule that judges a template
judges the pods it would make and must say where to edit.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from podium.api.core import PodTemplate
from podium.api.meta import Int32, ObjectMeta
from podium.api.v1alpha2 import reference
from podium.findings import ObjectRef


class TemplateSpec(msgspec.Struct, gc=False):
    """spec of Deployment, StatefulSet, DaemonSet, ReplicaSet and Job: one template."""

    template: PodTemplate | None = None
    replicas: Int32 | None = None
    parallelism: Int32 | None = None


class SimpleOwner(msgspec.Struct, gc=False):
    """An owner with one template at spec.template."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: TemplateSpec | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Give the templates with their field paths."""
        yield from _one("spec.template", self.spec.template if self.spec is not None else None)


class JobTemplate(msgspec.Struct, gc=False):
    """A Job inside a CronJob or JobSet."""

    metadata: ObjectMeta | None = None
    spec: TemplateSpec | None = None


class CronJobSpec(msgspec.Struct, gc=False):
    """spec of a CronJob."""

    jobTemplate: JobTemplate | None = None


class CronJob(msgspec.Struct, gc=False):
    """batch/v1 CronJob."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CronJobSpec | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Give the templates with their field paths."""
        job = self.spec.jobTemplate if self.spec is not None else None
        template = job.spec.template if job is not None and job.spec is not None else None
        yield from _one("spec.jobTemplate.spec.template", template)


class ReplicatedJob(msgspec.Struct, gc=False):
    """One role of a JobSet."""

    name: str | None = None
    replicas: Int32 | None = None
    template: JobTemplate | None = None


class JobSetSpec(msgspec.Struct, gc=False):
    """spec of a JobSet."""

    replicatedJobs: list[ReplicatedJob] | None = None


class JobSet(msgspec.Struct, gc=False):
    """jobset.x-k8s.io/v1alpha2 JobSet."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSetSpec | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Give the templates with their field paths."""
        for index, job in enumerate((self.spec.replicatedJobs if self.spec is not None else None) or ()):
            spec = job.template.spec if job.template is not None else None
            path = f"spec.replicatedJobs[{index}].template.spec.template"
            yield from _one(path, spec.template if spec is not None else None)


class LeaderWorkerTemplate(msgspec.Struct, gc=False):
    """A leader (a worker where absent) and its workers; size counts both."""

    leaderTemplate: PodTemplate | None = None
    workerTemplate: PodTemplate | None = None
    size: Int32 | None = None


class LeaderWorkerSetSpec(msgspec.Struct, gc=False):
    """spec of a LeaderWorkerSet."""

    replicas: Int32 | None = None
    leaderWorkerTemplate: LeaderWorkerTemplate | None = None


class LeaderWorkerSet(msgspec.Struct, gc=False):
    """leaderworkerset.x-k8s.io/v1 LeaderWorkerSet."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: LeaderWorkerSetSpec | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Give the templates with their field paths."""
        pair = self.spec.leaderWorkerTemplate if self.spec is not None else None
        if pair is not None:
            yield from _one("spec.leaderWorkerTemplate.leaderTemplate", pair.leaderTemplate)
            yield from _one("spec.leaderWorkerTemplate.workerTemplate", pair.workerTemplate)


OwnerObject = SimpleOwner | CronJob | JobSet | LeaderWorkerSet


class OwnerKind(NamedTuple):
    """How a kind that makes pods is read, and its name in a URL."""

    type: type[OwnerObject]
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


class Owner(msgspec.Struct, frozen=True, gc=False):
    """An object that makes pods, in the neutral form: its templates by field path."""

    ref: ObjectRef
    metadata: ObjectMeta
    templates: dict[str, PodTemplate]


def neutral_owner(owner: OwnerObject) -> Owner:
    """Bring any owner to the neutral form."""
    ref = reference(owner.apiVersion, owner.kind, owner.metadata)
    return Owner(ref=ref, metadata=owner.metadata, templates=dict(owner.templates()))


class KueueWorkloadSpec(msgspec.Struct, gc=False):
    """spec of Kueue's Workload, as far as priority goes."""

    priority: Int32 | None = None
    priorityClassName: str | None = None


class KueueWorkload(msgspec.Struct, gc=False):
    """Kueue's own Workload: its priority rules its queue, not the scheduler."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: KueueWorkloadSpec = msgspec.field(default_factory=KueueWorkloadSpec)


def _one(path: str, template: PodTemplate | None) -> Iterator[tuple[str, PodTemplate]]:
    if template is not None:
        yield path, template
