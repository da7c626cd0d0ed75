"""A release of the chart on a real API server: install, upgrade, rollback and uninstall by Helm itself."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.integration.webhooks.test_lifecycle_servers import registered
from tests.support.manifests.charts import helm
from tests.support.rights import Account
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tests.support.webhooks.deployed import OWN, by_service, convert_locally, report_available, scale
from tools.devcluster.controlplane.releases import NEWEST
from tools.helm.program import CHART, run

pytestmark = pytest.mark.server

_NAMESPACE = "podium-system"
_MERGE = "application/merge-patch+json"

# Values of strict clusters. The API server refuses a field that it does not know.
_CHANGED = {
    "scheduler": {"enabled": True},
    "webhook": {
        "replicas": 3,
        "hostNetwork": True,
        "port": 10250,
        "metricsPort": 10251,
        "timeoutSeconds": 10,
        "extraArgs": ["--log-format=text"],
        "service": {"ipFamilyPolicy": "SingleStack", "annotations": {"mesh": "off"}},
    },
    "logLevel": "debug",
    "livenessProbe": {"periodSeconds": 20},
    "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": 1000},
    "strategy": {"type": "Recreate", "rollingUpdate": None},
    "volumes": [{"name": "ca", "configMap": {"name": "ca", "optional": True}}],
    "volumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/ca", "readOnly": True}],
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": _NAMESPACE}}
    ],
    "nameOverride": "gangs",
}


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
        until(lambda: registered(server) == ["Fail"] * 2, "the registration is closed")
        closed = _webhooks(server)
        values = tmp_path / "values.yaml"
        values.write_text(json.dumps(_CHANGED), encoding="utf-8")
        helm(server, tmp_path, "upgrade", "podium", str(CHART), f"--values={values}")
        assert replicas() == 3
        assert _get(server, "deployment", "podium-scheduler", *in_namespace)["spec"]["replicas"] == 2
        helm(server, tmp_path, "rollback", "podium", "1")
        assert replicas() == 2
        assert _webhooks(server) == closed
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


def test_helm_test_fails_without_a_webhook(server: Server, tmp_path: Path) -> None:
    """Helm creates the pod, which PodSecurity `restricted` admits. Its command runs here with its account."""
    helm(server, tmp_path, "install", "podium", str(CHART))
    pod = f"/api/v1/namespaces/{_NAMESPACE}/pods/podium-test"
    program = Path(sys.executable).with_name("podium")
    asked = (
        "test",
        "podium",
        "--timeout=60s",
        f"--namespace={_NAMESPACE}",
        f"--kubeconfig={server.kubeconfig}",
    )

    def phase() -> str:
        code, found = server.request("GET", pod)
        return str(found["status"]["phase"]) if code == 200 else "absent"

    def helm_test() -> tuple[int, str]:
        """Return Helm's exit code, and the level of the check that creates a group."""
        with ThreadPoolExecutor() as executor:
            test = executor.submit(run, *asked, home=str(tmp_path))
            until(lambda: phase() == "Pending", "the pod exists")
            (container,) = server.request("GET", pod)[1]["spec"]["containers"]
            kubeconfig = Account(server, _NAMESPACE, "podium-test").kubeconfig(tmp_path)
            line = [program, *container["args"], f"--kubeconfig={kubeconfig}", "--output=json"]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            (trial,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "trial"]
            status = {"phase": "Failed" if done.returncode else "Succeeded"}
            code, answer = server.request("PATCH", f"{pod}/status", {"status": status}, _MERGE)
            assert code == 200, answer
            return test.result().returncode, trial["level"]

    assert helm_test() == (1, "problem")
    with by_service(server, tmp_path / "webhook", f"--cert-secret={OWN}") as webhook:
        report_available(server, 1)
        until(lambda: registered(server) == ["Fail"] * 2, "the registration is closed")
        convert_locally(server, webhook.url)
        assert helm_test() == (0, "ok")
    # Helm has removed the pod and its rights.
    assert server.request("GET", pod)[0] == 404
    assert server.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/podium-test")[0] == 404
    helm(server, tmp_path, "uninstall", "podium")
