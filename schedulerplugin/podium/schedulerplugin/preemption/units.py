"""What is evicted together: running pods as units, by row, in step with the snapshot.

A unit is one pod, or all running pods of a group that is disrupted as a whole (KEP-5710, "Preemption unit").
A member that may never be evicted is not part of its group's unit: the group goes without it.
A group may ask to shrink before that (SHRINK). Then the minCount members that started first are its core. The
core is one unit, and each other member (its surplus) is a unit of its own. The core goes only with all
of the surplus.
A unit is named by one of its pods' rows, its `lead`, so every attribute is an array by pod row and a choice
among a hundred thousand units is a few operations on arrays. Attributes are worked out when something of the
pod or its group changed, and then only for these.

Pods that are leaving (being deleted, or told to go by a preemption) are in no unit under the spec's rule.
Their room counts as free already, for as long as `terminating` says. kube-scheduler's releases count them
like others.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from podium.api.core import PriorityClass
from podium.api.groups import PODIUM_GROUP, DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.schedulable import Schedulable
from podium.divergence import judge
from podium.priority import resolve
from podium.schedulerplugin.arrays import Bools, Int32s, Int64s, Rows, grown
from podium.schedulerplugin.deadline import NEVER, Deadline
from podium.schedulerplugin.podversions import NO_CHECKPOINT, checkpoint
from podium.schedulerplugin.preemption.naming import Said
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.protection import protected
from podium.schedulerplugin.preemption.terminating import free_until
from podium.schedulerplugin.preemption.toleration import Exemption, exemption, group_until, scheduled_at
from podium.schedulerplugin.settings import DivergencePolicy, Settings
from podium.schedulerplugin.snapshot import Snapshot
from podium.view import View

# A pod that is in no unit: it runs nowhere, or is leaving.
NO_UNIT = -1
# An annotation on a Podium group names the class at whose priority it may be preempted.
PREEMPTION_CLASS = f"{PODIUM_GROUP}/preemption-priority-class"
# An annotation on a group of mode PodGroup: "true" lets its members above minCount go one by one.
SHRINK = f"{PODIUM_GROUP}/shrink-to-min-count"
# The `minimum` of a pod that tolerates no preemption.
NEVER_EXEMPT = -(2**63)

# Of so few units the members are put together one by one, not looked up in an array of all.
_FEW = 64
_ATTRIBUTES = (
    *("priority", "rank", "size", "start", "since", "key"),
    *("guard", "apart", "minimum", "until", "leaving", "free_until", "above", "_class_of"),
)


_Key = TypeVar("_Key", bound=Hashable)


class UnitRule(NamedTuple):
    """How running pods are cut into units, and who may not be touched.

    `grouped`: a group of mode PodGroup is one unit. `member_priority`: members of the other groups count with
    the group's integer. `member_rank`: they rank as groups do. `guarded`: tolerations, namespaces and
    schedulers protect, and who is leaving is gone already (the spec's rule, and Podium's).
    """

    grouped: bool
    member_priority: bool
    member_rank: bool
    guarded: bool


def unit_rule(semantics: Semantics, *, for_group: bool) -> UnitRule:
    """Give the rule by which the victims of a pod, or of a group, are cut.

    1.36 knows groups only where the preemptor is one, and takes the pods' own integers in mode Pod.
    """
    if semantics is Semantics.KEP:
        return UnitRule(grouped=True, member_priority=True, member_rank=False, guarded=True)
    if semantics is Semantics.V1_37:
        return UnitRule(grouped=True, member_priority=True, member_rank=True, guarded=False)
    knows = semantics is Semantics.V1_36 and for_group
    return UnitRule(grouped=knows, member_priority=False, member_rank=knows, guarded=False)


def guarded_priority(
    group: PodGroup, lowest: int, settings: Settings, classes: Mapping[str, PriorityClass]
) -> int:
    """Give what a preemptor of a group must exceed where units are guarded.

    `lowest` is the least integer among the group and its members, which counts under NoPreemption.
    """
    priority = lowest if settings.divergence is DivergencePolicy.NO_PREEMPTION else group.priority or 0
    if settings.preemption_priority and not group.native:
        named = (group.metadata.annotations or {}).get(PREEMPTION_CLASS)
        found = resolve(classes, named) if named else None
        priority = max(priority, found.value) if found is not None else priority
    return priority


class Membership(Generic[_Key]):
    """Which pod rows are of which group, or of another owner; shared by all rules of one engine."""

    def __init__(self) -> None:
        self.group_of: dict[int, _Key] = {}
        self.rows: dict[_Key, set[int]] = {}

    def put(self, row: int, key: _Key | None) -> None:
        """Note the group of a pod, None for none (or no pod any more)."""
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


class Units:
    """The units of one snapshot under one rule; arrays by pod row, of which a lead's hold the unit's.

    `lead` is NO_UNIT for pods in none, `at` the node row where a pod of a unit runs. `priority` is what a
    preemptor must exceed, `rank` 1 for a group, `size` the running members, `start` the earliest start
    (NO_START: none, which counts as now), `since` the time after which work would be lost, `key` orders by
    UID, `guard` whether the unit may not be evicted, `apart` whether the unit is one member of a group that
    goes as a whole otherwise, and (`minimum`, `until`) the preemption toleration: exempt from preemptors
    below the one before the other (seconds). Of a core `above` counts the surplus, of a surplus `core` is the
    lead of its core (else NO_UNIT). Call `refresh` first.
    """

    def __init__(  # noqa: PLR0917 - what an engine is made of, in its order
        self,
        view: View,
        snapshot: Snapshot,
        groups: Membership[GroupKey],
        rule: UnitRule,
        settings: Settings,
        leaving: Callable[[Schedulable], bool],
    ) -> None:
        """`leaving` says of a pod whether it is on its way out; what it goes by may change (`touch`)."""
        self.snapshot = snapshot
        self.rule = rule
        self._view = view
        self._groups = groups
        self._settings = settings
        self._leaving = leaving
        self._exemptions: dict[str, Exemption | None] = {}
        self._changed: set[int] = set()
        # Pods that were worked out, and are in the result of the next refresh that ends.
        self._refreshed: set[int] = set()
        self.lead: Int32s = np.zeros(0, np.int32)
        self.at: Int32s = np.zeros(0, np.int32)
        self.priority: Int64s = np.zeros(0, np.int64)
        self.rank: Int32s = np.zeros(0, np.int32)
        self.size: Int32s = np.zeros(0, np.int32)
        self.start: Int64s = np.zeros(0, np.int64)
        self.since: Int64s = np.zeros(0, np.int64)
        self.key: Int64s = np.zeros(0, np.int64)
        self.guard: Bools = np.zeros(0, np.bool_)
        self.apart: Bools = np.zeros(0, np.bool_)
        self.minimum: Int64s = np.zeros(0, np.int64)
        self.until: Int64s = np.zeros(0, np.int64)
        self.leaving: Bools = np.zeros(0, np.bool_)
        self.free_until: Int64s = np.zeros(0, np.int64)
        self.above: Int32s = np.zeros(0, np.int32)
        self.core: Int32s = np.zeros(0, np.int32)
        self._class_of: Int32s = np.zeros(0, np.int32)
        self._class_ids: dict[str, int] = {}
        self._classes: list[str] = []
        self._members: dict[int, Rows] = {}
        # By the lead of a core, its surplus.
        self._surplus: dict[int, Rows] = {}
        self._flat: tuple[Rows, Rows] | None = None
        self._grow()
        self.touch(snapshot.pod_row.values())

    def touch(self, rows: Iterable[int]) -> None:
        """Note that something of these pods, or of their groups, changed."""
        self._changed.update(rows)

    def touch_all(self) -> None:
        """Note that what all pods depend on changed: classes, or which API is served."""
        self._exemptions.clear()
        self._changed.update(self.snapshot.pod_row.values())

    def members(self, lead: int) -> Rows:
        """Give the rows of the pods of a unit, by name."""
        found = self._members.get(lead)
        return np.array((lead,), np.intp) if found is None else found

    def with_surplus(self, leads: Rows) -> Rows:
        """Return the units and the surplus of the cores among them, in no particular order."""
        cores = leads[self.above[leads] > 0]
        if not len(cores):
            return leads
        return np.union1d(leads, np.concatenate([self._surplus[core] for core in cores.tolist()]))

    def without_held_cores(self, leads: Rows) -> Rows:
        """Return the units but for cores of which some surplus is not among the units."""
        among = np.zeros(len(self.lead), np.bool_)
        among[leads] = True
        self.hold_cores(among)
        return leads[among[leads]]

    def hold_cores(self, may: Bools) -> None:
        """Unmark, by row, cores of which some surplus is not marked."""
        if self._surplus:
            may[self.core[(self.core != NO_UNIT) & ~may]] = False

    def members_of(self, leads: Rows) -> tuple[Rows, Int64s]:
        """Return the rows of the pods of each of these units, and how many those are."""
        return self.all_members(leads), self.size[leads].astype(np.int64)

    def going_with(self, leads: Rows) -> tuple[Rows, Int64s]:
        """Return the rows of all pods that go with each of these units, and how many those are."""
        sizes = self.size[leads].astype(np.int64) + self.above[leads]
        rows, owners = self.all_members(leads), np.repeat(np.arange(len(leads)), self.size[leads])
        cores = np.flatnonzero(self.above[leads])
        if not len(cores):
            return rows, sizes
        more = [self._surplus[core] for core in leads[cores].tolist()]
        owners = np.concatenate([owners, np.repeat(cores, self.above[leads[cores]])])
        return np.concatenate([rows, *more])[np.argsort(owners, kind="stable")], sizes

    def all_members(self, leads: Rows) -> Rows:
        """Give the rows of the pods of many units, unit by unit."""
        sizes = self.size[leads]
        several = sizes > 1
        if not several.any():
            return leads
        if len(leads) <= _FEW:
            return np.concatenate([self.members(lead) for lead in leads.tolist()])
        rows = np.repeat(leads, sizes)
        flat, first = self._laid_out()
        wide = leads[several]
        begins = np.repeat(first[wide], self.size[wide])
        within = np.arange(len(begins)) - np.repeat(
            np.cumsum(self.size[wide]) - self.size[wide], self.size[wide]
        )
        rows[np.repeat(several, sizes)] = flat[begins + within]
        return rows

    def on_node(self, node: int) -> Rows:
        """Return the leads of the units with a pod on a node (its row), ascending."""
        leads = self.lead[self.snapshot.pods_on(node)]
        return np.unique(leads[leads != NO_UNIT]).astype(np.intp)

    def ordered(self, leads: Rows, now: int) -> Rows:
        """Give units most important first: priority, group over pod, size, earlier start, then UID."""
        start = np.minimum(self.start[leads], now)
        keys = (self.key[leads], start, -self.size[leads], -self.rank[leads], -self.priority[leads])
        order = np.lexsort(keys)
        same = np.ones(max(len(leads) - 1, 0), np.bool_)
        for key in keys:
            same &= key[order[1:]] == key[order[:-1]]
        if same.any():
            order = self._by_uid(leads, order, same)
        return leads[order]

    @property
    def is_lead(self) -> Bools:
        """Say of each row whether it names a unit."""
        is_lead: Bools = self.lead == np.arange(len(self.lead), dtype=np.int32)
        return is_lead

    def open_to(self, priority: int, now: int) -> Bools:
        """Say of each row whether it names a unit that a preemptor of that priority may take."""
        return self.is_lead & (self.priority < priority) & ~self.guard & ~self.exempt(priority, now)

    def going(self, now: int) -> Bools:
        """Return of each row whether its pod is leaving, and its room counts as free still."""
        going: Bools = self.leaving & (now < self.free_until)
        return going

    def exempt(self, priority: int, now: int) -> Bools:
        """Say of each lead whether its unit tolerates a preemptor of that priority still."""
        exempt: Bools = (priority < self.minimum) & (now < self.until)
        return exempt

    def object_of(self, lead: int) -> tuple[str, str, str]:
        """Give kind, namespace and name of a unit."""
        key = self._groups.group_of.get(lead)
        if key is not None and not self.apart.item(lead) and self._whole(self._view.groups.get(key)):
            return "PodGroup", key.namespace, key.name
        metadata = self._pod(lead).metadata
        return "Pod", metadata.namespace or "", metadata.name or ""

    def group_of(self, row: int) -> PodGroup | None:
        """Give the group that a pod is a member of, if it exists and the rule knows groups."""
        key = self._groups.group_of.get(row)
        return None if key is None else self._view.groups.get(key)

    def class_name(self, row: int) -> str:
        """Give the class that a pod counts as: its group's, if the rule knows groups; empty for none."""
        group = self.group_of(row)
        return group.priority_class_name if group is not None else self._pod(row).spec.priorityClassName or ""

    def class_names(self, leads: Rows) -> list[str]:
        """Give the classes that units count as."""
        return sorted(
            self._classes[each] for each in np.flatnonzero(np.bincount(self._class_of[leads])).tolist()
        )

    def why_guarded(self, lead: int, said: Said) -> str:
        """Say why a unit may never be touched, empty if it may; `said` names a member that is why."""
        core = self.core.item(lead)
        rows, _ = self.going_with(np.array([lead if core == NO_UNIT else core], np.intp))
        for row in rows.tolist():
            why = self._why_never(row)
            if why:
                metadata = self._pod(row).metadata
                name = said("Pod", metadata.namespace or "", metadata.name or "")
                return why if len(rows) == 1 else f"{name}: {why}"
        return ""

    def exemption_of(self, class_name: str) -> Exemption | None:
        """Give the preemption toleration of a class; None where there is none, or it cannot be read."""
        if class_name not in self._exemptions:
            self._exemptions[class_name] = exemption(self._view.classes.get(class_name), class_name)
        return self._exemptions[class_name]

    def refresh(self, deadline: Deadline = NEVER) -> frozenset[int]:
        """Work out what changed; give the rows of pods whose unit may be another than before.

        If the deadline passes, the rest stays to be worked out by the next call, which gives all the rows.
        """
        self._grow()
        changed, refreshed = self._changed, self._refreshed
        if changed:
            self._flat = None
        while changed:
            deadline.check()
            row = changed.pop()
            key = self._groups.group_of.get(row)
            group = None if key is None else self._view.groups.get(key)
            refreshed.add(row)
            if key is None or group is None:
                self._work_out(row, None, None)
            else:
                rows = self._groups.rows[key]
                self._work_out_group(key, group, rows)
                changed -= rows
                refreshed |= rows
        self._refreshed = set()
        return frozenset(refreshed)

    def _laid_out(self) -> tuple[Rows, Rows]:
        """Give the members of all units of several pods in one array, and where those of a lead begin."""
        if self._flat is None:
            leads = np.fromiter(self._members, np.intp, len(self._members))
            first = np.zeros(len(self.lead), np.intp)
            first[leads] = np.cumsum(self.size[leads]) - self.size[leads]
            self._flat = (np.concatenate(list(self._members.values())), first)
        return self._flat

    def _work_out_group(self, key: GroupKey, group: PodGroup, rows: set[int]) -> None:
        priority = self._group_priority(key, group)
        for row in rows:
            self._work_out(row, group, priority)
        if not self._whole(group):
            return
        # By name, for nothing may depend on the order in which pods were read.
        running = sorted((row for row in rows if self.lead.item(row) != NO_UNIT), key=self._name)
        if not running:
            return
        members = np.array(running, np.intp)
        on_the_way = self.snapshot.home[members] != self.snapshot.node[members]
        kept = self.guard[members] & ~on_the_way
        if kept.any() and not kept.all():
            self.apart[members[kept]] = True
            members = members[~kept]
        tolerates = self.exemption_of(group.priority_class_name) if self.rule.guarded else None
        if tolerates is not None:
            self.until[members] = group_until(tolerates, int(self.until[members].min()), group)
        self.guard[members] = self.guard[members].any()
        surplus = self._above_min_count(group, members, int(kept.sum()))
        self.apart[surplus] = True
        self.rank[surplus] = 0
        members = members[~self.apart[members]]
        first = int(members[0])
        self.lead[members] = first
        self.size[first] = len(members)
        self.start[first] = self.start[members].min()
        self.key[first] = _sortable(group.metadata.uid or "")
        if len(members) > 1:
            self._members[first] = members
        if len(surplus):
            self._surplus[first] = surplus
            self.core[surplus] = first
            self.above[first] = len(surplus)

    def _above_min_count(self, group: PodGroup, members: Rows, kept: int) -> Rows:
        """Return the members that a group asks to lose one by one; `kept` others stay in any case."""
        asks = self.rule.guarded and (group.metadata.annotations or {}).get(SHRINK) == "true"
        if not asks or group.min_count is None:
            return members[:0]
        by_start = members[np.argsort(self.start[members], kind="stable")]
        return by_start[max(group.min_count - kept, 1) :]

    def _work_out(self, row: int, group: PodGroup | None, group_priority: int | None) -> None:
        """Work out a pod as a unit of its own."""
        snapshot, rule = self.snapshot, self.rule
        self._members.pop(row, None)
        self._surplus.pop(row, None)
        pod = snapshot.pods[row]
        self.lead[row] = self.at[row] = self.core[row] = NO_UNIT
        self.leaving[row] = self.apart[row] = False
        self.above[row] = 0
        if pod is None:
            return
        at = snapshot.node.item(row)
        # Of a pod whose binding is on the way nobody knows yet whether it will ever be there.
        leaving = self.leaving[row] = self._leaving(pod) and snapshot.home.item(row) == at
        if leaving:
            self.free_until[row] = free_until(pod)
        if at < 0 or (leaving and rule.guarded):
            return
        self.at[row] = at
        whole = self._whole(group)
        own = group_priority is None or not (whole or rule.member_priority)
        self.lead[row] = row
        self.priority[row] = (pod.spec.priority if own else group_priority) or 0
        self.rank[row] = group is not None and (whole or rule.member_rank)
        self.size[row] = 1
        self.start[row] = snapshot.start.item(row)
        saved = checkpoint(pod.metadata)
        if group is not None and saved == NO_CHECKPOINT:
            saved = checkpoint(group.metadata)
        self.since[row] = max(snapshot.start.item(row), saved)
        self.key[row] = _sortable(pod.metadata.uid or "")
        name = self.class_name(row)
        self._class_of[row] = self._class_ids.setdefault(name, len(self._class_ids))
        if len(self._classes) < len(self._class_ids):
            self._classes.append(name)
        self.guard[row] = bool(self._why_never(row))
        if rule.guarded:
            tolerates = self.exemption_of(name)
            self.minimum[row] = NEVER_EXEMPT if tolerates is None else tolerates.minimum
            self.until[row] = 0 if tolerates is None else tolerates.until(scheduled_at(pod))

    def _why_never(self, row: int) -> str:
        """Return why a pod may not be evicted, empty if it may."""
        why = protected(self._pod(row), self._settings, self._view)
        if why is None and self.snapshot.home.item(row) != self.snapshot.node.item(row):
            # A bind takes moments, so it holds up the whole group: the others would go, and this one arrive.
            return "its binding is on the way"
        return why or ""

    def _group_priority(self, key: GroupKey, group: PodGroup) -> int:
        if not self.rule.guarded:
            return group.priority or 0
        settings, lowest = self._settings, group.priority or 0
        if settings.divergence is DivergencePolicy.NO_PREEMPTION:
            lowest = judge(group, self._view.members(key).values()).priority.lowest
        return guarded_priority(group, lowest, settings, self._view.classes)

    def _whole(self, group: PodGroup | None) -> bool:
        return self.rule.grouped and group is not None and group.disruption_mode is DisruptionMode.POD_GROUP

    def _name(self, row: int) -> str:
        return self._pod(row).metadata.name or ""

    def _pod(self, row: int) -> Schedulable:
        pod = self.snapshot.pods[row]
        assert pod is not None
        return pod

    def _by_uid(self, leads: Rows, order: Rows, same: Bools) -> Rows:
        """Order by the whole UID, and last by name, where all that is an integer is equal."""
        result = order.tolist()
        bounds = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
        for first, last in bounds.reshape(-1, 2).tolist():
            run = result[first : last + 1]
            result[first : last + 1] = sorted(run, key=lambda at: self._identity(int(leads[at])))
        return np.array(result, np.intp)

    def _identity(self, lead: int) -> tuple[str, str, str]:
        kind, namespace, name = self.object_of(lead)
        group = self.group_of(lead) if kind == "PodGroup" else None
        uid = group.metadata.uid if group is not None else self.snapshot.uids[lead]
        return uid or "", namespace, name

    def _grow(self) -> None:
        size = len(self.snapshot.node)
        if len(self.lead) == size:
            return
        self.lead = grown(self.lead, size, NO_UNIT)
        self.at = grown(self.at, size, NO_UNIT)
        self.core = grown(self.core, size, NO_UNIT)
        for name in _ATTRIBUTES:
            setattr(self, name, grown(getattr(self, name), size))


def _sortable(uid: str) -> int:
    """Give an integer that orders as the first eight bytes of a UID do."""
    return int.from_bytes(uid.encode(errors="replace")[:8].ljust(8, b"\0"), "big") - 2**63
