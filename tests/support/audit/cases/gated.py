"""Cases for the rules about fields and kinds that a server drops or ignores."""

import msgspec
from tests.support.audit.builders import group_template, owner, pod, pod_group, workload
from tests.support.audit.cases.case import GOLD, GROUP, Table, case

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


CASES = Table()
CASES.add(
    "job-delegation-incomplete",
    ("Job team-a/train", f"metadata.annotations[{WORKLOAD}]"),
    case(
        "a template without its Workload",
        [_delegated(template="workers")],
        "Kubernetes 1.38 (beta) refuses to create such a Job, and creates no group for it.",
        kubernetes="1.38",
    ),
    case(
        "a Workload, and an empty template",
        [_delegated(workload="train", template="")],
        ("Job team-a/train", f"metadata.annotations[{TEMPLATE}]", "it lacks the annotation."),
        kubernetes="1.38",
    ),
    case("both annotations", [_delegated(workload="w", template="t")], kubernetes="1.38"),
    case("no annotation", [_delegated()], kubernetes="1.38"),
    case("another kind", [_delegated("JobSet", template="t")], kubernetes="1.38"),
    case("1.37 looks for the owner", [_delegated(template="t")]),
)
CASES.add(
    "job-gang-by-shape",
    ("CronJob team-a/nightly", "spec.jobTemplate.spec.scheduling"),
    case(
        "1.36 made a gang of a Job",
        [BY_SHAPE, owner(uid="1")],
        (
            "Job team-a/train",
            "spec.scheduling",
            (
                "it is a gang by its shape in Kubernetes 1.36. Kubernetes 1.37 gives it the policy basic, "
                "which places the pods one by one, unless the Job has spec.scheduling.schedulingPolicy.gang."
            ),
        ),
    ),
    case(
        "1.36 made a gang of a Job of a CronJob",
        [BY_SHAPE, owner(uid="1", made_by=("batch/v1", "CronJob", "nightly"))],
        "Kubernetes 1.37 creates no group for a Job with an owner, and places its pods one by one.",
    ),
    case(
        "1.38 makes a gang of a Job of a CronJob that asks for it",
        [BY_SHAPE, owner(uid="1", made_by=("batch/v1", "CronJob", "nightly"))],
        "unless the Job has spec.scheduling.schedulingPolicy.gang.",
        kubernetes="1.38",
    ),
    case(
        "1.36 made a gang of a Job of a JobSet",
        [BY_SHAPE, owner(uid="1", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "js"))],
        ("JobSet team-a/js", "", "its Job train is a gang by its shape in Kubernetes 1.36."),
    ),
    case(
        "the JobSet asks for the gang of its Job",
        [
            BY_SHAPE,
            owner(uid="1", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "js")),
            msgspec.structs.replace(
                owner("JobSet", "js", api_version="jobset.x-k8s.io/v1alpha2"),
                job_scheduling={"spec.scheduling": JobScheduling()},
            ),
        ],
    ),
    case("1.36 keeps the gang", [BY_SHAPE, owner(uid="1")], kubernetes="1.36"),
    case("the Job has ended", [BY_SHAPE, owner(uid="1", finished=True)]),
    case("the Job asks for its gang", [BY_SHAPE, ASKING]),
    case(
        "the template names the group, so people create it",
        [BY_SHAPE, owner(uid="1", group="train-x-workers")],
    ),
    case(
        "the group is basic already",
        [pod_group(version="v1alpha2", owned_by=("batch/v1", "Job", "train")), owner(uid="1")],
    ),
    case(
        "another controller owns the gang",
        [
            pod_group(
                version="v1alpha2", min_count=4, owned_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "train")
            )
        ],
    ),
)
CASES.add(
    "job-scheduling-gated",
    ("Job team-a/train", "spec.scheduling"),
    case("a Job asks for a group", [ASKING], "is dropped unless the gate WorkloadWithJob is on"),
    case(
        "a Job asks for a group before 1.37",
        [ASKING],
        "Kubernetes 1.36 the field is not known",
        kubernetes="1.36",
    ),
    case(
        "a stored Job proves that the gate is on",
        [msgspec.structs.replace(owner(uid="1"), job_scheduling=ASKING.job_scheduling)],
    ),
    case(
        "a JobSet asks for groups, and the Jobs of a role too",
        [
            msgspec.structs.replace(
                owner("JobSet", "js", api_version="jobset.x-k8s.io/v1alpha2"),
                job_scheduling={
                    "spec.scheduling": JobSetScheduling(),
                    "spec.replicatedJobs[0].template.spec.scheduling": JobScheduling(),
                },
            )
        ],
        (
            "JobSet team-a/js",
            "spec.replicatedJobs[0].template.spec.scheduling",
            "Kubernetes 1.37 creates no group for a Job with an owner",
        ),
        ("JobSet team-a/js", "spec.scheduling", "JobSet drops or refuses it unless its gate JobSetWork"),
    ),
    case(
        "the Jobs of a CronJob ask for a group of 1.38",
        [
            msgspec.structs.replace(
                owner("CronJob", "nightly"), job_scheduling={_IN_CRON_JOB: JobScheduling()}
            )
        ],
        ("CronJob team-a/nightly", _IN_CRON_JOB, "is dropped unless the gate WorkloadWithJob is on"),
        kubernetes="1.38",
    ),
    case("a Job asks for no group", [owner()]),
)
CASES.add(
    "composite-group-gated",
    (GROUP, "spec.parentCompositePodGroupName"),
    case("a group with a parent", [CHILD], "unless the gate CompositePodGroup is on"),
    case(
        "a group with a parent before 1.37",
        [CHILD],
        "Kubernetes 1.36 has no CompositePodGroup",
        kubernetes="1.36",
    ),
    case("a group without a parent", [pod_group()]),
)
CASES.add(
    "composite-kind-gated",
    ("CompositePodGroup team-a/all", "kind"),
    case("a composite group", [ALL], "refuses it unless the gate CompositePodGroup is on"),
    case(
        "a composite group in 1.38",
        [ALL],
        "Kubernetes 1.38 (beta) refuses it unless the gate",
        kubernetes="1.38",
    ),
    case("a group of pods", [CHILD]),
)
CASES.add("class-unused", ("PriorityClass gold", ""), case("a composite group names the class", [GOLD, ALL]))
CASES.add(
    "composite-template-gated",
    ("Workload team-a/train", "spec.podGroupTemplates[0]"),
    case(
        "a Workload of composite groups",
        [workload(group_template(composite=True), group_template())],
        "unless the gate CompositePodGroup is on",
    ),
    case("a Workload of groups", [workload(group_template())]),
)
CASES.add(
    "workload-ref-dropped",
    ("Pod team-a/p", "spec.workloadRef"),
    case(
        "pods and templates of 1.35",
        [MEMBER, TEMPLATED],
        "Kubernetes 1.37 drops it",
        ("Job team-a/train", "spec.template.spec.workloadRef", "so the pods have no group"),
    ),
    case("1.35 reads the field", [MEMBER], kubernetes="1.35"),
)
CASES.add(
    "v1alpha1-removed",
    ("Workload team-a/train", "apiVersion"),
    case(
        "a Workload of 1.35", [V1ALPHA1], "1.36 does not serve scheduling.k8s.io/v1alpha1", kubernetes="1.36"
    ),
    case("1.35 serves v1alpha1", [V1ALPHA1], kubernetes="1.35"),
    case("a Workload of 1.36", [workload(group_template(), version="v1alpha2")]),
)
