"""Group rules over templates: problems of a group that its manifests show before any pod exists.

They judge only owners without pods. The rules about pods judge the others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

import msgspec

from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER
from podium.api.findings import ObjectRef, Severity
from podium.api.groups import GROUP_LABEL, PODIUM_GROUP, PodGroup, Workload
from podium.api.membership import GroupKey
from podium.api.podkinds.kind import PodOwner
from podium.api.priority import resolve
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.groups.divergence import Axis, Divergence, ServerInfo, consequence
from podium.groups.planned import PlannedPods, made_by_people
from podium.rules.commands import create_class
from podium.rules.podiumchecks import unresolved, unresolved_message
from podium.rules.podiumrules import TEMPLATE_CLASS_MISSING, TEMPLATE_PRIORITY_UNRESOLVED
from podium.rules.rule import Rule
from podium.text import count, listed, some

_OWNED_GROUPS = frozenset({Kind.OWNER, Kind.POD_GROUP})
# The fields that name a native group (in a spec) and a Podium group (in a template).
_FIELD, _LABEL = "schedulingGroup.podGroupName", f"metadata.labels[{GROUP_LABEL}]"

TEMPLATE_PRIORITY_DIFFERS = Rule(
    id="template-priority-differs",
    severity=Severity.ERROR,
    title="The pods of a template will have another priority than their group",
    why="Kubernetes 1.36 silently uses the group's priority; from 1.37 on the group is never scheduled. "
    "If the values of the classes are not in the input, different names are reported.",
    source="KEP-5710; kube-scheduler 1.37 (validatePodGroup)",
    needs=_OWNED_GROUPS,
)
TEMPLATE_SCHEDULER_MIXED = Rule(
    id="template-scheduler-mixed",
    severity=Severity.ERROR,
    title="The templates of a group name different schedulers, or one that does not read the group",
    why="One scheduler places a group in one cycle. Only podium-scheduler reads scheduling.podium.dev.",
    source="kube-scheduler 1.36.3 and 1.37.0 (run); Podium: membership by label",
    needs=_OWNED_GROUPS,
)
TEMPLATE_SCHEDULER_UNKNOWN = Rule(
    id="template-scheduler-unknown",
    severity=Severity.WARNING,
    title="A template with a native PodGroup names a scheduler of its own",
    why="kube-scheduler and podium-scheduler read scheduling.k8s.io. Other schedulers have group kinds of "
    "their own and place these pods one by one. A profile of kube-scheduler may have any name.",
    source="kube-scheduler (GangScheduling)",
    needs=_OWNED_GROUPS,
)
TEMPLATE_GROUP_MISSING = Rule(
    id="template-group-missing",
    severity=Severity.ERROR,
    title="A template names a PodGroup that is not in the input",
    why="The API server accepts the reference. The pods wait, without an event, until the group appears.",
    source="kube-scheduler (GangScheduling, PreEnqueue)",
    needs=_OWNED_GROUPS,
)
GROUP_UNREAD = Rule(
    id="group-unread",
    severity=Severity.WARNING,
    title="Pods or templates name PodGroups, and no PodGroup was read",
    why="Nothing tells whether the groups exist. The API server accepts a reference to a group that does not "
    "exist; the pods wait, without an event, until it appears. Each namespace has one finding.",
    source="kube-scheduler (GangScheduling, PreEnqueue)",
    needs=frozenset(),
)
TEMPLATE_TOO_FEW_PODS = Rule(
    id="template-too-few-pods",
    severity=Severity.ERROR,
    title="The templates of a gang create fewer pods than its minCount",
    why="Members are not scheduled until minCount of them exist. Pods that start only after other pods "
    "are ready do not count, because those never become ready.",
    source="kube-scheduler (GangScheduling, PreEnqueue)",
    needs=_OWNED_GROUPS,
)
OWNER_PRIORITIES_DIFFER = Rule(
    id="owner-priorities-differ",
    severity=Severity.WARNING,
    title="Templates of one object will create pods of different priorities",
    why="They name no PodGroup. The pods with the lower priority are the first victims and stop the "
    "others; with a PodGroup, Kubernetes 1.37 does not schedule them.",
    source="kubeflow/trainer#4084, kubernetes-sigs/lws#979",
    needs=frozenset({Kind.OWNER}),
)


def template_priority_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find templates whose class has another value than that of their group."""
    for key, members in survey.planned_members.items():
        group = survey.view.groups.get(key)
        if group is None:
            continue
        ours, expected = group.priority_class_name, _value(survey, group.priority_class_name, group.priority)
        for pods in members:
            theirs = pods.spec.priorityClassName or ""
            value = _value(survey, theirs)
            known = value is not None and expected is not None
            if value == expected if known else theirs == ours:
                continue
            field = f"{pods.spec_path}.priorityClassName"
            difference = (
                f"its pods will have priority {value} ({_class(theirs)}), but {group.ref} has {expected} "
                f"({_class(ours)})."
                if known
                else f"it names {_class(theirs)}, but {group.ref} names {_class(ours)}. If their values "
                "differ, which are not in the input:"
            )
            effect = _consequence(survey, pods, group, expected)
            fix = f"set {field}: {ours}" if ours else f"set spec.priorityClassName: {theirs} in {group.ref}"
            yield AuditFinding(
                TEMPLATE_PRIORITY_DIFFERS.finding(pods.owner.ref, field, f"{difference} {effect}", fix)
            )


def template_scheduler_mixed(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose templates name several schedulers, and Podium groups with another scheduler."""
    for key, members in survey.planned_members.items():
        if key not in survey.view.groups:
            continue
        named = Counter(_scheduler(pods) for pods in members)
        expected = max(named, key=lambda name: (named[name], name)) if key.native else PODIUM_SCHEDULER
        for pods in members:
            scheduler = _scheduler(pods)
            if scheduler == expected:
                continue
            elsewhere = (
                f"other templates of PodGroup {key.name} name {expected}. No scheduler sees the whole group"
            )
            unread = f"it does not read PodGroup {key.name} of {PODIUM_GROUP}"
            field = f"{pods.spec_path}.schedulerName"
            message = f"the pods are scheduled by {scheduler}; {elsewhere if key.native else unread}."
            yield AuditFinding(
                TEMPLATE_SCHEDULER_MIXED.finding(pods.owner.ref, field, message, f"set {field}: {expected}")
            )


def template_scheduler_unknown(survey: Survey) -> Iterator[AuditFinding]:
    """Find templates of native groups with a scheduler that is not known to read them."""
    for key, members in survey.planned_members.items():
        for pods in members if key.native and key in survey.view.groups else ():
            scheduler = _scheduler(pods)
            if scheduler in (DEFAULT_SCHEDULER, PODIUM_SCHEDULER):
                continue
            field = f"{pods.spec_path}.schedulerName"
            message = (
                f"unless {scheduler} is a profile of kube-scheduler, it does not read PodGroup {key.name} "
                "and places the pods one by one."
            )
            fix = f"remove {field}, or remove the reference to the PodGroup"
            yield AuditFinding(TEMPLATE_SCHEDULER_UNKNOWN.finding(pods.owner.ref, field, message, fix))


def template_group_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find templates that name a group that was not read and that no Workload of the input creates."""
    for key, members in survey.planned_members.items():
        if key in survey.view.groups or _of_workload(survey, key):
            continue
        there = sorted(group_key.name for group_key in survey.view.groups if group_key[:2] == key[:2])
        close = get_close_matches(key.name, there, n=1)
        hint = f" Did you mean {close[0]}?" if close else f" There is {some(there)}." if there else ""
        group = survey.group_ref(key)
        for pods in members:
            field = f"{pods.spec_path}.{_FIELD}" if key.native else f"{pods.path}.{_LABEL}"
            message = f"{group} is not in the input. Without it the pods are never scheduled.{hint}"
            fix = f"add PodGroup {key.name} in namespace {key.namespace}, or correct {field}"
            yield AuditFinding(TEMPLATE_GROUP_MISSING.finding(pods.owner.ref, field, message, fix))


def group_unread(survey: Survey) -> Iterator[AuditFinding]:
    """Find the namespaces whose pods or templates name groups, if not all PodGroups were read."""
    if survey.read(Kind.POD_GROUP):
        return
    pods: Counter[GroupKey] = Counter(
        {
            surveyed.key: len(surveyed.staying)
            for surveyed in survey.groups
            if surveyed.group is None and surveyed.stored
        }
    )
    templates = {
        key: [str(planned.owner.ref) for planned in members]
        for key, members in survey.planned_members.items()
        if key not in survey.view.groups and not _of_workload(survey, key)
    }
    namespaces: dict[str, set[GroupKey]] = {}
    for key in (*pods, *templates):
        namespaces.setdefault(key.namespace, set()).add(key)
    reason = survey.view.unread.get(Kind.POD_GROUP, "")
    for namespace, keys in namespaces.items():
        live = sum(pods[key] for key in keys)
        owners = [owner for key in keys for owner in templates.get(key, ())]
        namers = [count(live, "live pod")] if live else []
        namers += [f"{count(len(owners), 'template')} ({some(owners)})"] if owners else []
        message = (
            f"no PodGroup was read ({reason}), but PodGroups are named by {listed(namers)}: "
            f"{some({key.name for key in keys})}. A pod whose group does not exist is never scheduled."
        )
        fix = "add the PodGroups to the input, or remove the references from pods and templates"
        ref = ObjectRef("v1", "Namespace", "", namespace)
        yield AuditFinding(GROUP_UNREAD.finding(ref, "", message, fix), fix)


def template_too_few_pods(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs whose minCount is above the pods that exist and those that templates will create."""
    for key, members in survey.planned_members.items():
        group = survey.view.groups.get(key)
        least = group.min_count if group is not None else None
        numbers = [pods.number for pods in members if pods.number is not None]
        existing = len(survey.view.members(key))
        total = sum(numbers) + existing
        if group is None or least is None or len(numbers) < len(members) or total >= least:
            continue
        by_owner: Counter[str] = Counter()
        for pods in members:
            by_owner[str(pods.owner.ref)] += pods.number or 0
        parts = [f"{owner} creates {number}" for owner, number in sorted(by_owner.items())]
        parts += [f"{existing} exist"] if existing else []
        fix = f"set minCount: {total}, or create at least {count(least, 'pod')}"
        message = f"minCount is {least}, but {listed(parts)}. The gang is never scheduled."
        field = "spec.schedulingPolicy.gang.minCount"
        yield AuditFinding(TEMPLATE_TOO_FEW_PODS.finding(group.ref, field, message, fix))


def owner_priorities_differ(survey: Survey) -> Iterator[AuditFinding]:
    """Find objects whose pods belong together, have no group and will have several priorities."""
    owners: dict[ObjectRef, list[PlannedPods]] = {}
    for pods in survey.planned:
        if pods.owner.gangs and pods.named_group(native_served=survey.view.native_served) is None:
            owners.setdefault(pods.owner.ref, []).append(pods)
    for ref, members in owners.items():
        classes = {pods.path: pods.spec.priorityClassName or "" for pods in members}
        values = {path: _value(survey, name) for path, name in classes.items()}
        compared: Mapping[str, object] = classes if None in values.values() else values
        usual = Counter(compared.values()).most_common(1)[0][0]
        differing = next((pods for pods in members if compared[pods.path] != usual), None)
        if differing is None:
            continue
        parts = [
            f"{_class(name)}{'' if values[path] is None else f' ({values[path]})'} in {path}"
            for path, name in classes.items()
        ]
        fix = "name one priorityClassName in all of its templates"
        message = f"its templates name different classes: {listed(parts)}."
        field = f"{differing.spec_path}.priorityClassName"
        yield AuditFinding(OWNER_PRIORITIES_DIFFER.finding(ref, field, message, fix), fix)


def _value(survey: Survey, name: str, stored: int | None = None) -> int | None:
    """Return the value of a class or of the default class, None if it is not in the input."""
    if stored is not None:
        return stored
    resolved = resolve(survey.view.classes, name) if survey.read(Kind.PRIORITY_CLASS) else None
    return None if resolved is None else resolved.value


def _class(name: str) -> str:
    return f"class {name}" if name else "no class"


def _scheduler(planned: PlannedPods) -> str:
    return planned.spec.schedulerName or DEFAULT_SCHEDULER


def _consequence(survey: Survey, planned: PlannedPods, group: PodGroup, expected: int | None) -> str:
    server = ServerInfo(survey.minor, survey.kubernetes)
    resolved = msgspec.structs.replace(group, priority=expected)
    divergence = Divergence(members=1, priority=Axis(0), policy=Axis(""), schedulers=(_scheduler(planned),))
    return consequence(resolved, divergence, server)


def _of_workload(survey: Survey, key: GroupKey) -> bool:
    """Return whether a Workload of the input may create a group: controllers begin its name with theirs."""
    return any(
        workload[:2] == key[:2] and key.name.startswith(f"{workload.name}-")
        for workload in survey.view.workloads
    )


# Rules about pod templates: problems of their next pod, reported before it is created.


TEMPLATE_PRIORITY_WRITTEN = Rule(
    id="template-priority-written",
    severity=Severity.WARNING,
    title="A pod template sets `priority:` to a number",
    why="The API server computes the priority and refuses pods with another value. So the template "
    "breaks when its class is recreated or a global default is added.",
    source="kubernetes/kubernetes#102724",
    needs=frozenset({Kind.OWNER}),
)


def template_class_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find pod templates, and templates of Workloads, whose class cannot be resolved."""
    for source, field, name in _template_classes(survey):
        if resolve(survey.view.classes, name) is None:
            if survey.absent(Kind.PRIORITY_CLASS, [source.metadata]):
                message = "does not exist: the API server refuses pods and groups of this template."
                fix = f"{create_class(name, '<integer>')}; or name another class"
                remedy = f"create PriorityClass {name}, or name another class where it is named"
            else:
                message = (
                    "is not in the input. If it does not exist in the cluster, the API server refuses pods "
                    "and groups of this template."
                )
                fix = remedy = f"add PriorityClass {name} to the input, or name another class"
            yield AuditFinding(
                TEMPLATE_CLASS_MISSING.finding(source.ref, field, f"PriorityClass {name} {message}", fix),
                remedy,
            )


def template_priority_written(survey: Survey) -> Iterator[AuditFinding]:
    """Find pod templates that set the integer."""
    for owner in made_by_people(survey.view.owners):
        for path, template in owner.templates.items():
            spec = template.spec
            if spec is None or spec.priority is None:
                continue
            field = f"{owner.spec_path(path)}.priority"
            if spec.priorityClassName:
                fix = f"remove {field}: PriorityClass {spec.priorityClassName} sets the value"
            else:
                fix = f"remove {field} and name a priorityClassName"
            yield AuditFinding(
                TEMPLATE_PRIORITY_WRITTEN.finding(
                    owner.ref,
                    field,
                    f"priority {spec.priority} is set explicitly; pods are refused if the class has "
                    "another value.",
                    fix,
                ),
                "remove `priority:` from pod templates and name a priorityClassName",
            )


def template_priority_unresolved(survey: Survey) -> Iterator[AuditFinding]:
    """Find templates of Workloads whose integer no group can get."""
    for workload in survey.view.workloads.values():
        for path, template in workload.templates.items():
            value = unresolved(survey.view.classes, template.priority_class_name, template.priority)
            if value is not None:
                message = unresolved_message(template, value)
                fix = _class_fix(survey, f"{path}.priorityClassName", template.priority or 0)
                field = f"{path}.priority"
                yield AuditFinding(TEMPLATE_PRIORITY_UNRESOLVED.finding(workload.ref, field, message, fix))


def _class_fix(survey: Survey, field: str, value: int) -> str:
    """Return how to name a class of a value in a field."""
    names = sorted(
        name for name, priority_class in survey.view.classes.items() if (priority_class.value or 0) == value
    )
    if names:
        return f"set {field}: {names[0]}"
    return f"create a PriorityClass with value: {value} and name it in {field}"


def _template_classes(survey: Survey) -> Iterator[tuple[PodOwner | Workload, str, str]]:
    for owner in made_by_people(survey.view.owners):
        for path, template in owner.templates.items():
            if template.spec is not None and template.spec.priorityClassName:
                yield owner, f"{owner.spec_path(path)}.priorityClassName", template.spec.priorityClassName
    for workload in survey.view.workloads.values():
        for path, group in workload.templates.items():
            if group.priority_class_name:
                yield workload, f"{path}.priorityClassName", group.priority_class_name
