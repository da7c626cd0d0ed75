"""Targets of a plan of a file: the groups and trees in which its pods wait, and its lone pods."""

from podium.answers.expansion.additions import Additions
from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of, membership
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Target, name_of
from podium.cluster.state import ClusterState
from podium.groups.trees import flaw, group_at, leaves, root_key


def targets_of(additions: Additions) -> dict[Target, ObjectRef]:
    """Return the groups or trees in which pods of the file wait, and pods without a group.

    Each has the object of the file that brings it; a tree is its own. A pod whose group or composite group
    does not exist is left out.
    """
    seen = additions.seen
    targets: dict[Target, ObjectRef] = {}
    # The groups of pods that wait.
    waiting: set[GroupKey] = set()
    for pod in additions.objects:
        if not isinstance(pod, Schedulable) or not pod.pending:
            continue
        name = name_of(pod)
        source = additions.brought[name]
        if source.ref in additions.unplanned:
            continue
        key = membership(pod, native_served=additions.profile.workload_api)
        if key is None:
            targets.setdefault(name, source.ref)
            continue
        problem = _problem(seen, key)
        if problem:
            whole = source.document.error(f"Pod {pod.metadata.name} names {problem}")
            additions.leave_out(source.ref, whole)
            continue
        waiting.add(key)
        _add_root(targets, seen, key, source.ref)
    for group in additions.objects:
        if not isinstance(group, PodGroup | CompositeGroup) or flaw(seen, group):
            continue
        key = key_of(group)
        below = [key_of(leaf) for leaf in leaves(seen, key)]
        if any(pod.pending for leaf in below for pod in additions.state.members(leaf).values()):
            waiting.add(key)
            _add_root(targets, seen, key, group.ref)
        elif not waiting.intersection(below):
            additions.notes.append(f"{group.ref} has no pending pods. Add them")
    return targets


def _problem(seen: ClusterState, key: GroupKey) -> str:
    """Return the group of a pod with the reason why it has no plan, empty if it has one."""
    group = seen.groups.get(key)
    if group is None:
        return f"PodGroup {key.name}, which does not exist. Add it"
    flawed = flaw(seen, group)
    return f"PodGroup {key.name}, but {flawed}. Correct the tree" if flawed else ""


def _add_root(targets: dict[Target, ObjectRef], seen: ClusterState, key: GroupKey, source: ObjectRef) -> None:
    """Add a group, or for a group of a tree the root, which is its own source."""
    top = root_key(seen, key)
    root = group_at(seen, top)
    targets.setdefault(top, root.ref if root is not None and top.composite else source)
