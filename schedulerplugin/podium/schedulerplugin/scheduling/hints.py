"""What could help those that found no place: who is worth trying again after the changes so far.

Ten thousand pods may wait for room while the cluster changes hundreds of times a second. Trying all of them
on each change would take all the time there is, trying them now and then would leave room unused; so each is
kept with what refused it, and a change is held against that. Pods that are alike in what decides are asked
about once, and all changes since the last look at once.

A hint may wrongly say that something helps (one attempt for nothing, after a backoff), never the contrary:
where the exact question costs more than an attempt, the answer is yes. Who has nodes reserved waits for
these: what becomes free there is nobody else's, and he is asked about by himself.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.shapes import PodTerm, Shape

# So many places are asked about one by one; of more, those without room are left out at once.
_FEW_PLACES = 32
# So many are asked about for one kind of pods; more cost as much as an attempt.
_MOST_PLACES = 256
_MOST_NEIGHBOURS = 32
# A label on nodes: where it is the topology, a node is a domain.
_HOSTNAME = "kubernetes.io/hostname"

_Labels = tuple[tuple[str, str], ...]
_At = TypeVar("_At", bound=Hashable)


class Ground(Protocol):
    """The cluster as it is, as far as hints ask about it; the engine is one."""

    def suits(self, shape: Shape, node_row: int) -> bool:
        """Say whether a node would do for such a pod, were it empty."""

    def has_room(self, shape: Shape, node_row: int, priority: int, beside: Collection[int]) -> bool:
        """Say whether such a pod fits on a node now.

        Pods that a node is reserved for count there unless they are of lower priority, or in `beside` (rows).
        """

    def suitable(self, shape: Shape, node_rows: Collection[int]) -> Sequence[int]:
        """Give those of many nodes that would do for such a pod, were they empty."""

    def roomy(self, shape: Shape, node_rows: Collection[int]) -> Sequence[int]:
        """Give those of many nodes that have the room for such a pod now, were none reserved."""


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


class _Kind(NamedTuple):
    """All that decides whether a change helps a pod."""

    shape: Shape
    priority: int
    may_preempt: bool


class _News:
    """The changes since the last look; noting one is O(1)."""

    __slots__ = (
        "anyone",
        "gone",
        "leaving",
        "neighbours",
        "nodes",
        "repelled",
        "rooms",
        "rules",
        "taken",
        "victims",
        "volumes",
    )

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        # Where pods left room, and the highest priority among them: protected ones are above all.
        self.rooms: dict[int, float] = {}
        # Where pods are leaving whose room is theirs yet, and the highest priority among them, as above.
        self.leaving: dict[int, float] = {}
        # Where pods came that took room nobody here had given them.
        self.taken: set[int] = set()
        # Where pods came that may be evicted, and the lowest priority among them.
        self.victims: dict[int, int] = {}
        self.gone: set[str] = set()
        # Of pods that came, went or changed: namespace and labels; `anyone` stands for any pods.
        self.neighbours: set[tuple[str, _Labels]] = set()
        self.anyone = False
        # A pod went that kept others out of more than its node.
        self.repelled = False
        self.volumes = False
        self.rules = False


class _Held:
    """The nodes that pods of one entry hold, and one of them that had no room when somebody looked last."""

    __slots__ = ("_full", "_own", "_places", "_priority")

    def __init__(self, waiting: Waiting) -> None:
        self._places = waiting.reserved
        self._priority = waiting.priority
        self._own = frozenset(place.pod for place in waiting.reserved)
        # Which place that is; None before the first look.
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
        return True


class Hints:
    """Who waits for what, and what has changed; the `note_` methods are for observers of a cluster."""

    def __init__(self) -> None:
        """Nobody waits and nothing has changed."""
        self._waiting: dict[Key, Waiting] = {}
        self._kinds: dict[_Kind, dict[Key, None]] = {}
        self._left: dict[Key, set[str]] = {}
        self._awaiting: dict[str, dict[Key, None]] = {}
        self._holders: dict[int, dict[Key, None]] = {}
        self._held: dict[Key, _Held] = {}
        self._news = _News()
        self.seen = self._looked = Seen()

    @property
    def news(self) -> bool:
        """Whether anything was noted since the last look."""
        return self.seen != self._looked

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
        news = self._news
        if len(news.neighbours) < _MOST_NEIGHBOURS:
            labels = tuple(sorted((pod.metadata.labels or {}).items()))
            news.neighbours.add((pod.metadata.namespace or "", labels))
        else:
            news.anyone = True
        if left and _repels(pod):
            news.repelled = True
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
        news, self._news = self._news, _News()
        self._looked = self.seen
        ready = dict.fromkeys(
            key
            for uid in sorted(news.gone & self._awaiting.keys())
            for key in self._awaiting.pop(uid)
            if self._is_last(key, uid)
        )
        helped: dict[Key, None] = {}
        for kind, keys in self._kinds.items():
            if _helps(news, kind, ground):
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
            or (now.volumes != seen.volumes and any(_has_volumes(shape) for shape in waiting.shapes))
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


def _kinds(waiting: Waiting) -> list[_Kind]:
    return [_Kind(shape, waiting.priority, waiting.may_preempt) for shape in dict.fromkeys(waiting.shapes)]


def _remove(index: dict[_At, dict[Key, None]], at: _At, key: Key) -> None:
    """Take a key out of one entry of an index, and the entry with the last."""
    keys = index[at]
    del keys[key]
    if not keys:
        del index[at]


def _helps(news: _News, kind: _Kind, ground: Ground) -> bool:
    """Say whether one of the changes may have helped pods of a kind."""
    shape = kind.shape
    if (
        news.repelled
        or (news.rules and kind.may_preempt)
        or (news.volumes and _has_volumes(shape))
        or (bool(news.nodes) and _looks_around(shape))
        or _sees(shape, news)
    ):
        return True
    # What it could have evicted it has counted on; gone, that helps only where it fits at once.
    blocked: set[int] = set()
    if kind.may_preempt:
        left = chain(news.rooms.items(), news.leaving.items())
        blocked = {row for row, level in left if level >= kind.priority}
        blocked |= {row for row, level in news.victims.items() if level < kind.priority}
    may_suit, may_fit = blocked | news.nodes, news.rooms.keys() - blocked
    if len(may_suit) <= _FEW_PLACES:
        if any(ground.suits(shape, row) for row in may_suit):
            return True
    elif ground.suitable(shape, may_suit):
        return True
    rows = may_fit if len(may_fit) <= _FEW_PLACES else ground.roomy(shape, may_fit)
    return len(rows) > _MOST_PLACES or any(ground.has_room(shape, row, kind.priority, ()) for row in rows)


def _has_volumes(shape: Shape) -> bool:
    """Say whether claims decide where a pod may go; what is missing may be a claim."""
    return bool(shape.volumes or shape.zones or shape.missing)


def _looks_around(shape: Shape) -> bool:
    """Say whether other pods, by their labels, decide where a pod may go."""
    return bool(shape.spread or shape.pod_affinity or shape.pod_anti_affinity)


def _sees(shape: Shape, news: _News) -> bool:
    """Say whether pods that came, went or changed are among those that a pod looks at."""
    if not _looks_around(shape):
        return False
    return news.anyone or any(
        _sees_one(shape, namespace, dict(labels)) for namespace, labels in news.neighbours
    )


def _sees_one(shape: Shape, namespace: str, labels: Mapping[str, str]) -> bool:
    if namespace == shape.namespace and any(
        each.selector is not None and each.selector.matches(labels) for each in shape.spread
    ):
        return True
    return any(_means(term, namespace, labels) for term in (*shape.pod_affinity, *shape.pod_anti_affinity))


def _means(term: PodTerm, namespace: str, labels: Mapping[str, str]) -> bool:
    """Say whether a term may mean a pod; one that selects namespaces by label may mean any of them."""
    within = namespace in term.namespaces or term.namespace_selector is not None
    return within and term.selector is not None and term.selector.matches(labels)


def _repels(pod: Schedulable) -> bool:
    """Say whether a pod keeps others out of more than its own node."""
    affinity = pod.spec.affinity
    apart = affinity.podAntiAffinity if affinity is not None else None
    terms = apart.requiredDuringSchedulingIgnoredDuringExecution if apart is not None else None
    return any(term.topologyKey != _HOSTNAME for term in terms or ())
