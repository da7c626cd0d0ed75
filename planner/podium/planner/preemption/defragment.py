"""Finds the moves that free whole topology domains: all units of one are evicted and placed elsewhere.

A gang that needs a rack may wait while each rack has a little free room. Preemption makes room by taking it
from others. Moves make the same room, and each moved unit only loses work. A domain is freed as a whole or
not at all, so its harm is known before any pod is placed. Domains are tried in the order of harm, and the
search ends with the first few that succeed.

For a domain all of its units leave. Groups with topology requests are placed first, each as a whole, then the
other pods, the largest first. These are placed as the scheduler would place them. If that fails they are
packed, and a few pods are also tried on every node. Each attempt is a trial of the snapshot, and every filter
checks each pod. A sum over the free room rules out most domains of a full cluster before that.

Domains that are free already stay free if possible: freeing one domain into another gains nothing.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np

from podium.api.groups import PodGroup
from podium.api.membership import GroupKey, key_of
from podium.api.podrequests import is_accelerator
from podium.api.times import LAST_SECOND, written_at
from podium.cluster.reader import Name, name_of
from podium.errors import PodiumUsageError
from podium.groups.topology import preferred_topology, slice_topology, spread_topology
from podium.groups.trees import lineage
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.deadline import NEVER
from podium.planner.filters.chain import Refusals
from podium.planner.preemption.capacity import place_packed
from podium.planner.preemption.groupplacement import NodeSearch
from podium.planner.preemption.grouptarget import evicted_members
from podium.planner.preemption.harm import Harm, harm, plan_harm, work_lost
from podium.planner.preemption.outcome import PlanHarm, full_name
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.protection import is_mirror, of_daemon_set
from podium.planner.preemption.targetplacement import TargetPlacer
from podium.planner.preemption.topology import Topology
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units
from podium.planner.scores import SCORED_RESOURCES
from podium.planner.settings import Budgets
from podium.planner.snapshot import Snapshot

# The answer of `defragment` as values, free of the snapshot's rows; the field names are those of the JSON.
#
# A domain is all nodes with one value of a label. It is free once no pod is left there but those that belong
# to its nodes: pods of DaemonSets and mirrors of static pods.


class Freeing(StrEnum):
    """Whether moves free a domain."""

    MOVABLE = "Movable"
    # A unit finds no room elsewhere.
    DOES_NOT_FIT = "DoesNotFit"
    # A pod may not be evicted.
    BLOCKED = "Blocked"
    # So many domains were tried before it that the search ended.
    NOT_TRIED = "NotTried"


class MovedPod(msgspec.Struct, frozen=True):
    """A pod of a moved unit: the node it runs on, and the node with room for it."""

    name: str
    node: str
    to: str


class UnitMove(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that is evicted and placed elsewhere, and the harm of its eviction.

    `violations` are pods beyond what budgets allow if all units of the domain are evicted, the most important
    first.
    """

    kind: str
    namespace: str
    name: str
    priority: int
    pods: tuple[MovedPod, ...]
    acceleratorSeconds: int
    violations: int


class StayingUnit(msgspec.Struct, frozen=True):
    """A unit, or a pod, that keeps a domain from being free."""

    kind: str
    namespace: str
    name: str
    reason: str


class DomainMoves(msgspec.Struct, frozen=True, kw_only=True):
    """The moves that free a domain, or why none do.

    `frees` is the free room of its nodes afterwards, in milli cpu and units. `fills` are domains that were
    free and take a moved pod. `harm` is that of all evictions, None for a blocked domain. `message` is for a
    person.
    """

    name: str
    outcome: Freeing
    nodes: int
    frees: dict[str, int]
    harm: PlanHarm | None = None
    moves: tuple[UnitMove, ...] = ()
    fills: tuple[str, ...] = ()
    stays: tuple[StayingUnit, ...] = ()
    message: str = ""


class Defragmentation(msgspec.Struct, frozen=True, kw_only=True):
    """The domains of a label: their `count`, the names of those that are `free`, and the best of the others.

    Of the `candidates`, whose units may all be evicted, so many were `tried`, and `movable` can be freed. The
    search ends when enough of them are found.
    """

    key: str
    count: int
    candidates: int
    tried: int
    movable: int
    free: tuple[str, ...]
    domains: tuple[DomainMoves, ...]


_RESERVED = "node {} is reserved for it"
_STUCK = "it is being deleted, and its node has not confirmed that for long"
# Moves are planned group by group.
_TREE_TOPOLOGY = "topology constraints of composite groups"
_NOT_JUDGED = "what it asks for cannot be judged: {}"


class DomainContent(NamedTuple):
    """The units that leave a domain (`leads`, the most important first), and those that keep it from free.

    `violations` are the pods of each unit beyond what budgets allow. `frees` is the free room of the domain
    once they have left, by resource.
    """

    number: int
    name: str
    leads: Rows
    violations: Int64s
    stays: tuple[StayingUnit, ...]
    harm: Harm
    frees: dict[str, int]

    @property
    def free(self) -> bool:
        """Whether the domain is free already."""
        return not len(self.leads) and not self.stays

    @property
    def order(self) -> tuple[Harm, int, int, int, str]:
        """The order of domains: the least harm, then the most room, then the name."""
        accelerators = sum(amount for name, amount in self.frees.items() if is_accelerator(name))
        cpu, memory = (self.frees.get(name, 0) for name in SCORED_RESOURCES)
        return self.harm, -accelerators, -cpu, -memory, self.name


def contents(engine: PlanningState, units: Units, topology: Topology, now: int) -> Iterator[DomainContent]:
    """Yield the content of every domain with a node, by name; nominated pods count on their nodes."""
    reader = _ContentReader(engine, units, topology, now)
    for name, number in topology.numbers.items():
        if topology.nodes[number]:
            yield reader.content(number, name)


class _ContentReader:
    """Reads the content of one domain after the other at `now` (seconds).

    A unit leaves as a whole, with its pods in other domains. Pods that belong to a node stay and do not
    count, as in a drain. Pods that are leaving count as gone. Every other pod that may not be evicted keeps
    its domain from being free, and so does a pending pod for which a node there is reserved.

    No preemptor has a priority here. So a toleration exempts a unit while it holds back the least preemptor,
    the one whose priority is one above the unit's.
    """

    def __init__(self, engine: PlanningState, units: Units, topology: Topology, now: int) -> None:
        self._engine = engine
        self._units = units
        self._snapshot = snapshot = engine.snapshot
        self._topology = topology
        self._now = now
        self._freeing = units.freeing(now)
        self._unknown = self._requests_not_known()
        self._exempt: Bools = (units.priority + 1 < units.exempt_below) & (now < units.exempt_until)
        pods = np.flatnonzero(snapshot.node >= 0)
        domains = topology.of[snapshot.node[pods]]
        order = np.argsort(domains, kind="stable")
        self._pods, self._first = pods[order], np.searchsorted(domains[order], np.arange(topology.size + 1))
        nodes = np.flatnonzero(topology.of >= 0)
        self._free = {
            name: topology.sums(_free(snapshot, name, nodes), nodes)
            for name in sorted(snapshot.resource)
            if name in SCORED_RESOURCES or is_accelerator(name)
        }

    def content(self, number: int, name: str) -> DomainContent:
        """Return the content of a domain."""
        units = self._units
        pods = self._pods[self._first[number] : self._first[number + 1]]
        going = self._freeing[pods]
        leads = np.unique(units.lead[pods[~going & (units.lead[pods] != NO_UNIT)]]).astype(np.intp)
        stays = tuple(
            sorted(
                self._staying(leads, pods[~going]), key=lambda unit: (unit.kind, unit.namespace, unit.name)
            )
        )
        leads = units.with_surplus(leads[~self._held(leads)])
        if stays:
            leads = leads[:0]
        leads = units.ordered(leads, self._now)
        numbers = np.repeat(np.arange(len(leads)), units.size[leads])
        violations = self._engine.budgets.violations(units.all_members(leads), numbers)
        cost = harm(units, leads, int(violations.sum()), self._now)
        return DomainContent(number, name, leads, violations, stays, cost, self._frees(number, leads, pods))

    def _held(self, leads: Rows) -> Bools:
        """Return which units may not be evicted now."""
        held: Bools = self._units.protected[leads] | self._exempt[leads]
        return held

    def _staying(self, leads: Rows, pods: Rows) -> Iterator[StayingUnit]:
        """Yield the units and pods that keep the domain of these pods from being free, with the reasons."""
        units, snapshot = self._units, self._snapshot
        here = np.zeros(len(snapshot.node), np.bool_)
        here[pods] = True
        held = self._held(leads)
        for lead in leads[held].tolist():
            members = units.members(lead)
            if not all(self._belongs_to_node(row) for row in members[here[members]].tolist()):
                yield StayingUnit(*units.object_of(lead), self._why_held(lead))
        for lead in leads[~held].tolist() if self._unknown else ():
            if lead in self._unknown:
                yield StayingUnit(*units.object_of(lead), _NOT_JUDGED.format("; ".join(self._unknown[lead])))
        for row in pods[units.lead[pods] == NO_UNIT].tolist():
            metadata = snapshot.pod_at(row).metadata
            node = snapshot.node_name(snapshot.node.item(row))
            why = _STUCK if units.leaving.item(row) else _RESERVED.format(node)
            yield StayingUnit("Pod", metadata.namespace or "", metadata.name or "", why)

    def _belongs_to_node(self, row: int) -> bool:
        pod, view = self._snapshot.pod_at(row), self._engine.view
        return of_daemon_set(pod, view) or is_mirror(pod, view)

    def _why_held(self, lead: int) -> str:
        """Return why a unit may not be evicted now."""
        units = self._units
        why = units.why_protected(lead, full_name)
        if why:
            return why
        ends = units.exempt_until.item(lead)
        until = "" if ends > LAST_SECOND else f" until {written_at(ends)}"
        minimum = units.exempt_below.item(lead)
        return f"its PriorityClass tolerates no preemption below priority {minimum}{until}"

    def _requests_not_known(self) -> dict[int, dict[str, None]]:
        """Return by unit what its pods, or its group, ask for that no filter knows."""
        units, snapshot, view = self._units, self._snapshot, self._engine.view
        by_unit: dict[int, dict[str, None]] = {}
        unknown = [number for number, shape in snapshot.shapes.items() if shape.missing]
        for row in np.flatnonzero(np.isin(snapshot.shape, unknown)).tolist():
            by_unit.setdefault(units.lead.item(row), {}).update(dict.fromkeys(snapshot.shape_at(row).missing))
        for key, group in view.groups.items():
            demands = group.demands
            if any(
                ancestor.topology or preferred_topology(ancestor) for ancestor in lineage(view, group).above
            ):
                demands = (*demands, _TREE_TOPOLOGY)
            for name in view.members(key) if demands else ():
                member = snapshot.pod_row.get((key.namespace, name))
                if member is not None:
                    by_unit.setdefault(units.lead.item(member), {}).update(dict.fromkeys(demands))
        return by_unit

    def _frees(self, number: int, leads: Rows, pods: Rows) -> dict[str, int]:
        """Return the free room of a domain once units and leaving pods have gone, without empty resources."""
        snapshot = self._snapshot
        members = self._units.all_members(leads)
        gone = np.concatenate([members[self._topology.of[snapshot.node[members]] == number],
                               pods[self._freeing[pods]]])  # fmt: skip
        rooms = {
            name: free.item(number) + int(snapshot.requests[snapshot.resource[name]][gone].sum())
            for name, free in self._free.items()
        }
        return {name: room for name, room in rooms.items() if room > 0}


def _free(snapshot: Snapshot, name: str, nodes: Rows) -> Int64s:
    """Return what is free of a resource on some nodes, not counting what a plugin provides."""
    at, backed = snapshot.resource[name], snapshot.backed(name)
    free: Int64s = (snapshot.allocatable[at] - snapshot.used[at])[nodes]
    return free if backed is None else np.where(backed[nodes], 0, free)


# Every nominated pod has at least this priority.
LOWEST_PRIORITY = -(2**31)
# The most domains that are searched for moves in one call; a domain takes up to some 50 ms.
MOST_TRIED = 200
# Up to this many pods are tried on every node. One domain may take so many steps, and all of them together.
_FEW_PODS, _STEPS, _ALL_STEPS = 16, 4_096, 32_768

_OVER_BUDGET = "its moves would violate a PodDisruptionBudget, and budgets are strict"
_TOO_LITTLE = "its pods request more {} than is free on other nodes"
_NOT_TRIED = "not tried: {} domains with less harm were tried before it"
_PACKED = "its pods fit if they are packed as listed; a scheduler may place them otherwise"


class _Moved(NamedTuple):
    """The node rows of moved pods, by pod row. `packed` says that the scheduler's own order fails."""

    placed: dict[int, int]
    packed: bool


class Defragmenter:
    """Searches the moves that free domains of a label at `now` (seconds), in a trial of the engine.

    Nominated pods count on their nodes. Raises PodiumUsageError if no node has the label.
    """

    def __init__(self, engine: PlanningState, units: Units, now: int, key: str) -> None:
        self._engine = engine
        self._units = units
        self._now = now
        self._key = key
        self._snapshot = snapshot = engine.snapshot
        self._chain = engine.placer.chain
        self._topology = Topology(snapshot, (key,))
        if not self._topology.nodes.any():
            raise PodiumUsageError(f"no node has the label {key}; use another label of the nodes")
        self._steps = _ALL_STEPS

    def best(self, most: int) -> Defragmentation:
        """Return the answer with the best `most` domains that are not free."""
        domains = list(contents(self._engine, self._units, self._topology, self._now))
        free = [domain for domain in domains if domain.free]
        candidates = sorted(
            (domain for domain in domains if len(domain.leads)), key=lambda domain: domain.order
        )
        verdicts, tried = self._tried(candidates, [domain.number for domain in free], most)
        verdicts += [
            self._verdict(domain, Freeing.BLOCKED, _blocked_by(domain)) for domain in domains if domain.stays
        ]
        return Defragmentation(
            key=self._key,
            count=len(domains),
            candidates=len(candidates),
            tried=tried,
            movable=sum(verdict.outcome is Freeing.MOVABLE for verdict in verdicts),
            free=tuple(domain.name for domain in free),
            domains=tuple(verdicts[:most]),
        )

    def _tried(
        self, candidates: Sequence[DomainContent], free: list[int], most: int
    ) -> tuple[list[DomainMoves], int]:
        """Return the verdicts on domains, the best first, and how many domains were tried.

        The domains after the first `most` that can be freed have no verdict.
        """
        topology, alive = self._topology, self._snapshot.alive
        kept_free = np.isin(topology.of, free)
        movable: list[DomainMoves] = []
        refused: list[tuple[DomainContent, str]] = []
        tried = 0
        for content in candidates:
            if len(movable) >= most or tried == MOST_TRIED:
                break
            tried += 1
            result = self._moved(content, alive & ~kept_free & (topology.of != content.number))
            if isinstance(result, _Moved):
                movable.append(self._freed(content, result, kept_free))
            else:
                refused.append((content, result))
        if len(movable) >= most:
            return movable, tried
        verdicts = []
        for content, why in refused:
            result = why
            if free and len(movable) < most:
                result = self._moved(content, alive & (topology.of != content.number))
            if isinstance(result, _Moved):
                movable.append(self._freed(content, result, kept_free))
            else:
                verdicts.append(self._verdict(content, Freeing.DOES_NOT_FIT, result))
        rest = (
            self._verdict(content, Freeing.NOT_TRIED, _NOT_TRIED.format(tried))
            for content in candidates[tried:]
        )
        return [*movable, *verdicts, *rest], tried

    def _moved(self, content: DomainContent, nodes: Bools) -> _Moved | str:
        """Return where the pods of a domain find room on these nodes, or why they do not."""
        snapshot, units = self._snapshot, self._units
        if content.harm.violations and self._engine.settings.budgets is Budgets.STRICT:
            return _OVER_BUDGET
        rows = units.all_members(content.leads)
        if short := self._too_little(rows, nodes):
            return _TOO_LITTLE.format(short)
        with snapshot.trial(), self._chain.within(nodes):
            snapshot.remove_many(rows)
            return self._placed(rows)

    def _too_little(self, rows: Rows, nodes: Bools) -> str:
        """Return a resource of which pods request more than these nodes have without them, empty for none."""
        snapshot = self._snapshot
        there = rows[nodes[snapshot.node[rows]]]
        for name, at in sorted(snapshot.resource.items()):
            free = np.maximum(snapshot.allocatable[at] - snapshot.used[at], 0)[nodes].sum()
            requested = snapshot.requests[at]
            if requested[rows].sum() > free + requested[there].sum():
                return name
        return ""

    def _placed(self, rows: Rows) -> _Moved | str:
        """Place the removed pods of a domain; return their nodes, or why they find no room."""
        snapshot, placed = self._snapshot, dict[int, int]()
        placer = TargetPlacer(self._engine.placer, self._engine.settings.semantics, NEVER)
        bound, others = self._by_constraint(rows)
        for group, members in bound:
            target = evicted_members(self._engine.view, snapshot, group, members)
            located = placer.place(placer.search(target))
            nodes = located.placed
            if nodes is None:
                return _fits_nowhere("PodGroup", group.ref.namespace, group.ref.name, located.refusals)
            snapshot.assume_many(np.array(list(nodes), np.intp), np.array(list(nodes.values()), np.int32))
            placed |= nodes
        first = self._as_scheduled(others)
        if isinstance(first, dict):
            return _Moved(placed | first, packed=False)
        packed = self._packed(others) or self._searched(others)
        return first if packed is None else _Moved(placed | packed, packed=True)

    def _as_scheduled(self, rows: Sequence[int]) -> dict[int, int] | str:
        """Return the nodes of pods as the scheduler places them, one after the other; or what refuses one."""
        snapshot = self._snapshot
        with snapshot.trial():
            placed = self._engine.placer.place_many(rows, enough=len(rows))
            if len(placed) == len(rows):
                return placed
            failed = next(row for row in rows if row not in placed)
            refusals = self._chain.refusals(snapshot.shape_at(failed))
            return _fits_nowhere(*self._units.object_of(self._units.lead.item(failed)), refusals)

    def _packed(self, rows: Sequence[int]) -> dict[int, int] | None:
        """Return the nodes of pods that are packed kind by kind; None if some find no room so."""
        with self._snapshot.trial():
            placed = place_packed(self._chain, rows, len(rows), NEVER)
        return placed if len(placed) == len(rows) else None

    def _searched(self, rows: Sequence[int]) -> dict[int, int] | None:
        """Return the nodes of a few pods, each tried on every node; None if that fails or takes too long."""
        if len(rows) > _FEW_PODS:
            return None
        search = NodeSearch(self._engine.placer, rows, min(_STEPS, self._steps))
        with self._snapshot.trial():
            placed = search.placed()
        self._steps -= search.steps
        return placed

    def _by_constraint(self, rows: Rows) -> tuple[list[tuple[PodGroup, list[int]]], list[int]]:
        """Return the groups with topology requests and their pods, and the other pods, the largest first."""
        snapshot, units = self._snapshot, self._units
        share = np.zeros(len(rows))
        for at in snapshot.resource.values():
            largest = max(int(snapshot.allocatable[at].max(initial=1)), 1)
            share = np.maximum(share, snapshot.requests[at][rows] / largest)
        names = [name_of(pod) for pod in map(snapshot.pod_at, rows.tolist())]
        # Equal pods come together, because they are placed at once. No decision depends on numbers of shapes.
        shapes, first = snapshot.shape[rows].tolist(), dict[int, Name]()
        for shape, name in sorted(zip(shapes, names, strict=True), key=lambda pair: pair[1]):
            first.setdefault(shape, name)
        order = sorted(range(len(rows)), key=lambda at: (-share[at], first[shapes[at]], names[at]))
        groups: dict[GroupKey, tuple[PodGroup, list[int], list[float]]] = {}
        others = []
        for at in order:
            row = rows.item(at)
            group = units.group_of(row)
            if group is None or not _asks_for_topology(group):
                others.append(row)
                continue
            _, members, shares = groups.setdefault(key_of(group), (group, [], []))
            members.append(row)
            shares.append(share.item(at))
        largest_first = sorted(groups.values(), key=lambda entry: (-sum(entry[2]), key_of(entry[0])))
        return [(group, members) for group, members, _ in largest_first], others

    def _freed(self, content: DomainContent, moved: _Moved, free: Bools) -> DomainMoves:
        """Return the verdict on a domain that moves free; `free` are the nodes of domains free before."""
        topology = self._topology
        taken = np.unique(np.fromiter(moved.placed.values(), np.intp))
        fills = {topology.name(number) for number in topology.of[taken[free[taken]]].tolist()}
        verdict = self._verdict(content, Freeing.MOVABLE, _PACKED if moved.packed else "")
        return msgspec.structs.replace(
            verdict, moves=tuple(self._moves(content, moved.placed)), fills=tuple(sorted(fills))
        )

    def _moves(self, content: DomainContent, placed: dict[int, int]) -> Iterator[UnitMove]:
        """Yield the moves of the units of a domain, the most important first."""
        units, snapshot, leads = self._units, self._snapshot, content.leads
        work = work_lost(units, leads, self._now).tolist()
        for lead, lost, violations in zip(leads.tolist(), work, content.violations.tolist(), strict=True):
            kind, namespace, name = units.object_of(lead)
            pods = (
                MovedPod(
                    snapshot.pod_at(row).metadata.name or "",
                    snapshot.node_name(units.node.item(row)),
                    snapshot.node_name(placed[row]),
                )
                for row in units.members(lead).tolist()
            )
            yield UnitMove(
                kind=kind,
                namespace=namespace,
                name=name,
                priority=units.priority.item(lead),
                pods=tuple(pods),
                acceleratorSeconds=lost,
                violations=violations,
            )

    def _verdict(self, content: DomainContent, outcome: Freeing, message: str) -> DomainMoves:
        """Return the verdict on a domain without its moves."""
        return DomainMoves(
            name=content.name,
            outcome=outcome,
            nodes=self._topology.nodes.item(content.number),
            frees=content.frees,
            harm=None if content.stays else plan_harm(content.harm, self._units, content.leads, self._now),
            stays=content.stays,
            message=message,
        )


def _asks_for_topology(group: PodGroup) -> bool:
    """Return whether the pods of a group have to be placed together, because their domains matter."""
    return bool(
        group.topology or preferred_topology(group) or slice_topology(group)[0] or spread_topology(group)[0]
    )


def _fits_nowhere(kind: str, namespace: str, name: str, refusals: Refusals | None) -> str:
    """Return that a unit finds no room, and what refuses it."""
    why = "" if refusals is None else f": {refusals.message.rstrip('.')}"
    return f"{kind} {namespace}/{name} fits on no other node{why}"


def _blocked_by(content: DomainContent) -> str:
    """Return the first unit that stays, with the reason, and the number of the others."""
    first, *others = content.stays
    more = f"; {len(others):,} more {'stays' if len(others) == 1 else 'stay'}" if others else ""
    return f"{first.kind} {first.namespace}/{first.name} stays: {first.reason}{more}"
