"""The trees of composite groups, as their objects name each other.

No API server compares these objects. So a tree may be as deep as there are objects, or a cycle. No walk here
recurses, and each visits an object once.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

from podium.api.groups import CompositeGroup
from podium.api.membership import GroupKey, key_of, parent_key
from podium.cluster.reader import Child, ClusterReader


class GroupTrees:
    """The composite groups of a view, and the groups and composite groups below each."""

    def __init__(self, view: ClusterReader) -> None:
        self.composites = view.composites
        self._children = view.children

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
        left = [*reversed(self._below(key))]
        while left:
            child = left.pop()
            yield child
            left += reversed(self._children_of(child))

    def levels(self, key: GroupKey) -> int:
        """Return the number of levels of the tree of a root."""
        levels, level = 1, self._below(key)
        while level:
            levels, level = levels + 1, [below for each in level for below in self._children_of(each)]
        return levels

    def _above(self, key: GroupKey) -> GroupKey | None:
        """Return the parent of a composite group, None if it has none or the parent is absent."""
        parent = parent_key(self.composites[key])
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
        return self._below(key_of(group)) if isinstance(group, CompositeGroup) else []

    def _below(self, key: GroupKey) -> list[Child]:
        return [*self._children.get(key, {}).values()]
