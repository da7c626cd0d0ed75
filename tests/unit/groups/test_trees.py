"""Trees of composite groups in a cluster that changes: roots, members, and groups that are evicted as one."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import composite, group, pod, tree_of
from tests.support.preemption.scene import of as group_of
from tests.support.steps import steps

from podium.api.groups import CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of, parent_key
from podium.cluster.reader import Child
from podium.cluster.state import ClusterState
from podium.groups.trees import (
    MAX_DEPTH,
    MAX_GROUPS,
    flaw,
    is_too_large,
    leaves,
    lineage,
    members_below,
    root_key,
    tree,
    whole_group,
)


def state_of(*objects: Any) -> ClusterState:
    """Return a cluster with the objects."""
    state = ClusterState(native_served=True)
    for each in objects:
        state.apply(each)
    return state


def of_size(size: int, *, wide: bool) -> list[Any]:
    """Make a tree of so many groups, with its root: all below the root, or below nine others."""
    if wide:
        return [composite("root"), *(leaf(f"x{at}", "root") for at in range(size - 1))]
    inner = [composite(f"c{at}", parent="root") for at in range(9)]
    return [composite("root"), *inner, *(leaf(f"x{at}", f"c{at % 9}") for at in range(size - 10))]


def leaf(name: str, parent: str = "", **fields: Any) -> PodGroup:
    """Make a group below a composite group."""
    return group(name, composite=parent, **fields)


CHAIN = [composite("a"), composite("b", parent="a"), composite("c", parent="b")]
TOO_DEEP = f"its composite groups nest in more than {MAX_DEPTH} levels, or in a cycle"
ROOTS: dict[str, tuple[list[Any], str, GroupKey, str]] = {
    "a group without a parent": ([leaf("x")], "x", group_of("x"), ""),
    "a group that does not exist": ([], "x", group_of("x"), ""),
    "an absent parent": ([leaf("x", "a")], "x", tree_of("a"), "the composite group a does not exist"),
    "an absent grandparent": (
        [leaf("x", "b"), composite("b", parent="a")],
        "x",
        tree_of("a"),
        "the composite group a does not exist",
    ),
    "four levels": ([leaf("x", "c"), *CHAIN], "x", tree_of("a"), ""),
    "five levels": ([leaf("x", "d"), *CHAIN, composite("d", parent="c")], "x", group_of("x"), TOO_DEEP),
    "a cycle": (
        [leaf("x", "a"), composite("a", parent="b"), composite("b", parent="a")],
        "x",
        group_of("x"),
        TOO_DEEP,
    ),
    "its own parent": ([leaf("x", "a"), composite("a", parent="a")], "x", group_of("x"), TOO_DEEP),
    "a parent of another API": (
        [leaf("x", "a"), composite("a", native=False)],
        "x",
        tree_of("a"),
        "the composite group a does not exist",
    ),
}


@pytest.mark.parametrize(("objects", "name", "root", "why"), ROOTS.values(), ids=ROOTS)
def test_the_root_is(objects: list[Any], name: str, root: GroupKey, why: str) -> None:
    state = state_of(*objects)
    assert root_key(state, group_of(name)) == root
    found = state.groups.get(group_of(name))
    assert found is None or flaw(state, found) == why


WHOLE: dict[str, tuple[list[Any], str]] = {
    "none": ([leaf("x", "a"), composite("a")], ""),
    "the group": ([leaf("x", "a", whole=True), composite("a")], "x"),
    "the parent": ([leaf("x", "a"), composite("a", whole=True)], "a"),
    "the highest": (
        [leaf("x", "b", whole=True), composite("b", parent="a"), composite("a", whole=True)],
        "a",
    ),
    "the highest that is known": ([leaf("x", "b"), composite("b", parent="a", whole=True)], "b"),
}


@pytest.mark.parametrize(("objects", "name"), WHOLE.values(), ids=WHOLE)
def test_the_group_that_is_evicted_as_one_is(objects: list[Any], name: str) -> None:
    state = state_of(*objects)
    found = whole_group(state, state.groups[group_of("x")])
    assert (found.ref.name if found is not None else "") == name


def test_a_tree_has_the_groups_and_pods_below_its_root() -> None:
    state = state_of(
        *CHAIN, leaf("x", "c"), leaf("y", "a"), leaf("z", "other"), leaf("d", "d"), composite("d", parent="c")
    )
    for name in "xyzd":
        state.apply(pod(f"{name}-0", group=name))
    found = tree(state, tree_of("a"))
    # The group below `d` is on the fifth level.
    assert [each.ref.name for each in found] == ["a", "b", "c", "d", "x", "y"]
    assert [each.ref.name for each in leaves(state, tree_of("a"))] == ["x", "y"]
    assert sorted(each.metadata.name or "" for each in members_below(state, tree_of("a"))) == ["x-0", "y-0"]
    assert [each.ref.name for each in leaves(state, group_of("x"))] == ["x"]
    assert list(leaves(state, group_of("gone"))) == []


GROUPS = st.tuples(st.sampled_from("abcx"), st.sampled_from(["", *"abc"]), st.booleans())


@given(st.lists(GROUPS, max_size=12))
def test_children_are_those_that_name_their_parent(changes: list[tuple[str, str, bool]]) -> None:
    """After any changes the index agrees with the objects, and every group is below its root."""
    state = ClusterState(native_served=True)
    for name, parent, stays in changes:
        made: PodGroup | CompositeGroup = (
            leaf(name, parent) if name == "x" else composite(name, parent=parent)
        )
        (state.apply if stays else state.remove)(made)
    objects: list[Child] = [*state.groups.values(), *state.composites.values()]
    expected: dict[GroupKey, dict[GroupKey, Any]] = {}
    for each in objects:
        above = parent_key(each)
        if above is not None:
            expected.setdefault(above, {})[key_of(each)] = each
    assert state.children == expected
    assert state.copy().children == expected
    for each in objects:
        root = root_key(state, key_of(each))
        below = [key_of(found) for found in tree(state, root)] if root.composite else [root]
        assert key_of(each) in below
        assert lineage(state, each).complete == (not flaw(state, each))
    assert all(key.namespace == NS for key in expected)


@pytest.mark.parametrize("wide", [True, False], ids=["one parent", "many parents"])
def test_a_tree_has_a_limit_of_groups(*, wide: bool) -> None:
    assert MAX_GROUPS == 657
    for size, too_large in ((MAX_GROUPS, False), (MAX_GROUPS + 1, True), (4 * MAX_GROUPS, True)):
        state = state_of(*of_size(size, wide=wide))
        assert len([*tree(state, tree_of("root"))]) == size
        assert is_too_large(state, tree_of("root")) is too_large


def test_the_size_of_a_tree_is_known_in_bounded_steps() -> None:
    """A cycle, or a hundred thousand children, cost no more than a tree at the limit."""
    cycle = state_of(composite("a", parent="b"), composite("b", parent="a"))
    assert not is_too_large(cycle, tree_of("a"))
    at_limit, wide = (state_of(*of_size(size, wide=True)) for size in (MAX_GROUPS, 100 * MAX_GROUPS))
    for state in (at_limit, wide):
        assert steps(partial(is_too_large, state, tree_of("root"))) < 20 * MAX_GROUPS
