"""Harm: the score by which plans are compared, for a pod on a node and for a group on the cluster.

KEP-5710 asks to minimize the cost of preemptions and leaves most of that cost open. Podium compares in this
order, and less is better:

1. The pods that are evicted beyond what PodDisruptionBudgets allow. Their owners asked for that limit.
2. The highest priority among the victims (the KEP's N). A priority is a promise about order.
3. For each priority from the highest: the work that is lost, then the pods, then their units. Work is counted
   in accelerator-seconds since the start, or since a checkpoint. A workload that declares to save its work
   loses the time that this takes, and the time of a restart if it is known (see `podium.api.saving`). One
   that did not save it when asked counts as without a declaration (see `podium.history.trust`).
   The amount that a claim holds counts as accelerators do, once for all victims that share the claim: for the
   highest priority among them, and then for the longest time. Accelerators are scarce, and simulated weeks
   lose the least work with this order. Pods count before units, as in kube-scheduler's own choice of a node.
4. The start of the victims of the highest priority. A later start is less harm.
5. The pods that the recreated victims would preempt in turn (the KEP's second principle; see `choice`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from podium.api.podrequests import is_accelerator
from podium.api.saving import NOT_SAVED
from podium.cluster.reader import Name
from podium.planner.arrays import Int64s, Rows
from podium.planner.preemption.outcome import HarmLevel, PlanHarm
from podium.planner.preemption.units import Units
from podium.planner.snapshot import Snapshot

# The most accelerators that count for one pod. It loses 2**31 seconds, so sums over a cluster fit 64 bits.
_MOST_HELD = 2**12
# Bits of a weight, for each priority: work above pods above units.
_WORK, _COUNT = 80, 32


class Level(NamedTuple):
    """The victims of one priority; `work` is in accelerator-seconds."""

    priority: int
    work: int
    pods: int
    units: int


class Harm(NamedTuple):
    """The harm of one plan; `levels` come from the highest priority down.

    `earliest` is the negative start (seconds) of the oldest pod among the victims of the highest priority.
    """

    violations: int
    levels: tuple[Level, ...]
    earliest: int

    @property
    def lost_seconds(self) -> int:
        """The accelerator-seconds that are lost."""
        return sum(level.work for level in self.levels)

    @property
    def highest(self) -> int | None:
        """The highest priority among the victims (N), None if there is no victim."""
        return self.levels[0].priority if self.levels else None

    @property
    def pods(self) -> int:
        """The number of pods to evict."""
        return sum(level.pods for level in self.levels)


# Returns the seconds of work that each pod loses, at a time.
Price = Callable[[Units, Rows, int], Int64s]


def plan_harm(cost: Harm, units: Units, victims: Rows, now: int) -> PlanHarm:
    """Return the harm of evicting units (by lead) at `now` (seconds) as it is reported."""
    levels = tuple(HarmLevel(level.priority, level.units, level.pods) for level in cost.levels)
    undeclared = harm(units, victims, cost.violations, now, _undeclared).lost_seconds
    return PlanHarm(cost.violations, levels, cost.lost_seconds, undeclared - cost.lost_seconds)


def work_saved(units: Units, leads: Rows, now: int) -> Int64s:
    """Return the accelerator-seconds that the declaration of each unit saves at its eviction."""
    saved: Int64s = work_lost(units, leads, now, price=_undeclared) - work_lost(units, leads, now)
    return saved


def _seconds_lost(units: Units, rows: Rows, now: int) -> Int64s:
    """Return the seconds of work that each pod loses, and those until it works again.

    No declaration makes an eviction cost more than without it: tenants would protect themselves by it.
    """
    started, interval = units.snapshot.start[rows], units.interval[rows]
    worked = np.maximum(now - units.work_since[rows], 0)
    worked = np.where(interval > 0, worked % np.maximum(interval, 1), worked)
    declared = np.minimum(worked, units.saves_within[rows]) + units.restart[rows]
    # A pod that has not started loses nothing.
    seconds: Int64s = np.where(started > now, 0, np.minimum(_undeclared(units, rows, now), declared))
    return seconds


def _undeclared(units: Units, rows: Rows, now: int) -> Int64s:
    """Return the seconds of work that each pod loses without a declaration."""
    started = units.snapshot.start[rows]
    ran = np.minimum(now - started, NOT_SAVED) + units.start_seconds
    seconds: Int64s = np.where(started > now, 0, ran)
    return seconds


def harm(units: Units, victims: Rows, violations: int, now: int, price: Price = _seconds_lost) -> Harm:
    """Return the harm of evicting units (by lead) at `now` (seconds)."""
    levels, counted = [], set[Name]()
    for priority in np.unique(units.priority[victims])[::-1].tolist():
        here = victims[units.priority[victims] == priority]
        rows = units.all_members(here)
        shared = _work_on_shared(units, rows, np.zeros(len(rows), np.int64), now, price)[0]
        lost = int(work_of_pods(units, rows, now, price).sum())
        # A claim of several victims counts with those of the highest priority.
        lost += sum(work for claim, work in shared.items() if claim not in counted)
        counted |= shared.keys()
        levels.append(Level(priority, lost, len(rows), len(here)))
    earliest = 0
    if levels:
        top = units.all_members(victims[units.priority[victims] == levels[0].priority])
        earliest = -int(np.minimum(units.snapshot.start[top], now).min())
    return Harm(violations, tuple(levels), earliest)


def work_lost(
    units: Units, leads: Rows, now: int, *, with_surplus: bool = False, price: Price = _seconds_lost
) -> Int64s:
    """Return the accelerator-seconds that the eviction of each unit loses; a core's may be `with_surplus`.

    Units that share a claim lose the same work each.
    """
    rows, sizes = units.evicted_with(leads) if with_surplus else units.members_of(leads)
    ends = np.cumsum(sizes)
    sums = np.concatenate(([0], np.cumsum(work_of_pods(units, rows, now, price))))
    lost: Int64s = sums[ends] - sums[ends - sizes]
    owners = np.repeat(np.arange(len(leads)), sizes)
    for at, shared in _work_on_shared(units, rows, owners, now, price).items():
        lost[at] += sum(shared.values())
    return lost


def work_of_pods(units: Units, rows: Rows, now: int, price: Price = _seconds_lost) -> Int64s:
    """Return the accelerator-seconds that each pod loses at least: without claims that pods may share."""
    held = accelerators(units.snapshot, rows) + units.held[rows]
    work: Int64s = np.minimum(held, _MOST_HELD) * price(units, rows, now)
    return work


def _work_on_shared(
    units: Units, rows: Rows, owners: Int64s, now: int, price: Price = _seconds_lost
) -> dict[int, dict[Name, int]]:
    """Return the accelerator-seconds that pods lose by claim that pods may share, for each owner of pods.

    Of the pods of an owner, the one with the longest time counts.
    """
    lost: dict[int, dict[Name, int]] = defaultdict(dict)
    at = np.flatnonzero(units.shares_claims[rows])
    sharing = rows[at]
    pods = zip(sharing.tolist(), owners[at].tolist(), price(units, sharing, now).tolist(), strict=True)
    for row, owner, seconds in pods:
        for holding in (holding for holder in units.snapshot.holders for holding in holder.held(row)):
            if holding.shared:
                work = holding.amount * seconds
                lost[owner][holding.claim] = max(lost[owner].get(holding.claim, 0), work)
    return lost


def accelerators(snapshot: Snapshot, rows: Rows) -> Int64s:
    """Return how many accelerators (of any resource that a node offers) each pod holds."""
    held = np.zeros(len(rows), np.int64)
    for name, at in snapshot.resource.items():
        if is_accelerator(name):
            held += np.minimum(snapshot.requests[at][rows], _MOST_HELD)
    return np.minimum(held, _MOST_HELD)


class UnitWeights(NamedTuple):
    """Integers for units: of two sets of units, the smaller sum is the lesser harm in steps 2 and 3.

    `shared` has for each unit the numbers of the claims that several units share, and what each adds to the
    unit's weight. In a sum over units such a claim counts once, with the most that it adds to any.
    """

    of_units: list[int]
    shared: list[list[tuple[int, int]]]

    def total(self, units: Iterable[int]) -> int:
        """Return the sum over units, by position."""
        total, claims = 0, dict[int, int]()
        for at in units:
            total += self.of_units[at]
            for claim, weight in self.shared[at]:
                counted = claims.get(claim, 0)
                total -= min(counted, weight)
                claims[claim] = max(counted, weight)
        return total


def weights(units: Units, leads: Rows, now: int) -> UnitWeights:
    """Return the weights of units."""
    priorities, level = np.unique(units.priority[leads], return_inverse=True)
    shifts = [(_WORK + 2 * _COUNT) * rank for rank in range(len(priorities))]
    sizes, work, levels = units.size[leads].tolist(), work_lost(units, leads, now).tolist(), level.tolist()
    of_units = [
        ((lost << 2 * _COUNT) + (size << _COUNT) + 1) << shifts[rank]
        for size, rank, lost in zip(sizes, levels, work, strict=True)
    ]
    rows, members = units.members_of(leads)
    shared = _work_on_shared(units, rows, np.repeat(np.arange(len(leads)), members), now)
    return UnitWeights(of_units, _shared_weights(shared, [shifts[rank] for rank in levels]))


def _shared_weights(lost: dict[int, dict[Name, int]], shifts: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return for each unit the claims that other units hold too, by number, with their weights."""
    holders: dict[Name, list[int]] = defaultdict(list)
    for at, works in lost.items():
        for claim in works:
            holders[claim].append(at)
    shared: list[list[tuple[int, int]]] = [[] for _ in shifts]
    several = ((claim, units) for claim, units in holders.items() if len(units) > 1)
    for number, (claim, units) in enumerate(several):
        for at in units:
            shared[at].append((number, (lost[at][claim] << 2 * _COUNT) << shifts[at]))
    return shared
