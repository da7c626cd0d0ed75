"""Enforcement of NetworkPolicies in a cluster of real nodes, by kube-router's firewall in each node.

The CNI plugins of these nodes ignore NetworkPolicies.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import Nodes
from tests.support.waiting import until
from tools.devcluster.controlplane.components import log
from tools.devcluster.realnode import entry, identities, network
from tools.gotools import GoTools

_PROGRAM = GoTools(ROOT / "tools" / "neighbours" / "kube-router", ("kube-router",), minutes=3)
_PATH = "/usr/local/bin/kube-router"
_KUBECONFIG = "/etc/podium/kube-router.kubeconfig"
_COMMAND = (
    _PATH,
    "--run-router=false",
    "--run-service-proxy=false",
    "--run-firewall=true",
    "--enable-cni=false",
    f"--kubeconfig={_KUBECONFIG}",
    f"--service-cluster-ip-range={network.SERVICES}",
)


@contextlib.contextmanager
def enforcing(nodes: Nodes) -> Iterator[None]:
    """Enforce NetworkPolicies in every node while the block runs."""
    with contextlib.ExitStack() as stack:
        for node in network.node_names(nodes.state.settings.real_nodes):
            stack.enter_context(_firewall(nodes, node))
        yield


@contextlib.contextmanager
def _firewall(nodes: Nodes, node: str) -> Iterator[None]:
    root = Path(f"/proc/{entry.holder(nodes.state, node).pid}/root")
    _copy(_PROGRAM.programs() / "kube-router", root / _PATH.lstrip("/"))
    _copy(nodes.folder / identities.INSIDE, root / _KUBECONFIG.lstrip("/"))
    place = nodes.folder / log(f"kube-router-{node}")
    line = [*entry.node_command(nodes.state, node), *_COMMAND, f"--hostname-override={node}"]
    with (
        place.open("wb") as output,
        subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process,
    ):
        try:
            until(lambda: "KUBE-ROUTER-FORWARD" in nodes.on(node, "iptables", "-S"), f"{node} enforces")
            yield
        finally:
            process.terminate()
            process.wait()
            nodes.on(node, "iptables", "-F")  # --cleanup-config fails without IPVS


def _copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())
    target.chmod(0o700)
