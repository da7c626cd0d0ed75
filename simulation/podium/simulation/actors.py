"""Clients of the API server that have no process here: kubelets, and the owners of pods with their users.

Each acts on the objects as the server has them, a while after they changed, and repeats a request until it
has a final answer. So it is as late as a real one, and never wrong about the past.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from podium.api.core import PODIUM_SCHEDULER
from podium.api.times import written
from podium.simulation.apiserver.messages import JSON, ApiRequest, ApiResponse
from podium.simulation.apiserver.patching import MERGE_PATCH, STRATEGIC
from podium.simulation.apiserver.storage import Change
from podium.simulation.network import Network

Object = Mapping[str, Any]

# The label of a pod whose containers end by themselves, with the seconds that they run.
RUNS = "example.com/seconds"
# The label of all pods of one workload.
WORKLOAD = "example.com/workload"
GROUPS = "podgroups.scheduling.k8s.io"
_VERSION = "scheduling.k8s.io/v1beta1"
_AGAIN_SECONDS = 1.0
_AGAIN = (429, 500, 503, 504)
# A container starts within so many seconds, and an owner notices the loss of a pod within others.
_START_SECONDS, _NOTICE_SECONDS, _COLLECT_SECONDS = 8.0, 4.0, 20.0


class Client:
    """Sends requests for an actor, again and again until one has a final answer."""

    def __init__(self, network: Network, user: str) -> None:
        self._network = network
        self._user = user

    def request_until_done(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = JSON,
        done: Callable[[ApiResponse], None] = lambda _response: None,
    ) -> None:
        """Send a request, and call `done` with its final answer."""
        data = b"" if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, path, {}, data, kind, self._user)

        def answered(response: ApiResponse | None) -> None:
            if response is None or response.code in _AGAIN:
                self._network.world.after(_AGAIN_SECONDS, lambda: self._network.carry(request, answered))
            else:
                # The object may be gone, or made already by a request whose answer was lost.
                expected = response.code < 400 or response.code in (404, 409)
                assert expected, f"{method} {path}: {response.body.decode()}"
                done(response)

        self._network.carry(request, answered)


class Kubelets:
    """The kubelets of all nodes: they start the containers of bound pods, and end those of deleted ones.

    `endless` is whether containers run on at the end of their work, so that nothing changes by itself.
    """

    def __init__(self, network: Network) -> None:
        self.endless = False
        self._world = network.world
        self._client = Client(network, "kubelet")
        self._started: set[str] = set()
        self._ending: set[str] = set()
        network.server.changed.append(self._follow)

    def _follow(self, resource: str, change: Change) -> None:
        pod = change.document
        if resource != "pods" or not pod["spec"].get("nodeName"):
            return
        uid: str = pod["metadata"]["uid"]
        if change.type == "DELETED":
            self._started.discard(uid)
            self._ending.discard(uid)
            return
        chance = self._world.random.random()
        if "deletionTimestamp" in pod["metadata"]:
            if uid not in self._ending:
                self._ending.add(uid)
                grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
                self._world.after(chance * grace, partial(finish_pod, self._client, pod))
        elif uid not in self._started:
            self._started.add(uid)
            self._world.after(chance * _START_SECONDS, partial(self._start, pod))

    def _start(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._started or uid in self._ending:
            return
        now = written(self._world.now)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        self._patch(pod, {"phase": "Running", "startTime": now, "conditions": [ready]})
        seconds = (pod["metadata"].get("labels") or {}).get(RUNS)
        if seconds is not None:
            self._world.after(float(seconds), partial(self._succeed, pod))

    def _succeed(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._started and uid not in self._ending and not self.endless:
            self._patch(pod, {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]})

    def _patch(self, pod: Object, status: Object) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        self._client.request_until_done("PATCH", f"{path_of(pod)}/status", body, kind=STRATEGIC)


class Collectors:
    """Controllers that clean up: of pods whose node is gone, and of the finalizers of deleted groups."""

    def __init__(self, network: Network) -> None:
        self._world = network.world
        self._store = network.server.store
        self._client = Client(network, "kube-controller-manager")
        network.server.changed.append(self._follow)

    def _follow(self, resource: str, _change: Change) -> None:
        if resource in ("nodes", "pods", GROUPS):
            self._world.after(self._world.random.random() * _COLLECT_SECONDS, self._look)

    def _look(self) -> None:
        pods = [version.document for version in self._store.resources["pods"].now.values()]
        for pod in pods:
            node = pod["spec"].get("nodeName")
            if node and f"/{node}" not in self._store.resources["nodes"].now:
                finish_pod(self._client, pod)
        names = {group_of(pod) for pod in pods}
        for version in self._store.resources[GROUPS].now.values():
            metadata = version.document["metadata"]
            if "deletionTimestamp" in metadata and metadata["name"] not in names:
                path = f"/apis/{_VERSION}/namespaces/{metadata['namespace']}/podgroups/{metadata['name']}"
                body = {"metadata": {"uid": metadata["uid"], "finalizers": None}}
                self._client.request_until_done("PATCH", path, body, kind=MERGE_PATCH)


class SimulatedWorkload(NamedTuple):
    """Pods of a kind: `size` of them, in one group if `mode` (its disruption mode) is not empty.

    `seconds` is how long each runs, 0 for without end. `cpu` is in cores. The group has `group_class`.
    """

    name: str
    size: int
    cpu: int
    priority_class: str
    mode: str = ""
    seconds: int = 0
    group_class: str = ""


class Owners:
    """The controllers of workloads: each keeps its pods until they have succeeded or the user removes it."""

    def __init__(self, network: Network, namespace: str) -> None:
        self.workloads: dict[str, SimulatedWorkload] = {}
        self.succeeded: dict[str, int] = {}
        self._world = network.world
        self._client = Client(network, "owner")
        self._namespace = namespace
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._groups_path = f"/apis/{_VERSION}/namespaces/{namespace}/podgroups"
        self._pods: dict[str, dict[str, Object]] = {}
        network.server.changed.append(self._follow)

    def create(self, workload: SimulatedWorkload) -> None:
        """Create a workload: its group, and then its pods."""
        self.workloads[workload.name] = workload
        self._pods[workload.name] = {}
        self.succeeded[workload.name] = 0
        if not workload.mode:
            self._fill(workload)
            return
        spec = {
            "schedulingPolicy": {"gang": {"minCount": workload.size}},
            "disruptionMode": {workload.mode: {}},
            "priorityClassName": workload.group_class,
        }
        metadata = {"name": workload.name}
        group = {"apiVersion": _VERSION, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        self._client.request_until_done(
            "POST", self._groups_path, group, done=lambda _response: self._fill(workload)
        )

    def remove(self, name: str) -> None:
        """Remove a workload: its pods, and its group."""
        workload = self.workloads.pop(name)
        for pod in list(self._pods.pop(name).values()):
            self._client.request_until_done("DELETE", path_of(pod))
        if workload.mode:
            self._client.request_until_done("DELETE", f"{self._groups_path}/{name}")

    def _fill(self, workload: SimulatedWorkload) -> None:
        """Create the pods that a workload lacks."""
        if workload.name not in self.workloads:
            return
        missing = workload.size - self.succeeded[workload.name] - len(self._pods[workload.name])
        for _ in range(missing):
            name = f"{workload.name}-{self._world.random.getrandbits(40):010x}"
            pod = _pod(self._namespace, name, workload)
            self._pods[workload.name][name] = pod
            self._client.request_until_done("POST", self._pods_path, pod)

    def _follow(self, resource: str, change: Change) -> None:
        if resource != "pods":
            return
        pod = change.document
        name, owner = pod["metadata"]["name"], (pod["metadata"].get("labels") or {}).get(WORKLOAD, "")
        pods = self._pods.get(owner)
        if pods is None or name not in pods:
            return
        workload = self.workloads[owner]
        if change.type == "DELETED":
            del pods[name]
            if pod.get("status", {}).get("phase") == "Succeeded":
                self.succeeded[owner] += 1
            if self.succeeded[owner] == workload.size:
                self.remove(owner)
            else:
                self._world.after(
                    self._world.random.random() * _NOTICE_SECONDS, partial(self._fill, workload)
                )
        else:
            pods[name] = pod
            if pod.get("status", {}).get("phase") == "Succeeded":
                self._client.request_until_done("DELETE", path_of(pod))


def finish_pod(client: Client, pod: Object) -> None:
    """Remove a pod whose containers have ended, or that has no node."""
    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
    client.request_until_done("DELETE", path_of(pod), body)


def group_of(pod: Object) -> str:
    """Return the name of the group of a pod, empty for none."""
    name: str = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    return name


def path_of(pod: Object) -> str:
    """Return the URL path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _pod(namespace: str, name: str, workload: SimulatedWorkload) -> dict[str, Any]:
    labels = {WORKLOAD: workload.name} | ({RUNS: str(workload.seconds)} if workload.seconds else {})
    container = {
        "name": "work",
        "image": "work",
        "resources": {"requests": {"cpu": str(workload.cpu)}},
    }
    spec: dict[str, Any] = {
        "schedulerName": PODIUM_SCHEDULER,
        "priorityClassName": workload.priority_class,
        "containers": [container],
        "terminationGracePeriodSeconds": 10,
    }
    if workload.mode:
        spec["schedulingGroup"] = {"podGroupName": workload.name}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
