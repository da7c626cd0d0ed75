"""A cluster of real nodes for tests: three, of which the last is for gangs, and Podium's image in each."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.install.scene import NAMESPACE, json_of
from tests.support.servers import Server
from tests.support.waiting import until
from tools.devcluster.controlplane import folders
from tools.devcluster.controlplane.cluster import WantedCluster
from tools.devcluster.controlplane.releases import Release
from tools.devcluster.controlplane.state import ControlPlaneState, access
from tools.devcluster.realnode import cluster, entry, network

from podium.api.groups import RESERVED

# For gangs alone; the others have Podium's own pods.
GANG_NODE = "node-2"
PROCESSES = ("webhook", "controller", "scheduler")
_NODES = 3
REPLICAS = 2
# Six processes start, one after the other, on a machine that may have other work.
_ROLLOUT_SECONDS = 240.0
# The file systems of nodes need a disk, which a temporary folder may not be on.
_FOLDER = "e2e"


@dataclass(frozen=True)
class Nodes:
    """A running cluster of real nodes; `server` is its API server."""

    server: Server
    state: ControlPlaneState
    folder: Path

    def on(self, node: str, *argv: str) -> str:
        """Run a command in a node and return its output; a failure fails the test."""
        return _output([*entry.node_command(self.state, node), *argv])

    def inside(self, *argv: str) -> str:
        """Run a command in the cluster's network and return its output; a failure fails the test."""
        begin, variables = entry.network_command(self.folder, self.state)
        return _output([*begin, *argv], variables)

    def load(self, archive: Path) -> None:
        """Import an image archive into every node."""
        entry.load(self.state, archive)

    def pods(self, selector: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """Return the pods with some labels that are not being deleted."""
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
        code, answer = self.server.request("GET", path)
        assert code == 200, answer
        return [pod for pod in answer["items"] if "deletionTimestamp" not in pod["metadata"]]

    def signal(self, pod: dict[str, Any], name: str) -> None:
        """Send a signal to the first process of a pod's only container, as the kernel of its node would."""
        kill = ("ctr", "--namespace=k8s.io", "tasks", "kill", "--signal", name, _container(pod))
        self.on(pod["spec"]["nodeName"], *kill)

    def process(self, pod: dict[str, Any]) -> int:
        """Return the first process of a pod's only container, as this machine numbers it.

        A signal from here arrives within a millisecond, one of `signal` after a tenth of a second.
        """
        name = _container(pod)
        (found,) = (folder for folder in Path("/proc").glob("[0-9]*") if _is_first_of(folder, name))
        return int(found.name)

    @contextlib.contextmanager
    def cut(self, node: str) -> Iterator[None]:
        """Take a node, any but the first, off the network while the block runs."""
        port = network.port(network.node_names(self.state.settings.real_nodes).index(node))
        self.inside("ip", "link", "set", port, "down")
        try:
            yield
        finally:
            self.inside("ip", "link", "set", port, "up")

    def runs(self, pod: dict[str, Any]) -> bool:
        """Return whether the process that a pod had when it was read still exists."""
        tasks = self.on(pod["spec"]["nodeName"], "ctr", "--namespace=k8s.io", "tasks", "ls", "--quiet")
        return _container(pod) in tasks.split()


@contextlib.contextmanager
def running(release: Release, name: str) -> Iterator[Nodes]:
    """Yield a new cluster of a release; nothing of it is left at the end."""
    folder = folders.nodes_cache() / _FOLDER / f"e2e-{name}-{release.minor}"
    cluster.down(folder, sys.stderr)  # left by a run that was killed
    try:
        wanted = WantedCluster(kubernetes=release.minor, real_nodes=_NODES)
        state, _ = cluster.up(folder, wanted, os.environ, sys.stderr)
        reach = access(folder, state.settings)
        with contextlib.closing(reach.client()) as client:
            yield Nodes(Server(reach, state.settings, folder, client), state, folder)
    finally:
        cluster.down(folder, sys.stderr)


def _container(pod: dict[str, Any]) -> str:
    (status,) = pod["status"]["containerStatuses"]
    return str(status["containerID"]).removeprefix("containerd://")


def _is_first_of(folder: Path, container: str) -> bool:
    """Return whether a process of /proc is the first one of a container."""
    # A process may end while it is read.
    with contextlib.suppress(OSError):
        if container in (folder / "cgroup").read_text(encoding="utf-8"):
            status = (folder / "status").read_text(encoding="utf-8")
            # The last number is that inside the container.
            return re.search(r"^NSpid:.*\t1$", status, re.MULTILINE) is not None
    return False


def port_of(pod: dict[str, Any], name: str) -> int:
    """Return the number of a port of a pod's only container."""
    (container,) = pod["spec"]["containers"]
    (number,) = (each["containerPort"] for each in container["ports"] if each["name"] == name)
    return int(number)


def metric(nodes: Nodes, pod: dict[str, Any], name: str) -> float:
    """Return a metric without labels of one of Podium's pods, which must have it."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:{port_of(pod, 'metrics')}"
    lines = nodes.server.kubectl("get", "--raw", f"{path}/proxy/metrics").splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(f"{name} "))
    return float(value)


def ready(nodes: Nodes, deployment: str, namespace: str = NAMESPACE) -> bool:
    """Return whether a Deployment has all of its pods, of its newest template."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
    code, found = nodes.server.request("GET", path)
    if code != 200:
        return False
    status, wanted = found["status"], found["spec"]["replicas"]
    counts = (status.get(each, 0) for each in ("replicas", "updatedReplicas", "availableReplicas"))
    is_observed = status.get("observedGeneration") == found["metadata"]["generation"]
    return is_observed and all(count == wanted for count in counts)


def reserve(nodes: Nodes) -> None:
    """Reserve a node for gangs, by the label and the taint."""
    nodes.server.kubectl("label", "--overwrite", "node", GANG_NODE, f"{RESERVED}=yes")
    nodes.server.kubectl("taint", "--overwrite", "node", GANG_NODE, f"{RESERVED}=yes:NoSchedule")


@contextlib.contextmanager
def open_to_gangs(nodes: Nodes) -> Iterator[None]:
    """Reserve every node for Podium's scheduler while the block runs, and not `GANG_NODE` alone."""
    kubectl = nodes.server.kubectl
    kubectl("label", "--overwrite", "nodes", "--all", f"{RESERVED}=yes")
    try:
        yield
    finally:
        names = network.node_names(nodes.state.settings.real_nodes)
        kubectl("label", "nodes", *(name for name in names if name != GANG_NODE), f"{RESERVED}-")


def wait_ready(nodes: Nodes, processes: tuple[str, ...] = PROCESSES) -> None:
    """Wait until the Deployments of these processes have all of their pods, and no other pod is left."""
    for process in processes:
        until(partial(ready, nodes, f"podium-{process}"), f"{process} is ready", _ROLLOUT_SECONDS)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/part-of=podium"
    pods = REPLICAS * len(processes)
    until(lambda: len(nodes.server.request("GET", path)[1]["items"]) == pods, "no other pod is left")


def wait_removed(nodes: Nodes) -> None:
    """Wait until Podium's namespace is gone."""
    until(lambda: json_of(nodes.server, f"/api/v1/namespaces/{NAMESPACE}") is None, "the namespace is gone")


def holder(nodes: Nodes, process: str) -> str:
    """Return the holder of a process's Lease, empty without one; each start of a container has its own."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/podium-{process}"
    code, lease = nodes.server.request("GET", path)
    return lease["spec"].get("holderIdentity") or "" if code == 200 else ""


def leader(nodes: Nodes, process: str) -> str:
    """Return the pod that leads, empty without one."""
    found = holder(nodes, process)
    names = [pod["metadata"]["name"] for pod in nodes.pods(f"app.kubernetes.io/component={process}")]
    return next((name for name in names if name in found), "")


def is_succeeded(nodes: Nodes, process: str, first: str) -> bool:
    """Return whether a Lease has another holder than the first one; a restarted container is another."""
    return holder(nodes, process) not in ("", first)


def _output(argv: list[str], variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{json.dumps(argv)}: {done.stdout}{done.stderr}"
    return done.stdout
