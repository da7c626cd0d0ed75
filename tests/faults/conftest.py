"""What the faults of the reconciler share: two replicas watched in a namespace, and a storm on the way."""

from collections.abc import Iterator

import pytest
from tests.faults.contenders import FEW, Pair, Storm


@pytest.fixture
def two(replicas: Pair) -> Iterator[Pair]:
    """Both replicas of the module, and a namespace of the test's own."""
    with replicas.watched() as watched:
        yield watched


@pytest.fixture
def storm(two: Pair) -> Iterator[Storm]:
    """A storm that has begun."""
    with Storm(two).raging() as raging:
        raging.more(FEW)
        yield raging
