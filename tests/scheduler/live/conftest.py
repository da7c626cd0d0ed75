"""What the live tests share: worlds where groups are native in two versions, and where they are Podium's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from tests.reconciler.running import PLACES
from tests.scheduler.world import World, Yard, world


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], World]]:
    """Give the world of one of PLACES with one scheduler for all tests; made when first asked for."""
    with ExitStack() as stack:

        @cache
        def find(name: str) -> World:
            made = stack.enter_context(world(name, tmp_path_factory.mktemp("world")))
            stack.enter_context(made.scheduling())
            return made

        yield find


@pytest.fixture(params=PLACES)
def yard(request: pytest.FixtureRequest, worlds: Callable[[str], World]) -> Iterator[Yard]:
    """A namespace and nodes of the test's own, in each world."""
    with worlds(request.param).yard() as made:
        yield made
