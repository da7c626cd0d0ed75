"""Check that a gang with a topology constraint fits one domain: the nodes with one value of a label.

Such a gang runs in one rack or zone as a whole, so the room of a cluster in sum says nothing. The test is
necessary, not sufficient, as that of `capacity`: other pods, taints, affinity and volumes are left out.
Members that run bind the others to their domain, and hold their requests on their nodes. A gang whose members
run in several domains, or on a node that was not read, is left out. So a finding is certain for the present
nodes and labels.

Source: the plugin TopologyPlacement of kube-scheduler 1.36 and 1.37.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from podium.api.core import Node, Pod
from podium.api.podrequests import CPU, PODS, allocatable
from podium.audit.capacity import Amounts, ClusterCapacity, PodShape, Shortfall

_Members = Mapping[PodShape, int]


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
