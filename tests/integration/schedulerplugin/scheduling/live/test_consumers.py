"""A claim with all the consumers that a real server stores: further pods wait, and delay no other pod."""

import pytest
from tests.support.proxy import Where
from tests.support.scheduling.devices import DeviceBox
from tests.support.scheduling.world import Sandbox

from podium.api.devices import MAX_CONSUMERS
from podium.api.groups import NATIVE_GROUP
from podium.planner.plugins.devices.filter import IN_USE

pytestmark = pytest.mark.server


def use_shared(sandbox: Sandbox, box: DeviceBox, number: int) -> str:
    """Bind a pod to the claim `shared`, and add so many consumers to it; return the path of its status."""
    box.claim("shared")
    box.pod("first", claim="shared")
    sandbox.until_bound(["first"])
    path = f"{box.path('shared')}/status"
    known = box.claims()["shared"]["status"]["reservedFor"]
    # Pods that do not exist would be awaited, and groups are not.
    kind = {"apiGroup": NATIVE_GROUP, "resource": "podgroups"}
    others = [{**kind, "name": f"u{at}", "uid": f"u{at}"} for at in range(number)]
    sandbox.ask("PATCH", path, {"status": {"reservedFor": [*known, *others]}})
    return path


def refusals(sandbox: Sandbox) -> set[int]:
    """Return the codes of refused writes to the claim `shared`; of two writes at once one has a conflict."""
    where = Where(rf"/namespaces/{sandbox.name}/resourceclaims/shared(/status)?$", method="PATCH")
    return {call.code for proxy in sandbox.world.proxies for call in proxy.writes(where)} - {200, 409}


def test_the_server_refuses_a_consumer_too_many(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 1)
    path = use_shared(sandbox, box, MAX_CONSUMERS - 1)
    one = [{"resource": "pods", "name": "more", "uid": "more"}]
    known = box.claims()["shared"]["status"]["reservedFor"]
    sandbox.ask("PATCH", path, {"status": {"reservedFor": [*known, *one]}}, code=422)


def test_pods_beyond_the_consumers_wait_and_delay_no_other_pod(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 2)
    path = use_shared(sandbox, box, MAX_CONSUMERS - 3)
    names = [f"p{at}" for at in range(5)]
    for name in names:
        box.pod(name, claim="shared")
    box.pod("honest", 1)
    sandbox.pod("plain", 1, 1)
    sandbox.until_bound(["honest", "plain"])
    sandbox.until(lambda: bound(sandbox, names) == 2, "as many pods run as there are places")
    for name in (each for each in names if not sandbox.where(sandbox.pods()[each])):
        sandbox.until_message(name, IN_USE)
    assert not refusals(sandbox)
    assert len(box.claims()["shared"]["status"]["reservedFor"]) == MAX_CONSUMERS
    with sandbox.world.sandbox() as other:
        other.node("n0", 4)
        other.pod("neighbour", 1, 1)
        other.until_bound(["neighbour"])
    left = box.claims()["shared"]["status"]["reservedFor"][:-2]
    sandbox.ask("PATCH", path, {"status": {"reservedFor": left}})
    sandbox.until(lambda: bound(sandbox, names) == 4, "pods take the places that came free")
    assert not refusals(sandbox)


def test_a_gang_beyond_the_consumers_writes_none(sandbox: Sandbox, box: DeviceBox) -> None:
    box.node("n0", 2)
    path = use_shared(sandbox, box, MAX_CONSUMERS - 2)
    sandbox.group("gang", 5, 2)
    names = ["gang-0", "gang-1"]
    for name in names:
        box.pod(name, 5, group="gang", claim="shared")
    sandbox.until_message("gang-0", IN_USE)
    box.pod("honest", 1)
    sandbox.until_bound(["honest"])
    assert not bound(sandbox, names)
    left = box.claims()["shared"]["status"]["reservedFor"][:-1]
    sandbox.ask("PATCH", path, {"status": {"reservedFor": left}})
    sandbox.until_bound(names)
    assert not refusals(sandbox)


def test_a_pod_preempts_a_consumer(sandbox: Sandbox, box: DeviceBox) -> None:
    """The preemptor waits until the claim names its victim no more, and evicts no further pod."""
    box.node("n0", 1)
    path = use_shared(sandbox, box, MAX_CONSUMERS - 1)
    box.pod("high", 9, claim="shared")
    sandbox.until(lambda: "first" not in sandbox.pods(), "the victim is gone")
    known = box.claims()["shared"]["status"]["reservedFor"]
    left = [each for each in known if each["name"] != "first"]
    assert len(left) == MAX_CONSUMERS - 1
    sandbox.ask("PATCH", path, {"status": {"reservedFor": left}})
    sandbox.until_bound(["high"])
    assert sandbox.evicted() == ["first"]


def bound(sandbox: Sandbox, names: list[str]) -> int:
    """Return how many of some pods are on nodes."""
    pods = sandbox.pods()
    return sum(bool(sandbox.where(pods[name])) for name in names)
