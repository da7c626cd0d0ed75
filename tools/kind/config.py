"""The configuration of a kind cluster that serves the Workload API as the local control planes do.

The gates and the versions of the API are those of tools.devcluster.controlplane.releases. kind passes them to
the components. One worker of two is reserved for Podium's scheduler, as in docs/scheduler.md. Podium's own
pods run on the other.
"""

from typing import Any

from tools.devcluster.controlplane.releases import Release

from podium.api.groups import RESERVED
from podium.documents.yamlwriter import dump_all

# Pods that are not Podium's stay off the nodes with the label.
TAINT = f"{RESERVED}=yes:NoSchedule"

# A kubelet of 1.35 and later does not start on a host with cgroup v1, unless its configuration allows it.
_KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
"""


def image(release: Release) -> str:
    """Return the node image of a release, as kind names them."""
    return f"kindest/node:v{release.version}"


def configuration(release: Release) -> str:
    """Return the file for `kind create cluster --config`, kind.x-k8s.io/v1alpha4."""
    nodes: list[dict[str, Any]] = [
        {"role": "control-plane"},
        {"role": "worker"},
        {"role": "worker", "labels": {RESERVED: "yes"}},
    ]
    asked = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "featureGates": dict.fromkeys(release.feature_gates, True),
        "runtimeConfig": dict.fromkeys(release.workload_versions, "true"),
        "kubeadmConfigPatches": [_KUBELET],
        "nodes": nodes,
    }
    return dump_all([asked])
