"""The arrays of a snapshot: amounts of resources, and labels, taints and features of nodes, by row.

Amounts that nodes offer, and the sums that their pods take, are one contiguous array for each resource. A
resource has arrays only while a node offers it and a pod requests it. Pods can name any number of resources
that no node offers, and a node any number that no pod requests. Of resources that are offered and requested,
`MOST_RESOURCES` have arrays: those that the most nodes offer. A pod that requests another one fits nowhere.
Two more sums are for scores (requests with kube-scheduler's defaults). Sums are exact. A sum above `MOST`
reads as `MOST`, so 64-bit arithmetic on it cannot wrap into free room. Its exact value is then kept aside, so
the sum is right again when the pods are gone.

Labels are integers: one column for each label key, and for each set of taints. Selectors, affinity and spread
compare the labels of thousands of nodes at once, but only for few keys. So a column is created when its key
is first requested, and only if a node has the key. Pods can name any number of other keys at no cost. Beyond
`MOST_COLUMNS` keys, a column is made for each use, of which a few are kept until a node changes. Ids of
values and of taint sets are counted by their users. So an autoscaler that writes a new taint value every few
seconds does not make the tables grow.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from podium.api.podrequests import PODS
from podium.api.schedulable import Taint

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# Row numbers, in the type that numpy uses for an index.
Rows = npt.NDArray[np.intp]


def summed(amounts: Int64s, numbers: npt.NDArray[np.integer[Any]], size: int) -> Int64s:
    """Return the sums of amounts by number, from 0 to below `size`; a negative number is in no sum."""
    total = np.zeros(size, np.int64)
    inside = numbers >= 0
    np.add.at(total, numbers[inside], amounts[inside])
    return total


def grown(array: npt.NDArray[Any], size: int, fill: int = 0) -> npt.NDArray[Any]:
    """Return a longer copy of an array, with the new entries filled."""
    # Zeros that are never written take no memory.
    longer = np.full(size, fill, array.dtype) if fill else np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def by_id(ids: Int32s, amounts: Mapping[int, int]) -> Int64s:
    """Return the amount for each id of an array, 0 for an id that has none."""
    if not amounts:
        return np.zeros(len(ids), np.int64)
    known = np.array(sorted(amounts), np.int64)
    values = np.array([amounts[number] for number in known.tolist()], np.int64)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, values[at], 0)


# The amounts that a pod takes from its node: (position of the sum, amount), without zeros.
Needs = tuple[tuple[int, int], ...]

# The largest sum that is stored. Readers subtract it from what a node offers (up to 2**52) and add amounts of
# pods (up to 2**52 each). A thousand of them still stay within 64 bits.
MOST = 2**62

# The most resources with arrays; all pods of a cluster request tens of different ones. At 5,000 nodes and
# 50,000 pods the arrays of one take half a megabyte.
MOST_RESOURCES = 128
# They have arrays as soon as a node offers them: every pod requests some of them.
_USUAL = frozenset((PODS, "cpu", "memory", "ephemeral-storage"))

# The positions of the two sums that serve scores, as in Shape.scored, and the first of a resource.
SCORED = _SCORED_CPU, _SCORED_MEMORY = 0, 1
_FIRST_RESOURCE = len(SCORED)


class LayoutChange(NamedTuple):
    """The resources that have arrays since a change, and those that have none any more."""

    came: list[str]
    went: list[str]


class ResourceSums:
    """Sums by node row, and by pod row the amounts that they consist of. Growth replaces arrays.

    `resource` gives the position of a resource in `allocatable` and `used` (by node) and in `requests` (by
    pod). A position is not reused. `layout` grows when an array comes, goes or is replaced. `scored` are
    milli cpu and bytes of memory by node.
    """

    def __init__(self) -> None:
        self.layout = 0
        self.resource: dict[str, int] = {}
        self.allocatable: dict[int, Int64s] = {}
        self.used: dict[int, Int64s] = {}
        self.requests: dict[int, Int64s] = {}
        # The number of shapes that request each resource.
        self._asked: Counter[str] = Counter()
        # The amounts that nodes offer of resources without arrays, by node row.
        self._offered: dict[str, dict[int, int]] = {}
        # A view reads and writes one integer several times as fast as the array does.
        self._views: dict[int, memoryview] = {}
        # The number of nodes that offer the resource of each position.
        self._offers: dict[int, int] = {}
        # The exact value of each sum past MOST, by (position of the sum, node row).
        self._beyond: dict[tuple[int, int], int] = {}
        self._nodes = self._pods = 0
        self._positions = count(_FIRST_RESOURCE)
        for index in SCORED:
            self._make_room(index)

    @property
    def scored(self) -> tuple[Int64s, Int64s]:
        """Milli cpu and bytes of memory on each node as scores count them."""
        return self.used[_SCORED_CPU], self.used[_SCORED_MEMORY]

    def needs(self, requests: Iterable[tuple[str, int]], scored: tuple[int, int]) -> Needs:
        """Return the amounts that a pod with these requests takes of the resources that have arrays now."""
        resource = self.resource
        amounts = [(resource[name], amount) for name, amount in requests if name in resource]
        amounts += (_SCORED_CPU, scored[0]), (_SCORED_MEMORY, scored[1])
        return tuple((index, amount) for index, amount in amounts if amount)

    def add(self, needs: Needs, node_row: int, sign: int) -> None:
        """Add the amounts of one pod (sign 1), or subtract them (-1)."""
        views, beyond = self._views, self._beyond
        for index, amount in needs:
            view = views[index]
            total = view[node_row] + sign * amount
            if total > MOST or beyond:
                self._add_exactly(index, node_row, sign * amount)
            else:
                view[node_row] = total

    def add_many(self, pod_rows: Rows, node_rows: Int32s, sign: int) -> None:
        """Add or subtract the amounts of many pods, each on its node."""
        nodes = node_rows.astype(np.intp)
        for index, by_pod in self.requests.items():
            self._add_all(index, by_pod.take(pod_rows), nodes, sign)

    def store(self, pod_row: int, before: Needs, after: Needs) -> None:
        """Store the amounts of a pod that counts on no node at the moment."""
        for index, _ in before:
            self.requests[index][pod_row] = 0
        for index, amount in after:
            self.requests[index][pod_row] = amount

    def offer(self, node_row: int, before: Iterable[str], amounts: Mapping[str, int]) -> LayoutChange:
        """Set what a node offers (above zero) instead of the resources that it offered `before`."""
        gone = {name for name in before if name not in amounts}
        for name, amount in (*((name, 0) for name in gone), *amounts.items()):
            at = self.resource.get(name)
            if at is not None:
                array = self.allocatable[at]
                self._offers[at] += bool(amount) - bool(array.item(node_row))
                array[node_row] = amount
            elif amount:
                self._offered.setdefault(name, {})[node_row] = amount
            elif (rows := self._offered.get(name)) is not None:
                rows.pop(node_row, None)
                if not rows:
                    del self._offered[name]
        return self._choose([*gone, *amounts])

    def offered_at(self, name: str, node_row: int) -> int:
        """Return what a node offers of a resource, with or without arrays."""
        at = self.resource.get(name)
        return (
            self._offered.get(name, {}).get(node_row, 0)
            if at is None
            else self.allocatable[at].item(node_row)
        )

    def is_offered(self, name: str) -> bool:
        """Return whether a node offers a resource, with or without arrays."""
        return name in self.resource or name in self._offered

    def count_requests(self, requests: Iterable[tuple[str, int]], number: int) -> LayoutChange:
        """Count one shape (1) more or (-1) less that has these requests."""
        asked, names = self._asked, [name for name, _ in requests]
        if number > 0:
            changed = [name for name in names if name not in asked]
            asked.update(names)
        else:
            changed = [name for name in names if asked[name] == 1]
            asked.subtract(names)
            for name in changed:
                del asked[name]
        return self._choose(changed)

    def _choose(self, changed: Sequence[str]) -> LayoutChange:
        """Decide which resources have arrays, after some began or ceased to be offered or requested.

        A resource without arrays takes those of another one only if more nodes offer it. New arrays are empty
        of requests (see `fill`).
        """
        went = [name for name in changed if name in self.resource and not self._is_used(name)]
        for name in went:
            self._drop_resource(name)
        offered = self._offered.keys()
        came = {name for name in offered & set(changed) if name in self._asked or name in _USUAL}
        if went:
            came |= self._asked.keys() & offered
        chosen: list[str] = []
        # One node may offer thousands that one pod requests.
        for name in nsmallest(MOST_RESOURCES, came, key=lambda name: (-len(self._offered[name]), name)):
            if len(self.resource) == MOST_RESOURCES:
                unusual = (resource for resource in self.resource if resource not in _USUAL)
                least = min(unusual, key=lambda resource: self._offers[self.resource[resource]])
                if self._offers[self.resource[least]] >= len(self._offered[name]):
                    break
                self._drop_resource(least)
                went.append(least)
            self._add_resource(name)
            chosen.append(name)
        return LayoutChange(chosen, went)

    def _is_used(self, name: str) -> bool:
        """Return whether a resource with arrays is offered and requested."""
        return bool(self._offers[self.resource[name]] and (name in self._asked or name in _USUAL))

    def fill(self, name: str, amounts: Int64s, node: Int32s) -> None:
        """Set the pods' requests for a new resource, by row; `node` is where each pod counts."""
        at = self.resource[name]
        self.requests[at][:] = amounts
        rows = np.flatnonzero((amounts > 0) & (node >= 0))
        self._add_all(at, amounts[rows], node[rows].astype(np.intp), 1)

    def grow_nodes(self, size: int) -> None:
        """Make room for nodes up to a row."""
        self._nodes = size
        self.layout += 1
        for arrays in (self.allocatable, self.used):
            arrays.update({at: grown(array, size) for at, array in arrays.items()})
        self._views = {at: array.data for at, array in self.used.items()}

    def grow_pods(self, size: int) -> None:
        """Make room for pods up to a row."""
        self._pods = size
        self.layout += 1
        self.requests.update({at: grown(array, size) for at, array in self.requests.items()})

    def _add_all(self, index: int, amounts: Int64s, nodes: Rows, sign: int) -> None:
        most = int(amounts.max(initial=0))
        if not most:
            return
        by_node = self.used[index]
        may_pass = sign > 0 and int(by_node.max(initial=0)) + most * len(amounts) > MOST
        if may_pass or self._beyond:
            for row, amount in zip(nodes.tolist(), amounts.tolist(), strict=True):
                self._add_exactly(index, row, sign * amount)
        else:
            (np.add if sign > 0 else np.subtract).at(by_node, nodes, amounts)

    def _add_exactly(self, index: int, node_row: int, amount: int) -> None:
        key, view = (index, node_row), self._views[index]
        total = self._beyond.pop(key, view[node_row]) + amount
        if total > MOST:
            self._beyond[key] = total
        view[node_row] = min(total, MOST)

    def _make_room(self, index: int) -> None:
        """Create the arrays of a sum."""
        self.layout += 1
        self.used[index] = np.zeros(self._nodes, np.int64)
        self.requests[index] = np.zeros(self._pods, np.int64)
        self._views[index] = self.used[index].data

    def _add_resource(self, name: str) -> None:
        """Create the arrays of a resource with what nodes offer."""
        at = self.resource[name] = next(self._positions)
        offered = self._offered.pop(name)
        self._offers[at] = len(offered)
        array = self.allocatable[at] = np.zeros(self._nodes, np.int64)
        array[list(offered)] = list(offered.values())
        self._make_room(at)

    def _drop_resource(self, name: str) -> None:
        """Drop the arrays of a resource, and remember what nodes offer of it."""
        self.layout += 1
        at = self.resource.pop(name)
        rows = np.flatnonzero(self.allocatable[at])
        if len(rows):
            amounts = self.allocatable[at][rows].tolist()
            self._offered[name] = dict(zip(rows.tolist(), amounts, strict=True))
        for by_position in (self.allocatable, self.used, self.requests, self._views, self._offers):
            del by_position[at]
        for key in [key for key in self._beyond if key[0] == at]:
            del self._beyond[key]


# A node without the label. A table by value id with one additional last entry covers these too.
ABSENT_VALUE = -1

# The most label keys with a column of their own, at 4 bytes a node, and the most further columns that are
# kept for a while. Clusters select nodes by tens of keys.
MOST_COLUMNS, MOST_SPARE_COLUMNS = 512, 32

_NO_LABELS: Mapping[str, str] = {}
_NO_TAINTS: tuple[Taint, ...] = ()
_NO_FEATURES: frozenset[str] = frozenset()

T = TypeVar("T", bound=Hashable)


class Ids(Generic[T]):
    """Small integers for the values that rows have now: an id is free again when no row has its value.

    Ids are below `size`, which is at most the largest number of values that rows had at one time.
    """

    def __init__(self) -> None:
        self.of: dict[T, int] = {}
        self._users: list[int] = []
        self._free: list[int] = []

    @property
    def size(self) -> int:
        """The largest id plus one."""
        return len(self._users)

    def acquire(self, value: T) -> int:
        """Return the id of a value, and count one row more with it."""
        number = self.of.get(value)
        if number is None:
            if not self._free:
                self._free.append(len(self._users))
                self._users.append(0)
            number = self.of[value] = self._free.pop()
        self._users[number] += 1
        return number

    def release(self, value: T) -> None:
        """Count one row less with a value."""
        number = self.of[value]
        self._users[number] -= 1
        if not self._users[number]:
            del self.of[value]
            self._free.append(number)


class _Column:
    """The values of one label key by row."""

    def __init__(self, size: int) -> None:
        self.ids: Ids[str] = Ids()
        self.rows: Int32s = np.full(size, ABSENT_VALUE, np.int32)

    def put(self, row: int, before: str | None, value: str | None) -> None:
        # The new id is taken first, so a value whose only row keeps it also keeps its id.
        self.rows[row] = ABSENT_VALUE if value is None else self.ids.acquire(value)
        if before is not None:
            self.ids.release(before)


class Sets(Generic[T]):
    """A set for each row: `of`, and as ids in `rows`, assigned by `ids`.

    A row without a node has no items.
    """

    def __init__(self, empty: T) -> None:
        self.ids: Ids[T] = Ids()
        self.rows: Int32s = np.zeros(0, np.int32)
        self.of: list[T] = []
        self._empty = empty

    def grow(self, size: int) -> None:
        """Make room for nodes up to a row."""
        new = [self.ids.acquire(self._empty) for _ in range(size - len(self.of))]
        self.rows = np.concatenate([self.rows, np.array(new, np.int32)])
        self.of += [self._empty] * len(new)

    def put(self, row: int, value: T) -> bool:
        """Set the value of a row; return whether it is new."""
        before = self.of[row]
        if value == before:
            return False
        self.of[row] = value
        self.rows[row] = self.ids.acquire(value)
        self.ids.release(before)
        return True


class Columns:
    """Labels, `taints` and `features` of nodes by row; arrays are as long as the snapshot's.

    Arrays are replaced when they grow. A set of taints keeps the order of its node. The meaning of an id may
    change when a node changes.
    """

    def __init__(self) -> None:
        # Grows when a label key is new on the nodes, or is on none any more.
        self.key_revision = 0
        self.taints = Sets(_NO_TAINTS)
        # The features that a kubelet declares.
        self.features = Sets(_NO_FEATURES)
        self._labels: list[Mapping[str, str]] = []
        # The number of nodes with each label key.
        self._nodes_with: Counter[str] = Counter()
        self._columns: dict[str, _Column] = {}
        # Further columns, as the nodes are now. Their ids are those that a new column has.
        self._spare: dict[str, _Column] = {}
        self._nowhere = _Column(0)

    def column(self, key: str) -> Int32s:
        """Return the id of a label's value on every row, ABSENT_VALUE without the label or the node."""
        return self._column(key).rows

    def values(self, key: str) -> Ids[str]:
        """Return the ids of a label's values."""
        return self._column(key).ids

    @property
    def keys(self) -> Collection[str]:
        """The keys that have a column."""
        return self._columns.keys()

    def has(self, key: str) -> bool:
        """Return whether a node has a label key."""
        return key in self._nodes_with

    def grow(self, size: int) -> None:
        """Make room for nodes up to a row."""
        self.taints.grow(size)
        self.features.grow(size)
        self._labels += [_NO_LABELS] * (size - len(self._labels))
        self._spare.clear()
        for column in (*self._columns.values(), self._nowhere):
            column.rows = grown(column.rows, size, ABSENT_VALUE)
        self._nowhere.rows.flags.writeable = False

    def put(
        self,
        row: int,
        labels: Mapping[str, str] | None,
        taints: Sequence[Taint] | None,
        features: frozenset[str] = _NO_FEATURES,
    ) -> bool:
        """Set the fields of the node on a row; return whether any is new."""
        labels = labels or _NO_LABELS
        labels_before, self._labels[row] = self._labels[row], labels
        new = [
            labels_before != labels,
            self.taints.put(row, tuple(taints or ())),
            self.features.put(row, features),
        ]
        for key in labels_before.keys() | labels.keys() if new[0] else ():
            before, value = labels_before.get(key), labels.get(key)
            if before != value:
                self._relabel(row, key, before, value)
        return any(new)

    def _relabel(self, row: int, key: str, before: str | None, value: str | None) -> None:
        column = self._columns.get(key)
        if column is not None:
            column.put(row, before, value)
        self._spare.pop(key, None)
        nodes = self._nodes_with[key]
        self._nodes_with[key] += (value is not None) - (before is not None)
        self.key_revision += bool(nodes) != bool(self._nodes_with[key])
        if not self._nodes_with[key]:
            del self._nodes_with[key]
            self._columns.pop(key, None)

    def _column(self, key: str) -> _Column:
        column = self._columns.get(key) or self._spare.get(key)
        if column is not None:
            return column
        if key not in self._nodes_with:
            return self._nowhere
        column = _Column(len(self._labels))
        for row, labels in enumerate(self._labels):
            column.put(row, None, labels.get(key))
        if len(self._columns) < MOST_COLUMNS:
            self._columns[key] = column
        else:
            if len(self._spare) == MOST_SPARE_COLUMNS:
                del self._spare[next(iter(self._spare))]
            self._spare[key] = column
        return column
