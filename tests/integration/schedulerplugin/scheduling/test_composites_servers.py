"""Trees of composite groups that the scheduler and the commands read of a real server with the gate on.

Podium's API appears and goes while the process runs, as at an installation and a removal.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.calling import call
from tests.support.controllers.running import install
from tests.support.proxy import Proxy, Refuse, Where
from tests.support.servers import TREES, Server, exclusive
from tests.support.waiting import PATIENCE_SECONDS
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import COMPOSITE_INITIALLY_SCHEDULED, PODIUM_GROUP
from podium.api.membership import GroupKey
from podium.api.reads import COMPOSITE_VERSION, PODIUM_COMPOSITE
from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.state import ClusterState
from podium.kube.cache import InformerCache
from podium.kube.connection import connect
from podium.schedulerplugin.live.process import KINDS, OPTIONAL_KINDS, wanted
from podium.schedulerplugin.live.transforms import transform

pytestmark = pytest.mark.server

_SPEC: dict[str, Any] = {
    "schedulingPolicy": {"basic": {}},
    "workloadRef": {"workloadName": "w", "templateName": "t"},
}
_KIND = "CompositePodGroup"
_VERSIONS = {True: COMPOSITE_VERSION, False: PODIUM_COMPOSITE}


@pytest.fixture(scope="module")
def gated() -> Iterator[Server]:
    """Yield a server that serves native composite groups, without Podium's API."""
    with exclusive(RELEASES["1.37"], apiserver=(f"--feature-gates={TREES}",)) as server:
        yield server


def _path(native: bool, namespace: str, name: str = "") -> str:
    return f"/apis/{_VERSIONS[native]}/namespaces/{namespace}/compositepodgroups/{name}".rstrip("/")


def _create(server: Server, namespace: str, name: str, *, native: bool, parent: str = "") -> None:
    parents = {"parentCompositePodGroupName": parent} if parent else {}
    document = {
        "apiVersion": _VERSIONS[native],
        "kind": _KIND,
        "metadata": {"name": name},
        "spec": {**_SPEC, **parents},
    }
    code, answer = server.request("POST", _path(native, namespace), document)
    assert code == 201, answer


class Followed(NamedTuple):
    """The scheduler's cache of a server, and the resources whose watch failed."""

    cache: InformerCache
    failed: list[str]

    @property
    def state(self) -> ClusterState:
        """The state that the scheduler reads."""
        return self.cache.state

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until the state is as expected."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached():
                await self.cache.changed(self.state.revision)


@asynccontextmanager
async def following(kubeconfig: Path) -> AsyncIterator[Followed]:
    """Yield a cache as the scheduler has it, once it is ready."""
    failed: list[str] = []

    def log_event(what: str, fields: Any) -> None:
        if what == "watch failed":
            failed.append(fields["resource"])

    async with connect(str(kubeconfig), None) as connection:
        cache = InformerCache(
            connection,
            KINDS,
            reads=SCHEDULING_READS,
            transform=transform,
            only=wanted,
            optional=OPTIONAL_KINDS,
            groups=(PODIUM_GROUP,),
            log_event=log_event,
        )
        running = asyncio.create_task(cache.run())
        try:
            await cache.ready()
            yield Followed(cache, failed)
        finally:
            running.cancel()
            await asyncio.wait({running})


async def test_the_scheduler_follows_trees_of_both_apis(gated: Server) -> None:
    """They appear, change and vanish in the state, with their API too."""
    namespace = gated.new_namespace("trees-")
    async with following(gated.kubeconfig) as scene:
        state = scene.state
        for native in (True, False):
            if not native:
                await asyncio.to_thread(install, gated)
            root, inner = (GroupKey(native, namespace, name, composite=True) for name in ("root", "inner"))
            _create(gated, namespace, "inner", native=native, parent="root")
            await scene.until(lambda: set(state.children.get(root, ())) == {inner})  # noqa: B023 - awaited here
            assert root not in state.composites
            _create(gated, namespace, "root", native=native)
            await scene.until(lambda: root in state.composites)  # noqa: B023 - as above
            condition = {
                "type": COMPOSITE_INITIALLY_SCHEDULED,
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            path, status = f"{_path(native, namespace, 'root')}/status", {"conditions": [condition]}
            patched = gated.request("PATCH", path, {"status": status}, "application/merge-patch+json")
            assert patched[0] == 200, patched
            await scene.until(lambda: bool(state.composites[root].conditions))  # noqa: B023 - as above
            assert state.composites[root].conditions[0].reason == "Unschedulable"
            assert gated.request("DELETE", _path(native, namespace, "inner"))[0] == 200
            await scene.until(lambda: inner not in state.composites)  # noqa: B023 - as above
            assert root not in state.children
        assert {key.native for key in state.composites} == {True, False}
        name = f"compositepodgroups.{PODIUM_GROUP}"
        crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        assert gated.request("DELETE", crd)[0] == 200
        await scene.until(lambda: {key.native for key in state.composites} == {True})
        assert _KIND not in state.unread


async def test_without_the_right_the_rest_is_read(gated: Server, tmp_path: Path) -> None:
    """The state and the log name the kind, and the objects are read as soon as they may be."""
    namespace = gated.new_namespace("denied-")
    _create(gated, namespace, "root", native=True)
    with Proxy(gated).running() as proxy, ExitStack() as denied:
        denied.enter_context(proxy.fault(Where("/compositepodgroups$"), Refuse(403, "Forbidden")))
        async with following(proxy.kubeconfig(tmp_path)) as scene:
            assert scene.state.unread[_KIND].startswith(
                "missing permission: list and watch compositepodgroups"
            )
            assert scene.failed.count("compositepodgroups.scheduling.k8s.io") == 1
            assert not scene.state.composites
            denied.close()
            key = GroupKey(True, namespace, "root", composite=True)
            await scene.until(lambda: key in scene.state.composites)
            assert _KIND not in scene.state.unread


def test_commands_read_trees_and_dumps_have_them(gated: Server, tmp_path: Path) -> None:
    """A dump has the names of a tree, or the same pseudonym for a name wherever it is."""
    namespace = gated.new_namespace("dumped-")
    _create(gated, namespace, "root", native=True)
    _create(gated, namespace, "inner", native=True, parent="root")
    for flags, named in (("", True), ("--pseudonyms", False)):
        done = call(
            f"podium dump --kubeconfig {gated.kubeconfig} -n {namespace} --output-file d.json {flags}",
            tmp_path,
        )
        assert done.code == 0, done.stderr
        text = (tmp_path / "d.json").read_text("utf-8")
        lists = {each["kind"]: each.get("items") for each in json.loads(text)["items"]}
        specs = {each["metadata"]["name"]: each["spec"] for each in lists[f"{_KIND}List"]}
        assert ("inner" in specs) is named
        (parent,) = {spec.get("parentCompositePodGroupName") for spec in specs.values()} - {None}
        assert parent in specs
        audit = call("podium audit -f d.json -o json", tmp_path)
        assert json.loads(audit.stdout)["summary"]["objects"][_KIND] == 2
