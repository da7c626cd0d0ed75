"""The user's folders (XDG base directories), and the lock on a file for one process at a time.

Built programs are cache, running clusters are state.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path


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
    import fcntl  # noqa: PLC0415 - Windows has none, and its users get a message from the command

    with path.open("w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
