"""The engine of a scheduler that acts: what it has decided counts, and small questions have quick answers.

Between a decision and the API server's account of it lie writes. So a live engine has intents, which rule
over statuses: whose bind is on the way, who holds which node, who was told to go. And it is asked thousands
of times a second about one pod or one node, where a whole decision would cost a hundred times as much; each
of these answers is what a decision would come to.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import takewhile

import numpy as np

from podium.api.membership import GroupKey
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.errors import PodiumError
from podium.schedulerplugin.arrays import Bools, Rows
from podium.schedulerplugin.deadline import NEVER, Deadline
from podium.schedulerplugin.engine import Engine
from podium.schedulerplugin.preemption.deciding import Decider
from podium.schedulerplugin.preemption.decision import Decision
from podium.schedulerplugin.preemption.intents import Intents
from podium.schedulerplugin.preemption.stage import Preemptor
from podium.schedulerplugin.preemption.target import Refused, Wanted
from podium.schedulerplugin.requests import LATEST
from podium.schedulerplugin.settings import Settings
from podium.schedulerplugin.shapes import Shape
from podium.view import Name, View


class LiveEngine(Engine):
    """An engine that goes by its own intents, which begin empty unless they are given.

    By whosever rules it plans, what it plans is done: kube-system is spared.
    """

    def __init__(
        self,
        view: View,
        settings: Settings | None = None,
        minor: int = LATEST,
        intents: Intents | None = None,
    ) -> None:
        self.intents = intents or Intents()
        spares = (settings or Settings())._replace(spares_system=True)
        super().__init__(view, spares, minor, self.intents)

    def resume(
        self,
        target: Name | GroupKey,
        victims: Collection[int],
        now: datetime,
        deadline: Deadline = NEVER,
    ) -> Decision | None:
        """Decide for who has nodes reserved, and had begun to evict these pods (rows) before we came.

        None where that is no preemption that may be carried out now: who goes must be whole units of which
        every rule allows the eviction, and exactly with them gone enough must fit. It raises as `plan` does.
        """
        found = self.wanted(target)
        if isinstance(found, Refused) or found.barred:
            return None
        second = seconds(now)
        units, _ = self.units(for_group=self._as_group(found), now=second, deadline=deadline)
        with self._trying():
            self._nominate(found.priority, found.rows)
            decider = Decider(self, units, second, deadline)
            return decider.resume(found, np.array(sorted(victims), np.intp))

    def place_lone(self, targets: Sequence[Name], deadline: Deadline = NEVER) -> dict[Name, int]:
        """Place pods of no group and of one priority one after the other, while they fit as things are.

        Give the node row of each up to the first that does not fit, or may not be placed; nothing stays
        assumed. It is what `decide` gives for each after those before it are assumed, if none holds a node.
        """
        rows: list[int] = []
        priority = 0
        for target in targets:
            deadline.check()
            found = self._lone(target)
            if found is None:
                break
            assert not rows or found.priority == priority, "they are of one priority"
            priority = found.priority
            if self._waits(found):
                break
            rows += found.rows
        if not rows:
            return {}
        with self._trying():
            self._nominate(priority, rows)
            placed = self.placer.place_many(rows, deadline=deadline)
        return {
            target: placed[row]
            for target, row in takewhile(lambda each: each[1] in placed, zip(targets, rows, strict=False))
        }

    def room_for(
        self,
        rows: Sequence[int],
        priority: int,
        *,
        beside: Collection[int] = (),
        within: Bools | None = None,
        emptied: bool = False,
        deadline: Deadline = NEVER,
    ) -> dict[int, int]:
        """Return where pods (rows) fit one after the other, as node rows by pod row; nothing stays assumed.

        Nominated pods of no lower priority count, but for these pods and those `beside` them. `within` limits
        the nodes. If `emptied`, no other pod is on any node. Raises DecisionTimeoutError after the deadline.
        """
        self.snapshot.reveal()
        with self._trying():
            if emptied:
                self.snapshot.lift_many(np.flatnonzero(self.snapshot.node >= 0))
            else:
                self._nominate(priority, {*rows, *beside})
            return self.placer.place_many(rows, within, deadline=deadline)

    def decide_next(
        self, before: Decision, target: Name, now: datetime, deadline: Deadline = NEVER
    ) -> Decision | None:
        """Decide for a lone pod like that of a decision which was just carried out, since when nothing came.

        It is what `decide` gives, but for `refusals`, which are those of `before`. None where that takes a
        look at all nodes: the plan before took more than single pods that no budget counts, other pods
        decide who may stand where, or the next plan costs more.
        """
        found, was, chosen = self._lone(target), before.wanted, before.chosen
        if found is None or was is None or chosen is None or not chosen.then:
            return None
        victims, snapshot = chosen.found.victims, self.snapshot
        (row,), (first,) = found.rows, was.rows
        shape_id = snapshot.shape.item(row)
        alike = shape_id == snapshot.shape.item(first) and found[1:] == was[1:] and not self.nomination(row)
        self.placer.expect(self._nominated.counted(found.priority, found.rows)[0])
        if not alike or not self.placer.chain.plain(snapshot.shapes[shape_id]):
            return None
        if chosen.found.cost.pods != len(victims) or self.budgets.charged(victims).any():
            return None
        second = seconds(now)
        units, _ = self.units(for_group=False, now=second, deadline=deadline)
        node = chosen.then[0]
        with self._trying():
            for each in self._counted_on(node, found.priority, found.rows):
                snapshot.assume(each, node)
            if units.rule.guarded:
                # To kube-scheduler's releases who is leaving stands in the way, and is a victim like others.
                on = snapshot.pods_on(node)
                snapshot.lift_many(on[units.going(second)[on]])
            preemptor = Preemptor(found.rows, found.needed, found.priority, group=False)
            again = self.chooser(preemptor, second, deadline).next(chosen)
        if again is None:
            return None
        return before._replace(wanted=found, placed=dict(again.found.placed), chosen=again)

    def as_reserved(self, target: Name) -> int | None:
        """Give the node row that is reserved for a lone pod, if the pod fits there as things are."""
        found = self._lone(target)
        if found is None:
            return None
        (row,) = found.rows
        node = self.snapshot.row.get(self.nomination(row))
        shape = self.snapshot.shapes[self.snapshot.shape.item(row)]
        return node if node is not None and self.has_room(shape, node, found.priority, found.rows) else None

    def waits(self, target: Name) -> bool:
        """Say whether it is known, since the last change, that a lone pod does not fit as things are."""
        found = self._lone(target)
        return found is not None and self._waits(found)

    @property
    def reshaped(self) -> int:
        """How often pending pods got other shapes though nothing of them changed."""
        return self.snapshot.reshaped

    def suits(self, shape: Shape, node_row: int) -> bool:
        """Say whether a node would take a pod of a shape if it were empty."""
        return self.placer.chain.suits(shape, node_row)

    def has_room(self, shape: Shape, node_row: int, priority: int, beside: Collection[int]) -> bool:
        """Say whether a pod of a shape fits on a node now, nominated pods of no lower priority counted.

        But for those `beside` it (rows).
        """
        chain = self.placer.chain
        counted = self._counted_on(node_row, priority, beside)
        if not counted:
            return chain.fits(shape, node_row)
        self.placer.expect(counted)
        if chain.plain(shape):
            return chain.fits(shape, node_row) and chain.resources.fits_beside(shape, node_row, counted)
        with self._trying():
            self._assume_nominated(np.array(counted, np.intp), np.full(len(counted), node_row, np.int32))
            return chain.fits(shape, node_row)

    def suitable(self, shape: Shape, node_rows: Collection[int]) -> list[int]:
        """Give those of many nodes that suit a shape (see `suits`)."""
        return _among(node_rows, self.placer.chain.static(shape))

    def roomy(self, shape: Shape, node_rows: Collection[int]) -> list[int]:
        """Give those of many nodes that have the room for a shape now, whatever is reserved there."""
        return _among(node_rows, self.placer.chain.roomy(shape))

    def nominated(self) -> Rows:
        """Give all pending pods for which a node is reserved that is there."""
        rows, _ = self._nominated.counted(np.iinfo(np.int32).min, ())
        return rows

    def nominate(self, pod: Name, node: str) -> None:
        """Reserve a node for a pending pod from now on, none if empty, whatever its status says."""
        row = self.snapshot.pod_row[pod]
        # A node that it gives up is room for others.
        (self._memo.forget if self._nominated.of(row) else self._memo.forget_plans)()
        self.intents.nominate(pod, self.snapshot.uids[row], node)
        self._nominated.note(row)

    def avoid(self, pod: Schedulable, seconds: float) -> None:
        """Have pods that ask the same as a rejected one avoid its node from now on, for some minutes."""
        self.placer.rejections.note(self.snapshot.shape_of(pod), pod.spec.nodeName or "", seconds)

    def doom(self, rows: Collection[int]) -> None:
        """Count pods as leaving from now on: they are told to go."""
        self._memo.forget_plans()
        uids = self.snapshot.uids
        self.intents.doom(uids[row] for row in rows)
        # Of who is being deleted already budgets know.
        stay = [row for row in rows if not self.snapshot.terminating.item(row)]
        for row, budgets in zip(stay, self.budgets.of_each(np.array(stay, np.intp)), strict=True):
            self.intents.spending.charge(uids[row], budgets)
        self._touch(rows)

    def spare(self, rows: Collection[int]) -> None:
        """Count pods as leaving no more, unless they are being deleted."""
        self._memo.forget_plans()
        self.intents.spare(self.snapshot.uids[row] for row in rows)
        self._touch(rows)

    def assume(self, pod_row: int, node_row: int) -> None:
        """Count a pod on a node from now on, for its binding is on the way: until it is there, no victim."""
        self.snapshot.assume(pod_row, node_row)

    def forget(self, pod_row: int) -> None:
        """Count a pod where the server has it again, for its binding failed."""
        self.snapshot.forget(pod_row)

    def _counted_on(self, node_row: int, priority: int, beside: Collection[int]) -> list[int]:
        """Give the pending pods of no lower priority that hold a node, but for those `beside` (rows)."""
        return [
            row
            for row in self.nominated_on(node_row)
            if row not in beside and self.priority_of(row) >= priority
        ]

    def _lone(self, target: Name) -> Wanted | None:
        """Give a pod that may be placed, and is in no group; None for others."""
        try:
            found = self.wanted(target)
        except PodiumError:
            return None
        return found if isinstance(found, Wanted) and found.group is None else None

    def _waits(self, found: Wanted) -> bool:
        kind = self._kind(found)
        return kind is not None and self._memo.waits(kind)


def _among(rows: Collection[int], mask: Bools) -> list[int]:
    wanted = np.fromiter(rows, np.intp, len(rows))
    there: list[int] = wanted[mask[wanted]].tolist()
    return there
