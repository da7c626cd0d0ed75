"""A fixture for small clusters: the threshold of bulk moves is 0, so a few pods are moved in bulk."""

from collections.abc import Iterator

import pytest

from podium.planner import overlay


@pytest.fixture(autouse=True, scope="session")
def bulk_moves_of_any_size() -> Iterator[None]:
    """Set the threshold of bulk moves to 0; by default a few pods are moved one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlay, "_FEW", 0)
        patch.setattr(overlay, "_SOME", 0)
        yield
