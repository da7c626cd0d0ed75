"""The nodes of a snapshot by row, and the room that they offer to pods by the pods' shapes.

A plugin may provide a resource on nodes that do not offer it themselves. Only resources that some pod
requests are offered so.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from podium.api.podrequests import UnusableQuantity, allocatable
from podium.api.schedulable import SchedulableNode
from podium.planner.arrays import Bools, Columns, LayoutChange, Needs, by_id, grown
from podium.planner.framework import Plugin
from podium.planner.indexes import Unread
from podium.planner.interning import ShapeInterner
from podium.planner.overlay import (
    Overlay,
)
from podium.planner.shapes import Shape

# The fewest rows of nodes, and of pods, for which arrays have a place.
FEWEST_ROWS = 16
# The amount of a resource that a plugin provides on a node: more than any pods request. The filter of the
# plugin has the limit. The sum over a hundred thousand nodes is within 64 bits.
BACKED = 2**46
# A request for it counts as at most so much. A pod that names its node itself may request any amount
# there, and no kubelet refuses it.
_MOST_BACKED = 2**36


class NodeRows(Overlay):
    """The nodes of a snapshot and their room; a Snapshot applies the objects."""

    def __init__(self, minor: int, unread: Unread) -> None:
        """`unread` returns the kinds that were not read, or not entirely."""
        super().__init__()
        self.node_revision = 0
        self.columns = Columns()
        self.names: list[str | None] = []
        self.objects: list[SchedulableNode | None] = []
        self.row: dict[str, int] = {}
        self.unschedulable: Bools = np.zeros(0, np.bool_)
        self.unread = unread
        self.plugins: list[Plugin] = []
        self.minor = minor
        self._interner = ShapeInterner(minor, self.plugins, self._shape_came, self._shape_went)
        self._free_nodes: list[int] = []
        # The resources that pods request and plugins provide.
        self._backed: set[str] = set()
        self._bad_nodes: dict[int, tuple[UnusableQuantity, ...]] = {}

    @property
    def shapes(self) -> Mapping[int, Shape]:
        """The shapes that pods have, by id."""
        return self._interner.shapes

    def node_name(self, row: int) -> str:
        """Return the name of the node of a row, empty if the row is free."""
        return self.names[row] or ""

    def offered(self, node: SchedulableNode) -> tuple[dict[str, int], tuple[UnusableQuantity, ...]]:
        """Return what a node offers, BACKED of each resource that a plugin provides there."""
        amounts, unusable = allocatable(node)
        for name in self._backed:
            own = amounts.get(name, 0)
            amounts[name] = min(own, BACKED - 1) if own else BACKED
        return amounts, unusable

    def backed(self, resource: str) -> Bools | None:
        """Return the node rows where a plugin provides a resource, None for none."""
        at = self.resource.get(resource) if resource in self._backed else None
        return None if at is None else self.allocatable[at] == BACKED

    def is_backed(self, resource: str, row: int) -> bool:
        """Return whether a plugin provides a resource on a node row."""
        at = self.resource.get(resource) if resource in self._backed else None
        return at is not None and self.allocatable[at].item(row) == BACKED

    def counted_requests(self, shape: Shape) -> list[tuple[str, int]]:
        """Return the amounts that pods of a shape take from their nodes."""
        backed = self._backed
        return [
            (name, min(amount, _MOST_BACKED) if name in backed else amount) for name, amount in shape.requests
        ]

    def offered_at(self, resource: str, row: int) -> int:
        """Return what a node row offers of a resource, whether it has arrays or not."""
        return self._sums.offered_at(resource, row)

    def is_offered(self, resource: str) -> bool:
        """Return whether a node offers a resource, whether it has arrays or not."""
        return self._sums.is_offered(resource)

    def _free_node(self) -> int:
        if not self._free_nodes:
            start, size = len(self.alive), max(FEWEST_ROWS, 2 * len(self.alive))
            self._grow_nodes(size)
            self.columns.grow(size)
            self.unschedulable = grown(self.unschedulable, size)
            self.names += [None] * (size - start)
            self.objects += [None] * (size - start)
            self._free_nodes.extend(range(size - 1, start - 1, -1))
        return self._free_nodes.pop()

    def back(self, resources: Iterable[str]) -> None:
        """Let nodes offer resources that a plugin provides there."""
        self._back(self._backed.union(resources))

    def back_only(self, resources: Iterable[str]) -> None:
        """Let nodes offer only these of the resources that a plugin provided there."""
        self._back(self._backed.intersection(resources))

    def _back(self, resources: set[str]) -> None:
        """Let nodes offer these resources where they have none, and no others."""
        changed, self._backed = self._backed ^ resources, resources
        if not changed:
            return
        nodes = [(row, node) for row in self.row.values() if (node := self.objects[row]) is not None]
        # The requests of pods for a resource are counted when nodes begin to offer it.
        for row, node in nodes:
            amounts, _ = allocatable(node)
            kept = {name: amount for name, amount in amounts.items() if name not in changed}
            self._offer(row, (*amounts, *changed), kept)
        for row, node in nodes:
            self._set_room(row, None, node)

    def _set_room(self, row: int, before: SchedulableNode | None, node: SchedulableNode) -> None:
        amounts, unusable = self.offered(node)
        self._offer(row, self._offered_names(before), amounts)
        self._bad_nodes.pop(row, None)
        if unusable:
            self._bad_nodes[row] = unusable

    def _offered_names(self, node: SchedulableNode | None) -> Iterable[str]:
        """Return the resources that a node may offer, with those that plugins provide."""
        status = node.status if node is not None else None
        return () if node is None else (*((status.allocatable if status else None) or ()), *self._backed)

    def _offer(self, row: int, before: Iterable[str], amounts: Mapping[str, int]) -> None:
        """Set what a node offers instead of the resources that it offered `before`."""
        change = self._sums.offer(row, before, amounts)
        if change.came or change.went:
            self._lay_out(change)

    def _shape_came(self, shape_id: int, shape: Shape) -> None:
        """Count what pods of a new shape request."""
        change = self._sums.count_requests(shape.requests, 1)
        self._needs[shape_id] = self._needs_of(shape)
        # Otherwise the shape is the only one that requests a resource with new arrays, and has no pod yet.
        if change.went:
            self._lay_out(change)
        for plugin in self.plugins:
            plugin.shape_came(shape_id, shape)

    def _shape_went(self, shape_id: int, shape: Shape) -> None:
        del self._needs[shape_id]
        for plugin in self.plugins:
            plugin.shape_went(shape_id)
        change = self._sums.count_requests(shape.requests, -1)
        if change.came:
            self._lay_out(change)

    def _lay_out(self, change: LayoutChange) -> None:
        """Fill new arrays, and compute the needs of the shapes that request a resource of them."""
        changed = {*change.came, *change.went}
        asked: dict[str, dict[int, int]] = {name: {} for name in changed}
        for shape_id, shape in self.shapes.items():
            named = [request for request in self.counted_requests(shape) if request[0] in changed]
            for name, amount in named:
                asked[name][shape_id] = amount
            if named:
                self._needs[shape_id] = self._needs_of(shape)
        for name in change.came:
            self._sums.fill(name, by_id(self.shape, asked[name]), self.node)

    def _needs_of(self, shape: Shape) -> Needs:
        return self._sums.needs(self.counted_requests(shape), shape.scored)

    def _report_node_change(self, row: int) -> None:
        self.node_revision += 1
        for callback in self._node_changed:
            callback(row)

    def report_nodes(self) -> None:
        """Report that nodes may suit other pods than before, though no node has changed itself."""
        self.node_revision += 1
