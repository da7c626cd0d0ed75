"""Determines the pods to be placed for a pod, a group or a tree of groups, or why none can be."""

from collections.abc import Callable

from podium.api.membership import GroupKey, membership
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, Name
from podium.errors import PodiumError
from podium.groups.trees import flaw, root_key
from podium.planner.preemption.grouptarget import (
    POLICY_NEVER,
    forbids_by_policy,
    gate_names,
    group_target,
    members_of,
)
from podium.planner.preemption.outcome import ObjectNamer
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.planner.preemption.treetarget import tree_target
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings
from podium.planner.snapshot import Snapshot
from podium.text import count


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
        return _entry(view, snapshot, target, settings, leaving)
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
            name = namer("PodGroup", *key.qualified)
            missing = f"waiting for the pod group {name}, which does not exist"
            return Unplaceable(missing, Blocker.GROUP_MISSING)
        return _entry(view, snapshot, key, settings, leaving)
    if pod.metadata.deletionTimestamp is not None:
        return Unplaceable("it is being deleted", Blocker.LEAVING)
    if pod.spec.schedulingGates:
        return Unplaceable(f"it is held by scheduling gates: {gate_names([pod])}", Blocker.GATED)
    unknown = snapshot.shape_at(row).missing
    if unknown:
        return Unplaceable(f"what it asks for cannot be judged: {'; '.join(unknown)}", Blocker.NOT_JUDGED)
    never = forbids_by_policy(pod.spec.preemptionPolicy, pod.spec.priorityClassName or "", view.classes)
    return PlacementTarget((row,), 1, pod.spec.priority or 0, POLICY_NEVER if never else "")


def _entry(
    view: ClusterReader,
    snapshot: Snapshot,
    key: GroupKey,
    settings: Settings,
    leaving: Callable[[Schedulable], bool],
) -> PlacementTarget | Unplaceable:
    """Return the pods to be placed for a group, or for the tree that it is part of."""
    counted = leaving if settings.semantics is Semantics.KEP else None
    root = root_key(view, key) if settings.semantics.knows_trees else key
    if root.composite:
        return tree_target(view, snapshot, root, settings, counted)
    name, group = "/".join(root.qualified), view.groups.get(root)
    if group is None:
        raise PodiumError(f"pod group {name}: there is no such group in what was read")
    if group.composite and settings.semantics.knows_trees:
        return Unplaceable(flaw(view, group), Blocker.BROKEN_TREE)
    members = members_of(view, snapshot, root, counted)
    if members.unfinished and not members.waiting:
        raise PodiumError(f"pod group {name}: no member is pending; {count(len(members.runs), 'pod')} run")
    return group_target(view, snapshot, group, members, settings)
