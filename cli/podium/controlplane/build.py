"""Build the programs of a control plane from Go modules, once per machine and version."""

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from podium.controlplane import folders, gobuild
from podium.controlplane.gobuild import GoBuild
from podium.controlplane.releases import Release
from podium.documents import packagedata

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


def build(release: Release, environ: Mapping[str, str], progress: IO[str]) -> Path:
    """Return the folder with the release's PROGRAMS, built first if missing.

    Raises PodiumError if the build fails.
    """
    module = packagedata.folder("controlplane") / f"v{release.minor}"
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
