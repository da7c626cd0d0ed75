"""Requests to one API server, with the address and the credential that kubernetes_asyncio finds.

That library handles kubeconfig files, credential plugins and TLS. Its call path and models cost more than the
request itself. So requests use an aiohttp session directly (`podium.kube.session`), bytes in and bytes out.
Each request asks the library for the credential, because tokens expire while a process runs.

A request that the server certainly did not process (429) is sent again after the time that the server names,
ten times as by client-go. An API server also answers so while it fills the cache of a resource.
A write without an answer is never repeated here: only the caller knows whether a repetition is harmless.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from podium import jsontext
from podium.errors import PodiumError
from podium.kube.kubeconfig import LoadedKubeconfig, chosen, transport
from podium.text import one_line

# Split the body of a watch into lines of any length, in linear time and bounded memory.
#
# aiohttp's line reader raises an error at twice the size of its buffer. A watch must survive every object
# that an API server stores. client-go skips a frame of more than 16 MiB and continues, and so does this
# module.

# The longest line that is read whole. kube-apiserver sends at most 2 MiB to etcd, whatever limit etcd has,
# because it keeps the default send limit of its etcd client (etcd clientv3, options.go). Go's JSON encoder
# writes at most six bytes for one byte of a string (`<` is \u003c): 12 MiB. The rest is for field names,
# which the protobuf in etcd omits. client-go has the same limit.
LONGEST_LINE = 16 << 20


class LineSplitter:
    """Splits chunks into lines; stores the beginning of one line, at most `longest` bytes."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()

    @property
    def unfinished(self) -> bool:
        """Return whether a line has begun and not ended."""
        return bool(self._begun)

    def split(self, chunk: bytes) -> list[bytes]:
        r"""Return the lines that end in this chunk, each with its `\n`.

        The part of a line beyond `longest` is dropped, and its `\n` with it. Every other line ends with `\n`.
        """
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._append(part + b"\n")
            lines.append(bytes(self._begun))
            self._begun.clear()
        self._append(rest)
        return lines

    def _append(self, part: bytes) -> None:
        self._begun += part[: max(0, self._longest - len(self._begun))]


# Explanations of connection errors that say what to check.
#
# The libraries report sockets and lines of OpenSSL's source. A user needs to know whether the address, the
# certificate or the network is wrong.

# OpenSSL's verification codes (x509_vfy.h) that a kubeconfig or a clock can cause.
_TIME = (9, 10)
_NAME = (62, 64)
_ISSUER = (18, 19, 20, 21)


def no_connection(error: Exception, server: str) -> str | None:
    """Return why a server (its URL) is unreachable and what to check; None for another kind of error."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error.__context__
    words = _words(cause) if isinstance(cause, OSError) else None
    host = getattr(error, "host", None)
    if words is None or not host or host in server:
        return words
    return f"redirected to {host}, and {words}"


def _words(cause: OSError) -> str | None:
    match cause:
        case ssl.SSLCertVerificationError():
            return (
                f"server certificate refused: {cause.verify_message.rstrip('.')}. {_fix(cause.verify_code)}"
            )
        case ssl.SSLError():
            return _tls((cause.reason or "").replace("_", " ").lower())
        case socket.gaierror():
            return f"host name not resolved ({cause.strerror}). Check the kubeconfig's server, DNS and VPN"
        case _ if cause.errno == errno.ECONNREFUSED or "Connect call failed" in str(cause):
            return "connection refused. Check that the cluster runs and that the kubeconfig's server is right"
        case _ if cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
            return f"{cause.strerror}. Check the kubeconfig's server, the network and VPN"
        case _:
            return None


def _tls(reason: str) -> str:
    if reason in ("wrong version number", "http request", "record layer failure"):
        return "the port does not serve TLS. Check scheme and port of the kubeconfig's server"
    if "alert" in reason:
        return f"TLS alert from the server ({reason}). Check the client certificate in the kubeconfig"
    return f"TLS failed: {reason or 'no reason given'}"


def _fix(code: int) -> str:
    """Return what to do about a refused certificate."""
    if code in _TIME:
        return "Renew it, or set the clock of this machine"
    if code in _NAME:
        return "Set server or tls-server-name in the kubeconfig to a name in the certificate"
    if code in _ISSUER:
        return "Set certificate-authority in the kubeconfig to the CA that signed it"
    return "Check certificate-authority in the kubeconfig"


_CONNECT_SECONDS = 30.0
# Longer than the 60 s after which an API server answers 504 to a list.
_SILENCE_SECONDS = 75.0
# client-go's one request and ten retries (rest.Request.maxRetries).
_ATTEMPTS = 11
# The concurrent reads of one process, without watches. Writes do not wait for reads.
_READS = 100
# The longest answer other than a watch. A longer page of a list is requested again with a smaller limit (see
# paging). One object has at most half of this size, see LONGEST_LINE.
LONGEST_ANSWER = 2 * LONGEST_LINE
_LONGEST_WAIT_SECONDS = 30.0
_AGAIN = (429, 500, 503, 504)
_JSON = "application/json"

Sleep = Callable[[float], Awaitable[None]]


class RefusedError(PodiumError):
    """The API server refused the request: `code` is the HTTP status, `reason` metav1.Status's, or empty.

    `retry_after` is the seconds that the server asks the client to wait, or 0.
    """

    def __init__(
        self, server: str, request: str, code: int, reason: str, message: str, *, retry_after: float = 0.0
    ) -> None:
        """`request` is the method and the path."""
        answer = f"{code} {reason}" if reason else str(code)
        mend = "; the credential is unknown or expired. Renew it" if code == 401 else ""
        super().__init__(one_line(f"{server}: {request}: {answer}: {message or 'no reason given'}{mend}"))
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def by_webhook(self) -> bool:
        """Whether an admission webhook denied the request, with any code, or fails closed and is away."""
        denied = "admission webhook" in self.message and "denied the request" in self.message
        return denied or "failed calling webhook" in self.message


class SilentError(PodiumError):
    """No answer, or no more of an answer, arrived in time."""


class TooLargeError(PodiumError):
    """An answer is longer than its reader accepts."""


class Status(msgspec.Struct):
    """The fields of metav1.Status that describe a refusal."""

    code: int = 0
    reason: str = ""
    message: str = ""


class _Call(NamedTuple):
    """One request without its credential."""

    method: str
    path: str
    query: dict[str, str]
    data: bytes | None = None
    content_type: str = _JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class RawResponse(NamedTuple):
    """An HTTP response: status, headers and body."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    def is_busy(self, again: tuple[int, ...]) -> bool:
        """Return whether the status is in `again` and the server allows the request to be sent again."""
        return self.code in again and (self.code == 429 or "Retry-After" in self.headers)

    @property
    def retry_after(self) -> float:
        """Return the seconds of Retry-After, or 0."""
        return _wait(self.headers["Retry-After"]) if "Retry-After" in self.headers else 0.0

    @property
    def message(self) -> str:
        """Return the message of metav1.Status in a refusal."""
        return _status(self.body).message


class RequestOptions(NamedTuple):
    """Options of each request: the impersonated user and groups, and its time limit in seconds (0: none)."""

    user: str = ""
    groups: Sequence[str] = ()
    timeout: float = 0.0

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of impersonation."""
        user = [("Impersonate-User", self.user)] if self.user else []
        return user + [("Impersonate-Group", group) for group in self.groups]


PLAIN = RequestOptions()


class Connection:
    """An open connection to one API server, created by `connect`."""

    def __init__(
        self,
        target: LoadedKubeconfig,
        session: Any,
        options: dict[str, Any],
        requests: RequestOptions,
        sleep: Sleep,
    ) -> None:
        """`session` is aiohttp's, used with `options`."""
        self.context = target.context
        self.namespace = target.namespace
        self.server: str = target.configuration.host
        self._configuration = target.configuration
        self._session = session
        self._options = options
        self._requests = requests
        self._reads = asyncio.Semaphore(_READS)
        self._sleep = sleep

    async def get(self, path: str, **query: str) -> bytes:
        """Return the body of a 200. If the server names a time for a retry, the request is sent again.

        Raises RefusedError for any other status, PodiumError when no answer arrives, and TooLargeError for an
        answer of more than LONGEST_ANSWER bytes.
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
        """Write, and return the body of a 2xx. `body` is bytes, a value to encode as JSON, or None for none.

        Raises RefusedError for any other status. Raises PodiumError when no answer arrives; whether the
        server processed the write is then unknown. If `patient` is false, a 429 of a busy server is raised
        too instead of retried.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._ask(_Call(method, path, query, data, content_type), (429,) if patient else ())

    async def answer(self, method: str, path: str, body: Any = None) -> RawResponse:
        """Send one request once, and return the answer of any status; `body` is a value to encode as JSON.

        Raises PodiumError when no answer arrives.
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
        """Apply a document on the server side; `force` takes over the fields of other field managers.

        `manager` is the field manager. `more` holds further query parameters, such as `dryRun`.

        Raises as `send` does; a conflict is a RefusedError of code 409.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false", **more}
        # The content type is YAML, a superset of JSON.
        kind = "application/apply-patch+yaml"
        return await self.send("PATCH", path, document, content_type=kind, patient=patient, **query)

    async def lines(self, path: str, *, silence: float, **query: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it, after an empty line for its 200.

        A line without a newline is the beginning of a line longer than LONGEST_LINE.

        Raises RefusedError at once for any status but 200; the caller decides when to retry. Raises
        SilentError when nothing arrived for `silence` seconds, and PodiumError when the last line is cut.
        """
        call = _Call("GET", path, query)
        async with self._open(call, silence) as response:
            if response.status != 200:
                body = await self._body(call, response)
                raise self._refusal(call, RawResponse(response.status, response.headers, body))
            yield b""
            splitter = LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.split(chunk):
                    yield line
            if splitter.unfinished:
                raise PodiumError(f"{self.server}: {call}: the last line is cut")

    async def _ask(self, call: _Call, again: tuple[int, ...]) -> bytes:
        """Return the body of a success; `again` holds the statuses to retry if the server names a time."""
        attempts = 1
        while (answer := await self._once(call)).is_busy(again) and attempts < _ATTEMPTS:
            attempts += 1
            await self._sleep(answer.retry_after or 1.0)
        if answer.code == 200 or (call.method != "GET" and 200 <= answer.code < 300):
            return answer.body
        raise self._refusal(call, answer)

    async def _once(self, call: _Call) -> RawResponse:
        async with (
            self._reads if call.method == "GET" else nullcontext(),
            self._open(call, _SILENCE_SECONDS, self._requests.timeout) as response,
        ):
            return RawResponse(response.status, response.headers, await self._body(call, response))

    async def _body(self, call: _Call, response: Any) -> bytes:
        """Return the whole body. Raises TooLargeError, and stops reading, when it is too long."""
        body = bytearray()
        async for chunk in response.content.iter_any():
            if len(body) + len(chunk) > LONGEST_ANSWER:
                raise TooLargeError(
                    f"{self.server}: {call}: the answer is larger than {LONGEST_ANSWER >> 20} MiB"
                )
            body += chunk
        return bytes(body)

    def _refusal(self, call: _Call, answer: RawResponse) -> RefusedError:
        status = _status(answer.body)
        return RefusedError(
            self.server, str(call), answer.code, status.reason, status.message, retry_after=answer.retry_after
        )

    @asynccontextmanager
    async def _open(self, call: _Call, silence: float, longest: float = 0.0) -> AsyncIterator[Any]:
        """Yield the response when its headers arrive. Any failure until its end becomes a one-line error.

        `longest` is a limit for the whole response in seconds, 0 for none.
        """
        import aiohttp  # noqa: PLC0415 - slow to import; only live commands pay

        headers = await self._headers(call)
        is_write = call.method != "GET"
        timeout = aiohttp.ClientTimeout(
            # A list may take as long as it needs, while a write has a short answer.
            total=longest or (_CONNECT_SECONDS + silence if is_write else None),
            connect=_CONNECT_SECONDS,
            sock_read=silence,
        )
        with self._in_words(call):
            async with self._session.request(
                call.method,
                self.server + call.path,
                params=call.query,
                data=call.data,
                headers=headers,
                timeout=timeout,
                # A redirected write would continue as a GET, and the 200 of a GET does not confirm a write.
                allow_redirects=not is_write,
                **self._options,
            ) as response:
                yield response

    async def _headers(self, call: _Call) -> list[tuple[str, str]]:
        headers = [("Accept", _JSON), ("User-Agent", "podium"), *self._requests.headers]
        if call.data is not None:
            headers.append(("Content-Type", call.content_type))
        credential = await self._credential()
        if credential:
            headers.append(("Authorization", credential))
        return headers

    @contextmanager
    def _in_words(self, call: _Call) -> Iterator[None]:
        """Convert any failure of a request into a PodiumError of one line."""
        import aiohttp  # noqa: PLC0415 - as above

        try:
            yield
        except TimeoutError:
            raise SilentError(one_line(f"{self.server}: no answer to {call} in time")) from None
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, ConnectionError) as error:
            raise PodiumError(one_line(f"{self.server}: connection lost during {call} ({error})")) from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise PodiumError(
                one_line(f"{self.server}: not a URL. Set the kubeconfig's server to https://HOST:PORT")
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # aiohttp derives classes for a proxy's refusal and for too many redirects.
            if type(error) is aiohttp.ClientResponseError:
                failure_text = f"answer is not HTTP: {error.message}"
            else:
                failure_text = no_connection(error, self.server) or str(error)
            raise PodiumError(one_line(f"{self.server}: {call} failed: {failure_text}")) from None

    async def _credential(self) -> str:
        """Return the current Authorization header, or an empty string."""
        try:
            settings = await self._configuration.auth_settings()
        except Exception as error:  # noqa: BLE001 - a plugin or a token file may raise anything
            raise PodiumError(one_line(f"context {self.context}: credential: {error}")) from None
        value: str = settings.get("BearerToken", {}).get("value", "")
        return value


@asynccontextmanager
async def connect(
    kubeconfig: str | None,
    context: str | None,
    requests: RequestOptions = PLAIN,
    *,
    sleep: Sleep = asyncio.sleep,
) -> AsyncIterator[Connection]:
    """Open a connection to the cluster that kubectl would choose, by arguments or environment.

    Raises PodiumError when the kubeconfig or its credentials cannot be used.
    """
    from podium.kube.session import open_session  # noqa: PLC0415 - it imports aiohttp, which is slow

    target = await chosen(kubeconfig, context)
    reach = await transport(target)
    options: dict[str, Any] = {
        "proxy": reach.proxy or _environment_proxy(target.configuration.host),
        "proxy_headers": reach.proxy_headers,
    }
    if reach.server_hostname:
        options["server_hostname"] = reach.server_hostname
    async with open_session(reach.certificates) as session:
        yield Connection(target, session, options, requests, sleep)


def _environment_proxy(server: str) -> str | None:
    """Return the proxy that the environment sets for a server (HTTPS_PROXY, NO_PROXY and similar)."""
    parts = urlsplit(server)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


async def get_or_none(connection: Connection, path: str) -> bytes | None:
    """Return the body of a GET, or None for a 404. Raises as `Connection.get` does."""
    try:
        return await connection.get(path)
    except RefusedError as refused:
        if refused.code == 404:
            return None
        raise


def _status(body: bytes) -> Status:
    try:
        return jsontext.parse(body, Status)
    except msgspec.DecodeError:
        return Status(message=body[:200].decode(errors="replace"))


def _wait(seconds: str) -> float:
    """Return the seconds of a Retry-After header. A date, which no API server sends, counts as one second."""
    return min(float(seconds) if seconds.isdigit() else 1.0, _LONGEST_WAIT_SECONDS)
