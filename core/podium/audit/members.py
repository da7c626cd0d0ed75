"""Rules about a pod and its group: older than the group, for another scheduler, in two groups at once.

Also about what both declare about saving work.
"""

from collections.abc import Iterator

from podium.api import saving
from podium.api.core import PODIUM_SCHEDULER, Pod
from podium.api.findings import ObjectRef, Severity
from podium.api.groups import GROUP_LABEL
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import group_of
from podium.history.trust import FAILURES, declares, distrusted
from podium.rules.commands import delete_pods, templates_of
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
