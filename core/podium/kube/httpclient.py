"""Persistent HTTP/1.1 connections for writes, with llhttp (through aiohttp) as the parser and nothing else.

A scheduler's throughput ends where its API server's processors do. On a machine that both share, every
microsecond of a request counts: for a small write, aiohttp's client takes two to three times as long as TLS,
parsing and an event loop need. There are no cookies, redirects, compression or proxies here, and no request
is ever sent twice: only the sender can find out what became of a request without an answer.

All undocumented parts of aiohttp that clients use are in this module.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult

from aiohttp import ClientPayloadError, StreamReader, TCPConnector
from aiohttp.http import HttpProcessingError, HttpResponseParser, RawResponseMessage

from podium.kube.connection import RawResponse

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

# Go's server closes a connection after 90 s without a request. A connection near that limit is not used.
_IDLE_SECONDS = 60.0
# Larger than any object in etcd, even as JSON.
_LARGEST = 16 << 20
_PIECE = 64 << 10
# llhttp's limits for the length of a line and the number of header fields.
_LINE, _FIELDS = 8190, 128


class Unhindered:
    """A transport for the parser that ignores flow control, because each parsed piece is read at once."""

    connected = True

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Do nothing."""


UNHINDERED: Any = Unhindered()


class Connector(TCPConnector):
    """aiohttp's TCPConnector for reads, except that an abandoned connection is aborted without close_notify.

    The TLS shutdown waits for an answer of the server that no caller needs. aiohttp drops its reference to
    the connection of a cancelled request when the shutdown begins. If the session closes at that moment, the
    socket stays open after the event loop ends.
    """

    def _release(self, key: Any, protocol: "ResponseHandler", *, should_close: bool = False) -> None:
        # Every released connection passes through this method; aiohttp has no public hook.
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)


class ConnectionPool:
    """The connections to one server, as many as there are concurrent requests."""

    def __init__(
        self, server: SplitResult, context: ssl.SSLContext | None, server_hostname: str | None
    ) -> None:
        """`server` is an HTTP URL; `server_hostname` is its name in TLS if that differs from the host."""
        secure = server.scheme == "https"
        self._host = server.hostname or ""
        self._port = server.port or (443 if secure else 80)
        self._prefix = server.path.rstrip("/")
        self._authority = server.netloc.rpartition("@")[2]
        self._context = context if secure else None
        self._name = (server_hostname or self._host) if secure else None
        self._idle: list[_Exchange] = []
        self._all: set[_Exchange] = set()

    async def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        connecting: float,
        silence: float,
    ) -> RawResponse:
        """Send one request and return its answer; `target` is the encoded path and query behind the URL.

        Raises TimeoutError when the answer was incomplete after `silence` seconds, or the connection after
        `connecting`. Raises ConnectionError when the connection was lost, OSError when it cannot be opened,
        and ValueError for a request or an answer that is not valid HTTP.
        """
        request = self._head(method, target, headers, len(body)) + body
        exchange = self._rested() or await self._connect(connecting)
        try:
            answer = await exchange.ask(request, silence)
        except BaseException:
            # After a cancellation or timeout, the late answer must not reach the next request.
            exchange.abort()
            raise
        if exchange.ready:
            self._idle.append(exchange)
        else:
            exchange.abort()
        return answer

    async def close(self) -> None:
        """Close all connections, including those that wait for an answer."""
        exchanges = list(self._all)
        for exchange in exchanges:
            exchange.abort()
        if exchanges:
            await asyncio.wait([exchange.lost for exchange in exchanges])

    def entered(self, exchange: "_Exchange") -> None:
        """Register a new connection."""
        self._all.add(exchange)

    def left(self, exchange: "_Exchange") -> None:
        """Remove a closed connection."""
        self._all.discard(exchange)
        if exchange in self._idle:
            self._idle.remove(exchange)

    def _head(self, method: str, target: str, headers: Mapping[str, str], length: int) -> bytes:
        fields = {"Host": self._authority, **headers, "Content-Length": str(length)}
        if " " in target or not (target + "".join(fields.values())).isprintable():
            raise ValueError("a space or a control character in its path or headers")
        lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        return f"{method} {self._prefix}{target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")

    def _rested(self) -> "_Exchange | None":
        """Return the connection that was used last, so that surplus connections stay idle and expire."""
        while self._idle:
            exchange = self._idle.pop()
            if exchange.fresh:
                return exchange
            exchange.abort()
        return None

    async def _connect(self, seconds: float) -> "_Exchange":
        loop = asyncio.get_running_loop()
        exchange = _Exchange(self, loop)
        try:
            async with asyncio.timeout(seconds):
                await loop.create_connection(
                    lambda: exchange,
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname=self._name,
                )
        except BaseException as error:
            # On cancellation, uvloop may close a new transport without calling connection_lost.
            if exchange in self._all:
                exchange.abort()
            exchange.connection_lost(None)
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise OSError(f"cannot connect to {self._authority}: {error}") from None
            raise
        return exchange


class _Exchange(asyncio.Protocol):
    """One connection: a request, its answer, then the next request."""

    def __init__(self, pool: ConnectionPool, loop: asyncio.AbstractEventLoop) -> None:
        self.lost: asyncio.Future[None] = loop.create_future()
        self._pool = pool
        self._loop = loop
        self._parser = HttpResponseParser(
            UNHINDERED,
            loop,
            _PIECE,
            max_line_size=_LINE,
            max_field_size=_LINE,
            max_headers=_FIELDS,
            read_until_eof=True,
            auto_decompress=False,
        )
        self._transport: asyncio.Transport
        self._idle_since = 0.0
        self._answer: asyncio.Future[RawResponse] | None = None
        self._message: RawResponseMessage | None = None
        self._payload: StreamReader
        self._pieces: list[bytes] = []
        self._size = 0
        self._over = False

    @property
    def ready(self) -> bool:
        """Return whether the connection accepts another request."""
        return not self._over and not self._transport.is_closing()

    @property
    def fresh(self) -> bool:
        """Return whether it still does after its idle time."""
        return self.ready and self._loop.time() - self._idle_since < _IDLE_SECONDS

    async def ask(self, request: bytes, seconds: float) -> RawResponse:
        """Send a request, and return its answer within `seconds`."""
        self._answer = self._loop.create_future()
        # call_later costs a quarter of asyncio.timeout.
        late = self._loop.call_later(seconds, self._fail, TimeoutError())
        self._transport.write(request)
        try:
            return await self._answer
        finally:
            late.cancel()

    def abort(self) -> None:
        """Abort without close_notify, which would outlive the caller."""
        self._over = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection after its handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._pool.entered(self)

    def data_received(self, data: bytes) -> None:
        """Parse a part of an answer."""
        if self._answer is None:
            # No request is pending: a server that is about to close sends the reason.
            self.abort()
            return
        try:
            messages, _, _ = self._parser.feed_data(data)
            for message, payload in messages:
                self._begin(message, payload)
            if self._message is not None:
                self._read()
        except (HttpProcessingError, ClientPayloadError) as error:
            self._fail(ValueError(f"answer is not HTTP: {error}"))

    def eof_received(self) -> None:
        """Close too."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End the pending request; an answer without a length ends here."""
        self._over = True
        if self._answer is not None and not self._answer.done():
            if self._message is not None:
                with suppress(HttpProcessingError, ClientPayloadError):
                    self._parser.feed_eof()
                    self._read()
            self._fail(ConnectionError(str(exc or "closed by the server")))
        self._pool.left(self)
        if not self.lost.done():
            self.lost.set_result(None)

    def _begin(self, message: RawResponseMessage, payload: StreamReader) -> None:
        if message.code < 200 and not message.upgrade:
            # An informational answer (1xx).
            return
        if self._message is not None:
            # Two answers to one request: the connection is out of step.
            self._over = True
            return
        self._message, self._payload = message, payload

    def _read(self) -> None:
        """Read the available part of the body; finish the answer when it is complete."""
        assert self._message is not None
        piece = self._payload.read_nowait()
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > _LARGEST:
            self._fail(ValueError(f"answer is larger than {_LARGEST} bytes"))
        elif self._payload.is_eof():
            self._finish(self._message)

    def _finish(self, message: RawResponseMessage) -> None:
        body = b"".join(self._pieces)
        # If the answer precedes the end of the request, the rest of the request would follow it.
        early = self._transport.get_write_buffer_size() > 0
        self._over = self._over or early or message.should_close or message.upgrade
        self._idle_since = self._loop.time()
        answer, self._answer, self._message = self._answer, None, None
        self._pieces, self._size = [], 0
        if answer is not None and not answer.done():
            answer.set_result(RawResponse(message.code, message.headers, body))

    def _fail(self, error: Exception) -> None:
        self._over = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._transport.abort()
