"""The attacked cluster of all modules here: an API server, Podium, an honest and a hostile tenant."""

import pytest
from tests.support.folders import Kept
from tests.support.hostile.attacked import AttackedCluster
from tests.support.hostile.attacked import attacked as attack
from tests.support.servers import in_turn


@pytest.fixture(scope="module", params=in_turn(__name__))
def attacked(
    request: pytest.FixtureRequest, kept: Kept, tmp_path_factory: pytest.TempPathFactory
) -> AttackedCluster:
    """Return the attacked cluster of a minor."""
    minor: str = request.param
    return kept.once(minor, lambda: attack(minor, tmp_path_factory.mktemp("attacked")))
