"""Writes and watches on one connection: which requests are repeated, and refusals."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, serving, status

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, connect


class Seen(NamedTuple):
    """A request as the server received it."""

    method: str
    content_type: str | None
    query: dict[str, str]
    body: bytes


class Server:
    """A server whose one path `/x` sends its answers in turn."""

    def __init__(self, *answers: web.StreamResponse | None) -> None:
        self.fake = Fake()
        self.fake.answers["/x"] = self._answer
        self.seen: list[Seen] = []
        self.waits: list[float] = []
        self._answers = iter(answers)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """None cuts the connection without an answer."""
        kind = request.headers.get("Content-Type")
        self.seen.append(Seen(request.method, kind, dict(request.query), await request.read()))
        answer = next(self._answers)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return answer

    async def sleep(self, seconds: float) -> None:
        """Return at once."""
        self.waits.append(seconds)


@pytest.fixture
async def open_to(tmp_path: Path) -> AsyncIterator[Callable[[Server], Awaitable[Connection]]]:
    """Connect to servers that the test starts."""
    async with AsyncExitStack() as stack:

        async def open_one(server: Server) -> Connection:
            fake = await stack.enter_async_context(serving(server.fake))
            connecting = connect(fake.kubeconfig(tmp_path), None, sleep=server.sleep)
            return await stack.enter_async_context(connecting)

        yield open_one


Open = Callable[[Server], Awaitable[Connection]]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_is_its_bytes(open_to: Open, method: str) -> None:
    """A value is sent as JSON, bytes unchanged; any 2xx is a success."""
    server = Server(web.Response(status=201, text="made"), web.Response(status=202, text="will be"))
    link = await open_to(server)
    assert await link.send(method, "/x", {"a": [1]}, dryRun="All") == b"made"
    assert await link.send(method, "/x", b"[]", content_type="application/json-patch+json") == b"will be"
    assert server.seen == [
        Seen(method, "application/json", {"dryRun": "All"}, b'{"a":[1]}'),
        Seen(method, "application/json-patch+json", {}, b"[]"),
    ]


async def test_without_a_body_none_is_sent(open_to: Open) -> None:
    server = Server(web.Response(text="gone"))
    assert await (await open_to(server)).send("DELETE", "/x") == b"gone"
    assert server.seen[0].body == b""


async def test_apply_is_under_a_manager(open_to: Open) -> None:
    """An apply takes fields from others only if forced; a conflict is a refusal like any other."""
    server = Server(web.Response(text="{}"), status(409, "Conflict", "conflict with x"))
    link = await open_to(server)
    await link.apply("/x", {"kind": "A"}, manager="podium", force=True)
    with pytest.raises(RefusedError) as refused:
        await link.apply("/x", {"kind": "A"}, manager="podium")
    assert refused.value.code == 409
    assert [each.query for each in server.seen] == [
        {"fieldManager": "podium", "force": "true"},
        {"fieldManager": "podium", "force": "false"},
    ]
    assert {each[:2] for each in server.seen} == {("PATCH", "application/apply-patch+yaml")}
    assert json.loads(server.seen[0].body) == {"kind": "A"}


async def test_a_request_that_the_server_did_not_do_is_retried(open_to: Open) -> None:
    """A write is repeated after 429, with or without a time, and not after a 5xx."""
    server = Server(
        status(429, "TooManyRequests", "later", Retry_After="2"),
        status(429, "TooManyRequests", "later"),
        status(503, "ServiceUnavailable", "who knows", Retry_After="4"),
    )
    link = await open_to(server)
    with pytest.raises(RefusedError, match=r"POST /x: 503 ServiceUnavailable: who knows") as refused:
        await link.send("POST", "/x", {})
    assert refused.value.retry_after == 4.0
    assert server.waits == [2.0, 1.0]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_write_with_a_lost_answer_is_not_repeated(open_to: Open, method: str) -> None:
    """A lost answer is not repeated on a new connection either: the server may have written."""
    server = Server(web.Response(text="ok"), None)
    link = await open_to(server)
    await link.send(method, "/x", {})
    with pytest.raises(PodiumError, match=f"connection lost during {method} /x") as lost:
        await link.send(method, "/x", {})
    assert not isinstance(lost.value, RefusedError)
    assert len(server.seen) == 2


async def test_a_redirected_write_is_not_done(open_to: Open) -> None:
    """A redirect would be followed by a GET, which would look like success."""
    server = Server(web.Response(status=302, headers={"Location": "/y"}))
    with pytest.raises(RefusedError, match="POST /x: 302: no reason given"):
        await (await open_to(server)).send("POST", "/x", {})


async def _lines(link: Connection, silence: float = 30.0) -> list[bytes]:
    return [line async for line in link.lines("/x", silence=silence, watch="1") if line]


async def test_lines_are_whole(open_to: Open) -> None:
    """Packets may split lines anywhere; a line as long as the largest object is one line."""
    long = b"x" * 3_000_000
    server = Server(web.Response(body=b"one\n" + long + b"\nthree\n"), web.Response(body=b"one\ntw"))
    link = await open_to(server)
    assert await _lines(link) == [b"one\n", long + b"\n", b"three\n"]
    with pytest.raises(PodiumError, match="the last line is cut"):
        await _lines(link)
    assert server.seen[0].query == {"watch": "1"}


async def test_a_refused_watch_is_not_asked_again(open_to: Open) -> None:
    """A caller that watches has a backoff of its own; the error has the server's delay."""
    server = Server(status(429, "TooManyRequests", "later", Retry_After="5"))
    with pytest.raises(RefusedError) as refused:
        await _lines(await open_to(server))
    assert (refused.value.code, refused.value.retry_after) == (429, 5.0)
    assert server.waits == []


async def test_silence_ends_a_watch(open_to: Open) -> None:
    server = Server()
    released = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await released.wait()
        return response

    server.fake.answers["/x"] = silent
    lines = (await open_to(server)).lines("/x", silence=0.05)
    assert await anext(lines) == b"", "the server took the question"
    assert await anext(lines) == b"one\n"
    with pytest.raises(PodiumError, match="no answer to GET /x in time"):
        await anext(lines)
    released.set()


async def test_a_credential_that_fails_is_one_line(open_to: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin or a token file may fail at any time while a process runs."""
    link = await open_to(Server())

    async def fail() -> None:
        raise OSError("token: no such\nfile")

    monkeypatch.setattr(link._configuration, "auth_settings", fail)
    with pytest.raises(PodiumError, match=r"^context fake: credential: token: no such file$"):
        await link.get("/x")


async def test_a_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule is kubectl's; servers in NO_PROXY are reached directly."""
    proxy, fake = Fake(), Fake()
    fake.url = "http://api.example:6443"
    config = fake.kubeconfig(tmp_path)
    async with serving(proxy):
        monkeypatch.setenv("http_proxy", proxy.url)
        async with connect(config, None) as connection:
            assert b"v1.37.0" in await connection.get("/version")
        monkeypatch.setenv("no_proxy", "api.example")
        async with connect(config, None) as connection:
            with pytest.raises(PodiumError, match=r"api\.example"):
                await connection.get("/version")
