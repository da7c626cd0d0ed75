"""HTTP as values: what a handler is asked, what it says, and the few bytes that a server adds to it."""

from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs

from podium.api.durations import seconds
from podium.service.limits import Budget

JSON = "application/json"
RETRY: Mapping[str, str] = MappingProxyType({"Retry-After": "1"})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_JSON_HEADERS: Mapping[str, str] = MappingProxyType({"Content-Type": JSON})


class Ask(NamedTuple):
    """A whole request; `deadline` is a time of the event loop's clock, `began` one of perf_counter.

    `query` is what follows the path's question mark, as it was sent; `headers` are found in any case.
    """

    path: str
    body: bytes | bytearray
    deadline: float
    began: float
    accept: str = ""
    query: str = ""
    headers: Mapping[str, str] = _NO_HEADERS


class Reply(NamedTuple):
    """An answer."""

    status: int
    body: bytes | bytearray
    headers: Mapping[str, str] = _JSON_HEADERS


# A Reply at once is the fast path: the request costs no task.
Handler = Callable[[Ask], Reply | Awaitable[Reply]]
# Why a request, or a connection before its first, gets no answer of a handler; and the status instead.
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
# Told each of these reasons.
Tally = Callable[[str], None]


# Answers a request that is refused before it has come whole, by the reason and by the beginning of its body;
# None where the beginning does not say enough, and the answer is the reason's status.
Declined = Callable[[str, bytes], Reply | None]
# So much of a body is the beginning, in bytes.
BEGINNING = 4 << 10


class Route(NamedTuple):
    """The handler of a path, and what a request for it must be like; `body_limit` in bytes.

    `anybody` may ask, where others need a certificate. `proves`: a good request shows that the connection is
    of use. `keeps_body`: an answer that is awaited needs the body still. `owner` tells from the beginning of
    a body on whose account its bytes are.
    """

    method: str
    handler: Handler
    content_type: str = ""
    body_limit: int = 0
    anybody: bool = False
    proves: bool = True
    keeps_body: bool = True
    budget: Budget | None = None
    declined: Declined | None = None
    owner: Callable[[bytes], str] | None = None


# How an answer that no handler gives is worded, by its status.
Worded = Callable[[int], Reply]


def plain(status: int) -> Reply:
    """Give an answer that says its status and no more; of a 429, that one may ask again."""
    said = {"Content-Type": "text/plain; charset=utf-8", **(RETRY if status == 429 else {})}
    return Reply(status, f"{HTTPStatus(status).phrase}\n".encode(), said)


def head(reply: Reply, now: float, *, last: bool) -> bytes:
    """Write all of a response before its body; `now` is Unix time, `last` closes the connection behind it."""
    lines = [_status_line(reply.status), _date(int(now))]
    lines += [f"{name}: {value}\r\n" for name, value in reply.headers.items()]
    if last:
        lines.append("Connection: close\r\n")
    return f"{''.join(lines)}Content-Length: {len(reply.body)}\r\n\r\n".encode()


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\n"


def is_of(given: str, wanted: str) -> bool:
    """Whether a Content-Type is of a media type, whatever its parameters."""
    return given == wanted or given.partition(";")[0].strip().lower() == wanted


@lru_cache(maxsize=256)
def target(raw: str) -> tuple[str, str, float | None]:
    """Split a request target into its path, its query, and the seconds of its `timeout` if we can read it."""
    path, _, query = raw.partition("?")
    values = parse_qs(query).get("timeout", [])
    return path, query, seconds(values[0]) if values else None
