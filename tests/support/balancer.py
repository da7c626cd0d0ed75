"""A TCP balancer in the test's own process: the Service of an API server's webhooks, with faults on demand.

As with a Service, a new connection goes to a backend that was ready at its last probe (ten times a second
here). An open connection keeps its backend, ready or not. Bytes are passed on unread. It also simulates the
network between two of our programs: it can drop all bytes, or reset connections.
"""

import asyncio
import contextlib
import enum
import itertools
from concurrent.futures import Future
from typing import NamedTuple

from tests.support.loopthread import LoopThread

_ADDRESS = "127.0.0.1"
_POLL_SECONDS = 0.1
# A backend without an answer by then is not ready. A busy machine answers later than usual.
_PROBE_SECONDS = 2.0
_PROBE = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_PIECE = 64 << 10


class Backend(NamedTuple):
    """A target of connections; a target without a `probe`, the port of its /readyz, is always ready."""

    port: int
    probe: int | None = None


class Link(enum.Enum):
    """The state of the network between a client and a backend."""

    PASS = enum.auto()
    SILENT = enum.auto()  # connections are taken and kept, nothing is passed on
    CUT = enum.auto()  # connections are reset, new ones too


class Balancer(LoopThread):
    """Listens on `port`; all methods may be called from any thread."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self._backends: dict[Backend, bool] = {}
        self._turns = itertools.count()
        self._link = Link.PASS
        self._passes = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._watches: dict[Backend, Future[None]] = {}

    def add(self, backend: Backend) -> None:
        """Add a backend; it gets connections when it is ready."""
        self._backends[backend] = backend.probe is None
        if backend.probe is not None:
            self._watches[backend] = self._submit(self._watch(backend, backend.probe))

    def remove(self, backend: Backend) -> None:
        """Send no new connection to a backend."""
        if watch := self._watches.pop(backend, None):
            watch.cancel()
        del self._backends[backend]

    @property
    def ready(self) -> list[Backend]:
        """Return the backends that get new connections."""
        return [backend for backend, is_ready in list(self._backends.items()) if is_ready]

    def set(self, link: Link) -> None:
        """Set the state of the network."""
        self._submit(self._set(link)).result()

    async def _listen(self) -> None:
        self._passes.set()
        self._server = await asyncio.start_server(self._serve, _ADDRESS, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        """Stop listening when no connect is in progress.

        asyncio would not close a connection that is accepted then.
        """
        for watch in self._watches.values():
            watch.cancel()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await self._set(Link.CUT)
            await asyncio.wait(others, timeout=_POLL_SECONDS)
        self._server.close()

    async def _set(self, link: Link) -> None:
        self._link = link
        if link is Link.SILENT:
            self._passes.clear()
        else:
            self._passes.set()
        if link is Link.CUT:
            for writer in list(self._open):
                writer.transport.abort()

    async def _watch(self, backend: Backend, probe: int) -> None:
        while True:
            self._backends[backend] = await self._asked(probe)
            await asyncio.sleep(_POLL_SECONDS)

    async def _asked(self, probe: int) -> bool:
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                reader, writer = await asyncio.open_connection(_ADDRESS, probe)
                with contextlib.closing(writer):
                    writer.write(_PROBE)
                    return b" 200 " in await reader.readline()
        except (OSError, TimeoutError):
            return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a client and the next ready backend until both have ended."""
        joined = [writer]
        self._open.add(writer)
        try:
            found = await self._dial()
            if found is not None:
                joined.append(found[1])
                self._open.add(found[1])
            if found is not None and self._link is not Link.CUT:
                await asyncio.gather(self._pump(reader, found[1]), self._pump(found[0], writer))
        finally:
            for end in joined:
                end.close()
            for end in joined:
                with contextlib.suppress(OSError):
                    await end.wait_closed()
                self._open.discard(end)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to a ready backend; skip a backend that refuses, as when its endpoint is gone."""
        ready = self.ready
        first = next(self._turns)
        for step in range(len(ready)):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(_ADDRESS, ready[(first + step) % len(ready)].port)
        return None

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Pass bytes and their end on; a reset on one side resets the other."""
        try:
            while piece := await source.read(_PIECE):
                await self._passes.wait()
                sink.write(piece)
                await sink.drain()
            await self._passes.wait()
            sink.write_eof()
        except OSError:
            sink.transport.abort()
