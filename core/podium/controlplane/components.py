"""Which programs a cluster consists of and the exact command line of each, as values to read and test.

Every path is relative to the cluster's own folder, which is each program's working folder and is readable by
its owner alone. etcd has no authentication of its own here, so it listens on sockets inside that folder and
never on a port; the other programs listen on 127.0.0.1.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec

from podium.controlplane.releases import RELEASES, Release

# Where things are inside a cluster's folder.
CERTIFICATES = "certificates"
SERVER_CERTIFICATE = (
    f"{CERTIFICATES}/apiserver.crt"  # written by kube-apiserver: its certificate, then the CA
)
AUTHORITY = f"{CERTIFICATES}/ca.crt"  # the CA alone
TOKENS = "tokens.csv"
SERVICE_ACCOUNT_KEY = "service-account.key"
# etcd before 3.7 refuses a socket whose name does not look like host:port.
ETCD_SOCKET = "etcd.sock:0"
_ETCD_PEER_SOCKET = "etcd-peer.sock:0"

# kube-controller-manager's own default is 20 requests a second: half a minute for a gang of 500 pods.
_CONTROLLER_MANAGER_QPS = 200
# kwok renews in a quarter of this; the node lifecycle controller gives a node up after 50 s.
_NODE_LEASE_SECONDS = 40


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster was asked to be and the ports it was given; does not change while it lives."""

    name: str
    kubernetes: str  # the minor
    workload_api: bool
    # True: kube-controller-manager, kube-scheduler and kwok run too. False: the API server alone.
    controllers: bool
    ports: dict[str, int]  # by component
    apiserver: tuple[str, ...] = ()  # further arguments of kube-apiserver, where a test asks for an audit log

    @property
    def release(self) -> Release:
        """The release of the minor."""
        return RELEASES[self.kubernetes]


class Component(NamedTuple):
    """One process of a cluster; the program is started with these arguments and no other."""

    name: str
    arguments: tuple[str, ...]


def names(*, controllers: bool) -> tuple[str, ...]:
    """The components in the order they start; each needs those before it."""
    server = ("etcd", "kube-apiserver")
    return (*server, "kube-controller-manager", "kube-scheduler", "kwok") if controllers else server


def listening(*, controllers: bool) -> tuple[str, ...]:
    """The components that need a port of their own."""
    return tuple(name for name in names(controllers=controllers) if name.startswith("kube-"))


def kubeconfig(component: str) -> str:
    """The file with a component's own credential."""
    return f"{component}.kubeconfig"


def log(component: str) -> str:
    """Where a component's output goes."""
    return f"logs/{component}.log"


def commands(settings: Settings, stages: Path) -> list[Component]:
    """The components of a cluster with their arguments; `stages` is kwok's configuration."""
    arguments = {
        "etcd": _etcd(),
        "kube-apiserver": _apiserver(settings),
        "kube-controller-manager": _controller_manager(settings),
        "kube-scheduler": _scheduler(settings),
        "kwok": _kwok(stages),
    }
    return [Component(name, arguments[name]) for name in names(controllers=settings.controllers)]


def _etcd() -> tuple[str, ...]:
    client, peer = f"unix://{ETCD_SOCKET}", f"unix://{_ETCD_PEER_SOCKET}"
    return (
        "--name=podium",
        "--data-dir=etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=podium={peer}",
        "--unsafe-no-fsync=true",  # this cluster's data need not survive a power cut
        "--log-level=warn",
    )


def _serving(settings: Settings, component: str) -> tuple[str, ...]:
    """Loopback only; the port is shared with the socket that reserved it until the program has bound it."""
    return (
        "--bind-address=127.0.0.1",
        f"--secure-port={settings.ports.get(component, 0)}",
        "--permit-port-sharing=true",
        f"--cert-dir={CERTIFICATES}",
    )


def _gates(settings: Settings) -> tuple[str, ...]:
    if not settings.workload_api:
        return ()
    return ("--feature-gates=" + ",".join(f"{gate}=true" for gate in settings.release.feature_gates),)


def _apiserver(settings: Settings) -> tuple[str, ...]:
    arguments = [
        f"--etcd-servers=unix://{ETCD_SOCKET}",
        *_serving(settings, "kube-apiserver"),
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # Endpoints may not hold a loopback address
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--anonymous-auth=false",
        f"--token-auth-file={TOKENS}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={SERVICE_ACCOUNT_KEY}",
        f"--service-account-key-file={SERVICE_ACCOUNT_KEY}",
        *_gates(settings),
    ]
    if settings.workload_api:
        versions = ",".join(f"{version}=true" for version in settings.release.workload_versions)
        arguments.append(f"--runtime-config={versions}")
    if not settings.controllers:
        # Nobody would make the default ServiceAccount or take the not-ready taint off a Node.
        arguments.append("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
    return (*arguments, *settings.apiserver)


def _controller_manager(settings: Settings) -> tuple[str, ...]:
    credential = kubeconfig("kube-controller-manager")
    return (
        f"--kubeconfig={credential}",
        f"--authentication-kubeconfig={credential}",
        f"--authorization-kubeconfig={credential}",
        *_serving(settings, "kube-controller-manager"),
        "--authentication-skip-lookup=true",  # the API server publishes no CA of clients, having none
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--root-ca-file={AUTHORITY}",
        f"--service-account-private-key-file={SERVICE_ACCOUNT_KEY}",
        "--flex-volume-plugin-dir=flexvolume",  # made when missing; the default is a system folder
        f"--kube-api-qps={_CONTROLLER_MANAGER_QPS}",
        f"--kube-api-burst={2 * _CONTROLLER_MANAGER_QPS}",
        *_gates(settings),
    )


def _scheduler(settings: Settings) -> tuple[str, ...]:
    credential = kubeconfig("kube-scheduler")
    return (
        f"--kubeconfig={credential}",
        f"--authentication-kubeconfig={credential}",
        f"--authorization-kubeconfig={credential}",
        *_serving(settings, "kube-scheduler"),
        "--authentication-skip-lookup=true",  # the API server publishes no CA of clients, having none
        "--leader-elect=false",
        *_gates(settings),
    )


def _kwok(stages: Path) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig('kwok')}",
        f"--config={stages}",
        "--manage-all-nodes=true",  # no node of this cluster is ever real
        f"--node-lease-duration-seconds={_NODE_LEASE_SECONDS}",
    )
