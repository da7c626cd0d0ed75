"""Builds the programs of a control plane from Go modules, once a machine and version.

A cold build takes minutes, so what is built is kept in the user's cache folder, whole or not at all: it is
made in a folder beside its place and renamed in. A stamp holds a digest of everything the build depends on, so
a changed module builds again. Two builders of one version never work at once: the second waits, says so, and
finds the work done.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from podium import data
from podium.controlplane import folders, golang
from podium.controlplane.lock import alone
from podium.controlplane.releases import Release
from podium.errors import PodiumError

_PACKAGES = (
    "./etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kubectl",
    "sigs.k8s.io/kwok/cmd/kwok",
)
PROGRAMS = tuple(package.rpartition("/")[2] for package in _PACKAGES)

_STAMP = "podium-build"
_MODULE_FILES = ("go.mod", "go.sum", "etcd/main.go")
_LINE_EVERY_SECONDS = 30.0  # where there is no terminal


def build(release: Release, environ: Mapping[str, str], progress: IO[str]) -> Path:
    """The folder with the release's PROGRAMS, built first if it is not there; PodiumError if that fails."""
    root = folders.cache(environ)
    place = root / release.version
    module = data.folder("controlplane") / f"v{release.minor}"
    stamp = _stamp(module, release)
    if is_built(place, stamp):
        return place
    root.mkdir(parents=True, exist_ok=True)

    def say(text: str) -> None:
        print(text, file=progress, flush=True)

    with alone(
        root / f"{release.version}.lock",
        lambda: say(f"waiting for another build of Kubernetes {release.version} to end"),
    ):
        if not is_built(place, stamp):
            say(
                f"building etcd, Kubernetes {release.version} and kwok into {place}: about ten minutes the first"
                " time; set KUBEBUILDER_ASSETS to a folder that has them to skip this"
            )
            go = golang.find(module, environ, say)
            _build_into(place, stamp, module, _command(go, release), environ, progress)
    return place


def is_built(place: Path, stamp: str) -> bool:
    """Whether `place` holds a whole build with this stamp."""
    try:
        return (place / _STAMP).read_text(encoding="ascii").strip() == stamp
    except FileNotFoundError:
        return False


def digest(files: Mapping[str, bytes], command: tuple[str, ...], machine: str) -> str:
    """One line that changes with anything a build depends on, except the version of Go."""
    whole = hashlib.sha256()
    for part in (machine.encode(), *(text.encode() for text in command), *files.values()):
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()


def _stamp(module: Path, release: Release) -> str:
    files = {name: (module / name).read_bytes() for name in _MODULE_FILES}
    return digest(files, _command(Path("go"), release), f"{sys.platform}/{platform.machine()}")


def _command(go: Path, release: Release) -> tuple[str, ...]:
    """The whole `go build` but for -o; -mod, -buildvcs and -trimpath keep out what the surroundings are like."""
    version = "k8s.io/component-base/version"
    facts = {
        "gitVersion": f"v{release.version}",
        "gitMajor": release.minor.partition(".")[0],
        "gitMinor": release.minor.partition(".")[2],
        "gitTreeState": "clean",
    }
    stamps = " ".join(f"-X {version}.{name}={value}" for name, value in facts.items())
    flags = ("-v", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", f"-s -w {stamps}")
    return (str(go), "build", *flags, *_PACKAGES)


def _build_into(
    place: Path, stamp: str, module: Path, command: tuple[str, ...], environ: Mapping[str, str], progress: IO[str]
) -> None:
    root = place.parent
    for abandoned in root.glob(f".{place.name}.*"):  # of builders that were killed; we hold the lock
        shutil.rmtree(abandoned)
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=root))
    try:
        log = root / f"{place.name}.log"
        environment = {name: value for name, value in environ.items() if name not in ("GOOS", "GOARCH")}
        environment |= {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        argv = [*command[:2], "-o", f"{draft}/", *command[2:]]
        with log.open("wb+") as output:
            started = time.monotonic()
            with subprocess.Popen(argv, cwd=module, env=environment, stdout=output, stderr=output) as go:
                try:
                    _follow(go, log, place.name, progress)
                finally:
                    go.terminate()
        if go.returncode:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise PodiumError(f"building Kubernetes {place.name} failed: {' | '.join(lines[-3:])}; all of it: {log}")
        (draft / _STAMP).write_text(f"{stamp}\n", encoding="ascii")
        draft.chmod(0o755)
        if place.exists():
            shutil.rmtree(place)
        draft.rename(place)
        print(f"built Kubernetes {place.name} in {_elapsed(started)}", file=progress, flush=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _follow(go: subprocess.Popen[bytes], log: Path, version: str, progress: IO[str]) -> None:
    """Say what is being built until Go ends: on one line of a terminal, else a line now and then."""
    started = time.monotonic()
    terminal = progress.isatty()
    while True:
        try:
            go.wait(timeout=1.0 if terminal else _LINE_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            text = f"{version}: {len(lines)} steps, {_elapsed(started)}, {lines[-1] if lines else 'starting'}"
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text[:width]}" if terminal else text, end="" if terminal else "\n", file=progress, flush=True)
        else:
            if terminal:
                print("\r\x1b[K", end="", file=progress, flush=True)
            return


def _elapsed(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes}m{seconds:02d}s"

