"""Podium's groups with a topology constraint on real servers, without the upstream gate."""

from collections.abc import Callable, Iterator

import pytest
from tests.support.scheduling.trees import assert_a_tree_is_evicted_as_one, assert_each_gang_clears_a_rack
from tests.support.scheduling.world import Sandbox, World, assert_cheaper_rack_is_cleared
from tests.support.scheduling.world import racks_used as racks

from podium.groups.topology import PREFERRED_TOPOLOGY
from podium.schedulerplugin.scheduling.messages import STRADDLES

pytestmark = pytest.mark.server


@pytest.fixture
def sandbox(worlds: Callable[[str], World]) -> Iterator[Sandbox]:
    """Yield a namespace and nodes for one test, with Podium's groups."""
    with worlds("podium").sandbox() as made:
        yield made


def test_a_gang_takes_a_free_rack_and_evicts_no_pod(sandbox: Sandbox) -> None:
    sandbox.rack("a", 2)
    sandbox.rack("b", 2)
    sandbox.node("loose0")
    sandbox.pod("low", 4, 1, node="a0")
    sandbox.group("gang", 5, 2, **sandbox.in_rack)
    assert racks(sandbox.until_bound(sandbox.members("gang", 2, 4, 5))) == {"b"}
    assert sandbox.touched() == []


def test_the_cheaper_rack_is_cleared(sandbox: Sandbox) -> None:
    assert_cheaper_rack_is_cleared(sandbox)


def test_each_gang_of_a_tree_clears_a_rack(sandbox: Sandbox) -> None:
    assert_each_gang_clears_a_rack(sandbox)


def test_a_tree_is_evicted_as_one(sandbox: Sandbox) -> None:
    assert_a_tree_is_evicted_as_one(sandbox)


def test_a_group_that_straddles_racks_is_scheduled_and_says_so(sandbox: Sandbox) -> None:
    """A later member goes to the rack of most members, even after a label has changed."""
    sandbox.rack("a", 4)
    sandbox.rack("b", 1)
    sandbox.group("gang", 5, 2, **sandbox.in_rack)
    bound = sandbox.until_bound(sandbox.members("gang", 3, 4, 5))
    assert racks(bound) == {"a"}
    moved = sandbox.full(bound["gang-0"])
    sandbox.ask("PATCH", f"/api/v1/nodes/{moved}", {"metadata": {"labels": {sandbox.rack_key: "b"}}})
    late = sandbox.until_bound(sandbox.members("gang", 1, 4, 5, first=3))
    assert racks(late) == {"a"}
    sandbox.until(lambda: STRADDLES in _conditions(sandbox), "the condition says so")
    assert f"1 pod in {sandbox.rack_key}=b" in _conditions(sandbox)[STRADDLES]


def test_a_group_with_a_full_rack_names_the_rack(sandbox: Sandbox) -> None:
    sandbox.rack("a", 1)
    sandbox.rack("b", 2)
    sandbox.group("gang", 5, 1, **sandbox.in_rack)
    sandbox.pod("gang-0", 4, 5, node="a0", group="gang")
    sandbox.pod("gang-1", 4, 5, group="gang")
    sandbox.until_message("gang-1", f"members of the group run in {sandbox.rack_key}=a")


def test_a_gang_without_its_preferred_rack_says_so(sandbox: Sandbox) -> None:
    """Free room in two racks is taken before an eviction in one."""
    sandbox.rack("a", 2)
    sandbox.rack("b", 1)
    sandbox.pod("low", 4, 1, node="a0")
    sandbox.group("gang", 5, 2, annotations={PREFERRED_TOPOLOGY: sandbox.rack_key})
    assert racks(sandbox.until_bound(sandbox.members("gang", 2, 4, 5))) == {"a", "b"}
    sandbox.until(lambda: STRADDLES in _conditions(sandbox), "the condition says so")
    assert f"1 pod in {sandbox.rack_key}=b" in _conditions(sandbox)[STRADDLES]
    assert sandbox.touched() == []


def _conditions(sandbox: Sandbox) -> dict[str, str]:
    """Return the messages of the group's conditions, by type."""
    group = sandbox.ask("GET", sandbox.groups_path("gang"))
    return {each["type"]: each["message"] for each in group.get("status", {}).get("conditions", ())}
