"""A gang is reported as larger than its domains only if it has no placement in any one of them."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.audit.builders import cluster, report
from tests.support.audit.cases.topology import GPU, RACK, group, member, racked, waiting

from podium.api.core import Node, Pod
from podium.audit.capacity import ClusterCapacity, DomainShortfall, TopologyDomains

# By node: its rack (None: none), cpus and accelerators. By member: cpus, accelerators and the position of its
# node, None for a pending one.
_nodes = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=4
)
_members = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.none() | st.none() | st.integers(0, 3)),
    min_size=1,
    max_size=5,
)


def objects(nodes: list[Any], members: list[Any]) -> tuple[list[Node], list[Pod]]:
    """Make nodes and members; a position without a node is that of a node which was not read."""
    made = [racked(f"n{at}", rack, str(cpu), str(gpu)) for at, (rack, cpu, gpu) in enumerate(nodes)]
    pods = [
        member(f"p{at}", str(cpu), None if on is None else f"n{on}", str(gpu))
        for at, (cpu, gpu, on) in enumerate(members)
    ]
    return made, pods


def shortfall(nodes: list[Node], pods: list[Pod], least: int) -> DomainShortfall | None:
    """Return the answer of the audit on a gang."""
    capacity = ClusterCapacity(nodes)
    alike = len({id(capacity.shape(pod)) for pod in pods}) == 1
    view = cluster(*nodes, *pods)
    return TopologyDomains(view.nodes, capacity, 37).shortfall(RACK, pods, least, alike=alike)


def can_be_placed(chosen: tuple[Any, ...], room: list[tuple[int, int]]) -> bool:
    """Return whether all chosen members fit, by trying every placement."""
    if not chosen:
        return True
    (cpu, gpu, _), *rest = chosen
    for at, (cpus, gpus) in enumerate(room):
        if cpu <= cpus and gpu <= gpus:
            left = [*room[:at], (cpus - cpu, gpus - gpu), *room[at + 1 :]]
            if can_be_placed(tuple(rest), left):
                return True
    return False


def rooms(nodes: list[Any], running: list[Any]) -> list[list[tuple[int, int]]]:
    """Return the free room of each domain that the gang may use: beside its own members only."""
    left = [(rack, cpu, gpu) for rack, cpu, gpu in nodes]
    for cpu, gpu, on in running:
        rack, cpus, gpus = left[on]
        left[on] = rack, cpus - cpu, gpus - gpu
    usable = {left[on][0] for *_, on in running} or {rack for rack, *_ in left if rack is not None}
    return [[(cpu, gpu) for rack, cpu, gpu in left if rack == each] for each in usable]


@given(_nodes, _members, st.integers(1, 5))
@settings(max_examples=400, deadline=None)
def test_a_gang_with_a_placement_is_never_reported(nodes: list[Any], members: list[Any], least: int) -> None:
    """Members that run in several domains, in none, or on an unknown node are never reported either."""
    found = shortfall(*objects(nodes, members), least)
    running = [each for each in members if each[2] is not None]
    places = {nodes[on][0] if on < len(nodes) else None for *_, on in running}
    if running and (len(places) > 1 or None in places):
        assert found is None
    elif found is not None:
        waiting_ones = [each for each in members if each[2] is None]
        if len({each[:2] for each in members}) == 1:
            # The audit assumes that missing members are like the others.
            waiting_ones += waiting_ones[:1] * (least - len(members))
        need = min(least - len(running), len(waiting_ones))
        assert not any(
            can_be_placed(chosen, room)
            for chosen in combinations(waiting_ones, need)
            for room in rooms(nodes, running)
        )


@given(_nodes, st.integers(1, 3), st.integers(0, 1), st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_a_pending_gang_of_equal_members_is_reported_exactly_without_a_placement(
    nodes: list[Any], cpu: int, gpu: int, least: int
) -> None:
    members = [(cpu, gpu, None)] * least
    domains = rooms(nodes, [])
    placeable = any(can_be_placed(tuple(members), room) for room in domains)
    found = shortfall(*objects(nodes, members), least)
    assert (found is None) == (placeable or not domains)


@given(_nodes, _members, st.integers(1, 5), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_input_does_not_matter(
    nodes: list[Any], members: list[Any], least: int, rng: Any
) -> None:
    made, pods = objects(nodes, members)
    first = shortfall(made, pods, least)
    rng.shuffle(made)
    rng.shuffle(pods)
    assert shortfall(made, pods, least) == first


NODES = (racked("a1", "a"), racked("b1", "b"))
BLOCKED = {
    "no domain": ((racked("n", None), group(2), *waiting(2)), 1),
    "no domain is large enough": ((*NODES, group(3), *waiting(3)), 1),
    "a domain is large enough": ((*NODES, group(2), *waiting(2)), 0),
    "members straddle, and one waits": (
        (*NODES, group(2), member("r", on="a1"), member("s", on="b1"), *waiting(1)),
        1,
    ),
    "members straddle, and none waits": ((*NODES, group(2), member("r", on="a1"), member("s", on="b1")), 0),
    "Podium places the rest": (
        (
            *(*NODES, group(2, podium=True)),
            *(member(name, on=on, group="", podium="train") for name, on in (("r", "a1"), ("s", "b1"))),
            member("w", group="", podium="train"),
        ),
        0,
    ),
}


@pytest.mark.parametrize(("made", "blocked"), BLOCKED.values(), ids=BLOCKED)
def test_a_group_that_its_constraint_stops_counts_as_blocked(made: tuple[Any, ...], blocked: int) -> None:
    assert report(*made).summary.blocked.groups == blocked


def test_accelerators_are_named() -> None:
    found = shortfall([racked("a1", "a", "64", "4"), racked("b1", "b", "64", "5")], [member("p", gpu="6")], 1)
    assert found is not None
    assert (found.name, found.domains, found.shortfall.request[GPU]) == ("a", 2, 6)
