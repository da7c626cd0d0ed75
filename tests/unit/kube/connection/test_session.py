"""Requests over sockets: every response is complete, its own, or an error, and no write is sent twice."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.connection.fake import Fake, serving
from tests.support.waiting import PATIENCE_SECONDS

from podium.errors import PodiumError
from podium.kube.connection import Connection, SilentError, TooLargeError, connect

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
WRITES = ("POST", "PUT", "PATCH", "DELETE")
Talk = Callable[["Peer", asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A server that reads requests and answers as a test requires; `heard` has each, by connection number."""

    def __init__(self, *talks: Talk) -> None:
        """Each of `talks` answers one request, the last one all later ones."""
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
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(length or 0))
                self.heard.append((number, head + body))
                await self._talks[min(len(self.heard), len(self._talks)) - 1](self, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()

    @property
    def connections(self) -> list[int]:
        """Return the connection number of each request."""
        return [number for number, _ in self.heard]


def says(answer: bytes) -> Talk:
    """Return a talk that sends these bytes."""

    async def talk(_peer: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return talk


def ends(answer: bytes) -> Talk:
    """Return a talk that sends these bytes and closes."""

    async def talk(_peer: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return talk


async def resets(_peer: Peer, writer: asyncio.StreamWriter) -> None:
    """Reset the connection."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def silent(peer: Peer, _writer: asyncio.StreamWriter) -> None:
    """Answer nothing."""
    await peer.gone.wait()


Open = Callable[[Peer], AbstractAsyncContextManager[Connection]]


@pytest.fixture
def open_to(tmp_path: Path) -> Open:
    """Connect to a running peer."""

    @asynccontextmanager
    async def opened(peer: Peer) -> AsyncIterator[Connection]:
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        fake = Fake()
        peer.url = fake.url = f"http://{host}:{port}/base"
        try:
            async with connect(fake.kubeconfig(tmp_path), None) as link:
                yield link
        finally:
            peer.gone.set()
            server.close()
            await server.wait_closed()

    return opened


async def heard(peer: Peer, number: int = 1) -> None:
    """Wait until a peer has read this many requests."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(peer.heard) < number:  # noqa: ASYNC110 - a request in flight has no event
            await asyncio.sleep(0)


async def parted(link: Connection, peer: Peer) -> None:
    """Wait until a peer has seen the end of the connection, and the client has, too."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        await peer.gone.wait()
        # The end of a connection has no event.
        idle = link._session.connector._conns
        while not all(each.should_close for kept in idle.values() for each, _ in kept):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_request_has_the_servers_path_and_a_length(open_to: Open) -> None:
    """One connection serves one request after another."""
    peer = Peer(says(OK))
    async with open_to(peer) as link:
        assert await link.send("POST", "/x", {"a": 1}, c="d e") == b"ok"
        assert await link.send("DELETE", "/y%2Fz") == b"ok"
    (first, post), (second, delete) = peer.heard
    head, _, body = post.partition(b"\r\n\r\n")
    assert (first, second) == (1, 1)
    assert head.split(b"\r\n")[0] == b"POST /base/x?c=d+e HTTP/1.1"
    assert {b"Host: " + urlsplit(peer.url).netloc.encode(), b"Content-Length: 7"} <= {*head.split(b"\r\n")}
    assert body == b'{"a":1}'
    assert delete.startswith(b"DELETE /base/y%2Fz HTTP/1.1\r\n")


ANSWERS: list[tuple[str, bytes, int, bytes]] = [
    ("a length", OK, 200, b"ok"),
    ("no body", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    ("a length of 0", b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, b""),
    (
        "chunks",
        b"HTTP/1.1 409 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n",
        409,
        b"abcde",
    ),
    ("an informational response", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, 200, b"ok"),
]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case[0])
async def test_a_response_ends_where_its_header_says(
    case: tuple[str, bytes, int, bytes], open_to: Open
) -> None:
    """The connection is used for the next request."""
    _, answer, code, body = case
    peer = Peer(says(answer))
    async with open_to(peer) as link:
        for _ in range(2):
            got = await link.answer("POST", "/x", {})
            assert (got.code, got.body) == (code, body)
    assert peer.connections == [1, 1]


LAST: list[tuple[str, bytes, bytes]] = [
    ("Connection: close", OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), b"ok"),
    ("no length", b"HTTP/1.1 503 Service Unavailable\r\n\r\nbusy", b"busy"),
    ("HTTP 1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    (
        "another protocol",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"",
    ),
    ("two responses", OK + OK, b"ok"),
    ("the server closes", OK, b"ok"),
]


@pytest.mark.parametrize("case", LAST, ids=lambda case: case[0])
async def test_after_the_last_response_a_new_connection_is_opened(
    case: tuple[str, bytes, bytes], open_to: Open
) -> None:
    _, answer, body = case
    peer = Peer(ends(answer), says(OK))
    async with open_to(peer) as link:
        assert (await link.answer("POST", "/x", {})).body == body
        await parted(link, peer)
        assert (await link.answer("POST", "/x", {})).body == b"ok"
    assert peer.connections == [1, 2]


NO_ANSWERS: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("half a header", b"HTTP/1.1 200 OK\r\nContent-Le"),
    ("half a body", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"),
    ("half of the chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    ("no HTTP", b"SSH-2.0-OpenSSH_9.6\r\n"),
    ("a bad chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
    ("a long header", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9000 + b"\r\n\r\n"),
]


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize("case", NO_ANSWERS, ids=lambda case: case[0])
async def test_an_incomplete_response_is_an_error_of_one_line(
    case: tuple[str, bytes], method: str, open_to: Open
) -> None:
    """The write is not repeated, and the next one uses another connection."""
    peer = Peer(ends(case[1]), says(OK))
    async with open_to(peer) as link:
        with pytest.raises(PodiumError, match=rf"/base: [^\n]*{method} /x[^\n]*$"):
            await link.send(method, "/x", {})
        assert await link.send(method, "/x", {}) == b"ok"
    assert peer.connections == [1, 2]


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize("close", [ends(b""), resets], ids=["closed", "reset"])
async def test_a_write_on_a_connection_that_the_server_closes_is_sent_once(
    method: str, close: Talk, open_to: Open
) -> None:
    """By default aiohttp repeats a PUT and a DELETE."""
    peer = Peer(says(OK), close, says(OK))
    async with open_to(peer) as link:
        await link.send(method, "/x", {})
        with pytest.raises(PodiumError, match=f"connection lost during {method} /x"):
            await link.send(method, "/x", {})
        assert peer.connections == [1, 1]


@pytest.mark.parametrize("close", [ends(b""), resets], ids=["closed", "reset"])
async def test_a_read_on_a_connection_that_the_server_closes_is_repeated_once(
    close: Talk, open_to: Open
) -> None:
    peer = Peer(says(OK), close, says(OK))
    async with open_to(peer) as link:
        await link.get("/x")
        assert await link.get("/x") == b"ok"
    assert peer.connections == [1, 1, 2]


async def test_a_response_after_the_deadline_belongs_to_no_request(
    open_to: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium.kube.connection._SILENCE_SECONDS", 0.05)
    peer = Peer(silent, says(OK))
    async with open_to(peer) as link:
        with pytest.raises(SilentError, match="no answer to PATCH /x in time"):
            await link.send("PATCH", "/x", {})
        assert await link.send("PATCH", "/x", {}) == b"ok"
    assert peer.connections == [1, 2]


async def test_a_server_that_sends_bytes_slowly_cannot_hold_a_write(
    open_to: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte restarts the deadline for silence, so a write also has a deadline for the whole response."""
    monkeypatch.setattr("podium.kube.connection._CONNECT_SECONDS", 0.1)
    monkeypatch.setattr("podium.kube.connection._SILENCE_SECONDS", 0.1)

    async def slowly(peer: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            with suppress(TimeoutError):
                await asyncio.wait_for(peer.gone.wait(), 0.01)

    async with open_to(Peer(slowly)) as link, asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(SilentError):
            await link.send("PUT", "/x", {})


async def test_the_response_of_a_cancelled_request_reaches_no_other(open_to: Open) -> None:
    peer = Peer(silent, says(OK))
    async with open_to(peer) as link:
        request = asyncio.create_task(link.send("PUT", "/x", {}))
        await heard(peer)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert await link.send("PUT", "/x", {}) == b"ok"
    assert peer.connections == [1, 2]


async def test_bytes_without_a_request_close_a_connection(open_to: Open) -> None:
    """A server that closes an idle connection may send the reason; the next request must not read it."""
    both, idle, unasked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def first(_peer: Peer, writer: asyncio.StreamWriter) -> None:
        await both.wait()
        writer.write(OK)
        await idle.wait()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        unasked.set()

    async def second(_peer: Peer, writer: asyncio.StreamWriter) -> None:
        both.set()
        # The client reads this response after the bytes on the first connection.
        await unasked.wait()
        writer.write(OK)

    peer = Peer(first, second, says(OK))
    async with open_to(peer) as link, asyncio.timeout(PATIENCE_SECONDS):
        requests = [asyncio.create_task(link.send("PUT", "/x", {})) for _ in range(2)]
        await requests[0]
        idle.set()
        await requests[1]
        assert (await link.answer("PUT", "/x", {})).code == 200
    assert peer.connections == [1, 2, 2]


async def test_a_write_waits_for_no_connection(open_to: Open) -> None:
    """Reads wait for each other, but the renewal of a Lease must not wait for them, or for other writes."""
    full = asyncio.Event()

    async def talk(peer: Peer, writer: asyncio.StreamWriter) -> None:
        if peer.heard[-1][1].startswith(b"PUT "):
            full.set()
        await full.wait()
        writer.write(OK)

    peer = Peer(talk)
    async with open_to(peer) as link, asyncio.timeout(PATIENCE_SECONDS):
        reads = [asyncio.create_task(link.get("/x")) for _ in range(150)]
        await heard(peer, 100)
        writes = [asyncio.create_task(link.send("POST", "/x", {})) for _ in range(150)]
        await heard(peer, 250)
        assert await link.send("PUT", "/lease", {}) == b"ok"
        assert {*await asyncio.gather(*reads, *writes)} == {b"ok"}
    assert len([1 for _, request in peer.heard[:250] if request.startswith(b"GET ")]) == 100


async def test_later_requests_open_no_more_connections(open_to: Open) -> None:
    together = asyncio.Event()

    async def talk(peer: Peer, writer: asyncio.StreamWriter) -> None:
        if len(peer.heard) == 5:
            together.set()
        await together.wait()
        writer.write(OK)

    peer = Peer(talk)
    async with open_to(peer) as link:
        await asyncio.gather(*(link.send("POST", "/x", {}) for _ in range(5)))
        for _ in range(10):
            await link.send("POST", "/x", {})
    assert max(peer.connections) == 5


async def test_a_response_has_a_largest_size(open_to: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.kube.connection.LONGEST_ANSWER", 1 << 20)
    size = (1 << 20) + 1
    peer = Peer(says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size))
    async with open_to(peer) as link:
        with pytest.raises(TooLargeError, match="PUT /x: the answer is larger than 1 MiB"):
            await link.send("PUT", "/x", {})


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/a HTTP/1.1\r\nX: y\r\n\r\n", "/ä", "/a\x00"])
async def test_a_path_adds_no_header_and_no_request(path: str, open_to: Open) -> None:
    peer = Peer(says(OK))
    async with open_to(peer) as link:
        with suppress(PodiumError):
            await link.send("PUT", path, {})
    for _, request in peer.heard:
        line, *headers = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert len(line.split(b" ")) == 3
        assert not [each for each in headers if each.startswith(b"X:")]
    assert len(peer.heard) <= 1


async def test_closing_ends_requests_in_flight(open_to: Open) -> None:
    peer = Peer(silent)
    async with open_to(peer) as link:
        request = asyncio.create_task(link.send("PUT", "/x", {}))
        await heard(peer)
    with pytest.raises(PodiumError):
        await request


async def test_cookies_are_ignored(open_to: Open) -> None:
    """A load balancer may set a cookie; kubectl does not return it."""
    peer = Peer(says(OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b\r\n\r\n")))
    async with open_to(peer) as link:
        for _ in range(2):
            await link.send("PUT", "/x", {})
    assert not [request for _, request in peer.heard if b"Cookie" in request]


async def test_errors_are_one_line(open_to: Open, tmp_path: Path) -> None:
    peer = Peer(ends(b""), ends(b"what?\r\n\r\n"))
    async with open_to(peer) as link:
        with pytest.raises(PodiumError, match=r"/base: connection lost during PATCH /x \("):
            await link.send("PATCH", "/x", {})
        with pytest.raises(PodiumError, match=r"/base: PATCH /x failed: answer is not HTTP: [^\n]*$"):
            await link.send("PATCH", "/x", {})
    fake = Fake()
    fake.url = "http://127.0.0.1:1"
    async with connect(fake.kubeconfig(tmp_path), None) as link:
        with pytest.raises(PodiumError, match=r":1: PATCH /x failed: connection refused\. "):
            await link.send("PATCH", "/x", {})


async def test_behind_a_proxy_writes_go_through_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, fake = Fake(), Fake()
    fake.url = "http://api.example:6443"
    async with serving(proxy):
        monkeypatch.setenv("http_proxy", proxy.url)
        async with connect(fake.kubeconfig(tmp_path), None) as link:
            with pytest.raises(PodiumError, match="404 NotFound"):
                await link.send("DELETE", "/nothing")
    assert [(method, path) for method, path, _ in proxy.requests] == [("DELETE", "/nothing")]
