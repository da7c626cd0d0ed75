"""Claims are bound before their pods: each step, each failure, each race, and a takeover in the middle."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.filters.builders import mounts
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import HOST, ZONE, group, node
from tests.support.scheduling.rig import pod
from tests.support.scheduling.storagerig import StorageWorld
from tests.support.volumes import manifests
from tests.support.volumes.manifests import DRIVER, claim, decoded, storage_class, volume

from podium.schedulerplugin.scheduling.effects import Bind, PodRef
from podium.schedulerplugin.scheduling.prebinds import PreBinds

TIMEOUT = 600
LOCAL = storage_class(manifests.LOCAL)
SHARED = storage_class("shared", DRIVER)


def disk(name: str, on: str, size: str = "10Gi") -> Any:
    """Return a local volume of a node."""
    return decoded(volume(name, size, on=[{HOST: [on]}]))


def of_network(name: str, **fields: Any) -> Any:
    """Return a claim that is provisioned."""
    return decoded(claim(name, "1Gi", "shared", **fields))


def local(name: str, **fields: Any) -> Any:
    """Return a claim that takes a local volume."""
    return decoded(claim(name, "10Gi", **fields))


def world(*objects: Any, **settings: Any) -> StorageWorld:
    """Return a scheduler whose writes to claims are held."""
    made = StorageWorld(decoded(LOCAL), decoded(SHARED), **settings)
    made.hold_writes = True
    made.run(*objects)
    return made


def member(at: int, name: str = "gang", **fields: Any) -> Any:
    """Return a member of a gang with the claim of its number."""
    return pod(f"{name}-{at}", group=name, **mounts(f"c{at}"), **fields)


def provisioned(nodes: int = 2, pods: int = 1, **settings: Any) -> StorageWorld:
    """Return lone pods on nodes of one pod each, with a claim each that is to be provisioned."""
    return world(
        [node(f"n{at}", 1) for at in range(nodes)],
        [of_network(f"c{at}") for at in range(pods)],
        [pod(f"p{at}", **mounts(f"c{at}")) for at in range(pods)],
        **settings,
    )


def gang_of_disks(number: int = 2, spare: int = 0) -> StorageWorld:
    """Return a gang whose members have local volumes, one a node."""
    nodes = range(number + spare)
    return world(
        [node(f"n{at}", 1) for at in nodes],
        [disk(f"v{at}", f"n{at}") for at in nodes],
        [local(f"c{at}") for at in range(number)],
        group("gang", 0, number),
        [member(at) for at in range(number)],
    )


# --- the steps ------------------------------------------------------------------------------------------


def test_a_pod_is_bound_when_its_claim_is() -> None:
    made = provisioned()
    assert (made.bound(), made.claim("c0")) == ({}, ("", ""))
    made.write()
    chosen = made.claim("c0")[1]
    assert (made.bound(), chosen in ("n0", "n1")) == ({}, True)
    made.control()
    assert made.bound() == {"p0": chosen}
    assert (made.assumed(), made.scheduler.due(made.seconds)) == ([], None)


def test_a_gang_is_bound_when_all_of_its_claims_are() -> None:
    made = gang_of_disks()
    made.write()
    assert sorted(made.reserved().values()) == ["c0", "c1"]
    first = next(name for name, owner in made.reserved().items() if owner == "c0")
    made.bind_claim(made.state.claims[NS, "c0"], made.state.volumes[first])
    made.run()
    assert made.bound() == {}
    made.control()
    assert sorted(made.bound()) == ["gang-0", "gang-1"]
    assert made.assumed() == []


def test_other_pods_are_bound_while_claims_are_waited_for() -> None:
    made = provisioned()
    made.write()
    made.run(pod("other"))
    assert list(made.bound()) == ["other"]


def test_a_pod_that_waits_has_its_room_and_its_volume() -> None:
    made = world(node("n0", 2), disk("v0", "n0"), local("c0"), local("c1"), pod("p0", 2, **mounts("c0")))
    made.write()
    made.run(pod("late"), pod("same-volume", **mounts("c1")))
    assert made.bound() == {}
    made.control()
    assert made.bound() == {"p0": "n0"}


def test_only_the_claims_that_are_not_bound_are_written() -> None:
    made = world(
        node("n0"),
        disk("v0", "n0"),
        disk("v1", "n0"),
        local("c0"),
        local("c1"),
        pod("p0", **mounts("c0", "c1")),
    )
    made.write(1)
    assert len(made.reserved()) == 1


# --- failures -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A failure of a pod p0 that waits on one of two nodes for its claim, and where the pod ends."""

    happens: Callable[[StorageWorld, str], None]
    # On the node that was chosen first, on the other one, or nowhere.
    ends: str
    message: str


def _gives_up(made: StorageWorld, _chosen: str) -> None:
    made.write()
    made.give_up("c0")


def _takes_for_ever(made: StorageWorld, _chosen: str) -> None:
    made.write()
    made.later(TIMEOUT - 1)
    assert made.claim("c0")[1]
    made.later(1)


def _node_goes_before_the_answer(made: StorageWorld, chosen: str) -> None:
    made.state.remove(made.state.nodes[chosen])
    made.run()
    assert made.claim("c0")[1] == ""
    made.write()


def _bound_elsewhere(made: StorageWorld, chosen: str) -> None:
    made.write()
    other = "n1" if chosen == "n0" else "n0"
    made.reach = lambda _: [{HOST: [other]}]
    made.control()


def _goes(made: StorageWorld, obj: Any) -> None:
    made.write()
    made.state.remove(obj)
    made.run()


FAILURES = {
    "a write is refused": Failure(
        lambda made, _: made.write(0, why="admission webhook says no"),
        "chosen",
        "binding claims failed: admission webhook says no",
    ),
    "the provisioner gives up": Failure(
        _gives_up, "other", "binding claims failed: no volume was provisioned for claim c0 on node "
    ),
    "the time is over": Failure(
        _takes_for_ever, "chosen", "binding claims failed: not bound within 600 s: c0"
    ),
    "the node goes": Failure(
        lambda made, chosen: _goes(made, made.state.nodes[chosen]), "other", "binding claims failed: node "
    ),
    "the node goes while writes are in flight": Failure(
        _node_goes_before_the_answer, "other", "binding claims failed: node "
    ),
    "the volume is out of reach": Failure(_bound_elsewhere, "other", "binding claims failed: node "),
    "the claim goes": Failure(
        lambda made, _: _goes(made, made.state.claims[NS, "c0"]),
        "nowhere",
        '0/2 nodes are available: persistentvolumeclaim "c0" not found',
    ),
    "the pod goes": Failure(lambda made, _: _goes(made, made.state.pods[NS, "p0"]), "nowhere", ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_undone_and_the_pod_tried_again(name: str) -> None:
    case, made = FAILURES[name], provisioned()
    (effect,) = made.claim_writes
    chosen = effect.writes[0].avoided
    case.happens(made, chosen)
    assert not case.message or made.reported("p0", case.message)
    made.later(20)
    made.hold_writes = False
    made.write()
    made.control()
    other = "n1" if chosen == "n0" else "n0"
    ends = {"chosen": {"p0": chosen}, "other": {"p0": other}, "nowhere": {}}[case.ends]
    assert made.bound() == ends
    assert (made.assumed(), len(made.scheduler.holds.prebinds)) == ([], 0)


def test_a_failed_gang_withdraws_what_it_wrote_and_keeps_what_is_bound() -> None:
    """One claim is bound already. The volume of the other is free again at once."""
    made = gang_of_disks(spare=1)
    made.write()
    volumes = {owner: name for name, owner in made.reserved().items()}
    made.bind_claim(made.state.claims[NS, "c0"], made.state.volumes[volumes["c0"]])
    made.run()
    made.state.remove(made.state.nodes[volumes["c1"].replace("v", "n")])
    made.run()
    assert made.reserved() == {volumes["c0"]: "c0"}
    assert made.bound() == {}
    made.write()
    made.control()
    bound = made.bound()
    assert bound["gang-0"] == volumes["c0"].replace("v", "n")
    assert len(set(bound.values())) == 2


def test_a_gang_that_loses_a_member_is_placed_again_without_it() -> None:
    made = gang_of_disks()
    made.write()
    made.state.remove(made.state.pods[NS, "gang-1"])
    made.run()
    assert (made.reserved(), made.bound(), made.assumed()) == ({}, {}, [])
    made.run(member(1, uid="again"))
    made.write()
    made.control()
    assert sorted(made.bound()) == ["gang-0", "gang-1"]


def test_a_withdrawal_is_seen_before_the_next_attempt() -> None:
    """The state shows the selected node still, so the next attempt would be for this node again."""
    made = provisioned()
    made.write()
    first = made.claim("c0")[1]
    made.hold_releases = True
    made.later(TIMEOUT)
    assert (made.claim("c0")[1], made.claim_writes[-1].writes) == (first, made.claim_writes[-1].writes)
    made.later(60)
    assert len(made.claim_writes) == 1, "no other attempt begins"
    made.write()
    made.later(20)
    assert len(made.claim_writes) == 1, "the next attempt"


def test_a_bind_that_fails_after_the_claims_are_bound_is_made_again() -> None:
    made = provisioned()
    made.write()
    chosen = made.claim("c0")[1]
    made.failing = "the server is busy"
    made.control()
    assert made.bound() == {}
    made.failing = ""
    made.later(20)
    assert made.bound() == {"p0": chosen}


def test_a_failed_bind_of_a_member_is_made_again_on_the_node_of_its_volume() -> None:
    """The other member is bound already. A pod that comes meanwhile does not get the node."""
    made = gang_of_disks()
    made.write()
    made.hold_binds = True
    made.control()
    (bind,) = made.held
    assert isinstance(bind, Bind)
    (first, chosen), (second, other) = bind.pods
    made.held = [bind._replace(pods=((first, chosen),))]
    made.release()
    assert made.bound() == {first.name: chosen}
    made.failing = "the server is busy"
    made.scheduler.holds.bind_failed(bind.key, second, other, settled=False)
    made.run(pod("late"))
    assert made.bound() == {first.name: chosen}
    made.failing = ""
    made.later(20)
    assert made.bound() == {first.name: chosen, second.name: other}


def test_a_gang_that_shares_a_claim_goes_where_its_volume_turns_out_to_be() -> None:
    """The volume could have been anywhere, and is in one zone. The gang fits there too."""
    made = world(
        [node(f"{zone}{at}", 1, labels={ZONE: zone}) for zone in "ab" for at in range(2)],
        of_network("c0", accessModes=["ReadWriteMany"]),
        group("gang", 0, 2),
        [pod(f"gang-{at}", group="gang", **mounts("c0")) for at in range(2)],
    )
    (effect,) = made.claim_writes
    assert len(effect.writes) == 1
    made.reach = lambda node: [{ZONE: ["b" if node.startswith("a") else "a"]}]
    made.write()
    first = made.claim("c0")[1]
    made.control()
    made.later(20)
    assert {node[0] for node in made.bound().values()} == {"b" if first.startswith("a") else "a"}
    assert len(made.bound()) == 2


def test_a_claim_stays_written_while_another_pod_waits_for_it() -> None:
    """Two pods share a claim on one node. One of them goes."""
    made = world(node("n0"), of_network("c0"), pod("p0", **mounts("c0")), pod("p1", **mounts("c0")))
    made.write()
    assert made.claim("c0") == ("", "n0")
    made.state.remove(made.state.pods[NS, "p0"])
    made.run()
    assert made.claim("c0") == ("", "n0")
    made.control()
    assert made.bound() == {"p1": "n0"}
    assert (made.assumed(), len(made.scheduler.holds.prebinds)) == ([], 0)


# --- others ---------------------------------------------------------------------------------------------


def test_a_pod_of_higher_priority_takes_the_room_of_one_that_waits() -> None:
    made = provisioned(nodes=1)
    made.write()
    made.run(pod("high", priority=10))
    assert made.bound() == {"high": "n0"}
    assert (made.claim("c0"), made.assumed()) == (("", ""), [])
    assert made.reported("p0", "binding claims failed: a node was taken by pods of higher priority")


@pytest.mark.parametrize("priority", [0, -1])
def test_other_pods_do_not_take_the_room_of_one_that_waits(priority: int) -> None:
    made = provisioned(nodes=1)
    made.write()
    made.run(pod("late", priority=priority))
    assert made.bound() == {}
    made.control()
    assert made.bound() == {"p0": "n0"}


def test_a_gang_of_higher_priority_preempts_beside_the_room_of_one_that_waits() -> None:
    made = world(
        [node(f"n{at}", 1) for at in range(2)],
        pod("low", node="n1"),
        of_network("c0"),
        pod("p0", **mounts("c0")),
    )
    made.write()
    made.run(group("gang", 10, 2), [pod(f"gang-{at}", priority=10, group="gang") for at in range(2)])
    made.later(20)
    assert (sorted(made.bound()), made.evicted()) == (["gang-0", "gang-1"], ["low"])
    assert made.claim("c0") == ("", "")


def test_an_error_about_one_decision_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at again after a minute, also without a change."""
    made = provisioned(pods=2)
    made.write()
    check, broken = PreBinds._lost, True

    def lost(self: PreBinds, ref: PodRef, node: str) -> str:
        assert ref.name != "p0" or not broken, "a bug"
        return check(self, ref, node)

    monkeypatch.setattr(PreBinds, "_lost", lost)
    with pytest.raises(AssertionError, match="a bug"):
        made.control()
    made.scheduler.on_error(made.moment)
    made.run()
    assert list(made.bound()) == ["p1"]
    broken = False
    made.later(60)
    assert sorted(made.bound()) == ["p0", "p1"]


# --- takeovers ------------------------------------------------------------------------------------------


def _after_one_claim_is_bound(made: StorageWorld) -> None:
    made.write()
    name, owner = min(made.reserved().items())
    made.bind_claim(made.state.claims[NS, owner], made.state.volumes[name])
    made.run()


def _after_all_claims_are_bound(made: StorageWorld) -> None:
    made.hold_binds = True
    made.write()
    made.control()


def _while_writes_are_withdrawn(made: StorageWorld) -> None:
    made.write()
    made.hold_releases = True
    made.later(TIMEOUT)


def _after_one_pod_is_bound(made: StorageWorld) -> None:
    made.hold_binds = True
    made.write()
    made.control()
    ((first, chosen), *_) = made.held[0].pods  # type: ignore[union-attr]  # a bind is held
    bound = made.state.pods[first.key]
    made.apply(msgspec.structs.replace(bound, spec=msgspec.structs.replace(bound.spec, nodeName=chosen)))


STEPS: dict[str, Callable[[StorageWorld], None]] = {
    "before the writes": lambda _: None,
    "after one write": lambda made: made.write(1),
    "after all writes": lambda made: made.write(),
    "after one claim is bound": _after_one_claim_is_bound,
    "after all claims are bound": _after_all_claims_are_bound,
    "while writes are withdrawn": _while_writes_are_withdrawn,
    "after one pod is bound": _after_one_pod_is_bound,
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_new_leader_goes_on_from_any_step(step: Callable[[StorageWorld], None]) -> None:
    made = gang_of_disks(3)
    step(made)
    made.hold_binds = made.hold_writes = made.hold_releases = False
    made.restart()
    made.run()
    made.control()
    made.later(60)
    made.control()
    assert sorted(made.bound()) == ["gang-0", "gang-1", "gang-2"]
    assert_sound(made)
    assert (made.assumed(), len(made.scheduler.holds.prebinds)) == ([], 0)


@pytest.mark.parametrize("provisions", [True, False], ids=["provisioned", "given up"])
def test_a_new_leader_follows_a_selected_node(provisions: bool) -> None:
    made = provisioned(nodes=3)
    made.write()
    chosen = made.claim("c0")[1]
    made.restart()
    made.run()
    made.write()
    assert made.claim("c0")[1] == chosen
    if not provisions:
        made.give_up("c0")
        made.later(20)
        made.write()
        assert made.claim("c0")[1] not in ("", chosen)
        chosen = made.claim("c0")[1]
    made.control()
    assert made.bound() == {"p0": chosen}


def test_a_write_that_hangs_ends_with_its_decision_although_the_claims_are_bound() -> None:
    made = provisioned(nodes=3)
    made.write()
    made.restart()
    made.hold_writes = True
    made.run()
    made.control()
    made.later(TIMEOUT)
    assert (made.bound(), made.scheduler.due(made.seconds)) == ({}, None)
    made.write()
    made.later(60)
    assert list(made.bound()) == ["p0"]
    assert made.reported("p0", "binding claims failed: a write did not end within 600 s")


# --- any order ------------------------------------------------------------------------------------------


def assert_sound(made: StorageWorld) -> None:
    """Check that no volume has two claims, and every bound pod has its volumes, where it can reach them."""
    specs = [claim.spec for claim in made.state.claims.values() if claim.spec is not None]
    owners = [spec.volumeName for spec in specs if spec.volumeName]
    assert len(owners) == len(set(owners))
    assert made.overcommitted() == []
    for name, where in made.bound().items():
        for mount in made.state.pods[NS, name].spec.volumes or ():  # type: ignore[attr-defined]
            bound = made.state.claims[NS, mount.persistentVolumeClaim.claimName]
            assert bound.bound
            assert bound.spec is not None
            reached = msgspec.to_builtins(made.state.volumes[bound.spec.volumeName or ""])
            (term,) = reached["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert where in term["matchExpressions"][0]["values"]


ACTIONS = st.sampled_from(
    [
        *("write", "write one", "refuse", "control", "bind", "give up"),
        *("later", "long", "restart", "node", "pod", "high"),
    ]
)


@given(st.lists(ACTIONS, max_size=14), st.booleans())
@example(["write", "restart", "write", "control", "long"], False)
@settings(max_examples=60)
def test_faults_in_any_order_end_well(actions: list[str], disks: bool) -> None:
    """Faults in any order: afterwards all is bound once, and nothing is assumed or reserved."""
    made = (
        gang_of_disks(2, spare=1)
        if disks
        else world(
            [node(f"n{at}", 1) for at in range(3)],
            [of_network(f"c{at}") for at in range(2)],
            group("gang", 0, 2),
            [member(at) for at in range(2)],
        )
    )
    taken = 0
    for action in actions:
        match action:
            case "write":
                made.write()
            case "write one":
                made.write(1, why="the second is refused")
            case "refuse":
                made.write(0, why="refused")
            case "control":
                made.control()
            case "bind":
                made.control(provision=False)
            case "give up":
                for at in range(2):
                    if made.claim(f"c{at}")[1] and not made.claim(f"c{at}")[0]:
                        made.give_up(f"c{at}")
            case "later":
                made.later(5)
            case "long":
                made.later(TIMEOUT)
            case "restart":
                made.restart()
            case "node":
                gone = made.state.nodes.get("n2")
                if gone is not None and "n2" not in made.bound().values():
                    made.state.remove(gone)
                else:
                    made.apply(node("n2", 1))
                made.run()
            case "pod":
                if "gang-1" not in made.bound():
                    made.state.remove(made.state.pods[NS, "gang-1"])
                    taken += 1
                    made.run(member(1, uid=f"again-{taken}"))
            case "high" if not made.bound():
                made.run(pod("high", priority=10))
                made.later(1)
                if (NS, "high") in made.state.pods:
                    made.state.remove(made.state.pods[NS, "high"])
                made.run()
            case _:
                pass
        assert_sound(made)
    made.apply(node("n2", 1))
    made.hold_writes = False
    for _ in range(4):
        made.write()
        made.later(30)
        made.control()
    made.later(TIMEOUT)
    made.control()
    made.later(30)
    made.control()
    assert sorted(made.bound()) == ["gang-0", "gang-1"]
    assert_sound(made)
    assert (made.assumed(), len(made.scheduler.holds.prebinds)) == ([], 0)
    owned = {claim.spec.volumeName for claim in made.state.claims.values() if claim.spec is not None}
    assert made.reserved().keys() <= owned
