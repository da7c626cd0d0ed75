"""One decision: who was asked for is placed as things are, or on room that is being left, or that is taken.

It is tried on the snapshot in a trial of the engine's, in which the pods that hold nominated nodes count
there already. The spec's way is told apart from that of kube-scheduler's releases where they differ.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from podium.schedulerplugin.arrays import Rows
from podium.schedulerplugin.deadline import Deadline
from podium.schedulerplugin.filters.chain import Refusals
from podium.schedulerplugin.overlay import LIFTED
from podium.schedulerplugin.preemption.choice import Chooser, Chosen
from podium.schedulerplugin.preemption.decision import Decision, together
from podium.schedulerplugin.preemption.domain import Found
from podium.schedulerplugin.preemption.intents import is_preempted
from podium.schedulerplugin.preemption.obstacles import Obstacles, of_pod, without_all
from podium.schedulerplugin.preemption.outcome import Outcome, Semantics
from podium.schedulerplugin.preemption.packing import place_packed
from podium.schedulerplugin.preemption.stage import Domain, Preemptor
from podium.schedulerplugin.preemption.target import Wanted
from podium.schedulerplugin.preemption.units import Units

if TYPE_CHECKING:
    # The engine asks for decisions; what it keeps is all they need of it.
    from podium.schedulerplugin.engine import Engine

# kube-scheduler's words.
TERMINATING_ON_NODE = "not eligible due to a terminating pod on the nominated node."

CLUSTER = Domain("the cluster")

_PLACED = (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION)


class Decider:
    """Decides for pods of one group, or a lone one, at `now` (seconds); `units` are the victims it has."""

    def __init__(self, engine: "Engine", units: Units, now: int, deadline: Deadline) -> None:
        self._engine = engine
        self._deadline = deadline
        self._units = units
        self._now = now
        self._snapshot = engine.snapshot
        self._placer = engine.placer
        self._semantics = engine.settings.semantics

    def decide(self, found: Wanted, *, waits: bool = False) -> Decision:
        """Decide for pods that are placed together; `waits`: they are known not to fit as things are.

        Under the specification's rules for all that are wished, if they can be placed, else for those needed.
        """
        if self._semantics is Semantics.KEP and found.wished > found.needed:
            with self._snapshot.trial():
                decision = self._decide(found._replace(needed=found.wished))
            if decision.outcome in _PLACED:
                return decision._replace(wanted=found)
        return self._decide(found, waits=waits)

    def _decide(self, found: Wanted, *, waits: bool = False) -> Decision:
        released = self._semantics is not Semantics.KEP
        nominated = self._reserved(found.rows)
        # By the spec a better place than the reserved one may be taken; kube-scheduler looks for none.
        tried = (None, self._refused(found.rows[0])) if waits else None
        placed, refusals = tried or self._try(found, nominated if released else {})
        if placed is None and nominated and not released:
            placed = self._as_reserved(found, nominated)
        if placed is not None:
            return Decision(Outcome.FITS, found, placed)
        assert refusals is not None, "what finds no place is refused"
        leaving = np.flatnonzero(self._units.going(self._now) & (self._snapshot.node >= 0))
        if not released and len(leaving):
            self._snapshot.lift_many(leaving)
            placed = self._as_reserved(found, nominated)
            if placed is None and nominated:
                placed = self._as_reserved(found, {})
            if placed is not None:
                return self._without_victims(found, placed, refusals)
        if found.barred:
            return Decision(Outcome.NOT_ELIGIBLE, found, {}, refusals=refusals, why=found.barred)
        reserved = nominated if released else {}
        preemptor = Preemptor(found.rows, found.needed, found.priority, self._as_group(found), reserved)
        if released and self._under_way(found):
            return self._as_released(found, refusals)
        chooser = self._engine.chooser(preemptor, self._now, self._deadline)
        chosen = chooser.among([CLUSTER]) if preemptor.group else chooser.node()
        if chosen is None:
            even_so = self._refusals_without(chooser, found)
            return Decision(Outcome.DOES_NOT_FIT, found, {}, refusals=refusals, even_so=even_so)
        placed = self._with_the_rest(found, chosen)
        if not len(chosen.found.victims):
            # Pods of several shapes found a place in another order, where all could stay.
            return self._without_victims(found, placed, refusals)
        return Decision(Outcome.FITS_AFTER_PREEMPTION, found, placed, chosen, refusals=refusals)

    def _without_victims(self, found: Wanted, placed: dict[int, int], refusals: Refusals) -> Decision:
        """Decide for who needs nobody's room but that of pods that are leaving anyway."""
        snapshot = self._snapshot
        lifted = np.flatnonzero(snapshot.node == LIFTED)
        near = lifted[np.isin(snapshot.home[lifted], list(set(placed.values())))]
        # Who keeps it away from elsewhere (anti-affinity, spread) is told only where nobody nearer does.
        awaited = tuple((near if len(near) or self._stands(placed, lifted) else lifted).tolist())
        outcome = Outcome.FITS_AFTER_PREEMPTION if awaited else Outcome.FITS
        return Decision(outcome, found, placed, awaited=awaited, refusals=refusals)

    def resume(self, found: Wanted, victims: Rows) -> Decision | None:
        """Decide whether the eviction of these pods is what places who had it begun; None if it is not."""
        units, snapshot = self._units, self._snapshot
        placed, refusals = self._try(found)
        leads = np.unique(units.lead[victims]).astype(np.intp)
        if placed is not None or not len(leads) or leads[0] < 0:
            return None
        preemptor = Preemptor(found.rows, found.needed, found.priority, self._as_group(found))
        chooser = self._engine.chooser(preemptor, self._now, self._deadline)
        whole = np.array_equal(np.sort(units.all_members(leads)), victims)
        if not whole or not chooser.planner.potential[leads].all() or self._engine.forbids(units, leads):
            return None
        reserved = self._reserved(found.rows)
        snapshot.lift_many(np.flatnonzero(units.going(self._now) & (snapshot.node >= 0)))
        if self._as_reserved(found, reserved) is not None or self._try(found)[0] is not None:
            # What leaves anyway is enough.
            return None
        snapshot.lift_many(victims)
        placed = self._as_reserved(found, reserved) or self._try(found)[0]
        if placed is None:
            return None
        node = None if found.group is not None else next(iter(placed.values()))
        domain = CLUSTER if node is None else Domain(snapshot.names[node] or "", node)
        highest = int(units.priority[leads].max())
        cost = chooser.planner.cost(leads, 0)
        chosen = Chosen(Found(domain, placed, leads, highest, frozenset(), cost, {}), ())
        return Decision(Outcome.FITS_AFTER_PREEMPTION, found, placed, chosen, refusals=refusals)

    def decide_each(self, found: Wanted) -> Decision:
        """Decide for the members of a group as for so many pods, one after the other: there are no groups."""
        snapshot = self._snapshot
        decisions = []
        for row in found.rows:
            self._deadline.check()
            pod = snapshot.pods[row]
            assert pod is not None
            one = found._replace(rows=(row,), needed=1, priority=pod.spec.priority or 0, group=None)
            decision = self.decide(one)
            decisions.append(decision)
            if decision.chosen is not None:
                snapshot.lift_many(self._units.all_members(decision.chosen.found.victims))
            for placed, node in decision.placed.items():
                snapshot.assume(placed, node)
        return together(found, decisions)

    def _stands(self, placed: Mapping[int, int], lifted: Rows) -> bool:
        """Say whether pods can stand where they were placed while those that were lifted are there still."""
        snapshot, chain = self._snapshot, self._placer.chain
        with snapshot.trial():
            snapshot.forget_many(lifted)
            for row, node in placed.items():
                self._deadline.check()
                if not chain.fits(snapshot.shapes[snapshot.shape.item(row)], node):
                    return False
                snapshot.assume(row, node)
        return True

    def _as_group(self, found: Wanted) -> bool:
        return found.group is not None and self._semantics is not Semantics.PODS

    def _under_way(self, found: Wanted) -> bool:
        """Say whether a kube-scheduler waits for victims that are leaving a node it nominated.

        1.36 does not look for a group. Where a lone pod's node is no use to it any more, it looks elsewhere.
        """
        if self._as_group(found) and self._semantics is not Semantics.V1_37:
            return False
        snapshot, units = self._snapshot, self._units
        for row, node in self._reserved(found.rows).items():
            self._deadline.check()
            static = self._placer.chain.static(snapshot.shapes[snapshot.shape.item(row)])
            if not self._as_group(found) and not static[node]:
                continue
            on = snapshot.pods_on(node)
            lower = on[units.leaving[on] & snapshot.terminating[on] & (units.priority[on] < found.priority)]
            if any(is_preempted(snapshot.pods[each]) for each in lower.tolist()):
                return True
        return False

    def _as_released(self, found: Wanted, refusals: Refusals) -> Decision:
        """Give what kube-scheduler does while it waits: a lone pod is refused, a group keeps its nodes."""
        if not self._as_group(found):
            return Decision(Outcome.NOT_ELIGIBLE, found, {}, refusals=refusals, why=TERMINATING_ON_NODE)
        snapshot = self._snapshot
        kept = self._reserved(found.rows)
        on = np.concatenate([snapshot.pods_on(node) for node in sorted(set(kept.values()))])
        awaited = tuple(row for row in on.tolist() if is_preempted(snapshot.pods[row]))
        return Decision(Outcome.FITS_AFTER_PREEMPTION, found, kept, awaited=awaited, refusals=refusals)

    def _try(
        self, found: Wanted, nominated: Mapping[int, int] = {}
    ) -> tuple[dict[int, int] | None, Refusals | None]:
        """Place what fits as things are; if that is too few, say what refuses the first without a place."""
        snapshot = self._snapshot
        with snapshot.trial():
            placed = self._placer.place_many(found.rows, nominated=nominated, deadline=self._deadline)
            if len(placed) >= found.needed:
                return placed, None
            refusals = self._refused(next(row for row in found.rows if row not in placed))
        if self._semantics is Semantics.KEP:
            with snapshot.trial():
                placed = place_packed(self._placer.chain, found.rows, found.needed, None, self._deadline)
                if len(placed) >= found.needed:
                    return placed, None
        return None, refusals

    def _refused(self, row: int) -> Refusals:
        """Say what refuses a pod on each node."""
        self._deadline.check()
        snapshot = self._snapshot
        return self._placer.chain.refusals(snapshot.shapes[snapshot.shape.item(row)])

    def _reserved(self, rows: tuple[int, ...]) -> dict[int, int]:
        """Give the node rows that are reserved for pods."""
        nodes = {row: self._snapshot.row.get(self._engine.nomination(row)) for row in rows}
        return {row: node for row, node in nodes.items() if node is not None}

    def _as_reserved(self, found: Wanted, nominated: Mapping[int, int]) -> dict[int, int] | None:
        """Place pods where room is reserved for them, then the others; None where that is too few."""
        chain, snapshot = self._placer.chain, self._snapshot
        placed: dict[int, int] = {}
        with snapshot.trial():
            for row, node in nominated.items():
                self._deadline.check()
                if chain.fits(snapshot.shapes[snapshot.shape.item(row)], node):
                    snapshot.assume(row, node)
                    placed[row] = node
            rest = [row for row in found.rows if row not in placed]
            placed |= self._placer.place_many(rest, deadline=self._deadline)
        return placed if len(placed) >= found.needed else None

    def _with_the_rest(self, found: Wanted, chosen: Chosen) -> dict[int, int]:
        """Place the members that nothing was evicted for, as far as there is room left."""
        placed = dict(chosen.found.placed)
        rest = [row for row in found.rows if row not in placed]
        if not rest:
            return placed
        snapshot = self._snapshot
        with snapshot.trial():
            snapshot.lift_many(self._units.all_members(chosen.found.victims))
            for row, node in placed.items():
                snapshot.assume(row, node)
            placed.update(self._placer.place_many(rest, deadline=self._deadline))
        return placed

    def _refusals_without(self, chooser: Chooser, found: Wanted) -> Obstacles:
        """Say what refuses even when all are gone that may go."""
        planner, chain, snapshot = chooser.planner, self._placer.chain, self._snapshot
        preemptor = planner.stage.preemptor
        if not preemptor.group:
            return of_pod(chain, planner)
        with snapshot.trial():
            snapshot.lift_many(planner.units.all_members(np.flatnonzero(planner.potential)))
            _, refusals = self._try(found, preemptor.nominated)
            if refusals is not None:
                return Obstacles(refusals)
            return without_all(chain, planner.stage.shapes[0])
