"""Devices on real servers: pods and gangs get them before they are bound, and preempt others for them."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.proxy import Cut, Fault, Hold, Refuse, Where
from tests.support.scheduling.devices import DRIVER, DeviceBox, taken_over
from tests.support.scheduling.world import Sandbox, World, world
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.devices import CLAIM_FINALIZER

pytestmark = pytest.mark.server


def test_pods_get_devices_before_their_nodes(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 2)
    box.node("n1", 1)
    names = [f"p{index}" for index in range(3)]
    for name in names:
        box.pod(name)
    bound = sandbox.until_bound(names)
    held = box.held()
    assert {name: each[0].split("/")[0] for name, each in held.items()} == bound
    box.assert_no_device_twice()
    for name, claim in box.claims().items():
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert claim["status"]["allocation"]["allocationTimestamp"]
        uid = sandbox.pods()[name]["metadata"]["uid"]
        assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": name, "uid": uid}]


@pytest.mark.parametrize("finalizers", [(), (CLAIM_FINALIZER,)], ids=["without", "with"])
def test_the_configurations_of_a_claim_are_copied(
    sandbox: Sandbox, box: DeviceBox, finalizers: tuple[str, ...]
) -> None:
    """The scheduler keeps no parameters in memory, whether the claim has its finalizer or not."""
    box.node("n0", 1)
    config = [
        {"requests": ["gpus"], "opaque": {"driver": DRIVER, "parameters": {"at": at, "text": "x" * 5_000}}}
        for at in range(3)
    ]
    box.claim("p", finalizers=finalizers, config=config)
    box.pod("p", claim="p")
    sandbox.until_bound(["p"])
    found = box.claims()["p"]["status"]["allocation"]["devices"]["config"]
    assert [each["opaque"] for each in found] == [each["opaque"] for each in config]
    assert {each["source"] for each in found} == {"FromClaim"}


def test_a_pod_waits_for_a_device(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 1)
    box.pod("first")
    sandbox.until_bound(["first"])
    box.pod("second")
    sandbox.until_message("second", "cannot allocate all claims")
    sandbox.end("first")
    sandbox.until(lambda: box.release() == ["first"], "the claim is released")
    sandbox.until_bound(["second"])


def test_a_pod_waits_for_its_claim(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 1)
    sandbox.pod("early", resourceClaims=[{"name": "gpus", "resourceClaimName": "late"}])
    sandbox.until_message("early", "could not find ResourceClaim")
    box.claim("late")
    sandbox.until_bound(["early"])


def test_pods_share_a_claim(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 1)
    box.node("n1", 1)
    box.claim("shared")
    for name in ("a", "b", "c"):
        box.pod(name, claim="shared")
    assert len(set(sandbox.until_bound(["a", "b", "c"]).values())) == 1
    assert {each["name"] for each in box.claims()["shared"]["status"]["reservedFor"]} == {"a", "b", "c"}


def test_a_gang_gets_all_devices_or_none(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 2)
    box.node("n1", 1)
    names = box.gang("large", 4, 5)
    sandbox.until_message(names[0], "cannot allocate all claims")
    assert box.held() == {}
    box.node("n2", 1)
    sandbox.until_bound(names)
    box.assert_no_device_twice()


def test_a_gang_preempts_a_gang_for_devices(sandbox: Sandbox, box: DeviceBox) -> None:
    """The preemptor waits until the claims of its victims are released, and evicts no further pod."""
    box.node("n0", 2)
    box.node("n1", 2)
    sandbox.until_bound(box.gang("other", 1, 3, devices=2))
    low = box.gang("low", 2, 1, whole=True)
    sandbox.until_bound(low)
    high = box.gang("high", 1, 5, devices=2)
    sandbox.until(lambda: not set(low) & sandbox.pods().keys(), "the victims are gone")
    sandbox.until_message(high[0], "waiting for the claims of pods that are gone")
    assert sorted(sandbox.evicted()) == sorted(low)
    assert sorted(box.release()) == sorted(low)
    sandbox.until_bound(high)
    box.assert_no_device_twice()


def test_devices_are_given_back_if_a_claim_is_refused(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 2)
    status = Where(r"/resourceclaims/gang-1/status$", method="PATCH")
    with sandbox.world.proxy.fault(status, Refuse(403, "Forbidden"), times=1):
        names = box.gang("gang", 2, 5)
        sandbox.until_bound(names)
    box.assert_no_device_twice()


ATTACHED: dict[str, Any] = {
    "bindsToNode": True,
    "bindingConditions": ["example.com/attached"],
    "bindingFailureConditions": ["example.com/broken"],
}


def test_a_pod_waits_until_its_device_is_attached(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 1, **ATTACHED)
    box.pod("p")
    sandbox.until(box.held, "the claim has a device")
    sandbox.wait_for_decisions()
    assert not sandbox.where(sandbox.pods()["p"])
    box.report("p", "example.com/attached")
    sandbox.until_bound(["p"])


def test_a_device_that_cannot_be_attached_is_given_back(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 1, **ATTACHED)
    box.pod("p")
    sandbox.until(box.held, "the claim has a device")
    sandbox.cordon("n0")
    box.report("p", "example.com/broken")
    sandbox.until(lambda: not box.held(), "the device is given back")
    box.node("n1", 1)
    assert sandbox.until_bound(["p"]) == {"p": "n1"}


FINALIZER = Where(r"/resourceclaims/[^/]+$", method="PATCH")
STATUS = Where(r"/resourceclaims/[^/]+/status$", method="PATCH")
BIND = Where(r"/pods/[^/]+/binding$", method="POST")
CUTS = [
    pytest.param(FINALIZER, Hold(lost=True), 0, id="before the finalizer"),
    pytest.param(STATUS, Hold(lost=True), 0, id="before the devices"),
    pytest.param(STATUS, Cut(answered=True), 1, id="after the devices of one"),
    pytest.param(BIND, Hold(lost=True), 3, id="before the bind"),
]


@pytest.mark.parametrize(("where", "cut", "written"), CUTS)
def test_a_new_leader_binds_what_a_killed_one_began(
    own: World, where: Where, cut: Fault, written: int
) -> None:
    """No device is allocated twice, and no claim keeps one that its pod does not use."""
    with taken_over(
        own, where, cut, lambda box: box.gang("gang", 3, 5), lambda box: len(box.held()) >= written
    ) as (box, bound):
        assert {name: each[0].split("/")[0] for name, each in box.held().items()} == bound
        box.assert_no_device_twice()


def test_a_new_leader_gives_back_devices_that_nothing_can_use(own: World) -> None:
    """The node of the devices takes no pod any more, so the pod gets others."""
    with own.scheduling() as scheduler, own.sandbox() as sandbox:
        box = DeviceBox(sandbox)
        box.node("n0", 1)
        with own.proxy.fault(BIND, Hold(lost=True)):
            box.pod("p")
            sandbox.until(lambda: box.held() == {"p": ["n0/gpu-0"]}, "the claim has a device")
            scheduler.kill()
        sandbox.cordon("n0")
        box.node("n1", 1)
        scheduler.again()
        assert sandbox.until_bound(["p"]) == {"p": "n1"}
        assert box.held() == {"p": ["n1/gpu-0"]}


def test_the_members_of_a_group_share_its_claim(tmp_path: Path) -> None:
    """The consumer is the group, behind a gate of the API server."""
    gate = "DRAWorkloadResourceClaims=true"
    with world(NEWEST.minor, tmp_path, gate) as made, made.scheduling(), made.sandbox() as sandbox:
        box = DeviceBox(sandbox)
        box.node("n0", 1)
        box.claim("shared")
        entry = {"name": "gpus", "resourceClaimName": "shared"}
        group = sandbox.group("gang", 5, 2, resourceClaims=[entry])
        sandbox.until_bound(sandbox.members("gang", 2, 1, 5, resourceClaims=[entry]))
        (consumer,) = box.claims()["shared"]["status"]["reservedFor"]
        assert (consumer["resource"], consumer["uid"]) == ("podgroups", group["metadata"]["uid"])
