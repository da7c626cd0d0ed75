"""Rules about fields and kinds that a server drops or ignores: gates that are off, versions that are gone.

A dropped field leaves no trace in the cluster. Neither a dump nor the API tells which gates are on.
"""

from collections.abc import Iterator

from podium.api.core import PodSpec
from podium.api.findings import ObjectRef, Severity
from podium.api.groups import NATIVE_GROUP
from podium.api.minors import group_minor
from podium.api.podkinds.kind import JOB_GATE, JOBSET_GATE, PodOwner, is_left_alone
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.groups.planned import group_creator, made_by_people
from podium.minors.minor import Minor
from podium.rules.jobscheduling import DELEGATION_ANNOTATIONS
from podium.rules.rule import Rule

# The version of the groups that the Job controller of Kubernetes 1.36 creates.
_OF_1_36 = f"{NATIVE_GROUP}/v1alpha2"

JOB_SCHEDULING_GATED = Rule(
    id="job-scheduling-gated",
    severity=Severity.WARNING,
    title="A Job or JobSet asks for groups in spec.scheduling",
    why="The field of a Job exists from Kubernetes 1.37 on, behind the alpha gate WorkloadWithJob. If the "
    "gate is off, the API server drops the field, and the pods are scheduled one by one. So are those of a "
    "Job with an owner before 1.38, such as the Jobs of a CronJob. The field of a JobSet needs a JobSet "
    "release that knows it, and its gate JobSetWorkloadAwareSchedulingAPI.",
    source="KEP-5547; kubernetes-sigs/jobset KEP-969",
    needs=frozenset({Kind.OWNER}),
)
JOB_DELEGATION_INCOMPLETE = Rule(
    id="job-delegation-incomplete",
    severity=Severity.ERROR,
    title="A Job names a template of a Workload without the Workload, or the reverse",
    why=f"The annotations are {' and '.join(DELEGATION_ANNOTATIONS)}. Kubernetes 1.38 refuses a new "
    f"Job with only one of them. Its Job controller (gate {JOB_GATE}) creates no group for a stored one. "
    "1.37 finds the Workload by the owner of the Job. Checked for 1.38 and later.",
    source="kube-apiserver and kube-controller-manager 1.38.0-beta.0 (validateDelegationAnnotations)",
    needs=frozenset({Kind.OWNER}),
)
JOB_GANG_BY_SHAPE = Rule(
    id="job-gang-by-shape",
    severity=Severity.WARNING,
    title="A Job is a gang only by its shape",
    why="With the gate WorkloadWithJob, Kubernetes 1.36 makes a gang of an Indexed Job whose parallelism "
    "equals its completions. Kubernetes 1.37 makes a gang only if spec.scheduling asks for one. Otherwise "
    "the policy is basic: some pods can hold resources while others wait. Checked for 1.37 and later.",
    source="KEP-5547; kubernetes/enhancements#6153",
    needs=frozenset({Kind.POD_GROUP}),
)
COMPOSITE_GROUP_GATED = Rule(
    id="composite-group-gated",
    severity=Severity.WARNING,
    title="A PodGroup belongs to a CompositePodGroup",
    why="The kind exists from Kubernetes 1.37 on, behind the gate CompositePodGroup, off by default. If the "
    "gate is off, the API server drops the reference, and each group is scheduled on its own.",
    source="kube-apiserver 1.37.0 (run)",
    needs=frozenset({Kind.POD_GROUP}),
)
COMPOSITE_KIND_GATED = Rule(
    id="composite-kind-gated",
    severity=Severity.WARNING,
    title="A manifest has a CompositePodGroup",
    why="Kubernetes 1.37 serves the kind in v1alpha3, and 1.38 in v1beta1 too. Both need the gate "
    "CompositePodGroup, off by default, which needs TopologyAwareWorkloadScheduling. If the gate is off, the "
    "API server refuses the object. Podium's own kind needs no gate.",
    source="kube-apiserver 1.37.0 (run)",
    needs=frozenset({Kind.COMPOSITE_GROUP}),
)
COMPOSITE_TEMPLATE_GATED = Rule(
    id="composite-template-gated",
    severity=Severity.WARNING,
    title="A Workload has templates of composite groups",
    why="They exist from Kubernetes 1.37 on, behind the gate CompositePodGroup, off by default. If the gate "
    "is off, the API server drops them, and refuses the Workload if nothing remains.",
    source="kube-apiserver 1.37.0 (run)",
    needs=frozenset({Kind.WORKLOAD}),
)
WORKLOAD_REF_DROPPED = Rule(
    id="workload-ref-dropped",
    severity=Severity.WARNING,
    title="A pod or template names its group in spec.workloadRef",
    why="Only Kubernetes 1.35 has the field. Later API servers drop it, and the pods are scheduled one by "
    "one. Checked for 1.36 and later.",
    source="kubernetes/kubernetes: KEP-4671 (1.36 has spec.schedulingGroup)",
    needs=frozenset({Kind.WORKLOAD}),
)


def job_scheduling_gated(survey: Survey) -> Iterator[AuditFinding]:
    """Find owners whose Jobs ask for a group of the Job controller.

    A stored Job with the field proves that the gate is on, because the API server drops the field otherwise.
    """
    minor = group_minor(survey.minor)
    for owner in made_by_people(survey.view.owners):
        for path, scheduling in owner.job_scheduling.items():
            gate = scheduling.gate
            if owner.metadata.uid and owner.ref.kind == "Job":
                continue
            if gate == JOBSET_GATE:
                message = f"JobSet drops or refuses it unless its gate {gate} is on."
            elif minor.job_scheduling and is_left_alone(path, scheduling, minor):
                fix = "create a PodGroup and name it in the pod template"
                text = f"Kubernetes {survey.kubernetes} creates no group for a Job with an owner."
                yield AuditFinding(JOB_SCHEDULING_GATED.finding(owner.ref, path, text, fix), fix)
                continue
            else:
                effect = (
                    f"is dropped unless the gate {gate} is on"
                    if minor.job_scheduling
                    else "is not known, so it is dropped"
                )
                message = f"in Kubernetes {survey.kubernetes} the field {effect}."
            fix = f"enable the gate {gate}, or create a PodGroup and name it in the pod template"
            text = f"{message} Without it the pods have no group."
            yield AuditFinding(JOB_SCHEDULING_GATED.finding(owner.ref, path, text, fix), fix)


def job_delegation_incomplete(survey: Survey) -> Iterator[AuditFinding]:
    """Find Jobs with one of two annotations that belong together."""
    if not group_minor(survey.minor).paired_annotations:
        return
    for owner in survey.view.owners.values():
        annotations = owner.metadata.annotations or {}
        values = {name: annotations.get(name) for name in DELEGATION_ANNOTATIONS}
        if (
            owner.ref.kind != "Job"
            or owner.finished
            or all(values.values())
            or set(values.values()) == {None}
        ):
            continue
        missing = next(name for name, value in values.items() if not value)
        message = (
            f"it lacks the annotation. Kubernetes {survey.kubernetes} refuses to create such a Job, and "
            "creates no group for it."
        )
        fix = f"set the annotation {missing}, or remove both, in the Job or in its template"
        field = f"metadata.annotations[{missing}]"
        yield AuditFinding(JOB_DELEGATION_INCOMPLETE.finding(owner.ref, field, message, fix), fix)


def job_gang_by_shape(survey: Survey) -> Iterator[AuditFinding]:
    """Find Jobs with a gang of v1alpha2 that do not ask for it: Kubernetes 1.36 made it by their shape."""
    asking, minor = "spec.scheduling.schedulingPolicy.gang", group_minor(survey.minor)
    with_field = (
        f"recreate it on Kubernetes {survey.kubernetes} with {asking} in the Job, or in the job template of "
        f"its owner (gate {JOB_GATE}); Kubernetes 1.36 drops the field"
    )
    for group in survey.view.groups.values() if survey.minor >= 37 else ():
        if group.ref.apiVersion != _OF_1_36 or group.min_count is None:
            continue
        job = group_creator(survey.view, group.ref)
        if job is None or job.kind != "Job":
            continue
        ref, field, subject = job, "spec.scheduling", "it"
        owner = survey.view.owners.get(job)
        maker = owner.metadata.controller() if owner is not None else None
        if maker is not None:
            ref = ObjectRef(maker.apiVersion, maker.kind, job.namespace, maker.name)
            field = f"spec.jobTemplate.{field}" if maker.kind == "CronJob" else ""
            subject = f"its Job {job.name}"
        owners = (owner, survey.view.owners.get(ref))
        if any(source is not None and (source.finished or _has_groups(source, minor)) for source in owners):
            continue
        alone = maker is not None and not minor.groups_of_owned_jobs
        effect = f"gives it the policy basic, which places the pods one by one, unless the Job has {asking}."
        if alone:
            effect = "creates no group for a Job with an owner, and places its pods one by one."
        message = (
            f"{subject} is a gang by its shape in Kubernetes 1.36. Kubernetes {survey.kubernetes} {effect}"
        )
        fix = "create a PodGroup and name it in the pod template" if alone else with_field
        yield AuditFinding(JOB_GANG_BY_SHAPE.finding(ref, field, message, fix), fix)


def _has_groups(owner: PodOwner, minor: Minor) -> bool:
    """Return whether a controller creates groups for an owner that asks for them."""
    return any(not is_left_alone(path, asked, minor) for path, asked in owner.job_scheduling.items())


def composite_group_gated(survey: Survey) -> Iterator[AuditFinding]:
    """Find native groups with a parent."""
    fix = "enable the gate CompositePodGroup, or use one PodGroup for all pods that need each other"
    for group in survey.view.groups.values():
        if group.native and group.composite:
            message = f"{_composite(survey)} Without it the group is scheduled on its own."
            field = "spec.parentCompositePodGroupName"
            yield AuditFinding(COMPOSITE_GROUP_GATED.finding(group.ref, field, message, fix), fix)


def composite_kind_gated(survey: Survey) -> Iterator[AuditFinding]:
    """Find composite groups of manifests."""
    fix = "enable the gate CompositePodGroup, or create the group as a kind of Podium (`podium convert`)"
    for composite in survey.view.composites.values():
        if not composite.native:
            continue
        served = group_minor(survey.minor).versions(composite.ref.kind)
        version = composite.ref.apiVersion.rpartition("/")[2]
        effect = "refuses it unless the gate CompositePodGroup is on" if version in served else "refuses it"
        message = f"Kubernetes {survey.kubernetes} {effect}."
        yield AuditFinding(COMPOSITE_KIND_GATED.finding(composite.ref, "kind", message, fix), fix)


def composite_template_gated(survey: Survey) -> Iterator[AuditFinding]:
    """Find Workloads with templates of composite groups."""
    fix = "enable the gate CompositePodGroup, or use podGroupTemplates only"
    for workload in survey.view.workloads.values():
        path = next((path for path, template in workload.templates.items() if template.composite), None)
        if path is not None and workload.ref.group == NATIVE_GROUP:
            message = f"{_composite(survey)} A Workload without other templates is refused."
            yield AuditFinding(COMPOSITE_TEMPLATE_GATED.finding(workload.ref, path, message, fix), fix)


def workload_ref_dropped(survey: Survey) -> Iterator[AuditFinding]:
    """Find pods and templates that name a group of a v1alpha1 Workload."""
    for ref, path, spec in _specs(survey) if survey.minor >= 36 else ():
        reference = spec.workloadRef
        if reference is None:
            continue
        parts = (reference.name, reference.podGroup, reference.podGroupReplicaKey)
        group = "-".join(part for part in parts if part)
        message = f"Kubernetes {survey.kubernetes} drops it, so the pods have no group."
        fix = f"create PodGroup {group} and name it in {path}.schedulingGroup.podGroupName"
        finding = WORKLOAD_REF_DROPPED.finding(ref, f"{path}.workloadRef", message, fix)
        yield AuditFinding(finding, "create PodGroups and name them in schedulingGroup.podGroupName")


def _composite(survey: Survey) -> str:
    if survey.minor < 37:
        return f"Kubernetes {survey.kubernetes} has no CompositePodGroup and drops the field."
    return f"Kubernetes {survey.kubernetes} drops the field unless the gate CompositePodGroup is on."


def _specs(survey: Survey) -> Iterator[tuple[ObjectRef, str, PodSpec]]:
    """Yield the specs of live pods and of templates, with the object and the path of each."""
    for pod in survey.view.pods.values():
        if not pod.finished:
            ref = ObjectRef(pod.apiVersion, pod.kind, pod.metadata.namespace or "", pod.metadata.name or "")
            yield ref, "spec", pod.spec
    for owner in made_by_people(survey.view.owners):
        for path, template in owner.templates.items():
            if template.spec is not None:
                yield owner.ref, owner.spec_path(path), template.spec
