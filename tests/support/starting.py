"""Start a program of Podium as a process of its own: forked from one that has imported it, or fresh.

A fresh interpreter imports for half a second to a second of processor time, and the tests start hundreds of
processes. So each worker has one process that imports the programs once (multiprocessing's fork server) and
forks for each start. A forked process has the arguments, the environment, the working directory, the streams,
the signals and the exit code of a fresh one. Only its memory differs, because it shares that of its parent.
"""

import atexit
import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Protocol

# The modules that the serving processes import when they run.
_PROGRAMS = (
    *("podium.cli.commands.webhook", "podium.webhooks.process", "podium.webhooks.registration"),
    *("podium.cli.commands.controller", "podium.controllers.process"),
    *("podium.cli.commands.scheduler", "podium.answers.schedulerfile"),
    "podium.schedulerplugin.live.process",
    *("kubernetes_asyncio.client.rest", "kubernetes_asyncio.config", "uvloop"),
)
# Coverage is measured in fresh processes: it begins when an interpreter starts.
_FRESH_ONLY = sys.platform != "linux" or any(name.startswith("COVERAGE_PROCESS_") for name in os.environ)


class Started(Protocol):
    """A child process, with the part of subprocess.Popen that tests use."""

    @property
    def args(self) -> Any: ...
    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


def start(
    line: Sequence[str],
    log: Path,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> Started:
    """Start a command line: a Python script such as `podium`, or a module after `python -m`.

    Its output goes to `log`, and it has no input. `folder` and `environ` are ours unless given. It has an
    interpreter of its own if it is `fresh`.
    """
    environ = dict(os.environ) if environ is None else environ
    if fresh or _FRESH_ONLY:
        with log.open("wb") as output:
            return subprocess.Popen(
                line, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
    log.write_bytes(b"")
    return _Forked(line, log.absolute(), folder or Path.cwd(), environ)


class _Forked:
    """A process forked from the worker's process with the programs."""

    def __init__(self, line: Sequence[str], log: Path, folder: Path, environ: Mapping[str, str]) -> None:
        self.args = line
        self._lock = threading.Lock()
        self._process = _context().Process(target=_run, args=(line, log, folder, dict(environ)), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        """Return the exit code, the negative number of a signal, or None while it runs."""
        # The exit code arrives once, so only one thread may read it.
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return as `poll`. Raises TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        """Kill it unless it has ended."""
        self._process.kill()


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PROGRAMS))
    return context


def _run(line: Sequence[str], log: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """In the forked process: become the process of the command line."""
    with Path(os.devnull).open("rb") as nothing, log.open("ab") as output:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    try:
        if line[:2] == [sys.executable, "-m"]:
            sys.argv = [*line[2:]]
            runpy.run_module(line[2], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [*line]
            runpy.run_path(line[0], run_name="__main__")
    finally:
        # A forked process skips what an interpreter does at its end: it waits for threads, then calls these.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
