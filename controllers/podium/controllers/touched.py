"""Map a change in the cluster to the groups to reconcile.

A cluster changes hundreds of times a second, and few changes concern a given group. So this runs for every
event and returns keys only; the queue coalesces repeated keys.
"""

from collections.abc import Iterator

from podium.api.core import Namespace, Pod, PriorityClass
from podium.api.foreign import PodOwner
from podium.api.groups import CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of, membership, parent_key
from podium.cluster.reader import ClusterReader
from podium.cluster.state import Readable
from podium.controllers.conditions import OURS
from podium.groups.autogroups import opted_in
from podium.groups.autotrees import owner_keys


def touched(view: ClusterReader, before: Readable | None, after: Readable | None) -> Iterator[GroupKey]:
    """Yield the groups that a change concerns; a group may be repeated, and may not exist."""
    changed = after if after is not None else before
    match changed:
        case Pod():
            for pod in (before, after):
                key = membership(pod, native_served=view.native_served) if isinstance(pod, Pod) else None
                if key is not None:
                    yield key
                    yield from _absent_parent(view, view.groups.get(key))
        case PodGroup():
            yield key_of(changed)
            yield from _absent_parent(view, changed)
        case CompositeGroup():
            yield key_of(changed)
        case PodOwner() if _gangs(before) != _gangs(after):
            for owner in (before, after):
                keys = owner_keys(owner) if isinstance(owner, PodOwner) else ()
                yield from (
                    key for key in keys if key in view.groups or key in view.children or view.members(key)
                )
        case Namespace() if _facts(before) != _facts(after):
            name = changed.metadata.name
            yield from (key for key in view.groups if key.namespace == name)
            yield from (key for key in view.referenced_groups() if key.namespace == name)
            yield from (key for key in view.children if key.namespace == name)
        case PriorityClass():
            yield from _in_doubt(view)
        case _:
            pass


def _absent_parent(view: ClusterReader, group: PodGroup | None) -> Iterator[GroupKey]:
    """Yield the key of the composite group that a group names and that does not exist."""
    above = parent_key(group) if group is not None else None
    if above is not None and above not in view.composites:
        yield above


def _in_doubt(view: ClusterReader) -> Iterator[GroupKey]:
    """Yield the groups whose message may name a class; other messages depend on integers only."""
    for key, group in view.groups.items():
        if any(each.type in OURS and each.status != "False" for each in group.conditions):
            yield key


def _gangs(owner: Readable | None) -> tuple[object, ...]:
    """Return the fields of an owner that groups depend on; most changes of an owner concern its status."""
    if not isinstance(owner, PodOwner):
        return ()
    return owner.gangs, owner.gang_size, owner.branches, owner.metadata.uid, owner.metadata.deletionTimestamp


def _facts(namespace: Readable | None) -> tuple[object, ...]:
    """Return the fields of a namespace that groups depend on."""
    if not isinstance(namespace, Namespace):
        return ()
    return opted_in(namespace), namespace.metadata.deletionTimestamp
