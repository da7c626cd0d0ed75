"""The reasons why a pending pod or group waits: what blocks it, and what its scheduler reported.

Verdicts that depend on the group alone (gates, minCount, divergence) come from the engine and need no nodes.
A tenant who may read one namespace therefore gets the same answer as an administrator. Lack of room is taken
from the scheduler's message: the scheduler saw the cluster when it tried.

Resource claims that a pod cannot use on any node are judged by the rules of the scheduler
(`podium.api.podclaims`, `devices.needs`), whose texts name no remedy. Claims are in the pod's namespace, and
a kind that was not read gives no reason. If devices are short, the pods of a group are placed as far as they
fit, and the first pod that does not fit is explained.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from podium.answers.accounts.model import ExcludedDevices, NodeDevices, RequestDevices, Wait
from podium.api.core import DEFAULT_SCHEDULER, POD_SCHEDULED, PODIUM_SCHEDULER, SCHEDULER_ERROR, Pod
from podium.api.devices import MAX_CONSUMERS, ResourceClaim
from podium.api.groups import (
    COMPOSITE_ERROR,
    COMPOSITE_INITIALLY_SCHEDULED,
    FIRST_SCHEDULED,
    GROUP_ERROR,
    PodGroup,
)
from podium.api.membership import key_of
from podium.api.meta import Condition
from podium.api.podclaims import (
    EntryClaim,
    claim_refusal,
    consumer_uids,
    crowded_claims,
    entry_claims,
    takes_consumer,
)
from podium.api.podkinds.kind import PodOwner
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader, Name, Target, group_of, name_of
from podium.groups.divergence import not_counting
from podium.planner.engine import Engine
from podium.planner.plugins.devices.claims import claim_key, class_refusal, node_of
from podium.planner.plugins.devices.filter import UNAVAILABLE
from podium.planner.plugins.devices.gates import default_gates
from podium.planner.plugins.devices.plugin import DevicesPlugin
from podium.planner.plugins.devices.shortage import (
    DeviceExaminer,
    DeviceNode,
    DeviceShortage,
    DeviceTally,
    RequestShortage,
    explain_shortage,
)
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.planner.shapes import Shape
from podium.text import count, some

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
# The reasons of conditions for what cannot be evaluated, with the remedy.
_GROUP_FIX = (
    "correct the pods that the message names, or recreate its groups: most of their fields are immutable. "
    "podium audit lists all groups that do not match"
)
_ERRORS: Mapping[str, str] = {
    SCHEDULER_ERROR: "correct the named problem; the scheduler retries by itself",
    GROUP_ERROR: _GROUP_FIX,
    COMPOSITE_ERROR: _GROUP_FIX,
}
# The beginnings of messages of kube-scheduler 1.38 that only name the group that has the reason.
_POINTS = re.compile(
    r'(?:ancestor composite pod group|parent pod group) "[^"]*" (?:is unschedulable|encountered an error)'
)
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
    `paused` is the owner of the group that creates no pods. `tree` are the group of the pods and its
    ancestors, nearest first, then the other groups of their tree.
    """

    pods: Sequence[Schedulable]
    group: Child | None = None
    divergence_fix: str = ""
    provisioning: Mapping[str, str] = {}
    members: Sequence[Pod] = ()
    paused: PodOwner | None = None
    tree: Sequence[Child] = ()

    @property
    def scheduler(self) -> str:
        """Return the name of the scheduler that must place the pods."""
        return self.pods[0].scheduler if self.pods else DEFAULT_SCHEDULER


class MissingInput(NamedTuple):
    """The missing input of the engine, in words (`its group was`), and the resources to read for it."""

    what: str
    resources: str


def waits(
    pending: Pending, verdict: PlacementTarget | Unplaceable | MissingInput | None, reserved: Iterable[Wait]
) -> Iterator[Wait]:
    """Yield the reasons, starting with the reason to address first.

    `verdict` is the engine's, or the reason why there is none; None if the engine does not judge
    it. `reserved` are the reasons of `reservations`.
    """
    since = _since(pending)
    # Input that the engine cannot judge blocks Podium's scheduler, but no other.
    kept = isinstance(verdict, Unplaceable) and (
        verdict.cause is not Blocker.NOT_JUDGED or pending.scheduler == PODIUM_SCHEDULER
    )
    if kept:
        yield from _refused(verdict, pending, since)
    yield from reserved
    yield from _unbound(pending)
    said = _scheduler_messages(pending)
    yield from said
    if not said and not kept and not pending.provisioning:
        yield Wait(
            cause=NOT_TRIED,
            message=f"{pending.scheduler} has not reported on it yet",
            since=since,
            fix=_is_it_running(pending.scheduler),
        )
    if not kept:
        yield from _refused(verdict, pending, since)
    if isinstance(verdict, MissingInput):
        yield Wait(
            cause=NOT_READ,
            message=f"{verdict.what} not read, so whether that blocks it is not known",
            fix=f"add {verdict.resources} to the input, or get permission to list them",
        )
    if isinstance(verdict, PlacementTarget) and verdict.preemption_barred:
        yield Wait(
            cause=NO_PREEMPTION,
            message=f"it may not preempt: {verdict.preemption_barred}",
            fix="it waits for free resources: wait, add nodes, or give it a class that may preempt",
        )


def _refused(
    verdict: PlacementTarget | Unplaceable | MissingInput | None, pending: Pending, since: str
) -> Iterator[Wait]:
    if isinstance(verdict, Unplaceable):
        assert verdict.cause is not None, "every refused target has a cause"
        message, fix = verdict.why, _fix(verdict.cause, pending)
        if verdict.cause is Blocker.TOO_FEW and pending.paused is not None:
            message, fix = _paused(pending.paused)
        yield Wait(cause=verdict.cause, message=message, since=since, fix=fix)


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


def _scheduler_messages(pending: Pending) -> list[Wait]:
    """Return the scheduler's messages: on the group, else on the pods, else on the groups of their tree.

    kube-scheduler 1.38 gives pods and groups messages that only name the group which has the reason. If that
    is a composite group, the reason of its first group without room follows.
    """
    own = _refusal(pending.group) if pending.group is not None else None
    pods = _usual_refusal(pending.pods)
    said = [(condition, "") for condition in (own, pods) if condition is not None]
    if not said:
        return []
    others = [group for group in pending.tree if group is not pending.group]
    told = [
        (refused, f" on {group.ref}", group) for group in others if (refused := _refusal(group)) is not None
    ]
    reasons = [*said, *((refused, where) for refused, where, _ in told)]
    first = next((reason for reason in reasons if not _POINTS.match(reason[0].message or "")), said[0])
    messages = [first]
    if first[0].type == COMPOSITE_INITIALLY_SCHEDULED and first[0].reason not in _ERRORS:
        messages += (
            (refused, where)
            for refused, where, group in told
            if isinstance(group, PodGroup) and not _POINTS.match(refused.message or "")
        )
    return [_message_of(condition, where, pending) for condition, where in messages[:2]]


def _refusal(group: Child) -> Condition | None:
    """Return the condition of a group that was never scheduled, None if its scheduler set none."""
    refused = (
        stored for stored in group.conditions if stored.type in FIRST_SCHEDULED and stored.status == "False"
    )
    return next(refused, None)


def _usual_refusal(pods: Iterable[Schedulable]) -> Condition | None:
    """Return the most frequent condition of refused pods, which may get different ones in one attempt."""
    conditions = (condition for pod in pods if (condition := _condition(pod, POD_SCHEDULED)) is not None)
    refused = [
        condition for condition in conditions if condition.status == "False" and condition.reason != _GATED
    ]
    messages = Counter(condition.message or "" for condition in refused)
    if not messages:
        return None
    most = max(messages, key=lambda message: (bool(message), messages[message], message))
    return next(condition for condition in refused if (condition.message or "") == most)


def _message_of(condition: Condition, where: str, pending: Pending) -> Wait:
    words = condition.message or "it found no node; the input does not hold its message"
    reason = condition.reason or "no reason given"
    fix = _ERRORS.get(reason) or _more_room_fix(words, pending)
    if reason == SCHEDULER_ERROR and _POINTS.match(words):
        # The condition of a group that was scheduled once stays True.
        fix = "see podium audit for the named group, or the log of the scheduler"
    return Wait(
        cause=SCHEDULER_SAYS,
        message=f"{pending.scheduler} ({reason}){where}: {words}",
        since=condition.lastTransitionTime or "",
        fix=fix,
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
    ended = sum(peer.finished for peer in pending.members)
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


NO_DEVICES = "NoDevices"
# The most different pods of a group that are explained.
_SHAPES = 3

_DEVICES_FIX = "free devices, add some, or change the request or its selectors"


class PodShortage(NamedTuple):
    """The shortage of a pod of which `placed` of the `pods` pods of its target find a place first."""

    pod: Name
    pods: int
    placed: int
    shortage: DeviceShortage


def lacking_devices(engine: Engine, target: Target) -> PodShortage | None:
    """Return the shortage of the first pod that devices keep from all nodes, None if they keep none."""
    placement = engine.placement_target(target)
    if not isinstance(placement, PlacementTarget):
        return None
    snapshot, devices = engine.snapshot, engine.snapshot.plugin(DevicesPlugin)
    known = devices.known
    with engine.placing(placement) as placed:
        first = {snapshot.shape.item(row): row for row in reversed(placement.rows) if row not in placed}
        for row in sorted(first.values(), key=placement.rows.index)[:_SHAPES]:
            shape = snapshot.shape_at(row)
            if not devices.filter.concerns(shape):
                continue
            claims = [claim for claim in known.unallocated(row) if known.assumed(claim_key(claim)) is None]
            gates = default_gates(snapshot.minor)
            examiner = DeviceExaminer(known.slices.values(), known.classes.values(), gates)
            shortage = explain_shortage(examiner, claims, _device_nodes(engine, shape), known.usage)
            if shortage.requests or shortage.error or shortage.unexamined:
                return PodShortage(name_of(snapshot.pod_at(row)), len(placement.rows), len(placed), shortage)
    return None


def device_waits(short: PodShortage) -> Iterator[Wait]:
    """Yield a reason for each request that finds too few devices."""
    shortage, about = short.shortage, ""
    if short.pods > 1:
        about = f"{short.placed} of {short.pods} pods find a place, and pod {short.pod[1]} finds none: "
    if shortage.error:
        yield Wait(cause=NO_DEVICES, message=f"{about}{shortage.error}", fix="correct the claim or its class")
    for request in shortage.requests:
        yield Wait(
            cause=NO_DEVICES, message=f"{about}{_shortage_message(request, shortage)}", fix=_DEVICES_FIX
        )
    if shortage.unexamined and not shortage.requests:
        left_out = f"the devices of {count(shortage.unexamined, 'node')} were not examined"
        fix = "use fewer requests, or selectors of less cost"
        reason = f"{shortage.costliest} takes too long" if shortage.costliest else "there is too much"
        yield Wait(cause=NO_DEVICES, message=f"{about}{left_out}: {reason} to evaluate", fix=fix)
    if shortage.hidden:
        more = f"{count(shortage.hidden, 'more request')} of its claims find too few devices on other nodes"
        yield Wait(cause=NO_DEVICES, message=more, fix=_DEVICES_FIX)
    for pool in shortage.pools if shortage.requests else ():
        fix = "check the driver that publishes the pool: kubectl get resourceslices"
        yield Wait(cause=NO_DEVICES, message=f"devices do not count: {pool}", fix=fix)


def request_devices(short: PodShortage) -> tuple[RequestDevices, ...]:
    """Return the requests that find too few devices as values."""
    return tuple(
        RequestDevices(
            claim=request.claim,
            request=request.request,
            needed=request.needed,
            nodes=request.nodes,
            devices=request.tally.devices,
            free=request.tally.free,
            excluded=_excluded(request.tally),
            together=request.together,
            nearest=tuple(
                NodeDevices(node=node, devices=tally.devices, free=tally.free, excluded=_excluded(tally))
                for node, tally in request.nearest
            ),
        )
        for request in short.shortage.requests
    )


def _device_nodes(engine: Engine, shape: Shape) -> list[DeviceNode]:
    """Return the nodes, with the first reason against each for a pod of a shape that is not its devices."""
    chain, snapshot = engine.placer.chain, engine.snapshot
    devices = snapshot.plugin(DevicesPlugin).filter
    by_devices = devices.refused_by_reason(shape, snapshot.alive).keys() - {UNAVAILABLE}
    refused: dict[int, str] = {}
    for reason, rows in chain.refused_rows(shape, chain.nodes):
        if reason not in by_devices:
            for row in np.flatnonzero(rows).tolist():
                refused.setdefault(row, reason)
    nodes = []
    for row in chain.by_name().tolist():
        node = snapshot.objects[row]
        labels = (node.metadata.labels if node is not None else None) or {}
        nodes.append(DeviceNode(snapshot.node_name(row), labels, refused.get(row, "")))
    return nodes


def _shortage_message(short: RequestShortage, shortage: DeviceShortage) -> str:
    needs = f"needs {count(short.needed, 'device')}" if short.needed else "needs all matching devices"
    words = _tally_words(short.tally)
    if short.together:
        words += f", but {short.together}"
    elif short.tally.free and short.nearest and short.needed:
        words += f", at most {short.nearest[0][1].free:,} on one node"
    where = f"on {short.nodes:,} of {count(shortage.nodes, 'node')}" if shortage.nodes > 1 else "on one node"
    left_out = f", {count(shortage.unexamined, 'node')} not examined" if shortage.unexamined else ""
    nearest = ""
    if short.nodes > 1 and short.nearest[0][1].free:
        name, tally = short.nearest[0]
        nearest = f"; the nearest is {name}: {_tally_words(tally)}"
    return f"claim {short.claim}, request {short.request} {needs}: {words} ({where}{left_out}){nearest}"


def _tally_words(tally: DeviceTally) -> str:
    excluded = [f"{devices:,} {reason}" for reason, devices in tally.excluded]
    free = [f"{tally.free:,} free"] if tally.free else []
    return ", ".join([count(tally.devices, "device"), *excluded, *free])


def _excluded(tally: DeviceTally) -> tuple[ExcludedDevices, ...]:
    return tuple(ExcludedDevices(reason=reason, devices=devices) for reason, devices in tally.excluded)


CLAIM_UNUSABLE = "ClaimUnusable"
CLAIM_ALLOCATED = "ClaimAllocated"
# The most reasons, each of which names some claims.
_MOST_REASONS = 5

_CREATE = "create it in the namespace of the pod, or correct spec.resourceClaims of the pod"
_OWN_CLAIMS = "let each pod have a claim of its own (resourceClaimTemplateName), or lower minCount"
_CONTROLLER = "check the events of the pod and the log of kube-controller-manager, which creates the claims"


class _ClaimState(NamedTuple):
    """A state of claims, and the remedy; it stops a pod, or else only limits its nodes."""

    what: str
    state: str
    fix: str
    stops: bool = True


_NO_SOURCE = _ClaimState(
    "entry of spec.resourceClaims",
    "neither a claim nor a template is named",
    "set resourceClaimName or resourceClaimTemplateName",
)
_NO_TEMPLATE = _ClaimState("ResourceClaimTemplate", "not found", _CREATE)
_NOT_CREATED = _ClaimState("claim of entry", "not created yet", _CONTROLLER)
_MISSING = _ClaimState("ResourceClaim", "not found", _CREATE)
_CREATED_BEFORE = _ClaimState("ResourceClaim", "not found, although it was created", _CONTROLLER)
_DELETED = _ClaimState("ResourceClaim", "being deleted", "wait until it is deleted, then create it again")
_FOREIGN = _ClaimState("ResourceClaim", "created for another pod or group", "delete the claim, or the pod")
_FULL = _ClaimState(
    "ResourceClaim",
    f"in use by {MAX_CONSUMERS} consumers, the most of a claim",
    "wait until one of them ends, or use another claim",
)
_ALLOCATED = _ClaimState(
    "ResourceClaim",
    "has its devices already, which only these nodes can use",
    "make room there, or delete the pods that use the claim",
    stops=False,
)


def claim_waits(pods: Iterable[Schedulable], view: ClusterReader, unread: Collection[str]) -> list[Wait]:
    """Return the problems of the pods' claims, those that stop a pod first."""
    by_state: dict[_ClaimState, dict[str, None]] = {}
    given = list(pods)
    problems = (pod_problem for pod in given for pod_problem in _problems(pod, view, unread))
    for problem, name in chain(_crowded(given, view, unread), problems):
        by_state.setdefault(problem, {})[name] = None
    ordered = sorted(by_state.items(), key=lambda item: not item[0].stops)
    return [
        Wait(
            cause=CLAIM_UNUSABLE if problem.stops else CLAIM_ALLOCATED,
            message=f"{problem.what} {some(names)}: {problem.state}",
            fix=problem.fix,
        )
        for problem, names in ordered[:_MOST_REASONS]
    ]


def with_claims(waits: Sequence[Wait], of_claims: Sequence[Wait]) -> list[Wait]:
    """Return all reasons in the order to address them: gates and missing pods come before claims."""
    causes = [wait.cause in tuple(Blocker) for wait in waits]
    first = causes.index(False) if False in causes else len(causes)
    stopping = [wait for wait in of_claims if wait.cause == CLAIM_UNUSABLE]
    return [*waits[:first], *stopping, *waits[first:], *of_claims[len(stopping) :]]


def awaits_claims(pods: Iterable[Schedulable], view: ClusterReader) -> bool:
    """Return whether a pod waits for a claim to be created from a template."""
    return any(entry.unnamed for pod in pods for entry in entry_claims(pod, group_of(view, pod)))


def _crowded(
    pods: Sequence[Schedulable], view: ClusterReader, unread: Collection[str]
) -> Iterator[tuple[_ClaimState, str]]:
    """Yield the claims that take too few pods of a gang of the waiting pods."""
    groups = {key_of(group): group for pod in pods if (group := group_of(view, pod)) is not None}
    for key, group in groups.items() if Kind.RESOURCE_CLAIM not in unread else ():
        members = [
            pod
            for pod in view.members(key).values()
            if not pod.finished and pod.metadata.deletionTimestamp is None
        ]
        for name, users, places in crowded_claims(group, members, view.resource_claims):
            state = f"named by {users:,} pods of {key.name}, and takes {places:,} of them"
            yield _ClaimState("ResourceClaim", state, _OWN_CLAIMS), name


def _problems(
    pod: Schedulable, view: ClusterReader, unread: Collection[str]
) -> Iterator[tuple[_ClaimState, str]]:
    group, namespace = group_of(view, pod), pod.metadata.namespace or ""
    templates = {source.name: source.resourceClaimTemplateName for source in pod.spec.resourceClaims or ()}
    for entry in entry_claims(pod, group):
        template = templates.get(entry.entry)
        if entry.unnamed:
            if template is None:
                yield _NO_SOURCE, entry.entry
            elif Kind.CLAIM_TEMPLATE not in unread and (namespace, template) not in view.claim_templates:
                yield _NO_TEMPLATE, template
            else:
                yield _NOT_CREATED, entry.entry
        elif entry.name is not None and Kind.RESOURCE_CLAIM not in unread:
            claim = view.resource_claims.get((namespace, entry.name))
            problem = _claim_problem(pod, entry, claim, view, unread)
            where = ""
            if problem is _ALLOCATED and claim is not None:
                where = f" ({_reaching_nodes(claim)})"
            if problem is not None:
                yield problem, f"{entry.name}{where}"


def _claim_problem(
    pod: Schedulable,
    entry: EntryClaim,
    claim: ResourceClaim | None,
    view: ClusterReader,
    unread: Collection[str],
) -> _ClaimState | None:
    """Return the problem of a claim, None if the pod can use it on any node that has its devices."""
    refused = claim_refusal(pod, group_of(view, pod), entry, claim)
    if claim is None:
        return _CREATED_BEFORE if entry.created else _MISSING
    if refused:
        return _DELETED if claim.metadata.deletionTimestamp else _FOREIGN
    allocation = claim.status.allocation if claim.status is not None else None
    if allocation is None and Kind.DEVICE_CLASS in unread:
        return None
    if not takes_consumer(consumer_uids(claim), entry.consumer.uid):
        return _FULL
    unusable = class_refusal(claim, view.device_classes)
    if unusable:
        fix = "create the DeviceClass, or recreate the claim with another class"
        return _ClaimState("ResourceClaim", unusable, fix)
    return _ALLOCATED if allocation is not None and allocation.nodeSelector is not None else None


def _reaching_nodes(claim: ResourceClaim) -> str:
    allocation = claim.status.allocation if claim.status is not None else None
    node = node_of(allocation) if allocation is not None else ""
    return f"node {node}" if node else "nodes that its status.allocation.nodeSelector selects"
