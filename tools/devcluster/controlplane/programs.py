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

from tools.devcluster.controlplane import folders, gobuild
from tools.devcluster.controlplane.gobuild import GoBuild
from tools.devcluster.controlplane.process import capture
from tools.devcluster.controlplane.releases import Release

from podium.errors import PodiumError

ASSETS = "KUBEBUILDER_ASSETS"
_PACKAGES = (
    "./etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kubectl",
    "sigs.k8s.io/kwok/cmd/kwok",
)
PROGRAMS = tuple(package.rpartition("/")[2] for package in _PACKAGES)

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
    folder = build(release, environ, progress) if missing else Path()
    return chosen | {name: folder / name for name in missing}


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
    found = re.search(r"\d+\.\d+\.\d+\S*", answer.stdout)
    if found is None:
        raise PodiumError(f"{program} --version does not answer with a version")
    return found[0]


def _check_minor(apiserver: Path, release: Release) -> None:
    found = version(apiserver)
    if not found.startswith(f"{release.minor}."):
        raise PodiumError(
            f"{apiserver} is Kubernetes {found}, not {release.minor}:"
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
    place = root / release.version
    return GoBuild(
        title=f"Kubernetes {release.version}",
        module=module,
        files=_MODULE_FILES,
        arguments=gobuild.arguments(version_flags(release), _PACKAGES),
        place=place,
        notice=(
            f"building etcd, Kubernetes {release.version} and kwok, once: ten minutes or more;",
            f"to skip it, set KUBEBUILDER_ASSETS to a folder that has them, as {place} will",
        ),
    )


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
