"""Native groups on a 1.37 server with the gates of topology and of composite groups on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import Place
from tests.support.scheduling.world import Sandbox, World, assert_cheaper_rack_is_cleared, world_of
from tests.support.servers import exclusive

from podium.api.groups import NATIVE_GROUP
from podium.controlplane.releases import RELEASES

pytestmark = pytest.mark.server

GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
# A parent requires a template.
CHILD: dict[str, Any] = {
    "parentCompositePodGroupName": "both",
    "workloadRef": {"workloadName": "w", "templateName": "t"},
}


@pytest.fixture(scope="module")
def gated_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a server with the gates on, with a scheduler."""
    folder: Path = tmp_path_factory.mktemp("world")
    with (
        exclusive(RELEASES["1.37"], apiserver=(f"--feature-gates={GATES}",)) as server,
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


def test_another_pod_is_evicted_and_no_member_is_placed(gated: Sandbox) -> None:
    gated.nodes(2)
    gated.group("left", 1, 1, whole=True, **CHILD)
    gated.pod("left-0", 4, 1, node="n0", group="left")
    gated.pod("other", 4, 3, node="n1")
    gated.pod("high", 4, 5)
    assert gated.until_bound(["high"]) == {"high": "n1"}
    gated.pod("more", 4, 5)
    gated.until_message("more", "Pods of composite groups are not preempted.")
    gated.group("right", 7, 1, **CHILD)
    gated.pod("right-0", 4, 7, group="right")
    gated.until_message("right-0", "the group has what cannot be judged: a composite group")
    gated.wait_for_decisions()
    assert gated.evicted() == ["other"]
