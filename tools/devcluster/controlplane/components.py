"""The programs of a cluster and the exact command line of each, as values to read and test.

Every path is relative to the cluster's own folder. The folder is each program's working directory, and only
its owner can read it. etcd has no authentication here, so it listens on sockets inside that folder and never
on a port; the other programs listen on 127.0.0.1.
"""

from pathlib import Path

import msgspec
from tools.devcluster.controlplane.releases import BUILDABLE, Release

# The configuration of kwok.
STAGES = Path(__file__).with_name("kwok") / "stages.yaml"

# Paths inside a cluster's folder.
CERTIFICATES = "certificates"
SERVER_CERTIFICATE = (
    f"{CERTIFICATES}/apiserver.crt"  # Written by kube-apiserver: its certificate, then the CA.
)
AUTHORITY = f"{CERTIFICATES}/ca.crt"  # the CA alone
TOKENS = "tokens.csv"
SERVICE_ACCOUNT_KEY = "service-account.key"
# etcd before 3.7 refuses a socket whose name does not look like host:port.
ETCD_SOCKET = "etcd.sock:0"
_ETCD_PEER_SOCKET = "etcd-peer.sock:0"

# kube-controller-manager's own default is 20 requests a second: half a minute for a gang of 500 pods.
_CONTROLLER_MANAGER_QPS = 200
# kwok renews after a quarter of this time; the node lifecycle controller marks a node unready after 50 s.
_NODE_LEASE_SECONDS = 40


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The requested properties of a cluster and its ports; they never change."""

    name: str
    kubernetes: str  # the minor
    workload_api: bool
    # True: kube-controller-manager, kube-scheduler and kwok run too. False: the API server alone.
    controllers: bool
    ports: dict[str, int]  # by component
    real_nodes: int = 0  # Nodes with a kubelet each; 0 if kwok's fake nodes are the nodes.
    apiserver: tuple[str, ...] = ()  # Further arguments of kube-apiserver, for tests that need an audit log.

    @property
    def release(self) -> Release:
        """Return the release of the minor."""
        return BUILDABLE[self.kubernetes]


def names(*, controllers: bool) -> tuple[str, ...]:
    """Return the components in starting order; each needs those before it."""
    server = ("etcd", "kube-apiserver")
    return (*server, "kube-controller-manager", "kube-scheduler", "kwok") if controllers else server


def listening(*, controllers: bool) -> tuple[str, ...]:
    """Return the components that need a port of their own."""
    return tuple(name for name in names(controllers=controllers) if name.startswith("kube-"))


def kubeconfig(component: str) -> str:
    """Return the file with a component's own credential."""
    return f"{component}.kubeconfig"


def log(component: str) -> str:
    """Return the file with a component's output."""
    return f"logs/{component}.log"


def commands(settings: ClusterSettings, stages: Path = STAGES) -> dict[str, tuple[str, ...]]:
    """Return the exact arguments of each component of a cluster; `stages` is kwok's configuration."""
    arguments = {
        "etcd": _etcd(),
        "kube-apiserver": _apiserver(settings),
        "kube-controller-manager": _controller_manager(settings),
        "kube-scheduler": _client(settings, "kube-scheduler"),
        "kwok": _kwok(stages),
    }
    return {name: arguments[name] for name in names(controllers=settings.controllers)}


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
        "--unsafe-no-fsync=true",  # This cluster's data need not survive a power failure.
        "--log-level=warn",
    )


def _serving(settings: ClusterSettings, component: str) -> tuple[str, ...]:
    """Return the arguments for serving on loopback.

    The port is shared with the socket that reserved it until the program has bound it.
    """
    return (
        "--bind-address=127.0.0.1",
        f"--secure-port={settings.ports.get(component, 0)}",
        "--permit-port-sharing=true",
        f"--cert-dir={CERTIFICATES}",
    )


def _gates(settings: ClusterSettings) -> tuple[str, ...]:
    if not settings.workload_api:
        return ()
    return ("--feature-gates=" + ",".join(f"{gate}=true" for gate in settings.release.feature_gates),)


def _apiserver(settings: ClusterSettings) -> tuple[str, ...]:
    arguments = [
        f"--etcd-servers=unix://{ETCD_SOCKET}",
        *_serving(settings, "kube-apiserver"),
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # Endpoints may not hold a loopback address.
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
        # No controller would create the default ServiceAccount or remove the not-ready taint from a Node.
        arguments.append("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
    return (*arguments, *settings.apiserver)


def _client(settings: ClusterSettings, component: str) -> tuple[str, ...]:
    """Return the arguments of a client of the API server that serves, too."""
    credential = kubeconfig(component)
    return (
        f"--kubeconfig={credential}",
        f"--authentication-kubeconfig={credential}",
        f"--authorization-kubeconfig={credential}",
        *_serving(settings, component),
        "--authentication-skip-lookup=true",  # The API server publishes no client CA, because it has none.
        "--leader-elect=false",
        *_gates(settings),
    )


def _controller_manager(settings: ClusterSettings) -> tuple[str, ...]:
    return (
        *_client(settings, "kube-controller-manager"),
        "--use-service-account-credentials=true",
        f"--root-ca-file={AUTHORITY}",
        f"--service-account-private-key-file={SERVICE_ACCOUNT_KEY}",
        "--flex-volume-plugin-dir=flexvolume",  # Created if missing; the default is a system folder.
        f"--kube-api-qps={_CONTROLLER_MANAGER_QPS}",
        f"--kube-api-burst={2 * _CONTROLLER_MANAGER_QPS}",
    )


def _kwok(stages: Path) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig('kwok')}",
        f"--config={stages}",
        "--manage-all-nodes=true",  # Every node of this cluster is fake.
        f"--node-lease-duration-seconds={_NODE_LEASE_SECONDS}",
    )
