"""The simulation finds faults that are planted into the product, each within a few seeds."""

import pytest
from tests.support.simulation.planted import PLANTED, Planted

from podium.simulation.story import drawn, run

# The seeds to try for each fault.
SEEDS = range(1, 21)


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_a_planted_fault_is_seen(fault: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(fault.owner, fault.attribute)
    monkeypatch.setattr(fault.owner, fault.attribute, fault.make(original))
    assert any(run(drawn(seed)).broken for seed in SEEDS)
