"""Controllers of other projects as images for real nodes, built from Go modules, and the projects' manifests.

A neighbour's folder here has the go.mod that pins its version and the go.sum that pins all of its source.
Nothing comes from a registry. The manifests are those in the module, rendered by kubectl. Only what a small
cluster without a registry needs is changed.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tools.devcluster.realnode import image
from tools.gotools import GoTools
from tools.helm import program as helm

from podium.errors import PodiumError

_FOLDER = Path(__file__).parent
# The nodes of a test share a machine of two processors.
_REQUESTS = {"cpu": "50m", "memory": "64Mi"}


class Neighbour(NamedTuple):
    """A controller: its folder here, its Go module, and the program that Go builds from it."""

    name: str
    module: str
    program: str
    minutes: int
    # The folder of the module that kubectl renders, and the program's path in the project's own image.
    configuration: str = "config/default"
    path: str = "manager"
    tags: tuple[str, ...] = ()
    # The folder and the values of the module's Helm chart, for a project without files for kubectl.
    chart: str = ""
    values: str = ""
    # The versions of APIs that the chart asks for, which Helm without a cluster does not know.
    versions: tuple[str, ...] = ()

    @property
    def tools(self) -> GoTools:
        """Return the build of the program."""
        return GoTools(_FOLDER / self.name, (self.program,), self.minutes, tags=self.tags)

    @property
    def image(self) -> str:
        """Return the image's name; no registry has it."""
        return f"localhost/{self.name}:1"

    def archive(self) -> Path:
        """Return the archive of the image, built if it is missing. Raises PodiumError if that fails."""
        folder = self.tools.programs()
        return image.ensure_archive(folder / f"{self.name}.tar", folder / self.program, self.image, self.path)

    def manifests(self, kubectl: Path) -> list[dict[str, Any]]:
        """Return the project's objects, for this image. Raises PodiumError if they cannot be rendered."""
        folder = self.tools.source(self.module) / (self.chart or self.configuration)
        if self.chart:
            line = ("template", self.name, str(folder), "--namespace=kube-system", "--include-crds")
            known = (f"--api-versions={version}" for version in self.versions)
            done = helm.run(*line, *known, "--values=-", stdin=self.values)
        else:
            done = subprocess.run(
                [kubectl, "kustomize", folder], env={}, capture_output=True, text=True, check=False
            )
        if done.returncode:
            raise PodiumError(f"{folder} cannot be rendered: {done.stderr.strip()}")
        return adapted(yaml.safe_load_all(done.stdout), self.image)


def adapted(documents: Iterable[dict[str, Any] | None], image: str) -> list[dict[str, Any]]:
    """Return manifests whose pods run an image that each node has, in little room; a Deployment has one."""
    manifests = [document for document in documents if document is not None]
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            manifest["spec"]["replicas"] = 1
        if manifest["kind"] in ("DaemonSet", "Deployment", "Job"):
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            container |= {"image": image, "imagePullPolicy": "Never", "resources": {"requests": _REQUESTS}}
    return manifests


JOBSET = Neighbour("jobset", "sigs.k8s.io/jobset", "jobset", minutes=3)
LWS = Neighbour("lws", "sigs.k8s.io/lws", "cmd", minutes=3)
KUEUE = Neighbour("kueue", "sigs.k8s.io/kueue", "kueue", minutes=6)
DESCHEDULER = Neighbour(
    "descheduler",
    "sigs.k8s.io/descheduler",
    "descheduler",
    minutes=4,
    configuration="kubernetes/job",
    path="bin/descheduler",
)
# Without the source of targets of each cloud, most of its dependencies are not built.
PROMETHEUS = Neighbour(
    "prometheus",
    "github.com/prometheus/prometheus",
    "prometheus",
    minutes=4,
    path="prometheus",
    tags=("remove_all_sd", "enable_kubernetes_sd"),
)
KARPENTER = Neighbour(
    "karpenter",
    "sigs.k8s.io/karpenter",
    "kwok",
    minutes=4,
    path="kwok",
    chart="kwok/charts",
    # The chart has no default for these two, and the program does not start without a value.
    values="settings: {featureGates: {staticCapacity: false, capacityBuffer: false}}",
)
CSI_DRIVER = Neighbour(
    "csi-directory", "podium/tools/neighbours/csi-directory", "csi-directory", minutes=1, path="csi-directory"
)
CSI_PROVISIONER = Neighbour(
    *("csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v6", "csi-provisioner"),
    minutes=4,
    path="csi-provisioner",
)
DRA_DRIVER = Neighbour(
    *("dra-example-driver", "sigs.k8s.io/dra-example-driver", "dra-example-kubeletplugin"),
    minutes=2,
    path="usr/bin/dra-example-kubeletplugin",
    chart="deployments/helm/dra-example-driver",
    # The sockets and the CDI files are root's. The driver also runs on reserved nodes, with two devices each.
    values="""
kubeletPlugin:
  numDevices: 2
  podSecurityContext: {runAsUser: 0}
  tolerations: [{operator: Exists}]
""",
    versions=("resource.k8s.io/v1",),
)
