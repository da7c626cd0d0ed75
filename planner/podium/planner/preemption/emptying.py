"""Finds what leaves a topology domain that is to be free, what stays there, and what that costs and frees.

A unit leaves as a whole, with its pods in other domains. Pods that belong to a node stay and do not count, as
in a drain. Pods that are leaving count as gone. Every other pod that may not be evicted keeps its domain from
being free, and so does a pending pod for which a node there is reserved.

No preemptor has a priority here. So a toleration exempts a unit while it holds back the least preemptor, the
one whose priority is one above the unit's.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np

from podium.api.podrequests import is_device
from podium.api.times import LAST_SECOND, written_at
from podium.groups.topology import preferred_topology
from podium.groups.trees import lineage
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.preemption.harm import Harm, harm
from podium.planner.preemption.outcome import PlanHarm, full_name
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.protection import is_mirror, of_daemon_set
from podium.planner.preemption.topology import Topology
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units
from podium.planner.scores import SCORED_RESOURCES
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
        devices = sum(amount for name, amount in self.frees.items() if is_device(name))
        cpu, memory = (self.frees.get(name, 0) for name in SCORED_RESOURCES)
        return self.harm, -devices, -cpu, -memory, self.name


def contents(engine: PlanningState, units: Units, topology: Topology, now: int) -> Iterator[DomainContent]:
    """Yield the content of every domain with a node, by name; nominated pods count on their nodes."""
    reader = _ContentReader(engine, units, topology, now)
    for name, number in topology.numbers.items():
        if topology.nodes[number]:
            yield reader.content(number, name)


class _ContentReader:
    """Reads the content of one domain after the other at `now` (seconds)."""

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
            if name in SCORED_RESOURCES or is_device(name)
        }

    def content(self, number: int, name: str) -> DomainContent:
        """Return the content of a domain."""
        units = self._units
        pods = self._pods[self._first[number] : self._first[number + 1]]
        going = self._freeing[pods]
        leads = np.unique(units.lead[pods[~going & (units.lead[pods] != NO_UNIT)]]).astype(np.intp)
        stays = tuple(
            sorted(
                self._staying(leads, pods[~going]), key=lambda each: (each.kind, each.namespace, each.name)
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
        found: dict[int, dict[str, None]] = {}
        unknown = [number for number, shape in snapshot.shapes.items() if shape.missing]
        for row in np.flatnonzero(np.isin(snapshot.shape, unknown)).tolist():
            found.setdefault(units.lead.item(row), {}).update(dict.fromkeys(snapshot.shape_at(row).missing))
        for key, group in view.groups.items():
            demands = group.demands
            if any(each.topology or preferred_topology(each) for each in lineage(view, group).above):
                demands = (*demands, _TREE_TOPOLOGY)
            for name in view.members(key) if demands else ():
                member = snapshot.pod_row.get((key.namespace, name))
                if member is not None:
                    found.setdefault(units.lead.item(member), {}).update(dict.fromkeys(demands))
        return found

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
    """Return what is free of a resource on some nodes, not counting devices that a class provides."""
    at, backed = snapshot.resource[name], snapshot.backed(name)
    free: Int64s = (snapshot.allocatable[at] - snapshot.used[at])[nodes]
    return free if backed is None else np.where(backed[nodes], 0, free)
