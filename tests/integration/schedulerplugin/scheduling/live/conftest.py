"""Fixtures of the live tests: worlds with native groups, and with Podium's groups."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.controllers.running import places
from tests.support.folders import Kept
from tests.support.scheduling.devices import DeviceBox
from tests.support.scheduling.world import Sandbox, World, world
from tests.support.servers import in_turn


@contextmanager
def _scheduled(name: str, folder: Path) -> Iterator[World]:
    with world(name, folder) as made, made.scheduling():
        yield made


@pytest.fixture(scope="module")
def worlds(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], World]:
    """Return the world of one of `places` with one scheduler for all tests; created at its first use."""
    return lambda name: kept.once(name, lambda: _scheduled(name, tmp_path_factory.mktemp("world")))


@pytest.fixture(params=places(__name__))
def sandbox(request: pytest.FixtureRequest, worlds: Callable[[str], World]) -> Iterator[Sandbox]:
    """Yield a namespace and nodes for one test, in each world."""
    with worlds(request.param).sandbox() as made:
        yield made


@pytest.fixture
def box(sandbox: Sandbox) -> DeviceBox:
    """Return the devices of a sandbox."""
    return DeviceBox(sandbox)


@pytest.fixture(scope="module", params=in_turn(__name__))
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world whose scheduler a test starts and kills."""
    with world(request.param, tmp_path_factory.mktemp("world")) as made:
        yield made
