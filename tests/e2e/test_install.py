"""Podium as installed by kubectl, in containers with few rights."""

import json

import pytest
from tests.support.e2e.cluster import GANG_NODE, PROCESSES, Nodes, leader
from tests.support.install.scene import GROUPS, NAMESPACE, podium
from tools.devcluster.realnode.nodefiles import SANDBOX_IMAGE

pytestmark = pytest.mark.e2e

_PODIUM = "app.kubernetes.io/part-of=podium"


def test_the_doctor_finds_no_problem(podium_nodes: Nodes) -> None:
    assert podium(podium_nodes.server, "doctor").returncode == 0


def test_two_replicas_of_each_process_run_on_two_nodes(podium_nodes: Nodes) -> None:
    for process in PROCESSES:
        pods = podium_nodes.pods(f"app.kubernetes.io/component={process}")
        assert len({pod["spec"]["nodeName"] for pod in pods} - {GANG_NODE}) == 2, process


@pytest.mark.parametrize("process", ["controller", "scheduler"])
def test_one_replica_leads(podium_nodes: Nodes, process: str) -> None:
    assert leader(podium_nodes, process)


def test_the_api_server_calls_the_webhook_through_its_service(podium_nodes: Nodes) -> None:
    """The configuration names the Service, and kube-proxy leads its address to a pod."""
    spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": "there-is-no-such-class"}
    body = {
        "apiVersion": "scheduling.podium.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "refused"},
        "spec": spec,
    }
    code, answer = podium_nodes.server.request("POST", GROUPS, body)
    assert code in (403, 422), answer
    assert "there-is-no-such-class" in answer["message"]


def test_the_namespace_holds_restricted_pods_only(podium_nodes: Nodes) -> None:
    container = {"name": "main", "image": SANDBOX_IMAGE}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
    body = {"metadata": {"name": "root"}, "spec": {"containers": [container]}}
    code, answer = podium_nodes.server.request("POST", path, body)
    assert (code, 'violates PodSecurity "restricted' in answer["message"]) == (403, True), answer


@pytest.mark.parametrize("process", PROCESSES)
def test_a_container_cannot_write_to_its_root(podium_nodes: Nodes, process: str) -> None:
    program = (
        "import os, sys\ntry: open('/opt/podium/x', 'w')\nexcept OSError as e: print(os.getuid(), e.strerror)"
    )
    answer = podium_nodes.server.kubectl(
        "-n", NAMESPACE, "exec", f"deployment/podium-{process}", "--", "python", "-c", program
    )
    assert answer == "65532 Read-only file system\n"


def test_no_container_was_restarted(podium_nodes: Nodes) -> None:
    restarts = {
        pod["metadata"]["name"]: status["restartCount"]
        for pod in podium_nodes.pods(_PODIUM)
        for status in pod["status"]["containerStatuses"]
    }
    assert len(restarts) == 6
    assert set(restarts.values()) == {0}


def test_a_normal_start_has_no_warning_event(podium_nodes: Nodes) -> None:
    """No probe fails while a container starts. One that ends says that it is not ready."""
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=type=Warning"
    code, answer = podium_nodes.server.request("GET", path)
    assert code == 200, answer
    existing = {pod["metadata"]["name"] for pod in podium_nodes.pods(_PODIUM)}
    warned = [(each["involvedObject"]["name"], each["message"]) for each in answer["items"]]
    assert [(name, message) for name, message in warned if name in existing] == []


def test_a_normal_start_logs_no_warning(podium_nodes: Nodes) -> None:
    for pod in podium_nodes.pods(_PODIUM):
        name = pod["metadata"]["name"]
        lines = podium_nodes.server.kubectl("-n", NAMESPACE, "logs", name).splitlines()
        levels = {json.loads(line)["level"] for line in lines}
        assert levels <= {"info", "debug"}, (name, lines)
