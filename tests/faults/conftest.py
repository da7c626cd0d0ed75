"""Fixtures of the faults: two reconciler replicas and a storm; a world for schedulers and a full sandbox."""

from collections.abc import Iterator

import pytest
from tests.support.controllers.running import Place
from tests.support.faults.contenders import FEW, Pair, Storm, stormy
from tests.support.faults.scheduling import WORTH, full_sandbox
from tests.support.folders import Kept
from tests.support.scheduling.world import Sandbox, Scheduler, World, world
from tests.support.servers import TOPOLOGY, in_turn


@pytest.fixture
def two(replicas: Pair) -> Iterator[Pair]:
    """Yield both replicas of the module, with a new namespace for the test."""
    with replicas.watched() as watched:
        yield watched


@pytest.fixture
def storm(two: Pair) -> Iterator[Storm]:
    """Yield a running storm."""
    with Storm(two).raging() as raging:
        raging.more(FEW)
        yield raging


@pytest.fixture(scope="module", params=in_turn(__name__))
def battered(request: pytest.FixtureRequest, kept: Kept) -> Place:
    """Return a server for storms, which tests may break."""
    name: str = request.param
    return kept.once(("stormy", name), lambda: stormy(name))


@pytest.fixture(scope="module", params=in_turn(__name__))
def ours(request: pytest.FixtureRequest, kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return a world that tests may break, with a proxy for each of two schedulers."""
    name: str = request.param
    return kept.once(("world", name), lambda: world(name, tmp_path_factory.mktemp("world"), TOPOLOGY, ways=2))


@pytest.fixture(scope="module")
def scheduler(ours: World) -> Iterator[Scheduler]:
    """Yield a scheduler without a lease, so that the next one starts at once."""
    with ours.scheduling() as made:
        yield made


@pytest.fixture
def sandbox(ours: World) -> Iterator[Sandbox]:
    """Make four full nodes; two have the cheaper pods, and one more important pod each."""
    with full_sandbox(ours, WORTH) as made:
        yield made
