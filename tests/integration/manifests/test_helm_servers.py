"""A release of the chart on a real API server: install, upgrade, rollback and uninstall by Helm itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.manifests.charts import helm
from tests.support.servers import Server, exclusive
from tests.support.webhooks.deployed import OWN, by_service, report_available, scale
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


def _webhooks(server: Server) -> list[tuple[int, list[str]]]:
    """Return the generation and the webhooks of both configurations."""
    found = [_get(server, f"{kind}webhookconfiguration", "podium") for kind in ("mutating", "validating")]
    return [
        (each["metadata"]["generation"], [webhook["name"] for webhook in each.get("webhooks", ())])
        for each in found
    ]


def test_a_release_is_installed_changed_taken_back_and_removed(server: Server, tmp_path: Path) -> None:
    """The webhook's registration stays throughout, and custom resources stay after an uninstall."""
    helm(server, tmp_path, "install", "podium", str(CHART))
    assert [names for _, names in _webhooks(server)] == [[], []]
    in_namespace = ("--namespace", _NAMESPACE)

    def replicas() -> int:
        return int(_get(server, "deployment", "podium-webhook", *in_namespace)["spec"]["replicas"])

    secret = f"--cert-secret={OWN}"
    with by_service(server, tmp_path / "webhook", secret) as webhook:
        report_available(server, 1)
        webhook.until(lambda: '"closed"' in webhook.log, "the registration is closed")
        registered = _webhooks(server)
        changed = ("--set", "scheduler.enabled=true", "--set", "webhook.replicas=3")
        helm(server, tmp_path, "upgrade", "podium", str(CHART), *changed)
        assert replicas() == 3
        assert _get(server, "deployment", "podium-scheduler", *in_namespace)["spec"]["replicas"] == 2
        helm(server, tmp_path, "rollback", "podium", "1")
        assert replicas() == 2
        assert _webhooks(server) == registered
        assert _get(server, "secret", "podium-webhook", *in_namespace)["data"]
        deployments = _get(server, "deployments", *in_namespace)["items"]
        assert {each["metadata"]["name"] for each in deployments} == {"podium-webhook", "podium-controller"}
        scale(server, 0)
        assert webhook.stop() == 0
    assert [names for _, names in _webhooks(server)] == [[], []]
    # Helm applies on the server side: it meets a conflict unless the replicas are those of the values.
    scale(server, 2)
    helm(server, tmp_path, "upgrade", "podium", str(CHART))
    helm(server, tmp_path, "uninstall", "podium")
    assert not _get(server, "deployments", *in_namespace)["items"]
    assert not _get(server, "validatingwebhookconfigurations")["items"]
    crds = {each["spec"]["names"]["kind"] for each in _get(server, "customresourcedefinitions")["items"]}
    assert crds == {"CompositePodGroup", "PodGroup", "Workload", "PreemptionRecord"}
