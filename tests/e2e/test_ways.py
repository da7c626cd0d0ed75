"""The other ways to install: kustomize, rendered YAML, Helm, and the default mode of `podium install`.

The doctor finds no problem in any of them.
"""

from pathlib import Path

import pytest
from tests.e2e.conftest import IMAGE
from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import PROCESSES, Nodes, reserve, wait_ready, wait_removed
from tests.support.install.scene import NAMESPACE, json_of, podium
from tests.support.manifests.charts import helm
from tools.helm.program import CHART

from podium.api.groups import PODIUM_GROUP

pytestmark = pytest.mark.e2e

_RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


@pytest.fixture
def bare(nodes: Nodes) -> Nodes:
    """Return the cluster without Podium, with a reserved node."""
    reserve(nodes)
    if json_of(nodes.server, f"/api/v1/namespaces/{NAMESPACE}") is not None:
        podium(nodes.server, "uninstall", "--delete-groups", "--yes")
        wait_removed(nodes)
    return nodes


@pytest.mark.parametrize("way", ["-k manifests/overlays/kind", "-f manifests/rendered/scheduler.yaml"])
def test_an_applied_installation_is_whole(bare: Nodes, way: str) -> None:
    flag, path = way.split()
    bare.server.kubectl("apply", "--server-side", flag, str(ROOT / path))
    _assert_whole(bare, PROCESSES)
    bare.server.kubectl("delete", flag, str(ROOT / path), "--wait=false")
    wait_removed(bare)


def test_a_release_of_helm_is_whole(bare: Nodes, tmp_path: Path) -> None:
    """`helm install --wait` returns when the pods are ready, and `helm uninstall` leaves the groups."""
    kubectl = bare.server.kubectl
    kubectl("create", "namespace", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, _RESTRICTED)
    values = ("--set=image.tag=dev", "--set=scheduler.enabled=true")
    helm(bare.server, tmp_path, "install", "podium", str(CHART), "--wait", "--timeout=4m", *values)
    _assert_whole(bare, PROCESSES)
    helm(bare.server, tmp_path, "uninstall", "podium", "--wait")
    kept = [
        name
        for name in kubectl("get", "customresourcedefinitions", "-o", "name").split()
        if PODIUM_GROUP in name
    ]
    assert len(kept) == 4
    kubectl("delete", *kept)
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    wait_removed(bare)


def test_the_default_mode_has_no_scheduler(bare: Nodes) -> None:
    podium(bare.server, "install", f"--image={IMAGE}")
    _assert_whole(bare, ("webhook", "controller"))
    podium(bare.server, "uninstall", "--delete-groups", "--yes")
    wait_removed(bare)


def _assert_whole(nodes: Nodes, processes: tuple[str, ...]) -> None:
    wait_ready(nodes, processes)
    assert podium(nodes.server, "doctor").returncode == 0
