"""The decision for one preemptor, in rows of the snapshot: an executor carries it out, `explain` reads it."""

from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.filters.chain import Refusals
from podium.schedulerplugin.preemption.choice import Chosen
from podium.schedulerplugin.preemption.obstacles import Obstacles
from podium.schedulerplugin.preemption.outcome import Outcome
from podium.schedulerplugin.preemption.target import Wanted


class Decision(NamedTuple):
    """The decision for a preemptor, by rows of the snapshot.

    `placed` gives node rows by pod row. `chosen` is the preemption, None if there is none. `awaited` are
    terminating pods on whose room it counts. `refusals` say why it does not fit without preemption, and
    `even_so` why preemption does not help. `why` is the reason why it is not eligible.
    """

    outcome: Outcome
    wanted: Wanted | None
    placed: dict[int, int]
    chosen: Chosen | None = None
    awaited: tuple[int, ...] = ()
    refusals: Refusals | None = None
    even_so: Obstacles | None = None
    why: str = ""


def together(wanted: Wanted, decisions: list[Decision]) -> Decision:
    """Return the decisions on single pods, made one after the other, as one decision on all of them."""
    placed = {row: node for each in decisions for row, node in each.placed.items()}
    failed = next((each for each in decisions if not each.placed), None)
    found = [each.chosen.found for each in decisions if each.chosen is not None]
    chosen = None
    if found:
        last = found[-1]
        all_of_them = last._replace(
            victims=np.concatenate([each.victims for each in found]),
            minimal=max(each.minimal for each in found),
            violating=frozenset().union(*(each.violating for each in found)),
            fates={lead: fate for each in found for lead, fate in each.fates.items()},
        )
        chosen = Chosen(all_of_them, ())
    if failed is not None:
        return failed._replace(wanted=wanted, placed=placed, chosen=chosen)
    outcome = Outcome.FITS if chosen is None else Outcome.FITS_AFTER_PREEMPTION
    refusals = next((each.refusals for each in decisions if each.refusals is not None), None)
    return Decision(outcome, wanted, placed, chosen, refusals=refusals)
