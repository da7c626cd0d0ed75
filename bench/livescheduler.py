"""Podium's scheduler as a process on an API server of ours, for the duration of a bench."""

import contextlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers import Server
from tools.devcluster.controlplane import process

from podium.errors import PodiumError

_PODIUM = str(Path(sys.executable).with_name("podium"))
_PATIENCE_SECONDS = 300.0


@contextlib.contextmanager
def podium_scheduling(server: Server) -> Iterator[int]:
    """Run `podium scheduler` with its defaults; yield its process id when it has read the cluster.

    Raises PodiumError if it does not start, or ends before it is stopped.
    """
    with contextlib.ExitStack() as held:
        port = _free()
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        log = folder / "log"
        argv = [_PODIUM, "scheduler", f"--kubeconfig={server.kubeconfig}", "--no-leader-elect"]
        argv += ["--bind=127.0.0.1", f"--metrics-port={port}"]
        running = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=held.enter_context(log.open("wb")))
        try:
            ready = process.wait_until(
                lambda: _is_ready(port) or running.poll() is not None, seconds=_PATIENCE_SECONDS
            )
            if not ready or running.poll() is not None:
                raise PodiumError(f"podium scheduler did not come up: {_last_line(log)}")
            yield running.pid
            if running.poll() is not None:
                raise PodiumError(f"podium scheduler ended with {running.returncode}: {_last_line(log)}")
        finally:
            running.terminate()
            running.wait()


def _free() -> int:
    """Return a free port."""
    with contextlib.ExitStack() as held:
        return process.reserve_port(held, 0)


def _is_ready(port: int) -> bool:
    # Not started yet, or not ready.
    with (
        contextlib.suppress(urllib.error.URLError, OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer,
    ):
        return bool(answer.status == 200)
    return False


def _last_line(log: Path) -> str:
    return (log.read_text(encoding="utf-8", errors="replace").splitlines() or ["it wrote nothing"])[-1]
