"""Extended resources of device classes on real servers: claims are created, named, and deleted if undone."""

import pytest
from tests.support.proxy import Cut, Fault, Hold, Refuse, Where
from tests.support.scheduling.devices import DeviceBox, taken_over
from tests.support.scheduling.world import Sandbox, World

from podium.api.devices import IMPLICIT_RESOURCE_PREFIX

pytestmark = pytest.mark.server

CREATE = Where(r"/resourceclaims$", method="POST")
DEVICES = Where(r"/resourceclaims/[^/]+/status$", method="PATCH")
STATUS = Where(r"/pods/[^/]+/status$", method="PATCH", body="extendedResourceClaimStatus")
DELETE = Where(r"/resourceclaims/[^/]+$", method="DELETE")
BIND = Where(r"/pods/[^/]+/binding$", method="POST")


def test_pods_get_devices_of_a_class_or_of_a_device_plugin(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 2)
    sandbox.node("n1", 64)
    box.plugin("n1", 1)
    names = [f"p{index}" for index in range(3)]
    for name in names:
        box.requesting(name)
    bound = sandbox.until_bound(names)
    assert sorted(bound.values()) == ["n0", "n0", "n1"]
    held = box.held_by_pods()
    assert {name: each[0].split("/")[0] for name, each in held.items()} == {
        name: node for name, node in bound.items() if node == "n0"
    }
    box.assert_extended()
    for name, claim in box.extended().items():
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert claim["metadata"]["generateName"] == f"{name}-extended-resources-"
        mapping = {
            "containerName": "main",
            "resourceName": box.resource,
            "requestName": "container-0-request-1",
        }
        named = sandbox.pods()[name]["status"]["extendedResourceClaimStatus"]
        assert named["requestMappings"] == [mapping]


def test_every_class_has_a_resource_of_its_own(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 1)
    implicit = f"{IMPLICIT_RESOURCE_PREFIX}gpu-{sandbox.name}"
    resources = {"requests": {implicit: "1"}, "limits": {implicit: "1"}}
    sandbox.pod("p", containers=[{"name": "main", "image": "none", "resources": resources}])
    sandbox.until_bound(["p"])
    assert box.held_by_pods() == {"p": ["n0/gpu-0"]}
    box.assert_extended()


def test_a_gang_gets_all_devices_or_none(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 2)
    names = box.requesting_gang("large", 3, 5)
    sandbox.until_message(names[0], "cannot allocate all claims")
    assert box.extended() == {}
    box.node("n1", 1)
    sandbox.until_bound(names)
    box.assert_extended()


def test_no_pod_of_a_device_plugin_is_evicted_while_devices_are_idle(
    sandbox: Sandbox, box: DeviceBox
) -> None:
    # The watches of nodes and slices may be behind that of pods. So both nodes are there long before `high`.
    sandbox.node("n0", 64)
    box.node("n1", 1)
    box.plugin("n0", 1)
    box.requesting("low", priority=1, nodeSelector={"kubernetes.io/hostname": sandbox.full("n0")})
    assert sandbox.until_bound(["low"]) == {"low": "n0"}
    box.requesting("high", priority=5)
    assert sandbox.until_bound(["high"]) == {"high": "n1"}
    assert sandbox.evicted() == []


def test_a_pod_preempts_a_pod_with_devices(sandbox: Sandbox, box: DeviceBox) -> None:
    """The preemptor waits until the claim of its victim is released."""
    box.node("n0", 1)
    box.requesting("low", priority=1)
    sandbox.until_bound(["low"])
    box.requesting("high", priority=5)
    sandbox.until(lambda: "low" not in sandbox.pods(), "the victim is gone")
    sandbox.until_message("high", "waiting for the claims of pods that are gone")
    assert box.release() != []
    sandbox.until_bound(["high"])
    box.assert_no_device_twice()


REFUSED = [
    pytest.param(CREATE, id="the claim"),
    pytest.param(DEVICES, id="its devices"),
    pytest.param(STATUS, id="the status of the pod"),
]


@pytest.mark.parametrize("where", REFUSED)
def test_a_gang_is_undone_if_a_write_is_refused(sandbox: Sandbox, box: DeviceBox, where: Where) -> None:
    """The claims of all members are deleted before the next attempt."""
    box.node("n0", 2)
    with sandbox.world.proxy.fault(where, Refuse(403, "Forbidden"), times=1) as fault:
        names = box.requesting_gang("gang", 2, 5)
        sandbox.until(lambda: fault.hits == 1, "a write was refused")
        sandbox.until_bound(names)
    box.assert_extended()


CUTS = [
    pytest.param(CREATE, Hold(lost=True), 0, id="before the claims"),
    pytest.param(CREATE, Cut(answered=True), 1, id="after the claim of one"),
    pytest.param(DEVICES, Hold(lost=True), 3, id="before the devices"),
    pytest.param(DEVICES, Cut(answered=True), 3, id="after the devices of one"),
    pytest.param(STATUS, Hold(lost=True), 3, id="before the status"),
    pytest.param(STATUS, Cut(answered=True), 3, id="after the status of one"),
    pytest.param(BIND, Hold(lost=True), 3, id="before the bind"),
]


@pytest.mark.parametrize(("where", "cut", "created"), CUTS)
def test_a_new_leader_binds_what_a_killed_one_began(
    own: World, where: Where, cut: Fault, created: int
) -> None:
    """No device is allocated twice, and no claim is left that its pod does not use."""
    with taken_over(
        own,
        where,
        cut,
        lambda box: box.requesting_gang("gang", 3, 5),
        lambda box: len(box.extended()) >= created,
    ) as (box, bound):
        held = box.held_by_pods()
        assert {name: each[0].split("/")[0] for name, each in held.items()} == bound
        box.assert_extended()


RELEASES_CUT = [
    pytest.param(
        Where(r"/resourceclaims/[^/]+$", method="PATCH"), Hold(lost=True), id="before the finalizer"
    ),
    pytest.param(
        Where(r"/resourceclaims/[^/]+$", method="PATCH"), Cut(answered=True), id="after the finalizer"
    ),
    pytest.param(DELETE, Hold(lost=True), id="before the delete"),
    pytest.param(DELETE, Cut(answered=True), id="after the delete"),
]


@pytest.mark.parametrize(("where", "cut"), RELEASES_CUT)
def test_a_new_leader_ends_what_a_killed_one_undid(own: World, where: Where, cut: Fault) -> None:
    """The bind is undone because a write is refused, and the leader is killed while it deletes the claim."""
    with own.scheduling() as scheduler, own.sandbox() as sandbox:
        box = DeviceBox(sandbox)
        box.node("n0", 1)
        with own.proxy.fault(STATUS, Refuse(403, "Forbidden")), own.proxy.fault(where, cut) as fault:
            box.requesting("p")
            sandbox.until(lambda: fault.hits >= 1, "the write was cut")
            scheduler.kill()
        scheduler.again()
        sandbox.until_bound(["p"])
        assert box.held_by_pods() == {"p": ["n0/gpu-0"]}
        box.assert_extended()


def test_a_new_leader_deletes_a_claim_that_nothing_can_use(own: World) -> None:
    """The node of the devices takes no pod any more, and a device plugin serves the pod."""
    with own.scheduling() as scheduler, own.sandbox() as sandbox:
        box = DeviceBox(sandbox)
        box.node("n0", 1)
        with own.proxy.fault(STATUS, Hold(lost=True)):
            box.requesting("p")
            sandbox.until(lambda: box.held_by_pods() == {"p": ["n0/gpu-0"]}, "the claim has a device")
            scheduler.kill()
        sandbox.cordon("n0")
        sandbox.node("n1", 64)
        box.plugin("n1", 1)
        scheduler.again()
        assert sandbox.until_bound(["p"]) == {"p": "n1"}
        assert box.extended() == {}
