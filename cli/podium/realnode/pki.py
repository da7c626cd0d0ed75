"""The certificates of a cluster of real nodes: a CA, kube-apiserver's two, and one for each kubelet.

kube-apiserver calls kubelets for logs and has only a certificate to prove who it is. All other clients have
tokens, as those of a cluster of fake nodes.
"""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podium.controlplane.nodes import node_name
from podium.realnode import network

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


def authority(now: datetime) -> Issued:
    """Return a new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("podium-cluster", ())
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
    if names := [_alternative(each) for each in subjects]:
        extensions.append((x509.SubjectAlternativeName(names), False))
    signer = _Signer(ca.certificate.subject, ca.key)
    return Issued(_signed(key, _name(name, groups), signer, now, extensions), key)


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


def _name(name: str, groups: Iterable[str]) -> x509.Name:
    # Kubernetes reads a user from the common name and the groups from the organizations.
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def now() -> datetime:
    """Return the time now."""
    return datetime.now(UTC)
