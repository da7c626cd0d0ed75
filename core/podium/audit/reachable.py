"""Check that a gang fits the nodes from which its volumes can be reached.

A bound claim pins its pod to the nodes that its volume's node affinity and zone labels allow. If the pinned
pods of a gang need more room than these nodes have when empty, the gang never runs. The test is necessary,
not sufficient, as that of `capacity`. Running members are left out, because they have their nodes. Other
constraints are left out too, and so is everything about a claim or a volume that was not read or is not
bound. So a finding is certain for the present nodes and volumes.

Source: the filters of VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from podium.api.claims import claims_of_pod
from podium.api.core import Node, Pod
from podium.api.selectors import NodeRequirement, Requirement
from podium.api.storage import PersistentVolume
from podium.api.volumereach import Alternatives, node_affinity, zone_terms
from podium.audit.capacity import ClusterCapacity, PodShape, Shortfall
from podium.cluster.reader import ClusterReader


class PinnedShortfall(NamedTuple):
    """The shortfall of pods on the `nodes` schedulable nodes that reach the volumes of their `claims`.

    `places` are the labels that the volumes require, in words.
    """

    shortfall: Shortfall
    nodes: int
    claims: tuple[str, ...]
    places: tuple[str, ...]


class _PinnedPod(NamedTuple):
    """A pod with the nodes that reach its volumes, its pinning claims and the places of their volumes."""

    shape: PodShape
    nodes: frozenset[str]
    claims: frozenset[str]
    places: frozenset[str]


class ReachableNodes:
    """The schedulable nodes from which volumes can be reached, and the room on them when they are empty."""

    def __init__(self, view: ClusterReader, capacity: ClusterCapacity, minor: int) -> None:
        """`capacity` is that of all nodes, whose shapes of pods are used."""
        self._view = view
        self._capacity = capacity
        self._minor = minor
        nodes = view.nodes.values()
        self._nodes = {_name(node): node for node in nodes if not (node.spec and node.spec.unschedulable)}
        self._by_label: dict[str, dict[str, set[str]]] = {}
        self._reaching = cache(self._meeting)
        self._room = cache(self._room_on)

    def shortfall(self, pods: Sequence[Pod], min_count: int) -> PinnedShortfall | None:
        """Return why `min_count` of a gang's pods can never run at once because of their claims, or None.

        The pods are those that are neither finished nor terminating.
        """
        waiting = [pod for pod in pods if not pod.spec.nodeName]
        need = min_count - (len(pods) - len(waiting))
        spare = len(waiting) - need
        if not self._nodes or need < 1 or spare < 0:
            return None
        pinned = [pinned_pod for pod in waiting if (pinned_pod := self._pinned(pod)) is not None]
        unfit = [pod for pod in pinned if self._fits_nowhere(pod)]
        if len(unfit) > spare:
            first = min(unfit, key=lambda pod: (len(pod.nodes), sorted(pod.claims)))
            return _described(Shortfall(1, 0, first.shape.request), first.nodes, [first])
        for nodes in sorted({pod.nodes for pod in pinned}, key=lambda nodes: (len(nodes), sorted(nodes))):
            within = [pod for pod in pinned if pod.nodes <= nodes]
            shapes = Counter(pod.shape for pod in within)
            short = self._room(nodes).shortfall(shapes, len(within) - spare)
            if short is not None:
                return _described(short, nodes, within)
        return None

    def _fits_nowhere(self, pod: _PinnedPod) -> bool:
        room = self._room(pod.nodes)
        return not room.unknown and room.room(pod.shape.request, 1) < 1

    def _room_on(self, nodes: frozenset[str]) -> ClusterCapacity:
        room_nodes = (self._nodes[name] for name in sorted(nodes))
        return ClusterCapacity(room_nodes, self._minor, self._capacity.provided)

    def _pinned(self, pod: Pod) -> _PinnedPod | None:
        """Return a pod with the nodes that reach all its volumes; None if no claim restricts them."""
        restrictions: list[tuple[str, Alternatives]] = []
        for claim in claims_of_pod(pod):
            volume = self._volume(pod.metadata.namespace or "", claim.name)
            if volume is not None:
                restrictions += (
                    (claim.name, terms) for terms in _restrictions(volume, zones=not claim.ephemeral)
                )
        if not restrictions:
            return None
        nodes = frozenset[str].intersection(*(self._reaching(terms) for _, terms in restrictions))
        claims = frozenset(claim for claim, _ in restrictions)
        places = frozenset(place for _, terms in restrictions for place in _places(terms))
        return _PinnedPod(self._capacity.shape(pod), nodes, claims, places)

    def _volume(self, namespace: str, claim: str) -> PersistentVolume | None:
        stored = self._view.claims.get((namespace, claim))
        if stored is None or stored.spec is None or not stored.bound:
            return None
        return self._view.volumes.get(stored.spec.volumeName or "")

    def _meeting(self, terms: Alternatives) -> frozenset[str]:
        """Return the names of the schedulable nodes that meet one of the terms."""
        return frozenset().union(*map(self._meeting_all, terms))

    def _meeting_all(self, term: NodeRequirement) -> set[str]:
        met = [set().union(*self._matching(expression)) for expression in term.expressions]
        return set.intersection(*met) if met else set(self._nodes)

    def _matching(self, requirement: Requirement) -> Iterator[set[str]]:
        """Yield the nodes by value of a label, where the value (or its absence) meets the requirement."""
        by_value = self._values(requirement.key)
        if requirement.operator == "In":
            yield from (by_value[value] for value in requirement.values if value in by_value)
            return
        yield from (
            nodes for value, nodes in by_value.items() if requirement.matches({requirement.key: value})
        )
        if requirement.matches({}):
            yield self._nodes.keys() - set().union(*by_value.values())

    def _values(self, key: str) -> dict[str, set[str]]:
        """Return the names of the nodes by their value of a label."""
        if key not in self._by_label:
            names = defaultdict[str, set[str]](set)
            for name, node in self._nodes.items():
                if (value := (node.metadata.labels or {}).get(key)) is not None:
                    names[value].add(name)
            self._by_label[key] = dict(names)
        return self._by_label[key]


def _described(short: Shortfall, nodes: Collection[str], pods: Iterable[_PinnedPod]) -> PinnedShortfall:
    claims, places = set[str](), set[str]()
    for pod in pods:
        claims |= pod.claims
        places |= pod.places
    return PinnedShortfall(short, len(nodes), tuple(sorted(claims)), tuple(sorted(places)))


def _restrictions(volume: PersistentVolume, *, zones: bool) -> Iterator[Alternatives]:
    """Yield the alternatives of which a node must meet one each, to reach a volume; `zones` by its labels.

    What cannot be evaluated restricts nothing.
    """
    unreadable: dict[str, None] = {}
    terms = node_affinity(volume, unreadable)
    if terms is not None and not unreadable:
        yield terms
    if zones:
        yield from zone_terms(volume.metadata.labels or {})


def _places(terms: Alternatives) -> Iterator[str]:
    """Yield the labels that terms require, in words: `topology.kubernetes.io/zone a or b`."""
    for term in terms:
        for expression in term.expressions:
            if expression.operator == "In":
                yield f"{expression.key} {' or '.join(expression.values)}"


def _name(node: Node) -> str:
    return node.metadata.name or ""
