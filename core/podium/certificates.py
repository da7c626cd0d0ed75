"""The webhooks' certificates as values: making them, reading them, and saying why a pair cannot be served.

An API server believes a webhook by the caBundle alone, so a CA of our own is as good as any: it signs for one
purpose, lives next to its leaf, and is replaced as a matter of course. What must never happen is that a pair
that no client would accept takes the place of one that works; `check` is the one judge of that, for the pairs
we issue and for those that somebody else gives us.

Nothing here reads a clock, and keys come in. No text that these functions make holds a private key.
"""

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
    """A certificate with the key it belongs to, both PEM; what follows the leaf is its chain."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Without the key: a Pair may stand in a traceback."""
        return f"Pair({len(self.certificate)} bytes, key withheld)"


class Facts(NamedTuple):
    """What a client looks at in a leaf: `names` are its SANs, lower case; `fingerprint` is SHA-256, hex."""

    names: tuple[str, ...]
    start: datetime
    end: datetime
    fingerprint: str


def new_key() -> ec.EllipticCurvePrivateKey:
    """Give a fresh P-256 key: small, fast to sign with, and in every client."""
    return ec.generate_private_key(ec.SECP256R1())


def authority(key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime) -> Pair:
    """Give a CA that may sign leaves and no other CA, valid from start to end.

    Its name holds a piece of its key's digest: during a rotation two CAs stand in one bundle, and a client
    picks the issuer by name.
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
    """Give a serving certificate for DNS names and IP addresses, signed by the CA, never outliving it."""
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
    """Read the first certificate of a PEM file. Raises PodiumError for anything else."""
    return _facts(_certificates(certificate)[0])


def issuer(certificate: bytes, bundle: bytes) -> Facts | None:
    """Give the one of a bundle's CAs that signed a leaf, or a part of the chain after it; None if none did.

    Raises PodiumError for what is no certificate.
    """
    chain, authorities = _certificates(certificate), _certificates(bundle)
    signers = (ca for each in chain for ca in authorities if _signed(each, ca))
    found = next(signers, None)
    return None if found is None else _facts(found)


def lasts(bundle: bytes) -> datetime:
    """Give the moment at which the last of a bundle's CAs expires. Raises PodiumError for what is none."""
    return max(each.not_valid_after_utc for each in _certificates(bundle))


def check(pair: Pair, names: Iterable[str], now: datetime) -> Facts:
    """Give the facts of a pair that a client calling any of the names would accept now, the issuer apart.

    Raises PodiumError, saying what is wrong, for: no PEM, a key of another certificate, dates that do not
    hold now (of the chain too), a use other than serverAuth, a name that is missing, a broken chain.
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
        issuers = [each for each in chain if each.subject == certificate.issuer]
        if issuers and not any(_signed(certificate, each) for each in issuers):
            raise PodiumError(f"certificate {subject} is not signed by the issuer beside it")
    found = facts(pair.certificate)
    if not _serves(first):
        raise PodiumError("the certificate is not for servers: its extended key usage lacks serverAuth")
    missing = [name for name in names if not covers(found.names, name)]
    if missing:
        listed = ", ".join(found.names) or "none"
        raise PodiumError(
            f"the certificate is not for {', '.join(missing)}: its subject alternative names: {listed}"
        )
    return found


def issued(certificate: bytes, ca: bytes) -> bool:
    """Tell whether the first certificate of one PEM was signed by the first of another."""
    return _signed(_certificates(certificate)[0], _certificates(ca)[0])


def covers(names: Sequence[str], name: str) -> bool:
    """Tell whether SANs are good for a name: equal, or by a wildcard for the first label (RFC 6125)."""
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
    # The library's own words are not repeated: they may quote what they could not read.
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
    """Tell whether a certificate may stand for a server: it says so, or says nothing of its use."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.SERVER_AUTH in usage


def _builder(key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime) -> x509.CertificateBuilder:
    """Start a certificate; a key is used once, so its digest is as random a serial number as any."""
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
