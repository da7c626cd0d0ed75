"""A fresh sample put to real servers: other objects every run, and the same again with PODIUM_SEED."""

import os
import random
from collections.abc import Iterator

import pytest
from tests.differential import driver, recording
from tests.differential.compare import compared
from tests.fixtures.servers import Server, exclusive

from podium.controlplane.releases import RELEASES, Release

pytestmark = pytest.mark.server

_SAMPLE = 300


@pytest.fixture(params=RELEASES.values(), ids=[item.version for item in RELEASES.values()])
def alone(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server nobody else uses, for a default PriorityClass changes every answer."""
    release: Release = request.param
    with exclusive(release) as server:
        yield server


def test_the_rules_answer_as_a_server_does(alone: Server) -> None:
    """Random creates, updates and status updates have the same answer from both, or an explained one."""
    seed = int(os.environ.get("PODIUM_SEED") or random.SystemRandom().randrange(2**32))
    full = os.environ.get("PODIUM_DIFFERENTIAL") == "full"
    print(f"seed: PODIUM_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    recorded = driver.record(alone, alone.release.minor, seed, recording.OPERATIONS if full else _SAMPLE)
    wrong = [
        f"{scenario.namespace}: {one}"
        for scenario in recorded.scenarios
        for one in compared(recorded.header, scenario)
        if one.unexplained
    ]
    assert not wrong, f"Kubernetes {alone.release.version}, PODIUM_SEED={seed}:\n" + "\n".join(wrong)
