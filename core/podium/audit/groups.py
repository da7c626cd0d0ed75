"""Rules about PodGroups and Workloads as stored: absent, leaving, unlike their template, unusable."""

from collections.abc import Iterator

from podium.api import v1alpha1
from podium.api.findings import ObjectRef, Severity
from podium.api.groups import NATIVE_GROUP, DisruptionMode, Template
from podium.api.membership import GroupKey
from podium.api.minors import group_minor, served_versions
from podium.api.priority import HIGHEST_USER_PRIORITY, SYSTEM_CLASSES, resolve
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import Child
from podium.groups.planned import group_creator
from podium.rules.commands import delete
from podium.rules.podiumchecks import differences, unresolved
from podium.rules.podiumrules import BASIC_WITH_GROUP_DISRUPTION, GROUP_UNLIKE_TEMPLATE, SYSTEM_CLASS_ON_GROUP
from podium.rules.rule import Rule
from podium.text import count, listed, some

GROUP_MISSING = Rule(
    id="group-missing",
    severity=Severity.ERROR,
    title="Pods reference a PodGroup that does not exist or is not in the input",
    why="The API server accepts the reference; the pods wait, without an event, until the group appears.",
    source="kube-scheduler (GangScheduling, PreEnqueue)",
    needs=frozenset({Kind.POD, Kind.POD_GROUP}),
)
GROUP_TERMINATING = Rule(
    id="group-terminating",
    severity=Severity.ERROR,
    title="A PodGroup with live pods is being deleted",
    why="Its finalizer keeps it while a live pod references it, so a new group of that name cannot "
    "be created.",
    source="kube-apiserver and controller (PodGroupProtection)",
    needs=frozenset({Kind.POD, Kind.POD_GROUP}),
)
V1ALPHA2_REMOVED = Rule(
    id="v1alpha2-removed",
    severity=Severity.ERROR,
    title="An object is stored as scheduling.k8s.io/v1alpha2",
    why="Kubernetes 1.37 does not serve v1alpha2; objects stored in it must be deleted before the "
    "upgrade. Checked for 1.37 and later.",
    source="kubernetes/kubernetes#140184",
    needs=frozenset({Kind.POD_GROUP}),
)
V1ALPHA1_REMOVED = Rule(
    id="v1alpha1-removed",
    severity=Severity.ERROR,
    title="A Workload has the version of Kubernetes 1.35",
    why="Kubernetes 1.36 and later do not serve scheduling.k8s.io/v1alpha1. The object cannot be created, "
    "and a stored one must be deleted before the upgrade. Checked for 1.36 and later.",
    source="kubernetes/kubernetes: KEP-4671 (1.36 moved PodGroup out of Workload)",
    needs=frozenset({Kind.WORKLOAD}),
)
TEMPLATE_PRIORITIES_DIFFER = Rule(
    id="template-priorities-differ",
    severity=Severity.ERROR,
    title="Templates of one Workload have different priorities",
    why="Kubernetes 1.37 refuses such a Workload, and every update of a stored one; so does Podium "
    "for its own. Native Workloads are checked for 1.37 and later.",
    source="kube-apiserver 1.37 (validation of Workload)",
    needs=frozenset({Kind.WORKLOAD}),
)

TEMPLATE_POLICIES_DIFFER = Rule(
    id="template-policies-differ",
    severity=Severity.WARNING,
    title="Templates of one Workload have different preemptionPolicies",
    why="Kubernetes 1.38 refuses to create such a Workload, and 1.37 accepts it. A stored one can be "
    "updated. Native Workloads are checked, for 1.38 and later.",
    source="kube-apiserver 1.38.0-beta.0 (validateWorkloadPriority)",
    needs=frozenset({Kind.WORKLOAD}),
)

POLICY_UNLIKE_CLASS = Rule(
    id="policy-unlike-class",
    severity=Severity.WARNING,
    title="A group or template has another preemptionPolicy than its PriorityClass",
    why="Kubernetes 1.38 refuses to create such a group, and groups of such a template. 1.37 drops the field "
    "unless the gate PodGroupPreemptionPolicy is on. Native objects are checked, for 1.38 and later.",
    source="kube-apiserver 1.38.0-beta.0 (plugin Priority)",
    needs=frozenset({Kind.POD_GROUP, Kind.PRIORITY_CLASS}),
)


def group_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups that live pods reference and that were not read."""
    for surveyed in survey.groups:
        if surveyed.group is None and surveyed.stored:
            staying = surveyed.staying
            names = some(pod.metadata.name or "" for pod in staying)
            owners = some(str(owner) for owner in survey.owners(staying)) or "the pods"
            absent = survey.absent(Kind.POD_GROUP, (pod.metadata for pod in staying))
            problem = "does not exist" if absent else "is not in the input"
            yield AuditFinding(
                GROUP_MISSING.finding(
                    surveyed.ref,
                    "",
                    f"it {problem}, but it is referenced by {count(len(staying), 'live pod')}: {names}.",
                    f"create PodGroup {surveyed.key.name} in namespace {surveyed.key.namespace}, "
                    f"or recreate {owners} without the reference",
                )
            )


def group_terminating(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups that are being deleted while live pods reference them."""
    for surveyed in survey.groups:
        since = surveyed.group.metadata.deletionTimestamp if surveyed.group is not None else None
        if since is not None and surveyed.stored:
            staying = surveyed.staying
            names = some(pod.metadata.name or "" for pod in staying)
            yield AuditFinding(
                GROUP_TERMINATING.finding(
                    surveyed.ref,
                    "metadata.deletionTimestamp",
                    f"deletion started {since}, but it is still referenced by "
                    f"{count(len(staying), 'live pod')}: {names}.",
                    "wait for its pods or delete them; the group is deleted after the last pod",
                )
            )


def group_unlike_template(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups that differ from their template in a field that the template sets."""
    for surveyed in survey.groups:
        ref = surveyed.group.template_ref if surveyed.group is not None else None
        if surveyed.group is None or ref is None:
            continue
        workload = survey.view.workloads.get(
            GroupKey(surveyed.key.native, surveyed.key.namespace, ref.workload)
        )
        template = workload.template(ref.template) if workload is not None else None
        if workload is None or template is None:
            continue
        unlike = [
            f"{field} {'unset' if have is None else have} instead of {want}"
            for field, have, want in differences(surveyed.group, template)
        ]
        if unlike:
            fix = f"{delete(surveyed.ref)}; its controller recreates it from the template"
            if unresolved(survey.view.classes, template.priority_class_name, template.priority) is not None:
                fix = (
                    f"name a class of value {template.priority} in template {template.name} (recreate "
                    f"{workload.ref}), because no group gets a priority without its class; then {fix}"
                )
            message = f"it differs from template {template.name} of {workload.ref}: {'; '.join(unlike)}."
            yield AuditFinding(GROUP_UNLIKE_TEMPLATE.finding(surveyed.ref, "spec", message, fix))


def basic_with_group_disruption(survey: Survey) -> Iterator[AuditFinding]:
    """Find basic groups, and basic templates, with the disruption mode PodGroup (all)."""
    fix = "set a gang policy, or disruption mode Pod ({single: {}} from v1alpha3 on)"
    strict = group_minor(survey.minor).strict_modes
    refusal = f" Kubernetes {survey.kubernetes} refuses to create it." if strict else ""
    for group in survey.view.groups.values():
        if group.min_count is None and group.disruption_mode is DisruptionMode.POD_GROUP:
            message = f"its policy is basic, but one disrupted member disrupts all of them.{refusal}"
            yield AuditFinding(
                BASIC_WITH_GROUP_DISRUPTION.finding(group.ref, "spec.disruptionMode", message, fix)
            )
    for workload in survey.view.workloads.values():
        for path, template in workload.templates.items():
            if template.composite:
                continue
            if template.min_count is None and template.disruption_mode is DisruptionMode.POD_GROUP:
                message = (
                    f"the policy of template {template.name} is basic, its disruption mode PodGroup.{refusal}"
                )
                field = f"{path}.disruptionMode"
                yield AuditFinding(BASIC_WITH_GROUP_DISRUPTION.finding(workload.ref, field, message, fix))


def system_class_on_group(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups and templates that name a class that groups cannot have."""
    if all(api.maximum is None for api in group_minor(survey.minor).apis.values()):
        return
    fix = f"name a class of at most {HIGHEST_USER_PRIORITY}"
    for group in survey.view.groups.values():
        if group.priority_class_name in SYSTEM_CLASSES:
            message = (
                f"the API server refuses groups of class {group.priority_class_name}: its value is too high."
            )
            yield AuditFinding(
                SYSTEM_CLASS_ON_GROUP.finding(group.ref, "spec.priorityClassName", message, fix)
            )
    for workload in survey.view.workloads.values():
        for path, template in workload.templates.items():
            if template.priority_class_name in SYSTEM_CLASSES:
                message = (
                    f"the API server refuses groups of template {template.name}: "
                    f"class {template.priority_class_name} has a value that is too high."
                )
                field = f"{path}.priorityClassName"
                yield AuditFinding(SYSTEM_CLASS_ON_GROUP.finding(workload.ref, field, message, fix))


def v1alpha2_removed(survey: Survey) -> Iterator[AuditFinding]:
    """Find native objects in the version that 1.37 removes."""
    if survey.minor < 37:
        return
    remedy = "convert to v1beta1 (podium convert), delete the v1alpha2 objects, upgrade, apply the new ones"
    groups = [group.ref for group in survey.view.groups.values()]
    for ref in groups + [workload.ref for workload in survey.view.workloads.values()]:
        if ref.apiVersion == "scheduling.k8s.io/v1alpha2":
            message = f"Kubernetes {survey.kubernetes} does not serve {ref.apiVersion}."
            creator = group_creator(survey.view, ref)
            again = (
                f"{creator} creates it again" if creator else "podium convert --to scheduling.k8s.io/v1beta1"
            )
            fix = f"{again}; before the upgrade: {delete(ref)}"
            yield AuditFinding(V1ALPHA2_REMOVED.finding(ref, "apiVersion", message, fix), remedy)


def v1alpha1_removed(survey: Survey) -> Iterator[AuditFinding]:
    """Find Workloads of Kubernetes 1.35."""
    if survey.minor < 36:
        return
    version = served_versions(survey.minor)[0]
    for workload in survey.view.workloads.values():
        ref = workload.ref
        if ref.apiVersion == v1alpha1.API_VERSION:
            message = f"Kubernetes {survey.kubernetes} does not serve {ref.apiVersion}."
            convert = f"podium convert --to {NATIVE_GROUP}/{version}"
            fix = f"{convert}; create the PodGroups that its pods name"
            stored = f"; before the upgrade: {delete(ref)}" if workload.metadata.uid else ""
            yield AuditFinding(V1ALPHA1_REMOVED.finding(ref, "apiVersion", message, fix + stored), fix)


def template_priorities_differ(survey: Survey) -> Iterator[AuditFinding]:
    """Find Workloads whose templates do not share one class and one integer, compared as upstream does."""
    for key, workload in survey.view.workloads.items():
        if key.native and survey.minor < 37:
            continue
        kinds: dict[tuple[str, int | None], list[str]] = {}
        for template in workload.templates.values():
            kinds.setdefault((template.priority_class_name, template.priority), []).append(template.name)
        if len(kinds) > 1:
            parts = [f"{_priority(*kind)} ({some(names)})" for kind, names in kinds.items()]
            refusing = f"Kubernetes {survey.kubernetes}" if key.native else "Podium"
            yield AuditFinding(
                TEMPLATE_PRIORITIES_DIFFER.finding(
                    workload.ref,
                    "spec",
                    f"its templates have {len(kinds)} priorities: {listed(sorted(parts))}. "
                    f"{refusing} refuses the Workload.",
                    "set one priorityClassName in all templates, or create a Workload for each priority",
                )
            )


def template_policies_differ(survey: Survey) -> Iterator[AuditFinding]:
    """Find Workloads whose templates do not share one preemptionPolicy; an absent one is one of its own."""
    shared = any(api.one_policy for api in group_minor(survey.minor).apis.values())
    fix = "set one preemptionPolicy in all templates, or in none"
    for key, workload in survey.view.workloads.items() if shared else ():
        names: dict[str, list[str]] = {}
        for template in workload.templates.values():
            names.setdefault(template.preemption_policy or "none", []).append(template.name)
        if key.native and len(names) > 1:
            parts = [f"{policy} ({some(templates)})" for policy, templates in sorted(names.items())]
            message = (
                f"its templates have {len(names)} preemptionPolicies: {listed(parts)}. Kubernetes "
                f"{survey.kubernetes} refuses to create it."
            )
            yield AuditFinding(TEMPLATE_POLICIES_DIFFER.finding(workload.ref, "spec", message, fix), fix)


def policy_unlike_class(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups and templates whose preemptionPolicy is not that of their class, if it needs no gate."""
    if any(api.policy_gate or api.older for api in group_minor(survey.minor).apis.values()):
        return
    view = survey.view
    groups: list[Child] = [*view.groups.values(), *view.composites.values()]
    named: list[tuple[ObjectRef, str, Child | Template]] = [
        *((group.ref, "spec", group) for group in groups if group.native),
        *(
            (workload.ref, path, template)
            for key, workload in view.workloads.items()
            for path, template in workload.templates.items()
            if key.native
        ),
    ]
    fix = "remove preemptionPolicy, or name a class that has it"
    for ref, path, holder in named:
        policy, resolved = holder.preemption_policy, resolve(view.classes, holder.priority_class_name)
        if policy and resolved is not None and policy != resolved.preemption_policy:
            message = (
                f"it is {policy}, and that of its class is {resolved.preemption_policy}. Kubernetes "
                f"{survey.kubernetes} refuses to create the group."
            )
            finding = POLICY_UNLIKE_CLASS.finding(ref, f"{path}.preemptionPolicy", message, fix)
            yield AuditFinding(finding, fix)


def _priority(class_name: str, priority: int | None) -> str:
    words = [class_name or "no class"] + ([str(priority)] if priority is not None else [])
    return " ".join(words)
