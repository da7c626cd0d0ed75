"""The nodes that kube-scheduler chooses for an install's replicas, with one, two or three usable nodes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import RELEASES

pytestmark = pytest.mark.server

_KINDS = ("Namespace", "ServiceAccount", "ConfigMap", "Secret", "Deployment")
_DEPLOYMENTS = "/apis/apps/v1/namespaces/podium-system/deployments"
_PODS = "/api/v1/namespaces/podium-system/pods"
_CORDONED = "node.kubernetes.io/unschedulable"
_NAMES = {"podium-webhook", "podium-controller", "podium-scheduler"}


@pytest.fixture(scope="module", params=in_turn(__name__))
def cluster(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a cluster with controllers, kube-scheduler and nodes, without Podium."""
    with exclusive(RELEASES[request.param], controllers=True) as server:
        yield server


def _items(cluster: Server, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.request("GET", path)[1]["items"]
    return found


def _usable(cluster: Server, count: int) -> set[str]:
    """Cordon all but this many nodes, and wait for their taints; return the names of the other nodes."""
    names = sorted(each["metadata"]["name"] for each in _items(cluster, "/api/v1/nodes"))
    for index, name in enumerate(names):
        cluster.kubectl("uncordon" if index < count else "cordon", name)

    def tainted() -> set[str]:
        nodes = _items(cluster, "/api/v1/nodes")
        return {
            each["metadata"]["name"]
            for each in nodes
            if any(taint["key"] == _CORDONED for taint in each["spec"].get("taints", ()))
        }

    until(lambda: tainted() == set(names[count:]), "the other nodes are tainted")
    return set(names[:count])


def _rolled_out(cluster: Server) -> bool:
    """Return whether each Deployment's change was observed, and it has exactly two new pods."""

    def done(each: dict[str, Any]) -> bool:
        status = each.get("status", {})
        counts = [status.get(f"{name}eplicas") for name in ("r", "updatedR", "availableR")]
        seen = status.get("observedGeneration") == each["metadata"]["generation"]
        return bool(seen and counts == [2, 2, 2])

    return all(map(done, _items(cluster, _DEPLOYMENTS)))


def _nodes(cluster: Server) -> dict[str, list[str]]:
    """Return the nodes of each process' pods."""
    found: dict[str, list[str]] = {name: [] for name in _NAMES}
    for pod in _items(cluster, _PODS):
        if "deletionTimestamp" not in pod["metadata"]:
            found[pod["spec"]["serviceAccountName"]].append(pod["spec"]["nodeName"])
    return found


def _roll(cluster: Server, step: str) -> None:
    """Restart each Deployment; `kubectl rollout restart` refuses a second restart within a second."""
    template = {"metadata": {"annotations": {"step": step}}}
    patch = f"--patch={json.dumps({'spec': {'template': template}})}"
    for name in ("webhook", "controller", "scheduler"):
        cluster.kubectl(
            "--namespace=podium-system", "patch", "deployment", f"podium-{name}", "--type=merge", patch
        )


def test_two_replicas_share_a_node_only_where_there_is_one(cluster: Server) -> None:
    """From one node to two and back, each rollout ends with both replicas available."""
    steps = [_usable(cluster, 1)]
    documents = rendered("scheduler", *_KINDS)
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(documents))
    for count in (2, 1, 3):
        until(lambda: _rolled_out(cluster), "the processes run")
        for name, nodes in _nodes(cluster).items():
            assert len(nodes) == 2, name
            assert len(set(nodes)) == min(2, len(steps[-1])), name
            assert set(nodes) <= steps[-1], name
        steps.append(_usable(cluster, count))
        _roll(cluster, str(len(steps)))
    until(lambda: _rolled_out(cluster), "the processes run")
    assert all(len(set(nodes)) == 2 for nodes in _nodes(cluster).values())
