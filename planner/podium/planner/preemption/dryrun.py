"""Tries a plan on the snapshot: moves units and the preemptor, and checks whether all still fit.

Every method of a dry run moves pods on the snapshot, inside a trial of the caller's that undoes all moves.
Thousands of units are checked for whether they can be given back beside the preemptor (`reprieved`). Each one
that stays reduces the room for the next. Most units have no pod on a node of the preemptor, and concern it in
no other way: they stay without a check. For the others the answer is a subtraction of integers
(`RemainingRoom`), and where neighbours decide, mostly a comparison (`Neighbours`).

Neighbours decide beyond room too. A unit is refused if it has a pod in a domain that a member keeps to
itself, or one that keeps a member out. So pods are sorted by their effect on the preemptor, for all units
together (see `reprieve`). Few remain whose effect depends on the pods that were given back before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.chain import Chain
from podium.planner.overlay import Trial
from podium.planner.placement import Placer
from podium.planner.preemption.capacity import (
    PodKinds,
    PodUsage,
    SliceDomains,
    asked,
    kinds_of,
    limits_of,
)
from podium.planner.preemption.groupplacement import attempts, place_pods
from podium.planner.preemption.target import PreemptorPods
from podium.planner.preemption.topology import CLUSTER, Domain, Topology
from podium.planner.preemption.units import Units
from podium.planner.reprieve import Exclusion, PlacedMembers, PodsByShape
from podium.planner.semantics import Semantics
from podium.planner.snapshot import Snapshot

# The room of a resource that no pod of the preemptor requests on a node: more than all pods there can take.
_UNLIMITED = 2**100


class DryRun:
    """A preemptor and the units around it; `plain` if nothing but resources can refuse its pods.

    `searches` says that a filter searches for what suits one of its pods. `joins` says that one of its pods
    goes only where other pods are. `monotone` says that more room can only help, which is so if all its pods
    have the same requests.
    """

    def __init__(
        self,
        placer: Placer,
        units: Units,
        preemptor: PreemptorPods,
        semantics: Semantics,
        deadline: Deadline = NEVER,
    ) -> None:
        self.units = units
        self.deadline = deadline
        self.preemptor = preemptor
        self.snapshot = snapshot = placer.snapshot
        self.placer = placer
        self._semantics = semantics
        self.shapes = [snapshot.shape_at(row) for row in preemptor.rows]
        distinct = {id(shape): shape for shape in self.shapes}.values()
        self.plain = all(placer.chain.resources_only(shape) for shape in distinct)
        searching = [node_filter for node_filter in placer.chain.dynamic if node_filter.SEARCHES]
        self.searches = any(search.concerns(shape) for search in searching for shape in distinct)
        joining = [node_filter for node_filter in placer.chain.dynamic if node_filter.JOINS]
        self.joins = any(node_filter.concerns(shape) for node_filter in joining for shape in distinct)
        alike = len({asked(placer.chain, shape) for shape in distinct}) == 1
        self.monotone = self.plain and alike and preemptor.tree is None

    def trial(self) -> AbstractContextManager[Trial]:
        """Begin a block whose moves are undone at its end, unless they are kept."""
        return self.snapshot.trial()

    def place(self, domain: Domain) -> dict[int, int] | None:
        """Place and assume the preemptor; None, and nothing assumed, if too few of its pods fit.

        The spec frees room for exactly the members that are needed; kube-scheduler for all it can place.
        """
        self.deadline.enforce()
        rows, needed = self.preemptor.rows, self.preemptor.needed
        if domain.node is not None:
            if not self.placer.chain.fits(self.shapes[0], domain.node):
                return None
            self.snapshot.assume(rows[0], domain.node)
            return {rows[0]: domain.node}
        for attempt in self._attempts():
            with self.trial() as kept:
                placed = attempt()
                if len(placed) >= needed:
                    kept.commit()
                    return placed
        return None

    def _attempts(self) -> Iterator[Callable[[], dict[int, int]]]:
        """Yield the ways to place a preemptor on several nodes; each assumes what it places."""
        placer, preemptor = self.placer, self.preemptor
        tree, nominated = preemptor.tree, preemptor.nominated
        if tree is not None:
            yield partial(place_pods, placer, tree, self._semantics, self.deadline, nominated=nominated)
        else:
            yield from attempts(placer, preemptor, self._semantics, self.deadline)

    def within(self, domain: Domain) -> AbstractContextManager[None]:
        """Begin a block in which only the nodes of a topology domain are used."""
        return self.placer.chain.within(domain.nodes)

    def try_place(self) -> dict[int, int] | None:
        """Return the placement of `place` on the nodes that filters ask, with nothing assumed."""
        with self.trial():
            return self.place(CLUSTER)

    def kinds(self, domain: Domain) -> PodKinds | None:
        """Return the pods that are to be placed by kind, on the nodes of a domain; None if too many.

        None for a tree, whose parts have domains of their own.
        """
        if self.preemptor.tree is not None:
            return None
        within = None
        if domain.node is not None:
            within = np.zeros(len(self.snapshot.alive), np.bool_)
            within[domain.node] = True
        pods = kinds_of(self.placer.chain, self.preemptor.rows, self.preemptor.needed, within)
        slices = self.preemptor.slices
        if pods is None:
            return None
        if len(pods.kinds) == 1 and domain.node is None:
            limits = limits_of(self.placer.chain, self.snapshot.shape_at(pods.rows[0][0]))
            here = (limit._replace(domains=limit.domains[pods.nodes]) for limit in limits)
            pods = pods._replace(limits=tuple(here))
        if slices is None:
            return pods
        topology = Topology(self.snapshot, (slices.key,))
        return pods._replace(slices=SliceDomains(slices.size, topology.of[pods.nodes]))

    def exclusions(self, domain: Domain) -> list[Exclusion]:
        """Return the pods (rows) that keep the preemptor out; for one node those that run there."""
        return self._exclusions if domain.node is None else self._among(self.snapshot.pods_on(domain.node))

    @cached_property
    def _exclusions(self) -> list[Exclusion]:
        """Those of the cluster; it is read before any unit is removed."""
        return self._among(np.flatnonzero(self.snapshot.node >= 0))

    def _among(self, rows: Rows) -> list[Exclusion]:
        snapshot = self.snapshot
        pods = PodsByShape(snapshot.shapes, snapshot.shape[rows])
        shapes = {snapshot.shape.item(row): snapshot.shape_at(row) for row in self.preemptor.rows}
        exclusions = self.placer.chain.exclusions(shapes, pods, self.deadline)
        return [exclusion._replace(pods=rows[exclusion.pods]) for exclusion in exclusions]

    def fits(self) -> bool:
        """Return whether the preemptor can be placed in the cluster now."""
        if self.monotone:
            return self.room() >= self.preemptor.needed
        return self.try_place() is not None

    def room(self) -> int:
        """Return how many pods of a monotone preemptor have room in the cluster."""
        self.deadline.enforce()
        snapshot, shape = self.snapshot, self.shapes[0]
        nodes = self.placer.chain.static(shape)
        at_most: Int64s | None = None
        for name, amount in shape.requests:
            at = snapshot.resource.get(name)
            if at is None:
                return 0
            free = snapshot.allocatable[at] - snapshot.used[at]
            pods = np.maximum(free, 0) // amount
            at_most = pods if at_most is None else np.minimum(at_most, pods)
        assert at_most is not None, "every pod takes a place"
        return int(at_most[nodes].sum())

    def remove(self, leads: Rows) -> None:
        """Remove units from their nodes."""
        self.deadline.enforce()
        self.snapshot.remove_many(self.units.all_members(leads))

    def add_back(self, leads: Rows) -> None:
        """Put units back where they ran, whatever runs there now."""
        self.deadline.enforce()
        rows = self.units.all_members(leads)
        self.snapshot.assume_many(rows, self.units.node[rows])

    def reprieve(self, leads: Rows, placed: dict[int, int]) -> list[int]:
        """Put back in order the units beside which the assumed preemptor still fits; return them."""
        chain = self.placer.chain
        neighbours = None if self.plain else Neighbours(chain, placed, self.deadline)
        back = leads[reprieved(self.units, leads, placed, neighbours, self.deadline)]
        self.add_back(back)
        kept: list[int] = back.tolist()
        return kept

    def reprieve_with_new_placement(self, leads: Rows, placed: dict[int, int]) -> list[int]:
        """Put back in order the units beside which the preemptor can be placed again; return them.

        1.36 does this for groups.
        """
        rows = np.fromiter(placed, np.intp, len(placed))
        self.snapshot.remove_many(rows)
        back = []
        for lead in leads.tolist():
            self.deadline.enforce()
            members = self.units.members(lead)
            self.snapshot.assume_many(members, self.units.node[members])
            if self.fits():
                back.append(lead)
            else:
                self.snapshot.remove_many(members)
        self.snapshot.assume_many(rows, np.fromiter(placed.values(), np.int32, len(placed)))
        return back


class NodeDryRun(DryRun):
    """A single node where only room can refuse a lone pod: integers replace the snapshot, no pod is moved.

    Moving pods and undoing it costs several times the arithmetic, and a pod has many nodes.
    """

    def __init__(self, whole: DryRun, node: int) -> None:
        # All attributes but the moves are equal, and cheaper to share than to create.
        vars(self).update(vars(whole))
        self.plain = self.monotone = True
        snapshot = whole.snapshot
        self._node = node
        asked = [(snapshot.resource[name], amount) for name, amount in self.shapes[0].requests]
        self._resources = [at for at, _ in asked]
        self._needs = [amount for _, amount in asked]
        self._left = [snapshot.allocatable[at].item(node) - snapshot.used[at].item(node) for at, _ in asked]
        self._wants: dict[int, list[int]] = {}

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Begin a block that restores the room at its end, unless it is kept."""
        before = self._left
        trial = Trial(lambda: None)
        try:
            yield trial
        finally:
            if not trial.kept:
                self._left = before

    def place(self, domain: Domain) -> dict[int, int] | None:  # noqa: ARG002 - there is one node here
        """Take the room of the preemptor, if it is free."""
        self.deadline.enforce()
        if any(have < need for have, need in zip(self._left, self._needs, strict=True)):
            return None
        self._left = [have - need for have, need in zip(self._left, self._needs, strict=True)]
        return {self.preemptor.rows[0]: self._node}

    def remove(self, leads: Rows) -> None:
        """Remove units from the node."""
        for lead in leads.tolist():
            self._left = [have + more for have, more in zip(self._left, self._unit_room(lead), strict=True)]

    def reprieve(self, leads: Rows, placed: dict[int, int]) -> list[int]:  # noqa: ARG002 - it has its room
        """Put back in order the units for which there is room; return them."""
        back = []
        for lead in leads.tolist():
            left = beside(self._left, self._unit_room(lead))
            if left is not None:
                self._left = left
                back.append(lead)
        return back

    def _unit_room(self, lead: int) -> list[int]:
        """Return the room that a unit takes here."""
        wants = self._wants.get(lead)
        if wants is None:
            members = self.units.members(lead)
            here = members[self.units.node[members] == self._node].tolist()
            requests = self.snapshot.requests
            wants = self._wants[lead] = [
                sum(requests[at].item(row) for row in here) for at in self._resources
            ]
        return wants


class RemainingRoom:
    """The room left on the nodes of `placed` (node rows by pod row), whose pods are assumed there.

    A filter looks only at what a pod requests. On a node where no pod of the preemptor requests accelerators,
    units that hold some never block it.
    """

    def __init__(self, snapshot: Snapshot, placed: Mapping[int, int]) -> None:
        asked: dict[int, set[int]] = {}
        for row, node in placed.items():
            shape = snapshot.shape_at(row)
            asked.setdefault(node, set()).update(snapshot.resource[name] for name, _ in shape.requests)
        self.resources = sorted(set().union(*asked.values()))
        nodes = list(asked)
        free = [snapshot.allocatable[at][nodes] - snapshot.used[at][nodes] for at in self.resources]
        rooms = zip(*(column.tolist() for column in free), strict=True)
        self._left = {
            node: [
                have if at in asked[node] else _UNLIMITED
                for at, have in zip(self.resources, room, strict=True)
            ]
            for node, room in zip(nodes, rooms, strict=True)
        }

    def take(self, unit: Sequence[PodUsage]) -> bool:
        """Take room for the pods of a unit on these nodes; if there is too little, take none."""
        before = []
        for node, requested in unit:
            left = self._left[node]
            before.append((node, left))
            less = beside(left, requested)
            if less is None:
                for at, was in reversed(before):
                    self._left[at] = was
                return False
            self._left[node] = less
        return True

    def release(self, unit: Sequence[PodUsage]) -> None:
        """Free the room of a unit again."""
        for node, requested in unit:
            left = self._left[node]
            self._left[node] = [have + want for have, want in zip(left, requested, strict=True)]


def beside(left: list[int], requested: Sequence[int]) -> list[int] | None:
    """Return the room that is left after `requested` is taken; None if it does not fit.

    A resource that is not requested need not be free: a node may be overcommitted in it.
    """
    less = [have - want for have, want in zip(left, requested, strict=True)]
    return None if any(have < 0 < want for have, want in zip(less, requested, strict=True)) else less


class _CheckedUnit(NamedTuple):
    """A unit to check: its number, its room on the preemptor's nodes, and its pods that count."""

    number: int
    takes: list[PodUsage]
    rows: Rows
    nodes: Int32s


def reprieved(
    units: Units, leads: Rows, placed: Mapping[int, int], neighbours: "Neighbours | None", deadline: Deadline
) -> Bools:
    """Return for each unit whether it can be given back where it ran, after those before it.

    `placed` gives the node rows of the preemptor's pods, which are assumed there. Without `neighbours`
    nothing but room decides. No pod is moved.
    """
    snapshot = units.snapshot
    rows = units.all_members(leads)
    nodes, owners = units.node[rows], np.repeat(np.arange(len(leads)), units.size[leads])
    stay = np.ones(len(leads), np.bool_)
    counted = np.zeros(len(rows), np.bool_)
    if neighbours is not None:
        stay[owners[neighbours.excluded(rows, nodes)]] = False
        counted = neighbours.counted(rows, nodes) & stay[owners]
    near = _near(snapshot, placed, nodes) & stay[owners]
    room = RemainingRoom(snapshot, placed)
    with snapshot.trial():
        if counted.any():
            snapshot.remove_many(np.fromiter(placed, np.intp, len(placed)))
        for unit in _units_to_check(snapshot, room, rows, nodes, owners, near, counted):
            deadline.enforce()
            if not room.take(unit.takes):
                stay[unit.number] = False
            elif len(unit.rows) and neighbours is not None and not neighbours.admits(unit.rows, unit.nodes):
                room.release(unit.takes)
                stay[unit.number] = False
    return stay


def _near(snapshot: Snapshot, placed: Mapping[int, int], nodes: Int32s) -> Bools:
    """Return which of these nodes hold a pod of the preemptor."""
    beside = np.zeros(len(snapshot.alive), np.bool_)
    beside[list(placed.values())] = True
    near: Bools = beside[nodes]
    return near


def _units_to_check(  # noqa: PLR0917 - arrays by pod
    snapshot: Snapshot,
    room: RemainingRoom,
    rows: Rows,
    nodes: Int32s,
    owners: Int64s,
    near: Bools,
    counted: Bools,
) -> Iterator[_CheckedUnit]:
    """Yield the units with a pod that is `near` or `counted`, in order."""
    checked = np.flatnonzero(near | counted)
    amounts = (snapshot.requests[at][rows[checked]].tolist() for at in room.resources)
    takes = zip(nodes[checked].tolist(), zip(*amounts, strict=True), strict=True)
    pods = zip(owners[checked].tolist(), near[checked].tolist(), takes, strict=True)
    start = 0
    for number, unit in groupby(pods, key=itemgetter(0)):
        members = list(unit)
        at = checked[start : start + len(members)]
        start += len(members)
        at = at[counted[at]]
        yield _CheckedUnit(number, [taken for _, here, taken in members if here], rows[at], nodes[at])


class Neighbours:
    """The pods of a preemptor where they were `placed` (node rows by pod row), and those around them."""

    def __init__(self, chain: Chain, placed: Mapping[int, int], deadline: Deadline) -> None:
        self._snapshot = snapshot = chain.snapshot
        self._chain = chain
        self._deadline = deadline
        self._members = members = PlacedMembers(snapshot, snapshot.shapes, placed, deadline)
        reprieves = (node_filter.reprieve(members) for node_filter in chain.dynamic)
        self._reprieves = [reprieve for reprieve in reprieves if reprieve is not None]
        self._counting = [node_filter for node_filter in chain.dynamic if node_filter.COUNTS]

    def excluded(self, rows: Rows, nodes: Int32s) -> Bools:
        """Return which pods on these nodes keep out a member where it was placed, or are kept out by one."""
        pods = PodsByShape(self._snapshot.shapes, self._snapshot.shape[rows])
        excluded = np.zeros(len(rows), np.bool_)
        for exclusion in self._chain.exclusions(self._members.shapes, pods, self._deadline):
            hosts = [node for shape_id in exclusion.shapes for node in self._members.nodes[shape_id]]
            excluded[exclusion.pods] |= exclusion.shared(hosts)[nodes[exclusion.pods]]
        return excluded

    def counted(self, rows: Rows, nodes: Int32s) -> Bools:
        """Return which pods on these nodes count for a member."""
        pods = PodsByShape(self._snapshot.shapes, self._snapshot.shape[rows])
        counted = np.zeros(len(rows), np.bool_)
        for reprieve in self._reprieves:
            own = reprieve.counted(pods, rows, nodes)
            if own is not None:
                counted |= own
        return counted

    def admits(self, rows: Rows, nodes: Int32s) -> bool:
        """Return whether the members fit beside more pods, and count these pods if they do.

        Call it while the members count nowhere.
        """
        snapshot, known = self._snapshot, True
        for reprieve in self._reprieves:
            allowed = reprieve.allows(rows, nodes)
            if allowed is False:
                return False
            known &= allowed is True
        with snapshot.trial() as kept:
            snapshot.assume_many(rows, nodes)
            if not known and not self._can_place_again():
                return False
            kept.commit()
        return True

    def _can_place_again(self) -> bool:
        """Place the members where they were, as far as other pods decide how; return whether all fit."""
        snapshot = self._snapshot
        with snapshot.trial():
            for row, node in self._members.placed.items():
                self._deadline.enforce()
                shape = snapshot.shape_at(row)
                if any(node_filter.reason(shape, node) is not None for node_filter in self._counting):
                    return False
                snapshot.assume(row, node)
        return True
