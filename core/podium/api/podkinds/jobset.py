"""JobSet: Jobs in roles that start together or one after the other. Source: kubernetes-sigs/jobset."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from podium.api.findings import ObjectRef
from podium.api.meta import Int32
from podium.api.podkinds.created import (
    Batch,
    CreatedPods,
    RequestedGroup,
    refuse_order,
    value_at,
)
from podium.api.podkinds.kind import (
    JOBSET_GATE,
    Branch,
    GangForm,
    GangPart,
    GroupLabel,
    JobRun,
    JobScheduling,
    OwnerKind,
    OwnerLabel,
    PodCreator,
    PodOwner,
    own_metadata,
)
from podium.api.podkinds.workloads import JOB_KEY, JobTemplate, TemplateSpec, job_pods

# kubernetes-sigs/jobset
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
# kubernetes-sigs/jobset: the index of a pod's Job within its role. The Job is `<jobset>-<role>-<index>`.
JOBSET_INDEX = "jobset.sigs.k8s.io/job-index"
# An annotation with which pods wait for other pods and then follow them, so no single plan covers all.
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOBSET_KEY = ("jobset.x-k8s.io/v1alpha2", "JobSet")


class Dependency(msgspec.Struct, gc=False):
    """A role that another role waits for."""

    name: str | None = None


class ReplicatedJob(msgspec.Struct, gc=False):
    """A role of a JobSet."""

    name: str | None = None
    replicas: Int32 | None = None
    template: JobTemplate | None = None
    dependsOn: list[Dependency] | None = None

    @property
    def spec(self) -> TemplateSpec:
        """Return the spec of its Jobs."""
        return (self.template.spec if self.template is not None else None) or TemplateSpec()

    @property
    def jobs(self) -> int:
        """Return the number of its Jobs."""
        return 1 if self.replicas is None else self.replicas

    def size(self) -> int:
        """Return the number of pods that its Jobs have at once."""
        return self.run().wave(0)

    def run(self) -> JobRun:
        """Return its Jobs."""
        return self.spec.run(self.jobs, role=self.name or "")


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

    @property
    def gate(self) -> str:
        """Return the gate of the field."""
        return JOBSET_GATE


class JobSetSpec(msgspec.Struct, gc=False):
    """spec of a JobSet."""

    scheduling: JobSetScheduling | None = None
    replicatedJobs: list[ReplicatedJob] | None = None
    startupPolicy: StartupPolicy | None = None
    suspend: bool | None = None

    def initial_roles(self) -> list[ReplicatedJob]:
        """Return the roles whose Jobs wait for no other role."""
        roles = [role for role in self.replicatedJobs or () if role.size()]
        if self.startupPolicy is not None and self.startupPolicy.startupPolicyOrder == "InOrder":
            return roles[:1]
        return [role for role in roles if not role.dependsOn]


class JobSetStatus(msgspec.Struct, gc=False):
    """status of a JobSet: `Completed` or `Failed` once it has ended."""

    terminalState: str | None = None


class JobSet(PodCreator, gc=False):
    """jobset.x-k8s.io/v1alpha2 JobSet: one gang.

    A JobSet's own gang scheduling does not form one gang of roles that start in sequence either.
    """

    spec: JobSetSpec | None = None
    status: JobSetStatus | None = None

    def neutral(self) -> PodOwner:
        """Return its neutral form; later roles have no pods, and no Job of a suspended JobSet has any."""
        spec = self.spec or JobSetSpec()
        roles = {f"{path}.template.spec.template": role for path, role in self._roles()}
        first = {id(role) for role in spec.initial_roles()}
        pods = {path: role.size() if id(role) in first else 0 for path, role in roles.items()}
        scheduling: dict[str, JobScheduling] = {}
        if spec.scheduling is not None:
            scheduling["spec.scheduling"] = spec.scheduling
        for path, role in self._roles():
            scheduling |= role.spec.job_scheduling(f"{path}.template.spec")
        return PodOwner(
            self.ref,
            self.metadata,
            {path: role.spec.template for path, role in roles.items() if role.spec.template is not None},
            gangs=1,
            gang_size=0 if spec.suspend else sum(pods.values()),
            pods=pods,
            runs={path: role.run() for path, role in roles.items()},
            job_scheduling=scheduling,
            branches=tuple(
                Branch(
                    role.name or "",
                    role.jobs,
                    0 if spec.suspend else role.spec.at_once(),
                    *own_metadata(role.spec.template),
                    first=id(role) in first,
                )
                for role in roles.values()
            ),
            suspended=bool(spec.suspend),
            finished=self.status is not None and bool(self.status.terminalState),
        )

    def _roles(self) -> Iterator[tuple[str, ReplicatedJob]]:
        """Yield its roles, each with its field path."""
        for index, role in enumerate((self.spec.replicatedJobs if self.spec is not None else None) or ()):
            yield f"spec.replicatedJobs[{index}]", role

    def numbers(self) -> Iterator[tuple[str, int | None]]:
        """Yield the fields that set numbers of pods, with their values."""
        for path, role in self._roles():
            yield f"{path}.replicas", role.replicas
            yield from role.spec.numbers(f"{path}.template.spec")

    def created(self, owner: PodOwner, document: Mapping[str, Any]) -> CreatedPods:
        """Return the pods of the roles that wait for no other role. Raises ObjectError."""
        if self.spec is None:
            return CreatedPods(())
        refuse_order(owner.ref, "metadata.annotations", self.metadata.annotations, _EXCLUSIVE)
        first = {id(role) for role in self.spec.initial_roles()}
        batches: list[Batch] = []
        later: list[str] = []
        for position, (path, role) in enumerate(self._roles()):
            if id(role) in first:
                batches += _pods_of_role(owner.ref, role, path, document["spec"]["replicatedJobs"][position])
            elif role.size():
                later.append(role.name or "")
        note = f"{owner.ref}: not planned for, because they start after other roles: {', '.join(later)}"
        return CreatedPods(tuple(batches), (note,) if later else ())

    def requested_groups(self, document: Mapping[str, Any], pods: CreatedPods) -> Iterator[RequestedGroup]:
        """Yield the groups of its own field, or else those of its Jobs."""
        spec, name, own = document["spec"], self.ref.name, "spec.scheduling"
        scheduling = spec.get("scheduling")
        if scheduling is None:
            for index, role in enumerate(spec.get("replicatedJobs") or ()):
                of_job = value_at(role, "template", "spec", "scheduling")
                path = f"spec.replicatedJobs[{index}].template.{own}"
                for batch in pods.of_roles([role.get("name")]) if of_job is not None else ():
                    yield RequestedGroup(path, batch.controller.name, [batch], of_job, default="basic")
            return
        entries = scheduling.get("replicatedJobs") or ()
        for index, entry in enumerate(entries):
            path, names = f"{own}.replicatedJobs[{index}]", entry.get("targetReplicatedJobs") or []
            batches = pods.of_roles(names)
            if entry.get("job") is None:
                yield RequestedGroup(path, "-".join((name, *names)), batches, entry)
                continue
            for batch in batches:
                yield RequestedGroup(f"{path}.job", batch.controller.name, [batch], entry["job"])
        if entries:
            return
        roles = [role for _, role in self._roles()]
        if len((self.spec or JobSetSpec()).initial_roles()) == sum(1 for role in roles if role.size()):
            yield RequestedGroup(own, name, pods.batches, scheduling)
            return
        # A group of roles that wait for each other would never have all its pods.
        for role in roles:
            yield RequestedGroup(own, f"{name}-{role.name}", pods.of_roles([role.name]), scheduling)


def _pods_of_role(ref: ObjectRef, role: ReplicatedJob, path: str, sent: Mapping[str, Any]) -> Iterator[Batch]:
    """Yield the pods of the Jobs of a role; its Jobs are Indexed by default."""
    metadata = role.template.metadata if role.template is not None else None
    annotations = metadata.annotations if metadata is not None else None
    refuse_order(ref, f"{path}.template.metadata.annotations", annotations, _EXCLUSIVE)
    indexed = (value_at(sent, "template", "spec", "completionMode") or "Indexed") == "Indexed"
    for index in range(role.jobs):
        labels = {
            JOBSET_NAME: ref.name,
            JOBSET_ROLE: role.name or "",
            JOBSET_INDEX: str(index),
            "jobset.sigs.k8s.io/replicatedjob-replicas": str(role.jobs),
            "jobset.sigs.k8s.io/restart-attempt": "0",
        }
        job = ObjectRef(*JOB_KEY, ref.namespace, f"{ref.name}-{role.name}-{index}")
        batch = job_pods(job, f"{path}.template.spec.template", role.spec.at_once(), labels, indexed=indexed)
        yield batch._replace(role=role.name or "")


def _part(labels: Mapping[str, str], _pod: str, job: str) -> GangPart | None:
    """Return the JobSet of a pod, with the role and the index of its Job."""
    name, role, index = labels.get(JOBSET_NAME), labels.get(JOBSET_ROLE), labels.get(JOBSET_INDEX)
    if not name or role is None or index is None or job != f"{name}-{role}-{index}":
        return None
    return GangPart(name, index, role)


KINDS = (
    OwnerKind(
        *JOBSET_KEY,
        JobSet,
        listed=True,
        replicas="spec.replicatedJobs[0].replicas",
        groups=(GroupLabel(JOBSET_NAME, *JOBSET_KEY, role=JOBSET_ROLE),),
        owner=OwnerLabel(JOBSET_NAME, "Job"),
        gang=GangForm("-jobset", JOB_KEY, _part, (JOBSET_NAME, JOBSET_ROLE, JOBSET_INDEX), whole=True),
    ),
)
