"""A cluster of real nodes without Podium: its nodes run containers, and its network reaches them."""

import pytest
from tests.support.e2e.cluster import Nodes
from tests.support.waiting import until
from tools.devcluster.realnode.nodefiles import SANDBOX_IMAGE

pytestmark = pytest.mark.e2e

_WEB = {"app": "web"}


def test_pods_answer_through_a_service_from_every_node(nodes: Nodes) -> None:
    server = nodes.server
    namespace = server.new_namespace()
    container = {
        "name": "web",
        "image": SANDBOX_IMAGE,
        "imagePullPolicy": "Never",
        "args": ["-listen=:8080"],
        "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": _WEB},
    }
    template = {
        "metadata": {"labels": _WEB},
        "spec": {"containers": [container], "topologySpreadConstraints": [spread]},
    }
    deployment = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": _WEB}, "template": template},
    }
    service = {
        "metadata": {"name": "web"},
        "spec": {"selector": _WEB, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert server.request("POST", path, deployment)[0] == 201
    code, made = server.request("POST", f"/api/v1/namespaces/{namespace}/services", service)
    assert code == 201, made
    until(
        lambda: server.request("GET", f"{path}/web")[1]["status"].get("availableReplicas") == 3,
        "a pod on every node",
    )
    pods = nodes.pods("app=web", namespace)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1", "node-2"}
    names = {pod["metadata"]["name"] for pod in pods}
    address = f"http://{made['spec']['clusterIP']}/"
    for node in ("node-0", "node-1", "node-2"):
        answers: set[str] = set()

        def all_answer(node: str = node, answers: set[str] = answers) -> bool:
            # kube-proxy follows the endpoints within a second.
            answers.add(nodes.on(node, "bash", "-c", _get(address)).strip())
            return answers >= names

        until(all_answer, f"every pod answers to {node}")
    assert server.kubectl("-n", namespace, "logs", pods[0]["metadata"]["name"]).endswith("started\n")
    server.kubectl("delete", "namespace", namespace, "--wait=false")


def _get(address: str) -> str:
    """Return a command that prints the body of an answer; nodes have no client of HTTP."""
    host = address.removeprefix("http://").rstrip("/")
    return f"exec 3<>/dev/tcp/{host}/80; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; tail -n 1 <&3"
