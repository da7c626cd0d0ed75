"""NetworkPolicies that the nodes enforce: only API servers and replicas reach the port of admission."""

import contextlib
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import Nodes, port_of
from tests.support.faults.writing import webhook_failures, writing
from tests.support.install.scene import NAMESPACE, podium
from tests.support.waiting import until
from tools.devcluster.controlplane.components import log
from tools.devcluster.realnode import entry, identities, network
from tools.gotools import GoTools

# kube-router enforces NetworkPolicies in each node, because the CNI plugins of these nodes ignore them.
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


pytestmark = pytest.mark.e2e

_POLICIES = str(ROOT / "manifests" / "components" / "network-policy" / "policies.yaml")
_API_SERVERS = (
    """[{"op": "replace", "path": "/spec/ingress/0/from", "value": [{"ipBlock": {"cidr": "%s/32"}}]}]"""
)
_FEW = 200
_CONNECT = """\
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def fenced_nodes(podium_nodes: Nodes) -> Iterator[Nodes]:
    """Yield the cluster with Podium's policies in force; the webhook's names the API server's address."""
    server = podium_nodes.server
    server.kubectl("apply", "-f", _POLICIES)
    addresses = "{.items[0].endpoints[0].addresses[0]}"
    of_kubernetes = ("-l", "kubernetes.io/service-name=kubernetes", "-o", f"jsonpath={addresses}")
    address = server.kubectl("get", "endpointslices", *of_kubernetes)
    patch = ("networkpolicy", "podium-webhook", "--type=json", "-p", _API_SERVERS % address)
    server.kubectl("-n", NAMESPACE, "patch", *patch)
    with enforcing(podium_nodes):
        yield podium_nodes
    server.kubectl("delete", "-f", _POLICIES)


def _connection(nodes: Nodes, process: str, pod: dict[str, Any], port: str) -> str:
    """Return what a pod of a process gets when it connects to a port of another."""
    line = ("exec", f"deployment/podium-{process}", "--", "python", "-c", _CONNECT)
    return nodes.server.kubectl(
        "-n", NAMESPACE, *line, pod["status"]["podIP"], str(port_of(pod, port))
    ).strip()


def _gets(nodes: Nodes, source: str, pod: dict[str, Any], port: str, answer: str) -> bool:
    return _connection(nodes, source, pod, port) == answer


@pytest.mark.parametrize(
    ("source", "port", "answer"),
    [
        ("controller", "https", "ConnectionRefusedError"),
        ("scheduler", "https", "ConnectionRefusedError"),
        ("webhook", "https", "connected"),
        ("controller", "metrics", "connected"),
    ],
)
def test_only_replicas_reach_the_port_of_admission(
    fenced_nodes: Nodes, source: str, port: str, answer: str
) -> None:
    for pod in fenced_nodes.pods("app.kubernetes.io/component=webhook"):
        until(partial(_gets, fenced_nodes, source, pod, port, answer), f"{source}: {answer}")


def test_the_api_server_reaches_every_replica(fenced_nodes: Nodes) -> None:
    """No write fails, and the doctor finds no problem."""
    failures = webhook_failures(fenced_nodes.server)
    with writing(fenced_nodes.server, fenced_nodes.server.new_namespace("e2e-")) as writer:
        writer.more(_FEW)
        assert [str(each) for each in writer.record.failures()] == []
    assert webhook_failures(fenced_nodes.server) == failures
    assert podium(fenced_nodes.server, "doctor").returncode == 0
