"""`podium uninstall` leaves the cluster as it was."""

import pytest
from tests.e2e.conftest import Installed
from tests.support.e2e.cluster import wait_removed
from tests.support.install.scene import podium, settled

pytestmark = pytest.mark.e2e

# Of the tests before: namespaces that are on their way out, classes, and the nodes' own objects.
_OTHERS = ("/api/v1/namespaces ", "priorityclasses", " e2e-", " test-", "/nodes")


def test_nothing_is_left(installed: Installed) -> None:
    server = installed.nodes.server
    podium(server, "uninstall", "--delete-groups", "--yes")
    wait_removed(installed.nodes)
    after = settled(server)
    left = {path for path in after if path not in installed.before}
    assert {path for path in left if not any(other in path for other in _OTHERS)} == set()
    assert not [path for path in left if "podium" in path]
