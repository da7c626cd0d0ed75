"""The server on its own: HTTP as clients speak it, each limit, and its end.

Every test runs on asyncio's loop and on uvloop, over TLS by default. The guarantees of aiohttp's parser are
not documented, so they are tested here too: pieces, pipelining, chunks, errors.
"""

import asyncio
import contextlib
import io
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from random import Random
from typing import Any

import pytest
from tests.support.webhooks.client import ADDRESS, LOOPS, Served, post, restored_logs, serving

from podium.api.durations import seconds
from podium.errors import PodiumError
from podium.runtime import logs
from podium.runtime.host import listen
from podium.runtime.messages import HTTPRequest, HTTPResponse, Limits, RequestBudget, Route
from podium.runtime.server import HTTPServer

JSON = "application/json"
LIMIT = 100_000
SHARE = 50_000
APART, NARROW = RequestBudget("apart", SHARE, 1, 9), RequestBudget("narrow", SHARE, 9, 2)
PIECE = 64 << 10


class ScriptedHandlers:
    """Handlers: one that echoes, one that waits for a signal, one that fails, one with a long answer."""

    def __init__(self) -> None:
        self.asked: list[HTTPRequest] = []
        self.hear: Callable[[], object] = lambda: None
        self.begun = 0
        self.waiting: list[Callable[[], None]] = []
        self.cancelled = threading.Event()

    def echo(self, ask: HTTPRequest) -> HTTPResponse:
        self.asked.append(ask)
        self.hear()
        return HTTPResponse(200, ask.body)

    def wait(self, ask: HTTPRequest) -> Awaitable[HTTPResponse]:
        self.begun += 1
        return self._wait(ask)

    async def _wait(self, ask: HTTPRequest) -> HTTPResponse:
        started = asyncio.Event()
        self.waiting.append(started.set)
        try:
            await started.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return HTTPResponse(200, ask.body)

    def fail(self, ask: HTTPRequest) -> HTTPResponse:
        raise LookupError(f"secret {ask.path}")

    async def fail_later(self, ask: HTTPRequest) -> HTTPResponse:
        raise LookupError(f"secret {ask.path}")

    def much(self, ask: HTTPRequest) -> HTTPResponse:
        return HTTPResponse(200, bytes(len(ask.body) + (16 << 20)))

    def owner(self, beginning: bytes) -> str:
        return beginning.partition(b":")[0].decode()

    def declined(self, why: str, beginning: bytes) -> HTTPResponse | None:
        return HTTPResponse(200, f"no: {why}".encode()) if beginning.startswith(b"known:") else None

    def routes(self) -> dict[str, Route]:
        return {
            "/echo": Route("POST", self.echo, JSON, LIMIT),
            "/wait": Route("POST", self.wait, JSON, LIMIT),
            "/fail": Route("POST", self.fail, JSON, LIMIT),
            "/fail-later": Route("POST", self.fail_later, JSON, LIMIT),
            "/much": Route("GET", self.much),
            "/get": Route("GET", self.echo),
            "/anonymous": Route("POST", self.echo, JSON, LIMIT, anonymous=True),
            "/unproving": Route("POST", self.echo, JSON, LIMIT, proves=False),
            "/apart": Route("POST", self.echo, JSON, LIMIT, budget=APART),
            "/apart-wait": Route("POST", self.wait, JSON, LIMIT, budget=APART),
            "/narrow": Route("POST", self.echo, JSON, LIMIT, budget=NARROW),
            "/narrow-wait": Route("POST", self.wait, JSON, LIMIT, budget=NARROW),
            "/owned": Route("POST", self.echo, JSON, LIMIT, owner=self.owner),
            "/declined": Route("POST", self.echo, JSON, LIMIT, declined=self.declined),
        }


Serve = Callable[..., Served]


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    with restored_logs():
        yield


@pytest.fixture
def handlers() -> ScriptedHandlers:
    return ScriptedHandlers()


@pytest.fixture(params=LOOPS)
def serve(request: pytest.FixtureRequest, handlers: ScriptedHandlers) -> Iterator[Serve]:
    """Start a server with the handlers; the arguments are limits, or of `serving`."""
    with ExitStack() as stack:

        def start(*, tls: bool = True, accepts: Any = None, **limits: Any) -> Served:
            context: AbstractContextManager[Served] = serving(
                handlers.routes(), Limits(**limits), loop=request.param, tls=tls, accepts=accepts
            )
            return stack.enter_context(context)

        yield start


def get(path: str, **fields: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in ({"Host": "podium"} | fields).items())
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


def chunked(path: str) -> bytes:
    return post(path, b"", Content_Length="", Transfer_Encoding="chunked") + b"1\r\nx\r\n"


def test_answers_and_keeps_the_connection(serve: Serve, handlers: ScriptedHandlers) -> None:
    served = serve()
    with served.peer() as peer:
        first, second = peer.ask(post("/echo?timeout=3s", b"{1}")), peer.ask(post("/echo", b"{2}"))
    assert (first.status, first.body, second.body) == (200, b"{1}", b"{2}")
    assert first.headers["Content-Type"] == JSON
    assert "Date" in first.headers
    assert "Connection" not in first.headers
    assert [ask.path for ask in handlers.asked] == ["/echo", "/echo"]
    # 3 s, and the default of 10 s.
    assert 6 < handlers.asked[1].deadline - handlers.asked[0].deadline < 8


@pytest.mark.parametrize("size", [0, 1, 300, PIECE, LIMIT])
@pytest.mark.parametrize("piece", [1, 7, 5000], ids="in pieces of {}".format)
def test_a_body_is_whole_however_it_comes(serve: Serve, size: int, piece: int) -> None:
    """It may come in small TLS records; of a large body at most a thousand records."""
    body = bytes(n % 251 for n in range(size))
    piece = max(piece, size // 1_000)
    request = post("/echo", body)
    with serve().peer() as peer:
        for start in range(0, len(request), piece):
            peer.send(request[start : start + piece])
        assert peer.answer().body == body


def test_requests_sent_ahead_are_answered_in_order(serve: Serve) -> None:
    """Many pipelined requests do not recurse."""
    bodies = [b"{%d}" % n for n in range(3_000)]
    with serve().peer() as peer:
        peer.send(b"".join(post("/echo", body) for body in bodies))
        assert [peer.answer().body for _ in bodies] == bodies


def test_refusals_sent_ahead_are_answered_in_turn(serve: Serve, handlers: ScriptedHandlers) -> None:
    """A client that sends thousands at once does not block another for all of them."""
    served = serve()
    refused_before: list[int] = []
    handlers.hear = lambda: refused_before.append(len(served.refusals))
    both_sent = threading.Event()
    with served.peer() as peer, served.peer() as other:
        served.soon(both_sent.wait)
        peer.send(get("/nowhere") * 1_000 + post("/echo"))
        other.send(post("/echo"))
        both_sent.set()
        assert other.answer().status == 200
        assert {peer.answer().status for _ in range(1_000)} == {404}
        assert peer.answer().status == 200
    first, second = refused_before
    assert first < 100
    assert second == 1_000


def test_requests_behind_one_that_waits(serve: Serve, handlers: ScriptedHandlers) -> None:
    """They are not started, and not lost; other connections do not wait."""
    served = serve()
    with served.peer() as peer, served.peer() as other:
        peer.send(post("/wait", b"first") + post("/echo", b"second")[:-3])
        served.until(lambda _: bool(handlers.waiting), "the first waits")
        peer.send(b"ond" + post("/echo", b"third"))
        assert other.ask(post("/echo", b"other")).body == b"other"
        assert [ask.body for ask in handlers.asked] == [b"other"]
        served.soon(handlers.waiting[0])
        assert [peer.answer().body for _ in range(3)] == [b"first", b"second", b"third"]


def big(length: int) -> str:
    return str(LIMIT + length)


WHOLE = [
    pytest.param(post("/nowhere"), 404, "path", id="path"),
    pytest.param(get("/echo"), 405, "method", id="method"),
    pytest.param(post("/echo", Content_Type="text/plain"), 415, "content type", id="content type"),
    pytest.param(post("/echo", Content_Type=""), 415, "content type", id="no content type"),
]
HALF = [
    pytest.param(post("/echo", b"", Content_Length=big(1)), 413, "large body", id="declared large"),
    pytest.param(post("/echo", b"", Content_Length="9" * 18), 413, "large body", id="declared huge"),
    pytest.param(chunked("/echo"), 411, "no length", id="chunked"),
    pytest.param(post("/nowhere", b"{", Content_Length="2"), 404, "path", id="half a body to nowhere"),
    pytest.param(post("/echo", Content_Length="-1"), 400, "not HTTP", id="negative length"),
    pytest.param(post("/echo", Content_Length="9" * 30), 400, "not HTTP", id="length beyond 64 bits"),
    pytest.param(post("/echo", Transfer_Encoding="chunked"), 400, "not HTTP", id="two lengths"),
    pytest.param(post("/echo", Host=""), 400, "not HTTP", id="no host"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "not HTTP", id="HTTP/2"),
    pytest.param(b"\x00\xff\x00\xff\r\n\r\n", 400, "not HTTP", id="garbage"),
    pytest.param(b"GET /" + b"x" * 9_000, 400, "not HTTP", id="long target"),
    pytest.param(post("/echo", X_Long="x" * 9_000), 400, "not HTTP", id="long field"),
    pytest.param(get("/get", **{f"x{n}": "1" for n in range(100)}), 400, "not HTTP", id="many fields"),
]


@pytest.mark.parametrize(("request_", "status", "why"), WHOLE)
def test_a_whole_request_that_is_refused_keeps_the_connection(
    serve: Serve, request_: bytes, status: int, why: str
) -> None:
    served = serve()
    with served.peer() as peer:
        refused = peer.ask(request_)
        assert (refused.status, served.refusals) == (status, [(status, why)])
        assert refused.headers.get("Allow") == ("POST" if status == 405 else None)
        assert peer.ask(post("/echo")).status == 200


@pytest.mark.parametrize(("request_", "status", "why"), HALF)
def test_an_unreadable_stream_is_refused_and_closed(
    serve: Serve, request_: bytes, status: int, why: str
) -> None:
    """The answer comes while the client may still be writing, and reaches it."""
    served = serve(linger_seconds=0.05)
    with served.peer() as peer:
        refused = peer.ask(request_)
        assert (refused.status, served.refusals) == (status, [(status, why)])
        assert refused.headers["Connection"] == "close"
        assert peer.closed


def test_a_client_that_writes_on_gets_its_refusal(serve: Serve) -> None:
    """The server discards bytes that arrive after the refusal; closing at once would reset the connection."""
    served = serve(linger_seconds=5)
    with served.peer() as peer:
        peer.send(post("/echo", b"", Content_Length=str(20 << 20)))
        for _ in range(320):
            peer.send(bytes(PIECE))
        assert peer.answer().status == 413
        assert served.server.load.held_bytes[""] == 0


def test_a_header_of_many_small_pieces_is_bounded(serve: Serve) -> None:
    served = serve(header_bytes=2_000, linger_seconds=0.05)
    with served.peer() as peer:
        peer.send(b"POST /echo HTTP/1.1\r\n")
        for n in range(60):
            peer.send(f"X-{n}: {'x' * 30}\r\n".encode())
        assert peer.answer().status == 431


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        pytest.param(b"POST /ec", "slow header", id="in the header"),
        pytest.param(post("/echo", b"{", Content_Length="9"), "slow body", id="in the body"),
        pytest.param(post("/echo?timeout=50ms", b"{", Content_Length="9"), "slow body", id="own deadline"),
    ],
)
def test_a_client_that_stops_writing_gets_an_error(serve: Serve, sent: bytes, why: str) -> None:
    own = b"timeout" in sent
    served = serve(header_seconds=0.05, body_seconds=60 if own else 0.05, linger_seconds=0.05)
    with served.peer() as peer:
        assert peer.ask(sent).status == 408
        assert peer.closed
    assert served.refusals == [(408, why)]


def test_silence_is_closed_late(serve: Serve, handlers: ScriptedHandlers) -> None:
    """A connection that has just been used, or is in use, has its full time again."""
    served = serve(idle_seconds=0.2, header_seconds=0.01)
    with served.peer() as silent, served.peer() as used, served.peer() as busy:
        busy.send(post("/wait"))
        assert used.ask(post("/echo")).status == 200
        assert silent.closed
        assert used.closed
        served.soon(handlers.waiting[0])
        assert busy.answer().status == 200
    assert served.refusals == []


def test_a_handler_later_than_the_deadline(serve: Serve, handlers: ScriptedHandlers) -> None:
    served = serve()
    with served.peer() as peer:
        assert peer.ask(post("/wait?timeout=20ms")).status == 504
        assert peer.ask(post("/echo")).status == 200
    assert served.refusals == [(504, "late")]
    assert handlers.cancelled.is_set()


def test_no_deadline_is_longer_than_an_api_server_waits(serve: Serve, handlers: ScriptedHandlers) -> None:
    served = serve(default_seconds=5, longest_seconds=0.02)
    with served.peer() as peer:
        assert peer.ask(post("/wait?timeout=10h")).status == 504
        assert peer.ask(post("/wait?timeout=soon")).status == 504


@pytest.mark.parametrize("path", ["/fail", "/fail-later"])
def test_a_bug_is_500(serve: Serve, path: str) -> None:
    """The answer does not name the cause, the log does; the connection stays."""
    served, output = serve(), io.StringIO()
    logs.configure("json", "info", output)
    with served.peer() as peer:
        failed = peer.ask(post(path))
        assert (failed.status, served.refusals) == (500, [(500, "exception")])
        assert b"secret" not in failed.body
        assert peer.ask(post("/echo")).status == 200
    assert "secret" in output.getvalue()


def test_too_many_that_wait_are_shed(serve: Serve, handlers: ScriptedHandlers) -> None:
    served = serve(waiting=2)
    with served.peer() as one, served.peer() as two, served.peer() as three:
        one.send(post("/wait"))
        two.send(post("/wait"))
        served.until(lambda _: len(handlers.waiting) == 2, "two wait")
        # A request that need not wait is answered.
        assert three.ask(post("/echo")).status == 200
        shed = three.ask(post("/wait"))
        assert (shed.status, shed.headers["Retry-After"]) == (429, "1")
        assert served.refusals == [(429, "waiting")]
        served.soon(handlers.waiting[0])
        assert one.answer().status == 200
        assert three.ask(post("/echo")).status == 200
        served.soon(handlers.waiting[1])
        assert two.answer().status == 200


def test_bodies_are_bounded_together(serve: Serve, handlers: ScriptedHandlers) -> None:
    """Bodies under review count too; the largest unfinished one makes room for the others."""
    served = serve(held_bytes=150_000, linger_seconds=0.05)
    with served.peer() as judged, served.peer() as large, served.peer() as small:
        judged.send(post("/wait", bytes(50_000)))
        large.send(post("/echo", bytes(60_000), Content_Length="60001"))
        served.until(lambda _: served.server.load.held_bytes[""] == 110_000, "they are held")
        assert small.ask(post("/echo", bytes(50_000))).status == 200
        shed = large.answer()
        assert (shed.status, shed.headers["Retry-After"]) == (429, "1")
        assert served.refusals == [(429, "memory")]
        served.soon(handlers.waiting[0])
        assert judged.answer().status == 200
        served.until(lambda _: served.server.load.held_bytes[""] == 0, "nothing is held")


def test_a_body_without_room_beside_those_that_are_judged(serve: Serve, handlers: ScriptedHandlers) -> None:
    """They cannot make room, so the new one is refused, and the connection stays."""
    served = serve(held_bytes=60_000)
    with served.peer() as judged, served.peer() as new:
        judged.send(post("/wait", bytes(50_000)))
        served.until(lambda _: bool(handlers.waiting), "one is judged")
        # In one TLS record, so that it arrives at once.
        assert new.ask(post("/echo", bytes(12_000))).status == 429
        assert new.ask(post("/echo", bytes(9_000))).status == 200
        served.soon(handlers.waiting[0])
        assert judged.answer().status == 200


def test_the_owner_of_most_bytes_makes_room_first(serve: Serve) -> None:
    """Many bodies of one owner count together, so the owner of one larger body keeps it."""
    served = serve(held_bytes=200_000, linger_seconds=0.05)
    with ExitStack() as stack:
        flood = [stack.enter_context(served.peer()) for _ in range(5)]
        honest, last = stack.enter_context(served.peer()), stack.enter_context(served.peer())
        for peer in flood:
            peer.send(post("/owned", b"flood:" + bytes(29_994), Content_Length="30001"))
        honest.send(post("/owned", b"honest:" + bytes(39_993), Content_Length="40001"))
        served.until(lambda _: served.server.load.held_bytes[""] == 190_000, "they are held")
        assert last.ask(post("/owned", b"other:" + bytes(20_000))).status == 200
        assert served.refusals == [(429, "memory")]
        honest.send(b"x")
        assert honest.answer().status == 200


def test_a_client_that_does_not_read_is_closed_to_make_room(serve: Serve) -> None:
    """An answer that stays is bytes like any other."""
    served = serve(held_bytes=(16 << 20) + LIMIT // 2)
    with served.peer() as deaf, served.peer() as other:
        deaf.send(get("/much"))
        served.until(lambda _: served.server.load.held_bytes[""] > 0, "it is stuck")
        assert other.ask(post("/echo", bytes(LIMIT))).status == 200
        served.until(lambda _: served.server.connections == 1, "the one that does not read is closed")
    assert served.refusals == [(429, "memory")]


def test_a_budget_is_of_its_routes_only(serve: Serve, handlers: ScriptedHandlers) -> None:
    """Bytes, waiting requests and connections of one owner do not affect those of others."""
    served = serve(linger_seconds=0.05)
    with ExitStack() as stack:
        apart = [stack.enter_context(served.peer()) for _ in range(3)]
        other = stack.enter_context(served.peer())
        apart[0].send(post("/apart", bytes(SHARE), Content_Length=str(SHARE + 1)))
        served.until(lambda _: served.server.load.held_bytes["apart"] == SHARE, "it holds all")
        assert apart[1].ask(post("/apart", b"{}")).status == 200
        assert apart[0].answer().status == 429
        apart[1].send(post("/apart-wait"))
        served.until(lambda _: bool(handlers.waiting), "it waits")
        assert apart[2].ask(post("/apart-wait")).status == 429
        assert other.ask(post("/echo", bytes(LIMIT))).status == 200
        assert [why for _, why in served.refusals] == ["memory", "waiting"]
        served.soon(handlers.waiting[0])
        assert apart[1].answer().status == 200


def test_connections_of_a_budget(serve: Serve, handlers: ScriptedHandlers) -> None:
    """The oldest idle one makes room; if all are in use the new one is refused."""
    served = serve(linger_seconds=0.05)
    with ExitStack() as stack:
        old, busy, third, fourth, other = (stack.enter_context(served.peer()) for _ in range(5))
        assert old.ask(post("/narrow")).status == 200
        assert busy.ask(post("/narrow")).status == 200
        busy.send(post("/narrow-wait"))
        served.until(lambda _: bool(handlers.waiting), "it waits")
        third.send(post("/narrow", b"{", Content_Length="2"))
        assert old.closed
        assert fourth.ask(post("/narrow")).status == 429
        assert other.ask(post("/echo")).status == 200
        third.send(b"}")
        assert third.answer().status == 200
        served.soon(handlers.waiting[0])
        assert busy.answer().status == 200
    assert [why for _, why in served.refusals] == ["connections", "connections"]


DECLINED = [
    pytest.param("large body", {}, bytes(LIMIT + 1), 0, id="declared large, all of it sent"),
    pytest.param("large body", {}, bytes(5_000), LIMIT, id="declared large, the beginning sent"),
    pytest.param("slow body", {"body_seconds": 0.05}, bytes(10), 10, id="stopped"),
    pytest.param("large body", {"body_seconds": 0.05}, bytes(10), LIMIT, id="declared large, stopped"),
    pytest.param("memory", {"held_bytes": 20_000}, bytes(30_000), 0, id="no bytes left"),
    pytest.param("memory", {"held_bytes": 20_000}, bytes(30_000), 10, id="no bytes left, half of it"),
]


@pytest.mark.parametrize(("why", "limits", "body", "missing"), DECLINED)
def test_a_route_that_answers_refusals_itself(
    serve: Serve, why: str, limits: dict[str, float], body: bytes, missing: int
) -> None:
    """The beginning of the body is enough, even if the rest never comes."""
    served = serve(**{"linger_seconds": 0.05, **limits})
    sent = b"known:" + body
    with served.peer() as peer:
        answer = peer.ask(post("/declined", sent, Content_Length=str(len(sent) + missing)))
        assert (answer.status, answer.body) == (200, f"no: {why}".encode())
    assert [each for _, each in served.refusals] == [why]


def test_a_refusal_without_a_uid_in_its_first_bytes(serve: Serve) -> None:
    served = serve(linger_seconds=0.05)
    with served.peer() as peer:
        assert peer.ask(post("/declined", bytes(LIMIT + 1))).status == 413


def test_the_oldest_useless_connection_makes_room(serve: Serve) -> None:
    """New silent connections push out silent ones; a connection that has carried a request stays."""
    served = serve(connections=3)
    with served.peer() as used, served.peer() as old, served.peer() as young:
        assert used.ask(post("/echo")).status == 200
        served.until(lambda _: served.server.connections == 3, "all are in")
        with served.peer() as new:
            assert new.ask(post("/echo")).status == 200
            assert old.closed
            assert used.ask(post("/echo")).status == 200
            assert young.ask(post("/echo")).status == 200
    assert served.refusals == [(429, "connections")]


def test_only_some_requests_prove_a_connection(serve: Serve) -> None:
    """Good answers to other requests do not protect it."""
    served = serve(connections=3)
    with served.peer() as one, served.peer() as two, served.peer() as three:
        for peer in (one, two, three):
            assert peer.ask(post("/unproving")).status == 200
        with served.peer() as new:
            assert new.ask(post("/echo")).status == 200
            assert one.closed
            assert two.ask(post("/unproving")).status == 200


def test_a_proof_lapses(serve: Serve) -> None:
    """The connection that was useful longest ago makes room, once that is long."""
    served = serve(connections=2, proven_seconds=0)
    with served.peer() as one, served.peer() as two:
        assert [peer.ask(post("/echo")).status for peer in (one, two, one)] == [200] * 3
        with served.peer() as new:
            assert new.ask(post("/echo")).status == 200
            assert two.closed
            assert one.ask(post("/echo")).status == 200


def test_one_connection_too_many_is_told_so(serve: Serve) -> None:
    served = serve(connections=2)
    with served.peer() as one, served.peer() as two:
        assert [peer.ask(post("/echo")).status for peer in (one, two)] == [200, 200]
        with served.peer() as new:
            shed = new.ask(post("/echo"))
            assert (shed.status, shed.headers["Retry-After"]) == (429, "1")
            assert new.closed
        assert one.ask(post("/echo")).status == 200


def test_handshakes_are_bounded(serve: Serve) -> None:
    """The oldest one without progress makes room."""
    served = serve(connections=2)
    with served.peer(tls=False) as old, served.peer(tls=False) as young, served.peer() as new:
        assert old.closed
        assert new.ask(post("/echo")).status == 200
        assert served.refusals == [(429, "handshakes")]
        young.send(b"\x16")


def test_a_client_that_does_not_read_holds_little_memory(serve: Serve) -> None:
    """An answer is sent as it is read, the rest counts, and its deadline ends it."""
    served = serve()
    with served.peer() as deaf, served.peer() as other:
        deaf.send(get("/much?timeout=300ms") * 100)
        served.until(lambda _: served.server.load.held_bytes[""] > 0, "it is stuck")
        assert served.server.load.held_bytes[""] <= 17 << 20
        assert other.ask(post("/echo")).status == 200
        served.until(lambda _: served.server.load.held_bytes[""] == 0, "it is given up")
        served.until(lambda _: served.server.connections == 1, "it is closed")


def test_a_large_answer_arrives(serve: Serve) -> None:
    with serve().peer() as peer:
        assert [len(peer.ask(get("/much")).body) for _ in range(2)] == [16 << 20] * 2


def test_a_client_that_leaves_ends_its_request(serve: Serve, handlers: ScriptedHandlers) -> None:
    served = serve()
    with served.peer() as peer:
        peer.send(post("/wait"))
        served.until(lambda _: served.server.load.in_flight == 1, "it waits")
    assert handlers.cancelled.wait(10)
    served.until(lambda _: served.server.load.in_flight == 0, "it is forgotten")


def test_a_client_that_leaves_with_its_request(serve: Serve, handlers: ScriptedHandlers) -> None:
    """The request and close_notify come together: the started handler is ended without an error."""
    served = serve(tls=False)
    for _ in range(20):
        with served.peer() as peer:
            peer.send(post("/wait"))
    served.until(lambda _: handlers.begun == 20 and served.server.connections == 0, "all came and left")
    assert served.server.load.waiting[""] == 0


def test_a_peer_that_is_not_accepted(serve: Serve) -> None:
    """The client gets a 403, and only requests that every client may send are handled."""
    served = serve(accepts=lambda peer: peer.version() == "SSLv3")
    with served.peer() as peer:
        assert peer.ask(post("/anonymous")).status == 200
        assert peer.ask(post("/echo")).status == 403
        assert peer.closed
    assert served.refusals == [(403, "client certificate")]


@pytest.mark.parametrize(
    ("sent", "closes"),
    [
        pytest.param(post("/echo", Connection="close"), True, id="as asked"),
        pytest.param(post("/echo").replace(b"1.1", b"1.0"), True, id="HTTP/1.0"),
        pytest.param(post("/echo", Connection="upgrade", Upgrade="websocket"), True, id="an upgrade"),
        pytest.param(post("/echo", Connection="keep-alive"), False, id="keep-alive"),
    ],
)
def test_when_a_connection_closes(serve: Serve, sent: bytes, closes: bool) -> None:
    with serve().peer() as peer:
        answer = peer.ask(sent)
        assert (answer.status, answer.headers.get("Connection")) == (200, "close" if closes else None)
        assert peer.closed if closes else peer.ask(post("/echo")).status == 200


def test_a_client_may_ask_before_it_sends(serve: Serve) -> None:
    with serve().peer() as peer:
        request = post("/echo", b"{}", Expect="100-continue")
        assert peer.ask(request[:-2]).status == 100
        assert peer.ask(request[-2:]).body == b"{}"


def test_without_tls(serve: Serve) -> None:
    with serve(tls=False).peer() as peer:
        assert peer.ask(get("/get", Accept="a/b")).status == 200


SEEDS = (
    post("/echo?timeout=1s", b"abc"),
    post("/declined", b"known:abc"),
    post("/apart", b"{}", Expect="100-continue"),
    chunked("/echo"),
    get("/get", Connection="Upgrade", Upgrade="h2c"),
    get("/get").replace(b"GET", b"HEAD"),
    b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    b"GET //get?%ff%00=\xff HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nContent-Length: +3\r\nContent-Length: 3\r\n\r\nabc",
    post("/echo?timeout=99999999999999999999h"),
)
PIECES = (b"\r\n", b"\0", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b" ", b"\xff")


def mangled(random: Random) -> bytes:
    """Return one or two requests with some bytes changed, removed and inserted."""
    data = bytearray(random.choice(SEEDS) + random.choice((b"", random.choice(SEEDS))))
    for _ in range(random.randrange(1, 6)):
        at = random.randrange(len(data))
        match random.randrange(3):
            case 0:
                data[at] = random.randrange(256)
            case 1 if len(data) > 20:
                del data[at : at + random.randrange(1, 9)]
            case _:
                data[at:at] = random.choice(PIECES)
    return bytes(data)


def test_mangled_requests_leave_nothing_behind(serve: Serve) -> None:
    """After any bytes the next client is answered, nothing is held, and no exception reaches the loop."""
    served = serve(tls=False, header_seconds=0.05, body_seconds=0.05, linger_seconds=0.01)
    reached: list[dict[str, Any]] = []
    served.soon(
        lambda: asyncio.get_running_loop().set_exception_handler(lambda _, what: reached.append(what))
    )
    random = Random(1)
    for _ in range(300):
        with served.peer() as peer, contextlib.suppress(OSError):
            peer.send(mangled(random))
    with served.peer() as peer:
        assert peer.ask(post("/echo")).status == 200
    served.until(lambda _: served.server.connections == 0, "all are gone")
    assert served.server.load.held_bytes.total() == served.server.load.in_flight == 0
    assert reached == []


class TestDraining:
    """After SIGTERM all clients of the server learn of it, no request is lost, then all is closed."""

    def test_serves_on_and_closes_each_connection_with_its_next_answer(self, serve: Serve) -> None:
        served = serve()
        with served.peer() as used, served.peer() as idle:
            assert used.ask(post("/echo")).status == 200
            drained = served.start(served.server.drain(0.3))
            served.until(lambda _: served.server.draining, "it drains")
            last = used.ask(post("/echo", b"{1}"))
            assert (last.status, last.body, last.headers["Connection"]) == (200, b"{1}", "close")
            assert used.closed
            with served.peer() as late:
                assert late.ask(post("/echo")).headers["Connection"] == "close"
            assert idle.closed
            drained.result(10)
        assert served.refusals == []
        with pytest.raises(ConnectionRefusedError):
            served.peer()

    def test_idle_connections_may_be_used_a_while_longer(self, serve: Serve) -> None:
        """The server then accepts no new connection, but completes a handshake that has begun."""
        served = serve()
        with served.peer() as idle, served.peer(tls=False) as slow:
            served.until(lambda _: served.server.connections == 1, "one is in")
            drained = served.start(served.server.drain(0.5))
            served.until(lambda served: served.refuses_connections, "it listens no more")
            assert idle.ask(post("/echo")).headers["Connection"] == "close"
            slow.secure()
            assert slow.ask(post("/echo")).headers["Connection"] == "close"
            idle_closed, slow_closed = idle.closed, slow.closed
        drained.result(10)
        assert (idle_closed, slow_closed, served.refusals) == (True, True, [])

    def test_requests_in_flight_end_first(self, serve: Serve, handlers: ScriptedHandlers) -> None:
        served = serve()
        with served.peer() as judged, served.peer() as half:
            judged.send(post("/wait"))
            half.send(post("/echo", b"half")[:-2])
            served.until(lambda _: served.server.load.held_bytes[""] == 4, "both have come")
            drained = served.start(served.server.drain(0))
            served.until(lambda _: served.server.draining, "it drains")
            half.send(b"lf")
            assert half.answer().body == b"half"
            assert half.closed
            served.soon(handlers.waiting[0])
            assert judged.answer().headers["Connection"] == "close"
            assert judged.closed
            drained.result(10)

    def test_a_second_signal_closes_at_once(self, serve: Serve, handlers: ScriptedHandlers) -> None:
        served = serve()
        with served.peer() as judged:
            judged.send(post("/wait"))
            served.until(lambda _: bool(handlers.waiting), "it waits")
            drained = served.start(served.server.drain(3_600))
            served.until(lambda _: served.server.draining, "it drains")
            drained.cancel()
            assert judged.closed
            served.until(lambda _: served.server.connections == 0, "all is closed")


def test_connections_that_come_while_it_closes(serve: Serve) -> None:
    """None is left behind, at any progress, and the end does not wait for them."""
    for _ in range(20):
        served = serve(tls=False)
        with ExitStack() as stack:
            for _ in range(5):
                stack.enter_context(served.peer()).send(post("/wait"))
            served.start(served.server.drain(0)).cancel()
            served.until(lambda served: served.server.connections == 0, "all are gone")


def test_an_address_that_is_taken() -> None:
    """The error is a single line that names the address and port."""
    with listen(ADDRESS, 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PodiumError, match=rf"cannot listen on {ADDRESS} port {port}: .*in use"):
            listen(ADDRESS, port)


async def test_a_connection_from_before_the_server_starts() -> None:
    """It waits in the queue of the socket, so a first probe is answered late and not refused."""
    with listen(ADDRESS, 0) as listener, socket.create_connection(listener.getsockname()) as early:
        early.sendall(b"GET /absent HTTP/1.1\r\nHost: here\r\n\r\n")
        server = HTTPServer({}, Limits(), lambda *_refusal: None)
        await server.start(listener)
        answer = await asyncio.to_thread(early.recv, 64)
        assert answer.startswith(b"HTTP/1.1 404 ")
        await server.close()


@pytest.mark.parametrize(
    ("duration", "wanted"),
    [
        ("3s", 3),
        ("10s", 10),
        ("1m30s", 90),
        ("2h", 7200),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("10us", 1e-5),
        ("10µs", 1e-5),
        ("7ns", 7e-9),
        ("", None),
        ("3", None),
        ("s", None),
        ("-3s", None),
        ("3s ", None),
        ("3d", None),
        ("1e3s", None),
    ],
)
def test_go_durations(duration: str, wanted: float | None) -> None:
    assert seconds(duration) == (wanted if wanted is None else pytest.approx(wanted))
