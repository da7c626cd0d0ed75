"""The engine: follows one cluster State, and answers which pods could be placed, and at which cost to others.

It serves `whatif` and the scheduling loop alike. Its data (snapshot, units, budgets, tables) follows every
change by the same events. A decision is then a function of the data, the settings and the time, tried on the
snapshot inside a trial and undone. A decision consists of rows, which an executor uses at once; `explain`
makes it a Plan of names for all other readers.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from podium.api.membership import GroupKey, membership
from podium.api.podrequests import LATEST
from podium.api.times import seconds
from podium.cluster.reader import ClusterReader, Name
from podium.planner.deadline import NEVER, Deadline
from podium.planner.devices.plannedclaims import ReservedClaim
from podium.planner.preemption.deciding import Decider, DomainRoom
from podium.planner.preemption.decision import Decision, PodKey
from podium.planner.preemption.defragment import LOWEST_PRIORITY, Defragmenter
from podium.planner.preemption.domainreport import compared
from podium.planner.preemption.explain import Explainer
from podium.planner.preemption.moves import Defragmentation
from podium.planner.preemption.outcome import ObjectNamer, Outcome, Plan, full_name
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.planner.preemption.targets import placement_target
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings
from podium.planner.volumes.ledger import BoundVolume


class Engine(PlanningState):
    """Plans for pods and groups of the cluster that it follows."""

    def plan(
        self, target: Name | GroupKey, now: datetime, namer: ObjectNamer = full_name, domains: int = 0
    ) -> Plan:
        """Return the plan for a pending pod (namespace, name) or a group; `namer` names objects in sentences.

        For a group with a topology constraint it compares so many `domains`. Raises PodiumError for a target
        that does not exist, is finished, or runs already.
        """
        decision = self.decide(target, now, namer)
        made = self.explain(decision, now, namer)
        if not domains:
            return made
        return msgspec.structs.replace(made, topology=compared(self, decision, now, domains))

    def domains(self, found: PlacementTarget, placed: Collection[int], now: datetime) -> list[DomainRoom]:
        """Return the topology domains for a group that is `placed` on node rows, with their room."""
        with self._deciding(found, seconds(now)) as decider:
            return decider.domains(found, placed)

    def decide_in(self, found: PlacementTarget, domain: int, now: datetime) -> Decision:
        """Return the decision for a group if it could use only one topology domain, by number."""
        with self._deciding(found, seconds(now), domain=domain) as decider:
            return decider.decide(found)

    def defragment(self, key: str, now: datetime, most: int) -> Defragmentation:
        """Return the moves that free domains of a node label, for the `most` domains with the least harm.

        Raises PodiumUsageError if no node has the label.
        """
        second = seconds(now)
        units, _ = self.units(for_group=True, now=second)
        with self._trying():
            self._nominate(LOWEST_PRIORITY, ())
            return Defragmenter(self, units, second, key).best(most)

    def plan_alike(
        self, pods: Sequence[Name | GroupKey], now: datetime, namer: ObjectNamer = full_name
    ) -> tuple[Plan, int]:
        """Return the plan for the first of some lone pods of one `kind`, and for how many of them it is.

        It is for all that have the same outcome, one after another. Under `kep`, pods that only room can
        refuse preempt together, with the least harm for all of them.
        """
        found = self.placement_target(pods[0], namer)
        assert isinstance(found, PlacementTarget), "a pod of a kind may be placed"
        rows = tuple(self.snapshot.pod_row[pod] for pod in pods if not isinstance(pod, GroupKey))
        found = found._replace(rows=rows)
        with self._deciding(found, seconds(now)) as decider:
            decision = decider.decide_alike(found)
        assert decision.target is not None, "there are pods to place"
        return self.explain(decision, now, namer), len(decision.target.rows)

    def kind(self, target: Name | GroupKey) -> PodKey | None:
        """Return the kind of a lone pod, whose pods are planned alike; None for all other preemptors.

        It raises as `plan` does.
        """
        found = self.placement_target(target)
        return None if isinstance(found, Unplaceable) else self._cache_key(found)

    def explain(self, decision: Decision, now: datetime, namer: ObjectNamer = full_name) -> Plan:
        """Return the plan that explains a decision of that time; no object may have changed since."""
        explainer = Explainer(self, decision, seconds(now), namer)
        with self._trying():
            return explainer.explained_plan()

    def decide(
        self,
        target: Name | GroupKey,
        now: datetime,
        namer: ObjectNamer = full_name,
        deadline: Deadline = NEVER,
    ) -> Decision:
        """Return the decision of `plan`, in rows of the snapshot, which is left as it was.

        It raises DecisionTimeoutError once the deadline has passed, with everything as before.
        """
        found = self.placement_target(target, namer)
        if isinstance(found, Unplaceable):
            judged = found.cause is not Blocker.NOT_JUDGED
            outcome = Outcome.NOT_ELIGIBLE if judged else Outcome.NOT_JUDGED
            return Decision(outcome, None, {}, why=found.why)
        second = seconds(now)
        kind = self._cache_key(found)
        known = self._cache.get(kind, found, second) if kind is not None else None
        if known is not None:
            return known
        # Not `_deciding`: with one more generator, gangs of four lose more than 3 % to trees and topology.
        units, _ = self.units(for_group=self._as_group(found), now=second, deadline=deadline)
        with self._trying(deadline):
            self._nominate(found.priority, found.rows)
            decider = Decider(self, units, second, deadline)
            if self.settings.semantics is Semantics.PODS and found.group is not None:
                return decider.decide_each(found)
            decision = decider.decide(
                found, known_not_to_fit=kind is not None and self._cache.known_not_to_fit(kind)
            )
        # Each pod has its own order of equal nodes, so the place of one pod says nothing about the next.
        if kind is not None and (decision.chosen is not None or not decision.placed):
            shape = self.snapshot.shapes[kind[0]]
            self._cache.store(kind, decision, second, by_room=self.placer.chain.resources_only(shape))
        return decision

    def placement_target(
        self, target: Name | GroupKey, namer: ObjectNamer = full_name
    ) -> PlacementTarget | Unplaceable:
        """Return the pods to be placed for a pod or a group, or why none can be; it raises as `plan` does."""
        self.catch_up()
        if self.view.native_served != self._native:
            self._native = self.view.native_served
            self._cache.clear()
            for row in self.snapshot.pod_row.values():
                pod = self.snapshot.pods[row]
                self._regroup(row, None if pod is None else membership(pod, native_served=self._native))
            self._nominated.update_all()
        found = placement_target(self.view, self.snapshot, target, self.settings, namer, self._leaving)
        return self.with_peers(found) if isinstance(found, PlacementTarget) else found

    def claim_writes(self, nodes: Mapping[Name, str]) -> tuple[list[BoundVolume], list[ReservedClaim]]:
        """Return what is written to volumes, and to claims for devices, before pods get these nodes."""
        snapshot, chain = self.snapshot, self.placer.chain
        rows = {snapshot.pod_row[pod]: snapshot.row[node] for pod, node in nodes.items()}
        delayed = {row for row in rows if snapshot.shape_at(row).delayed}
        using = {row for row in rows if snapshot.devices.uses(row)}
        volumes: list[BoundVolume] = []
        devices: list[ReservedClaim] = []
        if not delayed and not using:
            return volumes, devices
        with self._trying():
            for row, node in rows.items():
                snapshot.assume(row, node)
                plan = chain.volume_binding.plan(row) if row in delayed else None
                volumes += plan.bound if plan is not None else ()
                reserved = (chain.devices.reservations(row) if row in using else None) or ()
                devices += [each for each in reserved if isinstance(each, ReservedClaim)]
        return volumes, devices

    @contextmanager
    def placing(self, found: PlacementTarget, *, reserved: bool = True) -> Iterator[dict[int, int]]:
        """Place the pods that fit without preemption, for this block; the value has their nodes by row.

        The room that is `reserved` for other pods is taken, unless that is false.
        """
        with self._trying():
            if reserved:
                self._nominate(found.priority, found.rows)
            yield self.placer.place_many(found.rows)

    @contextmanager
    def _deciding(
        self, found: PlacementTarget, now: int, deadline: Deadline = NEVER, domain: int | None = None
    ) -> Iterator[Decider]:
        """Begin a trial for a decision at `now` (seconds), in one topology domain if its number is given."""
        units, _ = self.units(for_group=self._as_group(found), now=now, deadline=deadline)
        with self._trying(deadline):
            self._nominate(found.priority, found.rows)
            yield Decider(self, units, now, deadline, domain)

    def _as_group(self, found: PlacementTarget) -> bool:
        return found.group is not None and self.settings.semantics is not Semantics.PODS

    def _cache_key(self, found: PlacementTarget) -> PodKey | None:
        """Return the facts of a lone pod that decide; None for a member or a pod with a reserved node."""
        if found.group is not None or self._nominated.node_of(found.rows[0]):
            return None
        return self.snapshot.shape.item(found.rows[0]), found.priority, found.preemption_barred


# A caller with many questions about one cluster caches its engines.
MakeEngine = Callable[[ClusterReader, Settings, int], Engine]


def plan(
    view: ClusterReader,
    target: Name | GroupKey,
    now: datetime,
    settings: Settings | None = None,
    *,
    minor: int = LATEST,
    namer: ObjectNamer = full_name,
) -> Plan:
    """Return the plan for one pending pod (namespace, name) or group of a cluster.

    The view must hold what scheduling reads (`podium.api.schedulable`). Raises PodiumError for a target that
    does not exist, is finished, or runs already. For more than one plan, keep an Engine.
    """
    return Engine(view, settings, minor).plan(target, now, namer)
