"""Cases for the rules about fields and kinds that a server drops or ignores."""

import msgspec
from tests.support.audit.builders import group_template, owner, pod, pod_group, workload
from tests.support.audit.cases.case import GOLD, GROUP, Case

from podium.api.core import WorkloadReference
from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, DisruptionMode
from podium.api.meta import ObjectMeta
from podium.api.podkinds.jobset import JobSetScheduling
from podium.api.podkinds.kind import JobScheduling, PodOwner

ASKING = msgspec.structs.replace(owner(), job_scheduling={"spec.scheduling": JobScheduling()})
_IN_CRON_JOB = "spec.jobTemplate.spec.scheduling"
CHILD = msgspec.structs.replace(pod_group(), composite="both")
ALL = CompositeGroup(
    ref=ObjectRef("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "team-a", "all"),
    metadata=ObjectMeta(name="all", namespace="team-a"),
    min_group_count=1,
    disruption_mode=DisruptionMode.POD,
    priority_class_name="gold",
    priority=None,
    preemption_policy=None,
    template_ref=None,
)
V1ALPHA1 = workload(group_template(min_count=4), version="v1alpha1")
MEMBER = pod("p")
MEMBER.spec.workloadRef = WorkloadReference(name="w", podGroup="workers", podGroupReplicaKey="0")
TEMPLATED = owner()
for _template in TEMPLATED.templates.values():
    assert _template.spec is not None
    _template.spec.workloadRef = WorkloadReference(name="w", podGroup="workers")

# The group that the Job controller of Kubernetes 1.36 creates for Job train.
BY_SHAPE = pod_group(
    "train-x-workers", version="v1alpha2", min_count=4, owned_by=("batch/v1", "Job", "train")
)

WORKLOAD, TEMPLATE = "scheduling.k8s.io/workload-name", "scheduling.k8s.io/group-template-name"


def _delegated(kind: str = "Job", **annotations: str) -> PodOwner:
    """Make a Job with annotations that name a Workload or a template of it."""
    made = owner(kind)
    names = {"workload": WORKLOAD, "template": TEMPLATE}
    made.metadata.annotations = {names[name]: value for name, value in annotations.items()}
    return made


CASES = [
    Case(
        "a template without its Workload",
        "job-delegation-incomplete",
        [_delegated(template="workers")],
        [
            (
                "Job team-a/train",
                f"metadata.annotations[{WORKLOAD}]",
                "Kubernetes 1.38 (beta) refuses to create such a Job, and creates no group for it.",
            )
        ],
        "1.38",
    ),
    Case(
        "a Workload, and an empty template",
        "job-delegation-incomplete",
        [_delegated(workload="train", template="")],
        [("Job team-a/train", f"metadata.annotations[{TEMPLATE}]", "it lacks the annotation.")],
        "1.38",
    ),
    Case(
        "both annotations", "job-delegation-incomplete", [_delegated(workload="w", template="t")], [], "1.38"
    ),
    Case("no annotation", "job-delegation-incomplete", [_delegated()], [], "1.38"),
    Case("another kind", "job-delegation-incomplete", [_delegated("JobSet", template="t")], [], "1.38"),
    Case("1.37 looks for the owner", "job-delegation-incomplete", [_delegated(template="t")]),
    Case(
        "1.36 made a gang of a Job",
        "job-gang-by-shape",
        [BY_SHAPE, owner(uid="1")],
        [
            (
                "Job team-a/train",
                "spec.scheduling",
                (
                    "it is a gang by its shape in Kubernetes 1.36. Kubernetes 1.37 gives it the policy "
                    "basic, which places the pods one by one, unless the Job has "
                    "spec.scheduling.schedulingPolicy.gang."
                ),
            )
        ],
    ),
    Case(
        "1.36 made a gang of a Job of a CronJob",
        "job-gang-by-shape",
        [BY_SHAPE, owner(uid="1", made_by=("batch/v1", "CronJob", "nightly"))],
        [
            (
                "CronJob team-a/nightly",
                "spec.jobTemplate.spec.scheduling",
                "Kubernetes 1.37 creates no group for a Job with an owner, and places its pods one by one.",
            )
        ],
    ),
    Case(
        "1.38 makes a gang of a Job of a CronJob that asks for it",
        "job-gang-by-shape",
        [BY_SHAPE, owner(uid="1", made_by=("batch/v1", "CronJob", "nightly"))],
        [
            (
                "CronJob team-a/nightly",
                "spec.jobTemplate.spec.scheduling",
                "unless the Job has spec.scheduling.schedulingPolicy.gang.",
            )
        ],
        "1.38",
    ),
    Case(
        "1.36 made a gang of a Job of a JobSet",
        "job-gang-by-shape",
        [BY_SHAPE, owner(uid="1", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "js"))],
        [("JobSet team-a/js", "", "its Job train is a gang by its shape in Kubernetes 1.36.")],
    ),
    Case(
        "the JobSet asks for the gang of its Job",
        "job-gang-by-shape",
        [
            BY_SHAPE,
            owner(uid="1", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "js")),
            msgspec.structs.replace(
                owner("JobSet", "js", api_version="jobset.x-k8s.io/v1alpha2"),
                job_scheduling={"spec.scheduling": JobScheduling()},
            ),
        ],
    ),
    Case("1.36 keeps the gang", "job-gang-by-shape", [BY_SHAPE, owner(uid="1")], kubernetes="1.36"),
    Case("the Job has ended", "job-gang-by-shape", [BY_SHAPE, owner(uid="1", finished=True)]),
    Case("the Job asks for its gang", "job-gang-by-shape", [BY_SHAPE, ASKING]),
    Case(
        "the template names the group, so people create it",
        "job-gang-by-shape",
        [BY_SHAPE, owner(uid="1", group="train-x-workers")],
    ),
    Case(
        "the group is basic already",
        "job-gang-by-shape",
        [pod_group(version="v1alpha2", owned_by=("batch/v1", "Job", "train")), owner(uid="1")],
    ),
    Case(
        "another controller owns the gang",
        "job-gang-by-shape",
        [
            pod_group(
                version="v1alpha2", min_count=4, owned_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "train")
            )
        ],
    ),
    Case(
        "a Job asks for a group",
        "job-scheduling-gated",
        [ASKING],
        [("Job team-a/train", "spec.scheduling", "is dropped unless the gate WorkloadWithJob is on")],
    ),
    Case(
        "a Job asks for a group before 1.37",
        "job-scheduling-gated",
        [ASKING],
        [("Job team-a/train", "spec.scheduling", "Kubernetes 1.36 the field is not known")],
        "1.36",
    ),
    Case(
        "a stored Job proves that the gate is on",
        "job-scheduling-gated",
        [msgspec.structs.replace(owner(uid="1"), job_scheduling=ASKING.job_scheduling)],
    ),
    Case(
        "a JobSet asks for groups, and the Jobs of a role too",
        "job-scheduling-gated",
        [
            msgspec.structs.replace(
                owner("JobSet", "js", api_version="jobset.x-k8s.io/v1alpha2"),
                job_scheduling={
                    "spec.scheduling": JobSetScheduling(),
                    "spec.replicatedJobs[0].template.spec.scheduling": JobScheduling(),
                },
            )
        ],
        [
            (
                "JobSet team-a/js",
                "spec.replicatedJobs[0].template.spec.scheduling",
                "Kubernetes 1.37 creates no group for a Job with an owner",
            ),
            ("JobSet team-a/js", "spec.scheduling", "JobSet drops or refuses it unless its gate JobSetWork"),
        ],
    ),
    Case(
        "the Jobs of a CronJob ask for a group of 1.38",
        "job-scheduling-gated",
        [
            msgspec.structs.replace(
                owner("CronJob", "nightly"), job_scheduling={_IN_CRON_JOB: JobScheduling()}
            )
        ],
        [("CronJob team-a/nightly", _IN_CRON_JOB, "is dropped unless the gate WorkloadWithJob is on")],
        "1.38",
    ),
    Case("a Job asks for no group", "job-scheduling-gated", [owner()]),
    Case(
        "a group with a parent",
        "composite-group-gated",
        [CHILD],
        [(GROUP, "spec.parentCompositePodGroupName", "unless the gate CompositePodGroup is on")],
    ),
    Case(
        "a group with a parent before 1.37",
        "composite-group-gated",
        [CHILD],
        [(GROUP, "spec.parentCompositePodGroupName", "Kubernetes 1.36 has no CompositePodGroup")],
        "1.36",
    ),
    Case("a group without a parent", "composite-group-gated", [pod_group()]),
    Case(
        "a composite group",
        "composite-kind-gated",
        [ALL],
        [("CompositePodGroup team-a/all", "kind", "refuses it unless the gate CompositePodGroup is on")],
    ),
    Case(
        "a composite group in 1.38",
        "composite-kind-gated",
        [ALL],
        [("CompositePodGroup team-a/all", "kind", "Kubernetes 1.38 (beta) refuses it unless the gate")],
        "1.38",
    ),
    Case("a group of pods", "composite-kind-gated", [CHILD]),
    Case("a class that a composite group names", "class-unused", [GOLD, ALL]),
    Case(
        "a Workload of composite groups",
        "composite-template-gated",
        [workload(group_template(composite=True), group_template())],
        [("Workload team-a/train", "spec.podGroupTemplates[0]", "unless the gate CompositePodGroup is on")],
    ),
    Case("a Workload of groups", "composite-template-gated", [workload(group_template())]),
    Case(
        "pods and templates of 1.35",
        "workload-ref-dropped",
        [MEMBER, TEMPLATED],
        [
            ("Pod team-a/p", "spec.workloadRef", "Kubernetes 1.37 drops it"),
            ("Job team-a/train", "spec.template.spec.workloadRef", "so the pods have no group"),
        ],
    ),
    Case("1.35 reads the field", "workload-ref-dropped", [MEMBER], [], "1.35"),
    Case(
        "a Workload of 1.35",
        "v1alpha1-removed",
        [V1ALPHA1],
        [
            (
                "Workload team-a/train",
                "apiVersion",
                "1.36 does not serve scheduling.k8s.io/v1alpha1",
            )
        ],
        "1.36",
    ),
    Case("1.35 serves v1alpha1", "v1alpha1-removed", [V1ALPHA1], [], "1.35"),
    Case("a Workload of 1.36", "v1alpha1-removed", [workload(group_template(), version="v1alpha2")]),
]
