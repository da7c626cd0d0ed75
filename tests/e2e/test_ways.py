"""The other ways to install: kustomize and rendered YAML. The doctor finds no problem in either.

The tests run after `podium uninstall`, on the same cluster.
"""

import pytest
from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import NAMESPACE, Nodes, wait_ready
from tests.support.install.scene import json_of, podium
from tests.support.waiting import until

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("way", ["-k manifests/overlays/kind", "-f manifests/rendered/scheduler.yaml"])
def test_an_applied_installation_is_whole(nodes: Nodes, way: str) -> None:
    flag, path = way.split()
    kubectl = nodes.server.kubectl
    kubectl("apply", "--server-side", flag, str(ROOT / path))
    wait_ready(nodes)
    assert podium(nodes.server, "doctor").returncode == 0
    kubectl("delete", flag, str(ROOT / path), "--wait=false")
    until(lambda: json_of(nodes.server, f"/api/v1/namespaces/{NAMESPACE}") is None, "the namespace is gone")
