"""Closing TLS connections: a cancelled request leaves nothing open after its event loop."""

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.support.connection.fake import Fake
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.webhooks import pki

from podium.kube.connection import Connection, connect

BEGUN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n"


@contextlib.contextmanager
def unresponsive(folder: Path, says: bytes | None) -> Iterator[tuple[str, threading.Event]]:
    """Serve one request with this and without close_notify: a kubeconfig, and the event of its arrival.

    None serves no handshake, and the event is then the connection.
    """
    authority = pki.authority()
    pki.write(folder, pki.leaf(authority))
    (folder / "ca.crt").write_bytes(authority.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    requested, over = threading.Event(), threading.Event()

    def serve() -> None:
        with listener.accept()[0] as plain:
            if says is None:
                requested.set()
                over.wait(PATIENCE_SECONDS)
                return
            answer(plain, says)

    def answer(plain: socket.socket, says: bytes) -> None:
        with context.wrap_socket(plain, server_side=True) as stream:
            stream.recv(1 << 16)
            stream.sendall(says)
            requested.set()
            over.wait(PATIENCE_SECONDS)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        fake = Fake()
        fake.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        server = threading.Thread(target=serve)
        server.start()
        try:
            yield fake.kubeconfig(folder, authority=str(folder / "ca.crt")), requested
        finally:
            over.set()
            server.join()


async def asking(link: Connection) -> None:
    await link.get("/")


async def writing(link: Connection) -> None:
    await link.send("PUT", "/", {})


async def watching(link: Connection) -> None:
    async for _ in link.lines("/", silence=PATIENCE_SECONDS):
        pass


# The answer of the server, and the request.
GIVEN_UP: dict[str, tuple[bytes | None, Callable[[Connection], Coroutine[Any, Any, None]]]] = {
    "asked": (b"", asking),
    "begun": (BEGUN, asking),
    "watched": (BEGUN, watching),
    "write asked": (b"", writing),
    "write begun": (BEGUN, writing),
    "write before the handshake": (None, writing),
}


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("case", GIVEN_UP.values(), ids=[*GIVEN_UP])
def test_a_request_given_up_leaves_no_connection_open(
    tmp_path: Path,
    case: tuple[bytes | None, Callable[[Connection], Coroutine[Any, Any, None]]],
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    says, does = case

    async def give_up(kubeconfig: str, requested: threading.Event) -> None:
        async with connect(kubeconfig, None) as link:
            task = asyncio.create_task(does(link))
            assert await asyncio.to_thread(requested.wait, PATIENCE_SECONDS)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        with unresponsive(tmp_path, says) as (kubeconfig, requested):
            with asyncio.Runner(loop_factory=loop) as runner:
                runner.run(give_up(kubeconfig, requested))
            gc.collect()
    assert [str(warning.message) for warning in seen] == []
