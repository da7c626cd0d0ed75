"""A listening socket, its connections, and how they end.

Connections are accepted here one by one, not by the event loop, so that handshakes in progress and failed
handshakes are counted too. If the limit is reached, the oldest connection without a good request is closed,
or else the connection whose last good request is oldest, if that is old enough. So a client that fills the
port with silent connections displaces silent connections only, and an API server that connects for the first
time is still served.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from podium.kube.timeouts import within
from podium.runtime.http1 import ServerConnection
from podium.runtime.messages import Limits, Load, RequestBudget, Route, Tally, Worded, plain

# The time to wait for the peer's close_notify, and for unread data.
_GOODBYE_SECONDS = 1.0
# The pause after accept fails (no file descriptors left).
_EXHAUSTED_SECONDS = 0.1

_log = structlog.get_logger()


class HTTPServer:
    """Serves routes by path on one port, with TLS if there is a context.

    `accepts` checks a peer once, after the handshake. A peer that it rejects gets a 403, except on routes
    with `anonymous`. `worded` returns the response for a status that no handler sets.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        limits: Limits,
        tally: Tally,
        *,
        context: ssl.SSLContext | None = None,
        accepts: Callable[[ssl.SSLObject], bool] | None = None,
        worded: Worded = plain,
    ) -> None:
        self.routes = routes
        self.limits = limits
        self.tally = tally
        self.worded = worded
        self.load = Load()
        self.draining = False
        self.port = 0
        self._context = context
        self._accepts = accepts
        self._listener: socket.socket | None = None
        self._resumption: asyncio.TimerHandle | None = None
        # Both in order of age.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._connections: dict[ServerConnection, None] = {}
        self._unproven: dict[ServerConnection, None] = {}
        # The time of the last good request of each, oldest first.
        self._proven: dict[ServerConnection, float] = {}
        # Connections with a complete request, in this iteration of the event loop.
        self._batch: list[ServerConnection] = []
        # By the name of the budget.
        self._joined: dict[str, dict[ServerConnection, None]] = {}
        self._fewer = asyncio.Event()

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    async def start(self, listener: socket.socket) -> None:
        """Accept connections of a listening socket, which is closed at the end."""
        loop = asyncio.get_running_loop()
        self._listener = listener
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        loop.add_reader(listener, self._accept, listener, loop)

    async def drain(self, seconds: float) -> None:
        """Serve for `seconds`, closing each connection with its next answer; then stop listening.

        Requests in progress end, and idle connections stay open for as long again. A client may be about to
        use one, and would lose its request if it closed at that moment; under traffic all close soon. If this
        is cancelled, all connections close at once.
        """
        self.draining = True
        try:
            await asyncio.sleep(seconds)
            self._stop_listening()
            await self._until_empty(seconds)
            for connection in list(self._connections):
                connection.retire()
            # The default grace period of a pod is 30 s.
            await self._until_empty(self.limits.default_seconds)
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop at once, without answering further requests."""
        self._stop_listening()
        for task in self._handshakes:
            task.cancel()
        for connection in list(self._connections):
            connection.abort()
        await self._until_empty(_GOODBYE_SECONDS)

    # Called by connections.

    def crowded(self, connection: ServerConnection) -> bool:
        """Register a new connection; if the limit is exceeded, close another one, or return True."""
        self._connections[connection] = None
        self._unproven[connection] = None
        if len(self._connections) <= self.limits.connections:
            return False
        oldest = next(iter(self._unproven))
        if oldest is connection:
            if not self._proven:
                return True
            oldest, proven = next(iter(self._proven.items()))
            if asyncio.get_running_loop().time() - proven < self.limits.proven_seconds:
                return True
        self.tally("connections")
        self.left(oldest)
        oldest.abort()
        return False

    def admits(self, transport: asyncio.Transport) -> bool:
        """Return whether the peer's certificate, if one is required, allows requests."""
        return self._accepts is None or self._accepts(transport.get_extra_info("ssl_object"))

    def enqueue(self, connection: ServerConnection) -> None:
        """Judge the requests of all connections together, once per iteration of the event loop.

        Handlers that run one after another find their code and data in the processor's caches. TLS and system
        calls between them would evict these: a third of the whole cost of a request.
        """
        if not self._batch:
            asyncio.get_running_loop().call_soon(self._judge_batch)
        self._batch.append(connection)

    def _judge_batch(self) -> None:
        batch, self._batch = self._batch, []
        for connection in batch:
            connection.handle()
        for connection in batch:
            connection.answer()

    def proven(self, connection: ServerConnection) -> None:
        """Protect a connection with a good request for a while."""
        self._unproven.pop(connection, None)
        self._proven.pop(connection, None)
        if connection in self._connections:
            self._proven[connection] = asyncio.get_running_loop().time()

    def joins(self, connection: ServerConnection, budget: RequestBudget) -> bool:
        """Count a connection to a budget; if the budget is full, close its oldest idle connection."""
        for joined in self._joined.values():
            joined.pop(connection, None)
        if not budget.name:
            return True
        members = self._joined.setdefault(budget.name, {})
        if len(members) >= budget.connections:
            idle = next((member for member in members if member.is_idle), None)
            if idle is None:
                return False
            self.tally("connections")
            self.left(idle)
            idle.retire()
        members[connection] = None
        return True

    def largest(self, budget: RequestBudget) -> ServerConnection | None:
        """Return the largest connection of the owner with the most bytes of a budget, or None.

        Only connections whose request can be refused count. The account by owner is computed here, because it
        is needed only when the bytes have run out.
        """
        holders = [
            holder for holder in self._connections if holder.budget.name == budget.name and holder.held_bytes
        ]
        owners: Counter[str] = Counter()
        for holder in holders:
            owners[holder.owner] += holder.held_bytes
        return max(holders, key=lambda holder: (owners[holder.owner], holder.held_bytes), default=None)

    def left(self, connection: ServerConnection) -> None:
        """Remove a connection."""
        self._unproven.pop(connection, None)
        self._proven.pop(connection, None)
        self._connections.pop(connection, None)
        for joined in self._joined.values():
            joined.pop(connection, None)
        self._fewer.set()

    def _accept(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        try:
            peer, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            self.tally("descriptors")
            _log.error("cannot accept connections", error=error.strerror)
            loop.remove_reader(listener)
            self._resumption = loop.call_later(
                _EXHAUSTED_SECONDS, loop.add_reader, listener, self._accept, listener, loop
            )
            return
        peer.setblocking(False)
        if len(self._handshakes) >= self.limits.connections:
            self.tally("handshakes")
            next(iter(self._handshakes)).cancel()
        task = loop.create_task(self._handshake(peer, loop))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._handshake_ended, peer))

    async def _handshake(self, peer: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        secured = {
            "ssl_handshake_timeout": self.limits.handshake_seconds,
            "ssl_shutdown_timeout": _GOODBYE_SECONDS,
        }
        exchange = ServerConnection(self, loop)
        try:
            await loop.connect_accepted_socket(
                lambda: exchange,
                peer,
                ssl=self._context,
                **(secured if self._context else {}),
            )
        except BaseException as error:
            # On cancellation, uvloop may close a new transport without calling connection_lost.
            exchange.connection_lost(None)
            if isinstance(error, ConnectionResetError):
                return  # a port check that closes at once
            if not isinstance(error, OSError):
                raise
            self.tally("handshake")
            _log.debug("handshake failed", error=str(error))

    def _handshake_ended(self, peer: socket.socket, task: asyncio.Task[None]) -> None:
        del self._handshakes[task]
        self._fewer.set()
        if task.cancelled():
            # The task may not have started.
            peer.close()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        if self._resumption is not None:
            self._resumption.cancel()

    async def _until_empty(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await within(seconds, self._empty())

    async def _empty(self) -> None:
        while self._connections or self._handshakes:
            self._fewer.clear()
            await self._fewer.wait()
