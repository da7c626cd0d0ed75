"""Programs of requirements.lock in this folder, installed by hash into a virtual environment of their own."""

import sys
from pathlib import Path

from tools.release.artifacts import UV, Release, run
from tools.release.distributions import environment

_LOCK = Path(__file__).with_name("requirements.lock")


def program(release: Release, name: str) -> str:
    """Return the path of a program."""
    folder = release.work / "programs"
    if not folder.exists():
        python = environment(release, Path(sys.executable), folder.name)
        pip = [str(UV), "pip", "install", "--quiet", "--python", str(python)]
        run([*pip, "--require-hashes", "--requirement", str(_LOCK)])
    return str(folder / "bin" / name)
