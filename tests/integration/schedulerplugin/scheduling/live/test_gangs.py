"""Gangs on real servers: at least minCount pods or none, and late members join."""

from typing import Any

import pytest
from tests.support.proxy import Refuse, Where
from tests.support.scheduling.world import Yard, pod_of

from podium.schedulerplugin.preemption.target import PREEMPT_FOR_ALL

pytestmark = pytest.mark.server


def test_a_gang_that_fits_is_bound_and_no_other_pod_changes(yard: Yard) -> None:
    yard.nodes(3)
    yard.pod("low", 4, 1, node="n0")
    assert set(yard.until_bound(yard.gang("gang", 2)).values()) == {"n1", "n2"}
    assert yard.touched() == []


def test_a_gang_takes_free_room_and_freed_room_at_once(yard: Yard) -> None:
    """No bind is sent before the last of the room is free, although some room always was."""
    yard.nodes(3)
    yard.pod("low-1", 4, 1, node="n1")
    yard.pod("low-2", 4, 1, node="n2")
    assert sorted(yard.until_bound(yard.gang("gang", 3)).values()) == ["n0", "n1", "n2"]
    assert sorted(yard.evicted()) == ["low-1", "low-2"]
    seen = [each for each in yard.world.ledger.pods.seen if each.object["metadata"]["namespace"] == yard.name]
    gone = [each.version for each in seen if each.type == "DELETED"]
    bound = [
        each.version
        for each in seen
        if each.object["metadata"]["name"].startswith("gang") and each.object["spec"].get("nodeName")
    ]
    assert len(gone) == 2
    assert max(gone) < min(bound)


def test_a_gang_that_never_fits_evicts_no_pod(yard: Yard) -> None:
    """Two of its three pods would fit after preemption, which is not enough for the gang."""
    yard.nodes(2)
    yard.running_gang("low", ["n0", "n1"], 4, 1, whole=False)
    names = yard.gang("gang", 3)
    message = yard.until_message(names[0], "0/2 nodes are available")
    assert message.startswith("Unschedulable: ")
    yard.witness()
    assert yard.touched() == []
    assert {yard.where(yard.pods()[name]) for name in names} == {""}


def test_a_gang_is_not_looked_at_before_enough_of_it_is_there(yard: Yard) -> None:
    yard.nodes(3)
    yard.group("gang", 5, 3)
    names = yard.members("gang", 2, 4, 5)
    yard.witness()
    assert [yard.where(yard.pods()[name]) for name in names] == ["", ""]
    names += yard.members("gang", 1, 4, 5, first=2)
    assert sorted(yard.until_bound(names).values()) == ["n0", "n1", "n2"]


def test_pods_are_made_before_their_group(yard: Yard) -> None:
    yard.nodes(2)
    names = yard.members("gang", 2, 4, 5)
    yard.witness()
    assert [yard.where(yard.pods()[name]) for name in names] == ["", ""]
    yard.group("gang", 5, 2)
    yard.until_bound(names)


def test_pods_that_join_late(yard: Yard) -> None:
    """The first late member uses free room; the next evicts no pod until minCount is all members."""
    yard.nodes(3)
    names = yard.gang("gang", 1, least=1)
    yard.until_bound(names)
    yard.until_bound(yard.members("gang", 1, 4, 5, first=1))
    assert yard.touched() == []
    free = {"n0", "n1", "n2"} - {yard.where(pod) for pod in yard.pods().values()}
    yard.pod("low", 4, 1, node=free.pop())
    (late,) = yard.members("gang", 1, 4, 5, first=2)
    yard.until_message(late, "no pod goes for one more member")
    assert yard.touched() == []
    yard.ask("PATCH", yard.groups_path("gang"), {"metadata": {"annotations": {PREEMPT_FOR_ALL: "true"}}})
    yard.until_bound([late])
    assert yard.evicted() == ["low"]


def test_more_members_than_minCount_are_bound_as_far_as_they_fit(yard: Yard) -> None:  # noqa: N802 - a field
    """The gang's minimum is bound first; the third waits with a message, and is bound when there is room."""
    yard.nodes(2)
    names = yard.gang("gang", 3, least=2)
    yard.until(lambda: sum(bool(yard.where(pod)) for pod in yard.pods().values()) == 2, "two are bound")
    (left,) = [name for name in names if not yard.where(yard.pods()[name])]
    yard.until_message(left, "nodes are available")
    yard.node("n2")
    assert yard.until_bound([left]) == {left: "n2"}


def test_a_higher_gang_is_placed_before_a_lower_one(yard: Yard) -> None:
    """Both wait for a new node; the one of higher priority gets it."""
    lower, higher = yard.gang("lower", 1, priority=3), yard.gang("higher", 1, priority=7)
    for name in (*lower, *higher):
        yard.until_message(name, "nodes available to schedule pods")
    yard.node("n0")
    yard.until_bound(higher)
    assert yard.touched() == []
    assert not yard.where(yard.pods()[lower[0]])


WAITING: dict[str, tuple[dict[str, Any], str]] = {
    "a scheduling gate": ({"schedulingGates": [{"name": "example.com/wait"}]}, ""),
    "devices by claim": (
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        "Unschedulable: ",
    ),
}


@pytest.mark.parametrize("why", WAITING)
def test_gated_and_unreadable_pods_stay_pending(why: str, yard: Yard) -> None:
    """A gated pod is not scheduled; a pod with an unsupported field has a message, and is never bound."""
    fields, reason = WAITING[why]
    yard.nodes(1)
    yard.pod("waits", 1, 5, **fields)
    if reason:
        yard.until_message("waits", reason)
    yard.witness()
    assert yard.where(yard.pods()["waits"]) == ""
    assert yard.calls("POST", "/waits/binding") == []


def test_a_gate_that_is_lifted(yard: Yard) -> None:
    yard.nodes(1)
    yard.pod("waits", 1, 5, schedulingGates=[{"name": "example.com/wait"}])
    yard.patch("waits", {"spec": {"schedulingGates": []}})
    assert yard.until_bound(["waits"]) == {"waits": "n0"}


def test_a_divergent_group_takes_free_room_and_evicts_no_pod(yard: Yard) -> None:
    """The reason is the condition PodsNotMatchingPriority: a high class on the group has no effect."""
    yard.nodes(2)
    yard.group("gang", 9, 2)
    yard.pod("low", 4, 5, node="n0")
    for index in range(2):
        yard.pod(f"gang-{index}", 4, 1, group="gang")
    yard.until_message("gang-0", ":")
    yard.witness()
    assert yard.touched() == []
    yard.end("low")
    yard.until_bound(["gang-0", "gang-1"])


def test_every_bind_is_held_to_the_pod_that_was_judged(yard: Yard) -> None:
    """The bind has its UID: a later pod of the same name is not bound by it."""
    yard.nodes(1)
    yard.pod("one", 1, 5)
    yard.until_bound(["one"])
    yard.until(lambda: yard.calls("POST", "/binding"), "the answer to the bind was handed back")
    (call,) = yard.calls("POST", "/binding")
    assert pod_of(call) == "one"
    assert yard.pods()["one"]["metadata"]["uid"].encode() in call.body


def test_a_member_with_a_failed_bind_keeps_its_place(yard: Yard) -> None:
    """The other pod stays bound, and no pod of its priority uses the room until the bind's result arrives."""
    yard.nodes(2)
    where = Where(rf"/namespaces/{yard.name}/pods/gang-1/binding$")
    with yard.world.proxy.fault(where, Refuse(500, "InternalError")) as refused:
        names = yard.gang("gang", 2)
        yard.until_bound(["gang-0"])
        yard.until(lambda: refused.hits > 0, "the bind fails")
        yard.pod("other", 4, 5)
        yard.until_message("other", "nodes are available")
        yard.witness()
    yard.until_bound(names)
    assert yard.touched() == []


def reject(yard: Yard, name: str, reason: str) -> None:
    """Let a pod's node reject it for lack of room, as a kubelet does."""
    message = "Pod was rejected: Node didn't have enough resource: cpu"
    yard.patch(name, {"status": {"phase": "Failed", "reason": reason, "message": message}}, "/status")


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfnvidia.com/gpu"])
def test_a_gang_is_planned_anew_when_a_member_is_rejected(reason: str, yard: Yard) -> None:
    """Its room counts as free again; the pod that its owner creates instead joins the running ones."""
    yard.nodes(2)
    names = yard.gang("gang", 2)
    nodes = yard.until_bound(names)
    reject(yard, names[1], reason)
    yard.node("n2")
    yard.end(names[1])
    yard.members("gang", 1, 4, 5, first=2)
    assert yard.until_bound(["gang-2"])["gang-2"] != nodes[names[0]]
    assert yard.touched() == []
