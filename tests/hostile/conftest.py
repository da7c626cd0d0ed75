"""The test bed of all modules here: an API server, Podium as installed, an honest and a hostile tenant."""

import pytest
from tests.support.folders import Kept
from tests.support.hostile.bed import Bed
from tests.support.hostile.bed import bed as made_bed
from tests.support.servers import ENOUGH


@pytest.fixture(scope="module", params=ENOUGH)
def bed(request: pytest.FixtureRequest, kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Bed:
    """Return the test bed of a minor."""
    minor: str = request.param
    return kept.once(minor, lambda: made_bed(minor, tmp_path_factory.mktemp("bed")))
