"""The descheduler beside Podium: it knows no groups, so its configuration must leave gangs alone."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.e2e.conftest import Measured
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.gangs import HIGH, LOW, GangSpace
from tests.support.e2e.lives import count_running, deleted, first_bound, lives
from tests.support.e2e.work import PodWatch, Work, workload
from tests.support.install.scene import NAMESPACE
from tests.support.waiting import until
from tools.neighbours.images import DESCHEDULER

from podium.api.groups import GROUP_LABEL

MAINTENANCE = "example.com/maintenance"
_PLUGIN = "RemovePodsViolatingNodeTaints"
_JOBS = "/apis/batch/v1/namespaces/kube-system/jobs"


@contextlib.contextmanager
def maintained(nodes: Nodes, node: str) -> Iterator[None]:
    """Taint a node while the block runs; of its own, no running pod ends."""
    nodes.server.kubectl("taint", "node", node, f"{MAINTENANCE}=yes:NoSchedule")
    try:
        yield
    finally:
        nodes.server.kubectl("taint", "node", node, f"{MAINTENANCE}-")


def deschedule(nodes: Nodes, namespaces: list[str], evictor: dict[str, Any]) -> None:
    """Run one pass over these namespaces with the arguments of the DefaultEvictor, and wait for its end."""
    documents = DESCHEDULER.manifests(nodes.server.program("kubectl"))
    (job,) = (each for each in documents if each["kind"] == "Job")
    (policy,) = (each for each in documents if each["kind"] == "ConfigMap")
    policy["data"] = {"policy.yaml": json.dumps(_policy(namespaces, evictor))}
    kubectl = nodes.server.kubectl
    everything = {"apiVersion": "v1", "kind": "List", "items": documents}
    kubectl("apply", "--server-side", "-f", "-", stdin=everything)
    path = f"{_JOBS}/{job['metadata']['name']}"
    try:
        until(partial(_has_ended, nodes, path), "the descheduler ends")
    finally:
        kubectl("-n", "kube-system", "delete", "job", job["metadata"]["name"])


def _policy(namespaces: list[str], evictor: dict[str, Any]) -> dict[str, Any]:
    arguments = {"includedTaints": [MAINTENANCE], "namespaces": {"include": namespaces}}
    profile = {
        "name": "maintenance",
        "pluginConfig": [{"name": "DefaultEvictor", "args": evictor}, {"name": _PLUGIN, "args": arguments}],
        "plugins": {"deschedule": {"enabled": [_PLUGIN]}},
    }
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


def _has_ended(nodes: Nodes, path: str) -> bool:
    code, found = nodes.server.request("GET", path)
    assert code == 200, found
    assert not found["status"].get("failed"), found["status"]
    return bool(found["status"].get("succeeded"))


pytestmark = pytest.mark.e2e

_NODE = "node-2"
_GANG = "train-jobset"
# It does not end at SIGTERM, and the kubelet kills it after its grace period.
_LONG = Work(lifetime="600s", linger="60s", grace_seconds=4)
_BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@pytest.fixture(scope="module")
def descheduled(jobset_nodes: Nodes) -> Nodes:
    """Return the cluster with JobSet, and the descheduler's image in each node."""
    jobset_nodes.load(DESCHEDULER.archive())
    return jobset_nodes


def test_the_descheduler_evicts_members_one_by_one(
    descheduled: Nodes, space: GangSpace, watch: PodWatch, measured: Measured
) -> None:
    """Of a gang of four that is preempted as a whole, the descheduler evicts the two on one node.

    The other two run on. The Jobs make two pods, which wait, and are bound when the node is free again. The
    descheduler leaves the pods of Podium alone, as they are critical for the cluster.
    """
    space.jobset("train", HIGH, _LONG, workers=3)
    until(lambda: count_running(watch, _GANG) == 4, "train runs")
    assert space.group(_GANG)["disruptionMode"] == {"all": {}}
    before = lives(watch, _GANG)
    there = {uid for uid, life in before.items() if life.node == _NODE}
    assert len(there) == 2
    podium = _podium_pods(descheduled)
    assert _NODE in podium.values()
    with maintained(descheduled, _NODE):
        deschedule(descheduled, [space.name, NAMESPACE], {})
        until(lambda: len(lives(watch, _GANG)) == 6, "the Jobs make two pods")
        assert deleted(watch, _GANG).keys() == there
        assert all(lives(watch, _GANG)[uid].runs for uid in before.keys() - there)
        again = lives(watch, _GANG).keys() - before.keys()
        until(lambda: all(_waits(space, uid) for uid in again), "the two pods wait")
        assert _podium_pods(descheduled) == podium
        free = time.monotonic()
    until(lambda: all(lives(watch, _GANG)[uid].runs for uid in again), "the two pods run")
    found = {uid: lives(watch, _GANG)[uid] for uid in again}
    assert {life.node for life in found.values()} == {_NODE}
    measured(f"bound {first_bound(found) - free:.1f} s after the end of the maintenance")
    assert space.jobset_state("train") == ("", 0)


def _by_label(space: GangSpace) -> dict[str, Any]:
    return {"labelSelector": {"matchExpressions": [{"key": GROUP_LABEL, "operator": "DoesNotExist"}]}}


def _by_priority(space: GangSpace) -> dict[str, Any]:
    return {"priorityThreshold": {"name": HIGH}}


def _by_budget(space: GangSpace) -> dict[str, Any]:
    spec = {"minAvailable": 4, "selector": {"matchLabels": {GROUP_LABEL: _GANG}}}
    space.post(_BUDGETS.format(space.name), {"metadata": {"name": "train"}, "spec": spec})
    return {}


@pytest.mark.parametrize("protection", [_by_label, _by_priority, _by_budget])
def test_a_gang_can_be_kept_from_the_descheduler(
    protection: Callable[[GangSpace], dict[str, Any]], descheduled: Nodes, space: GangSpace, watch: PodWatch
) -> None:
    """The same pass evicts a pod without a group and with a lower priority."""
    space.jobset("train", HIGH, _LONG, workers=3)
    until(lambda: count_running(watch, _GANG) == 4, "train runs")
    _make_lone(space)
    until(
        lambda: [each.phase for each in watch.of("lone")][-1:] == ["Running"], "the pod without a group runs"
    )
    with maintained(descheduled, _NODE):
        deschedule(descheduled, [space.name], protection(space))
        until(lambda: any(each.terminating for each in watch.of("lone")), "the other pod is evicted")
    assert deleted(watch, _GANG) == {}
    assert count_running(watch, _GANG) == 4


def _make_lone(space: GangSpace) -> None:
    """Make a Job without a group; the descheduler never evicts a pod without an owner."""
    place = {"nodeSelector": {"kubernetes.io/hostname": _NODE}, "priorityClassName": LOW}
    template = {"spec": {**workload(_LONG, {"cpu": "1m"}), **place}}
    space.post(
        f"/apis/batch/v1/namespaces/{space.name}/jobs",
        {"metadata": {"name": "lone"}, "spec": {"template": template}},
    )


def _podium_pods(nodes: Nodes) -> dict[str, str]:
    """Return the node of each of Podium's pods."""
    pods = nodes.pods("app.kubernetes.io/part-of=podium")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}


def _waits(space: GangSpace, uid: str) -> bool:
    (pod,) = (each for each in space.listed() if each["metadata"]["uid"] == uid)
    scheduled = [
        each["status"] for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"
    ]
    return scheduled == ["False"]
