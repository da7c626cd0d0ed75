"""The engine: follows one cluster State, and answers which pods could be placed, and at which cost to others.

It serves `whatif` and the scheduling loop alike. Its data (snapshot, units, budgets, tables) follows every
change by the same events. A decision is then a function of the data, the settings and the time, tried on the
snapshot inside a trial and undone. A decision consists of rows, which an executor uses at once; `explain`
makes it a Plan of names for all other readers.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from podium.api.membership import GroupKey, membership
from podium.api.podrequests import LATEST
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.cluster.reader import ClusterReader, Name
from podium.cluster.state import Readable
from podium.errors import PodiumError
from podium.groups.trees import flaw, root_key
from podium.planner.deadline import NEVER, Deadline
from podium.planner.preemption.choice import Chosen
from podium.planner.preemption.deciding import Decider, DomainRoom
from podium.planner.preemption.decision import Decision, PodKey
from podium.planner.preemption.defragment import LOWEST_PRIORITY, Defragmentation, Defragmenter
from podium.planner.preemption.explain import Explainer
from podium.planner.preemption.grouptarget import (
    POLICY_NEVER,
    forbids_by_policy,
    gate_names,
    group_target,
    members_of,
)
from podium.planner.preemption.harm import Harm, plan_harm
from podium.planner.preemption.knownends import by_ends, class_of, longest_wait, no_room_since
from podium.planner.preemption.outcome import (
    GOOD,
    DomainVerdict,
    ObjectNamer,
    Outcome,
    Plan,
    PlanTopology,
    full_name,
)
from podium.planner.preemption.planningstate import PlanningState
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.planner.preemption.targetplacement import TargetPlacer
from podium.planner.preemption.treetarget import tree_target
from podium.planner.preemption.units import Units
from podium.planner.settings import Settings
from podium.planner.snapshot import Snapshot
from podium.text import count

# Determines the pods to be placed for a pod, a group or a tree of groups, or why none can be.


def placement_target(  # noqa: PLR0917 - what an engine is made of, in its order
    view: ClusterReader,
    snapshot: Snapshot,
    target: Name | GroupKey,
    settings: Settings,
    namer: ObjectNamer,
    leaving: Callable[[Schedulable], bool],
) -> PlacementTarget | Unplaceable:
    """Return the pods to be placed for a pod or a group; `leaving` pods do not count as running.

    A pod that counts on a node already, because its bind is in flight, runs. Raises PodiumError for a target
    that does not exist, is finished, or runs already.
    """
    if isinstance(target, GroupKey):
        return _entry(view, snapshot, target, settings, leaving)
    pod = view.pods.get(target)
    if pod is None:
        raise PodiumError(f"pod {'/'.join(target)}: there is no such pod in what was read")
    if pod.finished:
        raise PodiumError(f"pod {'/'.join(target)}: it has run to its end, so there is nothing to place")
    if pod.spec.nodeName:
        raise PodiumError(f"pod {'/'.join(target)}: it runs on node {pod.spec.nodeName} already")
    row = snapshot.pod_row[target]
    if snapshot.node.item(row) >= 0:
        node = snapshot.names[snapshot.node.item(row)]
        raise PodiumError(f"pod {'/'.join(target)}: it is being bound to node {node}")
    key = membership(pod, native_served=view.native_served)
    if key is not None and settings.semantics.rules.groups:
        if key not in view.groups:
            name = namer("PodGroup", *key.qualified)
            missing = f"waiting for the pod group {name}, which does not exist"
            return Unplaceable(missing, Blocker.GROUP_MISSING)
        return _entry(view, snapshot, key, settings, leaving)
    if pod.metadata.deletionTimestamp is not None:
        return Unplaceable("it is being deleted", Blocker.LEAVING)
    if pod.spec.schedulingGates:
        return Unplaceable(f"it is held by scheduling gates: {gate_names([pod])}", Blocker.GATED)
    unknown = snapshot.shape_at(row).missing
    if unknown:
        return Unplaceable(f"what it asks for cannot be judged: {'; '.join(unknown)}", Blocker.NOT_JUDGED)
    never = forbids_by_policy(pod.spec.preemptionPolicy, pod.spec.priorityClassName or "", view.classes)
    return PlacementTarget((row,), 1, pod.spec.priority or 0, POLICY_NEVER if never else "")


def _entry(
    view: ClusterReader,
    snapshot: Snapshot,
    key: GroupKey,
    settings: Settings,
    leaving: Callable[[Schedulable], bool],
) -> PlacementTarget | Unplaceable:
    """Return the pods to be placed for a group, or for the tree that it is part of."""
    rules = settings.semantics.rules
    counted = leaving if rules.leaving_free else None
    root = root_key(view, key) if rules.trees else key
    if root.composite:
        return tree_target(view, snapshot, root, settings, counted)
    name, group = "/".join(root.qualified), view.groups.get(root)
    if group is None:
        raise PodiumError(f"pod group {name}: there is no such group in what was read")
    if group.composite and rules.trees:
        return Unplaceable(flaw(view, group), Blocker.BROKEN_TREE)
    members = members_of(view, snapshot, root, counted)
    if members.unfinished and not members.waiting:
        raise PodiumError(f"pod group {name}: no member is pending; {count(len(members.runs), 'pod')} run")
    return group_target(view, snapshot, group, members, settings)


# Compares the topology domains of a group for a reader: their room, their harm, and why they are refused.
#
# The decision for the group is made again as if only one domain existed, for the domains with the most room.
# So the report needs no rule of its own. It costs a decision for each domain, and a live scheduler makes
# none.

_NONE = Harm(0, (), 0)


class DomainDecisions(Protocol):
    """The decisions for a group by domain; the engine implements this."""

    def domains(self, target: PlacementTarget, placed: Collection[int], now: datetime) -> list[DomainRoom]:
        """Return the topology domains for a group and their room."""

    def decide_in(self, target: PlacementTarget, domain: int, now: datetime) -> Decision:
        """Return the decision for a group if it could use only one domain."""

    def units(self, *, for_group: bool, now: int) -> tuple[Units, object]:
        """Return the units."""

    def harm(self, chosen: Chosen, units: Units, now: int) -> Harm:
        """Return the harm of a preemption."""


def compared(engine: DomainDecisions, decision: Decision, now: datetime, most: int) -> PlanTopology | None:
    """Return the first `most` domains for the group of a decision; None if it has no topology constraint."""
    target = decision.target
    rooms = [] if target is None else engine.domains(target, decision.placed.values(), now)
    if target is None or not rooms:
        return None
    rooms.sort(key=lambda room: (not room.chosen, -(room.free or 0), -(room.most or 0)))
    verdicts = [_verdict(engine, target, room, now) for room in rooms[:most]]
    verdicts.sort(key=lambda pair: (not pair[1].chosen, pair[1].outcome not in GOOD, pair[0]))
    return PlanTopology(rooms[0].key, len(rooms), tuple(verdict for _, verdict in verdicts))


def _verdict(
    engine: DomainDecisions, target: PlacementTarget, room: DomainRoom, now: datetime
) -> tuple[Harm, DomainVerdict]:
    """Return the harm of the decision in a domain, and the report on the domain."""
    decision, second = engine.decide_in(target, room.number, now), seconds(now)
    units, _ = engine.units(for_group=True, now=second)
    chosen, harm, shown = decision.chosen, None, None
    if chosen is not None:
        harm = engine.harm(chosen, units, second)
        shown = plan_harm(harm, units, chosen.plan.victims, second)
    verdict = DomainVerdict(
        name=room.name,
        chosen=room.chosen,
        nodes=room.nodes,
        free=room.free,
        capacity=room.most,
        outcome=decision.outcome,
        harm=shown,
        message=_message(decision),
    )
    return harm or _NONE, verdict


def _message(decision: Decision) -> str:
    """Return why a domain is refused, or what has to go first; empty if it is free."""
    if decision.awaited:
        return f"once {len(decision.awaited)} leaving pods have gone"
    if decision.outcome in GOOD:
        return ""
    refusals = decision.refusals if decision.obstacles is None else decision.obstacles.refusals
    said = "" if refusals is None else refusals._replace(domains="").sentence
    return " ".join(filter(None, (decision.why, said)))


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
        decision = self.wait_for_ends(decision, now) or decision
        made = self.explain(decision, now, namer)
        if not domains:
            return made
        return msgspec.structs.replace(made, topology=compared(self, decision, now, domains))

    def domains(self, target: PlacementTarget, placed: Collection[int], now: datetime) -> list[DomainRoom]:
        """Return the topology domains for a group that is `placed` on node rows, with their room."""
        with self._deciding(target, seconds(now)) as decider:
            return decider.domains(target, placed)

    def decide_in(self, target: PlacementTarget, domain: int, now: datetime) -> Decision:
        """Return the decision for a group if it could use only one topology domain, by number."""
        with self._deciding(target, seconds(now), domain=domain) as decider:
            return decider.decide(target)

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
        target = self.placement_target(pods[0], namer)
        assert isinstance(target, PlacementTarget), "a pod of a kind may be placed"
        rows = tuple(self.snapshot.pod_row[pod] for pod in pods if not isinstance(pod, GroupKey))
        target = target._replace(rows=rows)
        with self._deciding(target, seconds(now)) as decider:
            decision = decider.decide_alike(target)
        assert decision.target is not None, "there are pods to place"
        return self.explain(decision, now, namer), len(decision.target.rows)

    def kind(self, key: Name | GroupKey) -> PodKey | None:
        """Return the kind of a lone pod, whose pods are planned alike; None for all other preemptors.

        It raises as `plan` does.
        """
        target = self.placement_target(key)
        if isinstance(target, Unplaceable) or self.longest_wait(target):
            return None
        return self._cache_key(target)

    def explain(self, decision: Decision, now: datetime, namer: ObjectNamer = full_name) -> Plan:
        """Return the plan that explains a decision of that time; no object may have changed since."""
        explainer = Explainer(self, decision, seconds(now), namer)
        with self._trying():
            return explainer.explained_plan()

    def decide(
        self,
        key: Name | GroupKey,
        now: datetime,
        namer: ObjectNamer = full_name,
        deadline: Deadline = NEVER,
    ) -> Decision:
        """Return the decision of `plan`, in rows of the snapshot, which is left as it was.

        It raises DecisionTimeoutError once the deadline has passed, with everything as before.
        """
        target = self.placement_target(key, namer)
        if isinstance(target, Unplaceable):
            judged = target.cause is not Blocker.NOT_JUDGED
            outcome = Outcome.NOT_ELIGIBLE if judged else Outcome.NOT_JUDGED
            return Decision(outcome, None, {}, why=target.why)
        second = seconds(now)
        kind = self._cache_key(target)
        known = self._cache.get(kind, target, second) if kind is not None else None
        if known is not None:
            return known
        # Not `_deciding`: with one more generator, gangs of four lose more than 3 % to trees and topology.
        units, _ = self.units(for_group=self.as_group(target), now=second, deadline=deadline)
        with self._trying(deadline):
            self._nominate(target.priority, target.rows)
            decider = Decider(self, units, second, deadline)
            if target.group is not None and not self.as_group(target):
                return decider.decide_each(target)
            decision = decider.decide(
                target, known_not_to_fit=kind is not None and self._cache.known_not_to_fit(kind)
            )
        # Each pod has its own order of equal nodes, so the place of one pod says nothing about the next.
        if kind is not None and (decision.chosen is not None or not decision.placed):
            shape = self.snapshot.shapes[kind[0]]
            self._cache.store(kind, decision, second, by_room=self.placer.chain.resources_only(shape))
        return decision

    def wait_for_ends(
        self,
        decision: Decision,
        now: datetime,
        since: datetime | None = None,
        deadline: Deadline = NEVER,
    ) -> Decision | None:
        """Return the decision to wait for known ends in place of a preemption; None to preempt.

        The preemptor finds no room `since` a time, without one since its pods report that. It raises as
        `decide` does.
        """
        target = decision.target
        if target is None or decision.chosen is None or not self.settings.semantics.rules.leaving_free:
            return None
        wait = self.longest_wait(target)
        if not wait:
            return None
        until = (since or no_room_since(self.snapshot, target, now)) + wait
        units, _ = self.units(for_group=self.as_group(target), now=seconds(now), deadline=deadline)
        with self._trying(deadline):
            self._nominate(target.priority, target.rows)
            placer = TargetPlacer(self.placer, self.settings.semantics, deadline)
            return by_ends(placer, units, decision, seconds(now), seconds(until))

    def placement_target(
        self, key: Name | GroupKey, namer: ObjectNamer = full_name
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
        target = placement_target(self.view, self.snapshot, key, self.settings, namer, self._leaving)
        return self.with_peers(target) if isinstance(target, PlacementTarget) else target

    def bound_with(self, nodes: Mapping[Name, str]) -> list[Readable]:
        """Return objects as they are once pods get these nodes, without the pods' nodes."""
        snapshot = self.snapshot
        rows = {snapshot.pod_row[pod]: snapshot.row[node] for pod, node in nodes.items()}
        binding = [(plugin, list(filter(plugin.binds, rows))) for plugin in snapshot.plugins]
        if not any(own for _, own in binding):
            return []
        with self._trying():
            for row, node in rows.items():
                snapshot.assume(row, node)
            return [changed for plugin, own in binding for changed in plugin.bound(own, self.view)]

    @contextmanager
    def placing(self, target: PlacementTarget, *, reserved: bool = True) -> Iterator[dict[int, int]]:
        """Place the pods that fit without preemption, for this block; the value has their nodes by row.

        The room that is `reserved` for other pods is taken, unless that is false.
        """
        with self._trying():
            if reserved:
                self._nominate(target.priority, target.rows)
            yield self.placer.place_many(target.rows)

    @contextmanager
    def _deciding(
        self, target: PlacementTarget, now: int, deadline: Deadline = NEVER, domain: int | None = None
    ) -> Iterator[Decider]:
        """Begin a trial for a decision at `now` (seconds), in one topology domain if its number is given."""
        units, _ = self.units(for_group=self.as_group(target), now=now, deadline=deadline)
        with self._trying(deadline):
            self._nominate(target.priority, target.rows)
            yield Decider(self, units, now, deadline, domain)

    def longest_wait(self, target: PlacementTarget) -> timedelta:
        """Return how long a preemptor waits for known ends at most."""
        priority_class = class_of(self.view, self.snapshot, target)
        return longest_wait(target.group, priority_class, target.priority)

    def _cache_key(self, target: PlacementTarget) -> PodKey | None:
        """Return the facts of a lone pod that decide; None for a member or a pod with a reserved node."""
        if target.group is not None or self._nominated.node_of(target.rows[0]):
            return None
        return self.snapshot.shape.item(target.rows[0]), target.priority, target.preemption_barred


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
