"""The parts that all steps of a release share: its version and date, its folder, and how they run programs.

A release is built from a copy of the tracked files, so no other file of a checkout gets into it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from podium.errors import PodiumError
from podium.version import VERSION

ROOT = Path(__file__).parents[2]
# The address of the repository, in the chart and the alerts too, until a release knows its own.
ADDRESS = "https://example.com/podium"
UV = Path(sys.executable).with_name("uv")


class Image(NamedTuple):
    """The published image that chart and manifests name; the digest is empty before it is pushed."""

    repository: str
    digest: str = ""

    @property
    def reference(self) -> str:
        """Return REPOSITORY:VERSION, and the digest if it is known."""
        return f"{self.repository}:{VERSION}" + (f"@{self.digest}" if self.digest else "")


class Release(NamedTuple):
    """Where a release is built, and for which address and image."""

    folder: Path
    work: Path
    address: str
    image: Image
    epoch: int

    def source(self, name: str) -> Path:
        """Return a new copy of the tracked files, in a folder of this name."""
        target = self.work / name
        listed = run(["git", "ls-files", "-z"], cwd=ROOT)
        for path in filter(None, listed.split("\0")):
            file = ROOT / path
            if file.is_symlink() or file.exists():
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target / path, follow_symlinks=False)
        return target

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of a build: the date of the commit, and the address of the repository."""
        return {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch), "PODIUM_ADDRESS": self.address}


def new(folder: Path, address: str, image: Image) -> Release:
    """Return a release with empty folders, dated by the last commit."""
    work = folder.with_name(f"{folder.name}-work")
    for directory in (folder, work):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    epoch = int(run(["git", "log", "-1", "--format=%ct"], cwd=ROOT))
    return Release(folder, work, address, image, epoch)


def run(
    line: list[str], *, cwd: Path | None = None, environ: Mapping[str, str] | None = None, stdin: str = ""
) -> str:
    """Run a program and return its output. Raises PodiumError with the output if it fails."""
    done = subprocess.run(
        line, cwd=cwd, env=environ, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PodiumError(
            f"`{' '.join(map(str, line))}` failed ({done.returncode}):\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def same(first: Path, second: Path) -> None:
    """Raise PodiumError if two files differ in a byte."""
    if first.read_bytes() != second.read_bytes():
        raise PodiumError(f"{first} and {second}, built from equal sources, differ")
