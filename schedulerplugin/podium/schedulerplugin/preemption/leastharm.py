"""Preemption in one domain by least harm: the rules of `kep`, for a pod on a node and a group on a cluster.

KEP-5710 takes away all units of lower priority, places the preemptor on what then looks empty, and gives
back what does not stand in its way. It leaves open where the preemptor is placed, and that decides how many
units go. Here the units that go are found first (`search`), by what their loss costs (`harm`), and the
preemptor is placed on the room that they leave. Where more than resources can refuse a pod, the placement
checks what was found; if it fails, units leave in order until a placement exists, and then return beside it.
"""

from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Rows
from podium.schedulerplugin.preemption.budgets import BudgetIndex
from podium.schedulerplugin.preemption.capacity import capacity
from podium.schedulerplugin.preemption.pool import candidates, narrowed, pool_of
from podium.schedulerplugin.preemption.search import Search
from podium.schedulerplugin.preemption.stage import Domain, Stage

# So many placements are tried to find how many units have to leave.
_HALVINGS = 6


class Least(NamedTuple):
    """The units to evict (`victims`, the most important first), and a placement once they have left."""

    placed: dict[int, int]
    victims: Rows


def least_harm(
    stage: Stage,
    budgets: BudgetIndex,
    domain: Domain,
    ordered: Rows,
    now: int,
    *,
    only_room: bool,
    effort: int,
) -> Least | None:
    """Return the plan, None where the preemptor finds no place though all units have left.

    `ordered` are the units that may go, the most important first. `only_room` says that nothing but resources
    and nodes can refuse the preemptor in this domain. `effort` is that of the search.
    """
    one = domain.node is not None and not only_room
    if (one or stage.has_company) and not _fits_without(stage, domain, ordered):
        # The specification asks this first: no unit goes for a preemptor with affinity to one that may go.
        return None
    found = _by_resources(stage, budgets, domain, ordered, now=now, effort=effort)
    if found is not None:
        with stage.trial():
            stage.lift(found)
            placed = stage.place(domain)
        if placed is not None:
            return Least(placed, found)
    if found is None and (only_room or stage.monotone):
        return None
    return _by_leaving(stage, domain, ordered, found if found is not None else ordered[:0])


def _by_resources(
    stage: Stage, budgets: BudgetIndex, domain: Domain, ordered: Rows, *, now: int, effort: int
) -> Rows | None:
    """Return the units to evict as far as resources decide, None if all are too few, or kinds too many."""
    kinds, units = stage.kinds(domain), stage.units
    if kinds is None:
        return None
    pool = narrowed(pool_of(units, ordered, kinds), units, kinds, budgets, now)
    found, allowed = candidates(pool, units, kinds, budgets, now)
    room = capacity(pool.room(np.ones(len(pool.leads), np.bool_)), kinds.kinds)
    victims = Search(found, room, stage.preemptor.needed, allowed, stage.deadline, effort=effort).least()
    return None if victims is None else pool.leads[victims]


def _by_leaving(stage: Stage, domain: Domain, ordered: Rows, first: Rows) -> Least | None:
    """Have units leave in order, those of `first` before all others, until the preemptor is placed.

    Then they return, the most important first, where they do not stand in its way.
    """
    leaving = np.concatenate([first, ordered[~np.isin(ordered, first)][::-1]])
    enough = _enough(stage, domain, leaving, len(first))
    if enough is None:
        return None
    gone = ordered[np.isin(ordered, leaving[:enough])]
    with stage.trial():
        stage.lift(gone)
        placed = stage.place(domain)
        assert placed is not None, "it was placed a moment ago"
        stays = stage.reprieve(gone, placed)
        return Least(placed, ordered[np.isin(ordered, stage.units.with_surplus(gone[~np.isin(gone, stays)]))])


def _enough(stage: Stage, domain: Domain, leaving: Rows, failed: int) -> int | None:
    """Return how many units have to leave, None if all are too few, as `failed` of them are known to be."""

    def fits(number: int) -> bool:
        return _fits_without(stage, domain, leaving[:number])

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


def _fits_without(stage: Stage, domain: Domain, gone: Rows) -> bool:
    """Return whether the preemptor finds a place once these units have left."""
    with stage.trial():
        stage.lift(gone)
        return stage.place(domain) is not None
