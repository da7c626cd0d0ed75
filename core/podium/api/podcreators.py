"""Reads of the kinds that create pods and run in clusters: Deployment to LeaderWorkerSet.

Two properties of an owner matter here. The first is its pod templates, each with its field path. A rule for a
template checks the pods it would create and must say where to edit. The second, for Job, JobSet and
LeaderWorkerSet, is the number of its pods that exist together before any of them runs. A gang that waits for
more waits for ever.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from podium.api.core import PodTemplate
from podium.api.groups import PODIUM_GROUP
from podium.api.meta import Condition, Int32, ObjectMeta
from podium.api.v1alpha2 import SchedulingPolicy

# kubernetes-sigs/lws: every replica has its own topology domain.
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


class JobRun(NamedTuple):
    """The Jobs of one template, and how the pods of each follow one another.

    `parallelism` pods of a Job run side by side until `completions` have succeeded (None: a work queue, which
    creates no pod after one that has succeeded). `lasting` pods have no end. `role` is the Jobs' role in a
    JobSet.
    """

    jobs: int
    parallelism: int
    completions: int | None
    succeeded: int = 0
    role: str = ""
    lasting: bool = False

    @property
    def left(self) -> int:
        """Return the number of pods that have not succeeded."""
        completions = self.parallelism if self.completions is None else self.completions - self.succeeded
        return self.jobs * max(0, completions)

    @property
    def waves(self) -> int:
        """Return the number of waves in which the pods that are left run, if pods of a wave end together."""
        return -(-self.left // (self.jobs * self.parallelism)) if self.left and self.parallelism else 0

    def wave(self, number: int) -> int:
        """Return the number of pods of a wave, the first of which is 0."""
        full = self.jobs * self.parallelism
        return full if self.lasting else max(0, min(full, self.left - number * full))


class PodCreator(msgspec.Struct, gc=False):
    """The reads that kinds which create pods have in common; a kind overrides those that differ for it."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Yield the templates with their field paths."""
        raise NotImplementedError

    def pod_numbers(self) -> dict[str, int]:
        """Return the number of pods of each template before any of them runs, by field path, if known."""
        raise NotImplementedError

    def runs(self) -> dict[str, JobRun]:
        """Return the Jobs of each template of Jobs, by field path."""
        return {}

    def spec_paths(self) -> dict[str, str]:
        """Return the place of the fields of a pod's spec for templates that do not have them under `spec`."""
        return {}

    def job_scheduling(self) -> "Iterator[tuple[str, JobScheduling]]":
        """Yield the groups that its own controller or the Job controller would create, by field path."""
        yield from ()

    def gangs(self) -> tuple[int, int]:
        """Return the number and the size of the gangs that its pods form, 0 for none."""
        return 0, 0

    def branches(self) -> "Iterator[Branch]":
        """Yield its parts that are alike, if a tree of groups can be made of it."""
        yield from ()

    @property
    def suspended(self) -> bool:
        """Return whether it creates no pods until it is resumed."""
        return False

    @property
    def finished(self) -> bool:
        """Return whether it has completed or failed; most kinds have no end, or their end is not read."""
        return False


class JobScheduling(msgspec.Struct, gc=False):
    """spec.scheduling of a Job (Kubernetes 1.37, gate WorkloadWithJob): the group of its pods."""

    schedulingPolicy: SchedulingPolicy | None = None


class TemplateSpec(msgspec.Struct, gc=False):
    """spec of Deployment, StatefulSet, DaemonSet, ReplicaSet and Job: one template."""

    template: PodTemplate | None = None
    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    suspend: bool | None = None
    scheduling: JobScheduling | None = None

    def at_once(self, succeeded: int = 0) -> int:
        """Return the number of pods that a Job has at once, after `succeeded` pods."""
        return self.run(succeeded=succeeded).wave(0)

    def run(self, jobs: int = 1, succeeded: int = 0, role: str = "") -> JobRun:
        """Return how the pods of Jobs of this spec follow one another; an absent parallelism is 1."""
        parallelism = 1 if self.parallelism is None else self.parallelism
        return JobRun(jobs, parallelism, self.completions, succeeded, role)


class JobStatus(msgspec.Struct, gc=False):
    """status of a Job; the status of the other kinds with one template is not read."""

    succeeded: Int32 | None = None
    conditions: list[Condition] | None = None


class SimpleOwner(PodCreator, gc=False):
    """An owner with one template at spec.template."""

    spec: TemplateSpec | None = None
    status: JobStatus | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Yield the templates with their field paths."""
        yield from _one("spec.template", self.spec.template if self.spec is not None else None)

    def job_scheduling(self) -> Iterator[tuple[str, JobScheduling]]:
        """Yield the groups that the Job controller would create, by field path."""
        yield from _scheduling("spec", self.spec)

    def pod_numbers(self) -> dict[str, int]:
        """Return the number of pods of its template; the pods of a DaemonSet depend on the nodes."""
        spec = self.spec or TemplateSpec()
        if self.kind == "DaemonSet":
            return {}
        if self.kind == "Job":
            return {"spec.template": spec.at_once(self._succeeded())}
        return {"spec.template": 1 if spec.replicas is None else spec.replicas}

    def runs(self) -> dict[str, JobRun]:
        """Return the Job itself, if this is one."""
        spec = self.spec or TemplateSpec()
        return {"spec.template": spec.run(succeeded=self._succeeded())} if self.kind == "Job" else {}

    @property
    def suspended(self) -> bool:
        """Return whether this is a Job without pods until it is resumed."""
        return self.spec is not None and bool(self.spec.suspend)

    @property
    def finished(self) -> bool:
        """Return whether this is a Job that has completed or failed."""
        conditions = (self.status.conditions if self.status is not None else None) or ()
        return any(each.type in ("Complete", "Failed") and each.status == "True" for each in conditions)

    def gangs(self) -> tuple[int, int]:
        """Return the number and size of the gangs that its pods form: one for a Job, none for other kinds."""
        if self.kind != "Job" or self.spec is None:
            return 0, 0
        return 1, 0 if self.spec.suspend else self.spec.at_once(self._succeeded())

    def _succeeded(self) -> int:
        return (self.status.succeeded if self.status is not None else None) or 0


class JobTemplate(msgspec.Struct, gc=False):
    """A Job inside a CronJob or JobSet."""

    metadata: ObjectMeta | None = None
    spec: TemplateSpec | None = None


class CronJobSpec(msgspec.Struct, gc=False):
    """spec of a CronJob."""

    jobTemplate: JobTemplate | None = None
    suspend: bool | None = None


class CronJob(PodCreator, gc=False):
    """batch/v1 CronJob; its Jobs have gangs of their own."""

    spec: CronJobSpec | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Yield the templates with their field paths."""
        yield from _one("spec.jobTemplate.spec.template", self._job().template)

    def job_scheduling(self) -> Iterator[tuple[str, JobScheduling]]:
        """Yield the groups that the Job controller would create for its Jobs, by field path."""
        yield from _scheduling("spec.jobTemplate.spec", self._job())

    def pod_numbers(self) -> dict[str, int]:
        """Return the number of pods that each of its Jobs begins with."""
        return {"spec.jobTemplate.spec.template": self._job().at_once()}

    def runs(self) -> dict[str, JobRun]:
        """Return each of its Jobs."""
        return {"spec.jobTemplate.spec.template": self._job().run()}

    @property
    def suspended(self) -> bool:
        """Return whether it creates no Jobs until it is resumed."""
        return self.spec is not None and bool(self.spec.suspend)

    def _job(self) -> TemplateSpec:
        job = self.spec.jobTemplate if self.spec is not None else None
        return (job.spec if job is not None else None) or TemplateSpec()


class Dependency(msgspec.Struct, gc=False):
    """A role that another role waits for."""

    name: str | None = None


class ReplicatedJob(msgspec.Struct, gc=False):
    """A role of a JobSet."""

    name: str | None = None
    replicas: Int32 | None = None
    template: JobTemplate | None = None
    dependsOn: list[Dependency] | None = None

    def size(self) -> int:
        """Return the number of pods that its Jobs have at once."""
        return self.run().wave(0)

    def run(self) -> JobRun:
        """Return its Jobs."""
        spec = self.template.spec if self.template is not None else None
        return (spec or TemplateSpec()).run(
            1 if self.replicas is None else self.replicas, role=self.name or ""
        )


class StartupPolicy(msgspec.Struct, gc=False):
    """The order in which a JobSet creates its Jobs: AnyOrder, or InOrder."""

    startupPolicyOrder: str | None = None


class RoleScheduling(JobScheduling, gc=False):
    """The group of some roles of a JobSet, or with `job` a group of each of their Jobs."""

    targetReplicatedJobs: list[str] | None = None
    job: JobScheduling | None = None


class JobSetScheduling(JobScheduling, gc=False):
    """spec.scheduling of a JobSet (KEP-969): the groups of its pods."""

    replicatedJobs: list[RoleScheduling] | None = None


class Branch(msgspec.Struct, frozen=True, gc=False):
    """Parts of an owner that are alike: the Jobs of a JobSet's role, or the replicas of a LeaderWorkerSet.

    In a tree each part is a group. `role` is empty for a LeaderWorkerSet. `groups` is the number of parts,
    `size` the number of pods with which each begins. `first` says that they wait for no other role. The
    labels and annotations are those of the pod template whose names are Podium's own.
    """

    role: str
    groups: int
    size: int
    labels: dict[str, str]
    annotations: dict[str, str]
    first: bool = True


class JobSetSpec(msgspec.Struct, gc=False):
    """spec of a JobSet."""

    scheduling: JobSetScheduling | None = None
    replicatedJobs: list[ReplicatedJob] | None = None
    startupPolicy: StartupPolicy | None = None
    suspend: bool | None = None

    def initial_roles(self) -> list[ReplicatedJob]:
        """Return the roles whose Jobs wait for no other role."""
        jobs = [job for job in self.replicatedJobs or () if job.size()]
        if self.startupPolicy is not None and self.startupPolicy.startupPolicyOrder == "InOrder":
            return jobs[:1]
        return [job for job in jobs if not job.dependsOn]


class JobSetStatus(msgspec.Struct, gc=False):
    """status of a JobSet: `Completed` or `Failed` once it has ended."""

    terminalState: str | None = None


class JobSet(PodCreator, gc=False):
    """jobset.x-k8s.io/v1alpha2 JobSet."""

    spec: JobSetSpec | None = None
    status: JobSetStatus | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Yield the templates with their field paths."""
        for path, job in self._roles():
            spec = job.template.spec if job.template is not None else None
            yield from _one(path, spec.template if spec is not None else None)

    def job_scheduling(self) -> Iterator[tuple[str, JobScheduling]]:
        """Yield the groups that it or the Job controller would create for its Jobs, by field path."""
        if self.spec is not None and self.spec.scheduling is not None:
            yield "spec.scheduling", self.spec.scheduling
        for path, job in self._roles():
            spec = job.template.spec if job.template is not None else None
            yield from _scheduling(path.removesuffix(".template"), spec)

    def pod_numbers(self) -> dict[str, int]:
        """Return the number of pods of each template before any of them runs; 0 for later roles."""
        first = {id(job) for job in self.spec.initial_roles()} if self.spec is not None else ()
        return {path: job.size() if id(job) in first else 0 for path, job in self._roles()}

    def runs(self) -> dict[str, JobRun]:
        """Return the Jobs of each role."""
        return {path: job.run() for path, job in self._roles()}

    @property
    def suspended(self) -> bool:
        """Return whether its Jobs have no pods until it is resumed."""
        return self.spec is not None and bool(self.spec.suspend)

    @property
    def finished(self) -> bool:
        """Return whether it has completed or failed."""
        return self.status is not None and bool(self.status.terminalState)

    def _roles(self) -> Iterator[tuple[str, ReplicatedJob]]:
        """Yield its roles, each with the field path of its pod template."""
        for index, job in enumerate((self.spec.replicatedJobs if self.spec is not None else None) or ()):
            yield f"spec.replicatedJobs[{index}].template.spec.template", job

    def gangs(self) -> tuple[int, int]:
        """Return the number of its gangs, and the number of pods that exist before any of them runs.

        A JobSet's own gang scheduling does not form one gang of roles that start in sequence either.
        """
        if self.spec is None or self.spec.suspend:
            return 1, 0
        return 1, sum(job.size() for job in self.spec.initial_roles())

    def branches(self) -> Iterator[Branch]:
        """Yield its roles; the Jobs of a suspended JobSet have no pods."""
        first = {id(job) for job in self.spec.initial_roles()} if self.spec is not None else ()
        for _, job in self._roles():
            spec = (job.template.spec if job.template is not None else None) or TemplateSpec()
            labels, annotations = _own_metadata(spec.template)
            groups = 1 if job.replicas is None else job.replicas
            size = 0 if self.suspended else spec.at_once()
            yield Branch(job.name or "", groups, size, labels, annotations, first=id(job) in first)


class LeaderWorkerTemplate(msgspec.Struct, gc=False):
    """A leader (with the worker's template if absent) and its workers; size counts both."""

    leaderTemplate: PodTemplate | None = None
    workerTemplate: PodTemplate | None = None
    size: Int32 | None = None


class LeaderWorkerSetSpec(msgspec.Struct, gc=False):
    """spec of a LeaderWorkerSet."""

    replicas: Int32 | None = None
    leaderWorkerTemplate: LeaderWorkerTemplate | None = None
    startupPolicy: str | None = None


class LeaderWorkerSet(PodCreator, gc=False):
    """leaderworkerset.x-k8s.io/v1 LeaderWorkerSet."""

    spec: LeaderWorkerSetSpec | None = None

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Yield the templates with their field paths."""
        pair = self.spec.leaderWorkerTemplate if self.spec is not None else None
        if pair is not None:
            yield from _one("spec.leaderWorkerTemplate.leaderTemplate", pair.leaderTemplate)
            yield from _one("spec.leaderWorkerTemplate.workerTemplate", pair.workerTemplate)

    def pod_numbers(self) -> dict[str, int]:
        """Return the number of pods of each template before any of them runs, in all replicas."""
        replicas, size = self.gangs()
        pair = self.spec.leaderWorkerTemplate if self.spec is not None else None
        leaders = 0 if pair is None or pair.leaderTemplate is None else 1
        return {
            "spec.leaderWorkerTemplate.leaderTemplate": replicas * leaders,
            "spec.leaderWorkerTemplate.workerTemplate": replicas * (size - leaders),
        }

    def gangs(self) -> tuple[int, int]:
        """Return the number of its gangs, one per replica, and the size of each: leader and workers.

        The size is 1 if workers are created only when the leader is ready, or its topology domain is known.
        """
        if self.spec is None or self.spec.leaderWorkerTemplate is None:
            return 0, 0
        replicas, size = self.spec.replicas, self.spec.leaderWorkerTemplate.size
        alone = self.spec.startupPolicy == "LeaderReady" or EXCLUSIVE in (self.metadata.annotations or {})
        return 1 if replicas is None else replicas, 1 if alone or size is None else size

    def branches(self) -> Iterator[Branch]:
        """Yield all its replicas as one; the leader's template has precedence over the workers'."""
        pair = self.spec.leaderWorkerTemplate if self.spec is not None else None
        if pair is not None:
            replicas, size = self.gangs()
            of_workers, of_leaders = _own_metadata(pair.workerTemplate), _own_metadata(pair.leaderTemplate)
            labels, annotations = of_workers[0] | of_leaders[0], of_workers[1] | of_leaders[1]
            yield Branch("", replicas, size, labels, annotations)


def _scheduling(path: str, spec: TemplateSpec | None) -> Iterator[tuple[str, JobScheduling]]:
    if spec is not None and spec.scheduling is not None:
        yield f"{path}.scheduling", spec.scheduling


def _own_metadata(template: PodTemplate | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations of a template whose names are Podium's own."""
    meta = (template.metadata if template is not None else None) or ObjectMeta()
    labels, annotations = (
        {key: text for key, text in (found or {}).items() if key.startswith(f"{PODIUM_GROUP}/")}
        for found in (meta.labels, meta.annotations)
    )
    return labels, annotations


def _one(path: str, template: PodTemplate | None) -> Iterator[tuple[str, PodTemplate]]:
    if template is not None:
        yield path, template
