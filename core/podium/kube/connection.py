"""One way to an API server: kubernetes_asyncio says where it is and who we are, and lends its connection.

The library knows kubeconfig files, credential plugins and TLS; its call path and its models cost more than
the request itself, so reads go straight to an aiohttp session, bytes in and bytes out, and writes, of which
there are thousands a minute, over kept connections of our own; where a proxy is between, writes take the
session, too. It asks the library for the credential at every request, for tokens expire while a process runs.

What the server certainly did not do (429) is asked again, as late as it says. A write whose answer was lost
is never repeated here: only its caller knows whether twice is harmless. (Behind a proxy aiohttp sends a PUT
or DELETE again when the kept connection turns out to be dead; HTTP calls both idempotent.)
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from podium.errors import PodiumError
from podium.kube.failures import no_connection
from podium.kube.kubeconfig import Target, chosen
from podium.kube.lines import LONGEST_LINE, LineSplitter
from podium.wording import one_line

if TYPE_CHECKING:
    from podium.kube.wire import Pool

_CONNECT_SECONDS = 30.0
# Longer than the 60 s an API server gives a list before it answers 504 itself.
_SILENCE_SECONDS = 75.0
_ATTEMPTS = 6
# How much of an answer waits to be read before the server is made to wait.
_READ_BYTES = 2 << 20
# The longest answer that is not a watch. A page of a list that is longer is asked for again with a smaller
# limit (see paging): one object has at most half of this, see LONGEST_LINE.
LONGEST_ANSWER = 2 * LONGEST_LINE
_LONGEST_WAIT_SECONDS = 30.0
_AGAIN = (429, 500, 503, 504)
_JSON = "application/json"

Sleep = Callable[[float], Awaitable[None]]


class RefusedError(PodiumError):
    """The API server answered no: `code` is the HTTP status, `reason` Kubernetes' word for it, or empty.

    `retry_after` is how many seconds the server asks to be left alone, or 0.
    """

    def __init__(
        self, server: str, request: str, code: int, reason: str, message: str, *, retry_after: float = 0.0
    ) -> None:
        """`request` is the method and the path."""
        answer = f"{code} {reason}" if reason else str(code)
        mend = "; its credential is unknown there, or has expired: renew it" if code == 401 else ""
        super().__init__(one_line(f"{server}: {request}: {answer}: {message or 'no reason given'}{mend}"))
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class SilentError(PodiumError):
    """No answer, or no more of one, came in time."""


class TooLargeError(PodiumError):
    """An answer is longer than its reader takes."""


class _Status(msgspec.Struct):
    """metav1.Status, as far as a refusal is told by it."""

    message: str = ""
    reason: str = ""


class _Call(NamedTuple):
    """One request, its credential apart."""

    method: str
    path: str
    query: dict[str, str]
    data: bytes | None = None
    content_type: str = _JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Answer(NamedTuple):
    """What a server said."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    def is_busy(self, again: tuple[int, ...]) -> bool:
        """Whether it is one of these codes, and says that the request may be sent again."""
        return self.code in again and (self.code == 429 or "Retry-After" in self.headers)

    @property
    def retry_after(self) -> float:
        """Seconds to wait before that, or 0."""
        return _wait(self.headers["Retry-After"]) if "Retry-After" in self.headers else 0.0

    @property
    def message(self) -> str:
        """What a refusal says, in the server's words."""
        return _status(self.body).message


class Connection:
    """An open connection; made by `connect`."""

    def __init__(
        self, target: Target, session: Any, options: dict[str, Any], writes: "Pool | None", sleep: Sleep
    ) -> None:
        """`session` is aiohttp's, with its `options`; it takes the writes where there are no `writes`."""
        self.context = target.context
        self.namespace = target.namespace
        self.server: str = target.configuration.host
        self._configuration = target.configuration
        self._session = session
        self._options = options
        self._writes = writes
        self._sleep = sleep

    async def get(self, path: str, **query: str) -> bytes:
        """Give the body of a 200. A server that asks to come back later is asked again, as late as it says.

        Raises RefusedError for any other answer, PodiumError when there is none, and TooLargeError for one
        of more than LONGEST_ANSWER bytes.
        """
        return await self._ask(_Call("GET", path, query), _AGAIN)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = _JSON,
        patient: bool = True,
        **query: str,
    ) -> bytes:
        """Write: give the body of a 2xx. `body` is bytes, or a value to be sent as JSON; None sends none.

        Raises RefusedError for any other answer, and PodiumError when there is none: whether the server did
        it is then unknown. Who is not `patient` does not wait where a server is busy: a 429 is raised, too.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._ask(_Call(method, path, query, data, content_type), (429,) if patient else ())

    async def answer(self, method: str, path: str, body: Any = None) -> Answer:
        """Ask once and give the answer, whatever it is; `body` is a value to be sent as JSON.

        Raises PodiumError when there is none.
        """
        return await self._once(_Call(method, path, {}, None if body is None else msgspec.json.encode(body)))

    async def apply(
        self,
        path: str,
        document: Any,
        *,
        manager: str,
        force: bool = False,
        patient: bool = True,
        **more: str,
    ) -> bytes:
        """Apply a document on the server's side under a field manager; `force` takes fields from others.

        `more` is what else is asked, such as `dryRun`.

        Raises as `send` does; a conflict is a RefusedError of code 409.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false", **more}
        # Its content type says YAML, of which JSON is a part.
        kind = "application/apply-patch+yaml"
        return await self.send("PATCH", path, document, content_type=kind, patient=patient, **query)

    async def lines(self, path: str, *, silence: float, **query: str) -> AsyncGenerator[bytes, None]:
        """Give the lines of a watch as they come, until the server ends it; first an empty one: it has begun.

        A line without an end is the beginning of one that is longer than LONGEST_LINE.

        Raises RefusedError for anything but a 200, at once: when to ask again is the caller's business.
        Raises SilentError when nothing came for `silence` seconds, PodiumError when the last line was cut.
        """
        call = _Call("GET", path, query)
        async with self._open(call, silence) as response:
            if response.status != 200:
                body = await self._body(call, response)
                raise self._refusal(call, Answer(response.status, response.headers, body))
            yield b""
            splitter = LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.split(chunk):
                    yield line
            if splitter.unfinished:
                raise PodiumError(f"{self.server}: {call}: the last line is cut")

    async def _ask(self, call: _Call, again: tuple[int, ...]) -> bytes:
        """Give the body of a success; `again` are the codes that are asked again if the server says when."""
        attempts = 1
        while (answer := await self._once(call)).is_busy(again) and attempts < _ATTEMPTS:
            attempts += 1
            await self._sleep(answer.retry_after or 1.0)
        if answer.code == 200 or (call.method != "GET" and 200 <= answer.code < 300):
            return answer.body
        raise self._refusal(call, answer)

    async def _once(self, call: _Call) -> Answer:
        if call.method == "GET" or self._writes is None:
            async with self._open(call, _SILENCE_SECONDS) as response:
                return Answer(response.status, response.headers, await self._body(call, response))
        headers = await self._headers(call)
        target = call.path + _query(tuple(call.query.items()))
        with self._in_words(call):
            return await self._writes.ask(
                call.method,
                target,
                headers,
                call.data or b"",
                connecting=_CONNECT_SECONDS,
                silence=_SILENCE_SECONDS,
            )

    async def _body(self, call: _Call, response: Any) -> bytes:
        """Read an answer to its end. Raises TooLargeError, and reads no more, when it is too long."""
        body = bytearray()
        async for chunk in response.content.iter_any():
            if len(body) + len(chunk) > LONGEST_ANSWER:
                raise TooLargeError(
                    f"{self.server}: {call}: the answer is larger than {LONGEST_ANSWER >> 20} MiB"
                )
            body += chunk
        return bytes(body)

    def _refusal(self, call: _Call, answer: Answer) -> RefusedError:
        said = _status(answer.body)
        return RefusedError(
            self.server, str(call), answer.code, said.reason, said.message, retry_after=answer.retry_after
        )

    @asynccontextmanager
    async def _open(self, call: _Call, silence: float) -> AsyncIterator[Any]:
        """Give the response as soon as its head is there; whatever goes wrong until its end is one line."""
        import aiohttp  # noqa: PLC0415 - slow to import; only live commands pay

        headers = await self._headers(call)
        timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=silence)
        with self._in_words(call):
            async with self._session.request(
                call.method,
                self.server + call.path,
                params=call.query,
                data=call.data,
                headers=headers,
                timeout=timeout,
                # A redirected write would go on as a GET, whose 200 says nothing of the write.
                allow_redirects=call.method == "GET",
                **self._options,
            ) as response:
                yield response

    async def _headers(self, call: _Call) -> dict[str, str]:
        headers = {"Accept": _JSON, "User-Agent": "podium"}
        if call.data is not None:
            headers["Content-Type"] = call.content_type
        credential = await self._credential()
        if credential:
            headers["Authorization"] = credential
        return headers

    @contextmanager
    def _in_words(self, call: _Call) -> Iterator[None]:
        """Say in one line of whatever goes wrong with a request."""
        import aiohttp  # noqa: PLC0415 - as above

        try:
            yield
        except TimeoutError:
            raise SilentError(one_line(f"{self.server}: no answer to {call} in time")) from None
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, ConnectionError) as error:
            raise PodiumError(
                one_line(f"{self.server}: the connection was lost during {call} ({error})")
            ) from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise PodiumError(
                one_line(f"{self.server}: not a URL; the kubeconfig's server is https://HOST:PORT")
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            said = no_connection(error, self.server) or str(error)
            raise PodiumError(one_line(f"{self.server}: {call} failed: {said}")) from None

    async def _credential(self) -> str:
        """Give the Authorization header as it is now; empty for none."""
        try:
            settings = await self._configuration.auth_settings()
        except Exception as error:  # noqa: BLE001 - a plugin or a token file fails in any way it likes
            raise PodiumError(one_line(f"context {self.context}: its credential: {error}")) from None
        value: str = settings.get("BearerToken", {}).get("value", "")
        return value


@asynccontextmanager
async def connect(
    kubeconfig: str | None, context: str | None, *, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[Connection]:
    """Open a connection as kubectl would choose it: the named files and context, or those of the environment.

    Raises PodiumError when the kubeconfig or its credentials cannot be used.
    """
    import aiohttp  # noqa: PLC0415 - slow to import; only live commands pay
    from kubernetes_asyncio.client.rest import RESTClientObject  # noqa: PLC0415 - as above: 0.6 s

    from podium.kube.connector import Connector  # noqa: PLC0415 - it imports aiohttp

    target = await chosen(kubeconfig, context)
    try:
        client = RESTClientObject(target.configuration)
    except OSError as error:
        said = "one cannot be read" if isinstance(error, ssl.SSLError) else str(error)
        raise PodiumError(one_line(f"context {target.context}: its certificates: {said}")) from None
    options: dict[str, Any] = {
        "proxy": client.proxy or _environment_proxy(target.configuration.host),
        "proxy_headers": client.proxy_headers,
    }
    if client.server_hostname:
        options["server_hostname"] = client.server_hostname
    # The library keeps its reading of the certificates to itself.
    certificates = getattr(client.pool_manager.connector, "_ssl")  # noqa: B009
    try:
        # The library's own session looks for a proxy and into ~/.netrc at every request, each on a thread,
        # for which a busy event loop makes it wait; kubectl knows no netrc either.
        async with aiohttp.ClientSession(
            connector=Connector(limit=target.configuration.connection_pool_maxsize, ssl=certificates),
            read_bufsize=_READ_BYTES,
        ) as session:
            pool = None if options["proxy"] else _pool(target, client.server_hostname, certificates)
            try:
                yield Connection(target, session, options, pool, sleep)
            finally:
                if pool is not None:
                    await pool.close()
    finally:
        await client.close()


def _pool(target: Target, server_hostname: str | None, certificates: Any) -> "Pool | None":
    """Give the connections for writes; None for what is no HTTP URL, of which aiohttp tells best."""
    from podium.kube.wire import Pool  # noqa: PLC0415 - it imports aiohttp

    try:
        server = urlsplit(target.configuration.host)
        if server.scheme not in ("http", "https") or not server.hostname:
            return None
        return Pool(server, certificates, server_hostname)
    except ValueError:
        return None


def _environment_proxy(server: str) -> str | None:
    """Give the proxy that the environment names for a server (HTTPS_PROXY, NO_PROXY and the like)."""
    parts = urlsplit(server)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


@lru_cache(64)
def _query(items: tuple[tuple[str, str], ...]) -> str:
    """Give what stands behind a path; most writes have the same there."""
    return f"?{urlencode(items)}" if items else ""


def _status(body: bytes) -> _Status:
    try:
        return msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        return _Status(message=body[:200].decode(errors="replace"))


def _wait(seconds: str) -> float:
    """Give how long to wait by a Retry-After header; a date in it (no API server sends one) is one second."""
    return min(float(seconds) if seconds.isdigit() else 1.0, _LONGEST_WAIT_SECONDS)
