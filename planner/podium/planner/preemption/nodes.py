"""The pods of each node, least important first, for the search of a lone preemptor on all nodes at once.

A lone pod's domains are the nodes, thousands of them, and on each the plan is sums along a list of pods. The
lists are columns of one table, so one step along all of them is an addition and a comparison of arrays. Lists
begin with the least important pods, so a few steps usually show the lowest priority that is enough on any
node. `domain` has the algorithm; this module has the arithmetic that finds the nodes on which it is worth
running.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows, grown
from podium.planner.deadline import Deadline
from podium.planner.preemption.domain import SHIFT, Cost
from podium.planner.preemption.harm import Harm, Level, work_lost, work_of_pods
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units
from podium.planner.progress import NO_START
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

# A node with more pods is planned by itself, because it would lengthen the lists of all nodes.
LONGEST = 256
# The level of a node where all potential victims together are not enough.
NOT_ENOUGH = 2**62


class NodeTable:
    """Pods of units by node, `pods[k]` holding every node's k-th from the least important (NO_UNIT: no more).

    `leads` and `priority` are those of the pods. `pod_count` is the number of pods of each node. `long` marks
    nodes with too many for the table, `repeats_unit` those with several pods of one unit. Pods of one unit
    are beside each other. Call `refresh` after that of the units.
    """

    def __init__(self, units: Units) -> None:
        self._units = units
        self._snapshot: Snapshot = units.snapshot
        self.pods: Int32s = np.full((0, 0), NO_UNIT, np.int32)
        self.leads: Int32s = self.pods.copy()
        self.priority: Int64s = np.zeros((0, 0), np.int64)
        self.pod_count: Int32s = np.zeros(0, np.int32)
        self.repeats_unit: Bools = np.zeros(0, np.bool_)
        self._requests: dict[int, Int64s] = {}
        # The layout of the snapshot's arrays with which `_requests` was read.
        self._layout = -1
        self._at: Int32s = np.zeros(0, np.int32)
        self._built: int | None = None
        # The earliest start that was cut to `now` when the order was made.
        self._clipped = NO_START

    @property
    def long(self) -> Bools:
        """The nodes that the table does not hold."""
        return self.pod_count > LONGEST

    def requests(self, at: int) -> Int64s:
        """Return the requests of the table's pods for a resource, by its position."""
        known = self._requests.get(at)
        if known is None:
            known = np.where(self.pods != NO_UNIT, self._snapshot.requests[at][self.pods], 0)
            self._requests[at] = known
        return known

    def refresh(self, changed: frozenset[int], now: int) -> None:
        """Update the table from the units: `changed` are pods whose unit may be another than before."""
        units = self._units
        self._grow()
        if self._layout != self._snapshot.layout:
            self._layout, self._requests = self._snapshot.layout, {}
        if self._built is None or now < self._built or now > self._clipped:
            rows = np.flatnonzero(units.lead != NO_UNIT)
            self._clear(slice(None))
            self._at[:] = units.node
            self._clipped = NO_START
        elif not changed:
            self._built = now
            return
        else:
            touched = np.fromiter(changed, np.intp, len(changed))
            nodes = np.unique(np.concatenate([self._at[touched], units.node[touched]]))
            nodes = nodes[nodes >= 0]
            self._at[touched] = units.node[touched]
            self._clear(nodes)
            rows = self._on(nodes)
        self._built = now
        self._fill(rows, now)

    def _clear(self, nodes: Rows | slice) -> None:
        self.pod_count[nodes] = 0
        self.repeats_unit[nodes] = False
        self.pods[:, nodes] = self.leads[:, nodes] = NO_UNIT
        for amounts in self._requests.values():
            amounts[:, nodes] = 0

    def _on(self, nodes: Rows) -> Rows:
        rows = self._snapshot.pods_on_all(nodes)
        in_units: Rows = rows[self._units.lead[rows] != NO_UNIT]
        return in_units

    def _fill(self, rows: Rows, now: int) -> None:
        """Add pods, whose nodes are empty in the table."""
        if not len(rows):
            return
        units = self._units
        leads, which = np.unique(units.lead[rows], return_inverse=True)
        distinct: Rows = leads.astype(np.intp)
        late = units.start[distinct]
        late = late[(late >= now) & (late != NO_START)]
        self._clipped = min(self._clipped, int(late.min())) if len(late) else self._clipped
        rank = np.empty(len(distinct), np.int64)
        rank[np.searchsorted(distinct, units.ordered(distinct, now))] = np.arange(len(distinct), 0, -1)
        nodes = units.node[rows]
        order = np.lexsort((rows, rank[which], nodes))
        rows, nodes = rows[order], nodes[order]
        first = np.flatnonzero(np.concatenate(([True], nodes[1:] != nodes[:-1])))
        counts = np.diff(np.append(first, len(nodes)))
        self.pod_count[nodes[first]] = counts
        self._lengthen(min(int(counts.max()), LONGEST))
        place = np.arange(len(nodes)) - np.repeat(first, counts)
        fits = np.repeat(counts <= LONGEST, counts)
        rows, where = rows[fits], (place[fits], nodes[fits])
        self.pods[where] = rows
        self.leads[where] = units.lead[rows]
        self.priority[where] = units.priority[units.lead[rows]]
        twice = (units.lead[rows][1:] == units.lead[rows][:-1]) & (where[1][1:] == where[1][:-1])
        self.repeats_unit[where[1][1:][twice]] = True
        for at, amounts in self._requests.items():
            amounts[where] = self._snapshot.requests[at][rows]

    def _lengthen(self, length: int) -> None:
        if length > len(self.pods):
            self._resize(max(length, 2 * len(self.pods)), self.pods.shape[1])

    def _grow(self) -> None:
        nodes, pods = len(self._snapshot.alive), len(self._units.lead)
        if self.pods.shape[1] != nodes:
            self._resize(len(self.pods), nodes)
            self.pod_count, self.repeats_unit = (
                grown(self.pod_count, nodes),
                grown(self.repeats_unit, nodes),
            )
        if len(self._at) != pods:
            self._at = grown(self._at, pods, NO_UNIT)

    def _resize(self, length: int, width: int) -> None:
        more = ((0, length - self.pods.shape[0]), (0, width - self.pods.shape[1]))
        self.pods = np.pad(self.pods, more, constant_values=NO_UNIT)
        self.leads = np.pad(self.leads, more, constant_values=NO_UNIT)
        self.priority = np.pad(self.priority, more)
        self._requests = {at: np.pad(amounts, more) for at, amounts in self._requests.items()}


class VictimLists(NamedTuple):
    """Some nodes with the first entries of their lists: by place and node, as in the table.

    `potential` marks potential victims; `amounts` are of each resource that the preemptor requests.
    """

    nodes: Rows
    leads: Int32s
    priority: Int64s
    potential: Bools
    amounts: list[Int64s]


class VictimSums:
    """The arithmetic of one preempting pod over many nodes; `potential` marks potential victims by lead.

    `excluded` marks pods that are no victims on one node only, by place and node as in the table (None:
    none).
    """

    def __init__(
        self, table: NodeTable, units: Units, potential: Bools, shape: Shape, deadline: Deadline
    ) -> None:
        self._table = table
        self._deadline = deadline
        self._units = units
        self.excluded: Bools | None = None
        # One additional entry, which an empty place (-1) finds.
        self._potential = np.append(potential, False)
        snapshot = units.snapshot
        lacks = {
            at: need - (snapshot.allocatable[at] - snapshot.used[at])
            # A pod that requests a resource that no node offers has no candidates.
            for at, need in (
                (snapshot.resource[name], need) for name, need in shape.requests if name in snapshot.resource
            )
        }
        # A resource that no node lacks decides nothing. Rows without a node lack every resource.
        self._missing = {at: lack for at, lack in lacks.items() if (snapshot.alive & (lack > 0)).any()}

    def levels(self, nodes: Bools, enough: Bools | None = None) -> Int64s:
        """Return the lowest sufficient priority by node.

        It is NOT_ENOUGH if there is none, or if `nodes` is False. If `enough` nodes are marked, it is also
        NOT_ENOUGH where it is above the lowest of a marked node, because it is not needed there.
        """
        table = self._table
        level = np.full(len(nodes), NOT_ENOUGH, np.int64)
        # Arrays are longer than needed; the spare part is skipped.
        width = int(nodes.nonzero()[0].max(initial=-1)) + 1
        open_still = nodes[:width] & ~table.long[:width]
        pod_count, enough = table.pod_count[:width], enough[:width] if enough is not None else None
        lacks = [lack[:width].copy() for lack in self._missing.values()]
        amounts = [table.requests(at)[:, :width] for at in self._missing]
        lowest = NOT_ENOUGH
        for depth in range(len(table.pods)):
            self._deadline.enforce()
            priority = table.priority[depth, :width]
            if lowest != NOT_ENOUGH:
                open_still &= priority <= lowest
            open_still &= pod_count > depth
            if not open_still.any():
                return level
            potential = self._potential[table.leads[depth, :width]]
            if self.excluded is not None:
                potential &= ~self.excluded[depth, :width]
            fits = open_still & potential
            for at, amount in enumerate(amounts):
                lacks[at] -= np.where(potential, amount[depth], 0)
                fits &= lacks[at] <= 0
            if not fits.any():
                continue
            level[:width][fits] = priority[fits]
            open_still &= ~fits
            marked = fits if enough is None else fits & enough
            if enough is not None and marked.any():
                lowest = min(lowest, int(priority[marked].min()))
        return level

    def lists(self, nodes: Rows, depth: int) -> VictimLists:
        """Return the first entries of the lists of some nodes."""
        table = self._table
        leads = table.leads[:depth, nodes]
        potential = self._potential[leads]
        if self.excluded is not None:
            potential &= ~self.excluded[:depth, nodes]
        amounts = [table.requests(at)[:depth, nodes] for at in self._missing]
        return VictimLists(nodes, leads, table.priority[:depth, nodes], potential, amounts)

    def exclude(self, nodes: Rows, violating: Callable[[Rows, Int32s], Bools]) -> None:
        """Exclude on some nodes the units that `violating` finds to violate a budget there.

        `violating` is called with leads and their node rows, node by node and the most important first, each
        unit once.
        """
        table = self._table
        leads = table.leads[::-1, nodes].T
        units = self._potential[leads]
        units[:, 1:] &= leads[:, 1:] != leads[:, :-1]
        on = np.repeat(nodes.astype(np.int32), units.sum(axis=1))
        flags = np.zeros(leads.shape, np.bool_)
        flags[units] = violating(leads[units].astype(np.intp), on)
        for place in range(1, leads.shape[1]):
            self._deadline.enforce()
            same = (leads[:, place] == leads[:, place - 1]) & (leads[:, place] != NO_UNIT)
            flags[:, place] |= same & flags[:, place - 1]
        self.excluded = np.zeros(table.leads.shape, np.bool_)
        self.excluded[:, nodes] = flags.T[::-1]

    def depth(self, nodes: Bools, level: int) -> int:
        """Return the length of the lists of some nodes up to a priority."""
        table = self._table
        for depth in range(len(table.pods)):
            self._deadline.enforce()
            if not (nodes & (table.pod_count > depth) & (table.priority[depth] <= level)).any():
                return depth
        return len(table.pods)

    def cheapest(self, lists: VictimLists, level: int, now: int) -> tuple[Cost, Rows]:
        """Reprieve on every node, the most important first; return the least cost, and its nodes.

        Exact if only room decides and no budget is in play, for nodes of one level, whose lists reach that
        far.
        """
        units, leads = self._units, lists.leads
        victims = self._victims(lists, level)
        size = np.where(victims, units.size[leads], 0).astype(np.int64)
        total = ((lists.priority + SHIFT) * size).sum(axis=0)
        at = np.flatnonzero(total == total.min())
        pods = size[:, at].sum(axis=0)
        at, pods = at[pods == pods.min()], int(pods.min())
        start = np.minimum(units.start[leads[:, at]], now)
        first = np.where(victims[:, at] & (lists.priority[:, at] == level), start, NO_START).min(axis=0)
        latest = int(first.max())
        cost = Cost(0, level, int(total.min()), pods, -latest)
        return cost, lists.nodes[at[first == latest]]

    def least_harm(self, lists: VictimLists, level: int, now: int) -> tuple[Harm, Rows, bool]:
        """Reprieve on every node, the most important first; return the least harm, and its nodes.

        It holds for the same nodes as `cheapest`. A search on one node may find less, unless the last value
        is True. True means that one pod is evicted, and that no possible victim on any node loses work.
        Surplus that shares a node with its core may count twice.
        """
        units, leads = self._units, lists.leads
        victims = self._victims(lists, level)
        lost = np.zeros(victims.shape, np.int64)
        lost[victims] = work_lost(units, leads[victims].astype(np.intp), now, with_surplus=True)
        at, levels = np.arange(len(lists.nodes)), []
        for priority in np.unique(lists.priority[victims])[::-1].tolist():
            here = victims[:, at] & (lists.priority[:, at] == priority)
            work = np.where(here, lost[:, at], 0).sum(axis=0)
            at, here, least = at[work == work.min()], here[:, work == work.min()], int(work.min())
            pods = np.where(here, units.size[leads[:, at]] + units.surplus_count[leads[:, at]], 0).sum(axis=0)
            at, here, fewest = at[pods == pods.min()], here[:, pods == pods.min()], int(pods.min())
            number = np.where(here, 1 + units.surplus_count[leads[:, at]], 0).sum(axis=0)
            at = at[number == number.min()]
            if fewest:
                levels.append(Level(priority, least, fewest, int(number.min())))
        going = victims[:, at]
        top = going & (lists.priority[:, at] == levels[0].priority)
        start = np.where(top, np.minimum(units.start[leads[:, at]], now), NO_START).min(axis=0)
        latest = int(start.max())
        harm = Harm(0, tuple(levels), -latest)
        return harm, lists.nodes[at[start == latest]], harm.pods == 1 and not lost.any()

    def fewest(self, lists: VictimLists, level: int) -> Int64s:
        """Return for each node a number of pods of a priority that every plan there evicts at least."""
        fewest = np.zeros(len(lists.nodes), np.int64)
        lower, top = lists.potential & (lists.priority < level), lists.potential & (lists.priority == level)
        for amounts, lack in zip(lists.amounts, self._missing.values(), strict=True):
            missing = lack[lists.nodes] - np.where(lower, amounts, 0).sum(axis=0)
            largest = -np.sort(-np.where(top, amounts, 0), axis=0)
            fewest = np.maximum(fewest, (np.cumsum(largest, axis=0) < missing).sum(axis=0) + (missing > 0))
        return fewest

    def least_possible(
        self, lists: VictimLists, places: Sequence[int], level: int, fewest: Int64s, now: int
    ) -> list[Harm | None]:
        """Return for some nodes, by place in the lists, a harm that no plan there is below; None: no bound.

        Each plan evicts at least the `fewest` pods of that priority. At best these lose the least work, and
        started last. Units of several pods have no bound, because one eviction may give enough room. Nor have
        nodes with excluded units, because a search may charge a budget for these instead of others.
        """
        units, leads = self._units, lists.leads[:, places]
        top = lists.potential[:, places] & (lists.priority[:, places] == level)
        excluded = self._potential[leads] & ~lists.potential[:, places]
        plain = ((units.size[leads] == 1) | ~top) & ~excluded
        work, start = np.full(top.shape, NO_START), np.full(top.shape, -NO_START)
        work[top] = work_of_pods(units, leads[top].astype(np.intp), now)
        start[top] = np.minimum(units.start[leads[top]], now)
        last, at = np.maximum(fewest - 1, 0), np.arange(len(places))
        work, start = np.cumsum(np.sort(work, axis=0), axis=0)[last, at], -np.sort(-start, axis=0)[last, at]
        return [
            Harm(0, (Level(level, lost, pods, pods),), -since) if pods and simple else None
            for lost, since, pods, simple in zip(
                work.tolist(), start.tolist(), fewest.tolist(), plain.all(axis=0).tolist(), strict=True
            )
        ]

    def _victims(self, lists: VictimLists, level: int) -> Bools:
        """Return the victims, by place and node, one entry for each unit."""
        potential = lists.potential & (lists.priority <= level)
        amounts = [np.where(potential, amount, 0) for amount in lists.amounts]
        head = potential
        repeats_unit = np.flatnonzero(self._table.repeats_unit[lists.nodes])
        if len(repeats_unit):
            head = self._merge_units(lists.leads, potential, amounts, repeats_unit)
        lacks = [lack[lists.nodes] for lack in self._missing.values()]
        slack = [amount.sum(axis=0) - lack for amount, lack in zip(amounts, lacks, strict=True)]
        victims = np.zeros(potential.shape, np.bool_)
        for place in range(len(potential) - 1, -1, -1):
            self._deadline.enforce()
            stays = head[place].copy()
            for amount, left in zip(amounts, slack, strict=True):
                stays &= left >= amount[place]
            slack = [
                left - np.where(stays, amount[place], 0) for amount, left in zip(amounts, slack, strict=True)
            ]
            victims[place] = head[place] & ~stays
        return victims

    @staticmethod
    def _merge_units(leads: Int32s, potential: Bools, amounts: list[Int64s], repeats_unit: Rows) -> Bools:
        """Let the most important entry of each unit on a node stand for all; return those entries."""
        head = potential.copy()
        same = (leads[:-1, repeats_unit] == leads[1:, repeats_unit]) & potential[:-1, repeats_unit]
        head[:-1, repeats_unit] &= ~same
        for place in np.flatnonzero(same.any(axis=1)).tolist():
            here = repeats_unit[same[place]]
            for amount in amounts:
                amount[place + 1, here] += amount[place, here]
                amount[place, here] = 0
        return head
