"""Counts pods by topology domain, for host ports, pod affinity and spreading.

These filters share one question: how many pods of some kind are in the domain of a node? Counting again for
each decision makes such filters slow, so each question has a counter. It is updated with every pod that is
placed or removed, and back by the same step with the sign turned. Whether a pod counts depends on its shape
alone, so that is decided once for each shape. Bulk moves wait in a queue, and the opposite move removes them
again. A plan removes thousands of pods and puts them back, and mostly no counter is read meanwhile.

Things that a pod would use alone, such as host ports, have a counter by node. The removal of pods can only
free them, and preemption may free them.
"""

import itertools
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from podium.api.selectors import Selector
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.deadline import Deadline
from podium.planner.filters.counter import DomainCounter, Domains, ShapeIntegers, node_domains
from podium.planner.framework import NodeFilter
from podium.planner.reprieve import Exclusion, PodsByShape
from podium.planner.shapes import Shape, weight
from podium.planner.snapshot import Snapshot

# The most entries that are kept, besides twice those of use the last time, before useless ones are dropped.
_MAX_SPARE_ENTRIES = 1024
# The most weight of the shapes held by answers: 2,000 ordinary pods, or one pod of the API server's maximum
# size. One part is about half a kilobyte.
_WEIGHT = 2**14
# The most moves that wait.
_MAX_QUEUED = 2**20
# Whether any counter counts the pods of a shape: unknown, none does, some do.
_UNKNOWN, _IGNORED, _COUNTED = range(3)


Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T", bound=DomainCounter)
P = TypeVar("P")


class MarkIndex(Generic[Key]):
    """Things that matter only if one of their marks is present, so that of thousands few are checked."""

    def __init__(self) -> None:
        self._by_mark: dict[Hashable, list[Key]] = {}
        self._unmarked: list[Key] = []

    def add(self, thing: Key, marks: Iterable[Hashable] | None) -> None:
        """Add a thing that matters only if one of the marks is present; None if it may always matter."""
        if marks is None:
            self._unmarked.append(thing)
        for mark in marks or ():
            self._by_mark.setdefault(mark, []).append(thing)

    def discard(self, thing: Key, marks: Iterable[Hashable] | None) -> None:
        """Remove a thing that was added with these marks."""
        if marks is None:
            self._unmarked.remove(thing)
        for mark in marks or ():
            self._by_mark[mark].remove(thing)
            if not self._by_mark[mark]:
                del self._by_mark[mark]

    def candidates(self, marks: Iterable[Hashable]) -> Iterator[Key]:
        """Yield the things that may matter if these marks are present."""
        yield from self._unmarked
        for mark in marks:
            yield from self._by_mark.get(mark, ())


def required_labels(selector: Selector | None) -> list[tuple[str, str]] | None:
    """Return labels of which every pod that the selector matches has one; None if it names no such labels."""
    if selector is None:
        return []
    for key, operator, values in selector.requirements:
        if operator == "In":
            return [(key, value) for value in values]
    return None


def with_pins(selector: Selector | None, shapes: Sequence[Shape]) -> Iterable[Shape]:
    """Return the shapes that a selector may match, judged by one label that it names."""
    marks = required_labels(selector)
    if marks is None:
        return shapes
    return [shape for shape in shapes if any(mark in shape.labels for mark in marks)]


class DomainCounters(ABC, Generic[Key]):
    """The counters of one kind of question, in step with one snapshot from their creation on."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        # Grows when earlier answers are no longer valid.
        self.version = 0
        self._counters: dict[Key, DomainCounter] = {}
        self._found: MarkIndex[Key] = MarkIndex()
        self._of_shape: dict[int, list[DomainCounter]] = {}
        # By shape id, so that a hundred thousand pods are classified in one step.
        self._counts_as = ShapeIntegers(snapshot.shapes)
        # Bulk moves that no counter has counted yet: pods as `_encoded` returns them, and 1 or -1.
        self._queued: list[tuple[Int64s, int]] = []
        self._room = _MAX_SPARE_ENTRIES
        snapshot.observe(self._counted, many=self._counted_many)
        snapshot.observe_shapes(self._reshaped)

    def flush(self) -> None:
        """Pass the waiting moves to the counters; call it before any of them is read."""
        if not self._queued:
            return
        queued, self._queued = self._queued, []
        marks = np.concatenate([moves for moves, _ in queued])
        signs = np.repeat([sign for _, sign in queued], [len(moves) for moves, _ in queued])
        for shape_id, node_rows, ends, numbers in _by_shape(marks, signs):
            stay = ~ends
            for counter in self._of_shape[shape_id]:
                if counter.terminating:
                    counter.defer(node_rows, numbers)
                elif stay.any():
                    counter.defer(node_rows[stay], numbers[stay])

    def differ_on(self, node_row: int, pod_rows: Rows) -> bool:
        """Return whether a counter counts other pods on a node than those (rows) that count there."""
        self.flush()
        expected: Counter[int] = Counter()
        for pod_row in pod_rows.tolist():
            stays = not self.snapshot.terminating.item(pod_row)
            for counter in self._counters_of_shape(self.snapshot.shape.item(pod_row)):
                expected[id(counter)] += counter.terminating or stays
        for counter in self._counters.values():
            counter.apply_deferred()
            if counter.rows.get(node_row, 0) != expected[id(counter)]:
                return True
        return False

    @abstractmethod
    def _counters_of(self, shape_id: int) -> list[DomainCounter]:
        """Return the counters that count the pods of a new shape."""

    @abstractmethod
    def _marks(self, key: Key) -> Iterable[Hashable] | None:
        """Return the marks by which a question is found."""

    def _store(self, key: Key, counter: DomainCounter) -> None:
        self._counters[key] = counter
        self._found.add(key, self._marks(key))

    def _counters_of_shape(self, shape_id: int) -> list[DomainCounter]:
        counters = self._of_shape.get(shape_id)
        if counters is None:
            counters = self._of_shape[shape_id] = self._counters_of(shape_id)
            self._count_as(shape_id, _COUNTED if counters else _IGNORED)
        return counters

    def _reshaped(self, _before: int, after: int, _pods: int) -> None:
        """Register the new shape of pods that had another shape; the same counters count them."""
        self._counters_of_shape(after)

    def _count_as(self, shape_id: int, counts_as: int) -> None:
        self._counts_as.set(shape_id, counts_as)

    def _drop_unused(self) -> None:
        """Drop shapes and questions that concern no pod any more; both come and go with Jobs."""
        if len(self._of_shape) + len(self._counters) <= self._room:
            return
        self.flush()
        self.version += 1
        self._of_shape = {}
        self._counts_as.clear()
        for counter in self._counters.values():
            counter.apply_deferred()
        kept = {key: counter for key, counter in self._counters.items() if counter.rows}
        self._counters, self._found = {}, MarkIndex()
        for key, counter in kept.items():
            self._store(key, counter)
        self._room = _MAX_SPARE_ENTRIES + 2 * (len(kept) + len(self.snapshot.shapes))

    def _counted(self, pod_row: int, shape_id: int, node_row: int, sign: int) -> None:
        counters = self._of_shape.get(shape_id)
        if counters is None:
            self._drop_unused()
            counters = self._counters_of_shape(shape_id)
        # Counts are sums, so waiting moves may be added later than this one.
        for counter in counters:
            if counter.terminating or not self.snapshot.terminating.item(pod_row):
                counter.add(node_row, sign)

    def _counted_many(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, sign: int) -> None:
        counting = self._counting(shape_ids)
        if not counting.any():
            return
        marks = self._encoded(pod_rows[counting], shape_ids[counting], node_rows[counting])
        if self._queued and self._queued[-1][1] == -sign and np.array_equal(self._queued[-1][0], marks):
            self._queued.pop()
            return
        self._queued.append((marks, sign))
        if sum(len(moves) for moves, _ in self._queued) > _MAX_QUEUED:
            self.flush()

    def _counting(self, shape_ids: Int32s) -> Bools:
        """Return which pods a counter counts, by the shapes of the pods."""
        counts_as = self._counts_as.get(shape_ids)
        if (counts_as == _UNKNOWN).any():
            self._drop_unused()
            for shape_id in np.unique(shape_ids).tolist():
                self._counters_of_shape(shape_id)
            counts_as = self._counts_as.get(shape_ids)
        counting: Bools = counts_as == _COUNTED
        return counting

    def _encoded(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s) -> Int64s:
        """Return the facts of each pod that a counter reads as one number: shape, node, and being deleted."""
        return (shape_ids.astype(np.int64) << 32) + (node_rows << 1) + self.snapshot.terminating[pod_rows]

    def _running(self, counting: list[int]) -> Iterator[tuple[int, Int64s, Bools, Int64s]]:
        """Yield the pods of some shapes that count on a node now, as `_by_shape` does."""
        snapshot = self.snapshot
        if counting:
            pod_rows = np.flatnonzero((snapshot.node >= 0) & np.isin(snapshot.shape, counting))
            marks = self._encoded(pod_rows, snapshot.shape[pod_rows], snapshot.node[pod_rows])
            yield from _by_shape(marks, np.ones(len(marks), np.int64))


def _by_shape(marks: Int64s, signs: Int64s) -> Iterator[tuple[int, Int64s, Bools, Int64s]]:
    """Yield the sums of moves that are not 0: shape id, node rows, being deleted, pods more or fewer."""
    order = np.argsort(marks)
    marks, signs = marks[order], signs[order]
    first = np.flatnonzero(np.diff(marks, prepend=-1))
    numbers = np.add.reduceat(signs, first) if len(first) else signs
    marks, numbers = marks[first][numbers != 0], numbers[numbers != 0]
    shape_ids, node_rows, ends = marks >> 32, (marks & (2**32 - 1)) >> 1, (marks & 1).astype(np.bool_)
    bounds = [*np.flatnonzero(np.diff(shape_ids, prepend=-1)).tolist(), len(marks)]
    for start, end in itertools.pairwise(bounds):
        span = slice(start, end)
        yield shape_ids.item(start), node_rows[span], ends[span], numbers[span]


class TermCounters(DomainCounters[Key]):
    """Counters of the ports or terms that pods bring, created with the first pod that brings one."""

    def __init__(
        self,
        snapshot: Snapshot,
        keys: Callable[[Shape], Iterable[Key]],
        domains: Callable[[Key], Domains],
        marks: Callable[[Key], Iterable[Hashable] | None],
    ) -> None:
        """Count the `keys` of a shape in `domains`; `candidates` finds them by `marks`."""
        self._keys = keys
        self._domains = domains
        self._marks_of = marks
        super().__init__(snapshot)
        pod_rows = np.flatnonzero(snapshot.node >= 0)
        self._counted_many(pod_rows, snapshot.shape[pod_rows], snapshot.node[pod_rows], 1)

    def candidates(self, marks: Iterable[Hashable]) -> Iterator[tuple[Key, DomainCounter]]:
        """Return the ports or terms that may matter if these marks are present, with their counters."""
        return ((key, self._counters[key]) for key in self._found.candidates(marks))

    def _marks(self, key: Key) -> Iterable[Hashable] | None:
        return self._marks_of(key)

    def _counters_of(self, shape_id: int) -> list[DomainCounter]:
        joined = []
        for key in self._keys(self.snapshot.shapes[shape_id]):
            if key not in self._counters:
                self.version += 1
                self._store(key, self._new_counter(key))
            joined.append(self._counters[key])
        return joined

    def _new_counter(self, key: Key) -> DomainCounter:
        return DomainCounter(self._domains(key))


class PodSelection(NamedTuple):
    """Pods by namespace (None: every namespace) and labels; no selector selects none."""

    namespaces: frozenset[str] | None
    selector: Selector | None

    def match(self, shape: Shape) -> bool:
        """Return whether pods of a shape are among them."""
        here = self.namespaces is None or shape.namespace in self.namespaces
        return here and self.selector is not None and self.selector.matches(dict(shape.labels))


def positions_of(pods: PodsByShape, selections: Iterable[PodSelection]) -> Rows:
    """Return the positions of the pods that are in all of some selections."""
    wanted = tuple(selections)
    marks = next((labels for pods in wanted if (labels := required_labels(pods.selector)) is not None), None)
    return pods.positions(
        lambda shape: (
            (marks is None or any(mark in shape.labels for mark in marks))
            and all(selection.match(shape) for selection in wanted)
        )
    )


class CountQuery(NamedTuple):
    """The pods that a counter counts (those in all of `pods`), and the domains (`where`)."""

    pods: tuple[PodSelection, ...]
    where: Hashable

    def match(self, shape: Shape) -> bool:
        """Return whether pods of a shape count."""
        return all(pods.match(shape) for pods in self.pods)


class SelectorCounters(DomainCounters[CountQuery]):
    """Counters of the pods that others' terms select, created on demand; one instance serves all filters."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._epoch = snapshot.labels.epoch
        super().__init__(snapshot)
        self._shapes: MarkIndex[int] = MarkIndex()
        for shape_id in snapshot.shapes:
            self._counters_of_shape(shape_id)

    def flush(self) -> None:
        """Pass the waiting moves on; drop the counters that count by labels which shapes may lack now."""
        super().flush()
        if self._epoch != self.snapshot.labels.epoch:
            self._epoch = self.snapshot.labels.epoch
            self.version += 1
            self._counters, self._found, self._of_shape = {}, MarkIndex(), {}
            self._counts_as.clear()
            self._shapes = MarkIndex()
            for shape_id in self.snapshot.shapes:
                self._counters_of_shape(shape_id)

    def counter_for(self, query: CountQuery, make: Callable[[], T]) -> T:
        """Return the counter of a question, which `make` creates empty; valid while `version` stays."""
        self.flush()
        known = self._counters.get(query)
        if known is not None:
            return known  # type: ignore[return-value]  # a question is always asked with the same maker
        # The selectors of a pod that the snapshot does not hold are not registered yet.
        self.snapshot.catch_up(pods.selector for pods in query.pods if pods.selector is not None)
        counter = make()
        marks = self._marks(query)
        shapes = self.snapshot.shapes
        near = list(self._of_shape) if marks is None else self._shapes.candidates(marks)
        counting = [shape_id for shape_id in near if shape_id in shapes and query.match(shapes[shape_id])]
        for _, node_rows, ends, numbers in self._running(counting):
            if counter.terminating:
                counter.defer(node_rows, numbers)
            else:
                counter.defer(node_rows[~ends], numbers[~ends])
        for shape_id in counting:
            self._counters_of_shape(shape_id).append(counter)
            self._count_as(shape_id, _COUNTED)
        self._store(query, counter)
        return counter

    def _marks(self, key: CountQuery) -> Iterable[Hashable] | None:
        for pods in key.pods:
            labels = required_labels(pods.selector)
            if labels is not None:
                return labels
        return None

    def _counters_of(self, shape_id: int) -> list[DomainCounter]:
        shape = self.snapshot.shapes[shape_id]
        self._shapes.add(shape_id, shape.labels)
        return [self._counters[key] for key in self._found.candidates(shape.labels) if key.match(shape)]

    def _drop_unused(self) -> None:
        version = self.version
        super()._drop_unused()
        if version != self.version:
            self._shapes = MarkIndex()
            for shape_id in self.snapshot.shapes:
                self._counters_of_shape(shape_id)


def unless_counted(
    node_filter: NodeFilter, shape: Shape, counted: Iterable[bool], deadline: Deadline
) -> tuple[Bools, Bools]:
    """Return the node rows that a filter never refuses, and those that it always refuses.

    `counted` says of other pods whether the filter counts them. If it counts one, it is sure of no node.
    """
    deadline.enforce()
    mask = node_filter.mask(shape)
    for is_counted in counted:
        deadline.enforce()
        if is_counted:
            return np.zeros_like(mask), np.zeros_like(mask)
    return mask, ~mask


class PerShape(Generic[P]):
    """The counters that decide for a shape, computed once for each shape while the counters stay valid.

    They are also computed again when a label key comes to the nodes or goes: a topology key that no node has
    needs no counter.
    """

    def __init__(self, counters: DomainCounters[Any], make: Callable[[Shape], P]) -> None:
        self._counters = counters
        self._make = make
        self._version = (-1, -1)
        # By identity, which is valid while the shape is held. Hashing a whole shape costs more than an
        # answer.
        self._made: dict[int, tuple[Shape, P]] = {}
        self._weight = 0

    def get(self, shape: Shape) -> P:
        """Return the result for a shape."""
        self._counters.flush()
        if self._version != self._current() or self._weight > _WEIGHT:
            self.clear()
        made = self._made.get(id(shape))
        if made is None:
            self._weight += weight(shape)
            made = self._made[id(shape)] = (shape, self._make(shape))
        return made[1]

    def clear(self) -> None:
        """Drop all results."""
        self._version = self._current()
        self._made = {}
        self._weight = 0

    def _current(self) -> tuple[int, int]:
        return self._counters.version, self._counters.snapshot.columns.key_revision


# Pods by domain: none.
NO_PODS: Mapping[int, int] = {}


class NominatedPods:
    """The pods that count on nodes during one decision only because these nodes are reserved for them.

    A nominated pod may come, or never. Filters that it can only make stricter (room, ports, anti-affinity)
    count it once. For affinity and spread it may be the pod that makes a node pass. So a node has to pass
    them with the nominated pods and without them, as in kube-scheduler (RunFilterPluginsWithNominatedPods).
    Nominated pods do not move during a decision. So the number that a counter counts is computed once, and
    the second answer is a subtraction. Between decisions there are none.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rows: Rows = np.zeros(0, np.intp)
        # By the identity of a counter, which is valid while the counter is held.
        self._known: dict[int, tuple[DomainCounter, Mapping[int, int]]] = {}

    def assume_all(self, rows: Rows) -> None:
        """Set the nominated pods; each is assumed on its node."""
        self._rows, self._known = rows, {}

    def clear(self) -> None:
        """Clear the nominated pods."""
        self.assume_all(np.zeros(0, np.intp))

    def counted(self, pods: tuple[PodSelection, ...], counter: DomainCounter) -> Mapping[int, int]:
        """Return how many nominated pods a counter of `pods` counts, by domain; only domains with some."""
        if not len(self._rows):
            return NO_PODS
        known = self._known.get(id(counter))
        if known is None:
            known = self._known[id(counter)] = (counter, self._count(pods, counter))
        return known[1]

    def _count(self, pods: tuple[PodSelection, ...], counter: DomainCounter) -> Mapping[int, int]:
        snapshot, column = self._snapshot, counter.domains.column()
        meant: dict[int, bool] = {}
        counts: Counter[int] = Counter()
        for row in self._rows.tolist():
            shape_id, node = snapshot.shape.item(row), snapshot.node.item(row)
            if shape_id not in meant:
                meant[shape_id] = all(selection.match(snapshot.shapes[shape_id]) for selection in pods)
            stays = counter.terminating or not snapshot.terminating.item(row)
            if meant[shape_id] and stays and node >= 0 and column.item(node) >= 0:
                counts[column.item(node)] += 1
        return counts


Thing = TypeVar("Thing", bound=Hashable)


class ExclusiveCounters(TermCounters[Thing]):
    """The counters of such things by node; one instance may serve several filters."""

    def __init__(
        self,
        snapshot: Snapshot,
        things: Callable[[Shape], Sequence[Thing]],
        mark: Callable[[Thing], Hashable],
        conflict: Callable[[Thing, Thing], bool],
    ) -> None:
        """`mark` returns what things in `conflict` share."""
        node = node_domains(snapshot)
        self.things = things
        self.mark = mark
        self.conflict = conflict
        super().__init__(snapshot, keys=things, domains=lambda _: node, marks=lambda thing: [mark(thing)])


class ExclusiveUseFilter(NodeFilter, Generic[Thing]):
    """The nodes where no pod uses a thing that a pod of the shape would use alone."""

    REASON: ClassVar[str]

    def __init__(self, taken: ExclusiveCounters[Thing], wanted: Callable[[Shape], Sequence[Thing]]) -> None:
        """`wanted` returns the things that a pod of a shape would use alone."""
        self.counters = (taken,)
        self._snapshot = taken.snapshot
        self._taken = taken
        self._wanted = wanted
        self._plans = PerShape(taken, self._conflicts)

    def concerns(self, shape: Shape) -> bool:
        """Return whether a pod of a shape would use something alone."""
        return bool(self._wanted(shape))

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape."""
        height = len(self._snapshot.alive)
        free = np.ones(height, np.bool_)
        for counter in self._plans.get(shape):
            counter.refresh(self._snapshot.node_revision)
            free &= counter.by_domain()[:height] == 0
        return free

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        for counter in self._plans.get(shape):
            counter.refresh(self._snapshot.node_revision)
            if row in counter.rows:
                return self.REASON
        return None

    def exclusions(
        self, shapes: Mapping[int, Shape], pods: PodsByShape, deadline: Deadline
    ) -> Iterator[Exclusion]:
        """Yield the pods that use a thing in conflict with one that pods of the shapes would use."""
        taken = self._taken
        users: dict[Sequence[Thing], list[int]] = defaultdict(list)
        for shape_id, shape in shapes.items():
            users[tuple(self._wanted(shape))].append(shape_id)
        wanted: dict[Hashable, list[tuple[Thing, Sequence[Thing]]]] = defaultdict(list)
        for things in users:
            for thing in things:
                wanted[taken.mark(thing)].append((thing, things))
        rivals: dict[Sequence[Thing], list[Rows]] = defaultdict(list)
        for other, positions in pods.each() if wanted else ():
            deadline.enforce()
            held = [
                (thing, own) for thing in taken.things(other) for own in wanted.get(taken.mark(thing), ())
            ]
            for things in dict.fromkeys(own for thing, (use, own) in held if taken.conflict(thing, use)):
                rivals[things].append(positions)
        for things, parts in rivals.items():
            yield Exclusion(np.concatenate(parts), users[things], self._shared_nodes())

    def _shared_nodes(self) -> Int32s:
        """Return the domain of each node row: nodes in one domain share the things."""
        return np.arange(len(self._snapshot.alive), dtype=np.int32)

    def _conflicts(self, shape: Shape) -> list[DomainCounter]:
        """Return the counters of the pods that use a thing in conflict with one of the shape."""
        taken = self._taken
        return [
            counter
            for thing in self._wanted(shape)
            for held, counter in taken.candidates([taken.mark(thing)])
            if taken.conflict(thing, held)
        ]
