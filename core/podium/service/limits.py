"""How much of this process strangers may hold: connections, requests, bytes and time; and what they do hold.

Anybody who reaches the port may try to exhaust it, and the API server must still be answered. Every limit is
a number here; who breaks one is turned away by `podium.service.http1`, which keeps the account in a `Load`.
"""

from typing import NamedTuple


class Limits(NamedTuple):
    """Sizes in bytes, times in seconds."""

    # An API server keeps 25 idle connections to a host and opens more in a burst: 400 at most with its
    # default of 400 requests at once. Room for two of them, and for strangers.
    connections: int = 1000
    # Requests whose answer has to wait, for the cluster to bring what they name; others wait for nothing.
    waiting: int = 100
    # Bodies being received or judged, and answers that wait for their reader, of all connections together.
    held_bytes: int = 64 << 20
    # An API server's own headers are under 2 KiB.
    header_bytes: int = 16 << 10
    header_seconds: float = 5.0
    body_seconds: float = 5.0
    # Longer than the 90 s after which an API server closes an idle connection: a client that closes first
    # never sends a request into a connection that we just closed, which Go would not repeat.
    idle_seconds: float = 300.0
    handshake_seconds: float = 5.0
    # How long an answer given before the whole request came may travel, what still comes being thrown away.
    linger_seconds: float = 1.0
    # What a request may take when it does not say; as the API server does without timeoutSeconds.
    default_seconds: float = 10.0
    # No request takes longer, whatever it says: 30 s is the most that a webhook may be registered with.
    longest_seconds: float = 30.0


class Load:
    """What is held right now by all connections of one server."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting = 0
        self.held_bytes = 0
