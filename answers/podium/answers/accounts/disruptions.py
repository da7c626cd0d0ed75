"""Find the actor that removed a pod: the scheduler, a kubelet, the eviction API or another.

Three sources may describe one eviction: the condition DisruptionTarget of a stored pod, an event, which lives
for an hour, and Podium's own record. Sources that describe the same victim are merged. Reasons are those of
Kubernetes (core/v1; kubelet preemption, eviction and nodeshutdown; scheduler executor).

The caller decides which names a reader may see: `known` says for which namespaces names may be shown. For
other namespaces only UIDs are shown, whatever their source.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

import msgspec

from podium.answers.accounts.model import By, Departure, EvictionPreemptor, Gain, Of
from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER
from podium.api.events import CANNOT_EVICT, NOT_EVICTED, PREEMPTED, PREEMPTED_BY, PREEMPTOR, Event
from podium.api.groups import PodGroup
from podium.api.meta import Condition, instant
from podium.api.records import CLUSTER, Party, PlanMode, PreemptionRecord, RecordedPlan, Result
from podium.api.schedulable import EVICTED, Schedulable
from podium.api.times import written
from podium.documents.reading import Known, Past
from podium.history.evictioncycles import Identity
from podium.history.records import identity
from podium.planner.preemption.inflight import BY_SCHEDULER, DISRUPTION_TARGET, preempts

_CONDITION, _EVENT, _RECORD = "condition", "event", "record"
_STATUS, _DELETION = "status.reason", "deletionTimestamp"
# Sources in the pod itself, which exist only as long as the pod.
STORED = frozenset((_CONDITION, _STATUS, _DELETION))
# After marking a group, the scheduler deletes its pods within this time if the API server answers.
_DELETES = timedelta(minutes=2)
_CANCELLED = "Cancelling"
# Reasons of DisruptionTarget other than those of the scheduler and the kubelet.
_REASONS: Mapping[str, By] = {
    "EvictionByEvictionAPI": By.EVICTION_API,
    "DeletionByTaintManager": By.TAINT_MANAGER,
    "DeletionByPodGC": By.POD_GC,
}
_KUBELET = "TerminationByKubelet"
# The value that a kubelet writes into status.reason, and into the reason of its events, when it ends a pod.
_KUBELET_REASONS: Mapping[str, By] = {
    EVICTED: By.KUBELET_PRESSURE,
    "Preempting": By.KUBELET_CRITICAL,
    "Terminated": By.KUBELET_SHUTDOWN,
    "NodeShutdown": By.KUBELET_SHUTDOWN,
}
# The kubelet's messages on pods that exceed their own limits; otherwise their node ran short.
_LIMITS = ("exceeded its local ephemeral storage limit", "exceeds the total limit", "exceeds the limit")
EVENT_REASONS: Mapping[str, By] = {
    EVICTED: By.KUBELET_PRESSURE,
    "Preempting": By.KUBELET_CRITICAL,
    "TaintManagerEviction": By.TAINT_MANAGER,
}
_EVICTED = (By.KUBELET_PRESSURE, By.KUBELET_LIMIT)
_KINDS = {"pod": "Pod", "podgroup": "PodGroup", "compositepodgroup": "CompositePodGroup"}


class Victim(NamedTuple):
    """A pod or group that events and records may mention, and its workload.

    `of` is its relation to the queried object.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    workload: Identity | None = None
    of: Of = Of.ITSELF


class _Trace(NamedTuple):
    """The account of one eviction by one source.

    `key` is the victim's UID, or its name if the UID is unknown.
    """

    key: str
    source: str
    time: str
    by: By
    of: Of
    pods: tuple[str, ...]
    scheduler: str = ""
    preemptor: EvictionPreemptor | None = None
    node: str = ""
    message: str = ""
    saving: str = ""


def departures(  # noqa: PLR0917 - stored objects, query, history, access
    pods: Iterable[Schedulable],
    group: PodGroup | None,
    victims: Iterable[Victim],
    past: Past,
    known: Known,
    name_of: Callable[[str], EvictionPreemptor | None],
) -> tuple[Departure, ...]:
    """Return the evictions of the queried pods and groups, newest first.

    `pods` and their `group` are those still stored; `victims` are these and the other queried objects.
    `name_of` finds a preemptor by its UID among the objects read.
    """
    pods, victims = tuple(pods), tuple(victims)
    failures = {pod.metadata.name or "": after_failure(pod) for pod in pods}
    traces = [trace for pod in pods if (trace := _of_pod(pod, group)) is not None]
    traces += _of_group(group, victims)
    traces += [trace for event in past.events if (trace := _of_event(event, victims)) is not None]
    traces += [trace for plan in _plans(past.records) for trace in _of_plan(plan, victims, known)]
    evictions = [_departure(merged, known, name_of, failures) for merged in _alike(_one_each(traces))]
    return tuple(
        sorted(evictions, key=lambda eviction: (eviction.time, eviction.by, eviction.pods), reverse=True)
    )


def gains(victims: Iterable[Victim], records: Iterable[PreemptionRecord]) -> tuple[Gain, ...]:
    """Return the preemptions that Podium planned for these objects, newest first, without victims' names."""
    victims = tuple(victims)
    preemptions = [
        Gain(
            time=plan.time,
            mode=plan.mode,
            result=plan.result,
            units=plan.unitCount,
            pods=plan.podCount,
            message=plan.message if plan.result != Result.FAILED else _without_names(plan.message),
            workLost=plan.acceleratorSeconds,
            workSaved=plan.acceleratorSecondsSaved,
            asked=plan.askedPods,
            saved=plan.savedPods,
            waitedMilliseconds=plan.waitedMilliseconds,
        )
        for plan in _plans(records)
        if _related(plan.preemptor, victims) in (Of.ITSELF, Of.GROUP)
    ]
    return tuple(sorted(preemptions, key=lambda gain: gain.time, reverse=True))


def _without_names(message: str) -> str:
    """Return why a preemption failed, without the API server's words, which name victims."""
    if CANNOT_EVICT in message:
        return f"a pod {CANNOT_EVICT.rstrip(': ')}"
    return "the API server did not take all of it" if "/namespaces/" in message else message


def named(party: Party, known: Known) -> EvictionPreemptor:
    """Return the party of a record as a preemptor, with its UID only if the reader may not see its name."""
    if not known(party.namespace):
        return EvictionPreemptor(kind=party.kind, uid=party.uid, priority=party.priority)
    return EvictionPreemptor(
        kind=party.kind, namespace=party.namespace, name=party.name, uid=party.uid, priority=party.priority
    )


def _of_pod(pod: Schedulable, group: PodGroup | None) -> _Trace | None:
    """Return the trace of a stored pod's condition.

    A pod that is being deleted and has no condition uses the condition of its group. None if the pod shows no
    disruption.
    """
    name, status = pod.metadata.name or "", pod.status
    condition = status.condition(DISRUPTION_TARGET) if status is not None else None
    reason = (status.reason if status is not None else None) or ""
    message = (status.message if status is not None and reason == EVICTED else None) or ""
    trace = _Trace(
        pod.metadata.uid or name, _CONDITION, "", By.OTHER, Of.ITSELF, (name,), node=pod.spec.nodeName or ""
    )._replace(message=message.strip())
    if condition is not None and condition.status == "True":
        return _of_condition(condition, trace, reason)
    if pod.finished and reason in _KUBELET_REASONS:
        # The kubelet is older than 1.26, or the condition was removed later.
        return trace._replace(source=_STATUS, by=_by_kubelet(reason, message))
    if pod.metadata.deletionTimestamp is not None:
        mark = (
            next((group_condition for group_condition in group.conditions if preempts(group_condition)), None)
            if group is not None
            else None
        )
        if mark is not None and _deleted_after(pod, mark):
            return _of_condition(mark, trace, reason)
        return trace._replace(source=_DELETION, time=pod.metadata.deletionTimestamp, by=By.DELETED)
    return None


def _deleted_after(pod: Schedulable, mark: Condition) -> bool:
    """Return whether the mark on its group is the reason for a pod's deletion.

    It is if the deletion began within two minutes after the mark.
    """
    try:
        ends = instant(pod.metadata.deletionTimestamp or "")
        since = ends - timedelta(seconds=pod.metadata.deletionGracePeriodSeconds or 0)
        return timedelta() <= since - instant(mark.lastTransitionTime or "") <= _DELETES
    except (msgspec.ValidationError, OverflowError):
        return False


def _of_group(group: PodGroup | None, victims: Iterable[Victim]) -> Iterator[_Trace]:
    """Yield the trace of a group's condition, which outlives its pods until the group is scheduled again."""
    for condition in group.conditions if group is not None else ():
        if group is not None and (condition.type, condition.status) == (DISRUPTION_TARGET, "True"):
            ref = group.ref
            party = Party("PodGroup", ref.namespace, ref.name, group.metadata.uid or "")
            of = _related(party, victims, by_workload=False)
            assert of is not None, "a stored group is among the victims"
            yield _of_condition(
                condition, _Trace(party.uid or ref.name, _CONDITION, "", By.OTHER, of, ()), ""
            )


def _of_condition(condition: Condition, trace: _Trace, reason: str) -> _Trace:
    """Return the trace of a DisruptionTarget.

    `reason` is the pod's own status.reason, which tells kubelet evictions apart.
    """
    message = condition.message or trace.message
    trace = trace._replace(time=condition.lastTransitionTime or "", message=message)
    if condition.reason == BY_SCHEDULER:
        scheduler, colon, _ = message.partition(": preempting")
        match = PREEMPTOR.search(message)
        preemptor = _of_text(match[1], match[2], match[3]) if match else None
        name = scheduler if colon else ""
        # Only Podium names the preemptor in the message, whatever its schedulerName is.
        by = By.PODIUM if match else _scheduler(name)
        return trace._replace(by=by, scheduler=name, preemptor=preemptor)
    if condition.reason == _KUBELET:
        return trace._replace(by=_by_kubelet(reason, message))
    by = _REASONS.get(condition.reason or "", By.OTHER)
    return trace._replace(by=by, message=message or condition.reason or "")


def _of_text(kind: str, uid: str, name: str | None) -> EvictionPreemptor:
    """Return the preemptor of a message; `name` is `NAMESPACE/NAME`, None for one of another namespace."""
    namespace, _, own = (name or "").partition("/")
    return EvictionPreemptor(kind=_KINDS.get(kind.lower(), kind), namespace=namespace, name=own, uid=uid)


def _by_kubelet(reason: str, message: str) -> By:
    """Return the kind of a kubelet's eviction by the reason and message of the kubelet."""
    if reason == EVICTED and any(limit in message for limit in _LIMITS):
        return By.KUBELET_LIMIT
    return _KUBELET_REASONS.get(reason, By.KUBELET)


def _of_event(event: Event, victims: Iterable[Victim]) -> _Trace | None:
    """Return the trace of an event, or None if it reports no eviction of a victim."""
    about, message = event.involvedObject, event.message or ""
    party = Party(about.kind or "", about.namespace or "", about.name or "", about.uid or "")
    # An event does not name the workload of its object.
    of = _related(party, victims, by_workload=False)
    if of is None:
        return None
    pods = (party.name,) if party.kind == "Pod" else ()
    time = _second(event.time)
    trace = _Trace(party.uid or party.name, _EVENT, time, By.OTHER, of, pods, message=message)
    if event.reason == PREEMPTED:
        match = PREEMPTED_BY.match(message)
        if match is not None:
            preemptor = _of_text(match[1], match[2], match[4])
            trace = trace._replace(preemptor=preemptor, node=_node(match[3]))
        return trace._replace(by=_scheduler(event.reporter), scheduler=event.reporter)
    if event.reason == NOT_EVICTED:
        return trace._replace(key=f"{trace.key}/refused", by=By.PODIUM_REFUSED, scheduler=event.reporter)
    by = EVENT_REASONS.get(event.reason or "")
    if by is None or message.startswith(_CANCELLED):
        return None
    return trace._replace(by=_by_kubelet(EVICTED, message) if event.reason == EVICTED else by)


def _of_plan(plan: RecordedPlan, victims: Iterable[Victim], known: Known) -> Iterator[_Trace]:
    """Yield the traces of a plan that evicted a victim or would have."""
    if plan.mode not in (PlanMode.ENFORCED, PlanMode.OBSERVED):
        return
    failed = "the preemption failed before its end, so the pod may still run"
    refused, refusal, _ = plan.message.partition(f" {CANNOT_EVICT}")
    for unit in plan.units:
        of = _related(unit, victims)
        if of is not None:
            pods = (unit.name,) if unit.kind == "Pod" else ()
            key, by = unit.uid or unit.name, By.PODIUM
            preempting = named(plan.preemptor, known)
            message = failed if plan.result == Result.FAILED else ""
            if plan.mode == PlanMode.OBSERVED:
                key, by = f"{key}/observed", By.PODIUM_OBSERVED
            elif message and refusal and refused.startswith(f"pod {unit.namespace}/"):
                key, by, message = f"{key}/refused", By.PODIUM_REFUSED, plan.message
            yield _Trace(
                key,
                _RECORD,
                plan.time,
                by,
                of,
                pods,
                preemptor=preempting,
                node=_node(plan.domain),
                message=message,
                saving=unit.saving,
            )


def _related(party: Party, victims: Iterable[Victim], *, by_workload: bool = True) -> Of | None:
    """Return the relation of a party to the queried objects, or None if it has none."""
    relation: Of | None = None
    for victim in victims:
        if (victim.kind, victim.namespace, victim.name) == (party.kind, party.namespace, party.name):
            if not victim.uid or not party.uid or victim.uid == party.uid:
                return victim.of
            relation = Of.EARLIER
        elif by_workload and relation is None and victim.workload == identity(party):
            relation = Of.WORKLOAD
    return relation


def _second(time: str) -> str:
    """Return the time cut to the second, as in conditions and records.

    A text that is not a time is unchanged.
    """
    try:
        return written(instant(time))
    except (msgspec.ValidationError, OverflowError):
        return time


def _node(domain: str) -> str:
    return "" if domain == CLUSTER else domain


def _one_each(traces: Iterable[_Trace]) -> Iterator[tuple[_Trace, ...]]:
    """Yield the traces grouped by eviction, from all sources.

    A pod is evicted once. A group can be evicted several times, so its traces must also have the same
    preemptor.
    """
    by_eviction: dict[tuple[str, ...], list[_Trace]] = {}
    for trace in traces:
        preempting = trace.preemptor.uid if trace.preemptor is not None and not trace.pods else ""
        by_eviction.setdefault((trace.key, preempting), []).append(trace)
    yield from map(tuple, by_eviction.values())


def _alike(evictions: Iterable[tuple[_Trace, ...]]) -> Iterator[tuple[_Trace, ...]]:
    """Yield the evictions merged by preemptor, or by actor within a minute."""
    by_preemptor: dict[tuple[str, ...], list[_Trace]] = {}
    for traces in evictions:
        uid = next((trace.preemptor.uid for trace in traces if trace.preemptor is not None), "")
        first = _earliest(traces)
        by_preemptor.setdefault((_by(traces), uid or first.time[:16]), []).extend(traces)
    yield from map(tuple, by_preemptor.values())


def _departure(
    traces: tuple[_Trace, ...],
    known: Known,
    name_of: Callable[[str], EvictionPreemptor | None],
    failures: Mapping[str, str],
) -> Departure:
    """Return the departure of alike traces; `failures` says what to do about failed pods, by name."""
    first, by = _earliest(traces), _by(traces)
    preemptors = [trace.preemptor for trace in traces if trace.preemptor is not None]
    # A record knows the priority too.
    preemptor = max(
        preemptors, key=lambda candidate: (bool(candidate.name), candidate.priority is not None), default=None
    )
    if preemptor is not None and (not preemptor.name or preemptor.priority is None):
        identified = name_of(preemptor.uid)
        if identified is not None and known(identified.namespace):
            preemptor = msgspec.structs.replace(
                identified, priority=identified.priority or preemptor.priority
            )
    scheduler = next((trace.scheduler for trace in traces if trace.scheduler), "")
    # A message from the object itself comes before a message about it.
    message = next((trace.message for trace in traces if trace.message), "")
    cause = message.partition(". ")[0].rstrip(".") if by in _EVICTED else ""
    names = tuple(sorted({pod for trace in traces for pod in trace.pods}))
    stored = {pod for trace in traces if trace.source in STORED for pod in trace.pods}
    after = sorted({failures[name] for name in stored if failures.get(name)})
    words = WORDS[by].format(scheduler=f"scheduler {scheduler}" if scheduler else "a scheduler")
    return Departure(
        time=first.time,
        by=by,
        of=min((trace.of for trace in traces), key=tuple(Of).index),
        words=f'{words} ("{cause}")' if cause else words,
        scheduler=scheduler,
        preemptor=preemptor,
        pods=names,
        node=next((trace.node for trace in traces if trace.node), ""),
        message=message,
        # A failure is found before a success.
        saving=min((trace.saving for trace in traces if trace.saving), default=""),
        told=tuple(dict.fromkeys(trace.source for trace in traces)),
        fix="; ".join((*after, FIXES[by])),
    )


def _earliest(traces: tuple[_Trace, ...]) -> _Trace:
    """Return the trace with the earliest time; traces without a time come last."""
    return min(traces, key=lambda trace: (not trace.time, trace.time))


def _by(traces: Iterable[_Trace]) -> By:
    """Return the most specific actor; `Deleted` and `Scheduler` are the least specific."""
    least = (By.DELETED, By.SCHEDULER, By.KUBELET, By.OTHER)
    sources = [trace.by for trace in traces]
    return max(sources, key=lambda by: least.index(by) if by in least else len(least))


def _scheduler(name: str) -> By:
    return {PODIUM_SCHEDULER: By.PODIUM, DEFAULT_SCHEDULER: By.KUBE_SCHEDULER}.get(name, By.SCHEDULER)


def _plans(records: Iterable[PreemptionRecord]) -> Iterator[RecordedPlan]:
    return (plan for record in records for plan in record.plans)


# `it` is the pod or group; {scheduler} is the name of the scheduler.
WORDS: Mapping[By, str] = {
    By.PODIUM: "Podium's scheduler preempted it",
    By.PODIUM_OBSERVED: "Podium's scheduler would have preempted it",
    By.PODIUM_REFUSED: "Podium's scheduler could not evict it",
    By.KUBE_SCHEDULER: "kube-scheduler preempted it",
    By.SCHEDULER: "{scheduler} preempted it",
    By.EVICTION_API: "it was evicted through the eviction API",
    By.KUBELET_PRESSURE: "the kubelet evicted it because its node ran short of a resource",
    By.KUBELET_LIMIT: "the kubelet evicted it because it used more storage than its limit",
    By.KUBELET_CRITICAL: "the kubelet preempted it for a critical pod",
    By.KUBELET_SHUTDOWN: "the kubelet terminated it because its node shut down",
    By.KUBELET: "the kubelet terminated it",
    By.TAINT_MANAGER: "the taint manager deleted it",
    By.POD_GC: "the pod garbage collector deleted it",
    By.OTHER: "it was disrupted",
    By.DELETED: "it was deleted; its grace period is running",
}
_AGAIN = "its controller, if any, creates a replacement, which waits in the queue"
_PRIORITY_HINT = "podium whatif --victim shows which priority preempts it"
FIXES: Mapping[By, str] = {
    By.PODIUM: f"{_AGAIN}; a higher class or a preemption toleration protects it: {_PRIORITY_HINT}",
    By.PODIUM_OBSERVED: "no pod was deleted: the scheduler runs with `preemption: observe`",
    By.PODIUM_REFUSED: (
        "the scheduler plans without it for a while; if it should go, end what refuses the deletion, "
        "such as an admission policy, a webhook or annotations up to the size limit"
    ),
    By.KUBE_SCHEDULER: f"{_AGAIN}; a higher class protects it: {_PRIORITY_HINT}",
    By.SCHEDULER: f"{_AGAIN}; a higher class protects it: {_PRIORITY_HINT}",
    By.EVICTION_API: (
        "a client requested it (kubectl drain, an autoscaler, a descheduler): the API server's "
        "audit log names the client, and a PodDisruptionBudget limits the number at a time"
    ),
    By.KUBELET_PRESSURE: (
        "its node ran out of memory, disk or PIDs: request what the pod uses. Pods that use more "
        "than they request are evicted first, whatever their priority"
    ),
    By.KUBELET_LIMIT: (
        "it wrote more than its limit of ephemeral storage, or than the sizeLimit of an emptyDir: raise the "
        "limit, or write less. Its priority does not matter"
    ),
    By.KUBELET_CRITICAL: (
        "a static or critical system pod needed its resources on that node: reserve more for "
        "system pods there"
    ),
    By.KUBELET_SHUTDOWN: "the pod is not the cause: check why the node was shut down",
    By.KUBELET: "kubectl describe pod and the events of its node give the reason",
    By.TAINT_MANAGER: (
        "its node has a NoExecute taint that it does not tolerate, or no longer tolerates (not "
        "ready, unreachable, set by hand): check the node"
    ),
    By.POD_GC: "its node no longer exists, or the pod was orphaned on it: check the node pool",
    By.OTHER: "check the component that set the condition DisruptionTarget",
    By.DELETED: "a client or its controller deleted it: the API server's audit log names which",
}
# The next step for a failed pod, by the kind of its controller. A Job's podFailurePolicy is not read.
_AFTER: Mapping[str, str] = {
    "": "no controller replaces it: delete it, and create it again",
    "ReplicaSet": "its ReplicaSet creates another; if none came, delete this one",
    "ReplicationController": "its ReplicationController creates another; if none came, delete this one",
    "StatefulSet": "its StatefulSet deletes it and creates another",
    "DaemonSet": "its DaemonSet deletes it and creates another",
    "Job": "its Job counts a failure, unless its podFailurePolicy ignores it, and creates another up to its "
    "backoffLimit",
    "Node": "it is the mirror of a static pod: check the kubelet of its node",
}


def after_failure(pod: Schedulable) -> str:
    """Return what to do about a failed pod that is still stored; empty for any other pod.

    A ReplicaSet does not count failed pods. A StatefulSet or DaemonSet deletes them.
    """
    if pod.status is None or pod.status.phase != "Failed" or pod.metadata.deletionTimestamp is not None:
        return ""
    controller = pod.metadata.controller()
    kind = controller.kind if controller is not None else ""
    return f"it does not start again: {_AFTER.get(kind, f'delete it, so that its {kind} creates another')}"
