"""What the live tests share: worlds where groups are native in two versions, and where they are Podium's."""

from collections.abc import Iterator

import pytest
from tests.reconciler.running import PLACES
from tests.scheduler.world import World, Yard, world


@pytest.fixture(scope="module", params=PLACES)
def scheduled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with one scheduler for all tests of a module."""
    with world(request.param, tmp_path_factory.mktemp("world")) as made, made.scheduling():
        yield made


@pytest.fixture
def yard(scheduled: World) -> Iterator[Yard]:
    """A namespace and nodes of the test's own."""
    with scheduled.yard() as made:
        yield made
