"""Certificates for tests, good and bad, and a real client's judgement of a server's."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podium.webhooks import certificates
from podium.webhooks.certificates import Pair
from podium.webhooks.tls import Serving

NAME = "podium-webhook.podium-system.svc"
NAMES = (NAME, "127.0.0.1")
HOUR = timedelta(hours=1)


def now() -> datetime:
    return datetime.now(UTC)


def authority() -> Pair:
    """A CA created an hour ago and valid for a day."""
    return certificates.authority(certificates.new_key(), now() - HOUR, now() + 24 * HOUR)


def leaf(
    ca: Pair, names: tuple[str, ...] = NAMES, *, start: timedelta = -HOUR, end: timedelta = 20 * HOUR
) -> Pair:
    return certificates.leaf(ca, certificates.new_key(), names, now() + start, now() + end)


def sparse(*, issuer: Pair | None = None) -> Pair:
    """Return an old CA, or a leaf that it signed, with no extension beyond what Go's verification needs.

    A CA has no keyUsage and no subjectKeyIdentifier, and its basicConstraints are not critical. A leaf has no
    authorityKeyIdentifier. Python's VERIFY_X509_STRICT refuses each of the four.
    """
    key = certificates.new_key()
    extension = x509.BasicConstraints(ca=True, path_length=None) if issuer is None else _alternatives()
    return _signed(key, "old-ca" if issuer is None else NAME, issuer, [extension], _PKCS8)


def rsa_leaf(ca: Pair, *, use: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.SERVER_AUTH) -> Pair:
    """A pair with an RSA key, as cert-manager makes by default; `use` is its extended key usage."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    issuer = x509.load_pem_x509_certificate(ca.certificate).public_key()
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer)  # type: ignore[arg-type]
    usage = [] if use is None else [x509.ExtendedKeyUsage([use])]
    extensions = [_alternatives(), identifier, *usage]
    return _signed(key, "api-server", ca, extensions, serialization.PrivateFormat.TraditionalOpenSSL)


_PKCS8 = serialization.PrivateFormat.PKCS8


def _alternatives() -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([certificates._alternative(name) for name in NAMES])


def _signed(
    key: Any,
    subject: str,
    ca: Pair | None,
    extensions: Sequence[x509.ExtensionType],
    private: serialization.PrivateFormat,
) -> Pair:
    """Return a pair that a CA, or its own key, signed; no extension is critical."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if ca is None else x509.load_pem_x509_certificate(ca.certificate).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - HOUR)
        .not_valid_after(now() + 20 * HOUR)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    signer = key if ca is None else serialization.load_pem_private_key(ca.key, password=None)
    pem = serialization.Encoding.PEM
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(pem)  # type: ignore[arg-type]
    return Pair(certificate, key.private_bytes(pem, private, serialization.NoEncryption()))


def write(folder: Path, pair: Pair) -> None:
    """Write the pair as tls.crt and tls.key."""
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


@contextlib.asynccontextmanager
async def listening(serving: Serving) -> AsyncIterator[int]:
    """Yield the port of a server that answers each line with the client's names, or "refused"."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.readline():
                accepted = serving.accepts(writer.get_extra_info("ssl_object"))
                writer.write(b"welcome\n" if accepted else b"refused\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving.context)
    async with server:
        yield server.sockets[0].getsockname()[1]


def client(
    bundle: bytes, pair: Path | None = None, *, version: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    """A client that trusts the bundle and may have a certificate in a folder."""
    context = ssl.create_default_context(cadata=bundle.decode())
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if pair is not None:
        context.load_cert_chain(pair / "tls.crt", pair / "tls.key")
    return context


async def ask(port: int, context: ssl.SSLContext, *, name: str = NAME) -> tuple[str, str]:
    """Connect and send a line; return the answer and the fingerprint of the server's certificate.

    Raises OSError.
    """
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=name, ssl_handshake_timeout=20
    )
    try:
        writer.write(b"hello\n")
        body = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        fingerprint = x509.load_der_x509_certificate(body).fingerprint(hashes.SHA256()).hex()
        return (await reader.readline()).decode().strip(), fingerprint
    finally:
        writer.transport.abort()
