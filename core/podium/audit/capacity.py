"""Check that a gang could fit an empty cluster: the only question of the audit that needs arithmetic.

The test is necessary, not sufficient: taints, affinity and running pods are left out, and a container's
devices are counted by name only. "Too large" is therefore certain for the present nodes, but no finding
proves nothing. A node may have any amount of an extended resource that a class of devices provides. Nodes are
counted by their allocatable, and a large cluster has few different ones. An answer is cached for every
(request, count), so ten thousand equal gangs cost one walk.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from podium.api.claims import claims_of_pod
from podium.api.core import Node, Pod, RawQuantity
from podium.api.findings import ObjectError, ObjectRef
from podium.api.podrequests import (
    CPU,
    LATEST,
    PODS,
    UnusableQuantity,
    allocatable,
    is_accelerator,
    pod_requests,
)
from podium.api.selectors import NodeRequirement, Requirement
from podium.api.storage import Alternatives, PersistentVolume, node_affinity, zone_terms
from podium.cluster.reader import ClusterReader

MILLI = 1000
# A node that reports no number of pods has no limit, and none where a class provides a resource.
_NO_LIMIT = 2**31

Amounts = Mapping[str, int]  # resource name to amount, milli for cpu


class PodShape(msgspec.Struct, frozen=True, eq=False):
    """The requests of a pod; equal requests share one object, so that shapes are compared by identity."""

    request: Amounts

    def devices(self) -> dict[str, int]:
        """Return the devices of one pod: resources with a domain in their name, such as `nvidia.com/gpu`."""
        return {name: amount for name, amount in self.request.items() if is_accelerator(name)}


class Shortfall(msgspec.Struct, frozen=True):
    """The shortfall of a gang: too little of a `resource` in sum, or only `room` of `need` equal pods fit."""

    need: int
    room: int
    request: Amounts
    resource: str = ""


class ClusterCapacity:
    """The room of an empty cluster: its schedulable nodes by allocatable."""

    def __init__(self, nodes: Iterable[Node], minor: int = LATEST, provided: Collection[str] = ()) -> None:
        """Requests are summed as by kube-scheduler 1.`minor`. Raises ObjectError for an invalid quantity.

        `provided` are the extended resources that classes provide where no device plugin does.
        """
        self.provided = provided
        kinds: dict[tuple[tuple[str, RawQuantity], ...], list[Node]] = {}
        # A node that has not reported its allocatable could have any size.
        self.unknown = False
        self.nodes = 0
        for node in nodes:
            if node.spec is not None and node.spec.unschedulable:
                continue
            self.nodes += 1
            if node.status is None or node.status.allocatable is None:
                self.unknown = True
            else:
                kinds.setdefault(tuple(sorted(node.status.allocatable.items())), []).append(node)
        self._minor = minor
        self._shapes: dict[tuple[tuple[str, int], ...], PodShape] = {}
        by_number = sorted(kinds.values(), key=lambda alike: -len(alike))
        self._kinds = [(len(alike), self._allocatable(alike)) for alike in by_number]
        self._room: dict[tuple[tuple[tuple[str, int], ...], int], int] = {}

    def shape(self, pod: Pod) -> PodShape:
        """Return the requests of a pod. Raises ObjectError for an invalid quantity."""
        requests = pod_requests(pod, self._minor)
        if requests.unusable:
            _raise_invalid(requests.unusable, "Pod", pod.metadata.namespace or "", pod.metadata.name or "")
        request = {name: amount for name, amount in requests.amounts.items() if name != PODS}
        return self._shapes.setdefault(tuple(sorted(request.items())), PodShape(request))

    def shortfall(self, members: Mapping[PodShape, int], min_count: int) -> Shortfall | None:
        """Return why min_count of a gang's live `members` can never run at once, or None.

        Without a schedulable node the cluster is scaled down, and there is no size to compare with. Members
        that do not exist yet are assumed to be equal to the others if those are all equal.
        """
        if self.unknown or not self.nodes or not members or min_count < 1:
            return None
        spare = max(0, sum(members.values()) - min_count)
        # The order is fixed, so that the same members in another order are too large for the same reason.
        for shape in sorted(members, key=lambda shape: sorted(shape.request.items())):
            need = min_count if len(members) == 1 else max(0, members[shape] - spare)
            room = self.room(shape.request, need)
            if room < need:
                return Shortfall(need, room, shape.request)
        return self._sums(members, min_count) if len(members) > 1 else None

    def room(self, request: Amounts, need: int) -> int:
        """Return the number of pods with one request that fit, counted up to `need`."""
        key = (tuple(sorted(request.items())), need)
        room = self._room.get(key)
        if room is None:
            room = 0
            for number, amounts in self._kinds:
                room += number * _fit(amounts, request)
                if room >= need:
                    break
            self._room[key] = room
        return room

    def _allocatable(self, alike: list[Node]) -> Amounts:
        """Return the allocatable of nodes that have the same."""
        node = min(alike, key=lambda member: member.metadata.name or "")
        offered, unusable = allocatable(node)
        amounts = {**dict.fromkeys(self.provided, _NO_LIMIT), **offered}
        _raise_invalid(unusable, "Node", "", node.metadata.name or "")
        # A node with more than any machine has could have any size, too.
        self.unknown = self.unknown or bool(unusable)
        assert node.status is not None
        return {PODS: 0, **amounts} if PODS in (node.status.allocatable or ()) else amounts

    def _sums(self, members: Mapping[PodShape, int], needed: int) -> Shortfall | None:
        """Return the first resource that is too small in sum for `needed` members, or None.

        The members with the smallest requests for the resource are counted.
        """
        for resource in sorted({name for shape in members for name in shape.request}):
            asked = sorted(
                shape.request.get(resource, 0) for shape, number in members.items() for _ in range(number)
            )
            need = sum(asked[:needed])
            have = sum(number * amounts.get(resource, 0) for number, amounts in self._kinds)
            if need > have:
                unit = MILLI if resource == CPU else 1
                return Shortfall(-(-need // unit), have // unit, {}, resource)
        return None


def _raise_invalid(unusable: Iterable[UnusableQuantity], kind: str, namespace: str, name: str) -> None:
    for quantity in unusable:
        if not quantity.too_large:
            raise ObjectError(ObjectRef("v1", kind, namespace, name), quantity.field, quantity.why)


def _fit(room: Amounts, request: Amounts) -> int:
    fit = room.get(PODS, _NO_LIMIT)
    for name, amount in request.items():
        fit = min(fit, room.get(name, 0) // amount)
    return fit


_Members = Mapping[PodShape, int]


# A gang with a topology constraint runs in one domain as a whole, so the room of a cluster in sum says
# nothing. Members that run bind the others to their domain, and hold their requests on their nodes. A gang
# whose members run in several domains, or on a node that was not read, is left out.
#
# Source: the plugin TopologyPlacement of kube-scheduler 1.36 and 1.37.


class DomainShortfall(NamedTuple):
    """The shortfall of pods in the domain with the most room, of `domains` that they may use.

    `name` is the value of the label there, and `nodes` the number of schedulable nodes. `running` members
    bind the others to this domain.
    """

    shortfall: Shortfall
    name: str
    nodes: int
    domains: int
    running: int = 0


class TopologyDomains:
    """The schedulable nodes by domain, for each label that groups use, and their room when empty."""

    def __init__(
        self, nodes: Mapping[str, Node], capacity: ClusterCapacity, minor: int, *, empty_domain: bool = False
    ) -> None:
        """`capacity` is that of all nodes, whose shapes of pods are used.

        `empty_domain` is that of `running_domains`.
        """
        self._nodes = nodes
        self._capacity = capacity
        self._minor = minor
        self._empty_domain = empty_domain
        self._by_key: dict[str, dict[str, list[Node]]] = {}
        self._rooms: dict[str, dict[str, ClusterCapacity]] = {}
        self._found: dict[tuple[str, frozenset[tuple[PodShape, int]], int], DomainShortfall | None] = {}

    def exists(self, key: str) -> bool:
        """Return whether a node has the label, schedulable or not."""
        return bool(self._nodes_of(key))

    def shortfall(
        self, key: str, pods: Sequence[Pod], min_count: int, *, alike: bool
    ) -> DomainShortfall | None:
        """Return why `min_count` of a gang's pods can never run in one domain of a label, or None.

        The pods are those that are neither finished nor terminating. If all live members have the same
        requests (`alike`), missing members are assumed to have them too.
        """
        running = [pod for pod in pods if pod.spec.nodeName]
        waiting = Counter(self._capacity.shape(pod) for pod in pods if not pod.spec.nodeName)
        need = min_count - len(running)
        need = need if alike else min(need, waiting.total())
        if need < 1:
            return None
        if running:
            return self._beside(key, running, waiting, need)
        asked = (key, frozenset(waiting.items()), need)
        if asked not in self._found:
            self._found[asked] = _nearest(self._room(key), waiting, need)
        return self._found[asked]

    def _beside(
        self, key: str, running: Sequence[Pod], waiting: _Members, need: int
    ) -> DomainShortfall | None:
        """Return the shortfall in the domain of running members; None if these have no single domain."""
        names = {self._domain_of(key, pod.spec.nodeName or "") for pod in running}
        name = names.pop()
        if names or name is None:
            return None
        held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in running:
            held[pod.spec.nodeName or ""].update({**self._capacity.shape(pod).request, PODS: 1})
        left = [_without(node, held.get(node.metadata.name or "", {})) for node in self._nodes_of(key)[name]]
        room = ClusterCapacity(left, self._minor, self._capacity.provided)
        short = room.shortfall(waiting, need)
        return None if short is None else DomainShortfall(short, name, room.nodes, 1, len(running))

    def _domain_of(self, key: str, name: str) -> str | None:
        node = self._nodes.get(name)
        return None if node is None else self._label(key, node)

    def _label(self, key: str, node: Node) -> str | None:
        """Return the domain of a node, None for none."""
        value = (node.metadata.labels or {}).get(key)
        return value or (value if self._empty_domain else None)

    def _nodes_of(self, key: str) -> dict[str, list[Node]]:
        """Return the nodes by their value of a label."""
        if key not in self._by_key:
            domains: defaultdict[str, list[Node]] = defaultdict(list)
            for node in self._nodes.values():
                if (value := self._label(key, node)) is not None:
                    domains[value].append(node)
            self._by_key[key] = dict(domains)
        return self._by_key[key]

    def _room(self, key: str) -> dict[str, ClusterCapacity]:
        """Return the room of the domains with a schedulable node, the largest first."""
        if key not in self._rooms:
            provided = self._capacity.provided
            rooms = {
                name: ClusterCapacity(nodes, self._minor, provided)
                for name, nodes in self._nodes_of(key).items()
            }
            order = sorted(rooms, key=lambda name: (-rooms[name].nodes, name))
            self._rooms[key] = {name: rooms[name] for name in order if rooms[name].nodes}
        return self._rooms[key]


def _nearest(rooms: Mapping[str, ClusterCapacity], members: _Members, need: int) -> DomainShortfall | None:
    """Return the shortfall in the domain with the most room; None if one may hold the members.

    Without a domain there is no size to compare with.
    """
    shortfalls: list[DomainShortfall] = []
    for name, room in rooms.items():
        short = room.shortfall(members, need)
        if short is None:
            return None
        shortfalls.append(DomainShortfall(short, name, room.nodes, len(rooms)))
    return max(shortfalls, key=_filled, default=None)


def _without(node: Node, held: Amounts) -> Node:
    """Return a node whose allocatable is less by the amounts that running members hold."""
    amounts, unusable = allocatable(node)
    if not held or unusable or node.status is None or node.status.allocatable is None:
        return node
    left = dict(node.status.allocatable)
    for name in left.keys() & held.keys():
        rest = max(0, amounts.get(name, 0) - held[name])
        left[name] = f"{rest}m" if name == CPU else rest
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=left))


def _filled(short_domain: DomainShortfall) -> tuple[bool, float]:
    """Return a key that is greatest where the least room is missing."""
    short = short_domain.shortfall
    return bool(short.resource), short.room / short.need


# A bound claim pins its pod to the nodes that its volume's node affinity and zone labels allow. If the pinned
# pods of a gang need more room than these nodes have when empty, the gang never runs. Running members are
# left out, because they have their nodes, and so are claims and volumes that were not read or are not bound.
#
# Source: the filters of VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37.


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
