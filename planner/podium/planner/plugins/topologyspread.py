"""The plugin PodTopologySpread: whether one more pod keeps pods evenly spread.

A node may take a pod if its domain would then hold at most maxSkew pods more than the emptiest. The domains
are those the pod sees: nodes with every key of its hard constraints, which its node affinity and (if
requested) its tolerations admit. Only pods on those nodes count, in the pod's namespace, and none that is
being deleted. A selector that selects everything counts no pod. Below minDomains domains the emptiest counts
as empty. Pods that are only nominated may not come: the skew must be kept with them and without them.

There are two checks. The first is whether each constraint keeps the skew, up to the first whose label the
node lacks. The second is whether the node has all the labels. In this order they refuse a node with
kube-scheduler's own reason. Preemption may resolve only a refusal by the first check.

Soft constraints (ScheduleAnyway) score nodes by the same counters, in upstream's arithmetic. Upstream spreads
pods without any constraint by the Services and ReplicaSets that select them. That is not done here.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from podium.api.schedulable import Schedulable
from podium.api.selectors import (
    Labels,
    NodeRequirement,
    Requirement,
    Selector,
    conjoined,
    selector_of,
)
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.counter import DomainCounter, Domains
from podium.planner.filters.counters import (
    NO_PODS,
    CountQuery,
    NominatedPods,
    PerShape,
    PodSelection,
    SelectorCounters,
    positions_of,
    unless_counted,
    with_pins,
)
from podium.planner.filters.nodes import NodeCache, StaticFilter, unmet_terms
from podium.planner.framework import FULL, MAX_SCORE, ChainContext, DomainLimit, NodeFilter, Plugin
from podium.planner.reprieve import PlacedMembers, PodsByShape, Reprieve
from podium.planner.shapes import PodNeed, Shape, ShapeContext, need_at
from podium.planner.snapshot import Snapshot

# The weight of the score in the sum (kube-scheduler's default profile).
_WEIGHT = 2


class SpreadConstraint(NamedTuple):
    """A limit on the difference in the number of selected pods between domains of a topology key."""

    max_skew: int
    topology_key: str
    selector: Selector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False

    def selects(self, labels: Labels) -> bool:
        """Return whether a pod with these labels counts."""
        return self.selector is not None and self.selector.matches(labels)


class SpreadNeed(PodNeed, frozen=True, cache_hash=True):
    """The constraints of a pod: `hard` ones refuse nodes, `soft` ones score them."""

    hard: tuple[SpreadConstraint, ...] = ()
    soft: tuple[SpreadConstraint, ...] = ()

    @property
    def node_constraints(self) -> tuple[str, ...]:
        """The topology keys of the hard constraints."""
        return tuple(constraint.topology_key for constraint in self.hard)

    @property
    def selectors(self) -> Iterator[Selector]:
        """The selectors of all constraints."""
        for constraint in (*self.hard, *self.soft):
            if constraint.selector is not None:
                yield constraint.selector

    @property
    def looks_around(self) -> bool:
        """Whether there are hard constraints."""
        return bool(self.hard)

    def looks_at(self, shape: Shape, namespace: str, labels: Labels) -> bool:
        """Return whether a pod counts for a hard constraint."""
        return namespace == shape.namespace and any(constraint.selects(labels) for constraint in self.hard)


NeedOf = Callable[[Shape], SpreadNeed]


class SpreadCounter(DomainCounter):
    """A counter of pods that are to stay, which also knows how few the emptiest domain holds."""

    def __init__(self, domains: Domains) -> None:
        super().__init__(domains, terminating=False)
        self.domains_now = 0
        self._least = 0
        # The number of domains by their number of pods, so that the least is found without a search.
        self._holding: Counter[int] = Counter()

    def least(self, min_domains: int, less: Mapping[int, int] = NO_PODS) -> int:
        """Return the pods in the emptiest domain; 0 while there are fewer domains than `min_domains`.

        `less` is subtracted from the pods of some domains.
        """
        if self.domains_now < min_domains:
            return 0
        return min([self._least, *(self.counts.get(domain, 0) - fewer for domain, fewer in less.items())])

    def refresh(self, revision: int) -> None:
        """Update to the current nodes, and count the domains that they are in."""
        changed = revision != self._revision
        super().refresh(revision)
        if not changed:
            return
        column = self.domains.column()
        self.domains_now = len(np.unique(column[column >= 0]))
        self._holding = Counter(self.counts.values())
        if self.domains_now > len(self.counts):
            self._holding[0] = self.domains_now - len(self.counts)
        self._least = min(self._holding, default=0)

    def holding(self, number: int) -> int:
        """Return the number of domains that hold that many pods."""
        return self._holding[number]

    def _shift(self, domain: int, number: int) -> None:
        before = self.counts.get(domain, 0)
        super()._shift(domain, number)
        self._holding[before] -= 1
        self._holding[before + number] += 1
        if not self._holding[before]:
            del self._holding[before]
        if before + number < self._least or before == self._least not in self._holding:
            self._least = min(self._holding)


class SpreadCounters:
    """The counters of constraints, shared by all shapes that see the same nodes in the same way."""

    def __init__(
        self, asked: SelectorCounters, honored: Mapping[str, NodeFilter], *, empty_selector: bool
    ) -> None:
        """`honored` has the filters by name whose refusals a constraint may honor.

        `empty_selector` says that an empty selector selects all pods of the namespace, else none.
        """
        self._snapshot = asked.snapshot
        self._empty_selector = empty_selector
        self._asked = asked
        self._honored = honored
        self._columns = NodeCache[Int32s](asked.snapshot)

    def counter(self, shape: Shape, constraints: tuple[SpreadConstraint, ...], which: int) -> SpreadCounter:
        """Return the counter of one of a shape's constraints.

        The hard constraints are taken together, and so are the soft ones.
        """
        constraint = constraints[which]
        key = constraint.topology_key
        keys = tuple(sorted({constraint.topology_key for constraint in constraints}))
        filters = self._filters(constraint)
        view = (key, keys, *(None if own is None else own.reads(shape) for own in filters))

        def column() -> Int32s:
            return self._columns.get(view, lambda: self._admitted(shape, constraint, keys))

        domains = Domains(column, lambda: self._snapshot.columns.values(key).size)
        return self._asked.counter_for(
            CountQuery((self.counted_by(shape, constraint),), view), lambda: SpreadCounter(domains)
        )

    def _filters(self, constraint: SpreadConstraint) -> tuple[NodeFilter | None, NodeFilter | None]:
        """Return the filters whose refusals a constraint honors."""
        return (
            self._honored.get("NodeAffinity") if constraint.honor_affinity else None,
            self._honored.get("TaintToleration") if constraint.honor_taints else None,
        )

    def counted_by(self, shape: Shape, constraint: SpreadConstraint) -> PodSelection:
        """Return the pods that a constraint of a shape counts."""
        selector = constraint.selector
        if selector is not None:
            selector = selector.counting(empty=self._empty_selector)
        return PodSelection(frozenset((shape.namespace,)), selector)

    def _admitted(self, shape: Shape, constraint: SpreadConstraint, keys: tuple[str, ...]) -> Int32s:
        """Return the domains of the nodes that count, -1 for the others."""
        snapshot = self._snapshot
        counts = snapshot.alive.copy()
        for key in keys:
            counts &= snapshot.columns.column(key) >= 0
        for node_filter in self._filters(constraint):
            if node_filter is not None:
                counts &= node_filter.mask(shape)
        return np.where(counts, snapshot.columns.column(constraint.topology_key), np.int32(-1))


class SpreadLimit(NamedTuple):
    """A constraint of one shape: how many pods more than the emptiest a domain may hold beforehand."""

    key: str
    pods: PodSelection
    counter: SpreadCounter
    spare: int
    min_domains: int

    def most(self, less: Mapping[int, int] = NO_PODS) -> int:
        """Return the pods that a domain may hold before one more comes, with `less` subtracted by domain."""
        return self.spare + self.counter.least(self.min_domains, less)


class TopologySpreadFilter(NodeFilter):
    """The skew of every hard constraint, and the score of soft ones."""

    COUNTS = LOSES = True

    def __init__(
        self, asked: SelectorCounters, needs: NeedOf, counters: SpreadCounters, nominated: NominatedPods
    ) -> None:
        self.counters = (asked,)
        self.asked = asked
        self.nominated = nominated
        self._snapshot = asked.snapshot
        self._needs = needs
        self._counters = counters
        self._plans = PerShape(asked, self._limits)
        self._levels = PerShape(asked, self._soft_counters)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows whose domains may hold one more pod of the shape."""
        snapshot = self._snapshot
        even = np.ones(len(snapshot.alive), np.bool_)
        labelled = even.copy()
        for limit in self._plans.get(shape):
            limit.counter.refresh(snapshot.node_revision)
            column = snapshot.columns.column(limit.key)
            labelled &= column >= 0
            for less in self.runs(limit):
                even &= ~labelled | (limit.counter.by_domain_without(less).take(column) <= limit.most(less))
        return even

    def concerns(self, shape: Shape) -> bool:
        """Return whether a shape has hard constraints."""
        return bool(self._needs(shape).hard)

    def regardless_of(
        self, shape: Shape, others: Sequence[Shape], deadline: Deadline = NEVER
    ) -> tuple[Bools, Bools]:
        """Return the answers of `mask` if none of the other pods counts; if one does, nothing is sure."""
        return unless_counted(self, shape, self._selected(shape, others), deadline)

    def _selected(self, shape: Shape, others: Sequence[Shape]) -> Iterator[bool]:
        beside = [other for other in others if other.namespace == shape.namespace]
        for constraint in self._needs(shape).hard:
            for other in with_pins(constraint.selector, beside):
                yield constraint.selects(dict(other.labels))

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        for limit in self._plans.get(shape):
            limit.counter.refresh(self._snapshot.node_revision)
            domain = self._snapshot.columns.column(limit.key).item(row)
            if domain < 0:
                return None
            held = limit.counter.counts.get(domain, 0)
            if any(held - less.get(domain, 0) > limit.most(less) for less in self.runs(limit)):
                return "node(s) didn't match pod topology spread constraints"
        return None

    def runs(self, limit: SpreadLimit) -> Iterator[Mapping[int, int]]:
        """Yield the pods to leave out by domain: none, and then the nominated ones if some count."""
        yield NO_PODS
        less = self.nominated.counted((limit.pods,), limit.counter)
        if less:
            yield less

    def constraints(self, shape: Shape) -> list[SpreadLimit]:
        """Return the evaluated constraints of a shape."""
        return self._plans.get(shape)

    def limits(self, shape: Shape) -> Iterator[DomainLimit]:
        """Yield the limits of the constraints that count pods of the shape itself."""
        for limit in self._plans.get(shape):
            if not limit.pods.match(shape):
                continue
            counter = limit.counter
            counter.refresh(self._snapshot.node_revision)
            column = counter.domains.column()
            # A domain without a node that counts takes no pod, nor does a node in no domain.
            held = [FULL] * (counter.domains.size() + 1)
            for domain in np.unique(column[column >= 0]).tolist():
                held[domain] = counter.counts.get(domain, 0)
            even = counter.domains_now >= limit.min_domains
            yield DomainLimit(column, held, limit.spare + 1, even)

    def reprieve(self, members: PlacedMembers) -> "SpreadReprieve | None":
        """Return what the constraints of members say of pods that are given back."""
        constrained = any(map(self.concerns, members.shapes.values()))
        return SpreadReprieve(self, self._snapshot, members) if constrained else None

    def prefers(self, shape: Shape) -> bool:
        """Return whether a shape has soft constraints."""
        return bool(self._needs(shape).soft)

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return a higher score for domains with fewer matching pods.

        The more domains there are, the more each pod in one counts. A node that lacks one of the labels gets
        0, and does not affect the scale.
        """
        levels, soft = self._levels.get(shape), self._needs(shape).soft
        if not levels or not len(rows):
            return np.zeros(len(rows), np.int64)
        domains = [self._snapshot.columns.column(constraint.topology_key)[rows] for constraint in soft]
        labelled = np.logical_and.reduce([column >= 0 for column in domains])
        if not labelled.any():
            return np.zeros(len(rows), np.int64)
        sums = np.zeros(len(rows))
        for constraint, column, counter in zip(soft, domains, levels, strict=True):
            counter.refresh(self._snapshot.node_revision)
            weight = math.log(len(np.unique(column[labelled])) + 2)
            sums += counter.by_domain().take(column) * weight + (constraint.max_skew - 1)
        # Rounded half up, as a whole number of pods is never negative.
        whole = np.trunc(sums)
        points = (whole + (sums - whole >= 0.5)).astype(np.int64)
        low, high = int(points[labelled].min()), int(points[labelled].max())
        scores = MAX_SCORE * (high + low - points) // high if high else np.full(len(rows), MAX_SCORE)
        return np.where(labelled, scores, 0) * _WEIGHT

    def _counted_in(self, constraints: tuple[SpreadConstraint, ...]) -> bool:
        # Pods on a node that lacks one of the keys do not count. With a key that no node has, no pods count.
        return all(self._snapshot.columns.has(constraint.topology_key) for constraint in constraints)

    def _soft_counters(self, shape: Shape) -> list[SpreadCounter]:
        soft = self._needs(shape).soft
        number = len(soft) if self._counted_in(soft) else 0
        return [self._counters.counter(shape, soft, which) for which in range(number)]

    def _limits(self, shape: Shape) -> list[SpreadLimit]:
        hard = self._needs(shape).hard
        if not self._counted_in(hard):
            return []
        labels = dict(shape.labels)
        limits = []
        for which, constraint in enumerate(hard):
            counter = self._counters.counter(shape, hard, which)
            spare = constraint.max_skew - constraint.selects(labels)
            pods = self._counters.counted_by(shape, constraint)
            limits.append(SpreadLimit(constraint.topology_key, pods, counter, spare, constraint.min_domains))
        return limits


class TopologyLabelsFilter(StaticFilter):
    """The nodes with every topology key of the hard constraints."""

    REASON = "node(s) didn't match pod topology spread constraints (missing required label)"

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the topology keys that some nodes lack."""
        term = NodeRequirement(tuple(Requirement(key, "Exists") for key in dict.fromkeys(self._needs(shape))))
        return f"{unmet_terms(self._snapshot, nodes, (term,))} (for a topology spread constraint)"

    def _feasible(self, shape: Shape) -> Bools:
        labelled = np.ones(len(self._snapshot.alive), np.bool_)
        for key in self._needs(shape):
            labelled &= self._snapshot.columns.column(key) >= 0
        return labelled


class _GroupSpreadLimit(NamedTuple):
    """A spread constraint of some members: where pods count, and how many more a domain may hold.

    `before` gives by domain the most members that are counted there when one of these is placed. `hosts` are
    the domains where any member counts.
    """

    limit: SpreadLimit
    column: Int32s
    before: dict[int, int]
    hosts: frozenset[int]


class SpreadReprieve(Reprieve):
    """The constraints of the members of a preemptor."""

    def __init__(self, spread: TopologySpreadFilter, snapshot: Snapshot, members: PlacedMembers) -> None:
        self._spread = spread
        self._snapshot = snapshot
        self._members = members
        self._version = spread.asked.version
        self._constraints = self._spread_limits()

    def counted(self, pods: PodsByShape, rows: Rows, nodes: Int32s) -> Bools:
        """Return which pods count on these nodes in a constraint of a member."""
        counted = np.zeros(len(rows), np.bool_)
        for spread in self._constraints:
            self._members.deadline.enforce()
            selected = positions_of(pods, (spread.limit.pods,))
            counted[selected] |= self._counts(spread, rows[selected], nodes[selected])
        return counted

    def allows(self, rows: Rows, nodes: Int32s) -> bool | None:
        """Return whether all constraints allow more pods; None if all members must be placed to know."""
        known: bool | None = True
        asked = self._spread.asked
        asked.flush()
        if asked.version != self._version:
            self._version, self._constraints = asked.version, self._spread_limits()
        for spread in self._constraints:
            allowed = self._allows(spread, rows, nodes)
            if allowed is False:
                return False
            known = None if allowed is None else known
        return known

    def _allows(self, spread: _GroupSpreadLimit, rows: Rows, nodes: Int32s) -> bool | None:
        """Return whether one constraint allows them; None if the emptiest domain may be another one."""
        limit, counter = spread.limit, spread.limit.counter
        shapes, shape_of = self._snapshot.shapes, self._snapshot.shape
        matching = [limit.pods.match(shapes[shape_of.item(row)]) for row in rows.tolist()]
        here = np.array(matching, np.bool_)
        here[here] = self._counts(spread, rows[here], nodes[here])
        domains, numbers = np.unique(spread.column[nodes[here]], return_counts=True)
        more = dict(zip(domains.tolist(), numbers.tolist(), strict=True))
        counter.refresh(self._snapshot.node_revision)
        most = limit.most()
        within = all(
            counter.counts.get(domain, 0) + number + spread.before[domain] <= most
            for domain, number in more.items()
            if domain in spread.before
        )
        if within and more and self._spread.nominated.counted((limit.pods,), counter):
            # The constraint has to hold without the nominated pods too.
            return None
        # More pods can only raise the emptiest domain, and then the constraint allows more.
        if within or self._stays_emptiest(spread, more):
            return within
        return None

    def _stays_emptiest(self, spread: _GroupSpreadLimit, more: Mapping[int, int]) -> bool:
        """Return whether a domain without members and without these pods is, and stays, the emptiest."""
        counter = spread.limit.counter
        least = counter.least(spread.limit.min_domains)
        if counter.domains_now < spread.limit.min_domains:
            return True
        raised = spread.hosts | more.keys()
        return counter.holding(least) > sum(counter.counts.get(domain, 0) == least for domain in raised)

    def _counts(self, spread: _GroupSpreadLimit, rows: Rows, nodes: Int32s) -> Bools:
        """Return which matching pods a constraint counts on these nodes: none that is terminating."""
        counts: Bools = ~self._snapshot.terminating[rows] & (spread.column[nodes] >= 0)
        return counts

    def _spread_limits(self) -> list[_GroupSpreadLimit]:
        """Return the constraints of the members; equal constraints of several members occur once."""
        by_key: dict[tuple[object, ...], _GroupSpreadLimit] = {}
        for shape in self._members.shapes.values():
            for limit in self._spread.constraints(shape):
                if _key(limit) not in by_key:
                    by_key[_key(limit)] = self._spread_limit(limit)
        return list(by_key.values())

    def _spread_limit(self, limit: SpreadLimit) -> _GroupSpreadLimit:
        snapshot = self._snapshot
        limit.counter.refresh(snapshot.node_revision)
        column, own = limit.counter.domains.column(), snapshot.columns.column(limit.key)
        members: dict[int, int] = defaultdict(int)
        before: dict[int, int] = {}
        for row, node in self._members.placed.items():
            self._members.deadline.enforce()
            shape = snapshot.shape_at(row)
            domain = own.item(node)
            if any(_key(constraint) == _key(limit) for constraint in self._spread.constraints(shape)):
                before[domain] = members[domain]
            counts = limit.pods.match(shape) and not snapshot.terminating.item(row)
            if counts and column.item(node) >= 0:
                members[domain] += 1
        hosts = frozenset(domain for domain, number in members.items() if number)
        return _GroupSpreadLimit(limit, column, before, hosts)


class TopologySpreadPlugin(Plugin):
    """The filters on spread constraints of one snapshot."""

    JUDGES = "topology spread constraints"
    SPEC = ("topologySpreadConstraints",)

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.needs: NeedOf = need_at(at)
        self._snapshot = snapshot

    def fingerprint(self, pod: Schedulable) -> object:
        """Return the labels that constraints merge into their selectors."""
        labels = pod.metadata.labels or {}
        written = pod.spec.topologySpreadConstraints or ()
        return [(key, labels.get(key)) for constraint in written for key in constraint.matchLabelKeys or ()]

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> SpreadNeed:
        """Return the constraints of a pod."""
        constraints: dict[str, list[SpreadConstraint]] = {"DoNotSchedule": [], "ScheduleAnyway": []}
        for constraint in pod.spec.topologySpreadConstraints or ():
            action = "DoNotSchedule" if constraint.whenUnsatisfiable is None else constraint.whenUnsatisfiable
            if action not in constraints:
                context.missing[f"the spread constraint action {action}"] = None
                continue
            selector, labels = (
                selector_of(constraint.labelSelector, context.missing),
                pod.metadata.labels or {},
            )
            if selector is not None and constraint.matchLabelKeys:
                keys = [key for key in constraint.matchLabelKeys if key in labels]
                own = (Requirement(key, "In", (labels[key],)) for key in keys)
                selector = conjoined(*selector.requirements, *own)
            constraints[action].append(
                SpreadConstraint(
                    constraint.maxSkew or 0,
                    constraint.topologyKey or "",
                    selector,
                    1 if constraint.minDomains is None else constraint.minDomains,
                    (constraint.nodeAffinityPolicy or "Honor") == "Honor",
                    constraint.nodeTaintsPolicy == "Honor",
                )
            )
        return SpreadNeed(hard=tuple(constraints["DoNotSchedule"]), soft=tuple(constraints["ScheduleAnyway"]))

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:
        """Return PodTopologySpread in its two parts."""
        asked = context.shared(SelectorCounters, self._snapshot)
        counters = SpreadCounters(asked, context.named, empty_selector=context.empty_selector)
        nominated = context.shared(NominatedPods, self._snapshot)
        return (
            TopologySpreadFilter(asked, self.needs, counters, nominated),
            TopologyLabelsFilter(self._snapshot, lambda shape: self.needs(shape).node_constraints),
        )


def _key(limit: SpreadLimit) -> tuple[object, ...]:
    """Return a key that is equal for constraints with the same limits on a domain."""
    return limit.counter, limit.spare, limit.min_domains
