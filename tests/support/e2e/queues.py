"""Kueue's queue over the devices of a cluster, and what Kueue decides about a workload."""

from typing import Any

from tests.support.e2e.cluster import Nodes
from tests.support.e2e.gangs import DEVICE, DEVICES, GangSpace, create, plural

_KUEUE = "kueue.x-k8s.io/v1beta2"
_NAME = "gangs"
# A workload with this label is admitted by the queue.
QUEUED = {"kueue.x-k8s.io/queue-name": _NAME}


def create_cluster_queue(nodes: Nodes, machines: int) -> None:
    """Create a queue whose quota is the devices of some nodes; workloads of lower priority give way."""
    quotas = {"cpu": "10", DEVICE: str(machines * DEVICES)}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": _NAME, "resources": resources}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    for kind, values in (("ResourceFlavor", {}), ("ClusterQueue", spec)):
        body = {"apiVersion": _KUEUE, "kind": kind, "metadata": {"name": _NAME}, "spec": values}
        create(nodes.server, f"/apis/{_KUEUE}/{plural(kind)}", body)


def create_local_queue(space: GangSpace) -> None:
    """Create the queue of a namespace."""
    space.make(_KUEUE, "LocalQueue", _NAME, {"clusterQueue": _NAME})


def conditions(space: GangSpace, owner: str) -> dict[str, str]:
    """Return the conditions of a JobSet's Workload, by type; empty if there is none."""
    path = f"/apis/{_KUEUE}/namespaces/{space.name}/workloads"
    code, found = space.server.request("GET", path)
    assert code == 200, found
    owned = [each for each in found["items"] if _owner(each) == owner]
    listed = [condition for each in owned for condition in each.get("status", {}).get("conditions", ())]
    return {each["type"]: each["status"] for each in listed}


def _owner(workload: dict[str, Any]) -> str:
    (reference,) = workload["metadata"]["ownerReferences"]
    return str(reference["name"])
