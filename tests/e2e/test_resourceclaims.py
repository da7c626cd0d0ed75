"""Devices on real nodes, with the driver dra-example-driver, also under SIGKILL of the leader.

The kubelets prepare each device before its container starts. At the end of each test no claim is left, and no
device was allocated twice at any time.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.e2e.conftest import IMAGE
from tests.support.controllers.history import Watch
from tests.support.e2e.cluster import Nodes, open_to_gangs, wait_ready
from tests.support.e2e.gpus import (
    DEVICES,
    DeviceSpace,
    Held,
    assert_no_device_twice,
    driver,
    held,
    prepared,
)
from tests.support.e2e.leaders import killing_leader
from tests.support.e2e.work import PodWatch, create_classes
from tests.support.waiting import until

pytestmark = pytest.mark.e2e

_LOW, _HIGH = "e2e-few-devices", "e2e-many-devices"
_ONE, _TWO = "one", "two"
_NODES = 3
_ALL = DEVICES * _NODES
# Longer than a lease, so that the next leader finds the pods of the victims.
_LONG = 20


@pytest.fixture(scope="module")
def driver_nodes(podium_nodes: Nodes) -> Iterator[Nodes]:
    """Yield the cluster with the driver, and with every node for Podium's scheduler."""
    create_classes(podium_nodes, {_LOW: 100, _HIGH: 1000})
    with open_to_gangs(podium_nodes), driver(podium_nodes):
        yield podium_nodes


@pytest.fixture
def space(driver_nodes: Nodes) -> Iterator[DeviceSpace]:
    """Yield a namespace with a template of claims for one device, and another one for two."""
    made = DeviceSpace(driver_nodes, IMAGE)
    made.template(_ONE, 1)
    made.template(_TWO, 2)
    yield made
    made.clear()
    until(lambda: made.resource_claims() == [], "no claim is left")
    until(lambda: prepared(driver_nodes) == [], "no device is prepared")


@pytest.fixture
def claims(space: DeviceSpace) -> Iterator[Watch]:
    """Yield a watch of the claims of the test's namespace, which never show one device twice."""
    watch = Watch(space.server, space.resource_claims_path())
    watch.start()
    yield watch
    watch.close()
    assert watch.gaps == []
    assert_no_device_twice(watch.seen)


def test_a_pod_of_a_claim_template_has_its_device(
    driver_nodes: Nodes, space: DeviceSpace, watch: PodWatch, claims: Watch
) -> None:
    space.pod_of_template("alone", _ONE)
    _until_running(watch, "alone", 1)
    _assert_prepared(space, watch, "alone", devices=1)
    _assert_bound_after(watch, "alone", _allocated(claims, "alone"), count=1)
    (claim,) = space.resource_claims()
    (file,) = prepared(driver_nodes)
    assert claim["metadata"]["uid"] in file


def test_a_gang_preempts_a_gang_for_devices(space: DeviceSpace, watch: PodWatch, claims: Watch) -> None:
    """The members of the first gang have all devices, and end three seconds after SIGTERM."""
    space.gang_of_template("nightly", _ALL, _LOW, _ONE, linger=3)
    _until_running(watch, "nightly", _ALL)
    _assert_prepared(space, watch, "nightly", devices=1)
    victims = set(watch.running())
    space.gang_of_template("train", _NODES, _HIGH, _TWO)
    _until_running(watch, "train", _NODES)
    _assert_preempted(space, watch, claims, victims)


def test_new_leaders_give_a_gang_the_devices_of_another(
    driver_nodes: Nodes, space: DeviceSpace, watch: PodWatch, claims: Watch
) -> None:
    """One leader is killed when a claim is allocated, and the next when a member of the gang is evicted.

    The members end later than the lease, so the third leader waits for their devices.
    """
    with killing_leader(driver_nodes, space.resource_claims_path(), _is_allocated):
        space.gang_of_template("nightly", _ALL, _LOW, _ONE, _LONG)
    _until_running(watch, "nightly", _ALL)
    _assert_prepared(space, watch, "nightly", devices=1)
    victims = set(watch.running())
    with killing_leader(driver_nodes, f"/api/v1/namespaces/{space.name}/pods", _is_terminating):
        space.gang_of_template("train", _NODES, _HIGH, _TWO)
    _until_running(watch, "train", _NODES)
    _assert_preempted(space, watch, claims, victims)
    wait_ready(driver_nodes)


def _until_running(watch: PodWatch, job: str, count: int) -> None:
    def all_run() -> bool:
        return len({each.name for each in watch.of(job) if each.phase == "Running"}) == count

    until(all_run, f"{job} runs")


def _assert_prepared(space: DeviceSpace, watch: PodWatch, job: str, devices: int) -> None:
    """Compare what is allocated to the running pods of a Job with what their containers have."""
    allocated = space.devices()
    for name in {each.name for each in watch.of(job)} & set(watch.running()):
        assert len(allocated[name]) == devices
        until(partial(_has, space, name, allocated[name]), f"{name} prints its devices")


def _has(space: DeviceSpace, pod: str, devices: Held) -> bool:
    return space.printed(pod) == devices


def _assert_preempted(space: DeviceSpace, watch: PodWatch, claims: Watch, victims: set[str]) -> None:
    """Show that a gang got two devices on each node, after the victims had released theirs."""
    _assert_prepared(space, watch, "train", devices=2)
    _assert_bound_after(watch, "train", _allocated(claims, "train"), count=_NODES)
    _assert_bound_after(watch, "train", _released(claims, victims), count=_ALL)
    targets = {each.name for each in watch.of("nightly") if each.is_target}
    assert targets == victims
    assert len(watch.bound("train")) == _NODES


def _assert_bound_after(watch: PodWatch, job: str, versions: list[int], count: int) -> None:
    """Show that so many changes of claims came before the first pod of a Job was bound."""
    pods = [int(each.pod["metadata"]["resourceVersion"]) for each in watch.of(job) if each.node]
    assert len(versions) == count
    assert max(versions) < min(pods)


def _allocated(claims: Watch, job: str) -> list[int]:
    """Return the versions at which the claims of a Job's pods, or of one pod, were allocated."""
    found: dict[str, int] = {}
    for each in claims.seen:
        if _is_allocated(each.object) and _owner(each.object).startswith(job):
            found.setdefault(each.uid, each.version)
    return list(found.values())


def _released(claims: Watch, pods: set[str]) -> list[int]:
    """Return the versions at which the claims of some pods had no device any more."""
    found: dict[str, int] = {}
    had: set[str] = set()
    for each in claims.seen:
        if _owner(each.object) in pods:
            if each.type != "DELETED" and _is_allocated(each.object):
                had.add(each.uid)
            elif each.uid in had:
                found.setdefault(each.uid, each.version)
    return list(found.values())


def _owner(claim: dict[str, Any]) -> str:
    """Return the name of the pod for which a claim was made."""
    (owner,) = claim["metadata"]["ownerReferences"]
    return str(owner["name"])


def _is_allocated(claim: dict[str, Any]) -> bool:
    return bool(held(claim))


def _is_terminating(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]
