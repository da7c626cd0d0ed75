"""`podium webhook` as users run it: a process of its own, started, awaited and stopped by tests.

Only this module knows the command line and the process's report of its port. So all tests start it in the
same way and show its output if it does not start.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.servers import Server
from tests.support.starting import Started, start
from tests.support.waiting import PATIENCE_SECONDS, comes

# The output of each process, in its folder.
LOG = "webhook.log"
_ADDRESS = "127.0.0.1"
# Below the ports of outgoing connections in Linux.
_PORTS = range(20_000, 32_000)
_PODIUM = str(Path(sys.executable).with_name("podium"))


@dataclass
class Running:
    """A process that serves, or served; `log` has its whole output."""

    process: Started
    folder: Path
    port: int
    metrics_port: int = field(default=0)

    @property
    def url(self) -> str:
        """The URL at which an API server would call it, without a path."""
        return f"https://{_ADDRESS}:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        """Return its standard error so far."""
        return (self.folder / LOG).read_text(encoding="utf-8", errors="replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the structured lines of its log, without tracebacks of the interpreter."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def get(self, path: str) -> tuple[int, str]:
        """GET from the plain port: /livez, /readyz or /metrics."""
        connection = http.client.HTTPConnection(_ADDRESS, self.metrics_port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    @property
    def ready(self) -> bool:
        """Return whether it reports that it is ready."""
        with contextlib.suppress(OSError):
            return self.get("/readyz")[0] == 200
        return False

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition that this process must bring about; its end or a timeout shows its log."""

        def reached() -> bool:
            if condition():
                return True
            if self.process.poll() is not None:
                raise AssertionError(f"exit code {self.process.returncode} before {what}:\n{self.log}")
            return False

        if not comes(reached):
            raise AssertionError(f"waited {PATIENCE_SECONDS:.0f} s for {what}:\n{self.log}")

    def _serving(self) -> bool:
        for event in self.events:
            if event.get("event") == "serving":
                self.metrics_port = event["metrics_port"]
                return True
        return False

    def wait_ready(self) -> None:
        """Wait until it serves and logs it."""
        self.until(self._serving, "it serves")
        self.until(lambda: self.ready, "it is ready")

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and return its exit code; a process that has ended stays as it is."""
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{with_signal.name} did not end it:\n{self.log}") from None


def free_port() -> int:
    """Return a port without a listener, which no other process can take meanwhile."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with contextlib.suppress(OSError), socket.create_server((_ADDRESS, port)):
            return port


def launch(
    server: Server,
    folder: Path,
    *arguments: str,
    program: Sequence[str] = (_PODIUM,),
    environ: Callable[[str], Mapping[str, str]] = lambda _: os.environ,
    fresh: bool = False,
) -> Running:
    """Start the process without waiting; it registers under its own URL unless the arguments differ.

    `folder` gets its log and, unless the arguments differ, its certificates. `environ` is a function of the
    URL.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url = f"https://{_ADDRESS}:{port}"
    line = [*program, "webhook", f"--kubeconfig={server.kubeconfig}"]
    line += [f"--port={port}", "--metrics-port=0", "--drain-seconds=0", "--log-format=json", *arguments]
    if not _given(arguments, "--register-"):
        line.append(f"--register-url={url}")
    if not _given(arguments, "--cert-", "--provided-"):
        line.append(f"--cert-dir={folder / 'certificates'}")
    return Running(start(line, folder / LOG, environ=environ(url), fresh=fresh), folder, port)


def _given(arguments: tuple[str, ...], *stems: str) -> bool:
    return any(argument.startswith(stems) for argument in arguments)


@contextlib.contextmanager
def running(server: Server, folder: Path, *arguments: str) -> Iterator[Running]:
    """Yield a ready process, and stop it; its exit code must be 0 unless the test stopped it."""
    started = launch(server, folder, *arguments)
    with ending(started):
        started.wait_ready()
        yield started


@contextlib.contextmanager
def ending(started: Running) -> Iterator[None]:
    """Stop a process after the block, in good order unless the block failed."""
    try:
        yield
        if started.process.poll() is None:
            code = started.stop()
            assert code == 0, f"exit code {code} on SIGTERM:\n{started.log}"
    except BaseException as error:
        # The log may have the reason of a timeout: for example, the process lost its lease and ended.
        line = f"{started.process.args!r}, exit code {started.process.poll()}"
        error.add_note(f"{line}, has said:\n{started.log}")
        raise
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()
