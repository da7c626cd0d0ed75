"""A listening socket, the connections it has brought, and how they end.

Connections are accepted here one by one, not by the event loop, so that those still in their handshake are
counted too and a handshake that fails is ours to count. When there is no room, the oldest connection that
has never been of use makes it, or else the one that was of use longest ago, if that is long: a client that
fills the port with silence pushes out silence, and an API server that calls for the first time still gets
in.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from podium.errors import PodiumError
from podium.service.http1 import Exchange
from podium.service.limits import Budget, Limits, Load
from podium.service.messages import Route, Tally, Worded, plain
from podium.service.turns import Turn

# Closing waits this long for the peer's goodbye, and for what it has not read.
_GOODBYE_SECONDS = 1.0
# The pause after the system refused to give us a connection (no file descriptors left).
_EXHAUSTED_SECONDS = 0.1
_BACKLOG = 1024

_log = structlog.get_logger()


class Server:
    """Serves routes by path on one port, with TLS when there is a context.

    `accepts` judges a peer once, after the handshake; who is not accepted is answered 403, but on the routes
    for anybody. What no handler answers is `worded`.
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
        self.turn: Turn
        self.draining = False
        self.port = 0
        self._context = context
        self._accepts = accepts
        self._listener: socket.socket | None = None
        self._resumption: asyncio.TimerHandle | None = None
        # In order of age, both.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._connections: dict[Exchange, None] = {}
        self._unproven: dict[Exchange, None] = {}
        # When each was of use last, the longest ago first.
        self._proven: dict[Exchange, float] = {}
        # By the name of a budget of their own.
        self._joined: dict[str, dict[Exchange, None]] = {}
        self._fewer = asyncio.Event()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 is any free one, see `port`. Raises PodiumError when that cannot be."""
        loop = asyncio.get_running_loop()
        self.turn = Turn(loop)
        try:
            family, _, _, _, address = (
                await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            )[0]
            self._listener = socket.create_server(address, family=family, backlog=_BACKLOG)
        except OSError as error:
            raise PodiumError(f"cannot listen on {host} port {port}: {error.strerror}") from None
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        loop.add_reader(self._listener, self._accept, self._listener, loop)

    async def drain(self, seconds: float) -> None:
        """Serve on for so long, closing each connection with its next answer; then stop and let requests end.

        Idle connections are left alone for as long again after that: a client may be about to use one, and
        loses its request when we close it at that moment. Where there is traffic they are gone soon.
        When this is cancelled, everything is closed at once.
        """
        self.draining = True
        try:
            await asyncio.sleep(seconds)
            self._stop_listening()
            await self._until_empty(seconds)
            for connection in list(self._connections):
                connection.retire()
            # The longest that a process is given to end is 30 s, unless somebody asked for more.
            await self._until_empty(self.limits.default_seconds)
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop at once: nothing is answered any more."""
        self._stop_listening()
        for task in self._handshakes:
            task.cancel()
        for connection in list(self._connections):
            connection.abort()
        await self._until_empty(_GOODBYE_SECONDS)

    # What connections ask and tell.

    def crowded(self, connection: Exchange) -> bool:
        """Take in a new connection; when there is no room another has to go, or else the new one is told."""
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
        """Whether the peer's certificate, if any is wanted, lets it ask."""
        return self._accepts is None or self._accepts(transport.get_extra_info("ssl_object"))

    def proven(self, connection: Exchange) -> None:
        """Spare a connection that brought a good request, for a while."""
        self._unproven.pop(connection, None)
        self._proven.pop(connection, None)
        if connection in self._connections:
            self._proven[connection] = asyncio.get_running_loop().time()

    def joins(self, connection: Exchange, budget: Budget) -> bool:
        """Count a connection to a budget; where that is full, the oldest idle one of it makes room."""
        for others in self._joined.values():
            others.pop(connection, None)
        if not budget.name:
            return True
        members = self._joined.setdefault(budget.name, {})
        if len(members) >= budget.connections:
            idle = next((each for each in members if each.is_idle), None)
            if idle is None:
                return False
            self.tally("connections")
            self.left(idle)
            idle.retire()
        members[connection] = None
        return True

    def largest(self, budget: Budget) -> Exchange | None:
        """Give the largest holder of the owner that holds most of a budget; None where none can give way.

        Looked for only when the bytes have run out, so the account is not kept by owner.
        """
        holders = [each for each in self._connections if each.budget.name == budget.name and each.held_bytes]
        owners: Counter[str] = Counter()
        for each in holders:
            owners[each.owner] += each.held_bytes
        return max(holders, key=lambda each: (owners[each.owner], each.held_bytes), default=None)

    def left(self, connection: Exchange) -> None:
        """Forget a connection."""
        self._unproven.pop(connection, None)
        self._proven.pop(connection, None)
        self._connections.pop(connection, None)
        for others in self._joined.values():
            others.pop(connection, None)
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
        task = loop.create_task(self._greet(peer, loop))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._greeted, peer))

    async def _greet(self, peer: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        secured = {
            "ssl_handshake_timeout": self.limits.handshake_seconds,
            "ssl_shutdown_timeout": _GOODBYE_SECONDS,
        }
        exchange = Exchange(self, loop)
        try:
            await loop.connect_accepted_socket(
                lambda: exchange,
                peer,
                ssl=self._context,
                **(secured if self._context else {}),
            )
        except BaseException as error:
            # When we are cancelled, uvloop closes what it may have made already without a word.
            exchange.connection_lost(None)
            if isinstance(error, ConnectionResetError):
                return  # it went away, as somebody who only asks whether the port is open
            if not isinstance(error, OSError):
                raise
            self.tally("handshake")
            _log.debug("handshake failed", error=str(error))

    def _greeted(self, peer: socket.socket, task: asyncio.Task[None]) -> None:
        del self._handshakes[task]
        self._fewer.set()
        if task.cancelled():
            # It may never have begun.
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
            async with asyncio.timeout(seconds):
                while self._connections or self._handshakes:
                    self._fewer.clear()
                    await self._fewer.wait()
