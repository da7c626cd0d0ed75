"""Certificates for tests, good and bad, and a real client's judgement of a server's."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old-ca" if issuer is None else NAME)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if issuer is None else x509.load_pem_x509_certificate(issuer.certificate).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - HOUR)
        .not_valid_after(now() + 20 * HOUR)
    )
    if issuer is None:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=False)
    else:
        names = [certificates._alternative(each) for each in NAMES]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signer = key if issuer is None else serialization.load_pem_private_key(issuer.key, password=None)
    made = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(made.public_bytes(serialization.Encoding.PEM), private)


def rsa_leaf(ca: Pair, *, use: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.SERVER_AUTH) -> Pair:
    """A pair with an RSA key, as cert-manager makes by default; `use` is its extended key usage."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    issuer = x509.load_pem_x509_certificate(ca.certificate)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api-server")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - HOUR)
        .not_valid_after(now() + 20 * HOUR)
        .add_extension(
            x509.SubjectAlternativeName([certificates._alternative(each) for each in NAMES]), False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), False)  # type: ignore[arg-type]
    )
    if use is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), False)
    signer = serialization.load_pem_private_key(ca.key, password=None)
    made = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return Pair(made.public_bytes(pem), private)


def write(folder: Path, pair: Pair) -> None:
    """Return the pair as tls.crt and tls.key."""
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
