"""kube-scheduler 1.37 and a group with one gated pod."""

from typing import Any

import pytest
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import MERGE, Place, Space
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.groups import NATIVE_GROUP

pytestmark = pytest.mark.server

FITS: dict[str, Any] = {
    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m"}}}],
    "tolerations": [{"operator": "Exists"}],
}


def test_kube_scheduler_1_37_holds_a_group_with_a_gated_pod(cluster_137: Server, namespace: str) -> None:
    """Two pods without gates reach minCount, and a gang that comes later is placed before them."""
    space = Space(Place(cluster_137, f"{NATIVE_GROUP}/{NATIVE['1.37'][0]}"), namespace)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    until(lambda: cluster_137.request("GET", account)[0] == 200, "the namespace's account")

    def bound(name: str) -> bool:
        return bool(space.ask("GET", space.pods_path(name))["spec"].get("nodeName"))

    space.pod("held", "gated", schedulingGates=[{"name": "example.com/wait"}], **FITS)
    for group in ("gated", "later"):
        space.group(group)
        for at in range(2):
            space.pod(f"{group}-{at}", group, **FITS)
    until(lambda: bound("later-0") and bound("later-1"), "the gang without gates is placed")
    assert not bound("gated-0")
    assert not bound("gated-1")
    code, answer = cluster_137.request(
        "PATCH", space.pods_path("held"), {"spec": {"schedulingGates": None}}, MERGE
    )
    assert code == 200, answer
    until(lambda: all(map(bound, ("held", "gated-0", "gated-1"))), "the group is placed")
