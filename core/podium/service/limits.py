"""Limits on what clients may hold of a process: connections, requests, bytes and time; and what they do hold.

Any client that reaches the port may try to exhaust it, and the API server must still be answered. Every limit
is a number here. `podium.service.http1` refuses a request that exceeds one and keeps the account in a `Load`.
"""

from collections import Counter
from typing import NamedTuple


class Budget(NamedTuple):
    """Limits for the requests of some routes together, apart from those of other routes."""

    name: str
    # Bodies being received or judged, and answers that their reader has not taken yet.
    held_bytes: int
    # Requests whose answer is awaited.
    waiting: int
    # Connections whose latest request is one of these.
    connections: int


class Limits(NamedTuple):
    """Sizes in bytes, times in seconds. `held_bytes` and `waiting` are for routes without a budget."""

    # An API server keeps 25 idle connections to a host and opens more in a burst: 400 at most with its
    # default of 400 requests at once. Room for two of them, and for strangers.
    connections: int = 1000
    waiting: int = 100
    held_bytes: int = 64 << 20
    # An API server's own headers are under 2 KiB.
    header_bytes: int = 16 << 10
    header_seconds: float = 5.0
    body_seconds: float = 5.0
    # Longer than the 90 s after which an API server closes an idle connection: a client that closes first
    # never sends a request into a connection that we just closed, which Go would not repeat.
    idle_seconds: float = 300.0
    # A connection that proved to be of use is spared for this long: an API server either uses it again within
    # 90 s or closes it.
    proven_seconds: float = 100.0
    handshake_seconds: float = 5.0
    # How long an answer given before the whole request came may travel, what still comes being thrown away.
    linger_seconds: float = 1.0
    # What a request may take when it does not say; as the API server does without timeoutSeconds.
    default_seconds: float = 10.0
    # No request takes longer, whatever it says: 30 s is the most that a webhook may be registered with.
    longest_seconds: float = 30.0

    @property
    def budget(self) -> Budget:
        """Give the budget of the routes that have none of their own."""
        return Budget("", self.held_bytes, self.waiting, self.connections)


class Load:
    """Bytes and waiting requests that the connections of one server hold right now, by budget."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting: Counter[str] = Counter()
        self.held_bytes: Counter[str] = Counter()
