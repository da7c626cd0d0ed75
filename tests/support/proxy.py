"""A proxy between our program and a real API server, with faults for single requests.

A balancer passes bytes and does not know requests. A conflict, a watch that ends in 410 or a lost answer of a
completed write needs a proxy that reads HTTP. It serves one API server with plain HTTP in (no client needs to
trust it) and TLS out, and passes on each client's own token. It also counts: the requests, their field
managers and their answers show that no write was unnecessary.
"""

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from tests.support.loopthread import LoopThread
from tests.support.servers import Server
from yarl import URL

from podium.kube.session import Connector

_ADDRESS = "127.0.0.1"
_POLL_SECONDS = 0.05
_PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")
_HANDED_BACK = ("Content-Type", "Retry-After")
_READS = ("GET", "HEAD")


class Refuse(NamedTuple):
    """Answer with a Status and pass nothing on; on request also as the one ERROR event of a watch."""

    code: int
    reason: str = ""
    retry_after: int | None = None
    in_watch: bool = False

    def status(self) -> dict[str, Any]:
        """Return the Status in the form of an API server's."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": self.reason,
            "message": f"the proxy says {self.code}",
            "code": self.code,
        }


class Delay(NamedTuple):
    """Pass on later."""

    seconds: float


class Hold(NamedTuple):
    """Pass on when the fault is over, even if the client is gone by then, unless the request is `lost`."""

    lost: bool = False


class Cut(NamedTuple):
    """Reset the connection: before the request is passed on, or once the API server has answered it."""

    answered: bool


class Half(NamedTuple):
    """Pass on half of the API server's next bytes, in a watch too, and reset the connection."""


Fault = Refuse | Delay | Hold | Cut | Half


class Where(NamedTuple):
    """A filter of requests; an omitted field matches any.

    `path` and `body` are patterns found anywhere in them.
    """

    path: str = ""
    method: str = ""
    manager: str = ""
    watch: bool | None = None
    body: str = ""


ANY = Where()


class Call(NamedTuple):
    """A request and its answer; `code` is 0 while the API server has not answered."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    code: int = 0
    answer: bytes = b""  # for a write: whether a fault kept the answer from the client
    lost: bool = False  # whether a fault kept the answer from the client

    @property
    def manager(self) -> str:
        return self.query.get("fieldManager", "")

    @property
    def watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")

    @property
    def writes(self) -> bool:
        return self.method not in _READS

    def matches(self, where: Where) -> bool:
        """Return whether the filter matches."""
        return (
            re.search(where.path, self.path) is not None
            and where.method in ("", self.method)
            and where.manager in ("", self.manager)
            and where.watch in (None, self.watch)
            and re.search(where.body.encode(), self.body) is not None
        )


class Rule:
    """A fault for some requests, after `skip` of them; `hits` counts the affected ones."""

    def __init__(self, where: Where, fault: Fault, times: int | None, skip: int) -> None:
        self.where = where
        self.fault = fault
        self.hits = 0
        self.over = asyncio.Event()
        self._left = times
        self._skip = skip

    def strikes(self, call: Call, *, begun: bool) -> bool:
        """Return whether the fault applies to this request, or its begun answer; count the hit."""
        if self._left == 0 or begun != isinstance(self.fault, Half) or not call.matches(self.where):
            return False
        if self._skip:
            self._skip -= 1
            return False
        self._left = None if self._left is None else self._left - 1
        self.hits += 1
        return True


class Proxy(LoopThread):
    """Listens on `port` for one API server; all public methods may be called from any thread."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.port = 0
        self.calls: list[Call] = []  # those that the API server has answered, watches when they began
        self._server = server
        self._rules: list[Rule] = []
        self._leads: dict[str, str] = {}
        self._open: list[tuple[web.Request, Call]] = []
        self._pending: set[asyncio.Task[tuple[int, dict[str, str], bytes]]] = set()

    @property
    def url(self) -> str:
        return f"http://{_ADDRESS}:{self.port}"

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig of the server's administrator with the proxy's URL."""
        text = self._server.kubeconfig.read_text(encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"proxy-{self.port}.kubeconfig"
        path.write_text(text.replace(self._server.url, self.url), encoding="utf-8")
        return path

    @contextlib.contextmanager
    def fault(self, where: Where, fault: Fault, *, times: int | None = None, skip: int = 0) -> Iterator[Rule]:
        """Set a fault while the block runs; `times` limits the number of hits, after the first `skip`."""
        rule = Rule(where, fault, times, skip)
        self._rules.append(rule)
        try:
            yield rule
        finally:
            self._rules.remove(rule)
            self._loop.call_soon_threadsafe(rule.over.set)

    def lead(self, path: str, url: str) -> None:
        """Send requests under a path to another URL instead of the API server, that of a local process."""
        self._leads[path] = url

    def drop(self, where: Where) -> int:
        """Reset the connections of matching requests in flight; return their number."""
        return self._submit(self._drop(where)).result()

    def writes(self, where: Where = ANY) -> list[Call]:
        """Return the writes with an answer of the API server, refused ones too, in order."""
        return [call for call in list(self.calls) if call.writes and call.matches(where)]

    async def _listen(self) -> None:
        trusted = ssl.create_default_context(cafile=str(self._server.access.authority))
        self._session = aiohttp.ClientSession(
            connector=Connector(ssl=trusted, limit=0),
            timeout=aiohttp.ClientTimeout(),
            # A response cut in half should be half of its stated length.
            skip_auto_headers=("Accept-Encoding",),
        )
        # An API server notices that a client is gone. The proxy does too, or its watches would stay.
        application = web.Application(client_max_size=1 << 26, handler_args={"handler_cancellation": True})
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=_POLL_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, _ADDRESS, 0).start()
        self.port = self._runner.addresses[0][1]

    async def _end(self) -> None:
        await self._drop(ANY)
        await self._runner.cleanup()
        for task in self._pending:
            task.cancel()
        await asyncio.gather(*self._pending, return_exceptions=True)
        await self._session.close()

    async def _drop(self, where: Where) -> int:
        found = [request for request, call in self._open if call.matches(where)]
        for request in found:
            _reset(request)
        return len(found)

    def _struck(self, call: Call, *, begun: bool = False) -> Rule | None:
        return next((rule for rule in list(self._rules) if rule.strikes(call, begun=begun)), None)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.path, dict(request.query), await request.read())
        entry = (request, call)
        self._open.append(entry)
        try:
            rule = self._struck(call)
            match None if rule is None else rule.fault:
                case Refuse() as refusal:
                    return await _refuse(request, refusal)
                case Cut(answered=False):
                    return _reset(request)
                case Hold(lost=True):
                    await _wait(rule)
                    return _reset(request)
                case _:
                    pass
            if call.watch:
                return await self._watch(request, call, rule)
            # The request is carried out even if its client stops waiting.
            passing = asyncio.create_task(self._pass(request, call, rule))
            self._pending.add(passing)
            passing.add_done_callback(self._pending.discard)
            code, headers, body = await asyncio.shield(passing)
            if rule is not None and isinstance(rule.fault, Cut):
                return _reset(request)
            if self._struck(call, begun=True) is None:
                return web.Response(status=code, headers=headers, body=body)
            response = web.StreamResponse(status=code, headers={**headers, "Content-Length": str(len(body))})
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
            return _reset(request)
        except (aiohttp.ClientError, OSError):
            return _reset(request)
        finally:
            self._open = [each for each in self._open if each is not entry]

    async def _pass(
        self, request: web.Request, call: Call, rule: Rule | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Pass a request on when its fault allows it; return the answer."""
        await _wait(rule)
        async with self._ask(request, call) as response:
            body = await response.read()
            answer = body if call.writes else b""
            lost = rule is not None and isinstance(rule.fault, Cut)
            self.calls.append(call._replace(code=response.status, answer=answer, lost=lost))
            return response.status, _chosen(response.headers, _HANDED_BACK), body

    async def _watch(self, request: web.Request, call: Call, rule: Rule | None) -> web.StreamResponse:
        """Pass on the lines of a watch."""
        await _wait(rule)
        async with self._ask(request, call) as source:
            self.calls.append(call._replace(code=source.status))
            response = web.StreamResponse(status=source.status, headers=_chosen(source.headers, _HANDED_BACK))
            await response.prepare(request)
            async for piece in source.content.iter_any():
                if self._struck(call, begun=True) is not None:
                    await response.write(piece[: len(piece) // 2])
                    return _reset(request)
                await response.write(piece)
            return response

    def _url(self, path: str) -> str:
        led = (url + path.removeprefix(under) for under, url in self._leads.items() if path.startswith(under))
        return next(led, self._server.url + path)

    def _ask(self, request: web.Request, call: Call) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._session.request(
            call.method,
            URL(self._url(request.raw_path), encoded=True),
            headers=_chosen(request.headers, _PASSED_ON),
            data=call.body or None,
            allow_redirects=False,
        )


async def _wait(rule: Rule | None) -> None:
    """Wait as long as a fault requires."""
    match None if rule is None else rule.fault:
        case Delay(seconds):
            await asyncio.sleep(seconds)
        case Hold():
            assert rule is not None
            await rule.over.wait()
        case _:
            pass


async def _refuse(request: web.Request, refusal: Refuse) -> web.StreamResponse:
    if not refusal.in_watch:
        headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
        return web.json_response(refusal.status(), status=refusal.code, headers=headers)
    event = json.dumps({"type": "ERROR", "object": refusal.status()}).encode() + b"\n"
    return web.Response(body=event, content_type="application/json")


def _chosen(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _reset(request: web.Request) -> web.StreamResponse:
    """Reset a client's connection; the caller returns the response, which is not sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
