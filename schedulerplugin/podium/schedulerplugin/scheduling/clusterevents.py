"""Records the changes since the last look, and answers which unschedulable pods they may help.

Recording a change is O(1), because there are hundreds a second; their effect is computed for all of them at
once. The answer may wrongly be yes (one useless attempt, after a backoff), but never wrongly no. Where the
exact answer costs more than an attempt, it is yes.
"""

from collections.abc import Collection, Hashable, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from podium.api.schedulable import Schedulable
from podium.planner.shapes import Shape

# Up to this many nodes are checked one by one; of more, those without room are filtered at once.
_FEW_PLACES = 32
# The most nodes checked for one kind of pods; more cost as much as an attempt.
_MOST_PLACES = 256
_MOST_NEIGHBOURS = 32
# A label of nodes: if it is the topology key, each node is a domain.
_HOSTNAME = "kubernetes.io/hostname"

_Labels = tuple[tuple[str, str], ...]


class ClusterQueries(Protocol):
    """The cluster as hints query it; the engine implements this."""

    @property
    def reshaped(self) -> int:
        """The number of times that pending pods got other shapes without a change of the pods."""

    def suits(self, shape: Shape, node_row: int) -> bool:
        """Return whether a node would take such a pod if it were empty."""

    def has_room(self, shape: Shape, node_row: int, priority: int, beside: Collection[int]) -> bool:
        """Return whether such a pod fits on a node now.

        Pods that a node is reserved for count there, except those of lower priority or in `beside` (rows).
        """

    def suitable(self, shape: Shape, node_rows: Collection[int]) -> Sequence[int]:
        """Return those of many nodes that would take such a pod if they were empty."""

    def with_room(self, shape: Shape, node_rows: Collection[int]) -> Sequence[int]:
        """Return those of many nodes that have room for such a pod now, without regard to reservations."""


class PodRequirements(NamedTuple):
    """All fields that decide whether a change helps a pod."""

    shape: Shape
    priority: int
    may_preempt: bool


class ClusterEvents:
    """The changes since the last look; recording one is O(1)."""

    __slots__ = (
        "any_pod",
        "attaching",
        "gone",
        "leaving",
        "neighbours",
        "nodes",
        "released",
        "repelled",
        "restricted",
        "rooms",
        "rules",
        "taken",
        "victims",
    )

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        # The nodes on which pods freed room, with their highest priority (infinite for a protected pod).
        self.rooms: dict[int, float] = {}
        # The nodes with terminating pods that still take room, with the highest priority, as above.
        self.leaving: dict[int, float] = {}
        # The nodes with new pods that took room without a decision of this scheduler.
        self.taken: set[int] = set()
        # The nodes with new pods that may be evicted, and the lowest priority among the pods.
        self.victims: dict[int, int] = {}
        self.gone: set[str] = set()
        # Namespace and labels of pods that came, left or changed; `any_pod` stands for any pods.
        self.neighbours: set[tuple[str, _Labels]] = set()
        self.any_pod = False
        # A pod is gone that kept others out of more than its node.
        self.repelled = False
        # The nodes that may attach more than before, though no pod left.
        self.attaching: set[int] = set()
        # The things that pods which are gone may have used alone.
        self.released: set[Hashable] = set()
        # A change of an object by which a plugin restricts the nodes of pods.
        self.restricted = False
        self.rules = False

    def met(self, pod: Schedulable, *, left: bool) -> None:
        """Record a pod that came or changed, or `left`."""
        if len(self.neighbours) < _MOST_NEIGHBOURS:
            labels = tuple(sorted((pod.metadata.labels or {}).items()))
            self.neighbours.add((pod.metadata.namespace or "", labels))
        else:
            self.any_pod = True
        if left:
            self.repelled |= _repels(pod)


def helps(events: ClusterEvents, kind: PodRequirements, cluster: ClusterQueries) -> bool:
    """Return whether one of the changes may have helped pods of a kind."""
    shape = kind.shape
    if (
        events.repelled
        or (events.rules and kind.may_preempt)
        or (events.restricted and is_restricted(shape))
        or not all(events.released.isdisjoint(need.used_alone) for need in shape.needs)
        or (bool(events.nodes) and _looks_around(shape))
        or _sees(shape, events)
    ):
        return True
    # A preemptor has counted on the room of its possible victims. Once they are gone, that helps only a pod
    # that fits at once.
    attaching = events.attaching if any(need.attaches for need in shape.needs) else set()
    blocked: set[int] = set()
    if kind.may_preempt:
        left = chain(events.rooms.items(), events.leaving.items())
        blocked = {row for row, level in left if level >= kind.priority}
        blocked |= {row for row, level in events.victims.items() if level < kind.priority}
        # Victims count on their own slots only.
        blocked |= attaching
    may_suit, may_fit = blocked | events.nodes, (events.rooms.keys() | attaching) - blocked
    if len(may_suit) <= _FEW_PLACES:
        if any(cluster.suits(shape, row) for row in may_suit):
            return True
    elif cluster.suitable(shape, may_suit):
        return True
    rows = may_fit if len(may_fit) <= _FEW_PLACES else cluster.with_room(shape, may_fit)
    return len(rows) > _MOST_PLACES or any(cluster.has_room(shape, row, kind.priority, ()) for row in rows)


def is_restricted(shape: Shape) -> bool:
    """Return whether plugins may restrict the nodes of a pod; `missing` may have objects of theirs."""
    return bool(shape.missing) or any(need.restricts for need in shape.needs)


def _looks_around(shape: Shape) -> bool:
    """Return whether the labels of other pods restrict the nodes of a pod."""
    return any(need.looks_around for need in shape.needs)


def _sees(shape: Shape, events: ClusterEvents) -> bool:
    """Return whether pods that came, left or changed match a term of a pod."""
    needs = [need for need in shape.needs if need.looks_around]
    if not needs or events.any_pod:
        return bool(needs)
    neighbours = ((namespace, dict(labels)) for namespace, labels in events.neighbours)
    return any(need.looks_at(shape, *neighbour) for neighbour in neighbours for need in needs)


def _repels(pod: Schedulable) -> bool:
    """Return whether a pod keeps others out of more than its own node."""
    affinity = pod.spec.affinity
    apart = affinity.podAntiAffinity if affinity is not None else None
    terms = apart.requiredDuringSchedulingIgnoredDuringExecution if apart is not None else None
    return any(term.topologyKey != _HOSTNAME for term in terms or ())
