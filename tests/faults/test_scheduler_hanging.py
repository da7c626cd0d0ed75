"""A decision that never ends: the leader's other work, and the next leader's first steps."""

from typing import Any

import pytest
from tests.support.scheduling.world import World
from tests.support.waiting import until

pytestmark = pytest.mark.server


def test_the_leader_is_killed_inside_a_decision(ours: World) -> None:
    """The lease is kept during an endless decision, and the next leader decides for all others first."""
    namespace = ours.server.new_namespace("lease-")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/podium"
    options: dict[str, Any] = {"lease": (namespace, "podium"), "endless": "endless"}
    others = ["a", "b", "c"]

    def lease() -> Any:
        return ours.server.request("GET", path)[1]

    def is_noted() -> bool:
        return entry in str(lease()["metadata"].get("annotations"))

    with ours.scheduling(way=0, **options) as leader, ours.sandbox() as sandbox:
        until(lambda: leader.leads, "the first leads")
        with ours.scheduling(way=1, **options) as heir:
            sandbox.node("n0", 8)
            entry = f"{sandbox.name}/endless"
            sandbox.pod("endless", priority=9)
            until(is_noted, f"the leader says what it decides:{ours.log}")
            renewed = lease()["spec"]["renewTime"]
            for name in others:
                sandbox.pod(name, priority=1)
            until(lambda: lease()["spec"]["renewTime"] != renewed, "the lease is renewed")
            assert leader.leads
            assert not any(map(sandbox.where, sandbox.pods().values()))
            leader.kill()
            sandbox.until_bound(others)
            assert heir.leads
            until(is_noted, f"the heir tries it at last:{ours.log}")
            sandbox.end("endless")
            heir.kill()
