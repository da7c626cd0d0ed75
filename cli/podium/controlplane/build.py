"""Build the programs of a control plane from Go modules, once per machine and version.

A cold build takes minutes, so its result is stored in the user's cache folder, complete or not at all. It is
built in a folder beside its final place and then renamed. A stamp holds a digest of everything that the build
depends on, so a changed module is built again. Two builds of one version never run at once: the second waits,
says so, and uses the result of the first.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from podium.controlplane import folders, golang
from podium.controlplane.folders import alone
from podium.controlplane.releases import Release
from podium.documents import packagedata
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
_LINE_EVERY_SECONDS = 30.0  # If the output is not a terminal.


class BuildPlan(NamedTuple):
    """A build: the release, its Go module, and the folder for its programs."""

    release: Release
    module: Path
    place: Path


def build(release: Release, environ: Mapping[str, str], progress: IO[str]) -> Path:
    """Return the folder with the release's PROGRAMS, built first if missing.

    Raises PodiumError if the build fails.
    """
    root = folders.cache(environ)
    module = packagedata.folder("controlplane") / f"v{release.minor}"
    plan = BuildPlan(release, module, root / release.version)
    stamp = stamp_of(plan)
    if is_built(plan.place, stamp):
        return plan.place

    def echo(text: str) -> None:
        print(text, file=progress, flush=True)

    root.mkdir(parents=True, exist_ok=True)
    waiting = f"waiting for another build of Kubernetes {release.version} to end"
    with alone(root / f"{release.version}.lock", lambda: echo(waiting)):
        if not is_built(plan.place, stamp):
            echo(f"building etcd, Kubernetes {release.version} and kwok, once: ten minutes or more;")
            echo(f"to skip it, set KUBEBUILDER_ASSETS to a folder that has them, as {plan.place} will")
            go = golang.find(module, environ, echo)
            started = time.monotonic()
            _build(plan, stamp, go, environ, progress)
            echo(f"built Kubernetes {release.version} in {_elapsed(started)}")
    return plan.place


def is_built(place: Path, stamp: str) -> bool:
    """Return whether `place` holds a complete build with this stamp."""
    try:
        return (place / _STAMP).read_text(encoding="ascii").strip() == stamp
    except FileNotFoundError:
        return False


def stamp_of(plan: BuildPlan) -> str:
    """Return a digest of what the build depends on: module, arguments and machine, but not Go's version."""
    files = [(plan.module / name).read_bytes() for name in _MODULE_FILES]
    machine = f"{sys.platform}/{platform.machine()}"
    return digest([machine.encode(), *map(str.encode, _arguments(plan.release)), *files])


def digest(parts: Sequence[bytes]) -> str:
    """Return a digest that differs for different parts, also for the same bytes divided differently."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def _arguments(release: Release) -> tuple[str, ...]:
    """Return the arguments of `go build`; the first three flags exclude influences of the environment."""
    major, _, minor = release.minor.partition(".")
    facts = {
        "gitVersion": f"v{release.version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    stamps = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in facts.items())
    return ("-mod=readonly", "-buildvcs=false", "-trimpath", "-v", "-ldflags", f"-s -w {stamps}", *_PACKAGES)


def _build(plan: BuildPlan, stamp: str, go: Path, environ: Mapping[str, str], progress: IO[str]) -> None:
    root = plan.place.parent
    for abandoned in root.glob(f".{plan.place.name}.*"):  # left by killed builds: this process has the lock
        shutil.rmtree(abandoned)
    draft = Path(tempfile.mkdtemp(prefix=f".{plan.place.name}.", dir=root))
    try:
        _compile(plan, draft, go, environ, progress)
        (draft / _STAMP).write_text(f"{stamp}\n", encoding="ascii")
        draft.chmod(0o755)
        if plan.place.exists():
            shutil.rmtree(plan.place)
        draft.rename(plan.place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _compile(plan: BuildPlan, draft: Path, go: Path, environ: Mapping[str, str], progress: IO[str]) -> None:
    argv = [str(go), "build", "-o", f"{draft}/", *_arguments(plan.release)]
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
            _follow(process, log, plan.release.version, progress)
        finally:
            process.terminate()
    if process.returncode:
        lines = " | ".join(_lines(log)[-3:])
        raise PodiumError(f"building Kubernetes {plan.release.version} failed: {lines}; all of it: {log}")


def _follow(process: "subprocess.Popen[bytes]", log: Path, version: str, progress: IO[str]) -> None:
    """Report progress until Go ends: on one line of a terminal, else with occasional lines."""
    started = time.monotonic()
    terminal = progress.isatty()
    while True:
        try:
            process.wait(timeout=1.0 if terminal else _LINE_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            # Go prints every module when it downloads it, and every package when it starts to compile it.
            lines = _lines(log)
            text = f"building {version}: {_elapsed(started)}, step {len(lines)} {''.join(lines[-1:])}"
        else:
            print("\r\x1b[K" if terminal else "", end="", file=progress, flush=True)
            return
        if terminal:
            print(
                f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", end="", file=progress, flush=True
            )
        else:
            print(text, file=progress, flush=True)


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()


def _elapsed(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes}m{seconds:02d}s"
