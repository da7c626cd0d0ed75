"""Rules about pods that differ from their group: in priority, preemptionPolicy, age, scheduler, or name.

Also about what both declare about saving work.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from podium.api import saving
from podium.api.core import PODIUM_SCHEDULER, Pod
from podium.api.findings import ObjectRef, Severity
from podium.api.groups import GROUP_LABEL, PodGroup
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import ClusterReader, group_of
from podium.groups.divergence import (
    Divergence,
    DivergenceCause,
    ServerInfo,
    because,
    consequence,
    policy_consequence,
    policy_sentence,
    sentence,
)
from podium.history.trust import FAILURES, declares, distrusted
from podium.rules.commands import delete, delete_pods, recreate, templates_of
from podium.rules.podiumrules import MEMBERSHIP_CONFLICT, SAVE_DECLARATION_WRONG
from podium.rules.rule import Rule
from podium.text import count, listed, some

_MEMBERS = frozenset({Kind.POD, Kind.POD_GROUP})

POD_OLDER_THAN_GROUP = Rule(
    id="pod-older-than-group",
    severity=Severity.WARNING,
    title="A pod is older than its group",
    why="Pod and group each resolve their class at creation. A pod that is older than the group, "
    "or that belonged to an earlier group of the same name, keeps its old priority.",
    source="kubernetes/kubernetes#139914: the link is by name, without a UID",
    needs=_MEMBERS,
)
SCHEDULER_NAME_MIXED = Rule(
    id="scheduler-name-mixed",
    severity=Severity.ERROR,
    title="Members of a group name different schedulers",
    why="One scheduler places a group in one cycle. kube-scheduler 1.36 counts its own pods and "
    "those already placed towards minCount. kube-scheduler 1.37 counts its own only, and refuses "
    "the remaining pods once another scheduler has placed a member.",
    source="kube-scheduler 1.36.3 and 1.37.0 (run)",
    needs=_MEMBERS,
)
SCHEDULER_IGNORES_GROUP = Rule(
    id="scheduler-ignores-group",
    severity=Severity.ERROR,
    title="Members of a Podium group use a scheduler that does not read it",
    why="Only podium-scheduler reads scheduling.podium.dev; any other places the pods one by one, without "
    "the group's minimum, priority or disruption mode.",
    source="Podium: membership by label",
    needs=_MEMBERS,
)


SAVING_NOT_TRUSTED = Rule(
    id="saving-not-trusted",
    severity=Severity.WARNING,
    title="A workload does not save its work as it declares",
    why="The scheduler asked it before its evictions, and it reported no checkpoint in its declared time. "
    "So its eviction costs as much as without the declaration, and others are evicted. Found in "
    "PreemptionRecords.",
    source="Podium",
    needs=frozenset({Kind.POD}),
)


def saving_not_trusted(survey: Survey) -> Iterator[AuditFinding]:
    """Find workloads with live pods that were asked in vain to save their work."""
    names: dict[ObjectRef, list[str]] = {}
    for pod in survey.view.pods.values() if survey.view.untrusted else ():
        if not pod.finished and distrusted(survey.view, pod) and declares(survey.view, pod):
            names.setdefault(_workload(survey, pod), []).append(pod.metadata.name or "")
    for ref, pods in names.items():
        yield AuditFinding(
            SAVING_NOT_TRUSTED.finding(
                ref,
                "",
                f"it declares to save its work, and failed to {FAILURES} times in a row: "
                f"{count(len(pods), 'live pod')} ({some(pods)}).",
                "see that it reads the request and reports checkpointed-at in its time (docs/saving.md), or "
                "declare a longer time; the next answer in time counts again",
            )
        )


def save_declaration(survey: Survey) -> Iterator[AuditFinding]:
    """Find annotations about saving work that are not read. The grace period of a pod is not compared."""
    declared: list[tuple[ObjectRef, ObjectMeta]] = [
        (_workload(survey, pod), pod.metadata) for pod in survey.declaring
    ]
    declared += [(group.ref, group.metadata) for group in survey.view.groups.values()]
    wrong = {
        (ref, key): message
        for ref, metadata in declared
        for key, message in saving.problems(metadata.annotations or {}, saving.NOT_SAVED)
    }
    for (ref, key), message in wrong.items():
        fix = "write the value as docs/saving.md says, in the pod template, or remove the annotation"
        yield AuditFinding(
            SAVE_DECLARATION_WRONG.finding(ref, f"metadata.annotations[{key}]", f"{message}.", fix)
        )


def _workload(survey: Survey, pod: Pod) -> ObjectRef:
    """Return the topmost controller of a pod, else its group, else the pod."""
    group = group_of(survey.view, pod)
    metadata = pod.metadata
    own = ObjectRef("v1", "Pod", metadata.namespace or "", metadata.name or "")
    return survey.owner(pod) or (own if group is None else group.ref)


def pod_older_than_group(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups with live members that were created before them."""
    for surveyed in survey.groups:
        created = surveyed.group.metadata.creationTimestamp if surveyed.group is not None else None
        if created is None or surveyed.oldest >= created:
            continue
        older = sorted(
            pod.metadata.name or ""
            for pod in surveyed.staying
            if (pod.metadata.creationTimestamp or created) < created
        )
        yield AuditFinding(
            POD_OLDER_THAN_GROUP.finding(
                surveyed.ref,
                "metadata.creationTimestamp",
                f"{count(len(older), 'pod')} of {surveyed.live} existed before the group ({created}): "
                f"{some(older)}.",
                delete_pods(surveyed.ref.namespace, older),
            )
        )


def scheduler_name_mixed(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose live members name several schedulers."""
    for surveyed in survey.groups:
        if surveyed.group is None or len(surveyed.schedulers) < 2:
            continue
        by_name: dict[str, list[str]] = {}
        for pod in surveyed.staying:
            by_name.setdefault(pod.scheduler, []).append(pod.metadata.name or "")
        parts = [f"{name} ({some(by_name[name])})" for name in sorted(by_name)]
        if not surveyed.key.native or survey.minor <= 35:
            effect = "No scheduler sees the whole group, so its minimum may never be met."
        elif surveyed.is_split(survey.minor):
            effect = f"Kubernetes {survey.kubernetes} does not schedule the group."
        elif survey.minor == 36:
            effect = "Each scheduler places its own part, without the group's priority or mode for the rest."
        else:
            effect = f"Kubernetes {survey.kubernetes} refuses the rest once one of them has placed a member."
        scheduler = (
            PODIUM_SCHEDULER
            if not surveyed.key.native
            else max(by_name, key=lambda name: (len(by_name[name]), name))
        )
        owners = survey.owners(pod for pod in surveyed.staying if pod.scheduler != scheduler)
        yield AuditFinding(
            SCHEDULER_NAME_MIXED.finding(
                surveyed.ref,
                "",
                f"its pods name {len(parts)} schedulers: {listed(parts)}. {effect}",
                f"set schedulerName: {scheduler} in {templates_of(owners)}, then recreate the pods",
            )
        )


def scheduler_ignores_group(survey: Survey) -> Iterator[AuditFinding]:
    """Find Podium groups with live members that podium-scheduler does not schedule."""
    for surveyed in survey.groups:
        if surveyed.key.native or surveyed.group is None or surveyed.schedulers <= {PODIUM_SCHEDULER}:
            continue
        ignored = [pod for pod in surveyed.staying if pod.scheduler != PODIUM_SCHEDULER]
        schedulers = listed(sorted(surveyed.schedulers - {PODIUM_SCHEDULER}))
        names = some(pod.metadata.name or "" for pod in ignored)
        yield AuditFinding(
            SCHEDULER_IGNORES_GROUP.finding(
                surveyed.ref,
                "",
                f"scheduled by {schedulers}, which does not read {surveyed.ref.group}: {len(ignored)} of "
                f"{count(surveyed.live - surveyed.leaving, 'pod')} ({names}).",
                f"set schedulerName: {PODIUM_SCHEDULER} in {templates_of(survey.owners(ignored))}, "
                "then recreate the pods",
            )
        )


def membership_conflict(survey: Survey) -> Iterator[AuditFinding]:
    """Find native groups with live members whose Podium label names another group."""
    for surveyed in survey.groups:
        if not surveyed.labelled_otherwise:
            continue
        labelled: dict[str, list[str]] = {}
        for pod in surveyed.present:
            labels = pod.metadata.labels
            label = labels.get(GROUP_LABEL) if labels else None
            if label and label != surveyed.key.name:
                labelled.setdefault(label, []).append(pod.metadata.name or "")
        parts = [f"{label} ({some(labelled[label])})" for label in sorted(labelled)]
        yield AuditFinding(
            MEMBERSHIP_CONFLICT.finding(
                surveyed.ref,
                f"metadata.labels[{GROUP_LABEL}]",
                f"{count(sum(map(len, labelled.values())), 'member')} with the label of another group: "
                f"{listed(parts)}. The label is not looked at: spec.schedulingGroup wins.",
                f"remove the label {GROUP_LABEL} or make it {surveyed.key.name}, in the pod template",
            )
        )


# Returns the distinct topmost controllers of pods.
OwnersOf = Callable[[Iterable[Pod]], list[ObjectRef]]


POD_PRIORITY_DIFFERS = Rule(
    id="pod-priority-differs",
    severity=Severity.ERROR,
    title="A live pod's priority differs from its group's",
    why="Kubernetes 1.36 silently uses the group's priority; from 1.37 on the group is not "
    "scheduled. Only values are compared: a recreated class can differ under one name, and two "
    "classes of one value do not differ.",
    source="KEP-5710; kube-scheduler 1.37 (validatePodGroup)",
    needs=_MEMBERS,
)
PREEMPTION_POLICY_DIFFERS = Rule(
    id="preemption-policy-differs",
    severity=Severity.WARNING,
    title="Members of a group do not share its preemptionPolicy",
    why="In 1.36 one member with Never prevents the group from preempting; from 1.37 on the group "
    "is not scheduled. If the group has no policy (gate PodGroupPreemptionPolicy off), its "
    "members must agree.",
    source="KEP-5710; kube-scheduler 1.37 (validatePodGroup)",
    needs=_MEMBERS,
)


def pod_priority_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups with a live member of another integer."""
    for surveyed in survey.groups:
        group, divergence = surveyed.group, surveyed.divergence
        if group is None or divergence is None or not divergence.priority.divergent:
            continue
        causes = "".join(f" {because(group, cause, divergence)}" for cause in divergence.causes)
        message = f"{sentence(divergence)}. {consequence(group, divergence, _server(survey))}{causes}"
        fix, remedy = priority_fix(survey.view, group, divergence, surveyed.staying, survey.owners)
        yield AuditFinding(POD_PRIORITY_DIFFERS.finding(surveyed.ref, "spec.priority", message, fix), remedy)


def preemption_policy_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose live members do not share one preemptionPolicy."""
    for surveyed in survey.groups:
        group = surveyed.group
        if group is None or surveyed.divergence is None or not surveyed.divergence.policy.divergent:
            continue
        divergence = surveyed.divergence
        yield AuditFinding(
            PREEMPTION_POLICY_DIFFERS.finding(
                surveyed.ref,
                "spec.preemptionPolicy",
                f"{policy_sentence(divergence)}. {policy_consequence(group, divergence, _server(survey))}",
                policy_fix(divergence, surveyed.staying, survey.owners),
            )
        )


def _server(survey: Survey) -> ServerInfo:
    return ServerInfo(survey.minor, survey.kubernetes)


def priority_fix(
    view: ClusterReader, group: PodGroup, divergence: Divergence, staying: Sequence[Pod], owners_of: OwnersOf
) -> tuple[str, str]:
    """Return the fix for one group, and the remedy that all groups with the same cause share.

    `staying` are the members that are neither finished nor terminating. `podium why` gives the same fix.
    """
    names = sorted(name for differing in divergence.priority.differing for name in differing.live)
    differing_names = set(names)
    owners = owners_of(pod for pod in staying if pod.metadata.name in differing_names)
    recreate_pods = recreate(owners) if owners else delete_pods(group.ref.namespace, names)
    recreate_group = f"{delete(group.ref)}; delete its pods; recreate both"
    main = divergence.causes[0] if divergence.causes else None
    theirs = main.class_name if main is not None else ""
    match main.cause if main is not None else None:
        case DivergenceCause.CLASS_RECREATED:
            priority_class = view.classes.get(theirs)
            group_is_stale = (
                priority_class is not None and (priority_class.value or 0) != divergence.priority.expected
            )
            remedy = f"recreate objects that are older than the current value of PriorityClass {theirs}"
            return (recreate_group if group_is_stale else recreate_pods), remedy
        case DivergenceCause.DEFAULT_CHANGED:
            default = theirs or group.priority_class_name
            remedy = f"recreate objects that are older than the default class {default}"
            return (f"{recreate_group} with priorityClassName: {theirs}" if theirs else recreate_pods), remedy
        case DivergenceCause.UNRESOLVED:
            return recreate_group if group.priority is None else recreate_pods, ""
        case _:
            pass
    if theirs and len(names) == len(staying):
        return f"{recreate_group} with priorityClassName: {theirs}", ""
    if group.priority_class_name:
        where = templates_of(owners)
        return f"set priorityClassName: {group.priority_class_name} in {where}, then recreate the pods", ""
    return f"{recreate_group} with one priorityClassName", ""


def policy_fix(divergence: Divergence, staying: Sequence[Pod], owners_of: OwnersOf) -> str:
    """Return the fix for a group whose members do not share one preemptionPolicy."""
    names = {name for differing in divergence.policy.differing for name in differing.live}
    owners = owners_of(pod for pod in staying if pod.metadata.name in names)
    where = templates_of(owners)
    return (
        f"name a class with preemptionPolicy {divergence.policy.expected} in {where}, then recreate the pods"
    )
