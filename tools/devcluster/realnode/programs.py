"""The programs of real nodes in the cache: built from Go modules, a Debian root, and the sandbox image."""

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tools.devcluster.controlplane import folders, gobuild
from tools.devcluster.controlplane.gobuild import GoBuild
from tools.devcluster.controlplane.programs import version_flags
from tools.devcluster.controlplane.releases import Release
from tools.devcluster.realnode import debian, image
from tools.devcluster.realnode.nodefiles import SANDBOX_IMAGE, Programs

_MODULES = Path(__file__).with_name("modules")
_CONTAINERD = "github.com/containerd/containerd/v2"
CONTAINERD_VERSION = "2.4.2"  # as tools/devcluster/realnode/modules/containerd/go.mod requires
# Snapshotters and exporters that these nodes do not use.
_CONTAINERD_TAGS = "no_btrfs no_devmapper no_zfs no_tracing"


def builds(release: Release, cache: Path) -> dict[str, GoBuild]:
    """Return the Go programs of a node, by the field of Programs."""
    return {
        "kubernetes": GoBuild(
            title=f"kubelet {release.version}",
            module=_MODULES / f"v{release.minor}",
            files=("go.mod", "go.sum"),
            arguments=gobuild.arguments(
                version_flags(release),
                ("k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-proxy"),
            ),
            place=cache / f"kubernetes-{release.version}",
            notice=(f"building kubelet and kube-proxy {release.version}, once: several minutes",),
        ),
        "containerd": GoBuild(
            title=f"containerd {CONTAINERD_VERSION}",
            module=_MODULES / "containerd",
            files=("go.mod", "go.sum"),
            arguments=gobuild.arguments(
                f"-X {_CONTAINERD}/version.Version=v{CONTAINERD_VERSION}",
                tuple(
                    f"{_CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
                ),
                tags=_CONTAINERD_TAGS,
            ),
            place=cache / f"containerd-{CONTAINERD_VERSION}",
            notice=(f"building containerd {CONTAINERD_VERSION}, once: several minutes",),
        ),
        "toolbox": GoBuild(
            title="toolbox",
            module=_MODULES / "toolbox",
            files=("go.mod", "main.go"),
            arguments=gobuild.arguments("", (".",)),
            place=cache / "toolbox",
            notice=(),
        ),
    }


def find(release: Release, environ: Mapping[str, str], progress: IO[str]) -> Programs:
    """Return what a node of a release runs; missing parts are made first.

    Raises PodiumError if that fails.
    """
    cache = folders.nodes_cache(environ)
    root = debian.root(cache, "node-root", debian.NODE, progress)
    built = {name: gobuild.ensure(plan, environ, progress) for name, plan in builds(release, cache).items()}
    toolbox = built["toolbox"] / "toolbox"
    # A new build has a new folder, which has no archive yet.
    sandbox = image.ensure_archive(toolbox.with_name("toolbox.tar"), toolbox, SANDBOX_IMAGE)
    return Programs(root, built["kubernetes"], built["containerd"], toolbox, sandbox)
