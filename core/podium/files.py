"""Replacing a file, or making a folder, whole: what is there is either the old one or all of the new one.

A target that is no regular file (a pipe, a device) must not become one: a rename over /dev/full would take
the device away from everybody on the machine, so such a target is written to as it is.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

# Who may read what is made new: everybody whom the umask lets, or the owner alone.
PUBLIC, PRIVATE = 0o666, 0o600


def replace(path: Path, write: Callable[[IO[bytes]], object], *, mode: int = PUBLIC) -> None:
    """Let `write` write a file beside the path's, then rename it over that one. Raises OSError.

    A link keeps pointing where it did. Where `write` fails, what was there before is still there.
    """
    target = Path(os.path.realpath(path))
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
    """Make a folder with these files (by their path in it), all of them or none. Raises OSError.

    An empty folder may be there already; what is in another is never mixed with what is new.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        for name, data in contents.items():
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
