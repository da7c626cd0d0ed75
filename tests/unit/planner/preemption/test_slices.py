"""Members of a group are placed in slices, each in one narrower domain."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import engine_of, gang, group, node, of, placed, planned, victims
from tests.unit.planner.preemption.test_topology import RACK, ZONE, low, zoned

from podium.groups.topology import SLICE_SIZE, SLICE_TOPOLOGY
from podium.planner.preemption import leastharm
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.semantics import Semantics


def sliced(pods: int, size: int | str, nodes: list[str | None] | None = None, **kwargs: Any) -> list[Any]:
    """Make a gang in slices of a rack; `nodes` are those of running members."""
    annotations = {SLICE_TOPOLOGY: RACK, SLICE_SIZE: str(size)}
    made = group("high", 5, kwargs.pop("least", pods), annotations=annotations, **kwargs)
    return [made, *gang("high", [*(nodes or []), *[None] * (pods - len(nodes or []))], 4, priority=5)]


def racks(plan: Plan, size: int) -> list[str]:
    """Return the racks of each slice, joined."""
    found = defaultdict[int, set[str]](set)
    for name, where in placed(plan).items():
        found[int(name.rpartition("-")[2]) // size].add(where.partition("-")[0])
    return ["".join(sorted(found[at])) for at in sorted(found)]


AB = [*zoned("east", "a", 3), *zoned("east", "b", 2), *zoned("west", "c", 4)]
CASES: dict[str, tuple[list[Any], list[Any], int, Outcome, list[str], list[str]]] = {
    "the tightest racks first": (AB, sliced(4, 2), 2, Outcome.FITS, ["b", "a"], []),
    "a rack for several slices": (zoned("east", "a", 4), sliced(4, 2), 2, Outcome.FITS, ["a", "a"], []),
    "a smaller last slice": (AB[:5], sliced(5, 3), 3, Outcome.FITS, ["a", "b"], []),
    "within the required zone": (
        AB, sliced(4, 2, topology=ZONE), 2, Outcome.FITS, ["c", "c"], []),
    "no slice across racks": (
        [*AB, low("x", "a-0"), low("y", "a-1"), low("z", "c-0"), low("w", "c-1"), low("v", "c-2")],
        sliced(4, 2, topology=ZONE), 2, Outcome.FITS_AFTER_PREEMPTION, ["a", "b"], ["x"]),
    "the rest of a slice beside its mates": (
        AB, sliced(4, 2, ["c-0", "c-1", "a-0"]), 2, Outcome.FITS, ["", "a"], []),
    "an eviction beside the mates of a slice": (
        [*AB, low("x", "a-1"), low("y", "a-2")], sliced(4, 2, ["c-0", "c-1", "a-0"]), 2,
        Outcome.FITS_AFTER_PREEMPTION, ["", "a"], ["x"]),
    "as many slices as an elastic gang needs": (
        [*AB, *(low(f"x{at}", f"c-{at}", priority=9) for at in range(4))], sliced(6, 2, least=4), 2,
        Outcome.FITS, ["b", "a"], []),
    "nothing where no rack is large enough": (AB, sliced(5, 5), 5, Outcome.DOES_NOT_FIT, [], []),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "members", "size", "outcome", "used", "gone"), CASES.values(), ids=CASES)
def test_slices_take(  # noqa: PLR0917 - a case
    nodes: list[Any], members: list[Any], size: int, outcome: Outcome, used: list[str], gone: list[str]
) -> None:
    plan = planned(*nodes, *members, by=of("high"))
    found = racks(plan, size)
    assert (plan.outcome, found, len(victims(plan))) == (outcome, [each for each in used if each], len(gone))


def test_a_refusal_names_the_slice() -> None:
    plan = planned(*AB, *sliced(5, 5), by=of("high"))
    assert f"9 node(s) were in a domain of {RACK} with too little room for a slice of 5 pods" in plan.message


def test_slices_follow_the_numbers_of_pods() -> None:
    """`high-2` is in the slice of `high-3`, not of `high-10`."""
    nodes = [*zoned("east", "a", 6), *zoned("east", "b", 6)]
    assert racks(planned(*nodes, *sliced(12, 6), by=of("high")), 6) == ["a", "b"]


@pytest.mark.parametrize("size", ["", "0", "-1", "two", "1.5", "٣"])
def test_an_invalid_size_makes_no_slices(size: str) -> None:
    assert planned(*AB, *sliced(5, size), by=of("high")).outcome is Outcome.FITS


def test_kube_scheduler_knows_no_slices() -> None:
    assert planned(*AB, *sliced(5, 5), by=of("high"), semantics=Semantics.V1_37).outcome is Outcome.FITS


@pytest.fixture
def narrow() -> Iterator[None]:
    """Limit the search to the cheapest nodes, as in a cluster with more pods than a search may examine."""
    with patch.multiple(leastharm, _MANY=0, _NODES=1):
        yield


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("free", [0, 2])
def test_a_narrowed_search_keeps_whole_domains(free: int) -> None:
    """Free nodes of every rack are too few for a slice, and more than the gang in sum."""
    nodes = [each for at in range(6) for each in zoned("east", f"r{at}", 4)]
    running = [low(f"x{at}-{each}", f"r{at}-{each}") for at in range(6) for each in range(4 - free)]
    plan = planned(*nodes, *running, *sliced(8, 4), by=of("high"))
    assert plan.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert [len(each) for each in racks(plan, 4)] == [2, 2]
    assert len(victims(plan)) == 8 - 2 * free


@given(
    rooms=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    lower=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    pods=st.integers(1, 6),
    size=st.integers(1, 4),
)
@example(rooms=[1, 0], lower=[2, 3, 0, 0], pods=3, size=4)
def test_a_plan_exists_exactly_when_slices_fit(
    rooms: list[int], lower: list[int], pods: int, size: int
) -> None:
    """Racks have free nodes and nodes with a lower pod; the fewest pods go that make the slices fit."""
    objects: list[Any] = [node("other", 1)]
    for at, free in enumerate(rooms):
        objects += zoned("east", f"r{at}", free + lower[at])
        objects += [low(f"x{at}-{each}", f"r{at}-{free + each}") for each in range(lower[at])]
    plan = engine_of(*objects, *sliced(pods, size)).plan(of("high"), NOW)
    fewest = _fewest(rooms, lower, pods, size)
    assert (plan.outcome is not Outcome.DOES_NOT_FIT) is (fewest is not None)
    assert len(victims(plan)) == (fewest or 0)
    if fewest is not None:
        assert all(len(each) == 2 for each in racks(plan, size))
        assert max(Counter(placed(plan).values()).values()) == 1


def _fewest(rooms: list[int], lower: list[int], pods: int, size: int) -> int | None:
    """Return the fewest pods to evict, by trying every rack for every slice."""
    slices = [size] * (pods // size) + [pods % size] * bool(pods % size)
    best: int | None = None
    for chosen in product(range(len(rooms)), repeat=len(slices)):
        asked = Counter[int]()
        for rack, number in zip(chosen, slices, strict=True):
            asked[rack] += number
        if all(number <= rooms[rack] + lower[rack] for rack, number in asked.items()):
            evicted = sum(max(number - rooms[rack], 0) for rack, number in asked.items())
            best = evicted if best is None else min(best, evicted)
    return best
