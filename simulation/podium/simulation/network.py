"""The network between machines and the API server: delays, losses, and watches that lag behind.

Processes see it as the aiohttp session of a `Connection`, and as the sockets that their HTTP server accepts.
Every request draws its delay and its fault. A request may be lost, its answer may be lost after it took
effect, the server may refuse it or be slow, and a watch may break or show a change much later.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from podium.kube.connection import PLAIN, Connection
from podium.kube.kubeconfig import LoadedKubeconfig
from podium.kube.timeouts import within
from podium.runtime.host import Connect
from podium.simulation.apiserver.messages import ApiRequest, ApiResponse, WebhookCall, WebhookFailure
from podium.simulation.apiserver.server import ApiServer, Handling
from podium.simulation.apiserver.storage import Change, Watch
from podium.simulation.world import Machine, World

_URL = "https://apiserver"
# A watch sends a bookmark about once a minute, and one shortly before its end.
_BOOKMARK_SECONDS, _LAST_BOOKMARK_SECONDS = 60.0, 2.0
_LINES = 500
_REFUSALS = ((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"))


class Faults(NamedTuple):
    """The faults of requests, as chances from 0 to 1, and their times, in seconds.

    `lost_request` never arrives. `lost_answer` is lost after the request took effect. `refused` is answered
    429, 500, 503 or 504 without an effect. `slow` takes up to `slow_seconds` longer. A watch shows a change
    up to `lag` seconds late, and `stale` of the changes up to `stale_seconds`; `broken` is the chance that a
    watch breaks with a change.
    """

    latency: float = 0.005
    lag: float = 0.02
    lost_request: float = 0.0
    lost_answer: float = 0.0
    refused: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 20.0
    stale: float = 0.0
    stale_seconds: float = 10.0
    broken: float = 0.0


CALM = Faults()


class Network:
    """Carries requests to one API server, and its calls to webhooks. `faults` may change at any time.

    `services` has the machines of each service ("namespace/name:port"). `down` refuses every connection.
    """

    def __init__(self, world: World, server: ApiServer) -> None:
        self.world = world
        self.server = server
        self.faults = CALM
        self.services: dict[str, list[Machine]] = {}
        self.down = False
        self._watches: dict[_Stream, None] = {}
        server.changed.append(self._lag)

    def connect(self, machine: Machine) -> Connect:
        """Return the function with which the process of a machine connects."""

        @asynccontextmanager
        async def opened(_kubeconfig: str | None, _context: str | None) -> AsyncIterator[Connection]:
            configuration = SimpleNamespace(host=_URL, auth_settings=_no_credential)
            target = LoadedKubeconfig(configuration, "simulated", "podium-system")
            session = SimpleNamespace(request=lambda *call, **named: _Exchange(self, machine, *call, **named))
            yield Connection(target, session, {}, PLAIN, asyncio.sleep)

        return opened

    def restart(self, seconds: float) -> None:
        """Let the API server be away for a time: connections break, and writes are kept."""
        self.down = True
        for stream in list(self._watches):
            stream.fail()
        self.world.after(seconds, self._up)

    def carry(self, request: ApiRequest, answered: Callable[[ApiResponse | None], None]) -> None:
        """Send a request of a client without a process; None is a lost answer."""
        fault = self._draw()

        def deliver(result: ApiResponse | Watch | None) -> None:
            assert not isinstance(result, Watch)
            answered(result)

        self.world.after(self._latency(), lambda: self._arrive(request, fault, deliver))

    def carry_exchange(self, exchange: "_Exchange", request: ApiRequest) -> None:
        """Carry a request of a process."""
        fault = self._draw()
        self.world.after(self._latency(), lambda: self._arrive(request, fault, exchange.deliver))

    def opened(self, stream: "_Stream") -> None:
        """Begin to feed a watch."""
        self._watches[stream] = None
        self._feed(stream)
        self.world.after(self.world.random.random() * _BOOKMARK_SECONDS, lambda: self._bookmarks(stream))
        self.world.after(stream.seconds - _LAST_BOOKMARK_SECONDS, lambda: self._bookmark(stream))
        self.world.after(stream.seconds, stream.finish)

    def closed(self, stream: "_Stream") -> None:
        """Forget a watch."""
        self._watches.pop(stream, None)

    def _up(self) -> None:
        self.down = False

    def _latency(self) -> float:
        return self.world.random.random() * self.faults.latency

    def _draw(self) -> str:
        """Return the fault of a request, or an empty string."""
        share, faults = self.world.random.random(), self.faults
        for name in ("lost_request", "lost_answer", "refused", "slow"):
            share -= getattr(faults, name)
            if share < 0.0:
                return name
        return ""

    def _arrive(self, request: ApiRequest, fault: str, deliver: "Deliver") -> None:
        if self.down or fault == "lost_request":
            self.world.after(self._latency(), lambda: deliver(None))
        elif fault == "refused":
            code, reason = self.world.random.choice(_REFUSALS)
            status = {"kind": "Status", "code": code, "reason": reason, "message": "simulated"}
            headers = {"Retry-After": "1"} if code == 429 else {}
            self._deliver(ApiResponse(code, msgspec.json.encode(status), headers), fault, deliver)
        else:
            self._step(self.server.handle(request), None, fault, deliver)

    def _step(
        self,
        handling: Handling,
        sent: bytes | WebhookFailure | None,
        fault: str,
        deliver: "Deliver",
    ) -> None:
        """Go on with a request until it asks a webhook or has its result."""
        try:
            call = next(handling) if sent is None else handling.send(sent)
        except StopIteration as ended:
            self._deliver(ended.value, fault, deliver)
            return
        self._call(call, lambda answer: self._step(handling, answer, fault, deliver))

    def _deliver(self, result: ApiResponse | Watch, fault: str, deliver: "Deliver") -> None:
        seconds = self._latency()
        if fault == "slow":
            seconds += self.world.random.random() * self.faults.slow_seconds
        self.world.after(seconds, lambda: deliver(None if fault == "lost_answer" else result))

    # Watches.

    def _lag(self, resource: str, _change: Change) -> None:
        for stream in list(self._watches):
            if stream.watch.resource != resource or stream.fed:
                continue
            chance, faults = self.world.random.random(), self.faults
            if chance < faults.broken:
                self.world.after(self._latency(), stream.fail)
                continue
            longest = faults.stale_seconds if chance < faults.broken + faults.stale else faults.lag
            stream.fed = True
            self.world.after(self.world.random.random() * longest, lambda stream=stream: self._feed(stream))  # type: ignore[misc]

    def _feed(self, stream: "_Stream") -> None:
        stream.fed = False
        lines = stream.watch.take(_LINES) if stream in self._watches else []
        if lines:
            stream.put(b"".join(lines))
            if len(lines) == _LINES:
                stream.fed = True
                self.world.after(self._latency(), lambda: self._feed(stream))

    def _bookmarks(self, stream: "_Stream") -> None:
        """Send a bookmark now, and again as long as the watch is open."""
        if stream in self._watches:
            self._bookmark(stream)
            self.world.after(_BOOKMARK_SECONDS, lambda: self._bookmarks(stream))

    def _bookmark(self, stream: "_Stream") -> None:
        """Send a bookmark after everything that is known."""
        if stream in self._watches:
            self._feed(stream)
            stream.put(stream.watch.bookmark())

    # Webhooks.

    def _call(self, call: WebhookCall, answered: Callable[[bytes | WebhookFailure], None]) -> None:
        """Send an admission review to a replica of its webhook."""
        replicas = [
            (machine, port)
            for machine in self.services.get(call.service, ())
            if machine.network and (port := machine.ports.get(9443)) is not None and port.ready is not None
        ]
        if not replicas:
            self.world.after(self._latency(), lambda: answered(WebhookFailure("connection refused")))
            return
        machine, port = self.world.random.choice(replicas)
        client = _WebhookClient(answered)
        fault = self._draw()
        self.world.after(
            call.timeout_seconds, lambda: client.hand_over(WebhookFailure("context deadline exceeded"))
        )
        if fault != "lost_request":
            wire = _Wire(self, machine, client, _posted(call), lost=fault == "lost_answer")
            self.world.after(self._latency(), lambda: _connect(machine, port, wire))


Deliver = Callable[[ApiResponse | Watch | None], None]


async def _no_credential() -> Mapping[str, Any]:
    return {}


class _Exchange:
    """One request of a process, as the context manager that `ClientSession.request` returns."""

    def __init__(
        self,
        network: Network,
        machine: Machine,
        method: str,
        url: str,
        *,
        params: Mapping[str, str],
        data: bytes | None,
        headers: Iterable[tuple[str, str]],
        timeout: Any,
        **_named: Any,
    ) -> None:
        self._network = network
        self._machine = machine
        kind = next((value for name, value in headers if name == "Content-Type"), "")
        self._request = ApiRequest(method, urlsplit(url).path, params, data or b"", kind, machine.name)
        self._seconds = min(filter(None, (timeout.total, timeout.sock_read)))
        self._silence: float = timeout.sock_read
        self._result: asyncio.Future[ApiResponse | Watch | None] = machine.loop.create_future()
        self._stream: _Stream | None = None

    def deliver(self, result: ApiResponse | Watch | None) -> None:
        """Take the answer, or its loss, in the world's time."""

        def take() -> None:
            if not self._result.done():
                self._result.set_result(result)

        if self._machine.network:
            self._machine.soon(take)

    async def __aenter__(self) -> Any:
        if not self._machine.network:
            raise ConnectionResetError("the network is gone")
        self._network.carry_exchange(self, self._request)
        result = await within(self._seconds, self._result)
        if result is None:
            raise ConnectionResetError("simulated")
        if isinstance(result, ApiResponse):
            content = SimpleNamespace(iter_any=lambda: _once(result.body))
            return SimpleNamespace(status=result.code, headers=result.headers, content=content)
        self._stream = _Stream(self._network, self._machine, result, self._request, self._silence)
        self._network.opened(self._stream)
        return SimpleNamespace(status=200, headers={}, content=self._stream)

    async def __aexit__(self, *_error: object) -> None:
        if self._stream is not None:
            self._network.closed(self._stream)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


class _Stream:
    """The body of a watch. `fed` is whether the network is about to deliver what changed."""

    def __init__(
        self, network: Network, machine: Machine, watch: Watch, request: ApiRequest, silence: float
    ) -> None:
        self.watch = watch
        self.fed = False
        self.seconds = float(request.query["timeoutSeconds"])
        self._network = network
        self._machine = machine
        self._silence = silence
        self._chunks: deque[bytes | ConnectionResetError | None] = deque()
        self._arrived = asyncio.Event()

    def put(self, chunk: bytes | ConnectionResetError | None) -> None:
        """Deliver lines; None is the end of the watch, an error its break."""
        self._chunks.append(chunk)
        if self._machine.network:
            self._machine.soon(self._arrived.set)

    def finish(self) -> None:
        """End the watch in order."""
        self._network.closed(self)
        self.put(None)

    def fail(self) -> None:
        """Break the connection."""
        self._network.closed(self)
        self.put(ConnectionResetError("simulated"))

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield what arrives. Raises TimeoutError after a silence, and ConnectionResetError for a break."""
        while True:
            while not self._chunks:
                self._arrived.clear()
                await within(self._silence, self._arrived.wait())
            chunk = self._chunks.popleft()
            if chunk is None:
                return
            if isinstance(chunk, ConnectionResetError):
                raise chunk
            yield chunk


def _posted(call: WebhookCall) -> bytes:
    head = (
        f"POST {call.path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(call.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + call.body


def _connect(machine: Machine, port: Any, wire: "_Wire") -> None:
    if port.ready is None or not machine.network:
        wire.client.hand_over(WebhookFailure("connection refused"))
        return
    port.waiting.append(wire)
    machine.soon(port.ready)


class _WebhookClient:
    """Reads one HTTP response, and hands its body over once."""

    def __init__(self, answered: Callable[[bytes | WebhookFailure], None]) -> None:
        self._answered: Callable[[bytes | WebhookFailure], None] | None = answered
        self._received = b""

    def data(self, piece: bytes) -> None:
        """Take a piece of the response."""
        self._received += piece
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        if len(body) >= int(headers.get("content-length", "0")):
            code = status.split(" ")[1]
            self.hand_over(body if code == "200" else WebhookFailure(f"status {code}"))

    def hand_over(self, answer: bytes | WebhookFailure) -> None:
        """Hand over an answer, unless there was one before."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(answer)


class _Wire(asyncio.Transport):
    """The server's end of a connection with one request, as the socket that it accepts and its transport."""

    def __init__(
        self, network: Network, machine: Machine, client: _WebhookClient, request: bytes, *, lost: bool
    ) -> None:
        super().__init__()
        self.client = client
        self._network = network
        self._machine = machine
        self._request = request
        self._lost = lost
        self._protocol: Any = None
        self._closing = False

    def setblocking(self, _flag: bool) -> None:
        """Do nothing: nothing blocks here."""

    def connect(self, protocol: Any) -> None:
        """Be the transport of a protocol, and send the request to it."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._machine.soon(lambda: None if self._closing else protocol.data_received(self._request))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._machine.network and not self._lost:
            piece = bytes(data)
            self._network.world.after(0.001, lambda: self.client.data(piece))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self._protocol is not None:
                self._machine.soon(lambda: self._protocol.connection_lost(None))
            self._network.world.after(0.002, lambda: self.client.hand_over(WebhookFailure("EOF")))

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 443) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: what is written is sent at once."""

    def pause_reading(self) -> None:
        """Do nothing: the whole request was sent."""

    def resume_reading(self) -> None:
        """Do nothing."""
