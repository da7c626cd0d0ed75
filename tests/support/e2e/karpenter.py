"""Karpenter with its kwok provider: it adds nodes that kwok simulates, reserved for podium-scheduler.

No container runs on them. A pod that is bound there runs until it is deleted.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import yaml
from tests.support.e2e import neighbours
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.gangs import create
from tests.support.e2e.work import Space, Work
from tests.support.install.scene import patch, stored
from tests.support.scheduling.kubelet import kubelet
from tests.support.waiting import until
from tools.neighbours.images import KARPENTER

from podium.api.groups import RESERVED

# The provider creates nodes with this label.
_SIMULATED = "kwok.x-k8s.io/node"
_NAME = "gangs"
_POOLS = "/apis/karpenter.sh/v1/nodepools"
_CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_DEFINITION = "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml"
# A node has room for two pods of a gang.
_PROCESSORS, _EACH = 4, "1500m"


def add(nodes: Nodes) -> None:
    """Install Karpenter, and a pool of reserved nodes that may have none yet."""
    definition = KARPENTER.tools.source(KARPENTER.module) / _DEFINITION
    documents = KARPENTER.manifests(nodes.server.program("kubectl"))
    documents.append(yaml.safe_load(definition.read_text(encoding="utf-8")))
    neighbours.install(nodes, KARPENTER, documents)
    for path, kind, spec in ((_CLASSES, "KWOKNodeClass", {}), (_POOLS, "NodePool", _pool())):
        version = path.removeprefix("/apis/").rpartition("/")[0]
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": _NAME}, "spec": spec}
        create(nodes.server, path, body)


@contextlib.contextmanager
def pool(nodes: Nodes, space: Space, most: int) -> Iterator[None]:
    """Let Karpenter add so many nodes while the block runs; its end removes them and the namespace's pods."""
    limit(nodes, most)
    with kubelet(nodes.server, label=_SIMULATED):
        try:
            yield
        finally:
            limit(nodes, 0)
            delete_pods(space)
            nodes.server.kubectl("delete", "nodeclaims", "--all", "--wait=false")
            until(lambda: names(nodes) == set(), "Karpenter removes its nodes")


def names(nodes: Nodes) -> set[str]:
    """Return the names of Karpenter's nodes."""
    found = stored(nodes.server, f"/api/v1/nodes?labelSelector={_SIMULATED}")
    return {each["metadata"]["name"] for each in found["items"]}


def make_gang(space: Space, name: str, class_name: str, pods: int) -> None:
    """Make a gang of pods for Karpenter's nodes, each of which has room for two."""
    space.gang(name, pods, class_name)
    for index in range(pods):
        space.pod(
            f"{name}-{index}",
            Work(),
            {"cpu": _EACH},
            priorityClassName=class_name,
            schedulingGroup={"podGroupName": name},
            nodeSelector={RESERVED: "yes"},
        )


def delete_pods(space: Space) -> None:
    """Delete all pods of a namespace."""
    space.server.kubectl("-n", space.name, "delete", "pods", "--all", "--wait=false")


def limit(nodes: Nodes, most: int) -> None:
    """Let Karpenter have so many nodes; more than that stay."""
    patch(nodes.server, f"{_POOLS}/{_NAME}", {"spec": {"limits": {"cpu": str(most * _PROCESSORS)}}})


def _pool() -> dict[str, Any]:
    """Return a pool of nodes of one size, with the label and the taint of reserved nodes."""
    requirements = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.kwok.sh/instance-cpu": str(_PROCESSORS),
    }
    spec = {
        "taints": [{"key": RESERVED, "value": "yes", "effect": "NoSchedule"}],
        "requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()
        ],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": _NAME},
        "expireAfter": "Never",
    }
    return {
        "template": {"metadata": {"labels": {RESERVED: "yes"}}, "spec": spec},
        "limits": {"cpu": "0"},
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "1s",
            "budgets": [{"nodes": "100%"}],
        },
    }
