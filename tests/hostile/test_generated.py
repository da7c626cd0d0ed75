"""Objects that Hypothesis makes up, against Podium as installed."""

import itertools

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from tests.support.hostile import generated
from tests.support.hostile.bed import Bed
from tests.support.hostile.tenant import Tenant
from tests.support.servers import FULL

# An example takes a second or two.
_EXAMPLES, _MANY = 12, 600

pytestmark = [pytest.mark.server, pytest.mark.timeout(3600 if FULL else 300)]
_numbers = itertools.count()


# Examples are not shrunk: each step would wait until a gang times out.
@settings(
    max_examples=_MANY if FULL else _EXAMPLES,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(example=generated.generated())
def test_podium_works_during_and_after_a_generated_object(bed: Bed, example: generated.Generated) -> None:
    """Podium works as before while it is there, and once it is gone."""
    accepted = 0

    def write(tenant: Tenant) -> None:
        nonlocal accepted
        accepted = generated.write(tenant, example)

    bed.endures(write, f"generated-{next(_numbers)}")
    assume(accepted)
