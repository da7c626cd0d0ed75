"""HTTP requests, responses and routes as values, and the bytes that a server adds to a response.

Handlers are functions from HTTPRequest to HTTPResponse, so that tests need no socket.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs

from podium.api.durations import seconds

# Limits on the resources that clients may use of a process: connections, requests, bytes and time.
#
# Any client that reaches the port may try to exhaust the process, which must still answer the API server.
# Every limit is a number here. `podium.runtime.http1` refuses a request that exceeds one, and keeps the
# account in a `Load`.


class RequestBudget(NamedTuple):
    """Limits for the requests of some routes together, separate from other routes."""

    name: str
    # Bodies being received or judged, and answers that the client has not read yet.
    held_bytes: int
    # Requests that wait for an asynchronous handler.
    waiting: int
    # Connections whose latest request belongs to this budget.
    connections: int


class Limits(NamedTuple):
    """Sizes in bytes, times in seconds. `held_bytes` and `waiting` apply to routes without a budget."""

    # An API server keeps 25 idle connections to a host and opens more in a burst: at most 400 with its
    # default of 400 concurrent requests. This is enough for two API servers and other clients.
    connections: int = 1000
    waiting: int = 100
    held_bytes: int = 64 << 20
    # The headers of an API server are under 2 KiB.
    header_bytes: int = 16 << 10
    header_seconds: float = 5.0
    body_seconds: float = 5.0
    # Longer than the 90 s after which an API server closes an idle connection. If the client closes first, it
    # never sends a request into a connection that we just closed, which Go would not retry.
    idle_seconds: float = 300.0
    # A connection with a good request is protected for this long: an API server either uses it again within
    # 90 s or closes it.
    proven_seconds: float = 100.0
    handshake_seconds: float = 5.0
    # The time to deliver an answer sent before the end of its request, while further data is discarded.
    linger_seconds: float = 1.0
    # The timeout of a request without one; the API server's default without timeoutSeconds.
    default_seconds: float = 10.0
    # The maximum of any timeout: 30 s is the maximum of timeoutSeconds in a webhook registration.
    longest_seconds: float = 30.0

    @property
    def budget(self) -> RequestBudget:
        """Return the budget of the routes without one of their own."""
        return RequestBudget("", self.held_bytes, self.waiting, self.connections)


class Load:
    """Bytes and waiting requests that the connections of one server use now, by budget."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting: Counter[str] = Counter()
        self.held_bytes: Counter[str] = Counter()


JSON = "application/json"
RETRY: Mapping[str, str] = MappingProxyType({"Retry-After": "1"})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_JSON_HEADERS: Mapping[str, str] = MappingProxyType({"Content-Type": JSON})


class HTTPRequest(NamedTuple):
    """A complete request; `deadline` is a time of the event loop's clock, `began` one of perf_counter.

    `query` is the part behind the path's question mark, as sent; `headers` ignore case.
    """

    path: str
    body: bytes | bytearray
    deadline: float
    began: float
    accept: str = ""
    query: str = ""
    headers: Mapping[str, str] = _NO_HEADERS


class HTTPResponse(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes | bytearray
    headers: Mapping[str, str] = _JSON_HEADERS


# A plain Reply is the fast path, without a task for the request.
Handler = Callable[[HTTPRequest], HTTPResponse | Awaitable[HTTPResponse]]
# The reasons to refuse a request or a connection without a handler, and the status of each.
REFUSALS: Mapping[str, int] = MappingProxyType(
    {
        "not HTTP": 400,
        "handshake": 400,
        "client certificate": 403,
        "path": 404,
        "method": 405,
        "slow header": 408,
        "slow body": 408,
        "no length": 411,
        "large body": 413,
        "content type": 415,
        "connections": 429,
        "descriptors": 429,
        "handshakes": 429,
        "memory": 429,
        "waiting": 429,
        "large header": 431,
        "exception": 500,
        "late": 504,
    }
)
# Called with each of these reasons.
Tally = Callable[[str], None]


# Answers a request that is refused before its end, from the reason and the beginning of its body. None if the
# beginning is not enough; the answer is then the reason's status.
Declined = Callable[[str, bytes], HTTPResponse | None]
# The length of the beginning of a body, in bytes.
BEGINNING = 4 << 10


class Route(NamedTuple):
    """The handler of a path, and the requirements for its requests; `body_limit` is in bytes.

    `anonymous` allows clients without a certificate. `proves`: a good request protects its connection.
    `keeps_body`: an asynchronous handler still needs the body. `owner` returns the owner of a body's bytes
    from its beginning.
    """

    method: str
    handler: Handler
    content_type: str = ""
    body_limit: int = 0
    anonymous: bool = False
    proves: bool = True
    keeps_body: bool = True
    budget: RequestBudget | None = None
    declined: Declined | None = None
    owner: Callable[[bytes], str] | None = None


# Returns the response for a status that no handler sets.
Worded = Callable[[int], HTTPResponse]


def text_response(status: int, message: str, headers: Mapping[str, str] = _NO_HEADERS) -> HTTPResponse:
    """Return a response of plain text."""
    return HTTPResponse(
        status,
        f"{message}\n".encode(errors="replace"),
        {"Content-Type": "text/plain; charset=utf-8", **headers},
    )


def plain(status: int) -> HTTPResponse:
    """Return a text response with the phrase of its status; a 429 also has Retry-After."""
    return text_response(status, HTTPStatus(status).phrase, RETRY if status == 429 else _NO_HEADERS)


def head(response: HTTPResponse, now: float, *, last: bool) -> bytes:
    """Return the bytes of a response before its body; `now` is Unix time, `last` closes the connection."""
    lines = [_status_line(response.status), _date(int(now))]
    lines += [f"{name}: {value}\r\n" for name, value in response.headers.items()]
    if last:
        lines.append("Connection: close\r\n")
    return f"{''.join(lines)}Content-Length: {len(response.body)}\r\n\r\n".encode()


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\n"


def is_of(given: str, media_type: str) -> bool:
    """Return whether a Content-Type has a media type, with any parameters."""
    return given == media_type or given.partition(";")[0].strip().lower() == media_type


@lru_cache(maxsize=256)
def target(raw: str) -> tuple[str, str, float | None]:
    """Return path, query and the seconds of `timeout` (None without a valid one) in a request target."""
    path, _, query = raw.partition("?")
    values = parse_qs(query).get("timeout", [])
    return path, query, seconds(values[0]) if values else None
