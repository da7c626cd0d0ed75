"""Places the members of a group in slices: each slice of N pods shares one narrower topology domain.

A training job may span a zone while its pods talk most to the N pods of their slice, which should share a
rack. Members form slices in the natural order of their names, so that `train-2` comes before `train-10` and
slices follow the ranks. A slice is placed as a whole, where members of it run already in their domain. Of the
domains with room enough the one with the least room is taken, so that large ones stay for other slices.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from podium.planner.deadline import Deadline
from podium.planner.filters.refusals import Refusals
from podium.planner.placement import Placer
from podium.planner.preemption.capacity import kinds_of, slots
from podium.planner.preemption.target import PlacementTarget, PodSlice, PodSlices
from podium.planner.preemption.topology import Topology

_TOO_NARROW = "node(s) were in a domain of {} with too little room for a slice of {} pods"


def place_slices(
    placer: Placer,
    wanted: PodSlices,
    enough: int,
    deadline: Deadline,
    before: Mapping[int, int] = {},
) -> dict[int, int]:
    """Place slices in order and assume their pods, until `enough` pods are placed; return node rows.

    Pods that are placed `before` bind the rest of their slice. Call it in a trial of the snapshot.
    """
    topology, placed = Topology(placer.snapshot, (wanted.key,)), dict(before)
    for each in wanted.slices:
        if len(placed) >= enough:
            break
        placed.update(_place_slice(placer, topology, each, placed, deadline))
    return {row: node for row, node in placed.items() if row not in before}


def place_members(
    placer: Placer,
    found: PlacementTarget,
    deadline: Deadline,
    *,
    before: Mapping[int, int] = {},
    nominated: Mapping[int, int] = {},
) -> dict[int, int]:
    """Place and assume the pods that are not placed `before`, in slices if the group has some.

    Return their node rows. Pods without slices are tried on `nominated` nodes first. Call it in a trial.
    """
    if found.slices is not None:
        return place_slices(placer, found.slices, len(found.rows), deadline, before)
    rest = [row for row in found.rows if row not in before]
    return placer.place_many(rest, nominated=nominated, deadline=deadline)


def _place_slice(
    placer: Placer, topology: Topology, wanted: PodSlice, placed: Mapping[int, int], deadline: Deadline
) -> dict[int, int]:
    """Place the rest of a slice in one domain; without such a domain place none of it."""
    rows = [row for row in wanted.rows if row not in placed]
    mates = [*wanted.nodes, *(placed[row] for row in wanted.rows if row in placed)]
    for number in _likely(placer, topology, rows, mates) if rows else ():
        deadline.enforce()
        with placer.chain.within(topology.of == number), placer.snapshot.trial() as kept:
            found = placer.place_many(rows, enough=len(rows), deadline=deadline)
            if len(found) == len(rows):
                kept.commit()
                return found
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


def slice_refusals(placer: Placer, wanted: PodSlices, row: int, refusals: Refusals) -> Refusals:
    """Return why a pod of a slice is not placed, though some nodes would take it alone."""
    return beyond_room(placer, row, refusals, _TOO_NARROW.format(wanted.key, wanted.size))


def beyond_room(placer: Placer, row: int, refusals: Refusals, reason: str) -> Refusals:
    """Return the refusals of a pod, with the reason why the nodes do not take it that would take it alone."""
    chain, shape = placer.chain, placer.snapshot.shape_at(row)
    left = chain.feasible(shape)
    if not left.any():
        return refusals
    listed = [*chain.refused_rows(shape, chain.nodes), (reason, left)]
    return chain.refusals_of(shape, listed)
