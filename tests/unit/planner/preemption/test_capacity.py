"""The room for pods of several kinds, counted while units leave and return."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.planner.preemption.capacity import MixedCapacity, PodKind, packed

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
