"""Limits on the resources that clients may use of a process: connections, requests, bytes and time.

Any client that reaches the port may try to exhaust the process, which must still answer the API server. Every
limit is a number here. `podium.runtime.http1` refuses a request that exceeds one, and keeps the account in a
`Load`.
"""

from collections import Counter
from typing import NamedTuple


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
