"""Determines the pods to be placed for one group, or why none can be.

This decides everything that does not depend on a node. That is which pods wait, how many must be placed, at
which priority, and whether anything may be evicted for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from podium.api.core import Pod, PriorityClass
from podium.api.groups import PODIUM_GROUP, PodGroup
from podium.api.membership import GroupKey, key_of
from podium.api.priority import NEVER
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader, name_of
from podium.groups.divergence import Divergence, disagreement, doubt, measure_divergence, not_counting
from podium.groups.topology import slice_topology
from podium.planner.preemption.target import (
    Blocker,
    PlacementTarget,
    PodSlice,
    PodSlices,
    Unplaceable,
)
from podium.planner.settings import DivergencePolicy, Settings
from podium.planner.snapshot import Snapshot
from podium.text import count, listed, natural, some

# kube-scheduler's words.
POLICY_NEVER = "not eligible due to preemptionPolicy=Never."


# An annotation on a group, `true`: members beyond minCount preempt like the others.
PREEMPT_FOR_ALL = f"{PODIUM_GROUP}/preempt-for-all-members"


# The prefix of the gates that Kueue sets on pods and removes when it admits their workload.
_KUEUE = "kueue.x-k8s.io/"


class Members(NamedTuple):
    """The unfinished pods of a group: those that wait for a node, that run, and that pin its domain.

    `finished` is the number of its other pods.

    A pod that a preemption has marked runs no longer, but it pins the domain until it is being deleted. If
    the preemption is not carried out, the pod stays.
    """

    unfinished: list[Pod]
    waiting: list[Pod]
    runs: list[Pod]
    pinning: list[Pod]
    finished: int

    def nodes(self, snapshot: Snapshot) -> tuple[int, ...]:
        """Return the node rows of those that pin the domain, -1 for an unknown node."""
        return tuple(snapshot.node.item(snapshot.pod_row[name_of(pod)]) for pod in self.pinning)


def members_of(
    view: ClusterReader, snapshot: Snapshot, key: GroupKey, leaving: Callable[[Schedulable], bool] | None
) -> Members:
    """Return the members of a group; pods that are `leaving` do not run, if that is given."""
    every = view.members(key).values()
    unfinished = [pod for pod in every if not pod.finished]
    waiting: list[Pod] = []
    runs: list[Pod] = []
    pinning: list[Pod] = []
    for pod in unfinished:
        if not _is_running(snapshot, pod):
            waiting.append(pod)
            continue
        # A view for scheduling holds only Schedulable pods.
        if leaving is None or not leaving(pod):  # type: ignore[arg-type]
            runs.append(pod)
        if leaving is None or not _deleted(pod):
            pinning.append(pod)
    return Members(unfinished, waiting, runs, pinning, len(every) - len(unfinished))


def group_target(
    view: ClusterReader, snapshot: Snapshot, group: PodGroup, members: Members, settings: Settings
) -> PlacementTarget | Unplaceable:
    """Return the pods of one group to be placed, as if it were in no tree."""
    rules, waiting, running = settings.semantics.rules, members.waiting, len(members.runs)
    min_count = group.least
    ready = [pod for pod in waiting if not pod.spec.schedulingGates and not _deleted(pod)]
    gated = [pod for pod in waiting if pod.spec.schedulingGates]
    if gated and rules.gates_hold_group:
        held = f"{count(len(gated), 'pod')} held by scheduling gates: {gate_names(gated)}"
        text = f"{rules.scheduler} holds the whole group: {held}"
        return Unplaceable(text, Blocker.GATED)
    if len(ready) + running < min_count or not ready:
        return _too_few(ready, members, min_count)
    if group.demands:
        return Unplaceable(
            f"the group has what cannot be judged: {', '.join(group.demands)}", Blocker.NOT_JUDGED
        )
    divergence = measure_divergence(group, members.unfinished)
    disagrees = _disagreement(divergence, members.unfinished, settings)
    if disagrees is not None:
        return disagrees
    doubted, disputed = doubt(group, divergence), disagreement(group, divergence)
    if doubted and settings.divergence is DivergencePolicy.HOLD:
        return Unplaceable(f"{doubted}, and the divergence policy is Hold", Blocker.DIVERGENT, disputed)
    rows = _in_order(snapshot, ready)
    missing = {request: None for row in rows for request in snapshot.shape_at(row).missing}
    judged = tuple(row for row in rows if not snapshot.shape_at(row).missing)
    if len(judged) + running < min_count or not judged:
        return Unplaceable(
            f"what its pods ask for cannot be judged: {'; '.join(missing)}", Blocker.NOT_JUDGED
        )
    preemption_barred = ""
    if doubted and settings.divergence is DivergencePolicy.NO_PREEMPTION:
        preemption_barred = f"{doubted}, and the divergence policy is NoPreemption"
    needed = max(1, min_count - running)
    if rules.needed_only:
        preemption_barred = _barred_by_members(group, members) or preemption_barred
    if forbids_preemption(group, ready, view.classes):
        preemption_barred = POLICY_NEVER
    desired = len(judged) if asks_for_all(group) else needed
    return PlacementTarget(
        *(judged, needed, group.priority or 0, preemption_barred, group, running, disputed, desired),
        members.nodes(snapshot),
        _slices(snapshot, group, members.pinning, judged) if rules.group_annotations else None,
    )


def _barred_by_members(group: PodGroup, members: Members) -> str:
    """Return why nothing may be evicted for more members beside those that run, empty if it may."""
    running = len(members.runs)
    if not asks_for_all(group) and running >= max(group.least, 1):
        already = f"{count(running, 'pod')} run and minCount is {group.least}"
        return f"{already}, so no pod is evicted for one more member"
    return barred_by_eviction(group, len(members.pinning) - running)


def barred_by_eviction(group: Child, marked: int) -> str:
    """Return why nothing may be evicted for a group with so many `marked` members, empty for none.

    They pin its domain. Once they are being deleted, another domain may have free room.
    """
    constrained = group.topology or (isinstance(group, PodGroup) and slice_topology(group)[0])
    if not marked or not constrained:
        return ""
    return f"the eviction of {count(marked, 'pod')} of the group has begun; then it may go to another domain"


def evicted_members(
    view: ClusterReader,
    snapshot: Snapshot,
    group: PodGroup,
    rows: Iterable[int],
) -> PlacementTarget:
    """Return the placement of members (rows) that are evicted together; those that stay pin the domain."""
    evicted = dict.fromkeys(rows)
    members = (pod for pod in view.members(key_of(group)).values() if pod.holding and not _deleted(pod))
    by_row = {snapshot.pod_row[name_of(pod)]: pod for pod in members}
    stay = {row: pod for row, pod in by_row.items() if row not in evicted}
    return PlacementTarget(
        *(tuple(evicted), len(evicted), group.priority or 0),
        group=group,
        running=len(stay),
        pinning_nodes=tuple(snapshot.node.item(row) for row in stay),
        slices=_slices(snapshot, group, list(stay.values()), tuple(evicted)),
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
    slices, pending = [], set(waiting)
    for first in range(0, len(ordered), size):
        slice_rows = ordered[first : first + size]
        nodes = (snapshot.node.item(row) for row in slice_rows if row not in pending)
        slices.append(
            PodSlice(
                tuple(row for row in slice_rows if row in pending), tuple(node for node in nodes if node >= 0)
            )
        )
    return PodSlices(key, size, tuple(slices))


def asks_for_all(group: Child) -> bool:
    """Return whether units go for all members or children of a group, not only for those that it needs.

    Those of a basic group need each other no more than lone pods do.
    """
    least = group.min_count if isinstance(group, PodGroup) else group.min_group_count
    return least is None or (group.metadata.annotations or {}).get(PREEMPT_FOR_ALL) == "true"


def several_schedulers(pods: Iterable[Pod]) -> Unplaceable | None:
    """Return that pods which are placed together name several schedulers; None if they name one."""
    schedulers = {pod.scheduler for pod in pods}
    if len(schedulers) < 2:
        return None
    return Unplaceable(f"its pods name several schedulers: {some(schedulers)}", Blocker.SEVERAL_SCHEDULERS)


def _disagreement(divergence: Divergence, members: list[Pod], settings: Settings) -> Unplaceable | None:
    """Return in what members differ that must agree before a group is scheduled; None if they agree."""
    several = several_schedulers(members)
    if several is not None or not settings.semantics.rules.agreement:
        return several
    for axis, field in ((divergence.priority, "priority"), (divergence.policy, "preemptionPolicy")):
        if axis.differing:
            differing = listed([str(member.value) for member in axis.differing])
            reason = f"it has {field} {axis.expected} and pods of it {differing}"
            return refused_by_kube_scheduler(reason, settings)
    return None


def refused_by_kube_scheduler(reason: str, settings: Settings) -> Unplaceable:
    """Return that the kube-scheduler of these rules refuses pods that are placed together."""
    return Unplaceable(
        f"{settings.semantics.rules.scheduler} refuses it, because {reason}", Blocker.DIVERGENT
    )


def forbids_preemption(group: Child, pods: Iterable[Pod], classes: Mapping[str, PriorityClass]) -> bool:
    """Return whether the group, a pod to be placed, or the class of one forbids preemption."""
    return forbids_by_policy(group.preemption_policy, group.priority_class_name, classes) or any(
        forbids_by_policy(pod.spec.preemptionPolicy, pod.spec.priorityClassName or "", classes)
        for pod in pods
    )


def forbids_by_policy(policy: str | None, class_name: str, classes: Mapping[str, PriorityClass]) -> bool:
    """Return whether a policy forbids preemption; an absent one is its class's, as admission copies it."""
    if policy is None:
        priority_class = classes.get(class_name)
        policy = priority_class.preemptionPolicy if priority_class is not None else None
    return policy == NEVER


def _too_few(ready: list[Pod], members: Members, min_count: int) -> Unplaceable:
    ended = f"{not_counting(members.finished)}, " if members.finished else ""
    placeable = f"{count(len(ready), 'pod')} can be placed and {len(members.runs)} run"
    counts = f"{placeable}, {ended}minCount is {min_count}"
    gated = [pod for pod in members.waiting if pod.spec.schedulingGates]
    if gated:
        text = f"{counts}: {count(len(gated), 'pod')} held by scheduling gates: {gate_names(gated)}"
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


def gate_names(pods: Iterable[Pod]) -> str:
    """Return the scheduling gates of pods, and what is known to remove them."""
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
