"""Maps a change in the cluster to the entries it concerns, and to the entries it could help.

A large cluster changes hundreds of times a second, mostly in ways that decide nothing (a kubelet's reports,
our own conditions). So a change is classified at once and cheaply, from the object before and after. Which
entries it could help is computed later, once for many changes. A look at all pods of a group, of a tree or
of an object waits too (`catch_up`), because a tenant chooses how many these are.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from podium.api.core import Namespace, PodDisruptionBudget, PriorityClass
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup
from podium.api.membership import GroupKey, key_of, parent_key
from podium.api.podrequests import resized
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.cluster.reader import Child, Name, group_of, name_of
from podium.cluster.state import Readable
from podium.groups.divergence import reported
from podium.groups.trees import group_at, members_below
from podium.planner.liveplugin import ObjectKey
from podium.planner.overlay import PENDING
from podium.planner.preemption.protection import exemption, protected
from podium.planner.progress import created_claims
from podium.planner.rejections import rejected_for
from podium.planner.settings import Budgets
from podium.planner.snapshot import declared_features
from podium.schedulerplugin.scheduling.effects import Key, pod_ref
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.queueinghints import Hints


class Changes:
    """The changes since the last look: `touched` entries, `objects` of plugins, and our `rejected` pods.

    `gated` says that all entries that are held back must be looked at. `given_up` are objects whose
    controllers gave up.
    """

    def __init__(
        self, engine: LiveEngine, hints: Hints, entry_pods: EntryPods, *, waits: Callable[[Key], bool]
    ) -> None:
        """`waits` returns whether an entry is in the queue."""
        self.touched: set[Key] = set()
        self.rejected: list[Schedulable] = []
        self.gated = False
        self.objects: set[ObjectKey] = set()
        self.given_up: set[ObjectKey] = set()
        self._engine = engine
        self._hints = hints
        self._entry_pods = entry_pods
        self._waits = waits
        # The nodes on which pods without a node count: the bind is in flight, or the node is reserved.
        self._counted_on: dict[Name, str] = {}
        # Those of them whose binds are in flight. Such a bind may succeed even if the node is deleted
        # meanwhile.
        self._binding: dict[Name, str] = {}
        # The groups of those pods, and the number of binds of each group.
        self._group_of_bind: dict[Name, GroupKey] = {}
        self._groups_in_flight = Counter[GroupKey]()
        # For `catch_up`: objects with users that changed, entries of groups that changed, groups
        # whose last bind ended, and by root the nodes of pods that were bound.
        self._used: set[ObjectKey] = set()
        self._changed: set[GroupKey] = set()
        self._settled: set[GroupKey] = set()
        self._came: dict[GroupKey, set[int]] = {}

    @property
    def binding(self) -> Mapping[Name, str]:
        """The pods whose binds are in flight, each with its node."""
        return self._binding

    @property
    def unsettled(self) -> bool:
        """Whether `catch_up` has something to do."""
        return bool(self._used or self._changed or self._settled or self._came)

    def catch_up(self) -> None:
        """Record what the changes of groups and their members mean for others: one walk of each tree."""
        used, self._used = self._used, set()
        changed, self._changed = self._changed, set()
        settled, self._settled = self._settled, set()
        came, self._came = self._came, {}
        for plugin in self._engine.snapshot.plugins:
            for object_key in used:
                self.touched.update(self._entry_pods.keys(plugin.users(object_key)))
        for key in changed:
            self._members_changed(key)
        for key in settled:
            if _is_whole(group_at(self._engine.view, key)):
                self._whole_settled(key)
        for key, nodes in came.items():
            self._note_victims(key, nodes)

    def apply(self, before: Readable | None, after: Readable | None) -> None:
        """Record one change of an object, after the engine has applied it; pass this to State.observe."""
        match before if after is None else after:
            case Schedulable():
                self._pod(_as_pod(before), _as_pod(after))
            case SchedulableNode():
                self._node(before, after)
            case PodGroup() | CompositeGroup():
                if not _same_group(before, after):
                    self._group(before, after)
            case PriorityClass():
                self._hints.note_rules()
                self.gated = True
            case PodDisruptionBudget():
                self._hints.note_rules()
            case Namespace():
                self._hints.note_neighbours()
            case _:
                self._plugin_object(before, after)

    def _plugin_object(self, before: Readable | None, after: Readable | None) -> None:
        """Record a change of an object that a plugin follows."""
        for plugin in self._engine.snapshot.plugins:
            wakeup = plugin.events(before, after)
            if wakeup is None:
                continue
            if wakeup.restricted:
                self._hints.note_restricted()
            for row in wakeup.nodes:
                self._hints.note_node(row)
            for row in wakeup.attaching:
                self._hints.note_attaching(row)
            self.gated |= wakeup.gated
            self.objects.update(wakeup.objects)
            self.given_up.update(wakeup.objects if wakeup.gave_up else ())
            self._used.update(wakeup.used)
            return

    def count_on(self, pod: Name, node: str) -> None:
        """Record the node on which a pod counts that has none in the API server; empty ends this."""
        left = self._counted_on.pop(pod, "")
        if node:
            self._counted_on[pod] = node
        if left and left != node:
            self._room(left, None)

    def bind_sent(self, pod: Name, node: str) -> None:
        """Record a bind in flight: the pod counts on any node that has that name by then."""
        self._binding[pod] = node
        stored = self._engine.view.pods.get(pod)
        group = group_of(self._engine.view, stored) if stored is not None else None
        if group is not None:
            key = key_of(self._engine.whole_of(group) or group)
            self._group_of_bind[pod] = key
            self._groups_in_flight[key] += 1
        self.count_on(pod, node)

    def bind_failed(self, pod: Name, node: str) -> None:
        """Record a failed bind: until now the pod took room from all others, and could not be evicted."""
        if self._binding.get(pod) == node:
            self._end_bind(pod)
        row = self._engine.snapshot.row.get(node)
        if row is not None:
            self._hints.note_outranked(row, self._engine.priority_of(self._engine.snapshot.pod_row[pod]))

    def marked(self, rows: Iterable[int]) -> None:
        """Record pods (rows) that are marked for deletion."""
        for row in rows:
            pod = self._engine.snapshot.pods[row]
            if pod is not None:
                self._leaving(pod)

    def unmarked(self, rows: Collection[int]) -> None:
        """Record pods (rows) that stay after all: each counts toward its group again, and may be evicted."""
        self.touched.update(self._entry_pods.keys(rows))
        self._hints.note_rules()

    def unanswered(self, rows: Iterable[int]) -> bool:
        """Return whether a bind is in flight for one of these pods, whose node was deleted."""
        pods = self._engine.snapshot.pods
        return any(
            pod is not None and pod_ref(pod).key in self._binding for pod in map(pods.__getitem__, rows)
        )

    def _pod(self, before: Schedulable | None, after: Schedulable | None) -> None:
        if before is not None and _is_bound(before):
            self._bound_changed(before, after)
        elif (
            before is not None
            and _nomination(before) not in ("", _place(after))
            # Our own decision takes precedence over the status.
            and pod_ref(before).key not in self._counted_on
        ):
            self._room(_nomination(before), before)
        if after is not None and _is_bound(after) and (before is None or not _is_bound(before)):
            self._hints.note_neighbour(after, left=False)
            if pod_ref(after).key not in self._counted_on:
                self._taken(after)
        self._settle(before, after)
        pods, same = [pod for pod in (before, after) if pod is not None], _same_for_scheduling(before, after)
        if not same or (after is not None and self._was_nominated(after)):
            keys = {self._entry_pods.key(pod) for pod in pods if self._entry_pods.is_ours(pod)}
            # Changes of a pod that has a node, or needs none, matter only if other pods of its entry wait.
            begins = after is not None and not _is_bound(after) and not after.finished
            self.touched.update(key for key in keys if begins or self._waits(key))

    def _settle(self, before: Schedulable | None, after: Schedulable | None) -> None:
        """Forget the assumed node of a pod that is bound or gone now."""
        pod = before if after is None else after
        name = pod_ref(pod).key if pod is not None else None
        if name is None or (name not in self._counted_on and name not in self._binding):
            return
        if after is None or after.finished or (before is not None and not _same_pod(before, after)):
            if self._end_bind(name):
                # The other pods of its decision may wait for writes together with it.
                self.touched.update(
                    self._entry_pods.key(version) for version in (before, after) if version is not None
                )
            self.count_on(name, "")
        elif _is_bound(after):
            self._end_bind(name)
            self.count_on(name, after.spec.nodeName or "")
            del self._counted_on[name]
            row = self._engine.snapshot.row.get(after.spec.nodeName or "")
            group = group_of(self._engine.view, after)
            # Until the bind was in the API server, no preemptor could evict the pod.
            if row is not None and group is None:
                self._hints.note_victim(row, after.spec.priority or 0)
            elif row is not None and group is not None:
                self._came.setdefault(key_of(self._engine.root_of(group)), set()).add(row)

    def _end_bind(self, pod: Name) -> bool:
        """Record that no bind of a pod is in flight any more; return whether one was."""
        key = self._group_of_bind.pop(pod, None)
        if key is not None:
            self._groups_in_flight[key] -= 1
            if not self._groups_in_flight[key]:
                del self._groups_in_flight[key]
                self._settled.add(key)
        return self._binding.pop(pod, None) is not None

    def _whole_settled(self, key: GroupKey) -> None:
        """Record that the members of a group may be evicted from now on, wherever they run.

        A group that is evicted as a whole is no victim while a bind of a member is in flight.
        """
        row_of, node = self._engine.snapshot.pod_row, self._engine.snapshot.node
        rows = (row_of.get(name_of(pod)) for pod in members_below(self._engine.view, key))
        nodes = {node.item(row) for row in rows if row is not None} - {PENDING}
        self._note_victims(self._entry_pods.entry_of(key), nodes)

    def _note_victims(self, root: GroupKey, nodes: Iterable[int]) -> None:
        """Record nodes with pods of a group or tree that may be evicted now: its lowest priority counts."""
        group, pods = group_at(self._engine.view, root), members_below(self._engine.view, root)
        own = 0 if group is None else group.priority or 0
        lowest = min((pod.spec.priority or 0 for pod in pods), default=own)
        for node in nodes:
            self._hints.note_victim(node, min(own, lowest))

    def _survived(self, pod: Schedulable, row: int | None = None) -> int | None:
        """Return what `survived_priority` does; a group with a bind in flight survives every preemptor."""
        group = group_of(self._engine.view, pod)
        whole = None if group is None else self._engine.whole_of(group)
        if whole is not None and key_of(whole) in self._groups_in_flight:
            return None
        return _survived_priority(self._engine, pod, row)

    def _was_nominated(self, pod: Schedulable) -> bool:
        """Return whether another writer nominated a node for a pod.

        The nomination counts until we have looked at the pod.
        """
        node, name = _nomination(pod), pod_ref(pod).key
        if not node or self._counted_on.get(name) == node:
            return False
        row = self._engine.snapshot.pod_row.get(name)
        return row is not None and self._engine.nomination(row) == node

    def _bound_changed(self, before: Schedulable, after: Schedulable | None) -> None:
        """Record the room that a bound pod frees: it leaves its node, or requests less."""
        if after is None or after.finished or not _same_pod(before, after):
            self._hints.note_gone(before.metadata.uid or "")
            if not before.finished:
                self._room(before.spec.nodeName or "", before)
                self._hints.note_neighbour(before, left=True)
                for plugin in self._engine.snapshot.plugins:
                    self._hints.note_released(plugin.used_alone(before))
        else:
            if before.spec.containers != after.spec.containers or resized(before) != resized(after):
                self._room(before.spec.nodeName or "", before)
                self._taken(after)
            if before.metadata.deletionTimestamp != after.metadata.deletionTimestamp:
                self._leaving(after)
            if before.metadata.labels != after.metadata.labels:
                self._hints.note_neighbour(before, left=True)
                self._hints.note_neighbour(after, left=False)
                if self._entry_pods.key(before) != self._entry_pods.key(after):
                    self._hints.note_rules()
        ended = after is not None and after.finished and not before.finished
        if after is not None and ended and self._entry_pods.is_ours(after) and rejected_for(after):
            self.rejected.append(after)
            self.touched.add(self._entry_pods.key(after))

    def _group(self, *changed: Readable | None) -> None:
        """Record a group that changed: its pods wait for it, or run and may be evicted now.

        Its pods with reserved nodes may hold them at a lower priority, against fewer other pods. The same is
        true of the pods of its tree, and those of the trees that it joined or left.
        """
        entries = set[GroupKey]()
        for group in changed:
            if isinstance(group, PodGroup | CompositeGroup):
                entries |= {key_of(group), *map(self._entry_pods.entry_of, (key_of(group), *_parent(group)))}
        self.touched |= entries
        self._changed |= entries

    def _members_changed(self, key: GroupKey) -> None:
        rows = self._engine.snapshot.pod_row
        for pod in members_below(self._engine.view, key):
            if pod.spec.nodeName:
                self._hints.note_rules()
            row = rows.get(name_of(pod))
            if row is not None and (held := self._engine.nomination(row)):
                self._room(held, None)

    def _room(self, node: str, pod: Schedulable | None) -> None:
        """Record that a pod frees room on a node; None for a pod that no preemptor could have evicted."""
        row = self._engine.snapshot.row.get(node)
        if row is not None:
            level = None if pod is None else self._survived(pod)
            self._hints.note_room(row, level or 0, protected=level is None)

    def _leaving(self, pod: Schedulable) -> None:
        """Record that a pod will leave its node."""
        row = self._engine.snapshot.row.get(pod.spec.nodeName or "")
        if row is not None:
            level = self._survived(pod, self._engine.snapshot.pod_row.get(pod_ref(pod).key))
            self._hints.note_leaving(row, level or 0, protected=level is None)

    def _taken(self, pod: Schedulable) -> None:
        """Record that a pod takes room on its node that this scheduler did not give it."""
        row = self._engine.snapshot.row.get(pod.spec.nodeName or "")
        if row is not None:
            self._hints.note_taken(row)

    def _node(self, before: Readable | None, after: Readable | None) -> None:
        """Record a node that came or changed its offer; touch the entries that counted on a deleted node."""
        if isinstance(after, SchedulableNode):
            row = self._engine.snapshot.row.get(after.metadata.name or "")
            if row is not None and before is None:
                self._return(after.metadata.name or "", row)
            if row is not None and not _same_node(before, after):
                self._hints.note_node(row)
                pods = map(self._engine.snapshot.pods.__getitem__, self._engine.snapshot.pods_on(row))
                self._regroup(pod for pod in pods if pod is not None)
            return
        gone = (before.metadata.name or "") if isinstance(before, SchedulableNode) else ""
        snapshot = self._engine.snapshot
        binding = (snapshot.pod_row.get(pod) for pod, node in self._binding.items() if node == gone)
        rows = {*self._engine.nominations.on_name(gone), *(row for row in binding if row is not None)}
        unbound = (row for row in rows if not _is_bound(snapshot.pod_at(row)))
        self.touched.update(self._entry_pods.keys(unbound))
        self._regroup(map(snapshot.pod_at, snapshot.stranded(gone)))

    def _regroup(self, members: Iterable[Schedulable]) -> None:
        """Look again at the groups of pods whose node changed, because members bind others to its domain."""
        groups = (group_of(self._engine.view, pod) for pod in members)
        keys = {key_of(group) for group in groups if group is not None}
        self.touched.update(key for key in keys if self._waits(key))

    def _return(self, name: str, node_row: int) -> None:
        """Assume pods again on a node that was recreated, if their binds to that name are in flight."""
        snapshot = self._engine.snapshot
        for pod in [pod for pod, node in self._binding.items() if node == name]:
            row = snapshot.pod_row.get(pod)
            if row is not None and snapshot.node.item(row) == PENDING:
                self._engine.assume(row, node_row)
                self.count_on(pod, name)


def _parent(group: Child) -> tuple[GroupKey, ...]:
    parent = parent_key(group)
    return () if parent is None else (parent,)


def _is_whole(group: Child | None) -> bool:
    """Return whether the members of a group are evicted all together."""
    return group is not None and group.disruption_mode is DisruptionMode.POD_GROUP


def _as_pod(obj: Readable | None) -> Schedulable | None:
    return obj if isinstance(obj, Schedulable) else None


def _same_pod(before: Schedulable, after: Schedulable) -> bool:
    return before.metadata.uid == after.metadata.uid


def _is_bound(pod: Schedulable) -> bool:
    return bool(pod.spec.nodeName)


def _place(pod: Schedulable | None) -> str:
    """Return the node that a pod has, or that is reserved for it."""
    return "" if pod is None else pod.spec.nodeName or _nomination(pod)


def _nomination(pod: Schedulable) -> str:
    status = pod.status
    return "" if status is None or pod.spec.nodeName else status.nominatedNodeName or ""


def _same_for_scheduling(before: Schedulable | None, after: Schedulable | None) -> bool:
    """Return whether a change leaves all as it was that decides when and where a pod may be scheduled."""
    if before is None or after is None:
        return False
    was, now = before.metadata, after.metadata
    return (
        (was.uid, was.deletionTimestamp, before.finished) == (now.uid, now.deletionTimestamp, after.finished)
        and was.labels == now.labels
        and before.spec == after.spec
        and created_claims(before) == created_claims(after)
    )


def _same_group(before: Readable | None, after: Readable | None) -> bool:
    """Return whether nothing of a group changed but its status, and not the priority its status reports."""
    if isinstance(before, PodGroup | CompositeGroup) and isinstance(after, PodGroup | CompositeGroup):
        return _group_facts(before) == _group_facts(after)
    return False


def _group_facts(group: Child) -> tuple[Any, ...]:
    """Return what decides when and where the pods of a group may be scheduled, or evicted."""
    metadata = group.metadata
    facts = (
        *(metadata.uid, metadata.annotations, group.disruption_mode, group.priority),
        *(group.priority_class_name, group.preemption_policy, group.topology, group.composite),
    )
    if isinstance(group, CompositeGroup):
        return *facts, group.min_group_count
    return *facts, group.min_count, group.demands, reported(group)


def _same_node(before: Readable | None, after: SchedulableNode) -> bool:
    """Return whether a node offers the same to the same pods as before."""
    if not isinstance(before, SchedulableNode):
        return False
    offered = [node.status.allocatable if node.status is not None else None for node in (before, after)]
    return (
        before.spec == after.spec
        and before.metadata.labels == after.metadata.labels
        and offered[0] == offered[1]
        and declared_features(before) == declared_features(after)
    )


def _survived_priority(engine: LiveEngine, pod: Schedulable, row: int | None = None) -> int | None:
    """Return the highest preemptor priority that a pod may have survived; None for every priority.

    Preemptors of higher priority have counted on its room already. For a lone pod that still exists (`row`),
    it is known whether a budget protected it.
    """
    view, settings = engine.view, engine.settings
    member_of = group_of(view, pod)
    group = None if member_of is None else engine.root_of(member_of)
    class_name = (pod.spec.priorityClassName if group is None else group.priority_class_name) or ""
    strict = settings.budgets is Budgets.STRICT
    if strict and row is not None and group is None:
        strict = bool(engine.budgets.charged(np.array((row,), np.intp)).any())
    if strict or protected(pod, member_of, settings, view) is not None:
        return None
    granted = exemption(view.classes.get(class_name), class_name)
    own = pod.spec.priority or 0
    level = own if group is None else max(own, group.priority or 0)
    return level if granted is None else max(level, granted.minimum - 1)
