"""The user's folders (XDG base directories): built programs are cache, running clusters are state.

A cold build takes minutes. Its result is a folder in the cache that is made once, complete or not at all, and
again when its inputs change. It is made in a folder beside its final place and then renamed. A stamp holds a
digest of everything that the result depends on. Two makers of one place never run at once: the second waits,
says so, and uses the result of the first.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

_STAMP = "podium-build"


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of built control planes: `$XDG_CACHE_HOME/podium/controlplane`."""
    return _base(environ, "XDG_CACHE_HOME", ".cache") / "podium" / "controlplane"


def nodes_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what real nodes run: `$XDG_CACHE_HOME/podium/realnode`."""
    return cache(environ).with_name("realnode")


def clusters(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of running clusters, one folder each: `$XDG_STATE_HOME/podium/clusters`."""
    return _base(environ, "XDG_STATE_HOME", ".local/state") / "podium" / "clusters"


def _base(environ: Mapping[str, str], variable: str, default: str) -> Path:
    path = Path(environ.get(variable, ""))
    # The XDG specification says to ignore relative paths.
    return path if path.is_absolute() else Path.home() / default


@contextlib.contextmanager
def alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock, which the kernel releases if its holder dies; the empty file stays.

    `waiting` is called once if another process has it.
    """
    with path.open("w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(place: Path, stamp: str, title: str, progress: IO[str], make: Callable[[Path], None]) -> Path:
    """Return `place`, after `make` has filled a draft of it if no complete one with this stamp exists.

    `title` names the result in messages.
    """
    if is_built(place, stamp):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    waiting = f"waiting for another build of {title} to end"
    with alone(place.with_name(f"{place.name}.lock"), lambda: print(waiting, file=progress, flush=True)):
        if not is_built(place, stamp):
            _replace(place, stamp, make)
    return place


def is_built(place: Path, stamp: str) -> bool:
    """Return whether `place` holds a complete result with this stamp."""
    try:
        return (place / _STAMP).read_text(encoding="ascii").strip() == stamp
    except FileNotFoundError:
        return False


def digest(parts: Sequence[bytes]) -> str:
    """Return a digest that differs for different parts, also for the same bytes divided differently."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def _replace(place: Path, stamp: str, make: Callable[[Path], None]) -> None:
    root = place.parent
    for abandoned in root.glob(f".{place.name}.*"):  # left by killed builds: this process has the lock
        shutil.rmtree(abandoned)
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=root))
    try:
        make(draft)
        (draft / _STAMP).write_text(f"{stamp}\n", encoding="ascii")
        draft.chmod(0o755)
        if place.exists():
            shutil.rmtree(place)
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
