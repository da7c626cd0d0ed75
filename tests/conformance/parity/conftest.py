"""The servers of the parity tests, a pair of one minor for all modules; they end with the folder."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.folders import Kept
from tests.support.parity import scene
from tests.support.parity.case import VERSIONS
from tests.support.parity.sides import Side, Sides
from tests.support.servers import exclusive, in_turn
from tests.support.webhooks.running import running
from tools.devcluster.controlplane.releases import RELEASES, Release

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP


@pytest.fixture(scope="module", params=in_turn(__name__))
def sides(request: pytest.FixtureRequest, kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Return native kinds of a server with the Workload API, and Podium's kinds of a server without it."""
    release = RELEASES[request.param]
    return kept.once(("sides", release.minor), lambda: _reviewed(release, tmp_path_factory.mktemp("webhook")))


@pytest.fixture(scope="module", params=in_turn(__name__))
def gated(request: pytest.FixtureRequest, kept: Kept) -> Sides:
    """Return native kinds of two servers with the Workload API; the second has Podium's webhooks."""
    release = RELEASES[request.param]
    return kept.once(("gated", release.minor), lambda: _pair(release, NATIVE_GROUP))


@contextlib.contextmanager
def _reviewed(release: Release, folder: Path) -> Iterator[Sides]:
    """Start a pair whose second server calls a webhook."""
    with (
        _pair(release, PODIUM_GROUP) as pair,
        running(pair.podium.server, folder, scene.config(folder, scene.POLICY)),
    ):
        scene.prepare(pair)
        yield pair


@contextlib.contextmanager
def _pair(release: Release, group: str) -> Iterator[Sides]:
    """Start two servers; the second has the Workload API if native kinds are written to it."""
    groups = (NATIVE_GROUP, group)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        starting = pool.map(
            lambda name: stack.enter_context(exclusive(release, workload_api=name == NATIVE_GROUP)), groups
        )
        version = VERSIONS[release.minor]
        yield Sides(
            *(
                Side(server, server.client, name, version)
                for server, name in zip(starting, groups, strict=True)
            )
        )
