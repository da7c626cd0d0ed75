"""Places a group in one topology domain: the domains are ranked, and the first that takes the group is used.

A group without a constraint has one domain, the cluster. A group that prefers narrower domains looks for
free room in these first. The room of each domain is bounded by sums over its nodes, and only domains whose
sums are large enough are tried. Under `kep` a domain with room for more members comes first. Then the order
is that of packing: the domain whose cpu, memory and requested accelerators are used most with the group, then
the domain with the fewest nodes, then the first name. So large domains stay free for large groups.

kube-scheduler 1.37 tries all domains and takes the highest sum of two scores: MostAllocated over cpu and
memory, and the number of placed members. It takes any of equal domains; here it is the first by name.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from podium.api.groups import PodGroup
from podium.api.podrequests import is_accelerator
from podium.cluster.reader import Child
from podium.groups.topology import preferred_topology, spread_topology
from podium.planner.arrays import Floats, Int64s, Rows
from podium.planner.deadline import Deadline
from podium.planner.filters.chain import Refusals
from podium.planner.framework import MAX_SCORE
from podium.planner.placement import Placer
from podium.planner.preemption.capacity import PodKinds, kinds_of, slots
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.topology import CLUSTER, Domain, Topology
from podium.planner.scores import SCORED_RESOURCES
from podium.planner.semantics import Semantics

# kube-scheduler 1.38 looks for feasible domains until it has a share of all, in random order. The share falls
# from 100 % by 9 points for 500 nodes, to 5 % (numFeasiblePlacementsToFind, percentageOfPlacementsToScore 0).
_LEAST_SHARE, _FALL, _FALL_NODES = 5, 9, 500

# Places the group on the nodes that the chain of filters asks, and returns node rows by pod row. Without
# enough room it returns None and the refusals.
Attempt = Callable[[], tuple[dict[int, int] | None, Refusals | None]]

_NO_LABEL = "node(s) had no label {}, the topology of the group"


class RandomChoice(NamedTuple):
    """The `names` of the topology domains among which kube-scheduler chooses at random for a group."""

    group: Child
    names: tuple[str, ...]


class Located(NamedTuple):
    """The result of an attempt in a domain; `placed` gives node rows by pod row, None without enough room.

    `candidates` are the names of the domains among which kube-scheduler chooses at random, this one too;
    empty if it has no choice.
    """

    domain: Domain
    placed: dict[int, int] | None
    refusals: Refusals | None = None
    candidates: tuple[str, ...] = ()


class DomainLevel:
    """The domains of one topology for a group; without a label the cluster is the only one.

    `straddling` are the domains of running members, if there is more than one (empty for a node in none).
    `pinned` says that running members leave one domain.
    """

    def __init__(  # noqa: PLR0917 - a search makes all
        self,
        placer: Placer,
        target: PlacementTarget,
        semantics: Semantics,
        deadline: Deadline,
        keys: tuple[str, ...],
        only: int | None = None,
        *,
        preferred: bool = False,
    ) -> None:
        """`only` is the number of the one domain that may be used; None for any.

        In a `preferred` topology the members may run in several domains.
        """
        self._preferred = preferred
        self._placer = placer
        self._snapshot = placer.snapshot
        self.target = target
        self._rules = semantics.rules
        self._deadline = deadline
        self.straddling: tuple[str, ...] = ()
        limit, empty = placer.chain.limit, self._rules.empty_domain
        self.topology = Topology(self._snapshot, keys, limit, empty=empty) if keys else None
        self.pinned = False
        self._numbers: list[int] = []
        # The needed pods by kind, None for too many kinds.
        self.kinds: PodKinds | None = None
        if self.topology is not None:
            numbers = self._open_domains(self.topology)
            self._numbers = [number for number in numbers if only is None or number == only]
            self.kinds = kinds_of(placer.chain, target.rows, target.needed, None)

    def nodes(self) -> Rows:
        """Return the nodes (rows) of the domains that the group may use."""
        assert self.topology is not None, "there are domains"
        return np.flatnonzero(np.isin(self.topology.of, self._numbers))

    def stay_inside(self, required: "DomainLevel") -> None:
        """Leave out the domains outside the required one that running members bind the group to."""
        if self.topology is not None and required.pinned:
            inside = self.topology.counts(required.nodes())
            self._numbers = [number for number in self._numbers if number in inside]

    @property
    def label(self) -> str:
        """The label whose values name the domains."""
        return self.topology.keys[-1] if self.topology is not None else ""

    def first(self, attempt: Attempt, nominated: Collection[int] = ()) -> Located:
        """Return the result in the best domain that takes the group; if none does, in the nearest one.

        `nominated` are the node rows that are reserved for its pods.
        """
        topology = self.topology
        if topology is None:
            return Located(CLUSTER, *attempt())
        if not self._numbers:
            return Located(CLUSTER, None, self._no_domain())
        if not self._rules.packs_domains:
            return self._highest_score(attempt, topology, nominated)
        tried: list[Located] = []
        likely = self.candidates() or [self._nearest()]
        for located in self._tried(attempt, likely, topology):
            if located.placed is not None:
                return located
            tried.append(located)
        return self._refused(tried[0])

    def _tried(self, attempt: Attempt, numbers: Iterable[int], topology: Topology) -> Iterator[Located]:
        """Yield the result of an attempt in each domain."""
        for domain in map(topology.domain, numbers):
            self._deadline.enforce()
            with self._placer.chain.within(domain.nodes):
                located = Located(domain, *attempt())
            yield located

    def room(self, free: list[Int64s] | None = None) -> Int64s | None:
        """Return for how many needed members each domain has room at most, None if there is no quick answer.

        `free` is the free room of each resource of the pods by node; by default as it is now.
        """
        if self.kinds is None:
            return None
        return self._members(self.kinds, self.kinds.free(self._snapshot) if free is None else free)

    def _members(self, pods: PodKinds, free: list[Int64s]) -> Int64s:
        """Return for how many of these pods each domain has room at most."""
        assert self.topology is not None, "the pods are those of a group with a constraint"
        members = np.zeros(self.topology.size, np.int64)
        for kind in pods.kinds:
            members += np.minimum(self.topology.sums(slots(free, kind), pods.nodes), kind.number)
        return members

    def _open_domains(self, topology: Topology) -> Iterator[int]:
        """Yield the domains that the group may use, by name; all, unless members run already."""
        known = [node for node in self.target.pinning_nodes if node >= 0]
        running = topology.counts(np.array(known, np.intp))
        there = {number: pods for number, pods in running.items() if number >= 0}
        if len(running) > 1 or -1 in running:
            names = [topology.name(number) for number in there]
            self.straddling = tuple(sorted([*names, *([""] if -1 in running else [])]))
        self.pinned = bool(there)
        numbers = list(topology.numbers.values())
        if there:
            least = 1 if self._preferred else max(there.values())
            numbers = [number for number in numbers if there.get(number, 0) >= least]
            numbers = numbers if self._preferred else numbers[:1]
        asked = set(np.unique(topology.of[self._placer.chain.nodes]).tolist())
        yield from (number for number in numbers if number in asked)

    def by_packing(self) -> list[int]:
        """Return the domains with the fewest peers, then by their use with the group; none without one."""
        topology = self.topology
        if topology is None:
            return []
        numbers = np.array(self._numbers, np.intp)
        packing, peers = -self._packing(topology)[numbers], self._beside_peers(topology)[numbers]
        order = np.lexsort((topology.nodes[numbers], packing, peers))
        best: list[int] = numbers[order].tolist()
        return best

    def _nearest(self) -> int:
        """Return the domain with room for the most members."""
        order, members = self.by_packing(), self.room()
        return order[0] if members is None else max(order, key=members.item)

    def candidates(self) -> list[int]:
        """Return the domains with room enough, the best first."""
        order = self.by_packing()
        members = self.room()
        if members is None:
            return order
        enough = [number for number in order if members[number] >= self.target.needed]
        if not enough:
            return []
        if len(self.target.rows) > self.target.needed:
            every = kinds_of(self._placer.chain, self.target.rows, len(self.target.rows), None)
            more = None if every is None else self._members(every, every.free(self._snapshot))
            return enough if more is None else sorted(enough, key=lambda number: -more.item(number))
        return enough

    def _beside_peers(self, topology: Topology) -> Int64s:
        """Return for each domain how many peers run in the domain of the spread label around it."""
        counts = np.zeros(topology.size, np.int64)
        if not self.target.peers or not isinstance(self.target.group, PodGroup):
            return counts
        column = self._snapshot.columns.column(spread_topology(self.target.group)[0])
        peers = np.zeros(int(column.max(initial=-1)) + 2, np.int64)
        for rows in self.target.peers:
            nodes = self._snapshot.node[rows]
            peers[np.unique(column[nodes[nodes >= 0]])] += 1
        # The last place is that of nodes without the label.
        peers[-1] = 0
        inside = topology.of >= 0
        np.maximum.at(counts, topology.of[inside], peers[column[inside]])
        return counts

    def _packing(self, topology: Topology) -> Floats:
        """Return the used part of each domain with the group placed there, as a mean over resources."""
        snapshot, asked = self._snapshot, dict.fromkeys(SCORED_RESOURCES, 0)
        for row in self.target.rows:
            for name, amount in snapshot.shape_at(row).requests:
                if name in asked or is_accelerator(name):
                    asked[name] = asked.get(name, 0) + amount
        rows = np.flatnonzero(topology.of >= 0)
        parts = np.zeros(topology.size, np.float64)
        for name, amount in asked.items():
            at = snapshot.resource.get(name)
            if at is not None:
                capacity = topology.sums(snapshot.allocatable[at][rows], rows)
                used = topology.sums(snapshot.used[at][rows], rows) + amount
                parts += np.minimum(used, capacity) / np.maximum(capacity, 1)
        return parts

    def _highest_score(self, attempt: Attempt, topology: Topology, nominated: Collection[int]) -> Located:
        """Return kube-scheduler's choice among all domains that take the group."""
        first = self._nominated_domain(topology, nominated)
        tried = list(self._tried(attempt, first, topology))
        if tried and tried[0].placed:
            return tried[0]
        others = [number for number in self._numbers if number not in first]
        tried += self._tried(attempt, others, topology)
        located = [candidate for candidate in tried[len(first) :] if candidate.placed is not None]
        if not located:
            return self._refused(tried[0])
        members = [self.target.running + len(candidate.placed or ()) for candidate in located]
        most = max(members)
        points = [
            self._allocated(candidate) + count * MAX_SCORE // most
            for candidate, count in zip(located, members, strict=True)
        ]
        best = located[points.index(max(points))]
        return best._replace(candidates=self._candidates_by_chance(located, points, topology))

    def _nominated_domain(self, topology: Topology, nominated: Collection[int]) -> list[int]:
        """Return the domain that kube-scheduler tries first: the only one of the nominated nodes.

        Only a group in no tree has one.
        """
        group = self.target.group
        if not self._rules.nominated_domain or group is None or group.composite or self.target.parts:
            return []
        there = topology.counts(np.array(list(nominated), np.intp)).keys() & set(self._numbers)
        return list(there) if len(there) == 1 else []

    def _candidates_by_chance(
        self, located: Sequence[Located], points: Sequence[int], topology: Topology
    ) -> tuple[str, ...]:
        """Return the domains that kube-scheduler may take, as it looks at only some in random order."""
        number = len(self._numbers)
        nodes = int(topology.nodes[self._numbers].sum())
        share = max(_LEAST_SHARE, 100 - nodes * _FALL // _FALL_NODES)
        looked_at = max(1, number * share // 100)
        if not self._rules.limits_domains or looked_at >= len(located):
            return ()
        # The best of those that it looks at wins: all others among them have no more points.
        return tuple(
            candidate.domain.name
            for candidate, own in zip(located, points, strict=True)
            if sum(other <= own for other in points) >= looked_at
        )

    def _allocated(self, located: Located) -> int:
        """Return MostAllocated of a domain with the placed members, in percent."""
        snapshot = self._snapshot
        assert located.domain.nodes is not None, "it is a topology domain"
        rows = np.flatnonzero(located.domain.nodes)
        points = resources = 0
        for position, name in enumerate(SCORED_RESOURCES):
            at = snapshot.resource.get(name)
            capacity = 0 if at is None else int(snapshot.allocatable[at][rows].sum())
            if not capacity:
                continue
            used = int(snapshot.scored[position][rows].sum())
            used += sum(snapshot.shape_at(row).scored[position] for row in located.placed or ())
            points += min(used, capacity) * MAX_SCORE // capacity
            resources += 1
        return points // max(resources, 1)

    def _refused(self, nearest: Located) -> Located:
        """Return a result whose refusals count the domains."""
        assert self.topology is not None, "there are domains"
        if nearest.refusals is None:
            return nearest
        where = f"{self.label}={nearest.domain.name}"
        number = len(self._numbers)
        if self.pinned:
            text = f"members of the group run in {where}, which has too little room: "
        else:
            text = f"0/{number} domains of {self.label} are available, the nearest is {where}: "
        return nearest._replace(refusals=nearest.refusals._replace(domains=text))

    def _no_domain(self) -> Refusals:
        """Return the refusals of a group for which there is no domain."""
        chain, shape = self._placer.chain, self._snapshot.shape_at(self.target.rows[0])
        text = _NO_LABEL.format(self.label)
        return chain.refusals_of(shape, [(text, chain.nodes)])


class DomainSearch:
    """The domains for one group, level by level: those it prefers come before the one that it must have.

    A group without a constraint has one level, the cluster. `limit` are the node rows that filters ask, None
    for all. `error` is why a kube-scheduler ends its cycle,
    empty if it does not.
    """

    def __init__(
        self,
        placer: Placer,
        target: PlacementTarget,
        semantics: Semantics,
        deadline: Deadline,
        only: int | None = None,
    ) -> None:
        """`only` is the number of the one domain of the first level that may be used; None for any."""
        self.target = target
        self.limit = placer.chain.limit
        level_keys = _levels(target, semantics)[: 1 if only is not None else None]
        self.levels = [
            DomainLevel(placer, target, semantics, deadline, keys, only, preferred=keys != level_keys[-1])
            for keys in level_keys
        ]
        required = self.levels[-1]
        for level in self.levels[:-1]:
            level.stay_inside(required)
        judged = required.topology is not None and not semantics.rules.packs_domains
        self.error = _members_error(target, required.straddling) if judged else ""

    def first(self, attempt: Attempt, nominated: Collection[int] = ()) -> Located:
        """Return the result in the best domain that takes the group; if none does, in the nearest one.

        `nominated` are the node rows that are reserved for its pods.
        """
        *preferred, last = self.levels
        for level in preferred:
            located = level.first(attempt)
            if located.placed is not None:
                return located
        return last.first(attempt, nominated)

    def any(self, attempt: Callable[[], dict[int, int] | None]) -> dict[int, int] | None:
        """Return the placement in the best domain that takes the group; None if none does."""
        return self.first(lambda: (attempt(), None)).placed


def _levels(target: PlacementTarget, semantics: Semantics) -> list[tuple[str, ...]]:
    """Return the labels of each level; kube-scheduler knows only the required one."""
    group = target.group
    if group is None or not semantics.rules.groups:
        return [()]
    required = (group.topology,) if group.topology else ()
    if not semantics.rules.group_annotations:
        return [required]
    preferred = preferred_topology(group)
    # A replica that spreads over domains is in one of them.
    spread = spread_topology(group)[0] if isinstance(group, PodGroup) and not required else ""
    return [*((*required, key) for key in preferred or filter(None, (spread,))), required]


def _members_error(target: PlacementTarget, straddling: tuple[str, ...]) -> str:
    """Return kube-scheduler's words for running members without one domain, empty if they have one."""
    problem = ""
    if any(node < 0 for node in target.pinning_nodes):
        problem = "the node of a pod is unknown"
    elif "" in straddling:
        problem = "no topology domain found for a pod"
    elif straddling:
        problem = f"more than 1 domain found for pod group: {', '.join(straddling)}"
    return f"cannot determine domain for already scheduled pods: {problem}" if problem else ""
