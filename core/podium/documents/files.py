"""Replace a file, or create a folder, as a whole, and find the folders that Podium itself comes with.

The old content of a file stays until all of the new one is written.

A target that is not a regular file (a pipe, a device) must not become one. A rename over /dev/full would
remove the device for everyone on the machine, so such a target is written in place.

The checkout of a stranger may hold a symbolic link in the place of a report. Following it would overwrite a
file of the user elsewhere, so links are refused, except those of the system such as /dev/stdout.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Literal

from podium.errors import PodiumError

# The mode of a new file: readable as the umask allows, or by the owner only.
PUBLIC, PRIVATE = 0o666, 0o600
# The folders whose links belong to the system.
_SYSTEM = (Path("/dev"), Path("/proc"))


def replace(path: Path, write: Callable[[IO[bytes]], object], *, mode: int = PUBLIC) -> None:
    """Write a temporary file with `write` in the same folder, then rename it to the path. Raises OSError.

    If `write` fails, the old file is unchanged.
    """
    target = _unlinked(path)
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with target.open("wb") as file:
            write(file)
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            write(file)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Create a folder with these files (by their path in it), all of them or none. Raises OSError.

    An empty folder may exist already. It is removed first, because Windows renames to new names only. Files
    are never mixed with those of another folder.
    """
    target = _unlinked(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        for name, data in contents.items():
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        if target.is_dir():
            target.rmdir()
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _unlinked(path: Path) -> Path:
    """Return the path to write to. Raises OSError if it is a link, or a relative path through one."""
    if any(path.is_relative_to(folder) for folder in _SYSTEM) and ".." not in path.parts:
        return Path(os.path.realpath(path)) if path.is_file() else path
    for place in (path,) if path.is_absolute() else (path, *path.parents):
        if place.is_symlink():
            message = f"{place} is a symbolic link. Name the file or folder that it points to"
            raise OSError(errno.ELOOP, message, str(path))
    return path


def folder(name: Literal["manifests", "docs"]) -> Path:
    """Return a folder of package data. Raises PodiumError if this installation has none.

    A checkout keeps these folders at its root, and a wheel inside the package (force-include in
    pyproject.toml). The checkout comes first, so that an edited manifest is used.
    """
    package = Path(__file__).resolve().parents[1]
    candidates = (package.parents[1] / name, package / "data" / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise PodiumError(f"{candidates[1]} is missing. Reinstall podium-k8s")
