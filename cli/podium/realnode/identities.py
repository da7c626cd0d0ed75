"""The credentials of a cluster of real nodes, as files: certificates, and a token for each client.

They extend podium.controlplane.credentials by the identities of kubelets and of kube-proxy.
"""

from pathlib import Path

from podium.controlplane import credentials
from podium.controlplane.components import AUTHORITY, CERTIFICATES, SERVER_CERTIFICATE, ClusterSettings, log
from podium.controlplane.nodes import node_name
from podium.realnode import network, nodefiles, pki
from podium.realnode.pki import Issued

# The administrator's kubeconfig with the API server's address in the cluster's network.
INSIDE = "inside.kubeconfig"
_PROXY = "kube-proxy"
_CLIENT = f"{CERTIFICATES}/kubelet-client"

# Further arguments of kube-apiserver; the last of two equal flags counts.
APISERVER = (
    "--bind-address=0.0.0.0",
    f"--advertise-address={network.GATEWAY}",
    "--endpoint-reconciler-type=lease",
    f"--service-cluster-ip-range={network.SERVICES}",
    f"--client-ca-file={AUTHORITY}",
    f"--kubelet-client-certificate={_CLIENT}.crt",
    f"--kubelet-client-key={_CLIENT}.key",
    f"--kubelet-certificate-authority={AUTHORITY}",
    "--kubelet-preferred-address-types=InternalIP",
    "--authorization-mode=Node",  # RBAC is there: a list gets longer.
    "--enable-admission-plugins=NodeRestriction",
)


def write(folder: Path, nodes: int) -> None:
    """Create the credentials of a new cluster in `folder`."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / CERTIFICATES).mkdir(exist_ok=True)
    (folder / log("")).parent.mkdir(exist_ok=True)
    now = pki.now()
    ca = pki.authority(now)
    server = pki.apiserver(ca, now)
    # kube-apiserver uses the pair that it finds under the name of its own. The CA follows, as in that.
    credentials.write_private(folder / SERVER_CERTIFICATE, server.pem() + ca.pem())
    credentials.write_private((folder / SERVER_CERTIFICATE).with_suffix(".key"), server.key_pem())
    credentials.write_private(folder / AUTHORITY, ca.pem())
    _write_pair(folder / _CLIENT, pki.apiserver_client(ca, now))
    for index in range(nodes):
        _write_pair(folder / CERTIFICATES / node_name(index), pki.kubelet(ca, index, now))
    kubelets = {
        _kubelet(index): (f"system:node:{node_name(index)}", ("system:nodes",)) for index in range(nodes)
    }
    credentials.write(folder, {_PROXY: ("system:kube-proxy", ()), **kubelets})


def write_inside(folder: Path, settings: ClusterSettings) -> None:
    """Write the administrator's kubeconfig for use in the cluster's network."""
    credentials.write_private(folder / INSIDE, _kubeconfig(folder, settings, credentials.ADMIN))


def node_files(folder: Path, settings: ClusterSettings, node: int) -> dict[str, str]:
    """Return a node's credentials: path below the root of its file system, and text."""
    pair = folder / CERTIFICATES / node_name(node)
    place = str(nodefiles.CREDENTIALS).removeprefix("/")
    return {
        f"{place}/ca.crt": (folder / AUTHORITY).read_text(encoding="ascii"),
        f"{place}/kubelet.crt": pair.with_suffix(".crt").read_text(encoding="ascii"),
        f"{place}/kubelet.key": pair.with_suffix(".key").read_text(encoding="ascii"),
        f"{place}/kubelet.kubeconfig": _kubeconfig(folder, settings, _kubelet(node)),
        f"{place}/kube-proxy.kubeconfig": _kubeconfig(folder, settings, _PROXY),
    }


def _kubeconfig(folder: Path, settings: ClusterSettings, user: str) -> str:
    return credentials.kubeconfig(
        cluster=settings.name,
        user=user,
        url=f"https://{network.GATEWAY}:{settings.ports['kube-apiserver']}",
        token=credentials.tokens(folder)[user],
        authority=(folder / AUTHORITY).read_text(encoding="ascii"),
    )


def _kubelet(node: int) -> str:
    return f"kubelet-{node_name(node)}"


def _write_pair(path: Path, issued: Issued) -> None:
    credentials.write_private(path.with_suffix(".crt"), issued.pem())
    credentials.write_private(path.with_suffix(".key"), issued.key_pem())
