"""Gangs on real servers: at least minCount pods or none, and late members join."""

from typing import Any

import pytest
from tests.support.proxy import Refuse, Where
from tests.support.scheduling.world import Sandbox, pod_of

from podium.planner.preemption.grouptarget import PREEMPT_FOR_ALL

pytestmark = pytest.mark.server


def test_a_gang_that_fits_is_bound_and_no_other_pod_changes(sandbox: Sandbox) -> None:
    sandbox.nodes(3)
    sandbox.pod("low", 4, 1, node="n0")
    assert set(sandbox.until_bound(sandbox.gang("gang", 2)).values()) == {"n1", "n2"}
    assert sandbox.touched() == []


def test_a_gang_takes_free_room_and_freed_room_at_once(sandbox: Sandbox) -> None:
    """No bind is sent before the last of the room is free, although some room always was."""
    sandbox.nodes(3)
    sandbox.pod("low-1", 4, 1, node="n1")
    sandbox.pod("low-2", 4, 1, node="n2")
    assert sorted(sandbox.until_bound(sandbox.gang("gang", 3)).values()) == ["n0", "n1", "n2"]
    assert sorted(sandbox.evicted()) == ["low-1", "low-2"]
    seen = [
        each
        for each in sandbox.world.ledger.pods.seen
        if each.object["metadata"]["namespace"] == sandbox.name
    ]
    gone = [each.version for each in seen if each.type == "DELETED"]
    bound = [
        each.version
        for each in seen
        if each.object["metadata"]["name"].startswith("gang") and each.object["spec"].get("nodeName")
    ]
    assert len(gone) == 2
    assert max(gone) < min(bound)


def test_a_gang_that_never_fits_evicts_no_pod(sandbox: Sandbox) -> None:
    """Two of its three pods would fit after preemption, which is not enough for the gang."""
    sandbox.nodes(2)
    sandbox.running_gang("low", ["n0", "n1"], 4, 1, whole=False)
    names = sandbox.gang("gang", 3)
    message = sandbox.until_message(names[0], "0/2 nodes are available")
    assert message.startswith("Unschedulable: ")
    sandbox.wait_for_decisions()
    assert sandbox.touched() == []
    assert {sandbox.where(sandbox.pods()[name]) for name in names} == {""}


def test_a_gang_is_not_looked_at_before_enough_of_it_is_there(sandbox: Sandbox) -> None:
    sandbox.nodes(3)
    sandbox.group("gang", 5, 3)
    names = sandbox.members("gang", 2, 4, 5)
    sandbox.wait_for_decisions()
    assert [sandbox.where(sandbox.pods()[name]) for name in names] == ["", ""]
    names += sandbox.members("gang", 1, 4, 5, first=2)
    assert sorted(sandbox.until_bound(names).values()) == ["n0", "n1", "n2"]


def test_pods_are_made_before_their_group(sandbox: Sandbox) -> None:
    sandbox.nodes(2)
    names = sandbox.members("gang", 2, 4, 5)
    sandbox.wait_for_decisions()
    assert [sandbox.where(sandbox.pods()[name]) for name in names] == ["", ""]
    sandbox.group("gang", 5, 2)
    sandbox.until_bound(names)


def test_pods_that_join_late(sandbox: Sandbox) -> None:
    """The first late member uses free room; the next evicts no pod until minCount is all members."""
    sandbox.nodes(3)
    names = sandbox.gang("gang", 1, least=1)
    sandbox.until_bound(names)
    sandbox.until_bound(sandbox.members("gang", 1, 4, 5, first=1))
    assert sandbox.touched() == []
    free = {"n0", "n1", "n2"} - {sandbox.where(pod) for pod in sandbox.pods().values()}
    sandbox.pod("low", 4, 1, node=free.pop())
    (late,) = sandbox.members("gang", 1, 4, 5, first=2)
    sandbox.until_message(late, "no pod is evicted for one more member")
    assert sandbox.touched() == []
    sandbox.ask(
        "PATCH", sandbox.groups_path("gang"), {"metadata": {"annotations": {PREEMPT_FOR_ALL: "true"}}}
    )
    sandbox.until_bound([late])
    assert sandbox.evicted() == ["low"]


def test_more_members_than_minCount_are_bound_as_far_as_they_fit(sandbox: Sandbox) -> None:  # noqa: N802 - a field
    """The gang's minimum is bound first; the third waits with a message, and is bound when there is room."""
    sandbox.nodes(2)
    names = sandbox.gang("gang", 3, least=2)
    sandbox.until(
        lambda: sum(bool(sandbox.where(pod)) for pod in sandbox.pods().values()) == 2, "two are bound"
    )
    (left,) = [name for name in names if not sandbox.where(sandbox.pods()[name])]
    sandbox.until_message(left, "nodes are available")
    sandbox.node("n2")
    assert sandbox.until_bound([left]) == {left: "n2"}


def test_a_higher_gang_is_placed_before_a_lower_one(sandbox: Sandbox) -> None:
    """Both wait for a new node; the one of higher priority gets it."""
    lower, higher = sandbox.gang("lower", 1, priority=3), sandbox.gang("higher", 1, priority=7)
    for name in (*lower, *higher):
        sandbox.until_message(name, "nodes available to schedule pods")
    sandbox.node("n0")
    sandbox.until_bound(higher)
    assert sandbox.touched() == []
    assert not sandbox.where(sandbox.pods()[lower[0]])


WAITING: dict[str, tuple[dict[str, Any], str]] = {
    "a scheduling gate": ({"schedulingGates": [{"name": "example.com/wait"}]}, ""),
    "devices by claim": (
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        "Unschedulable: ",
    ),
}


@pytest.mark.parametrize("why", WAITING)
def test_gated_and_unreadable_pods_stay_pending(why: str, sandbox: Sandbox) -> None:
    """A gated pod is not scheduled; a pod with an unsupported field has a message, and is never bound."""
    fields, reason = WAITING[why]
    sandbox.nodes(1)
    sandbox.pod("waits", 1, 5, **fields)
    if reason:
        sandbox.until_message("waits", reason)
    sandbox.wait_for_decisions()
    assert sandbox.where(sandbox.pods()["waits"]) == ""
    assert sandbox.calls("POST", "/waits/binding") == []


def test_a_gate_that_is_lifted(sandbox: Sandbox) -> None:
    sandbox.nodes(1)
    sandbox.pod("waits", 1, 5, schedulingGates=[{"name": "example.com/wait"}])
    sandbox.patch("waits", {"spec": {"schedulingGates": []}})
    assert sandbox.until_bound(["waits"]) == {"waits": "n0"}


def test_a_divergent_group_takes_free_room_and_evicts_no_pod(sandbox: Sandbox) -> None:
    """The reason is the condition PodsNotMatchingPriority: a high class on the group has no effect."""
    sandbox.nodes(2)
    sandbox.group("gang", 9, 2)
    sandbox.pod("low", 4, 5, node="n0")
    for index in range(2):
        sandbox.pod(f"gang-{index}", 4, 1, group="gang")
    sandbox.until_message("gang-0", ":")
    sandbox.wait_for_decisions()
    assert sandbox.touched() == []
    sandbox.end("low")
    sandbox.until_bound(["gang-0", "gang-1"])


def test_every_bind_is_held_to_the_pod_that_was_judged(sandbox: Sandbox) -> None:
    """The bind has its UID: a later pod of the same name is not bound by it."""
    sandbox.nodes(1)
    sandbox.pod("one", 1, 5)
    sandbox.until_bound(["one"])
    sandbox.until(lambda: sandbox.calls("POST", "/binding"), "the answer to the bind was handed back")
    (call,) = sandbox.calls("POST", "/binding")
    assert pod_of(call) == "one"
    assert sandbox.pods()["one"]["metadata"]["uid"].encode() in call.body


def test_a_member_with_a_failed_bind_keeps_its_place(sandbox: Sandbox) -> None:
    """The other pod stays bound, and no pod of its priority uses the room until the bind's result arrives."""
    sandbox.nodes(2)
    where = Where(rf"/namespaces/{sandbox.name}/pods/gang-1/binding$")
    with sandbox.world.proxy.fault(where, Refuse(500, "InternalError")) as refused:
        names = sandbox.gang("gang", 2)
        sandbox.until_bound(["gang-0"])
        sandbox.until(lambda: refused.hits > 0, "the bind fails")
        sandbox.pod("other", 4, 5)
        sandbox.until_message("other", "nodes are available")
        sandbox.wait_for_decisions()
    sandbox.until_bound(names)
    assert sandbox.touched() == []


def reject(sandbox: Sandbox, name: str, reason: str) -> None:
    """Let a pod's node reject it for lack of room, as a kubelet does."""
    message = "Pod was rejected: Node didn't have enough resource: cpu"
    sandbox.patch(name, {"status": {"phase": "Failed", "reason": reason, "message": message}}, "/status")


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfnvidia.com/gpu"])
def test_a_gang_is_planned_anew_when_a_member_is_rejected(reason: str, sandbox: Sandbox) -> None:
    """Its room counts as free again; the pod that its owner creates instead joins the running ones."""
    sandbox.nodes(2)
    names = sandbox.gang("gang", 2)
    nodes = sandbox.until_bound(names)
    reject(sandbox, names[1], reason)
    sandbox.node("n2")
    sandbox.end(names[1])
    sandbox.members("gang", 1, 4, 5, first=2)
    assert sandbox.until_bound(["gang-2"])["gang-2"] != nodes[names[0]]
    assert sandbox.touched() == []
