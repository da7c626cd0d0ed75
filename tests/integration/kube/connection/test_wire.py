"""Connections for writes: every answer is whole, its own, or an error, whatever a server does."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.connection.fake import Fake, serving
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS

from podium.errors import PodiumError
from podium.kube import httpclient
from podium.kube.connection import RawResponse, SilentError, connect
from podium.kube.httpclient import ConnectionPool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Talk = Callable[["Peer", asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A server that reads requests and answers as a test says; `heard` has each, by connection number."""

    def __init__(self, *talks: Talk) -> None:
        """Each of `talks` answers one request, the last all that come after."""
        self.heard: list[tuple[int, bytes]] = []
        self.url = ""
        self.gone = asyncio.Event()
        self._talks = talks
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request after another."""
        self._connections += 1
        number = self._connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                body = await reader.readexactly(length)
                self.heard.append((number, head + body))
                await self._talks[min(len(self.heard), len(self._talks)) - 1](self, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()

    @property
    def connections(self) -> list[int]:
        """The connection number of each request."""
        return [number for number, _ in self.heard]


def says(answer: bytes) -> Talk:
    """Answer so."""

    async def talk(_peer: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return talk


def ends(answer: bytes) -> Talk:
    """Answer so, and close."""

    async def talk(_peer: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return talk


async def silent(peer: Peer, _writer: asyncio.StreamWriter) -> None:
    """Answer nothing."""
    await peer.gone.wait()


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[ConnectionPool]:
    """Connect to a peer as it talks."""
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    peer.url = f"http://{host}:{port}/base"
    pool = ConnectionPool(urlsplit(peer.url), None, None)
    try:
        yield pool
    finally:
        await pool.close()
        peer.gone.set()
        server.close()
        await server.wait_closed()


async def ask(
    pool: ConnectionPool, path: str = "/x", body: bytes = b"{}", silence: float = 30.0
) -> RawResponse:
    return await pool.ask("POST", path, {"Accept": "a/b"}, body, connecting=30.0, silence=silence)


async def test_a_request_is_what_is_asked() -> None:
    """Behind the server's own path, and with a length; one connection takes one after another."""
    peer = Peer(says(OK))
    async with listening(peer) as pool:
        answer = await ask(pool, "/x?a=b")
        assert (answer.code, answer.body) == (200, b"ok")
        await pool.ask("DELETE", "/y", {}, b"", connecting=30, silence=30)
    host = urlsplit(peer.url).netloc.encode()
    assert peer.heard == [
        (
            1,
            b"POST /base/x?a=b HTTP/1.1\r\nHost: " + host + b"\r\nAccept: a/b\r\nContent-Length: 2\r\n\r\n{}",
        ),
        (1, b"DELETE /base/y HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 0\r\n\r\n"),
    ]


ANSWERS: list[tuple[str, bytes, int, bytes]] = [
    ("a length", OK, 200, b"ok"),
    ("no body", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    ("a length of none", b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, b""),
    (
        "chunks",
        b"HTTP/1.1 409 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n",
        409,
        b"abcde",
    ),
    ("a word in between", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, 200, b"ok"),
    ("what is packed stays so", OK.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"), 200, b"ok"),
]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case[0])
async def test_an_answer_has_an_end(case: tuple[str, bytes, int, bytes]) -> None:
    """That holds for every marking, and the connection takes the next request."""
    _, answer, code, body = case
    peer = Peer(says(answer))
    async with listening(peer) as pool:
        for _ in range(2):
            got = await ask(pool)
            assert (got.code, got.body) == (code, body)
    assert peer.connections == [1, 1]


LAST: list[tuple[str, bytes, bytes]] = [
    ("it says so", OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), b"ok"),
    ("no length", b"HTTP/1.1 503 Service Unavailable\r\n\r\nbusy", b"busy"),
    ("an older HTTP", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    (
        "another protocol",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"",
    ),
    ("two answers", OK + OK, b"ok"),
    ("it closes", OK, b"ok"),
]


@pytest.mark.parametrize("case", LAST, ids=lambda case: case[0])
async def test_an_answer_may_be_the_last(case: tuple[str, bytes, bytes]) -> None:
    """The next request takes another connection."""
    _, answer, body = case
    peer = Peer(ends(answer), says(OK))
    async with listening(peer) as pool:
        assert (await ask(pool)).body == body
        # A close is heard a moment after the answer.
        await asyncio.wait_for(_all_lost(pool), 30)
        assert pool._idle == []
        assert pool._all == set()
        assert (await ask(pool)).body == b"ok"
    assert peer.connections == [1, 2]


async def _all_lost(pool: ConnectionPool) -> None:
    for exchange in list(pool._all):
        await asyncio.shield(exchange.lost)


NO_ANSWERS: list[tuple[str, bytes, type[Exception]]] = [
    ("nothing", b"", ConnectionError),
    ("half a header", b"HTTP/1.1 200 OK\r\nContent-Le", ConnectionError),
    ("half a body", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", ConnectionError),
    (
        "half of the chunks",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ConnectionError,
    ),
    ("no HTTP", b"SSH-2.0-OpenSSH_9.6\r\n", ValueError),
    ("a bad chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", ValueError),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", ValueError),
    ("a long header", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9000 + b"\r\n\r\n", ValueError),
]


@pytest.mark.parametrize("case", NO_ANSWERS, ids=lambda case: case[0])
async def test_half_an_answer_is_none(case: tuple[str, bytes, type[Exception]]) -> None:
    """No request is repeated; the next one takes another connection."""
    _, answer, error = case
    peer = Peer(ends(answer), says(OK))
    async with listening(peer) as pool:
        with pytest.raises(error):
            await ask(pool)
        assert (await ask(pool)).body == b"ok"
    assert peer.connections == [1, 2]


async def test_silence_ends_it() -> None:
    """A later answer belongs to no request."""
    peer = Peer(silent, says(OK))
    async with listening(peer) as pool:
        with pytest.raises(TimeoutError):
            await ask(pool, silence=0.05)
        assert (await ask(pool)).body == b"ok"
    assert peer.connections == [1, 2]


async def test_a_cancelled_request_leaves_no_answer_behind() -> None:
    peer = Peer(silent, says(OK))
    async with listening(peer) as pool:
        asked = asyncio.create_task(ask(pool))
        while not peer.heard:  # noqa: ASYNC110 - a request under way tells nobody
            await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (await ask(pool)).body == b"ok"
    assert peer.connections == [1, 2]


async def test_as_many_connections_as_requests_at_a_time() -> None:
    """Later requests open no more."""
    together = asyncio.Event()

    async def talk(peer: Peer, writer: asyncio.StreamWriter) -> None:
        if len(peer.heard) == 5:
            together.set()
        await together.wait()
        writer.write(OK)

    peer = Peer(talk)
    async with listening(peer) as pool:
        assert {each.body for each in await asyncio.gather(*(ask(pool) for _ in range(5)))} == {b"ok"}
        for _ in range(5):
            await ask(pool)
    assert max(peer.connections) == 5
    assert len(set(peer.connections[5:])) == 1


async def test_after_a_long_rest_a_connection_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be closing it, and whether it took the request would be unknown."""
    peer = Peer(says(OK))
    async with listening(peer) as pool:
        await ask(pool)
        monkeypatch.setattr(httpclient, "_IDLE_SECONDS", 0.0)
        await ask(pool)
    assert peer.connections == [1, 2]


async def test_an_answer_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpclient, "_LARGEST", 1000)
    peer = Peer(says(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001))
    async with listening(peer) as pool:
        with pytest.raises(ValueError, match="larger than 1000 bytes"):
            await ask(pool)


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "/ä", "/a\x00"])
async def test_an_unsafe_header_is_not_sent(target: str) -> None:
    """No part of it is sent: a name with a line break in it would be a header."""
    peer = Peer(says(OK))
    async with listening(peer) as pool:
        with pytest.raises(ValueError, match=r"its path or headers|ascii"):
            await ask(pool, target)
    assert peer.heard == []


async def test_a_port_without_a_listener_is_an_error() -> None:
    pool = ConnectionPool(urlsplit("http://127.0.0.1:1"), None, None)
    with pytest.raises(OSError, match=r"^cannot connect to 127\.0\.0\.1:1: "):
        await ask(pool)
    await pool.close()


async def test_closing_ends_what_waits() -> None:
    peer = Peer(silent)
    async with listening(peer) as pool:
        asked = asyncio.create_task(ask(pool))
        while not peer.heard:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(ConnectionError):
            await asked


class _Transport:
    """The transport that a connection writes to when a test is the server."""

    def __init__(self) -> None:
        self.closing = False

    def write(self, data: bytes) -> None:
        """Take it."""

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0


async def test_closing_does_not_wait_for_connections_of_cancelled_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cancelled connect: uvloop closes the connection it made by then, and tells no protocol."""
    made = asyncio.Event()

    async def create_connection(protocol: Callable[[], asyncio.Protocol], *_: Any, **__: Any) -> None:
        protocol().connection_made(cast("asyncio.Transport", _Transport()))
        made.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    pool = ConnectionPool(urlsplit("https://server"), None, None)
    asked = asyncio.create_task(ask(pool))
    await made.wait()
    asked.cancel()
    await asyncio.wait([asked])
    assert asked.cancelled()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await pool.close()


async def _hear(pieces: list[bytes]) -> RawResponse | Exception:
    """Return the result of one request when the server sends these pieces and closes."""
    pool = ConnectionPool(urlsplit("http://server"), None, None)
    exchange = httpclient._Exchange(pool, asyncio.get_running_loop())
    exchange.connection_made(cast("Any", _Transport()))
    asked = asyncio.create_task(exchange.ask(b"x", 30.0))
    await asyncio.sleep(0)
    for piece in pieces:
        exchange.data_received(piece)
    exchange.connection_lost(None)
    try:
        return await asked
    except (ConnectionError, ValueError) as error:
        return error


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted({place % len(data) for place in places} - {0}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(at)]


@given(case=st.sampled_from(ANSWERS), places=st.lists(st.integers(0, 500), max_size=20))
def test_an_answer_may_come_in_any_pieces(case: tuple[str, bytes, int, bytes], places: list[int]) -> None:
    _, data, code, body = case
    got = asyncio.run(_hear(_cut(data, places)))
    assert isinstance(got, RawResponse)
    assert (got.code, got.body) == (code, body)


@given(
    case=st.sampled_from(ANSWERS),
    edits=st.lists(st.tuples(st.integers(0, 500), st.binary(max_size=3), st.integers(0, 5)), max_size=4),
    places=st.lists(st.integers(0, 500), max_size=5),
)
def test_whatever_is_said_is_an_answer_or_an_error(
    case: tuple[str, bytes, int, bytes], edits: list[tuple[int, bytes, int]], places: list[int]
) -> None:
    """No other exception escapes, and no caller waits for ever."""
    data = case[1]
    for place, put, cut in edits:
        at = place % (len(data) + 1)
        data = data[:at] + put + data[at + cut :]
    got = asyncio.run(_hear(_cut(data, places) if data else []))
    assert isinstance(got, RawResponse | ConnectionError | ValueError)


async def test_an_unasked_word_closes_a_connection() -> None:
    """A server that closes an idle connection may say so before; the next request does not read that."""
    pool = ConnectionPool(urlsplit("http://server"), None, None)
    exchange = httpclient._Exchange(pool, asyncio.get_running_loop())
    transport = _Transport()
    exchange.connection_made(cast("Any", transport))
    exchange.data_received(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    assert transport.closing
    assert not exchange.ready
    exchange.connection_lost(None)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def test_errors_are_one_line(stack: AsyncExitStack, tmp_path: Path) -> None:
    """The shared connection has the words of every other request."""
    peer = Peer(ends(b""), ends(b"what?\r\n\r\n"), silent)
    await stack.enter_async_context(listening(peer))
    fake = Fake()
    fake.url = peer.url
    link = await stack.enter_async_context(connect(fake.kubeconfig(tmp_path), None))
    with pytest.raises(PodiumError, match=r"/base: connection lost during PATCH /x \("):
        await link.send("PATCH", "/x", {})
    with pytest.raises(PodiumError, match=r"/base: PATCH /x failed: answer is not HTTP: [^\n]*$"):
        await link.send("PATCH", "/x", {})
    fake.url = "http://127.0.0.1:1"
    link = await stack.enter_async_context(connect(fake.kubeconfig(tmp_path), None))
    with pytest.raises(PodiumError, match=r":1: PATCH /x failed: connection refused\. "):
        await link.send("PATCH", "/x", {})


async def test_a_silent_server_is_told(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium.kube.connection._SILENCE_SECONDS", 0.05)
    peer = Peer(silent)
    await stack.enter_async_context(listening(peer))
    fake = Fake()
    fake.url = peer.url
    link = await stack.enter_async_context(connect(fake.kubeconfig(tmp_path), None))
    with pytest.raises(SilentError, match="no answer to PATCH /x in time"):
        await link.send("PATCH", "/x", {})


async def test_behind_a_proxy_writes_go_through_it(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, fake = Fake(), Fake()
    fake.url = "http://api.example:6443"
    await stack.enter_async_context(serving(proxy))
    monkeypatch.setenv("http_proxy", proxy.url)
    link = await stack.enter_async_context(connect(fake.kubeconfig(tmp_path), None))
    with pytest.raises(PodiumError, match="404 NotFound"):
        await link.send("DELETE", "/nothing")
    assert [(method, path) for method, path, _ in proxy.requests] == [("DELETE", "/nothing")]


@pytest.mark.server
@pytest.mark.parametrize(
    ("name", "error"),
    [("kubernetes.default.svc", ""), ("other.example", "certificate is not valid for 'other.example'")],
)
async def test_a_write_goes_by_the_name_that_the_kubeconfig_says(
    server_137: Server, namespace: str, tmp_path: Path, name: str, error: str
) -> None:
    """`tls-server-name` is checked against the certificate, as its scheduler is reads."""
    text = server_137.kubeconfig.read_text(encoding="utf-8")
    named = text.replace("server: https", f"tls-server-name: {name}\n    server: https")
    assert named != text
    (tmp_path / "named").write_text(named, encoding="utf-8")
    async with connect(str(tmp_path / "named"), None) as link:
        path, made = f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "made"}}
        if error:
            with pytest.raises(PodiumError, match=error):
                await link.send("POST", path, made)
        else:
            await link.send("POST", path, made)
    code, _ = server_137.request("GET", f"{path}/made")
    assert code == (404 if error else 200)
