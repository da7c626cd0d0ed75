"""Combines every filter of one snapshot into one question: may a pod run on a node, and if not, why not.

Three callers want the answer in three forms. Placing wants all nodes at once, as a mask. Preemption checks
one pod and one node thousands of times, and must know which refusals no preemption changes. A reader wants
the sentence that kube-scheduler would write. The three must never disagree, so only this module decides the
order of the filters and which part of a shape each filter reads.

Most shapes are concerned by few filters, so that is computed once for each shape. The part that only depends
on nodes is one mask. Filters that look at other pods run only if the shape, or a pod around it, has such a
term (see `NodeFilter.concerns`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podium.api.core import Namespace
from podium.api.selectors import NodeRequirement, Requirement
from podium.planner.arrays import Bools, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.counters import NominatedPods
from podium.planner.filters.nodes import NodeCache, StaticFilter, unmet_terms
from podium.planner.framework import ChainContext, DomainLimit, NodeFilter, PodCounters, RoomFilter
from podium.planner.reprieve import Exclusion, PodsByShape
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot


class Unmet(NamedTuple):
    """The reasons that keep a pod from nodes whatever is preempted; both are empty without such a reason.

    `first` precedes all other reasons, and `aside` follows them. `everywhere` says that no node is left for
    which a preemption could help.
    """

    first: str = ""
    aside: str = ""
    everywhere: bool = False


class Refusals(NamedTuple):
    """Why no node takes a pod: each reason with how many of `nodes` it refused, and the first few by name.

    Each node is refused by one filter, and counts for each reason of that filter. Reasons that no preemption
    changes come first. `pod` is why a pod of the `shape` was refused before any node was checked, empty if it
    was not. `remark` is a sentence that explains reasons, such as which claim finds no volume. `domains`
    begins the sentence of a group with a topology constraint, whose nodes are those of one domain, and
    `members` says how many members have room. `unmet` is known for a refusal that is reported.
    """

    nodes: int
    reasons: tuple[tuple[str, int, tuple[str, ...]], ...]
    shape: Shape
    pod: str = ""
    remark: str = ""
    domains: str = ""
    members: str = ""
    unmet: Unmet = Unmet()

    @property
    def sentence(self) -> str:
        """The sentence of kube-scheduler, which sorts the reasons with their numbers as texts."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        refusal = self.pod or ", ".join(sorted(map(counted_reason, self.reasons)))
        return f"{self.domains}{self.members}0/{self.nodes} nodes are available: {refusal}."

    @property
    def message(self) -> str:
        """The sentence, and what no preemption changes."""
        return self.explained(self.sentence)

    def beside_members(self, number: int, needed: int, kind: str = "members") -> "Refusals":
        """Return the refusals of a member, with the number of the needed ones that have room."""
        have = f"{number:,} of {needed:,} {kind} {'has' if number == 1 else 'have'} room; "
        return self._replace(members=have if number else "")

    def ineligible(self, why: str) -> str:
        """Return the message for a pod that may not preempt, with the reason.

        The reason comes last if no preemption helps in any case.
        """
        if self.unmet.everywhere:
            return f"{self.message} {why}"
        return self.explained(f"{why.rstrip('.')}. {self.sentence}")

    def explained(self, sentence: str) -> str:
        """Return sentences on the refusal with what no preemption changes."""
        first = f"{self.unmet.first}; " if self.unmet.first else ""
        return f"{first}{sentence}{self.unmet.aside and f' {self.unmet.aside}.'}"


def counted_reason(reason: tuple[str, int, tuple[str, ...]]) -> str:
    """Return a reason as the message has it: `3 Insufficient cpu`."""
    return f"{reason[1]} {reason[0]}"


# The number of nodes that a refusal names.
_EXAMPLES = 3
# The most shapes for which the results are kept.
_SHAPES = 2**14


@dataclass(slots=True)
class _ShapeFilters:
    """The parts of the filters that concern one shape, valid until nodes, terms or resources change.

    `neighbours` are found when they are first needed: the terms of all other pods may be many.
    """

    shape: Shape
    static: Bools
    has_room: Callable[[int], bool]
    neighbours: tuple[NodeFilter, ...] | None = None


class _PodRefusalFilter(StaticFilter):
    """No nodes for a pod that kube-scheduler refuses before it checks a node, and all nodes for others."""

    FIRST = True

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot, lambda shape: shape.refused)

    def reason(self, shape: Shape, row: int) -> str | None:  # noqa: ARG002 - it is the same for every row
        """Return the reason against the pod."""
        return shape.refused or None

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - as above
        """Return nothing: the reason against the pod names no node."""
        return ""

    def _feasible(self, shape: Shape) -> Bools:
        return np.full(len(self._snapshot.alive), not shape.refused)


class Chain:
    """All filters of one snapshot, in kube-scheduler's order; `namespaces` may change.

    Shapes are compared by identity: pass those of the snapshot, not copies. A trial changes no answer
    permanently.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        namespaces: Mapping[str, Namespace],
        reserved: str = "",
        *,
        own_rules: bool = True,
        empty_selector: bool = True,
    ) -> None:
        """The last three are those of ChainContext."""
        self.snapshot = snapshot
        context = ChainContext(namespaces, reserved, own_rules=own_rules, empty_selector=empty_selector)
        self.nominated = context.shared(NominatedPods, snapshot)
        # In the order of kube-scheduler, which is that of the plugins.
        filters = (_PodRefusalFilter(snapshot), *context.filters_of(snapshot.plugins))
        self._filters = tuple(sorted(filters, key=lambda node_filter: not node_filter.FIRST))
        self.room = next(node_filter for node_filter in filters if isinstance(node_filter, RoomFilter))
        self.fixed = tuple(part for node_filter in self._filters for part in node_filter.static)
        # The filters that other pods concern.
        self.dynamic = tuple(
            node_filter for node_filter in self._filters if node_filter not in node_filter.static
        )
        self._changing = tuple(
            node_filter for node_filter in self.dynamic if node_filter.revision is not None
        )
        self._masks = NodeCache[Bools](snapshot)
        self._names = NodeCache[Rows](snapshot)
        self._by_shape: dict[int, _ShapeFilters] = {}
        # The versions of nodes, shapes, resources, terms and limits for which `_by_shape` are valid.
        self._version: tuple[int | None, ...] = ()
        # The only node rows that may be used; None for all.
        self._within: Bools | None = None

    @property
    def counters(self) -> tuple[PodCounters, ...]:
        """All counters of the filters, each once."""
        counters = (counter for node_filter in self._filters for counter in node_filter.counters)
        return tuple(dict.fromkeys(counters))

    @property
    def limit(self) -> Bools | None:
        """The node rows of the blocks of `within` that have begun, None without one."""
        return self._within

    @property
    def nodes(self) -> Bools:
        """The rows of the nodes that are asked."""
        alive = self.snapshot.alive
        return alive if self._within is None else alive & self._within

    @contextmanager
    def within(self, nodes: Bools | None) -> Iterator[None]:
        """Ask only these node rows in this block, as for a group in a topology domain; None for no limit."""
        if nodes is None:
            yield
            return
        before = self._within, self._by_shape, self._version
        self._within, self._by_shape = nodes if self._within is None else nodes & self._within, {}
        try:
            yield
        finally:
            self._within, self._by_shape, self._version = before

    def announce(self, shape_ids: Collection[int]) -> None:
        """Announce that pods of these shapes are about to be placed; call it before any check of them."""
        for node_filter in self.dynamic:
            node_filter.announce(shape_ids)

    def drop_idle(self) -> None:
        """Forget the announced pods; call it before a plan is tried."""
        for node_filter in self.dynamic:
            node_filter.drop_idle()

    def feasible(self, shape: Shape) -> Bools:
        """Return the node rows on which a pod of a shape may run now."""
        return self.with_room(shape) & self.neighbours(shape)

    def with_room(self, shape: Shape) -> Bools:
        """Return the node rows that suit a shape and have room for it, apart from other pods' terms."""
        return self._filters_for(shape).static & self.room.mask(shape)

    def neighbours(self, shape: Shape) -> Bools:
        """Return the node rows where no other pod excludes one of the shape, whatever the room."""
        free = np.ones(len(self.snapshot.alive), np.bool_)
        for node_filter in self._neighbours_for(shape):
            free &= node_filter.mask(shape)
        return free

    def fits(self, shape: Shape, row: int) -> bool:
        """Return whether a pod of a shape may run on one node row now; no other node is checked."""
        filters = self._filters_for(shape)
        if not (filters.static.item(row) and filters.has_room(row)):
            return False
        neighbours = filters.neighbours
        if neighbours is None:
            neighbours = self._neighbours_for(shape)
        return not neighbours or all(node_filter.reason(shape, row) is None for node_filter in neighbours)

    def reasons(self, shape: Shape, row: int) -> tuple[str, ...]:
        """Return the reasons of the first filter that refuses a node row; empty if the pod fits."""
        reasons = (node_filter.reasons(shape, row) for node_filter in self._filters)
        return next(filter(None, reasons), ())

    def unreached(self, shape: Shape, row: int) -> str:
        """Return why a node row cannot use what a shape has got there already; empty if it can."""
        reasons = (node_filter.lost(shape, row) for node_filter in self._filters)
        return next(filter(None, reasons), "")

    def resources_only(self, shape: Shape) -> bool:
        """Return whether only nodes and room decide for a shape, wherever the snapshot's pods run."""
        return not self._neighbours_for(shape)

    def static(self, shape: Shape) -> Bools:
        """Return the node rows that may take a pod of a shape once other pods are gone."""
        suiting = self._filters_for(shape).static.copy()
        for node_filter in self.dynamic:
            possible = node_filter.possible(shape)
            if possible is not None:
                suiting &= possible
        return suiting

    def suits_node(self, shape: Shape, row: int) -> bool:
        """Return whether one node row is in `static`."""
        suits: bool = self._filters_for(shape).static.item(row)
        return suits and all(node_filter.possible_at(shape, row) for node_filter in self.dynamic)

    def regardless_of(
        self, shape: Shape, others: Sequence[Shape], deadline: Deadline = NEVER
    ) -> tuple[Bools, Bools]:
        """Return the node rows where no filter on other pods ever refuses, and those where one always does.

        This holds whichever pods of the shapes `others` are removed or come back. For rows in neither mask it
        depends on them. Affinity and spread may refuse a pod because others are gone. So may attach limits,
        if the others share a volume with the pod.
        """
        accepted = np.ones(len(self.snapshot.alive), np.bool_)
        refused = ~accepted
        for node_filter in self._neighbours_for(shape):
            always, never = node_filter.regardless_of(shape, others, deadline)
            accepted &= always
            refused |= never
        return accepted, refused

    def exclusions(
        self, shapes: Mapping[int, Shape], pods: PodsByShape, deadline: Deadline = NEVER
    ) -> Iterator[Exclusion]:
        """Yield the pods that keep pods of some shapes out of a domain (see `NodeFilter.exclusions`)."""
        for node_filter in self.dynamic:
            for exclusion in node_filter.exclusions(shapes, pods, deadline):
                deadline.enforce()
                yield exclusion

    def limits(self, shape: Shape) -> Iterator[DomainLimit]:
        """Yield the limits on the pods of a shape in each domain."""
        for node_filter in self._neighbours_for(shape):
            yield from node_filter.limits(shape)

    def refusals(self, shape: Shape) -> Refusals:
        """Return why nodes are refused, as kube-scheduler reports it."""
        return self.refusals_of(shape, self.refused_rows(shape, self.nodes))

    def refusals_of(self, shape: Shape, refused: Iterable[tuple[str, Bools]]) -> Refusals:
        """Return the refusals of a shape on the nodes, from reasons with the rows that each refuses."""
        order, suiting = self.by_name(), self._filters_for(shape).static
        permanent: list[tuple[str, int, tuple[str, ...]]] = []
        temporary: list[tuple[str, int, tuple[str, ...]]] = []
        for reason, rows in refused:
            there = order[rows[order]]
            names = tuple(self.snapshot.node_name(row) for row in there[:_EXAMPLES].tolist())
            if len(there):
                (temporary if suiting[there].any() else permanent).append((reason, len(there), names))
        number = int(self.nodes.sum())
        remarks = (node_filter.remark(shape) for node_filter in self.dynamic)
        reasons = *sorted(permanent, key=counted_reason), *sorted(temporary, key=counted_reason)
        return Refusals(number, reasons, shape, shape.refused, " ".join(filter(None, remarks)))

    def unmet(self, shape: Shape, topology: Sequence[str] = ()) -> Unmet:
        """Return what keeps a pod of a shape from nodes whatever is preempted; call it only for a report.

        `topology` are the labels without which a node is in no domain of the pod's group. The
        pod's requirements come before taints and cordons. Every cluster has some of these, so they come first
        only if no node suits the pod.
        """
        nodes = self.nodes
        if not nodes.any():
            return Unmet(everywhere=True)
        left, required, kept_out = nodes.copy(), list[str](), list[str]()
        for key in topology:
            rows = self.snapshot.columns.column(key) >= 0
            if (left & ~rows).any():
                term = NodeRequirement((Requirement(key, "Exists"),))
                words = unmet_terms(self.snapshot, nodes, (term,))
                required.append(f"{words} (for the topology of the group)")
            left &= rows
        for node_filter in sorted(self.fixed, key=lambda node_filter: node_filter.KEEPS_OUT):
            mask = node_filter.mask(shape)
            if (left & ~mask).any() or not (nodes & mask).any():
                (kept_out if node_filter.KEEPS_OUT else required).append(node_filter.unmet(shape, nodes))
            left &= mask
        required += (node_filter.unmet(shape, left) for node_filter in self.dynamic)
        if left.any():
            left &= self.static(shape)
        first, aside = (list(filter(None, texts)) for texts in (required, kept_out))
        if left.any():
            return Unmet("; ".join(first), "; ".join(aside))
        return Unmet("; ".join(first + aside), everywhere=True)

    def by_name(self) -> Rows:
        """Return the rows of all nodes in the order of their names; read only."""
        snapshot = self.snapshot
        return self._names.get(
            "names", lambda: np.array([row for _, row in sorted(snapshot.row.items())], np.intp)
        )

    def reload_namespaces(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        for node_filter in self._filters:
            node_filter.reload_namespaces()
        self._by_shape = {}

    def refused_rows(self, shape: Shape, asked: Bools) -> Iterator[tuple[str, Bools]]:
        """Yield the rows that each filter is the first to refuse, by its reason."""
        left = asked.copy()
        for node_filter in self._filters:
            refused = left & ~node_filter.mask(shape)
            if refused.any():
                left &= ~refused
                yield from node_filter.refused_by_reason(shape, refused).items()

    def _filters_for(self, shape: Shape) -> _ShapeFilters:
        snapshot = self.snapshot
        now = (
            snapshot.node_revision,
            snapshot.next_shape_id,
            snapshot.layout,
            *(node_filter.revision for node_filter in self._changing),
        )
        if now != self._version or len(self._by_shape) >= _SHAPES:
            self._by_shape, self._version = {}, now
        filters = self._by_shape.get(id(shape))
        if filters is None:
            static = self._masks.get(node_constraints(shape), lambda: self._suitable(shape))
            if self._within is not None:
                static = static & self._within
            filters = self._by_shape[id(shape)] = _ShapeFilters(shape, static, self.room.fits_at(shape))
        return filters

    def _neighbours_for(self, shape: Shape) -> tuple[NodeFilter, ...]:
        filters = self._filters_for(shape)
        if filters.neighbours is None:
            filters.neighbours = tuple(
                node_filter for node_filter in self.dynamic if node_filter.concerns(shape)
            )
        return filters.neighbours

    def _suitable(self, shape: Shape) -> Bools:
        suiting = self.snapshot.alive.copy()
        for node_filter in self.fixed:
            suiting &= node_filter.mask(shape)
        return suiting


def node_constraints(shape: Shape) -> tuple[object, ...]:
    """Return the part of a shape that decides which nodes suit it, apart from other pods."""
    return bool(shape.refused), *(need.node_constraints for need in shape.needs)
