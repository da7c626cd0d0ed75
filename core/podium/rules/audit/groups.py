"""Rules about PodGroups and Workloads as stored: absent, leaving, unlike their template, unusable."""

from collections.abc import Iterator
from typing import NamedTuple

from podium.api.groups import DisruptionMode, PodGroup, Template
from podium.api.membership import GroupKey
from podium.api.reads import Kind
from podium.findings import Severity
from podium.priority import HIGHEST_USER_PRIORITY, SYSTEM_CLASSES
from podium.rules.audit.commands import delete
from podium.rules.audit.survey import Found, Survey
from podium.rules.rule import Rule
from podium.wording import count, listed, some

GROUP_MISSING = Rule(
    id="group-missing",
    severity=Severity.ERROR,
    title="Pods reference a PodGroup that does not exist",
    why="The API server accepts the reference; the pods wait, without an event, until the group appears.",
    source="kube-scheduler (GangScheduling, PreEnqueue)",
    needs=frozenset({Kind.POD, Kind.POD_GROUP}),
)
GROUP_TERMINATING = Rule(
    id="group-terminating",
    severity=Severity.ERROR,
    title="A PodGroup with live pods is being deleted",
    why="Its finalizer keeps it while a live pod references it, so a new group of that name cannot be made. "
    "From 1.38 on new pods that reference it are refused.",
    source="kube-apiserver and controller (PodGroupProtection)",
    needs=frozenset({Kind.POD, Kind.POD_GROUP}),
)
GROUP_UNLIKE_TEMPLATE = Rule(
    id="group-unlike-template",
    severity=Severity.WARNING,
    title="A PodGroup is unlike its Workload's template",
    why="Nothing copies or compares a template: a controller that forgets its class makes groups of the "
    "default class.",
    source="KEP-5710 (controllers are expected to copy); removed check, kubernetes/kubernetes#139008",
    needs=frozenset({Kind.POD_GROUP, Kind.WORKLOAD}),
)
BASIC_WITH_GROUP_DISRUPTION = Rule(
    id="basic-with-group-disruption",
    severity=Severity.WARNING,
    title="A basic group is disrupted all together",
    why="KEP-5710 promised to refuse the pair and no release does: one victim takes members down that "
    "never needed each other.",
    source="KEP-5710",
    needs=frozenset({Kind.POD_GROUP}),
)
SYSTEM_CLASS_ON_GROUP = Rule(
    id="system-class-on-group",
    severity=Severity.WARNING,
    title="A group or template names a system-* class",
    why=f"A group's priority is at most {HIGHEST_USER_PRIORITY:,}: the API server refuses such groups.",
    source="kube-apiserver 1.36.3 and 1.37.0 (run): maximum of spec.priority",
    needs=frozenset({Kind.POD_GROUP}),
)
V1ALPHA2_REMOVED = Rule(
    id="v1alpha2-removed",
    severity=Severity.ERROR,
    title="An object is stored as scheduling.k8s.io/v1alpha2",
    why="Kubernetes 1.37 does not serve v1alpha2; objects stored in it must be gone before the upgrade. "
    "Checked where the audit speaks for 1.37 or later.",
    source="kubernetes/kubernetes#140184",
    needs=frozenset({Kind.POD_GROUP}),
)
TEMPLATE_PRIORITIES_DIFFER = Rule(
    id="template-priorities-differ",
    severity=Severity.ERROR,
    title="Templates of one Workload have different priorities",
    why="Kubernetes 1.37 refuses such a Workload, and every update of one that is stored; so does Podium "
    "with its own. Of native ones it is checked where the audit speaks for 1.37 or later.",
    source="kube-apiserver 1.37 (validation of Workload)",
    needs=frozenset({Kind.WORKLOAD}),
)


def group_missing(survey: Survey) -> Iterator[Found]:
    """Find groups that live pods reference and that were not read."""
    for each in survey.groups:
        if each.group is None and each.stored:
            staying = each.staying
            names = some(pod.metadata.name or "" for pod in staying)
            owners = some(str(owner) for owner in survey.owners(staying)) or "the pods"
            yield Found(
                GROUP_MISSING.finding(
                    each.ref,
                    "",
                    f"it does not exist; referenced by {count(len(staying), 'live pod')}: {names}.",
                    f"create PodGroup {each.key.name} in namespace {each.key.namespace}, "
                    f"or recreate {owners} without the reference",
                )
            )


def group_terminating(survey: Survey) -> Iterator[Found]:
    """Find groups that are being deleted while live pods reference them."""
    for each in survey.groups:
        since = each.group.metadata.deletionTimestamp if each.group is not None else None
        if since is not None and each.stored:
            staying = each.staying
            names = some(pod.metadata.name or "" for pod in staying)
            refusing = each.key.native and survey.minor >= 38
            effect = (
                f" Kubernetes {survey.kubernetes} refuses new pods that reference it." if refusing else ""
            )
            yield Found(
                GROUP_TERMINATING.finding(
                    each.ref,
                    "metadata.deletionTimestamp",
                    f"it is being deleted since {since}, still referenced by "
                    f"{count(len(staying), 'live pod')}: {names}.{effect}",
                    "let its pods finish or delete them; the group goes with the last of them",
                )
            )


def group_unlike_template(survey: Survey) -> Iterator[Found]:
    """Find groups that differ from their template in a field that the template sets."""
    for each in survey.groups:
        ref = each.group.template_ref if each.group is not None else None
        if each.group is None or ref is None:
            continue
        workload = survey.view.workloads.get(GroupKey(each.key.native, each.key.namespace, ref.workload))
        template = workload.template(ref.template) if workload is not None else None
        if workload is None or template is None:
            continue
        unlike = [
            f"{field} {'unset' if have is None else have} instead of {want}"
            for field, have, want in differences(each.group, template)
        ]
        if unlike:
            yield Found(
                GROUP_UNLIKE_TEMPLATE.finding(
                    each.ref,
                    "spec",
                    f"it is unlike template {template.name} of {workload.ref}: {'; '.join(unlike)}.",
                    f"{delete(each.ref)}, and let its controller make it from the template again",
                )
            )


def basic_with_group_disruption(survey: Survey) -> Iterator[Found]:
    """Find basic groups, and basic templates, with the disruption mode PodGroup (all)."""
    fix = "give it a gang policy, or disruption mode Pod ({single: {}} from v1alpha3 on)"
    for group in survey.view.groups.values():
        if group.min_count is None and group.disruption_mode is DisruptionMode.POD_GROUP:
            message = "its policy is basic, yet one disrupted member takes all of them down."
            yield Found(BASIC_WITH_GROUP_DISRUPTION.finding(group.ref, "spec.disruptionMode", message, fix))
    for workload in survey.view.workloads.values():
        for path, template in workload.templates.items():
            if template.composite:
                continue
            if template.min_count is None and template.disruption_mode is DisruptionMode.POD_GROUP:
                message = f"the policy of template {template.name} is basic, its disruption mode PodGroup."
                field = f"{path}.disruptionMode"
                yield Found(BASIC_WITH_GROUP_DISRUPTION.finding(workload.ref, field, message, fix))


def system_class_on_group(survey: Survey) -> Iterator[Found]:
    """Find groups and templates that name a class that groups cannot have."""
    fix = f"name a class of at most {HIGHEST_USER_PRIORITY}"
    for group in survey.view.groups.values():
        if group.priority_class_name in SYSTEM_CLASSES:
            message = (
                f"no group can have class {group.priority_class_name}: the API server refuses its value."
            )
            yield Found(SYSTEM_CLASS_ON_GROUP.finding(group.ref, "spec.priorityClassName", message, fix))
    for workload in survey.view.workloads.values():
        for path, template in workload.templates.items():
            if template.priority_class_name in SYSTEM_CLASSES:
                message = f"every group made from template {template.name} is refused for its class "
                message += f"{template.priority_class_name}."
                field = f"{path}.priorityClassName"
                yield Found(SYSTEM_CLASS_ON_GROUP.finding(workload.ref, field, message, fix))


def v1alpha2_removed(survey: Survey) -> Iterator[Found]:
    """Find native objects in the version that 1.37 removes."""
    if survey.minor < 37:
        return
    remedy = "convert to v1beta1 (podium convert), delete the v1alpha2 objects, upgrade, apply the new ones"
    groups = [group.ref for group in survey.view.groups.values()]
    for ref in groups + [workload.ref for workload in survey.view.workloads.values()]:
        if ref.apiVersion == "scheduling.k8s.io/v1alpha2":
            message = f"Kubernetes {survey.kubernetes} does not serve {ref.apiVersion}."
            fix = f"podium convert --to scheduling.k8s.io/v1beta1; {delete(ref)} before the upgrade"
            yield Found(V1ALPHA2_REMOVED.finding(ref, "apiVersion", message, fix), remedy)


def template_priorities_differ(survey: Survey) -> Iterator[Found]:
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
            yield Found(
                TEMPLATE_PRIORITIES_DIFFER.finding(
                    workload.ref,
                    "spec",
                    f"its templates have {len(kinds)} priorities: {listed(sorted(parts))}. "
                    f"{refusing} refuses the Workload.",
                    "give all templates one priorityClassName, or make a Workload for each priority",
                )
            )


class Difference(NamedTuple):
    """A field under spec in which a group differs from its template; None is unset."""

    field: str
    have: object
    want: object


def differences(group: PodGroup, template: Template) -> list[Difference]:
    """Return the differences of a group from its template in fields that the template sets.

    A template always sets the scheduling policy.
    """
    named, wanted = group.priority_class_name or None, template.priority_class_name or None
    pairs = (
        Difference("priorityClassName", named, wanted),
        Difference("priority", group.priority, template.priority),
        Difference("preemptionPolicy", group.preemption_policy, template.preemption_policy),
        Difference("disruptionMode", group.disruption_mode, template.disruption_mode),
        Difference("schedulingPolicy", _policy(group.min_count), _policy(template.min_count)),
    )
    return [each for each in pairs if each.want is not None and each.want != each.have]


def _policy(min_count: int | None) -> str:
    return "basic" if min_count is None else f"gang with minCount {min_count}"


def _priority(class_name: str, priority: int | None) -> str:
    words = [class_name or "no class"] + ([str(priority)] if priority is not None else [])
    return " ".join(words)
