"""Finds the tree of composite groups that a group belongs to, as the objects name each other.

A tree is scheduled as one, and may be evicted as one. No API server compares the objects of a tree. So an
ancestor may be absent, and one tenant may nest groups without end or in a cycle. Every walk up is bounded by
the number of levels that a tree may have. A walk down takes as many steps as there are groups, so it has no
place in the callback of an event. No tree with more than `MAX_GROUPS` groups is scheduled.
"""

from collections.abc import Iterator
from typing import NamedTuple

from podium.api.core import Pod
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup
from podium.api.membership import GroupKey, key_of, parent_key
from podium.cluster.reader import Child, ClusterReader

# The levels of a tree, with that of the PodGroups.
MAX_DEPTH = 4
# The templates in one list of a Workload or of a composite template, as in the API server.
MAX_TEMPLATES = 8
# The groups of a tree with one group of each template that a Workload can have: the lists of groups and of
# composite groups below the root and on the next level, and the lists of groups below those.
MAX_GROUPS = 1 + 2 * MAX_TEMPLATES + 2 * MAX_TEMPLATES**2 + MAX_TEMPLATES**3


def group_at(view: ClusterReader, key: GroupKey) -> Child | None:
    """Return a group or a composite group, None if it does not exist."""
    return view.composites.get(key) if key.composite else view.groups.get(key)


def root_key(view: ClusterReader, key: GroupKey) -> GroupKey:
    """Return the key of the highest ancestor that is named, present or not; of a root its own.

    A group with more ancestors than a tree has levels, as in a cycle, is on its own.
    """
    at = key
    for _ in range(MAX_DEPTH):
        group = group_at(view, at)
        above = parent_key(group) if group is not None else None
        if above is None:
            return at
        at = above
    return key


class Lineage(NamedTuple):
    """A group and the composite groups `above` it, the root last.

    It is not `complete` if one of them is absent, or if they are too many for a tree.
    """

    group: Child
    above: tuple[CompositeGroup, ...]
    complete: bool

    @property
    def root(self) -> Child:
        """The highest group of these, which is the group itself without others."""
        return self.above[-1] if self.above else self.group


def lineage(view: ClusterReader, group: Child) -> Lineage:
    """Return the ancestors of a group."""
    ancestors: list[CompositeGroup] = []
    above = parent_key(group)
    while above is not None and len(ancestors) < MAX_DEPTH - 1:
        parent = view.composites.get(above)
        if parent is None:
            break
        ancestors.append(parent)
        above = parent_key(parent)
    return Lineage(group, tuple(ancestors), above is None)


def flaw(view: ClusterReader, group: Child) -> str:
    """Return why the root of a group is unknown, empty if it is known or the group has no parent."""
    ancestry = lineage(view, group)
    if ancestry.complete:
        return ""
    if len(ancestry.above) == MAX_DEPTH - 1:
        return f"its composite groups nest in more than {MAX_DEPTH} levels, or in a cycle"
    return f"the composite group {ancestry.root.composite} does not exist"


def is_too_large(view: ClusterReader, root: GroupKey) -> bool:
    """Return whether the tree of a root has more than MAX_GROUPS groups, in at most so many steps."""
    count, parents = 1, [root]
    for _ in range(MAX_DEPTH - 1):
        below = [view.children[key] for key in parents if key in view.children]
        count += sum(map(len, below))
        if count > MAX_GROUPS:
            return True
        parents = [key for children in below for key in children if key.composite]
    return False


def whole_group(view: ClusterReader, group: PodGroup) -> Child | None:
    """Return the group whose pods are evicted together with those of a group; None if each pod is alone.

    It is the highest ancestor of mode `all`, or the group itself (KEP-6012).
    """
    highest_first: tuple[Child, ...] = (*reversed(lineage(view, group).above), group)
    whole = (child for child in highest_first if child.disruption_mode is DisruptionMode.POD_GROUP)
    return next(whole, None)


def leaves(view: ClusterReader, key: GroupKey) -> Iterator[PodGroup]:
    """Yield the PodGroups at and below a group that belong to its tree, depth first."""
    if not key.composite:
        if key in view.groups:
            yield view.groups[key]
        return
    yield from (child for child in tree(view, key) if isinstance(child, PodGroup))


class Unlike(NamedTuple):
    """A group that keeps its tree from being scheduled: its field, and in what it differs from others."""

    group: Child
    field: str
    words: str


def unlike_groups(view: ClusterReader, root: CompositeGroup, policy: str | None) -> Iterator[Unlike]:
    """Yield the groups with which kube-scheduler 1.38 schedules no tree, beside those of another priority.

    `policy` is the preemptionPolicy of a pod of the tree, for a root without one. Source:
    validatePodGroupHierarchy, which compares a group with the root, and with its parent.
    """
    expected = root.preemption_policy or policy
    workload = _workload_name(root)
    for child in tree(view, key_of(root)):
        if child is root:
            continue
        if _workload_name(child) != workload:
            theirs = _workload_name(child) or "none"
            words = f"its Workload is {theirs}, and that of the root {workload or 'none'}"
            yield Unlike(child, "spec.workloadRef", words)
        if child.preemption_policy and expected and child.preemption_policy != expected:
            words = f"its preemptionPolicy is {child.preemption_policy}, and that of the tree {expected}"
            yield Unlike(child, "spec.preemptionPolicy", words)
        above = parent_key(child)
        parent = view.composites.get(above) if above is not None else None
        if parent is not None and parent.gang and not child.gang:
            yield Unlike(
                child, "spec.schedulingPolicy", f"it is basic, and its parent {parent.ref.name} a gang"
            )
        whole = DisruptionMode.POD_GROUP
        if parent is not None and parent.disruption_mode is whole and child.disruption_mode is not whole:
            words = f"its mode is single, and that of its parent {parent.ref.name} is all"
            yield Unlike(child, "spec.disruptionMode", words)


def _workload_name(group: Child) -> str:
    return group.template_ref.workload if group.template_ref is not None else ""


def members_below(view: ClusterReader, key: GroupKey) -> Iterator[Pod]:
    """Yield the pods that reference a group, or a group of its tree; finished pods too."""
    if not key.composite:
        yield from view.members(key).values()
    for leaf in leaves(view, key) if key.composite else ():
        yield from view.members(key_of(leaf)).values()


def tree(view: ClusterReader, key: GroupKey) -> Iterator[Child]:
    """Yield a composite group, if it exists, and all below it that belong to its tree, depth first."""
    if key in view.composites:
        yield view.composites[key]
    left = _children(view, key, 1)
    while left:
        level, child = left.pop()
        yield child
        if isinstance(child, CompositeGroup) and level < MAX_DEPTH - 1:
            left += _children(view, key_of(child), level + 1)


def _children(view: ClusterReader, key: GroupKey, level: int) -> list[tuple[int, Child]]:
    """Return the children of a group with their level, the last one first."""
    return [(level, child) for _, child in sorted(view.children.get(key, {}).items(), reverse=True)]
