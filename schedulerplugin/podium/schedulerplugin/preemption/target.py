"""Determines the pods to be placed for a pod or a group, or why it is no preemptor.

The unit of scheduling is the group (KEP-4671): a request for a member is a request for its group. This module
decides everything that does not depend on a node. That is which pods wait, how many must be placed, at which
priority, and whether anything may be evicted for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from podium.api.core import Pod, PriorityClass
from podium.api.groups import PODIUM_GROUP, PodGroup
from podium.api.membership import GroupKey, membership
from podium.api.priority import NEVER
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, Name, name_of
from podium.errors import PodiumError
from podium.groups.divergence import Divergence, disagreement, doubt, measure_divergence
from podium.groups.topology import slice_topology
from podium.schedulerplugin.preemption.outcome import ObjectNamer
from podium.schedulerplugin.semantics import Semantics
from podium.schedulerplugin.settings import DivergencePolicy, Settings
from podium.schedulerplugin.snapshot import Snapshot
from podium.text import count, listed, natural, some

# kube-scheduler's words.
POLICY_NEVER = "not eligible due to preemptionPolicy=Never."


# An annotation on a group, `true`: members beyond minCount preempt like the others.
PREEMPT_FOR_ALL = f"{PODIUM_GROUP}/preempt-for-all-members"


# The prefix of the gates that Kueue sets on pods and removes when it admits their workload.
_KUEUE = "kueue.x-k8s.io/"


class PodSlice(NamedTuple):
    """Members that share a domain: the `rows` of those to be placed, and the node rows of those that run."""

    rows: tuple[int, ...]
    nodes: tuple[int, ...]


class PodSlices(NamedTuple):
    """The slices of a group, with the label (`key`) of their domains and the full `size`."""

    key: str
    size: int
    slices: tuple[PodSlice, ...]


class PlacementTarget(NamedTuple):
    """Pending pods by row, in order, of which `needed` must be placed, and `desired` if that is possible.

    `preemption_barred` says why nothing may be evicted for them, empty if it may. `running` members count
    toward minCount already, and `running_nodes` are their node rows, -1 for an unknown node. `group` is None
    for a pod in no group. `disputed` is the status of the group's condition PodsNotMatchingPriority if its
    pods contradict it.
    """

    rows: tuple[int, ...]
    needed: int
    priority: int
    preemption_barred: str = ""
    group: PodGroup | None = None
    running: int = 0
    disputed: str = ""
    desired: int = 0
    running_nodes: tuple[int, ...] = ()
    slices: PodSlices | None = None


class Blocker(StrEnum):
    """The causes that keep it from being placed at all; each has its own remedy."""

    GROUP_MISSING = "GroupMissing"
    LEAVING = "Leaving"
    GATED = "Gated"
    TOO_FEW = "TooFew"
    NOT_JUDGED = "NotJudged"
    SEVERAL_SCHEDULERS = "SeveralSchedulers"
    DIVERGENT = "Divergent"


class Unplaceable(NamedTuple):
    """Why it cannot be placed at all at present; `cause` is None if only the sentence is known.

    `disputed` is that of PlacementTarget.
    """

    why: str
    cause: Blocker | None = None
    disputed: str = ""


def placement_target(  # noqa: PLR0917 - what an engine is made of, in its order
    view: ClusterReader,
    snapshot: Snapshot,
    target: Name | GroupKey,
    settings: Settings,
    namer: ObjectNamer,
    leaving: Callable[[Schedulable], bool],
) -> PlacementTarget | Unplaceable:
    """Return the pods to be placed for a pod or a group; `leaving` pods do not count as running.

    A pod that counts on a node already, because its bind is in flight, runs. Raises PodiumError for a target
    that does not exist, is finished, or runs already.
    """
    if isinstance(target, GroupKey):
        return _group(view, snapshot, target, settings, leaving)
    pod = view.pods.get(target)
    if pod is None:
        raise PodiumError(f"pod {'/'.join(target)}: there is no such pod in what was read")
    if pod.finished:
        raise PodiumError(f"pod {'/'.join(target)}: it has run to its end, so there is nothing to place")
    if pod.spec.nodeName:
        raise PodiumError(f"pod {'/'.join(target)}: it runs on node {pod.spec.nodeName} already")
    row = snapshot.pod_row[target]
    if snapshot.node.item(row) >= 0:
        node = snapshot.names[snapshot.node.item(row)]
        raise PodiumError(f"pod {'/'.join(target)}: it is being bound to node {node}")
    key = membership(pod, native_served=view.native_served)
    if key is not None and settings.semantics is not Semantics.PODS:
        if key not in view.groups:
            missing_group = f"waiting for the pod group {namer('PodGroup', *key[1:])}, which does not exist"
            return Unplaceable(missing_group, Blocker.GROUP_MISSING)
        return _group(view, snapshot, key, settings, leaving)
    if pod.metadata.deletionTimestamp is not None:
        return Unplaceable("it is being deleted", Blocker.LEAVING)
    if pod.spec.schedulingGates:
        return Unplaceable(f"it is held by scheduling gates: {_gate_names([pod])}", Blocker.GATED)
    missing = snapshot.shape_at(row).missing
    if missing:
        return Unplaceable(f"what it asks for cannot be judged: {'; '.join(missing)}", Blocker.NOT_JUDGED)
    never = _forbids_by_policy(pod.spec.preemptionPolicy, pod.spec.priorityClassName or "", view.classes)
    return PlacementTarget((row,), 1, pod.spec.priority or 0, POLICY_NEVER if never else "")


def _group(
    view: ClusterReader,
    snapshot: Snapshot,
    key: GroupKey,
    settings: Settings,
    leaving: Callable[[Schedulable], bool],
) -> PlacementTarget | Unplaceable:
    group = view.groups.get(key)
    name = f"{key.namespace}/{key.name}"
    if group is None:
        raise PodiumError(f"pod group {name}: there is no such group in what was read")
    members = [pod for pod in view.members(key).values() if not pod.finished]
    waiting = [pod for pod in members if not _is_running(snapshot, pod)]
    counts = settings.semantics is not Semantics.KEP
    # A view for scheduling holds only Schedulable pods.
    runs = [pod for pod in members if _is_running(snapshot, pod) and (counts or not leaving(pod))]  # type: ignore[arg-type]
    running = len(runs)
    min_count = 1 if group.min_count is None else group.min_count
    ready = [pod for pod in waiting if not pod.spec.schedulingGates and not _deleted(pod)]
    if not waiting and members:
        raise PodiumError(f"pod group {name}: no member is pending; {count(running, 'pod')} run")
    gated = [pod for pod in waiting if pod.spec.schedulingGates]
    if gated and settings.semantics is Semantics.V1_37:
        text = (
            f"kube-scheduler 1.37 holds the whole group: {count(len(gated), 'pod')} held by scheduling gates"
        )
        return Unplaceable(f"{text}: {_gate_names(gated)}", Blocker.GATED)
    if len(ready) + running < min_count or not ready:
        return _too_few(ready, waiting, running, min_count)
    if group.demands:
        return Unplaceable(
            f"the group has what cannot be judged: {', '.join(group.demands)}", Blocker.NOT_JUDGED
        )
    divergence = measure_divergence(group, members)
    disagrees = _disagreement(divergence, members, settings)
    if disagrees is not None:
        return disagrees
    doubted, disputed = doubt(group, divergence), disagreement(group, divergence)
    if doubted and settings.divergence is DivergencePolicy.HOLD:
        return Unplaceable(f"{doubted}, and the divergence policy is Hold", Blocker.DIVERGENT, disputed)
    rows = _in_order(snapshot, ready)
    missing = {what: None for row in rows for what in snapshot.shape_at(row).missing}
    judged = tuple(row for row in rows if not snapshot.shape_at(row).missing)
    if len(judged) + running < min_count or not judged:
        return Unplaceable(
            f"what its pods ask for cannot be judged: {'; '.join(missing)}", Blocker.NOT_JUDGED
        )
    priority, preemption_barred = group.priority or 0, ""
    if doubted and settings.divergence is DivergencePolicy.NO_PREEMPTION:
        priority = divergence.priority.lowest
        preemption_barred = f"{doubted}, and the divergence policy is NoPreemption"
    needed = max(1, min_count - running)
    # Pods of a basic group need each other no more than lone pods do.
    for_all = group.min_count is None or (group.metadata.annotations or {}).get(PREEMPT_FOR_ALL) == "true"
    if not for_all and running >= max(min_count, 1) and settings.semantics is Semantics.KEP:
        already = f"{count(running, 'pod')} run and minCount is {min_count}"
        preemption_barred = f"{already}, so no pod is evicted for one more member"
    if _forbids(group, ready, view.classes):
        preemption_barred = POLICY_NEVER
    desired = len(judged) if for_all else needed
    nodes = (snapshot.node.item(snapshot.pod_row[name_of(pod)]) for pod in runs)
    return PlacementTarget(
        *(judged, needed, priority, preemption_barred, group, running, disputed, desired),
        tuple(nodes),
        None if counts else _slices(snapshot, group, runs, judged),
    )


def _slices(
    snapshot: Snapshot, group: PodGroup, runs: Sequence[Pod], waiting: Sequence[int]
) -> PodSlices | None:
    """Return the slices of running pods and of waiting ones (rows); None for a group without slices."""
    key, size = slice_topology(group)
    if not key:
        return None
    rows = [*(snapshot.pod_row[name_of(pod)] for pod in runs), *waiting]
    ordered = sorted(rows, key=lambda row: natural(name_of(snapshot.pod_at(row))[1]))
    found, pending = [], set(waiting)
    for first in range(0, len(ordered), size):
        part = ordered[first : first + size]
        nodes = (snapshot.node.item(row) for row in part if row not in pending)
        found.append(
            PodSlice(tuple(row for row in part if row in pending), tuple(node for node in nodes if node >= 0))
        )
    return PodSlices(key, size, tuple(found))


def _disagreement(divergence: Divergence, members: list[Pod], settings: Settings) -> Unplaceable | None:
    """Return in what members differ that must agree before a group is scheduled; None if they agree."""
    schedulers = {pod.scheduler for pod in members}
    if len(schedulers) > 1:
        return Unplaceable(
            f"its pods name several schedulers: {some(schedulers)}", Blocker.SEVERAL_SCHEDULERS
        )
    if settings.semantics is not Semantics.V1_37:
        return None
    for axis, what in ((divergence.priority, "priority"), (divergence.policy, "preemptionPolicy")):
        if axis.differing:
            others = listed([str(each.value) for each in axis.differing])
            reason = f"it has {what} {axis.expected} and pods of it {others}"
            return Unplaceable(f"kube-scheduler 1.37 refuses it, because {reason}", Blocker.DIVERGENT)
    return None


def _forbids(group: PodGroup, pods: Iterable[Pod], classes: Mapping[str, PriorityClass]) -> bool:
    """Return whether the group, a pod to be placed, or the class of one forbids preemption."""
    return _forbids_by_policy(group.preemption_policy, group.priority_class_name, classes) or any(
        _forbids_by_policy(pod.spec.preemptionPolicy, pod.spec.priorityClassName or "", classes)
        for pod in pods
    )


def _forbids_by_policy(policy: str | None, class_name: str, classes: Mapping[str, PriorityClass]) -> bool:
    """Return whether a policy forbids preemption; an absent one is its class's, as admission copies it."""
    if policy is None:
        found = classes.get(class_name)
        policy = found.preemptionPolicy if found is not None else None
    return policy == NEVER


def _too_few(ready: list[Pod], waiting: list[Pod], running: int, min_count: int) -> Unplaceable:
    counts = f"{count(len(ready), 'pod')} can be placed and {running} run, minCount is {min_count}"
    gated = [pod for pod in waiting if pod.spec.schedulingGates]
    if gated:
        text = f"{counts}: {count(len(gated), 'pod')} held by scheduling gates: {_gate_names(gated)}"
        return Unplaceable(text, Blocker.GATED)
    return Unplaceable(f"waiting for minCount pods: {counts}", Blocker.TOO_FEW)


def _in_order(snapshot: Snapshot, pods: list[Pod]) -> list[int]:
    """Return the rows in the order of kube-scheduler's queue: priority, then age, then name."""
    ordered = sorted(
        pods,
        key=lambda pod: (
            -(pod.spec.priority or 0),
            pod.metadata.creationTimestamp or "",
            pod.metadata.name or "",
        ),
    )
    return [snapshot.pod_row[name_of(pod)] for pod in ordered]


def _gate_names(pods: Iterable[Pod]) -> str:
    names = {gate.name or "" for pod in pods for gate in pod.spec.schedulingGates or ()}
    kueue = any(name.startswith(_KUEUE) for name in names)
    return f"{some(names)}{' (waiting for Kueue)' if kueue else ''}"


def _deleted(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is not None


def _is_running(snapshot: Snapshot, pod: Pod) -> bool:
    """Return whether a pod is bound or assumed."""
    if pod.spec.nodeName:
        return True
    return snapshot.node.item(snapshot.pod_row[name_of(pod)]) >= 0
