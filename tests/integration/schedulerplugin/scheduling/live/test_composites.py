"""Native groups on a 1.37 server with the gates of topology and of composite groups on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import Place
from tests.support.scheduling.trees import (
    assert_a_tree_is_evicted_as_one,
    assert_each_gang_clears_a_rack,
    child,
)
from tests.support.scheduling.world import Sandbox, World, assert_cheaper_rack_is_cleared, world_of
from tests.support.servers import TREES, exclusive
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import NATIVE_GROUP

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def gated_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a server with the gates on, with a scheduler."""
    folder: Path = tmp_path_factory.mktemp("world")
    with (
        exclusive(RELEASES["1.37"], apiserver=(f"--feature-gates={TREES}",)) as server,
        world_of(Place(server, f"{NATIVE_GROUP}/{NATIVE['1.37'][0]}"), folder) as made,
        made.scheduling(),
    ):
        yield made


@pytest.fixture
def gated(gated_world: World) -> Iterator[Sandbox]:
    """Yield a namespace and nodes for one test."""
    with gated_world.sandbox() as sandbox:
        yield sandbox


def test_a_native_gang_clears_the_cheaper_rack(gated: Sandbox) -> None:
    assert_cheaper_rack_is_cleared(gated)


def test_each_gang_of_a_tree_clears_a_rack(gated: Sandbox) -> None:
    assert_each_gang_clears_a_rack(gated)


def test_a_tree_is_evicted_as_one(gated: Sandbox) -> None:
    assert_a_tree_is_evicted_as_one(gated)


def test_another_pod_is_evicted_than_that_of_an_unknown_tree(gated: Sandbox) -> None:
    """A later member waits until the composite group exists."""
    gated.nodes(2)
    child(gated, "left", 1, 1, parent="both", disruptionMode={"all": {}})
    gated.pod("left-0", 4, 1, node="n0", group="left")
    gated.pod("other", 4, 3, node="n1")
    gated.pod("high", 4, 5)
    assert gated.until_bound(["high"]) == {"high": "n1"}
    gated.pod("more", 4, 5)
    gated.until_message("more", "Pods whose composite groups are unknown are not preempted.")
    child(gated, "right", 7, 1, parent="both")
    gated.pod("right-0", 4, 7, group="right")
    gated.until_message("right-0", "waiting for the composite group")
    gated.wait_for_decisions()
    assert gated.evicted() == ["other"]
    gated.composite("both", 1, None)
    gated.until_bound(["more"])
    assert sorted(gated.evicted()) == ["left-0", "other"]
