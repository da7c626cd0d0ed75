"""The servers that parity is judged on: for each minor one with the Workload API and one without."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.servers import Server, exclusive
from tests.parity.cases import VERSIONS
from tests.parity.scene import POLICY, prepare
from tests.parity.sides import Side, Sides
from tests.webhooks.running import running

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.controlplane.releases import RELEASES, Release

_IDS = [release.version for release in RELEASES.values()]
# For Podium's own rules where the Workload API is served: pods take after their group.
_INHERIT = {
    "apiVersion": "config.podium.dev/v1",
    "kind": "AdmissionPolicy",
    "levels": {"member-priority": "inherit"},
}


@pytest.fixture(scope="module", params=RELEASES.values(), ids=_IDS)
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Native kinds of a server with the Workload API, and Podium's kinds of one without."""
    with _pair(request.param, POLICY, tmp_path_factory.mktemp("webhook")) as (native, podium):
        version = VERSIONS[native.release.minor]
        pair = Sides(
            Side(native, native.client, NATIVE_GROUP, version),
            Side(podium, podium.client, PODIUM_GROUP, version),
        )
        prepare(pair)
        yield pair


@pytest.fixture(scope="module", params=RELEASES.values(), ids=_IDS)
def gated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Native kinds of two servers with the Workload API; the second has Podium's kinds and webhooks, too."""
    folder = tmp_path_factory.mktemp("webhook")
    with _pair(request.param, _INHERIT, folder, workload_api=True) as (native, podium):
        version = VERSIONS[native.release.minor]
        yield Sides(*(Side(server, server.client, NATIVE_GROUP, version) for server in (native, podium)))


@contextlib.contextmanager
def _pair(
    release: Release, policy: Mapping[str, Any], folder: Path, *, workload_api: bool = False
) -> Iterator[tuple[Server, Server]]:
    """Start two servers side by side: one with the Workload API, and one with Podium's webhooks."""
    (folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        native, podium = pool.map(
            lambda served: stack.enter_context(exclusive(release, workload_api=served)), (True, workload_api)
        )
        stack.enter_context(running(podium, folder, f"--config={folder / 'policy.json'}"))
        yield native, podium
