"""TLS for serving: one context for the process' life, whose certificate can be replaced.

Loading a pair into a live SSLContext has two problems, both observed. A pair that does not match raises, and
leaves a context with which every further handshake fails. An RSA pair is added to an ECDSA pair instead of
replacing it, so the old certificate is still served. So the live context has no certificate. Each pair gets
its own context. When it is complete, the live context's SNI callback selects it for every later handshake;
OpenSSL calls that callback for clients without SNI too. Open connections keep their certificate.
"""

import asyncio
import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from podium.errors import PodiumError
from podium.kube.timeouts import within
from podium.webhooks import certificates
from podium.webhooks.certificates import Facts, Pair

_PROBE_SECONDS = 5.0


class Serving:
    """The certificate being served, and the clients that may send requests.

    `names` are the names that API servers use: a pair without all of them is refused. With `client_ca` (a PEM
    file, read again by `refresh_clients`) `accepts` requires a certificate of that CA. With `client_name` it
    requires one with that common name or DNS name. The handshake allows clients without a certificate: API
    servers send theirs to admission webhooks and never to conversion webhooks. Raises PodiumError when the
    file cannot be used.
    """

    def __init__(
        self, names: Sequence[str], *, client_ca: Path | None = None, client_name: str | None = None
    ) -> None:
        if client_name and not client_ca:
            raise PodiumError("a client name needs a client CA")
        self._names = tuple(names)
        self._client_ca = client_ca
        self._client_name = client_name
        self._authorities = _authorities(client_ca) if client_ca else ""
        self._pair: Pair | None = None
        self._facts: Facts | None = None
        self._current = self._new_context()
        self.context = self._new_context()
        self.context.sni_callback = self._choose

    @property
    def expiry(self) -> datetime | None:
        """Return when the served certificate expires; None before the first."""
        return self._facts.end if self._facts else None

    @property
    def fingerprint(self) -> str | None:
        """Return the SHA-256 of the served certificate in hex; None before the first."""
        return self._facts.fingerprint if self._facts else None

    def load(self, pair: Pair, now: datetime) -> bool:
        """Serve this pair from the next handshake on. Return False if it is served already.

        Raises PodiumError for a pair that clients would not accept; the former pair is then still served.
        """
        if pair == self._pair:
            return False
        facts = certificates.verify_pair(pair, self._names, now)
        self._current = self._complete(pair, self._authorities)
        self._pair, self._facts = pair, facts
        return True

    def refresh_clients(self) -> bool:
        """Read the client CA file again, and return whether it changed.

        Raises PodiumError when the file cannot be used; the last CA then stays.
        """
        if self._client_ca is None:
            return False
        authorities = _authorities(self._client_ca)
        if authorities == self._authorities:
            return False
        if self._pair:
            self._current = self._complete(self._pair, authorities)
        self._authorities = authorities
        return True

    def accepts(self, connection: ssl.SSLObject) -> bool:
        """Return whether the client of a finished handshake may send admission reviews."""
        if self._client_ca is None:
            return True
        peer = connection.getpeercert() or {}
        if self._client_name is None:
            # With a certificate of another CA the handshake would have failed.
            return bool(peer)
        # The ssl module documents tuples of tuples of pairs, but its types are a union of all fields.
        subject = [pair for rdn in peer.get("subject", ()) for pair in rdn]
        named = [("commonName", self._client_name), ("DNS", self._client_name)]
        return any(pair in named for pair in [*subject, *peer.get("subjectAltName", ())])

    def _choose(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._current

    def _complete(self, pair: Pair, authorities: str) -> ssl.SSLContext:
        context = self._new_context()
        try:
            if authorities:
                context.load_verify_locations(cadata=authorities)
            with _path(pair.certificate) as certificate, _path(pair.key) as key:
                context.load_cert_chain(certificate, key)
        except ssl.SSLError as error:
            # The text has a library and a reason ("ee key too small"), never content of the files.
            raise PodiumError(
                f"the certificate cannot be served: {error.reason or 'not understood'}"
            ) from None
        return context

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL
            # A resumed session is not verified again, so it would outlive the client CA.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context


async def serves(address: tuple[str, int], bundle: bytes, name: str) -> bool:
    """Return whether the server at an address has a certificate for the name, signed by the bundle.

    False without an answer in 5 s. A server that requires a client certificate sends its own first (TLS 1.3).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=bundle.decode("ascii"))
    try:
        await within(_PROBE_SECONDS, _shake_hands(address, context, name))
    except (OSError, TimeoutError):  # ssl.SSLError is an OSError
        return False
    return True


async def _shake_hands(address: tuple[str, int], context: ssl.SSLContext, name: str) -> None:
    """Make a TLS connection, and end it at once.

    `open_connection` with TLS leaves the connection open if it is cancelled just after the handshake.
    """
    _, writer = await asyncio.open_connection(*address)
    try:
        await writer.start_tls(context, server_hostname=name)
    finally:
        writer.transport.abort()


def _authorities(path: Path) -> str:
    """Return the PEM certificates in a file, to verify client certificates with."""
    try:
        body = path.read_bytes()
        certificates.facts(body)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=body.decode("ascii"))
    except OSError as error:
        raise PodiumError(f"{path}: {error.strerror or 'not understood'}") from None
    except UnicodeDecodeError:
        raise PodiumError(f"{path}: not PEM") from None
    except PodiumError as error:
        raise PodiumError(f"{path}: {error}") from None
    return body.decode("ascii")


@contextlib.contextmanager
def _path(content: bytes) -> Iterator[str]:
    """Yield a path to the content, because OpenSSL loads only from files; in memory if the system can."""
    with contextlib.ExitStack() as stack:
        if sys.platform == "linux":
            file = stack.enter_context(os.fdopen(os.memfd_create("podium"), "w+b"))
        else:
            file = stack.enter_context(tempfile.TemporaryFile())
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"
