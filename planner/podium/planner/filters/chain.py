"""Combines every filter of one snapshot into one question: may a pod run on a node, and if not, why not.

Three callers want the answer in three forms. Placing wants all nodes at once, as a mask. Preemption checks
one pod and one node thousands of times, and must know which refusals no preemption changes. A reader wants
the sentence that kube-scheduler would write. The three must never disagree, so only this module decides the
order of the filters and which part of a shape each filter reads.

Most shapes are concerned by few filters, so that is computed once for each shape. The part that only depends
on nodes is one mask. Filters that look at other pods run only if the shape, or a pod around it, has such a
term (see `existingterms`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from podium.api.core import Namespace
from podium.api.selectors import NodeRequirement, Requirement, Selector
from podium.planner.arrays import Bools, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.attachlimits import (
    AttachedVolumes,
    AttachLimitsFilter,
    InstalledDriversFilter,
)
from podium.planner.filters.counters import DomainCounters, SelectorCounters, required_labels
from podium.planner.filters.devices import DevicesFilter
from podium.planner.filters.exclusive import (
    DisksFilter,
    ExclusiveClaimsFilter,
    ExclusiveCounters,
    HostPortsFilter,
)
from podium.planner.filters.existingterms import ExistingTerms
from podium.planner.filters.nodes import (
    DeclaredFeaturesFilter,
    NodeAffinityFilter,
    NodeCache,
    StaticFilter,
    TaintTolerationFilter,
    VolumeZoneFilter,
    node_filters,
    pod_refusal,
)
from podium.planner.filters.nominated import NominatedPods
from podium.planner.filters.podaffinity import (
    ExistingAntiAffinityFilter,
    PodAffinityFilter,
    PodAntiAffinityFilter,
    labels_of,
)
from podium.planner.filters.refusals import Refusals, Unmet, counted_reason
from podium.planner.filters.resources import ResourcesFilter
from podium.planner.filters.spread import SpreadCounters, TopologyLabelsFilter, TopologySpreadFilter
from podium.planner.filters.terms import unmet_terms
from podium.planner.filters.volumebinding import VolumeBindingFilter
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

# The number of nodes that a refusal names.
_EXAMPLES = 3
# The most shapes for which the results are kept.
_SHAPES = 2**14


class _NodeFilter(Protocol):
    def mask(self, shape: Shape) -> Bools: ...
    def reason(self, shape: Shape, row: int) -> str | None: ...


@dataclass(slots=True)
class _ShapeFilters:
    """The parts of the filters that concern one shape, valid until nodes, terms or resources change.

    `neighbours` are found when they are first needed: the terms of all other pods may be many.
    """

    shape: Shape
    static: Bools
    has_room: Callable[[int], bool]
    neighbours: tuple[_NodeFilter, ...] | None = None


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
        """`reserved` is the label of the only nodes that may be used, if it is set (see Settings).

        By `own_rules` the attachments and the devices of a pod go with it (see `attachlimits` and `devices`),
        and the delayed claims of a gang are decided together (see `volumebinding`). kube-scheduler does none
        of these. `empty_selector` says that spread constraints with an empty selector count all pods.
        """
        self.snapshot = snapshot
        self.namespaces = namespaces
        nodes = node_filters(snapshot, reserved)
        self.volume_binding = VolumeBindingFilter(snapshot, sums=own_rules)
        self._zones = VolumeZoneFilter(snapshot)
        self.devices = DevicesFilter(snapshot, freed_by_pods=own_rules)
        self.asked = asked = SelectorCounters(snapshot)
        self.node_affinity = next(
            node_filter for node_filter in nodes if isinstance(node_filter, NodeAffinityFilter)
        )
        self.taints = next(
            node_filter for node_filter in nodes if isinstance(node_filter, TaintTolerationFilter)
        )
        self.resources = ResourcesFilter(snapshot)
        self._taken = taken = ExclusiveCounters(snapshot)
        self._ports, self._disks = HostPortsFilter(taken), DisksFilter(taken)
        self._claims = ExclusiveClaimsFilter(taken)
        self._attached = AttachedVolumes(snapshot, freed_by_pods=own_rules)
        self.attach_limits = AttachLimitsFilter(self._attached)
        self._drivers = InstalledDriversFilter(snapshot)
        self.nominated = NominatedPods(snapshot)
        self.spread_counters = SpreadCounters(
            asked, self.node_affinity, self.taints, empty_selector=empty_selector
        )
        self.spread = TopologySpreadFilter(asked, self.spread_counters, self.nominated)
        self.pod_affinity = PodAffinityFilter(asked, namespaces, self.nominated)
        self._pod_anti_affinity = PodAntiAffinityFilter(asked, namespaces)
        self._existing = ExistingAntiAffinityFilter(snapshot, namespaces)
        self._anti_affinity_terms = ExistingTerms(snapshot, namespaces, lambda shape: shape.pod_anti_affinity)
        labels, features = TopologyLabelsFilter(snapshot), DeclaredFeaturesFilter(snapshot)
        volumes = self.volume_binding.affinity, self.volume_binding.missing, self._zones
        self._static: tuple[StaticFilter, ...] = (
            *nodes,
            self._drivers,
            *volumes,
            labels,
            features,
            self.devices.allocated,
        )
        affinity = (self.pod_affinity, self._pod_anti_affinity, self._existing)
        attached = (self._disks, self._claims, self._drivers, self.attach_limits)
        self._ordered: tuple[_NodeFilter, ...] = (
            *nodes, self._ports, self.resources, *attached, self.volume_binding, self._zones,
            self.spread, labels, *affinity, self.devices, features,
        )  # fmt: skip
        # The filters that have one reason for a node, and another or several for the next.
        self._several = self.resources, self._drivers, self.volume_binding, self.devices
        self._masks = NodeCache[Bools](snapshot)
        self._names = NodeCache[Rows](snapshot)
        self._by_shape: dict[int, _ShapeFilters] = {}
        # The versions of nodes, shapes, resources, terms and limits for which `_by_shape` are valid.
        self._version = (-1, -1, -1, -1, -1)
        # The only node rows that may be used; None for all.
        self._within: Bools | None = None

    @property
    def counters(self) -> tuple[DomainCounters[Any], ...]:
        """All counters of the filters."""
        return self.asked, self._taken, self._attached, self._existing.counters

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

    def announce(self, shape_ids: Iterable[int]) -> None:
        """Announce that pods of these shapes are about to be placed; call it before any check of them."""
        self._anti_affinity_terms.announce(shape_ids)

    def drop_idle(self) -> None:
        """Forget the announced pods; call it before a plan is tried."""
        self._anti_affinity_terms.drop_idle()

    def feasible(self, shape: Shape) -> Bools:
        """Return the node rows on which a pod of a shape may run now."""
        return self.with_room(shape) & self.neighbours(shape)

    def with_room(self, shape: Shape) -> Bools:
        """Return the node rows that suit a shape and have room for it, apart from other pods' terms."""
        return self._filters_for(shape).static & self.resources.mask(shape)

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
        for node_filter in self._ordered:
            refusal = node_filter.reason(shape, row)
            if refusal is None:
                continue
            if node_filter is self.resources:
                return self.resources.reasons(shape, row)
            return (
                self.volume_binding.reasons(shape, row) if node_filter is self.volume_binding else (refusal,)
            )
        return ()

    def unreached(self, shape: Shape, row: int) -> str:
        """Return why a node row cannot use the volumes and devices that a shape has; empty if it can."""
        volumes = self.volume_binding.reason(shape, row), self._zones.reason(shape, row)
        reasons = (*volumes, self.devices.allocated.reason(shape, row))
        return next(filter(None, reasons), "")

    def resources_only(self, shape: Shape) -> bool:
        """Return whether only nodes and room decide for a shape, wherever the snapshot's pods run."""
        return not self._neighbours_for(shape)

    def static(self, shape: Shape) -> Bools:
        """Return the node rows that suit a shape, are large enough when empty, and have its volumes."""
        suiting = self._filters_for(shape).static & self.resources.resolvable(shape)
        if shape.delayed:
            suiting &= self.volume_binding.mask(shape)
        return suiting & self.devices.possible(shape) if _claims(shape) else suiting

    def suits_node(self, shape: Shape, row: int) -> bool:
        """Return whether one node row is in `static`."""
        filters = self._filters_for(shape)
        suits: bool = filters.static.item(row) and self.resources.resolvable_at(shape, row)
        if suits and _claims(shape):
            suits = self.devices.possible(shape).item(row)
        return suits and (not shape.delayed or self.volume_binding.reason(shape, row) is None)

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
            if node_filter is self.attach_limits:
                accepted &= self.attach_limits.mask(shape, shared=False)
                continue
            mask = node_filter.mask(shape)
            if node_filter is self.volume_binding:
                refused |= ~mask
            if node_filter is self.devices:
                refused |= ~self.devices.possible(shape)
            if node_filter is self.spread or node_filter is self.pod_affinity:
                deadline.enforce()
                if self._counted(shape, others, deadline):
                    accepted[:] = False
                    continue
                refused |= ~mask
            accepted &= mask
        return accepted, refused

    def _counted(self, shape: Shape, others: Sequence[Shape], deadline: Deadline) -> bool:
        """Return whether pods of other shapes count in the affinity or spread terms of a shape."""
        beside = [other for other in others if shape.spread and other.namespace == shape.namespace]
        for constraint in shape.spread:
            means = constraint.selector.matches if constraint.selector is not None else lambda _: False
            for other in _with_pins(constraint.selector, beside):
                deadline.enforce()
                if means(dict(other.labels)):
                    return True
        for term in shape.pod_affinity:
            for other in _with_pins(term.selector, others):
                deadline.enforce()
                around = labels_of(self.namespaces.get(other.namespace))
                if term.matches(other.namespace, around, dict(other.labels)):
                    return True
        return False

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
        claims = self.volume_binding.refusing_claims(shape)
        reasons = *sorted(permanent, key=counted_reason), *sorted(temporary, key=counted_reason)
        return Refusals(number, reasons, shape, pod_refusal(shape), claims)

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
        for node_filter in sorted(self._static, key=lambda node_filter: node_filter.KEEPS_OUT):
            mask = node_filter.mask(shape)
            if (left & ~mask).any() or not (nodes & mask).any():
                (kept_out if node_filter.KEEPS_OUT else required).append(node_filter.unmet(shape, nodes))
            left &= mask
        required.append(self.volume_binding.unmet(shape))
        if left.any():
            required.append(self.resources.unmet(shape, left))
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
        for node_filter in (self.pod_affinity, self._pod_anti_affinity, self._existing):
            node_filter.reload_namespaces()
        self._by_shape = {}

    def refused_rows(self, shape: Shape, asked: Bools) -> Iterator[tuple[str, Bools]]:
        """Yield the rows that each filter is the first to refuse, by its reason."""
        left = asked.copy()
        for node_filter in self._ordered:
            refused = left & ~node_filter.mask(shape)
            if not refused.any():
                continue
            left &= ~refused
            several = next((candidate for candidate in self._several if candidate is node_filter), None)
            if several is None:
                yield node_filter.reason(shape, int(refused.argmax())) or "", refused
                continue
            for reason, short in several.short(shape).items():
                yield reason, refused & short

    def _filters_for(self, shape: Shape) -> _ShapeFilters:
        snapshot = self.snapshot
        now = (
            snapshot.node_revision,
            snapshot.next_shape_id,
            snapshot.layout,
            self._anti_affinity_terms.version,
            self._attached.revision,
        )
        if now != self._version or len(self._by_shape) >= _SHAPES:
            self._by_shape, self._version = {}, now
        filters = self._by_shape.get(id(shape))
        if filters is None:
            static = self._masks.get(node_constraints(shape), lambda: self._suitable(shape))
            if self._within is not None:
                static = static & self._within
            filters = self._by_shape[id(shape)] = _ShapeFilters(shape, static, self.resources.fits_at(shape))
        return filters

    def _neighbours_for(self, shape: Shape) -> tuple[_NodeFilter, ...]:
        filters = self._filters_for(shape)
        if filters.neighbours is None:
            filters.neighbours = tuple(self._neighbour_filters(shape))
        return filters.neighbours

    def _suitable(self, shape: Shape) -> Bools:
        suiting = self.snapshot.alive.copy()
        for node_filter in self._static:
            suiting &= node_filter.mask(shape)
        return suiting

    def _neighbour_filters(self, shape: Shape) -> Iterator[_NodeFilter]:
        if shape.ports:
            yield self._ports
        if shape.disks:
            yield self._disks
        if shape.exclusive_claims:
            yield self._claims
        if shape.delayed:
            yield self.volume_binding
        if shape.attachments and self.attach_limits.concerns(shape):
            yield self.attach_limits
        if shape.spread:
            yield self.spread
        if shape.pod_affinity:
            yield self.pod_affinity
        if shape.pod_anti_affinity:
            yield self._pod_anti_affinity
        if self._anti_affinity_terms.matches(shape):
            yield self._existing
        if self.devices.concerns(shape):
            yield self.devices


def node_constraints(shape: Shape) -> tuple[object, ...]:
    """Return the part of a shape that decides which nodes suit it, apart from other pods."""
    labels = tuple(constraint.topology_key for constraint in shape.spread)
    affinity = (shape.selector, shape.node_required)
    volumes = (shape.required_drivers, shape.volumes, shape.zones, shape.volume_missing)
    devices = tuple(need.nodes for need in shape.devices if not need.requests)
    claims = (bool(shape.refused), devices, *volumes)
    return shape.node_name, shape.tolerations, affinity, claims, shape.features, labels


def _claims(shape: Shape) -> bool:
    """Return whether devices decide about the nodes of a shape."""
    return bool(shape.devices or shape.extended.resources)


def _with_pins(selector: Selector | None, shapes: Sequence[Shape]) -> Iterable[Shape]:
    """Return the shapes that a selector may match, judged by one label that it names."""
    marks = required_labels(selector)
    if marks is None:
        return shapes
    return [shape for shape in shapes if any(mark in shape.labels for mark in marks)]
