"""Go programs that the project's tools run, each built once from a module that go.sum pins by hash."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tools.devcluster.controlplane import folders, gobuild
from tools.devcluster.controlplane.folders import alone

from podium.errors import PodiumError


class GoTools(NamedTuple):
    """The tools of a go.mod: its folder, the programs that it builds, and the minutes that a build takes."""

    module: Path
    names: tuple[str, ...]
    minutes: int
    needs_c: bool = False
    # Go's build tags, by which a program leaves out what is not used.
    tags: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Return the folder in the cache, which a change of go.sum, of the tags or of own files changes."""
        own = (file.read_bytes() for file in sorted(self.module.glob("*.go")))
        content = (self.module / "go.sum").read_bytes() + "".join(self.tags).encode() + b"".join(own)
        digest = hashlib.sha256(content).hexdigest()[:16]
        return folders.cache(os.environ) / f"{self.module.name}-{digest}"

    @property
    def built(self) -> bool:
        """Return whether all programs are in the cache."""
        return all((self.folder / name).exists() for name in self.names)

    def programs(self) -> Path:
        """Return the folder with the programs, built if they are not. Raises PodiumError if a build fails."""
        folder = self.folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder.with_suffix(".lock"), lambda: self._echo("waiting for another build to end")):
            if not self.built:
                self._build(folder)
        return folder

    def source(self, module: str) -> Path:
        """Return the folder of a required module in Go's cache. Raises PodiumError if Go does not have it."""
        go = gobuild.find_go(self.module, os.environ, self._echo)
        done = subprocess.run(
            [go, "mod", "download", "-json", module],
            cwd=self.module,
            env={**os.environ, **self._settings()},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PodiumError(f"{module} cannot be downloaded: {done.stderr.strip() or done.stdout.strip()}")
        return Path(json.loads(done.stdout)["Dir"])

    def _build(self, folder: Path) -> None:
        if self.needs_c and not any(shutil.which(compiler) for compiler in ("cc", "gcc", "clang")):
            raise PodiumError(
                f"{self.module.name} needs a C compiler once (Debian and Ubuntu: apt install gcc)"
            )
        go = gobuild.find_go(self.module, os.environ, self._echo)
        names = " and ".join(self.names)
        self._echo(f"building {names} once, which takes {self.minutes} minutes ({folder})")
        temporary = folder.with_suffix(".new")
        tags = [f"-tags={','.join(self.tags)}"] if self.tags else []
        done = subprocess.run(
            [go, "build", "-trimpath", "-ldflags=-s -w", *tags, "-o", f"{temporary}/", "tool"],
            cwd=self.module,
            env={**os.environ, **self._settings()},
            check=False,
        )
        if done.returncode:
            raise PodiumError(f"{names} did not build; the lines above are Go's")
        temporary.replace(folder)

    def _settings(self) -> dict[str, str]:
        """Return Go's settings; a program without C is static, so that it runs in an image without files."""
        settings = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        return settings | ({"CGO_CFLAGS": "-w -O1"} if self.needs_c else {"CGO_ENABLED": "0"})

    def _echo(self, line: str) -> None:
        sys.stderr.write(f"{self.module.name}: {line}\n")
