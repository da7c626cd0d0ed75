"""Fixtures of the live tests: worlds with native groups in two versions, and one with Podium's groups."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.controllers.running import PLACES
from tests.support.folders import Kept
from tests.support.scheduling.world import Sandbox, World, world


@contextmanager
def _scheduled(name: str, folder: Path) -> Iterator[World]:
    with world(name, folder) as made, made.scheduling():
        yield made


@pytest.fixture(scope="module")
def worlds(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], World]:
    """Return the world of one of PLACES with one scheduler for all tests; created at its first use."""
    return lambda name: kept.once(name, lambda: _scheduled(name, tmp_path_factory.mktemp("world")))


@pytest.fixture(params=PLACES)
def sandbox(request: pytest.FixtureRequest, worlds: Callable[[str], World]) -> Iterator[Sandbox]:
    """Yield a namespace and nodes for one test, in each world."""
    with worlds(request.param).sandbox() as made:
        yield made
