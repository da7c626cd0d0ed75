"""Hostile clients against a webhook process: it stays up and small, and others are answered.

The process is observed from outside. During each case a well-behaved client sends a request. Afterwards the
process must be the same one, within its memory limit.
"""

import contextlib
import json
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.rules.scene import pod
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.webhooks.client import ADDRESS, Peer, client_context, post
from tests.support.webhooks.isolated import LIMITS
from tests.support.webhooks.reviews import asked

from podium.webhooks.handlers import ADMISSION
from podium.webhooks.review import DETAILS_BYTES

MIB = 1 << 20
# Above its idle size: the bodies of all reviews, the objects built of them, and the allocator's waste.
ROOM = ADMISSION.held_bytes + 3 * DETAILS_BYTES + 48 * MIB
GOOD = post("/validate?timeout=3s", json.dumps(asked(pod())).encode())


class Victim(NamedTuple):
    """The process."""

    process: "subprocess.Popen[str]"
    port: int
    # Its memory before any hostile client.
    idle: int

    def peer(self, *, tls: bool = True) -> Peer:
        return Peer(self.port, tls=tls)

    @property
    def grown(self) -> int:
        """Return the maximum of bytes above its idle size."""
        return peak(self.process) - self.idle

    def answers(self) -> bool:
        """Return whether a well-behaved client gets its review."""
        with self.peer() as peer:
            answer = peer.ask(GOOD)
        return answer.status == 200 and json.loads(answer.body)["response"]["allowed"]


def peak(process: "subprocess.Popen[str]") -> int:
    """Return the peak memory of a process in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """Yield one process for all cases, so that later cases run after the effects of earlier ones."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.webhooks.isolated"],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with Peer(port) as peer:
            assert peer.ask(GOOD).status == 200
        yield Victim(process, port, peak(process))
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


def drowned(victim: Victim, head: bytes, piece: bytes, count: int) -> None:
    """Send a head and many pieces, even if the server stops reading."""
    with victim.peer() as peer, contextlib.suppress(OSError):
        peer.send(head)
        for _ in range(count):
            peer.send(piece)


def huge_body(victim: Victim) -> None:
    drowned(victim, post("/mutate", b"", Content_Length=str(100 * MIB)), b"x" * 64_000, 100 * MIB // 64_000)


def huge_chunked_body(victim: Victim) -> None:
    head = post("/mutate", b"", Content_Length="", Transfer_Encoding="chunked")
    drowned(victim, head, b"fa00\r\n" + b"x" * 64_000 + b"\r\n", 100 * MIB // 64_000)


def chunks_of_a_byte(victim: Victim) -> None:
    """Each costs a parser a hundred times its cost for the sender."""
    head = post("/mutate", b"", Content_Length="", Transfer_Encoding="chunked")
    drowned(victim, head, b"1\r\nx\r\n" * 10_000, 200)


def requests_without_end(victim: Victim) -> None:
    drowned(victim, b"", b"GET / HTTP/1.1\r\nHost:x\r\n\r\n" * 10_000, 20)


def endless_header(victim: Victim) -> None:
    drowned(victim, b"POST /mutate HTTP/1.1\r\n", b"X: " + b"y" * 8_000 + b"\r\n", 2_000)


def bodies_at_their_limit(victim: Victim) -> None:
    """Forty bodies of 7 MiB at once, of which thirteen fit."""
    body = b'{"a":"' + b"x" * (7 * MIB - 8) + b'"}'
    half = post("/mutate", body)[:-1]

    def send() -> None:
        drowned(victim, half, b"", 0)

    threads = [threading.Thread(target=send) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def garbage_for_a_handshake(victim: Victim) -> None:
    for garbage in (b"\x00" * 500, b"\x16\x03\x01\xff\xff" + b"\xaa" * 70_000, b"GET / HTTP/1.1\r\n\r\n"):
        with victim.peer(tls=False) as peer, contextlib.suppress(OSError):
            peer.send(garbage)
            assert peer.closed


def garbage_inside_tls(victim: Victim) -> None:
    for garbage in (b"\x00" * 500, b"\r\n" * 5_000, b"\xff" * 70_000, b"GET" * 10_000):
        with victim.peer() as peer, contextlib.suppress(OSError):
            peer.send(garbage)


def gone_without_a_word(victim: Victim) -> None:
    """Connections reset in the handshake, in a header, in a body, and while an answer is due."""
    for sent in (None, b"", b"POST /mu", post("/mutate", b"{", Content_Length="9"), GOOD):
        connection = socket.create_connection((ADDRESS, victim.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if sent is None:
            connection.send(b"\x16\x03")
            connection.close()
        else:
            secure = client_context().wrap_socket(connection, server_hostname=ADDRESS)
            secure.send(sent) if sent else None
            secure.close()


def pipelined_without_reading(victim: Victim) -> None:
    drowned(victim, b"", GOOD * 50, 40)


def reviews_that_are_none(victim: Victim) -> None:
    bodies = (
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 5 * MIB,
        b'{"a":' * MIB,
        b'{"request":' * 900 + b"}" * 900,
        b'"' + b"\\u0000" * MIB + b'"',
        b"1" * 5 * MIB,
        b'{"kind":"Pod"}',
        json.dumps(asked({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x" * MIB}})).encode(),
    )
    with victim.peer() as peer:
        for path in ("/mutate", "/validate", "/convert"):
            for body in bodies:
                assert peer.ask(post(path, body)).status in (200, 400)


WORST: list[Callable[[Victim], None]] = [
    huge_body,
    huge_chunked_body,
    chunks_of_a_byte,
    requests_without_end,
    endless_header,
    bodies_at_their_limit,
    garbage_for_a_handshake,
    garbage_inside_tls,
    gone_without_a_word,
    pipelined_without_reading,
    reviews_that_are_none,
]


@pytest.mark.parametrize("worst", WORST, ids=lambda worst: worst.__name__)
def test_others_are_answered_and_memory_is_bounded(victim: Victim, worst: Callable[[Victim], None]) -> None:
    attack = threading.Thread(target=worst, args=(victim,))
    attack.start()
    assert victim.answers()
    attack.join()
    assert victim.answers()
    assert victim.process.poll() is None
    assert victim.grown < ROOM


def test_dribbling_connections(victim: Victim) -> None:
    """200 clients send a byte now and then, in the handshake, header or body, until they are dropped."""
    whole = post("/mutate", b"{" * 500)
    with ExitStack() as stack:
        secured = [stack.enter_context(victim.peer()) for _ in range(150)]
        dribbling = [stack.enter_context(victim.peer(tls=False)) for _ in range(50)] + secured
        for number, peer in enumerate(secured):
            peer.send(whole[: len(whole) * number // 160])
        began = time.monotonic()
        step = 0
        while dribbling:
            assert victim.answers()
            step += 1
            for peer in list(dribbling):
                with contextlib.suppress(OSError):
                    peer.send(b"x")
                    continue
                dribbling.remove(peer)
            assert time.monotonic() - began < PATIENCE_SECONDS
    assert step > 1
    assert victim.grown < ROOM


def test_silence_on_every_connection(victim: Victim) -> None:
    """With more silent clients than connections, a new API server is still accepted."""
    with ExitStack() as stack:
        for _ in range(LIMITS.connections + 10):
            stack.enter_context(victim.peer())
        assert victim.answers()


def test_no_file_descriptor_is_left(victim: Victim) -> None:
    """A connected client is answered; a waiting client is accepted when descriptors are free again."""
    pid = victim.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with victim.peer() as known:
        assert known.ask(GOOD).status == 200
        open_files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_files, hard))
        try:
            with ExitStack() as outside:
                for _ in range(20):
                    outside.enter_context(victim.peer(tls=False))
                assert known.ask(GOOD).status == 200
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert known.ask(GOOD).status == 200
    assert victim.answers()
