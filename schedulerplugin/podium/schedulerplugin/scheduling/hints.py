"""What could help those that found no place: who is worth trying again after the changes so far.

Ten thousand pods may wait for room while the cluster changes hundreds of times a second. Trying all of them
on each change would take all the time there is, trying them now and then would leave room unused; so each is
kept with what refused it, and a change is held against that. Pods that are alike in what decides are asked
about once, and all changes since the last look at once. Who has nodes reserved waits for these: what becomes
free there is nobody else's, and he is asked about by himself.
"""

from collections.abc import Collection, Hashable, Iterable
from itertools import chain
from typing import NamedTuple, TypeVar

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.scheduling.news import Ground, Kind, News, has_volumes, helps
from podium.schedulerplugin.shapes import Shape

_At = TypeVar("_At", bound=Hashable)


class Place(NamedTuple):
    """A node (by row) that is reserved for a pod (by row) of a shape."""

    pod: int
    shape: Shape
    node: int


class Waiting(NamedTuple):
    """What could help an entry that found no place.

    `shapes` are those of its pods. `may_preempt` says that it counted on the room of whom it may evict, of
    lower priority; who could not be evicted is in its way until he is told to go. `awaited` are the UIDs of
    leaving pods: once all are gone it is to be tried at once. `reserved` are the nodes that its pods hold.
    """

    shapes: tuple[Shape, ...]
    priority: int
    may_preempt: bool
    awaited: frozenset[str] = frozenset()
    reserved: tuple[Place, ...] = ()


class Seen(NamedTuple):
    """How many changes were noted, by what they may help."""

    places: int = 0
    neighbours: int = 0
    volumes: int = 0
    rules: int = 0
    gone: int = 0


class Helped(NamedTuple):
    """Entries whose awaited pods are all gone, which are to be tried at once, and those that may fit now."""

    ready: list[Key]
    helped: list[Key]


class _Held:
    """The nodes that pods of one entry hold, and one of them that had no room when somebody looked last."""

    __slots__ = ("_full", "_own", "_places", "_priority")

    def __init__(self, waiting: Waiting) -> None:
        self._places = waiting.reserved
        self._priority = waiting.priority
        self._own = frozenset(place.pod for place in waiting.reserved)
        # Which place that is; None before the first look, and when all had room.
        self._full: int | None = None

    def lands(self, rooms: Collection[int], ground: Ground) -> bool:
        """Say whether there is room now for each pod on its node; `rooms` are nodes that got some since."""
        places, first = self._places, self._full or 0
        if self._full is not None and places[first].node not in rooms:
            return False
        for at in chain(range(first, len(places)), range(first)):
            place = places[at]
            if not ground.has_room(place.shape, place.node, self._priority, self._own):
                self._full = at
                return False
        self._full = None
        return True


class Hints:
    """Who waits for what, and what has changed; the `note_` methods are for observers of a cluster."""

    def __init__(self) -> None:
        """Nobody waits and nothing has changed."""
        self._waiting: dict[Key, Waiting] = {}
        self._kinds: dict[Kind, dict[Key, None]] = {}
        self._left: dict[Key, set[str]] = {}
        self._awaiting: dict[str, dict[Key, None]] = {}
        self._holders: dict[int, dict[Key, None]] = {}
        self._held: dict[Key, _Held] = {}
        self._news = News()
        self.seen = self._looked = Seen()
        self._reshaped = 0

    @property
    def news(self) -> bool:
        """Whether anything was noted since the last look."""
        return self.seen != self._looked

    def changed_nodes(self) -> set[int]:
        """Return the nodes (rows) on which room came free or was taken since the last look."""
        return {*self._news.rooms, *self._news.nodes, *self._news.taken}

    def wait(self, key: Key, waiting: Waiting) -> None:
        """Keep what an entry waits for."""
        self.drop(key)
        self._waiting[key] = waiting
        for kind in _kinds(waiting):
            self._kinds.setdefault(kind, {})[key] = None
        for place in waiting.reserved:
            self._holders.setdefault(place.node, {})[key] = None
        if waiting.reserved:
            self._held[key] = _Held(waiting)
        if waiting.awaited:
            self._left[key] = set(waiting.awaited)
            for uid in waiting.awaited:
                self._awaiting.setdefault(uid, {})[key] = None

    def drop(self, key: Key) -> None:
        """Note that an entry waits no more."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        for kind in _kinds(waiting):
            _remove(self._kinds, kind, key)
        self._held.pop(key, None)
        for node in {place.node for place in waiting.reserved}:
            _remove(self._holders, node, key)
        for uid in self._left.pop(key, ()):
            _remove(self._awaiting, uid, key)

    def note_node(self, row: int) -> None:
        """Note a node that came, or changed in what it offers, its labels or its taints."""
        self._news.nodes.add(row)
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def note_room(self, row: int, priority: int, *, protected: bool = False) -> None:
        """Note that on a node a pod of that priority takes less room than before, or holds none any more.

        `protected` says that nobody could have evicted it.
        """
        self._note_level(self._news.rooms, row, priority, protected)

    def note_leaving(self, row: int, priority: int, *, protected: bool = False) -> None:
        """Note that on a node a pod of that priority, or `protected`, was told to go.

        Whoever may evict others counts on its room from now on; those who could have evicted it did before.
        """
        self._note_level(self._news.leaving, row, priority, protected)

    def note_taken(self, row: int) -> None:
        """Note that on a node others take more room than before: who has it reserved has to look again."""
        self._news.taken.add(row)
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def note_victim(self, row: int, priority: int) -> None:
        """Note that a pod of that priority came to a node whom nobody could have evicted until now."""
        victims = self._news.victims
        victims[row] = min(priority, victims.get(row, priority))
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def note_outranked(self, row: int, priority: int) -> None:
        """Note that a node is only reserved for a pod of that priority, whom nobody could evict so far."""
        self.note_victim(row, priority)
        # Who may evict nobody is asked whether it fits.
        self._news.rooms.setdefault(row, float("-inf"))

    def note_gone(self, uid: str) -> None:
        """Note that a pod is gone for good."""
        self._news.gone.add(uid)
        self.seen = self.seen._replace(gone=self.seen.gone + 1)

    def note_neighbour(self, pod: Schedulable, *, left: bool) -> None:
        """Note a pod that came to a node or left one, or (both) whose labels changed."""
        self._news.met(pod, left=left)
        self.seen = self.seen._replace(neighbours=self.seen.neighbours + 1)

    def note_neighbours(self) -> None:
        """Note that any pods may count as other neighbours than before: labels of a namespace changed."""
        self._news.anyone = True
        self.seen = self.seen._replace(neighbours=self.seen.neighbours + 1)

    def note_volumes(self) -> None:
        """Note a change of a claim or a volume."""
        self._news.volumes = True
        self.seen = self.seen._replace(volumes=self.seen.volumes + 1)

    def note_rules(self) -> None:
        """Note a change in who may be evicted: a class, a budget, a group."""
        self._news.rules = True
        self.seen = self.seen._replace(rules=self.seen.rules + 1)

    def helped(self, ground: Ground) -> Helped:
        """Give the entries that what was noted since the last look may have helped."""
        if not self.news:
            return Helped([], [])
        news, self._news = self._news, News()
        self._looked = self.seen
        ready = dict.fromkeys(
            key
            for uid in sorted(news.gone & self._awaiting.keys())
            for key in self._awaiting.pop(uid)
            if self._is_last(key, uid)
        )
        helped: dict[Key, None] = {}
        # The shapes that are kept here may say less than those that the pods have now.
        unsure, self._reshaped = ground.reshaped != self._reshaped, ground.reshaped
        for kind, keys in self._kinds.items():
            if unsure or helps(news, kind, ground):
                helped.update(keys)
        helped.update(dict.fromkeys(self._holding(news.nodes | news.taken)))
        for key in self._holding(news.rooms):
            if key not in helped and key not in ready and self._held[key].lands(news.rooms, ground):
                helped[key] = None
        return Helped(list(ready), [key for key in helped if key not in ready])

    def missed(self, waiting: Waiting, seen: Seen) -> bool:
        """Say whether anything was noted since `seen` that such an entry might have had to hear of."""
        now = self.seen
        return (
            (now.places != seen.places and bool(waiting.shapes))
            or (now.neighbours != seen.neighbours and bool(waiting.shapes))
            or (now.volumes != seen.volumes and any(has_volumes(shape) for shape in waiting.shapes))
            or (now.rules != seen.rules and waiting.may_preempt)
            or (now.gone != seen.gone and bool(waiting.awaited))
        )

    def _note_level(self, levels: dict[int, float], row: int, priority: int, protected: bool) -> None:
        level = float("inf") if protected else float(priority)
        levels[row] = max(level, levels.get(row, level))
        self.seen = self.seen._replace(places=self.seen.places + 1)

    def _holding(self, rows: Iterable[int]) -> Iterable[Key]:
        """Give the entries, each once, that hold any of some nodes."""
        holders = (self._holders[row] for row in rows if row in self._holders)
        return dict.fromkeys(chain.from_iterable(holders))

    def _is_last(self, key: Key, uid: str) -> bool:
        """Take a pod off those that an entry awaits; say whether it was the last."""
        left = self._left[key]
        left.remove(uid)
        if not left:
            del self._left[key]
        return not left


def _kinds(waiting: Waiting) -> list[Kind]:
    return [Kind(shape, waiting.priority, waiting.may_preempt) for shape in dict.fromkeys(waiting.shapes)]


def _remove(index: dict[_At, dict[Key, None]], at: _At, key: Key) -> None:
    """Take a key out of one entry of an index, and the entry with the last."""
    keys = index[at]
    del keys[key]
    if not keys:
        del index[at]
