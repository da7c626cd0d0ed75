"""Opens a port before the imports that take a second, so that the first probe of a process is not refused.

Connections wait in the queue of the socket until a server accepts them.
"""

import socket

from podium.errors import PodiumError

LOOPBACK = "127.0.0.1"
_BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 means any free port. Raises PodiumError if that is impossible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise PodiumError(f"cannot listen on {host} port {port}: {error.strerror}") from None
