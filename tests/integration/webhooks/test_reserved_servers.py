"""The toleration of reserved nodes on real API servers is added where it is missing, and only there."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.connection.cluster import CONTAINER
from tests.support.servers import Server, exclusive, in_turn
from tests.support.webhooks.running import running
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER
from podium.api.groups import RESERVED
from podium.rules.podiumchecks import TOLERATION

pytestmark = pytest.mark.server

Tolerations = list[dict[str, Any]]

OTHER = {"key": "team", "operator": "Exists", "effect": "NoSchedule"}
VALUE = {"key": RESERVED, "operator": "Equal", "value": "yes", "effect": "NoSchedule"}

# By scheduler, namespace and tolerations of a new pod: the added tolerations.
CASES: dict[str, tuple[str, str, Tolerations, Tolerations]] = {
    "none": (PODIUM_SCHEDULER, "default", [], [TOLERATION]),
    "another": (PODIUM_SCHEDULER, "default", [OTHER], [TOLERATION]),
    "of one value": (PODIUM_SCHEDULER, "default", [VALUE], [TOLERATION]),
    "the same": (PODIUM_SCHEDULER, "default", [{**TOLERATION}], []),
    "of any effect": (PODIUM_SCHEDULER, "default", [{"key": RESERVED, "operator": "Exists"}], []),
    "of any taint": (PODIUM_SCHEDULER, "default", [{"operator": "Exists"}], []),
    "another scheduler": (DEFAULT_SCHEDULER, "default", [], []),
    "the system's namespace": (PODIUM_SCHEDULER, "kube-system", [], []),
}


@pytest.fixture(scope="module", params=in_turn(__name__))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server that calls a webhook with the default policy."""
    with exclusive(RELEASES[request.param]) as made, running(made, tmp_path_factory.mktemp("webhook")):
        yield made


@pytest.mark.parametrize(("scheduler", "namespace", "tolerations", "added"), CASES.values(), ids=CASES)
def test_a_new_pod(
    server: Server, scheduler: str, namespace: str, tolerations: Tolerations, added: Tolerations
) -> None:
    """The toleration is added to those that the API server adds itself (NoExecute)."""
    body = {
        "metadata": {"generateName": "p-"},
        "spec": {"schedulerName": scheduler, "containers": [CONTAINER], "tolerations": tolerations},
    }
    code, made = server.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    assert code == 201, made
    found = [each for each in made["spec"].get("tolerations", ()) if each.get("effect") != "NoExecute"]
    assert found == [*tolerations, *added]
