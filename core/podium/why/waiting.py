"""The reasons why a pending pod or group waits: what blocks it, and what its scheduler reported.

Verdicts that depend on the group alone (gates, minCount, divergence) come from the engine and need no nodes.
A tenant who may read one namespace therefore gets the same answer as an administrator. Lack of room is taken
from the scheduler's message: the scheduler saw the cluster when it tried.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER, Pod
from podium.api.groups import GROUP_SCHEDULED, INITIALLY_SCHEDULED, PodGroup
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.schedulerplugin.preemption.intents import is_leaving, stored
from podium.schedulerplugin.preemption.target import Cause, Refused, Wanted
from podium.schedulerplugin.scheduling.conditions import POD_SCHEDULED, SCHEDULER_ERROR
from podium.why.account import Wait
from podium.wording import count, some

# Causes that the engine does not report.
SCHEDULER_SAYS = "SchedulerSays"
NOT_TRIED = "NotTried"
RESERVED_NODE = "NodeReserved"
NO_PREEMPTION = "MayNotPreempt"
NOT_READ = "NotRead"

# The API server's reason for a scheduling gate; the engine's verdict says more about it.
_GATED = "SchedulingGated"
# The component that removes a gate, by the prefix of the gate.
_GATES: Mapping[str, str] = {
    "kueue.x-k8s.io/": "Kueue takes it away when it admits the Workload: see kubectl get workloads",
}
_FIXES: Mapping[Cause, str] = {
    Cause.GROUP_MISSING: "make the PodGroup, or see why it is not made (auto groups: podium controller)",
    Cause.LEAVING: "wait until it has gone; what made it makes another",
    Cause.GATED: "whoever put the gate there takes it away; see that this component runs",
    Cause.TOO_FEW: (
        "see why its owner has made fewer pods (a quota, a suspended Job, an admission webhook), or make the "
        "group anew with a smaller minCount"
    ),
    Cause.NOT_JUDGED: "take it out of the pod or group, or leave them to kube-scheduler, which judges it",
    Cause.SEVERAL_SCHEDULERS: "give all its pods one schedulerName, in the templates that make them",
    Cause.DIVERGENT: "give its pods the group's class, in the templates that make them: podium audit",
}


class Pending(NamedTuple):
    """The pending pods as stored, and the group if the query names a group."""

    pods: Sequence[Schedulable]
    group: PodGroup | None = None

    @property
    def scheduler(self) -> str:
        """Return the name of the scheduler that must place the pods."""
        return self.pods[0].scheduler if self.pods else DEFAULT_SCHEDULER


class Unread(NamedTuple):
    """The missing input of the engine, in words (`its group was`), and the resources to read for it."""

    what: str
    resources: str


def waits(
    pending: Pending, found: Wanted | Refused | Unread, there: Mapping[str, Sequence[Pod]]
) -> Iterator[Wait]:
    """Yield the reasons, starting with the reason to address first.

    `found` is the engine's verdict, or the reason why there is none. `there` are the pods that were read, by
    node.
    """
    since = _since(pending)
    # Input that the engine cannot judge blocks Podium's scheduler, but no other.
    kept = isinstance(found, Refused) and (
        found.cause is not Cause.NOT_JUDGED or pending.scheduler == PODIUM_SCHEDULER
    )
    if kept:
        yield from _refused(found, pending, since)
    yield from _reserved(pending, there)
    said = _said(pending)
    if said is not None:
        yield said
    elif not kept:
        yield Wait(
            cause=NOT_TRIED,
            message=f"no scheduler has said anything of it; it is for {pending.scheduler}",
            since=since,
            fix=_is_it_running(pending.scheduler),
        )
    if not kept:
        yield from _refused(found, pending, since)
    if isinstance(found, Unread):
        yield Wait(
            cause=NOT_READ,
            message=f"{found.what} not read: whether that keeps it waiting is not known",
            fix=f"have {found.resources} in the input, or the right to list them",
        )
    if isinstance(found, Wanted) and found.barred:
        yield Wait(
            cause=NO_PREEMPTION,
            message=f"nobody may be evicted for it: {found.barred}",
            fix="it waits for free room: wait, add nodes, or give it a class that may preempt",
        )


def _refused(found: Wanted | Refused | Unread, pending: Pending, since: str) -> Iterator[Wait]:
    if isinstance(found, Refused):
        assert found.cause is not None, "whoever is asked about is refused for a cause"
        yield Wait(cause=found.cause, message=found.why, since=since, fix=_fix(found.cause, pending.pods))


def _since(pending: Pending) -> str:
    """Return since when the first pod waits: unschedulable or, without a condition, created.

    The result is empty if no pod has a time.
    """
    times = []
    for pod in pending.pods:
        condition = _condition(pod, POD_SCHEDULED)
        told = condition.lastTransitionTime if condition is not None else None
        times.append(told or pod.metadata.creationTimestamp or "")
    return min(filter(None, times), default="")


def _said(pending: Pending) -> Wait | None:
    """Return the scheduler's message for the group, or else for the pods; None if there is no message."""
    conditions = [each for pod in pending.pods if (each := _condition(pod, POD_SCHEDULED)) is not None]
    for each in pending.group.conditions if pending.group is not None else ():
        if each.type in (INITIALLY_SCHEDULED, GROUP_SCHEDULED) and each.status == "False":
            return _told(each, pending)
    refused = [each for each in conditions if each.status == "False" and each.reason != _GATED]
    if not refused:
        return None
    # Members may get different messages in one attempt; the most frequent message is used for the group.
    messages = Counter(each.message or "" for each in refused)
    most = max(messages, key=lambda message: (bool(message), messages[message], message))
    return _told(next(each for each in refused if (each.message or "") == most), pending)


def _told(condition: Condition, pending: Pending) -> Wait:
    words = condition.message or "it found no place; its words were not in what was read"
    error = condition.reason == SCHEDULER_ERROR
    return Wait(
        cause=SCHEDULER_SAYS,
        message=f"{pending.scheduler} ({condition.reason or 'no reason given'}): {words}",
        since=condition.lastTransitionTime or "",
        fix="correct what it names; it tries again by itself"
        if error
        else "it tries again by itself when something changes; podium whatif says what it would take",
    )


def _reserved(pending: Pending, there: Mapping[str, Sequence[Pod]]) -> Iterator[Wait]:
    """Yield the nodes that are reserved for the pods, and the pods that must leave them first."""
    nodes = sorted({node for pod in pending.pods if (node := stored(pod))})
    if not nodes:
        return
    leaving = [
        pod
        for node in nodes
        for pod in there.get(node, ())
        if isinstance(pod, Schedulable) and is_leaving(pod)
    ]
    going = f"; {count(len(leaving), 'pod')} there {_are(leaving)} leaving" if leaving else ""
    kind = "node" if len(nodes) == 1 else "nodes"
    yield Wait(
        cause=RESERVED_NODE,
        message=f"a preemption is under way for it: {kind} {some(nodes)} reserved{going}",
        fix="wait until the victims end, as long as their grace periods are",
    )


def _fix(cause: Cause, pods: Sequence[Pod]) -> str:
    gates = {gate.name or "" for pod in pods for gate in pod.spec.schedulingGates or ()}
    if cause is Cause.GATED:
        for prefix, whose in _GATES.items():
            if any(gate.startswith(prefix) for gate in gates):
                return whose
    return _FIXES[cause]


def _is_it_running(scheduler: str) -> str:
    if scheduler == PODIUM_SCHEDULER:
        return "see that podium scheduler runs and leads: its /readyz, and the metric podium_scheduler_leader"
    if scheduler == DEFAULT_SCHEDULER:
        return "see that kube-scheduler runs and keeps up"
    return f"see that a scheduler of the name {scheduler} runs: spec.schedulerName may be misspelt"


def _are(pods: Sequence[Pod]) -> str:
    return "is" if len(pods) == 1 else "are"


def _condition(pod: Schedulable, kind: str) -> Condition | None:
    return pod.status.condition(kind) if pod.status is not None else None
