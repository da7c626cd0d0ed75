"""All that a process reads of its machine: clocks, chance, the network and a thread. A value, so others fit.

Processes sleep and time out on their event loop, and take everything else from here. So a simulation runs
the same processes on machines whose time, network and faults a seed chooses.

A process opens its port before the imports that take a second, so that its first probe is not refused:
connections wait in the queue of the socket. So this module imports nothing slow.
"""

import random
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.kube.connection import Connection

LOOPBACK = "127.0.0.1"
_BACKLOG = 1024

Connect = Callable[[str | None, str | None], AbstractAsyncContextManager["Connection"]]


class Host(NamedTuple):
    """The machine of a process.

    `clock` returns seconds that never jump, `now` the time in UTC, `random` a number from 0 up to 1, and
    `token` a text that no other call returns. `connect` opens a connection to the API server, by kubeconfig
    and context. `listen` opens a port, by address and number. `executor` makes a thread.
    """

    clock: Callable[[], float]
    now: Callable[[], datetime]
    random: Callable[[], float]
    token: Callable[[], str]
    name: Callable[[], str]
    connect: Connect
    listen: Callable[[str, int], socket.socket]
    executor: Callable[[], Executor]


def steady() -> float:
    """Return the seconds of a clock that cannot be set and that runs while the machine is suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def utc_now() -> datetime:
    """Return the current wall time in UTC."""
    return datetime.now(UTC)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 means any free port. Raises PodiumError if that is impossible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise PodiumError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def _connect(kubeconfig: str | None, context: str | None) -> AbstractAsyncContextManager["Connection"]:
    from podium.kube.connection import connect  # noqa: PLC0415 - slow to import

    return connect(kubeconfig, context)


THIS_MACHINE = Host(
    clock=steady,
    now=utc_now,
    random=random.random,
    token=partial(secrets.token_hex, 4),
    name=socket.gethostname,
    connect=_connect,
    listen=listen,
    executor=partial(ThreadPoolExecutor, 1, thread_name_prefix="worker"),
)
