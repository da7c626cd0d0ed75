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
from typing import NamedTuple

import msgspec
import numpy as np

from podium.api.groups import PodGroup
from podium.api.membership import GroupKey, key_of
from podium.cluster.reader import Name, name_of
from podium.errors import PodiumUsageError
from podium.groups.topology import preferred_topology, slice_topology, spread_topology
from podium.planner.arrays import Bools, Rows
from podium.planner.deadline import NEVER
from podium.planner.filters.refusals import Refusals
from podium.planner.preemption.capacity import place_packed
from podium.planner.preemption.deviceplacement import NodeSearch
from podium.planner.preemption.emptying import (
    Defragmentation,
    DomainContent,
    DomainMoves,
    Freeing,
    MovedPod,
    UnitMove,
    contents,
)
from podium.planner.preemption.grouptarget import evicted_members
from podium.planner.preemption.harm import plan_harm, work_lost
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.targetplacement import TargetPlacer
from podium.planner.preemption.topology import Topology
from podium.planner.preemption.units import Units
from podium.planner.settings import Budgets

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
        found = list(contents(self._engine, self._units, self._topology, self._now))
        free = [each for each in found if each.free]
        candidates = sorted((each for each in found if len(each.leads)), key=lambda each: each.order)
        verdicts, tried = self._tried(candidates, [each.number for each in free], most)
        verdicts += [self._verdict(each, Freeing.BLOCKED, _blocked_by(each)) for each in found if each.stays]
        return Defragmentation(
            key=self._key,
            count=len(found),
            candidates=len(candidates),
            tried=tried,
            movable=sum(each.outcome is Freeing.MOVABLE for each in verdicts),
            free=tuple(each.name for each in free),
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
            wanted = snapshot.requests[at]
            if wanted[rows].sum() > free + wanted[there].sum():
                return name
        return ""

    def _placed(self, rows: Rows) -> _Moved | str:
        """Place the removed pods of a domain; return their nodes, or why they find no room."""
        snapshot, placed = self._snapshot, dict[int, int]()
        placer = TargetPlacer(self._engine.placer, self._engine.settings.semantics, NEVER)
        bound, others = self._by_constraint(rows)
        for group, members in bound:
            target = evicted_members(self._engine.view, snapshot, group, members)
            found, refusals = placer.place(placer.search(target))
            if found is None:
                return _fits_nowhere("PodGroup", group.ref.namespace, group.ref.name, refusals)
            snapshot.assume_many(np.array(list(found), np.intp), np.array(list(found.values()), np.int32))
            placed |= found
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
        for shape, name in sorted(zip(shapes, names, strict=True), key=lambda each: each[1]):
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
        largest_first = sorted(groups.values(), key=lambda each: (-sum(each[2]), key_of(each[0])))
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
            harm=None if content.stays else plan_harm(content.harm),
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
