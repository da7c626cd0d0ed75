"""Ports on loopback that nobody else can take between choosing one and the program binding it.

A port is reserved by a socket that is bound and never listens. The programs bind with SO_REUSEPORT too
(--permit-port-sharing), which the kernel allows to the same user only; connections reach whoever listens.
"""

import contextlib
import socket

from podium.errors import PodiumError


def reserve(held: contextlib.ExitStack, port: int) -> int:
    """Reserve a port until `held` is closed: this one, or any free one for 0."""
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
