"""The model of the API server answers random sequences of requests as a real server does.

Answers and watches are compared; DIFFERENCES in tests/support/apiserver/comparison.py are the accepted ones.
PODIUM_SEED repeats a run, and PODIUM_DIFFERENTIAL=full runs 5,000 sequences on each minor.
"""

from itertools import count, islice
from random import Random

import pytest
from tests.support.apiserver import comparison, generator
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, exclusive, of_run
from tools.devcluster.controlplane.releases import BUILDABLE

from podium.api.minors import GROUP_MINORS

_SEQUENCES = 5000 if FULL else 120
_AT_ONCE = 40
# Each takes a moment, so a change that breaks everything is told in a few stories.
_MOST_STORIES = 3


@pytest.mark.server
@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("minor", of_run())
def test_the_model_answers_as_a_server_does(minor: str) -> None:
    """Both sides give the same answers to each sequence, and the same events."""
    seed = new_seed()
    release = next(known for known in GROUP_MINORS.values() if known.name == minor)
    kinds = generator.kinds(next(iter(release.apis)))
    random, numbers = Random(seed), count(1)
    sequences = (generator.sequence(random, kinds) for _ in range(_SEQUENCES))
    stories: list[str] = []
    # An exclusive server: nodes and classes have no namespace.
    with exclusive(BUILDABLE[minor]) as server:
        sides = comparison.RealSide(server), comparison.ModelSide(release, seed)
        for side in sides:
            comparison.prepare(side)
        while (batch := list(islice(sequences, _AT_ONCE))) and len(stories) < _MOST_STORIES:
            different = comparison.compare(sides, batch, kinds, numbers.__next__)
            stories += [
                comparison.shrunk(sides, batch[index], kinds, numbers.__next__)
                for index, _ in different[: _MOST_STORIES - len(stories)]
            ]
    assert not stories, f"Kubernetes {minor}, PODIUM_SEED={seed}:\n" + "\n\n".join(stories)
