"""Claims for extended resources: created before the bind, named in the pod, and deleted if the bind fails."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from tests.support.devices.scene import (
    RESOURCE,
    claim,
    cluster,
    device_class,
    devices_of,
    extended,
    node,
    plugged,
    requesting,
    with_devices,
)
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group
from tests.support.scheduling.devicerig import DeviceWorld, end, world

from podium.api.devices import ResourceClaim
from podium.planner.plugins.devices.claims import extended_claim_name, owner_of
from podium.planner.plugins.devices.writes import ClaimReservation


def claims(made: DeviceWorld) -> dict[str, list[str]]:
    """Return the devices of the claims for extended resources, by pod."""
    held = made.held_devices()
    devices = {}
    for (_, name), each in made.state.resource_claims.items():
        owner = owner_of(each)
        if owner is not None:
            devices[owner[0]] = held.get(name, [])
    return devices


def gang(number: int, priority: int = 0) -> list[Any]:
    """Return a pending gang whose members request a device each."""
    members = [requesting(f"gang-{at}", 1, priority, group="gang") for at in range(number)]
    return [group("gang", priority, number), *members]


# --- the steps ------------------------------------------------------------------------------------------


def test_a_pod_is_bound_when_its_claim_is_created_and_named() -> None:
    made = world(cluster(1, 2, RESOURCE), requesting("p", 2))
    assert (made.bound(), claims(made), made.assumed()) == ({}, {}, ["p"])
    made.write()
    assert (made.bound(), claims(made)) == ({"p": "n0"}, {"p": ["n0/gpu-0", "n0/gpu-1"]})
    status = made.state.pods[NS, "p"].status
    named = getattr(status, "extendedResourceClaimStatus", None)
    assert msgspec.to_builtins(named) == {
        "resourceClaimName": extended_claim_name(made.state.pods[NS, "p"]),
        "requestMappings": [
            {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-1"}
        ],
    }
    made.check()
    assert made.at_rest()


def test_a_pod_of_a_device_plugin_gets_no_claim() -> None:
    made = world(plugged("n0", 1), device_class(resource=RESOURCE), requesting("p"))
    assert (made.bound(), made.claim_writes) == ({"p": "n0"}, [])


def test_a_pod_with_a_claim_of_its_own_needs_none_beside_a_device_plugin() -> None:
    """kube-scheduler creates a claim without requests, and then has no mapping for the status."""
    entry = {"name": "x", "resourceClaimName": "own"}
    made = world(
        *(plugged("n0", 1), devices_of("n0", 1), device_class(resource=RESOURCE), claim("own")),
        requesting("p", resourceClaims=[entry]),
    )
    made.write()
    assert (made.bound(), claims(made), made.held_devices()) == ({"p": "n0"}, {}, {"own": ["n0/gpu-0"]})


def test_a_gang_is_bound_when_all_of_its_claims_are_written() -> None:
    made = world(cluster(2, 1, RESOURCE), gang(2))
    made.write(1, why="lost")
    assert made.bound() == {}
    end(made)
    assert sorted(made.bound()) == ["gang-0", "gang-1"]


def test_a_gang_uses_devices_of_classes_and_of_device_plugins() -> None:
    made = world(cluster(1, 2, RESOURCE), plugged("n1", 1), gang(3))
    end(made)
    assert sorted(made.bound().values()) == ["n0", "n0", "n1"]
    assert len(claims(made)) == 2


def test_two_pods_that_are_written_at_once_have_other_devices() -> None:
    made = world(cluster(1, 2, RESOURCE), requesting("p"), requesting("q"))
    made.write()
    assert claims(made) == {"p": ["n0/gpu-0"], "q": ["n0/gpu-1"]}


ARRIVALS: dict[str, tuple[list[Any], Any]] = {
    "a class": ([node("n0"), devices_of("n0", 1)], device_class(resource=RESOURCE)),
    "a slice": ([node("n0"), device_class(resource=RESOURCE)], devices_of("n0", 1)),
    "a node": ([devices_of("n0", 1), device_class(resource=RESOURCE)], node("n0")),
    "a released claim": ([*cluster(1, 1, RESOURCE), extended("gone", ["n0/gpu-0"])], extended("gone")),
    "a device plugin": ([node("n0"), device_class(resource=RESOURCE)], plugged("n0", 1)),
}


@pytest.mark.parametrize(("objects", "arrival"), ARRIVALS.values(), ids=list(ARRIVALS))
def test_a_pod_is_tried_again_when_devices_come(objects: list[Any], arrival: Any) -> None:
    made = world(objects, requesting("p"))
    assert made.claim_writes == []
    made.run(arrival)
    made.later(20)
    made.write()
    assert made.bound() == {"p": "n0"}


# --- failures -------------------------------------------------------------------------------------------


def lose_node(made: DeviceWorld) -> None:
    """Delete the node that was chosen."""
    for name in ("n0", "n1"):
        row = made.scheduler.engine.snapshot.row.get(name)
        if row is not None and len(made.scheduler.engine.snapshot.pods_on(row)):
            made.state.remove(made.state.nodes[name])
    made.run()


def lose_pod(made: DeviceWorld) -> None:
    """Delete the pod; the garbage collector deletes its claim."""
    made.state.remove(made.state.pods[NS, "p"])
    for each in list(made.state.resource_claims.values()):
        made.state.remove(each)
    made.run()


def lose_claim(made: DeviceWorld) -> None:
    """Delete the claims of pods that are not bound, as long as no bind is in flight."""
    for each in list(made.state.resource_claims.values()):
        owner = owner_of(each)
        if not made.held and owner is not None and owner[0] not in made.bound():
            made.state.remove(each)
    made.run()


def offer(made: DeviceWorld) -> None:
    """Start a device plugin on both nodes, whose drivers stop."""
    for name in ("n0", "n1"):
        made.run(plugged(name, 1))


EVENTS: dict[str, Callable[[DeviceWorld], object]] = {
    "the write is refused": lambda made: made.write(0, why="refused"),
    "the write is stored, and its answer is lost": lambda made: made.write(why="lost"),
    "the node goes": lose_node,
    "the pod goes": lose_pod,
    "the claim goes": lose_claim,
    "the class goes": lambda made: made.run(device_class()),
    "a device plugin starts": offer,
    "the bind fails": lambda made: setattr(made, "failing", "busy"),
    "the process is killed": lambda made: made.restart(),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=list(EVENTS))
@pytest.mark.parametrize("when", ["before the write", "after the write", "while the bind is held"])
def test_a_failure_leaves_no_claim_behind(event: Callable[[DeviceWorld], object], when: str) -> None:
    made = world(cluster(2, 1, RESOURCE), requesting("p"))
    made.hold_binds = True
    if when == "before the write":
        event(made)
        made.write()
    elif when == "after the write":
        made.write()
        event(made)
    else:
        made.write()
        made.later(5)
        event(made)
    end(made)
    running = set(made.bound())
    assert claims(made).keys() <= running


# --- takeover -------------------------------------------------------------------------------------------


def killed_after(steps: int) -> DeviceWorld:
    """Return a world whose leader was killed after so many writes for the pod `p`."""
    made = world(cluster(1, 1, RESOURCE), requesting("p"))
    ((plan,),) = (effect.writes for effect in made.claim_writes)
    assert isinstance(plan, ClaimReservation)
    assert plan.created is not None
    if steps > 0:
        made._create(plan, plan.created, None)
    if steps > 1:
        made.allocate_extended(plan)
    if steps > 2:
        made.name_extended(plan, plan.created)
    made.restart()
    return made


@pytest.mark.parametrize("steps", range(4), ids=["none", "created", "allocated", "named"])
def test_a_new_leader_ends_what_a_killed_one_began(steps: int) -> None:
    made = killed_after(steps)
    end(made)
    assert (made.bound(), claims(made)) == ({"p": "n0"}, {"p": ["n0/gpu-0"]})


@pytest.mark.parametrize("steps", range(1, 4), ids=["created", "allocated", "named"])
def test_devices_that_a_killed_leader_allocated_are_free_for_another_node(steps: int) -> None:
    made = killed_after(steps)
    made.run(node("n0", unschedulable=True), node("n1"), devices_of("n1", 1))
    end(made)
    assert (made.bound(), claims(made)) == ({"p": "n1"}, {"p": ["n1/gpu-0"]})


@pytest.mark.parametrize("steps", range(1, 3), ids=["created", "allocated"])
def test_a_claim_of_a_killed_leader_is_deleted_if_a_device_plugin_serves_the_pod(steps: int) -> None:
    made = killed_after(steps)
    made.run(node("n0", unschedulable=True), plugged("n1", 1))
    end(made)
    assert (made.bound(), claims(made)) == ({"p": "n1"}, {})


def test_a_pod_with_a_named_claim_goes_to_no_device_plugin() -> None:
    """The API server keeps the status, and no kubelet starts the pod without a claim."""
    made = killed_after(3)
    made.run(node("n0", unschedulable=True), plugged("n1", 1))
    end(made)
    assert made.bound() == {}
    made.run(node("n0"))
    end(made)
    assert (made.bound(), claims(made)) == ({"p": "n0"}, {"p": ["n0/gpu-0"]})


@pytest.mark.parametrize("held", [[], ["n0/gpu-0"]], ids=["created", "allocated"])
def test_a_claim_that_another_scheduler_left_is_deleted(held: list[str]) -> None:
    made = world(cluster(1, 1, RESOURCE), extended("p", held), requesting("p"))
    end(made)
    assert made.bound() == {"p": "n0"}
    assert [each.metadata.name for each in made.state.resource_claims.values()] == [
        extended_claim_name(made.state.pods[NS, "p"])
    ]


def test_a_claim_of_a_stranger_with_this_name_is_kept() -> None:
    pod = requesting("p")
    stranger = msgspec.convert(
        {"metadata": {"name": extended_claim_name(pod), "namespace": NS, "uid": "other"}}, ResourceClaim
    )
    made = world(cluster(1, 1, RESOURCE), stranger, pod)
    for _ in range(3):
        made.write(why="belongs to another object")
        made.later(120)
    assert (made.bound(), made.state.resource_claims[NS, stranger.metadata.name or ""]) == ({}, stranger)


# --- preemption -----------------------------------------------------------------------------------------


def test_a_pod_preempts_a_pod_with_devices_and_waits_for_their_release() -> None:
    made = world(cluster(1, 1, RESOURCE), with_devices("low", ["n0/gpu-0"]), requesting("high", 1, 10))
    assert made.evicted() == ["low"]
    made.write()
    assert made.bound() == {}
    end(made)
    assert made.bound() == {"high": "n0"}


# --- all at once ----------------------------------------------------------------------------------------

STEPS = st.lists(
    st.sampled_from(
        [
            *(lambda made, at=at: made.write(at, why="refused" if at == 0 else "") for at in (0, 1, 9)),
            lambda made: made.restart(),
            lambda made: made.later(30),
            lambda made: made.control(),
            lambda made: made.run(requesting("late", 1, 20)),
            lambda made: made.run(plugged("n1", 1)),
            lambda made: made.run(node("n1")),
            lambda made: setattr(made, "failing", "busy"),
            lambda made: setattr(made, "failing", ""),
            lose_claim,
        ]
    ),
    max_size=8,
)


@budget(max_examples=60)
@given(STEPS)
def test_whatever_fails_pods_run_with_their_devices_in_the_end(
    steps: list[Callable[[DeviceWorld], object]],
) -> None:
    made = world(cluster(2, 1, RESOURCE), requesting("p"), requesting("q"))
    for step in steps:
        step(made)
    end(made)
