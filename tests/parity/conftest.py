"""The servers that parity is judged on, for each minor: with the Workload API and without, with Podium and without."""

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
# Where the Workload API is served: pods take after their group.
_INHERIT = {
    "apiVersion": "config.podium.dev/v1",
    "kind": "AdmissionPolicy",
    "levels": {"member-priority": "inherit"},
}


@pytest.fixture(scope="module", params=RELEASES.values(), ids=_IDS)
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Native kinds of a server with the Workload API, and Podium's kinds of one without."""
    folder = tmp_path_factory.mktemp("webhook")
    with (
        _servers(request.param, True, False) as (native, podium),
        running(podium, folder, _config(folder, POLICY)),
    ):
        pair = Sides(_side(native, NATIVE_GROUP), _side(podium, PODIUM_GROUP))
        prepare(pair)
        yield pair


@pytest.fixture(scope="module", params=RELEASES.values(), ids=_IDS)
def gated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Native kinds of two servers with the Workload API; the second has Podium as it comes, too."""
    with (
        _servers(request.param, True, True) as (plain, podium),
        running(podium, tmp_path_factory.mktemp("webhook")),
    ):
        yield Sides(_side(plain, NATIVE_GROUP), _side(podium, NATIVE_GROUP))


@pytest.fixture(scope="module", params=RELEASES.values(), ids=_IDS)
def inheriting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Native kinds of a server with the Workload API and Podium, where pods take after their group."""
    folder = tmp_path_factory.mktemp("webhook")
    with _servers(request.param, True) as (server,), running(server, folder, _config(folder, _INHERIT)):
        yield _side(server, NATIVE_GROUP)


def _side(server: Server, group: str) -> Side:
    return Side(server, server.client, group, VERSIONS[server.release.minor])


def _config(folder: Path, policy: Mapping[str, Any]) -> str:
    file = folder / "policy.json"
    file.write_text(json.dumps(policy), encoding="utf-8")
    return f"--config={file}"


@contextlib.contextmanager
def _servers(release: Release, *workload_api: bool) -> Iterator[list[Server]]:
    """Start servers side by side, each with the Workload API or without."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        yield list(
            pool.map(
                lambda served: stack.enter_context(exclusive(release, workload_api=served)), workload_api
            )
        )
