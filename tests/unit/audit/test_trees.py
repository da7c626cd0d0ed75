"""Trees of composite groups, also those that no scheduler accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import cluster, findings
from tests.support.audit.cases.trees import composite, leaf

from podium.api.groups import CompositeGroup
from podium.api.membership import key_of
from podium.audit.survey import GroupTrees

LONG = 3_000


def test_a_tree_deeper_than_the_stack_of_the_process_is_reported() -> None:
    chain = [composite(f"g{at}", f"g{at - 1}" if at else "") for at in range(LONG)]
    state = cluster(*chain, leaf("x", f"g{LONG - 1}", priority=7))
    (deep,) = findings("composite-too-deep", state)
    assert (deep.object.name, f"its tree has {LONG + 1} levels" in deep.message) == ("g0", True)
    (differs,) = findings("composite-priorities-differ", state)
    assert (differs.object.name, "PodGroup x" in differs.message) == ("g0", True)
    assert findings("composite-cycle", state) == []


def test_a_long_cycle_with_long_branches_is_found_once() -> None:
    ring = [composite(f"r{at}", f"r{(at + 1) % LONG}") for at in range(LONG)]
    branch = [composite(f"b{at}", f"b{at - 1}" if at else "r0") for at in range(LONG)]
    trees = GroupTrees(cluster(*branch, *ring))
    assert [sorted(key.name for key in keys) for keys in trees.cycles.values()] == [
        sorted(each.ref.name for each in ring)
    ]


@given(st.lists(st.integers(-1, 7), min_size=1, max_size=8))
def test_cycles_are_those_of_every_walk_to_the_parent(parents: list[int]) -> None:
    """A composite group is in a cycle exactly if the walk from it to its ancestors comes back."""
    made = [composite(f"g{at}", "" if parent < 0 else f"g{parent}") for at, parent in enumerate(parents)]
    trees = GroupTrees(cluster(*made))
    by_name = {each.ref.name: each for each in made}
    found = {key for keys in trees.cycles.values() for key in keys}
    assert found == {key_of(each) for each in made if _comes_back(each, by_name)}
    assert all(min(keys) == first for first, keys in trees.cycles.items())


def _comes_back(group: CompositeGroup, by_name: dict[str, CompositeGroup]) -> bool:
    above = by_name.get(group.composite)
    for _ in by_name:
        if above is None or above is group:
            break
        above = by_name.get(above.composite)
    return above is group


@pytest.mark.parametrize(("leaves", "levels"), [([], 3), (["x"], 4), (["x", "y"], 4)])
def test_levels_count_the_groups_of_pods(leaves: list[str], levels: int) -> None:
    chain = [composite("a"), composite("b", "a"), composite("c", "b")]
    trees = GroupTrees(cluster(*chain, *(leaf(name, "c") for name in leaves)))
    ((key, _),) = trees.roots
    assert trees.levels(key) == levels
    assert [each.ref.name for each in trees.below(key)] == ["b", "c", *leaves]
