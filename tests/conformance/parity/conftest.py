"""The servers of the parity tests, a pair of one minor for all modules; they end with the folder."""

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.admission.gated import gate_sets, gated_server
from tests.support.folders import Kept
from tests.support.parity import scene
from tests.support.parity.case import VERSIONS
from tests.support.parity.sides import Side, Sides
from tests.support.servers import Server, of_run
from tests.support.webhooks.running import running
from tools.devcluster.controlplane.releases import BUILDABLE, Release

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.minors import MINORS, minor_of

# The gates of native groups by minor, where composite groups share a version with Podium's.
_TREES = {
    minor: gate_sets(release)[-1]
    for minor, release in BUILDABLE.items()
    if VERSIONS[minor] in MINORS[minor_of(minor) or 0].versions("CompositePodGroup")
}


@pytest.fixture(scope="module", params=of_run())
def sides(request: pytest.FixtureRequest, kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Return native kinds of a server with the Workload API, and Podium's kinds of a server without it."""
    release = BUILDABLE[request.param]
    folder = tmp_path_factory.mktemp("webhook")
    return kept.once(("sides", release.minor), lambda: _reviewed(release, folder))


@pytest.fixture(scope="module", params=[minor for minor in of_run() if minor in _TREES])
def trees(request: pytest.FixtureRequest, kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Return the same pair with all gates of native groups on."""
    release = BUILDABLE[request.param]
    folder = tmp_path_factory.mktemp("webhook")
    return kept.once(("trees", release.minor), lambda: _reviewed(release, folder, _TREES[release.minor]))


@pytest.fixture(scope="module", params=of_run())
def gated(request: pytest.FixtureRequest, kept: Kept) -> Sides:
    """Return native kinds of two servers with the Workload API; the second has Podium's webhooks."""
    release = BUILDABLE[request.param]
    return kept.once(("gated", release.minor), lambda: _pair(release, NATIVE_GROUP))


@contextlib.contextmanager
def _reviewed(release: Release, folder: Path, gates: Sequence[str] = ()) -> Iterator[Sides]:
    """Start a pair whose second server calls a webhook."""
    with (
        _pair(release, PODIUM_GROUP, gates) as pair,
        running(pair.podium.server, folder, scene.config(folder, scene.POLICY)),
    ):
        scene.prepare(pair)
        yield pair


@contextlib.contextmanager
def _pair(release: Release, group: str, gates: Sequence[str] = ()) -> Iterator[Sides]:
    """Start two servers; the second has the Workload API if native kinds are written to it."""
    groups = (NATIVE_GROUP, group)

    def started(name: str) -> Server:
        native = name == NATIVE_GROUP
        return stack.enter_context(gated_server(release, gates if native else (), workload_api=native))

    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        starting = pool.map(started, groups)
        version = VERSIONS[release.minor]
        yield Sides(
            *(
                Side(server, server.client, name, version)
                for server, name in zip(starting, groups, strict=True)
            )
        )
