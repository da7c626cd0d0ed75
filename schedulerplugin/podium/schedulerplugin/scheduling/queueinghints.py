"""Selects the unschedulable entries that should be tried again after the changes so far.

Ten thousand pods may wait for room while the cluster changes hundreds of times a second. An attempt for each
of them on each change would take all the time there is. Periodic attempts would leave room unused. So each
entry is kept with the reason why it was refused, and changes are compared with that. Pods that are alike in
what decides are checked once, for all changes since the last look. An entry with reserved nodes waits for
room on these nodes. Room that becomes free there is for no other entry, so such an entry is checked
separately.
"""

from collections.abc import Collection, Hashable, Iterable
from itertools import chain
from typing import NamedTuple, TypeVar

from podium.api.schedulable import Schedulable
from podium.planner.shapes import Shape
from podium.schedulerplugin.scheduling.clusterevents import (
    ClusterEvents,
    ClusterQueries,
    PodRequirements,
    helps,
    is_restricted,
)
from podium.schedulerplugin.scheduling.effects import Key

_At = TypeVar("_At", bound=Hashable)


class Place(NamedTuple):
    """A node (by row) that is reserved for a pod (by row) of a shape."""

    pod: int
    shape: Shape
    node: int


class Waiting(NamedTuple):
    """The changes that could help an entry that found no place.

    `shapes` are those of its pods. `may_preempt` says that it counted on the room of every victim of lower
    priority that it may evict. Pods that could not be evicted block it until they are marked for deletion.
    `awaited` are the UIDs of terminating pods: once all are gone, the entry is tried at once. `reserved` are
    the nodes that its pods hold.
    """

    shapes: tuple[Shape, ...]
    priority: int
    may_preempt: bool
    awaited: frozenset[str] = frozenset()
    reserved: tuple[Place, ...] = ()


class ChangeCounts(NamedTuple):
    """The number of changes recorded, by what they may help."""

    places: int = 0
    neighbours: int = 0
    restricted: int = 0
    rules: int = 0
    gone: int = 0


class Helped(NamedTuple):
    """Entries whose awaited pods are all gone, to be tried at once, and entries that may fit now."""

    ready: list[Key]
    helped: list[Key]


class _WaitingEntry:
    """The changes that one entry waits for."""

    __slots__ = ("_full", "_own", "left", "waiting")

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        # The awaited pods that are not gone yet.
        self.left = set(waiting.awaited)
        self._own = frozenset(place.pod for place in waiting.reserved)
        # The index of a reserved node without room; None before the first look, and when all had room.
        self._full: int | None = None

    def fits_now(self, rooms: Collection[int], cluster: ClusterQueries) -> bool:
        """Return whether each pod fits on its node now; `rooms` are nodes that gained room since."""
        places, first = self.waiting.reserved, self._full or 0
        if self._full is not None and places[first].node not in rooms:
            return False
        for at in chain(range(first, len(places)), range(first)):
            place = places[at]
            if not cluster.has_room(place.shape, place.node, self.waiting.priority, self._own):
                self._full = at
                return False
        self._full = None
        return True


class Hints:
    """The changes that each entry waits for, and the changes so far; observers call the `note_` methods."""

    def __init__(self) -> None:
        """Start with no waiting entry and no change."""
        self._waiting: dict[Key, _WaitingEntry] = {}
        # The keys by kind, by the UID of an awaited pod, and by the row of a reserved node.
        self._kinds: dict[PodRequirements, dict[Key, None]] = {}
        self._awaiting: dict[str, dict[Key, None]] = {}
        self._holders: dict[int, dict[Key, None]] = {}
        self._events = ClusterEvents()
        self.seen = self._looked = ChangeCounts()
        self._reshaped = 0

    @property
    def changed(self) -> bool:
        """True if a change was recorded since the last look."""
        return self.seen != self._looked

    def changed_nodes(self) -> set[int]:
        """Return the nodes (rows) on which room came free or was taken since the last look."""
        return {*self._events.rooms, *self._events.nodes, *self._events.taken}

    def wait(self, key: Key, waiting: Waiting) -> None:
        """Record the changes that an entry waits for."""
        self.drop(key)
        self._waiting[key] = _WaitingEntry(waiting)
        for kind in _kinds(waiting):
            self._kinds.setdefault(kind, {})[key] = None
        for place in waiting.reserved:
            self._holders.setdefault(place.node, {})[key] = None
        for uid in waiting.awaited:
            self._awaiting.setdefault(uid, {})[key] = None

    def drop(self, key: Key) -> None:
        """Record that an entry waits no more."""
        wait = self._waiting.pop(key, None)
        if wait is None:
            return
        for kind in _kinds(wait.waiting):
            _remove(self._kinds, kind, key)
        for node in {place.node for place in wait.waiting.reserved}:
            _remove(self._holders, node, key)
        for uid in wait.left:
            _remove(self._awaiting, uid, key)

    def note_node(self, row: int) -> None:
        """Record a node that came, or changed in its capacity, its labels or its taints."""
        self._events.nodes.add(row)
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def note_room(self, row: int, priority: int, *, protected: bool = False) -> None:
        """Record that a pod of that priority uses less room on a node than before, or none.

        `protected` says that no preemptor could have evicted it.
        """
        self._note_level(self._events.rooms, row, priority, protected)

    def note_leaving(self, row: int, priority: int, *, protected: bool = False) -> None:
        """Record that a pod on a node, of that priority or `protected`, was marked for deletion.

        Every preemptor counts on its room from now on. Those that could have evicted it counted on it before.
        """
        self._note_level(self._events.leaving, row, priority, protected)

    def note_taken(self, row: int) -> None:
        """Record that others use more room on a node than before: entries that hold the node look again."""
        self._events.taken.add(row)
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def note_victim(self, row: int, priority: int) -> None:
        """Record that a pod of that priority, which no preemptor could evict until now, came to a node."""
        victims = self._events.victims
        victims[row] = min(priority, victims.get(row, priority))
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def note_outranked(self, row: int, priority: int) -> None:
        """Record that a pod of that priority, so far not evictable, now only has a node reserved."""
        self.note_victim(row, priority)
        # Entries that may not preempt are checked for a fit.
        self._events.rooms.setdefault(row, float("-inf"))

    def note_gone(self, uid: str) -> None:
        """Record that a pod is gone for good."""
        self._events.gone.add(uid)
        self.seen = self.seen._replace(gone=self.seen.gone + 1)

    def note_neighbour(self, pod: Schedulable, *, left: bool) -> None:
        """Record a pod that came to a node or left one, or (both) whose labels changed."""
        self._events.met(pod, left=left)
        self.seen = self.seen._replace(neighbours=self.seen.neighbours + 1)

    def note_neighbours(self) -> None:
        """Record that any pod may have other neighbours now, because labels of a namespace changed."""
        self._events.any_pod = True
        self.seen = self.seen._replace(neighbours=self.seen.neighbours + 1)

    def note_restricted(self) -> None:
        """Record a change of an object by which a plugin restricts the nodes of pods."""
        self._events.restricted = True
        self.seen = self.seen._replace(restricted=self.seen.restricted + 1)

    def note_attaching(self, row: int) -> None:
        """Record that a node may attach more than before, though no pod left."""
        self._events.attaching.add(row)
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def note_released(self, names: Iterable[Hashable]) -> None:
        """Record what a pod that is gone may have used alone."""
        self._events.released.update(names)

    def note_rules(self) -> None:
        """Record a change in the rules on possible victims: a class, a budget, a group."""
        self._events.rules = True
        self.seen = self.seen._replace(rules=self.seen.rules + 1)

    def helped(self, cluster: ClusterQueries) -> Helped:
        """Return the entries that the changes since the last look may have helped."""
        if not self.changed:
            return Helped([], [])
        events, self._events = self._events, ClusterEvents()
        self._looked = self.seen
        ready = dict.fromkeys(
            key
            for uid in sorted(events.gone & self._awaiting.keys())
            for key in self._awaiting.pop(uid)
            if self._is_last(key, uid)
        )
        helped: dict[Key, None] = {}
        # The shapes kept here may be out of date: pending pods may have other shapes now.
        unsure, self._reshaped = cluster.reshaped != self._reshaped, cluster.reshaped
        for kind, keys in self._kinds.items():
            if unsure or helps(events, kind, cluster):
                helped.update(keys)
        helped.update(dict.fromkeys(self._holding(events.nodes | events.taken)))
        for key in self._holding(events.rooms):
            if key not in helped and key not in ready and self._waiting[key].fits_now(events.rooms, cluster):
                helped[key] = None
        return Helped(list(ready), [key for key in helped if key not in ready])

    def missed(self, waiting: Waiting, seen: ChangeCounts) -> bool:
        """Return whether any change since `seen` might concern an entry that waits like this."""
        now = self.seen
        return (
            (now.places != seen.places and bool(waiting.shapes))
            or (now.neighbours != seen.neighbours and bool(waiting.shapes))
            or (now.restricted != seen.restricted and any(map(is_restricted, waiting.shapes)))
            or (now.rules != seen.rules and waiting.may_preempt)
            or (now.gone != seen.gone and bool(waiting.awaited))
        )

    def _note_level(self, levels: dict[int, float], row: int, priority: int, protected: bool) -> None:
        level = float("inf") if protected else float(priority)
        levels[row] = max(level, levels.get(row, level))
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def _holding(self, rows: Iterable[int]) -> Iterable[Key]:
        """Return the entries, each once, that hold any of some nodes."""
        holders = (self._holders[row] for row in rows if row in self._holders)
        return dict.fromkeys(chain.from_iterable(holders))

    def _is_last(self, key: Key, uid: str) -> bool:
        """Remove a pod from those that an entry awaits; return whether it was the last."""
        left = self._waiting[key].left
        left.remove(uid)
        return not left


def _kinds(waiting: Waiting) -> list[PodRequirements]:
    return [
        PodRequirements(shape, waiting.priority, waiting.may_preempt)
        for shape in dict.fromkeys(waiting.shapes)
    ]


def _remove(index: dict[_At, dict[Key, None]], at: _At, key: Key) -> None:
    """Remove a key from one entry of an index, and the entry with its last key."""
    keys = index[at]
    del keys[key]
    if not keys:
        del index[at]
