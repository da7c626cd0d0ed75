"""The room that a preemption keeps on nodes: for the object that waits, or for another that keeps it out.

A scheduler nominates a node for a preemptor (status.nominatedNodeName) and deletes the victims there. Until
the preemptor is placed, decisions for pods of no higher priority count it as if it ran there.
deletionTimestamp is the end of a victim's grace period, so a victim that exists later is overdue: usually its
kubelet does not answer (kubernetes/kubernetes#95752). A nomination may outlive its victims although another
pod took the room (kubernetes/kubernetes#106780).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import NamedTuple

import msgspec

from podium.answers.accounts.model import Wait
from podium.api.events import PREEMPTED, PREEMPTED_BY, PREEMPTOR, Event
from podium.api.groups import PodGroup
from podium.api.meta import instant
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.api.storage import SELECTED_NODE
from podium.api.times import seconds, written_at
from podium.audit.gangs import amount_text
from podium.cluster.reader import ClusterReader, Target, group_of, name_of
from podium.documents.reading import Known
from podium.planner.engine import Engine
from podium.planner.preemption.inflight import LATE_SECONDS, is_leaving, preempts, stored_nomination
from podium.planner.preemption.knownends import ends_in_words
from podium.planner.preemption.outcome import TenantNames, full_name
from podium.planner.preemption.target import PlacementTarget
from podium.rules.commands import delete_pods
from podium.text import SHOWN, count, listed, some

RESERVED_NODE = "NodeReserved"
VICTIM_OVERDUE = "VictimOverdue"
STALE_NOMINATION = "StaleNomination"
ROOM_KEPT = "RoomKept"
NODE_SELECTED = "NodeSelected"

_WAIT = "wait until the victims terminate, at most their grace periods"
_WAIT_FOR_ENDS = "wait: if a pod outlives its end, the scheduler looks for room again"
# The taint of a node whose kubelet has not written its status for some time.
_UNREACHABLE = "node.kubernetes.io/unreachable"


class Surroundings(NamedTuple):
    """The cluster around the object that waits, at the time `now`.

    `engine` follows the whole cluster; it is None if only a part was read. Only the names of `known`
    namespaces may be shown.
    """

    view: ClusterReader
    engine: Engine | None
    events: Iterable[Event]
    known: Known
    now: datetime

    def namer(self, kind: str, namespace: str, name: str) -> str:
        """Return the words for an object in a sentence (an ObjectNamer)."""
        if self.known(namespace):
            return full_name(kind, namespace, name)
        return TenantNames(self.view, "").uid(kind, namespace, name)


class _LeavingPod(NamedTuple):
    """A victim that still holds its room, and the end of its grace period, None before its deletion."""

    pod: Schedulable
    due: datetime | None

    @property
    def node_name(self) -> str:
        return self.pod.spec.nodeName or ""


def reserved_waits(
    target: Target, pods: Sequence[Schedulable], uids: Collection[str], around: Surroundings
) -> Iterator[Wait]:
    """Yield the state of the preemption for the pods of a target, and the room that is kept for others.

    `uids` are those of the pods, their group and its tree.
    """
    unsuitable = _unsuitable(pods, around.engine) if around.engine is not None else {}
    nodes = sorted({node for pod in pods if (node := stored_nomination(pod))})
    victims = _victims(nodes, uids, around)
    if not any(_is_overdue(victim, around) for victim in victims):
        victims = [victim for victim in victims if victim.node_name not in unsuitable]
    suitable = [node for node in nodes if node not in unsuitable]
    if victims:
        yield _under_way(nodes, victims, around)
    elif suitable:
        yield _without_victims(target, pods, suitable, around)
    if unsuitable:
        texts = (
            f"{_nodes_are([node])} nominated for it, and no longer suits it: {reason}"
            for node, reason in sorted(unsuitable.items())[:SHOWN]
        )
        fix = "the scheduler takes another node when it tries again"
        yield Wait(cause=STALE_NOMINATION, message="; ".join(texts), fix=fix)
    if around.engine is not None:
        yield from _kept_for_others(target, around.engine, around)


def selected_waits(provisioning: Mapping[str, str], namespace: str) -> Iterator[Wait]:
    """Yield the claims that bind their pods to a node which does not take them.

    The scheduler selects the node of a volume before it is provisioned, and only that node suits the claim
    until the annotation is removed (kubernetes/kubernetes#112347).
    """
    if provisioning:
        claims = " ".join(map(quote, sorted(provisioning)))
        nodes = sorted(set(provisioning.values()))
        which = "claim {} keeps" if len(provisioning) == 1 else "claims {} keep"
        kind = "node" if len(nodes) == 1 else "nodes"
        yield Wait(
            cause=NODE_SELECTED,
            message=f"{which.format(some(provisioning))} it on {kind} {some(nodes)}, where it does not fit "
            f"(annotation {SELECTED_NODE})",
            fix=f"free room there, or let the scheduler select again: kubectl annotate pvc {claims} "
            f"-n {quote(namespace)} {SELECTED_NODE}-",
        )


def fits_now(engine: Engine, target: PlacementTarget) -> bool:
    """Return whether a target fits without preemption, beside the room that is reserved for others."""
    with engine.placing(target) as placed:
        return len(placed) >= target.needed


def _unsuitable(pods: Iterable[Schedulable], engine: Engine) -> dict[str, str]:
    """Return the nominated nodes that would not take their pods even if they were empty, with the reason."""
    reasons: dict[str, str] = {}
    snapshot, chain = engine.snapshot, engine.placer.chain
    for pod in pods:
        row, name = snapshot.pod_row.get(name_of(pod)), stored_nomination(pod)
        node = snapshot.row.get(name) if name else None
        if name and row is not None and node is not None:
            shape = snapshot.shape_at(row)
            if not chain.suits_node(shape, node):
                reasons[name] = ", ".join(chain.reasons(shape, node))
    return reasons


def _victims(nodes: Collection[str], uids: Collection[str], around: Surroundings) -> list[_LeavingPod]:
    """Return the leaving pods on the nominated nodes, and those elsewhere that left for the UIDs."""
    told = {
        event.involvedObject.uid
        for event in around.events
        if event.reason == PREEMPTED
        and (match := PREEMPTED_BY.match(event.message or "")) is not None
        and match[2] in uids
    } - {None, ""}
    victims = []
    for pod in around.view.pods.values():
        if not isinstance(pod, Schedulable) or not pod.holding:
            continue
        if not is_leaving(pod):
            continue
        group = group_of(around.view, pod)
        by = _preemptor_uid(pod, group)
        ours = by in uids or pod.metadata.uid in told or (group is not None and group.metadata.uid in told)
        if ours or pod.spec.nodeName in nodes:
            victims.append(_LeavingPod(pod, _due(pod)))
    return victims


def _preemptor_uid(pod: Schedulable, group: PodGroup | None) -> str | None:
    """Return the UID of the preemptor that the mark of a pod or its group names, None for none."""
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    for condition in (*conditions, *(group.conditions if group is not None else ())):
        if preempts(condition) and (match := PREEMPTOR.search(condition.message or "")) is not None:
            return match[2]
    return None


def _due(pod: Schedulable) -> datetime | None:
    try:
        return instant(pod.metadata.deletionTimestamp or "")
    except msgspec.ValidationError:
        return None


def _under_way(nodes: Sequence[str], victims: Sequence[_LeavingPod], around: Surroundings) -> Wait:
    """Return the state of a preemption whose victims hold their room."""
    overdue = [victim for victim in victims if _is_overdue(victim, around)]
    begun = "a preemption for it is in progress"
    where = f"{begun}: {_nodes_are(nodes)} reserved" if nodes else begun
    silent = sorted(
        {victim.node_name for victim in overdue or victims if _state_of_node(victim.node_name, around)}
    )
    about = "".join(f"; node {node} {_state_of_node(node, around)}" for node in silent[:SHOWN])
    if not overdue:
        lost = [victim for victim in victims if victim.node_name in silent]
        return Wait(
            cause=RESERVED_NODE,
            message=f"{where} until {_awaited(victims, around)}{about}",
            fix="; ".join([_WAIT, *([_force(lost, around, silent=True)] if lost else [])]),
        )
    overdue.sort(key=lambda victim: (victim.due, victim.pod.metadata.name))
    first, *more = [
        f"{_shown_name(victim.pod, around)} is overdue since {victim.pod.metadata.deletionTimestamp}"
        for victim in overdue[:SHOWN]
    ]
    names = [first, *(clause.replace(" is overdue", "", 1) for clause in more)]
    if len(overdue) > SHOWN:
        names.append(f"{len(overdue) - SHOWN:,} more")
    return Wait(
        cause=VICTIM_OVERDUE,
        message=f"{where}, but {listed(names)}{about}",
        fix="; ".join(
            _force(pods, around, silent=lost)
            for lost in (True, False)
            if (pods := [victim for victim in overdue if (victim.node_name in silent) is lost])
        ),
    )


def _is_overdue(victim: _LeavingPod, around: Surroundings) -> bool:
    late = timedelta(seconds=LATE_SECONDS)
    return victim.due is not None and around.now - victim.due >= late


def _awaited(victims: Sequence[_LeavingPod], around: Surroundings) -> str:
    """Return which victims have to end, and when the last is due."""
    names = some(_shown_name(victim.pod, around) for victim in victims)
    ended = "has ended" if len(victims) == 1 else "have ended"
    due = [
        (victim.due, victim.pod.metadata.deletionTimestamp) for victim in victims if victim.due is not None
    ]
    if len(due) < len(victims):
        unbegun = len(victims) - len(due)
        return f"{names} {ended}; the deletion of {count(unbegun, 'pod')} has not begun"
    last = max(due)[1]
    return f"{names} {ended}, due at {last}" if len(due) == 1 else f"{names} {ended}, the last due at {last}"


def _force(overdue: Sequence[_LeavingPod], around: Surroundings, *, silent: bool) -> str:
    """Return how to free the room of pods whose kubelet does not end them, or (`silent`) cannot."""
    nodes = sorted({victim.node_name for victim in overdue})
    kind = "node" if len(nodes) == 1 else "nodes"
    lead = (
        f"if {kind} {some(nodes)} will not come back, so that nothing of the pods runs"
        if silent
        else f"check the kubelet of {kind} {some(nodes)}; once nothing of the pods runs"
    )
    names: defaultdict[str, list[str]] = defaultdict(list)
    for leaving in overdue:
        namespace, name = name_of(leaving.pod)
        if around.known(namespace):
            names[namespace].append(name)
    if not names:
        return f"{lead}, an administrator can delete them by force"
    commands = [
        f"{delete_pods(namespace, pods)} --force --grace-period=0"
        for namespace, pods in sorted(names.items())
    ]
    kept = sorted({finalizer for victim in overdue for finalizer in victim.pod.metadata.finalizers or ()})
    last = f"; then remove the finalizers {some(kept)}" if kept else ""
    return f"{lead}: {'; '.join(commands[:SHOWN])}{last}"


def _without_victims(
    target: Target, pods: Sequence[Schedulable], nodes: Sequence[str], around: Surroundings
) -> Wait:
    """Return the state of a nomination without a leaving pod: it fits, is stale, or cannot be judged."""
    reserved = f"{_nodes_are(nodes)} reserved for it"
    if around.engine is None:
        return Wait(
            cause=RESERVED_NODE,
            message=f"a preemption for it is in progress: {_nodes_are(nodes)} reserved",
            fix=_WAIT,
        )
    engine, wait = around.engine, None
    placement = engine.placement_target(target)
    if isinstance(placement, PlacementTarget):
        if fits_now(engine, placement):
            message = f"{reserved}, no pod is leaving, and it fits now"
            return Wait(
                cause=RESERVED_NODE, message=message, fix="the scheduler places it when it tries again"
            )
        if engine.longest_wait(placement):
            wait = engine.wait_for_ends(engine.decide(target, around.now), around.now)
    if wait is not None:
        assert wait.target is not None, "a wait has a preemptor"
        units, _ = engine.units(for_group=engine.as_group(wait.target), now=seconds(around.now))
        ends = ends_in_words(around.view, units, wait, around.namer)
        message = f"{reserved}, and room comes at {written_at(wait.room_at)}, by {ends}"
        return Wait(cause=RESERVED_NODE, message=message, fix=_WAIT_FOR_ENDS)
    missing = [node for node in nodes if node not in around.view.nodes]
    gone = f"{_nodes_are(missing)} not in the cluster, and " if missing else ""
    holders = [pod for pod in pods if stored_nomination(pod)]
    namespace, name = name_of(holders[0])
    more = f", and for {count(len(holders) - 1, 'more pod')}" if len(holders) > 1 else ""
    patch = quote('{"status":{"nominatedNodeName":null}}')
    command = (
        f"kubectl patch pod {quote(name)} -n {quote(namespace)} --subresource=status --type=merge -p {patch}"
    )
    return Wait(
        cause=STALE_NOMINATION,
        message=f"{reserved}, but {gone}no pod is leaving: the nomination is stale",
        fix=f"the scheduler ends it when it tries again; if it stays, free the room: {command}{more}",
    )


def _kept_for_others(target: Target, engine: Engine, around: Surroundings) -> Iterator[Wait]:
    """Yield the room that is kept for others, if the target would fit without their nominations."""
    placement = engine.placement_target(target)
    if not isinstance(placement, PlacementTarget):
        return
    pods, nodes = engine.nominations.holding(placement.priority, placement.rows)
    if not len(pods):
        return
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for row, node in zip(pods.tolist(), nodes.tolist(), strict=True):
        holders[node].append(row)
    with engine.placing(placement, reserved=False) as placed:
        used = {node: row for row, node in placed.items() if node in holders}
        if len(placed) < placement.needed:
            return
    if fits_now(engine, placement):
        return
    with engine.placing(placement):
        # Without a place on these nodes a constraint between pods keeps it out, such as anti-affinity.
        rows = used or dict.fromkeys(holders, placement.rows[0])
        kept = [
            f"{_short(engine, row, node, holders[node])} kept for {_holders(engine, holders[node], around)}"
            f" on node {engine.snapshot.node_name(node)}"
            for node, row in sorted(rows.items(), key=lambda item: engine.snapshot.node_name(item[0]))
        ]
    more = f"; the same on {count(len(kept) - SHOWN, 'more node')}" if len(kept) > SHOWN else ""
    first = engine.snapshot.pod_at(holders[min(rows, key=engine.snapshot.node_name)][0])
    namespace, name = name_of(first)
    look = f": podium why pod {quote(namespace)}/{quote(name)}" if around.known(namespace) else ""
    yield Wait(
        cause=ROOM_KEPT,
        message=f"{'; '.join(kept[:SHOWN])}{more}",
        fix=f"see what the other waits for{look}; only a pod of higher priority may take the room",
    )


def _short(engine: Engine, row: int, node: int, holders: Sequence[int]) -> str:
    """Return the amounts that are kept of what a pod lacks on a node: `3 cpu are`."""
    snapshot = engine.snapshot
    amounts = []
    for name, amount in snapshot.shape_at(row).requests:
        index = snapshot.resource.get(name)
        if index is None:
            continue
        free = snapshot.allocatable[index].item(node) - snapshot.used[index].item(node)
        kept = sum(dict(snapshot.shape_at(holder).requests).get(name, 0) for holder in holders)
        if free < amount and kept:
            amounts.append(f"{amount_text(name, kept)} {name}")
    return f"{listed(amounts)} are" if amounts else "a place is"


def _holders(engine: Engine, rows: Sequence[int], around: Surroundings) -> str:
    """Return the pods, or the groups of the pods, for which room is kept."""
    names = set()
    for row in rows:
        pod = engine.snapshot.pod_at(row)
        group = group_of(around.view, pod)
        if group is not None and around.known(group.ref.namespace):
            names.add(f"group {group.ref.namespace}/{group.ref.name}")
        else:
            names.add(_shown_name(pod, around))
    return some(names)


def _shown_name(pod: Schedulable, around: Surroundings) -> str:
    namespace, name = name_of(pod)
    return f"{namespace}/{name}" if around.known(namespace) else f"pod {pod.metadata.uid}"


def _nodes_are(nodes: Sequence[str]) -> str:
    return f"node {nodes[0]} is" if len(nodes) == 1 else f"nodes {some(nodes)} are"


def _state_of_node(name: str, around: Surroundings) -> str:
    """Return why no kubelet ends the pods of a node, empty if it is ready or its state is not known."""
    node = around.view.nodes.get(name)
    if node is None:
        return "no longer exists" if around.engine is not None else ""
    taints = (node.spec.taints if isinstance(node, SchedulableNode) and node.spec is not None else None) or ()
    conditions = (node.status.conditions if node.status is not None else None) or ()
    ready = next((condition for condition in conditions if condition.type == "Ready"), None)
    if any(taint.key == _UNREACHABLE for taint in taints) or (
        ready is not None and ready.status == "Unknown"
    ):
        return "does not answer"
    return "is not ready" if ready is not None and ready.status == "False" else ""
