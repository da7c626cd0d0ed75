"""The trees of composite groups, as their objects name each other.

No API server compares these objects. So a tree may be as deep as there are objects, or a cycle. No walk here
recurses, and each visits an object once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from podium.api.groups import CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of
from podium.cluster.reader import ClusterReader

Child = PodGroup | CompositeGroup


class GroupTrees:
    """The composite groups of a view, and the groups and composite groups below each."""

    def __init__(self, view: ClusterReader) -> None:
        self.composites = view.composites
        self.children: defaultdict[GroupKey, list[Child]] = defaultdict(list)
        members: list[Child] = [*view.groups.values(), *self.composites.values()]
        for child in members:
            if child.composite:
                self.children[_parent_key(child)].append(child)

    @cached_property
    def cycles(self) -> Mapping[GroupKey, tuple[GroupKey, ...]]:
        """Return each cycle by its first key."""
        found = {}
        # The walk that came to each composite group first, by where it began.
        walks: dict[GroupKey, GroupKey] = {}
        for start in self.composites:
            key: GroupKey | None = start
            while key is not None and key not in walks:
                walks[key] = start
                key = self._above(key)
            if key is not None and walks[key] == start:
                ring = sorted(self._ring(key))
                found[ring[0]] = tuple(ring)
        return found

    @property
    def roots(self) -> Iterator[tuple[GroupKey, CompositeGroup]]:
        """Yield the composite groups without a parent."""
        return ((key, each) for key, each in self.composites.items() if not each.composite)

    def below(self, key: GroupKey) -> Iterator[Child]:
        """Yield all groups and composite groups below a root, depth first; a root is in no cycle."""
        left = [*reversed(self.children.get(key, ()))]
        while left:
            child = left.pop()
            yield child
            left += reversed(self._children_of(child))

    def levels(self, key: GroupKey) -> int:
        """Return the number of levels of the tree of a root."""
        levels, level = 1, self.children.get(key, [])
        while level:
            levels, level = levels + 1, [below for each in level for below in self._children_of(each)]
        return levels

    def _above(self, key: GroupKey) -> GroupKey | None:
        """Return the parent of a composite group, None if it has none or the parent is absent."""
        parent = _parent_key(self.composites[key])
        return parent if parent in self.composites else None

    def _ring(self, first: GroupKey) -> Iterator[GroupKey]:
        """Yield the composite groups of a cycle, from one of them on."""
        key: GroupKey | None = first
        while key is not None:
            yield key
            key = self._above(key)
            if key == first:
                return

    def _children_of(self, group: Child) -> list[Child]:
        return self.children.get(key_of(group), []) if isinstance(group, CompositeGroup) else []


def _parent_key(group: Child) -> GroupKey:
    """Return the key of its parent, which is of the same API; a name is never empty."""
    return GroupKey(group.native, group.ref.namespace, group.composite)
