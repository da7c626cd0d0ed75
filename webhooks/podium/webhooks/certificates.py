"""The webhooks' certificates as values: create them, read them, and say why a pair cannot be served.

An API server trusts a webhook by the caBundle alone, so a CA of our own is sufficient. The CA signs for one
purpose, is stored next to its leaf, and is replaced routinely. A pair that no client accepts must never
replace a pair that works. `check` alone decides that, for the pairs that Podium issues and for those that a
user supplies.

Nothing here reads a clock, and keys are arguments. No text that these functions create contains a private
key.
"""

import contextlib
import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podium.errors import PodiumError

# A bundle or chain has a handful of certificates of about 1 KB each.
LONGEST = 256 * 1024


class Pair(NamedTuple):
    """A certificate and its private key, both PEM; the certificates after the leaf are its chain."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Return a text without the key, because a traceback may show a Pair."""
        return f"Pair({len(self.certificate)} bytes, key withheld)"


class Facts(NamedTuple):
    """The properties of a leaf that a client checks.

    `names` are its SANs in lower case; `fingerprint` is SHA-256 in hex.
    """

    names: tuple[str, ...]
    start: datetime
    end: datetime
    fingerprint: str


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new P-256 key: small, fast to sign with, and supported by every client."""
    return ec.generate_private_key(ec.SECP256R1())


def authority(key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime) -> Pair:
    """Return a CA that may sign leaves but no other CA, valid from start to end.

    Its name contains a part of its key's digest. During a rotation one bundle holds two CAs, and a client
    selects the issuer by name.
    """
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    name = _name(f"podium-webhook-ca-{identifier.digest.hex()[:12]}")
    builder = (
        _builder(key, start, end)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def leaf(
    ca: Pair, key: ec.EllipticCurvePrivateKey, names: Iterable[str], start: datetime, end: datetime
) -> Pair:
    """Return a serving certificate for DNS names and IP addresses, signed by the CA.

    It expires no later than the CA.
    """
    issuer, signer = _certificates(ca.certificate)[0], _key(ca.key)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    public = issuer.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    builder = (
        _builder(key, start, min(end, issuer.not_valid_after_utc))
        .subject_name(_name("podium-webhook"))
        .issuer_name(issuer.subject)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    )
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def facts(certificate: bytes) -> Facts:
    """Return the facts of the first certificate in a PEM file. Raises PodiumError if there is none."""
    return _facts(_certificates(certificate)[0])


def issuer(certificate: bytes, bundle: bytes) -> Facts | None:
    """Return the CA of a bundle that signed a leaf or a later part of its chain, or None if none did.

    Raises PodiumError if either text is not a PEM certificate.
    """
    chain, authorities = _certificates(certificate), _certificates(bundle)
    signers = (ca for link in chain for ca in authorities if _signed(link, ca))
    signer = next(signers, None)
    return None if signer is None else _facts(signer)


def lasts(bundle: bytes) -> datetime:
    """Return the time at which the last CA of a bundle expires. Raises PodiumError for an invalid bundle."""
    return max(ca.not_valid_after_utc for ca in _certificates(bundle))


def valid(bundles: Iterable[bytes], now: datetime) -> bytes:
    """Return the certificates of several bundles that are valid now, each once.

    A bundle that cannot be read is left out.
    """
    kept: dict[bytes, None] = {}
    for bundle in bundles:
        with contextlib.suppress(PodiumError):
            for certificate in _certificates(bundle):
                if certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
                    kept[certificate.public_bytes(serialization.Encoding.PEM)] = None
    return b"".join(kept)


def verify_pair(pair: Pair, names: Iterable[str], now: datetime) -> Facts:
    """Return the facts of a pair that a client calling any of the names would accept now, the issuer apart.

    Raises PodiumError with the reason for: no PEM, a key of another certificate, or dates that do not hold
    now (of the chain too). Further reasons are a use other than serverAuth, a missing name, and a broken
    chain.
    """
    chain = _certificates(pair.certificate)
    first = chain[0]
    if first.public_key() != _key(pair.key).public_key():
        raise PodiumError("the key does not belong to the certificate")
    for certificate in chain:
        subject = certificate.subject.rfc4514_string() or f"number {certificate.serial_number:x}"
        if now < certificate.not_valid_before_utc:
            raise PodiumError(
                f"certificate {subject} is not valid before {certificate.not_valid_before_utc:%FT%TZ}"
            )
        if now >= certificate.not_valid_after_utc:
            raise PodiumError(f"certificate {subject} expired at {certificate.not_valid_after_utc:%FT%TZ}")
        issuers = [link for link in chain if link.subject == certificate.issuer]
        if issuers and not any(_signed(certificate, link) for link in issuers):
            raise PodiumError(f"certificate {subject} is not signed by the issuer beside it")
    leaf_facts = facts(pair.certificate)
    if not _serves(first):
        raise PodiumError("the certificate is not for servers: its extended key usage lacks serverAuth")
    missing = [name for name in names if not covers(leaf_facts.names, name)]
    if missing:
        listed = ", ".join(leaf_facts.names) or "none"
        raise PodiumError(
            f"the certificate is not for {', '.join(missing)}: its subject alternative names: {listed}"
        )
    return leaf_facts


def issued(certificate: bytes, ca: bytes) -> bool:
    """Return whether the first certificate of one PEM was signed by the first of another."""
    return _signed(_certificates(certificate)[0], _certificates(ca)[0])


def covers(names: Sequence[str], name: str) -> bool:
    """Return whether SANs match a name: equal, or by a wildcard for the first label (RFC 6125)."""
    name = name.lower()
    try:
        return str(ipaddress.ip_address(name)) in names
    except ValueError:
        _, dot, parent = name.partition(".")
        return name in names or (bool(dot) and f"*.{parent}" in names)


def _facts(certificate: x509.Certificate) -> Facts:
    try:
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        san = x509.SubjectAlternativeName([])
    except ValueError as error:
        raise PodiumError(f"the certificate's extensions cannot be read: {error}") from None
    names = [name.lower() for name in san.get_values_for_type(x509.DNSName)]
    names += [str(address) for address in san.get_values_for_type(x509.IPAddress)]
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    return Facts(tuple(names), certificate.not_valid_before_utc, certificate.not_valid_after_utc, fingerprint)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    if len(pem) > LONGEST:
        raise PodiumError(f"the certificate file is longer than {LONGEST} bytes")
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise PodiumError("no PEM certificate can be read") from None


def _key(pem: bytes) -> PrivateKeyTypes:
    # The library's message is not repeated: it may quote the input that it could not parse.
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise PodiumError("the private key has a password; give it without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise PodiumError("no PEM private key can be read") from None


def _signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _serves(certificate: x509.Certificate) -> bool:
    """Return whether a certificate may identify a server: its key usage says so, or it has none."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.SERVER_AUTH in usage


def _builder(key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime) -> x509.CertificateBuilder:
    """Return a builder; a key is used once, so its digest is as random a serial number as any."""
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(int.from_bytes(identifier.digest) >> 1)
        .not_valid_before(start)
        .not_valid_after(max(end, start + timedelta(seconds=1)))
        .add_extension(identifier, critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if not name.isascii():
            raise PodiumError(f"host name {name}: write it in its ASCII form (xn--...)") from None
        return x509.DNSName(name.lower())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(pem), private)
