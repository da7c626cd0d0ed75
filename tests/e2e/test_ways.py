"""The other ways to install: kustomize, rendered YAML, Helm, and the default mode of `podium install`.

The doctor finds no problem in any of them.
"""

import subprocess
from pathlib import Path

import pytest
from tests.e2e.conftest import IMAGE
from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import NAMESPACE, PROCESSES, Nodes, reserve, wait_ready
from tests.support.install.scene import json_of, podium
from tests.support.waiting import until
from tools.helm import program as helm

from podium.api.groups import PODIUM_GROUP

pytestmark = pytest.mark.e2e

_RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


@pytest.fixture
def bare(nodes: Nodes) -> Nodes:
    """Return the cluster without Podium, with a reserved node."""
    reserve(nodes)
    if json_of(nodes.server, f"/api/v1/namespaces/{NAMESPACE}") is not None:
        podium(nodes.server, "uninstall", "--delete-groups", "--yes")
        _wait_gone(nodes)
    return nodes


@pytest.mark.parametrize("way", ["-k manifests/overlays/kind", "-f manifests/rendered/scheduler.yaml"])
def test_an_applied_installation_is_whole(bare: Nodes, way: str) -> None:
    flag, path = way.split()
    bare.server.kubectl("apply", "--server-side", flag, str(ROOT / path))
    _assert_whole(bare, PROCESSES)
    bare.server.kubectl("delete", flag, str(ROOT / path), "--wait=false")
    _wait_gone(bare)


def test_a_release_of_helm_is_whole(bare: Nodes, tmp_path: Path) -> None:
    """`helm install --wait` returns when the pods are ready, and `helm uninstall` leaves the groups."""
    kubectl = bare.server.kubectl
    kubectl("create", "namespace", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, _RESTRICTED)
    values = ("--set=image.tag=dev", "--set=scheduler.enabled=true")
    _helm(bare, tmp_path, "install", "podium", str(helm.CHART), "--wait", "--timeout=4m", *values)
    _assert_whole(bare, PROCESSES)
    _helm(bare, tmp_path, "uninstall", "podium", "--wait")
    kept = [
        name
        for name in kubectl("get", "customresourcedefinitions", "-o", "name").split()
        if PODIUM_GROUP in name
    ]
    assert len(kept) == 3
    kubectl("delete", *kept)
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    _wait_gone(bare)


def test_the_default_mode_has_no_scheduler(bare: Nodes) -> None:
    podium(bare.server, "install", f"--image={IMAGE}")
    _assert_whole(bare, ("webhook", "controller"))
    podium(bare.server, "uninstall", "--delete-groups", "--yes")
    _wait_gone(bare)


def _assert_whole(nodes: Nodes, processes: tuple[str, ...]) -> None:
    wait_ready(nodes, processes)
    assert podium(nodes.server, "doctor").returncode == 0


def _wait_gone(nodes: Nodes) -> None:
    until(lambda: json_of(nodes.server, f"/api/v1/namespaces/{NAMESPACE}") is None, "the namespace is gone")


def _helm(nodes: Nodes, home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    kubeconfig = f"--kubeconfig={nodes.server.kubeconfig}"
    done = helm.run(*arguments, kubeconfig, f"--namespace={NAMESPACE}", home=str(home))
    assert done.returncode == 0, done.stderr
    return done
