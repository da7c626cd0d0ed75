"""The entries of a scheduler: their queue, and which pods each has, which of them wait, its priority and age.

A lone pod is an entry, and a group is one with all its pods, even before the group exists. A tree of groups
is the entry of its root. The answers come from the cluster and from decisions that are not written yet: an
assumed pod does not wait.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from podium.api.membership import GroupKey, key_of, membership
from podium.api.meta import instant
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Name
from podium.errors import PodiumError
from podium.groups.trees import group_at, members_below, root_key, tree
from podium.planner.preemption.target import PlacementTarget, Unplaceable
from podium.schedulerplugin.scheduling.effects import Key, PodRef, pod_ref
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.queue import Queue


class EntryPods:
    """The entries of one scheduler, of that schedulerName, in the cluster of an engine."""

    def __init__(self, engine: LiveEngine, scheduler: str, queue: Queue) -> None:
        self.queue = queue
        self.records = queue.entries
        self._engine = engine
        self._scheduler = scheduler

    def is_ours(self, pod: Schedulable) -> bool:
        """Return whether this scheduler schedules a pod."""
        return pod.scheduler == self._scheduler

    def key(self, pod: Schedulable) -> Key:
        """Return the entry of a pod: its tree's, its group's, or its own."""
        group = membership(pod, native_served=self._engine.view.native_served)
        return self.entry_of(group) if group is not None else pod_ref(pod).key

    def entry_of(self, key: GroupKey) -> GroupKey:
        """Return the entry of a group: its root's."""
        knows = self._engine.settings.semantics.rules.trees
        return root_key(self._engine.view, key) if knows else key

    def keys(self, rows: Iterable[int]) -> set[Key]:
        """Return the entries of those pods (rows) that are ours."""
        pods = (self._engine.snapshot.pods[row] for row in rows)
        return {self.key(pod) for pod in pods if pod is not None and self.is_ours(pod)}

    def pods(self, key: Key) -> Iterable[Schedulable]:
        """Return the pods of an entry, bound and finished ones included."""
        view = self._engine.view
        members = members_below(view, key) if isinstance(key, GroupKey) else (view.pods.get(key),)
        # A lone pod may have been recreated as a member of a group.
        return (pod for pod in members if isinstance(pod, Schedulable) and self.key(pod) == key)

    def waits(self, pod: Schedulable) -> bool:
        """Return whether a pod is ours, unfinished, and neither bound nor assumed."""
        if pod.spec.nodeName or pod.finished or not self.is_ours(pod):
            return False
        row = self.row(pod_ref(pod))
        return row is not None and self._engine.snapshot.node.item(row) < 0

    def waiting_rows(self, key: Key) -> list[int]:
        """Return the rows of the waiting pods of an entry."""
        return self.rows(pod_ref(pod) for pod in self.pods(key) if self.waits(pod))

    def waiting(self) -> Iterable[tuple[Key, Schedulable]]:
        """Yield all waiting pods, each with its entry."""
        for pod in self._engine.view.pods.values():
            if isinstance(pod, Schedulable) and self.waits(pod):
                yield self.key(pod), pod

    def wanted(self, key: Key) -> PlacementTarget | Unplaceable | None:
        """Return the pods of an entry to be placed, or why it cannot be; None if none of them waits."""
        waiting = next((pod for pod in self.pods(key) if self.waits(pod)), None)
        if waiting is None:
            return None
        try:
            # If the group does not exist, its members tell what they wait for.
            exists = not isinstance(key, GroupKey) or key.composite or key in self._engine.view.groups
            return self._engine.placement_target(key if exists else pod_ref(waiting).key)
        except PodiumError:
            return None

    def satisfied(self, key: GroupKey) -> list[GroupKey]:
        """Return the groups of an entry that have enough pods on a node or assumed on one.

        A PodGroup needs minCount of its members, a composite group minGroupCount of its children. If the root
        has too few, there are none.
        """
        view, knows = self._engine.view, self._engine.settings.semantics.rules.trees
        groups = [key_of(child) for child in tree(view, key)] if knows and key.composite else [key]
        satisfied: dict[GroupKey, None] = {}
        # Children come after their parents.
        for group in reversed(groups):
            if self._is_satisfied(group, satisfied):
                satisfied[group] = None
        return list(satisfied) if key in satisfied else []

    def _is_satisfied(self, key: GroupKey, below: Collection[GroupKey]) -> bool:
        view = self._engine.view
        group = group_at(view, key)
        least = 1 if group is None else group.least
        if key.composite:
            return sum(child in below for child in view.children.get(key, ())) >= least
        members = (pod for pod in view.members(key).values() if isinstance(pod, Schedulable))
        able = (pod for pod in members if not pod.finished and not self.waits(pod))
        return sum(1 for _ in islice(able, least)) >= least

    def since(self, key: Key) -> float:
        """Return when an entry began to wait, in seconds since 1970: when its group or pod was created."""
        view = self._engine.view
        obj = group_at(view, key) if isinstance(key, GroupKey) else view.pods.get(key)
        if obj is None:
            obj = next(iter(self.pods(key)), None)
        written = obj.metadata.creationTimestamp if obj is not None else None
        return instant(written).timestamp() if written else 0.0

    def priority(self, key: Name) -> int:
        """Return the priority of a lone pod."""
        return self._engine.view.pods[key].spec.priority or 0

    def reserved(self, key: Name) -> bool:
        """Return whether a lone pod has a reserved node."""
        row = self._engine.snapshot.pod_row.get(key)
        return row is not None and bool(self._engine.nomination(row))

    def nominated(self) -> tuple[int, int]:
        """Return the number of pending pods with a reserved node: ours, and those of other schedulers."""
        pods = (self._engine.snapshot.pods[row] for row in self._engine.nominated().tolist())
        ours = [self.is_ours(pod) for pod in pods if pod is not None]
        return sum(ours), len(ours) - sum(ours)

    def row(self, pod: PodRef) -> int | None:
        """Return the row of a pod, None if it is gone or another pod has its name."""
        return self._engine.snapshot.row_of(pod.key, pod.uid)

    def rows(self, pods: Iterable[PodRef]) -> list[int]:
        """Return the rows of those pods that still exist."""
        rows = map(self.row, pods)
        return [row for row in rows if row is not None]

    def unsure(self, key: Key) -> list[int]:
        """Return the pods (rows) that may be terminating for a failed preemption and are not seen to be."""
        terminating = self._engine.snapshot.terminating
        return [row for row in self.rows(self.records[key].unsure) if not terminating.item(row)]
