"""Effects of a unit that is given back on pods of the preemptor: ports, disks, claims, affinity, spread.

Placing all members again for each unit would cost a gang's size times the cluster's. Nearly every unit
concerns no member. For most others the answer is known at once. A unit is refused if it has a pod in a domain
that a member keeps to itself. It is also refused if a pod of it keeps a member out. So pods are sorted by
their effect on the preemptor, for all units together. Few remain whose effect depends on the pods that were
given back before. Those count in a spread constraint of a member, or would be its first company.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Int32s, Rows
from podium.planner.deadline import Deadline
from podium.planner.filters.chain import Chain
from podium.planner.filters.counters import PodSelection, required_labels
from podium.planner.filters.exclusive import exclusive, in_conflict
from podium.planner.filters.podaffinity import selected_pods
from podium.planner.filters.spread import SpreadLimit
from podium.planner.filters.terms import labels_of
from podium.planner.shapes import PodTerm, Shape


class _GroupSpreadLimit(NamedTuple):
    """A spread constraint of some members: where pods count, and how many more a domain may hold.

    `before` gives by domain the most members that are counted there when one of these is placed. `hosts` are
    the domains where any member counts.
    """

    limit: SpreadLimit
    column: Int32s
    before: dict[int, int]
    hosts: frozenset[int]


class Neighbours:
    """The pods of a preemptor where they were `placed` (node rows by pod row), and those around them."""

    def __init__(self, chain: Chain, placed: Mapping[int, int], deadline: Deadline) -> None:
        self._chain = chain
        self._snapshot = snapshot = chain.snapshot
        self._placed = placed
        self._deadline = deadline
        self._nodes: dict[int, list[int]] = defaultdict(list)
        for row, node in placed.items():
            self._nodes[snapshot.shape.item(row)].append(node)
        self._shapes = {shape_id: snapshot.shapes[shape_id] for shape_id in self._nodes}
        self._constraints = self._spread_limits()
        # The nodes of the members, and the pods that may take what members need.
        self._hosts = np.zeros(len(snapshot.alive), np.bool_)
        self._hosts[list(placed.values())] = True
        members = self._shapes.values()
        rivals = (node_filter.rivals(members) for node_filter in chain.dynamic if node_filter.COUNTS)
        self._rivals = [rival for rival in rivals if rival is not None]
        self._version = chain.asked.version
        self._affinity_terms = {
            tuple(selected_pods(term, chain.namespaces) for term in shape.pod_affinity): shape
            for shape in self._shapes.values()
            if shape.pod_affinity
        }

    def excluded(self, rows: Rows, nodes: Int32s) -> Bools:
        """Return which pods on these nodes keep out a member where it was placed, or are kept out by one."""
        kinds = _PodsByShape(self._snapshot.shapes, self._snapshot.shape[rows])
        excluded = np.zeros(len(rows), np.bool_)
        for term, hosts in self._anti_affinity_terms().items():
            self._deadline.enforce()
            selected = kinds.positions(selected_pods(term, self._chain.namespaces))
            if len(selected):
                excluded[selected] |= self._in_same_domain(term.topology_key, hosts)[nodes[selected]]
        for term, owners in kinds.carrying().items():
            self._deadline.enforce()
            hosts = self._selected_by(term)
            if hosts:
                excluded[owners] |= self._in_same_domain(term.topology_key, hosts)[nodes[owners]]
        users = [shape for shape in self._shapes.values() if exclusive(shape)]
        if users:
            excluded |= self._conflicts_on_node(kinds, nodes)
            for shape, positions in kinds.each():
                if exclusive(shape):
                    excluded[positions] |= any(in_conflict(shape, member, on_node=False) for member in users)
        return excluded

    def counted(self, rows: Rows, nodes: Int32s) -> Bools:
        """Return which pods count on these nodes in a spread constraint of a member, or as its company."""
        kinds = _PodsByShape(self._snapshot.shapes, self._snapshot.shape[rows])
        counted = np.zeros(len(rows), np.bool_)
        for spread in self._constraints:
            self._deadline.enforce()
            selected = kinds.positions(spread.limit.pods)
            counted[selected] |= self._counts(spread, rows[selected], nodes[selected])
        for pods in self._affinity_terms:
            self._deadline.enforce()
            counted[kinds.positions(*pods)] = True
        for rival in self._rivals:
            near = np.flatnonzero(self._hosts[nodes]) if rival.nearby else np.arange(len(rows))
            counted[near] |= np.array([rival.counts(row) for row in rows[near].tolist()], np.bool_)
        return counted

    def admits(self, rows: Rows, nodes: Int32s) -> bool:
        """Return whether the members fit beside more pods, and count these pods if they do.

        Call it while the members count nowhere.
        """
        snapshot = self._snapshot
        known = self._spread_allows(rows, nodes)
        if known is False:
            return False
        first_matches = any(
            self._chain.pod_affinity.is_first_match(shape) for shape in self._affinity_terms.values()
        )
        takes = any(rival.counts(row) for rival in self._rivals for row in rows.tolist())
        with snapshot.trial() as kept:
            snapshot.assume_many(rows, nodes)
            if (known is None or first_matches or takes) and not self._can_place_again():
                return False
            kept.commit()
        return True

    def _spread_allows(self, rows: Rows, nodes: Int32s) -> bool | None:
        """Return whether spread constraints allow more pods; None if all members must be placed to know."""
        known: bool | None = True
        asked = self._chain.asked
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
        if within and more and self._chain.nominated.counted((limit.pods,), counter):
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

    def _can_place_again(self) -> bool:
        """Place the members where they were, as far as other pods decide how; return whether all fit."""
        snapshot = self._snapshot
        chain = self._chain
        filters = [node_filter for node_filter in chain.dynamic if node_filter.COUNTS]
        with snapshot.trial():
            for row, node in self._placed.items():
                self._deadline.enforce()
                shape = snapshot.shape_at(row)
                if any(node_filter.reason(shape, node) is not None for node_filter in filters):
                    return False
                snapshot.assume(row, node)
        return True

    def _counts(self, spread: _GroupSpreadLimit, rows: Rows, nodes: Int32s) -> Bools:
        """Return which matching pods a constraint counts on these nodes: none that is terminating."""
        counts: Bools = ~self._snapshot.terminating[rows] & (spread.column[nodes] >= 0)
        return counts

    def _spread_limits(self) -> list[_GroupSpreadLimit]:
        """Return the constraints of the members; equal constraints of several members occur once."""
        by_key: dict[tuple[object, ...], _GroupSpreadLimit] = {}
        for shape in self._shapes.values():
            for limit in self._chain.spread.limits(shape):
                if _key(limit) not in by_key:
                    by_key[_key(limit)] = self._spread_limit(limit)
        return list(by_key.values())

    def _spread_limit(self, limit: SpreadLimit) -> _GroupSpreadLimit:
        snapshot = self._snapshot
        limit.counter.refresh(snapshot.node_revision)
        column, own = limit.counter.domains.column(), snapshot.columns.column(limit.key)
        members: dict[int, int] = defaultdict(int)
        before: dict[int, int] = {}
        for row, node in self._placed.items():
            self._deadline.enforce()
            shape = snapshot.shape_at(row)
            domain = own.item(node)
            if any(_key(constraint) == _key(limit) for constraint in self._chain.spread.limits(shape)):
                before[domain] = members[domain]
            counts = limit.pods.match(shape) and not snapshot.terminating.item(row)
            if counts and column.item(node) >= 0:
                members[domain] += 1
        hosts = frozenset(domain for domain, number in members.items() if number)
        return _GroupSpreadLimit(limit, column, before, hosts)

    def _anti_affinity_terms(self) -> dict[PodTerm, list[int]]:
        """Return the anti-affinity terms of the members, with the nodes of the members that have them."""
        apart: dict[PodTerm, list[int]] = defaultdict(list)
        for shape_id, shape in self._shapes.items():
            for term in dict.fromkeys(shape.pod_anti_affinity):
                apart[term] += self._nodes[shape_id]
        return apart

    def _selected_by(self, term: PodTerm) -> list[int]:
        """Return the nodes of the members that a term of other pods matches."""
        hosts = []
        marks = required_labels(term.selector)
        for shape_id, shape in self._shapes.items():
            if marks is None or any(mark in shape.labels for mark in marks):
                around = labels_of(self._chain.namespaces.get(shape.namespace))
                if term.matches(shape.namespace, around, dict(shape.labels)):
                    hosts += self._nodes[shape_id]
        return hosts

    def _in_same_domain(self, key: str, hosts: Iterable[int]) -> Bools:
        """Return for each node row whether it shares a domain of a topology key with any of some nodes."""
        column = self._snapshot.columns.column(key)
        # One additional entry, which the domain -1 finds.
        shared = np.zeros(self._snapshot.columns.values(key).size + 1, np.bool_)
        shared[column[list(hosts)]] = True
        shared[-1] = False
        share: Bools = shared[column]
        return share

    def _conflicts_on_node(self, kinds: "_PodsByShape", nodes: Int32s) -> Bools:
        """Return which pods use a thing, such as a host port, that a member uses on the same node."""
        held: dict[int, list[Shape]] = defaultdict(list)
        for shape_id, shape in self._shapes.items():
            for node in self._nodes[shape_id] if exclusive(shape) else ():
                held[node].append(shape)
        hosts = np.zeros(len(self._snapshot.alive), np.bool_)
        hosts[list(held)] = True
        same = np.zeros(len(nodes), np.bool_)
        for shape, owners in kinds.each():
            for at in owners[hosts[nodes[owners]]].tolist() if exclusive(shape) else ():
                self._deadline.enforce()
                same[at] = any(in_conflict(shape, member, on_node=True) for member in held[nodes.item(at)])
        return same


class _PodsByShape:
    """Positions of pods by shape, so that facts of a shape are computed once."""

    def __init__(self, shapes: Mapping[int, Shape], shape_ids: Int32s) -> None:
        self._order = np.argsort(shape_ids, kind="stable")
        ids, first = np.unique(shape_ids[self._order], return_index=True)
        self._shapes = [shapes[shape_id] for shape_id in ids.tolist()]
        self._bounds = [*first.tolist(), len(shape_ids)]

    def each(self) -> Iterator[tuple[Shape, Rows]]:
        """Yield each shape with the positions of its pods."""
        for at, shape in enumerate(self._shapes):
            yield shape, self._order[self._bounds[at] : self._bounds[at + 1]]

    def positions(self, *pods: PodSelection) -> Rows:
        """Return the positions of the pods that are in all of `pods`."""
        marks = next(
            (labels for selection in pods if (labels := required_labels(selection.selector)) is not None),
            None,
        )
        return self._positions(
            at
            for at, shape in enumerate(self._shapes)
            if (marks is None or any(mark in shape.labels for mark in marks))
            and all(selection.match(shape) for selection in pods)
        )

    def carrying(self) -> dict[PodTerm, Rows]:
        """Return the anti-affinity terms of pods, with the positions of these pods."""
        by_term: dict[PodTerm, list[int]] = defaultdict(list)
        for at, shape in enumerate(self._shapes):
            for term in dict.fromkeys(shape.pod_anti_affinity):
                by_term[term].append(at)
        return {term: self._positions(positions) for term, positions in by_term.items()}

    def _positions(self, shapes: Iterable[int]) -> Rows:
        parts = [self._order[self._bounds[at] : self._bounds[at + 1]] for at in shapes]
        return np.concatenate(parts) if parts else np.zeros(0, np.intp)


def _key(limit: SpreadLimit) -> tuple[object, ...]:
    """Return a key that is equal for constraints with the same limits on a domain."""
    return limit.counter, limit.spare, limit.min_domains
