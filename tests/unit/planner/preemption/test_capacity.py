"""The room for pods of several kinds, counted while units leave and return."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.planner.framework import FULL, DomainLimit
from podium.planner.preemption.capacity import LimitedCapacity, MixedCapacity, PodKind, packed

NODES = 6
KINDS = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 4), st.integers(1, 4)),
        st.integers(1, 5),
        st.lists(st.booleans(), min_size=NODES, max_size=NODES),
    ),
    min_size=2,
    max_size=4,
)
FREE = st.lists(st.lists(st.integers(-3, 8), min_size=NODES, max_size=NODES), min_size=2, max_size=2)


@given(KINDS, FREE)
def test_nodes_without_room_change_no_packing(
    drawn: list[tuple[tuple[int, int], int, list[bool]]], free: list[list[int]]
) -> None:
    """The count is that of the best packing over all nodes, at most what each kind finds alone."""
    kinds = [PodKind(amounts, number, np.array(nodes), number) for amounts, number, nodes in drawn]
    room = [np.array(each, np.int64) for each in free]
    counted = MixedCapacity(room, kinds)
    packing = counted.packing()
    best = max(sum(int(taken.sum()) for _, taken in packing), 0)
    wanted = sum(kind.number for kind in kinds)
    assert counted.pod_count() == best or best < counted.pod_count() < wanted
    over_all = [int(taken.sum()) for _, taken in packed(np.array(room), [kind for kind, _ in packing])]
    assert sum(over_all) <= counted.pod_count() <= wanted


@pytest.mark.parametrize(("nodes", "step"), [(10, 20), (250, 20), (5_000, 40)])
def test_the_effort_of_a_packing_grows_with_the_nodes(nodes: int, step: int) -> None:
    """Otherwise a search on a large cluster takes seconds; two kinds are packed in two orders."""
    mask = np.ones(nodes, np.bool_)
    kinds = [PodKind((1,), 1, mask, 1), PodKind((2,), 1, mask, 1)]
    assert MixedCapacity([np.ones(nodes, np.int64)], kinds).step == step


ROOMS = st.lists(st.integers(0, 3), min_size=NODES, max_size=NODES)
LIMITS = st.builds(
    lambda domains, held, level, even, rest: DomainLimit(
        np.array(domains, np.int32), [*held, FULL if even else rest], level, even
    ),
    st.lists(st.integers(-1, 2), min_size=NODES, max_size=NODES),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([FULL, -FULL]),
)


@given(LIMITS, st.lists(ROOMS, min_size=1, max_size=4))
def test_a_limit_of_domains_allows_the_most_pods_that_any_placement_has(
    limit: DomainLimit, rooms: list[list[int]]
) -> None:
    """After each move of pods, and beside any number of pods that a domain holds already."""
    kind = PodKind((1,), 3 * NODES, np.ones(NODES, np.bool_), 3 * NODES)
    counted = LimitedCapacity([np.zeros(NODES, np.int64)], kind, [limit])
    for room in rooms:
        pods = [(node, (amount,)) for node, amount in enumerate(room)]
        counted.remove(pods)
        assert counted.pod_count() == _most(limit, room)
        counted.restore(pods)


def _most(limit: DomainLimit, room: list[int]) -> int:
    """Return the largest number of pods of all choices of a number for each domain."""
    places = [0] * len(limit.held)
    for domain, pods in zip(limit.domains.tolist(), room, strict=True):
        places[domain] += pods
    unlimited = places.pop()
    best = 0
    for chosen in product(*(range(most + 1) for most in places)):
        sums = [held + pods for held, pods in zip(limit.held, chosen, strict=False)]
        most = limit.level + (min(sums) if limit.even else 0)
        if all(total <= most or not pods for total, pods in zip(sums, chosen, strict=True)):
            best = max(best, sum(chosen))
    return best + (unlimited if limit.held[-1] == -FULL else 0)
