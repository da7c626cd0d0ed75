"""The scheduler's cache has the devices and claims of a real server, and follows their changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.connection.cluster import kubeconfig_of
from tests.support.connection.devices import ALLOCATED, CLASS, DEVICES, SLICE, create_devices
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.api.test_storage import without_nulls
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.claims import DEVICE_READS
from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.state import ClusterState
from podium.kube.cache import InformerCache
from podium.kube.connection import connect
from podium.schedulerplugin.live.process import KINDS, OPTIONAL_KINDS, wanted
from podium.schedulerplugin.live.transforms import transform

pytestmark = pytest.mark.server

_MERGE = "application/merge-patch+json"
_CLAIM = f"{DEVICES}/namespaces/team/resourceclaims/gpu-claim"
WATCHED = {str(read.kind) for read in DEVICE_READS.values() if read.kind in KINDS}

Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture(scope="module", params=in_turn(__name__))
def offered(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server of each minor with one object of each kind, which tests change."""
    with exclusive(RELEASES[request.param]) as server:
        assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})[0] == 201
        create_devices(server, "team")
        yield server


@asynccontextmanager
async def followed(kubeconfig: Path) -> AsyncIterator[tuple[ClusterState, Until]]:
    """Yield the state of the scheduler's cache once it is ready, and a function that waits for a change."""
    async with connect(str(kubeconfig), None) as connection:
        cluster = InformerCache(
            connection,
            KINDS,
            reads=SCHEDULING_READS,
            transform=transform,
            only=wanted,
            optional=OPTIONAL_KINDS,
            log_event=lambda _what, _fields: None,
        )

        async def until(reached: Callable[[], bool]) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not reached():
                    await cluster.changed(cluster.state.revision)

        following = asyncio.create_task(cluster.run())
        try:
            await cluster.ready()
            yield cluster.state, until
        finally:
            following.cancel()
            await asyncio.wait({following})


def _fields(stored: msgspec.Struct) -> Any:
    """Return the fields of an object that are set, beside its identity, in JSON form."""
    found = without_nulls(msgspec.json.decode(msgspec.json.encode(stored)))
    return {key: each for key, each in found.items() if key not in ("apiVersion", "kind", "metadata")}


async def test_devices_are_read_and_followed(offered: Server) -> None:
    async with followed(offered.kubeconfig) as (state, until):
        assert not WATCHED & set(state.unread)
        assert _fields(state.resource_slices["device-node-gpu"]) == {"spec": SLICE["spec"]}
        assert _fields(state.device_classes["acme-class"]) == {"spec": CLASS["spec"]}
        claim = state.resource_claims["team", "gpu-claim"]
        assert claim.status is not None
        assert _fields(claim)["status"]["reservedFor"] == ALLOCATED["status"]["reservedFor"]
        assert claim.status.allocation is not None
        (result,) = claim.status.allocation.devices.results or []
        assert (result.request, result.pool, result.device) == ("gpus", "device-node", "gpu-0")
        # A claim with devices is kept with the names of its requests.
        assert _fields(claim)["spec"] == {"devices": {"requests": [{"name": "gpus"}]}}
        assert not state.claim_templates
        code, answer = offered.request(
            "PATCH", f"{_CLAIM}/status", {"status": {"allocation": None, "reservedFor": None}}, _MERGE
        )
        assert code == 200, answer
        await until(lambda: _fields(state.resource_claims["team", "gpu-claim"]).get("status", {}) == {})
        (request,) = state.resource_claims["team", "gpu-claim"].spec.devices.requests or []
        assert request.exactly is not None
        # The defaults of the API server.
        assert (request.exactly.allocationMode, request.exactly.count) == ("ExactCount", 1)
        assert offered.request("DELETE", f"{DEVICES}/resourceslices/device-node-gpu")[0] == 200
        await until(lambda: not state.resource_slices)


async def test_devices_without_rights_are_unread_and_the_rest_is_followed(
    offered: Server, tmp_path: Path
) -> None:
    """All kinds of devices are optional, so the cache is ready without them."""
    rules = [
        {
            "apiGroups": [
                "",
                "apps",
                "policy",
                "storage.k8s.io",
                "scheduling.k8s.io",
                "scheduling.podium.dev",
            ],
            "resources": ["*"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    async with followed(kubeconfig_of(offered, "team", rules, tmp_path)) as (state, _):
        for (_, kind), read in DEVICE_READS.items():
            if kind in WATCHED:
                assert f"missing permission: list and watch {read.plural} " in state.unread[kind]
                assert "resource.k8s.io" in state.unread[kind]
        assert "Pod" not in state.unread
        for index in (state.resource_claims, state.device_classes, state.resource_slices):
            assert not index
