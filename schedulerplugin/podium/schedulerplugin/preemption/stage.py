"""Tries a plan on the snapshot: moves units and the preemptor, and checks whether all still fit.

Every method moves pods on the snapshot, inside a trial of the caller's that undoes all moves. Thousands of
units are checked for whether they can be given back beside the preemptor. For pods that only request
resources, the answer is a subtraction on the few nodes they were placed on. For others every filter is
evaluated again.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.deadline import NEVER, Deadline
from podium.schedulerplugin.overlay import Trial
from podium.schedulerplugin.placement import Placer
from podium.schedulerplugin.preemption.neighbours import Neighbours
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.packing import Kinds, asked, kinds_of, place_packed
from podium.schedulerplugin.preemption.reprieve import stays
from podium.schedulerplugin.preemption.room import beside
from podium.schedulerplugin.preemption.units import Units


class Preemptor(NamedTuple):
    """Pods to place, in order, of which at least `needed` must be placed.

    `nominated` gives the node rows that are reserved for some of the pods, and are tried first.
    """

    rows: tuple[int, ...]
    needed: int
    priority: int
    group: bool = False
    nominated: Mapping[int, int] = {}


class Domain(NamedTuple):
    """The nodes for the preemptor: one node, or the nodes of a mask (None: all of the cluster)."""

    name: str
    node: int | None = None
    within: Bools | None = None


class Stage:
    """A preemptor and the units around it; `plain` if nothing but resources can refuse its pods.

    `has_company` says that one of its pods has required affinity to other pods. `monotone` says that more
    room can only help, which is so if all its pods have the same requests.
    """

    def __init__(
        self,
        placer: Placer,
        units: Units,
        preemptor: Preemptor,
        semantics: Semantics,
        deadline: Deadline = NEVER,
    ) -> None:
        self.units = units
        self.deadline = deadline
        self.preemptor = preemptor
        self.snapshot = snapshot = placer.snapshot
        self._placer = placer
        self._semantics = semantics
        self.shapes = [snapshot.shapes[snapshot.shape.item(row)] for row in preemptor.rows]
        distinct = {id(shape): shape for shape in self.shapes}.values()
        self.plain = all(placer.chain.plain(shape) for shape in distinct)
        self.has_company = any(shape.pod_affinity for shape in distinct)
        self.monotone = self.plain and len({asked(shape) for shape in distinct}) == 1

    def trial(self) -> AbstractContextManager[Trial]:
        """Begin a block whose moves are undone at its end, unless they are kept."""
        return self.snapshot.trial()

    def place(self, domain: Domain) -> dict[int, int] | None:
        """Place and assume the preemptor; None, and nothing assumed, if too few of its pods fit.

        The spec frees room for exactly the members that are needed; kube-scheduler for all it can place.
        """
        self.deadline.check()
        rows, needed = self.preemptor.rows, self.preemptor.needed
        if domain.node is not None:
            if not self._placer.chain.fits(self.shapes[0], domain.node):
                return None
            self.snapshot.assume(rows[0], domain.node)
            return {rows[0]: domain.node}
        enough = needed if self._semantics is Semantics.KEP else None
        with self.trial() as kept:
            placed = self._placer.place_many(
                rows, domain.within, enough, self.preemptor.nominated, self.deadline
            )
            if len(placed) >= needed:
                kept.keep()
                return placed
        if enough is None:
            return None
        with self.trial() as kept:
            placed = place_packed(self._placer.chain, rows, needed, domain.within, self.deadline)
            if len(placed) < needed:
                return None
            kept.keep()
        return placed

    def kinds(self, domain: Domain) -> Kinds | None:
        """Return the pods that are to be placed by kind, on the nodes of a domain; None if too many."""
        within = domain.within
        if domain.node is not None:
            within = np.zeros(len(self.snapshot.alive), np.bool_)
            within[domain.node] = True
        return kinds_of(self._placer.chain, self.preemptor.rows, self.preemptor.needed, within)

    def fits(self, domain: Domain) -> bool:
        """Return whether the preemptor can be placed now."""
        if self.monotone:
            return self.room(domain) >= self.preemptor.needed
        with self.trial():
            return self.place(domain) is not None

    def room(self, domain: Domain) -> int:
        """Return how many pods of a monotone preemptor have room."""
        self.deadline.check()
        snapshot, shape = self.snapshot, self.shapes[0]
        nodes = self._placer.chain.static(shape)
        if domain.node is not None:
            nodes &= np.arange(len(nodes)) == domain.node
        if domain.within is not None:
            nodes &= domain.within
        at_most: Int64s | None = None
        for name, amount in shape.requests:
            at = snapshot.resource.get(name)
            if at is None:
                return 0
            free = snapshot.allocatable[at] - snapshot.used[at]
            pods = np.maximum(free, 0) // amount
            at_most = pods if at_most is None else np.minimum(at_most, pods)
        assert at_most is not None, "every pod takes a place"
        return int(at_most[nodes].sum())

    def lift(self, leads: Rows) -> None:
        """Remove units from their nodes."""
        self.deadline.check()
        self.snapshot.lift_many(self.units.all_members(leads))

    def put_back(self, leads: Rows) -> None:
        """Put units back where they ran, whatever runs there now."""
        self.deadline.check()
        rows = self.units.all_members(leads)
        self.snapshot.assume_many(rows, self.units.at[rows])

    def reprieve(self, leads: Rows, placed: dict[int, int]) -> list[int]:
        """Put back in order the units beside which the assumed preemptor still fits; return them."""
        chain = self._placer.chain
        neighbours = None if self.plain else Neighbours(chain, placed, self.deadline)
        back = leads[stays(self.units, leads, placed, neighbours, self.deadline)]
        self.put_back(back)
        kept: list[int] = back.tolist()
        return kept

    def reprieve_anew(self, leads: Rows, placed: dict[int, int], domain: Domain) -> list[int]:
        """Put back in order the units beside which the preemptor can be placed again; return them.

        1.36 does this for groups.
        """
        rows = np.fromiter(placed, np.intp, len(placed))
        self.snapshot.lift_many(rows)
        back = self._one_by_one(leads, lambda: self.fits(domain))
        self.snapshot.assume_many(rows, np.fromiter(placed.values(), np.int32, len(placed)))
        return back

    def _one_by_one(self, leads: Rows, fits: Callable[[], bool]) -> list[int]:
        back = []
        for lead in leads.tolist():
            self.deadline.check()
            members = self.units.members(lead)
            self.snapshot.assume_many(members, self.units.at[members])
            if fits():
                back.append(lead)
            else:
                self.snapshot.lift_many(members)
        return back


class NodeStage(Stage):
    """A single node where only room can refuse a lone pod: integers replace the snapshot, no pod is moved.

    Moving pods and undoing it costs several times the arithmetic, and a pod has many nodes.
    """

    def __init__(self, whole: Stage, node: int) -> None:
        # All attributes but the moves are equal, and cheaper to share than to create.
        vars(self).update(vars(whole))
        self.plain = self.monotone = True
        snapshot = whole.snapshot
        self._node = node
        asked = [(snapshot.resource[name], amount) for name, amount in self.shapes[0].requests]
        self._resources = [at for at, _ in asked]
        self._needs = [amount for _, amount in asked]
        self._left = [snapshot.allocatable[at].item(node) - snapshot.used[at].item(node) for at, _ in asked]
        self._wants: dict[int, list[int]] = {}

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Begin a block that restores the room at its end, unless it is kept."""
        before = self._left
        trial = Trial(lambda: None)
        try:
            yield trial
        finally:
            if not trial.kept:
                self._left = before

    def place(self, domain: Domain) -> dict[int, int] | None:  # noqa: ARG002 - there is one node here
        """Take the room of the preemptor, if it is free."""
        self.deadline.check()
        if any(have < need for have, need in zip(self._left, self._needs, strict=True)):
            return None
        self._left = [have - need for have, need in zip(self._left, self._needs, strict=True)]
        return {self.preemptor.rows[0]: self._node}

    def fits(self, domain: Domain) -> bool:  # noqa: ARG002 - as above
        """Return whether there is room for the preemptor."""
        return all(have >= need for have, need in zip(self._left, self._needs, strict=True))

    def lift(self, leads: Rows) -> None:
        """Remove units from the node."""
        for lead in leads.tolist():
            self._left = [have + more for have, more in zip(self._left, self._of(lead), strict=True)]

    def put_back(self, leads: Rows) -> None:
        """Put units back."""
        for lead in leads.tolist():
            self._left = [have - less for have, less in zip(self._left, self._of(lead), strict=True)]

    def reprieve(self, leads: Rows, placed: dict[int, int]) -> list[int]:  # noqa: ARG002 - it has its room
        """Put back in order the units for which there is room; return them."""
        back = []
        for lead in leads.tolist():
            left = beside(self._left, self._of(lead))
            if left is not None:
                self._left = left
                back.append(lead)
        return back

    def _of(self, lead: int) -> list[int]:
        """Return the room that a unit takes here."""
        wants = self._wants.get(lead)
        if wants is None:
            members = self.units.members(lead)
            here = members[self.units.at[members] == self._node].tolist()
            requests = self.snapshot.requests
            wants = self._wants[lead] = [
                sum(requests[at].item(row) for row in here) for at in self._resources
            ]
        return wants
