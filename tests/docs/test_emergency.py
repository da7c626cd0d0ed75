"""The commands of docs/emergency.md unblock a real cluster whose webhooks are down and fail closed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.docs.pagerun import PageRun
from tests.support.install.scene import GROUPS, apply, patch, stored
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tests.support.webhooks import deployed
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.groups import FINALIZER
from podium.cli.commands.scheduler import source
from podium.ops.doctor.facts import MUTATING, VALIDATING
from podium.planner.settings import PreemptionMode

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

_NOBODY = "https://127.0.0.1:1/mutate"
_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/podium-system/deployments"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest.fixture
def cluster() -> Iterator[Server]:
    """Yield a cluster with controllers for one test."""
    with exclusive(NEWEST, controllers=True) as server:
        yield server


def _group(server: Server, name: str, class_name: str = "", **metadata: Any) -> tuple[int, str]:
    """Try to create a group; return whether it was accepted."""
    body = {
        "apiVersion": "scheduling.podium.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, **metadata},
        "spec": {
            "schedulingPolicy": {"basic": {}},
            **({"priorityClassName": class_name} if class_name else {}),
        },
    }
    code, answer = server.request("POST", GROUPS, body)
    return code, str(answer.get("message", ""))


def _member(server: Server, name: str) -> tuple[int, str]:
    """Try to create a pod of a group; return whether it was accepted."""
    metadata = {"name": name, "labels": {"scheduling.podium.dev/pod-group": "train"}}
    spec = {"containers": [{"name": "main", "image": "none"}]}
    code, answer = server.request("POST", _PODS, {"metadata": metadata, "spec": spec})
    return code, str(answer.get("message", ""))


def _replicas(server: Server) -> set[int]:
    return {each["spec"]["replicas"] for each in stored(server, _DEPLOYMENTS)["items"]}


def _closed(server: Server) -> None:
    """Point API servers at an address without a server, and make pods fail closed too."""
    for path in (f"{MUTATING}/podium", f"{VALIDATING}/podium"):
        webhooks = stored(server, path)["webhooks"]
        for each in webhooks:
            each["failurePolicy"] = "Fail"
            each["clientConfig"] = {"url": _NOBODY, "caBundle": each["clientConfig"]["caBundle"]}
        patch(server, path, {"webhooks": webhooks})
    until(lambda: "failed calling webhook" in _member(server, "probe")[1], "pods are refused")
    assert "failed calling webhook" in _group(server, "probe")[1]


def _open(server: Server, number: int) -> None:
    """Wait until both are accepted, so the API server has seen the change."""
    until(lambda: _member(server, f"pod-{number}")[0] == 201, "pods are taken")
    until(lambda: _group(server, f"group-{number}")[0] == 201, "groups are taken")


def _judged(server: Server) -> bool:
    return "no PriorityClass" in _group(server, "wrong", "missing")[1]


def test_emergency(page_run: PageRun, cluster: Server, tmp_path: Path) -> None:
    """Each command resolves its own emergency and changes nothing else."""
    page_run.at(cluster)
    apply(cluster, rendered("scheduler"))
    page_run.given("kubectl apply -f manifests/policies/class-use.yaml")
    with deployed.installed(cluster, tmp_path / "first", deployment=True) as webhook:
        until(lambda: _judged(cluster), "a rule holds")
        page_run.next()
        assert _replicas(cluster) == {0}
        assert webhook.stop() == 0
    _open(cluster, 1)
    # The processes were killed instead: nobody answers.
    page_run.given("kubectl -n podium-system scale deployment --all --replicas=2")
    with deployed.installed(cluster, tmp_path / "second", deployment=True):
        pass
    _closed(cluster)
    page_run.next()
    _open(cluster, 2)
    assert {each["metadata"]["name"] for each in stored(cluster, _POLICIES)["items"]} == {
        each["metadata"]["name"]
        for each in rendered("scheduler", "ValidatingAdmissionPolicyBinding")
        if "app.kubernetes.io/part-of" not in each["metadata"].get("labels", {})
    }

    # In v1beta1 groups can be read without the processes; then they return, and the rules apply again.
    page_run.until("kubectl -n podium-system scale deployment podium-webhook")
    assert _replicas(cluster) == {2}
    with deployed.installed(cluster, tmp_path / "third", deployment=True) as webhook:
        until(lambda: _judged(cluster), "a rule holds")
        # One process alone.
        page_run.next()
        assert webhook.stop() == 0
    _open(cluster, 3)
    page_run.until("kubectl -n podium-system scale deployment podium-controller")
    assert not stored(cluster, MUTATING)["items"]
    assert _group(cluster, "train", finalizers=[FINALIZER])[0] == 201
    assert cluster.request("DELETE", f"{GROUPS}/train")[0] == 200
    page_run.until("kubectl -n podium-system get configmap")
    until(lambda: cluster.request("GET", f"{GROUPS}/train")[0] == 404, "the group is let go")
    page_run.next()
    file = tmp_path / "scheduler.yaml"
    made = stored(cluster, "/api/v1/namespaces/podium-system/configmaps/podium-scheduler")
    file.write_text(made["data"]["scheduler.yaml"], "utf-8")
    assert source(str(file)).read().mode is PreemptionMode.OFF
    page_run.rest()
    assert stored(cluster, f"{_DEPLOYMENTS}/podium-scheduler")["spec"]["replicas"] == 0
