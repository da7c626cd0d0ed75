"""The servers that parity is judged on: for each minor one with the Workload API and one without."""

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.fixtures.servers import Server, exclusive
from tests.parity.cases import VERSIONS
from tests.parity.scene import POLICY, prepare
from tests.parity.sides import Side, Sides
from tests.webhooks.running import running

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.controlplane.releases import RELEASES, Release


@pytest.fixture(scope="module", params=RELEASES.values(), ids=[item.version for item in RELEASES.values()])
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """A pair of one minor, prepared; nobody else writes to it."""
    release: Release = request.param
    folder = tmp_path_factory.mktemp("webhook")
    policy = folder / "policy.json"
    policy.write_text(json.dumps(POLICY), encoding="utf-8")
    version = VERSIONS[release.minor]
    with contextlib.ExitStack() as stack:
        native, without = started(stack, release, True, False)
        stack.enter_context(running(without, folder, f"--config={policy}"))
        pair = Sides(
            Side(native, native.client, NATIVE_GROUP, version),
            Side(without, without.client, PODIUM_GROUP, version),
        )
        prepare(pair)
        yield pair


def started(stack: contextlib.ExitStack, release: Release, *workload_api: bool) -> list[Server]:
    """Start servers side by side, with the Workload API or without; the stack takes them down."""
    with ThreadPoolExecutor() as pool:
        return list(
            pool.map(
                lambda with_api: stack.enter_context(exclusive(release, workload_api=with_api)), workload_api
            )
        )
