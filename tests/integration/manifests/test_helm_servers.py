"""A release of the chart on a real API server: install, upgrade, rollback and uninstall by Helm itself."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.manifests.charts import helm
from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.releases import NEWEST
from tools.helm.program import CHART

pytestmark = pytest.mark.server

_NAMESPACE = "podium-system"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a server with the namespace, labelled as docs/install.md says."""
    with exclusive(NEWEST) as made:
        made.kubectl("create", "namespace", _NAMESPACE)
        made.kubectl("label", "namespace", _NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        yield made


def _get(server: Server, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(server.kubectl("get", *arguments, "--output=json"))
    return found


def test_a_release_is_installed_changed_taken_back_and_removed(server: Server, tmp_path: Path) -> None:
    """The fields that the webhook writes stay throughout, and custom resources stay after an uninstall."""
    helm(server, tmp_path, "install", "podium", str(CHART))
    bundle = base64.b64encode(b"the webhook's own").decode()
    in_namespace = ("--namespace", _NAMESPACE)
    server.kubectl(
        "patch", "secret", "podium-webhook", *in_namespace, "-p", json.dumps({"data": {"ca": bundle}})
    )
    patch = json.dumps([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}])
    server.kubectl("patch", "validatingwebhookconfiguration", "podium", "--type=json", "-p", patch)

    def kept() -> bool:
        registered = _get(server, "validatingwebhookconfiguration", "podium")["webhooks"][0]["clientConfig"]
        secret = _get(server, "secret", "podium-webhook", *in_namespace)
        return bool(registered.get("caBundle") == bundle and secret["data"] == {"ca": bundle})

    def replicas() -> int:
        return int(_get(server, "deployment", "podium-webhook", *in_namespace)["spec"]["replicas"])

    changed = ("--set", "scheduler.enabled=true", "--set", "webhook.replicas=3")
    helm(server, tmp_path, "upgrade", "podium", str(CHART), *changed)
    assert (kept(), replicas()) == (True, 3)
    assert _get(server, "deployment", "podium-scheduler", *in_namespace)["spec"]["replicas"] == 2
    helm(server, tmp_path, "rollback", "podium", "1")
    assert (kept(), replicas()) == (True, 2)
    deployments = _get(server, "deployments", *in_namespace)["items"]
    assert {each["metadata"]["name"] for each in deployments} == {"podium-webhook", "podium-controller"}
    helm(server, tmp_path, "uninstall", "podium")
    assert not _get(server, "deployments", *in_namespace)["items"]
    assert not _get(server, "validatingwebhookconfigurations")["items"]
    crds = {each["spec"]["names"]["kind"] for each in _get(server, "customresourcedefinitions")["items"]}
    assert crds == {"CompositePodGroup", "PodGroup", "Workload", "PreemptionRecord"}
