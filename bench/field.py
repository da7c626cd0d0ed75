"""Nodes, pods and groups on a real API server, in the numbers of scheduler benchmarks.

A pod has no grace period (terminationGracePeriodSeconds 0), and no kubelet or controller runs. So a pod that
a scheduler deletes is gone at once, and every change is the scheduler's.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from tests.support.servers import Server
from tools.devcluster.controlplane.client import Client

from podium.errors import PodiumError

API = "scheduling.k8s.io/v1beta1"
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LOW, HIGH = "bench-low", "bench-high"
RACK = "example.com/rack"
_WRITERS = 8


class Field:
    """An API server with nodes of 4 cpus, two classes and a namespace; `nodes` and `classes` as stored."""

    def __init__(self, server: Server, nodes: int, rack: int = 0) -> None:
        """`rack` is the number of nodes in a rack, 0 without racks."""
        self._server = server
        made(server.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
        classes = [{"metadata": {"name": name}, "value": value} for name, value in ((LOW, 1), (HIGH, 1_000))]
        self.classes = self.make("/apis/scheduling.k8s.io/v1/priorityclasses", classes)
        room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
        documents: list[Any] = []
        for index in range(nodes):
            labels = {"kubernetes.io/hostname": f"node-{index}"}
            if rack:
                labels[RACK] = f"rack-{index // rack}"
            status = {"capacity": room, "allocatable": room}
            documents.append({"metadata": {"name": f"node-{index}", "labels": labels}, "status": status})
        self.nodes = self.make("/api/v1/nodes", documents)

    def make(self, path: str, documents: Iterable[Any]) -> list[Any]:
        """Create objects; return them as stored, in any order."""
        return self._all(lambda client, document: made(client.request("POST", path, document)), documents)

    def ensure(self, objects: Iterable[tuple[str, Any]]) -> None:
        """Create objects, each at its path, unless they exist."""

        def ask(client: Client, item: tuple[str, Any]) -> None:
            code, answer = client.request("POST", *item)
            if code not in (201, 409):
                raise PodiumError(f"HTTP {code}: {answer}")

        self._all(ask, objects)

    def make_available(self) -> None:
        """Set the phase of all volumes that are not bound, as the volume controller does a moment later."""
        code, listed = self._server.request("GET", "/api/v1/persistentvolumes")
        assert code == 200, listed
        free = [
            volume["metadata"]["name"] for volume in listed["items"] if not volume["spec"].get("claimRef")
        ]
        body, merge = {"status": {"phase": "Available"}}, "application/merge-patch+json"
        self._all(
            lambda client, name: client.request(
                "PATCH", f"/api/v1/persistentvolumes/{name}/status", body, merge
            ),
            free,
        )

    def make_groups(self, documents: Iterable[Any]) -> list[Any]:
        """Create native PodGroups."""
        return self.make(f"/apis/{API}/namespaces/{NAMESPACE}/podgroups", documents)

    def make_pods(self, documents: Iterable[Any]) -> list[Any]:
        """Create pods."""
        return self.make(PODS, documents)

    def delete_pods(self, names: Iterable[str]) -> None:
        """Delete the pods that exist."""
        self._all(lambda client, name: client.request("DELETE", f"{PODS}/{name}"), names)

    def delete_claims(self, path: str) -> None:
        """Delete all claims for devices at a path, as the controller does once it has released them."""
        code, listed = self._server.request("GET", path)
        assert code == 200, listed
        body, merge = {"metadata": {"finalizers": None}}, "application/merge-patch+json"

        def ask(client: Client, name: str) -> None:
            client.request("PATCH", f"{path}/{name}", body, merge)
            client.request("DELETE", f"{path}/{name}")

        self._all(ask, [claim["metadata"]["name"] for claim in listed["items"]])

    def _all(self, request: Callable[[Client, Any], Any], items: Iterable[Any]) -> list[Any]:
        """Send a request for every item, over a few connections at once."""
        # Lists, because several threads cannot read a generator.
        left = iter(list(items))

        def work(_: int) -> list[Any]:
            with closing(self._server.access.client()) as client:
                return [request(client, item) for item in left]

        with ThreadPoolExecutor(_WRITERS) as pool:
            return [answer for share in pool.map(work, range(_WRITERS)) for answer in share]


def group(name: str, size: int, class_name: str, *, rack: bool = False) -> Any:
    """Return a gang that is evicted as a whole; its pods share a `rack` if it requires one."""
    gang = {"gang": {"minCount": size}}
    spec: dict[str, Any] = {
        "schedulingPolicy": gang,
        "disruptionMode": {"all": {}},
        "priorityClassName": class_name,
    }
    if rack:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def pod(
    name: str, cpu: str, class_name: str, *, memory: str = "100Mi", node: int | None = None, group: str = ""
) -> Any:
    """Return a pod; with a node it is bound."""
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "priorityClassName": class_name,
        "terminationGracePeriodSeconds": 0,
    }
    if node is not None:
        spec["nodeName"] = f"node-{node}"
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"metadata": {"name": name}, "spec": spec}


def made(answer: tuple[int, Any]) -> Any:
    """Return the created object.

    Raises PodiumError if it was refused.
    """
    code, document = answer
    if code not in (200, 201):
        raise PodiumError(f"HTTP {code}: {document}")
    return document
