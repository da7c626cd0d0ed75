"""Wheel and sdist: built twice from copies in two folders, and installed on every Python of the machine.

A package that is not declared, or a file that is not packed, is found in an environment with nothing else.
"""

import os
import re
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

from tools import smoke
from tools.release.archives import members
from tools.release.artifacts import ROOT, UV, Release, run, same

from podium.errors import PodiumError
from podium.version import VERSION

WHEEL = f"podium_k8s-{VERSION}-py3-none-any.whl"
SDIST = f"podium_k8s-{VERSION}.tar.gz"
_IMPORTS = "import podium.webhooks.process, podium.controllers.process, podium.schedulerplugin.live.process"
# Files that the installed program reads, and folders that are not for users of a wheel.
_PACKED = (
    "podium/data/manifests/rendered/admission.yaml",
    "podium/data/manifests/rendered/scheduler.yaml",
    "podium/data/docs/glossary.md",
    "podium/py.typed",
    "kubecel/py.typed",
)
_ABSENT = ("tests/", "bench/", "podium/data/manifests/base", "podium/data/manifests/chart")


def build(release: Release) -> str:
    """Build both twice, and return a line about them. Raises PodiumError if two builds differ."""
    for name in ("first", "second"):
        source = release.source(name)
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(source / "dist")]
        run([*build, str(source)], environ=release.environ)
    for name in (WHEEL, SDIST):
        first, second = (release.work / copy / "dist" / name for copy in ("first", "second"))
        same(first, second)
        shutil.copy2(first, release.folder / name)
    sizes = ", ".join(
        f"{name} {(release.folder / name).stat().st_size // 1000} kB" for name in (WHEEL, SDIST)
    )
    return f"{sizes}; two builds are equal"


def contents(release: Release) -> str:
    """Check what is packed. Raises PodiumError."""
    with zipfile.ZipFile(release.folder / WHEEL) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(f"podium_k8s-{VERSION}.dist-info/METADATA").decode()
    missing = [name for name in _PACKED if name not in names]
    wrong = [name for name in names if name.startswith(_ABSENT)]
    if missing or wrong:
        raise PodiumError(
            f"{WHEEL} lacks {missing or 'nothing'}, and has {wrong or 'nothing'} that it should not"
        )
    if f"Project-URL: Source, {release.address}\n" not in metadata:
        raise PodiumError(f"{WHEEL} does not name the repository {release.address}")
    packed = {name.partition("/")[2] for name in members(release.folder / SDIST)}
    for path in ("pyproject.toml", "LICENSE", "README.md", "manifests/rendered/scheduler.yaml"):
        if path not in packed:
            raise PodiumError(f"{SDIST} lacks {path}")
    return f"{len(names)} files in the wheel, {len(packed)} in the sdist"


def minors() -> list[str]:
    """Return the Python minors that pyproject.toml promises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    matches = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier)
        for classifier in project["classifiers"]
    ]
    return [match[1] for match in matches if match]


def interpreter(minor: str) -> Path | None:
    """Return an interpreter of this minor on the PATH or of pyenv; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{minor}")
    candidates = [*([Path(on_path)] if on_path else []), *sorted(pyenv.glob(f"{minor}.*/bin/python"))]
    for candidate in candidates:
        # A shim of pyenv fails if no such version is selected.
        try:
            version = run([str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
        except PodiumError:
            continue
        if version == minor:
            return candidate
    return None


def environment(release: Release, python: Path, name: str) -> Path:
    """Return the interpreter of a new virtual environment without any package."""
    folder = release.work / name
    run([str(UV), "venv", "--quiet", "--clear", "--python", str(python), str(folder)])
    return folder / "bin" / "python"


def install(release: Release, minor: str, python: Path) -> str:
    """Install wheel and sdist, run the commands, and return a line about it. Raises PodiumError."""
    bare = environment(release, python, f"wheel-{minor}")
    pip = [str(UV), "pip", "install", "--quiet", "--python"]
    run([*pip, str(bare), str(release.folder / WHEEL)])
    cases = smoke.ON_FILES + smoke.ON_CLUSTERS + smoke.ON_UNIX
    problems = [
        message for case in cases if (message := smoke.problem([str(bare.with_name("podium"))], case))
    ]
    if problems:
        raise PodiumError("\n".join(problems))
    full = environment(release, python, f"sdist-{minor}")
    run([*pip, str(full), "--require-hashes", "--requirement", str(ROOT / "requirements.lock")])
    run([*pip, str(full), "--no-deps", "--no-build-isolation", str(release.folder / SDIST)])
    run([str(full), "-c", _IMPORTS], cwd=release.work)
    told = run([str(full.with_name("kubectl-podium")), "version"], cwd=release.work)
    if VERSION not in told:
        raise PodiumError(f"the sdist installs {told}")
    return f"wheel without extras: {len(cases)} commands; sdist with the locked packages: 3 processes"
