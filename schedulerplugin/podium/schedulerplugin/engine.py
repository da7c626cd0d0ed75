"""The engine: one cluster in step with its State, and the answer to who could be placed, and at whose cost.

It serves `whatif` and the scheduling loop alike. What it keeps (snapshot, units, budgets, tables) follows
every change by the same events; a decision is then a function of that, the settings and the time, tried out
on the snapshot inside a trial and taken back. A decision speaks of rows, which an executor uses at once;
`explain` makes it a Plan of names for everybody else.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice

import numpy as np

from podium.api.core import Namespace, PodDisruptionBudget, PriorityClass
from podium.api.groups import PodGroup
from podium.api.membership import GroupKey, membership
from podium.api.schedulable import Schedulable
from podium.schedulerplugin.arrays import Int32s, Rows
from podium.schedulerplugin.filters.chain import Refusals
from podium.schedulerplugin.overlay import LIFTED
from podium.schedulerplugin.placement import Placer
from podium.schedulerplugin.preemption.budgets import BudgetIndex
from podium.schedulerplugin.preemption.choice import Chooser, Chosen
from podium.schedulerplugin.preemption.decision import Decision, together
from podium.schedulerplugin.preemption.domain import DomainPlanner
from podium.schedulerplugin.preemption.explain import Explainer
from podium.schedulerplugin.preemption.naming import Said, plainly
from podium.schedulerplugin.preemption.nodes import NodeTable
from podium.schedulerplugin.preemption.outcome import Outcome, Plan, Semantics
from podium.schedulerplugin.preemption.stage import Domain, Preemptor, Stage
from podium.schedulerplugin.preemption.target import Refused, Wanted, wanted
from podium.schedulerplugin.preemption.units import Membership, UnitRule, Units, is_preempted, unit_rule
from podium.schedulerplugin.requests import LATEST
from podium.schedulerplugin.settings import Settings
from podium.schedulerplugin.snapshot import Snapshot
from podium.view import Name, View

# kube-scheduler's words.
TERMINATING_ON_NODE = "not eligible due to a terminating pod on the nominated node."

CLUSTER = Domain("the cluster")


class Engine:
    """Follows a State (give `apply` to State.observe) and plans; `minor` is the arithmetic of requests."""

    def __init__(self, view: View, settings: Settings | None = None, minor: int = LATEST) -> None:
        self.view = view
        self.settings = settings or Settings()
        self.snapshot = Snapshot(minor)
        self.placer = Placer(self.snapshot, view.namespaces, self.settings.strategy)
        self.budgets = BudgetIndex(self.snapshot)
        self._groups = Membership()
        self._native = view.native_served
        self._units: dict[UnitRule, tuple[Units, NodeTable]] = {}
        # Pending pods that hold room on a node by status.nominatedNodeName.
        self._nominated: set[int] = set()
        self._planning = False
        self.snapshot.observe(self._moved, many=self._moved_many)
        for obj in _objects(view):
            self.apply(None, obj)

    def apply(self, before: object, after: object) -> None:
        """Follow one change of an object."""
        changed = before if after is None else after
        row = self.snapshot.pod_row.get(_name(changed)) if isinstance(changed, Schedulable) else None
        self.snapshot.apply(before, after)
        match changed:
            case Schedulable() as pod:
                self._apply_pod(pod, row)
            case PodGroup() as group:
                key = GroupKey(group.native, group.ref.namespace, group.ref.name)
                self._touch(self._groups.rows.get(key, ()))
            case PodDisruptionBudget():
                self.budgets.apply(_budget(before), _budget(after))
            case PriorityClass():
                for units, _ in self._units.values():
                    units.touch_all()
            case Namespace():
                self.placer.forget()
            case _:
                pass

    def plan(self, target: Name | GroupKey, now: datetime, said: Said = plainly) -> Plan:
        """Answer for a pending pod (namespace, name) or a group; `said` names objects in sentences.

        Raises PodiumError for a target that does not exist, has run to its end, or runs already.
        """
        return self.explain(self.decide(target, now, said), now, said)

    def explain(self, decision: Decision, now: datetime, said: Said = plainly) -> Plan:
        """Put a decision of that time into words; no object may have changed since."""
        return Explainer(self, decision, int(now.timestamp() // 1), said).plan()

    def decide(self, target: Name | GroupKey, now: datetime, said: Said = plainly) -> Decision:
        """Decide as `plan` does, in rows of the snapshot, which is left as it was."""
        if self.view.native_served != self._native:
            self._native = self.view.native_served
            for row in self.snapshot.pod_row.values():
                pod = self.snapshot.pods[row]
                self._regroup(row, None if pod is None else membership(pod, native_served=self._native))
        found = wanted(self.view, self.snapshot, target, self.settings, said)
        if isinstance(found, Refused):
            return Decision(Outcome.NOT_ELIGIBLE, None, {}, why=found.why)
        seconds = int(now.timestamp() // 1)
        units, _ = self.units(for_group=self._as_group(found), now=seconds)
        self._planning = True
        try:
            with self.snapshot.trial():
                self._nominate(found, units)
                if self.settings.semantics is Semantics.PODS and found.group is not None:
                    return self._decide_each(found, units, seconds)
                return self._decide(found, units, seconds)
        finally:
            self._planning = False

    def units(self, *, for_group: bool, now: int) -> tuple[Units, NodeTable]:
        """Give the units that the victims of a pod, or of a group, are cut into, and where they are."""
        rule = unit_rule(self.settings.semantics, for_group=for_group)
        found = self._units.get(rule)
        if found is None:
            units = Units(self.view, self.snapshot, self._groups, rule, self.settings)
            found = self._units[rule] = (units, NodeTable(units))
        units, table = found
        table.refresh(units.refresh(), now)
        return found

    def chooser(self, preemptor: Preemptor, now: int) -> Chooser:
        """Give who chooses a domain for a preemptor, from the snapshot as it is at the moment."""
        rule = unit_rule(self.settings.semantics, for_group=preemptor.group)
        units, table = self._units[rule]
        stage = Stage(self.placer, units, preemptor, self.settings.semantics)
        planner = DomainPlanner(stage, self.budgets, self.settings, now)
        return Chooser(planner, self.placer, table, self.budgets, again=lambda each: self.chooser(each, now))

    def _decide(self, found: Wanted, units: Units, now: int) -> Decision:
        released = self.settings.semantics is not Semantics.KEP
        nominated = self._nominations(found.rows)
        # By the spec a better place than the reserved one may be taken; kube-scheduler looks for none.
        placed, refusals = self._try(found, nominated if released else {})
        if placed is None and nominated and not released:
            placed = self._as_reserved(found, nominated)
        if placed is not None:
            return Decision(Outcome.FITS, found, placed)
        assert refusals is not None, "what finds no place is refused"
        leaving = np.flatnonzero(units.leaving & (self.snapshot.node >= 0))
        if not released and len(leaving):
            self.snapshot.lift_many(leaving)
            placed = self._as_reserved(found, nominated) or self._try(found)[0]
            if placed is not None:
                return self._without_victims(found, placed, refusals)
        if found.barred:
            return Decision(Outcome.NOT_ELIGIBLE, found, {}, refusals=refusals, why=found.barred)
        reserved = nominated if released else {}
        preemptor = Preemptor(found.rows, found.needed, found.priority, self._as_group(found), reserved)
        if released and self._under_way(found, units):
            return self._as_released(found, refusals)
        chooser = self.chooser(preemptor, now)
        chosen = chooser.among([CLUSTER]) if preemptor.group else chooser.node()
        if chosen is None:
            return Decision(Outcome.DOES_NOT_FIT, found, {}, refusals=self._refusals_without(chooser, found))
        placed = self._with_the_rest(found, chosen, units)
        if not len(chosen.found.victims):
            # Pods of several shapes found a place in another order, where all could stay.
            return self._without_victims(found, placed, refusals)
        return Decision(Outcome.FITS_AFTER_PREEMPTION, found, placed, chosen, refusals=refusals)

    def _without_victims(self, found: Wanted, placed: dict[int, int], refusals: Refusals) -> Decision:
        """Decide for who needs nobody's room but that of pods that are leaving anyway."""
        snapshot, on = self.snapshot, list(set(placed.values()))
        lifted = np.isin(snapshot.home, on) & (snapshot.node == LIFTED)
        awaited = tuple(np.flatnonzero(lifted).tolist())
        outcome = Outcome.FITS_AFTER_PREEMPTION if awaited else Outcome.FITS
        return Decision(outcome, found, placed, awaited=awaited, refusals=refusals)

    def _decide_each(self, found: Wanted, units: Units, now: int) -> Decision:
        """Decide for the members of a group as for so many pods, one after the other: there are no groups."""
        snapshot = self.snapshot
        decisions = []
        for row in found.rows:
            pod = snapshot.pods[row]
            assert pod is not None
            one = found._replace(rows=(row,), needed=1, priority=pod.spec.priority or 0, group=None)
            decision = self._decide(one, units, now)
            decisions.append(decision)
            if decision.chosen is not None:
                snapshot.lift_many(units.all_members(decision.chosen.found.victims))
            for placed, node in decision.placed.items():
                snapshot.assume(placed, node)
        return together(found, decisions)

    def _as_group(self, found: Wanted) -> bool:
        return found.group is not None and self.settings.semantics is not Semantics.PODS

    def _under_way(self, found: Wanted, units: Units) -> bool:
        """Say whether a kube-scheduler waits for victims that are leaving a node it nominated.

        1.36 does not look for a group. Where a lone pod's node is no use to it any more, it looks elsewhere.
        """
        if self._as_group(found) and self.settings.semantics is not Semantics.V1_37:
            return False
        snapshot = self.snapshot
        for row, node in self._nominations(found.rows).items():
            static = self.placer.chain.static(snapshot.shapes[snapshot.shape.item(row)])
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
        snapshot = self.snapshot
        kept = self._nominations(found.rows)
        on = np.concatenate([snapshot.pods_on(node) for node in sorted(set(kept.values()))])
        awaited = tuple(row for row in on.tolist() if is_preempted(snapshot.pods[row]))
        return Decision(Outcome.FITS_AFTER_PREEMPTION, found, kept, awaited=awaited, refusals=refusals)

    def _try(
        self, found: Wanted, nominated: Mapping[int, int] = {}
    ) -> tuple[dict[int, int] | None, Refusals | None]:
        """Place what fits as things are; if that is too few, say what refuses the first without a place."""
        snapshot = self.snapshot
        with snapshot.trial():
            if nominated:
                placed = self.placer.place_nominated(found.rows, nominated)
            else:
                placed = self.placer.place_many(found.rows)
            if len(placed) >= found.needed:
                return placed, None
            row = next(row for row in found.rows if row not in placed)
            return None, self.placer.chain.refusals(snapshot.shapes[snapshot.shape.item(row)])

    def _nominations(self, rows: tuple[int, ...]) -> dict[int, int]:
        """Give the node rows that are reserved for pods."""
        snapshot = self.snapshot
        nodes = {row: snapshot.row.get(_nomination(snapshot.pods[row])) for row in rows}
        return {row: node for row, node in nodes.items() if node is not None}

    def _as_reserved(self, found: Wanted, nominated: Mapping[int, int]) -> dict[int, int] | None:
        """Place pods where room is reserved for them, then the others; None where that is too few."""
        chain, snapshot = self.placer.chain, self.snapshot
        placed: dict[int, int] = {}
        with snapshot.trial():
            for row, node in nominated.items():
                if chain.fits(snapshot.shapes[snapshot.shape.item(row)], node):
                    snapshot.assume(row, node)
                    placed[row] = node
            placed |= self.placer.place_many([row for row in found.rows if row not in placed])
        return placed if len(placed) >= found.needed else None

    def _with_the_rest(self, found: Wanted, chosen: Chosen, units: Units) -> dict[int, int]:
        """Place the members that nothing was evicted for, as far as there is room left."""
        placed = dict(chosen.found.placed)
        rest = [row for row in found.rows if row not in placed]
        if not rest:
            return placed
        snapshot = self.snapshot
        with snapshot.trial():
            snapshot.lift_many(units.all_members(chosen.found.victims))
            for row, node in placed.items():
                snapshot.assume(row, node)
            placed.update(self.placer.place_many(rest))
        return placed

    def _refusals_without(self, chooser: Chooser, found: Wanted) -> Refusals | None:
        """Say what refuses even when all are gone that may go."""
        planner = chooser.planner
        with self.snapshot.trial():
            self.snapshot.lift_many(planner.units.all_members(np.flatnonzero(planner.potential)))
            return self._try(found)[1]

    def _nominate(self, found: Wanted, units: Units) -> None:
        """Count pods on the nodes that were reserved for them by preemptors of no lower priority."""
        snapshot = self.snapshot
        for row in self._nominated.difference(found.rows):
            pod = snapshot.pods[row]
            assert pod is not None
            group = units.group_of(row) if units.rule.member_priority else None
            priority = (group.priority if group is not None else pod.spec.priority) or 0
            node = snapshot.row.get(_nomination(pod))
            if node is not None and priority >= found.priority:
                snapshot.assume(row, node)

    def _apply_pod(self, pod: Schedulable, before: int | None) -> None:
        """Follow a pod, which had the row `before`."""
        row = self.snapshot.pod_row.get(_name(pod))
        if row is None:
            if before is not None:
                self._nominated.discard(before)
                self._regroup(before, None)
            return
        self._regroup(row, membership(pod, native_served=self._native))
        waits = not pod.spec.nodeName and bool(_nomination(pod))
        (self._nominated.add if waits else self._nominated.discard)(row)

    def _regroup(self, row: int, key: GroupKey | None) -> None:
        """Note a pod's group, and that its unit and the one it leaves are to be worked out."""
        left = self._groups.group_of.get(row)
        self._groups.put(row, key)
        # One member that is left stands for all: a group is worked out as a whole.
        others = self._groups.rows.get(left, ()) if left is not None and left != key else ()
        self._touch((row, *islice(others, 1)))

    def _touch(self, rows: Iterable[int]) -> None:
        for units, _ in self._units.values():
            units.touch(rows)

    def _moved(self, pod_row: int, _shape_id: int, _node_row: int, _sign: int) -> None:
        if not self._planning:
            self._touch((pod_row,))

    def _moved_many(self, pod_rows: Rows, _shape_ids: Int32s, _node_rows: Int32s, _sign: int) -> None:
        if not self._planning:
            self._touch(pod_rows.tolist())


def plan(
    view: View,
    target: Name | GroupKey,
    now: datetime,
    settings: Settings | None = None,
    *,
    minor: int = LATEST,
    said: Said = plainly,
) -> Plan:
    """Answer once for a pending pod (namespace, name) or a group of a cluster.

    The view must hold what scheduling reads (`podium.api.schedulable`). Raises PodiumError for a target that
    does not exist, has run to its end, or runs already. Who asks more than once keeps an Engine.
    """
    return Engine(view, settings, minor).plan(target, now, said)


def _objects(view: View) -> Iterator[object]:
    """Give what a snapshot is made of, what others wait for first."""
    for index in (view.volumes, view.claims, view.nodes, view.pods, view.budgets):
        yield from index.values()


def _name(pod: Schedulable) -> Name:
    return pod.metadata.namespace or "", pod.metadata.name or ""


def _nomination(pod: Schedulable | None) -> str:
    return (pod.status.nominatedNodeName if pod is not None and pod.status is not None else None) or ""


def _budget(obj: object) -> PodDisruptionBudget | None:
    return obj if isinstance(obj, PodDisruptionBudget) else None
