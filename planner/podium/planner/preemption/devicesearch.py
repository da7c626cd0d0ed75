"""Searches for the units whose eviction does the least harm for a preemptor that needs devices.

Room is a sum over units. Devices are not: a claim is free once all of its holders are gone, and selectors,
constraints and counters decide which devices suit the preemptor together. So each set of victims is checked
by a placement. That takes as long as hundreds of sums. A first plan is made without a search (`leastharm`),
and the search exchanges its victims for units that would do less harm. Their number is bounded.
"""

from collections.abc import Callable, Sequence

import numpy as np

from podium.planner.arrays import Floats, Rows
from podium.planner.preemption.budgets import BudgetIndex
from podium.planner.preemption.capacity import PodUsage
from podium.planner.preemption.dryrun import DryRun
from podium.planner.preemption.harm import weights
from podium.planner.preemption.search import Candidate, Search
from podium.planner.preemption.topology import Domain

# A placement of one pod takes as long as this many moves of a pod.
_PLACEMENT = 40
# The most units that are exchanged for victims, beside the victims of the first plan.
_OTHERS = 24


class _PlacedCapacity:
    """The capacity for a preemptor, found by placements; all of the units have left the snapshot."""

    unlimited = additive = False

    def __init__(self, dry_run: DryRun, domain: Domain) -> None:
        self._dry_run = dry_run
        self._domain = domain
        self._needed = dry_run.preemptor.needed
        self._nodes = dry_run.units.node
        self._back: set[int] = set()
        self._there: set[int] = set()
        self._known: dict[frozenset[int], bool] = {}
        self.step = _PLACEMENT * self._needed
        self.areas: tuple[Callable[[int], int], ...] = (self._nodes.item,)

    def remove(self, pods: Sequence[PodUsage]) -> None:
        """Take pods (by row) from their nodes."""
        self._back.difference_update(row for row, _ in pods)

    def restore(self, pods: Sequence[PodUsage]) -> None:
        """Put pods (by row) back on their nodes."""
        self._back.update(row for row, _ in pods)

    def pod_count(self) -> int:
        """Return how many pods are placed: all that are needed, or none."""
        key = frozenset(self._back)
        if key not in self._known:
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
    units = dry_run.units
    pool = ordered[np.isin(ordered, units.with_surplus(_pool(dry_run, ordered, victims, now)))]
    if effort < _PLACEMENT * dry_run.preemptor.needed * len(pool):
        return None
    weighed = weights(units, pool, now)
    charges, allowed = budgets.scarce(pool, units)
    position = {lead: at for at, lead in enumerate(pool.tolist())}
    found = [
        Candidate(
            [(row, ()) for row in units.members(lead).tolist()],
            weighed.of_units[at],
            units.priority.item(lead),
            useful,
            charges[at],
            [position[each] for each in units.with_surplus(pool[at : at + 1]).tolist() if each != lead],
            weighed.shared[at],
        )
        for (lead, at), useful in zip(position.items(), _devices(dry_run, pool).tolist(), strict=True)
    ]
    with dry_run.trial():
        dry_run.remove(pool)
        room = _PlacedCapacity(dry_run, domain)
        search = Search(found, room, dry_run.preemptor.needed, allowed, dry_run.deadline, effort=effort)
        least = search.least()
    return None if least is None else pool[least]


def _pool(dry_run: DryRun, ordered: Rows, victims: Rows, now: int) -> Rows:
    """Return the victims, and the units that would do the least harm for their devices."""
    units = dry_run.units
    others = ordered[~np.isin(ordered, victims)]
    others = others[units.priority[others] <= units.priority[victims].max(initial=0)]
    if len(others) > _OTHERS:
        price = np.array(
            [
                float(weight) / (0.1 + devices)
                for weight, devices in zip(
                    weights(units, others, now).of_units, _devices(dry_run, others).tolist(), strict=True
                )
            ]
        )
        others = others[np.argsort(price, kind="stable")[:_OTHERS]]
    return np.concatenate([victims, others])


def _devices(dry_run: DryRun, leads: Rows) -> Floats:
    """Return how many devices each unit holds."""
    units, held = dry_run.units, np.zeros(len(leads))
    for at, lead in enumerate(leads.tolist()):
        claims = {
            each.claim: each.devices
            for row in units.members(lead).tolist()
            for each in dry_run.snapshot.devices.held(row)
        }
        held[at] = sum(claims.values())
    return held
