"""Counts pods by topology domain, for host ports, pod affinity and spreading.

These filters share one question: how many pods of some kind are in the domain of a node? Counting again for
each decision makes such filters slow, so each question has a tally. It is updated with every pod that is
placed or lifted, and back by the same step with the sign turned. Whether a pod counts depends on its shape
alone, so that is decided once for each shape. Bulk moves wait in a queue, and the opposite move removes them
again. A plan lifts thousands of pods and puts them back, and mostly no tally is read meanwhile.
"""

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from podium.api.selectors import Selector
from podium.schedulerplugin.arrays import Bools, Int32s, Int64s, Rows
from podium.schedulerplugin.filters.byshape import ByShape
from podium.schedulerplugin.filters.tally import Domains, Tally
from podium.schedulerplugin.shapes import Shape, weight
from podium.schedulerplugin.snapshot import Snapshot

# The most entries that are kept, besides twice those of use the last time, before useless ones are dropped.
_ROOMY = 1024
# The total weight of the shapes held by answers: 2,000 ordinary pods, or one pod that is as large as the API
# server accepts (one part is about half a kilobyte).
_WEIGHT = 2**14
# The most moves that wait.
_WAITING = 2**20
# Whether any tally counts the pods of a shape: unknown, none does, some do.
_UNKNOWN, _IGNORED, _COUNTED = range(3)


Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T", bound=Tally)
P = TypeVar("P")


class Pinned(Generic[Key]):
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


def pins(selector: Selector | None) -> list[tuple[str, str]] | None:
    """Return labels of which every pod that the selector matches has one; None if it names no such labels."""
    if selector is None:
        return []
    for key, operator, values in selector.requirements:
        if operator == "In":
            return [(key, value) for value in values]
    return None


class Tallies(ABC, Generic[Key]):
    """The tallies of one kind of question, in step with one snapshot from their creation on."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        # Grows when earlier answers are no longer valid.
        self.version = 0
        self._tallies: dict[Key, Tally] = {}
        self._found: Pinned[Key] = Pinned()
        self._of_shape: dict[int, list[Tally]] = {}
        # By shape id, so that a hundred thousand pods are classified in one step.
        self._counts_as = ByShape(snapshot.shapes)
        # Bulk moves that no tally has counted yet: pods as `_marked` returns them, and 1 or -1.
        self._waiting: list[tuple[Int64s, int]] = []
        self._room = _ROOMY
        snapshot.observe(self._counted, many=self._counted_many)
        snapshot.observe_shapes(self._reshaped)

    def hand_out(self) -> None:
        """Pass the waiting moves to the tallies; call it before any of them is read."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        marks = np.concatenate([each for each, _ in waiting])
        signs = np.repeat([sign for _, sign in waiting], [len(each) for each, _ in waiting])
        for shape_id, node_rows, ends, numbers in _by_shape(marks, signs):
            stay = ~ends
            for tally in self._of_shape[shape_id]:
                if tally.terminating:
                    tally.note(node_rows, numbers)
                elif stay.any():
                    tally.note(node_rows[stay], numbers[stay])

    def differ_on(self, node_row: int, pod_rows: Rows) -> bool:
        """Return whether a tally counts other pods on a node than those (rows) that count there."""
        self.hand_out()
        expected: Counter[int] = Counter()
        for pod_row in pod_rows.tolist():
            stays = not self.snapshot.terminating.item(pod_row)
            for tally in self._of(self.snapshot.shape.item(pod_row)):
                expected[id(tally)] += tally.terminating or stays
        for tally in self._tallies.values():
            tally.work_in()
            if tally.rows.get(node_row, 0) != expected[id(tally)]:
                return True
        return False

    @abstractmethod
    def _join(self, shape_id: int) -> list[Tally]:
        """Return the tallies that count the pods of a new shape."""

    @abstractmethod
    def _marks(self, key: Key) -> Iterable[Hashable] | None:
        """Return the marks by which a question is found."""

    def _keep(self, key: Key, tally: Tally) -> None:
        self._tallies[key] = tally
        self._found.add(key, self._marks(key))

    def _of(self, shape_id: int) -> list[Tally]:
        tallies = self._of_shape.get(shape_id)
        if tallies is None:
            tallies = self._of_shape[shape_id] = self._join(shape_id)
            self._count_as(shape_id, _COUNTED if tallies else _IGNORED)
        return tallies

    def _reshaped(self, _before: int, after: int, _pods: int) -> None:
        """Register the new shape of pods that had another shape; the same tallies count them."""
        self._of(after)

    def _count_as(self, shape_id: int, counts_as: int) -> None:
        self._counts_as.set(shape_id, counts_as)

    def _tidy(self) -> None:
        """Drop shapes and questions that concern no pod any more; both come and go with Jobs."""
        if len(self._of_shape) + len(self._tallies) <= self._room:
            return
        self.hand_out()
        self.version += 1
        self._of_shape = {}
        self._counts_as.clear()
        for tally in self._tallies.values():
            tally.work_in()
        kept = {key: tally for key, tally in self._tallies.items() if tally.rows}
        self._tallies, self._found = {}, Pinned()
        for key, tally in kept.items():
            self._keep(key, tally)
        self._room = _ROOMY + 2 * (len(kept) + len(self.snapshot.shapes))

    def _counted(self, pod_row: int, shape_id: int, node_row: int, sign: int) -> None:
        tallies = self._of_shape.get(shape_id)
        if tallies is None:
            self._tidy()
            tallies = self._of(shape_id)
        # Counts are sums, so waiting moves may be added later than this one.
        for tally in tallies:
            if tally.terminating or not self.snapshot.terminating.item(pod_row):
                tally.add(node_row, sign)

    def _counted_many(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, sign: int) -> None:
        counting = self._counting(shape_ids)
        if not counting.any():
            return
        marks = self._marked(pod_rows[counting], shape_ids[counting], node_rows[counting])
        if self._waiting and self._waiting[-1][1] == -sign and np.array_equal(self._waiting[-1][0], marks):
            self._waiting.pop()
            return
        self._waiting.append((marks, sign))
        if sum(len(each) for each, _ in self._waiting) > _WAITING:
            self.hand_out()

    def _counting(self, shape_ids: Int32s) -> Bools:
        """Return which pods a tally counts, by the shapes of the pods."""
        counts_as = self._counts_as.get(shape_ids)
        if (counts_as == _UNKNOWN).any():
            self._tidy()
            for shape_id in np.unique(shape_ids).tolist():
                self._of(shape_id)
            counts_as = self._counts_as.get(shape_ids)
        counting: Bools = counts_as == _COUNTED
        return counting

    def _marked(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s) -> Int64s:
        """Return the facts of each pod that a tally reads as one number: shape, node, and being deleted."""
        return (shape_ids.astype(np.int64) << 32) + (node_rows << 1) + self.snapshot.terminating[pod_rows]

    def _standing(self, counting: list[int]) -> Iterator[tuple[int, Int64s, Bools, Int64s]]:
        """Yield the pods of some shapes that count on a node now, as `_by_shape` does."""
        snapshot = self.snapshot
        if counting:
            pod_rows = np.flatnonzero((snapshot.node >= 0) & np.isin(snapshot.shape, counting))
            marks = self._marked(pod_rows, snapshot.shape[pod_rows], snapshot.node[pod_rows])
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
        part = slice(start, end)
        yield shape_ids.item(start), node_rows[part], ends[part], numbers[part]


class Carried(Tallies[Key]):
    """Tallies of the ports or terms that pods bring, created with the first pod that brings one."""

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

    def candidates(self, marks: Iterable[Hashable]) -> Iterator[tuple[Key, Tally]]:
        """Return the ports or terms that may matter if these marks are present, with their tallies."""
        return ((key, self._tallies[key]) for key in self._found.candidates(marks))

    def _marks(self, key: Key) -> Iterable[Hashable] | None:
        return self._marks_of(key)

    def _join(self, shape_id: int) -> list[Tally]:
        joined = []
        for key in self._keys(self.snapshot.shapes[shape_id]):
            if key not in self._tallies:
                self.version += 1
                self._keep(key, Tally(self._domains(key)))
            joined.append(self._tallies[key])
        return joined


class Pods(NamedTuple):
    """Pods by namespace (None: every namespace) and labels; no selector selects none."""

    namespaces: frozenset[str] | None
    selector: Selector | None

    def match(self, shape: Shape) -> bool:
        """Return whether pods of a shape are among them."""
        here = self.namespaces is None or shape.namespace in self.namespaces
        return here and self.selector is not None and self.selector.matches(dict(shape.labels))


class Question(NamedTuple):
    """The pods that a tally counts (those in all of `pods`), and the domains (`where`)."""

    pods: tuple[Pods, ...]
    where: Hashable

    def match(self, shape: Shape) -> bool:
        """Return whether pods of a shape count."""
        return all(pods.match(shape) for pods in self.pods)


class Asked(Tallies[Question]):
    """Tallies of the pods that others' terms select, created on demand; one instance serves all filters."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._epoch = snapshot.labels.epoch
        super().__init__(snapshot)
        self._shapes: Pinned[int] = Pinned()
        for shape_id in snapshot.shapes:
            self._of(shape_id)

    def hand_out(self) -> None:
        """Pass the waiting moves on; drop the tallies that count by labels which shapes may lack now."""
        super().hand_out()
        if self._epoch != self.snapshot.labels.epoch:
            self._epoch = self.snapshot.labels.epoch
            self.version += 1
            self._tallies, self._found, self._of_shape = {}, Pinned(), {}
            self._counts_as.clear()
            self._shapes = Pinned()
            for shape_id in self.snapshot.shapes:
                self._of(shape_id)

    def ask(self, question: Question, make: Callable[[], T]) -> T:
        """Return the tally of a question, which `make` creates empty; valid while `version` stays."""
        self.hand_out()
        known = self._tallies.get(question)
        if known is not None:
            return known  # type: ignore[return-value]  # a question is always asked with the same maker
        # The selectors of a pod that the snapshot does not hold are not registered yet.
        self.snapshot.reveal(pods.selector for pods in question.pods if pods.selector is not None)
        tally = make()
        marks = self._marks(question)
        shapes = self.snapshot.shapes
        near = list(self._of_shape) if marks is None else self._shapes.candidates(marks)
        counting = [each for each in near if each in shapes and question.match(shapes[each])]
        for _, node_rows, ends, numbers in self._standing(counting):
            if tally.terminating:
                tally.note(node_rows, numbers)
            else:
                tally.note(node_rows[~ends], numbers[~ends])
        for shape_id in counting:
            self._of(shape_id).append(tally)
            self._count_as(shape_id, _COUNTED)
        self._keep(question, tally)
        return tally

    def _marks(self, key: Question) -> Iterable[Hashable] | None:
        for pods in key.pods:
            labels = pins(pods.selector)
            if labels is not None:
                return labels
        return None

    def _join(self, shape_id: int) -> list[Tally]:
        shape = self.snapshot.shapes[shape_id]
        self._shapes.add(shape_id, shape.labels)
        return [self._tallies[key] for key in self._found.candidates(shape.labels) if key.match(shape)]

    def _tidy(self) -> None:
        version = self.version
        super()._tidy()
        if version != self.version:
            self._shapes = Pinned()
            for shape_id in self.snapshot.shapes:
                self._of(shape_id)


class Plans(Generic[P]):
    """The tallies that decide for a shape, computed once for each shape while the tallies stay valid.

    They are also computed again when a label key comes to the nodes or goes: a topology key that no node has
    needs no tally.
    """

    def __init__(self, tallies: Tallies[Any], make: Callable[[Shape], P]) -> None:
        self._tallies = tallies
        self._make = make
        self._version = (-1, -1)
        # By identity, which is valid while the shape is held. Hashing a whole shape costs more than an
        # answer.
        self._made: dict[int, tuple[Shape, P]] = {}
        self._weight = 0

    def of(self, shape: Shape) -> P:
        """Return the result for a shape."""
        self._tallies.hand_out()
        if self._version != self._current() or self._weight > _WEIGHT:
            self.forget()
        made = self._made.get(id(shape))
        if made is None:
            self._weight += weight(shape)
            made = self._made[id(shape)] = (shape, self._make(shape))
        return made[1]

    def forget(self) -> None:
        """Drop all results."""
        self._version = self._current()
        self._made = {}
        self._weight = 0

    def _current(self) -> tuple[int, int]:
        return self._tallies.version, self._tallies.snapshot.columns.key_revision
