"""Groups running pods into units, the sets of pods that are evicted together; they follow the snapshot.

A unit is one pod, or all running pods of a group that is disrupted as a whole (KEP-5710, "Preemption unit").
For a group in a tree of composite groups that is the highest one of mode `all`, and the root has the priority
(KEP-6012).
A member that may never be evicted is not part of its group's unit: the group goes without it.
A group may ask to shrink before that (SHRINK). Then the minCount members that started first are its core. The
core is one unit, and each other member (its surplus) is a unit of its own. The core goes only with all
of the surplus.
The row of one of its pods, the `lead`, identifies a unit. So every attribute is an array by pod row, and a
choice among a hundred thousand units is a few operations on arrays. Attributes are computed when the pod or
its group has changed, and only for these pods.

Pods that are leaving (being deleted, or marked by a preemption) are in no unit under the spec's rule.
Their room counts as free already, for as long as `terminating` says. kube-scheduler's releases count them
like others.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np

from podium.api.core import PriorityClass
from podium.api.groups import PODIUM_GROUP, CompositeGroup, DisruptionMode, PodGroup
from podium.api.membership import GroupKey, key_of
from podium.api.priority import resolve
from podium.api.saving import NOT_SAVED, Declaration, declared
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader
from podium.groups.trees import leaves, lineage, whole_group
from podium.history.trust import distrusted
from podium.planner.arrays import Bools, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.preemption.inflight import free_until
from podium.planner.preemption.outcome import ObjectNamer
from podium.planner.preemption.protection import (
    Exemption,
    exemption,
    group_until,
    protected,
    scheduled_at,
    unknown_tree,
)
from podium.planner.preemption.unitarrays import NO_UNIT, UnitArrays
from podium.planner.progress import gone_by
from podium.planner.semantics import Semantics, UnitRule
from podium.planner.settings import Settings
from podium.planner.snapshot import Snapshot

# An annotation on a Podium group names the class at whose priority it may be preempted.
PREEMPTION_CLASS = f"{PODIUM_GROUP}/preemption-priority-class"


def preemption_priority_of(group: Child, settings: Settings, classes: Mapping[str, PriorityClass]) -> int:
    """Return the priority that a preemptor of a group must exceed, if the rule protects units.

    The priorities of its pods are ignored under every divergence policy (KEP-5710).
    """
    priority = group.priority or 0
    if settings.preemption_priority and not group.native:
        named = (group.metadata.annotations or {}).get(PREEMPTION_CLASS)
        priority_class = resolve(classes, named) if named else None
        priority = max(priority, priority_class.value) if priority_class is not None else priority
    return priority


def root_of(view: ClusterReader, group: Child, semantics: Semantics) -> Child:
    """Return the root of a group's tree, or the group itself if it is in none."""
    return lineage(view, group).root if group.composite and semantics.rules.trees else group


def whole_of(view: ClusterReader, group: PodGroup, semantics: Semantics) -> Child | None:
    """Return the group that is evicted as a whole with a group, None if each pod is a unit."""
    if group.composite and semantics.rules.trees:
        return whole_group(view, group)
    return group if group.disruption_mode is DisruptionMode.POD_GROUP else None


# An annotation on a group of mode PodGroup: "true" lets its members above minCount be evicted one by one.
SHRINK = f"{PODIUM_GROUP}/shrink-to-min-count"
# The rank of the unit of a composite group; that of another group is 1, and that of a pod 0.
_COMPOSITE_RANK = 2
# The `exempt_below` of a pod that tolerates no preemption.
NEVER_EXEMPT = -(2**63)


_Key = TypeVar("_Key", bound=Hashable)


class GroupIndex(Generic[_Key]):
    """The group, or another owner, of each pod row; all rules of one engine share it."""

    def __init__(self) -> None:
        self.group_of: dict[int, _Key] = {}
        self.rows: dict[_Key, set[int]] = {}

    def set_group(self, row: int, key: _Key | None) -> None:
        """Record the group of a pod; None if it has none, or if the pod is gone."""
        before = self.group_of.get(row)
        if before == key:
            return
        if before is not None:
            rows = self.rows[before]
            rows.discard(row)
            if not rows:
                del self.rows[before]
            del self.group_of[row]
        if key is not None:
            self.group_of[row] = key
            self.rows.setdefault(key, set()).add(row)


class Units(UnitArrays):
    """The units of one snapshot under one rule, computed from pods and groups. Call `refresh` first."""

    def __init__(  # noqa: PLR0917 - what an engine is made of, in its order
        self,
        view: ClusterReader,
        snapshot: Snapshot,
        groups: GroupIndex[GroupKey],
        rule: UnitRule,
        settings: Settings,
        leaving: Callable[[Schedulable], bool],
        refusal: Callable[[Schedulable], str],
    ) -> None:
        """Call `mark_changed` when what the functions return may have changed.

        `leaving` returns whether a pod is leaving; `refusal` why the API server refuses its eviction, or "".
        """
        super().__init__(snapshot)
        self.rule = rule
        self.rules = settings.semantics.rules
        self.start_seconds = settings.pod_start_seconds
        self._view = view
        self._groups = groups
        self._settings = settings
        self._leaving = leaving
        self._refusal = refusal
        self._exemptions: dict[str, Exemption | None] = {}
        self._changed: set[int] = set()
        # Pods that were computed and not yet returned, because a refresh was interrupted.
        self._refreshed: set[int] = set()
        self._class_ids: dict[str, int] = {}
        self._grow()
        self.mark_changed(snapshot.pod_row.values())

    def mark_changed(self, rows: Iterable[int]) -> None:
        """Mark these pods as changed: a pod or its group has changed."""
        self._changed.update(rows)

    def mark_all_changed(self) -> None:
        """Mark all pods as changed: the classes or the served API have changed."""
        self._exemptions.clear()
        self._changed.update(self.snapshot.pod_row.values())

    def ordered(self, leads: Rows, now: int) -> Rows:
        """Return units most important first: priority, group over pod, size, earlier start, then UID."""
        start = np.minimum(self.start[leads], now)
        keys = (self.uid_order[leads], start, -self.size[leads], -self.rank[leads], -self.priority[leads])
        order = np.lexsort(keys)
        same = np.ones(max(len(leads) - 1, 0), np.bool_)
        for key in keys:
            same &= key[order[1:]] == key[order[:-1]]
        if same.any():
            order = self._order_by_uid(leads, order, same)
        return leads[order]

    def object_of(self, lead: int) -> tuple[str, str, str]:
        """Return kind, namespace and name of a unit."""
        whole = self.whole_of(lead)
        if whole is not None:
            return whole.ref.kind, whole.ref.namespace, whole.ref.name
        metadata = self.snapshot.pod_at(lead).metadata
        return "Pod", metadata.namespace or "", metadata.name or ""

    def whole_of(self, lead: int) -> Child | None:
        """Return the group that is evicted with a unit, None for the unit of a pod."""
        group = self.group_of(lead)
        return None if group is None or self.single_member.item(lead) else self._whole(group)

    def group_of(self, row: int) -> PodGroup | None:
        """Return the group that a pod is a member of, if it exists and the rule knows groups."""
        key = self._groups.group_of.get(row)
        return None if key is None else self._view.groups.get(key)

    def class_name(self, row: int) -> str:
        """Return the class that a pod counts as: its group's, if the rule knows groups; empty for none."""
        return self._class_name(row, self.group_of(row))

    def _class_name(self, row: int, group: PodGroup | None) -> str:
        if group is not None:
            return self._root(group).priority_class_name
        return self.snapshot.pod_at(row).spec.priorityClassName or ""

    def class_names(self, leads: Rows) -> list[str]:
        """Return the classes that units count as."""
        classes = list(self._class_ids)
        met = np.flatnonzero(np.bincount(self._class_of[leads])).tolist()
        return sorted(classes[class_id] for class_id in met)

    def why_protected(self, lead: int, namer: ObjectNamer) -> str:
        """Return why a unit may never be evicted, empty if it may; `namer` names the cause."""
        core = self.core.item(lead)
        rows, _ = self.evicted_with(np.array([lead if core == NO_UNIT else core], np.intp))
        for row in rows.tolist():
            why = self._why_protected(row, self.group_of(row))
            if why:
                metadata = self.snapshot.pod_at(row).metadata
                name = namer("Pod", metadata.namespace or "", metadata.name or "")
                return why if len(rows) == 1 else f"{name}: {why}"
        return ""

    def exemption_of(self, class_name: str) -> Exemption | None:
        """Return the preemption toleration of a class; None if there is no class name."""
        if class_name not in self._exemptions:
            self._exemptions[class_name] = exemption(self._view.classes.get(class_name), class_name)
        return self._exemptions[class_name]

    def refresh(self, deadline: Deadline = NEVER) -> frozenset[int]:
        """Compute the changed units; return the rows of pods whose unit may have changed.

        If the deadline passes, the next call computes the rest and returns all the rows.
        """
        self._grow()
        changed, refreshed = self._changed, self._refreshed
        if changed:
            self._flat = None
        while changed:
            deadline.enforce()
            row = changed.pop()
            key = self._groups.group_of.get(row)
            group = None if key is None else self._view.groups.get(key)
            refreshed.add(row)
            if key is None or group is None:
                self._compute(row, None, None, 0)
            else:
                rows = self._compute_group(key, group)
                changed -= rows
                refreshed |= rows
        self._refreshed = set()
        return frozenset(refreshed)

    def _compute_group(self, key: GroupKey, group: PodGroup) -> set[int]:
        """Compute the units of a group, and of the groups that are evicted with it; return their pods."""
        whole = self._whole(group)
        if not isinstance(whole, CompositeGroup):
            rows = self._groups.rows[key]
            self._compute_members(group, rows, whole)
        else:
            rows = set()
            for leaf in leaves(self._view, key_of(whole)):
                members = self._groups.rows.get(key_of(leaf), set())
                self._compute_members(leaf, members, whole)
                rows |= members
        if whole is not None:
            self._unite(whole, rows)
        return rows

    def _compute_members(self, group: PodGroup, rows: set[int], whole: Child | None) -> None:
        """Compute the attributes of the pods of a group, each as a unit of its own."""
        shared = not self.rule.own_priority if whole is not None else self.rule.member_priority
        priority = self._group_priority(group) if shared else None
        if isinstance(whole, CompositeGroup):
            rank = _COMPOSITE_RANK
        else:
            rank = int(whole is not None or self.rule.member_rank)
        for row in rows:
            self._compute(row, group, priority, rank)

    def _unite(self, group: Child, rows: set[int]) -> None:
        """Make the running pods of a group, or of a tree, one unit."""
        # By name, because no decision may depend on the order in which pods were read.
        running = sorted((row for row in rows if self.lead.item(row) != NO_UNIT), key=self._name)
        if not running:
            return
        members = np.array(running, np.intp)
        on_the_way = self.snapshot.home[members] != self.snapshot.node[members]
        kept = self.protected[members] & ~on_the_way
        if kept.any() and not kept.all():
            self.single_member[members[kept]] = True
            members = members[~kept]
        tolerates = (
            self.exemption_of(self._root(group).priority_class_name) if self.rules.tolerations else None
        )
        if tolerates is not None:
            self.exempt_until[members] = group_until(tolerates, int(self.exempt_until[members].min()), group)
        self.protected[members] = self.protected[members].any()
        surplus = self._shrinkable(group, members, int(kept.sum()))
        self.single_member[surplus] = True
        self.rank[surplus] = 0
        members = members[~self.single_member[members]]
        first = int(members[0])
        self.lead[members] = first
        self.size[first] = len(members)
        self.start[first] = self.start[members].min()
        self.uid_order[first] = _sortable(group.metadata.uid or "")
        if len(members) > 1:
            self._members[first] = members
        if len(surplus):
            self._surplus[first] = surplus
            self.core[surplus] = first
            self.surplus_count[first] = len(surplus)

    def _shrinkable(self, group: Child, members: Rows, kept: int) -> Rows:
        """Return the members that a group asks to lose one by one; `kept` others stay in any case."""
        asks = self.rules.tolerations and (group.metadata.annotations or {}).get(SHRINK) == "true"
        if not asks or isinstance(group, CompositeGroup) or group.min_count is None:
            return members[:0]
        by_start = members[np.argsort(self.start[members], kind="stable")]
        return by_start[max(group.min_count - kept, 1) :]

    def _compute(self, row: int, group: PodGroup | None, priority: int | None, rank: int) -> None:
        """Compute the attributes of a pod as a unit of its own; a whole group's are united later.

        `priority` is that of its group, None if its own counts.
        """
        snapshot, rules = self.snapshot, self.rules
        self._members.pop(row, None)
        self._surplus.pop(row, None)
        pod = snapshot.pods[row]
        self.lead[row] = self.node[row] = self.core[row] = NO_UNIT
        self.leaving[row] = self.single_member[row] = False
        self.in_unknown_tree[row] = self.refused[row] = False
        self.surplus_count[row] = self.gone_by[row] = 0
        if pod is None:
            return
        at = snapshot.node.item(row)
        # While a bind is in flight, it is not known whether the pod will ever be on the node.
        leaving = self.leaving[row] = self._leaving(pod) and snapshot.home.item(row) == at
        if leaving:
            self.free_until[row] = free_until(pod)
        if at < 0 or (leaving and rules.leaving_free):
            return
        self.node[row] = at
        self.lead[row] = row
        self.priority[row] = (pod.spec.priority if priority is None else priority) or 0
        self.rank[row] = rank
        self.size[row] = 1
        self.start[row] = snapshot.start.item(row)
        of_group = group.metadata.annotations if group is not None else None
        work = declared(pod.metadata.annotations, of_group, pod.spec.terminationGracePeriodSeconds)
        if distrusted(self._view, pod):
            work = Declaration()
        self.work_since[row] = max(self.start.item(row), work.saved)
        on_notice = work.notice if work.notice <= self._settings.notice_seconds else NOT_SAVED
        self.saves_within[row] = min(work.saves_within, on_notice)
        # The time of a checkpoint says more than the time between them.
        self.interval[row] = 0 if work.saved > self.start.item(row) else work.interval
        self.restart[row] = work.restart or self.start_seconds
        self.gone_by[row] = gone_by(self._view, pod, work.run_time, snapshot.start.item(row))
        held = [holding for holder in snapshot.holders for holding in holder.held(row)]
        self.held[row] = sum(holding.amount for holding in held if not holding.shared)
        self.shares_claims[row] = any(holding.shared for holding in held)
        self.uid_order[row] = _sortable(pod.metadata.uid or "")
        name = self._class_name(row, group)
        self._class_of[row] = self._class_ids.setdefault(name, len(self._class_ids))
        self.protected[row] = bool(self._why_protected(row, group))
        self.refused[row] = bool(self._refusal(pod))
        self.in_unknown_tree[row] = bool(unknown_tree(group, self._settings, self._view))
        if rules.tolerations:
            tolerates = self.exemption_of(name)
            self.exempt_below[row] = NEVER_EXEMPT if tolerates is None else tolerates.minimum
            self.exempt_until[row] = 0 if tolerates is None else tolerates.until(scheduled_at(pod))

    def _why_protected(self, row: int, group: PodGroup | None) -> str:
        """Return why a pod may not be evicted, empty if it may."""
        pod = self.snapshot.pod_at(row)
        why = protected(pod, group, self._settings, self._view) or self._refusal(pod)
        if not why and self.snapshot.home.item(row) != self.snapshot.node.item(row):
            # A bind takes moments, so it protects the whole group. Otherwise this member would arrive after
            # the others are gone.
            return "its binding is on the way"
        return why

    def _group_priority(self, group: PodGroup) -> int:
        """Return the priority at which the pods of a group count."""
        root = self._root(group)
        if not self.rules.tolerations:
            return root.priority or 0
        return preemption_priority_of(root, self._settings, self._view.classes)

    def _root(self, group: Child) -> Child:
        return root_of(self._view, group, self._settings.semantics) if group.composite else group

    def _whole(self, group: PodGroup) -> Child | None:
        return whole_of(self._view, group, self._settings.semantics) if self.rule.grouped else None

    def _name(self, row: int) -> str:
        return self.snapshot.pod_at(row).metadata.name or ""

    def _order_by_uid(self, leads: Rows, order: Rows, same: Bools) -> Rows:
        """Return the order by the whole UID, and at last by name, where all integers are equal."""
        result = order.tolist()
        bounds = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
        for first, last in bounds.reshape(-1, 2).tolist():
            run = result[first : last + 1]
            result[first : last + 1] = sorted(run, key=lambda at: self._identity(int(leads[at])))
        return np.array(result, np.intp)

    def _identity(self, lead: int) -> tuple[str, str, str]:
        _, namespace, name = self.object_of(lead)
        whole = self.whole_of(lead)
        uid = whole.metadata.uid if whole is not None else self.snapshot.uids[lead]
        return uid or "", namespace, name


def _sortable(uid: str) -> int:
    """Return an integer that orders as the first eight bytes of a UID do."""
    return int.from_bytes(uid.encode(errors="replace")[:8].ljust(8, b"\0"), "big") - 2**63
