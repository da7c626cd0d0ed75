"""The planner does no more harm than the oracle allows, on generated clusters.

`make soak` compares all SEEDS of them, the unit suite the first SAMPLE. `python -m
tests.support.oracle.compare` prints the cases that differ.
"""

import os
from collections.abc import Iterator
from functools import cache
from unittest.mock import patch

import pytest
from tests.support.oracle import clusters
from tests.support.oracle.compare import Compared, compared, regret
from tests.support.oracle.trees import compared_tree

from podium.planner.preemption import leastharm
from podium.planner.semantics import Semantics

SEEDS, SAMPLE = 1_000, 100
# kube-scheduler 1.36 is closest to the least harm, so it tests the oracle best.
RULES = (Semantics.KEP, Semantics.V1_36)


@cache
def _shrinking() -> list[Compared]:
    return [
        each for seed in range(SAMPLE) for each in compared(seed, clusters.shrinking(seed), Semantics.KEP)
    ]


@cache
def _racked() -> list[Compared]:
    return [each for seed in range(SAMPLE) for each in compared(seed, clusters.racked(seed), Semantics.KEP)]


@cache
def _sample() -> list[dict[Semantics, Compared]]:
    number = SEEDS if os.environ.get("PODIUM_DIFFERENTIAL") == "full" else SAMPLE
    return [
        dict(zip(RULES, compared(seed, clusters.generated(seed), *RULES), strict=True))
        for seed in range(number)
    ]


@pytest.mark.parametrize("semantics", RULES)
def test_no_plan_does_less_harm_than_the_least(semantics: Semantics) -> None:
    """No plan has less harm than the oracle's minimum."""
    for each in (both[semantics] for both in _sample()):
        if each.plan is not None:
            assert each.least is not None, each
            assert each.least <= each.plan, each


def test_the_harm_is_the_least_in_nearly_all_cases() -> None:
    """Plans are least in 95 of 100 cases and evict at most 1.5 times the pods; none is missed or needless."""
    figures = regret([both[Semantics.KEP] for both in _sample()])
    assert figures.equal >= 0.95 * figures.cases
    assert (figures.missed, figures.needless) == (0, 0)
    assert max(figures.ratios) <= 1.5


def test_groups_that_shrink_lose_the_least_in_nearly_all_cases() -> None:
    """Plans are least in 95 of 100 cases and evict at most 1.5 times the pods; none is missed or needless."""
    figures = regret(_shrinking())
    assert figures.equal >= 0.95 * figures.cases
    assert (figures.missed, figures.needless) == (0, 0)
    assert max(figures.ratios) <= 1.5


def test_constrained_gangs_lose_the_least_in_most_cases() -> None:
    """Plans for gangs that spread or keep apart are least in 90 of 100 cases."""
    figures = regret(
        each for seed in range(SAMPLE) for each in compared(seed, clusters.constrained(seed), Semantics.KEP)
    )
    assert figures.equal >= 0.9 * figures.cases
    assert (figures.missed, figures.needless) == (0, 0)


def test_pods_that_keep_the_preemptor_away_leave_with_the_least_harm_in_nearly_all_cases() -> None:
    """Plans are least in 95 of 100 cases; none is missed or needless, or violates more budgets."""
    found = [
        each for seed in range(SAMPLE) for each in compared(seed, clusters.repelled(seed), Semantics.KEP)
    ]
    figures = regret(found)
    assert figures.equal >= 0.95 * figures.cases
    assert (figures.missed, figures.needless) == (0, 0)
    assert all(each.plan.violations == each.least.violations for each in found if each.plan and each.least)


def test_the_cheapest_domain_is_cleared_in_nearly_all_cases() -> None:
    """Plans are least in 95 of 100 cases and evict at most 1.2 times the pods; none is missed or needless."""
    figures = regret(_racked())
    assert figures.equal >= 0.95 * figures.cases
    assert (figures.missed, figures.needless) == (0, 0)
    assert max(figures.ratios) <= 1.2
    assert len(figures.ratios) >= figures.cases / 3


def test_trees_are_placed_with_the_least_harm_in_nearly_all_cases() -> None:
    """A tree is placed exactly if it can be.

    Its plan is least in 95 of 100 cases that need victims, and evicts at most 1.2 times the pods.
    """
    number = 3_000 if os.environ.get("PODIUM_DIFFERENTIAL") == "full" else 400
    found = [compared_tree(seed) for seed in range(number)]
    figures = regret(found)
    victims = [each for each in found if each.least is not None and each.least.pods]
    assert (figures.missed, figures.needless) == (0, 0)
    assert all((each.plan is None) == (each.least is None) for each in found)
    assert sum(each.equal for each in victims) >= 0.95 * len(victims) > 0.1 * number
    assert max(figures.ratios) <= 1.2


def test_a_tree_keeps_no_victim_that_another_placement_spares() -> None:
    """The search ends at a plan with one unit too many; another placement of the tree does without it."""
    assert compared_tree(2823).equal


def test_the_sample_has_all_sorts_of_cases() -> None:
    """Most preemptors need victims. Some need none, some never fit, some exceed budgets."""
    seen = [both[Semantics.KEP].least for both in _sample()]
    needing = [each for each in seen if each is not None and each.pods]
    assert len(needing) >= len(seen) / 2
    assert any(each.violations for each in needing)
    assert any(len(each.lost) > 1 for each in needing)
    assert any(each is not None and not each.pods for each in seen)
    assert None in seen


@pytest.fixture
def narrow() -> Iterator[None]:
    """Limit the search to the cheapest nodes, as in a cluster with more pods than a search may examine."""
    with patch.multiple(leastharm, _MANY=0, _NODES=1):
        yield


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("seed", [9, 25])
def test_members_of_several_kinds_find_room_together_on_the_cheapest_nodes(seed: int) -> None:
    """Nodes with room for each kind alone have too little room for all kinds."""
    (found,) = compared(seed, clusters.generated(seed), Semantics.KEP)
    assert found.plan == found.least


@pytest.mark.usefixtures("narrow")
def test_a_narrowed_search_misses_no_plan() -> None:
    """The harm is the least in 85 of 100 cases, although the smallest pool is searched."""
    sample = [each for seed in range(40) for each in compared(seed, clusters.generated(seed), Semantics.KEP)]
    figures = regret(sample)
    assert (figures.missed, figures.needless) == (0, 0)
    assert figures.equal >= 0.85 * figures.cases
