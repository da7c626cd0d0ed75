"""Plans preemption in one domain with the least harm: the rules of `kep`, for a pod or a group.

KEP-5710 removes all units of lower priority, places the preemptor, and reprieves the units that still fit. It
leaves open where the preemptor is placed, and that decides how many units are evicted. Here the victims are
found first (`search`), by the harm of their eviction. Then the preemptor is placed on the room that they
leave. If more than resources can refuse a pod, the placement checks the victims. If it fails, units leave in
order until a placement exists. Then units return, the most important first, where they still fit beside it.

A cluster has a hundred thousand pods, and a search moves them one by one. So the units are a pool of arrays
first. If there are many, the search uses only those on the nodes that are cheapest to free. It takes enough
of them to leave several times the room needed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Floats, Int64s, Rows, summed
from podium.planner.preemption.budgets import BudgetIndex, ranges
from podium.planner.preemption.capacity import (
    PodKind,
    PodKinds,
    PodUsage,
    SliceDomains,
    capacity,
    slots,
)
from podium.planner.preemption.dryrun import DryRun
from podium.planner.preemption.harm import weights, work_lost
from podium.planner.preemption.search import Candidate, Search
from podium.planner.preemption.topology import Domain
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units

# Of more pods than this, the search looks only at units on the nodes that are cheapest to free.
_MANY = 4096
# Those nodes have room for this many times the pods needed, and are at least this many.
_TIMES, _NODES = 2, 64


class UnitPool(NamedTuple):
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

    def holding(self, owner: Int64s, node: Int64s, amount: int) -> "UnitPool":
        """Return the pool with one more resource, of which each node has `amount`, and each owner holds all.

        What NO_UNIT holds is never free.
        """
        free = amount - amount * np.bincount(node, minlength=len(self.free[0]))
        owner, node = owner[owner != NO_UNIT], node[owner != NO_UNIT]
        none, of_pods = np.zeros(len(owner), np.int64), np.zeros(len(self.owner), np.int64)
        return UnitPool(
            self.leads,
            [*self.free, free],
            np.concatenate((self.owner, owner)),
            np.concatenate((self.node, node)),
            [
                *(np.concatenate((amounts, none)) for amounts in self.amounts),
                np.concatenate((of_pods, none + amount)),
            ],
        )

    def only(self, units: Bools) -> "UnitPool":
        """Return the pool of these units (by position); the others stay in place."""
        here = units[self.owner]
        numbers = np.cumsum(units) - 1
        return self._replace(
            leads=self.leads[units],
            owner=numbers[self.owner[here]],
            node=self.node[here],
            amounts=[amounts[here] for amounts in self.amounts],
        )


def pool_of(units: Units, leads: Rows, kinds: PodKinds) -> UnitPool:
    """Return the pool of units, the most important first, around a preemptor."""
    snapshot = units.snapshot
    position = np.full(len(snapshot.alive), -1, np.int64)
    position[kinds.nodes] = np.arange(len(kinds.nodes))
    rows = units.all_members(leads)
    owner = np.repeat(np.arange(len(leads)), units.size[leads])
    node = position[units.node[rows]]
    here = node >= 0
    amounts = [snapshot.requests[at][rows[here]] for at in kinds.resources]
    return UnitPool(leads, kinds.free(snapshot), owner[here], node[here], amounts)


def with_exclusions(
    dry_run: DryRun, domain: Domain, pool: UnitPool, kinds: PodKinds
) -> tuple[UnitPool, PodKinds]:
    """Make what keeps the preemptor out of nodes a sum: of one more resource for each of its kinds.

    A pod that keeps out a kind holds all of this resource on the nodes of its domain. Each pod of the kind
    requests one. So it has room once all such pods have left.
    """
    snapshot, lead = dry_run.snapshot, dry_run.units.lead
    # One additional entry, which NO_UNIT finds: pods of no unit stay.
    position = np.full(len(lead) + 1, NO_UNIT, np.int64)
    position[pool.leads] = np.arange(len(pool.leads))
    shape_ids = [snapshot.shape.item(alike[0]) for alike in kinds.rows]
    held: dict[tuple[bool, ...], list[Int64s]] = defaultdict(list)
    for exclusion in dry_run.exclusions(domain):
        pairs = np.stack((position[lead[exclusion.pods]], exclusion.domains[snapshot.node[exclusion.pods]]))
        owner, excluding = np.unique(pairs[:, pairs[1] >= 0], axis=1)
        by_domain = np.argsort(exclusion.domains[kinds.nodes], kind="stable")
        begins, ends = (
            np.searchsorted(exclusion.domains[kinds.nodes], excluding, side, sorter=by_domain)
            for side in ("left", "right")
        )
        nodes = by_domain[ranges(begins, ends - begins)]
        excluded = tuple(shape_id in exclusion.shapes for shape_id in shape_ids)
        held[excluded].append(np.stack((np.repeat(owner, ends - begins), nodes)))
    for excluded, parts in held.items():
        owner, nodes = np.concatenate(parts, axis=1)
        if any(excluded) and len(nodes) > 0 and int((owner != NO_UNIT).sum()) <= _MANY:
            pool = pool.holding(owner, nodes, max(kind.most for kind in kinds.kinds))
            kinds = kinds._replace(
                kinds=[
                    kind._replace(amounts=(*kind.amounts, int(is_excluded)))
                    for kind, is_excluded in zip(kinds.kinds, excluded, strict=True)
                ]
            )
    return pool, kinds


def narrowed(pool: UnitPool, units: Units, kinds: PodKinds, budgets: BudgetIndex, now: int) -> UnitPool:
    """Return a pool that is small enough to search, with room for the preemptor if there was any."""
    if len(pool.owner) <= _MANY:
        return pool
    pool = _within_budgets(pool, units, kinds, budgets)
    pool = _of_least_priority(pool, units, kinds)
    return _on_cheapest_nodes(pool, units, kinds, now)


def candidates(
    pool: UnitPool, units: Units, kinds: PodKinds, budgets: BudgetIndex, now: int
) -> tuple[list[Candidate], list[int]]:
    """Return the candidates of a search, and the disruptions left in each budget that they name."""
    usage: list[list[PodUsage]] = [[] for _ in pool.leads]
    # The pods of a unit on one node move together.
    places, place = np.unique(pool.owner * len(kinds.nodes) + pool.node, return_inverse=True)
    sums = zip(*(summed(amounts, place, len(places)).tolist() for amounts in pool.amounts), strict=True)
    for at, amounts in zip(places.tolist(), sums, strict=True):
        owner, node = divmod(at, len(kinds.nodes))
        usage[owner].append((node, amounts))
    useful = np.bincount(pool.owner, _usefulness(pool, kinds), len(pool.leads))
    return _rated(units, pool.leads, usage, useful, budgets, now)


def _rated(  # noqa: PLR0917 - lists by unit
    units: Units,
    leads: Rows,
    usage: Iterable[Sequence[PodUsage]],
    useful: Floats | Int64s,
    budgets: BudgetIndex,
    now: int,
) -> tuple[list[Candidate], list[int]]:
    """Return the candidates of units by what they use, and the disruptions left in their budgets."""
    charges, allowed = budgets.scarce(leads, units)
    weighed = weights(units, leads, now)
    rated = [
        Candidate(*fields)
        for fields in zip(
            usage,
            weighed.of_units,
            units.priority[leads].tolist(),
            useful.tolist(),
            charges,
            _surplus(leads, units),
            weighed.shared,
            strict=True,
        )
    ]
    return rated, allowed


def _surplus(leads: Rows, units: Units) -> list[list[int]]:
    """Return the positions of the surplus of each unit."""
    surplus: list[list[int]] = [[] for _ in leads]
    cores = units.core[leads]
    above = np.flatnonzero(cores != NO_UNIT).tolist()
    if above:
        position = {lead: at for at, lead in enumerate(leads.tolist())}
        for at in above:
            # A pool with a core has all of its surplus, but it may have surplus without its core.
            core = position.get(cores.item(at))
            if core is not None:
                surplus[core].append(at)
    return surplus


def _usefulness(pool: UnitPool, kinds: PodKinds) -> Int64s:
    """Return for each pod roughly how many pods of the preemptor fit in its room.

    Only resources that a node is short of count; if it is short of none, all requested ones count.
    """
    largest = max(kinds.kinds, key=lambda kind: kind.amounts)
    least = np.full(len(pool.owner), np.inf)
    short_of = np.full(len(pool.owner), np.inf)
    for free, amounts, requested in zip(pool.free, pool.amounts, largest.amounts, strict=True):
        if not requested:
            continue
        ratio = amounts / requested
        least = np.minimum(least, ratio)
        short_of = np.where((free < requested)[pool.node], np.minimum(short_of, ratio), short_of)
    ratio = np.where(np.isinf(short_of), least, short_of)
    return np.minimum(ratio, largest.most) * largest.nodes[pool.node]


def _enough(pool: UnitPool, kinds: PodKinds, away: Bools) -> bool:
    """Return whether there is room for all kinds, if each takes its share of the same nodes."""
    room = pool.room(away)
    places = [_places(room, kind, kinds) for kind in kinds.kinds]
    if not all(places):
        return False
    return sum(kind.number / there for kind, there in zip(kinds.kinds, places, strict=True)) <= 1.0


def _places(room: list[Int64s], kind: PodKind, kinds: PodKinds) -> int:
    """Return how many pods of a kind have room, in slices if they are placed so."""
    there = slots(room, kind)
    return int(there.sum()) if kinds.slices is None else kinds.slices.in_slices(there)


def _within_budgets(pool: UnitPool, units: Units, kinds: PodKinds, budgets: BudgetIndex) -> UnitPool:
    """Return the units, the least important first, that budgets allow to evict, if they are enough."""
    backwards = pool.leads[::-1]
    numbers = np.repeat(np.arange(len(backwards)), units.size[backwards])
    allowed = budgets.violations(units.all_members(backwards), numbers)[::-1] == 0
    allowed = np.isin(pool.leads, units.without_held_cores(pool.leads[allowed]))
    return pool.only(allowed) if not allowed.all() and _enough(pool, kinds, allowed) else pool


def _of_least_priority(pool: UnitPool, units: Units, kinds: PodKinds) -> UnitPool:
    """Return the units of the lowest priorities that are enough."""
    priority = units.priority[pool.leads]
    levels: list[int] = np.unique(priority).tolist()
    # All levels are enough if any number is.
    least = bisect_left(levels[:-1], True, key=lambda level: _enough(pool, kinds, priority <= level))
    return pool.only(priority <= levels[least])


def _on_cheapest_nodes(pool: UnitPool, units: Units, kinds: PodKinds, now: int) -> UnitPool:
    """Return the units with a pod on the nodes that lose least for the room they give."""
    if len(pool.owner) <= _MANY:
        return pool
    priority = units.priority[pool.leads]
    levels, level = np.unique(priority, return_inverse=True)
    # A unit outweighs all units of lower priority on its nodes; each of its pods has a share of the weight.
    # Of one priority the work decides, then the number of pods.
    work, size = work_lost(units, pool.leads, now), units.size[pool.leads]
    share = 0.001 / size.max(initial=1) + work / max(int(work.max(initial=0)), 1) / size
    loss = (share * 0.001 ** (len(levels) - 1 - level))[pool.owner]
    lost = np.bincount(pool.node, loss, len(kinds.nodes))
    empty = pool.room(np.ones(len(pool.leads), np.bool_))
    chosen = np.zeros(len(kinds.nodes), np.bool_)
    for kind in kinds.kinds:
        there = slots(pool.free, kind)
        gain = slots(empty, kind) - there
        price = np.where(gain > 0, lost / np.maximum(gain, 1), np.inf)
        order = np.argsort(price, kind="stable")
        order = order[gain[order] > 0]
        # All kinds may need the same nodes.
        missing = max(kind.number - _places(pool.free, kind, kinds), 0) * _TIMES * len(kinds.kinds)
        if kinds.slices is not None:
            chosen |= _in_cheapest_domains(price, gain, kinds.slices, missing)
            continue
        width = int(np.searchsorted(np.cumsum(gain[order]), missing)) + 1
        chosen[order[: max(width, _NODES)]] = True
    kept = np.zeros(len(pool.leads), np.bool_)
    kept[pool.owner[chosen[pool.node]]] = True
    return pool.only(np.isin(pool.leads, units.with_surplus(pool.leads[kept])))


def _in_cheapest_domains(price: Floats, gain: Int64s, slices: SliceDomains, missing: int) -> Bools:
    """Return the nodes of the domains whose cheapest slice costs least, until enough places are gained."""
    chosen = np.zeros(len(price), np.bool_)
    domains = []
    for number in range(int(slices.of.max(initial=-1)) + 1):
        here = np.flatnonzero((slices.of == number) & (gain > 0))
        here = here[np.argsort(price[here], kind="stable")]
        width = int(np.searchsorted(np.cumsum(gain[here]), slices.size)) + 1
        if len(here):
            domains.append((float((price[here] * gain[here])[:width].sum()), here))
    for _, here in sorted(domains, key=lambda pair: pair[0]):
        if missing <= 0:
            break
        chosen[here] = True
        missing -= int(gain[here].sum()) // slices.size * slices.size
    return chosen


# The number of placements in the binary search for the number of units that have to leave.
_HALVINGS = 6


class LeastHarmPlan(NamedTuple):
    """The units to evict (`victims`, the most important first), and a placement once they have left."""

    placed: dict[int, int]
    victims: Rows


def least_harm(
    dry_run: DryRun,
    budgets: BudgetIndex,
    domain: Domain,
    ordered: Rows,
    now: int,
    *,
    only_room: bool,
    effort: int,
) -> LeastHarmPlan | None:
    """Return the plan, None where the preemptor finds no place though all units have left.

    `ordered` are the units that may go, the most important first. `only_room` says that nothing but resources
    and nodes can refuse the preemptor in this domain. `effort` is that of the search.
    """
    single = domain.node is not None and not only_room
    if (single or dry_run.joins) and _placed_without(dry_run, domain, ordered) is None:
        # The KEP checks this first: no unit is evicted for a preemptor with affinity to a potential victim.
        return None
    evicted = _by_resources(dry_run, budgets, domain, ordered, now=now, effort=effort)
    if evicted is not None and (placed := _placed_without(dry_run, domain, evicted)) is not None:
        return LeastHarmPlan(placed, evicted)
    if evicted is None and (only_room or dry_run.monotone):
        return None
    first = _by_leaving(dry_run, domain, ordered, evicted if evicted is not None else ordered[:0])
    if first is None or not effort or len(first.victims) == 0:
        return first
    victims = less_harm(dry_run, budgets, domain, ordered, first.victims, now, effort=effort)
    return (None if victims is None else _reprieved(dry_run, domain, ordered, victims)) or first


def _by_resources(
    dry_run: DryRun, budgets: BudgetIndex, domain: Domain, ordered: Rows, *, now: int, effort: int
) -> Rows | None:
    """Return the units to evict as far as resources decide, None if all are too few, or kinds too many."""
    kinds, units = dry_run.kinds(domain), dry_run.units
    if kinds is None:
        return None
    pool = pool_of(units, ordered, kinds)
    if not dry_run.plain:
        pool, kinds = with_exclusions(dry_run, domain, pool, kinds)
    pool = narrowed(pool, units, kinds, budgets, now)
    rated, allowed = candidates(pool, units, kinds, budgets, now)
    room = capacity(pool.room(np.ones(len(pool.leads), np.bool_)), kinds)
    victims = Search(rated, room, dry_run.preemptor.needed, allowed, dry_run.deadline, effort=effort).least()
    return None if victims is None else pool.leads[victims]


def _by_leaving(dry_run: DryRun, domain: Domain, ordered: Rows, first: Rows) -> LeastHarmPlan | None:
    """Have units leave in order, those of `first` before all others, until the preemptor is placed.

    Then they return, the most important first, if they do not block it.
    """
    leaving = np.concatenate([first, ordered[~np.isin(ordered, first)][::-1]])
    enough = _units_to_remove(dry_run, domain, leaving, len(first))
    if enough is None:
        return None
    return _reprieved(dry_run, domain, ordered, ordered[np.isin(ordered, leaving[:enough])])


def _reprieved(dry_run: DryRun, domain: Domain, ordered: Rows, gone: Rows) -> LeastHarmPlan | None:
    """Place the preemptor without these units, if it can be, and give back those that fit beside it."""
    with dry_run.trial():
        dry_run.remove(gone)
        placed = dry_run.place(domain)
        if placed is None:
            return None
        stays = dry_run.reprieve(gone, placed)
        return LeastHarmPlan(
            placed, ordered[np.isin(ordered, dry_run.units.with_surplus(gone[~np.isin(gone, stays)]))]
        )


def _units_to_remove(dry_run: DryRun, domain: Domain, leaving: Rows, failed: int) -> int | None:
    """Return how many units have to leave, None if all are too few, as `failed` of them are known to be."""

    def fits(number: int) -> bool:
        return _placed_without(dry_run, domain, leaving[:number]) is not None

    if not fits(len(leaving)):
        return None
    low, high = failed, len(leaving)
    step = max(failed // 2, 1)
    while low + step < high:
        if fits(low + step):
            high = low + step
            break
        low, step = low + step, step * 4
    for _ in range(_HALVINGS):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def _placed_without(dry_run: DryRun, domain: Domain, gone: Rows) -> dict[int, int] | None:
    """Return the placement of the preemptor once these units have left, None if it finds no place."""
    with dry_run.trial():
        dry_run.remove(gone)
        return dry_run.place(domain)


# Searches for the units whose eviction does the least harm where more than resources decides.
#
# Room is a sum over units. Claims are not: a claim is free once all of its holders are gone. Selectors,
# constraints and other pods decide together what suits the preemptor, too. So each set of victims is checked
# by a placement. That takes as long as hundreds of sums. A first plan is made without a search, and the
# search exchanges its victims for units that would do less harm. Their number is bounded.


# A placement of one pod on up to so many nodes takes as long as this many moves of a pod.
_PLACEMENT, _FEW_NODES = 6, 100
# The most units that are exchanged for victims, beside the victims of the first plan.
_OTHERS = 24


class _PlacedCapacity:
    """The capacity for a preemptor, found by placements; all of the units have left the snapshot."""

    unlimited = False

    def __init__(self, dry_run: DryRun, domain: Domain) -> None:
        self._dry_run = dry_run
        self._domain = domain
        self._needed = dry_run.preemptor.needed
        self._nodes = dry_run.units.node
        self._back: set[int] = set()
        self._there: set[int] = set()
        self._known: dict[frozenset[int], bool] = {}
        self.step = 1

    def remove(self, pods: Sequence[PodUsage]) -> None:
        """Take pods (by row) from their nodes."""
        self._back.difference_update(row for _, (row,) in pods)

    def restore(self, pods: Sequence[PodUsage]) -> None:
        """Put pods (by row) back on their nodes."""
        self._back.update(row for _, (row,) in pods)

    def pod_count(self) -> int:
        """Return how many pods are placed: all that are needed, or none."""
        key, self.step = frozenset(self._back), 1
        if key not in self._known:
            self.step = _placement_cost(self._dry_run)
            self._move()
            with self._dry_run.trial():
                self._known[key] = self._dry_run.place(self._domain) is not None
        return self._needed if self._known[key] else 0

    def _move(self) -> None:
        """Bring the snapshot in line with the pods that are back."""
        snapshot = self._dry_run.snapshot
        gone, come = sorted(self._there - self._back), sorted(self._back - self._there)
        if gone:
            snapshot.remove_many(np.array(gone, np.intp))
        if come:
            rows = np.array(come, np.intp)
            snapshot.assume_many(rows, self._nodes[rows])
        self._there = set(self._back)


def _placement_cost(dry_run: DryRun) -> int:
    """Return how many moves of a pod take as long as a placement of the preemptor."""
    return _PLACEMENT * dry_run.preemptor.needed * (1 + len(dry_run.snapshot.alive) // _FEW_NODES)


def less_harm(  # noqa: PLR0917 - those of `leastharm.least_harm`, and the victims
    dry_run: DryRun,
    budgets: BudgetIndex,
    domain: Domain,
    ordered: Rows,
    victims: Rows,
    now: int,
    *,
    effort: int,
) -> Rows | None:
    """Return victims that do no more harm than those of a first plan, None if the search finds none.

    `ordered` are the units that may go, the most important first.
    """
    units, cost = dry_run.units, _placement_cost(dry_run)
    pool = _pool(dry_run, budgets, domain, ordered, victims, now, most=effort // cost)
    if pool is None:
        return None
    pool = ordered[np.isin(ordered, units.with_surplus(pool))]
    if effort < cost * len(pool):
        return None
    members = map(units.members, pool.tolist())
    usage = [[(units.node.item(row), (row,)) for row in rows.tolist()] for rows in members]
    rated, allowed = _rated(units, pool, usage, _useful(dry_run, domain, pool), budgets, now)
    with dry_run.trial():
        dry_run.remove(pool)
        room = _PlacedCapacity(dry_run, domain)
        search = Search(rated, room, dry_run.preemptor.needed, allowed, dry_run.deadline, effort=effort)
        least = search.least()
    return None if least is None else pool[least]


def _pool(  # noqa: PLR0917 - those of `less_harm`
    dry_run: DryRun,
    budgets: BudgetIndex,
    domain: Domain,
    ordered: Rows,
    victims: Rows,
    now: int,
    *,
    most: int,
) -> Rows | None:
    """Return the victims, and the units that would do the least harm for the room that they make.

    If the victims violate budgets, units of any priority may do less harm, above all those that violate none.
    None if these are more than `most`: a cluster has tens of thousands of units to compare.
    """
    units = dry_run.units
    numbers = np.repeat(np.arange(len(victims)), units.size[victims])
    violates = bool(budgets.violations(units.all_members(victims), numbers).any())
    others = ordered[~np.isin(ordered, victims)]
    if not violates:
        others = others[units.priority[others] <= units.priority[victims].max(initial=0)]
    if len(victims) + min(len(others), _OTHERS) > most:
        return None
    if len(others) > _OTHERS:
        useful = _useful(dry_run, domain, others).tolist()
        weight = weights(units, others, now).of_units
        price = np.array([float(loss) / (0.1 + room) for loss, room in zip(weight, useful, strict=True)])
        held = np.isin(others, budgets.holding(others, victims, units)) & violates
        others = others[np.lexsort((price, held))[:_OTHERS]]
    return np.concatenate([victims, others])


def _useful(dry_run: DryRun, domain: Domain, leads: Rows) -> Floats:
    """Return how many accelerators the claims of each unit hold, and how many pods have room without it."""
    units, useful = dry_run.units, np.zeros(len(leads))
    for at, lead in enumerate(leads.tolist()):
        claims = {
            holding.claim: holding.amount
            for row in units.members(lead).tolist()
            for holder in dry_run.snapshot.holders
            for holding in holder.held(row)
        }
        useful[at] = sum(claims.values())
    kinds = dry_run.kinds(domain)
    if kinds is not None:
        pool = pool_of(units, leads, kinds)
        useful += np.bincount(pool.owner, _usefulness(pool, kinds), len(leads))
    return useful
