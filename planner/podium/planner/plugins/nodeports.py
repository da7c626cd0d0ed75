"""The plugin NodePorts: the host ports that a pod takes on its node.

Source: NodePorts of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from podium.api.schedulable import Schedulable
from podium.planner.filters.counters import ExclusiveCounters, ExclusiveUseFilter
from podium.planner.framework import ChainContext, NodeFilter, Plugin
from podium.planner.shapes import PodNeed, Shape, ShapeContext, need_at
from podium.planner.snapshot import Snapshot

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a manifest's value; nothing is bound here


class HostPort(NamedTuple):
    """A host port that a pod takes; the address 0.0.0.0 takes it on all addresses."""

    protocol: str
    ip: str
    port: int


class PortNeed(PodNeed, frozen=True, cache_hash=True):
    """The host ports of a pod."""

    ports: tuple[HostPort, ...] = ()


class HostPortsFilter(ExclusiveUseFilter[HostPort]):
    """The nodes where the host ports of the pod are free.

    A port is taken by protocol, number and address. The address 0.0.0.0, or none, covers all addresses.
    """

    REASON = "node(s) didn't have free ports for the requested pod ports"

    def __init__(self, snapshot: Snapshot, needs: Callable[[Shape], PortNeed]) -> None:
        def ports(shape: Shape) -> tuple[HostPort, ...]:
            return needs(shape).ports

        super().__init__(ExclusiveCounters(snapshot, ports, _mark, ports_clash), ports)


class NodePortsPlugin(Plugin):
    """The filter on host ports of one snapshot."""

    JUDGES = "host ports"
    SPEC = ("containers", "initContainers", "hostNetwork")

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.needs: Callable[[Shape], PortNeed] = need_at(at)
        self._snapshot = snapshot

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> PortNeed:  # noqa: ARG002 - of all releases
        """Return the host ports of a pod."""
        return PortNeed(ports=host_ports(pod))

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:  # noqa: ARG002 - the same in all
        """Return NodePorts."""
        return (HostPortsFilter(self._snapshot, self.needs),)


def host_ports(pod: Schedulable) -> tuple[HostPort, ...]:
    """Return the host ports that a pod keeps; an init container that ends keeps none."""
    spec, ports = pod.spec, set[HostPort]()
    sidecars = (init for init in spec.initContainers or () if init.restartPolicy == "Always")
    for container in (*(spec.containers or ()), *sidecars):
        for port in container.ports or ():
            number = port.hostPort or (port.containerPort if spec.hostNetwork else None)
            if number is not None and number > 0:
                ports.add(HostPort(port.protocol or "TCP", port.hostIP or EVERY_ADDRESS, number))
    return tuple(sorted(ports))


def ports_clash(first: HostPort, second: HostPort) -> bool:
    """Return whether two pods on a node cannot have these ports."""
    same = (first.protocol, first.port) == (second.protocol, second.port)
    return same and (first.ip == second.ip or EVERY_ADDRESS in (first.ip, second.ip))


def _mark(port: HostPort) -> Hashable:
    return port.protocol, port.port
