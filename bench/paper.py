"""A fake API server: it serves one generated cluster, accepts every write, and stores only its Leases.

A real one takes minutes to fill with 100,000 pods, and is busy itself when they are read. `python -m
bench.paper NODES PODS` prints its URL and serves until its standard input ends.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from aiohttp import web

_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
_RESOURCES = {
    "/api/v1": [
        ("pods", "Pod", True),
        ("nodes", "Node", False),
        ("namespaces", "Namespace", False),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True),
        ("persistentvolumes", "PersistentVolume", False),
    ],
    "/apis/scheduling.k8s.io/v1": [("priorityclasses", "PriorityClass", False)],
    "/apis/scheduling.k8s.io/v1beta1": [("podgroups", "PodGroup", True), ("workloads", "Workload", True)],
    "/apis/policy/v1": [("poddisruptionbudgets", "PodDisruptionBudget", True)],
}
POD_INDEX = "apps.kubernetes.io/pod-index"
_ROOM = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
# As many lines a write as a real server sends.
_CHUNK = 50
_EARLY_SECONDS = 2.0


def nodes(count: int) -> Iterator[dict[str, Any]]:
    """Return the nodes."""
    for at in range(count):
        labels = {"kubernetes.io/hostname": f"n{at}", "topology.kubernetes.io/zone": f"z{at % 3}"}
        yield {
            "metadata": {"name": f"n{at}", "uid": f"n{at}", "labels": labels},
            "spec": {},
            "status": {"allocatable": _ROOM, "capacity": _ROOM},
        }


def pods(count: int, nodes: int) -> Iterator[dict[str, Any]]:
    """Return running pods, each with a label of its own, like those of an Indexed Job."""
    for at in range(count):
        labels = {"app": f"a{at % 500}", POD_INDEX: str(at)}
        yield pod(f"p{at}", labels, {"cpu": "1", "memory": "2Gi"}, node=f"n{at % nodes}")


def pod(
    name: str, labels: dict[str, str], requests: dict[str, str], *, node: str = "", **spec: Any
) -> dict[str, Any]:
    """Return one pod."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "labels": labels},
        "spec": {
            "schedulerName": "podium-scheduler",
            "priority": 0,
            "containers": containers,
            **({"nodeName": node} if node else {}),
            **spec,
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


class Paper:
    """The fake server.

    `POST /add?resource=R` sends JSON lines to the watches of R; `/writes` counts writes.
    """

    def __init__(self, node_count: int, pod_count: int) -> None:
        self._version = 1
        self._writes: Counter[str] = Counter()
        self._leases: dict[str, dict[str, Any]] = {}
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = {}
        self._objects = {
            "nodes": [self._stored("v1", "Node", node) for node in nodes(node_count)],
            "pods": [self._stored("v1", "Pod", manifest) for manifest in pods(pod_count, node_count)],
        }

    def _stored(self, version: str, kind: str, document: dict[str, Any]) -> bytes:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        return json.dumps({"apiVersion": version, "kind": kind, **document}).encode()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        path = request.path
        if "/leases" in path:
            return await self._lease(request)
        if path == "/add":
            return await self._add(request)
        if path == "/writes":
            return web.json_response(self._writes)
        if request.method != "GET":
            self._writes[request.method] += 1
            self._writes["binds"] += path.endswith("/binding")
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        if path == "/version":
            return web.json_response({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
        if path == "/apis":
            groups: dict[str, list[dict[str, str]]] = {}
            for root in _RESOURCES:
                _, kind, *rest = root.split("/")
                if kind == "apis":
                    groups.setdefault(rest[0], []).append({"version": rest[1]})
            return web.json_response(
                {"groups": [{"name": name, "versions": versions} for name, versions in groups.items()]}
            )
        if path in _RESOURCES:
            resources = [
                {"name": name, "kind": kind, "namespaced": namespaced, "verbs": _VERBS}
                for name, kind, namespaced in _RESOURCES[path]
            ]
            return web.json_response({"kind": "APIResourceList", "resources": resources})
        if path == "/readyz":
            return web.Response(text="ok")
        resource = path.rpartition("/")[2]
        if "watch" in request.query:
            return await self._watch(request, resource)
        if "limit" in request.query:
            # Callers read the version of the collection, not its objects.
            return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": []})
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)

    async def _watch(self, request: web.Request, resource: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if "sendInitialEvents" in request.query:
            objects = self._objects.get(resource, [])
            for at in range(0, len(objects), _CHUNK):
                lines = (b'{"type":"ADDED","object":%s}\n' % stored for stored in objects[at : at + _CHUNK])
                await response.write(b"".join(lines))
            await response.write(_bookmark(self._version, {"k8s.io/initial-events-end": "true"}))
        queue = asyncio.Queue[bytes]()
        self._watches.setdefault(resource, []).append(queue)
        left = int(request.query["timeoutSeconds"])
        with suppress(ConnectionError):
            # A real server sends a bookmark two seconds before the end of a watch.
            with suppress(TimeoutError):
                async with asyncio.timeout(left - _EARLY_SECONDS):
                    await self._forward(queue, response)
            await response.write(_bookmark(self._version))
            with suppress(TimeoutError):
                async with asyncio.timeout(_EARLY_SECONDS):
                    await self._forward(queue, response)
        self._watches[resource].remove(queue)
        return response

    @staticmethod
    async def _forward(queue: asyncio.Queue[bytes], response: web.StreamResponse) -> None:
        while True:
            await response.write(await queue.get())

    async def _add(self, request: web.Request) -> web.Response:
        """Store objects, a line each, and send them to the watches."""
        for line in (await request.read()).splitlines():
            document = json.loads(line)
            stored = self._stored(document.pop("apiVersion"), document.pop("kind"), document)
            resource = request.query["resource"]
            self._objects.setdefault(resource, []).append(stored)
            for queue in self._watches.get(resource, ()):
                queue.put_nowait(b'{"type":"ADDED","object":%s}\n' % stored)
        return web.json_response({})

    async def _lease(self, request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        if request.method == "GET":
            lease = self._leases.get(name)
            return web.json_response(lease or {"kind": "Status", "code": 404}, status=200 if lease else 404)
        document = await request.json()
        self._version += 1
        metadata = {**document["metadata"], "uid": "lease", "resourceVersion": str(self._version)}
        self._leases[metadata["name"]] = {**document, "metadata": metadata}
        return web.json_response(self._leases[metadata["name"]], status=201)


def _bookmark(version: int, annotations: dict[str, str] | None = None) -> bytes:
    """Return the line of a bookmark."""
    metadata = {"resourceVersion": str(version), "annotations": annotations or {}}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"


async def _serve(node_count: int, pod_count: int) -> None:
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", Paper(node_count, pod_count).handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
