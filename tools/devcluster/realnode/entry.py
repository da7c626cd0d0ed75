"""Ways into a running cluster of real nodes: commands in its network, commands in a node, images."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tools.devcluster.controlplane.process import Process, alive
from tools.devcluster.controlplane.state import ControlPlaneState
from tools.devcluster.realnode import identities, namespaces, network
from tools.devcluster.realnode.cgroups import WORLD

from podium.errors import PodiumError

# containerd's namespace of kubelet's images and containers. An import that is not local takes twice the
# processor time, in containerd's transfer service. An unpacked layer needs no second copy on disk.
_IMPORT = ("ctr", "--namespace=k8s.io", "images", "import", "--local", "--discard-unpacked-layers", "-")


def holder(state: ControlPlaneState, part: str) -> Process:
    """Return the process that holds the namespaces of a part, WORLD or a node.

    Raises PodiumError if it does not run.
    """
    component = state.components.get(part)
    if component is None or not alive(component.process):
        name = state.settings.name
        raise PodiumError(
            f"cluster {name} does not run: {part} has ended. Run `make cluster-down NAME={name}` first"
        )
    return component.process


def network_command(folder: Path, state: ControlPlaneState) -> tuple[list[str], dict[str, str]]:
    """Return the beginning of a command in the cluster's network, and the variables that it needs.

    The command sees the machine's files. The kubeconfig has the API server's address in the network.
    """
    return namespaces.enter(holder(state, WORLD).pid, "net"), {"KUBECONFIG": str(folder / identities.INSIDE)}


def node_command(state: ControlPlaneState, node: str) -> list[str]:
    """Return the beginning of a command in a node, with the node's files.

    Raises PodiumError if there is no such node.
    """
    known = network.node_names(state.settings.real_nodes)
    if node not in known:
        raise PodiumError(
            f"node {node} not found in cluster {state.settings.name}. Its nodes: {', '.join(known)}"
        )
    return namespaces.enter_node(holder(state, node).pid)


def load(state: ControlPlaneState, archive: Path, nodes: Iterable[str] = ()) -> None:
    """Import an image archive into nodes, all unless named. Raises PodiumError with the first refusal."""
    imports = {
        node: _importing(state, node, archive)
        for node in nodes or network.node_names(state.settings.real_nodes)
    }
    messages = {node: started.communicate()[1] for node, started in imports.items()}
    for node, started in imports.items():
        if started.returncode:
            last = " ".join(messages[node].strip().splitlines()[-1:])
            raise PodiumError(f"{archive} cannot be imported into node {node}: {last}")


def _importing(state: ControlPlaneState, node: str, archive: Path) -> "subprocess.Popen[str]":
    with archive.open("rb") as file:
        return subprocess.Popen(
            [*node_command(state, node), *_IMPORT],
            stdin=file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
