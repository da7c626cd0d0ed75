"""Determines the pods to be placed for a pod or a group, or why it is no preemptor.

The unit of scheduling is the group (KEP-4671): a request for a member is a request for its group. This module
decides everything that does not depend on a node. That is which pods wait, how many must be placed, at which
priority, and whether anything may be evicted for them.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from podium.api.core import Pod, PriorityClass
from podium.api.groups import PODIUM_GROUP, PodGroup
from podium.api.membership import GroupKey, membership
from podium.api.schedulable import Schedulable
from podium.divergence import Divergence, disagreement, doubt, judge
from podium.errors import PodiumError
from podium.priority import NEVER
from podium.schedulerplugin.preemption.naming import Said
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.settings import DivergencePolicy, Settings
from podium.schedulerplugin.snapshot import Snapshot
from podium.view import Name, View
from podium.wording import count, listed, some

# kube-scheduler's words.
POLICY_NEVER = "not eligible due to preemptionPolicy=Never."


# An annotation on a group, `true`: members beyond minCount preempt like the others.
FOR_ALL = f"{PODIUM_GROUP}/preempt-for-all-members"


class Wanted(NamedTuple):
    """Pending pods by row, in order, of which `needed` must be placed, and `wished` if that is possible.

    `barred` says why nothing may be evicted for them, empty if it may. `running` members count toward
    minCount already. `group` is None for a pod in no group. `disputed` is the status of the group's condition
    PodsNotMatchingPriority if its pods contradict it.
    """

    rows: tuple[int, ...]
    needed: int
    priority: int
    barred: str = ""
    group: PodGroup | None = None
    running: int = 0
    disputed: str = ""
    wished: int = 0


class Cause(StrEnum):
    """The causes that keep it from being placed at all, by the person who has to act."""

    GROUP_MISSING = "GroupMissing"
    LEAVING = "Leaving"
    GATED = "Gated"
    TOO_FEW = "TooFew"
    NOT_JUDGED = "NotJudged"
    SEVERAL_SCHEDULERS = "SeveralSchedulers"
    DIVERGENT = "Divergent"


class Refused(NamedTuple):
    """Why it cannot be placed at all at present; `cause` is None if only the sentence is known.

    `disputed` is that of Wanted.
    """

    why: str
    cause: Cause | None = None
    disputed: str = ""


def wanted(  # noqa: PLR0917 - what an engine is made of, in its order
    view: View,
    snapshot: Snapshot,
    target: Name | GroupKey,
    settings: Settings,
    said: Said,
    leaving: Callable[[Schedulable], bool],
) -> Wanted | Refused:
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
            missing_group = f"waiting for the pod group {said('PodGroup', *key[1:])}, which does not exist"
            return Refused(missing_group, Cause.GROUP_MISSING)
        return _group(view, snapshot, key, settings, leaving)
    if pod.metadata.deletionTimestamp is not None:
        return Refused("it is being deleted", Cause.LEAVING)
    if pod.spec.schedulingGates:
        return Refused(f"it is held by scheduling gates: {_gates([pod])}", Cause.GATED)
    missing = snapshot.shapes[snapshot.shape.item(row)].missing
    if missing:
        return Refused(f"what it asks for cannot be judged: {'; '.join(missing)}", Cause.NOT_JUDGED)
    never = _says_never(pod.spec.preemptionPolicy, pod.spec.priorityClassName or "", view.classes)
    return Wanted((row,), 1, pod.spec.priority or 0, POLICY_NEVER if never else "")


def _group(
    view: View, snapshot: Snapshot, key: GroupKey, settings: Settings, leaving: Callable[[Schedulable], bool]
) -> Wanted | Refused:
    group = view.groups.get(key)
    name = f"{key.namespace}/{key.name}"
    if group is None:
        raise PodiumError(f"pod group {name}: there is no such group in what was read")
    members = [pod for pod in view.members(key).values() if not pod.finished]
    waiting = [pod for pod in members if not _runs(snapshot, pod)]
    counts = settings.semantics is not Semantics.KEP
    # A view for scheduling holds only Schedulable pods.
    running = sum(_runs(snapshot, pod) and (counts or not leaving(pod)) for pod in members)  # type: ignore[arg-type]
    least = 1 if group.min_count is None else group.min_count
    ready = [pod for pod in waiting if not pod.spec.schedulingGates and not _deleted(pod)]
    if not waiting and members:
        raise PodiumError(f"pod group {name}: no member is pending; {count(running, 'pod')} run")
    gated = [pod for pod in waiting if pod.spec.schedulingGates]
    if gated and settings.semantics is Semantics.V1_37:
        held = (
            f"kube-scheduler 1.37 holds the whole group: {count(len(gated), 'pod')} held by scheduling gates"
        )
        return Refused(f"{held}: {_gates(gated)}", Cause.GATED)
    if len(ready) + running < least or not ready:
        return _too_few(ready, waiting, running, least)
    if group.demands:
        return Refused(f"the group has what cannot be judged: {', '.join(group.demands)}", Cause.NOT_JUDGED)
    divergence = judge(group, members)
    unlike = _unlike(divergence, members, settings)
    if unlike is not None:
        return unlike
    doubted, disputed = doubt(group, divergence), disagreement(group, divergence)
    if doubted and settings.divergence is DivergencePolicy.HOLD:
        return Refused(f"{doubted}, and the divergence policy is Hold", Cause.DIVERGENT, disputed)
    rows = _in_order(snapshot, ready)
    missing = {what: None for row in rows for what in snapshot.shapes[snapshot.shape.item(row)].missing}
    judged = tuple(row for row in rows if not snapshot.shapes[snapshot.shape.item(row)].missing)
    if len(judged) + running < least or not judged:
        return Refused(f"what its pods ask for cannot be judged: {'; '.join(missing)}", Cause.NOT_JUDGED)
    priority, barred = group.priority or 0, ""
    if doubted and settings.divergence is DivergencePolicy.NO_PREEMPTION:
        priority = divergence.priority.lowest
        barred = f"{doubted}, and the divergence policy is NoPreemption"
    needed = max(1, least - running)
    # Pods of a basic group need each other no more than lone pods do.
    for_all = group.min_count is None or (group.metadata.annotations or {}).get(FOR_ALL) == "true"
    if not for_all and running >= max(least, 1) and settings.semantics is Semantics.KEP:
        barred = f"{count(running, 'pod')} run and minCount is {least}, so no pod goes for one more member"
    if _forbids(group, ready, view.classes):
        barred = POLICY_NEVER
    wished = len(judged) if for_all else needed
    return Wanted(judged, needed, priority, barred, group, running, disputed, wished)


def _unlike(divergence: Divergence, members: list[Pod], settings: Settings) -> Refused | None:
    """Return in what members differ that must agree before a group is scheduled; None if they agree."""
    schedulers = {pod.scheduler for pod in members}
    if len(schedulers) > 1:
        return Refused(f"its pods name several schedulers: {some(schedulers)}", Cause.SEVERAL_SCHEDULERS)
    if settings.semantics is not Semantics.V1_37:
        return None
    for axis, what in ((divergence.priority, "priority"), (divergence.policy, "preemptionPolicy")):
        if axis.differing:
            others = listed([str(each.value) for each in axis.differing])
            why = f"kube-scheduler 1.37 refuses it, for it has {what} {axis.expected} and pods of it {others}"
            return Refused(why, Cause.DIVERGENT)
    return None


def _forbids(group: PodGroup, pods: Iterable[Pod], classes: Mapping[str, PriorityClass]) -> bool:
    """Return whether the group, a pod to be placed, or the class of one forbids preemption."""
    return _says_never(group.preemption_policy, group.priority_class_name, classes) or any(
        _says_never(pod.spec.preemptionPolicy, pod.spec.priorityClassName or "", classes) for pod in pods
    )


def _says_never(policy: str | None, class_name: str, classes: Mapping[str, PriorityClass]) -> bool:
    """Return whether a policy forbids preemption; an absent one is its class's, as admission copies it."""
    if policy is None:
        found = classes.get(class_name)
        policy = found.preemptionPolicy if found is not None else None
    return policy == NEVER


def _too_few(ready: list[Pod], waiting: list[Pod], running: int, least: int) -> Refused:
    there = f"{count(len(ready), 'pod')} can be placed and {running} run, minCount is {least}"
    gated = [pod for pod in waiting if pod.spec.schedulingGates]
    if gated:
        held = f"{there}: {count(len(gated), 'pod')} held by scheduling gates: {_gates(gated)}"
        return Refused(held, Cause.GATED)
    return Refused(f"waiting for minCount pods: {there}", Cause.TOO_FEW)


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
    return [snapshot.pod_row[_name(pod)] for pod in ordered]


def _gates(pods: Iterable[Pod]) -> str:
    return some({gate.name or "" for pod in pods for gate in pod.spec.schedulingGates or ()})


def _deleted(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is not None


def _runs(snapshot: Snapshot, pod: Pod) -> bool:
    """Return whether a pod is bound or assumed."""
    if pod.spec.nodeName:
        return True
    return snapshot.node.item(snapshot.pod_row[_name(pod)]) >= 0


def _name(pod: Pod) -> Name:
    return pod.metadata.namespace or "", pod.metadata.name or ""
