"""Cases for the rules about fields and kinds that a server drops or ignores."""

import msgspec
from tests.support.audit.builders import group_template, owner, pod, pod_group, workload
from tests.support.audit.cases.case import GOLD, GROUP, Case

from podium.api.core import WorkloadReference
from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, DisruptionMode
from podium.api.meta import ObjectMeta
from podium.api.podcreators import JobScheduling

ASKING = msgspec.structs.replace(owner(), job_scheduling={"spec.scheduling": JobScheduling()})
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

CASES = [
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
                    "spec.scheduling": JobScheduling(),
                    "spec.replicatedJobs[0].template.spec.scheduling": JobScheduling(),
                },
            )
        ],
        [
            (
                "JobSet team-a/js",
                "spec.replicatedJobs[0].template.spec.scheduling",
                "unless the gate WorkloadWithJob is on",
            ),
            ("JobSet team-a/js", "spec.scheduling", "JobSet drops or refuses it unless its gate JobSetWork"),
        ],
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
        "a composite group in the planned minor",
        "composite-kind-gated",
        [ALL],
        [("CompositePodGroup team-a/all", "kind", "Kubernetes 1.38 (planned) refuses it unless the gate")],
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
