"""How many pods stand in each topology domain: the counts behind host ports, pod affinity and spreading.

These filters ask one question in different words: how many pods of that kind stand where this node stands?
Counting anew for each decision is what makes such filters slow, so each question has a tally. It moves with
every pod that is placed or lifted, and back by the same step with the sign turned. Whether a pod counts is a
matter of its shape alone, so that is decided once a shape. Many pods moved at once wait in a queue, which the
opposite move shortens again: a plan lifts thousands of pods and puts them back, and mostly nobody asks.
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

# So much is remembered (or twice what was of use the last time) before the useless is dropped.
_ROOMY = 1024
# Shapes of so many parts are held by answers about them: 2,000 of ordinary pods, or one of a pod that is as
# large as the API server takes (a part is about half a kilobyte).
_WEIGHT = 2**14
# So many moves wait at most.
_WAITING = 2**20
# Whether any tally counts the pods of a shape: nobody has looked yet, none does, some do.
_UNKNOWN, _IGNORED, _COUNTED = range(3)


Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T", bound=Tally)
P = TypeVar("P")


class Pinned(Generic[Key]):
    """Things found by marks of which they need one to matter: of thousands a handful is tried."""

    def __init__(self) -> None:
        self._by_mark: dict[Hashable, list[Key]] = {}
        self._unmarked: list[Key] = []

    def add(self, thing: Key, marks: Iterable[Hashable] | None) -> None:
        """Add a thing that matters only where one of the marks is; None if it may matter anywhere."""
        if marks is None:
            self._unmarked.append(thing)
        for mark in marks or ():
            self._by_mark.setdefault(mark, []).append(thing)

    def discard(self, thing: Key, marks: Iterable[Hashable] | None) -> None:
        """Take out a thing that was added with these marks."""
        if marks is None:
            self._unmarked.remove(thing)
        for mark in marks or ():
            self._by_mark[mark].remove(thing)
            if not self._by_mark[mark]:
                del self._by_mark[mark]

    def candidates(self, marks: Iterable[Hashable]) -> Iterator[Key]:
        """Give the things that may matter where these marks are."""
        yield from self._unmarked
        for mark in marks:
            yield from self._by_mark.get(mark, ())


def pins(selector: Selector | None) -> list[tuple[str, str]] | None:
    """Give labels of which every pod that the selector matches has one; None if it names no such labels."""
    if selector is None:
        return []
    for key, operator, values in selector.requirements:
        if operator == "In":
            return [(key, value) for value in values]
    return None


class Tallies(ABC, Generic[Key]):
    """The tallies of one kind of question, in step with one snapshot from the moment this is made."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        # Grows when what was asked before must be asked again.
        self.version = 0
        self._tallies: dict[Key, Tally] = {}
        self._found: Pinned[Key] = Pinned()
        self._of_shape: dict[int, list[Tally]] = {}
        # By shape id, so that a hundred thousand pods are sorted out in one step.
        self._counts_as = ByShape(snapshot.shapes)
        # Bulk moves that no tally has heard of: pods as `_marked` gives them, and 1 or -1.
        self._waiting: list[tuple[Int64s, int]] = []
        self._room = _ROOMY
        snapshot.observe(self._counted, many=self._counted_many)
        snapshot.observe_shapes(self._reshaped)

    def hand_out(self) -> None:
        """Have the tallies note what waits; due before anything is read of them."""
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
        """Give the tallies that pods of a shape seen for the first time count in."""

    @abstractmethod
    def _marks(self, key: Key) -> Iterable[Hashable] | None:
        """Give the marks by which a question is found."""

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
        """Take in a shape of pods that counted as another until now, in the same tallies."""
        self._of(after)

    def _count_as(self, shape_id: int, counts_as: int) -> None:
        self._counts_as.set(shape_id, counts_as)

    def _tidy(self) -> None:
        """Drop what concerns no pod any more: shapes and questions come and go for ever, as Jobs do."""
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
        # Counting is adding up: what waits may as well be added later than this.
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
        """Say which pods count in a tally, by the shapes of the pods."""
        counts_as = self._counts_as.get(shape_ids)
        if (counts_as == _UNKNOWN).any():
            self._tidy()
            for shape_id in np.unique(shape_ids).tolist():
                self._of(shape_id)
            counts_as = self._counts_as.get(shape_ids)
        counting: Bools = counts_as == _COUNTED
        return counting

    def _marked(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s) -> Int64s:
        """Give what of each pod a tally reads as one number: shape, node, whether it is being deleted."""
        return (shape_ids.astype(np.int64) << 32) + (node_rows << 1) + self.snapshot.terminating[pod_rows]

    def _standing(self, counting: list[int]) -> Iterator[tuple[int, Int64s, Bools, Int64s]]:
        """Give the pods of some shapes that count on a node now, as `_by_shape` does."""
        snapshot = self.snapshot
        if counting:
            pod_rows = np.flatnonzero((snapshot.node >= 0) & np.isin(snapshot.shape, counting))
            marks = self._marked(pod_rows, snapshot.shape[pod_rows], snapshot.node[pod_rows])
            yield from _by_shape(marks, np.ones(len(marks), np.int64))


def _by_shape(marks: Int64s, signs: Int64s) -> Iterator[tuple[int, Int64s, Bools, Int64s]]:
    """Add up moves: give (shape id, node rows, being deleted, pods more or fewer) of what does not cancel."""
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
    """Tallies of what pods bring with them (ports, terms), there as soon as the first pod brings it."""

    def __init__(
        self,
        snapshot: Snapshot,
        keys: Callable[[Shape], Iterable[Key]],
        domains: Callable[[Key], Domains],
        marks: Callable[[Key], Iterable[Hashable] | None],
    ) -> None:
        """Count what `keys` gives of a shape in `domains`; `marks` are what `candidates` finds it by."""
        self._keys = keys
        self._domains = domains
        self._marks_of = marks
        super().__init__(snapshot)
        pod_rows = np.flatnonzero(snapshot.node >= 0)
        self._counted_many(pod_rows, snapshot.shape[pod_rows], snapshot.node[pod_rows], 1)

    def candidates(self, marks: Iterable[Hashable]) -> Iterator[tuple[Key, Tally]]:
        """Give what pods bring that may matter where these marks are, with its tally."""
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
    """Pods by namespace (None: of every one) and labels; no selector means none."""

    namespaces: frozenset[str] | None
    selector: Selector | None

    def match(self, shape: Shape) -> bool:
        """Say whether pods of a shape are among them."""
        here = self.namespaces is None or shape.namespace in self.namespaces
        return here and self.selector is not None and self.selector.matches(dict(shape.labels))


class Question(NamedTuple):
    """What an asked tally counts: the pods that are in all of `pods`, in the domains that `where` names."""

    pods: tuple[Pods, ...]
    where: Hashable

    def match(self, shape: Shape) -> bool:
        """Say whether pods of a shape count."""
        return all(pods.match(shape) for pods in self.pods)


class Asked(Tallies[Question]):
    """Tallies of what pods look for in others, made when first asked for; one instance serves all filters."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._epoch = snapshot.labels.epoch
        super().__init__(snapshot)
        self._shapes: Pinned[int] = Pinned()
        for shape_id in snapshot.shapes:
            self._of(shape_id)

    def hand_out(self) -> None:
        """Have the tallies note what waits; those that count by labels which shapes may lack are dropped."""
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
        """Give the tally of a question, which `make` makes empty; valid while `version` stays."""
        self.hand_out()
        known = self._tallies.get(question)
        if known is not None:
            return known  # type: ignore[return-value]  # a question is always asked with the same maker
        # Of pods that the snapshot does not hold nobody has named the selectors yet.
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
    """Which tallies decide for a shape: worked out once a shape, until the tallies say it must be again.

    It is worked out again when a label key comes to the nodes or goes too: a topology key that no node has
    needs no tally.
    """

    def __init__(self, tallies: Tallies[Any], make: Callable[[Shape], P]) -> None:
        self._tallies = tallies
        self._make = make
        self._version = (-1, -1)
        # By identity, which lasts while the shape is held: to hash all of one costs more than an answer.
        self._made: dict[int, tuple[Shape, P]] = {}
        self._weight = 0

    def of(self, shape: Shape) -> P:
        """Give what was worked out for a shape."""
        self._tallies.hand_out()
        if self._version != self._current() or self._weight > _WEIGHT:
            self.forget()
        made = self._made.get(id(shape))
        if made is None:
            self._weight += weight(shape)
            made = self._made[id(shape)] = (shape, self._make(shape))
        return made[1]

    def forget(self) -> None:
        """Work everything out anew."""
        self._version = self._current()
        self._made = {}
        self._weight = 0

    def _current(self) -> tuple[int, int]:
        return self._tallies.version, self._tallies.snapshot.columns.key_revision
