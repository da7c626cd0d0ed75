"""How many pods stand in each topology domain: the counts behind host ports, pod affinity and spreading.

These filters ask one question in different words: how many pods of that kind stand where this node stands?
Counting anew for each decision is what makes such filters slow, so each question has a tally. It moves with
every pod that is placed or lifted, and back by the same step with the sign turned. Whether a pod counts is a
matter of its shape alone, so that is decided once a shape. Tallies are sparse: a cluster asks thousands of
questions (every Deployment has a selector of its own), and most concern a handful of nodes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from podium.schedulerplugin.arrays import Int32s, Rows
from podium.schedulerplugin.selectors import Selector
from podium.schedulerplugin.shapes import Shape
from podium.schedulerplugin.snapshot import Snapshot

# A tally keeps an array by domain if one domain in so many holds pods: memory stays in proportion.
_SPARSE = 64
# So much is remembered (or twice what was of use the last time) before the useless is dropped.
_ROOMY = 1024


class Domains(NamedTuple):
    """Where a tally counts: the domain of every node row now (-1 is none), and the number of ids."""

    column: Callable[[], Int32s]
    size: Callable[[], int]


def topology(snapshot: Snapshot, key: str) -> Domains:
    """Give the domains of a topology key: nodes with the same value of that label."""
    return Domains(lambda: snapshot.columns.column(key), lambda: len(snapshot.columns.values(key)))


class Tally:
    """The pods that one question counts, by node row and by domain; some nodes are in no domain."""

    def __init__(self, domains: Domains, *, terminating: bool = True) -> None:
        """Count in these domains; `terminating` says whether pods that are being deleted count as well."""
        self.domains = domains
        self.terminating = terminating
        self.rows: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.total = 0
        self._at: dict[int, int] = {}
        self._array: Int32s | None = None
        self._size = 1
        self._revision = -1

    def add(self, row: int, number: int) -> None:
        """Count so many pods more on a node row; fewer, where negative."""
        domain = self._at.get(row)
        if domain is None:
            domain = self._at[row] = self.domains.column().item(row)
        count = self.rows.get(row, 0) + number
        if count:
            self.rows[row] = count
        else:
            del self.rows[row], self._at[row]
        if domain >= 0:
            self._shift(domain, number)

    def settle(self, revision: int) -> None:
        """Follow the nodes that changed domains up to a revision of the nodes; due before every read."""
        if revision == self._revision:
            return
        self._revision = revision
        if self.domains.size() >= self._size:
            # A power of two above: one length for all tallies of a key, and few new arrays as nodes come.
            self._size = 1 << self.domains.size().bit_length()
            self._array = None
        column = self.domains.column()
        for row, before in self._at.items():
            now = column.item(row)
            if now != before:
                self._at[row] = now
                if before >= 0:
                    self._shift(before, -self.rows[row])
                if now >= 0:
                    self._shift(now, self.rows[row])

    def by_domain(self) -> Int32s:
        """Give the pods by domain id, read only; the last entry, which the domain -1 finds, is 0."""
        if self._array is not None:
            return self._array
        array = np.zeros(self._size, np.int32)
        if self.counts:
            array[list(self.counts)] = list(self.counts.values())
        if len(self.counts) * _SPARSE >= self._size:
            self._array = array
        return array

    def _shift(self, domain: int, number: int) -> None:
        count = self.counts.get(domain, 0) + number
        if count:
            self.counts[domain] = count
        else:
            del self.counts[domain]
        self.total += number
        if self._array is not None:
            if domain < self._size - 1:
                self._array[domain] = count
            else:
                self._array = None


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
        self._room = _ROOMY
        snapshot.observe(self._counted, many=self._counted_many)

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
            if len(self._of_shape) + len(self._tallies) > self._room:
                self._clear()
                return self._of(shape_id)
            tallies = self._of_shape[shape_id] = self._join(shape_id)
        return tallies

    def _clear(self) -> None:
        """Drop what concerns no pod any more: shapes and questions come and go for ever, as Jobs do."""
        self.version += 1
        self._of_shape = {}
        kept = {key: tally for key, tally in self._tallies.items() if tally.rows}
        self._tallies, self._found = {}, Pinned()
        for key, tally in kept.items():
            self._keep(key, tally)
        self._room = _ROOMY + 2 * (len(kept) + len(self.snapshot.shapes))

    def _counted(self, pod_row: int, shape_id: int, node_row: int, sign: int) -> None:
        for tally in self._of(shape_id):
            if tally.terminating or not self.snapshot.terminating.item(pod_row):
                tally.add(node_row, sign)

    def _counted_many(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, sign: int) -> None:
        counting = [shape_id for shape_id in np.unique(shape_ids).tolist() if self._of(shape_id)]
        for shape_id, node_row, ends, number in self._alike(pod_rows, shape_ids, node_rows, counting):
            for tally in self._of(shape_id):
                if tally.terminating or not ends:
                    tally.add(node_row, sign * number)

    def _alike(
        self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, counting: list[int]
    ) -> Iterator[tuple[int, int, bool, int]]:
        """Give (shape id, node row, terminating, how many) of the pods of some shapes."""
        chosen = np.isin(shape_ids, counting)
        if not chosen.any():
            return
        height = len(self.snapshot.alive)
        ends = self.snapshot.terminating[pod_rows[chosen]]
        group = (shape_ids[chosen].astype(np.int64) * height + node_rows[chosen]) * 2 + ends
        groups, numbers = np.unique(group, return_counts=True)
        for each, number in zip(groups.tolist(), numbers.tolist(), strict=True):
            shape_id, node_row = divmod(each // 2, height)
            yield shape_id, node_row, bool(each % 2), number

    def _standing(self, counting: list[int]) -> Iterator[tuple[int, int, bool, int]]:
        """Give the pods of some shapes that count on a node now, as `_alike` does."""
        snapshot = self.snapshot
        if counting:
            pod_rows = np.flatnonzero(snapshot.node >= 0)
            yield from self._alike(pod_rows, snapshot.shape[pod_rows], snapshot.node[pod_rows], counting)


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
        super().__init__(snapshot)
        self._shapes: Pinned[int] = Pinned()
        for shape_id in snapshot.shapes:
            self._of(shape_id)

    def ask(self, question: Question, make: Callable[[], T]) -> T:
        """Give the tally of a question, which `make` makes empty; valid while `version` stays."""
        known = self._tallies.get(question)
        if known is not None:
            return known  # type: ignore[return-value]  # a question is always asked with the same maker
        tally = make()
        marks = self._marks(question)
        shapes = self.snapshot.shapes
        near = list(self._of_shape) if marks is None else self._shapes.candidates(marks)
        counting = [each for each in near if each in shapes and question.match(shapes[each])]
        for _, node_row, ends, number in self._standing(counting):
            if tally.terminating or not ends:
                tally.add(node_row, number)
        for shape_id in counting:
            self._of(shape_id).append(tally)
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

    def _clear(self) -> None:
        super()._clear()
        self._shapes = Pinned()
        for shape_id in self.snapshot.shapes:
            self._of(shape_id)


class Plans(Generic[P]):
    """Which tallies decide for a shape: worked out once a shape, until the tallies say it must be again."""

    def __init__(self, tallies: Tallies[Any], make: Callable[[Shape], P]) -> None:
        self._tallies = tallies
        self._make = make
        self._version = -1
        # By identity, which lasts while the shape is held: to hash all of one costs more than an answer.
        self._made: dict[int, tuple[Shape, P]] = {}

    def of(self, shape: Shape) -> P:
        """Give what was worked out for a shape."""
        if self._version != self._tallies.version or len(self._made) > _ROOMY:
            self.forget()
        made = self._made.get(id(shape))
        if made is None:
            made = self._made[id(shape)] = (shape, self._make(shape))
        return made[1]

    def forget(self) -> None:
        """Work everything out anew."""
        self._version = self._tallies.version
        self._made = {}
