"""Gates that are turned off and on again: stored objects stay, and requests meanwhile are handled."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import PODIUM_API, Place, Space, install, launch, new_class
from tests.support.controlplane_faults import switch_gates
from tests.support.servers import Server, exclusive, in_turn
from tests.support.webhooks.running import ending
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import NATIVE_GROUP

pytestmark = pytest.mark.server


@pytest.fixture(params=in_turn(__name__))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server of each minor with the gates on, and Podium's resources."""
    with exclusive(RELEASES[request.param]) as started:
        install(started)
        new_class(started, "low", 100)
        new_class(started, "high", 1000)
        yield started


def test_groups_outlive_their_api(server: Server, tmp_path: Path) -> None:
    """Native groups disappear and return unchanged; meanwhile the reconciler handles Podium's own."""
    native = Space(Place(server, f"{NATIVE_GROUP}/{NATIVE[server.release.minor][0]}"))
    ours = Space(Place(server, PODIUM_API), native.name)
    stored = native.group("train", "high")["metadata"]["uid"]
    native.pod("train-0", "train", "high")
    native.pod("train-1", "train", "low")
    ours.group("tune", "high")
    # A restart may take longer than the lease, and a process that loses its lease ends.
    controller = launch(server.kubeconfig, tmp_path / "controller", None, "--no-leader-elect")
    with ending(controller):
        controller.wait_ready()
        controller.wait_leading()
        native.expect("train", "True", "PriorityMismatch")
        switch_gates(server, on=False)
        assert server.request("GET", native.groups_path())[0] == 404
        kept = native.ask("GET", native.pods_path("train-0"))
        assert kept["spec"]["schedulingGroup"] == {"podGroupName": "train"}
        native.pod("train-2", "train", "low")
        assert "schedulingGroup" not in native.ask("GET", native.pods_path("train-2"))["spec"]
        ours.pod("tune-0", "tune", "low")
        ours.expect("tune", "True", "PriorityMismatch")
        controller.until(lambda: "api went away" in controller.log, "it takes them for gone")
        switch_gates(server, on=True)
        assert native.ask("GET", native.groups_path("train"))["metadata"]["uid"] == stored
        native.end("train-1")
        native.expect("train", "False", "PrioritiesMatch")
        assert "Traceback" not in controller.log
