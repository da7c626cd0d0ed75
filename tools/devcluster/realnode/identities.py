"""The credentials of a cluster of real nodes, as files: certificates, and a token for each client.

They extend the module `credentials` by a CA, and by the identities of kubelets and of kube-proxy.
kube-apiserver calls kubelets for logs and has only a certificate to prove who it is. All other clients have
tokens, as those of a cluster of fake nodes.
"""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tools.devcluster.controlplane import credentials
from tools.devcluster.controlplane.components import (
    AUTHORITY,
    CERTIFICATES,
    SERVER_CERTIFICATE,
    ClusterSettings,
    log,
)
from tools.devcluster.controlplane.nodes import node_name
from tools.devcluster.realnode import network, nodefiles

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

_VALID = timedelta(days=30)
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")


class Issued(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> str:
        """Return the certificate as PEM."""
        return self.certificate.public_bytes(Encoding.PEM).decode("ascii")

    def key_pem(self) -> str:
        """Return the private key as PEM."""
        encoded = self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        return encoded.decode("ascii")


class _Signer(NamedTuple):
    name: x509.Name
    key: ec.EllipticCurvePrivateKey


def write(folder: Path, nodes: int) -> None:
    """Create the credentials of a new cluster in `folder`."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / CERTIFICATES).mkdir(exist_ok=True)
    (folder / log("")).parent.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    ca = authority(now)
    server = apiserver(ca, now)
    # kube-apiserver uses the pair that it finds under the name of its own. The CA follows, as in that.
    credentials.write_private(folder / SERVER_CERTIFICATE, server.pem() + ca.pem())
    credentials.write_private((folder / SERVER_CERTIFICATE).with_suffix(".key"), server.key_pem())
    credentials.write_private(folder / AUTHORITY, ca.pem())
    _write_pair(folder / _CLIENT, apiserver_client(ca, now))
    for index in range(nodes):
        _write_pair(folder / CERTIFICATES / node_name(index), kubelet(ca, index, now))
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


def authority(now: datetime) -> Issued:
    """Return a new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _x509_name("podium-cluster", ())
    return Issued(_signed(key, name, _Signer(name, key), now, [(_usage(ca=True), True)]), key)


def apiserver(ca: Issued, now: datetime) -> Issued:
    """Return kube-apiserver's certificate, for every name and address under which it is called."""
    addresses = (network.GATEWAY, network.SERVICE_OF_API, "127.0.0.1")
    return _leaf(ca, "kube-apiserver", (), [*_SERVICE_NAMES, *addresses], now)


def apiserver_client(ca: Issued, now: datetime) -> Issued:
    """Return the certificate with which kube-apiserver calls kubelets."""
    return _leaf(ca, "kube-apiserver-kubelet-client", ("system:masters",), (), now)


def kubelet(ca: Issued, node: int, now: datetime) -> Issued:
    """Return a kubelet's certificate."""
    return _leaf(ca, node_name(node), (), [node_name(node), network.address(node)], now)


def _leaf(ca: Issued, name: str, groups: Iterable[str], subjects: Iterable[str], now: datetime) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (_usage(ca=False), True),
        (x509.ExtendedKeyUsage(purposes), False),
    ]
    if names := [_alternative(subject) for subject in subjects]:
        extensions.append((x509.SubjectAlternativeName(names), False))
    signer = _Signer(ca.certificate.subject, ca.key)
    return Issued(_signed(key, _x509_name(name, groups), signer, now, extensions), key)


def _signed(
    key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    signer: _Signer,
    now: datetime,
    extensions: Iterable[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    issuing = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())
    is_ca = subject == signer.name
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None), critical=True)
        .add_extension(own, critical=False)
        .add_extension(issuing, critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer.key, hashes.SHA256())


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _x509_name(name: str, groups: Iterable[str]) -> x509.Name:
    # Kubernetes reads a user from the common name and the groups from the organizations.
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
