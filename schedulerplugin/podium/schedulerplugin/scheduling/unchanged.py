"""Decides which changes of an object leave all as it was for the scheduler.

A large cluster changes hundreds of times a second, mostly in statuses. So these comparisons come first.
"""

from typing import Any

from podium.api.groups import CompositeGroup, PodGroup
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.cluster.reader import Child
from podium.cluster.state import Readable
from podium.groups.divergence import reported
from podium.planner.features import declared
from podium.planner.progress import created_claims


def same_for_scheduling(before: Schedulable | None, after: Schedulable | None) -> bool:
    """Return whether a change leaves all as it was that decides when and where a pod may be scheduled."""
    if before is None or after is None:
        return False
    was, now = before.metadata, after.metadata
    return (
        (was.uid, was.deletionTimestamp, before.finished) == (now.uid, now.deletionTimestamp, after.finished)
        and was.labels == now.labels
        and before.spec == after.spec
        and created_claims(before) == created_claims(after)
    )


def same_group(before: Readable | None, after: Readable | None) -> bool:
    """Return whether nothing of a group changed but its status, and not the priority its status reports."""
    if isinstance(before, PodGroup | CompositeGroup) and isinstance(after, PodGroup | CompositeGroup):
        return _facts(before) == _facts(after)
    return False


def _facts(group: Child) -> tuple[Any, ...]:
    """Return what decides when and where the pods of a group may be scheduled, or evicted."""
    metadata = group.metadata
    facts = (
        *(metadata.uid, metadata.annotations, group.disruption_mode, group.priority),
        *(group.priority_class_name, group.preemption_policy, group.topology, group.composite),
    )
    if isinstance(group, CompositeGroup):
        return *facts, group.min_group_count
    return *facts, group.min_count, group.demands, reported(group)


def same_node(before: Readable | None, after: SchedulableNode) -> bool:
    """Return whether a node offers the same to the same pods as before."""
    if not isinstance(before, SchedulableNode):
        return False
    offered = [node.status.allocatable if node.status is not None else None for node in (before, after)]
    return (
        before.spec == after.spec
        and before.metadata.labels == after.metadata.labels
        and offered[0] == offered[1]
        and declared(before) == declared(after)
    )
