"""The addresses of a cluster of real nodes, and the commands that make its network.

The control plane and node 0 share one network namespace, with a bridge. Every other node has a namespace of
its own and a cable to the bridge. The namespaces are isolated from the machine's network, so all clusters use
the same addresses. Nothing routes out of a cluster.
"""

import shlex

from tools.devcluster.controlplane.nodes import node_name

BRIDGE = "fabric"
SERVICES = "10.96.0.0/24"
SERVICE_OF_API = "10.96.0.1"
DNS = "10.96.0.10"
PODS = "10.244.0.0/16"
# kube-apiserver's address, and node 0's.
GATEWAY = "172.31.255.1"


def address(node: int) -> str:
    """Return a node's address."""
    return GATEWAY if node == 0 else f"172.31.255.{10 + node}"


def pods(node: int) -> str:
    """Return the range of a node's pods."""
    return f"10.244.{node}.0/24"


def world(name: str, nodes: int) -> list[str]:
    """Return the shell commands for the namespace of the control plane and node 0."""
    return [
        line("hostname", name),
        line("ip", "link", "set", "lo", "up"),
        line("ip", "link", "add", BRIDGE, "type", "bridge"),
        line("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE),
        line("ip", "link", "set", BRIDGE, "up"),
        # Without a route, no packet to a Service reaches the rules that kube-proxy makes.
        line("ip", "route", "add", SERVICES, "dev", BRIDGE),
        *(line("ip", "route", "add", pods(node), "via", address(node)) for node in range(1, nodes)),
        _FORWARD,
    ]


def cable(node: int, pid: int) -> list[str]:
    """Return the commands, in the namespace with the bridge, that connect the namespace of process `pid`."""
    end = port(node)
    return [
        line("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(pid)),
        line("ip", "link", "set", end, "master", BRIDGE, "up"),
    ]


def port(node: int) -> str:
    """Return the interface of the bridge at which a node is connected."""
    return f"port-{node}"


def node(index: int, nodes: int) -> list[str]:
    """Return the commands for a further node's own namespace, when it has its cable."""
    others = (other for other in range(1, nodes) if other != index)
    return [
        line("ip", "link", "set", "lo", "up"),
        line("ip", "address", "add", f"{address(index)}/24", "dev", "eth0"),
        line("ip", "link", "set", "eth0", "up"),
        line("ip", "route", "add", "default", "via", GATEWAY),
        *(line("ip", "route", "add", pods(other), "via", address(other)) for other in others),
        _FORWARD,
    ]


def line(*argv: str) -> str:
    """Return a command as a line for a shell."""
    return shlex.join(argv)


def node_names(nodes: int) -> list[str]:
    """Return the names of the nodes."""
    return [node_name(index) for index in range(nodes)]


_FORWARD = "echo 1 > /proc/sys/net/ipv4/ip_forward"
