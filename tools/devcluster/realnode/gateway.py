"""A process that accepts connections on the machine's loopback and leads them to a cluster's API server.

The API server listens in the cluster's own network. This process listens first, and then moves into that
network: a socket stays in the network in which it was made. `python gateway.py PORT NAMESPACE` needs no
other module than Python's.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

_CLONE_NEWNET = 0x40000000
_CHUNK = 1 << 16


def main() -> None:
    """Serve until the process is ended."""
    port, namespace = int(sys.argv[1]), Path(sys.argv[2])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener, namespace.open("rb") as network:
        # The port is reserved by the command that starts the cluster.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        _enter(network.fileno())
        asyncio.run(_serve(listener, port))


def _enter(namespace: int) -> None:
    # os.setns needs Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


async def _serve(listener: socket.socket, port: int) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(inner_writer):
                # The end of one direction is the end of both: TLS says goodbye inside.
                await _first(_copy(reader, inner_writer), _copy(inner_reader, writer))

    server = await asyncio.start_server(accept, sock=listener)
    await server.serve_forever()


async def _first(*copies: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(copy) for copy in copies]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        target.write(chunk)
        await target.drain()


if __name__ == "__main__":
    main()
