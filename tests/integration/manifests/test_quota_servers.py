"""An API server that limits system-cluster-critical to namespaces with a quota for it, as GKE's does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.connection.cluster import CONTAINER
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import RELEASES

pytestmark = pytest.mark.server

_LIMITED = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "ResourceQuota",
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "ResourceQuotaConfiguration",
                "limitedResources": [
                    {
                        "resource": "pods",
                        "matchScopes": [
                            {
                                "scopeName": "PriorityClass",
                                "operator": "In",
                                "values": ["system-node-critical", "system-cluster-critical"],
                            }
                        ],
                    }
                ],
            },
        }
    ],
}
_KINDS = ("Namespace", "ResourceQuota", "ServiceAccount", "ConfigMap", "Secret", "Deployment")


@pytest.fixture(scope="module", params=in_turn(__name__))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a cluster whose API server limits both classes."""
    file = tmp_path_factory.mktemp("admission") / "admission.json"
    file.write_text(json.dumps(_LIMITED), encoding="utf-8")
    argument = f"--admission-control-config-file={file}"
    with exclusive(RELEASES[request.param], controllers=True, apiserver=(argument,)) as server:
        yield server


def test_the_install_has_the_quota_that_its_pods_need(cluster: Server) -> None:
    """Without a quota such a pod is refused; the processes of an install run."""
    spec = {"priorityClassName": "system-cluster-critical", "containers": [CONTAINER]}
    body = {"metadata": {"generateName": "critical-"}, "spec": spec}
    code, answer = cluster.request("POST", "/api/v1/namespaces/default/pods", body)
    # The API server reports it as a failure of its own: 500.
    assert code >= 400, answer
    assert "insufficient quota to match these scopes" in answer["message"]
    documents = rendered("scheduler", *_KINDS)
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(documents))
    path = "/apis/apps/v1/namespaces/podium-system/deployments"

    def available() -> list[int]:
        found: list[dict[str, Any]] = cluster.request("GET", path)[1]["items"]
        return [each.get("status", {}).get("availableReplicas", 0) for each in found]

    until(lambda: available() == [2, 2, 2], "two replicas of each process are available")
