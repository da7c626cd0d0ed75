"""Places the parts of a tree of groups: each in a domain of its own label, inside the domain of its parent.

The parts are placed one after the other, and each sees the pods of those before it. A part may find no place
because an earlier one took the only domain that suits it. Then the earlier one is tried in its next domain,
so that a tree is refused only if no choice of domains was found. The number of attempts is bounded.

kube-scheduler 1.37 does not go back: each part is placed in its best domain or fails.

The few pods of a group for which filters search different things are placed in every order of their kinds.
Each pod gets the first things that suit it, so an earlier pod may take those of a later one. The orders are
tried one after the other, with a bounded number of steps.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, permutations

import numpy as np

from podium.planner.arrays import Bools, Floats, Rows
from podium.planner.deadline import Deadline
from podium.planner.filters.chain import Refusals
from podium.planner.placement import Placer
from podium.planner.preemption.capacity import kinds_of, place_packed, slots
from podium.planner.preemption.domainsearch import DomainSearch, Located, RandomChoice
from podium.planner.preemption.target import PlacementTarget, PodSlice, PodSlices, PreemptorPods
from podium.planner.preemption.topology import Topology
from podium.planner.semantics import Semantics
from podium.planner.shapes import Shape

# The most pods that are tried on every node, the most kinds whose orders are tried, and the most steps.
_PODS, _KINDS, _STEPS = 8, 3, 256


def ordered_attempts(
    placer: Placer, rows: Sequence[int], needed: int, deadline: Deadline
) -> Iterator[Callable[[], dict[int, int]]]:
    """Yield more ways to place pods that need different things; each assumes what it places."""
    shape_at = placer.snapshot.shape_at
    searching = [node_filter for node_filter in placer.chain.dynamic if node_filter.SEARCHES]
    searched = any(search.concerns(shape_at(row)) for search in searching for row in rows)
    if not searched or len(_kinds(placer, rows)) < 2:
        return

    def amount(row: int) -> int:
        return sum(search.sought(shape_at(row))[0] for search in searching)

    # The pods that need the least are placed if not all are needed.
    chosen = sorted(rows, key=amount)[:needed]
    largest_first = sorted(chosen, key=lambda row: -amount(row))
    yield partial(placer.place_many, largest_first, enough=needed, deadline=deadline)
    if needed <= _PODS:
        yield partial(_searched, placer, largest_first)


def _kinds(placer: Placer, rows: Sequence[int]) -> list[list[int]]:
    """Return the pods by kind; pods of one kind need equal things and room."""
    kinds: dict[object, list[int]] = {}
    searching = [node_filter for node_filter in placer.chain.dynamic if node_filter.SEARCHES]
    for row in rows:
        shape = placer.snapshot.shape_at(row)
        sought = tuple(search.sought(shape) for search in searching)
        kinds.setdefault((sought, shape.requests), []).append(row)
    return list(kinds.values())


def _searched(placer: Placer, rows: Sequence[int]) -> dict[int, int]:
    """Place and assume pods in the first order of their kinds in which all find a node."""
    snapshot, left = placer.snapshot, _STEPS
    kinds = _kinds(placer, rows)
    orders = permutations(kinds) if len(kinds) <= _KINDS else iter([tuple(kinds)])
    for order in orders:
        search = NodeSearch(placer, list(chain.from_iterable(order)), left)
        with snapshot.trial():
            placed = search.placed()
        if placed is not None:
            for row, node in placed.items():
                snapshot.assume(row, node)
            return placed
        left -= search.steps
        if left <= 0:
            break
    return {}


# Places a few pods by trying each on every node that takes it, so that no order of placement is in the way.
#
# Packing large pods first fails on some clusters that have a placement. Pods of 5, 4 and 3 cpus, two of each,
# fill two nodes of 12 cpus only as one of each. For a few pods all placements are tried, the tightest node
# first. The number of steps is bounded, because the placements multiply with each pod.


class NodeSearch:
    """The search for pods (rows), the first ones first; equal pods should be together. Call it in a trial."""

    def __init__(self, placer: Placer, rows: Sequence[int], most: int) -> None:
        """`most` is the largest number of steps; a step places one pod on one node."""
        self._placer = placer
        self._snapshot = placer.snapshot
        self._rows = rows
        self._most = most
        self.steps = 0
        order = placer.chain.by_name()
        # The position of each node row in the order of names.
        self._rank = np.zeros(len(self._snapshot.alive), np.intp)
        self._rank[order] = np.arange(len(order))

    def placed(self) -> dict[int, int] | None:
        """Return the node rows of all pods; None if no placement was found in so many steps."""
        self._placer.announce(self._rows)
        placed: dict[int, int] = {}
        return placed if self._place(0, placed) else None

    def _place(self, at: int, placed: dict[int, int]) -> bool:
        """Place the pods from a position on; return whether all of them found a node."""
        if at == len(self._rows):
            return True
        row, snapshot = self._rows[at], self._snapshot
        for node in self._nodes(at, placed).tolist():
            if self.steps == self._most:
                return False
            self.steps += 1
            with snapshot.trial():
                snapshot.assume(row, node)
                placed[row] = node
                if self._place(at + 1, placed):
                    return True
                del placed[row]
        return False

    def _nodes(self, at: int, placed: dict[int, int]) -> Rows:
        """Return the nodes that take a pod now, the tightest first.

        Of equal pods each is on no earlier node than the one before, so that no placement is tried twice.
        """
        snapshot = self._snapshot
        shape = snapshot.shape_at(self._rows[at])
        nodes = np.flatnonzero(self._placer.chain.feasible(shape))
        before = self._rows[at - 1] if at else None
        if before is not None and snapshot.shape_at(before) is shape:
            nodes = nodes[self._rank[nodes] >= self._rank[placed[before]]]
        return nodes[np.lexsort((self._rank[nodes], self._left(shape, nodes)))]

    def _left(self, shape: Shape, nodes: Rows) -> Floats:
        """Return how much room a pod leaves on nodes, as a sum of parts of the room that nodes have."""
        snapshot = self._snapshot
        left = np.zeros(len(nodes))
        for name, amount in shape.requests:
            at = snapshot.resource.get(name)
            if at is not None and amount:
                room, used = snapshot.allocatable[at][nodes], snapshot.used[at][nodes]
                left += (room - used - amount) / np.maximum(room, 1)
        return left


# Places the members of a group in slices: each slice of N pods shares one narrower topology domain.
#
# A training job may span a zone while its pods talk most to the N pods of their slice, which should share a
# rack. Members form slices in the natural order of their names, so that `train-2` comes before `train-10`
# and slices follow the ranks. A slice is placed as a whole, where members of it run already in their domain.
# Of the domains with room enough the one with the least room is taken, so that large ones stay for other
# slices.

_TOO_NARROW = "node(s) were in a domain of {} with too little room for a slice of {} pods"


def place_slices(
    placer: Placer,
    slices: PodSlices,
    enough: int,
    deadline: Deadline,
    before: Mapping[int, int] = {},
) -> dict[int, int]:
    """Place slices in order and assume their pods, until `enough` pods are placed; return node rows.

    Pods that are placed `before` bind the rest of their slice. Call it in a trial of the snapshot.
    """
    topology, placed = Topology(placer.snapshot, (slices.key,)), dict(before)
    for pod_slice in slices.slices:
        if len(placed) >= enough:
            break
        placed.update(_place_slice(placer, topology, pod_slice, placed, deadline))
    return {row: node for row, node in placed.items() if row not in before}


def in_whole_slices(placer: Placer, target: PlacementTarget, nominated: Mapping[int, int]) -> dict[int, int]:
    """Return the nominations without those of slices whose nodes are not in one domain any more.

    Labels of nodes may have changed since the nodes were nominated.
    """
    kept = dict(nominated)
    for slices in _slices_of(target):
        topology = Topology(placer.snapshot, (slices.key,))
        for pod_slice in slices.slices:
            nodes = [*pod_slice.nodes, *(kept[row] for row in pod_slice.rows if row in kept)]
            domains = topology.counts(np.array(nodes, np.intp)).keys()
            if len(domains) > 1 or -1 in domains:
                for row in pod_slice.rows:
                    kept.pop(row, None)
    return kept


def _slices_of(target: PlacementTarget) -> Iterator[PodSlices]:
    if target.slices is not None:
        yield target.slices
    for part in target.parts:
        yield from _slices_of(part)


def place_members(
    placer: Placer,
    target: PlacementTarget,
    deadline: Deadline,
    *,
    before: Mapping[int, int] = {},
    nominated: Mapping[int, int] = {},
) -> dict[int, int]:
    """Place and assume the pods that are not placed `before`, in slices if the group has some.

    Return their node rows. Pods without slices are tried on `nominated` nodes first. Call it in a trial.
    """
    if target.slices is not None:
        return place_slices(placer, target.slices, len(target.rows), deadline, before)
    rest = [row for row in target.rows if row not in before]
    return placer.place_many(rest, nominated=nominated, deadline=deadline)


def _place_slice(
    placer: Placer, topology: Topology, pod_slice: PodSlice, placed: Mapping[int, int], deadline: Deadline
) -> dict[int, int]:
    """Place the rest of a slice in one domain; without such a domain place none of it."""
    rows = [row for row in pod_slice.rows if row not in placed]
    mates = [*pod_slice.nodes, *(placed[row] for row in pod_slice.rows if row in placed)]
    for number in _likely(placer, topology, rows, mates) if rows else ():
        deadline.enforce()
        with placer.chain.within(topology.of == number), placer.snapshot.trial() as kept:
            nodes = placer.place_many(rows, enough=len(rows), deadline=deadline)
            if len(nodes) == len(rows):
                kept.commit()
                return nodes
    return {}


def _likely(placer: Placer, topology: Topology, rows: Sequence[int], mates: Sequence[int]) -> list[int]:
    """Return the domains for the pods of a slice, those with the least room first."""
    there = {
        number: pods for number, pods in topology.counts(np.array(mates, np.intp)).items() if number >= 0
    }
    if there:
        return [max(sorted(there), key=lambda number: there[number])]
    kinds = kinds_of(placer.chain, rows, len(rows), None)
    numbers = list(topology.numbers.values())
    if kinds is None:
        return numbers
    free = kinds.free(placer.snapshot)
    room = np.zeros(topology.size, np.int64)
    enough = np.ones(topology.size, np.bool_)
    for kind in kinds.kinds:
        here = topology.sums(slots(free, kind), kinds.nodes)
        room += here
        enough &= here >= kind.number
    return sorted((number for number in numbers if enough[number]), key=room.item)


def slice_refusals(placer: Placer, slices: PodSlices, row: int, refusals: Refusals) -> Refusals:
    """Return why a pod of a slice is not placed, though some nodes would take it alone."""
    return beyond_room(placer, row, refusals, _TOO_NARROW.format(slices.key, slices.size))


def beyond_room(placer: Placer, row: int, refusals: Refusals, reason: str) -> Refusals:
    """Return the refusals of a pod, with the reason why the nodes do not take it that would take it alone."""
    chain, shape = placer.chain, placer.snapshot.shape_at(row)
    left = chain.feasible(shape)
    if not left.any():
        return refusals
    listed = [*chain.refused_rows(shape, chain.nodes), (reason, left)]
    return chain.refusals_of(shape, listed)


# Node rows by pod row, or None for a part that is left out.
Options = Generator[dict[int, int] | None, None, None]
Placements = Generator[dict[int, int], None, None]

_NO_ROOM_FOR_PARTS = "node(s) had too little room for all groups of the tree together"

# The most pods of a group for which a second placement is tried in a domain.
_TIGHT = 32
# The attempts to place a group of pods in a domain, beside two for each, before the search goes back no more.
_ATTEMPTS = 256


def place_pods(
    placer: Placer,
    target: PlacementTarget,
    semantics: Semantics,
    deadline: Deadline,
    *,
    before: Mapping[int, int] = {},
    nominated: Mapping[int, int] = {},
) -> dict[int, int]:
    """Place and assume the pods that are not placed `before`; return their node rows.

    Pods are tried on `nominated` nodes first. Of a tree nothing is placed if too few parts find a place. Call
    it in a trial.
    """
    if target.parts:
        return PartSearch(placer, semantics, deadline, before, nominated).place_tree(target)
    return place_members(placer, target, deadline, before=before, nominated=nominated)


def attempts(
    placer: Placer,
    preemptor: PreemptorPods,
    semantics: Semantics,
    deadline: Deadline,
) -> Iterator[Callable[[], dict[int, int]]]:
    """Yield the ways to place a group on several nodes; each assumes what it places, at best `needed` pods.

    The spec frees room for exactly the members that are needed; kube-scheduler for all it can place.
    """
    rows, needed = preemptor.rows, preemptor.needed
    if preemptor.slices is not None:
        yield partial(place_slices, placer, preemptor.slices, needed, deadline)
        return
    enough = needed if semantics.rules.needed_only else None
    yield partial(placer.place_many, rows, enough=enough, nominated=preemptor.nominated, deadline=deadline)
    if semantics.rules.tries_orders:
        yield partial(place_packed, placer.chain, rows, needed, deadline)
        yield from ordered_attempts(placer, rows, needed, deadline)


def part_refusals(placer: Placer, row: int, refusals: Refusals) -> Refusals:
    """Return why a pod of a tree is not placed, though some nodes would take it alone."""
    return beyond_room(placer, row, refusals, _NO_ROOM_FOR_PARTS)


class PartSearch:
    """A search for the domains of the parts of a tree, on the snapshot as it is at each moment."""

    def __init__(
        self,
        placer: Placer,
        semantics: Semantics,
        deadline: Deadline,
        before: Mapping[int, int] = {},
        nominated: Mapping[int, int] = {},
    ) -> None:
        """`before` are the pods that are placed already, `nominated` the nodes to be tried first."""
        self.placer = placer
        self.deadline = deadline
        self.snapshot = placer.snapshot
        self.semantics = semantics
        self.left = _ATTEMPTS
        self._before = before
        self._nominated = nominated

    def place_tree(self, tree: PlacementTarget) -> dict[int, int]:
        """Place and assume the pods of a tree on the nodes that filters ask; return node rows, or nothing.

        Under `kep` the pods beyond those that parts need are placed last, as they must not take room of
        other parts.
        """
        if not self.semantics.rules.tries_orders:
            return self._placed_in_turn(tree)
        placed = self.place_needed(tree)
        more_pods = len(placed) + len(self._before) < len(tree.rows)
        if placed and more_pods and not self._before:
            more = PartSearch(self.placer, self.semantics, self.deadline, placed, self._nominated)
            placed |= more.place_tree(tree)
        return placed

    def place_needed(self, tree: PlacementTarget) -> dict[int, int]:
        """Place and assume the pods that the parts of a tree need; return node rows, or nothing."""
        self.left = _ATTEMPTS + 2 * _groups(tree)
        with self.snapshot.trial(), closing(self.children(tree, None)) as options:
            placed = next(options, {})
        if placed:
            self.snapshot.assume_many(
                np.fromiter(placed, np.intp, len(placed)),
                np.fromiter(placed.values(), np.int32, len(placed)),
            )
        return placed

    def children(self, tree: PlacementTarget, within: Bools | None) -> Placements:
        """Yield the placements of the parts of a tree, more parts before fewer; each is assumed meanwhile.

        `within` limits the nodes.
        """
        stack = [self._options(tree, 0, within)]
        try:
            yield from self._combined(tree, within, stack)
        finally:
            # The last one first, as their trials lie in each other.
            while stack:
                stack.pop().close()

    def _combined(self, tree: PlacementTarget, within: Bools | None, stack: list[Options]) -> Placements:
        """Yield the combinations of one option for each part; `stack` are the options of the first parts."""
        spare = tree.spare_parts
        chosen: list[dict[int, int] | None] = []
        while stack:
            option = next(stack[-1], _END)
            if option is _END:
                stack.pop()
                if chosen:
                    chosen.pop()
                continue
            skipped = sum(placement is None for placement in (*chosen[: tree.counted_parts], option))
            if option is None and len(chosen) < tree.counted_parts and skipped > spare:
                continue
            if len(stack) < len(tree.parts):
                chosen.append(option)
                stack.append(self._options(tree, len(stack), within))
                continue
            placed = {row: node for nodes in (*chosen, option) if nodes for row, node in nodes.items()}
            if placed or self._before:
                yield placed

    def _options(self, tree: PlacementTarget, at: int, within: Bools | None) -> Options:
        """Yield the placements of a part of a tree, and at last None: it is left out."""
        extra = 0 < tree.counted_parts <= at
        with closing(self.options(tree.parts[at], within, extra=extra)) as options:
            yield from options
        yield None

    def options(self, part: PlacementTarget, within: Bools | None, *, extra: bool) -> Placements:  # noqa: ARG002
        """Yield the placements of a part on the nodes `within`, the best first; each is assumed meanwhile.

        An `extra` part is placed only on free room.
        """
        if all(row in self._before for row in part.rows):
            yield {}
            return
        yielded = False
        for nodes in self._domains(part, within):
            options = self.children(part, nodes) if part.parts else self._in_domain(part, nodes)
            with closing(options):
                for placed in options:
                    yielded = True
                    yield placed
            if yielded and self.left <= 0:
                return

    def _in_domain(self, part: PlacementTarget, nodes: Bools | None) -> Placements:
        """Yield the placements of a group of pods on nodes: on the best nodes, then on the fullest ones."""
        before: dict[int, int] | None = None
        for attempt in (self.place_group, self._place_tightly):
            self.left -= 1
            with self.snapshot.trial():
                with self.placer.chain.within(nodes):
                    placed = attempt(part)
                if placed is not None and placed != before:
                    yield placed
            before = placed
            if placed is None or self.left <= 0 or self._before or len(part.rows) > _TIGHT:
                return

    def _place_tightly(self, part: PlacementTarget) -> dict[int, int] | None:
        """Place and assume the needed pods on the fullest nodes, so that other parts keep large ones."""
        chain, snapshot = self.placer.chain, self.snapshot
        placed: dict[int, int] = {}
        if part.slices is not None:
            return None
        for row in part.rows[: part.needed]:
            self.deadline.enforce()
            shape = snapshot.shape_at(row)
            nodes = chain.by_name()
            nodes = nodes[chain.feasible(shape)[nodes]]
            if not len(nodes):
                return None
            room = np.zeros(len(nodes))
            for name, _ in shape.requests:
                offered = snapshot.allocatable[snapshot.resource[name]]
                free = offered[nodes] - snapshot.used[snapshot.resource[name]][nodes]
                room += free / max(int(offered.max()), 1)
            placed[row] = int(nodes[np.argmin(room)])
            snapshot.assume(row, placed[row])
        return placed

    def place_group(self, part: PlacementTarget) -> dict[int, int] | None:
        """Place and assume the pods of a group; None, and nothing assumed, if too few fit."""
        self.deadline.enforce()
        before = {row: self._before[row] for row in part.rows if row in self._before}
        rest = partial(
            place_members, self.placer, part, self.deadline, before=before, nominated=self._nominated
        )
        preemptor = PreemptorPods(
            *(part.rows, part.needed, part.priority), nominated=self._nominated, slices=part.slices
        )
        first = attempts(self.placer, preemptor, self.semantics, self.deadline)
        for attempt in (rest,) if before else first:
            with self.snapshot.trial() as kept:
                placed = attempt()
                if len(before) + len(placed) >= part.needed:
                    kept.commit()
                    return placed
        return None

    def _domains(self, part: PlacementTarget, within: Bools | None) -> list[Bools | None]:
        """Return the nodes of the domains that a part may use, the best first."""
        domains: list[Bools | None] = []
        with self.placer.chain.within(within):
            for level in self.search(part).levels:
                topology = level.topology
                if topology is None:
                    domains.append(within)
                else:
                    domains += [topology.domain(number).nodes for number in level.candidates()]
        return domains

    def search(self, part: PlacementTarget) -> DomainSearch:
        """Return the domains of a part on the nodes that filters ask; placed pods bind it to theirs."""
        nodes = tuple(self._before[row] for row in part.rows if row in self._before)
        bound = part._replace(
            rows=tuple(row for row in part.rows if row not in self._before),
            needed=max(part.needed - len(nodes), 1),
            running=part.running + len(nodes),
            pinning_nodes=(*part.pinning_nodes, *nodes),
        )
        return DomainSearch(self.placer, bound, self.semantics, self.deadline)

    def _placed_in_turn(self, tree: PlacementTarget) -> dict[int, int]:
        """Place and assume parts as kube-scheduler does; return node rows, nothing if too few find a place.

        Each part takes its best domain or fails, in order, and no other choice is tried.
        """
        placed: dict[int, int] = {}
        missing = tree.needed_parts
        with self.snapshot.trial() as kept:
            for part in tree.parts:
                placement = self._in_best_domain(part)
                placed |= placement or {}
                missing -= placement is not None and not part.settled
            if missing > 0:
                return {}
            kept.commit()
        return placed

    def _in_best_domain(self, part: PlacementTarget) -> dict[int, int] | None:
        """Place and assume a part in kube-scheduler's domain; None, and nothing assumed, without one."""
        if all(row in self._before for row in part.rows):
            return {}
        placed = self._located(part).placed
        for row, node in (placed or {}).items():
            self.snapshot.assume(row, node)
        return placed

    def _located(self, part: PlacementTarget) -> Located:
        """Return kube-scheduler's domain for a part, with nothing assumed."""
        return self.search(part).first(lambda: (self._tried(part), None))

    def random_choices(self, tree: PlacementTarget) -> Iterator[RandomChoice]:
        """Yield the random choices of kube-scheduler for the groups below a tree, parents first.

        The tree is placed again to find them. Call it in a trial, and read all of them there.
        """
        for part in tree.parts:
            if part.group is None or all(row in self._before for row in part.rows):
                continue
            located = self._located(part)
            if located.placed is None:
                continue
            if located.candidates:
                yield RandomChoice(part.group, located.candidates)
            with self.placer.chain.within(located.domain.nodes), self.snapshot.trial():
                yield from self.random_choices(part)
            for row, node in located.placed.items():
                self.snapshot.assume(row, node)

    def _tried(self, part: PlacementTarget) -> dict[int, int] | None:
        """Return the placement of a part on the nodes that filters ask, with nothing assumed."""
        with self.snapshot.trial():
            return (self._placed_in_turn(part) or None) if part.parts else self.place_group(part)


def _groups(tree: PlacementTarget) -> int:
    """Return the number of groups of pods in a tree."""
    return sum(map(_groups, tree.parts)) if tree.parts else 1


# The end of the options of a part.
_END: dict[int, int] = {}
