"""The data of an engine: the tables that every decision reads, updated by the events of one cluster.

A decision tries pods and units on the snapshot, inside a trial that is undone. `engine` makes the decisions,
and this package computes them from these tables.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice

import numpy as np

from podium.api.core import Namespace, PodDisruptionBudget, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of, membership, parent_key
from podium.api.minors import group_minor
from podium.api.podkinds.kind import PodOwner
from podium.api.podrequests import LATEST
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader, Name, name_of
from podium.groups.topology import spread_topology
from podium.groups.trees import leaves, root_key
from podium.planner.arrays import Int32s, Int64s, Rows, grown
from podium.planner.deadline import NEVER, Deadline
from podium.planner.framework import Effect
from podium.planner.indexes import discard
from podium.planner.placement import Placer
from podium.planner.plugins import plugins_with
from podium.planner.preemption.budgets import BudgetIndex
from podium.planner.preemption.choice import Chooser, Chosen
from podium.planner.preemption.decision import DecisionCache
from podium.planner.preemption.domain import DomainPlanner
from podium.planner.preemption.dryrun import DryRun
from podium.planner.preemption.harm import Harm, harm
from podium.planner.preemption.inflight import Intents, is_leaving, stored_nomination
from podium.planner.preemption.nodes import NodeTable
from podium.planner.preemption.protection import DAEMON_SET, deciding_owner
from podium.planner.preemption.search import EFFORT
from podium.planner.preemption.target import PlacementTarget, PreemptorPods
from podium.planner.preemption.treetarget import TreePlanner
from podium.planner.preemption.units import GroupIndex, Units, root_of, whole_of
from podium.planner.scores import UPSTREAM
from podium.planner.semantics import UnitRule
from podium.planner.settings import Budgets, Settings
from podium.planner.snapshot import Snapshot

# Keeps the pending pods that hold room on a node reserved for them, and the priority they count with.
#
# A preemption takes time, and the room it makes belongs to its preemptor. Until then, a decision for a pod
# of no higher priority has to count the preemptor as if it ran there already. A burst of preemptors adds
# hundreds of them to every decision, so they are in arrays, in step with pods and intents.

_FEWEST = 16
_NO_NODE = -1


class Nominations:
    """The reservations of a snapshot's pods: `nominated_node` returns a pod's reserved node (empty: none).

    `priority_of` returns the priority of a pod's row. Call `update` when the pod, its priority or its
    reserved node may have changed. A pod that counts on a node, because its bind is in flight, holds no other
    node.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        nominated_node: Callable[[Schedulable], str],
        priority_of: Callable[[int], int],
    ) -> None:
        self._snapshot = snapshot
        self._nominated_node = nominated_node
        self._priority_of = priority_of
        self._names: dict[int, str] = {}
        self._rows: dict[str, set[int]] = {}
        # By place: pod rows, node rows and priorities. When an entry is removed, the last entry takes its
        # place.
        self._place: dict[int, int] = {}
        self._pods: Rows = np.zeros(0, np.intp)
        self._nodes: Int32s = np.zeros(0, np.int32)
        self._priority: Int64s = np.zeros(0, np.int64)
        self._nodes_revision = snapshot.node_revision

    def update(self, row: int) -> None:
        """Update the reservation of the pod on a row, if there is one."""
        pod = self._snapshot.pods[row]
        name = self._nominated_node(pod) if pod is not None and not pod.spec.nodeName else ""
        if name != self._names.get(row, ""):
            self._drop(row)
            if name:
                self._add(row, name)
        if name:
            self._priority[self._place[row]] = self._priority_of(row)

    def update_all(self) -> None:
        """Update all reservations."""
        for row in tuple(self._names):
            self.update(row)

    def is_current(self, row: int) -> bool:
        """Return whether the data stored for a pod equals its current reservation."""
        self._update_nodes()
        pod = self._snapshot.pods[row]
        name = self._nominated_node(pod) if pod is not None and not pod.spec.nodeName else ""
        place = self._place.get(row)
        if not name or place is None:
            return place is None and not name and row not in self._names
        stored = (self._pods.item(place), self._nodes.item(place), self._priority.item(place))
        expected = (row, self._snapshot.row.get(name, _NO_NODE), self._priority_of(row))
        return self._names.get(row) == name and row in self._rows.get(name, ()) and stored == expected

    def node_of(self, row: int) -> str:
        """Return the node reserved for a pod, even if the node is unknown; empty for none."""
        return self._names.get(row, "") if self._snapshot.node.item(row) < 0 else ""

    def holding(self, priority: int, but: Collection[int]) -> tuple[Rows, Int32s]:
        """Return the pods of no lower priority that hold a node, except those in `but`; and the node rows."""
        self._update_nodes()
        held = len(self._place)
        pods, nodes = self._pods[:held], self._nodes[:held]
        counts = (self._priority[:held] >= priority) & (nodes != _NO_NODE) & (self._snapshot.node[pods] < 0)
        counts[[self._place[row] for row in but if row in self._place]] = False
        return pods[counts], nodes[counts]

    def on(self, node_row: int) -> Collection[int]:
        """Return the pods with this node reserved, including those that count on a node."""
        return self.on_name(self._snapshot.node_name(node_row))

    def on_name(self, node: str) -> Collection[int]:
        """Return the pods with a node of this name reserved, whether it exists or not."""
        return self._rows.get(node, ())

    def _add(self, row: int, name: str) -> None:
        self._names[row] = name
        self._rows.setdefault(name, set()).add(row)
        place = self._place[row] = len(self._place)
        if place == len(self._pods):
            size = max(_FEWEST, 2 * place)
            self._pods, self._nodes = grown(self._pods, size), grown(self._nodes, size)
            self._priority = grown(self._priority, size)
        self._pods[place] = row
        self._nodes[place] = self._snapshot.row.get(name, _NO_NODE)

    def _drop(self, row: int) -> None:
        name = self._names.pop(row, "")
        if not name:
            return
        self._rows[name].discard(row)
        if not self._rows[name]:
            del self._rows[name]
        place, last = self._place.pop(row), len(self._place)
        if place != last:
            moved = self._pods.item(last)
            self._place[moved] = place
            for array in (self._pods, self._nodes, self._priority):
                array[place] = array[last]

    def _update_nodes(self) -> None:
        """Look up the nodes again if some came or went."""
        if self._nodes_revision == self._snapshot.node_revision:
            return
        self._nodes_revision = self._snapshot.node_revision
        for row, place in self._place.items():
            self._nodes[place] = self._snapshot.row.get(self._names[row], _NO_NODE)


class PlanningState:
    """Follows a State (pass `apply` to State.observe); `minor` is the arithmetic of requests.

    `intents` are a live scheduler's own decisions, which take precedence over statuses; other engines have
    none.
    """

    def __init__(
        self,
        view: ClusterReader,
        settings: Settings | None = None,
        minor: int = LATEST,
        intents: Intents | None = None,
    ) -> None:
        self.view = view
        self.settings = settings or Settings()
        self.snapshot = Snapshot(minor, lambda: view.unread, plugins_with(self.settings.plugins))
        rules = self.settings.semantics.rules
        empty_selector = rules.empty_selector
        if empty_selector is None:
            empty_selector = group_minor(minor).empty_selectors
        self.placer = Placer(
            self.snapshot,
            view.namespaces,
            self.settings.strategy,
            self.settings.reserved,
            self.settings.weights if rules.own_scores else UPSTREAM,
            by_hash=rules.own_scores,
            own_rules=rules.frees_claims,
            empty_selector=empty_selector,
        )
        self.budgets = BudgetIndex(
            self.snapshot,
            None if intents is None else intents.disruptions,
            empty_selector=empty_selector,
        )
        self._groups = GroupIndex[GroupKey]()
        # The groups of each set that spreads over domains, by namespace and name of the set.
        self._spread_sets: dict[tuple[str, str], set[GroupKey]] = {}
        # By the UID of the DaemonSet or Job that pods name as their controller.
        self._owned = GroupIndex[str]()
        self._grouped = rules.pod_victims.member_priority
        self._native = view.native_served
        self._units: dict[UnitRule, tuple[Units, NodeTable]] = {}
        self._intents = intents
        self._leaving = is_leaving if intents is None else intents.leaving
        self._refusal = _no_refusal if intents is None else intents.failed_evictions.why
        nominated_node = stored_nomination if intents is None else intents.nomination
        self._nominated = Nominations(self.snapshot, nominated_node, self.priority_of)
        self._cache = DecisionCache()
        # The groups that changed since `catch_up`. Any number of pods may depend on one.
        self._changed_groups: set[GroupKey] = set()
        self._planning = False
        self.snapshot.observe(self._moved, many=self._moved_many)
        for obj in self._objects():
            self.apply(None, obj)
        for group in view.groups.values():
            self._note_set(None, group)
        self.catch_up()

    def apply(self, before: object, after: object) -> None:
        """Apply one change of an object; all pods of a group or claim wait for `catch_up`."""
        changed = before if after is None else after
        if isinstance(changed, Schedulable):
            self._apply_pod(changed, before, after)
            return
        if isinstance(changed, PodOwner):
            self._apply_owner(changed.ref, _uid_and_deadline(before), _uid_and_deadline(after))
            return
        effect = self.snapshot.apply(before, after)
        if effect is Effect.ANY:
            self._cache.clear()
        elif effect is Effect.LESS_ROOM:
            self._cache.clear_plans()
        match changed:
            case PodGroup():
                self._note_set(before, after)
                self._note_trees(before, after)
            case CompositeGroup():
                self._note_trees(before, after)
            case PodDisruptionBudget():
                self.budgets.apply(_budget(before), _budget(after))
            case PriorityClass():
                for units, _ in self._units.values():
                    units.mark_all_changed()
            case Namespace():
                self.placer.chain.reload_namespaces()
            case _:
                pass

    def _objects(self) -> Iterator[object]:
        """Yield the objects of the cluster; objects that others refer to come first."""
        view = self.view
        yield from view.groups.values()
        for plugin in self.snapshot.plugins:
            yield from plugin.objects(view)
        for index in (view.nodes, view.pods, view.budgets):
            yield from index.values()

    def catch_up(self) -> None:
        """Compute again what the groups, trees and claims decide that changed: one walk for many changes.

        Call it before a decision.
        """
        revision = self.snapshot.node_revision
        self.snapshot.catch_up()
        if self.snapshot.node_revision != revision:
            # A plugin that had failed is asked again.
            self._cache.clear()
        changed, self.snapshot.changed_pods = self.snapshot.changed_pods, set()
        # The claims that they hold may have changed too.
        self._touch(changed)
        groups, self._changed_groups = self._changed_groups, set()
        below = {key_of(leaf) for key in groups for leaf in leaves(self.view, key)}
        # A group that is gone still has members.
        for key in below | groups:
            rows = self._groups.rows.get(key, ())
            self._touch(rows)
            for row in rows:
                self._nominated.update(row)

    @property
    def nominations(self) -> Nominations:
        """The pending pods that hold room on a node."""
        return self._nominated

    def nomination(self, row: int) -> str:
        """Return the node reserved for a pod; empty for none, and for a pod that is assumed on a node."""
        return self._nominated.node_of(row)

    def nominated_on(self, node_row: int) -> list[int]:
        """Return the pending pods for which a node is reserved, by row."""
        return [row for row in self._nominated.on(node_row) if self.snapshot.node.item(row) < 0]

    def priority_of(self, row: int) -> int:
        """Return the priority of a pending pod: its group's if the rules know groups, or its own."""
        key = self._groups.group_of.get(row)
        group = self.view.groups.get(key) if key is not None and self._grouped else None
        counting = self.snapshot.pod_at(row).spec if group is None else self.root_of(group)
        return counting.priority or 0

    def root_of(self, group: Child) -> Child:
        """Return the root of a group's tree, or the group itself if it is in none."""
        return root_of(self.view, group, self.settings.semantics)

    def whole_of(self, group: PodGroup) -> Child | None:
        """Return the group that is evicted as a whole with a group, None if each pod is a unit."""
        return whole_of(self.view, group, self.settings.semantics)

    def as_group(self, target: PlacementTarget) -> bool:
        """Return whether pods are one preemptor, as the members of a group are unless the rules know none."""
        return target.group is not None and self.settings.semantics.rules.groups

    def units(self, *, for_group: bool, now: int, deadline: Deadline = NEVER) -> tuple[Units, NodeTable]:
        """Return the units of victims for a preemptor (pod or group), and the table of their nodes.

        Results from before a passed deadline are kept: the next call continues from there.
        """
        self.catch_up()
        rule = self.settings.semantics.rules.victims(for_group=for_group)
        known = self._units.get(rule)
        if known is None:
            units = Units(
                *(self.view, self.snapshot, self._groups, rule, self.settings, self._leaving, self._refusal)
            )
            known = self._units[rule] = (units, NodeTable(units))
        if self._intents is not None:
            self._intents.disruptions.expire(now)
            over = self._intents.failed_evictions.expire(now)
            self._touch([row for pod in over if (row := self.snapshot.row_of(*pod)) is not None])
        units, table = known
        table.refresh(units.refresh(deadline), now)
        return known

    def chooser(
        self, preemptor: PreemptorPods, now: int, deadline: Deadline = NEVER, effort: int = EFFORT
    ) -> Chooser:
        """Return the chooser of a domain for a preemptor, on the snapshot as it is at the moment.

        `effort` is that of the search for the least harm.
        """
        rule = self.settings.semantics.rules.victims(for_group=preemptor.group)
        units, table = self._units[rule]
        dry_run = DryRun(self.placer, units, preemptor, self.settings.semantics, deadline)
        planner_of = DomainPlanner if preemptor.tree is None else TreePlanner
        planner = planner_of(dry_run, self.budgets, self.settings, now, effort)
        # The pods that victims would preempt in turn are an estimate.
        recreated = partial(self.chooser, now=now, deadline=deadline, effort=0)
        return Chooser(planner, self.placer, table, self.budgets, recreated=recreated)

    def harm(self, chosen: Chosen, units: Units, now: int) -> Harm:
        """Return the harm of a preemption decided at `now` (seconds), whatever the semantics.

        `units` are those it was decided with; no object may have changed since.
        """
        plan = chosen.plan
        if isinstance(plan.cost, Harm):
            return plan.cost
        return harm(units, plan.victims, self.violations(units, plan.victims), now)

    def violations(self, units: Units, leads: Rows) -> int:
        """Return how many pods of units (by lead) exceed their budgets if all of the units are evicted."""
        numbers = np.repeat(np.arange(len(leads)), units.size[leads])
        return int(self.budgets.violations(units.all_members(leads), numbers).sum())

    def charges(self, pods: Iterable[Name]) -> dict[Name, int]:
        """Return how many disruptions an eviction of these pods takes from each budget, by name.

        Budgets count a pod that is being deleted already.
        """
        rows = np.array([self.snapshot.pod_row[pod] for pod in pods], np.intp)
        return self.budgets.charges(rows[~self.snapshot.terminating[rows]])

    def forbids(self, units: Units, leads: Rows) -> bool:
        """Return whether budgets are strict, and one forbids evicting all of these units (by lead)."""
        return self.settings.budgets is Budgets.STRICT and self.violations(units, leads) > 0

    @contextmanager
    def _trying(self, deadline: Deadline = NEVER) -> Iterator[None]:
        """Undo at its end the moves in this block; the units are not notified of them.

        Filters may raise DecisionTimeoutError after the deadline.
        """
        self._planning = True
        self.placer.chain.drop_idle()
        self.snapshot.deadline = deadline
        try:
            with self.snapshot.trial():
                yield
        finally:
            self.snapshot.deadline = NEVER
            self._planning = False
            self.placer.chain.nominated.clear()

    def _nominate(self, priority: int, rows: Collection[int]) -> None:
        """Count pods of no lower priority, except `rows`, on the nodes that are reserved for them."""
        pods, nodes = self._nominated.holding(priority, rows)
        self._assume_nominated(pods, nodes)

    def _assume_nominated(self, pods: Rows, nodes: Int32s) -> None:
        """Count nominated pods on nodes during a trial."""
        if len(pods):
            self.snapshot.assume_many(pods, nodes)
            self.placer.chain.nominated.assume_all(pods)

    def _apply_pod(self, pod: Schedulable, before: object, after: object) -> None:
        """Apply a change of a pod."""
        snapshot = self.snapshot
        had = snapshot.pod_row.get(name_of(pod))
        concerned = self._concerns(had)
        snapshot.apply(before, after)
        if self._intents is not None:
            self._intents.follow(_pod(before), _pod(after))
        row = snapshot.pod_row.get(name_of(pod))
        if row is not None:
            self._owned.set_group(row, deciding_owner(pod))
            self._regroup(row, membership(pod, native_served=self._native))
            self._nominated.update(row)
        elif had is not None:
            self._nominated.update(had)
            self._owned.set_group(had, None)
            self._regroup(had, None)
        # Decisions on other pods do not depend on a pod that only waits.
        if concerned or self._concerns(row):
            self._cache.clear()

    def spread_peers(self, group: PodGroup) -> tuple[Rows, ...]:
        """Return the pods (rows) of each other group in the set of a group."""
        name = spread_topology(group)[1]
        if not name:
            return ()
        peers = self._spread_sets.get((group.ref.namespace, name), set()) - {key_of(group)}
        return tuple(np.array(sorted(self._groups.rows.get(key, ())), np.intp) for key in sorted(peers))

    def with_peers(self, target: PlacementTarget) -> PlacementTarget:
        """Return a target with the peers of its group, and of the groups of its parts."""
        peers = self.spread_peers(target.group) if isinstance(target.group, PodGroup) else ()
        if not peers and not target.parts:
            return target
        return target._replace(peers=peers, parts=tuple(map(self.with_peers, target.parts)))

    def _note_trees(self, *changed: object) -> None:
        """Record a group that came, changed or is gone, and the root of its tree.

        If it is gone, its children have another root than before.
        """
        for group in changed:
            if isinstance(group, PodGroup | CompositeGroup):
                key = key_of(group)
                self._changed_groups |= {key, root_key(self.view, parent_key(group) or key)}

    def _note_set(self, before: object, after: object) -> None:
        """Record the set in which a group spreads."""
        if (left := _spread_set(before)) is not None:
            discard(self._spread_sets, *left)
        if (joined := _spread_set(after)) is not None:
            name, key = joined
            self._spread_sets.setdefault(name, set()).add(key)

    def _apply_owner(self, ref: ObjectRef, before: tuple[str, int], after: tuple[str, int]) -> None:
        """Apply a change of an owner of pods, by its UID and deadline: only these matter.

        No cached decision depends on a Job, because waits for ends are not cached.
        """
        if before == after:
            return
        if ref.kind == DAEMON_SET[1]:
            self._cache.clear()
        for uid, _ in (before, after):
            self._touch(self._owned.rows.get(uid, ()))

    def _concerns(self, row: int | None) -> bool:
        """Return whether a pod counts in decisions on others: on a node, as a member, or by a nomination."""
        if row is None:
            return False
        return (
            self.snapshot.node.item(row) >= 0
            or row in self._groups.group_of
            or bool(self._nominated.node_of(row))
        )

    def _regroup(self, row: int, key: GroupKey | None) -> None:
        """Record a pod's group, and mark its unit and its former unit as changed."""
        left = self._groups.group_of.get(row)
        self._groups.set_group(row, key)
        self._touch((row,))
        if left is None or left == key:
            return
        rows, group = self._groups.rows.get(left, ()), self.view.groups.get(left)
        # One remaining member is enough, because a group is computed as a whole.
        self._touch(islice(rows, 1))
        if not rows and group is not None and group.composite:
            self._changed_groups.add(root_key(self.view, left))

    def _touch(self, rows: Iterable[int]) -> None:
        for units, _ in self._units.values():
            units.mark_changed(rows)

    def _moved(self, pod_row: int, _shape_id: int, _node_row: int, _sign: int) -> None:
        if not self._planning:
            self._cache.clear()
            self._touch((pod_row,))

    def _moved_many(self, pod_rows: Rows, _shape_ids: Int32s, _node_rows: Int32s, _sign: int) -> None:
        if not self._planning:
            self._cache.clear()
            self._touch(pod_rows.tolist())


def _no_refusal(_pod: Schedulable) -> str:
    return ""


def _pod(obj: object) -> Schedulable | None:
    return obj if isinstance(obj, Schedulable) else None


def _spread_set(obj: object) -> tuple[tuple[str, str], GroupKey] | None:
    """Return the namespace and the name of the set in which a group spreads, and the group's key."""
    name = spread_topology(obj)[1] if isinstance(obj, PodGroup) else ""
    return ((obj.ref.namespace, name), key_of(obj)) if isinstance(obj, PodGroup) and name else None


def _uid_and_deadline(obj: object) -> tuple[str, int]:
    return (obj.metadata.uid or "", obj.deadline) if isinstance(obj, PodOwner) else ("", 0)


def _budget(obj: object) -> PodDisruptionBudget | None:
    return obj if isinstance(obj, PodDisruptionBudget) else None
