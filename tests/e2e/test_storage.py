"""Delayed claims on real nodes, with a CSI driver and csi-provisioner, also under SIGKILL of the leader.

Every pod writes to its volume. At the end of each test nothing is left: no claim, no volume, no folder.
"""

from collections.abc import Iterator
from functools import partial

import pytest
from tests.e2e.conftest import IMAGE, Measured
from tests.support.controllers.history import Watch
from tests.support.e2e.cluster import GANG_NODE, Nodes, leader, wait_ready
from tests.support.e2e.volumes import (
    HALF,
    ClaimSpace,
    driver,
    folders,
    halted,
    is_free,
    open_to_gangs,
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
_BOUND = "pv.kubernetes.io/bind-completed"
_NO_SPACE = "node(s) did not have enough free storage"


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
    until(lambda: len(_running(watch)) == _MEMBERS, "all pods run")
    for name in space.pods():
        first = _running(watch)[name]
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
    until(lambda: len(_running(watch)) == _MEMBERS, "the gang runs")
    _assert_bound_after_claims(watch, claims)
    assert len({each.node for each in watch.of("train") if each.node}) == _MEMBERS
    bound = watch.bound("train").values()
    measured(f"bound within {max(bound) - min(bound):.2f} s of each other")


def test_a_new_leader_binds_a_gang_with_claims_in_provisioning(
    driver_nodes: Nodes, space: ClaimSpace, watch: PodWatch, claims: Watch
) -> None:
    """The leader is killed when one of three claims is bound. No claim gets a second volume."""
    with halted(driver_nodes) as stopped:
        space.gang_of_writers("train", _MEMBERS, HALF)
        until(lambda: len(_selected(space)) == _MEMBERS, "each claim has its node")
        chosen = _selected(space)
        resume(driver_nodes, stopped, stopped[0])
        until(lambda: len(_bound_versions(claims)) == 1, "one claim is bound")
        first = leader(driver_nodes, "scheduler")
        _kill(driver_nodes, first)
        until(lambda: leader(driver_nodes, "scheduler") not in ("", first), "another leads")
        assert len(_bound_versions(claims)) == 1
        assert watch.bound("train") == {}
    until(lambda: len(_running(watch)) == _MEMBERS, "the gang runs")
    _assert_bound_after_claims(watch, claims)
    assert _selected(space) == chosen
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


def _running(watch: PodWatch) -> dict[str, str]:
    """Return the UIDs of the pods that run, by name."""
    last = {each.name: each for each in list(watch.moments)}
    return {
        name: each.pod["metadata"]["uid"]
        for name, each in last.items()
        if each.phase == "Running" and not each.terminating and not each.ended
    }


def _runs_again(watch: PodWatch, name: str, first: str) -> bool:
    """Return whether a pod of this name runs that is not the first one."""
    return _running(watch).get(name, first) != first


def _selected(space: ClaimSpace) -> dict[str, str]:
    """Return the nodes for which claims are provisioned, by claim."""
    annotations = {name: each["metadata"].get("annotations", {}) for name, each in space.claims().items()}
    return {name: each[SELECTED_NODE] for name, each in annotations.items() if SELECTED_NODE in each}


def _bound_versions(claims: Watch) -> dict[str, int]:
    """Return the resourceVersion at which each claim was bound, by UID."""
    found: dict[str, int] = {}
    for each in list(claims.seen):
        if _BOUND in each.object["metadata"].get("annotations", {}):
            found.setdefault(each.uid, each.version)
    return found


def _assert_bound_after_claims(watch: PodWatch, claims: Watch) -> None:
    pods = [int(each.pod["metadata"]["resourceVersion"]) for each in watch.of("train") if each.node]
    assert len(_bound_versions(claims)) == _MEMBERS
    assert max(_bound_versions(claims).values()) < min(pods)


def _messages(watch: PodWatch) -> dict[str, str]:
    """Return why pods are not scheduled, by name."""
    return {
        each.name: condition["message"]
        for each in list(watch.moments)
        for condition in each.pod["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and "message" in condition
    }


def _kill(nodes: Nodes, name: str) -> None:
    pods = nodes.pods("app.kubernetes.io/component=scheduler")
    (pod,) = [each for each in pods if each["metadata"]["name"] == name]
    nodes.signal(pod, "SIGKILL")
