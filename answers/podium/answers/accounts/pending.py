"""The reasons why a pending pod or group waits: what blocks it, and what its scheduler reported.

Verdicts that depend on the group alone (gates, minCount, divergence) come from the engine and need no nodes.
A tenant who may read one namespace therefore gets the same answer as an administrator. Lack of room is taken
from the scheduler's message: the scheduler saw the cluster when it tried.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podium.answers.accounts.model import Wait
from podium.api.core import DEFAULT_SCHEDULER, POD_SCHEDULED, PODIUM_SCHEDULER, SCHEDULER_ERROR, Pod
from podium.api.foreign import PodOwner
from podium.api.groups import GROUP_SCHEDULED, INITIALLY_SCHEDULED, PodGroup
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.groups.messages import not_counting
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.text import some

# Causes that the engine does not report.
SCHEDULER_SAYS = "SchedulerSays"
NOT_TRIED = "NotTried"
CLAIMS_UNBOUND = "ClaimsUnbound"
NO_PREEMPTION = "MayNotPreempt"
NOT_READ = "NotRead"

# The API server's reason for a scheduling gate; the engine's verdict says more about it.
_GATED = "SchedulingGated"
# The component that removes a gate, by the prefix of the gate.
_GATES: Mapping[str, str] = {
    "kueue.x-k8s.io/": "Kueue removes the gate when it admits the Workload: check kubectl get workloads"
}
_FIXES: Mapping[Blocker, str] = {
    Blocker.GROUP_MISSING: (
        "create the PodGroup, or check why it is not created (auto groups: podium controller)"
    ),
    Blocker.LEAVING: "wait until it is deleted; its controller creates another",
    Blocker.GATED: "the component that added the gate removes it; check that this component runs",
    Blocker.TOO_FEW: (
        "check why its owner has created fewer pods (a quota, a suspended Job, an admission "
        "webhook), or recreate the group with a smaller minCount"
    ),
    Blocker.NOT_JUDGED: "remove it from the pod or group, or use kube-scheduler, which supports it",
    Blocker.BROKEN_TREE: "recreate the groups below a composite group that is nearer to the root",
    Blocker.LARGE_TREE: "recreate a part of its groups below another composite group",
    Blocker.SEVERAL_SCHEDULERS: "set one schedulerName for all its pods, in their templates",
    Blocker.DIVERGENT: "set the group's class for its pods, in their templates: podium audit",
}


class Pending(NamedTuple):
    """The pending pods as stored, and the group if the query names a group.

    `divergence_fix` is the audit's fix for a group whose pods differ from it; else empty. `provisioning` are
    their unbound claims that have a selected node, each with the node. `members` are all pods of the group.
    `paused` is the owner of the group that creates no pods.
    """

    pods: Sequence[Schedulable]
    group: PodGroup | None = None
    divergence_fix: str = ""
    provisioning: Mapping[str, str] = {}
    members: Sequence[Pod] = ()
    paused: PodOwner | None = None

    @property
    def scheduler(self) -> str:
        """Return the name of the scheduler that must place the pods."""
        return self.pods[0].scheduler if self.pods else DEFAULT_SCHEDULER


class MissingInput(NamedTuple):
    """The missing input of the engine, in words (`its group was`), and the resources to read for it."""

    what: str
    resources: str


def waits(
    pending: Pending, found: PlacementTarget | Unplaceable | MissingInput | None, reserved: Iterable[Wait]
) -> Iterator[Wait]:
    """Yield the reasons, starting with the reason to address first.

    `found` is the engine's verdict, or the reason why there is none; None if the engine does not judge
    it. `reserved` are the reasons of `reservations`.
    """
    since = _since(pending)
    # Input that the engine cannot judge blocks Podium's scheduler, but no other.
    kept = isinstance(found, Unplaceable) and (
        found.cause is not Blocker.NOT_JUDGED or pending.scheduler == PODIUM_SCHEDULER
    )
    if kept:
        yield from _refused(found, pending, since)
    yield from reserved
    yield from _unbound(pending)
    wait = _scheduler_message(pending)
    if wait is not None:
        yield wait
    elif not kept and not pending.provisioning:
        yield Wait(
            cause=NOT_TRIED,
            message=f"{pending.scheduler} has not reported on it yet",
            since=since,
            fix=_is_it_running(pending.scheduler),
        )
    if not kept:
        yield from _refused(found, pending, since)
    if isinstance(found, MissingInput):
        yield Wait(
            cause=NOT_READ,
            message=f"{found.what} not read, so whether that blocks it is not known",
            fix=f"add {found.resources} to the input, or get permission to list them",
        )
    if isinstance(found, PlacementTarget) and found.preemption_barred:
        yield Wait(
            cause=NO_PREEMPTION,
            message=f"it may not preempt: {found.preemption_barred}",
            fix="it waits for free resources: wait, add nodes, or give it a class that may preempt",
        )


def _refused(
    found: PlacementTarget | Unplaceable | MissingInput | None, pending: Pending, since: str
) -> Iterator[Wait]:
    if isinstance(found, Unplaceable):
        assert found.cause is not None, "every refused target has a cause"
        message, fix = found.why, _fix(found.cause, pending)
        if found.cause is Blocker.TOO_FEW and pending.paused is not None:
            message, fix = _paused(pending.paused)
        yield Wait(cause=found.cause, message=message, since=since, fix=fix)


def _paused(owner: PodOwner) -> tuple[str, str]:
    """Return that an owner creates no pods, and what makes it create them."""
    if owner.suspended:
        return (
            f"{owner.ref} is suspended, so it creates no pods",
            "resume it; if a queue such as Kueue suspended it, wait until the queue resumes it",
        )
    field = "parallelism" if owner.ref.kind == "Job" else "number of replicas"
    return f"{owner.ref} is paused: its {field} is 0, so it creates no pods", f"raise its {field}"


def _since(pending: Pending) -> str:
    """Return since when the first pod waits: unschedulable or, without a condition, created.

    The result is empty if no pod has a time.
    """
    times = []
    for pod in pending.pods:
        condition = _condition(pod, POD_SCHEDULED)
        changed = condition.lastTransitionTime if condition is not None else None
        times.append(changed or pod.metadata.creationTimestamp or "")
    return min(filter(None, times), default="")


def _scheduler_message(pending: Pending) -> Wait | None:
    """Return the scheduler's message for the group, or else for the pods; None if there is no message."""
    conditions = [each for pod in pending.pods if (each := _condition(pod, POD_SCHEDULED)) is not None]
    for each in pending.group.conditions if pending.group is not None else ():
        if each.type in (INITIALLY_SCHEDULED, GROUP_SCHEDULED) and each.status == "False":
            return _message_of(each, pending)
    refused = [each for each in conditions if each.status == "False" and each.reason != _GATED]
    if not refused:
        return None
    # Members may get different messages in one attempt; the most frequent message is used for the group.
    messages = Counter(each.message or "" for each in refused)
    most = max(messages, key=lambda message: (bool(message), messages[message], message))
    return _message_of(next(each for each in refused if (each.message or "") == most), pending)


def _message_of(condition: Condition, pending: Pending) -> Wait:
    words = condition.message or "it found no node; the input does not hold its message"
    error = condition.reason == SCHEDULER_ERROR
    return Wait(
        cause=SCHEDULER_SAYS,
        message=f"{pending.scheduler} ({condition.reason or 'no reason given'}): {words}",
        since=condition.lastTransitionTime or "",
        fix="correct the named problem; the scheduler retries by itself"
        if error
        else _more_room_fix(words, pending),
    )


def _more_room_fix(words: str, pending: Pending) -> str:
    """Return how a pod that no node has room for gets it; a pod of a DaemonSet can have one node only."""
    owner = pending.pods[0].metadata.controller() if len(pending.pods) == 1 else None
    if owner is not None and owner.kind == "DaemonSet" and "Insufficient " in words:
        return (
            f"name a class above the pods of its node in the template of DaemonSet {owner.name}, because its "
            "pod can run on no other node"
        )
    return "the scheduler retries when the cluster changes; podium whatif shows what would make room"


def _unbound(pending: Pending) -> Iterator[Wait]:
    """Yield the claims of the pods that a provisioner must bind first."""
    if pending.provisioning:
        claims = [f"{claim} (node {node})" for claim, node in pending.provisioning.items()]
        kind = "claim" if len(claims) == 1 else "claims"
        yield Wait(
            cause=CLAIMS_UNBOUND,
            message=f"its node is chosen, and a volume is awaited for {kind} {some(claims)}",
            fix="check the claim's events and the log of its provisioner; after bindTimeoutSeconds the "
            "scheduler tries again",
        )


def _fix(cause: Blocker, pending: Pending) -> str:
    if cause is Blocker.DIVERGENT and pending.divergence_fix:
        return pending.divergence_fix
    ended = sum(each.finished for each in pending.members)
    if cause is Blocker.TOO_FEW and ended:
        live = len(pending.members) - ended
        return f"{not_counting(ended)}: lower the group's minCount to {live}"
    gates = {gate.name or "" for pod in pending.pods for gate in pod.spec.schedulingGates or ()}
    if cause is Blocker.GATED:
        for prefix, member in _GATES.items():
            if any(gate.startswith(prefix) for gate in gates):
                return member
    return _FIXES[cause]


def _is_it_running(scheduler: str) -> str:
    if scheduler == PODIUM_SCHEDULER:
        return (
            "check that podium scheduler runs and leads: its /readyz, and the metric podium_scheduler_leader"
        )
    if scheduler == DEFAULT_SCHEDULER:
        return "check that kube-scheduler runs and keeps up"
    return f"check that a scheduler named {scheduler} runs, and the spelling of spec.schedulerName"


def _condition(pod: Schedulable, kind: str) -> Condition | None:
    return pod.status.condition(kind) if pod.status is not None else None
