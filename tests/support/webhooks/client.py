"""A server in a thread, and clients on raw sockets that send any bytes at any time.

The server runs on its own event loop, asyncio's or uvloop's. So a test is a plain script of the clients'
actions, and a client that blocks does not affect the others.
"""

import asyncio
import concurrent.futures
import datetime as dt
import functools
import ipaddress
import logging
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import structlog
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.waiting import PATIENCE_SECONDS

from podium.runtime.host import listen
from podium.runtime.messages import REFUSALS, Limits, Load, Route, Tally
from podium.runtime.server import HTTPServer

ADDRESS = "127.0.0.1"
# No step takes a second; the machine may be busy.
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes


@functools.cache
def certificate() -> bytes:
    """Make a temporary key and certificate for loopback, as one PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "throwaway")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(serialization.Encoding.PEM)


def server_context() -> ssl.SSLContext:
    """Return a context with the temporary certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pair.pem"
        file.write_bytes(certificate())
        context.load_cert_chain(file)
    return context


@functools.cache
def client_context() -> ssl.SSLContext:
    """Return a context that requests no client certificate: each process makes its own certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def restored_logs() -> Iterator[None]:
    """Let a test configure the logs of the process, and undo it."""
    root = logging.getLogger()
    before, handlers, level = structlog.get_config(), list(root.handlers), root.level
    try:
        yield
    finally:
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)


def post(path: str, body: bytes = b"{}", **fields: str) -> bytes:
    """Write a request as an API server does; `fields` replace its header fields."""
    review = {
        "Host": "podium",
        "Content_Type": "application/json",
        "Content_Length": str(len(body)),
        "Accept": "application/json, */*",
    } | fields
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in review.items() if value)
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class Peer:
    """A connection to a server under test."""

    def __init__(self, port: int, *, tls: bool = True) -> None:
        self._socket = socket.create_connection((ADDRESS, port), timeout=PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.secure()
        self._read = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def secure(self) -> None:
        """Start TLS on a plain connection."""
        self._socket = client_context().wrap_socket(self._socket)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> Answer:
        """Read one response; raise EOFError if the server closes before it is complete."""
        head = self._until(lambda read: read.find(b"\r\n\r\n") + 1)
        first, *lines = head.decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        del self._read[: len(head) + 3]
        length = int(headers.get("Content-Length", 0))
        body = self._until(lambda read: length if len(read) >= length else 0) if length else b""
        del self._read[:length]
        return Answer(int(first.split(" ")[1]), headers, body)

    def ask(self, request: bytes) -> Answer:
        self.send(request)
        return self.answer()

    def _until(self, enough: Callable[[bytearray], int]) -> bytes:
        while not (count := enough(self._read)):
            piece = self._socket.recv(65536)
            if not piece:
                raise EOFError(f"closed after {self._read!r}")
            self._read += piece
        return bytes(self._read[:count])

    @property
    def closed(self) -> bool:
        """Wait until the server closes or resets; return False if it sends data instead."""
        try:
            self._read += self._socket.recv(65536)
        except (ConnectionError, ssl.SSLError):
            return True
        return not self._read


class Served:
    """A server that runs in a thread; `refusals` are the counted refusals with their status."""

    def __init__(
        self,
        server: HTTPServer,
        loop: asyncio.AbstractEventLoop,
        refusals: list[tuple[int, str]],
        *,
        tls: bool,
    ) -> None:
        self.server = server
        self.refusals = refusals
        self._loop = loop
        self._tls = tls

    def start(self, work: Coroutine[Any, Any, Any]) -> "concurrent.futures.Future[Any]":
        """Start a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def soon(self, call: Callable[[], object]) -> None:
        """Call a function on the server's loop."""
        self._loop.call_soon_threadsafe(call)

    def peer(self, *, tls: bool | None = None) -> Peer:
        return Peer(self.server.port, tls=self._tls if tls is None else tls)

    @property
    def refuses_connections(self) -> bool:
        """Return whether no server listens; the connection of the check is closed."""
        try:
            socket.create_connection((ADDRESS, self.server.port), timeout=PATIENCE_SECONDS).close()
        except ConnectionRefusedError:
            return True
        return False

    def until(self, condition: Callable[["Served"], bool], what: str) -> None:
        """Wait for a condition that the server must bring about."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(self):
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            time.sleep(0.005)


@contextmanager
def serving(
    routes: Mapping[str, Route],
    limits: Limits = Limits(),  # noqa: B008 - immutable
    *,
    loop: str = "uvloop",
    tls: bool = True,
    accepts: Callable[[ssl.SSLObject], bool] | None = None,
    tally: Tally = lambda _why: None,
) -> Iterator[Served]:
    """Serve routes until the context ends; then no request may be in progress."""
    refusals: list[tuple[int, str]] = []

    def refused(why: str) -> None:
        refusals.append((REFUSALS[why], why))
        tally(why)

    server = HTTPServer(
        routes,
        limits,
        refused,
        context=server_context() if tls else None,
        accepts=accepts,
    )
    runner = asyncio.Runner(loop_factory=LOOPS[loop])
    thread = threading.Thread(target=runner.get_loop().run_forever)
    thread.start()
    served = Served(server, runner.get_loop(), refusals, tls=tls)
    try:
        served.start(server.start(listen(ADDRESS, 0))).result(PATIENCE_SECONDS)
        yield served
    finally:
        served.start(server.close()).result(PATIENCE_SECONDS)
        served.soon(runner.get_loop().stop)
        thread.join()
        runner.close()
    assert (vars(server.load), server.connections) == (vars(Load()), 0)
