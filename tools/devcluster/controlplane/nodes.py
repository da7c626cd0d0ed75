"""The fake nodes of a local cluster: the size of a common eight-accelerator training machine."""

from typing import Any

# kwok does not compute the status of such a node; without a kubelet the capacity must be set at creation.
_ALLOCATABLE = {
    "cpu": "96",
    "memory": "768Gi",
    "ephemeral-storage": "1Ti",
    "pods": "110",
    "nvidia.com/gpu": "8",
}
# Fields that the API requires.
_NOT_SET = ("bootID", "kernelVersion", "kubeProxyVersion", "machineID", "osImage", "systemUUID")


def node_name(index: int) -> str:
    """Return the name of node number `index` (from 0), fake or real."""
    return f"node-{index}"


def node(index: int, *, version: str) -> dict[str, Any]:
    """Return node number `index` (from 0) as it is created; `version` is the kubelet's, e.g. "1.37.0"."""
    name = node_name(index)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
        },
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "allocatable": _ALLOCATABLE,
            "capacity": _ALLOCATABLE,
            "nodeInfo": {
                "architecture": "amd64",
                "containerRuntimeVersion": "kwok://",
                "kubeletVersion": f"v{version}",
                "operatingSystem": "linux",
                **dict.fromkeys(_NOT_SET, ""),
            },
        },
    }
