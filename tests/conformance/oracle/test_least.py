"""The oracle is right on clusters small enough to try every choice of victims and places."""

from collections.abc import Iterator
from itertools import chain, combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.oracle.least import COUNTS_FIRST, least
from tests.support.oracle.problem import Apart, Demand, Even, Harm, Lost, Pod, Problem, Unit, harm

NODES = (0, 1, 2)
BUDGETS = (("ns", "a"), ("ns", "b"))
_amounts = st.tuples(st.integers(1, 4), st.integers(0, 2)).map(
    lambda both: (("cpu", both[0]), *((("gpu", both[1]),) if both[1] else ()))
)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Return a problem of three nodes and up to six units; some nodes may be overcommitted."""
    domains = draw(st.sampled_from([({0}, {1}, {2}), ({0, 1}, {2})]))
    demands = tuple(
        Demand(draw(st.integers(1, 3)), draw(_amounts), frozenset(draw(st.sets(st.sampled_from(NODES)))))
        for _ in range(draw(st.integers(1, 2)))
    )
    numbers = tuple(range(len(demands)))
    frozen = tuple(frozenset(each) for each in domains)
    constraint = draw(
        st.sampled_from([None, None, Apart(numbers, frozen), Even(numbers, frozen, 1), Even((0,), frozen, 2)])
    )
    rows = iter(range(100))
    return Problem(
        free={node: {"cpu": draw(st.integers(-1, 3)), "gpu": draw(st.integers(0, 2))} for node in NODES},
        demands=demands,
        needed=draw(st.integers(1, sum(each.pods for each in demands))),
        units=tuple(_unit(draw, at, rows) for at in range(draw(st.integers(0, 6)))),
        left={name: draw(st.integers(0, 2)) for name in BUDGETS},
        constraints=() if constraint is None else (constraint,),
    )


def _unit(draw: st.DrawFn, at: int, rows: Iterator[int]) -> Unit:
    pods = tuple(
        Pod(
            next(rows),
            draw(st.sampled_from((*NODES, 3))),
            draw(_amounts),
            draw(st.sampled_from((None, *BUDGETS))),
        )
        for _ in range(draw(st.sampled_from((1, 1, 2, 3))))
    )
    core = draw(st.sampled_from(("", "", "unit-0"))) if at else ""
    kept = draw(st.sampled_from((frozenset(), frozenset(), frozenset({(0, frozenset({0, 1}))}))))
    return Unit(f"unit-{at}", draw(st.sampled_from((-1, 0, 5))), pods, draw(st.integers(0, 3)), core, kept)


@given(problems())
def test_no_choice_does_less_harm(problem: Problem) -> None:
    found = least(problem)
    assert (found.harm if found is not None else None) == min(_harms(problem), default=None)


@given(problems())
def test_another_order_of_the_criteria_finds_its_own_least(problem: Problem) -> None:
    found = least(problem, COUNTS_FIRST)
    best = min(map(_by_counts, _harms(problem)), default=None)
    assert (_by_counts(found.harm) if found is not None else None) == best


@given(problems())
def test_its_victims_make_enough_room(problem: Problem) -> None:
    found = least(problem)
    if found is None:
        return
    rows = {pod.row for unit in found.units for pod in unit.pods}
    assert found.harm == harm(problem, rows)
    assert sum(found.placed.values()) >= problem.needed
    assert _allowed(problem, found.units, found.placed)


CPU = (("cpu", 1),)


def _lone(row: int, node: int, cpu: int = 8, priority: int = 0, budget: bool = False) -> Unit:
    pod = Pod(row, node, (("cpu", cpu),), BUDGETS[0] if budget else None)
    return Unit(f"lone-{row}", priority, (pod,), 0)


def _gang(first: int, nodes: tuple[int, ...], cpu: int = 8) -> Unit:
    pods = tuple(Pod(first + at, node, (("cpu", cpu),), None) for at, node in enumerate(nodes))
    return Unit(f"gang-{first}", 0, pods, 0)


CASES = {
    "nothing is evicted where room is free": (
        (8, 8, 0), 2, (_lone(1, 2),), Harm(0, ())),
    "an empty node beside two busy ones: one of them is enough": (
        (8, 0, 0), 2, (_lone(1, 1), _lone(2, 2)), Harm(0, (Lost(0, 0, 1, 1),))),
    "two gangs over two nodes each: either is enough": (
        (0, 0, 0, 0), 2, (_gang(1, (0, 2)), _gang(3, (1, 3))), Harm(0, (Lost(0, 0, 2, 1),))),
    "two lone pods go rather than a gang of three": (
        (0, 0, 0), 1, (_gang(1, (0, 1, 2), 4), _lone(4, 0, 4), _lone(5, 0, 4)), Harm(0, (Lost(0, 0, 2, 2),))),
    "a gang of two goes rather than two lone pods": (
        (0, 0), 1, (_gang(1, (0, 0), 4), _lone(3, 1, 4), _lone(4, 1, 4)), Harm(0, (Lost(0, 0, 2, 1),))),
    "a lone pod goes rather than a gang": (
        (0, 0, 0), 1, (_gang(1, (0, 1)), _lone(3, 2)), Harm(0, (Lost(0, 0, 1, 1),))),
    "one large pod goes rather than eight small ones": (
        (0, 0), 1, (*(_lone(row, 0, 1) for row in range(8)), _lone(9, 1)), Harm(0, (Lost(0, 0, 1, 1),))),
    "a higher priority goes rather than a budget is violated": (
        (0, 0), 1, (_lone(1, 0, budget=True), _lone(2, 1, priority=5)), Harm(0, (Lost(5, 0, 1, 1),))),
    "many of a low priority go rather than one of a high one": (
        (0, 0), 1, (*(_lone(row, 0, 1) for row in range(8)), _lone(9, 1, priority=5)),
        Harm(0, (Lost(0, 0, 8, 8),))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_least_harm_of_named_cases(name: str) -> None:
    free, pods, units, expected = CASES[name]
    nodes = dict(enumerate({"cpu": each} for each in free))
    demand = Demand(pods, (("cpu", 8),), frozenset(nodes))
    found = least(Problem(nodes, (demand,), pods, units, {BUDGETS[0]: 0}))
    assert found is not None
    assert found.harm == expected


def test_a_demand_for_a_missing_resource_is_infeasible() -> None:
    assert least(Problem({}, (Demand(1, CPU, frozenset()),), 1, (), {})) is None


def _harms(problem: Problem) -> Iterator[Harm]:
    """Return the harm of each choice of units with which the preemptor fits."""
    for units in _subsets(problem.units):
        if _fits(problem, units):
            yield harm(problem, {pod.row for unit in units for pod in unit.pods})


def _subsets(units: tuple[Unit, ...]) -> Iterator[tuple[Unit, ...]]:
    """Yield the choices of units in which no core is evicted without its surplus."""
    for chosen in chain.from_iterable(combinations(units, size) for size in range(len(units) + 1)):
        names = {unit.name for unit in chosen}
        if all(unit in chosen for unit in units if unit.core in names):
            yield chosen


def _fits(problem: Problem, units: tuple[Unit, ...]) -> bool:
    """Try all placements of the pods."""
    kept_out = {
        (number, node)
        for unit in problem.units
        if unit not in units
        for number, nodes in unit.keeps_out
        for node in nodes
    }
    places = [(number, node) for number, demand in enumerate(problem.demands) for node in demand.nodes]
    places = [place for place in places if place not in kept_out]
    ranges = [range(problem.demands[number].pods + 1) for number, _ in places]
    return any(
        sum(counts) >= problem.needed and _allowed(problem, units, dict(zip(places, counts, strict=True)))
        for counts in product(*ranges)
    )


def _allowed(problem: Problem, units: tuple[Unit, ...], placed: dict[tuple[int, int], int]) -> bool:
    for number, demand in enumerate(problem.demands):
        if sum(count for (each, _), count in placed.items() if each == number) > demand.pods:
            return False
    for node in {node for (_, node), count in placed.items() if count}:
        for name, free in problem.free[node].items():
            freed = sum(
                dict(pod.amounts).get(name, 0) for unit in units for pod in unit.pods if pod.node == node
            )
            requested = sum(
                dict(problem.demands[number].amounts).get(name, 0) * count
                for (number, at), count in placed.items()
                if at == node
            )
            # A resource that a pod does not request does not exclude a node.
            if requested and requested > free + freed:
                return False
    return all(_meets(constraint, placed) for constraint in problem.constraints)


def _meets(constraint: Even | Apart, placed: dict[tuple[int, int], int]) -> bool:
    counts = [
        sum(
            count
            for (number, node), count in placed.items()
            if number in constraint.demands and node in domain
        )
        for domain in constraint.domains
    ]
    if isinstance(constraint, Apart):
        return max(counts) <= 1
    return max(counts) - min(counts) <= constraint.skew


def _by_counts(of: Harm) -> tuple[int, list[tuple[int, int, int]], int]:
    return of.violations, [(each.priority, each.units, each.pods) for each in of.lost], of.work
