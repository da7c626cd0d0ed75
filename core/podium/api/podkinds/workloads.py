"""Kubernetes' own kinds that create pods: Deployment to CronJob.

Sources: the Job, StatefulSet, DaemonSet and ReplicaSet controllers of Kubernetes 1.37.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from podium.api.core import PodTemplate
from podium.api.findings import ObjectError, ObjectRef
from podium.api.meta import Condition, Int32, Int64, ObjectMeta, OwnerReference, instant
from podium.api.podkinds.created import (
    GENERATED_BASE,
    Batch,
    Copy,
    CreatedPods,
    RequestedGroup,
    controller_reference,
    generated,
    ordinal,
    template_hash,
    uid_of,
    value_at,
)
from podium.api.podkinds.kind import (
    GangForm,
    GangPart,
    GroupLabel,
    JobRun,
    JobScheduling,
    OwnerKind,
    PodCreator,
    PodOwner,
    Rank,
)

# kubernetes/kubernetes, the Deployment controller: the suffix of the name of the ReplicaSet.
TEMPLATE_HASH = "pod-template-hash"
# kubernetes/kubernetes, the Job controller: the current label, and the label before 1.27.
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_NAME_OLD = "job-name"
# An annotation and label of the Job controller on pods: the pod's completion index.
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_CONTROLLER_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_APPS, _BATCH = "apps/v1", "batch/v1"
JOB_KEY = (_BATCH, "Job")
STATEFUL_SET_KEY = (_APPS, "StatefulSet")
_TEMPLATE, _JOB_TEMPLATE = "spec.template", "spec.jobTemplate.spec.template"


class TemplateSpec(msgspec.Struct, gc=False):
    """spec of Deployment, StatefulSet, DaemonSet, ReplicaSet and Job: one template."""

    template: PodTemplate | None = None
    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    suspend: bool | None = None
    activeDeadlineSeconds: Int64 | None = None
    scheduling: JobScheduling | None = None

    def at_once(self, succeeded: int = 0) -> int:
        """Return the number of pods that a Job has at once, after `succeeded` pods."""
        return self.run(succeeded=succeeded).wave(0)

    def run(self, jobs: int = 1, succeeded: int = 0, role: str = "") -> JobRun:
        """Return how the pods of Jobs of this spec follow one another; an absent parallelism is 1."""
        parallelism = 1 if self.parallelism is None else self.parallelism
        return JobRun(jobs, parallelism, self.completions, succeeded, role)

    def numbers(self, path: str) -> Iterator[tuple[str, int | None]]:
        """Yield the fields that set numbers of pods, with their values."""
        for field in ("replicas", "parallelism", "completions"):
            yield f"{path}.{field}", getattr(self, field)

    def job_scheduling(self, path: str) -> dict[str, JobScheduling]:
        """Return the group that the Job controller would create, by field path."""
        return {} if self.scheduling is None else {f"{path}.scheduling": self.scheduling}


class JobStatus(msgspec.Struct, gc=False):
    """status of a Job; the status of the other kinds with one template is not read."""

    succeeded: Int32 | None = None
    startTime: str | None = None
    conditions: list[Condition] | None = None


class ReplicatedPods(PodCreator, gc=False):
    """A Deployment, ReplicaSet or ReplicationController, and the read of all kinds with one template."""

    spec: TemplateSpec | None = None
    status: JobStatus | None = None

    def neutral(self) -> PodOwner:
        """Return its neutral form."""
        spec, status = self.spec or TemplateSpec(), self.status or JobStatus()
        return PodOwner(
            self.ref,
            self.metadata,
            one_template(_TEMPLATE, spec.template),
            pods={_TEMPLATE: 1 if spec.replicas is None else spec.replicas},
            job_scheduling=spec.job_scheduling("spec"),
            suspended=bool(spec.suspend),
            finished=any(
                condition.type in ("Complete", "Failed") and condition.status == "True"
                for condition in status.conditions or ()
            ),
        )

    def numbers(self) -> Iterator[tuple[str, int | None]]:
        """Yield the fields that set numbers of pods, with their values."""
        if self.spec is not None:
            yield from self.spec.numbers("spec")

    def requested_groups(self, document: Mapping[str, Any], pods: CreatedPods) -> Iterator[RequestedGroup]:
        """Yield the group that spec.scheduling asks for."""
        scheduling = document["spec"]["scheduling"]
        yield RequestedGroup("spec.scheduling", self.ref.name, pods.batches, scheduling, default="basic")

    def created(self, owner: PodOwner, _document: Mapping[str, Any]) -> CreatedPods:
        """Return its pods, of a Deployment those of the ReplicaSet that it creates."""
        ref, labels = owner.ref, {}
        if ref.kind == "Deployment":
            labels[TEMPLATE_HASH] = template_hash(ref)
            ref = ObjectRef(
                ref.apiVersion, "ReplicaSet", ref.namespace, f"{ref.name}-{labels[TEMPLATE_HASH]}"
            )
        copies = [
            Copy(generated(f"{ref.name}-", ref.namespace, index), labels)
            for index in range(owner.pods[_TEMPLATE])
        ]
        return CreatedPods((Batch(_TEMPLATE, controller_reference(ref), tuple(copies)),))


class StatefulSet(ReplicatedPods, gc=False):
    """apps/v1 StatefulSet."""

    def created(self, owner: PodOwner, document: Mapping[str, Any]) -> CreatedPods:
        """Return its pods. Raises ObjectError."""
        first = value_at(document, "spec", "ordinals", "start") or 0
        if not isinstance(first, int) or first < 0:
            raise ObjectError(owner.ref, "spec.ordinals.start", "is not an initial number of pods")
        copies = [ordinal(owner.ref.name, first + index) for index in range(owner.pods[_TEMPLATE])]
        return CreatedPods(
            (Batch(_TEMPLATE, controller_reference(owner.ref), tuple(copies), claims=("spec",)),)
        )


class DaemonSet(ReplicatedPods, gc=False):
    """apps/v1 DaemonSet, whose pods depend on the nodes."""

    def neutral(self) -> PodOwner:
        """Return its neutral form, without a number of pods."""
        return msgspec.structs.replace(super().neutral(), pods={})

    def created_on(self, nodes: Sequence[str]) -> Batch:
        """Return its pods on these nodes."""
        ref = self.ref
        labels = {"controller-revision-hash": template_hash(ref)}
        copies = (
            Copy(generated(f"{ref.name}-", ref.namespace, index), labels, node)
            for index, node in enumerate(nodes)
        )
        controller = OwnerReference(
            ref.apiVersion, ref.kind, ref.name, self.metadata.uid or "", controller=True
        )
        return Batch(_TEMPLATE, controller, tuple(copies))


class Job(ReplicatedPods, gc=False):
    """batch/v1 Job: one gang."""

    def neutral(self) -> PodOwner:
        """Return its neutral form."""
        spec = self.spec or TemplateSpec()
        succeeded = (self.status.succeeded if self.status is not None else None) or 0
        number = spec.at_once(succeeded)
        return msgspec.structs.replace(
            super().neutral(),
            gangs=0 if self.spec is None else 1,
            gang_size=0 if self.spec is None or spec.suspend else number,
            pods={_TEMPLATE: number},
            runs={_TEMPLATE: spec.run(succeeded=succeeded)},
            deadline=self._deadline(spec),
        )

    def _deadline(self, spec: TemplateSpec) -> int:
        """Return its deadline as the second since 1970, 0 for none.

        As in `pastActiveDeadline` of the Job controller a suspended Job has none. The controller sets a new
        startTime when the Job is resumed.
        """
        start = self.status.startTime if self.status is not None else None
        if not start or spec.activeDeadlineSeconds is None or spec.suspend:
            return 0
        with suppress(msgspec.ValidationError):
            return int(instant(start).timestamp()) + spec.activeDeadlineSeconds
        return 0

    def created(self, owner: PodOwner, document: Mapping[str, Any]) -> CreatedPods:
        """Return its pods."""
        indexed = value_at(document, "spec", "completionMode") == "Indexed"
        return CreatedPods((job_pods(owner.ref, _TEMPLATE, owner.pods[_TEMPLATE], {}, indexed=indexed),))


class JobTemplate(msgspec.Struct, gc=False):
    """A Job inside a CronJob or JobSet."""

    metadata: ObjectMeta | None = None
    spec: TemplateSpec | None = None


class CronJobSpec(msgspec.Struct, gc=False):
    """spec of a CronJob."""

    jobTemplate: JobTemplate | None = None
    suspend: bool | None = None


class CronJob(PodCreator, gc=False):
    """batch/v1 CronJob, with the pods that each of its Jobs begins with; its Jobs have gangs of their own."""

    spec: CronJobSpec | None = None

    def neutral(self) -> PodOwner:
        """Return its neutral form."""
        spec = self.spec or CronJobSpec()
        job = (spec.jobTemplate.spec if spec.jobTemplate is not None else None) or TemplateSpec()
        return PodOwner(
            self.ref,
            self.metadata,
            one_template(_JOB_TEMPLATE, job.template),
            pods={_JOB_TEMPLATE: job.at_once()},
            runs={_JOB_TEMPLATE: job.run()},
            job_scheduling=job.job_scheduling("spec.jobTemplate.spec"),
            suspended=bool(spec.suspend),
        )

    def unplanned(self) -> tuple[str, str]:
        """Return the reason for which it has no plan."""
        return "spec.jobTemplate", "creates its Jobs later. Add the Job instead"


def one_template(path: str, template: PodTemplate | None) -> dict[str, PodTemplate]:
    """Return a template by its field path, nothing for None."""
    return {} if template is None else {path: template}


def job_pods(
    ref: ObjectRef, template: str, number: int, labels: Mapping[str, str], *, indexed: bool
) -> Batch:
    """Return the pods of a Job; pods of an Indexed Job have an index."""
    common = {
        **labels,
        **dict.fromkeys(_CONTROLLER_UIDS, uid_of(ref.kind, ref.namespace, ref.name)),
        JOB_NAME: ref.name,
        JOB_NAME_OLD: ref.name,
    }
    if indexed:
        copies = [_indexed(ref, common, index) for index in range(number)]
    else:
        copies = [Copy(generated(f"{ref.name}-", ref.namespace, index), common) for index in range(number)]
    return Batch(template, controller_reference(ref), tuple(copies))


def _indexed(ref: ObjectRef, common: Mapping[str, str], index: int) -> Copy:
    place = f"-{index}-"
    name = generated(ref.name[: GENERATED_BASE - len(place)] + place, ref.namespace)
    return Copy(name, {**common, _COMPLETION_INDEX: str(index)})


_REPLICAS = "spec.replicas"
KINDS = (
    OwnerKind(_APPS, "Deployment", ReplicatedPods, listed=True, replicas=_REPLICAS),
    OwnerKind(*STATEFUL_SET_KEY, StatefulSet, listed=True, replicas=_REPLICAS),
    OwnerKind(_APPS, "DaemonSet", DaemonSet, listed=True),
    OwnerKind(_APPS, "ReplicaSet", ReplicatedPods, listed=True, replicas=_REPLICAS),
    OwnerKind("v1", "ReplicationController", ReplicatedPods, replicas=_REPLICAS),
    OwnerKind(
        *JOB_KEY,
        Job,
        listed=True,
        replicas="spec.parallelism",
        groups=(GroupLabel(JOB_NAME, *JOB_KEY, Rank.JOB), GroupLabel(JOB_NAME_OLD, *JOB_KEY, Rank.JOB)),
        gang=GangForm("-job", JOB_KEY, lambda _labels, _pod, job: GangPart(job)),
    ),
    OwnerKind(_BATCH, "CronJob", CronJob, listed=True),
)
