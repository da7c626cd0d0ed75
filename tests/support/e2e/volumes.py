"""A CSI driver and its csi-provisioner on each node of a cluster, and pods whose claims they provision.

A volume is a folder of one node, so a pod with a bound claim can run on that node alone. Each node has
1Gi, and the provisioners publish what is free as CSIStorageCapacities.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import yaml
from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.work import Space, Work, workload
from tests.support.waiting import until
from tools.devcluster.realnode import network
from tools.neighbours.images import CSI_DRIVER, CSI_PROVISIONER

_DRIVER = "directory.csi.podium.dev"
# Two claims of this size do not fit on one node, whose capacity is 1Gi.
HALF = "600Mi"
_CAPACITY = "1Gi"
_CLASS = "directory"
_NAMESPACE = "csi-directory"
_DATA = "/var/lib/csi-directory"
_MANIFESTS = ROOT / "tools" / "neighbours" / "csi-directory" / "manifests.yaml"
_ROLES = "deploy/kubernetes/rbac.yaml"
_PROGRAM = "csi-provisioner"
# It adds the pod's UID to a file of the volume, and runs until SIGTERM.
_WRITER = "echo $UID_OF_POD >> /data/pods; trap 'exit 0' TERM; sleep 3600 & wait"


@contextlib.contextmanager
def driver(nodes: Nodes) -> Iterator[None]:
    """Run the driver and its provisioners in each node while the block runs; nothing is left of them."""
    for each in (CSI_DRIVER, CSI_PROVISIONER):
        nodes.load(each.archive())
    roles = CSI_PROVISIONER.tools.source(CSI_PROVISIONER.module) / _ROLES
    text = roles.read_text(encoding="utf-8").replace("namespace: default", f"namespace: {_NAMESPACE}")
    documents = [
        *yaml.safe_load_all(_MANIFESTS.read_text(encoding="utf-8")),
        *yaml.safe_load_all(text),
    ]
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": documents})
    nodes.server.kubectl("apply", "--server-side", "-f", "-", stdin=listed)
    try:
        until(lambda: is_free(nodes), "each node has published its capacity")
        yield
    finally:
        nodes.server.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=listed)


def is_free(nodes: Nodes) -> bool:
    """Return whether all of the capacity of every node is published as free."""
    path = f"/apis/storage.k8s.io/v1/namespaces/{_NAMESPACE}/csistoragecapacities"
    code, found = nodes.server.request("GET", path)
    assert code == 200, found
    free = [each.get("capacity") for each in found["items"]]
    return free == [_CAPACITY] * nodes.state.settings.real_nodes


def folders(nodes: Nodes) -> list[str]:
    """Return the names of the driver's volumes in all nodes."""
    names = network.node_names(nodes.state.settings.real_nodes)
    return [volume for node in names for volume in nodes.on(node, "ls", _DATA).split()]


def written(nodes: Nodes, volume: dict[str, Any]) -> list[str]:
    """Return the UIDs of the pods that have written to a volume, on the node that has it."""
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    (node,) = expression["values"]
    handle = volume["spec"]["csi"]["volumeHandle"]
    return nodes.on(node, "cat", f"{_DATA}/{handle}/files/pods").split()


@contextlib.contextmanager
def halted(nodes: Nodes) -> Iterator[list[str]]:
    """Stop the provisioners while the block runs; yield their nodes, which `resume` takes off the list."""
    stopped = network.node_names(nodes.state.settings.real_nodes)
    for node in stopped:
        nodes.on(node, "pkill", "-STOP", _PROGRAM)
    try:
        yield stopped
    finally:
        for node in tuple(stopped):
            resume(nodes, stopped, node)


def resume(nodes: Nodes, stopped: list[str], node: str) -> None:
    """Let the provisioner of a node go on."""
    nodes.on(node, "pkill", "-CONT", _PROGRAM)
    stopped.remove(node)


class ClaimSpace(Space):
    """A namespace with pods of Podium's scheduler, each of which writes to a volume of its own."""

    def __init__(self, nodes: Nodes, class_name: str, image: str) -> None:
        """`class_name` is the PriorityClass of all pods, and `image` one with a shell that each node has."""
        super().__init__(nodes)
        self._class_name = class_name
        self._image = image

    def stateful_set(self, name: str, replicas: int, size: str, **fields: Any) -> None:
        """Create a StatefulSet whose pods start at the same time."""
        template = {"metadata": {"name": "data"}, "spec": _claim(size)}
        pod_spec = {**self._writer(), **fields, "restartPolicy": "Always"}
        pod = {"metadata": {"labels": {"app": name}}, "spec": pod_spec}
        spec = {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": pod,
            "volumeClaimTemplates": [template],
        }
        path = f"/apis/apps/v1/namespaces/{self.name}/statefulsets"
        self.post(path, {"metadata": {"name": name}, "spec": spec})

    def gang_of_writers(self, name: str, count: int, size: str, **fields: Any) -> None:
        """Create a group, and an indexed Job of its members with ephemeral volumes."""
        self.gang(name, count, self._class_name)
        ephemeral = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": _claim(size)}}}
        group = {"schedulingGroup": {"podGroupName": name}}
        spec = {
            "completionMode": "Indexed",
            "parallelism": count,
            "completions": count,
            "template": {"spec": {**self._writer(), **group, **fields, "volumes": [ephemeral]}},
        }
        path = f"/apis/batch/v1/namespaces/{self.name}/jobs"
        self.post(path, {"metadata": {"name": name}, "spec": spec})

    def claims(self) -> dict[str, dict[str, Any]]:
        """Return the claims of the namespace by name."""
        code, found = self.server.request("GET", self.claims_path())
        assert code == 200, found
        return {each["metadata"]["name"]: each for each in found["items"]}

    def claims_path(self) -> str:
        """Return the path of the namespace's claims."""
        return f"/api/v1/namespaces/{self.name}/persistentvolumeclaims"

    def volumes(self) -> list[dict[str, Any]]:
        """Return the volumes of the driver. They are of this namespace: each test waits until it has none."""
        code, found = self.server.request("GET", "/api/v1/persistentvolumes")
        assert code == 200, found
        return [each for each in found["items"] if each["spec"].get("csi", {}).get("driver") == _DRIVER]

    def volume(self, claim: str) -> dict[str, Any]:
        """Return the volume of a claim, which must be its only one."""
        uid = self.claims()[claim]["metadata"]["uid"]
        (found,) = [each for each in self.volumes() if each["spec"]["claimRef"]["uid"] == uid]
        return found

    def _writer(self) -> dict[str, Any]:
        spec = workload(Work(), {"cpu": "20m"})
        field = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
        container = {
            "name": "writer",
            "image": self._image,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", _WRITER],
            "env": [{"name": "UID_OF_POD", **field}],
            "resources": {"requests": {"cpu": "20m"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        return {**spec, "priorityClassName": self._class_name, "containers": [container]}


def _claim(size: str) -> dict[str, Any]:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": _CLASS,
        "resources": {"requests": {"storage": size}},
    }
