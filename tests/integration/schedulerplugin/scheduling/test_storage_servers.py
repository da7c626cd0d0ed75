"""The scheduler's cache has the storage of a real server, as far as it is read, and follows its changes."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.support.connection.storage import (
    ATTACHMENT,
    CAPACITY,
    CLAIM,
    CLASS,
    DRIVER,
    STORAGE,
    VOLUME,
    create_storage,
)
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.api.test_storage import without_nulls
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.state import ClusterState
from podium.documents.load import STORAGE_KINDS
from podium.kube.cache import InformerCache
from podium.kube.connection import connect
from podium.schedulerplugin.live.process import KINDS, OPTIONAL_KINDS, wanted
from podium.schedulerplugin.live.transforms import transform

pytestmark = pytest.mark.server

_MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module", params=in_turn(__name__))
def stored(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server of each minor with one object of each kind, which tests change."""
    with exclusive(RELEASES[request.param]) as server:
        assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})[0] == 201
        create_storage(server, "team")
        yield server


def _change(server: Server, path: str, body: object) -> None:
    code, answer = server.request("PATCH", f"{STORAGE}/{path}", body, _MERGE)
    assert code == 200, answer


def _fields(stored: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of an object that are set, beside its identity."""
    found: dict[str, Any] = without_nulls(msgspec.to_builtins(stored))
    return {key: each for key, each in found.items() if key not in ("apiVersion", "kind", "metadata")}


def _described(state: ClusterState) -> dict[str, dict[str, Any]]:
    return {
        "claim": _fields(state.claims["team", "data"]),
        "volume": _fields(state.volumes["disk"]),
        "class": _fields(state.storage_classes["fast-class"]),
        "node": _fields(state.csi_nodes["storage-node"]),
        "capacity": _fields(state.storage_capacities["team", "capacity"]),
        "attachment": _fields(state.attachments["attachment"]),
    }


READ_OF_VOLUME = {
    **{key: VOLUME["spec"][key] for key in ("accessModes", "storageClassName", "capacity", "claimRef")},
    "csi": {"driver": DRIVER, "volumeHandle": "vol-0123"},
    "volumeMode": "Filesystem",
    "nodeAffinity": VOLUME["spec"]["nodeAffinity"],
}


async def test_storage_is_read_and_followed(stored: Server) -> None:
    async with connect(str(stored.kubeconfig), None) as connection:
        cluster = InformerCache(
            connection,
            KINDS,
            reads=SCHEDULING_READS,
            transform=transform,
            only=wanted,
            optional=OPTIONAL_KINDS,
            log_event=lambda _what, _fields: None,
        )
        state = cluster.state

        async def until(reached: Callable[[], bool]) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not reached():
                    await cluster.changed(state.revision)

        following = asyncio.create_task(cluster.run())
        try:
            await cluster.ready()
            assert not {str(kind) for kind in STORAGE_KINDS} & set(state.unread)
            assert _described(state) == {
                "claim": {
                    "spec": CLAIM["spec"] | {"volumeMode": "Filesystem"},
                    "status": {"phase": "Pending"},
                },
                "volume": {"spec": READ_OF_VOLUME, "status": {"phase": "Pending"}},
                "class": {
                    key: CLASS[key] for key in ("provisioner", "volumeBindingMode", "allowedTopologies")
                },
                "node": {"spec": {"drivers": [{"name": DRIVER, "allocatable": {"count": 24}}]}},
                "capacity": {key: each for key, each in CAPACITY.items() if key != "metadata"},
                "attachment": {"spec": ATTACHMENT["spec"]},
            }
            assert state.claims["team", "data"].bound
            driver = state.csi_drivers[DRIVER].spec
            # The newer server has a default for the other field.
            assert driver is not None
            assert driver.storageCapacity
            assert not driver.preventPodSchedulingIfMissing
            _change(stored, "namespaces/team/csistoragecapacities/capacity", {"maximumVolumeSize": "50Gi"})
            await until(lambda: _described(state)["capacity"]["maximumVolumeSize"] == "50Gi")
            assert stored.request("DELETE", f"{STORAGE}/volumeattachments/attachment")[0] == 200
            await until(lambda: not state.attachments)
        finally:
            following.cancel()
            await asyncio.wait({following})
