"""Plans for devices beside the least harm, which small clusters show by trying everything.

Set PODIUM_DEVICE_CASES for more cases than the 100 of the suite.
"""

import os

from tests.support.oracle.deviceclusters import generated
from tests.support.oracle.devices import compared_devices

CASES = int(os.environ.get("PODIUM_DEVICE_CASES", "100"))


def test_plans_for_devices_do_the_least_harm() -> None:
    """A plan exists exactly if one is possible, and 95 of 100 do the least harm."""
    seen = {seed: compared_devices(generated(seed)) for seed in range(CASES)}
    assert {at: each for at, each in seen.items() if (each.plan is None) != (each.least is None)} == {}
    assert {at: each for at, each in seen.items() if each.pods[0] > 1.2 * each.pods[1]} == {}
    assert sum(each.plan == each.least for each in seen.values()) >= 0.95 * CASES
    assert sum(bool(each.least) for each in seen.values()) >= 0.3 * CASES, "the cases need victims"
