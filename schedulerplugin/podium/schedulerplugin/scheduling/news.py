"""What has changed since the last look, and which pods of those that found no place it may help.

Noting a change is O(1), for there are hundreds a second; what they mean is asked for all of them at once. The
answer may wrongly be that something helps (one attempt for nothing, after a backoff), never the contrary:
where the exact question costs more than an attempt, it is yes.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.shapes import PodTerm, Shape

# So many places are asked about one by one; of more, those without room are left out at once.
_FEW_PLACES = 32
# So many are asked about for one kind of pods; more cost as much as an attempt.
_MOST_PLACES = 256
_MOST_NEIGHBOURS = 32
# A label on nodes: where it is the topology, a node is a domain.
_HOSTNAME = "kubernetes.io/hostname"

_Labels = tuple[tuple[str, str], ...]


class Ground(Protocol):
    """The cluster as it is, as far as hints ask about it; the engine is one."""

    @property
    def reshaped(self) -> int:
        """How often pending pods got other shapes though nothing of them changed."""

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


class Kind(NamedTuple):
    """All that decides whether a change helps a pod."""

    shape: Shape
    priority: int
    may_preempt: bool


class News:
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

    def met(self, pod: Schedulable, *, left: bool) -> None:
        """Note a pod that came or changed, or `left`."""
        if len(self.neighbours) < _MOST_NEIGHBOURS:
            labels = tuple(sorted((pod.metadata.labels or {}).items()))
            self.neighbours.add((pod.metadata.namespace or "", labels))
        else:
            self.anyone = True
        if left and _repels(pod):
            self.repelled = True


def helps(news: News, kind: Kind, ground: Ground) -> bool:
    """Say whether one of the changes may have helped pods of a kind."""
    shape = kind.shape
    if (
        news.repelled
        or (news.rules and kind.may_preempt)
        or (news.volumes and has_volumes(shape))
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


def has_volumes(shape: Shape) -> bool:
    """Say whether claims decide where a pod may go; what is missing may be a claim."""
    return bool(shape.volumes or shape.zones or shape.missing)


def _looks_around(shape: Shape) -> bool:
    """Say whether other pods, by their labels, decide where a pod may go."""
    return bool(shape.spread or shape.pod_affinity or shape.pod_anti_affinity)


def _sees(shape: Shape, news: News) -> bool:
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
