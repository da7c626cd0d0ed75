"""The ways to install, each with upgrade and uninstall, beside honest writers: kubectl, kustomize and Helm.

The doctor finds no problem, no write is refused, no apply meets a conflict, and nothing is left.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.conftest import IMAGE, NEXT_IMAGE, documents
from tests.integration.webhooks.test_lifecycle_servers import PODS, registered, writing
from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import PROCESSES, Nodes, reserve, wait_ready, wait_removed
from tests.support.install.scene import GROUPS, NAMESPACE, apply, json_of, podium, settled
from tests.support.manifests.charts import helm
from tests.support.waiting import until
from tools.helm.program import CHART

from podium.api.groups import FINALIZER, PODIUM_GROUP

pytestmark = pytest.mark.e2e

_RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
_PARTS = "app.kubernetes.io/part-of=podium"
# Seconds between writes: a test takes minutes, and all of its groups are released at the end.
_PAUSE = 1.0
_SPARED = "--selector=app.kubernetes.io/component!=data"


@pytest.fixture
def bare(nodes: Nodes) -> Nodes:
    """Return the cluster without Podium, with a reserved node."""
    reserve(nodes)
    if json_of(nodes.server, f"/api/v1/namespaces/{NAMESPACE}") is not None:
        _turn_off(nodes)
        _delete(nodes, documents(IMAGE))
        wait_removed(nodes)
    return nodes


def _turn_off(nodes: Nodes) -> None:
    """Run the first two commands of an uninstall (docs/install.md)."""
    nodes.server.kubectl("-n", NAMESPACE, "scale", "deployment", "--all", "--replicas=0")
    waiting = ("--for=delete", "pod", "-l", _PARTS, "--timeout=90s")
    nodes.server.kubectl("-n", NAMESPACE, "wait", *waiting)
    assert registered(nodes.server) == []


def _delete(nodes: Nodes, objects: Sequence[Mapping[str, Any]], *arguments: str) -> None:
    text = yaml.safe_dump_all(objects)
    nodes.server.kubectl("delete", "--ignore-not-found", "--filename=-", *arguments, stdin=text)


def _clear(nodes: Nodes) -> None:
    """Delete what the writers wrote."""
    for path in (PODS, GROUPS):
        assert nodes.server.request("DELETE", f"{path}?gracePeriodSeconds=0")[0] == 200


def _assert_whole(nodes: Nodes, processes: tuple[str, ...] = PROCESSES) -> None:
    wait_ready(nodes, processes)
    until(lambda: registered(nodes.server) == ["Fail"] * 2, "the registration is closed")
    assert podium(nodes.server, "doctor").returncode == 0


def _released(nodes: Nodes) -> bool:
    items = nodes.server.request("GET", GROUPS)[1]["items"]
    return not any(FINALIZER in each["metadata"].get("finalizers", ()) for each in items)


def test_an_installation_by_kubectl_comes_and_goes(bare: Nodes) -> None:
    """Applied, applied again, upgraded, removed, and applied again."""
    before = settled(bare.server)
    apply(bare.server, documents(IMAGE))
    until(lambda: bare.server.request("GET", GROUPS)[0] == 200, "groups are served")
    with writing(bare.server, _PAUSE):
        _assert_whole(bare)
        apply(bare.server, documents(IMAGE))
        apply(bare.server, documents(NEXT_IMAGE))
        _assert_whole(bare)
        for _ in range(2):
            _turn_off(bare)
            assert _released(bare)
            _delete(bare, documents(NEXT_IMAGE), _SPARED)
            apply(bare.server, documents(NEXT_IMAGE))
            _assert_whole(bare)
        _turn_off(bare)
    _clear(bare)
    _delete(bare, documents(NEXT_IMAGE))
    wait_removed(bare)
    assert settled(bare.server) == before


def test_an_overlay_is_whole(bare: Nodes) -> None:
    overlay = str(ROOT / "manifests" / "overlays" / "kind")
    bare.server.kubectl("apply", "--server-side", "-k", overlay)
    _assert_whole(bare)
    _turn_off(bare)
    bare.server.kubectl("delete", "-k", overlay)
    wait_removed(bare)


def test_a_release_of_helm_comes_and_goes(bare: Nodes, tmp_path: Path) -> None:
    """Installed, upgraded, removed, and installed again over the groups that `helm uninstall` leaves."""
    kubectl = bare.server.kubectl
    kubectl("create", "namespace", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, _RESTRICTED)
    values = ("--set=scheduler.enabled=true", "--wait", "--timeout=4m")
    run = partial(helm, bare.server, tmp_path)
    run("install", "podium", str(CHART), "--set=image.tag=dev", *values)
    with writing(bare.server, _PAUSE):
        _assert_whole(bare)
        run("upgrade", "podium", str(CHART), "--set=image.tag=next", *values)
        _assert_whole(bare)
        _turn_off(bare)
        assert _released(bare)
        run("uninstall", "podium", "--wait")
        run("install", "podium", str(CHART), "--set=image.tag=dev", *values)
        _assert_whole(bare)
        _turn_off(bare)
        run("uninstall", "podium", "--wait")
    _clear(bare)
    names = kubectl("get", "customresourcedefinitions", "-o", "name").split()
    kept = [name for name in names if PODIUM_GROUP in name]
    assert len(kept) == 4
    kubectl("delete", *kept)
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    wait_removed(bare)
