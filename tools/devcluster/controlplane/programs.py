"""The programs of a control plane: paths that the user sets, else Podium's own build, once for each version.

The variables are envtest's (controller-runtime), so a folder for Go tests works here too. KUBEBUILDER_ASSETS
names a folder with the programs, or a folder with one folder per version, as in Podium's cache.
TEST_ASSET_ETCD, TEST_ASSET_KUBE_APISERVER and so on name one program each.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tools.devcluster.controlplane import folders, gobuild, stand_ins
from tools.devcluster.controlplane.gobuild import GoBuild
from tools.devcluster.controlplane.process import capture
from tools.devcluster.controlplane.releases import NEWEST, RELEASES, Release

from podium.errors import PodiumError

ASSETS = "KUBEBUILDER_ASSETS"
_PACKAGES = (
    "./etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kubectl",
)
_KWOK = "sigs.k8s.io/kwok/cmd/kwok"
PROGRAMS = tuple(package.rpartition("/")[2] for package in (*_PACKAGES, _KWOK))

_MODULE_FILES = ("go.mod", "go.sum", "etcd/main.go")


def find(
    release: Release, needed: Sequence[str], environ: Mapping[str, str], progress: IO[str]
) -> dict[str, Path]:
    """Return the path of every program in `needed`; those that the user did not set are built first.

    Raises PodiumError if a program that the user set is missing, or is another minor of Kubernetes than
    `release`.
    """
    chosen = overrides(release, needed, environ)
    if "kube-apiserver" in chosen:
        _check_minor(chosen["kube-apiserver"], release)
    missing = [name for name in needed if name not in chosen]
    sources = {name: _source(release, name) for name in missing}
    built = {source: build(source, environ, progress) for source in dict.fromkeys(sources.values())}
    return chosen | {name: built[source] / name for name, source in sources.items()}


def _source(release: Release, program: str) -> Release:
    """Return the release whose build has a program: kwok does not start with the client of a newer one."""
    return NEWEST if program == "kwok" and release.minor not in RELEASES else release


def overrides(release: Release, needed: Sequence[str], environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the programs that the environment names: each exists; with ASSETS set, all of `needed` exist."""
    chosen: dict[str, Path] = {}
    for name in needed:
        variable = "TEST_ASSET_" + name.upper().replace("-", "_")
        if variable in environ:
            path, source = Path(environ[variable]), variable
        elif environ.get(ASSETS):
            folder = Path(environ[ASSETS])
            versioned = folder / release.version / name
            path, source = (versioned if versioned.exists() else folder / name), ASSETS
        else:
            continue
        if not path.is_file():
            raise PodiumError(f"{path} does not exist: {source} must name {name}, or be unset to build it")
        chosen[name] = path.absolute()
    return chosen


def version(program: Path) -> str:
    """Return the version that a program reports, e.g. "1.37.0". Raises PodiumError if it cannot be run."""
    try:
        answer = capture([str(program), "--version"], os.environ)
    except OSError as error:
        raise PodiumError(f"{program} cannot be run: {error.strerror}") from error
    match = re.search(r"\d+\.\d+\.\d+\S*", answer.stdout)
    if match is None:
        raise PodiumError(f"{program} --version does not answer with a version")
    return match[0]


def _check_minor(apiserver: Path, release: Release) -> None:
    reported = version(apiserver)
    if not reported.startswith(f"{release.minor}."):
        raise PodiumError(
            f"{apiserver} is Kubernetes {reported}, not {release.minor}:"
            f" choose another --kubernetes, or unset {ASSETS}"
        )


def build(release: Release, environ: Mapping[str, str], progress: IO[str]) -> Path:
    """Return the folder with the release's PROGRAMS, built first if missing.

    Raises PodiumError if the build fails.
    """
    module = Path(__file__).with_name(f"v{release.minor}")
    return gobuild.ensure(plan_of(release, module, folders.cache(environ)), environ, progress)


def plan_of(release: Release, module: Path, root: Path) -> GoBuild:
    """Return the build of a release's control plane from `module` into a folder of `root`."""
    place, is_released = root / release.version, release.minor in RELEASES
    packages = (*_PACKAGES, _KWOK) if is_released else _PACKAGES
    return GoBuild(
        title=f"Kubernetes {release.version}",
        module=module,
        files=_MODULE_FILES,
        arguments=gobuild.arguments(version_flags(release), packages),
        place=place,
        notice=(
            f"building etcd, Kubernetes {release.version} and kwok, once: ten minutes or more;",
            f"to skip it, set KUBEBUILDER_ASSETS to a folder that has them, as {place} will",
        ),
        complete=None if is_released else _write_stand_ins,
    )


def _write_stand_ins(module: Path, go: Path) -> None:
    stand_ins.write(module, Path(__file__).with_name(f"v{NEWEST.minor}"), go)


def version_flags(release: Release) -> str:
    """Return the linker's flags that make a program of Kubernetes report its release."""
    major, _, minor = release.minor.partition(".")
    facts = {
        "gitVersion": f"v{release.version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in facts.items())
