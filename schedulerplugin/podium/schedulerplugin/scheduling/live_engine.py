"""The engine of a scheduler that acts: its decisions count at once, and small questions have quick answers.

The writes of a decision take time until the API server shows them. So a live engine has intents, which take
precedence over statuses: binds in flight, reserved nodes, pods marked for deletion. It is also asked
thousands of times a second about one pod or one node. A whole decision would cost a hundred times as much,
and each of these answers equals the decision's.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import takewhile

import numpy as np

from podium.api.membership import GroupKey
from podium.api.podrequests import LATEST
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.cluster.reader import ClusterReader, Name
from podium.errors import PodiumError
from podium.planner.arrays import Bools, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.engine import Engine
from podium.planner.liveplugin import PluginWrite
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.domainsearch import DomainSearch
from podium.planner.preemption.groupplacement import place_pods
from podium.planner.preemption.inflight import Intents
from podium.planner.preemption.target import PlacementTarget, PreemptorPods, Unplaceable
from podium.planner.settings import Settings
from podium.planner.shapes import Shape
from podium.schedulerplugin.scheduling.effects import PodRef


class LiveEngine(Engine):
    """An engine that applies its own intents, which begin empty unless they are given.

    Under all semantics its plans are carried out, so kube-system is spared.
    """

    def __init__(
        self,
        view: ClusterReader,
        settings: Settings | None = None,
        minor: int = LATEST,
        intents: Intents | None = None,
    ) -> None:
        self.intents = intents or Intents()
        # The pods on a node whose binds wait for other writes, with the priorities that do not wait for them.
        self._yielding: dict[PodRef, int] = {}
        self._yielded: Counter[int] = Counter()
        spares = (settings or Settings())._replace(spares_system=True)
        super().__init__(view, spares, minor, self.intents)

    def resume(
        self,
        key: Name | GroupKey,
        victims: Collection[int],
        now: datetime,
        deadline: Deadline = NEVER,
    ) -> Decision | None:
        """Return the decision that resumes a preemption of these pods (rows) by an earlier process.

        None if that is no preemption that may be carried out now. The victims must be whole units of which
        every rule allows the eviction, and the preemptor must fit with exactly them gone. It raises as `plan`
        does.
        """
        target = self.placement_target(key)
        if isinstance(target, Unplaceable) or target.preemption_barred:
            return None
        with self._deciding(target, seconds(now), deadline) as decider:
            return decider.resume(target, np.array(sorted(victims), np.intp))

    def place_lone(self, keys: Sequence[Name], deadline: Deadline = NEVER) -> dict[Name, int]:
        """Place lone pods of one priority one after the other, while they fit without preemption.

        Return the node row of each, up to the first that does not fit or may not be placed; nothing stays
        assumed. If none holds a node, each result is what `decide` returns once the pods before it are
        assumed.
        """
        rows: list[int] = []
        priority = 0
        for key in keys:
            deadline.enforce()
            target = self._lone(key)
            if target is None:
                break
            assert not rows or target.priority == priority, "they are of one priority"
            priority = target.priority
            if self._waits(target):
                break
            rows += target.rows
        if not rows:
            return {}
        with self._trying(deadline):
            self._nominate(priority, rows)
            placed = self.placer.place_many(rows, deadline=deadline)
        return {
            target: placed[row]
            for target, row in takewhile(lambda pair: pair[1] in placed, zip(keys, rows, strict=False))
        }

    def fits_beside(
        self, target: PlacementTarget, beside: Collection[int], deadline: Deadline = NEVER
    ) -> bool:
        """Return whether pods fit without preemption if the reservations of other pods (rows) do not count.

        Raises DecisionTimeoutError after the deadline.
        """
        self.catch_up()
        with self._trying(deadline):
            self._nominate(target.priority, {*target.rows, *beside})
            search = DomainSearch(self.placer, target, self.settings.semantics, deadline)
            return search.any(lambda: self._place_needed(target, deadline)) is not None

    def _place_needed(self, target: PlacementTarget, deadline: Deadline) -> dict[int, int] | None:
        with self.snapshot.trial():
            placed = place_pods(self.placer, target, self.settings.semantics, deadline)
        return placed if len(placed) >= target.needed else None

    def room_for(
        self,
        rows: Sequence[int],
        priority: int,
        *,
        within: Bools | None = None,
        emptied: bool = False,
        deadline: Deadline = NEVER,
    ) -> dict[int, int]:
        """Return where pods (rows) fit one after the other, as node rows by pod row; nothing stays assumed.

        Nominated pods of no lower priority count, except these pods. `within` limits the nodes. If `emptied`,
        no other pod is on any node. Raises DecisionTimeoutError after the deadline.
        """
        self.catch_up()
        with self._trying(deadline):
            if emptied:
                self.snapshot.remove_many(np.flatnonzero(self.snapshot.node >= 0))
            else:
                self._nominate(priority, rows)
            return self.placer.place_many(rows, within, deadline=deadline)

    def decide_next(
        self, before: Decision, key: Name, now: datetime, deadline: Deadline = NEVER
    ) -> Decision | None:
        """Return the decision for a lone pod like the pod of a decision that was just carried out.

        Nothing may have changed since. It is what `decide` returns, except for `refusals`, which are those of
        `before`. None if the decision needs a search of all nodes: the last plan evicted a group, or a pod
        with a budget; other pods restrict the nodes of these pods; or the next plan costs more.
        """
        target, was, chosen = self._lone(key), before.target, before.chosen
        if target is None or was is None or chosen is None or not chosen.then or self.yields(target.priority):
            return None
        victims, snapshot = chosen.plan.victims, self.snapshot
        (row,), (first,) = target.rows, was.rows
        shape_id = snapshot.shape.item(row)
        alike = shape_id == snapshot.shape.item(first) and target[1:] == was[1:] and not self.nomination(row)
        self.placer.announce(self._nominated.holding(target.priority, target.rows)[0])
        if not alike or not self.placer.chain.resources_only(snapshot.shapes[shape_id]):
            return None
        if chosen.plan.cost.pods != len(victims) or self.budgets.charged(victims).any():
            return None
        second = seconds(now)
        units, _ = self.units(for_group=False, now=second, deadline=deadline)
        node = chosen.then[0]
        with self._trying(deadline):
            for counted in self._counted_on(node, target.priority, target.rows):
                snapshot.assume(counted, node)
            if units.rules.leaving_free:
                # In kube-scheduler's releases a terminating pod takes room, and is a victim like others.
                on = snapshot.pods_on(node)
                snapshot.remove_many(on[units.freeing(second)[on]])
            preemptor = PreemptorPods(target.rows, target.needed, target.priority, group=False)
            again = self.chooser(preemptor, second, deadline).next_equal(chosen)
        if again is None:
            return None
        return before._replace(target=target, placed=dict(again.plan.placed), chosen=again)

    def as_reserved(self, key: Name) -> int | None:
        """Return the node row that is reserved for a lone pod, if the pod fits there without preemption."""
        target = self._lone(key)
        if target is None:
            return None
        (row,) = target.rows
        node = self.snapshot.row.get(self.nomination(row))
        shape = self.snapshot.shape_at(row)
        return node if node is not None and self.has_room(shape, node, target.priority, target.rows) else None

    def waits(self, key: Name) -> bool:
        """Return whether a lone pod is known, since the last change, not to fit without preemption."""
        target = self._lone(key)
        return target is not None and self._waits(target)

    @property
    def reshaped(self) -> int:
        """The number of times that pending pods got other shapes without a change of the pods."""
        return self.snapshot.reshaped

    def suits(self, shape: Shape, node_row: int) -> bool:
        """Return whether a node would take a pod of a shape if it were empty."""
        return self.placer.chain.suits_node(shape, node_row)

    def has_room(self, shape: Shape, node_row: int, priority: int, beside: Collection[int]) -> bool:
        """Return whether a pod of a shape fits on a node now, nominated pods of no lower priority counted.

        Those `beside` it (rows) are not counted.
        """
        chain = self.placer.chain
        counted = self._counted_on(node_row, priority, beside)
        if not counted:
            return chain.fits(shape, node_row)
        self.placer.announce(counted)
        if chain.resources_only(shape):
            return chain.fits(shape, node_row) and chain.room.fits_beside(shape, node_row, counted)
        with self._trying():
            self._assume_nominated(np.array(counted, np.intp), np.full(len(counted), node_row, np.int32))
            return chain.fits(shape, node_row)

    def suitable(self, shape: Shape, node_rows: Collection[int]) -> list[int]:
        """Return those of many nodes that suit a shape (see `suits`)."""
        return _among(node_rows, self.placer.chain.static(shape))

    def with_room(self, shape: Shape, node_rows: Collection[int]) -> list[int]:
        """Return those of many nodes that have room for a shape now, without regard to reservations."""
        return _among(node_rows, self.placer.chain.with_room(shape))

    def nominated(self) -> Rows:
        """Return all pending pods with a reserved node that exists."""
        rows, _ = self._nominated.holding(np.iinfo(np.int32).min, ())
        return rows

    def nominate(self, pod: Name, node: str) -> None:
        """Reserve a node for a pending pod from now on, whatever its status says; empty for none."""
        row = self.snapshot.pod_row[pod]
        # If the pod gives up a node, there is room for others.
        (self._cache.clear if self._nominated.node_of(row) else self._cache.clear_plans)()
        self.intents.nominate(pod, self.snapshot.uids[row], node)
        self._nominated.update(row)

    def avoid(self, pod: Schedulable, seconds: float) -> None:
        """Let pods with a rejected pod's requirements avoid its node for minutes from `seconds` on."""
        self.placer.rejections.record(self.snapshot.shape_of(pod), pod.spec.nodeName or "", seconds)

    def mark_for_deletion(self, rows: Collection[int]) -> None:
        """Count pods as terminating from now on, because they are marked for deletion."""
        self._cache.clear_plans()
        uids = self.snapshot.uids
        self.intents.mark_for_deletion(uids[row] for row in rows)
        # Budgets already count a pod that is being deleted.
        stay = [row for row in rows if not self.snapshot.terminating.item(row)]
        for row, budgets in zip(stay, self.budgets.of_each(np.array(stay, np.intp)), strict=True):
            self.intents.disruptions.charge(uids[row], budgets)
        self._touch(rows)

    def unmark(self, rows: Collection[int]) -> None:
        """Count pods as terminating no more, unless they are being deleted."""
        self._cache.clear_plans()
        self.intents.unmark(self.snapshot.uids[row] for row in rows)
        self._touch(rows)

    def keep_out(self, row: int, why: str, now: int, *, final: bool) -> None:
        """Plan without a pod for a while, because it could not be evicted at `now` (seconds)."""
        self._cache.clear_plans()
        self.intents.failed_evictions.add(self.snapshot.pod_at(row), why, now, final=final)
        self._touch((row,))

    def assume(self, pod_row: int, node_row: int) -> None:
        """Count a pod on a node while its bind is in flight; the pod is no victim until the bind is seen."""
        self.snapshot.assume(pod_row, node_row)

    def forget_pod(self, pod_row: int) -> None:
        """Count a pod where the API server has it again, because its bind failed."""
        self.snapshot.forget_pod(pod_row)

    def reserve(self, plan: Iterable[PluginWrite]) -> None:
        """Keep what writes take from other pods, wherever their own pods count."""
        for plugin, write in plan:
            plugin.reserve(write)

    def unreserve(self, plan: Iterable[PluginWrite]) -> None:
        """Keep it no more."""
        self._cache.clear()
        for plugin, write in plan:
            plugin.unreserve(write)

    def unreached(self, shape: Shape, node_row: int) -> str:
        """Return why a node cannot use what a shape has got there already; empty if it can."""
        return self.placer.chain.unreached(shape, node_row)

    def avoid_node(self, pod_row: int, node: str, seconds: float) -> None:
        """Let pods with a pod's requirements avoid a node for minutes from `seconds` on."""
        self.placer.rejections.record(self.snapshot.shape_at(pod_row), node, seconds)

    def yield_room(self, pods: Iterable[PodRef], priority: int) -> None:
        """Let preemptors of a higher priority count on the room of pods whose binds wait for other writes."""
        for pod in pods:
            self._yielding[pod] = priority
            self._yielded[priority] += 1

    def keep_room(self, pods: Iterable[PodRef]) -> None:
        """Let these pods yield to no preemptor any more."""
        for pod in pods:
            priority = self._yielding.pop(pod, None)
            if priority is not None:
                self._yielded -= Counter((priority,))

    def yields(self, priority: int) -> bool:
        """Return whether pods yield to a preemptor of a priority."""
        return min(self._yielded, default=priority) < priority

    def _nominate(self, priority: int, rows: Collection[int]) -> None:
        """Count nominated pods, and do not count pods that yield to this priority."""
        super()._nominate(priority, rows)
        if self.yields(priority):
            snapshot = self.snapshot
            lower = (pod for pod, own in self._yielding.items() if own < priority)
            for pod in lower:
                row = snapshot.row_of(pod.key, pod.uid)
                if row is not None and snapshot.node.item(row) >= 0:
                    snapshot.remove(row)

    def _counted_on(self, node_row: int, priority: int, beside: Collection[int]) -> list[int]:
        """Return the pending pods of no lower priority that hold a node, except those `beside` (rows)."""
        return [
            row
            for row in self.nominated_on(node_row)
            if row not in beside and self.priority_of(row) >= priority
        ]

    def _lone(self, key: Name) -> PlacementTarget | None:
        """Return a pod that may be placed and is in no group; None for others."""
        try:
            target = self.placement_target(key)
        except PodiumError:
            return None
        return target if isinstance(target, PlacementTarget) and target.group is None else None

    def _waits(self, target: PlacementTarget) -> bool:
        kind = self._cache_key(target)
        return kind is not None and self._cache.known_not_to_fit(kind)


def _among(rows: Collection[int], mask: Bools) -> list[int]:
    among = np.fromiter(rows, np.intp, len(rows))
    there: list[int] = among[mask[among]].tolist()
    return there
