"""Build programs from a Go module into the cache, with progress on the terminal."""

import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

from podium.controlplane import cached, golang
from podium.errors import PodiumError
from podium.stderr import overwrite

_LINE_EVERY_SECONDS = 30.0  # If the output is not a terminal.
# The first three exclude influences of the environment.
_FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath", "-v")


class GoBuild(NamedTuple):
    """Programs of one Go module, and the folder in the cache for them.

    `files` are the files of the module that decide the result.
    """

    title: str  # "Kubernetes 1.37.0", for messages
    module: Path
    files: tuple[str, ...]
    arguments: tuple[str, ...]  # of `go build`, the packages last
    place: Path
    notice: tuple[str, ...]  # lines that announce the build


def arguments(ldflags: str, packages: tuple[str, ...], *, tags: str = "") -> tuple[str, ...]:
    """Return the arguments of `go build` for small programs that do not depend on the environment."""
    chosen = ("-tags", tags) if tags else ()
    return (*_FLAGS, *chosen, "-ldflags", f"-s -w {ldflags}", *packages)


def ensure(plan: GoBuild, environ: Mapping[str, str], progress: IO[str]) -> Path:
    """Return the folder with the programs, built first if missing. Raises PodiumError if the build fails."""

    def make(draft: Path) -> None:
        def echo(text: str) -> None:
            print(text, file=progress, flush=True)

        for line in plan.notice:
            echo(line)
        go = golang.find(plan.module, environ, echo)
        started = time.monotonic()
        _compile(plan, draft, go, environ, progress)
        echo(f"built {plan.title} in {_elapsed(started)}")

    return cached.ensure(plan.place, stamp_of(plan), plan.title, progress, make)


def stamp_of(plan: GoBuild) -> str:
    """Return a digest of what the build depends on: module, arguments and machine, but not Go's version."""
    files = [(plan.module / name).read_bytes() for name in plan.files]
    machine = f"{sys.platform}/{platform.machine()}"
    return cached.digest([machine.encode(), *map(str.encode, plan.arguments), *files])


def _compile(plan: GoBuild, draft: Path, go: Path, environ: Mapping[str, str], progress: IO[str]) -> None:
    argv = [str(go), "build", "-o", f"{draft}/", *plan.arguments]
    kept = {name: value for name, value in environ.items() if name not in ("GOOS", "GOARCH")}
    log = plan.place.with_name(f"{plan.place.name}.log")
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603 - a fixed command line
            argv,
            cwd=plan.module,
            env=kept | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            _follow(process, log, plan.title, progress)
        finally:
            process.terminate()
    if process.returncode:
        lines = " | ".join(_lines(log)[-3:])
        raise PodiumError(f"building {plan.title} failed: {lines}; all of it: {log}")


def _follow(process: "subprocess.Popen[bytes]", log: Path, title: str, progress: IO[str]) -> None:
    """Report progress until Go ends: on one line of a terminal, else with occasional lines."""
    started = time.monotonic()
    terminal = progress.isatty()
    while True:
        try:
            process.wait(timeout=1.0 if terminal else _LINE_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            # Go prints every module when it downloads it, and every package when it starts to compile it.
            lines = _lines(log)
            text = f"building {title}: {_elapsed(started)}, step {len(lines)} {''.join(lines[-1:])}"
        else:
            if terminal:
                overwrite(progress, "")
            return
        if terminal:
            overwrite(progress, text[: shutil.get_terminal_size().columns - 1])
        else:
            print(text, file=progress, flush=True)


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()


def _elapsed(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes}m{seconds:02d}s"
