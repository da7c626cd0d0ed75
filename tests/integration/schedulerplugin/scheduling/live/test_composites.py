"""Groups of a composite group on a 1.37 server with the gate on: no pod of them is placed or evicted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import Place
from tests.support.scheduling.world import Sandbox, world_of
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


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Sandbox]:
    """Yield a namespace and nodes of a server with composite groups, with a scheduler."""
    with (
        exclusive(RELEASES["1.37"], apiserver=(f"--feature-gates={GATES}",)) as server,
        world_of(Place(server, f"{NATIVE_GROUP}/{NATIVE['1.37'][0]}"), tmp_path) as made,
        made.scheduling(),
        made.sandbox() as sandbox,
    ):
        yield sandbox


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
