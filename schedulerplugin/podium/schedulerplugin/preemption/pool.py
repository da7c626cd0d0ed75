"""The units that a search may evict, as arrays and plain lists: the room, weight and charges of their pods.

A cluster has a hundred thousand pods, and a search moves them one by one. So if there are many units, the
search uses only those on the nodes that are cheapest to free. It takes enough of them to leave several times
the room needed.
"""

from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.preemption.budgets import BudgetIndex
from podium.schedulerplugin.preemption.capacity import Held, slots
from podium.schedulerplugin.preemption.harm import weights, work_lost
from podium.schedulerplugin.preemption.packing import Kinds
from podium.schedulerplugin.preemption.search import Candidate
from podium.schedulerplugin.preemption.units import NO_UNIT, Units

# Of more pods than this, the search looks only at units on the nodes that are cheapest to free.
_MANY = 4096
# Those nodes have room for this many times the pods needed, and are at least this many.
_TIMES, _NODES = 2, 64


class Pool(NamedTuple):
    """Units (`leads`, the most important first), and their pods on nodes that suit the preemptor.

    Of each pod `owner` is the position of its unit, and `node` that of its node. `amounts` has one array for
    each resource that the preemptor requests. `free` is the room by node with every unit in place.
    """

    leads: Rows
    free: list[Int64s]
    owner: Int64s
    node: Int64s
    amounts: list[Int64s]

    def room(self, away: Bools) -> list[Int64s]:
        """Return the room by node once the units `away` (by position) have left."""
        here = away[self.owner]
        rooms = [free.copy() for free in self.free]
        for room, amounts in zip(rooms, self.amounts, strict=True):
            np.add.at(room, self.node[here], amounts[here])
        return rooms

    def only(self, units: Bools) -> "Pool":
        """Return the pool of these units (by position); the others stay in place."""
        here = units[self.owner]
        numbers = np.cumsum(units) - 1
        return self._replace(
            leads=self.leads[units],
            owner=numbers[self.owner[here]],
            node=self.node[here],
            amounts=[amounts[here] for amounts in self.amounts],
        )


def pool_of(units: Units, leads: Rows, kinds: Kinds) -> Pool:
    """Return the pool of units, the most important first, around a preemptor."""
    snapshot = units.snapshot
    position = np.full(len(snapshot.alive), -1, np.int64)
    position[kinds.nodes] = np.arange(len(kinds.nodes))
    rows = units.all_members(leads)
    owner = np.repeat(np.arange(len(leads)), units.size[leads])
    node = position[units.at[rows]]
    here = node >= 0
    amounts = [snapshot.requests[at][rows[here]] for at in kinds.resources]
    return Pool(leads, kinds.free(snapshot), owner[here], node[here], amounts)


def narrowed(pool: Pool, units: Units, kinds: Kinds, budgets: BudgetIndex, now: int) -> Pool:
    """Return a pool that is small enough to search, with room for the preemptor if there was any."""
    if len(pool.owner) <= _MANY:
        return pool
    pool = _within_budgets(pool, units, kinds, budgets)
    pool = _of_least_priority(pool, units, kinds)
    return _on_cheapest_nodes(pool, units, kinds, now)


def candidates(
    pool: Pool, units: Units, kinds: Kinds, budgets: BudgetIndex, now: int
) -> tuple[list[Candidate], list[int]]:
    """Return the candidates of a search, and the disruptions left in each budget that they name."""
    held: list[list[Held]] = [[] for _ in pool.leads]
    pods = zip(*(amounts.tolist() for amounts in pool.amounts), strict=True)
    for owner, node, amounts in zip(pool.owner.tolist(), pool.node.tolist(), pods, strict=True):
        held[owner].append((node, amounts))
    charges, allowed = budgets.scarce(pool.leads, units)
    useful = np.bincount(pool.owner, _usefulness(pool, kinds), len(pool.leads))
    found = [
        Candidate(*each)
        for each in zip(
            held,
            weights(units, pool.leads, now),
            units.priority[pool.leads].tolist(),
            useful.tolist(),
            charges,
            _surplus(pool, units),
            strict=True,
        )
    ]
    return found, allowed


def _surplus(pool: Pool, units: Units) -> list[list[int]]:
    """Return the positions of the surplus of each unit."""
    found: list[list[int]] = [[] for _ in pool.leads]
    cores = units.core[pool.leads]
    above = np.flatnonzero(cores != NO_UNIT).tolist()
    if above:
        position = {lead: at for at, lead in enumerate(pool.leads.tolist())}
        for at in above:
            # A pool with a core has all of its surplus, but it may have surplus without its core.
            core = position.get(cores.item(at))
            if core is not None:
                found[core].append(at)
    return found


def _usefulness(pool: Pool, kinds: Kinds) -> Int64s:
    """Return for each pod roughly how many pods of the preemptor fit in its room.

    Only resources that a node is short of count; if it is short of none, all requested ones count.
    """
    largest = max(kinds.kinds, key=lambda kind: kind.amounts)
    least = np.full(len(pool.owner), np.inf)
    short_of = np.full(len(pool.owner), np.inf)
    for free, amounts, wanted in zip(pool.free, pool.amounts, largest.amounts, strict=True):
        if not wanted:
            continue
        part = amounts / wanted
        least = np.minimum(least, part)
        short_of = np.where((free < wanted)[pool.node], np.minimum(short_of, part), short_of)
    part = np.where(np.isinf(short_of), least, short_of)
    return np.minimum(part, largest.most) * largest.nodes[pool.node]


def _enough(pool: Pool, kinds: Kinds, away: Bools) -> bool:
    """Return whether each kind alone has room for its pods."""
    room = pool.room(away)
    return all(int(slots(room, kind).sum()) >= kind.number for kind in kinds.kinds)


def _within_budgets(pool: Pool, units: Units, kinds: Kinds, budgets: BudgetIndex) -> Pool:
    """Return the units, the least important first, that budgets allow to evict, if they are enough."""
    backwards = pool.leads[::-1]
    numbers = np.repeat(np.arange(len(backwards)), units.size[backwards])
    lawful = budgets.violations(units.all_members(backwards), numbers)[::-1] == 0
    lawful = np.isin(pool.leads, units.without_held_cores(pool.leads[lawful]))
    return pool.only(lawful) if not lawful.all() and _enough(pool, kinds, lawful) else pool


def _of_least_priority(pool: Pool, units: Units, kinds: Kinds) -> Pool:
    """Return the units of the lowest priorities that are enough."""
    priority = units.priority[pool.leads]
    levels = np.unique(priority)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        if _enough(pool, kinds, priority <= levels[middle]):
            high = middle
        else:
            low = middle + 1
    return pool.only(priority <= levels[low])


def _on_cheapest_nodes(pool: Pool, units: Units, kinds: Kinds, now: int) -> Pool:
    """Return the units with a pod on the nodes that lose least for the room they give."""
    if len(pool.owner) <= _MANY:
        return pool
    priority = units.priority[pool.leads]
    levels, level = np.unique(priority, return_inverse=True)
    # A unit outweighs all units of lower priority on its nodes; each of its pods has a share of the weight.
    # Of one priority the work decides.
    work = work_lost(units, pool.leads, now)
    worth = 0.001 + work / max(int(work.max(initial=0)), 1)
    loss = (worth * 0.001 ** (len(levels) - 1 - level) / units.size[pool.leads])[pool.owner]
    lost = np.bincount(pool.node, loss, len(kinds.nodes))
    empty = pool.room(np.ones(len(pool.leads), np.bool_))
    chosen = np.zeros(len(kinds.nodes), np.bool_)
    for kind in kinds.kinds:
        there = slots(pool.free, kind)
        gain = slots(empty, kind) - there
        price = np.where(gain > 0, lost / np.maximum(gain, 1), np.inf)
        order = np.argsort(price, kind="stable")
        order = order[gain[order] > 0]
        missing = max(kind.number - int(there.sum()), 0) * _TIMES
        width = int(np.searchsorted(np.cumsum(gain[order]), missing)) + 1
        chosen[order[: max(width, _NODES)]] = True
    kept = np.zeros(len(pool.leads), np.bool_)
    kept[pool.owner[chosen[pool.node]]] = True
    return pool.only(np.isin(pool.leads, units.with_surplus(pool.leads[kept])))
