"""The rule about Jobs that run in waves: the last pods of a gang may be fewer than its minCount.

A Job of 5 completions and parallelism 4 runs 4 pods, and 1 pod when these have ended. Finished pods do not
count toward minCount, so a gang of 4 holds the last pod forever. Neither kube-scheduler nor the Job
controller of Kubernetes 1.37 lowers minCount. Podium does so for the group of a Job (autogroups), but not for
that of a JobSet.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.membership import GroupKey, group_name
from podium.api.minors import group_minor
from podium.api.podkinds.jobset import JobSetScheduling
from podium.api.podkinds.kind import JOB_GATE, JobRun, JobScheduling, PodOwner, is_left_alone
from podium.api.reads import Kind
from podium.cluster.reader import ClusterReader
from podium.groups.autogroups import AUTO, AUTO_LABEL, TREE_LABEL, asks
from podium.rules.rule import Rule
from podium.text import count

GANG_LAST_WAVE = Rule(
    id="gang-last-wave",
    severity=Severity.WARNING,
    title="The last pods of a Job are fewer than the minCount of its gang",
    why="A Job with more completions than its parallelism runs in waves, and finished pods do not count "
    "toward minCount. If the pods of a wave end together, the last ones wait forever. Groups that Podium "
    "creates for Jobs (label scheduling.podium.dev/gang) need the remaining completions only.",
    source="kai-scheduler/KAI-Scheduler#1347; kube-scheduler 1.37.0 (run)",
    needs=frozenset({Kind.OWNER}),
)


# The place of minCount in a group that Podium creates.
_PODIUMS = "the group that Podium creates"
# More pods than a minCount can be.
_MANY = 2**31


class _JobMember(NamedTuple):
    """The pods of one template of an owner."""

    owner: PodOwner
    path: str
    run: JobRun


class JobGang(NamedTuple):
    """A gang with Jobs: the place of its minCount in words, minCount, its members, and its key if known."""

    place: str
    least: int
    members: list[_JobMember]
    key: GroupKey | None = None

    @property
    def last(self) -> _JobMember:
        """Return the member whose pods are the last ones."""
        return max(self.members, key=lambda member: member.run.waves)

    @property
    def owners(self) -> set[ObjectRef]:
        """Return the owners of its pods."""
        return {member.owner.ref for member in self.members}

    def wave(self, number: int) -> int:
        """Return the number of pods of a wave, which is at most that of the wave before."""
        return sum(member.run.wave(number) for member in self.members)

    def final(self) -> int:
        """Return the number of pods of the last wave."""
        return self.wave(self.last.run.waves - 1)


def last_waves_of(owner: PodOwner, view: ClusterReader, minor: int) -> Iterator[Finding]:
    """Yield the findings on an owner that is about to be created; its gangs have no other pods to come."""
    for gang in short_gangs(view, {owner.ref: owner}, minor):
        if gang.wave(0) >= gang.least:
            yield last_wave_finding(gang)


def last_wave_finding(gang: JobGang) -> Finding:
    """Return the finding on a gang whose last wave is smaller than minCount."""
    message = (
        f"the last wave of its pods has {count(gang.final(), 'pod')}, but minCount of {gang.place} is "
        f"{gang.least}. If the pods of a wave end together, the last ones are never scheduled."
    )
    ways = ["make completions a multiple of parallelism"]
    if gang.place != _PODIUMS:
        ways.append(f"set minCount: {gang.final()}")
    maker = gang.last.owner.metadata.controller()
    kind = maker.kind if maker is not None else gang.last.owner.ref.kind
    if len(gang.members) == 1 and kind in ("Job", "CronJob"):
        ways.append(
            f"let Podium create the group (label {AUTO_LABEL}: {AUTO}), whose minCount follows the remaining "
            "completions"
        )
    fix = f"{', '.join(ways[:-1])}, or {ways[-1]}" if len(ways) > 1 else ways[0]
    field = f"{gang.last.path.removesuffix('.template')}.completions"
    return GANG_LAST_WAVE.finding(gang.last.owner.ref, field, message, fix)


def short_gangs(view: ClusterReader, owners: Mapping[ObjectRef, PodOwner], minor: int) -> Iterator[JobGang]:
    """Yield the gangs of Jobs whose last wave is smaller than minCount."""
    runs = (run for owner in owners.values() if not owner.finished for run in owner.runs.values())
    # Most clusters have no such Job, and many owners.
    if not any(run.succeeded or (run.completions or 0) > run.parallelism for run in runs):
        return
    members = list(_members(owners))
    for gang in (
        *_named_gangs(view, members, minor),
        *_own_gangs(members, minor),
        *_podiums_gangs(owners, members),
    ):
        later = gang.last.run.waves > 1 or gang.last.run.succeeded
        if later and 0 < gang.final() < gang.least:
            yield gang


def _named_gangs(view: ClusterReader, members: Sequence[_JobMember], minor: int) -> Iterator[JobGang]:
    """Yield the gangs that templates of Jobs name: PodGroups, and groups of a Workload of Kubernetes 1.35."""
    named: dict[tuple[GroupKey, str, str], list[_JobMember]] = {}
    for member in members:
        template = member.owner.templates[member.path]
        namespace = member.owner.ref.namespace
        name = group_name(template.metadata, template.spec, native_served=view.native_served)
        reference = template.spec.workloadRef if template.spec is not None else None
        if name is not None:
            named.setdefault((GroupKey(name[0], namespace, name[1]), "", ""), []).append(member)
        elif reference is not None and minor == 35:
            key = GroupKey(True, namespace, reference.name or "")
            replica = (reference.podGroup or "", reference.podGroupReplicaKey or "")
            named.setdefault((key, *replica), []).append(member)
    for (key, template_name, _), jobs in named.items():
        group, workload = view.groups.get(key), view.workloads.get(key)
        if not template_name and group is not None and group.min_count is not None:
            yield JobGang(str(group.ref), group.min_count, jobs, key)
        template_of_group = (
            workload.template(template_name) if template_name and workload is not None else None
        )
        if workload is not None and template_of_group is not None and template_of_group.min_count is not None:
            yield JobGang(str(workload.ref), template_of_group.min_count, jobs)


def _own_gangs(all_members: Sequence[_JobMember], minor: int) -> Iterator[JobGang]:
    """Yield the gangs that the controllers of Job and JobSet create for spec.scheduling."""
    asking: dict[ObjectRef, list[_JobMember]] = {}
    for member in all_members:
        if member.owner.job_scheduling:
            asking.setdefault(member.owner.ref, []).append(member)
    for members in asking.values():
        owner = members[0].owner
        by_path = {member.path: member for member in members}
        by_role = {member.run.role: member for member in members}
        for path, scheduling in owner.job_scheduling.items():
            if scheduling.gate == JOB_GATE:
                asked = by_path.get(f"{path.removesuffix('.scheduling')}.template")
                known = group_minor(minor)
                made = known.job_scheduling and not is_left_alone(path, scheduling, known)
                if asked is not None and scheduling.schedulingPolicy is not None and made:
                    yield from _gangs(path, scheduling, _singly([asked]))
            elif isinstance(scheduling, JobSetScheduling) and scheduling.replicatedJobs:
                for index, entry in enumerate(scheduling.replicatedJobs):
                    names = dict.fromkeys(entry.targetReplicatedJobs or ())
                    roles = [by_role[name] for name in names if name in by_role]
                    gangs = [roles] if entry.job is None else _singly(roles)
                    yield from _gangs(f"{path}.replicatedJobs[{index}]", entry.job or entry, gangs)
            else:
                # A group of roles that wait for each other would never have all its pods.
                together = all(owner.pods.get(job.path) for job in members)
                yield from _gangs(path, scheduling, [members] if together else [[job] for job in members])


def _podiums_gangs(
    owners: Mapping[ObjectRef, PodOwner], all_members: Sequence[_JobMember]
) -> Iterator[JobGang]:
    """Yield the gangs that Podium creates for JobSets; that of a Job needs the remaining completions only."""
    asking: dict[tuple[ObjectRef, str], list[_JobMember]] = {}
    for member in all_members:
        metadata = member.owner.templates[member.path].metadata
        maker, jobset = member.owner.metadata.controller(), member.owner.ref
        if jobset.kind == "Job" and maker is not None:
            jobset = ObjectRef(maker.apiVersion, maker.kind, jobset.namespace, maker.name)
        if jobset.kind == "JobSet" and jobset in owners and metadata is not None and asks(metadata):
            # In a tree each Job has a group.
            tree = (metadata.labels or {}).get(TREE_LABEL) == AUTO
            job = f"{member.owner.ref.name}/{member.path}" if tree else ""
            asking.setdefault((jobset, job), []).append(member)
    for (jobset, job), members in asking.items():
        for gang in _singly(members) if job else [members]:
            first = gang[0].run._replace(succeeded=0).wave(0) if job else sum(owners[jobset].pods.values())
            yield JobGang(_PODIUMS, first, gang)


def _singly(members: Iterable[_JobMember]) -> list[list[_JobMember]]:
    """Return a gang for one Job of each template; the other Jobs of the template are equal."""
    return [[member._replace(run=member.run._replace(jobs=1))] for member in members]


def _gangs(place: str, scheduling: JobScheduling, gangs: Iterable[list[_JobMember]]) -> Iterator[JobGang]:
    """Yield gangs with the minCount of a field, which is the number of pods of the first wave by default."""
    policy = scheduling.schedulingPolicy
    if policy is not None and policy.gang is None:
        return
    least = policy.gang.minCount if policy is not None and policy.gang is not None else None
    for members in gangs:
        first = sum(member.run._replace(succeeded=0).wave(0) for member in members)
        if members:
            yield JobGang(place, first if least is None else least, members)


def _members(owners: Mapping[ObjectRef, PodOwner]) -> Iterator[_JobMember]:
    """Yield the templates of owners that have not ended, without those that created a known owner."""
    makers = {
        ObjectRef(maker.apiVersion, maker.kind, owner.ref.namespace, maker.name)
        for owner in owners.values()
        if (maker := owner.metadata.controller()) is not None
    }
    for owner in owners.values():
        if owner.ref not in makers and not owner.finished and owner.metadata.deletionTimestamp is None:
            for path in owner.templates:
                # Other kinds have their pods in each wave. Pods of an unknown number may be enough.
                lasting = JobRun(owner.pods.get(path, _MANY), 1, None, lasting=True)
                yield _JobMember(owner, path, owner.runs.get(path, lasting))
