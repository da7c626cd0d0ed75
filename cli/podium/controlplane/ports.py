"""Loopback ports that no other user can take between the choice and the program's bind.

A port is reserved by a socket that is bound and never listens. The programs also bind with SO_REUSEPORT
(--permit-port-sharing), which the kernel allows to the same user only; connections reach the listening
socket.
"""

import contextlib
import socket

from podium.errors import PodiumError


def reserve(held: contextlib.ExitStack, port: int) -> int:
    """Reserve a port until `held` is closed: this port, or any free one for 0."""
    reservation = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reservation.bind(("127.0.0.1", port))
    except OSError as error:
        raise PodiumError(
            f"port {port}, which this cluster had, cannot be used ({error.strerror}):"
            " `podium cluster down` and start a new one"
        ) from None
    chosen: int = reservation.getsockname()[1]
    return chosen
