"""Podium's processes in simulated clusters: no invariant is broken under drawn faults.

Each run takes fresh seeds, and PODIUM_SEED repeats it. `make simulate` runs any number of seeds.
"""

from random import Random

import pytest
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL
from tests.support.simulation.planted import PLANTED

from podium.simulation.story import Story, StoryEvent, drawn, run, shortened

# Stories of fresh seeds, and the first seeds to try for a planted fault.
_STORIES = 300 if FULL else 3
_SEEDS = range(1, 21)


@pytest.mark.timeout(7200 if FULL else 300)
def test_the_invariants_hold() -> None:
    chance = Random(new_seed())
    for seed in (chance.getrandbits(32) for _ in range(_STORIES)):
        result = run(drawn(seed))
        assert not result.broken, f"make simulate SEED={seed} COUNT=1 SHORTEN=1"


def test_the_same_seed_gives_the_same_run() -> None:
    story = drawn(new_seed())
    first, second = run(story), run(story)
    assert first == second
    assert first.binds


@pytest.mark.timeout(7200 if FULL else 600)
def test_planted_faults_are_seen() -> None:
    """Each run plants one of the faults, and a long run all of them."""
    unseen = []
    for fault in PLANTED if FULL else Random(new_seed()).sample(PLANTED, 1):
        original = getattr(fault.owner, fault.attribute)
        with pytest.MonkeyPatch.context() as planting:
            planting.setattr(fault.owner, fault.attribute, fault.make(original))
            if not any(run(drawn(seed)).broken for seed in _SEEDS):
                unseen.append(fault.name)
    assert not unseen


def test_a_failing_story_is_shortened_to_what_it_needs() -> None:
    events = tuple(StoryEvent(float(at), "kill", f"scheduler-{at % 2}") for at in range(40))
    needed = {events[7], events[31]}
    short = shortened(Story(1, 2, events), lambda story: needed <= set(story.events))
    assert short.events == (events[7], events[31])
