"""Controllers of other projects in a cluster of real nodes, as pods with the projects' own manifests."""

from functools import partial
from typing import Any

from tests.support.e2e.cluster import Nodes, ready
from tests.support.waiting import until
from tools.neighbours.images import Neighbour

# A controller makes its certificates first, and then a kubelet brings them into the pod, once a minute.
_READY_SECONDS = 240.0


def add(nodes: Nodes, neighbour: Neighbour) -> None:
    """Install a neighbour with its project's manifests, and wait until it is available."""
    install(nodes, neighbour, neighbour.manifests(nodes.server.program("kubectl")))


def install(nodes: Nodes, neighbour: Neighbour, documents: list[dict[str, Any]]) -> None:
    """Install a neighbour with these manifests, and wait until it is available."""
    nodes.load(neighbour.archive())
    everything = {"apiVersion": "v1", "kind": "List", "items": documents}
    nodes.server.kubectl("apply", "--server-side", "-f", "-", stdin=everything)
    for each in documents:
        if each["kind"] == "Deployment":
            name, namespace = each["metadata"]["name"], each["metadata"]["namespace"]
            until(partial(ready, nodes, name, namespace), f"{neighbour.name} is available", _READY_SECONDS)
