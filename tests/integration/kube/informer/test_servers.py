"""Real API servers are watched: every write is seen; restarts, compactions and new APIs lose nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import NATIVE, kubeconfig_of
from tests.support.controlplane_faults import compact, without_api_server
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import PATIENCE_SECONDS
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP, PodGroup
from podium.api.membership import GroupKey
from podium.api.reads import Kind
from podium.cluster.state import ClusterState
from podium.documents.files import folder
from podium.kube.cache import InformerCache
from podium.kube.connection import Connection, connect
from podium.kube.discovery import discover
from podium.kube.informer import Informer, InformerHooks, at_once
from podium.kube.reflector import Reflector

pytestmark = pytest.mark.server

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLASS_RESOURCE = "priorityclasses.scheduling.k8s.io"
KINDS = (Kind.PRIORITY_CLASS, Kind.POD_GROUP, Kind.WORKLOAD)


@pytest.fixture(scope="module", params=in_turn(__name__))
def own(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server of each minor that tests may break, and whose custom resources come and go."""
    with exclusive(RELEASES[request.param]) as server:
        yield server


class Scene:
    """A watched real cluster."""

    def __init__(
        self, connection: Connection, cluster: InformerCache, logged: list[tuple[str, dict[str, Any]]]
    ) -> None:
        self.connection = connection
        self.cluster = cluster
        self.state = cluster.state
        self.logged = logged

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until a condition holds: in the state, in the log or anywhere."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached():  # noqa: ASYNC110 - no single event covers all conditions
                await asyncio.sleep(0.01)

    async def write(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """Write, and return the answer."""
        answer: dict[str, Any] = json.loads(await self.connection.send(method, path, body, **options))
        return answer

    def truth(self, server: Server, path: str) -> dict[str, str]:
        """Return resourceVersions by name as the server lists them."""
        code, listed = server.request("GET", path)
        assert code == 200, listed
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in listed["items"]}

    def classes(self) -> dict[str, str | None]:
        """Return resourceVersions by name as readers see them."""
        return {name: found.metadata.resourceVersion for name, found in self.state.classes.items()}


@asynccontextmanager
async def following(kubeconfig: Path, kinds: tuple[Kind, ...] = KINDS) -> AsyncIterator[Scene]:
    """Watch the kinds that the webhooks watch."""
    logged: list[tuple[str, dict[str, Any]]] = []
    async with connect(str(kubeconfig), None) as connection:
        cluster = InformerCache(
            connection, kinds, log_event=lambda what, fields: logged.append((what, fields))
        )
        task = asyncio.create_task(cluster.run())
        try:
            yield Scene(connection, cluster, logged)
        finally:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), task


def _priority_class(name: str, value: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value}


def _group(name: str, version: str) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return {
        "apiVersion": f"{NATIVE_GROUP}/{version}",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def version_of(found: PodGroup | None) -> str | None:
    return None if found is None else found.metadata.resourceVersion


def version_in(answer: Any) -> str:
    version: str = answer["metadata"]["resourceVersion"]
    return version


async def test_own_writes_are_visible(own: Server) -> None:
    """The cache has each object as the answer to its write: created, changed and deleted."""
    namespace = own.new_namespace()
    version, _ = NATIVE[own.release.minor]
    groups = f"/apis/{NATIVE_GROUP}/{version}/namespaces/{namespace}/podgroups"
    resource = "podgroups.scheduling.k8s.io"
    key = GroupKey(True, namespace, "train")
    async with following(own.kubeconfig) as scene:
        await scene.until(lambda: scene.cluster.synced)
        assert scene.state.native_served
        made = await scene.write("POST", groups, _group("train", version))
        await scene.until(lambda: version_of(scene.state.groups.get(key)) == version_in(made))
        assert scene.state.groups[key].min_count == 2
        labels = {"metadata": {"labels": {"a": "b"}}}
        changed = await scene.write(
            "PATCH", f"{groups}/train", labels, content_type="application/merge-patch+json"
        )
        await scene.until(lambda: version_of(scene.state.groups.get(key)) == version_in(changed))
        assert scene.state.groups[key].metadata.labels == {"a": "b"}
        await scene.write("DELETE", f"{groups}/train")
        # A controller would remove its finalizer, and none runs here.
        await scene.until(lambda: scene.state.groups[key].metadata.deletionTimestamp is not None)
        free = {"metadata": {"finalizers": None}}
        await scene.write("PATCH", f"{groups}/train", free, content_type="application/merge-patch+json")
        await scene.until(lambda: key not in scene.state.groups)
        assert {what for what, _ in scene.logged} == {"api found"}
        assert set(scene.cluster.ages()) == {CLASS_RESOURCE, resource, "workloads.scheduling.k8s.io"}


async def test_apis_that_come_and_go(own: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Podium's own kinds are installed, used and removed while a process runs."""
    monkeypatch.setattr("podium.kube.cache._CHECK_SECONDS", 1.0)
    namespace = own.new_namespace()
    manifests = str(folder("manifests") / "crds")
    path = f"/apis/{PODIUM_GROUP}/v1beta1/namespaces/{namespace}/podgroups"
    body = _group("ours", "v1beta1") | {"apiVersion": f"{PODIUM_GROUP}/v1beta1"}
    key = GroupKey(False, namespace, "ours")
    async with following(own.kubeconfig) as scene:
        await scene.until(lambda: scene.cluster.synced)
        await asyncio.to_thread(own.kubectl, "apply", "--server-side", "-f", manifests)
        await asyncio.to_thread(
            own.kubectl,
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            f"crd/podgroups.{PODIUM_GROUP}",
        )
        await scene.write("POST", path, body)
        await scene.until(lambda: key in scene.state.groups)
        await scene.until(lambda: scene.cluster.synced)
        await asyncio.to_thread(own.kubectl, "delete", "--wait=false", "-f", manifests)
        await scene.until(lambda: key not in scene.state.groups)
        await scene.until(lambda: f"podgroups.{PODIUM_GROUP}" not in scene.cluster.ages())
        assert scene.cluster.synced


async def test_a_restart_and_a_real_410_lose_nothing(own: Server) -> None:
    """The API server is killed, etcd is compacted, and objects change before it is back."""
    async with following(own.kubeconfig) as scene:
        await scene.until(lambda: scene.cluster.synced)
        stays, goes, comes = (f"{name}-{own.release.minor}" for name in ("stays", "goes", "comes"))
        await scene.write("POST", CLASSES, _priority_class(stays, 1))
        await scene.write("POST", CLASSES, _priority_class(goes, 1))
        await scene.until(lambda: {stays, goes} <= set(scene.state.classes))
        known = dict(scene.state.classes)
        await asyncio.to_thread(_restart_compacted, own)
        assert scene.classes() == {name: found.metadata.resourceVersion for name, found in known.items()}
        await scene.write("DELETE", f"{CLASSES}/{goes}")
        await scene.write("POST", CLASSES, _priority_class(comes, 2))
        await scene.until(lambda: comes in scene.state.classes)
        assert scene.classes() == scene.truth(own, CLASSES)
        # Groups did not change meanwhile: their version is older than the new server's history.
        await scene.until(lambda: "watch expired" in {what for what, _ in scene.logged})
        (reason, *_) = [fields["reason"] for what, fields in scene.logged if what == "watch expired"]
        assert reason.startswith("410 Expired: too old resource version")
        assert scene.state.classes[stays] is known[stays]


def _restart_compacted(server: Server) -> None:
    with without_api_server(server):
        compact(server)


async def test_without_the_workload_api_its_field_means_nothing(server_without: Server) -> None:
    """An informer on a server without the Workload API, like most clusters, syncs."""
    async with following(server_without.kubeconfig) as scene:
        await scene.until(lambda: scene.cluster.synced)
        assert not scene.state.native_served
        assert CLASS_RESOURCE in scene.cluster.ages()
        assert f"podgroups.{NATIVE_GROUP}" not in scene.cluster.ages()


async def test_a_missing_permission_is_named_until_it_is_given(
    server_137: Server, namespace: str, tmp_path: Path
) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    async with following(
        kubeconfig_of(server_137, namespace, rules, tmp_path), (Kind.PRIORITY_CLASS,)
    ) as scene:
        await scene.until(lambda: "missing permission" in scene.state.unread["PriorityClass"])
        assert not scene.cluster.synced
        code, bindings = server_137.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
        assert code == 200
        (role,) = {
            each["roleRef"]["name"]
            for each in bindings["items"]
            for subject in each.get("subjects", ())
            if subject.get("namespace") == namespace
        }
        allowed = [
            {"apiGroups": [NATIVE_GROUP], "resources": ["priorityclasses"], "verbs": ["list", "watch"]}
        ]
        code, _ = server_137.request(
            "PATCH",
            f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}",
            {"rules": allowed},
            "application/merge-patch+json",
        )
        assert code == 200
        await scene.until(lambda: scene.cluster.synced)
        assert "PriorityClass" not in scene.state.unread


async def test_pages_and_streams_read_the_same(
    server: Server, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a server does not stream lists, pages with real tokens are read, and the watch continues there."""
    monkeypatch.setattr("podium.kube.reading.MOST_OBJECTS", 2)
    version, _ = NATIVE[server.release.minor]
    path = f"/apis/{NATIVE_GROUP}/{version}/namespaces/{namespace}/podgroups"
    for number in range(5):
        code, made = server.request("POST", path, _group(f"g{number}", version))
        assert code == 201, made
    states = [await _read(server, streams=streams) for streams in (True, False)]
    # Other tests write to their namespaces of this server meanwhile.
    streamed, paged = (
        {key: group for key, group in state.groups.items() if key.namespace == namespace} for state in states
    )
    assert streamed == paged
    assert {key.name for key in streamed} == {f"g{number}" for number in range(5)}


async def _read(server: Server, *, streams: bool) -> ClusterState:
    """Read the native groups once."""
    async with connect(str(server.kubeconfig), None) as connection:
        (served,) = [
            each
            for each in (await discover(connection)).served
            if each.resource == f"podgroups.{NATIVE_GROUP}"
        ]
        state = ClusterState(native_served=True)
        noticed = asyncio.Event()
        follower = Reflector(served, state, lambda *_: None)
        world = InformerHooks(
            *(lambda: 0.0, asyncio.sleep, lambda: 0.0, lambda *_: None),
            *(noticed.set, noticed.set, at_once),
        )
        informer = Informer(connection, served, follower, world)
        informer._streams = streams
        task = asyncio.create_task(informer.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not follower.listed:
                noticed.clear()
                await noticed.wait()
        task.cancel()
        await asyncio.wait({task})
    return state
