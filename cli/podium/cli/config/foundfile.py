"""Find `.podium.yaml`, the configuration that a repository brings along, without an option.

The file only hides findings or changes their severity, and runs nothing. Still, a user must not get it from
another user's folder: /tmp is the parent of many folders, and every user may write there.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from podium.documents.sources import OWN_CONFIG


def choose_config(option: str | None, environ: Mapping[str, str], start: Path, home: Path) -> str | None:
    """Return the configuration file: of the option, the environment, else the found one; None for none.

    An empty option means none, and an empty variable is as an absent one.
    """
    if option is not None:
        return option or None
    return environ.get("PODIUM_CONFIG") or _found(start, home)


def _found(start: Path, home: Path) -> str | None:
    """Return the path of the nearest file from a folder up to the root of its repository, or None.

    A file above the folder counts only if it has the folder's owner.
    """
    for folder in _repository(start, home):
        file = folder / OWN_CONFIG
        if file.is_file() and (folder == start or file.lstat().st_uid == start.stat().st_uid):
            return os.path.relpath(file, start)
    return None


def _repository(start: Path, home: Path) -> Iterator[Path]:
    """Yield a folder and those above it up to the one with .git; only the folder if it is in no repository.

    The home folder is not searched from below, because it often is a repository of settings.
    """
    folders = []
    for folder in (start, *start.parents):
        if folder == home and folder != start:
            break
        folders.append(folder)
        if (folder / ".git").exists():
            yield from folders
            return
    yield start
