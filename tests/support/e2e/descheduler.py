"""The descheduler, run once with the Job of its module: it evicts pods that do not tolerate a taint."""

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.support.e2e.cluster import Nodes
from tests.support.waiting import until
from tools.neighbours.images import DESCHEDULER

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
