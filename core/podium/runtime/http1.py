"""One HTTP/1.1 connection with limits: llhttp (through aiohttp) parses, and this module decides the rest.

aiohttp's request handler has no deadline for headers or bodies, accepts a body before the server can refuse
it, and costs more than a rule does. Its parser has none of these problems. An API server speaks HTTP/1.1 to
webhooks on purpose (to spread connections over replicas), so no other protocol is supported.

A request is refused as soon as its header shows the reason. The answer is then sent before the body arrives,
and the connection closes. Later data is discarded for a moment, because to close while the client writes
would lose the answer. A 429 carries Retry-After; without it an API server fails with a 500 instead of
retrying.

The server judges the requests of all connections together, once per iteration of the event loop
(`Shared.enqueue`).

A route may answer a refused request itself (`Route.declined`) from the beginning of the body, which is read
first. When the bytes of a budget run out, the largest request of the owner with the most bytes is refused.
"""

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

import structlog
from aiohttp import StreamReader
from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage

from podium.runtime.messages import (
    BEGINNING,
    REFUSALS,
    HTTPRequest,
    HTTPResponse,
    Limits,
    Load,
    RequestBudget,
    Route,
    Tally,
    Worded,
    head,
    is_of,
    target,
)

# The size of one read or write.
_PIECE = 64 << 10
# llhttp's limits for the length of a line and the number of header fields.
_LINE, _FIELDS = 8190, 64

_log = structlog.get_logger()


class _Unhindered:
    """A transport for the parser that ignores flow control, because each parsed piece is read at once."""

    connected = True

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Do nothing."""


_UNHINDERED: Any = _Unhindered()


class Shared(Protocol):
    """The state that the connections of one server share."""

    limits: Limits
    load: Load
    routes: Mapping[str, Route]
    tally: Tally
    worded: Worded
    # Requests are still served, but every connection closes with its next answer.
    draining: bool

    def crowded(self, connection: "ServerConnection") -> bool:
        """Register a new connection. Return whether it exceeds the limit; it then gets a refusal only."""

    def admits(self, transport: asyncio.Transport) -> bool:
        """Return whether the peer may send requests at all (its certificate)."""

    def enqueue(self, connection: "ServerConnection") -> None:
        """Call `handle` and then `answer` of a connection with a complete request, soon."""

    def proven(self, connection: "ServerConnection") -> None:
        """Protect a connection that served a good request: others are closed before it."""

    def joins(self, connection: "ServerConnection", budget: RequestBudget) -> bool:
        """Count a connection to a budget instead of another; return whether the budget has room for it."""

    def largest(self, budget: RequestBudget) -> "ServerConnection | None":
        """Return the connection that must release its bytes for others of a budget."""

    def left(self, connection: "ServerConnection") -> None:
        """Remove a closed connection."""


class _State(enum.Enum):
    HEADER = enum.auto()  # nothing, or a part of a header, has arrived
    BODY = enum.auto()  # the header has arrived, the body has not
    BUSY = enum.auto()  # a handler processes the request
    OVER = enum.auto()  # the last answer is being sent; received data is discarded


class ServerConnection(asyncio.Protocol):
    """One connection: its requests and answers, one after another."""

    def __init__(self, shared: Shared, loop: asyncio.AbstractEventLoop) -> None:
        self._shared = shared
        self._limits = shared.limits
        self._load = shared.load
        self._loop = loop
        # One request at a time: the parser keeps pipelined data of at most one read.
        self._parser = HttpRequestParser(
            _UNHINDERED,
            loop,
            _PIECE,
            max_line_size=_LINE,
            max_field_size=_LINE,
            max_headers=_FIELDS,
            auto_decompress=False,
            max_msg_queue_size=1,
        )
        self._transport: asyncio.Transport
        self._state = _State.HEADER
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._header_bytes = 0
        self._held = 0
        self._ahead = b""
        self._unsent = memoryview(b"")
        self._choked = False
        self._is_surplus = False
        self._is_stranger = False
        self._budget = self._usual = shared.limits.budget
        # Of the current request:
        self._route: Route | None = None
        self._declining = ""
        self._path = ""
        self._query = ""
        self._headers: Mapping[str, str]
        self._began = 0.0
        self._deadline = 0.0
        self._payload: StreamReader
        self._body = bytearray()
        self._owner: str | None = None
        self._request: HTTPRequest | None = None
        self._is_counted = False
        self._response: HTTPResponse | Awaitable[HTTPResponse] | None = None
        self._task: asyncio.Future[HTTPResponse] | None = None
        self._last = False
        self._linger = False

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection after its handshake."""
        self._transport = cast("asyncio.Transport", transport)
        # A larger answer is written in pieces, so that the unsent bytes are counted here.
        self._transport.set_write_buffer_limits(high=_PIECE)
        self._is_surplus = self._shared.crowded(self)
        self._is_stranger = not self._shared.admits(self._transport)
        self._idle_since = self._loop.time()
        self._idle_timer = self._loop.call_later(self._limits.idle_seconds, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Release all resources of the connection."""
        self._expect_nothing()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._state = _State.OVER
        self._settle()
        self._hold(-self._held)
        self._ahead = b""
        self._body = bytearray()
        self._unsent = memoryview(b"")
        self._shared.left(self)

    def data_received(self, data: bytes) -> None:
        """Process data, or keep it until the current request is answered."""
        if self._state is _State.OVER:
            return
        if self._state is _State.BUSY or self._choked:
            self._ahead += data
            self._transport.pause_reading()
            return
        self._parse_request(data)

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers; abort it at its request's deadline."""
        self._choked = True
        if self._state is not _State.OVER:
            self._expect(self._deadline - self._loop.time(), self._transport.abort)

    def resume_writing(self) -> None:
        """Continue, because the client has read."""
        self._choked = False
        if self._state is _State.OVER:
            return
        self._expect_nothing()
        if self._state is _State.BUSY and self._unsent:
            self._flush()
        self._go_on()

    # Called by the server.

    def retire(self) -> None:
        """Close as soon as that loses no request."""
        self._last = True
        if self.is_idle:
            self._finish(linger=False)

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def give_way(self) -> None:
        """Release all bytes: refuse the request, or abandon an answer that the client does not read."""
        if self._state is _State.BODY:
            self._refuse("memory")
        else:
            self._shared.tally("memory")
            self._state = _State.OVER
            self._unsent = memoryview(b"")
            self._hold(-self._held)
            self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Return whether no part of a request has arrived."""
        return self._state is _State.HEADER and not self._header_bytes

    @property
    def budget(self) -> RequestBudget:
        """Return the budget of the latest request."""
        return self._budget

    @property
    def held_bytes(self) -> int:
        """Return the bytes that `give_way` would release: none for a request in a handler."""
        return self._held if self._state is _State.BODY or self._unsent else 0

    @property
    def owner(self) -> str:
        """Return the owner of the body being received; empty while its beginning does not show it."""
        if not self._owner and self._route is not None and self._route.owner is not None:
            self._owner = self._route.owner(bytes(self._body[:BEGINNING]))
        return self._owner or ""

    # The life of a request, from its first byte to its last.

    def _parse_request(self, data: bytes) -> None:
        """Parse up to one request. Pipelined requests wait for the next iteration of the event loop.

        So a client that sends many requests at once does not delay other clients.
        """
        try:
            messages, _, _ = self._parser.feed_data(data)
        except HttpProcessingError:
            self._refuse("not HTTP")
            return
        if messages:
            message, self._payload = messages[0]
            self._receive_header(message)
        elif self._state is _State.HEADER:
            self._await_header(len(data))
            return
        if self._state is _State.BODY:
            self._read()
        if self._state is _State.HEADER:
            self._loop.call_soon(self._go_on)

    def _await_header(self, length: int) -> None:
        if length == 0:
            return
        if self._header_bytes == 0:
            self._expect(self._limits.header_seconds, self._refuse, "slow header")
        self._header_bytes += length
        if self._header_bytes > self._limits.header_bytes:
            self._refuse("large header")

    def _receive_header(self, message: RawRequestMessage) -> None:
        """Check a header, and refuse the request before its body if the header shows a reason."""
        if self._header_bytes:
            self._expect_nothing()
            self._header_bytes = 0
        self._state = _State.BODY
        self._began = time.perf_counter()
        self._last = self._last or message.should_close or message.upgrade
        self._path, self._query, seconds = target(message.path)
        if seconds is None:
            seconds = self._limits.default_seconds
        self._deadline = self._loop.time() + min(seconds, self._limits.longest_seconds)
        headers = self._headers = message.headers
        route = self._route = self._shared.routes.get(self._path)
        self._declining, self._owner = "", None
        if self._is_stranger and not (route is not None and route.anonymous):
            self._last = True
            self._refuse("client certificate")
        elif route is None:
            self._refuse("path")
        elif message.method != route.method:
            self._refuse("method", Allow=route.method)
        elif route.content_type and not is_of(headers.get("Content-Type", ""), route.content_type):
            self._refuse("content type")
        elif message.chunked:
            # An API server always sends Content-Length, and chunks of one byte are expensive to parse.
            self._refuse("no length")
        elif int(headers.get("Content-Length", 0)) > route.body_limit:
            self._decline("large body")
        elif self._is_surplus or not self._joins(route.budget or self._usual):
            self._last = True
            self._decline("connections")
        elif "Expect" in headers and not self._payload.is_eof():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _joins(self, budget: RequestBudget) -> bool:
        if budget.name == self._budget.name:
            return True
        self._budget = budget
        return self._shared.joins(self, budget)

    def _decline(self, why: str) -> None:
        """Refuse a request, after the beginning of its body if the route needs that for its answer."""
        if self._route is not None and self._route.declined is not None:
            self._declining = why
        else:
            self._refuse(why)

    def _read(self) -> None:
        """Read the available part of the body, and dispatch the request when it is complete."""
        piece = self._payload.read_nowait()
        whole = self._payload.is_eof()
        if self._declining:
            # Only the beginning of a refused body is kept.
            piece = piece[: BEGINNING - len(self._body)]
        self._hold(len(piece))
        over = self._load.held_bytes[self._budget.name] > self._budget.held_bytes
        if self._body or self._declining or over or not whole:
            # Joined at once: a body in one-byte pieces must not cost one object for each byte.
            self._body += piece
        if self._declining and (whole or len(self._body) >= BEGINNING):
            self._refuse(self._declining)
        elif over and not self._make_room():
            self.give_way()
        elif whole:
            self._expect_nothing()
            self._dispatch(self._body or piece)
        elif self._timer is None:
            left = min(self._limits.body_seconds, self._deadline - self._loop.time())
            self._expect(left, self._refuse, self._declining or "slow body")

    def _make_room(self) -> bool:
        """Refuse larger requests until all bodies fit. Return whether this request may stay."""
        while self._load.held_bytes[self._budget.name] > self._budget.held_bytes:
            largest = self._shared.largest(self._budget)
            if largest is None or largest is self:
                return False
            largest.give_way()
        return True

    def _dispatch(self, body: bytes | bytearray) -> None:
        self._body = bytearray()
        self._state = _State.BUSY
        self._load.in_flight += 1
        self._is_counted = True
        accept = self._headers.get("Accept", "")
        self._request = HTTPRequest(
            self._path, body, self._deadline, self._began, accept, self._query, self._headers
        )
        self._shared.enqueue(self)

    def handle(self) -> None:
        """Pass the request to its handler, unless the client has gone."""
        request, self._request = self._request, None
        if request is None:
            return
        assert self._route is not None
        try:
            self._response = self._route.handler(request)
        except Exception as error:  # noqa: BLE001 - the client gets an answer in any case
            self._response = self._failed(error)

    def answer(self) -> None:
        """Send the handler's reply, or wait for it in a task."""
        response, self._response = self._response, None
        if response is None:
            return
        if isinstance(response, HTTPResponse):
            self._answer(response)
            self._go_on()
            return
        task = asyncio.ensure_future(response, loop=self._loop)
        if self._load.waiting[self._budget.name] >= self._budget.waiting:
            task.cancel()
            self._settle()
            self._refuse("waiting")
            self._go_on()
            return
        assert self._route is not None
        if not self._route.keeps_body:
            self._hold(-self._held)
        self._load.waiting[self._budget.name] += 1
        self._task = task
        task.add_done_callback(self._replied)
        self._expect(self._deadline - self._loop.time(), self._late)

    def _replied(self, task: "asyncio.Future[HTTPResponse]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if task is self._task:
            self._expect_nothing()
            self._answer(task.result() if error is None else self._failed(error))
            self._go_on()

    def _late(self) -> None:
        """Answer for a handler that takes longer than its client waits."""
        assert self._task is not None
        self._task.cancel()
        self._shared.tally("late")
        self._answer(self._shared.worded(504))
        self._go_on()

    def _failed(self, error: BaseException) -> HTTPResponse:
        self._shared.tally("exception")
        _log.error("handler failed", path=self._path, exc_info=error)
        return self._shared.worded(500)

    def _answer(self, response: HTTPResponse) -> None:
        self._settle()
        if response.status == 200 and self._route is not None and self._route.proves:
            self._shared.proven(self)
        self._send(response)

    def _refuse(self, why: str, **headers: str) -> None:
        """Answer a request without a handler; an incomplete request makes it the last answer."""
        self._expect_nothing()
        self._shared.tally(why)
        half = self._state is _State.HEADER or not self._payload.is_eof()
        self._last = self._last or half
        declined = self._route.declined if self._route is not None else None
        response = declined(why, bytes(self._body[:BEGINNING])) if declined is not None else None
        if response is None:
            response = self._shared.worded(REFUSALS[why])
        self._send(response._replace(headers={**response.headers, **headers}), linger=half)

    def _send(self, response: HTTPResponse, *, linger: bool = False) -> None:
        self._last = self._last or self._shared.draining
        self._state = _State.BUSY
        self._body = bytearray()
        self._hold(len(response.body) - self._held)
        self._linger = linger
        before = head(response, time.time(), last=self._last)
        if len(response.body) > _PIECE:
            # Avoids a copy of the body.
            self._transport.write(before)
            self._unsent = memoryview(response.body)
        else:
            self._unsent = memoryview(before + response.body)
        self._flush()

    def _flush(self) -> None:
        """Write the answer as fast as the client reads it, then be ready for the next request."""
        while self._unsent and not self._choked:
            piece, self._unsent = self._unsent[:_PIECE], self._unsent[_PIECE:]
            self._transport.write(piece)
        if self._unsent:
            return
        self._hold(-self._held)
        self._unsent = memoryview(b"")
        self._route = None
        self._idle_since = self._loop.time()
        if self._last:
            self._finish(linger=self._linger)
        else:
            self._state = _State.HEADER

    def _finish(self, *, linger: bool) -> None:
        """Close after the last answer: now, or after time to read it for a client that still writes."""
        self._state = _State.OVER
        if linger:
            self._expect(self._limits.linger_seconds, self._transport.close)
        else:
            self._transport.close()

    def _go_on(self) -> None:
        """Process the data that the client sent ahead."""
        if self._state is _State.HEADER and not self._choked:
            ahead, self._ahead = self._ahead, b""
            if ahead:
                self._transport.resume_reading()
            self._parse_request(ahead)

    # Timers and accounting.

    def _expect(self, seconds: float, otherwise: Callable[..., None], *arguments: Any) -> None:
        self._expect_nothing()
        self._timer = self._loop.call_later(max(0.0, seconds), otherwise, *arguments)

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_idle(self) -> None:
        """Close after a long silence. One timer for the connection is cheaper than one for each request."""
        due = self._idle_since + self._limits.idle_seconds
        now = self._loop.time()
        if now >= due and self.is_idle:
            self._finish(linger=False)
        else:
            self._idle_timer = self._loop.call_at(
                due if due > now else now + self._limits.idle_seconds, self._check_idle
            )

    def _hold(self, length: int) -> None:
        self._held += length
        self._load.held_bytes[self._budget.name] += length

    def _settle(self) -> None:
        """End the accounting of the current request, if there is one."""
        self._request = None
        if self._is_counted:
            self._is_counted = False
            self._load.in_flight -= 1
        if self._task is not None:
            self._task = None
            self._load.waiting[self._budget.name] -= 1
