"""Delayed claims on real nodes, with a CSI driver and csi-provisioner, also under SIGKILL of the leader.

A lease lasts 15 s. So one leader is killed at several moments of the binding at once, each of another
workload. Every pod writes to its volume. At the end of each test nothing is left: no claim, no volume, no
folder.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from tests.e2e.conftest import IMAGE, Measured
from tests.support.controllers.history import Watch
from tests.support.e2e.cluster import GANG_NODE, Nodes, open_to_gangs, wait_ready
from tests.support.e2e.leaders import killing_leader, stopped_leader
from tests.support.e2e.volumes import (
    HALF,
    ClaimSpace,
    driver,
    folders,
    halted,
    is_free,
    resume,
    written,
)
from tests.support.e2e.work import PodWatch, create_classes
from tests.support.install.scene import podium
from tests.support.waiting import until

from podium.api.storage import SELECTED_NODE

pytestmark = pytest.mark.e2e

_CLASS = "e2e-volumes"
_MEMBERS = 3
# Members of the workloads that are kept on one node.
_PAIR = 2
_SMALL = "20Mi"
_BOUND = "pv.kubernetes.io/bind-completed"
_NO_SPACE = "node(s) did not have enough free storage"
_GANGS = {"spread": _MEMBERS, "near": _PAIR, "far": _PAIR, "short": _PAIR}
_SETS = {"db": _MEMBERS, "cache": _PAIR}
_PODS = sum(_GANGS.values()) + sum(_SETS.values())
_HOST = "kubernetes.io/hostname"
# The pods of "spread" do not fit beside each other, and those of "db" are spread by a constraint.
_ON_NODES = {"near": "node-1", "cache": "node-1", "far": "node-2", "short": "node-2"}


class Progress(NamedTuple):
    """How many claims of a workload name their node, and are bound, and how many of its pods are bound."""

    named: int
    bound: int
    placed: int


# A leader is killed at these moments of the binding of gangs and StatefulSets.
_MOMENTS = {
    ("each claim of a gang names its node", "far"): Progress(2, 0, 0),
    ("some claims of a gang are bound", "spread"): Progress(3, 2, 0),
    ("all claims of a gang are bound", "near"): Progress(2, 2, 0),
    ("the claims of a gang are withdrawn", "short"): Progress(0, 0, 0),
    ("all claims of a set are bound", "cache"): Progress(2, 2, 0),
    ("a pod of a set is bound, and a claim names its node", "db"): Progress(3, 2, 1),
}


@pytest.fixture(scope="module")
def driver_nodes(podium_nodes: Nodes) -> Iterator[Nodes]:
    """Yield the cluster with the driver, and with every node for Podium's scheduler."""
    create_classes(podium_nodes, {_CLASS: 100})
    with open_to_gangs(podium_nodes), driver(podium_nodes):
        yield podium_nodes


@pytest.fixture
def space(driver_nodes: Nodes) -> Iterator[ClaimSpace]:
    """Yield a namespace. Once its pods and claims are deleted, the driver has no volume."""
    made = ClaimSpace(driver_nodes, _CLASS, IMAGE)
    yield made
    made.clear()
    until(lambda: made.claims() == {} and made.volumes() == [], "no claim and no volume is left")
    assert folders(driver_nodes) == []
    until(partial(is_free, driver_nodes), "all capacity is free")


@pytest.fixture
def claims(space: ClaimSpace) -> Iterator[Watch]:
    """Yield a watch of the claims of the test's namespace."""
    watch = Watch(space.server, space.claims_path())
    watch.start()
    yield watch
    watch.close()


def test_a_pod_of_a_stateful_set_comes_back_to_its_volume(
    driver_nodes: Nodes, space: ClaimSpace, watch: PodWatch
) -> None:
    space.stateful_set("db", _MEMBERS, "100Mi")
    until(lambda: len(watch.running()) == _MEMBERS, "all pods run")
    for name in space.pods():
        first = watch.running()[name]
        space.delete_pod(name)
        until(partial(_runs_again, watch, name, first), f"{name} runs again")
    nodes = {name: {each.node for each in watch.of(name) if each.node} for name in space.pods()}
    assert [len(each) for each in nodes.values()] == [1] * _MEMBERS
    for name in space.pods():
        runs = {each.pod["metadata"]["uid"] for each in watch.of(name) if each.phase == "Running"}
        assert len(runs) == 2
        assert set(written(driver_nodes, space.volume(f"data-{name}"))) == runs


def test_a_gang_is_bound_after_the_last_of_its_claims(
    space: ClaimSpace, watch: PodWatch, claims: Watch, measured: Measured
) -> None:
    """No node has storage for two members, so there is one on each node."""
    space.gang_of_writers("train", _MEMBERS, HALF)
    until(lambda: len(watch.running()) == _MEMBERS, "the gang runs")
    _assert_bound_after_claims(watch, claims, "train", _MEMBERS)
    assert len({each.node for each in watch.of("train") if each.node}) == _MEMBERS
    bound = watch.bound("train").values()
    measured(f"bound within {max(bound) - min(bound):.2f} s of each other")


def test_new_leaders_bind_what_others_began(
    driver_nodes: Nodes, space: ClaimSpace, watch: PodWatch, claims: Watch
) -> None:
    """The first leader is killed when a claim names its node, the third when a pod of a gang is bound.

    The second one is killed at `_MOMENTS`. It stands still while the last of their claims are bound. No claim
    gets a second node or volume.
    """
    with halted(driver_nodes) as stopped:
        with killing_leader(driver_nodes, space.claims_path(), _names_node):
            _create_workloads(space)
        until(lambda: len(_selected(space)) == _PODS, "each claim has its node")
        chosen = _selected(space)
        resume(driver_nodes, stopped, "node-0")
        until(lambda: _progress(space, "db").placed == 1, "the first pod of the set is bound")
        until(lambda: _progress(space, "spread").bound == 1, "one claim of the gang is bound")
        # Its Job would soon replace a pod that is only deleted, and 1.36 fixes the parallelism of a gang.
        space.suspend("short", suspended=True)
        until(lambda: _progress(space, "short").named == 0, "its gang is withdrawn")
        with stopped_leader(driver_nodes):
            resume(driver_nodes, stopped, "node-1")
            until(lambda: _moments(space) == _MOMENTS, "the volumes of another node are bound")
            space.suspend("short", suspended=False)
        with killing_leader(driver_nodes, f"/api/v1/namespaces/{space.name}/pods", _is_bound_pod_of_far):
            resume(driver_nodes, stopped, "node-2")
    until(lambda: len(watch.running()) == _PODS, "all pods run")
    for name, count in _GANGS.items():
        _assert_bound_after_claims(watch, claims, name, count)
    final = _selected(space)
    kept = {name: node for name, node in chosen.items() if not _is_of("short", name)}
    assert kept == {name: node for name, node in final.items() if not _is_of("short", name)}
    uids = sorted(each["metadata"]["uid"] for each in space.claims().values())
    assert sorted(each["spec"]["claimRef"]["uid"] for each in space.volumes()) == uids
    assert sorted(folders(driver_nodes)) == [f"pvc-{uid}" for uid in uids]
    wait_ready(driver_nodes)


def test_a_gang_waits_that_needs_more_storage_than_its_node_has(
    driver_nodes: Nodes, space: ClaimSpace, watch: PodWatch
) -> None:
    """Each of the two claims fits alone. Neither is provisioned."""
    space.gang_of_writers("train", 2, HALF, nodeSelector={"kubernetes.io/hostname": GANG_NODE})
    until(
        lambda: [_NO_SPACE in each for each in _messages(watch).values()] == [True] * 2, "both pods say why"
    )
    told = podium(driver_nodes.server, "why", "group", f"{space.name}/train").stdout
    assert _NO_SPACE in told
    assert _selected(space) == {}
    assert space.volumes() == []
    assert watch.bound("train") == {}


def _runs_again(watch: PodWatch, name: str, first: str) -> bool:
    """Return whether a pod of this name runs that is not the first one."""
    return watch.running().get(name, first) != first


def _selected(space: ClaimSpace) -> dict[str, str]:
    """Return the nodes for which claims are provisioned, by claim."""
    return {
        name: each["metadata"]["annotations"][SELECTED_NODE]
        for name, each in space.claims().items()
        if _names_node(each)
    }


def _bound_versions(claims: Watch) -> dict[str, int]:
    """Return the resourceVersion at which each claim was bound, by name."""
    found: dict[str, int] = {}
    for each in list(claims.seen):
        if _is_bound(each.object):
            found.setdefault(each.object["metadata"]["name"], each.version)
    return found


def _is_bound(claim: dict[str, Any]) -> bool:
    return _BOUND in claim["metadata"].get("annotations", {})


def _assert_bound_after_claims(watch: PodWatch, claims: Watch, gang: str, count: int) -> None:
    pods = [int(each.pod["metadata"]["resourceVersion"]) for each in watch.of(gang) if each.node]
    bound = [version for name, version in _bound_versions(claims).items() if _is_of(gang, name)]
    assert len(bound) == count
    assert max(bound) < min(pods)


def _create_workloads(space: ClaimSpace) -> None:
    for name, count in _GANGS.items():
        fields = {"nodeSelector": {_HOST: _ON_NODES[name]}} if name in _ON_NODES else {}
        space.gang_of_writers(name, count, _SMALL if fields else HALF, **fields)
    apart = {"maxSkew": 1, "topologyKey": _HOST, "whenUnsatisfiable": "DoNotSchedule"}
    for name, count in _SETS.items():
        if name in _ON_NODES:
            space.stateful_set(name, count, _SMALL, nodeSelector={_HOST: _ON_NODES[name]})
        else:
            selector = {"labelSelector": {"matchLabels": {"app": name}}}
            space.stateful_set(name, count, _SMALL, topologySpreadConstraints=[{**apart, **selector}])


def _is_of(workload: str, name: str) -> bool:
    """Return whether a pod or a claim is one of a workload, by its name."""
    return re.match(rf"(data-)?{workload}-\d", name) is not None


def _progress(space: ClaimSpace, workload: str) -> Progress:
    claims = [each for name, each in space.claims().items() if _is_of(workload, name)]
    pods = [pod for pod in space.listed() if _is_of(workload, pod["metadata"]["name"])]
    placed = sum("nodeName" in pod["spec"] for pod in pods)
    return Progress(sum(map(_names_node, claims)), sum(map(_is_bound, claims)), placed)


def _moments(space: ClaimSpace) -> dict[tuple[str, str], Progress]:
    """Return the present state of the workloads of `_MOMENTS`."""
    return {(moment, workload): _progress(space, workload) for moment, workload in _MOMENTS}


def _names_node(claim: dict[str, Any]) -> bool:
    return SELECTED_NODE in claim["metadata"].get("annotations", {})


def _is_bound_pod_of_far(pod: dict[str, Any]) -> bool:
    return _is_of("far", pod["metadata"]["name"]) and "nodeName" in pod["spec"]


def _messages(watch: PodWatch) -> dict[str, str]:
    """Return why pods are not scheduled, by name."""
    return {
        each.name: condition["message"]
        for each in list(watch.moments)
        for condition in each.pod["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and "message" in condition
    }
