"""The warning of a scheduler that starts where other schedulers may allocate the same devices."""

import pytest

from podium.schedulerplugin.live.process import shared_devices


@pytest.mark.parametrize(
    ("slices", "reserved", "warns"),
    [
        pytest.param(3, "", True, id="all nodes"),
        pytest.param(3, "scheduling.podium.dev/reserved", False, id="reserved nodes"),
        pytest.param(0, "", False, id="no devices"),
        pytest.param(0, "scheduling.podium.dev/reserved", False, id="neither"),
    ],
)
def test_shared_devices_are_a_warning(slices: int, reserved: str, *, warns: bool) -> None:
    """The log writes an event with an error as a warning."""
    fields = shared_devices(slices, reserved)
    assert ("error" in fields) == warns
    assert fields.get("slices", 0) == (slices if warns else 0)
