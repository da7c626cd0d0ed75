"""Claims get their devices before the binds: each step, each failure, each race, and a takeover."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from tests.support.devices.scene import (
    ANY,
    claim,
    cluster,
    device_class,
    devices_of,
    held_by,
    holder,
    node,
    pod,
    waiting,
)
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group
from tests.support.scheduling.devicerig import DeviceWorld, end, world

from podium.api.core import ResourceClaimEntry
from podium.api.devices import MAX_CONSUMERS
from podium.planner.plugins.devices.filter import IN_USE
from podium.schedulerplugin.scheduling.effects import Bind, UndoPreBind

TEMPLATE: dict[str, Any] = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}


def gang(number: int = 2, name: str = "gang", priority: int = 0, **fields: Any) -> list[Any]:
    """Return a pending gang whose members have a claim each."""
    members = [waiting(f"{name}-{at}", 1, priority, group=name) for at in range(number)]
    return [group(name, priority, number, **fields), *chain.from_iterable(members)]


def sharing(*names: str) -> list[Any]:
    """Return lone pods that share the claim `c`."""
    return [claim("c"), *(pod(name, claims=["c"]) for name in names)]


# --- the steps ------------------------------------------------------------------------------------------


def test_a_pod_is_bound_when_its_claim_has_devices() -> None:
    made = world(cluster(1, 1), waiting("p"))
    assert (made.bound(), made.held_devices(), made.assumed()) == ({}, {}, ["p"])
    made.write()
    assert (made.bound(), made.held_devices()) == ({"p": "n0"}, {"p": ["n0/gpu-0"]})
    assert (made.users("p"), made.at_rest(), made.scheduler.due(made.seconds)) == (["p"], True, None)


def test_a_gang_is_bound_when_all_of_its_claims_have_devices() -> None:
    made = world(cluster(2, 1), gang())
    (effect,) = made.claim_writes
    made._write(effect.writes[0], withdraw=False)  # type: ignore[arg-type]  # a claim for devices
    made.run()
    assert (made.bound(), len(made.held_devices())) == ({}, 1)
    made.write()
    assert sorted(made.bound()) == ["gang-0", "gang-1"]
    made.check()
    assert made.at_rest()


def test_a_pod_without_claims_is_bound_while_claims_are_written() -> None:
    made = world(cluster(1, 1), waiting("p"), pod("other", claims=()))
    assert made.bound() == {"other": "n0"}


def test_the_devices_of_a_pod_that_waits_are_its_own() -> None:
    made = world(cluster(1, 1), waiting("p"))
    made.run(waiting("late", priority=0))
    made.write()
    assert (made.bound(), made.held_devices()) == ({"p": "n0"}, {"p": ["n0/gpu-0"]})


def test_a_claim_of_a_template_is_awaited() -> None:
    """kube-controller-manager creates the claim, and then names it in the status of the pod."""
    made = world(cluster(1, 1), pod("p", **TEMPLATE))
    assert (made.claim_writes, made.bound()) == ([], {})
    made.run(claim("p", owner="p"))
    status = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "p"}]}
    made.run(pod("p", status=status, **TEMPLATE))
    made.write()
    assert made.bound() == {"p": "n0"}


MISSING: dict[str, list[Any]] = {
    "the claim": [*cluster(1, 1)],
    "the class": [node("n0"), devices_of("n0", 1), claim("p")],
    "the slice": [node("n0"), device_class(), claim("p")],
    "the node": [devices_of("n0", 1), device_class(), claim("p")],
    "a free device": [*cluster(1, 1), claim("p"), claim("gone", ["n0/gpu-0"])],
}
ARRIVALS = {
    "the claim": claim("p"),
    "the class": device_class(),
    "the slice": devices_of("n0", 1),
    "the node": node("n0"),
    "a free device": claim("gone"),
}


@pytest.mark.parametrize("missing", MISSING)
def test_a_pod_is_tried_again_when_a_missing_object_comes(missing: str) -> None:
    made = world(MISSING[missing], pod("p"))
    assert made.claim_writes == []
    made.run(ARRIVALS[missing])
    made.later(20)
    made.write()
    assert made.bound() == {"p": "n0"}


def test_pods_beyond_the_consumers_of_a_claim_wait_without_a_write() -> None:
    """The decisions are in flight at once, so the API server has none of their consumers yet."""
    others = [f"u{at}" for at in range(MAX_CONSUMERS - 3)]
    names = [f"p{at}" for at in range(5)]
    shared = claim("c", ["n0/gpu-0"], others)
    made = world(cluster(1, 1), shared, [pod(name, claims=["c"]) for name in names])
    assert len(made.claim_writes) == 3
    made.write()
    made.run(pod("other", claims=()))
    assert (len(made.bound()), len(made.users("c"))) == (4, MAX_CONSUMERS)
    assert made.claim_writes == []
    waiting_pods = set(names) - made.bound().keys()
    assert all(IN_USE in made.message(name) for name in waiting_pods)
    # Their pods are gone.
    made.control()
    made.write()
    assert made.bound().keys() == {*names, "other"}
    assert sorted(made.users("c")) == names
    made.check()


def test_a_gang_that_shares_a_claim_waits_without_a_place() -> None:
    """Its claim has devices and a consumer beside the pods of the gang, so it is not stranded."""
    members = [pod(f"gang-{at}", claims=["c"], group="gang") for at in range(2)]
    consumers = ["gang-0", *(f"u{at}" for at in range(MAX_CONSUMERS - 1))]
    shared = claim("c", ["n0/gpu-0"], consumers)
    made = world([*cluster(1, 1), shared, group("gang", 0, 2), *members])
    assert IN_USE in made.message("gang-0")
    made.run(claim("c", ["n0/gpu-0"], consumers[:-1]))
    made.later(60)
    made.write()
    assert sorted(made.bound()) == ["gang-0", "gang-1"]


# --- failures -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """An event during the writes for the pod `p` of two nodes, and the nodes that it may get."""

    event: Callable[[DeviceWorld, str], object]
    ends: str = "any"


def allocate_elsewhere(made: DeviceWorld, node: str) -> None:
    """Allocate the claim as another scheduler does, with devices of the other node."""
    other = "n1" if node == "n0" else "n0"
    made.run(claim("p", [f"{other}/gpu-0"]))


def lose_node(made: DeviceWorld, node: str) -> None:
    """Delete the node, and its slice."""
    made.state.remove(made.state.nodes[node])
    made.state.remove(made.state.resource_slices[node])
    made.run()


def lose_claim(made: DeviceWorld, _: str) -> None:
    """Delete the claim."""
    made.state.remove(made.claim("p"))
    made.run()


def lose_pod(made: DeviceWorld, _: str) -> None:
    """Delete the pod."""
    made.state.remove(made.state.pods[NS, "p"])
    made.run()


FAILURES = {
    "the write is refused": Failure(lambda made, _: made.write(0, why="refused")),
    "the write is stored, and its answer is lost": Failure(lambda made, _: made.write(why="lost")),
    "another scheduler allocates the claim with the same devices": Failure(
        lambda made, node: made.run(claim("p", [f"{node}/gpu-0"], made.users("p")))
    ),
    "another scheduler allocates the claim elsewhere": Failure(allocate_elsewhere),
    "the node goes": Failure(lose_node, "other"),
    "the claim goes": Failure(lose_claim, "none"),
    "the claim is replaced": Failure(lambda made, _: made.run(claim("p", version="-2"))),
    "the claim is being deleted": Failure(lambda made, _: made.run(claim("p", terminating=True)), "none"),
    "the pod goes": Failure(lose_pod, "none"),
    "the bind fails": Failure(lambda made, _: setattr(made, "failing", "busy")),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=list(FAILURES))
@pytest.mark.parametrize("when", ["before the write", "after the write", "while the bind is held"])
def test_a_failure_leaves_no_device_behind(failure: Failure, when: str) -> None:
    made = world(cluster(2, 1), waiting("p"))
    made.hold_binds = True
    chosen = held_by(made.claim_writes[0].writes[0].allocation)[0].partition("/")[0]  # type: ignore[attr-defined]
    if when == "before the write":
        failure.event(made, chosen)
        made.write()
    elif when == "after the write":
        made._write(made.claim_writes[0].writes[0], withdraw=False)  # type: ignore[arg-type]
        failure.event(made, chosen)
        made.write()
    else:
        made.write()
        failure.event(made, chosen)
    in_flight = when == "while the bind is held"
    # A kubelet does not start a pod that lost its claim while the bind was in flight.
    end(made, check=not in_flight)
    bound = made.bound().get("p")
    other = "n1" if chosen == "n0" else "n0"
    ends: dict[str, set[str | None]] = {"any": {"n0", "n1"}, "other": {other}, "none": {None}}
    allowed = ends[failure.ends]
    if in_flight and failure.ends in ("other", "none"):
        # The bind may have been stored.
        allowed |= {None, chosen}
    assert bound in allowed
    if bound is None and (NS, "p") in made.state.pods and (NS, "p") in made.state.resource_claims:
        assert made.held_devices() == {}


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_a_gang_gives_all_devices_back_when_a_write_fails(stored: int) -> None:
    made = world(cluster(2, 1), gang())
    made.hold_releases = True
    made.write(stored, why="refused")
    assert (len(made.held_devices()), made.bound()) == (stored, {})
    assert [type(effect) for effect in made.claim_writes] == [UndoPreBind]
    made.hold_releases = False
    made.write()
    assert made.bound() == {}
    assert made.held_devices() == {}
    end(made)
    assert len(made.bound()) == 2


def test_a_gang_that_loses_a_member_gives_its_devices_back() -> None:
    made = world(cluster(2, 1), gang())
    made._write(made.claim_writes[0].writes[0], withdraw=False)  # type: ignore[arg-type]
    made.state.remove(made.state.pods[NS, "gang-1"])
    made.run()
    made.write()
    assert (made.bound(), made.held_devices()) == ({}, {})
    made.run(pod("gang-1", uid="again", group="gang"))
    end(made)
    assert len(made.bound()) == 2


def test_a_withdrawal_that_is_held_keeps_the_devices_from_others() -> None:
    made = world(cluster(1, 1), waiting("p"))
    made.hold_releases = True
    made.write(why="lost")
    made.run(waiting("late", priority=99))
    assert ("late" not in made.held_devices(), made.bound()) == (True, {})
    end(made)
    assert made.bound() == {"late": "n0"} or made.bound() == {"p": "n0"}


def test_a_write_that_is_never_seen_ends_with_the_time() -> None:
    """The answer says that the claim has devices, and a user deallocates it."""
    made = world(cluster(1, 1), waiting("p"), bind_timeout_seconds=30)
    number = made.claim_writes[0].number
    made.claim_writes = []
    made.scheduler.holds.prebinds.written(number, "")
    made.run()
    assert made.bound() == {}
    made.later(31)
    end(made)
    assert made.bound() == {"p": "n0"}


# --- claims of several pods -----------------------------------------------------------------------------


def test_pods_that_share_a_claim_share_its_devices() -> None:
    made = world(cluster(2, 1), sharing("p", "q"))
    assert len(made.claim_writes) == 2
    made.write()
    assert len(set(made.bound().values())) == 1
    assert (sorted(made.bound()), sorted(made.users("c"))) == (["p", "q"], ["p", "q"])
    made.check()
    assert made.at_rest()


SHARED_FAILURES = {"the first": (True, False), "the second": (False, True), "both": (True, True)}


@pytest.mark.parametrize("fails", SHARED_FAILURES.values(), ids=list(SHARED_FAILURES))
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
def test_a_failure_of_one_decision_keeps_the_devices_for_the_other(
    fails: tuple[bool, bool], *, stored: bool
) -> None:
    made = world(cluster(1, 1), sharing("p", "q"))
    effects, made.claim_writes = made.claim_writes, []
    for effect, failing in zip(effects, fails, strict=True):
        made._carry_out(effect, None if stored or not failing else 0, "refused" if failing else "")
    made.run()
    succeeded = [effect.key[1] for effect, failing in zip(effects, fails, strict=True) if not failing]
    assert sorted(made.bound()) == sorted(succeeded)
    assert sorted(made.users("c")) == sorted(succeeded)
    assert bool(made.held_devices()) == bool(succeeded), "devices without a user are given back"
    end(made)
    assert sorted(made.bound()) == ["p", "q"]


def test_one_of_two_pods_with_one_claim_goes() -> None:
    made = world(cluster(1, 1), sharing("p", "q"))
    made.state.remove(made.state.pods[NS, "p"])
    made.run()
    end(made)
    assert (made.bound(), made.users("c")) == ({"q": "n0"}, ["q"])


def test_a_gang_with_one_claim_writes_it_once() -> None:
    entries = (ResourceClaimEntry(name="x0", resourceClaimName="c"),)
    members = [pod(f"gang-{at}", claims=["c"], group="gang") for at in range(3)]
    made = world(cluster(2, 1), claim("c"), group("gang", 0, 3, uid="g", claims=entries), members)
    (effect,) = made.claim_writes
    assert len(effect.writes) == 1
    made.write()
    assert (len(made.bound()), made.users("c")) == (3, ["gang"])


def test_a_late_member_that_fails_leaves_the_devices_of_its_group() -> None:
    """The group is the only consumer of the claim, for the members that run already too."""
    entries = (ResourceClaimEntry(name="x0", resourceClaimName="c"),)
    members = [pod(f"gang-{at}", claims=["c"], group="gang") for at in range(2)]
    made = world(cluster(1, 1), claim("c"), group("gang", 0, 1, uid="g", claims=entries), members[0])
    made.run(members[1])
    effects, made.claim_writes = made.claim_writes, []
    assert len(effects) == 2
    made._carry_out(effects[0], None, "")
    made.run()
    assert list(made.bound()) == ["gang-0"]
    made._carry_out(effects[1], None, "lost")
    made.run()
    assert (made.held_devices(), made.users("c")) == ({"c": ["n0/gpu-0"]}, ["gang"])
    end(made)
    assert len(made.bound()) == 2


def test_only_the_claims_without_devices_are_written() -> None:
    made = world(cluster(2, 2), claim("p", ["n1/gpu-0"]), claim("q", count=1), pod("p", claims=["p", "q"]))
    (effect,) = made.claim_writes
    assert [write.awaited.name for write in effect.writes] == ["q"]
    made.write()
    assert (made.bound(), made.held_devices()["q"]) == ({"p": "n1"}, ["n1/gpu-1"])


# --- preemption -----------------------------------------------------------------------------------------


def test_a_preemptor_waits_until_the_claim_of_its_victim_is_released() -> None:
    made = world(cluster(1, 1), holder("low", ["n0/gpu-0"]))
    made.run(waiting("high"))
    made.write()
    assert (made.evicted(), made.bound(), made.held_devices()) == (["low"], {}, {"low": ["n0/gpu-0"]})
    made.later(60)
    assert made.bound() == {}
    made.control()
    made.write()
    assert (made.bound(), made.held_devices()) == ({"high": "n0"}, {"high": ["n0/gpu-0"]})
    assert (len(made.evictions()), made.at_rest()) == (1, True)


def test_no_other_pod_is_evicted_while_a_claim_is_released() -> None:
    made = world(cluster(1, 2), holder("a", ["n0/gpu-0"]), holder("b", ["n0/gpu-1"]))
    made.run(waiting("high"))
    made.later(60)
    assert len(made.evicted()) == 1
    end(made)
    assert len(made.evicted()) == 1
    assert "high" in made.bound()


def test_a_gang_preempts_a_whole_gang_for_its_devices() -> None:
    low = [holder(f"low-{at}", [f"n{at}/gpu-0"], group="low") for at in range(2)]
    made = world(cluster(2, 1), group("low", 0, 2, whole=True), low)
    made.run(gang(2, "high", 10))
    assert sorted(made.evicted()) == ["low-0", "low-1"]
    end(made)
    assert sorted(made.bound()) == ["high-0", "high-1"]


def test_a_preemptor_takes_the_devices_of_pods_that_wait_for_their_claims() -> None:
    made = world(cluster(1, 1), waiting("p", priority=0))
    made.run(waiting("high", priority=10))
    end(made)
    assert "high" in made.bound() or made.evicted() == ["p"]
    assert made.bound() == {"high": "n0"}


# --- stranded devices -----------------------------------------------------------------------------------


def full(name: str, on: str) -> Any:
    """Return a pod that takes all of a node, and that no pod may evict."""
    requests = {"resources": {"requests": {"cpu": "64"}}}
    return pod(name, 1_000, claims=(), node=on, containers=[{"name": "c", **requests}])


def test_devices_on_a_full_node_are_given_back() -> None:
    """A process allocated the claim, and another pod took the room before the bind."""
    made = world(cluster(2, 1), full("taken", "n0"), claim("p", ["n0/gpu-0"]), pod("p"))
    end(made)
    assert (made.bound()["p"], made.held_devices()) == ("n1", {"p": ["n1/gpu-0"]})


def test_devices_of_a_claim_that_others_use_are_kept() -> None:
    made = world(
        cluster(2, 1),
        full("taken", "n0"),
        claim("c", ["n0/gpu-0"], ["p", "q"]),
        pod("p", claims=["c"]),
        pod("q", claims=["c"], node="n0", schedulerName="other"),
    )
    end(made)
    assert (made.held_devices(), made.users("c")) == ({"c": ["n0/gpu-0"]}, ["p", "q"])


def test_a_gang_that_does_not_fit_gives_its_devices_back() -> None:
    first, second = waiting("gang-0", group="gang"), waiting("gang-1", group="gang")
    made = world(cluster(1, 1), group("gang", 0, 2), claim("gang-0", ["n0/gpu-0"]), first[1], second)
    made.later(30)
    assert (made.bound(), made.held_devices(), made.at_rest()) == ({}, {}, True)


GATED: dict[str, Any] = {"schedulingGates": [{"name": "example.com/quota"}]}
UNPLACEABLE: dict[str, tuple[list[Any], dict[str, list[str]]]] = {
    "a gang that lost a member": (
        [group("gang", 0, 2), claim("gang-0", ["n0/gpu-0"]), pod("gang-0", group="gang")],
        {},
    ),
    "a member whose gang is gone": ([claim("gang-0", ["n0/gpu-0"]), pod("gang-0", group="gang")], {}),
    "a pod with a scheduling gate": ([claim("p", ["n0/gpu-0"]), pod("p", **GATED)], {}),
    "a gated pod that shares its claim with a running one": (
        [
            claim("c", ["n0/gpu-0"], ["p", "q"]),
            pod("p", claims=["c"], **GATED),
            pod("q", claims=["c"], node="n0"),
        ],
        {"c": ["n0/gpu-0"]},
    ),
    "a claim that another scheduler's pod shares": (
        [
            claim("c", ["n0/gpu-0"], ["p", "q"]),
            pod("p", claims=["c"], **GATED),
            pod("q", claims=["c"], schedulerName="other"),
        ],
        {"c": ["n0/gpu-0"]},
    ),
}


@pytest.mark.parametrize("name", UNPLACEABLE)
def test_pods_that_cannot_be_placed_give_their_devices_back(name: str) -> None:
    """An earlier process allocated the claims, and was killed before the binds."""
    objects, kept = UNPLACEABLE[name]
    made = world(cluster(2, 1), objects)
    made.later(30)
    assert (made.held_devices(), made.at_rest()) == (kept, True)


def test_a_gang_with_a_member_again_gets_devices_again() -> None:
    made = world(
        cluster(2, 1), group("gang", 0, 2), claim("gang-0", ["n0/gpu-0"]), pod("gang-0", group="gang")
    )
    made.later(30)
    assert made.held_devices() == {}
    made.run(waiting("gang-1", group="gang"))
    end(made)
    assert sorted(made.bound()) == ["gang-0", "gang-1"]


def test_a_gang_that_loses_a_member_during_its_binds_keeps_their_devices() -> None:
    """A bind in flight may still succeed, although its node was deleted."""
    made = world(cluster(2, 1), gang())
    made.hold_binds = True
    made.write()
    (held,) = made.held
    assert isinstance(held, Bind)
    (first, chosen), (second, _) = held.pods
    devices = made.held_devices()[first.name]
    made.state.remove(made.state.nodes[chosen])
    made.state.remove(made.state.pods[second.key])
    made.run()
    assert made.held_devices()[first.name] == devices
    made.release(failed="busy")
    made.later(30)
    assert first.name not in made.held_devices()


# --- takeovers ------------------------------------------------------------------------------------------


def bind_one(made: DeviceWorld) -> None:
    """Carry out the writes, and the bind of the first pod."""
    made.write()
    (held,) = made.held
    assert isinstance(held, Bind)
    (ref, chosen), *_ = held.pods
    stored = made.state.pods[ref.key]
    spec = msgspec.structs.replace(stored.spec, nodeName=chosen)
    made.apply(msgspec.structs.replace(stored, spec=spec))


STEPS: dict[str, Callable[[DeviceWorld], object]] = {
    "nothing is written": lambda _: None,
    "one claim is written": lambda made: made._write(made.claim_writes[0].writes[0], withdraw=False),  # type: ignore[arg-type]
    "all claims are written": lambda made: [
        made._write(plan, withdraw=False)  # type: ignore[func-returns-value, arg-type]
        for plan in made.claim_writes[0].writes
    ],
    "the binds are in flight": lambda made: made.write(),
    "one pod is bound": bind_one,
}


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_a_leader_takes_over_after_each_step(step: Callable[[DeviceWorld], object]) -> None:
    made = world(cluster(2, 1), gang())
    made.hold_binds = True
    step(made)
    stored = made.held_devices()
    made.restart()
    made.run()
    end(made)
    assert sorted(made.bound()) == ["gang-0", "gang-1"]
    assert stored.items() <= made.held_devices().items(), "stored devices are used"


def test_a_leader_takes_over_during_a_withdrawal() -> None:
    made = world(cluster(2, 1), gang())
    made.hold_releases = True
    made.write(1, why="refused")
    assert len(made.held_devices()) == 1
    made.restart()
    made.run()
    end(made)
    assert sorted(made.bound()) == ["gang-0", "gang-1"]


def test_a_leader_takes_over_while_a_claim_is_released() -> None:
    made = world(cluster(1, 1), holder("low", ["n0/gpu-0"]))
    made.run(waiting("high"))
    made.restart()
    made.later(30)
    assert (made.bound(), made.held_devices()) == ({}, {"low": ["n0/gpu-0"]})
    end(made)
    assert (made.bound(), made.evicted()) == ({"high": "n0"}, ["low"])


# --- any order ------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.sampled_from(
        [
            *("write", "write one", "refuse", "lose the answer", "hold binds", "fail binds", "restart"),
            *("control", "later", "more", "lone", "delete a pod", "lose a node", "node", "release"),
        ]
    ),
    max_size=14,
)


@budget(max_examples=60)
@given(EVENTS)
def test_in_any_order_no_device_is_used_twice_and_none_is_lost(events: list[str]) -> None:
    made = world(cluster(2, 2), devices_of(ANY, 1), gang(), sharing("p", "q"), waiting("big", 2, 5))
    for number, event in enumerate(events):
        _happen(made, event, number)
        made.check()
    if "n1" not in made.state.nodes:
        made.run(node("n1"))
    end(made)
    pods = {name for _, name in made.state.pods}
    for name in made.held_devices():
        assert set(made.users(name)) <= pods, "devices are held by pods that exist"
    assert all(made.users(name) for name in made.held_devices())


def _happen(made: DeviceWorld, event: str, number: int) -> None:
    match event:
        case "write":
            made.write()
        case "write one":
            made.write(1, why="refused")
        case "refuse":
            made.write(0, why="refused")
        case "lose the answer":
            made.write(why="lost")
        case "hold binds":
            made.hold_binds = True
        case "fail binds":
            made.failing = "" if made.failing else "busy"
        case "release":
            made.release()
        case "restart":
            made.restart()
            made.run()
        case "control":
            made.control()
        case "later":
            made.later(15)
        case "more":
            made.run(gang(2, f"gang{number}", number))
        case "lone":
            made.run(waiting(f"lone{number}", 1, number))
        case "delete a pod":
            pods = sorted(made.state.pods)
            if pods:
                made.state.remove(made.state.pods[pods[number % len(pods)]])
            made.run()
        case "lose a node":
            if "n1" in made.state.nodes:
                made.state.remove(made.state.nodes["n1"])
            for each in [each for each in made.state.pods.values() if each.spec.nodeName == "n1"]:
                made.state.remove(each)
            made.run()
        case _:
            made.run(node("n1"))
