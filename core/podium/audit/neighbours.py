"""Rules beyond groups: Kueue's own priorities, pods without a controller, gangs without a PodGroup."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from podium.api.core import Pod
from podium.api.findings import ObjectRef, Severity
from podium.api.foreigngroups import KueueWorkload
from podium.api.priority import HIGHEST_USER_PRIORITY, NEVER, effective_policy
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import Name
from podium.groups.inferred import KUEUE_GROUP, KUEUE_WORKLOAD, queued_together, role
from podium.rules.commands import recreate, templates_of
from podium.rules.rule import Rule
from podium.text import count, some

KUEUE_PRIORITY_DIFFERS = Rule(
    id="kueue-priority-differs",
    severity=Severity.WARNING,
    title="Kueue and the scheduler order two workloads differently",
    why="Kueue queues and evicts by its Workload's priority; the scheduler preempts by the pods' "
    "priority. A WorkloadPriorityClass separates the two on purpose, so other values alone are no problem. "
    "If the order differs, one evicts pods that the other protects.",
    source="kubernetes-sigs/kueue#14413",
    needs=frozenset({Kind.KUEUE_WORKLOAD, Kind.POD}),
)
BARE_POD_VICTIMS = Rule(
    id="bare-pod-victims",
    severity=Severity.INFO,
    title="Running pods that can be preempted have no controller",
    why="A preempted pod is deleted, and a pod without a controller is not recreated. The check "
    "counts pods below the highest preempting priority in use, without system classes. Pod groups of Kueue "
    "and applications of YuniKorn are meant to have no controller.",
    source="KAI-Scheduler#84, kubeflow/trainer#3316",
    needs=frozenset({Kind.POD}),
)
INFERRED_PRIORITY_DIFFERS = Rule(
    id="inferred-priority-differs",
    severity=Severity.WARNING,
    title="Pods that belong together have different priorities",
    why="They name no PodGroup. The pods with the lower priority are the first victims and stop the "
    "others; with a PodGroup, Kubernetes 1.37 does not schedule them. Groups are inferred from "
    "labels and owners.",
    source="kubeflow/trainer#4084, kubernetes-sigs/lws#979",
    needs=frozenset({Kind.POD}),
)


class _Queued(NamedTuple):
    """A Kueue Workload with live pods: its priority, and the lowest and highest priority of the pods."""

    workload: KueueWorkload
    pods: Sequence[Pod]
    value: int
    lowest: int
    highest: int


def kueue_priority_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find Kueue Workloads with pods below those of a Workload that Kueue orders behind them."""
    by_value: dict[int, list[_Queued]] = defaultdict(list)
    for queued in _queued(survey):
        by_value[queued.value].append(queued)
    behind: _Queued | None = None
    for value in sorted(by_value):
        for queued in by_value[value]:
            if behind is not None and queued.lowest < behind.highest:
                yield _inversion(survey, queued, behind)
        top = max(by_value[value], key=lambda item: item.highest)
        behind = top if behind is None or top.highest > behind.highest else behind


def _inversion(survey: Survey, first: _Queued, behind: _Queued) -> AuditFinding:
    meta, behind_meta = first.workload.metadata, behind.workload.metadata
    second = f"Workload {behind_meta.namespace}/{behind_meta.name} ({behind.value})"
    lower = [pod for pod in first.pods if (pod.spec.priority or 0) < behind.highest]
    live = count(len(lower), "live pod")
    fix = f"give both the same order in the class that Kueue uses and in {templates_of(survey.owners(lower))}"
    return AuditFinding(
        KUEUE_PRIORITY_DIFFERS.finding(
            ObjectRef(first.workload.apiVersion, first.workload.kind, meta.namespace or "", meta.name or ""),
            "spec.priority",
            f"Kueue orders it ({first.value}) before {second}, but {live} of it with "
            f"priority {first.lowest} can be preempted by pods of the other with {behind.highest}: "
            f"{some(pod.metadata.name or '' for pod in lower)}.",
            fix,
        ),
        fix,
    )


def _queued(survey: Survey) -> Iterator[_Queued]:
    """Yield the Kueue Workloads that have live pods."""
    workloads = survey.view.kueue_workloads
    if not workloads:
        return
    by_owner = {
        (namespace, owner.kind, owner.name): workload
        for (namespace, _), workload in sorted(workloads.items())
        for owner in workload.metadata.ownerReferences or ()
    }
    pods: dict[Name, list[Pod]] = defaultdict(list)
    for name, pod in survey.view.pods.items():
        workload = None if pod.finished else _kueue_workload(survey, name, pod, by_owner)
        if workload is not None:
            pods[name[0], workload.metadata.name or ""].append(pod)
    for key, own in pods.items():
        values = [pod.spec.priority or 0 for pod in own]
        workload = workloads[key]
        yield _Queued(workload, own, workload.spec.priority or 0, min(values), max(values))


def bare_pod_victims(survey: Survey) -> Iterator[AuditFinding]:
    """Find, for each namespace, running pods without a controller that a class in use can preempt."""
    preempting = [use for use in survey.stored if effective_policy(use.policy) != NEVER]
    values = [use.priority or 0 for use in preempting]
    top = max((value for value in values if value <= HIGHEST_USER_PRIORITY), default=None)
    bare: dict[str, list[Pod]] = defaultdict(list)
    for pod in survey.uncontrolled:
        leaving = pod.metadata.deletionTimestamp is not None
        below = top is not None and (pod.spec.priority or 0) < top
        if below and pod.spec.nodeName and not leaving and not queued_together(pod):
            bare[pod.metadata.namespace or ""].append(pod)
    for namespace, pods in bare.items():
        yield AuditFinding(
            BARE_POD_VICTIMS.finding(
                ObjectRef("v1", "Namespace", "", namespace),
                "",
                f"{count(len(pods), 'running pod')} without a controller can be preempted by "
                f"priority {top}, and would not be recreated: "
                f"{some(pod.metadata.name or '' for pod in pods)}.",
                "run them from a Job or Deployment, or use a class that is not preempted",
            ),
            "run bare pods from a Job or Deployment",
        )


def inferred_priority_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find pods that belong together by their labels and differ in priority; they are listed by role."""
    for gang in survey.inferred:
        axis = gang.divergence.priority
        parts: dict[tuple[str, int], list[str]] = defaultdict(list)
        for pod in gang.present:
            parts[role(pod), pod.spec.priority or 0].append(pod.metadata.name or "")
        differences = "; ".join(
            f"{f'{label} ' if label else ''}{priority} ({some(names)})"
            for (label, priority), names in sorted(parts.items())
        )
        names = {name for differing in axis.differing for name in differing.live}
        owners = survey.owners(pod for pod in gang.present if pod.metadata.name in names)
        fix = f"name one class in {templates_of(owners)}"
        yield AuditFinding(
            INFERRED_PRIORITY_DIFFERS.finding(
                gang.ref,
                "",
                f"most of its {count(gang.divergence.members, 'pod')} have priority {axis.expected}, "
                f"{axis.live} another: {differences}.",
                f"{fix}; then {recreate(owners)}" if owners else fix,
            )
        )


def _kueue_workload(
    survey: Survey, name: Name, pod: Pod, by_owner: dict[tuple[str, str, str], KueueWorkload]
) -> KueueWorkload | None:
    """Return the Kueue Workload of a pod: by annotation, by pod group, or through its owners."""
    workloads = survey.view.kueue_workloads
    labels = pod.metadata.labels or {}
    annotations = pod.metadata.annotations or {}
    for written in (annotations.get(KUEUE_WORKLOAD), labels.get(KUEUE_GROUP)):
        if written and (name[0], written) in workloads:
            return workloads[name[0], written]
    owners = [("Pod", name[1]), *((ref.kind, ref.name) for ref in survey.chain(pod))]
    return next((by_owner[name[0], *owner] for owner in owners if (name[0], *owner) in by_owner), None)
